//! The files in the packages, and the links between the repository's documents.

use super::{CRATES, Packages, cargo, read};
use crate::commands::{program, text};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What the library's package does not have, because it is useful in a checkout only: directories and files.
const CHECKOUT: &[&str] = &[
    ".ci/",
    "docs/interface/",
    ".gitignore",
    "rustfmt.toml",
    "clippy.toml",
    "crates/",
    "benches/",
    "tests/package",
    "tests/targets",
    "tests/oldest-dependencies",
    "tests/vm/",
    "tests/size/",
    "tests/xtask/",
    "tests/fuzz/",
    "tests/events/",
    "tests/interface/",
    "tests/contained/",
    "tests/machines/",
    "tests/pages/",
    "tests/prometheus/",
    "tests/ftrace/",
    "tests/perf/",
    "tests/testing/",
    "tests/tracing/",
    "tests/repository/",
    "tests/refusals.rs",
];
/// The files that cargo makes.
const MADE: [&str; 2] = [".cargo_vcs_info.json", "Cargo.toml.orig"];

pub(super) fn check(packages: &Packages) -> Result<(), String> {
    for name in CRATES {
        let file = packages.file(name);
        if !file.exists() {
            return Err(format!("there is no package {name} {}", packages.version));
        }
        let files = text(program("tar").arg("-tzf").arg(&file))?;
        // Whole texts, not links: links may become files with a path in them.
        for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let path = files.lines().find(|path| path.ends_with(&format!("/{license}")));
            let path = path.ok_or_else(|| format!("{name} lacks {license}"))?;
            let packed = text(program("tar").arg("-xzOf").arg(&file).arg(path))?;
            if packed != read(Path::new(license))? {
                return Err(format!("{license} of {name} is another text than the library's"));
            }
        }
        if text(program("tar").arg("-xzOf").arg(&file))?.contains("rdpmc_testing::") {
            return Err(format!(
                "{name} has a test that needs `tests/testing`: see exclude in its Cargo.toml"
            ));
        }
    }
    let versioned = text(program("git").arg("ls-files"))?;
    let list = ["package", "--locked", "--allow-dirty", "--list", "-p", "rdpmc"];
    let packed = text(cargo().args(list))?;
    let packed: BTreeSet<&str> = packed.lines().collect();
    let expected = versioned.lines().filter(|path| !is_for_a_checkout(path)).chain(MADE).collect();
    for missing in &expected - &packed {
        println!("< {missing}");
    }
    for unexpected in &packed - &expected {
        println!("> {unexpected}");
    }
    if packed != expected {
        return Err(
            "the package has other files than expected (>), or lacks some (<): see include in Cargo.toml"
                .to_owned(),
        );
    }
    for document in versioned.lines().filter(|path| path.ends_with(".md")) {
        check_links(Path::new(document))?;
    }
    let file = packages.file("rdpmc");
    let size = fs::metadata(&file).map_err(|error| format!("{}: {error}", file.display()))?.len();
    println!("{} files, {size} bytes", packed.len());
    Ok(())
}

fn is_for_a_checkout(path: &str) -> bool {
    CHECKOUT.iter().any(|&kept| path == kept || kept.ends_with('/') && path.starts_with(kept))
}

/// Checks that every link of a document leads to a file of the repository.
fn check_links(document: &Path) -> Result<(), String> {
    let directory = document.parent().unwrap_or(document);
    for link in links(&read(document)?) {
        if !directory.join(link).exists() {
            return Err(format!("{}: {link} does not exist", document.display()));
        }
    }
    Ok(())
}

/// Returns the targets of links to files, without the part after `#`.
fn links(document: &str) -> Vec<&str> {
    let targets = document.lines().flat_map(|line| line.split("](").skip(1));
    let paths = targets.filter_map(|target| target.split([')', '#']).next());
    paths.filter(|path| !path.is_empty() && !path.starts_with("https://")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files() {
        let document =
            "See [a](docs/a.md#part), [b](#part) and\n[c](https://c.example/d), [e](../e).";
        assert_eq!(links(document), ["docs/a.md", "../e"]);
    }

    #[test]
    fn what_stays_in_the_checkout() {
        assert!(is_for_a_checkout("tests/vm/run") && is_for_a_checkout("tests/package"));
        assert!(!is_for_a_checkout("tests/packages.rs") && !is_for_a_checkout("src/tests/mod.rs"));
    }
}
