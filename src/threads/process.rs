//! Opens events on each thread of the process, while threads come and go.
//!
//! An event counts a thread, and all threads that it starts afterwards inherit the event. A thread that appears after the first
//! look has inherited its events if the thread that started it had them. The kernel does not tell which thread that was. So
//! nothing is opened on it, and the events are complete at a moment at which there is no other thread than those of the first
//! look. Whatever starts later is started by one of them.
#![forbid(unsafe_code)]

use crate::error::OpenError;
use crate::kernel::{self, Errno, Unreadable, threads};
use std::time::Duration;

/// How often the events are opened anew.
const PASSES: u32 = 20;
/// How many times a pass waits for the moment, and how long.
const LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_micros(100);
/// The system call that starts a thread takes less CPU time than this, in nanoseconds.
const LONGEST_START: u64 = 1_000_000;

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
/// Those of `open`. [`OpenError::ThreadsKeepStarting`] if new threads were there at each moment.
pub(super) fn on_each<T>(
    mut open: impl FnMut(u32) -> Result<T, OpenError>,
) -> Result<Vec<T>, OpenError> {
    let own = kernel::thread_id();
    let mut refusal = OpenError::ThreadsKeepStarting;
    'passes: for _ in 0..PASSES {
        let threads = threads::listed()?;
        // If the calling thread cannot have the events, no thread can.
        let mut opened = vec![open(0)?];
        let mut covered = vec![Covered { thread: own, time: 0, is_settled: true }];
        for thread in threads.into_iter().filter(|thread| *thread != own) {
            match open(thread) {
                Ok(one) => opened.push(one),
                // It is ending. A main thread that has ended before the others stays in the list.
                Err(OpenError::System { errno: Errno(kernel::ESRCH), .. }) => {}
                Err(error) if error.is_of_the_process() => return Err(error),
                // If the thread starts another one while its group is opened, the kernel may exchange their events, and
                // refuses the rest of the group.
                Err(error) => {
                    refusal = error;
                    continue 'passes;
                }
            }
            let time = kernel::thread_time(thread);
            covered.push(Covered { thread, time, is_settled: false });
        }
        for _ in 0..LOOKS {
            if are_all(&mut covered)? {
                return Ok(opened);
            }
            std::thread::sleep(PAUSE);
        }
        refusal = OpenError::ThreadsKeepStarting;
    }
    Err(refusal)
}

/// Whether there is no thread but these.
fn are_all(covered: &mut [Covered]) -> Result<bool, Unreadable> {
    for one in &mut *covered {
        // One that has ended has finished what it started.
        one.is_settled = one.is_settled
            || kernel::thread_time(one.thread).saturating_sub(one.time) >= LONGEST_START
            || threads::is_asleep(one.thread)
            || !kernel::thread_exists(one.thread);
    }
    let count = threads::count()?;
    // Those that exist now existed when all were counted.
    let exist = covered.iter().filter(|one| kernel::thread_exists(one.thread)).count();
    Ok(count == exist && covered.iter().all(|one| one.is_settled))
}
