//! How long a thread was not on a CPU, and how long it was ready to run meanwhile.
#![allow(unsafe_code)]

use crate::record::Lost;
use std::cell::Cell;

/// Sums since an unknown time in the past. Only their differences mean something.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// The number of switches at which these were read. 0 is that of an unused place, or of a thread without a switch.
    number: u64,
    off_cpu: u64,
    runnable: Option<u64>,
}

/// The places of the history: a power of two.
const PLACES: usize = 256;

/// Sums at the latest switches of a thread.
pub(super) struct LostTime {
    history: Box<[Cell<Sums>]>,
    latest: Cell<Sums>,
    /// The time off the CPU at which `runnable` was last read.
    read_at: Cell<u64>,
}

impl LostTime {
    pub(super) fn new() -> LostTime {
        LostTime {
            history: (0..PLACES).map(|_| Cell::default()).collect(),
            latest: Cell::default(),
            read_at: Cell::new(0),
        }
    }

    fn place(&self, number: u64) -> Option<&Cell<Sums>> {
        // The sum of both kinds of switches grows by one with each.
        let switches = (number as u32).wrapping_add((number >> 32) as u32);
        self.history.get(switches as usize % PLACES)
    }

    /// Reads the sums of this moment: after each switch, as soon as the thread knows of it.
    ///
    /// The kernel's file takes microseconds, so it is read once the thread has been off the CPU for `ENOUGH` since the last time.
    pub(super) fn read(&self) {
        const ENOUGH: u64 = 100_000;
        let Some((now, on_cpu)) = now_and_on_cpu() else { return };
        let off_cpu = now.wrapping_sub(on_cpu);
        let mut sums = Sums { off_cpu, ..self.latest.get() };
        if off_cpu.wrapping_sub(self.read_at.get()) >= ENOUGH {
            sums.runnable = runnable();
            self.read_at.set(off_cpu);
        }
        self.latest.set(sums);
    }

    /// Keeps the sums that were read last, for this number of switches.
    pub(super) fn keep(&self, number: u64) {
        let sums = Sums { number, ..self.latest.get() };
        self.latest.set(sums);
        self.place(number).into_iter().for_each(|place| place.set(sums));
    }

    /// Returns the time between two numbers of switches. None if the first one is too long ago.
    pub(super) fn between(&self, start: u64, end: u64) -> Option<Lost> {
        let [from, to] = [start, end].map(|number| {
            let sums = self.place(number)?.get();
            (sums.number == number && sums.off_cpu != 0).then_some(sums)
        });
        let (from, to) = (from?, to?);
        let off_cpu = to.off_cpu.saturating_sub(from.off_cpu);
        let runnable = to.runnable.zip(from.runnable);
        let runnable = runnable.map(|(to, from)| to.saturating_sub(from).min(off_cpu));
        Some(Lost { off_cpu, runnable })
    }
}

/// Returns the time, and how much of it this thread was on a CPU, in nanoseconds. By system calls: the C library reads the tick
/// counter, which this thread may not be allowed to read.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn now_and_on_cpu() -> Option<(u64, u64)> {
    let read = |clock: libc::clockid_t| {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes a timespec, which has 64-bit fields here.
        let failed = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) } != 0;
        let [seconds, nanoseconds] = [time.tv_sec, time.tv_nsec].map(|part| part as u64);
        (!failed).then(|| seconds.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds))
    };
    // Both advance with the tick counter, without the corrections of CLOCK_MONOTONIC.
    Some((read(libc::CLOCK_MONOTONIC_RAW)?, read(libc::CLOCK_THREAD_CPUTIME_ID)?))
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
fn now_and_on_cpu() -> Option<(u64, u64)> {
    None
}

/// Returns how long this thread has been ready to run without a CPU, in nanoseconds: the second number of its `schedstat`.
///
/// Opens the file each time: a descriptor that is kept could be closed by other code, and another file have its number, and a
/// child of a fork would read its parent's.
#[cfg(target_os = "linux")]
fn runnable() -> Option<u64> {
    let mut text = [0_u8; 96];
    // SAFETY: the path ends with 0, and the kernel writes to `text` no more than it has room for.
    let length = unsafe {
        let file =
            libc::open(c"/proc/thread-self/schedstat".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let length = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        length
    };
    second_number(text.get(..usize::try_from(length).ok()?)?)
}

#[cfg(not(target_os = "linux"))]
fn runnable() -> Option<u64> {
    None
}

/// Returns the second of three numbers. None if the last is 0: a kernel that keeps no such statistics has three zeros, and a
/// thread that runs has been given a CPU at least once.
fn second_number(text: &[u8]) -> Option<u64> {
    let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let mut number = || numbers.next()?.parse::<u64>().ok();
    let (_, runnable, times) = (number()?, number()?, number()?);
    (times > 0).then_some(runnable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_statistics() {
        assert_eq!(second_number(b"320518896 253032909 166\n"), Some(253_032_909));
        assert_eq!(second_number(b"0 0 1\n"), Some(0));
        for unknown in
            [&b"0 0 0\n"[..], b"1 2", b"", b"1 x 3", b"1 99999999999999999999 3", b"\xff"]
        {
            assert_eq!(second_number(unknown), None, "{unknown:?}");
        }
    }

    #[test]
    fn a_history_of_switches() {
        let lost = LostTime::new();
        for number in 1..=1_000 {
            lost.latest.set(Sums { number: 0, off_cpu: number * 10, runnable: Some(number * 3) });
            lost.keep(number);
        }
        assert_eq!(lost.between(990, 1_000), Some(Lost { off_cpu: 100, runnable: Some(30) }));
        assert_eq!(lost.between(1_000, 1_000), Some(Lost { off_cpu: 0, runnable: Some(0) }));
        assert_eq!(lost.between(1_000 - PLACES as u64, 1_000), None, "its place is another's");
        assert_eq!(lost.between(1, 2_000), None);
    }
}
