//! The library's package with the oldest supported Rust, in the Debian that `tests/vm/prepare` makes.

use super::{Packages, cargo, read};
use crate::commands::{self, machines_directory, program, script, succeed};
use std::fs::{self, File};
use std::process::{Command, Stdio};

/// The build there has no network. Without optimization, the tests compile faster.
const CONFIGURATION: &str = r#"net.offline = true
source.crates-io.replace-with = "vendor"
source.vendor.directory = "/package/vendor"
profile.test.opt-level = 0
profile.test.debug = false
profile.test.package.rdpmc.opt-level = 0
"#;

pub(super) fn check(packages: &Packages) -> Result<(), String> {
    succeed(&mut script("prepare"), "the Debian cannot be prepared")?;
    let manifest = read("Cargo.toml")?;
    let oldest = rust_version(&manifest).ok_or("Cargo.toml has no rust-version")?;
    let rust = commands::text(commands::in_debian("rustc").arg("--version"))?;
    let rust = rust.trim();
    if !rust.starts_with(&format!("rustc {oldest}.")) {
        return Err(format!("the Rust there is {rust}, not {oldest}"));
    }
    let unpacked = machines_directory().join("debian/package");
    let failure = |error| format!("{}: {error}", unpacked.display());
    packages.unpack("rdpmc", &unpacked)?;
    let mut vendor = cargo();
    vendor.args(["vendor", "--quiet", "--locked", "--versioned-dirs", "--manifest-path"]);
    vendor.arg(unpacked.join("Cargo.toml")).arg(unpacked.join("vendor")).stdout(Stdio::null());
    succeed(&mut vendor, "the library's dependencies cannot be copied")?;
    fs::create_dir(unpacked.join(".cargo")).map_err(failure)?;
    fs::write(unpacked.join(".cargo/config.toml"), CONFIGURATION).map_err(failure)?;

    succeed(inside().args(["build", "--locked"]), "the package does not build")?;
    // The simulated kernel takes minutes, and is tested in the checkout.
    let log = unpacked.join("tested");
    let file = File::create(&log).map_err(failure)?;
    let mut test = inside();
    test.args(["test", "--locked", "--", "--skip", "simulated_kernel::"]);
    test.stdout(file.try_clone().map_err(failure)?).stderr(file);
    let status = commands::status(&mut test)?;
    let tested = fs::read(&log).map_err(failure)?;
    let tested = String::from_utf8_lossy(&tested);
    if !status.success() {
        print!("{tested}");
        return Err("the package does not pass its tests".to_owned());
    }
    let passed = tests_passed(&tested);
    if passed < 100 {
        return Err(format!("only {passed} tests passed"));
    }
    println!("built and tested with {rust}: {passed} tests passed");
    let documentation = ["--no-deps", "--lib", "--target", "aarch64-unknown-linux-gnu"];
    succeed(
        inside().args(["doc", "--locked"]).args(documentation),
        "the package's documentation cannot be built",
    )?;
    println!("documented for arm64");
    Ok(())
}

/// The oldest cargo, in the package.
fn inside() -> Command {
    let mut cargo = program("unshare");
    // The tests read these directories. The mounts exist for this command only.
    let mount =
        r#"for of in proc sys dev; do mount --rbind "/$of" "$0/$of"; done; exec chroot "$0" "$@""#;
    cargo.args(["--mount", "sh", "-ec", mount]).arg(machines_directory().join("debian"));
    cargo.args(["env", "-i", "--chdir=/package", "PATH=/usr/bin:/bin", "HOME=/root"]);
    cargo.args(["CARGO_TARGET_DIR=/package-target", "CARGO_TERM_COLOR=never"]);
    cargo.args(["CARGO_TERM_QUIET=true", "cargo"]);
    cargo
}

fn rust_version(manifest: &str) -> Option<&str> {
    manifest.lines().find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'))
}

/// Returns the sum over the test programs' last lines.
fn tests_passed(output: &str) -> u32 {
    let results = output.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    results.filter_map(|result| result.split(' ').next()?.parse::<u32>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_and_numbers() {
        let manifest = "edition = \"2024\"\nrust-version = \"1.85\"\n";
        assert_eq!(rust_version(manifest), Some("1.85"));
        let output = "test a ... ok\ntest result: ok. 12 passed; 0 failed\ntest result: ok. 3 passed; 0 failed\n";
        assert_eq!(tests_passed(output), 15);
    }
}
