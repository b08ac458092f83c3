//! Packs the crates and uses the packages without the rest of the repository. Builds and tests the library with the oldest
//! supported Rust, builds its documentation for arm64, and adds the packages to a new project, whose program and benchmark
//! are the READMEs' examples.

mod files;
mod oldest;
mod project;

use crate::lock::Lock;
use crate::{Outcome, USAGE, commands};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const HELP: &str = "Usage: tests/package     (as root, where tests/vm/prepare works: the oldest Rust is in its Debian)";

/// The published crates, each after those that it depends on.
const CRATES: [&str; 8] = [
    "rdpmc",
    "rdpmc-report",
    "rdpmc-step",
    "rdpmc-events",
    "rdpmc-bench",
    "rdpmc-doctor",
    "rdpmc-spans",
    "rdpmc-criterion",
];

pub(crate) fn package(arguments: &[&str]) -> Outcome {
    if !arguments.is_empty() {
        eprintln!("{HELP}");
        return Ok(USAGE);
    }
    commands::enter_root()?;
    fs::create_dir_all("target").map_err(|error| format!("target: {error}"))?;
    let Some(lock) = Lock::try_take(Path::new("target/package.lock"))? else {
        return Err("another run is under way".to_owned());
    };
    say("the files");
    let packages = Packages::pack(&lock)?;
    files::check(&packages)?;
    say("with the oldest Rust");
    oldest::check(&packages)?;
    say("a new project");
    project::check(&packages)?;
    Ok(0)
}

fn say(step: &str) {
    println!("\n-- {step}");
}

fn cargo() -> Command {
    commands::program("cargo")
}

/// The packed crates.
struct Packages {
    directory: PathBuf,
    version: String,
}

impl Packages {
    fn pack(lock: &Lock) -> Result<Packages, String> {
        let identity = commands::text(cargo().args(["pkgid", "-p", "rdpmc"]))?;
        let version = identity.trim().rsplit(['#', '@']).next().unwrap_or_default().to_owned();
        let target = commands::root().join("target");
        let packages = Packages { directory: target.join("package"), version };
        make_anew(&packages.directory)?;
        // All in one command, because they depend on one another.
        let mut pack = cargo();
        pack.args(["package", "--locked", "--allow-dirty", "--no-verify", "--quiet"]);
        pack.args(CRATES.iter().flat_map(|name| ["-p", name])).arg("--target-dir").arg(target);
        commands::succeed(pack.stdin(lock.input()?), "the crates cannot be packed")?;
        Ok(packages)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}-{}.crate", self.version))
    }

    /// Unpacks a package into a new directory. The files have new dates: those in the package are constant, so cargo would
    /// not notice changes.
    fn unpack(&self, name: &str, directory: &Path) -> Result<(), String> {
        make_anew(directory)?;
        let mut tar = commands::program("tar");
        tar.arg("-xzmf").arg(self.file(name)).arg("-C").arg(directory).arg("--strip-components=1");
        commands::succeed(&mut tar, &format!("the package {name} cannot be unpacked"))
    }
}

/// Makes an empty directory in place of what is there.
fn make_anew(directory: &Path) -> Result<(), String> {
    let failure = |error| format!("{}: {error}", directory.display());
    if directory.exists() {
        fs::remove_dir_all(directory).map_err(failure)?;
    }
    fs::create_dir_all(directory).map_err(failure)
}

/// Returns the text of a file.
fn read(path: impl AsRef<Path>) -> Result<String, String> {
    let path = path.as_ref();
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
