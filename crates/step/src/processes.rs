//! This program once more, in other processes.
//!
//! A count can depend on the addresses of the stack and the heap, on the environment, and on random seeds. All of these are constant within
//! a process. So a benchmark starts its own program again, and each process counts for itself:
//!
//! ```no_run
//! use rdpmc_step::processes::{Wanted, asked};
//! use std::time::Duration;
//!
//! # fn count() -> String { String::new() }
//! if let Some(question) = asked("parse") {
//!     question.answer(&count()) // ends this process
//! }
//! let arguments = std::env::args_os().skip(1).collect();
//! let wanted = Wanted { question: "parse", number: 7, arguments, time: Duration::from_secs(1) };
//! for answer in wanted.ask() {
//!     println!("{answer:?}");
//! }
//! ```

use std::ffi::OsString;
use std::fmt;
use std::fs;
#[cfg(unix)]
use std::io::Read;
use std::io::{ErrorKind, Write, stdout};
use std::mem::take;
#[cfg(unix)]
use std::os::fd::OwnedFd;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The environment variable of a process that was started to answer.
const VARIABLE: &str = "RDPMC_STEP_AGAIN";

/// What comes before an answer, in a line of its own.
const ANSWER: &str = "rdpmc-step-answer:";

/// A process that writes more than this has no answer.
const MAX_OUTPUT: u64 = 64 << 20;

/// The size of the variable grows by this with each process: a page in eight of them, and a multiple of 16. So the stacks differ in their last
/// 12 bits, also where the kernel places all of them at one address.
const MORE_ENVIRONMENT: usize = 4096 / 8 + 16;

/// The least time that a process has for its answer.
const MIN_PATIENCE: Duration = Duration::from_secs(20);

/// A process has as many times the age of the one that asks.
const PATIENCE: u32 = 4;

/// Other programs can stretch the time for an answer by this factor.
const STRETCH: u32 = 8;

/// Why a process did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoAnswer {
    /// It could not be started, for this reason.
    NotStarted(String),
    /// It ended before it was asked.
    Ended {
        /// What the system says of its end.
        status: String,
    },
    /// It did not answer in this time, and was killed.
    TooSlow(Duration),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAnswer::NotStarted(why) => {
                write!(f, "this program could not be started again: {why}")
            }
            NoAnswer::Ended { status } => {
                write!(f, "this program was started again and ended before this code ({status})")
            }
            NoAnswer::TooSlow(time) => write!(
                f,
                "this program was started again and did not answer in {} s",
                time.as_secs()
            ),
        }
    }
}

impl std::error::Error for NoAnswer {}

/// Processes of this program, and what they are to answer.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// What they are asked: a word or more, in one line.
    pub question: &'a str,
    /// The number of processes.
    pub number: u32,
    /// Their arguments, without the name of the program.
    pub arguments: Vec<OsString>,
    /// The CPU time that each of them takes for its answer, at most.
    pub time: Duration,
}

/// What a process wrote.
#[derive(Clone, Debug, Default)]
struct Output {
    answer: Option<String>,
    /// The lines before it.
    lines: Vec<String>,
}

impl Wanted<'_> {
    /// Starts the processes, some at a time, and returns their answers. Each has a different number and size of environment variables. Their
    /// standard input is empty, and their other output is discarded. If one is too slow, no more are started.
    ///
    /// A process has at least 20 seconds to come to its answer, and four times the age of this process. For the answer, it has eight times
    /// [`time`](Wanted::time), because other programs use the CPU, too.
    pub fn ask(&self) -> Vec<Result<String, NoAnswer>> {
        let patience = patience().saturating_add(self.time.saturating_mul(STRETCH));
        let is_in_vain = AtomicBool::new(false);
        let next = AtomicU32::new(1);
        let at_a_time = thread::available_parallelism().map_or(1, usize::from);
        let at_a_time = at_a_time.min(self.number as usize);
        thread::scope(|scope| {
            let work = || {
                let numbers = std::iter::from_fn(|| Some(next.fetch_add(1, Relaxed)));
                // A program that waits for a lock does so in each process.
                let numbers = numbers
                    .take_while(|number| *number <= self.number && !is_in_vain.load(Relaxed));
                let answer = |number| {
                    let answer = self.answer(number, patience);
                    is_in_vain.fetch_or(matches!(answer, Err(NoAnswer::TooSlow(_))), Relaxed);
                    answer
                };
                numbers.map(answer).collect::<Vec<_>>()
            };
            // If no thread can be started, this one does all.
            let worker = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
            let workers: Vec<_> = (1..at_a_time).filter_map(worker).collect();
            let mut answers = work();
            answers.extend(workers.into_iter().filter_map(|worker| worker.join().ok()).flatten());
            answers
        })
    }

    /// Starts one process, which is not asked, and returns the lines that it writes to its standard output.
    ///
    /// # Errors
    /// See [`NoAnswer`]. An answer is an error, too: the process came to code that it should not have run.
    pub fn lines(&self) -> Result<Vec<String>, NoAnswer> {
        let mut running = self.start(0)?;
        let output = running.output(patience())?;
        // A list that ends half-way is none.
        if output.answer.is_none() && !running.has_ended_well() {
            return Err(running.ended());
        }
        match output {
            Output { answer: None, lines } => Ok(lines),
            Output { answer: Some(_), .. } => {
                Err(NoAnswer::Ended { status: "it runs other code than it was told".into() })
            }
        }
    }

    fn answer(&self, number: u32, patience: Duration) -> Result<String, NoAnswer> {
        let mut running = self.start(number)?;
        let output = running.output(patience)?;
        let Some(answer) = output.answer else { return Err(running.ended()) };
        // Its functions for the end of a process may still run.
        running.has_ended_well();
        Ok(answer)
    }

    fn start(&self, number: u32) -> Result<Running, NoAnswer> {
        // Two generations would be one too many, and the system has to tell a process which it is.
        if is_among_them() || initial_variable().is_err() {
            let why = "it was started in this way itself, or /proc cannot be read";
            return Err(NoAnswer::NotStarted(why.into()));
        }
        let program = program().map_err(|why| NoAnswer::NotStarted(why.to_string()))?;
        let mut command = Command::new(program);
        #[cfg(unix)]
        if let Some(name) = std::env::args_os().next() {
            std::os::unix::process::CommandExt::arg0(&mut command, name);
        }
        let padding = ".".repeat(MORE_ENVIRONMENT * (number % 8) as usize);
        let question = format!("{} {number} {}\n{padding}", std::process::id(), self.question);
        command.args(&self.arguments).env(VARIABLE, question);
        // Before the others, which are sorted.
        for place in 0..number % 8 {
            command.env(format!("A{place}_{VARIABLE}"), "");
        }
        let not_started = |why: std::io::Error| NoAnswer::NotStarted(why.to_string());
        let (output, theirs) = OutputOf::new().map_err(not_started)?;
        command.stdin(Stdio::null()).stdout(theirs).stderr(Stdio::null());
        let child = command.spawn().map_err(not_started)?;
        Ok(Running { child, output })
    }
}

/// Returns the path of this program, also if its file was replaced.
fn program() -> std::io::Result<std::path::PathBuf> {
    let this = std::path::Path::new("/proc/self/exe");
    if this.exists() { Ok(this.to_owned()) } else { std::env::current_exe() }
}

/// A process, which is killed if nobody waits for it any more.
struct Running {
    child: Child,
    output: OutputOf,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Usually it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Waits for the answer, or for the end of the output. No thread does it: one that ends late would be among the other threads of the next
    /// measurement.
    fn output(&mut self, patience: Duration) -> Result<Output, NoAnswer> {
        let begun = Instant::now();
        let (mut output, mut all, mut rest) = (Output::default(), 0, Vec::new());
        let mut chunk = [0; 4096];
        loop {
            let left = patience.saturating_sub(begun.elapsed());
            let read = match left.is_zero() {
                true => Err(ErrorKind::TimedOut.into()),
                // Zero is no time for the system.
                false => self.output.read(&mut chunk, left.max(Duration::from_millis(1))),
            };
            let count = match read {
                Ok(count) if count > 0 && all < MAX_OUTPUT => count,
                // The end. It comes with that of the process, or with that of the last one which has inherited the output.
                Ok(_) => {
                    if !rest.is_empty() {
                        output.add(&rest);
                    }
                    return Ok(output);
                }
                Err(why) if why.kind() == ErrorKind::Interrupted => continue,
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(NoAnswer::TooSlow(patience));
                }
                Err(_) => return Ok(output),
            };
            all += count as u64;
            for part in
                chunk.get(..count).unwrap_or_default().split_inclusive(|byte| *byte == b'\n')
            {
                rest.extend_from_slice(part.strip_suffix(b"\n").unwrap_or(part));
                if part.ends_with(b"\n") {
                    output.add(&take(&mut rest));
                }
                if output.answer.is_some() {
                    return Ok(output);
                }
            }
        }
    }

    /// Waits for its end, for a second at most. Whether its status is 0.
    fn has_ended_well(&mut self) -> bool {
        for _ in 0..500 {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.success(),
                Ok(None) => thread::sleep(Duration::from_millis(2)),
                Err(_) => return false,
            }
        }
        false
    }

    fn ended(&mut self) -> NoAnswer {
        // A process that has closed its output may go on.
        let _ = self.child.kill();
        let status =
            self.child.wait().map_or_else(|why| why.to_string(), |status| status.to_string());
        NoAnswer::Ended { status }
    }
}

impl Output {
    /// Adds a line.
    fn add(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line).into_owned();
        match line.strip_prefix(ANSWER) {
            Some(answer) => self.answer = Some(answer.to_owned()),
            None => self.lines.push(line),
        }
    }
}

/// The standard output of a process, which is read with a time limit.
#[cfg(unix)]
struct OutputOf(UnixStream);

#[cfg(unix)]
impl OutputOf {
    /// Returns both ends.
    fn new() -> std::io::Result<(OutputOf, Stdio)> {
        let (ours, theirs) = UnixStream::pair()?;
        Ok((OutputOf(ours), OwnedFd::from(theirs).into()))
    }

    fn read(&mut self, to: &mut [u8], limit: Duration) -> std::io::Result<usize> {
        self.0.set_read_timeout(Some(limit))?;
        self.0.read(to)
    }
}

/// No other system tells a process that it was started to answer.
#[cfg(not(unix))]
struct OutputOf;

#[cfg(not(unix))]
impl OutputOf {
    fn new() -> std::io::Result<(OutputOf, Stdio)> {
        Err(ErrorKind::Unsupported.into())
    }

    fn read(&mut self, _: &mut [u8], _: Duration) -> std::io::Result<usize> {
        Ok(0)
    }
}

/// Returns the variable as it was when this process began, also if the program has removed it. None if it was not set.
///
/// # Errors
/// The system does not tell.
fn initial_variable() -> std::io::Result<Option<String>> {
    let all = fs::read("/proc/self/environ")?;
    let prefix = format!("{VARIABLE}=");
    let mut variables = all.split(|byte| *byte == 0);
    let found = variables.find_map(|variable| variable.strip_prefix(prefix.as_bytes()));
    Ok(found.map(|value| String::from_utf8_lossy(value).into_owned()))
}

/// Whether this process was started to answer, or by a process that was.
fn is_among_them() -> bool {
    std::env::var_os(VARIABLE).is_some() || initial_variable().is_ok_and(|value| value.is_some())
}

/// Ends this process if nobody waits for it any more: if the process that asked has ended, or if it did not ask this one but its parent. Such a
/// process must not measure: it would start others, and replace what the program has saved.
pub fn end_if_stray() {
    let said = std::env::var(VARIABLE).ok().or_else(|| initial_variable().ok().flatten());
    if let Some(said) = said {
        let asker = said.split(' ').next().and_then(|number| number.parse::<u32>().ok());
        if asker.is_none() || asker != parent() {
            std::process::exit(0);
        }
    }
}

/// A question to this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    text: String,
    number: u32,
}

/// Returns what this process was asked, if the question begins with this word. None if it was not started by [`Wanted::ask`].
pub fn asked(word: &str) -> Option<Question> {
    let said = std::env::var(VARIABLE).ok().or_else(|| initial_variable().ok().flatten())?;
    let (mut parts, parent) = (said.split('\n').next()?.splitn(3, ' '), parent()?);
    // A process that this one starts has the variable, too.
    if parts.next()?.parse() != Ok(parent) {
        return None;
    }
    let number = parts.next()?.parse().ok()?;
    let text = parts.next()?;
    let is_asked = text.split(' ').next() == Some(word);
    is_asked.then(|| Question { text: text.to_owned(), number })
}

impl Question {
    /// Returns the words after the first one.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.text.split(' ').skip(1)
    }

    /// Leaves the heap in a different state in each process: with a few more blocks in use, and gaps between them.
    pub fn use_heap(&self) {
        let mut random = u64::from(self.number).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for _ in 0..self.number {
            // Marsaglia's xorshift.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let block = |size: u64| Vec::<u8>::with_capacity(size as usize % 256 + 1);
            let (kept, freed) = (block(random), block(random >> 16));
            std::mem::forget(kept);
            drop(freed);
        }
    }

    /// Answers with one line, and ends this process, as `std::process::exit` does: values of `main` are not dropped.
    pub fn answer(&self, line: &str) -> ! {
        let mut output = stdout().lock();
        // What the program has written may be the first half of a line.
        let written = writeln!(output, "\n{ANSWER}{}", line.replace('\n', " "));
        let _ = written.and_then(|()| output.flush());
        drop(output);
        std::process::exit(0)
    }
}

#[cfg(unix)]
fn parent() -> Option<u32> {
    Some(std::os::unix::process::parent_id())
}

#[cfg(not(unix))]
fn parent() -> Option<u32> {
    None
}

/// Returns how long a process may take.
fn patience() -> Duration {
    age().map_or(MIN_PATIENCE, |age| age.saturating_mul(PATIENCE).max(MIN_PATIENCE))
}

/// Returns how long ago this process was started. None without `/proc`.
fn age() -> Option<Duration> {
    // In all of the kernel's files, a second has 100 ticks.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may have spaces.
    let start = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse::<f64>().ok()? / TICKS;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let now = uptime.split_whitespace().next()?.parse::<f64>().ok()?;
    Duration::try_from_secs_f64(now - start).ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_this_process() {
        let age = age().unwrap_or(Duration::MAX);
        assert!(age < Duration::from_secs(24 * 3_600), "{age:?}");
        assert!(patience() >= MIN_PATIENCE);
    }

    #[test]
    fn nobody_has_asked() {
        assert_eq!(asked("parse"), None);
    }
}
