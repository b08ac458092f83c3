//! Process 1 of the emulated machine: sets it up, does what the command line asks, and powers off.
//!
//! As `guest scenario NAME FACTS...`, it is the process that runs one scenario.

// Costs take a part of what scenarios share.
#![cfg_attr(not(feature = "scenarios"), allow(dead_code))]

mod cost;
#[cfg(feature = "scenarios")]
mod events;
mod faults;
mod harness;
#[cfg(feature = "scenarios")]
mod neighbour;
#[cfg(feature = "scenarios")]
mod scenarios;
mod system;

use rdpmc_testing::perf;
use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if std::process::id() != 1 {
        return match arguments.as_slice() {
            #[cfg(feature = "scenarios")]
            ["scenario", name, facts @ ..] => {
                harness::run_here(&scenarios::all(facts), name, facts)
            }
            ["cost", facts @ ..] => cost::print(&harness::Facts(facts)),
            #[cfg(feature = "scenarios")]
            ["neighbour"] => neighbour::Neighbour::work(),
            #[cfg(feature = "scenarios")]
            ["reopen", facts @ ..] => {
                harness::know(facts);
                ExitCode::from(harness::report(scenarios::reopen(facts)))
            }
            other => panic!("not a request: {other:?}"),
        };
    }
    system::set_up();
    let status = match arguments.as_slice() {
        #[cfg(feature = "scenarios")]
        ["tests", target, facts @ ..] => harness::run_all(&scenarios::all(facts), target, facts),
        #[cfg(feature = "scenarios")]
        ["only", name, target, facts @ ..] => {
            let mut scenarios = scenarios::all(facts);
            scenarios.retain(|scenario| scenario.name == *name);
            harness::run_all(&scenarios, target, facts)
        }
        ["cost", _, facts @ ..] => costs(facts),
        #[cfg(feature = "scenarios")]
        ["both", target, facts @ ..] => {
            // First, because a scenario may leave a fault of the emulated PMU switched on.
            let status = costs(facts);
            harness::run_all(&scenarios::all(facts), target, facts).max(status)
        }
        ["criterion", _, facts @ ..] => {
            let exact = run(Command::new("/measurement").args(facts));
            exact.max(run(Command::new("/reads").args(["--bench", "--quick"])))
        }
        ["examples", ..] => {
            std::fs::create_dir_all("/tmp").expect("the image can be written");
            let examples = ["quickstart", "region", "group", "frames", "ticks"];
            let statuses = examples.map(|example| {
                println!("\n# {example}");
                run(&mut Command::new(format!("/{example}")))
            });
            statuses.into_iter().max().unwrap_or(0)
        }
        ["names", ..] => match perf::compare("/perf/perf", "/perf/nothing") {
            Ok((same, refused)) => {
                println!(
                    "names: {same} are what perf takes them for; it does not take {refused:?}"
                );
                i32::from(same < 60)
            }
            Err(why) => {
                println!("{why}");
                1
            }
        },
        ["doctor", _, facts @ ..] => {
            system::consult("/doctor", harness::Facts(facts).say("faults").is_some())
        }
        other => panic!("not a request: {other:?}"),
    };
    // `tests/vm/run` takes this as the exit status. Without it, the machine did not get here.
    println!("guest status {status}");
    system::power_off();
}

/// Prints the costs of the library and of those that are measured beside it. Returns 0 if all could be measured.
fn costs(facts: &[&str]) -> i32 {
    let ours = run(Command::new("/init").arg("cost").args(facts));
    let peers = Path::new("/peers");
    if peers.exists() { ours.max(run(&mut Command::new(peers))) } else { ours }
}

/// Returns the exit status of a program, 255 if it has none.
pub fn run(command: &mut Command) -> i32 {
    command.status().expect("the program is in the image").code().unwrap_or(255)
}
