//! Time without a system call: ticks of the processor's counter, and what they are in nanoseconds.
#![allow(unsafe_code)]

use crate::asm;
use crate::calibration::{Calibration, Look};
use crate::error::{ClockKind, Error, NoPageClock, NoTicks};
use crate::event::Event;
use crate::fork::Process;
use crate::machine;
use crate::math::{Conversion, Line};
use crate::open::{Options, why_not_mapped};
use crate::ordered::Ordered;
use crate::page::Pages;
use crate::sys;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::rc::Rc;
#[cfg(target_has_atomic = "64")]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, compiler_fence};

/// A clock of the thread that opened it.
///
/// ```
/// use rdpmc::Clock;
///
/// let clock = Clock::open()?;
/// let start = clock.ticks();
/// std::hint::black_box(vec![0; 100]);
/// let ticks = clock.ticks().wrapping_sub(start);
/// println!("{} ns, at {} by {}", clock.delta_ns(ticks), clock.now(), clock.kind());
/// # Ok::<(), rdpmc::Error>(())
/// ```
///
/// # What it goes by
///
/// [`kind`](Clock::kind) tells which of three it is; the calls are the same.
///
/// - [`Page`](ClockKind::Page), where the kernel's own scheduler goes by the tick counter (`rdtsc`,
///   `cntvct_el0`, `rdtime`): the control page of an event says how ticks become nanoseconds, and they
///   are those of perf's timestamps. So a sample of `perf record` can be found in a program's own
///   records, and the other way round: to the nanosecond on x86-64, and within one of it on arm64 and
///   riscv64, where the page leaves off a fraction.
/// - [`Calibrated`](ClockKind::Calibrated), where it does not (in most virtual machines) or no event can
///   be opened, and the counter is known to go on at one rate: the clock looks at it and at
///   CLOCK_MONOTONIC_RAW now and then. [`error_bound`](Clock::error_bound) says how far it may be from
///   that.
/// - [`Kernel`](ClockKind::Kernel), where the counter cannot be used: `clock_gettime`, and a tick is a
///   nanosecond.
///
/// None of them is slewed by NTP, as CLOCK_MONOTONIC is, nor set, as CLOCK_REALTIME is: they go at an
/// oscillator's own rate, which may be some millionths off. All of them begin somewhere at the boot.
///
/// # It never goes back
///
/// On its thread, the times that one clock gives never decrease, also while the kernel refines its
/// parameters, the thread moves to another processor, or the counter is set back. (A call that a signal
/// handler interrupts may give an earlier time than the handler got.)
///
/// From thread to thread, times of [`ordered`](Clock::ordered) reads do not go back where both clocks are
/// of the page or both the kernel's: x86-64 kernels offer the page's clock only if the counters of all
/// processors are in step, and on arm64 and riscv64 there is one for all of them (there, up to a
/// nanosecond that the page leaves off). Calibrated clocks may differ by the sum of their error bounds.
/// Two clocks of one thread are as those of two threads. Where not:
///
/// - Unordered, a time may be a little older than what the thread has just learnt from another.
/// - Clocks of different kinds have different timelines. In one process they can be, when the pages
///   that a user may map are used up (`kernel.perf_event_mlock_kb`), say: compare
///   [`kind`](Clock::kind) before handing times on. A clock that has lost its page has a timeline of its
///   own.
/// - While the kernel refines its parameters (x86-64, in the second or two after boot), a thread sees the
///   new ones when it is next scheduled, and until then differs by what the kernel had been wrong.
/// - A hypervisor that moves the virtual machine may set the counters otherwise, and so may firmware, if
///   the kernel was told not to look (`tsc=reliable`).
///
/// # One thread
///
/// Its page is its thread's, so a clock is neither `Send` nor `Sync`; times, ticks and a [`Conversion`]
/// can go anywhere.
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
/// In the child of a fork, a clock of the page goes on from the parent's time as one of the other kinds;
/// see [`Counter`](crate::Counter) for the children that must not touch it. If the kernel finds, while it
/// runs, that it should not have trusted the counter, it goes on as one of the kernel's. Where it is one
/// of these then, ticks are of another unit than before.
///
/// # Signal handlers and faults
///
/// A handler may ask a clock of the thread that it interrupts for ticks and the time, and may fork. It must
/// not open or drop clocks, nor leave by `siglongjmp`, after which the clock may stand still. If it comes in
/// between the clock's looking for what is new, the time is the latest that was given; what the other
/// calls answer then is of no use.
///
/// A thread that forbids itself the tick counter (`prctl(PR_SET_TSC)`) while it has a clock gets SIGSEGV
/// the next time it reads it; [`contain_faults`](crate::contain_faults) does not help here. A clock that
/// is opened afterwards is the kernel's. One that disables its events
/// (`prctl(PR_TASK_PERF_EVENTS_DISABLE)`) stops the page: the clock goes on by what it said last.
///
/// # What it holds
///
/// If it is of the page, one page of memory mapped read-only, and the event it belongs to, which counts
/// nothing, but is one more for the kernel to look after when it switches the thread. Otherwise
/// nothing. No descriptor stays open.
#[repr(C)]
pub struct Clock {
    // What the hot path needs comes first. A signal handler of this thread may ask the clock, too. So what
    // changes is atomic, but for the first three `Cell`s: as atomics they cost x86-64 5 instructions of 19,
    // as LLVM folds no atomic load into the instruction that uses it. They are words that are loaded once
    // each; and where several belong together, in `line`, `lock` tells whether they do. One thread only is
    // concerned, so Relaxed is enough; where the order matters there is a compiler fence.
    /// Whether the tick counter may be read at all.
    ticking: Cell<bool>,
    /// What was at `lock_at` when `line` was made.
    lock: AtomicU32,
    /// Written while `lock` says that there is none, see `follow`.
    line: Cell<Line>,
    /// The latest time that was given.
    last: Cell<u64>,
    /// The page's `lock`, or `lines`.
    lock_at: AtomicPtr<u32>,
    /// How many lines there have been without a page, times two.
    lines: Rc<AtomicU32>,
    /// Of a clock that began without a page, one that never changes.
    pages: Pages<1>,
    /// Why it began without a page.
    reason: Option<NoPageClock>,
    /// What to add to CLOCK_MONOTONIC_RAW for a clock that has lost its page to go on where it was.
    offset: AtomicU64,
    state: Reserved<State>,
    /// Whether CLOCK_MONOTONIC_RAW takes a system call, see [`sys::monotonic_raw`].
    is_forbidden: bool,
    process: Process,
}

/// What is at no `lock_at` while this thread runs: the kernel leaves a `lock` even.
const NO_LOCK: u32 = u32::MAX;

/// A value with one user at a time: the thread, or a signal handler that interrupts it.
struct Reserved<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

impl<T> Reserved<T> {
    fn new(value: T) -> Reserved<T> {
        Reserved { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// What this makes of the value, or None if it interrupts another use.
    fn with<R>(&self, this: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.taken.load(Relaxed) {
            return None;
        }
        // A handler that comes in between has given it back when this goes on.
        self.taken.store(true, Relaxed);
        compiler_fence(Ordering::SeqCst); // pairs with the load, in a handler
        // SAFETY: it belongs to one thread, as UnsafeCell is not Sync, and there, `taken` keeps a handler
        // from it until this is done.
        let result = this(unsafe { &mut *self.value.get() });
        compiler_fence(Ordering::SeqCst);
        self.taken.store(false, Relaxed);
        Some(result)
    }
}

/// For targets without 64-bit atomics, which have no tick counter that is known here: their clock is the
/// kernel's.
#[cfg(not(target_has_atomic = "64"))]
#[derive(Debug)]
struct AtomicU64(Cell<u64>);

#[cfg(not(target_has_atomic = "64"))]
impl AtomicU64 {
    fn new(value: u64) -> AtomicU64 {
        AtomicU64(Cell::new(value))
    }
    fn load(&self, _: Ordering) -> u64 {
        self.0.get()
    }
    fn store(&self, value: u64, _: Ordering) {
        self.0.set(value);
    }
}

/// [`ClockKind`], without the reasons that do not fit into a `Copy`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Page,
    Calibrated,
    Kernel(NoTicks),
}

/// What only the slower paths need.
struct State {
    kind: Kind,
    conversion: Conversion,
    /// Of a calibrated clock.
    calibration: Option<Calibration>,
    /// The latest time that was given before the time last stood still.
    latest: u64,
}

impl Clock {
    /// Opens a clock for this thread.
    ///
    /// Costs four system calls if it is of the page, and `Drop` one more. A calibrated one costs these
    /// five, reads two files of `/sys`, and compares its clocks for 200 microseconds.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where there is no Linux; [`Error::System`] if there is no
    /// CLOCK_MONOTONIC_RAW, or no memory for a fork handler, which no kernel and no C library is known
    /// for.
    pub fn open() -> Result<Clock, Error> {
        if !sys::SUPPORTED {
            return Err(Error::Unsupported);
        }
        let process = Process::current().map_err(Error::of_call("pthread_atfork"))?;
        let is_forbidden = asm::TICKS.is_some() && sys::ticks_are_forbidden();
        sys::monotonic_raw(is_forbidden).map_err(Error::of_call("clock_gettime"))?;
        let page = match asm::TICKS {
            None => Err((Kind::Kernel(NoTicks::NotHere), None)),
            Some(_) if is_forbidden => Err((Kind::Kernel(NoTicks::Forbidden), None)),
            Some(name) => open_page(process).map_err(|reason| {
                // By the architecture, there is one counter for all processors elsewhere.
                let is_trusted =
                    !cfg!(target_arch = "x86_64") || machine::trusts_clock_source(name);
                (Kind::without_page(is_trusted), Some(reason))
            }),
        };
        let (pages, kind, reason) = match page {
            Ok(pages) => (pages, Kind::Page, None),
            Err((kind, reason)) => (Pages::empty(), kind, reason),
        };
        Ok(Clock::new(pages, kind, reason, is_forbidden, process))
    }

    fn new(
        pages: Pages<1>,
        kind: Kind,
        reason: Option<NoPageClock>,
        is_forbidden: bool,
        process: Process,
    ) -> Clock {
        let conversion = Conversion::standing_still(0);
        let lines = Rc::new(AtomicU32::new(0));
        let clock = Clock {
            ticking: Cell::new(!matches!(kind, Kind::Kernel(_))),
            lock: AtomicU32::new(NO_LOCK),
            line: Cell::new(Line::NONE),
            last: Cell::new(0),
            lock_at: AtomicPtr::new(lines.as_ptr()),
            lines,
            pages,
            reason,
            offset: AtomicU64::new(0),
            state: Reserved::new(State { kind, conversion, calibration: None, latest: 0 }),
            is_forbidden,
            process,
        };
        clock.state.with(|state| {
            if kind == Kind::Calibrated {
                state.calibration = calibrate(asm::TICKS.is_some_and(machine::keeps_time_by));
            }
            clock.renew(state);
        });
        clock
    }

    /// One that goes by this page.
    #[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
    pub(crate) fn of_page(pages: Pages<1>, process: Process) -> Clock {
        Clock::new(pages, Kind::Page, None, false, process)
    }

    /// The tick counter as it is: the time stamp counter (`rdtsc`), `cntvct_el0`, `time`. Of a clock that
    /// is the kernel's, nanoseconds. It may wrap where it is narrower than 64 bits.
    ///
    /// Takes 6 instructions on x86-64, 3 on arm64 and riscv64; of the kernel's clock, a call of
    /// `clock_gettime`. Not ordered against the instructions around it: see [`ordered`](Clock::ordered).
    #[inline]
    pub fn ticks(&self) -> u64 {
        self.ticks_in_order::<false>()
    }

    #[inline(always)]
    fn ticks_in_order<const ORDERED: bool>(&self) -> u64 {
        if !self.ticking.get() {
            return self.kernel_ticks();
        }
        // SAFETY: this thread may, `open` has seen; that it must not forbid itself the counter
        // afterwards, the documentation says.
        unsafe { asm::ticks::<ORDERED>() }
    }

    #[cold]
    #[inline(never)]
    fn kernel_ticks(&self) -> u64 {
        // It answered when the clock was opened; if it does no more, the clock stands still.
        let last = self.last.get().wrapping_sub(self.offset.load(Relaxed));
        sys::monotonic_raw(self.is_forbidden).unwrap_or(last)
    }

    /// The time in nanoseconds, on the timeline that [`kind`](Clock::kind) tells.
    ///
    /// Takes 19 instructions on x86-64, 21 on arm64, 21 on riscv64, by `tests/vm/run TARGET cost`, and no
    /// system call. Some calls take more:
    /// - the first after the thread was switched out reads the page anew;
    /// - of a calibrated clock, one in some time, soon one in a second, looks at CLOCK_MONOTONIC_RAW, by
    ///   eight calls of `clock_gettime`: system calls where the vDSO does not serve it (before Linux 5.3,
    ///   or when the kernel keeps the time by hpet, say);
    /// - if such a look contradicts what was known, in the child of a fork, and if nobody has asked for
    ///   8 seconds where CLOCK_MONOTONIC_RAW has another oscillator, it calibrates anew, which takes 200
    ///   microseconds;
    /// - the kernel's clock is a call of `clock_gettime` each time.
    ///
    /// Not ordered against the instructions around it: see [`ordered`](Clock::ordered).
    #[inline]
    pub fn now(&self) -> u64 {
        self.now_in_order::<false>()
    }

    /// The hot path. If what was `lock` before the ticks were read is the page's afterwards, the line
    /// is what the page said meanwhile, all of it from one round; and no signal handler has put
    /// another line in its place.
    #[inline(always)]
    fn now_in_order<const ORDERED: bool>(&self) -> u64 {
        if self.ticking.get() {
            let lock = self.lock.load(Relaxed);
            compiler_fence(Ordering::SeqCst); // the lock first; pairs with follow
            // SAFETY: as in ticks_in_order.
            let ticks = unsafe { asm::ticks::<ORDERED>() };
            let line = self.line.get();
            if ticks < line.limit {
                let now = line.ns(ticks);
                compiler_fence(Ordering::SeqCst); // the line first; pairs with follow
                // SAFETY: the lock of a page, or of this clock, readable while this has them. Volatile,
                // as the kernel writes the page's, on this processor while this thread is interrupted.
                let is_current = unsafe { self.lock_at.load(Relaxed).read_volatile() } == lock;
                // A counter that has wrapped, or was set back, gives an earlier time.
                if is_current && !is_before(now, self.last.get()) {
                    self.last.set(now);
                    return now;
                }
            }
        }
        self.now_slowly()
    }

    #[cold]
    #[inline(never)]
    fn now_slowly(&self) -> u64 {
        // In a signal handler that has come in between, the latest time is the time.
        self.state.with(|state| self.renew(state));
        self.last.get()
    }

    /// How ticks become nanoseconds and back, by what is known at this moment: for several of them at
    /// once, for later, or for another thread. It reads the page anew, some hundred instructions;
    /// otherwise costs what [`now`](Clock::now) does.
    pub fn conversion(&self) -> Conversion {
        let conversion = self.state.with(|state| {
            let (ticks, conversion) = self.renew(state);
            conversion.around(ticks)
        });
        conversion.unwrap_or_else(|| Conversion::standing_still(self.last.get()))
    }

    /// The time at which the counter showed `ticks`, in nanoseconds: as [`now`](Clock::now), if they were
    /// read now. See [`Conversion::ticks_to_ns`].
    ///
    /// Ticks of some time ago are converted by what is known now. To convert several of them, so that
    /// their distances and their order stay, take one [`conversion`](Clock::conversion), which is most
    /// of what this costs.
    pub fn ticks_to_ns(&self, ticks: u64) -> u64 {
        self.conversion().ticks_to_ns(ticks)
    }

    /// The first ticks at which it was, or will be, `ns`: see [`Conversion::ns_to_ticks`]. Costs a
    /// [`conversion`](Clock::conversion) and a division.
    pub fn ns_to_ticks(&self, ns: u64) -> u64 {
        self.conversion().ns_to_ticks(ns)
    }

    /// How many nanoseconds so many ticks take: see [`Conversion::delta_ns`]. Costs a
    /// [`conversion`](Clock::conversion); in a loop, take that once.
    pub fn delta_ns(&self, ticks: u64) -> u64 {
        self.conversion().delta_ns(ticks)
    }

    /// The same reads, ordered against the instructions around them.
    pub fn ordered(&self) -> Ordered<'_, Clock> {
        Ordered(self)
    }

    /// Returns the clock's current source and, if it is not the control page, the reason.
    ///
    /// Never calibrates. Costs some hundred instructions, and sometimes eight calls of `clock_gettime`. If the
    /// clock has lost its page, this is the source that the next call of [`now`](Clock::now) switches to. That
    /// call may still find that the calibration fails.
    pub fn kind(&self) -> ClockKind {
        self.kind_of(self.state.with(|state| match (self.update(state), state.kind) {
            (None, Kind::Page) => Kind::without_page(self.process.is_past()),
            (_, kind) => kind,
        }))
    }

    /// Adds the reason to a kind. `kind` is None in a signal handler that interrupts a use of the state. Then
    /// the kind is derived from the other fields.
    fn kind_of(&self, kind: Option<Kind>) -> ClockKind {
        let kind = kind.unwrap_or(match (self.ticking.get(), &self.reason) {
            (false, _) => Kind::Kernel(NoTicks::NotTrusted),
            (true, None) if !self.process.is_past() => Kind::Page,
            (true, _) => Kind::Calibrated,
        });
        match (kind, &self.reason) {
            (Kind::Page, _) => ClockKind::Page,
            (Kind::Kernel(reason), _) => ClockKind::Kernel(reason),
            (Kind::Calibrated, Some(reason)) => ClockKind::Calibrated(reason.clone()),
            (Kind::Calibrated, None) => ClockKind::Calibrated(NoPageClock::Forked),
        }
    }

    /// How far from CLOCK_MONOTONIC_RAW the time of this moment may be, in nanoseconds, if the clock is a
    /// [`Calibrated`](ClockKind::Calibrated) one. 0 for the other kinds, which are not measured against it:
    /// the one is the kernel's own formula, the other that clock itself. Of the child of a fork, it is how
    /// far from a clock that went on with CLOCK_MONOTONIC_RAW from some moment of the fork. While the time
    /// stands still because it was ahead, of whatever kind, by how much is included. Costs what
    /// [`kind`](Clock::kind) does.
    ///
    /// It is half of what the narrowest look at both clocks took, and grows until the next. That the
    /// counter goes on as it did, it takes for granted since the last look, a second ago at the most: if
    /// it does not, since a hypervisor has moved the virtual machine, say, the next look starts anew.
    /// Where the kernel keeps CLOCK_MONOTONIC_RAW by another oscillator than the counter's, it allows for
    /// their rates to change by a tenth of a millionth in some seconds.
    ///
    /// None if the clock has lost its page or has to calibrate again, until the next call of
    /// [`now`](Clock::now). None also in a signal handler that interrupts an update.
    pub fn error_bound(&self) -> Option<u64> {
        let bound = self.state.with(|state| {
            let (ticks, conversion) = self.update(state)?;
            // Until the time has caught up, it stands still at the latest one.
            let (now, last) = (conversion.ticks_to_ns(ticks), self.last.get());
            let ahead = later(now, last).wrapping_sub(now);
            let bound = state.calibration.map_or(0, |calibration| calibration.error_bound(ticks));
            Some(bound.saturating_add(ahead))
        });
        bound.flatten()
    }

    /// Brings up to date what the clock goes by, and the latest time; gives the former, with ticks of
    /// this moment. Allocates nothing, as signal handlers may come here.
    fn renew(&self, state: &mut State) -> (u64, Conversion) {
        loop {
            if let Some(known) = self.update(state) {
                return known;
            }
            self.begin_anew(state);
        }
    }

    /// Updates without calibrating. None if the page is lost, or the calibration no longer holds.
    fn update(&self, state: &mut State) -> Option<(u64, Conversion)> {
        let [page] = self.pages.each();
        loop {
            let lock = page.lock(); // pairs with the load after the ticks
            let of_the_page = page.since_zero();
            let ticks = self.ticks_in_order::<true>();
            if page.lock() != lock {
                continue;
            }
            let (conversion, limit) = match (state.kind, &mut state.calibration) {
                (Kind::Page, _) => (of_the_page?, u64::MAX),
                (Kind::Calibrated, Some(calibration)) if calibration.covers(ticks) => {
                    (calibration.conversion(self.offset.load(Relaxed)), calibration.until())
                }
                (Kind::Calibrated, calibration) => {
                    *calibration = calibration.and_then(|known| known.refined(look()?));
                    if calibration.is_none() {
                        // So that the next call of `now` comes to `begin_anew`.
                        self.lock.store(NO_LOCK, Relaxed);
                        return None;
                    }
                    continue;
                }
                (Kind::Kernel(_), _) => (Conversion::of_nanoseconds(self.offset.load(Relaxed)), 0),
            };
            state.conversion = conversion;
            // From here to the new line, a signal handler is given the latest time, and does not change it.
            self.lock.store(NO_LOCK, Relaxed);
            compiler_fence(Ordering::SeqCst); // the lock first; pairs with now_in_order
            let latest = later(self.last.get(), state.latest);
            let now = conversion.ticks_to_ns(ticks);
            self.last.set(later(now, latest));
            // While the time stands still, all calls come here: one that a signal handler interrupts before it
            // stores its time would have the next go by that.
            let limit = if is_before(now, latest) {
                state.latest = latest;
                0
            } else {
                limit
            };
            let line = conversion.line().below(limit);
            match state.kind {
                Kind::Page => self.follow(line, page.lock_at(), lock),
                Kind::Calibrated | Kind::Kernel(_) => {
                    let number = self.lines.load(Relaxed).wrapping_add(2);
                    self.lines.store(number, Relaxed);
                    self.follow(line, self.lines.as_ptr(), number);
                }
            }
            return Some((ticks, conversion));
        }
    }

    /// Leaves a lost page, or replaces a calibration that no longer holds.
    fn begin_anew(&self, state: &mut State) {
        match state.kind {
            Kind::Page => self.go_on_without_page(state),
            Kind::Kernel(_) => {} // which is never out of date
            Kind::Calibrated => {
                state.calibration = calibrate(false);
                if state.calibration.is_none() {
                    self.become_kind(state, Kind::Kernel(NoTicks::NotInvariant));
                }
            }
        }
    }

    /// Publishes the line to the hot path. `lock` must be NO_LOCK. Whoever of main program and signal handler
    /// interrupts the other, none takes parts of two lines for one: the one finds another lock than before,
    /// the other none that is right.
    fn follow(&self, line: Line, lock_at: *const u32, lock: u32) {
        self.lock_at.store(lock_at.cast_mut(), Relaxed);
        self.line.set(line);
        compiler_fence(Ordering::SeqCst); // the line first; pairs with now_in_order
        self.lock.store(lock, Relaxed);
    }

    fn become_kind(&self, state: &mut State, kind: Kind) {
        state.kind = kind;
        self.ticking.set(!matches!(kind, Kind::Kernel(_)));
    }

    /// The page is a fork's, which the kernel trusted the counter for; or it has found that it
    /// should not have.
    fn go_on_without_page(&self, state: &mut State) {
        if let Some(look) = look() {
            let time = state.conversion.ticks_to_ns(look.middle());
            self.offset.store(time.wrapping_sub(look.ns), Relaxed);
        }
        // So that no lock to come is one of the page's that an interrupted call may still hold.
        self.lines.store(self.lock.load(Relaxed), Relaxed);
        self.become_kind(state, Kind::without_page(self.process.is_past()));
    }
}

impl fmt::Debug for Clock {
    /// What it goes by, as it was found last. No system call.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind_of(self.state.with(|state| state.kind));
        f.debug_struct("Clock").field("kind", &kind).finish()
    }
}

/// A clock is read by threads that tell each other the time through memory, and so it has fences on
/// riscv64 as well, to which reading `time` is an input: `fence rw, i` before, `fence i, rw` after.
impl Ordered<'_, Clock> {
    /// As [`Clock::ticks`].
    #[inline]
    pub fn ticks(&self) -> u64 {
        self.0.ticks_in_order::<true>()
    }

    /// As [`Clock::now`]: two instructions more.
    #[inline]
    pub fn now(&self) -> u64 {
        self.0.now_in_order::<true>()
    }
}

/// Whether one time is before another, both on a timeline that may begin with negative times.
#[inline(always)]
fn is_before(one: u64, other: u64) -> bool {
    (one.wrapping_sub(other) as i64) < 0
}

fn later(one: u64, other: u64) -> u64 {
    if is_before(one, other) { other } else { one }
}

impl Kind {
    /// The best there is without a page, if the kernel trusts the tick counter or not.
    fn without_page(is_trusted: bool) -> Kind {
        match is_trusted {
            false => Kind::Kernel(NoTicks::NotTrusted),
            true if !asm::ticks_are_invariant() => Kind::Kernel(NoTicks::NotInvariant),
            true => Kind::Calibrated,
        }
    }
}

/// The page of an event that counts nothing, if it has a clock.
fn open_page(process: Process) -> Result<Pages<1>, NoPageClock> {
    let opened = Options::default().open_events(&[Event::DUMMY]).map_err(NoPageClock::NoEvent)?;
    // The mapping keeps the event alive.
    let pages = Pages::<1>::map([&opened.leader].into_iter(), process)
        .map_err(|errno| NoPageClock::NotMapped(why_not_mapped(errno)))?
        .ok_or(NoPageClock::Forked)?;
    let [page] = pages.each();
    match page.since_zero() {
        Some(_) => Ok(pages),
        None => Err(NoPageClock::NotOffered),
    }
}

/// Looks at both clocks, so often that nothing has come in between once: the narrowest counts. None if
/// the kernel's does not answer.
fn look() -> Option<Look> {
    let mut narrowest: Option<Look> = None;
    for _ in 0..8 {
        // SAFETY: whoever calls this has found that this thread may read the counter.
        let before = unsafe { asm::ticks::<true>() };
        let ns = sys::monotonic_raw(false).ok()?;
        // SAFETY: likewise.
        let after = unsafe { asm::ticks::<true>() };
        let look = Look { before, after, ns };
        if narrowest.is_none_or(|narrowest| look.width() < narrowest.width()) {
            narrowest = Some(look);
        }
    }
    narrowest
}

/// Calibrates the counter, in 200 microseconds. None if it stands still, or the kernel's clock does.
fn calibrate(same_oscillator: bool) -> Option<Calibration> {
    let first = look()?;
    for _ in 0..10_000 {
        let second = look()?;
        if second.ns.saturating_sub(first.ns) >= 200_000 {
            return Calibration::new(first, second, same_oscillator);
        }
    }
    None
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// As if a look had found that the clock was ahead.
    #[test]
    fn a_clock_that_was_ahead_stands_still_and_says_by_how_much() -> Result<(), Error> {
        let process = Process::current().map_err(|_| Error::Unsupported)?;
        let clock = Clock::new(Pages::empty(), Kind::Calibrated, None, false, process);
        // Whatever has asked, the hot path knows how late it is.
        let told = clock.now();
        let from = clock.ticks();
        while clock.conversion().delta_ns(clock.ticks() - from) < 1_000 {}
        assert!(is_before(told, clock.last.get()));
        let ahead = clock.now() + 3_600_000_000_000;
        clock.last.set(ahead);
        assert_eq!([clock.now(), clock.ordered().0.now(), clock.now()], [ahead; 3]);
        // A call that was interrupted by these stores what it had found before.
        clock.last.set(told);
        assert_eq!(clock.now(), ahead);
        let (bound, now) = (clock.error_bound().unwrap_or(0), clock.ticks_to_ns(clock.ticks()));
        assert!(bound >= ahead - now, "{bound} ns, {now} of {ahead}");
        Ok(())
    }

    /// Only who asks for the time pays for a calibration.
    #[test]
    fn what_has_to_be_calibrated_has_no_bound() -> Result<(), Error> {
        let process = Process::current().map_err(|_| Error::Unsupported)?;
        let reason = Some(NoPageClock::NotOffered);
        let clock = Clock::new(Pages::empty(), Kind::Calibrated, reason, false, process);
        assert!(clock.error_bound().is_some());
        let is_calibrated = || clock.state.with(|state| state.calibration.is_some());
        clock.state.with(|state| state.calibration = None);
        assert_eq!(clock.error_bound(), None);
        assert_eq!(clock.kind(), ClockKind::Calibrated(NoPageClock::NotOffered));
        assert_eq!(is_calibrated(), Some(false));
        clock.now();
        // A second later it would look again, and not calibrate.
        assert!(clock.error_bound().is_some());
        assert_eq!(is_calibrated(), Some(true));
        Ok(())
    }
}
