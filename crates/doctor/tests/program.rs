//! The program: its exit status, and arguments.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::process::{Command, Stdio};

fn doctor(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rdpmc-doctor"));
    command.args(arguments);
    command
}

#[test]
fn the_exit_status_is_the_reports() {
    let json = doctor(&["--json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let status = json.status.code().map(i64::from);
    assert_eq!(report["status"].as_i64(), status, "{report}");
    assert!(matches!(status, Some(0..=3)), "{status:?}");
    let text = doctor(&[]).output().unwrap();
    assert!(matches!(text.status.code(), Some(0..=3)), "{:?}", text.status);
    let said = String::from_utf8(text.stdout).unwrap();
    assert!(said.contains("\nevents (user mode)\n"), "{said}");
}

/// Reports can be sent to the thread that shows them.
#[test]
fn reports_go_anywhere() {
    fn goes_anywhere<T: Send + Sync + Clone + 'static>() {}
    goes_anywhere::<rdpmc_doctor::Report>();
    goes_anywhere::<rdpmc_doctor::Trust>();
}

/// A program that stops reading, such as `head`, is no error.
#[test]
fn nobody_reads() {
    let mut child = doctor(&[]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let status = child.wait().unwrap().code();
    assert!(matches!(status, Some(0..=3)), "{status:?}");
}

#[test]
fn arguments() {
    let help = doctor(&["--help"]).output().unwrap();
    assert!(help.status.success());
    assert!(String::from_utf8(help.stdout).unwrap().contains("usage: rdpmc-doctor [--json]"));
    let wrong = doctor(&["--jsn"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(64));
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("unknown argument \"--jsn\""));
}
