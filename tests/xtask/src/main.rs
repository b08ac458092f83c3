//! The commands of the repository that are too long for a shell: `tests/vm/run`, `tests/vm/list`, `tests/vm/table` and
//! `tests/package` start this program with their arguments, and `.ci/parts/guests` for the documents.

mod commands;
mod costs;
mod documents;
mod listing;
mod lock;
mod package;
mod vm;

use std::process::ExitCode;

/// The exit status, or the message of a failure.
type Outcome = Result<u8, String>;

/// The exit status for arguments that a command does not have.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (name, outcome) = match arguments.as_slice() {
        ["vm", "list", arguments @ ..] => ("tests/vm/list", listing::list(arguments)),
        ["vm", "run", arguments @ ..] => ("tests/vm/run", vm::run(arguments)),
        ["vm", "table", arguments @ ..] => ("tests/vm/table", costs::table(arguments)),
        ["shown", arguments @ ..] => ("xtask shown", documents::shown(arguments)),
        ["package", arguments @ ..] => ("tests/package", package::package(arguments)),
        _ => (
            "xtask",
            Err("the commands are `package`, `shown`, `vm list`, `vm run` and `vm table`"
                .to_owned()),
        ),
    };
    ExitCode::from(outcome.unwrap_or_else(|message| {
        eprintln!("{name}: {message}");
        1
    }))
}
