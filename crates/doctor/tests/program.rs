//! The program: its exit status, and arguments.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use rdpmc_doctor::diagnose;
use std::process::{Command, Stdio};

fn doctor(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rdpmc-doctor"));
    command.args(arguments);
    command
}

#[test]
fn the_exit_status_is_the_reports() {
    rdpmc::contain_faults().unwrap();
    let report = diagnose();
    let expected = Some(i32::from(u8::from(report.status())));
    let text = doctor(&[]).output().unwrap();
    assert_eq!(text.status.code(), expected, "{report}");
    let said = String::from_utf8(text.stdout).unwrap();
    assert!(said.contains("\nevents (user mode)\n"), "{said}");
    let json = doctor(&["--json"]).output().unwrap();
    assert_eq!(json.status.code(), expected);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["status"].as_i64(), expected.map(i64::from));
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
