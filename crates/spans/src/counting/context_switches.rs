//! The number of a thread's context switches, without a system call while there are none.
#![allow(unsafe_code)]

// The C library registers an area of each thread with the kernel (rseq). A thread writes there the address of a critical
// section. Whenever the kernel has switched the thread out or delivers a signal, and the thread is not in that section, it
// clears the address before the thread goes on. Here, the section is one that no thread executes. So a cleared address
// tells of a switch or a signal, and only then a system call is made, to learn which.

use crate::counting::lost_time::LostTime;
use crate::counting::{rseq, sleep};
use crate::record::{Flags, Lost};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The context switches of a thread.
pub(crate) struct Switches {
    /// The address of the critical section, in the thread's area.
    section: *mut u64,
    /// The number of voluntary switches in the lower half, and of involuntary ones in the upper half.
    number: Cell<u64>,
    lost: LostTime,
}

impl Switches {
    /// Returns those of this thread. None if the C library has not registered an area, or the kernel refuses the numbers.
    ///
    /// Sleeps for a millisecond once in a process, because kernels since 6.19 may leave the address as it is.
    pub(crate) fn of_this_thread() -> Option<Switches> {
        const UNKNOWN: u32 = 0;
        const NONE: u32 = 1;
        const ALL: u32 = 2;
        static SEEN: AtomicU32 = AtomicU32::new(UNKNOWN);
        let switches =
            Switches { section: rseq::section()?, number: Cell::new(0), lost: LostTime::new() };
        if !switches.look() {
            return None;
        }
        if SEEN.load(Ordering::Relaxed) == UNKNOWN {
            SEEN.store(if switches.sees_a_wait() { ALL } else { NONE }, Ordering::Relaxed);
        }
        (SEEN.load(Ordering::Relaxed) == ALL).then_some(switches)
    }

    /// Whether the kernel clears the address of a thread that has waited. False if this thread cannot wait.
    fn sees_a_wait(&self) -> bool {
        let before = self.number.get();
        for _ in 0..10 {
            sleep(Duration::from_millis(1));
            // SAFETY: as in `number`.
            let is_cleared = unsafe { self.section.read_volatile() } != rseq::unused();
            if !self.look() || self.number.get() != before {
                return is_cleared;
            }
        }
        false
    }

    /// Returns a number that differs whenever the thread was switched out in between.
    #[inline(always)]
    pub(crate) fn number(&self) -> u64 {
        // SAFETY: the word is in this thread's area. Volatile, because the kernel writes it, too.
        if unsafe { self.section.read_volatile() } != rseq::unused() {
            self.look();
        }
        self.number.get()
    }

    /// Learns the numbers and the lost time, and returns whether the kernel tells them.
    #[cold]
    #[inline(never)]
    fn look(&self) -> bool {
        // A switch in the middle leaves the time of one moment and the number of another one. Each round is some microseconds,
        // so the second is rare.
        const ROUNDS: u32 = 4;
        for _ in 0..ROUNDS {
            // First, so that a later switch is seen.
            // SAFETY: as in `number`.
            unsafe { self.section.write_volatile(rseq::unused()) };
            let Some([waited, preempted]) = switches_of_this_thread() else { return false };
            self.lost.read(preempted);
            self.number.set(u64::from(waited) | u64::from(preempted) << 32);
            self.lost.keep(self.number.get());
            // SAFETY: as in `number`.
            if unsafe { self.section.read_volatile() } == rseq::unused() {
                break;
            }
        }
        true
    }

    /// Returns the time that a span of this many nanoseconds has lost between two numbers. None if it is not known.
    pub(crate) fn lost(&self, start: u64, end: u64, span: u64) -> Option<Lost> {
        self.lost.between(start, end, span)
    }

    /// Returns the flags of the switches between two numbers.
    pub(crate) fn causes(start: u64, end: u64) -> Flags {
        let mut flags = Flags::NONE;
        if start as u32 != end as u32 {
            flags = flags.union(Flags::WAITED);
        }
        if start >> 32 != end >> 32 {
            flags = flags.union(Flags::PREEMPTED);
        }
        flags
    }
}

/// Returns the numbers of voluntary and of involuntary switches. None if the kernel refuses them.
#[cfg(target_os = "linux")]
fn switches_of_this_thread() -> Option<[u32; 2]> {
    // SAFETY: zeros are a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes a rusage.
    let failed = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) } != 0;
    (!failed).then(|| [usage.ru_nvcsw, usage.ru_nivcsw].map(|number| number as u32))
}

#[cfg(not(target_os = "linux"))]
fn switches_of_this_thread() -> Option<[u32; 2]> {
    None
}
