//! The library's house rules: data flows one way, all state of the process is described, and skips name their test.

use crate::skips;
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
        "tests/it",
        "tests/repository",
        "src/tests",
        "src/tests/simulated_kernel",
        "crates/bench/tests/it",
        "crates/criterion/tests",
        "crates/doctor/tests",
        "crates/doctor/tests/it",
        "crates/spans/tests/it",
        "crates/spans/tests/process",
    ];
    for folder in folders.map(|folder| root.join(folder)) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let Some("rs") = path.extension().and_then(|end| end.to_str()) else { continue };
            let text = fs::read_to_string(&path).unwrap();
            // Itself, and functions of tests that skip by the name that they are given.
            for call in [" skip(", "::skip(", "can_open(", "cannot_count(", " open(", " with("] {
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

/// State of the process is a promise to forks and signal handlers, so each piece of it is in the table of ARCHITECTURE.md,
/// and the table has no other.
#[test]
fn all_state_of_the_process_is_described() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let mut described = Vec::new();
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let names: Vec<&str> = cells[0].trim_start_matches("| ").split(", ").collect();
        let file = cells[1].trim_matches('`').to_owned();
        if file.ends_with(".rs") {
            described
                .extend(names.iter().map(|name| (name.trim_matches('`').to_owned(), file.clone())));
        }
    }
    described.sort_unstable();
    let mut found = Vec::new();
    let mut paths = vec![root.join("src"), root.join("asm")];
    while let Some(path) = paths.pop() {
        if path.is_dir() && !path.ends_with("src/tests") {
            paths.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|end| end == "rs") {
            let file = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let source = fs::read_to_string(&path).unwrap();
            let library = source.split("#[cfg(test)]\nmod ").next().unwrap();
            for line in library.split("#[cfg(test)]\n#[allow").next().unwrap().lines() {
                // Whatever its visibility.
                let Some((before, rest)) = line.split_once("static ") else { continue };
                let is_one = before.trim().is_empty() || before.trim_start().starts_with("pub");
                let name = rest.split(':').next().unwrap().trim_start_matches("mut ");
                let is_upper =
                    |byte: u8| byte.is_ascii_uppercase() || b"_0123456789".contains(&byte);
                if is_one && name.bytes().all(is_upper) {
                    found.push((name.to_owned(), file.clone()));
                }
            }
        }
    }
    found.sort_unstable();
    assert_eq!(found, described);
}

/// The files of `crates/doctor` are listed in groups, from the ground up. A file uses files of its group or of those below.
#[test]
fn a_file_of_the_doctor_needs_only_those_listed_before() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/doctor/src");
    let root = fs::read_to_string(src.join("lib.rs")).unwrap();
    let mut known: Vec<String> = Vec::new();
    let mut files = 0;
    for group in
        root.split("\n\n").filter(|group| group.contains("\nmod ") || group.starts_with("mod "))
    {
        let names = group.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        let names: Vec<String> = names.map(str::to_owned).collect();
        known.extend(names.iter().cloned());
        for name in names {
            let source = fs::read_to_string(src.join(format!("{name}.rs"))).unwrap();
            let library = source.split("#[cfg(test)]").next().unwrap();
            let code = library.lines().filter(|line| !line.trim_start().starts_with("//"));
            for line in code {
                for used in line.split("crate::").skip(1) {
                    // One name, or several in braces.
                    let several = used.strip_prefix('{').and_then(|used| used.split('}').next());
                    for used in several.unwrap_or(used).split(", ").take(if several.is_some() {
                        99
                    } else {
                        1
                    }) {
                        let is_end = |end: char| !end.is_lowercase() && end != '_';
                        let used = used.split(is_end).next().unwrap();
                        assert!(known.iter().any(|name| name == used), "{name}.rs uses {used}");
                    }
                }
            }
            files += 1;
        }
    }
    let of_program = ["lib.rs", "main.rs", "waiting.rs"];
    assert_eq!(
        files,
        fs::read_dir(&src).unwrap().count() - of_program.len(),
        "{of_program:?} are not listed"
    );
}

/// In each crate, no two files need each other, directly or by way of others. A folder's `mod.rs` and its files are left out.
#[test]
fn no_circle_of_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let control = [
        ("a.rs", "use crate::{b::c::X, d};"),
        ("b/mod.rs", "pub use c::X;"),
        ("b/c.rs", "use crate::a::Y;"),
    ];
    let control = control.map(|(path, text)| (path.to_owned(), text.to_owned()));
    assert!(circle(&control).is_some(), "the control has one");
    let mut houses = vec![root.join("src")];
    let crates = fs::read_dir(root.join("crates")).unwrap();
    houses.extend(crates.map(|entry| entry.unwrap().path().join("src")));
    for house in houses {
        let mut files = Vec::new();
        let mut paths = vec![house.clone()];
        while let Some(path) = paths.pop() {
            if path.is_dir() {
                paths.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            } else if path.extension().is_some_and(|end| end == "rs") {
                let name = path.strip_prefix(&house).unwrap().to_str().unwrap().to_owned();
                if !name.starts_with("tests/") {
                    files.push((name, fs::read_to_string(&path).unwrap()));
                }
            }
        }
        assert!(files.len() > 1, "{}", house.display());
        assert_eq!(circle(&files), None, "{}", house.display());
    }
}

/// Returns files that need each other, each the one after it and the last the first.
fn circle(files: &[(String, String)]) -> Option<Vec<&str>> {
    let module = |file: &str| -> Vec<String> {
        let path = file.trim_end_matches(".rs");
        let path = path.strip_suffix("/mod").unwrap_or(path);
        path.split('/').filter(|part| !["lib", "main"].contains(part)).map(str::to_owned).collect()
    };
    let modules: Vec<Vec<String>> = files.iter().map(|(file, _)| module(file)).collect();
    // The names that a folder's `mod.rs` takes from its files.
    let mut shown: Vec<(Vec<String>, usize)> = Vec::new();
    let mut needs: Vec<Vec<usize>> = vec![Vec::new(); files.len()];
    let find = |path: &[String]| {
        (1..=path.len())
            .rev()
            .find_map(|end| modules.iter().position(|known| known[..] == path[..end]))
    };
    for (place, (_, text)) in files.iter().enumerate() {
        for path in paths(text, "use ") {
            let mut whole = modules[place].clone();
            whole.extend(path);
            if let (Some(file), Some(name)) = (find(&whole), whole.last()) {
                if file != place {
                    let name = name.clone();
                    shown.push((modules[place].iter().cloned().chain([name]).collect(), file));
                }
            }
        }
    }
    for (place, (_, text)) in files.iter().enumerate() {
        for mut path in paths(text, "crate::") {
            // The longest beginning that is a file, or a name that a folder shows.
            let found = loop {
                let of_folder = shown.iter().find(|(name, _)| *name == path);
                let of_file = modules.iter().position(|known| *known == path);
                match (of_file, of_folder) {
                    (Some(file), _) => break Some(file),
                    (None, Some((_, file))) => break Some(*file),
                    (None, None) if path.pop().is_none() || path.is_empty() => break None,
                    (None, None) => {}
                }
            };
            let is_above = |file: usize| modules[place].starts_with(&modules[file]);
            needs[place].extend(found.filter(|file| !is_above(*file)));
        }
    }
    // Removes files that need none of those left, until only circles and what needs them are left.
    let mut left: Vec<usize> = (0..files.len()).collect();
    while let Some(at) =
        left.iter().position(|file| !needs[*file].iter().any(|other| left.contains(other)))
    {
        left.remove(at);
    }
    let mut way = vec![*left.first()?];
    loop {
        let next = *needs[*way.last()?].iter().find(|other| left.contains(other))?;
        if let Some(start) = way.iter().position(|file| *file == next) {
            return Some(way[start..].iter().map(|file| files[*file].0.as_str()).collect());
        }
        way.push(next);
    }
}

/// Returns the paths behind each `start` outside of comments and tests, with braces written out.
fn paths(text: &str, start: &str) -> Vec<Vec<String>> {
    fn tree(text: &str, before: &[String], all: &mut Vec<Vec<String>>) -> usize {
        let is_end = |end: char| !end.is_alphanumeric() && end != '_';
        let mut path = before.to_vec();
        let mut at = 0;
        loop {
            if text[at..].starts_with('{') {
                at += 1;
                loop {
                    at += text[at..].len() - text[at..].trim_start_matches([',', ' ', '\n']).len();
                    if text[at..].starts_with('}') || at >= text.len() {
                        return at + 1;
                    }
                    let used = tree(&text[at..], &path, all);
                    if used == 0 {
                        return at;
                    }
                    at += used;
                }
            }
            let name = &text[at..at + text[at..].find(is_end).unwrap_or(text.len() - at)];
            at += name.len();
            if !name.is_empty() && name != "self" {
                path.push(name.to_owned());
            }
            match text[at..].strip_prefix("::") {
                Some(_) => at += 2,
                None => {
                    all.push(path);
                    return at;
                }
            }
        }
    }
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    // Documentation may name what uses a file.
    let code = lines.collect::<Vec<_>>().join("\n").replace("#[cfg(doc)]\nuse crate::", "");
    let mut all = Vec::new();
    for (place, _) in code.match_indices(start) {
        tree(&code[place + start.len()..], &[], &mut all);
    }
    all
}

/// The folders of the library by floor, from the ground up. A folder uses folders on lower floors only.
const FLOORS: &[&[&str]] = &[
    &["kernel"],
    &["asm", "event"],
    &["error"],
    &["pmu"],
    &["names", "page"],
    &["open", "region"],
    &["counter"],
    &["clock", "threads"],
];

/// Those of `crates/spans`.
const FLOORS_OF_SPANS: &[&[&str]] = &[
    &["record", "units"],
    &["distribution"],
    &["statistics"],
    &["counting"],
    &["sink"],
    &["thread"],
    &["collect"],
    &["session"],
    &["batch"],
    &["cause"],
    &["output"],
    &["recording"],
    &["instrument"],
];

/// A package whose folders have floors.
struct House {
    name: &'static str,
    floors: &'static [&'static [&'static str]],
    /// Where the folders are.
    src: &'static str,
    /// The folder that is beside them.
    beside: Option<&'static str>,
    /// `ROOT` stands for the repository.
    dependencies: &'static str,
    /// Those of the feature `tracing`, if it is checked.
    dependencies_of_tracing: &'static str,
    /// A folder, and one that it needs.
    control: (&'static str, &'static str),
}

const LIBC: &str = "[target.'cfg(target_os = \"linux\")'.dependencies]\nlibc = \"0.2.180\"\n";

#[test]
fn a_folder_needs_only_those_on_lower_floors() {
    House {
        name: "floors",
        floors: FLOORS,
        src: "src",
        beside: Some("asm"),
        dependencies: "",
        dependencies_of_tracing: "",
        control: ("open", "names"),
    }
    .check();
}

#[test]
fn a_folder_of_spans_needs_only_those_on_lower_floors() {
    House {
        name: "floors-of-spans",
        floors: FLOORS_OF_SPANS,
        src: "crates/spans/src",
        beside: None,
        dependencies: "rdpmc-report = { path = \"ROOT/crates/report\", default-features = false }\n\
             miniz_oxide = { version = \"0.8.5\", default-features = false, features = [\"with-alloc\"] }\n\
             serde_json = \"1.0.100\"\n",
        // The default members' dependencies are downloaded. The feature's are not among them.
        dependencies_of_tracing: match skips::is_whole("a_folder_of_spans_needs_only_those_on_lower_floors") {
            true => "tracing = { version = \"0.1.41\", default-features = false, features = [\"std\"] }\n\
                 tracing-subscriber = { version = \"0.3.19\", default-features = false, features = [\"registry\", \"std\"] }\n",
            false => "",
        },
        control: ("session", "collect"),
    }
    .check();
}

impl House {
    fn home_of(&self, root: &Path, folder: &str) -> PathBuf {
        if self.beside == Some(folder) {
            root.join(folder)
        } else {
            root.join(self.src).join(folder)
        }
    }

    /// Compiles each folder with those below it and nothing else. So methods, implementations of traits and macros of
    /// another folder cannot be used unnoticed. This target's code is compiled; tests and links of the documentation may
    /// name any folder.
    fn check(&self) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut folders: Vec<String> = fs::read_dir(root.join(self.src))
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.path().is_dir() && entry.file_name() != "tests")
            .map(|entry| entry.file_name().into_string().unwrap())
            .chain(self.beside.map(str::to_owned))
            .collect();
        folders.sort();
        let mut listed: Vec<&str> =
            self.floors.iter().flat_map(|floor| floor.iter().copied()).collect();
        listed.sort_unstable();
        assert_eq!(folders, listed, "every folder has its floor");

        // Nor is a file of one folder compiled as part of another.
        let mut sources: Vec<PathBuf> =
            listed.iter().map(|folder| self.home_of(root, folder)).collect();
        while let Some(path) = sources.pop() {
            if path.is_dir() {
                sources.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                assert!(!text.contains("path = \"../"), "{}", path.display());
            }
        }

        let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join(self.name);
        fs::create_dir_all(&package).unwrap();
        let rdpmc = match self.src {
            "src" => String::new(),
            _ => format!("rdpmc = {{ path = {root:?} }}\n"),
        };
        let more = self.dependencies_of_tracing;
        let feature = if more.is_empty() { "" } else { ", \"tracing\"" };
        let mut manifest = format!(
            "[workspace]\n[package]\nname = \"{}\"\nedition = \"2024\"\n[lib]\npath = \"empty.rs\"\n\
             [features]\ndefault = [\"enabled\"{feature}]\nenabled = []\ntracing = []\n\
             [dependencies]\n{rdpmc}{}{more}{LIBC}",
            self.name,
            self.dependencies.replace("ROOT", &root.display().to_string())
        );
        // A file that is as before keeps its date, so that cargo checks it again only if a folder has changed.
        let write = |name: &str, text: &str| {
            let path = package.join(name);
            if fs::read_to_string(&path).ok().as_deref() != Some(text) {
                fs::write(path, text).unwrap();
            }
        };
        write("empty.rs", "");
        let mut add = |name: &str, folders: &[&str]| {
            let mut text = String::from("#![allow(warnings)]\n");
            for folder in folders {
                let path = self.home_of(root, folder).join("mod.rs");
                text += &format!("#[path = {path:?}]\npub mod {folder};\n");
            }
            write(&format!("{name}.rs"), &text);
            manifest += &format!(
                "[[example]]\nname = \"{name}\"\npath = \"{name}.rs\"\ncrate-type = [\"lib\"]\n"
            );
        };
        let mut below: Vec<&str> = Vec::new();
        for floor in self.floors {
            for folder in *floor {
                add(folder, &[below.as_slice(), &[folder]].concat());
            }
            below.extend(*floor);
        }
        // The control.
        let (folder, needed) = self.control;
        let until = below.iter().position(|below| *below == folder).unwrap();
        let without: Vec<&str> =
            below[..=until].iter().copied().filter(|below| *below != needed).collect();
        add("control", &without);
        write("Cargo.toml", &manifest);
        // The versions that have been downloaded. Cargo removes what is not needed from the copy.
        fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock")).unwrap();

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
        assert!(!compiles && errors.contains(needed), "{errors}");
    }
}
