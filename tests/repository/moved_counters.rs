//! What the compiler says to those who move a counter to another thread.

use std::fs;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = "
fn main() {
    let counter = rdpmc::Counter::open(rdpmc::Event::PAGE_FAULTS).unwrap();
    std::thread::spawn(move || counter.read());
    let group = rdpmc::Group::open([rdpmc::Event::PAGE_FAULTS]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| group.read());
    });
}
";

#[test]
fn the_compiler_names_the_reason_and_what_to_use() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("moved-counters");
    fs::create_dir_all(package.join("src")).unwrap();
    fs::write(package.join("src/main.rs"), PROGRAM).unwrap();
    let manifest = format!(
        "[package]\nname = \"moved\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [workspace]\n[dependencies]\nrdpmc = {{ path = {root:?} }}\n"
    );
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    // The versions that this build has.
    fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["check", "--offline", "--manifest-path"]).arg(package.join("Cargo.toml"));
    cargo.env("CARGO_TARGET_DIR", package.join("target"));
    let output = cargo.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    let cause = "a counter counts the thread that opened it, and cannot be used on another one";
    assert_eq!(said.matches(&format!("error[E0277]: {cause}")).count(), 2, "{said}");
    for remedy in [
        "open the counter inside the thread that uses it",
        "`rdpmc::PerThread` open one on each thread",
        "`rdpmc::SyscallGroup` counts several threads",
    ] {
        assert!(said.contains(remedy), "{said}");
    }
}
