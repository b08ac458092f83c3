//! Opens events on each thread of the process, while threads come and go.
//!
//! An event counts a thread, and all threads that it starts afterwards inherit the event. A thread that appears after the first
//! look has inherited its events if the thread that started it had them. The kernel does not tell which thread that was. So
//! nothing is opened on it, and the events are complete at a moment at which there is no other thread than those of the first
//! look. Whatever starts later is started by one of them.
#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::kernel::{self, Errno, Unreadable, threads};
use std::time::{Duration, Instant};

/// How long all attempts together may take, and how much longer for each thread: those that run share the CPUs.
const PATIENCE: Duration = Duration::from_secs(2);
const PATIENCE_EACH: Duration = Duration::from_millis(50);
/// How many refusals are not yet the answer.
const REFUSALS: u32 = 20;
/// How many times an attempt looks for the moment once all threads are settled, and the pause between two looks.
const LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_micros(100);
/// The system call that starts a thread takes less CPU time than this, in nanoseconds. It takes 10 to 50 microseconds. In a virtual
/// machine, the kernel may take time that the host used for CPU time.
const LONGEST_START: u64 = 2_000_000;

/// A thread that has the events.
struct Covered {
    thread: u32,
    /// Its CPU time when the events were open.
    time: u64,
    /// Whether it has since then been outside of the system call that starts a thread. A thread that is inside may already have
    /// passed on the events that it had before.
    is_settled: bool,
}

/// Calls `open` for each thread of the process, with 0 for the calling one. Returns what was opened.
///
/// # Errors
/// Those of `open`. [`ErrorKind::ThreadsKeepStarting`] if new threads were there at each moment, or one never settled.
pub(super) fn on_each<T>(mut open: impl FnMut(u32) -> Result<T, Error>) -> Result<Vec<T>, Error> {
    if !threads::are_numbered_here() {
        return Err(Error::new(
            ErrorKind::ProcOfAnotherNamespace,
            "/proc is of another PID namespace, and the threads that it lists cannot be opened",
            "Mount this namespace's own: `mount -t proc proc /proc`",
        ));
    }
    let own = kernel::thread_id();
    let begin = Instant::now();
    let mut refusals = 0;
    'attempts: loop {
        let threads = threads::listed()?;
        // If the calling thread cannot have the events, no thread can.
        let mut opened = vec![open(0)?];
        let mut covered = vec![Covered { thread: own, time: 0, is_settled: true }];
        for thread in threads.into_iter().filter(|thread| *thread != own) {
            match open(thread) {
                // Otherwise the number may be another process's by now.
                Ok(one) if kernel::thread_exists(thread) => opened.push(one),
                // It is ending. A main thread that has ended before the others stays in the list.
                Ok(_) => {}
                Err(error) if error.errno() == Some(Errno(kernel::ESRCH)) => {}
                Err(error) if error.is_of_the_process() || refusals == REFUSALS => {
                    return Err(error);
                }
                // If the thread starts another one while its group is opened, the kernel may exchange their events, and
                // refuses the rest of the group.
                Err(_) => {
                    refusals += 1;
                    continue 'attempts;
                }
            }
            let time = kernel::thread_time(thread);
            covered.push(Covered { thread, time, is_settled: false });
        }
        let threads = u32::try_from(covered.len()).unwrap_or(u32::MAX);
        let patience = PATIENCE.saturating_add(PATIENCE_EACH.saturating_mul(threads));
        let mut looks = 0..LOOKS;
        loop {
            let are_settled = settle(&mut covered);
            if are_settled && are_all(&covered)? {
                return Ok(opened);
            }
            if begin.elapsed() > patience {
                return Err(Error::new(
                    ErrorKind::ThreadsKeepStarting,
                    "for seconds, new threads of this process started all the time, or one of its threads did not run, \
                     and nothing shows which threads have inherited the counters",
                    "Open the counters before these threads start",
                ));
            }
            // Threads that stay will not go for waiting.
            if are_settled && looks.next().is_none() {
                break;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Notes which threads have settled. Returns whether all have.
fn settle(covered: &mut [Covered]) -> bool {
    for one in &mut *covered {
        // One that has ended has finished what it started.
        one.is_settled = one.is_settled
            || kernel::thread_time(one.thread).saturating_sub(one.time) >= LONGEST_START
            || threads::is_asleep(one.thread)
            || !kernel::thread_exists(one.thread);
    }
    covered.iter().all(|one| one.is_settled)
}

/// Whether there is no thread but these.
fn are_all(covered: &[Covered]) -> Result<bool, Unreadable> {
    let count = threads::count()?;
    // Those that exist now existed when all were counted.
    Ok(count == covered.iter().filter(|one| kernel::thread_exists(one.thread)).count())
}
