//! Process 1 of the emulated machine: sets it up, does what the command line asks, powers off.
//!
//! As `guest scenario NAME FACTS...` it is the process that runs one scenario.

mod cost;
mod harness;
mod kernels;
mod machine;
#[path = "../../../process/mod.rs"]
mod process;
mod scenarios;

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if std::process::id() != 1 {
        return match arguments.as_slice() {
            ["scenario", name, facts @ ..] => harness::run_here(&scenarios::all(), name, facts),
            ["cost"] => cost::print(),
            other => panic!("not a request: {other:?}"),
        };
    }
    machine::set_up();
    let status = match arguments.as_slice() {
        ["tests", target, facts @ ..] => harness::run_all(&scenarios::all(), target, facts),
        ["cost", ..] => run(Command::new("/init").arg("cost")),
        ["quickstart", ..] => run(&mut Command::new("/quickstart")),
        other => panic!("not a request: {other:?}"),
    };
    // What tests/vm/run takes for the exit status; without it, the machine did not get here.
    println!("guest status {status}");
    machine::power_off();
}

/// The exit status of a program, 255 if it has none.
fn run(command: &mut Command) -> i32 {
    command.status().expect("the program is in the image").code().unwrap_or(255)
}
