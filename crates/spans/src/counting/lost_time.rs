//! How long a thread was not on a CPU, and how long it was ready to run meanwhile.
#![allow(unsafe_code)]

use crate::record::Lost;
use std::cell::Cell;

/// What is known at a context switch: sums since unknown times in the past, of which only differences mean something.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// The number of switches. 0 is that of an unused place, or of a thread without a switch.
    number: u64,
    /// The time, and the part in which the thread was on a CPU. 0 if they are not known.
    now: u64,
    on_cpu: u64,
    /// The part in which it was ready to run without a CPU.
    runnable: Option<u64>,
}

impl Sums {
    fn off_cpu(&self) -> u64 {
        self.now.wrapping_sub(self.on_cpu)
    }
}

/// The places of the history: a power of two.
const PLACES: usize = 256;

/// Sums at the latest switches of a thread.
pub(super) struct LostTime {
    history: Box<[Cell<Sums>]>,
    latest: Cell<Sums>,
    /// The number of preemptions, and the time off the CPU, at which `runnable` was last read.
    read_at: Cell<(u32, u64)>,
}

impl LostTime {
    pub(super) fn new() -> LostTime {
        LostTime {
            history: (0..PLACES).map(|_| Cell::default()).collect(),
            latest: Cell::default(),
            read_at: Cell::new((0, 0)),
        }
    }

    fn place(&self, number: u64) -> Option<&Cell<Sums>> {
        // The sum of both kinds of switches grows by one with each.
        let switches = (number as u32).wrapping_add((number >> 32) as u32);
        self.history.get(switches as usize % PLACES)
    }

    /// Reads the sums of this moment: after each switch, as soon as the thread knows of it.
    ///
    /// The kernel's file takes microseconds. It is read after a preemption, and after waits once these have taken `ENOUGH`.
    pub(super) fn read(&self, preemptions: u32) {
        const ENOUGH: u64 = 100_000;
        let Some((now, on_cpu)) = now_and_on_cpu() else {
            return self.latest.set(Sums::default());
        };
        let mut sums = Sums { now, on_cpu, ..self.latest.get() };
        let (preempted, off_cpu) = self.read_at.get();
        if preempted != preemptions || sums.off_cpu().wrapping_sub(off_cpu) >= ENOUGH {
            sums.runnable = runnable();
            self.read_at.set((preemptions, sums.off_cpu()));
        }
        self.latest.set(sums);
    }

    /// Keeps the sums that were read last, for this number of switches.
    pub(super) fn keep(&self, number: u64) {
        let sums = Sums { number, ..self.latest.get() };
        self.latest.set(sums);
        self.place(number).into_iter().for_each(|place| place.set(sums));
    }

    /// Returns what a span of this many nanoseconds has lost, between two numbers of switches. None if the first one is too long
    /// ago.
    pub(super) fn between(&self, start: u64, end: u64, span: u64) -> Option<Lost> {
        let [from, to] = [start, end].map(|number| {
            let sums = self.place(number)?.get();
            (sums.number == number && sums.now != 0).then_some(sums)
        });
        let (from, to) = (from?, to?);
        let has_waited = start as u32 != end as u32;
        let runnable = to.runnable.zip(from.runnable);
        let runnable = runnable.and_then(|(to, from)| to.checked_sub(from)).map(|it| it.min(span));
        let off_cpu = match runnable {
            // It was ready to run all the time.
            Some(runnable) if !has_waited => Some(runnable),
            _ => off_cpu_between(&from, &to, span),
        };
        let off_cpu = off_cpu.map(|off_cpu| off_cpu.max(runnable.unwrap_or(0)).min(span));
        Some(Lost { off_cpu, runnable })
    }
}

/// Returns the time off the CPU between two switches, of which a span has all. None if it is not known.
///
/// Interrupts and the hypervisor take time that is neither on nor off the CPU. So a long time from the first switch to the span makes the
/// difference useless: as much as a two-hundredth of it may be such time. In the child of a fork, the time on the CPU begins again.
fn off_cpu_between(from: &Sums, to: &Sums, span: u64) -> Option<u64> {
    const LONG: u64 = 20;
    let on_cpu = to.on_cpu.checked_sub(from.on_cpu)?;
    let elapsed = to.now.checked_sub(from.now)?;
    (elapsed <= span.saturating_mul(LONG + 1)).then(|| elapsed.saturating_sub(on_cpu))
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
#[cfg(any(target_os = "linux", test))]
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

    /// A second between switches, of which the thread is off the CPU for 30 ms, and ready to run for 10 ms of these.
    fn sums(number: u64) -> Sums {
        let second = 1_000_000_000;
        let runnable = Some(number * 10_000_000);
        Sums { number, now: number * second, on_cpu: number * 970_000_000, runnable }
    }

    #[test]
    fn a_history_of_switches() {
        let lost = LostTime::new();
        for number in 1..=1_000 {
            lost.latest.set(sums(number));
            lost.keep(number);
        }
        let between = |start, end, span| lost.between(start, end, span);
        let known = |off_cpu, runnable| Some(Lost { off_cpu, runnable: Some(runnable) });
        assert_eq!(between(990, 1_000, 9_000_000_000), known(Some(300_000_000), 100_000_000));
        assert_eq!(between(1_000, 1_000, 5), known(Some(0), 0));
        // Not more than the span, and not known if that is much shorter than the time between the switches.
        assert_eq!(between(999, 1_000, 50_000_000), known(Some(30_000_000), 10_000_000));
        assert_eq!(between(999, 1_000, 40_000_000), known(None, 10_000_000));
        assert_eq!(between(999, 1_000, 1_000_000), known(None, 1_000_000));
        assert_eq!(between(1_000 - PLACES as u64, 1_000, 5), None, "its place is another's");
        assert_eq!(between(1, 2_000, 5), None);
    }

    /// The numbers of preemptions are in the upper half.
    #[test]
    fn a_thread_that_never_waits_is_ready_to_run() {
        let lost = LostTime::new();
        for preemptions in 1..=10 {
            lost.latest.set(sums(preemptions));
            lost.keep(preemptions << 32);
        }
        let expected = Lost { off_cpu: Some(10_000_000), runnable: Some(10_000_000) };
        assert_eq!(lost.between(9 << 32, 10 << 32, 40_000_000), Some(expected));
    }

    /// The child of a fork has a new time on the CPU.
    #[test]
    fn a_time_that_begins_again() {
        let lost = LostTime::new();
        for (number, on_cpu) in [(1, 900), (2, 10)] {
            lost.latest.set(Sums { number, now: number * 1_000, on_cpu, runnable: None });
            lost.keep(number);
        }
        assert_eq!(lost.between(1, 2, 5_000), Some(Lost { off_cpu: None, runnable: None }));
    }
}
