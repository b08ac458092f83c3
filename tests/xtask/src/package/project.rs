//! A new project that depends on the packages. Its program and its benchmark are the READMEs' examples.

use super::{CRATES, Packages, cargo, read};
use crate::commands::{self, program, succeed};
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// The packages are not published yet, so those that depend on others take these copies.
const COPIES: &str = r#"[patch.crates-io]
rdpmc = { path = "../rdpmc" }
rdpmc-report = { path = "../rdpmc-report" }
rdpmc-step = { path = "../rdpmc-step" }
rdpmc-events = { path = "../rdpmc-events" }
"#;

/// The first example, and the examples of regions: a package, and a word in the example in its README.
const EXAMPLES: [(&str, &str); 8] = [
    ("rdpmc", "instructions_of"),
    ("rdpmc", "region()"),
    ("rdpmc-step", "instructions_of_parsing"),
    ("rdpmc-events", "search("),
    ("rdpmc-report", "Chart::new"),
    ("rdpmc-bench", "Bench::new"),
    ("rdpmc-doctor", "test_counters"),
    ("rdpmc-spans", "save_html"),
];

pub(super) fn check(packages: &Packages) -> Result<(), String> {
    let project = Project::new(packages)?;
    for name in [
        "rdpmc",
        "rdpmc-step",
        "rdpmc-events",
        "rdpmc-report",
        "rdpmc-bench",
        "rdpmc-doctor",
        "rdpmc-spans",
    ] {
        project.add(&[name, "--path", &format!("../{name}")])?;
    }
    for (package, word) in EXAMPLES {
        project.write("src/main.rs", &project.example(package, word)?)?;
        let failure = format!("the example of {package} with {word} fails");
        succeed(project.cargo().args(["run", "--quiet"]), &failure)?;
    }
    project.add(&["--dev", "criterion@0.8"])?;
    project.add(&["--dev", "rdpmc-criterion", "--path", "../rdpmc-criterion"])?;
    project.has_no_criterion(&[], "criterion is a dependency of the program")?;
    project.append("Cargo.toml", &project.example("rdpmc-criterion", "[[bench]]")?)?;
    project.write("src/lib.rs", "")?;
    project.write("benches/parsing.rs", &project.example("rdpmc-criterion", "fn parsing")?)?;
    let mut bench = project.cargo();
    bench.args(["bench", "--quiet", "--bench", "parsing", "--", "--quick"]);
    let (status, printed) = shown(bench.args(["--save-baseline", "main"]))?;
    if !status.success() || !printed.contains("time: ") {
        return Err("nothing was measured".to_owned());
    }
    // The gate, by the package's command. Without a PMU it ends with 3: `--quick` has no warm-up to step. Its
    // package does not need criterion.
    let manifest = ["--manifest-path", "../rdpmc-report/Cargo.toml"];
    project.has_no_criterion(&manifest, "criterion is a dependency of the gate")?;
    let mut gate = project.cargo();
    gate.args(["run", "--quiet"]).args(manifest).args(["--", "main", "--home"]);
    let (status, printed) = shown(gate.arg(results()))?;
    let starts_a_line = |begin: &str| printed.lines().any(|line| line.starts_with(begin));
    let is_right = match status.code() {
        Some(0) => starts_a_line("Figures compared: "),
        Some(3) => starts_a_line("main has no counters: "),
        _ => false,
    };
    if !is_right {
        return Err(format!("the gate ended with {status}"));
    }
    println!("the READMEs' examples run in a new project");
    Ok(())
}

/// The checkout's own, so that other crates of the same versions are not compiled again.
fn target() -> PathBuf {
    commands::root().join("target")
}

/// The directory of criterion's results.
fn results() -> PathBuf {
    target().join("new-project")
}

/// A temporary directory with the unpacked packages and the project `counting`.
struct Project(PathBuf);

impl Project {
    fn new(packages: &Packages) -> Result<Project, String> {
        let directory = commands::text(program("mktemp").arg("-d"))?;
        let project = Project(PathBuf::from(directory.trim_end()));
        for name in CRATES {
            packages.unpack(name, &project.0.join(name))?;
        }
        let mut new = cargo();
        new.args(["new", "--quiet", "--vcs", "none", "counting"]).current_dir(&project.0);
        succeed(&mut new, "the project cannot be made")?;
        project.append("Cargo.toml", COPIES)?;
        Ok(project)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join("counting").join(name)
    }

    fn cargo(&self) -> Command {
        let mut cargo = cargo();
        cargo.current_dir(self.path(""));
        cargo.env("CARGO_TARGET_DIR", target()).env("CRITERION_HOME", results());
        cargo
    }

    fn add(&self, dependency: &[&str]) -> Result<(), String> {
        let failure = format!("cargo cannot add {}", dependency.join(" "));
        succeed(self.cargo().args(["add", "--quiet"]).args(dependency), &failure)
    }

    fn has_no_criterion(&self, arguments: &[&str], failure: &str) -> Result<(), String> {
        let mut tree = self.cargo();
        tree.args(["tree", "--quiet", "--edges", "normal"]).args(arguments);
        if commands::text(&mut tree)?.contains("criterion") {
            Err(failure.to_owned())
        } else {
            Ok(())
        }
    }

    fn example(&self, package: &str, word: &str) -> Result<String, String> {
        let readme = read(self.0.join(package).join("README.md"))?;
        block(&readme, word).ok_or_else(|| format!("no example in {package}'s README has {word}"))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.path(name);
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    fn append(&self, name: &str, text: &str) -> Result<(), String> {
        let path: &Path = &self.path(name);
        let file = OpenOptions::new().append(true).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        // A rest in the temporary directory is no reason to fail.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the first block of Rust or TOML in a document that contains a word.
fn block(document: &str, word: &str) -> Option<String> {
    let mut block: Option<String> = None;
    for line in document.lines() {
        match (&mut block, line) {
            (_, "```rust" | "```toml") => block = Some(String::new()),
            (Some(text), "```") => {
                if text.contains(word) {
                    return block;
                }
                block = None;
            }
            (Some(text), line) => *text += &format!("{line}\n"),
            (None, _) => {}
        }
    }
    None
}

/// Runs a program whose output is shown. Returns its status and its output.
fn shown(command: &mut Command) -> Result<(ExitStatus, String), String> {
    let mut run = || -> io::Result<(ExitStatus, String)> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut printed = String::new();
        if let Some(output) = child.stdout.take() {
            for line in BufReader::new(output).lines() {
                let line = line?;
                println!("{line}");
                printed += &line;
                printed += "\n";
            }
        }
        Ok((child.wait()?, printed))
    };
    run().map_err(|error| format!("cargo: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_with_a_word() {
        let readme = "\
```text
fn main() {}
```
```rust
fn other() {}
```
```toml
[[bench]]
```
```rust
fn main() {}

```
";
        assert_eq!(block(readme, "fn main").as_deref(), Some("fn main() {}\n\n"));
        assert_eq!(block(readme, "[[bench]]").as_deref(), Some("[[bench]]\n"));
        assert_eq!(block(readme, "fn third"), None);
    }
}
