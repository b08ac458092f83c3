//! The connection to `rdpmc-bench compare`, which decides when this program takes a sample.

// Lines of text. The program begins with the names of its rows as JSON, and waits for `go`. Each time that it is ready
// for samples of all its tasks, it says `ready` and how many it wants of each. Then it answers `take TASK PASS` with 1
// if it needs no more samples of that task, otherwise with 0, until `end`. Its last line has what it measured, as JSON.
//
// The measured code may start other programs that measure. They inherit the variables, and have to measure alone. So
// each program has two sockets:
// - Its own is for the process that the leader started, which knows by its parent that it is this one.
// - The first process that connects to the other one was started by a script. The leader then removes this socket, and
//   the process connects to the program's own socket for further runs.

use crate::judging::comparison::Measured;
use crate::judging::estimate::Estimate;
use crate::judging::row::{Figure, Quantity};
use crate::judging::verdict::{Cause, Verdict};
use crate::output::table::word;
use rdpmc::{IntoEvent, Scope};
use rdpmc_report::gate::STEPPED_INSTRUCTIONS;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

#[cfg(unix)]
pub(crate) type Stream = std::os::unix::net::UnixStream;
/// Nothing connects without Unix sockets.
#[cfg(not(unix))]
pub(crate) type Stream = std::net::TcpStream;

/// The variable with the path of the leader's socket for the first program that connects.
pub(crate) const VARIABLE: &str = "RDPMC_BENCH_LEADER";
/// The variable with the leader's process.
#[cfg_attr(not(unix), allow(dead_code, reason = "no program leads others there"))]
pub(crate) const PROCESS: &str = "RDPMC_BENCH_LEADER_PID";
/// The version of the protocol. Both programs must have it.
pub(crate) const VERSION: u64 = 2;
/// What the leader says to a program that it has accepted.
pub(crate) const GO: &str = "go";

/// The process that connected to the first socket, or is about to: 0 before, [`REFUSED`] if that socket is gone. In a
/// fork, it is still the parent.
static ACCEPTED: AtomicU32 = AtomicU32::new(0);
/// Not the id of a process.
const REFUSED: u32 = u32::MAX;

/// The longest line that is read: results of some hundred rows.
const MAX_LINE: u64 = 256 << 20;

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Lines(BufReader<Stream>);

impl Lines {
    pub(crate) fn new(stream: Stream) -> Lines {
        Lines(BufReader::new(stream))
    }

    /// None if the other program has ended.
    pub(crate) fn read(&mut self) -> Option<String> {
        let mut line = String::new();
        let length = self.0.by_ref().take(MAX_LINE).read_line(&mut line).ok()?;
        (length > 0 && line.pop() == Some('\n')).then_some(line)
    }

    /// None if the other program has ended.
    pub(crate) fn write(&mut self, line: &str) -> Option<()> {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).ok()
    }
}

/// The connection of this program.
#[derive(Debug)]
pub(crate) struct Leader(Lines);

impl Leader {
    /// Connects, and sends the names of the tasks, the number of rounds, and the names of rows that have no task. None if this program was not
    /// started by `rdpmc-bench compare`, or was started by a program that measures.
    pub(crate) fn of_this_process(
        names: &[Option<&str>],
        rounds: usize,
        without_inputs: &[&str],
        scope: Scope,
    ) -> Option<Leader> {
        let path = PathBuf::from(std::env::var_os(VARIABLE)?);
        let process = std::process::id();
        let hello = json!({
            "version": VERSION,
            "process": process,
            "names": names,
            "rounds": rounds,
            "without_inputs": without_inputs,
            "counts_all_threads": scope == Scope::Process,
        });
        let connected = |path: &Path| {
            let mut lines = Lines::new(connect(path).ok()?);
            lines.write(&hello.to_string())?;
            (lines.read()? == GO).then_some(Leader(lines))
        };
        if is_child_of_leader() {
            return connected(&own_socket(&path));
        }
        match ACCEPTED.compare_exchange(0, process, Relaxed, Relaxed) {
            Ok(_) => {
                let leader = connected(&path);
                if leader.is_none() {
                    ACCEPTED.store(REFUSED, Relaxed);
                }
                leader
            }
            Err(accepted) if accepted == process => connected(&own_socket(&path)),
            Err(_) => None,
        }
    }

    /// Takes samples as the leader says. `wanted` has the number of samples of each task. `take` gets the place of a
    /// task and the number of the pass, and returns whether it needs no more of that task. If the leader has ended,
    /// there are no samples.
    pub(crate) fn follow(&mut self, wanted: &[usize], mut take: impl FnMut(usize, u32) -> bool) {
        let wanted: Vec<String> = wanted.iter().map(usize::to_string).collect();
        self.0.write(&format!("ready {}", wanted.join(" ")));
        while let Some(line) = self.0.read() {
            let mut words = line.split(' ');
            let (Some("take"), Some(task), Some(pass)) = (words.next(), words.next(), words.next())
            else {
                break;
            };
            let (Ok(task), Ok(pass)) = (task.parse(), pass.parse()) else { break };
            self.0.write(if take(task, pass) { "1" } else { "0" });
        }
    }

    /// Sends what was measured.
    pub(crate) fn end<'a>(mut self, tasks: impl Iterator<Item = &'a [Measured]>) {
        let all = tasks.map(|measured| measured.iter().map(as_json).collect::<Vec<Value>>());
        self.0.write(&Value::from(all.map(Value::from).collect::<Vec<Value>>()).to_string());
    }
}

#[cfg(unix)]
fn connect(path: &Path) -> io::Result<Stream> {
    Stream::connect(path)
}

#[cfg(not(unix))]
fn connect(_: &Path) -> io::Result<Stream> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(unix)]
fn is_child_of_leader() -> bool {
    let parent = std::os::unix::process::parent_id();
    std::env::var(PROCESS).is_ok_and(|leader| leader == parent.to_string())
}

#[cfg(not(unix))]
fn is_child_of_leader() -> bool {
    false
}

/// Returns the socket for the program that the leader started or has accepted. `path` is the one for the first program.
pub(crate) fn own_socket(path: &Path) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(".own");
    path.into()
}

fn as_json(measured: &Measured) -> Value {
    let Measured { figure: Figure { quantity, estimate, verdict }, costs } = measured;
    let encoding = match quantity {
        Quantity::Event(event) => event.encoding(),
        other => other.to_string(),
    };
    json!({
        "quantity": encoding,
        "name": quantity.to_string(),
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "verdict": match verdict {
            Verdict::Unstable(Cause::Varies | Cause::Frequency { .. }) => "varies",
            Verdict::Unstable(Cause::OtherThreads { .. }) => "other threads",
            verdict => word(verdict),
        },
        "percent": match verdict {
            Verdict::Unstable(Cause::OtherThreads { percent, .. }) => Some(percent),
            _ => None,
        },
        // One process.
        "costs": costs.concat(),
    })
}

/// Reads what [`Leader::end`] sent, for each task. None if it is not that.
#[cfg_attr(not(unix), allow(dead_code, reason = "no program leads others there"))]
pub(crate) fn measured(line: &str) -> Option<Vec<Vec<Measured>>> {
    let json: Value = serde_json::from_str(line).ok()?;
    let task = |task: &Value| task.as_array()?.iter().map(of_json).collect();
    json.as_array()?.iter().map(task).collect()
}

#[cfg_attr(not(unix), allow(dead_code, reason = "no program leads others there"))]
fn of_json(json: &Value) -> Option<Measured> {
    let quantity = match json.get("quantity")?.as_str()? {
        "ns" => Quantity::Time,
        STEPPED_INSTRUCTIONS => Quantity::SteppedInstructions,
        encoding => {
            let event = encoding.into_event().ok()?;
            // The one that the leader's program has given.
            Quantity::Event(match json.get("name").and_then(Value::as_str) {
                Some(name) => event.named(name),
                None => event,
            })
        }
    };
    // An end that is not known is null.
    let end = |name: &str, unknown: f64| json.get(name).and_then(Value::as_f64).unwrap_or(unknown);
    let estimate = Estimate {
        value: json.get("value")?.as_f64()?,
        low: end("low", f64::NEG_INFINITY),
        high: end("high", f64::INFINITY),
    };
    let verdict = match json.get("verdict")?.as_str()? {
        "exact" => Verdict::Exact,
        "stable" => Verdict::Stable,
        "range" => Verdict::Range,
        "varies" => Verdict::Unstable(Cause::Varies),
        "other threads" => Verdict::Unstable(Cause::OtherThreads {
            percent: json.get("percent")?.as_f64()?,
            is_stepped: quantity == Quantity::SteppedInstructions,
        }),
        // Which of the others it is makes no difference.
        _ => Verdict::Unstable(Cause::Unreadable),
    };
    let cost = |cost: &Value| {
        let pass = cost.get(0)?.as_u64()?;
        Some((u32::try_from(pass).ok()?, cost.get(1)?.as_f64()?))
    };
    let costs = json.get("costs")?.as_array()?.iter().map(cost).collect::<Option<_>>()?;
    Some(Measured { figure: Figure { quantity, estimate, verdict }, costs: vec![costs] })
}
