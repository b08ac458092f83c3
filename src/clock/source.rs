//! The source of a clock's time: the hot path, and what keeps it up to date.
#![allow(unsafe_code)]

use super::calibration::{Calibration, Sample};
use crate::asm;
use crate::error::OpenError;
use crate::error::clock::{CalibratedReason, ClockKind, KernelReason};
use crate::event::Event;
use crate::kernel::conversion::{Conversion, Line};
use crate::kernel::{self, machine};
use crate::open::{Options, why_not_mapped};
use crate::page::Pages;
use crate::page::fork::Process;
use std::cell::{Cell, UnsafeCell};
use std::rc::Rc;
#[cfg(target_has_atomic = "64")]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, compiler_fence};

/// The state of a [`Clock`](super::Clock), whatever the order of its reads.
#[repr(C)]
pub(crate) struct Source {
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
    reason: Option<CalibratedReason>,
    /// What to add to CLOCK_MONOTONIC_RAW for a clock that has lost its page to go on where it was.
    offset: AtomicU64,
    state: Reserved<State>,
    /// Whether CLOCK_MONOTONIC_RAW takes a system call, see [`kernel::monotonic_raw`].
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

/// [`ClockKind`] without the reasons that are not `Copy`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Page,
    Calibrated,
    Kernel(KernelReason),
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

impl Source {
    /// Opens a clock for this thread.
    ///
    /// Costs four system calls if it is of the page, and `Drop` one more. A calibrated one costs these
    /// five, reads two files of `/sys`, and compares its clocks for 200 microseconds.
    ///
    /// # Errors
    /// [`OpenError::Unsupported`] where there is no Linux; [`OpenError::System`] if there is no
    /// CLOCK_MONOTONIC_RAW, or no memory for a fork handler, which no kernel and no C library is known
    /// for.
    pub(super) fn open() -> Result<Source, OpenError> {
        if !kernel::SUPPORTED {
            return Err(OpenError::Unsupported);
        }
        let process = Process::current().map_err(OpenError::of_call("pthread_atfork"))?;
        let is_forbidden = asm::TICKS.is_some() && kernel::ticks_are_forbidden();
        kernel::monotonic_raw(is_forbidden).map_err(OpenError::of_call("clock_gettime"))?;
        let page = match asm::TICKS {
            None => Err((Kind::Kernel(KernelReason::NotHere), None)),
            Some(_) if is_forbidden => Err((Kind::Kernel(KernelReason::Forbidden), None)),
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
        Ok(Source::new(pages, kind, reason, is_forbidden, process))
    }

    pub(crate) fn new(
        pages: Pages<1>,
        kind: Kind,
        reason: Option<CalibratedReason>,
        is_forbidden: bool,
        process: Process,
    ) -> Source {
        let conversion = Conversion::standing_still(0);
        let lines = Rc::new(AtomicU32::new(0));
        let clock = Source {
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

    #[inline(always)]
    pub(super) fn ticks_in_order<const ORDERED: bool>(&self) -> u64 {
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
        kernel::monotonic_raw(self.is_forbidden).unwrap_or(last)
    }

    /// The hot path. If what was `lock` before the ticks were read is the page's afterwards, the line
    /// is what the page said meanwhile, all of it from one round; and no signal handler has put
    /// another line in its place.
    #[inline(always)]
    pub(super) fn now_in_order<const ORDERED: bool>(&self) -> u64 {
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
    pub(super) fn conversion(&self) -> Conversion {
        let conversion = self.state.with(|state| {
            let (ticks, conversion) = self.renew(state);
            conversion.around(ticks)
        });
        conversion.unwrap_or_else(|| Conversion::standing_still(self.last.get()))
    }

    /// Returns the clock's current source and, if it is not the control page, the reason.
    ///
    /// Never calibrates. Costs some hundred instructions, and sometimes eight calls of `clock_gettime`. If the
    /// clock has lost its page, this is the source that the next call of [`now`](Clock::now) switches to. That
    /// call may still find that the calibration fails.
    pub(super) fn kind(&self) -> ClockKind {
        self.kind_of(self.state.with(|state| match (self.update(state), state.kind) {
            (None, Kind::Page) => Kind::without_page(self.process.is_past()),
            (_, kind) => kind,
        }))
    }

    /// Returns the kind as of the last update.
    pub(super) fn kind_in_memory(&self) -> ClockKind {
        self.kind_of(self.state.with(|state| state.kind))
    }

    /// Adds the reason to a kind. `kind` is None in a signal handler that interrupts a use of the state. Then
    /// the kind is derived from the other fields.
    fn kind_of(&self, kind: Option<Kind>) -> ClockKind {
        let kind = kind.unwrap_or(match (self.ticking.get(), &self.reason) {
            (false, _) => Kind::Kernel(KernelReason::NotTrusted),
            (true, None) if !self.process.is_past() => Kind::Page,
            (true, _) => Kind::Calibrated,
        });
        match (kind, &self.reason) {
            (Kind::Page, _) => ClockKind::Page,
            (Kind::Kernel(reason), _) => ClockKind::Kernel(reason),
            (Kind::Calibrated, Some(reason)) => ClockKind::Calibrated(reason.clone()),
            (Kind::Calibrated, None) => ClockKind::Calibrated(CalibratedReason::Forked),
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
    pub(super) fn error_bound(&self) -> Option<u64> {
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
                    self.become_kind(state, Kind::Kernel(KernelReason::NotInvariant));
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
            false => Kind::Kernel(KernelReason::NotTrusted),
            true if !asm::ticks_are_invariant() => Kind::Kernel(KernelReason::NotInvariant),
            true => Kind::Calibrated,
        }
    }
}

/// The page of an event that counts nothing, if it has a clock.
fn open_page(process: Process) -> Result<Pages<1>, CalibratedReason> {
    let opened =
        Options::default().open_events(&[Event::DUMMY]).map_err(CalibratedReason::NoEvent)?;
    // The mapping keeps the event alive.
    let pages = Pages::<1>::map([&opened.leader].into_iter(), process)
        .map_err(|errno| CalibratedReason::NotMapped(why_not_mapped(errno)))?
        .ok_or(CalibratedReason::Forked)?;
    let [page] = pages.each();
    match page.since_zero() {
        Some(_) => Ok(pages),
        None => Err(CalibratedReason::NotOffered),
    }
}

/// Samples at both clocks, so often that nothing has come in between once: the narrowest counts. None if
/// the kernel's does not answer.
fn look() -> Option<Sample> {
    let mut narrowest: Option<Sample> = None;
    for _ in 0..8 {
        // SAFETY: whoever calls this has found that this thread may read the counter.
        let before = unsafe { asm::ticks::<true>() };
        let ns = kernel::monotonic_raw(false).ok()?;
        // SAFETY: likewise.
        let after = unsafe { asm::ticks::<true>() };
        let look = Sample { before, after, ns };
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
    fn a_clock_that_was_ahead_stands_still_and_says_by_how_much() -> Result<(), OpenError> {
        let process = Process::current().map_err(|_| OpenError::Unsupported)?;
        let clock = Source::new(Pages::empty(), Kind::Calibrated, None, false, process);
        // Whatever has asked, the hot path knows how late it is.
        let told = clock.now_in_order::<false>();
        let from = clock.ticks_in_order::<false>();
        while clock.conversion().delta_ns(clock.ticks_in_order::<false>() - from) < 1_000 {}
        assert!(is_before(told, clock.last.get()));
        let ahead = clock.now_in_order::<false>() + 3_600_000_000_000;
        clock.last.set(ahead);
        assert_eq!(
            [
                clock.now_in_order::<false>(),
                clock.now_in_order::<true>(),
                clock.now_in_order::<false>()
            ],
            [ahead; 3]
        );
        // A call that was interrupted by these stores what it had found before.
        clock.last.set(told);
        assert_eq!(clock.now_in_order::<false>(), ahead);
        let (bound, now) = (
            clock.error_bound().unwrap_or(0),
            clock.conversion().ticks_to_ns(clock.ticks_in_order::<false>()),
        );
        assert!(bound >= ahead - now, "{bound} ns, {now} of {ahead}");
        Ok(())
    }

    /// Only who asks for the time pays for a calibration.
    #[test]
    fn what_has_to_be_calibrated_has_no_bound() -> Result<(), OpenError> {
        let process = Process::current().map_err(|_| OpenError::Unsupported)?;
        let reason = Some(CalibratedReason::NotOffered);
        let clock = Source::new(Pages::empty(), Kind::Calibrated, reason, false, process);
        assert!(clock.error_bound().is_some());
        let is_calibrated = || clock.state.with(|state| state.calibration.is_some());
        clock.state.with(|state| state.calibration = None);
        assert_eq!(clock.error_bound(), None);
        assert_eq!(clock.kind(), ClockKind::Calibrated(CalibratedReason::NotOffered));
        assert_eq!(is_calibrated(), Some(false));
        clock.now_in_order::<false>();
        // A second later it would look again, and not calibrate.
        assert!(clock.error_bound().is_some());
        assert_eq!(is_calibrated(), Some(true));
        Ok(())
    }
}
