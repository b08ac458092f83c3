//! The source of a clock's time: the hot path, and the updates of its conversion parameters.
#![allow(unsafe_code)]

use super::calibration::{Calibration, MAX_BETWEEN, Sample};
use super::granularity::step_of;
use super::timeline::{HELD, continuation, is_before, later};
use crate::asm::{self, ROUNDS};
use crate::error::clock::ClockKind;
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::kernel::conversion::{Conversion, Line};
use crate::kernel::{self, AtomicU64, machine};
use crate::open::{Options, open_events, why_not_mapped};
use crate::page::Pages;
use crate::page::fork;
use crate::page::process::Process;
use std::cell::{Cell, UnsafeCell};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, compiler_fence};

/// The state of a [`Clock`](super::Clock), whatever the order of its reads.
#[repr(C)]
pub(crate) struct Source {
    // The hot path's fields come first. A signal handler of this thread may use the clock, too, so fields that change
    // are atomic, except for the three `Cell`s. As atomics, they cost 5 instructions of 19 on x86-64, because LLVM
    // folds no atomic load into the instruction that uses it. Their words are loaded once each. For `line`, which has
    // several words, `lock` shows whether they belong together. Only one thread is involved, so Relaxed is enough.
    // Where the order matters, there is a compiler fence.
    /// Whether the tick counter may be read.
    ticking: Cell<bool>,
    /// The value at `lock_at` when `line` was made.
    lock: AtomicU32,
    /// The conversion parameters. Written only while `lock` is invalid: see `follow`.
    line: Cell<Line>,
    /// The latest time that was returned.
    last: Cell<u64>,
    /// Points to the page's `lock`, or to `lines`.
    lock_at: AtomicPtr<u32>,
    /// The lock of a clock without a page: grows by two with each new `line`.
    lines: Rc<AtomicU32>,
    /// The control page. If the clock was opened without one, a page that never changes.
    pages: Pages,
    /// Why the clock was opened without a page, or as the kernel's.
    reason: Option<Error>,
    /// The offset to CLOCK_MONOTONIC_RAW with which a clock continues its timeline that has lost its page, or whose process has
    /// entered another time namespace.
    offset: AtomicU64,
    state: Reserved<State>,
    /// Whether CLOCK_MONOTONIC_RAW takes a system call: see [`kernel::monotonic_raw`].
    is_forbidden: bool,
    process: Process,
}

/// Never the value at `lock_at` while this thread runs: the kernel leaves a `lock` even.
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

    /// Calls `this` with the value. None if this call interrupts another use.
    fn with<R>(&self, this: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.taken.load(Relaxed) {
            return None;
        }
        // A handler that runs here has released the value when this continues.
        self.taken.store(true, Relaxed);
        compiler_fence(Ordering::SeqCst); // pairs with the load in a handler
        // SAFETY: UnsafeCell is not Sync, so the value belongs to one thread. There, `taken` is set until `this`
        // returns, so a signal handler makes no second reference.
        let result = this(unsafe { &mut *self.value.get() });
        compiler_fence(Ordering::SeqCst);
        self.taken.store(false, Relaxed);
        Some(result)
    }
}

/// [`ClockKind`] without the reasons, which allocate: signal handlers change this.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Page,
    Calibrated,
    Kernel(ErrorKind),
}

/// The state that only the slower paths need.
struct State {
    kind: Kind,
    conversion: Conversion,
    /// The calibration of a `Calibrated` clock.
    calibration: Option<Calibration>,
    /// The calibration that no longer holds.
    expired: Option<Calibration>,
    /// The maximum error of `offset`, in nanoseconds. None if nothing bounds it.
    misaligned: Option<u64>,
    /// The time namespace whose CLOCK_MONOTONIC_RAW belongs to `offset`. None if it is not known.
    namespace: Option<u64>,
    /// CLOCK_REALTIME at the last sample.
    realtime: u64,
    /// The latest time that was returned before the clock was last held because it ran ahead.
    latest: u64,
}

impl Source {
    /// Opens a clock for this thread: see [`Clock::open`](super::Clock::open).
    pub(super) fn open() -> Result<Source, Error> {
        if !kernel::SUPPORTED {
            return Err(Error::unsupported());
        }
        let process = fork::process().map_err(Error::of_call("pthread_atfork"))?;
        let is_forbidden = asm::TICKS.is_some() && kernel::ticks_are_forbidden();
        kernel::monotonic_raw(is_forbidden).map_err(Error::of_call("clock_gettime"))?;
        let page = match asm::TICKS {
            None => Err((Kind::Kernel(ErrorKind::NoTickCounter), None)),
            Some(_) if is_forbidden => Err((Kind::Kernel(ErrorKind::TicksForbidden), None)),
            Some(name) => open_page(process).map_err(|reason| {
                // On other architectures, there is one counter for all CPUs.
                let trust = match cfg!(target_arch = "x86_64") {
                    true => machine::trusts_clock_source(name),
                    false => Ok(true),
                };
                match trust {
                    Ok(is_trusted) => (Kind::without_page(is_trusted), Some(reason)),
                    Err(_) if !asm::ticks_are_invariant() => {
                        (Kind::Kernel(ErrorKind::TicksNotInvariant), Some(reason))
                    }
                    Err(unreadable) => {
                        let unknown =
                            "nothing shows whether the kernel trusts the tick counter: {0}";
                        let why = Error::from(unreadable).in_words(unknown);
                        (Kind::Kernel(ErrorKind::Unreadable), Some(why))
                    }
                }
            }),
        };
        if page.is_ok() {
            machine::remember_trust(true); // the page has a clock only if the kernel trusts the counter
        }
        let (pages, kind, reason) = match page {
            Ok(pages) => (pages, Kind::Page, None),
            Err((kind, reason)) => (Pages::empty(), kind, reason),
        };
        Ok(Source::new(pages, kind, reason, is_forbidden, process))
    }

    pub(crate) fn new(
        pages: Pages,
        kind: Kind,
        reason: Option<Error>,
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
            state: Reserved::new(State {
                kind,
                conversion,
                calibration: None,
                expired: None,
                misaligned: Some(0),
                namespace: None,
                realtime: 0,
                latest: 0,
            }),
            is_forbidden,
            process,
        };
        clock.state.with(|state| {
            if state.kind != Kind::Page {
                state.namespace = kernel::time_namespace();
            }
            if state.kind == Kind::Calibrated {
                state.realtime = kernel::realtime();
                state.calibration = calibrate(asm::TICKS.is_some_and(machine::keeps_time_by));
            }
            clock.renew(state);
        });
        clock
    }

    #[inline(always)]
    pub(super) fn ticks<const ORDERED: bool>(&self) -> u64 {
        if !self.ticking.get() {
            return self.kernel_ticks();
        }
        // SAFETY: `open` has checked that this thread may read the counter. `Clock` documents that a thread that
        // forbids it to itself afterwards gets SIGSEGV.
        unsafe { asm::ticks::<ORDERED>() }
    }

    /// Returns the step of the ticks: see [`Clock::step`](super::Clock::step).
    pub(super) fn step(&self) -> u64 {
        step_of(|| self.ticks::<false>())
    }

    /// Whether this thread may read the tick counter, and the clock uses it.
    pub(super) fn is_ticking(&self) -> bool {
        self.ticking.get()
    }

    #[cold]
    #[inline(never)]
    fn kernel_ticks(&self) -> u64 {
        // The call succeeded when the clock was opened. If it fails now, the clock stands still.
        let last = self.last.get().wrapping_sub(self.offset.load(Relaxed));
        kernel::monotonic_raw(self.is_forbidden).unwrap_or(last)
    }

    /// Returns the time: the hot path.
    ///
    /// If `lock`, loaded before the ticks, equals the value at `lock_at` after them, `line` was valid in between.
    /// Then it is one consistent set of parameters, and no signal handler has replaced it.
    #[inline(always)]
    pub(super) fn now<const ORDERED: bool>(&self) -> u64 {
        if self.ticking.get() {
            let lock = self.lock.load(Relaxed);
            compiler_fence(Ordering::SeqCst); // the lock first; pairs with follow
            // SAFETY: `ticking` is set only if `open` has checked that this thread may read the counter.
            let ticks = unsafe { asm::ticks::<ORDERED>() };
            let line = self.line.get();
            if ticks < line.limit {
                let now = line.ns(ticks);
                compiler_fence(Ordering::SeqCst); // the line first; pairs with follow
                // SAFETY: `lock_at` points to the lock of the clock's page or to its `lines`, which are readable
                // while the clock has them. Volatile, because the kernel writes the page's lock, on this CPU while
                // this thread is interrupted.
                let is_current = unsafe { self.lock_at.load(Relaxed).read_volatile() } == lock;
                // A counter that has wrapped, or was set back, yields an earlier time.
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
        // A signal handler that interrupts an update gets the latest time.
        self.state.with(|state| self.renew(state));
        self.last.get()
    }

    /// Returns the current conversion of ticks: see [`Clock::conversion`](super::Clock::conversion).
    pub(super) fn conversion(&self) -> Conversion {
        let conversion = self.state.with(|state| {
            let (ticks, conversion) = self.renew(state);
            conversion.around(ticks)
        });
        conversion.unwrap_or_else(|| Conversion::standing_still(self.last.get()).off_by_more(None))
    }

    /// Returns the clock's current source: see [`Clock::kind`](super::Clock::kind).
    pub(super) fn kind(&self) -> ClockKind {
        self.kind_of(self.state.with(|state| match (self.update(state), &state.kind) {
            (None, Kind::Page) => Kind::without_page(self.process.is_past()),
            (_, kind) => *kind,
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
            (false, _) => Kind::Kernel(ErrorKind::TicksNotTrusted),
            (true, None) if !self.process.is_past() => Kind::Page,
            (true, _) => Kind::Calibrated,
        });
        match (kind, &self.reason) {
            (Kind::Page, _) => ClockKind::Page,
            (Kind::Kernel(ErrorKind::Unreadable), Some(why)) => ClockKind::Kernel(why.clone()),
            (Kind::Kernel(why), _) => ClockKind::Kernel(no_ticks(why)),
            (Kind::Calibrated, Some(why)) => ClockKind::Calibrated(why.clone()),
            (Kind::Calibrated, None) => ClockKind::Calibrated(forked()),
        }
    }

    /// Returns the maximum difference from CLOCK_MONOTONIC_RAW in nanoseconds: see
    /// [`Clock::error_bound`](super::Clock::error_bound).
    pub(super) fn error_bound(&self) -> Option<u64> {
        let bound = self.state.with(|state| {
            let (ticks, conversion) = self.update(state)?;
            // The clock is held at the latest time until the conversion has caught up.
            let (now, last) = (conversion.ticks_to_ns(ticks), self.last.get());
            let ahead = later(now, last).wrapping_sub(now);
            let bound = state.calibration.map_or(0, |calibration| calibration.error_bound(ticks));
            Some(bound.saturating_add(state.misaligned?).saturating_add(ahead))
        });
        bound.flatten()
    }

    /// Updates the parameters and the latest time, recalibrating if necessary. Returns the current ticks and the
    /// conversion. Allocates nothing, because signal handlers call it.
    fn renew(&self, state: &mut State) -> (u64, Conversion) {
        for _ in 0..ROUNDS {
            if let Some(known) = self.update(state) {
                return known;
            }
            self.begin_anew(state);
        }
        // Each calibration was too old by the time it was used. The kernel's clock is the timeline of such a clock.
        self.lock.store(NO_LOCK, Relaxed);
        compiler_fence(Ordering::SeqCst); // the lock first; pairs with now
        let now = self.kernel_ticks().wrapping_add(self.offset.load(Relaxed));
        self.last.set(later(now, later(self.last.get(), state.latest)));
        (self.ticks::<true>(), state.conversion.off_by_more(None))
    }

    /// Updates without calibrating. None if the page is lost, or the calibration no longer holds.
    fn update(&self, state: &mut State) -> Option<(u64, Conversion)> {
        let page = self.pages.first();
        let mut seen_before = None;
        for _ in 0..ROUNDS {
            let lock = page.lock(); // pairs with the load after the ticks
            let of_the_page = page.since_zero();
            let ticks = self.ticks::<true>();
            // Each stop by a debugger updates the page, and leaves these parameters as they are. If two rounds load equal
            // ones, they belong together, unless the kernel has changed them twice meanwhile.
            let is_seen_again = of_the_page.is_some() && seen_before == of_the_page;
            seen_before = of_the_page;
            if page.lock() != lock && !is_seen_again {
                continue;
            }
            let (conversion, limit) = match (&state.kind, &mut state.calibration) {
                (Kind::Page, _) => (of_the_page?, u64::MAX),
                (Kind::Calibrated, Some(calibration)) if calibration.covers(ticks) => {
                    (calibration.conversion(self.offset.load(Relaxed)), calibration.until())
                }
                (Kind::Calibrated, calibration) => {
                    let known = calibration.take();
                    // In another time namespace, a jump may be smaller than the error long after the last sample.
                    let is_here = !is_elsewhere(state.namespace);
                    *calibration = known
                        .filter(|_| is_here)
                        .and_then(|known| known.refined(look(known.step())?));
                    if calibration.is_some() {
                        state.realtime = kernel::realtime();
                    } else {
                        state.expired = known.or(state.expired);
                        // Sends the next call of `now` to `begin_anew`.
                        self.lock.store(NO_LOCK, Relaxed);
                        return None;
                    }
                    continue;
                }
                (Kind::Kernel(_), _) => {
                    let offset = self.offset.load(Relaxed);
                    let now = ticks.wrapping_add(offset);
                    let ahead = later(now, later(self.last.get(), state.latest)).wrapping_sub(now);
                    // The kernel's clock goes back by much only if the process has entered another time namespace.
                    if ahead > MAX_BETWEEN || ahead > HELD && has_moved(&mut state.namespace) {
                        self.offset.store(offset.wrapping_add(ahead), Relaxed);
                        state.misaligned = None; // what passed before the first read there is lost
                    }
                    (Conversion::of_nanoseconds(self.offset.load(Relaxed)), 0)
                }
            };
            let conversion = conversion.off_by_more(state.misaligned);
            state.conversion = conversion;
            // Until the new parameters are published, a signal handler gets the latest time, and does not change it.
            self.lock.store(NO_LOCK, Relaxed);
            compiler_fence(Ordering::SeqCst); // the lock first; pairs with now
            let latest = later(self.last.get(), state.latest);
            let now = conversion.ticks_to_ns(ticks);
            self.last.set(later(now, latest));
            // While the clock is held, every call takes this path, which uses `state.latest`. A call that a signal
            // handler interrupts may store an earlier time in `last`, which the hot path would use next.
            let limit = if is_before(now, latest) {
                state.latest = latest;
                0
            } else {
                limit
            };
            let line = conversion.line().below(limit);
            match &state.kind {
                Kind::Page => self.follow(line, page.lock_at(), lock),
                Kind::Calibrated | Kind::Kernel(_) => {
                    let number = self.lines.load(Relaxed).wrapping_add(2);
                    self.lines.store(number, Relaxed);
                    self.follow(line, self.lines.as_ptr(), number);
                }
            }
            return Some((ticks, conversion));
        }
        match &state.kind {
            // The parameters have changed each time. The last ones still convert, and `now` repeats the latest time.
            Kind::Page => {
                if state.conversion == Conversion::standing_still(0) {
                    state.conversion = seen_before?;
                }
                Some((self.ticks::<true>(), state.conversion))
            }
            Kind::Calibrated | Kind::Kernel(_) => None,
        }
    }

    /// Leaves a lost page, or replaces a calibration that no longer holds.
    fn begin_anew(&self, state: &mut State) {
        match &state.kind {
            Kind::Page => self.go_on_without_page(state),
            Kind::Kernel(_) => {} // never out of date
            Kind::Calibrated => {
                state.calibration = calibrate(false);
                match (state.calibration, state.expired.take()) {
                    (None, _) => {
                        self.become_kind(state, Kind::Kernel(ErrorKind::TicksNotInvariant))
                    }
                    (Some(new), Some(expired)) => self.align(state, expired, new),
                    (Some(_), None) => {}
                }
            }
        }
    }

    /// Continues the timeline if CLOCK_MONOTONIC_RAW has jumped: see [`continuation`].
    fn align(&self, state: &mut State, expired: Calibration, new: Calibration) {
        let is_elsewhere = has_moved(&mut state.namespace);
        let now = kernel::realtime();
        let since = now.wrapping_sub(std::mem::replace(&mut state.realtime, now));
        let (offset, ticks) = (self.offset.load(Relaxed), self.ticks::<true>());
        let of = |calibration: Calibration| calibration.conversion(offset).ticks_to_ns(ticks);
        let (by_ticks, by_kernel) = (of(expired), of(new));
        let last = later(self.last.get(), state.latest);
        let witness = is_elsewhere.then(|| expired.ns().wrapping_add(offset).wrapping_add(since));
        if let Some(time) = continuation(by_ticks, by_kernel, last, witness) {
            self.offset.store(offset.wrapping_add(time.wrapping_sub(by_kernel)), Relaxed);
            let errors = expired.error_bound(ticks).saturating_add(new.error_bound(ticks));
            let errors = errors.saturating_add(time.abs_diff(by_ticks));
            // What passed before a time at which both clocks have gone back is lost.
            let is_known = time != last || time.abs_diff(by_ticks) <= HELD;
            state.misaligned = state.misaligned.filter(|_| is_known);
            state.misaligned = state.misaligned.map(|known| known.saturating_add(errors));
        }
    }

    /// Publishes `line` to the hot path. `lock` must be NO_LOCK before.
    ///
    /// The lock is restored last. So neither an interrupted reader nor a signal handler combines two sets of
    /// parameters: the former sees another lock than before, the latter an invalid one.
    fn follow(&self, line: Line, lock_at: *const u32, lock: u32) {
        self.lock_at.store(lock_at.cast_mut(), Relaxed);
        self.line.set(line);
        compiler_fence(Ordering::SeqCst); // the line first; pairs with now
        self.lock.store(lock, Relaxed);
    }

    fn become_kind(&self, state: &mut State, kind: Kind) {
        self.ticking.set(!matches!(kind, Kind::Kernel(_)));
        state.kind = kind;
    }

    /// Continues without the page.
    ///
    /// Either this process is a fork, in whose parent the kernel trusted the counter. Or the kernel has stopped
    /// trusting it.
    fn go_on_without_page(&self, state: &mut State) {
        if let Some(look) = look(1) {
            let time = state.conversion.ticks_to_ns(look.middle());
            self.offset.store(time.wrapping_sub(look.ns), Relaxed);
        }
        state.namespace = kernel::time_namespace();
        state.realtime = kernel::realtime();
        if !self.process.is_past() {
            machine::remember_trust(false);
        }
        // No future lock may equal one of the page that an interrupted call still holds.
        self.lines.store(self.lock.load(Relaxed), Relaxed);
        self.become_kind(state, Kind::without_page(self.process.is_past()));
    }
}

/// Whether the process is in another time namespace than this one. False if that is not known.
fn is_elsewhere(namespace: Option<u64>) -> bool {
    namespace.zip(kernel::time_namespace()).is_some_and(|(before, now)| before != now)
}

/// Whether the process is in another time namespace than before, which then is this one. False if that is not known.
fn has_moved(namespace: &mut Option<u64>) -> bool {
    let Some(now) = kernel::time_namespace() else { return false };
    namespace.replace(now).is_some_and(|before| before != now)
}

impl Kind {
    /// Returns the best kind without a page, by whether the kernel trusts the tick counter.
    fn without_page(is_trusted: bool) -> Kind {
        match is_trusted {
            false => Kind::Kernel(ErrorKind::TicksNotTrusted),
            true if !asm::ticks_are_invariant() => Kind::Kernel(ErrorKind::TicksNotInvariant),
            true => Kind::Calibrated,
        }
    }
}

/// Returns why the tick counter is not used.
fn no_ticks(why: ErrorKind) -> Error {
    let (cause, remedy) = match why {
        ErrorKind::NoTickCounter => {
            ("this library knows no tick counter of this CPU", "No action needed")
        }
        ErrorKind::TicksForbidden => (
            "this thread may not read the tick counter",
            "Allow it with prctl(PR_SET_TSC, PR_TSC_ENABLE), then open the clock again",
        ),
        ErrorKind::TicksNotInvariant => (
            "the CPU does not advertise a constant-rate tick counter (no `nonstop_tsc` in /proc/cpuinfo on x86-64), or \
             the counter stood still",
            "In a virtual machine, enable the feature in the hypervisor (QEMU: `-cpu host,+invtsc`)",
        ),
        _ => (
            "the kernel does not list the tick counter in \
             /sys/devices/system/clocksource/clocksource0/available_clocksource",
            "Its log has the cause (`dmesg | grep -i tsc`)",
        ),
    };
    Error::new(why, cause, remedy)
}

fn forked() -> Error {
    Error::new(
        ErrorKind::Forked,
        "this process is a fork of the one that opened the clock",
        "Open a new clock in this process",
    )
}

/// Opens an event that counts nothing, and maps its page. An error if the page has no clock.
fn open_page(process: Process) -> Result<Pages, Error> {
    let opened = open_events(&Options::default(), &[Event::DUMMY])?;
    // The mapping keeps the event alive.
    let pages =
        Pages::map(&[&opened.leader], process).map_err(why_not_mapped)?.ok_or_else(forked)?;
    match pages.first().since_zero() {
        Some(_) => Ok(pages),
        None => Err(Error::new(
            ErrorKind::NoConversion,
            "the kernel's scheduler clock is not the tick counter (usual in virtual machines)",
            "No action needed",
        )),
    }
}

/// Takes eight samples of both clocks, so that nothing comes in between in one of them, and returns the narrowest.
/// None if the kernel's clock fails. `step` is the tick counter's.
fn look(step: u64) -> Option<Sample> {
    let mut narrowest: Option<Sample> = None;
    for _ in 0..8 {
        // SAFETY: only clocks that use the tick counter come here, and `open` has checked that this thread may read
        // it.
        let before = unsafe { asm::ticks::<true>() };
        let ns = kernel::monotonic_raw(false).ok()?;
        // SAFETY: only clocks that use the tick counter come here, and `open` has checked that this thread may read
        // it.
        let after = unsafe { asm::ticks::<true>() };
        let look = Sample { before, after, ns, step };
        if narrowest.is_none_or(|narrowest| look.width() < narrowest.width()) {
            narrowest = Some(look);
        }
    }
    narrowest
}

/// Calibrates the counter, in 200 microseconds. None if the counter or the kernel's clock stands still.
fn calibrate(same_oscillator: bool) -> Option<Calibration> {
    // SAFETY: only clocks that use the tick counter come here, and `open` has checked that this thread may read it.
    let step = step_of(|| unsafe { asm::ticks::<false>() });
    let first = look(step)?;
    for _ in 0..10_000 {
        let second = look(step)?;
        if second.ns.saturating_sub(first.ns) >= 200_000 {
            return Calibration::new(first, second, same_oscillator);
        }
    }
    None
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// Imitates a sample that shows that the clock ran ahead.
    #[test]
    fn a_clock_that_was_ahead_stands_still_and_says_by_how_much() -> Result<(), Error> {
        let process = fork::process().map_err(Error::of_call("pthread_atfork"))?;
        let clock = Source::new(Pages::empty(), Kind::Calibrated, None, false, process);
        // Any call updates the latest time that the hot path knows.
        let told = clock.now::<false>();
        let from = clock.ticks::<false>();
        while clock.conversion().delta_ns(clock.ticks::<false>() - from) < 1_000 {}
        assert!(is_before(told, clock.last.get()));
        let ahead = clock.now::<false>() + 3_600_000_000_000;
        clock.last.set(ahead);
        assert_eq!([clock.now::<false>(), clock.now::<true>(), clock.now::<false>()], [ahead; 3]);
        // A call that these have interrupted stores its earlier time.
        clock.last.set(told);
        assert_eq!(clock.now::<false>(), ahead);
        let (bound, now) = (
            clock.error_bound().unwrap_or(0),
            clock.conversion().ticks_to_ns(clock.ticks::<false>()),
        );
        assert!(bound >= ahead - now, "{bound} ns, {now} of {ahead}");
        Ok(())
    }

    /// Only a request for the time calibrates.
    #[test]
    fn what_has_to_be_calibrated_has_no_bound() -> Result<(), Error> {
        let process = fork::process().map_err(Error::of_call("pthread_atfork"))?;
        let reason = Some(forked());
        let clock = Source::new(Pages::empty(), Kind::Calibrated, reason, false, process);
        assert!(clock.error_bound().is_some());
        let is_calibrated = || clock.state.with(|state| state.calibration.is_some());
        clock.state.with(|state| state.calibration = None);
        assert_eq!(clock.error_bound(), None);
        assert_eq!(clock.kind(), ClockKind::Calibrated(forked()));
        assert_eq!(is_calibrated(), Some(false));
        clock.now::<false>();
        // A second later it would take another sample, and not calibrate.
        assert!(clock.error_bound().is_some());
        assert_eq!(is_calibrated(), Some(true));
        Ok(())
    }
}
