//! The library's house rules: data flows one way, and skips name their test.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `.ci/run` knows a test that was left out by the name of its function.
#[test]
fn skips_name_their_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut names = 0;
    let folders = [
        "tests",
        "src/tests",
        "crates/bench/tests",
        "crates/criterion/tests",
        "crates/spans/tests",
    ];
    for folder in folders.map(|folder| root.join(folder)) {
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

/// The folders by floor, from the ground up. A folder uses folders on lower floors only.
const FLOORS: [&[&str]; 8] = [
    &["kernel"],
    &["asm", "event"],
    &["error", "pmu"],
    &["names", "page"],
    &["open", "region"],
    &["counter"],
    &["clock", "trust"],
    &["doctor"],
];

fn home_of(root: &Path, folder: &str) -> PathBuf {
    if folder == "asm" { root.join(folder) } else { root.join("src").join(folder) }
}

/// Compiles each folder with those below it and nothing else. So methods, implementations of traits and macros of
/// another folder cannot be used unnoticed. This target's code is compiled; tests and links of the documentation may
/// name any folder.
#[test]
fn a_folder_needs_only_those_on_lower_floors() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders: Vec<String> = fs::read_dir(root.join("src"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir() && entry.file_name() != "tests")
        .map(|entry| entry.file_name().into_string().unwrap())
        .chain(["asm".to_owned()])
        .collect();
    folders.sort();
    let mut listed: Vec<&str> = FLOORS.iter().flat_map(|floor| floor.iter().copied()).collect();
    listed.sort_unstable();
    assert_eq!(folders, listed, "every folder has its floor");

    // Nor is a file of one folder compiled as part of another.
    let mut sources: Vec<PathBuf> = listed.iter().map(|folder| home_of(root, folder)).collect();
    while let Some(path) = sources.pop() {
        if path.is_dir() {
            sources.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            assert!(!text.contains("path = \"../"), "{}", path.display());
        }
    }

    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("floors");
    fs::create_dir_all(&package).unwrap();
    let mut manifest = String::from(
        "[workspace]\n[package]\nname = \"floors\"\nedition = \"2024\"\n[lib]\npath = \"empty.rs\"\n\
         [target.'cfg(target_os = \"linux\")'.dependencies]\nlibc = \"0.2.180\"\n",
    );
    fs::write(package.join("empty.rs"), "").unwrap();
    let mut add = |name: &str, folders: &[&str]| {
        let mut text = String::from("#![allow(warnings)]\n");
        for folder in folders {
            let path = home_of(root, folder).join("mod.rs");
            text += &format!("#[path = {path:?}]\npub mod {folder};\n");
        }
        fs::write(package.join(name).with_extension("rs"), text).unwrap();
        manifest += &format!(
            "[[example]]\nname = \"{name}\"\npath = \"{name}.rs\"\ncrate-type = [\"lib\"]\n"
        );
    };
    let mut below: Vec<&str> = Vec::new();
    for floor in FLOORS {
        for folder in floor {
            add(folder, &[below.as_slice(), &[folder]].concat());
        }
        below.extend(floor);
    }
    // The control: opening needs names.
    let without_names: Vec<&str> =
        below[..7].iter().copied().filter(|folder| *folder != "names").chain(["open"]).collect();
    add("control", &without_names);
    fs::write(package.join("Cargo.toml"), manifest).unwrap();

    let check = |examples: &[&str]| {
        let output = Command::new(env!("CARGO"))
            .args(["check", "--quiet", "--offline", "--keep-going", "--manifest-path"])
            .arg(package.join("Cargo.toml"))
            .args(examples.iter().flat_map(|example| ["--example", example]))
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (compiles, errors) = check(&below);
    assert!(compiles, "a folder uses one on its own floor or above it:\n{errors}");
    let (compiles, errors) = check(&["control"]);
    assert!(!compiles && errors.contains("names"), "{errors}");
}
