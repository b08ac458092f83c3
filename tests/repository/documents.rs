//! What the documents say of the repository: numbers, paths, tests and scenarios.

use std::collections::BTreeSet;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The documents, by their paths. CHANGELOG says what was.
fn documents() -> Vec<String> {
    let mut all: Vec<String> = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        ".ci/README.md",
        "tests/vm/README.md",
        "tests/events/README.md",
    ]
    .map(str::to_owned)
    .to_vec();
    let mut add = |folder: &str, file: &str| {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = format!("{folder}/{name}{file}");
            if path.ends_with(".md") && root().join(&path).is_file() {
                all.push(path);
            }
        }
    };
    add("docs", "");
    add("crates", "/README.md");
    assert!(all.len() > 15, "{all:?}");
    all
}

/// Returns what stands between backticks in the text, but for blocks.
fn quoted(text: &str) -> Vec<String> {
    let mut outside = String::new();
    for (number, part) in text.split("```").enumerate() {
        outside += if number % 2 == 0 { part } else { "\n" };
    }
    // A quotation may go over the end of a line.
    outside
        .split('`')
        .skip(1)
        .step_by(2)
        .map(|word| word.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// All Rust files of a folder and below it, but for those of other packages.
fn sources(folder: PathBuf) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder]);
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() && !path.join("Cargo.toml").exists() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                found.push(path);
            }
        }
    }
    found
}

/// The folders of the package, or of all packages that `cargo test` tests.
fn packages(package: Option<&str>) -> Vec<PathBuf> {
    let folder = |name: &str| root().join("crates").join(name);
    match package {
        None => {
            let mut names = files("crates");
            assert!(names.remove("criterion"), "it is no default member");
            iter::once(root().to_owned()).chain(names.iter().map(|name| folder(name))).collect()
        }
        Some("rdpmc") => vec![root().to_owned()],
        Some("rdpmc-tracing-tests") => vec![root().join("tests/tracing")],
        Some(name) => {
            let folder = folder(name.strip_prefix("rdpmc-").unwrap_or(name));
            assert!(folder.is_dir(), "there is no package {name}");
            vec![folder]
        }
    }
}

/// The names of all functions with the attribute `#[test]`, of those in files without a test harness, and of modules.
fn tests(packages: &[PathBuf]) -> BTreeSet<String> {
    let folders = packages.iter().flat_map(|package| [package.join("src"), package.join("tests")]);
    let mut names = BTreeSet::new();
    for path in folders.filter(|folder| folder.is_dir()).flat_map(sources) {
        // Modules, by their files and folders.
        for part in [path.file_stem(), path.parent().and_then(Path::file_name)] {
            names.insert(part.unwrap().to_str().unwrap().to_owned());
        }
        let text = fs::read_to_string(&path).unwrap();
        let has_harness = !path.ends_with("baselines.rs") && !path.ends_with("stepped_forks.rs");
        for part in text.split(if has_harness { "#[test]" } else { "\n" }).skip(1) {
            let name = part.split("fn ").nth(1).and_then(|rest| rest.split('(').next());
            names.extend(name.map(str::to_owned));
        }
    }
    names
}

#[test]
fn the_numbers_are_right() {
    let machines = fs::read_dir(root().join("tests/vm/targets")).unwrap().count();
    let proofs = text("docs/proofs.md");
    assert!(proofs.contains(&format!("There are {machines} machines")), "{machines} machines");
    let prepared = text("tests/vm/prepare");
    for (package, words) in [
        ("-5.10.0-", "5.10,"),
        ("-6.1.0-", "6.1,"),
        ("-6.12.*-", "6.12,"),
        ("-7.1.*-", "7.1 "),
        ("-7.*-", "the newest 7"),
    ] {
        assert!(prepared.contains(package) && proofs.contains(words), "Linux {words}");
    }
    // `crates/events` counts its names in a test of its own.
    let counted = text("crates/events/tests/it/names.rs");
    let counted =
        counted.split("assert_eq!((names, tables), (").nth(1).unwrap().split(')').next().unwrap();
    let (names, tables) = counted.split_once(", ").unwrap();
    let names = names.replace('_', ",");
    assert!(proofs.contains(&format!("Each of {names} names")), "{names} names");
    let readme = text("crates/events/README.md");
    assert!(readme.contains(&format!("{names} names in {tables} tables")), "{names}, {tables}");
}

/// Returns the names in the first column of the tables of a document.
fn rows(document: &str) -> BTreeSet<String> {
    let name = |line: &str| Some(line.strip_prefix("| `")?.split('`').next()?.to_owned());
    text(document).lines().filter_map(name).collect()
}

/// Returns the names of the files in a folder.
fn files(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The tables have all machines and all parts of CI. `.ci/run` and `.ci/whole` know no others.
#[test]
fn the_tables_are_complete() {
    let machines = files("tests/vm/targets");
    assert_eq!(rows("tests/vm/README.md"), machines);
    let parts = files(".ci/parts");
    assert_eq!(rows(".ci/README.md"), &parts | &machines);
    for line in text(".ci/README.md").lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').collect();
        let name = cells[1].trim().trim_matches('`');
        let (lanes, tiers) = ([" native ", " machines "], [" each change ", " whole "]);
        if machines.contains(name) {
            continue;
        }
        assert!(lanes.contains(&cells[2]) && tiers.contains(&cells[3]), "{line}");
        for path in quoted(cells[4]) {
            let exists = root().join(path.replace("/*/", "/bench/")).exists();
            assert!(exists, "{name}: there is no {path}");
        }
    }
}

#[test]
fn every_crate_is_in_the_architecture() {
    let architecture = text("ARCHITECTURE.md");
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(architecture.contains(&format!("| `crates/{name}` |")), "crates/{name}");
    }
}

/// A path with a folder of the repository in front is that of a file or a folder.
#[test]
fn every_path_exists() {
    let tops = ["src/", "asm/", "crates/", "tests/", "docs/", "benches/", "examples/", ".ci/"];
    let mut found = 0;
    for document in documents() {
        for word in quoted(&text(&document)) {
            let path = word.split([' ', ',', ':']).next().unwrap().trim_end_matches('/');
            // In the README of a crate, the others are those of the user's package.
            let tops = if document.starts_with("crates/") { &tops[2..5] } else { &tops[..] };
            // With a pattern or a choice.
            if !tops.iter().any(|top| path.starts_with(top))
                || path.contains(['*', '{', '['])
                || ["NAME", "VENDOR"].iter().any(|word| path.contains(word))
            {
                continue;
            }
            // Some are relative to a crate's folder.
            let of_crate = Path::new(&document).parent().unwrap();
            let exists = [root().join(path), root().join(of_crate).join(path)]
                .iter()
                .any(|path| path.exists());
            assert!(exists, "{document}: there is no {path}");
            found += 1;
        }
    }
    assert!(found > 150, "only {found} found");
}

/// The commands in `docs/proofs.md` and elsewhere select tests and scenarios that exist.
#[test]
fn every_command_selects_a_test() {
    let scenarios: String = sources(root().join("tests/vm/guest/src"))
        .into_iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let (mut selected, mut booted) = (0, 0);
    for document in documents() {
        for command in quoted(&text(&document)) {
            let words: Vec<&str> =
                command.split(' ').filter(|word| !word.starts_with("RDPMC_")).collect();
            if words.first() == Some(&"tests/vm/run") {
                let scenario = words
                    .iter()
                    .position(|word| *word == "only")
                    .and_then(|only| words.get(only + 1));
                if let Some(scenario) = scenario.filter(|name| name.len() > 4) {
                    assert!(
                        scenarios.contains(&format!("(\"{scenario}\", ")),
                        "{document}: no scenario {scenario}"
                    );
                    booted += 1;
                }
            }
            let ["cargo", "test", rest @ ..] = words.as_slice() else { continue };
            let named = rest.iter().position(|word| *word == "-p").map(|option| rest[option + 1]);
            let packages = packages(named);
            let tests = tests(&packages);
            let mut rest = rest.iter().copied();
            while let Some(word) = rest.next() {
                match word {
                    "-p" | "--features" | "--manifest-path" => drop(rest.next()),
                    "--test" => {
                        let binary = rest.next().unwrap();
                        let is_there = |package: &PathBuf| {
                            let folder = package.join("tests");
                            folder.join(binary).join("main.rs").exists()
                                || folder.join(format!("{binary}.rs")).exists()
                        };
                        assert!(packages.iter().any(is_there), "{document}: no binary {binary}");
                    }
                    word if word.starts_with('-') => {}
                    // The name of a binary, or a part of the names of tests.
                    word if word.contains(['.', '<']) || word.chars().any(char::is_uppercase) => {}
                    word => {
                        assert!(
                            tests.iter().any(|test| test.contains(word)),
                            "{document}: no test {word}"
                        );
                        selected += 1;
                    }
                }
            }
        }
    }
    assert!(selected > 20 && booted > 15, "only {selected} tests and {booted} scenarios found");
}
