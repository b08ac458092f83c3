//! Tells the library what compiles it: cargo gives a benchmark and its libraries the same compiler and flags.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let text = |name: &str| env::var(name).unwrap_or_default();
    let version = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .arg("--version")
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default();
    let flags = text("CARGO_ENCODED_RUSTFLAGS");
    let flags: Vec<&str> = flags.split('\u{1f}').filter(|flag| !flag.is_empty()).collect();
    // Paths differ between directories, and do not change the code.
    let is_path = |flag: &str| flag.contains("remap-path") || flag.contains("link-arg");
    let flags: Vec<&str> = flags.into_iter().filter(|flag| !is_path(flag)).collect();
    let mut build = format!("{version} for {}, opt-level {}", text("TARGET"), text("OPT_LEVEL"));
    if !flags.is_empty() {
        build += &format!(", {}", flags.join(" "));
    }
    let build: String = build.chars().filter(|character| !character.is_control()).collect();
    println!("cargo::rustc-env=RDPMC_BUILD={build}");
}
