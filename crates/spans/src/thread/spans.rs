//! The hot path of spans.
#![allow(unsafe_code)]

use crate::counting::{Counting, faults_of_this_thread};
use crate::record::{Companion, Faults, Flags, MAX_DEPTH, SLOT, Site, address, count_lost};
use crate::thread::current::{Header, header, join_and_enter};
use crate::thread::ended_elsewhere;
use crate::thread::stack::{BUSY, UNCOUNTED, one_deeper};
use crate::thread::state::{Counter, Known, Local, LocalOf};
use std::ptr;

/// The parent and the flags of a span that is not on the stack any more, because a span around it has ended.
const OFF_STACK: (*const Site, Flags) = (ptr::null(), Flags::OUT_OF_ORDER);

/// Begins a span. Returns its number and, on the inlined path, its ticks. The number is 0 if it is not recorded.
#[inline(always)]
pub(crate) fn enter(site: &'static Site, session: u32) -> (u64, u64) {
    let header = header();
    // SAFETY: CURRENT points to a static or to this thread's state, which is alive until CURRENT is changed. Only `join` and
    // the end of the thread change it. The only foreign code on the inlined path is the allocator, at a histogram's first
    // span of a site. A span there finds BUSY, and `join` refuses then.
    unsafe {
        match (*header).is_inlined(session) {
            true => (*header.cast::<Local>()).enter_inlined(site),
            false => (((*header).calls.enter)(header, site, session), 0),
        }
    }
}

/// Ends a span.
#[inline(always)]
pub(crate) fn exit(site: &'static Site, number: u64, start: u64) {
    let header = header();
    // SAFETY: as in `enter`. The statics have a number that no span has.
    unsafe {
        match (*header).open_inlined.get() == number {
            true => (*header.cast::<Local>()).exit_inlined(site, number, start),
            false => ((*header).calls.exit)(header, site, number, start),
        }
    }
}

/// Records a number for a span that is about to end.
#[inline]
pub(crate) fn record_number(number: u64, start: u64, value: u64) {
    let header = header();
    // SAFETY: as in `enter`.
    unsafe { ((*header).calls.number)(header, number, start, value) }
}

/// Records that a span of this thread has ended at these ticks, on another thread. Its first ticks are those of `enter`.
#[cfg(feature = "tracing")]
pub(crate) fn exit_elsewhere(site: &'static Site, number: u64, ticks: [u64; 2]) {
    let header = header();
    // SAFETY: as in `enter`.
    unsafe { ((*header).calls.exit_elsewhere)(header, site, number, ticks) }
}

/// Whether a record of this thread is being written, by a caller of this.
pub(crate) fn is_busy() -> bool {
    let header = header();
    // SAFETY: as in `enter`. A header with a session is that of a state.
    unsafe { (*header).session != 0 && (*header.cast::<Local>()).top().get() == BUSY }
}

impl Local {
    /// Begins a span on the inlined path. Returns its number and its ticks.
    ///
    /// # Safety
    /// The thread is on the inlined path.
    #[inline(always)]
    unsafe fn enter_inlined(&self, site: &'static Site) -> (u64, u64) {
        match self.stack.push(&self.header.open_inlined, site) {
            // SAFETY: a thread without a tick counter is not on the inlined path.
            Some((number, _)) => (number, unsafe { self.tick_counter() }.read()),
            None => (self.has_no_slot(), 0),
        }
    }

    /// Ends the innermost span on the inlined path.
    ///
    /// # Safety
    /// The thread is on the inlined path.
    #[inline(always)]
    unsafe fn exit_inlined(&self, site: &'static Site, number: u64, start: u64) {
        // SAFETY: a thread without a tick counter is not on the inlined path.
        let end = unsafe { self.tick_counter() }.read();
        let around = number.wrapping_add(SLOT);
        let parent = self.stack.site(around);
        let head = [address(site), address(parent), start, end, number];
        // SAFETY: on the inlined path, the sink has no counts. The top is `number`.
        unsafe { self.write(&self.header.open_inlined, around, head, []) }
    }

    /// Whether the page faults of this site's spans are counted.
    fn counts_faults_of(&self, site: &Site) -> bool {
        self.faults.iter().any(|name| name == site.name())
    }

    /// Counts a span for which there is no slot.
    #[cold]
    #[inline(never)]
    fn has_no_slot(&self) -> u64 {
        match self.top().get() {
            BUSY => count_lost(1),
            full => {
                self.sink.drop_one();
                self.give_up_if_stuck(full);
            }
        }
        0
    }

    /// Gives up all open spans if many others have found no slot, and none has ended meanwhile: they were forgotten, or ended on
    /// another thread, and would keep this thread from recording for ever. They are lost, even if they end after all.
    fn give_up_if_stuck(&self, full: u64) {
        const MANY: u32 = 1 << 16;
        let now = (full, self.sink.progress());
        let (before, times) = self.found_full.get();
        let times = if before == now { times + 1 } else { 1 };
        self.found_full.set((now, times));
        if times == MANY {
            self.stack.give_up(self.top());
            self.fiber.span_ended(self.top().get());
            count_lost(u64::from(MAX_DEPTH));
        }
    }

    /// Ends a span on the inlined path that is not the innermost one, or that began on the outlined path.
    fn exit_disordered(&self, site: &'static Site, number: u64, start: u64, end: u64) {
        let number_on_stack = number & !UNCOUNTED;
        // One of the thread's that is not on the inlined path is its first, whose slot still has its ticks. Others began in a fiber, and end outside.
        // Before `pop`, after which a signal handler's span may have the slot.
        let slot = self.stack.slot(number);
        let start = match number == number_on_stack {
            true => Some(start).filter(|start| *start != 0),
            false => (slot.number.get() == number_on_stack).then(|| slot.ticks.get()),
        };
        let popped = self.pop(number_on_stack);
        if popped.is_none() && self.stack.is_older(number_on_stack) {
            return count_lost(1); // in an earlier session
        }
        if popped.is_none() && self.stack.is_given_up(number_on_stack) {
            return; // it is counted
        }
        let Some(start) = start else { return ended_elsewhere::add(number) };
        let (parent, flags) = popped.unwrap_or(OFF_STACK);
        self.record(site, parent, [start, end], number_on_stack, Known::only(flags), []);
    }
}

impl<C: Counting<N>, const N: usize> LocalOf<Counter<C, N>> {
    /// Begins a span.
    ///
    /// # Safety
    /// The header is this thread's, and the thread has a tick counter.
    pub(super) unsafe fn enter(header: *const Header, site: &'static Site, session: u32) -> u64 {
        // SAFETY: the caller's promise, and the state whose calls these are is a Self.
        let this = unsafe { Self::from_header(header) };
        let local = &this.local;
        if C::IS_NOTHING || local.header.session != session {
            // SAFETY: the caller's promise.
            return unsafe { Self::enter_slowly(header, site, session) };
        }
        let Some((number, slot)) = local.stack.push(&local.open, site) else {
            return local.has_no_slot();
        };
        slot.number.set(number);
        // The time is inside the counts, because the cost of a read is constant in instructions, not in time.
        let Some(start) = this.counting.0.snapshot_at_begin() else {
            return this.enter_uncounted(number);
        };
        slot.start.set(start);
        // SAFETY: the caller's promise.
        slot.ticks.set(unsafe { local.tick_counter() }.read());
        number
    }

    /// Begins a span that is on the stack, without counts.
    #[cold]
    #[inline(never)]
    fn enter_uncounted(&self, number: u64) -> u64 {
        let slot = self.local.stack.slot(number);
        slot.ticks.set(self.local.clock.ticks());
        // For a fiber that leaves: its span has no counts.
        slot.faults.set((number | UNCOUNTED, Faults::default()));
        number | UNCOUNTED
    }

    /// Begins a span, in other cases.
    ///
    /// # Safety
    /// The header is this thread's.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn enter_slowly(
        header: *const Header,
        site: &'static Site,
        session: u32,
    ) -> u64 {
        // SAFETY: as in `enter`.
        let this = unsafe { Self::from_header(header) };
        let local = &this.local;
        if local.header.session != session {
            // SAFETY: the caller's promise.
            return unsafe { join_and_enter(header, site, session) };
        }
        let Some((number, slot)) = local.stack.push(this.top(), site) else {
            return local.has_no_slot();
        };
        slot.number.set(number);
        // The first span of a thread on the inlined path.
        let is_counted = local.header.inlined.get() == 0;
        let counted = if is_counted { this.counting.0.snapshot_at_begin() } else { None };
        let Some(start) = counted else { return this.enter_uncounted(number) };
        slot.start.set(start);
        slot.ticks.set(local.clock.ticks());
        number
    }

    /// Ends a span.
    ///
    /// # Safety
    /// As `enter`.
    pub(super) unsafe fn exit(header: *const Header, site: &'static Site, number: u64, start: u64) {
        // SAFETY: as in `enter`.
        let this = unsafe { Self::from_header(header) };
        let local = &this.local;
        // Only spans on the inlined path have it. For the others, this frees a register.
        let start = if C::IS_NOTHING { start } else { 0 };
        // SAFETY: the caller's promise.
        let end = unsafe { local.tick_counter() }.read();
        let Some(counted) = this.counting.0.snapshot() else {
            return this.exit_uncounted(site, number, start, end);
        };
        if local.open.get() != number {
            local.ended.set(counted);
            return this.exit_counted(site, number, start, end);
        }
        let (slot, around) = local.stack.slot_and_around(number);
        // SAFETY: a span whose number is on the stack is counted, so `enter` has set its slot.
        let begun = unsafe { slot.start.get() };
        let (counts, false) = C::between(begun, counted) else {
            local.ended.set(counted);
            return this.exit_counted(site, number, start, end);
        };
        // SAFETY: only a span that has a slot is open, and the last slot is that of none. So there is one after it.
        let parent = unsafe { (*around).site.get() };
        let head = [address(site), address(parent), slot.ticks.get(), end, number];
        // SAFETY: the sink was made for N counts. The top is `number`.
        unsafe { local.write(&local.open, number.wrapping_add(SLOT), head, counts) }
    }

    /// Ends a span at the kernel's time.
    ///
    /// # Safety
    /// The header is this thread's.
    pub(super) unsafe fn exit_by_the_kernel(
        header: *const Header,
        site: &'static Site,
        number: u64,
        start: u64,
    ) {
        // SAFETY: as in `enter`.
        let this = unsafe { Self::from_header(header) };
        let (end, counted) = (this.local.clock.ticks(), this.counting.0.snapshot());
        this.exit_slowly(site, number, start, end, counted);
    }

    /// Begins a span on a thread that counts the page faults of some.
    ///
    /// # Safety
    /// The header is this thread's.
    pub(super) unsafe fn enter_with_faults(
        header: *const Header,
        site: &'static Site,
        session: u32,
    ) -> u64 {
        // SAFETY: as in `enter`.
        let local = unsafe { &Self::from_header(header).local };
        if local.header.session != session {
            // SAFETY: the caller's promise.
            return unsafe { join_and_enter(header, site, session) };
        }
        // First, so that the span does not include the system call.
        let faults = if local.counts_faults_of(site) { faults_of_this_thread() } else { None };
        let number = match local.ticks {
            // SAFETY: the caller's promise, and the thread has a tick counter.
            Some(_) => unsafe { Self::enter(header, site, session) },
            // SAFETY: the caller's promise.
            None => unsafe { Self::enter_slowly(header, site, session) },
        };
        if let Some(faults) = faults.filter(|_| number != 0) {
            let on_stack = number & !UNCOUNTED;
            local.stack.slot(on_stack).faults.set((number, faults));
        }
        number
    }

    /// Ends a span on a thread that counts the page faults of some.
    ///
    /// # Safety
    /// The header is this thread's.
    pub(super) unsafe fn exit_with_faults(
        header: *const Header,
        site: &'static Site,
        number: u64,
        start: u64,
    ) {
        // SAFETY: as in `enter`.
        let this = unsafe { Self::from_header(header) };
        let local = &this.local;
        if !local.counts_faults_of(site) {
            return match local.ticks {
                // SAFETY: the caller's promise, and the thread has a tick counter.
                Some(_) => unsafe { Self::exit(header, site, number, start) },
                // SAFETY: the caller's promise.
                None => unsafe { Self::exit_by_the_kernel(header, site, number, start) },
            };
        }
        let (end, counted) = (local.clock.ticks(), this.counting.0.snapshot());
        let on_stack = local.fiber.number_here(number) & !UNCOUNTED;
        // Those of a span that ends out of order are not known.
        if local.top().get() == on_stack {
            let slot = local.stack.slot(on_stack);
            let (of, begun) = slot.faults.get();
            if let Some(now) = faults_of_this_thread().filter(|_| of & !UNCOUNTED == on_stack) {
                let faults = Companion::Faults(now.since(begun));
                local.record_companion::<N>(faults, slot.ticks.get(), on_stack);
            }
        }
        this.exit_slowly(site, number, start, end, counted);
    }

    #[cold]
    #[inline(never)]
    fn exit_uncounted(&self, site: &'static Site, number: u64, start: u64, end: u64) {
        self.exit_slowly(site, number, start, end, None);
    }

    /// With the counts in `ended`: as an argument, they would be stored on the hot path.
    #[cold]
    #[inline(never)]
    fn exit_counted(&self, site: &'static Site, number: u64, start: u64, end: u64) {
        // SAFETY: the caller has set it.
        let counted = unsafe { self.local.ended.get() };
        self.exit_slowly(site, number, start, end, Some(counted));
    }

    /// Ends a span that is disturbed, out of order or not counted, or on the inlined path.
    fn exit_slowly(
        &self,
        site: &'static Site,
        number: u64,
        start: u64,
        end: u64,
        counted: Option<C::Snapshot>,
    ) {
        let local = &self.local;
        if local.top().get() == BUSY {
            return count_lost(1); // in a signal handler, or in the allocator
        }
        let number = local.fiber.end_number_here(number);
        if number & !UNCOUNTED == 0 {
            return; // its fiber has entered, and it found no slot: it is counted
        }
        if local.header.inlined.get() != 0 || local.fiber.is_of_inlined(number) {
            return local.exit_disordered(site, number, start, end);
        }
        let is_counted = number & UNCOUNTED == 0;
        let number = number & !UNCOUNTED;
        let slot = local.stack.slot(number);
        if !is_counted {
            slot.faults.set((0, Faults::default())); // a later span has this number
        }
        let mut ticks = [slot.ticks.get(), end];
        if !local.stack.is_older(number) && local.stack.is_given_up(number) {
            return; // it is counted
        }
        if slot.number.get() != number {
            return ended_elsewhere::add(number); // with its slot, in an earlier session, or in a fiber that has left
        }
        // SAFETY: a span without UNCOUNTED is counted, so `enter` has set its slot. Before `pop`, after which a signal handler's
        // span may have the slot.
        let begun = is_counted.then(|| unsafe { slot.start.get() });
        let (mut counts, mut known) = ([0; N], Known::only(Flags::NONE));
        match counted.zip(begun) {
            Some((counted, begun)) => {
                let (between, is_disturbed) = C::between(begun, counted);
                counts = between;
                // A switch after the ticks were read is this span's by its counts. So is its time, then. What it takes to find out
                // is not in the counts.
                if is_disturbed {
                    let (end, last) = self.boundary(Some(counted));
                    ticks[1] = end;
                    known = self.disturbed(begun, last.unwrap_or(counted), ticks);
                }
            }
            _ => known.flags = Flags::NOT_COUNTED,
        }
        let (parent, order) = local.pop(number).unwrap_or(OFF_STACK);
        known.flags = known.flags.union(order);
        local.record(site, parent, ticks, number, known, counts);
    }

    /// Records a number for the innermost span, which ends next. Nothing for another span, which ends out of order.
    ///
    /// # Safety
    /// The header is this thread's.
    pub(super) unsafe fn number(header: *const Header, number: u64, start: u64, value: u64) {
        // SAFETY: as in `enter`.
        let this = unsafe { Self::from_header(header) };
        let number = this.local.fiber.number_here(number);
        let (is_in_slot, number) = (number & UNCOUNTED != 0, number & !UNCOUNTED);
        if this.top().get() == number {
            let is_in_slot = is_in_slot || this.local.header.inlined.get() == 0;
            let start = if is_in_slot { this.local.stack.slot(number).ticks.get() } else { start };
            this.local.record_companion::<N>(Companion::Number(value), start, number);
        }
    }

    /// Records a span of this thread that another thread has left, without counts.
    ///
    /// # Safety
    /// The header is this thread's.
    pub(super) unsafe fn exit_elsewhere(
        header: *const Header,
        site: &'static Site,
        number: u64,
        ticks: [u64; 2],
    ) {
        // SAFETY: as in `enter`.
        let local = unsafe { &Self::from_header(header).local };
        let number = local.fiber.end_number_here(number);
        if number & !UNCOUNTED == 0 {
            return; // as in `exit_slowly`
        }
        let (is_in_slot, number) = (number & UNCOUNTED != 0, number & !UNCOUNTED);
        let slot = local.stack.slot(number);
        let inlined = local.header.inlined.get();
        if local.stack.is_older(number) || inlined == 0 && slot.number.get() != number {
            return count_lost(1); // in an earlier session, or with its slot
        }
        let [start, end] = ticks;
        // As in `exit_disordered`.
        let start = if is_in_slot || inlined == 0 { slot.ticks.get() } else { start };
        let (parent, _) = local.pop(number).unwrap_or(OFF_STACK);
        let flags = Flags::OUT_OF_ORDER.union(Flags::NOT_COUNTED);
        let number = one_deeper(local.top().get());
        local.record(site, parent, [start, end], number, Known::only(flags), [0; N]);
    }
}
