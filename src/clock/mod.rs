//! Time without a system call, in ticks and in nanoseconds.
#![allow(unsafe_code)]

// Floor 8. Uses `open` for the page of an event that counts nothing, and the floors below it.

pub(crate) mod calibration;
mod granularity;
pub(crate) mod source;
mod timeline;

pub use crate::error::clock::ClockKind;
pub use crate::kernel::conversion::Conversion;

use crate::asm;
use crate::error::Error;
use source::Source;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// A clock for the thread that opened it: the tick counter, and its conversion to nanoseconds.
///
/// ```
/// use rdpmc::Clock;
///
/// let clock = Clock::open()?;
/// let start = clock.ticks();
/// std::hint::black_box(vec![0; 100]);
/// let elapsed = clock.duration(clock.ticks().wrapping_sub(start));
/// println!("{elapsed:?}, at {} ns by {}", clock.now(), clock.kind());
/// # Ok::<(), rdpmc::Error>(())
/// ```
///
/// # Sources
///
/// [`kind`](Clock::kind) returns the source. The calls are the same for all.
///
/// - [`Page`](ClockKind::Page): the kernel's scheduler uses the tick counter (`rdtsc`, `cntvct_el0`, `rdtime`), and the
///   control page of an event has the conversion. Times are on the timeline of perf's timestamps, so samples of `perf
///   record` and a program's own records can be matched: the times are equal on x86-64, and up to one nanosecond apart
///   on arm64 and riscv64, whose pages omit a fraction of a nanosecond.
/// - [`Calibrated`](ClockKind::Calibrated): the counter has a constant rate, but no page has a conversion. Either the
///   scheduler uses another clock (most virtual machines), or no event can be opened. The clock compares
///   the tick counter with CLOCK_MONOTONIC_RAW from time to time.
///   [`error_bound`](Clock::error_bound) is the maximum difference.
/// - [`Kernel`](ClockKind::Kernel): the counter cannot be used. The clock calls `clock_gettime`, and a tick is a
///   nanosecond.
///
/// NTP neither slews nor steps any of these sources. They run at the rate of an oscillator, which may be wrong by some
/// parts per million. All start near boot.
///
/// # Monotonicity
///
/// The times of one clock never decrease on its thread: not while the kernel refines the conversion, not when the
/// thread moves to another CPU, and not when the counter is set back. (A call that a signal handler interrupts may
/// return an earlier time than the handler got.)
///
/// [Ordered](Clock::now_ordered) times of different threads do not go backwards if both clocks are `Page`, or both `Kernel`.
/// x86-64 kernels offer the page's clock only if the counters of all CPUs are synchronized. On arm64 and riscv64 all
/// CPUs share one counter, so times agree to within one nanosecond: the fraction that the page omits. Two calibrated
/// clocks may differ by the sum of their error bounds. The same rules apply to two clocks on one thread. Exceptions:
///
/// - An unordered time may predate a message that the thread has already received.
/// - Clocks of different kinds have different timelines. One process can have both, for example when the memory that a
///   user may map is used up (`kernel.perf_event_mlock_kb`): compare [`kind`](Clock::kind) before passing times on. A
///   clock that has lost its page, in the child of a fork or because the kernel no longer trusts the counter, has its
///   own timeline.
/// - While the kernel refines the conversion (x86-64, in the first seconds after boot), a thread sees the new
///   parameters when it is next scheduled. Until then, its times are off by the kernel's correction.
/// - A hypervisor that migrates the virtual machine may set the counters, and so may firmware if the kernel was told
///   not to check (`tsc=reliable`).
///
/// # Threads and forks
///
/// A clock uses its thread's page and is neither `Send` nor `Sync`. Times, ticks and a [`Conversion`] can go anywhere.
///
/// ```compile_fail,E0277
/// fn only_if_send<T: Send>() {}
/// only_if_send::<rdpmc::Clock>();
/// ```
/// ```compile_fail,E0277
/// fn only_if_sync<T: Sync>() {}
/// only_if_sync::<rdpmc::Clock>();
/// ```
///
/// In the child of a fork, a `Page` clock becomes another kind, and continues from the parent's time. See
/// [`Counter`](crate::Counter#fork) for the children that must not touch it. If the kernel stops trusting the counter
/// while a clock is open, the clock continues as `Kernel`, and the unit of its ticks changes.
///
/// # Time namespaces
///
/// A process may enter another time namespace, by a fork or `setns`, or be restored there from a checkpoint.
/// CLOCK_MONOTONIC_RAW jumps then. A clock keeps its timeline, and clocks that are opened afterwards have that of the
/// namespace:
/// - A `Page` clock is not affected. In the child of a fork, it continues from the time of the fork as another kind.
/// - A `Calibrated` clock goes on by the tick counter, or by the kernel's clock if the counter has jumped (on another machine).
///   It takes the one that is nearer to CLOCK_REALTIME.
/// - A `Kernel` clock jumps forwards with CLOCK_MONOTONIC_RAW. If that jumps back, it goes on where it was. The time since its
///   last read is lost then, and [`error_bound`](Clock::error_bound) returns None.
///
/// The namespace is known by `/proc/thread-self/ns/time`, which a calibrated clock checks about once a second. Without that
/// file, a calibrated clock detects only a jump back to more than a second before its last read. After other jumps it moves
/// forwards, or stands still for up to a second. If somebody sets CLOCK_REALTIME between two checks of which the second finds
/// another namespace, the clock may take the wrong one, and its bound does not hold.
///
/// # Signal handlers and faults
///
/// A handler may read the clock of the thread that it interrupts, and may fork. It must not open or drop clocks, nor
/// leave by `siglongjmp`, after which the clock may stand still. If it interrupts an update of the clock, `now`
/// repeats the time that it returned last, and the results of other methods are unspecified.
///
/// A thread that disables its access to the tick counter (`prctl(PR_SET_TSC)`) while it has a clock gets SIGSEGV when
/// it next reads the clock. [`contain_faults`](crate::contain_faults) does not help. A clock that is opened afterwards
/// is `Kernel`. A thread that disables its events (`prctl(PR_TASK_PERF_EVENTS_DISABLE)`) stops updates of the page, and
/// the clock uses the page's last parameters.
///
/// # Resources
///
/// A `Page` clock holds one page of memory mapped read-only, and its event. The event counts nothing, but the kernel
/// still switches it in and out together with the thread. Other kinds hold nothing. No descriptor stays open.
pub struct Clock {
    source: Source,
}

impl Clock {
    /// Opens a clock for this thread.
    ///
    /// Takes eight system calls for a `Page` clock, and `Drop` one more. A `Calibrated` clock takes ten, because it
    /// opens and drops an event. It also reads two files of `/sys`, and compares the tick counter with
    /// CLOCK_MONOTONIC_RAW for 200 microseconds.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::error::ErrorKind) if the target is not Linux. `System` if there is no
    /// CLOCK_MONOTONIC_RAW, or `OutOfMemory` if there is none for a fork handler; neither is known to occur.
    pub fn open() -> Result<Clock, Error> {
        Source::open().map(Clock::from_source)
    }

    /// Returns the tick counter by itself, for code in which each instruction counts: it is read without the check of
    /// [`ticks`](Clock::ticks) for a `Kernel` clock.
    ///
    /// None for a `Kernel` clock. If the kernel stops trusting the counter later, reads go on, and the counter may not.
    pub fn tick_counter(&self) -> Option<TickCounter> {
        self.source.is_ticking().then_some(TickCounter { of_a_thread: PhantomData })
    }

    pub(crate) fn from_source(source: Source) -> Clock {
        Clock { source }
    }
}

/// The tick counter of a [`Clock`] that is not `Kernel`, from [`Clock::tick_counter`].
///
/// The same ticks as [`Clock::ticks`]. Belongs to the thread of the clock, and outlives it.
///
/// ```compile_fail,E0277
/// fn only_if_send<T: Send>() {}
/// only_if_send::<rdpmc::clock::TickCounter>();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TickCounter {
    of_a_thread: PhantomData<*const ()>,
}

impl TickCounter {
    /// Reads the counter: 3 instructions on x86-64, 1 on arm64 and riscv64.
    ///
    /// The notes on [signal handlers and faults](Clock#signal-handlers-and-faults) of `Clock` apply.
    #[inline(always)]
    pub fn read(self) -> u64 {
        // SAFETY: the clock has checked that this thread may read the counter. `Clock` documents that a thread that
        // forbids it to itself afterwards gets SIGSEGV.
        unsafe { asm::ticks::<false>() }
    }
}

impl Clock {
    /// Reads the tick counter: the time stamp counter (`rdtsc`), `cntvct_el0` or `time`. Nanoseconds for a `Kernel`
    /// clock. A counter narrower than 64 bits wraps.
    ///
    /// Takes 6 instructions on x86-64, 3 on arm64 and riscv64, or for a `Kernel` clock a call of `clock_gettime`.
    #[inline]
    pub fn ticks(&self) -> u64 {
        self.source.ticks::<false>()
    }

    /// Reads the tick counter in order: after everything before it is complete, and before anything after it begins. Two
    /// instructions more than [`ticks`](Clock::ticks), and the wait for the instructions in flight, which no instruction count
    /// shows.
    ///
    /// Threads that share memory and compare times need ordered times. The fences are `lfence` on x86-64 and `isb` on arm64, as
    /// of [`fence`](crate::fence). On riscv64, they are `fence rw, i` and `fence i, rw`. Stores may still be on their way to
    /// other CPUs, and on arm64, the read waits for a load only if a branch depends on it.
    #[inline]
    pub fn ticks_ordered(&self) -> u64 {
        self.source.ticks::<true>()
    }

    /// Returns the time in nanoseconds, on the timeline of the clock's [`kind`](Clock::kind).
    ///
    /// Takes 19 instructions on x86-64, 21 on arm64, 21 on riscv64 (`tests/vm/run TARGET cost`), and no system call.
    /// These calls take longer:
    /// - The first call after the thread was switched out re-reads the page.
    /// - Periodically (every second, once settled), a `Calibrated` clock takes a sample of CLOCK_MONOTONIC_RAW, with
    ///   eight calls of `clock_gettime`. These are system calls if the vDSO does not serve them (before Linux 5.3, or
    ///   if the kernel keeps time by hpet, for example).
    /// - A `Calibrated` clock recalibrates, which takes 200 microseconds, if a sample contradicts the earlier ones, if
    ///   the process is the child of a fork, or if CLOCK_MONOTONIC_RAW does not use the counter's oscillator and the
    ///   last call was more than 8 seconds ago.
    /// - A `Kernel` clock calls `clock_gettime` each time.
    #[inline]
    pub fn now(&self) -> u64 {
        self.source.now::<false>()
    }

    /// Returns the time as [`now`](Clock::now) does, of ticks that are read [in order](Clock::ticks_ordered). Two instructions
    /// more.
    #[inline]
    pub fn now_ordered(&self) -> u64 {
        self.source.now::<true>()
    }

    /// Returns the current conversion of ticks. Use it to convert several ticks at once, later, or on another thread.
    /// [`Conversion::error_bound`] returns the maximum error of each. The bound of a clock that was just opened grows fast with
    /// the distance of the ticks. Takes as long as [`now`](Clock::now), plus a few hundred instructions to re-read the page.
    pub fn conversion(&self) -> Conversion {
        self.source.conversion()
    }

    /// Converts ticks to nanoseconds on the clock's timeline: see [`Conversion::ticks_to_ns`].
    ///
    /// Uses the current conversion, and takes as long as [`conversion`](Clock::conversion). To convert several
    /// ticks consistently, take one `Conversion`.
    pub fn ticks_to_ns(&self, ticks: u64) -> u64 {
        self.conversion().ticks_to_ns(ticks)
    }

    /// Returns the first tick count at which the time is `ns` or later: see [`Conversion::ns_to_ticks`]. Costs one
    /// [`conversion`](Clock::conversion) and one division.
    pub fn ns_to_ticks(&self, ns: u64) -> u64 {
        self.conversion().ns_to_ticks(ns)
    }

    /// Converts a number of ticks to a duration: see [`Conversion::duration`]. Takes as long as
    /// [`conversion`](Clock::conversion). In a loop, call `conversion` once and reuse the result.
    pub fn duration(&self, ticks: u64) -> Duration {
        self.conversion().duration(ticks)
    }

    /// Measures the step of the ticks: the smallest difference between two values of the tick counter, in ticks.
    ///
    /// Some counters show one value for many ticks: AMD's since Zen 4 for 10 ns, which are 26 to 45 ticks. Most others have a
    /// step of 1 or 2. If every read takes the same time, the result is that time. An interval of a few steps or less must be
    /// averaged over many runs: a single difference is 0 or a whole step.
    ///
    /// Takes some microseconds, or longer if the counter is slow: it reads the counter until it has changed 32 times. At
    /// least 1. For a `Kernel` clock, the unit is the nanosecond.
    pub fn step(&self) -> u64 {
        self.source.step()
    }

    /// Returns the clock's current source and, if it is not the control page, the reason.
    ///
    /// Never calibrates. Takes a few hundred instructions, and sometimes eight calls of `clock_gettime`. If the clock
    /// has lost its page, this is the source that the next call of [`now`](Clock::now) switches to. That call may still
    /// find that the calibration fails.
    pub fn kind(&self) -> ClockKind {
        self.source.kind()
    }

    /// Returns the maximum difference between the current time and CLOCK_MONOTONIC_RAW, if the clock is
    /// [`Calibrated`](ClockKind::Calibrated). Normally zero for the other kinds, which are not measured against it.
    /// Takes as long as [`kind`](Clock::kind).
    ///
    /// - Right after a sample of CLOCK_MONOTONIC_RAW, it is at most half the duration of the shortest of that sample's
    ///   eight calls. It grows until the next sample.
    /// - It assumes that the tick rate has not changed since the last sample, at most a second ago. If it has (after
    ///   live migration, for example), the next sample starts the calibration over.
    /// - If CLOCK_MONOTONIC_RAW does not use the counter's oscillator, the bound assumes that the ratio of the two
    ///   rates changes by at most 0.1 ppm within seconds.
    /// - For every kind, if the clock ran ahead and waits for real time to catch up, the bound includes that lead.
    /// - If the process enters another time namespace (`CLONE_NEWTIME`), the reference is CLOCK_MONOTONIC_RAW without its jump:
    ///   see [time namespaces](Clock#time-namespaces). The bound includes the error of the calibration before the jump.
    /// - In the child of a fork, the reference of a clock that had a page is CLOCK_MONOTONIC_RAW, aligned with the parent's
    ///   time at the fork.
    ///
    /// None if the clock has lost its page or has to recalibrate, until the next call of [`now`](Clock::now). None also
    /// in a signal handler that interrupts an update, and after a jump of the kernel's clock that lost time.
    pub fn error_bound(&self) -> Option<Duration> {
        self.source.error_bound().map(Duration::from_nanos)
    }
}

impl fmt::Debug for Clock {
    /// Writes its source as of the last update. No system call.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("kind", &self.source.kind_in_memory()).finish()
    }
}
