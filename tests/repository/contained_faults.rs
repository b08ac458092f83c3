//! Faults are contained however a program is built: as a debug build, as a release build, small, as one piece (LTO),
//! linked statically, in a shared object that it loads, and with the library itself in one.
//!
//! Every read faults for real: the pages report a counter, and there is none. The emulated machines test what is
//! passed on to other handlers, and faults of real counters.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")))]
#[test]
fn contained_however_built() {
    crate::skips::skip(
        "contained_however_built",
        "its pages are made for x86-64's rdpmc and the GNU libc",
    );
}

#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod builds {
    use crate::skips;
    use std::os::unix::process::ExitStatusExt;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// Builds `package` and returns the directory of its output.
    fn build(package: &str, profile: &str, flags: &str) -> PathBuf {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("contained").join(
            // Each set of flags has a directory, because a change of flags rebuilds everything.
            flags.rsplit(' ').next().unwrap().replace(['+', '='], ""),
        );
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "--package", package, "--profile", profile])
            .args(["--target", "x86_64-unknown-linux-gnu", "--target-dir"])
            .arg(&target)
            .arg("--manifest-path")
            .arg(here.join("tests/contained/Cargo.toml"))
            .env("RUSTFLAGS", format!("--cfg rdpmc_internals {flags}"))
            .status()
            .unwrap();
        assert!(status.success(), "{package}, {profile}");
        let folder = if profile == "dev" { "debug" } else { profile };
        target.join("x86_64-unknown-linux-gnu").join(folder)
    }

    fn run(program: &Path, argument: Option<&Path>) -> Option<i32> {
        Command::new(program).args(argument).status().unwrap().code()
    }

    #[test]
    fn contained_however_built() {
        // The short walk has one optimized build: each other one compiles the library again.
        let is_whole = skips::is_whole("contained_however_built");
        let first = if is_whole { "dev" } else { "release" };
        let built = build("program", first, "").join("program");
        // The control: without the handler, the first read ends the program.
        let control = Command::new(&built).arg("without").status().unwrap();
        if control.success() || control.code() == Some(1) {
            let why = "the setting rdpmc is 2 here, so rdpmc does not fault";
            return skips::skip("contained_however_built", why);
        }
        assert_eq!(control.signal(), Some(libc::SIGSEGV), "{control}");
        assert_eq!(run(&built, None), Some(0), "{first}");
        let profiles: &[&str] = match is_whole {
            true => &["release", "small", "together"],
            false => &["release"],
        };
        for profile in profiles {
            assert_eq!(
                run(&build("program", profile, "").join("program"), None),
                Some(0),
                "{profile}"
            );
            let plugin = build("plugin", profile, "").join("libplugin.so");
            assert_eq!(run(&built, Some(&plugin)), Some(0), "{profile}, in a shared object");
        }
        // Both the program and the object that it loads have a handler, one in front of the other.
        let plugin = build("plugin", "release", "").join("libplugin.so");
        let both = Command::new(&built).arg(&plugin).env("FIRST", "1").status().unwrap();
        assert_eq!(both.code(), Some(0), "two handlers");
        let three =
            Command::new(&built).arg(&plugin).envs([("FIRST", "1"), ("BETWEEN", "1")]).status();
        assert_eq!(three.unwrap().code(), Some(0), "a handler between two");
        // The handler stays where the kernel finds it, and passes on a fault that is none of its own.
        let unloaded = Command::new(&built).arg(&plugin).env("UNLOAD", "1").status().unwrap();
        assert_eq!(unloaded.code(), Some(42), "{unloaded}");
        if !is_whole {
            return;
        }
        let spanned = build("spanned", "release", "").join("libspanned.so");
        for here in [false, true] {
            let mut program = Command::new(&built);
            program.arg(&spanned).env("UNLOAD", "1").envs(here.then_some(("HERE", "1")));
            let unloaded = program.status().unwrap();
            assert_eq!(unloaded.code(), Some(42), "with spans, here: {here}: {unloaded}");
        }
        let hosting = build("hosting", "release", "").join("hosting");
        assert_eq!(run(&hosting, Some(&spanned)), Some(0), "spans of a shared object");
        // The reads are inlined into the program. Those that are not are in the library's shared object.
        let dynamic = build("dynamic", "release", "-C prefer-dynamic");
        let standard = ["--print", "target-libdir", "--target", "x86_64-unknown-linux-gnu"];
        let standard = Command::new("rustc").args(standard).output().unwrap();
        let standard = String::from_utf8(standard.stdout).unwrap();
        let objects = format!("{}:{}", dynamic.join("deps").display(), standard.trim());
        let status =
            Command::new(dynamic.join("dynamic")).env("LD_LIBRARY_PATH", objects).status().unwrap();
        assert_eq!(status.code(), Some(0), "with the library in a shared object");
        // Those above are linked by LLD, unless the toolchain is older than 1.90. These are linked by GNU's linker.
        for profile in ["release", "together"] {
            let linked = build("program", profile, "-C linker-features=-lld").join("program");
            assert_eq!(run(&linked, None), Some(0), "{profile}, without lld");
        }
        for profile in ["release", "together"] {
            let linked = build("program", profile, "-C target-feature=+crt-static").join("program");
            assert_eq!(run(&linked, None), Some(0), "{profile}, static");
        }
    }
}
