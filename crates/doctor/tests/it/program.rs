//! The program: its exit status, and arguments.

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

/// The vendor's events of this CPU: a line for each, and why those cannot be opened that cannot.
#[test]
fn events_are_listed() {
    let run = |arguments: &[&str]| {
        let output = doctor(arguments).output().unwrap();
        let [text, errors] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), text, errors)
    };
    let (status, all, errors) = run(&["events"]);
    if errors.contains("there is no table for this CPU") {
        return assert_eq!(status, Some(2), "{errors}");
    }
    let count = |text: &str| {
        let first = text.lines().next().unwrap_or_default();
        let number = first.rsplit_once(", ").unwrap().1.trim_end_matches(" of its events");
        number.parse::<usize>().unwrap()
    };
    let listed = |text: &str| {
        text.lines().filter(|line| line.contains("  opens  ") || line.contains("  -      ")).count()
    };
    assert!(count(&all) > 20 && listed(&all) == count(&all), "{all}");
    let opens = all.contains("  opens  ");
    assert_eq!(status, Some(if opens { 0 } else { 2 }), "{all}");
    assert!(opens || all.contains(" cannot be opened: "), "{all}");
    let (_, some, _) = run(&["events", "L1", "miss"]);
    assert!((1..count(&all)).contains(&count(&some)) && listed(&some) == count(&some), "{some}");
    assert!(
        some.lines()
            .skip(1)
            .take(count(&some))
            .all(|line| line.to_ascii_lowercase().contains("miss")),
        "{some}"
    );
    assert_eq!(run(&["events", "--json"]).0, Some(64));
    let (status, none, _) = run(&["events", "no such event"]);
    assert_eq!((status, count(&none)), (Some(2), 0), "{none}");
}
