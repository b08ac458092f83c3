//! Tells the library what compiles it. cargo compiles a benchmark with the same compiler and flags, unless a profile has other settings for some
//! packages.

use std::env;
use std::process::Command;

/// More is cut: the text is in each file of results.
const MAX_LENGTH: usize = 1_000;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_GATE").is_none() {
        return; // saved results have it
    }
    let text = |name: &str| env::var(name).unwrap_or_default();
    let version = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .arg("--version")
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default();
    let flags = text("CARGO_ENCODED_RUSTFLAGS");
    let flags = flags.split('\u{1f}').filter(|flag| !flag.is_empty());
    // `-C value` and `-Cvalue` are one.
    let mut joined: Vec<String> = Vec::new();
    for flag in flags {
        match joined.last_mut() {
            Some(last) if last == "-C" || last == "-Z" => last.push_str(flag),
            _ => joined.push(flag.to_owned()),
        }
    }
    // Paths differ between directories, and do not change the code.
    joined.retain(|flag| !flag.contains("remap-path") && !flag.contains("link-arg"));
    let mut build = format!("{version} for {}, opt-level {}", text("TARGET"), text("OPT_LEVEL"));
    if !joined.is_empty() {
        build += &format!(", {}", joined.join(" "));
    }
    let plain = build.chars().filter(|character| !character.is_control());
    println!("cargo::rustc-env=RDPMC_BUILD={}", plain.take(MAX_LENGTH).collect::<String>());
}
