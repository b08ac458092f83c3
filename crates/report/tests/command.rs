//! The command: which arguments it refuses, and its exit status if nothing can be printed.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A directory with two equal files of results.
fn results(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let figure = r#"{ "value": 7.0, "low": 7.0, "high": 7.0, "verdict": "exact" }"#;
    let row = format!(r#"{{ "name": "f", "figures": {{ "instructions": {figure} }} }}"#);
    let saved =
        format!(r#"{{ "version": 2, "program": "parsing", "processor": "one", "rows": [{row}] }}"#);
    for file in ["old.json", "new.json"] {
        fs::write(directory.join(file), &saved).unwrap();
    }
    directory
}

/// Runs the command. Returns its status and the errors it prints.
fn gate(directory: &Path, arguments: &[&str], output: impl Into<Stdio>) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rdpmc-gate"));
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    let output = command.stdout(output).stderr(Stdio::piped()).spawn().unwrap();
    let output = output.wait_with_output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_file_is_not_compared_with_itself() {
    let directory = results("itself");
    let status = |new: &str| gate(&directory, &["old.json", new], Stdio::null());
    assert_eq!(status("new.json"), (0, String::new()));
    #[cfg(unix)]
    std::os::unix::fs::symlink("old.json", directory.join("link.json")).unwrap();
    let link = cfg!(unix).then_some("link.json");
    for new in ["old.json", "./old.json"].into_iter().chain(link) {
        let (status, why) = status(new);
        assert_eq!(status, 2, "{new}: {why}");
        assert!(why.contains("the earlier and the later results are the same"), "{new}: {why}");
    }
    // Missing files are not one file.
    assert_eq!(gate(&directory, &["a.json", "b.json"], Stdio::null()).0, 3);
}

#[test]
#[cfg(target_os = "linux")]
fn an_output_that_is_lost_is_no_pass() {
    let directory = results("lost");
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for arguments in
        [&["old.json", "new.json"][..], &["old.json", "new.json", "--markdown"], &["--help"]]
    {
        let (status, why) = gate(&directory, arguments, full());
        assert_eq!(status, 3, "{arguments:?}");
        assert!(why.starts_with("rdpmc-gate: the output cannot be written: "), "{why}");
    }
    assert_eq!(gate(&directory, &["old.json"], full()).0, 2);
    // A closed pipe is no error.
    let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
    let writer = reader.stdin.take().unwrap();
    assert!(reader.wait().unwrap().success());
    assert_eq!(gate(&directory, &["old.json", "new.json"], writer), (0, String::new()));
}
