//! Runs scenarios, each in a process of its own, and prints a line for each.

use rdpmc::error::{Disturbed, ErrorKind, ReadError};
use rdpmc_testing::attacks::Share;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Why a scenario did not pass.
pub enum Stop {
    Failed(String),
    /// This target cannot show it, for this reason.
    Skipped(String),
}

pub type Outcome = Result<(), Stop>;

/// What `tests/vm/targets` states about the machine, each `NAME=VALUE`.
pub struct Facts<'a>(pub &'a [&'a str]);

impl Facts<'_> {
    /// Returns the value of a fact, if it is stated. The first one of a name applies.
    pub fn say(&self, name: &str) -> Option<&str> {
        self.0.iter().find_map(|fact| fact.strip_prefix(name)?.strip_prefix('='))
    }

    /// Returns whether the machine has no PMU on purpose.
    pub fn say_no_pmu(&self) -> bool {
        self.say("pmu") == Some("none")
    }

    /// Returns the number that a fact states, if it is stated.
    pub fn number(&self, name: &str) -> Option<u64> {
        Some(self.say(name)?.parse().expect("a number"))
    }

    /// Returns which trials of a long walk this machine makes. All, if no fact states a share.
    pub fn share(&self) -> Share {
        let Some(share) = self.say("share") else { return Share::WHOLE };
        let (number, of) = share.split_once('/').expect("NUMBER/OF");
        let parse = |number: &str| number.parse::<usize>().expect("a number");
        Share { number: parse(number) - 1, of: parse(of) }
    }
}

/// Whether the CPU counts an instruction for each interrupt, as silicon does.
static INTERRUPTS_COUNT: AtomicBool = AtomicBool::new(false);

/// Stores what the facts state about all counts.
pub fn know(facts: &[&str]) {
    INTERRUPTS_COUNT.store(Facts(facts).say("interrupts") == Some("counted"), Relaxed);
}

/// Returns the number of samples that contain one without an interrupt, for work shorter than a tick.
pub fn samples(is_unfiltered: bool) -> u32 {
    match (is_unfiltered, INTERRUPTS_COUNT.load(Relaxed)) {
        (true, _) => 100,
        (false, true) => 20,
        (false, false) => 1,
    }
}

/// Returns how many instructions interrupts may add to work that is much shorter than a tick.
pub fn slack() -> u64 {
    if INTERRUPTS_COUNT.load(Relaxed) { 2 } else { 0 }
}

/// Fails the scenario unless the two are as close as interrupts permit.
pub fn near(what: &str, one: i64, other: i64) -> Outcome {
    require(one.abs_diff(other) <= slack(), || format!("{what} is {one}, should be {other}"))
}

pub struct Scenario {
    pub name: &'static str,
    pub run: fn(&Facts) -> Outcome,
}

impl From<rdpmc::Error> for Stop {
    fn from(error: rdpmc::Error) -> Stop {
        match error.kind() {
            ErrorKind::NoPmu { .. } => Stop::Skipped("no PMU".into()),
            _ => Stop::Failed(format!("{error:?}")),
        }
    }
}

/// The errors that the library's operations return.
macro_rules! from_errors {
    ($($error:ty)*) => {
        $(impl From<$error> for Stop {
            fn from(error: $error) -> Stop {
                rdpmc::Error::from(error).into()
            }
        })*
    };
}
from_errors!(ReadError Disturbed);

/// Fails the scenario unless the error is of this kind, and its message has these words.
pub fn says(what: &str, error: &rdpmc::Error, kind: ErrorKind, words: &str) -> Outcome {
    require(error.kind() == kind && error.to_string().contains(words), || {
        format!("{what} is {error:?}, should be {kind:?} with {words:?}")
    })
}

/// Fails the scenario unless reads are system calls for a reason of this kind, and its message has these words.
pub fn by_system_call(what: &str, access: &rdpmc::Access, kind: ErrorKind, words: &str) -> Outcome {
    match access {
        rdpmc::Access::SystemCall(why) => says(what, why, kind, words),
        other => Err(Stop::Failed(format!("{what} is {other:?}, should be {kind:?}"))),
    }
}

impl From<String> for Stop {
    fn from(why: String) -> Stop {
        Stop::Failed(why)
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stop::Failed(why) => f.write_str(why),
            Stop::Skipped(why) => write!(f, "skipped, {why}"),
        }
    }
}

/// Fails the scenario with both values unless they are equal.
pub fn equal<T: PartialEq + std::fmt::Debug>(what: &str, is: T, should: T) -> Outcome {
    require(is == should, || format!("{what} is {is:?}, should be {should:?}"))
}

/// Fails the scenario unless the condition holds.
pub fn require(holds: bool, why: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(Stop::Failed(why())) }
}

/// Skips the scenario.
pub fn skip(why: impl Into<String>) -> Outcome {
    Err(Stop::Skipped(why.into()))
}

const PASSED: u8 = 0;
const FAILED: u8 = 1;
const SKIPPED: u8 = 77;

/// Runs one scenario in this process. The reason, if any, goes to standard output.
pub fn run_here(scenarios: &[Scenario], name: &str, facts: &[&str]) -> ExitCode {
    let scenario = scenarios.iter().find(|scenario| scenario.name == name).expect("it exists");
    know(facts);
    // A scenario that hangs ends by itself, in the guest's time, so that its name is known.
    patience(60);
    ExitCode::from(report((scenario.run)(&Facts(facts))))
}

/// Ends this process if the scenario takes longer than this from now on.
pub fn patience(seconds: u32) {
    // SAFETY: alarm takes a number.
    unsafe { libc::alarm(seconds) };
}

/// Prints the reason, if there is one, and returns the exit status for it.
pub fn report(outcome: Outcome) -> u8 {
    match outcome {
        Ok(()) => PASSED,
        Err(Stop::Failed(why)) => {
            println!("{why}");
            FAILED
        }
        Err(Stop::Skipped(why)) => {
            println!("{why}");
            SKIPPED
        }
    }
}

/// Runs all scenarios. Returns 0 if none failed.
pub fn run_all(scenarios: &[Scenario], target: &str, facts: &[&str]) -> i32 {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for scenario in scenarios {
        let output = Command::new("/init")
            .args(["scenario", scenario.name])
            .args(facts)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .expect("this very program starts");
        let said = String::from_utf8_lossy(&output.stdout);
        let said = said.trim().replace('\n', "; ");
        let result = match output.status.code() {
            Some(code) if code == i32::from(PASSED) => {
                passed += 1;
                if said.is_empty() { "ok".to_owned() } else { format!("ok ({said})") }
            }
            Some(code) if code == i32::from(SKIPPED) => {
                skipped += 1;
                format!("skipped ({said})")
            }
            _ => {
                failed += 1;
                format!("FAILED ({}) {said}", output.status)
            }
        };
        println!("test {} ... {result}", scenario.name);
    }
    println!("vm {target}: {passed} passed, {failed} failed, {skipped} skipped");
    i32::from(failed > 0)
}
