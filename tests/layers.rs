//! Data flows one way: each file of the library uses those only that CONTRIBUTING.md lists above it.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

/// A child of a fork has one thread, and waits for ever for a lock, or for a value to be made once, that
/// another thread had in hand when it forked: see CONTRIBUTING.md.
#[test]
fn nothing_waits_for_another_thread() {
    const WAITING: [&str; 12] = [
        "Mutex",
        "RwLock",
        "Condvar",
        "Barrier",
        "OnceLock",
        "LazyLock",
        "ReentrantLock",
        "call_once",
        "lazy_static",
        "mpsc",
        "park",
        "spin_loop",
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut lines = 0;
    let mut folders = vec![root.join("src"), root.join("asm")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read(&path).unwrap();
            for line in String::from_utf8_lossy(&text).lines() {
                let code = line.split("//").next().unwrap();
                let mut words = code.split(|c: char| !(c.is_alphanumeric() || c == '_'));
                let found = WAITING.iter().find(|word| code.contains(**word)).copied();
                let found = found.or(words.find(|word| *word == "Once"));
                assert_eq!(found, None, "{}: {line}", path.display());
                lines += 1;
            }
        }
    }
    assert!(lines > 5_000, "only {lines} lines found");
}

/// `.ci/run` knows a test that was left out by the name of its function.
#[test]
fn skips_name_their_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut names = 0;
    for folder in [root.clone(), root.join("inside")] {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let Some("rs") = path.extension().and_then(|end| end.to_str()) else { continue };
            let text = fs::read_to_string(&path).unwrap();
            // Itself, and functions of tests that skip by the name that they are given.
            for call in [" skip(", "::skip(", "can_open(", "cannot_count(", " open(", "with("] {
                for part in text.split(call).skip(1) {
                    let Some(rest) = part.trim_start().strip_prefix('"') else { continue };
                    let name = rest.split('"').next().unwrap();
                    let is_a_name =
                        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                    if !is_a_name || name.len() < 4 {
                        continue; // the name of a file, say
                    }
                    // That without a test harness is its file.
                    let is_test = text.contains(&format!("fn {name}("))
                        || path.file_stem().unwrap().to_str() == Some(name);
                    assert!(is_test, "{}: there is no test {name}", path.display());
                    names += 1;
                }
            }
        }
    }
    assert!(names > 40, "only {names} found");
}

#[test]
fn no_file_uses_one_of_its_own_layer_or_below() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    let block = text.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    // Two spaces end the names; what follows says what they are.
    let layers: Vec<Vec<&str>> = block
        .lines()
        .map(|line| line.split("  ").next().unwrap().split_whitespace().collect())
        .collect();
    let layer = |file: &str| layers.iter().position(|layer| layer.contains(&file));

    let mut files: Vec<(String, String)> = Vec::new();
    let mut take = |name: &str, path: &Path| {
        files.push((name.to_owned(), fs::read_to_string(path).unwrap()));
    };
    for entry in fs::read_dir(root.join("src")).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        match name {
            "lib" => {}
            "criterion" if path.is_dir() => {
                let inner = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
                inner.for_each(|path| take(name, &path));
            }
            _ => take(name, &path),
        }
    }
    for architecture in ["x86_64", "aarch64", "riscv64", "none"] {
        take("asm", &root.join("asm").join(architecture).with_extension("rs"));
    }

    let mut uses = 0;
    for (name, text) in &files {
        let own = layer(name).unwrap_or_else(|| panic!("{name} is in no line of CONTRIBUTING.md"));
        let code = text.lines().map(|line| line.split("//").next().unwrap());
        let roundabout = code.clone().any(|line| line.starts_with("use super::"));
        assert!(name == "criterion" || !roundabout, "{name}: `crate::`, to be found here");
        for part in code.flat_map(|line| line.split("crate::").skip(1)) {
            let used = part.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap();
            assert!(!used.is_empty(), "{name}: one `use crate::` for each file, to be found here");
            if used == name {
                continue;
            }
            let its =
                layer(used).unwrap_or_else(|| panic!("{name} uses {used}, which is in no line"));
            assert!(its < own, "{name} uses {used}, which is not above it in CONTRIBUTING.md");
            uses += 1;
        }
    }
    assert!(uses > 80, "only {uses} uses found");
    let listed: usize = layers.iter().map(Vec::len).sum();
    let mut names: Vec<&String> = files.iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    assert_eq!(listed, names.len(), "{names:?}, and no others");
}
