//! The state of a thread that records spans.
#![allow(unsafe_code)]

use crate::counting::{Counting, Start};
use crate::record::{
    Companion, FLAGS_SHIFT, Flags, HEAD, Lost, Site, address, span_of, ticks_between,
};
use crate::sink::Sink;
use crate::thread::current::{Calls, Header, NOT_INLINED};
use crate::thread::in_fiber::InFiber;
use crate::thread::stack::{BUSY, Stack};
use rdpmc::Clock;
use rdpmc::clock::TickCounter;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::mem::offset_of;
use std::sync::atomic::{Ordering, compiler_fence};
use std::time::Duration;

/// The top and the sink's progress at which a span found no slot.
type Full = (u64, (usize, u32));

/// What a slow path knows of a span beside its counts.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) flags: Flags,
    pub(super) lost: Option<Lost>,
}

impl Known {
    pub(super) fn only(flags: Flags) -> Known {
        Known { flags, lost: None }
    }
}

/// What does not depend on the number of events.
#[repr(C)]
pub(super) struct Local {
    pub(super) header: Header,
    /// The number of the innermost open span, on the outlined path.
    pub(super) open: Cell<u64>,
    pub(super) clock: Clock,
    /// The clock's ticks, if they are those of a tick counter.
    pub(super) ticks: Option<TickCounter>,
    pub(super) sink: Sink,
    /// The counts at the end of a span or lap, on their way to a slow path.
    pub(super) ended: Start,
    /// The ticks at which events were last found to have been without counters.
    multiplexed_at: Cell<u64>,
    /// The time that they had been without counters then.
    without_counters: Cell<Duration>,
    /// The names of the spans whose page faults are counted.
    pub(super) faults: &'static [String],
    /// The top and the sink's progress at which a span last found no slot, and how many did in a row.
    pub(super) found_full: Cell<(Full, u32)>,
    /// The fiber that the thread is in.
    pub(super) fiber: InFiber,
    pub(super) stack: Stack,
}

/// The state of a thread that counts with `C`.
///
/// The counters are before the rest, and the slots at its end, so that all else is close to the header.
#[repr(C)]
pub(super) struct LocalOf<C> {
    pub(super) counting: C,
    pub(super) local: Local,
}

/// What a state counts with. Has `N` among its parameters, because an implementation must name it.
pub(super) struct Counter<C, const N: usize>(pub(super) C);

/// The owner of a state, whatever it counts with. A pointer and not a box, because a thread's CURRENT points to it, too.
pub(crate) struct State {
    all: *mut dyn Owned,
    header: *const Header,
    /// The memory around it.
    memory: (*mut u8, Layout),
}

/// Lets `State` drop a state, whatever it counts with.
trait Owned {}
impl<C> Owned for LocalOf<C> {}

impl Drop for State {
    fn drop(&mut self) {
        let (memory, layout) = self.memory;
        // SAFETY: made in `new`, with this layout, and CURRENT does not point to it any more.
        unsafe {
            self.all.drop_in_place();
            dealloc(memory, layout);
        }
    }
}

impl State {
    /// Returns the state of a thread that counts with `counting`, and the page faults of spans of these names. Its sink has `N`
    /// counts.
    pub(crate) fn new<C: Counting<N> + 'static, const N: usize>(
        counting: C,
        session: u32,
        clock: Clock,
        sink: Sink,
        faults: &'static [String],
    ) -> State {
        let ticks = clock.tick_counter();
        let is_inlined = C::IS_NOTHING && ticks.is_some() && faults.is_empty();
        let inlined = if is_inlined { session } else { 0 };
        let mut calls = match ticks {
            Some(_) => LocalOf::<Counter<C, N>>::CALLS,
            None => LocalOf::<Counter<C, N>>::BY_THE_KERNEL,
        };
        if !faults.is_empty() {
            calls.enter = LocalOf::<Counter<C, N>>::enter_with_faults;
            calls.exit = LocalOf::<Counter<C, N>>::exit_with_faults;
        }
        // In place, because the stack of the thread may be smaller than a state. More, to align it: an allocator writes zeros to
        // memory that it aligns, and then all of it is touched.
        let of_state = Layout::new::<LocalOf<Counter<C, N>>>();
        let (size, align) = (of_state.size() + of_state.align(), align_of::<u64>());
        let Ok(layout) = Layout::from_size_align(size, align) else { handle_alloc_error(of_state) };
        // SAFETY: a state has bytes.
        let memory = unsafe { alloc_zeroed(layout) };
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        let past = memory.addr() % of_state.align();
        let to = memory.wrapping_add((of_state.align() - past) % of_state.align());
        let to = to.cast::<LocalOf<Counter<C, N>>>();
        // SAFETY: a field of the memory, whose bytes are 0.
        let born = unsafe { Stack::new_at(&raw mut (*to).local.stack) };
        // SAFETY: each field is written once, without a look at what was there, and the stack above. That is all of them.
        unsafe {
            (&raw mut (*to).counting).write(Counter(counting));
            (&raw mut (*to).local.header).write(Header {
                inlined: Cell::new(inlined),
                session,
                open_inlined: Cell::new(if inlined == 0 { NOT_INLINED } else { born }),
                calls,
            });
            (&raw mut (*to).local.open).write(Cell::new(born));
            (&raw mut (*to).local.clock).write(clock);
            (&raw mut (*to).local.ticks).write(ticks);
            (&raw mut (*to).local.sink).write(sink);
            (&raw mut (*to).local.ended).write(Start::new());
            (&raw mut (*to).local.multiplexed_at).write(Cell::new(0));
            (&raw mut (*to).local.without_counters).write(Cell::new(Duration::ZERO));
            (&raw mut (*to).local.faults).write(faults);
            (&raw mut (*to).local.found_full).write(Cell::new(((0, (0, 0)), 0)));
            (&raw mut (*to).local.fiber).write(InFiber::none());
        }
        // SAFETY: the state is valid. The pointer is derived from that to all of it, so that `LocalOf::from_header` may go back from the header.
        let header = unsafe { &raw const (*to).local.header };
        State { all: to, header, memory: (memory, layout) }
    }

    pub(crate) fn header(&self) -> *const Header {
        self.header
    }

    /// Sets where the thread records, and returns where it did.
    ///
    /// # Safety
    /// This thread has the state, and does not record. `sink` has as many counts.
    pub(crate) unsafe fn replace_sink(&mut self, sink: Sink) -> Sink {
        let local = self.header.cast_mut().cast::<Local>();
        // SAFETY: no reference to it is left: those of the hot path do not outlive its calls.
        unsafe { std::mem::replace(&mut (*local).sink, sink) }
    }
}

impl Local {
    /// Returns the number of the innermost open span: the top of the stack.
    #[inline(always)]
    pub(super) fn top(&self) -> &Cell<u64> {
        match self.header.inlined.get() {
            0 => &self.open,
            _ => &self.header.open_inlined,
        }
    }

    /// Returns the clock's tick counter.
    ///
    /// # Safety
    /// There is one.
    #[inline(always)]
    pub(super) unsafe fn tick_counter(&self) -> TickCounter {
        // SAFETY: the caller's promise.
        unsafe { self.ticks.unwrap_unchecked() }
    }

    /// Takes a span from the stack: see `Stack::pop`.
    pub(super) fn pop(&self, number: u64) -> Option<(*const Site, Flags)> {
        let popped = self.stack.pop(self.top(), number, self.header.inlined.get() == 0);
        if popped.is_some() {
            self.fiber.span_ended(self.top().get());
        }
        popped
    }

    /// Records a span or lap. The top is `after` afterwards, and BUSY until then.
    ///
    /// # Safety
    /// `top` is that of the stack. The sink was made for `N` counts. The top is not BUSY, unless the caller has set it.
    #[inline(always)]
    pub(super) unsafe fn write<const N: usize>(
        &self,
        top: &Cell<u64>,
        after: u64,
        head: [u64; HEAD],
        counts: [u64; N],
    ) {
        top.set(BUSY);
        compiler_fence(Ordering::SeqCst); // a signal handler of this thread sees it first
        // Last, so that nothing of the record has to be kept for the call.
        // SAFETY: the caller's promises, and whoever finds BUSY does not record.
        if unsafe { self.sink.write(head, counts) } {
            return self.advance(after);
        }
        compiler_fence(Ordering::SeqCst);
        top.set(after);
    }

    /// Ends a `write` for which the sink needs more.
    #[inline(never)]
    fn advance(&self, after: u64) {
        // SAFETY: `write` has called the sink's, and the top is still BUSY.
        unsafe { self.sink.advance() };
        compiler_fence(Ordering::SeqCst);
        self.top().set(after);
    }

    /// Records a span or lap, on a slow path. Counts it as lost if this interrupts another record.
    pub(super) fn record<const N: usize>(
        &self,
        site: &'static Site,
        parent: *const Site,
        [start, end]: [u64; 2],
        number: u64,
        Known { flags, lost }: Known,
        counts: [u64; N],
    ) {
        let top = self.top();
        let innermost = top.get();
        if innermost == BUSY {
            return crate::record::count_lost(1);
        }
        let last = span_of(number) | u64::from(flags.bits()) << FLAGS_SHIFT;
        top.set(BUSY);
        compiler_fence(Ordering::SeqCst); // as in `write`, so that a signal handler does not use the room
        // The span is worth more than its companion.
        if let Some(lost) = lost.filter(|_| self.sink.has_room_for_two()) {
            let head = Companion::Lost(lost).head(start, last);
            // SAFETY: the sink was made for N events, and whoever finds BUSY does not record.
            unsafe {
                if self.sink.write(head, [0; N]) {
                    self.sink.advance();
                }
            }
        }
        let head = [address(site), address(parent), start, end, last];
        // SAFETY: the sink was made for the number of events of `counts`, and the top was not BUSY before.
        unsafe { self.write(top, innermost, head, counts) }
    }

    /// Records a companion of the span that ends next, and began then. Both get room, or neither does.
    #[inline(always)]
    pub(super) fn record_companion<const N: usize>(
        &self,
        companion: Companion,
        start: u64,
        number: u64,
    ) {
        let top = self.top();
        let innermost = top.get();
        if innermost == BUSY {
            return;
        }
        top.set(BUSY);
        compiler_fence(Ordering::SeqCst); // as in `write`, so that a signal handler does not use the room
        if self.sink.has_room_for_two() {
            // SAFETY: the sink was made for N events, and whoever finds BUSY does not record.
            return unsafe { self.write(top, innermost, companion.head(start, number), [0; N]) };
        }
        self.sink.refuse_next();
        compiler_fence(Ordering::SeqCst);
        top.set(innermost);
    }

    /// Returns whether the events were without counters in a part of this time.
    fn is_multiplexed(&self, without_counters: Option<Duration>, [start, end]: [u64; 2]) -> bool {
        if let Some(now) = without_counters {
            if self.without_counters.replace(now) != now {
                self.multiplexed_at.set(end);
            }
        }
        self.multiplexed_at.get() > start
    }
}

impl<C: Counting<N>, const N: usize> LocalOf<Counter<C, N>> {
    pub(super) const CALLS: Calls = Calls {
        enter: Self::enter,
        exit: Self::exit,
        begin: Self::begin,
        lap: Self::lap,
        number: Self::number,
        exit_elsewhere: Self::exit_elsewhere,
        time: Self::time,
        prepare: Self::prepare,
    };
    /// For a thread whose clock is the kernel's.
    pub(super) const BY_THE_KERNEL: Calls = Calls {
        enter: Self::enter_slowly,
        exit: Self::exit_by_the_kernel,
        lap: Self::lap_by_the_kernel,
        ..Self::CALLS
    };

    /// Returns the state of a header.
    ///
    /// # Safety
    /// The header is that of a Self, which is alive.
    #[inline(always)]
    pub(super) unsafe fn from_header<'a>(header: *const Header) -> &'a Self {
        // SAFETY: `State::new` made the header's pointer from one to all of it.
        unsafe { &*header.byte_sub(offset_of!(Self, local)).cast::<Self>() }
    }

    /// Returns ticks and counts of one moment: no disturbance is between them. `counted` is the latest snapshot.
    ///
    /// A lap or span whose ticks were read before a switch and whose counts after it would have the flag, and the next one
    /// the time.
    pub(super) fn boundary(&self, counted: Option<C::Snapshot>) -> (u64, Option<C::Snapshot>) {
        // A round takes less than a microsecond, or a few after a switch, so a second disturbance in it is rare.
        const ROUNDS: u32 = 8;
        let mut before = counted;
        let mut ticks = self.local.clock.ticks();
        for _ in 0..ROUNDS {
            let now = self.counting.0.snapshot();
            let is_disturbed =
                before.zip(now).is_some_and(|(before, now)| C::between(before, now).1);
            before = now;
            if !is_disturbed {
                break;
            }
            ticks = self.local.clock.ticks();
        }
        (ticks, before)
    }

    /// Returns what is known of a span or lap that the kernel disturbed.
    pub(super) fn disturbed(
        &self,
        begun: C::Snapshot,
        ended: C::Snapshot,
        ticks: [u64; 2],
    ) -> Known {
        let mut flags = Flags::DISTURBED.union(C::causes(begun, ended));
        if self.local.is_multiplexed(self.counting.0.without_counters(), ticks) {
            flags = flags.union(Flags::MULTIPLEXED);
        }
        let [start, end] = ticks;
        let span = self.local.clock.conversion().delta_ns(ticks_between(start, end));
        Known { flags, lost: self.counting.0.lost(begun, ended, span) }
    }

    /// As [`Local::top`]. Only a thread that counts nothing is on the inlined path.
    #[inline(always)]
    pub(super) fn top(&self) -> &Cell<u64> {
        if C::IS_NOTHING { self.local.top() } else { &self.local.open }
    }

    /// Allocates what a site's first span would.
    unsafe fn prepare(header: *const Header, site: &'static Site) {
        // SAFETY: the header is this thread's, and the state whose calls these are is a Self.
        let local = unsafe { &Self::from_header(header).local };
        let top = local.top();
        let innermost = top.replace(BUSY);
        if innermost != BUSY {
            compiler_fence(Ordering::SeqCst);
            // SAFETY: whoever finds BUSY does not record.
            unsafe { local.sink.prepare(site) };
            compiler_fence(Ordering::SeqCst);
        }
        top.set(innermost);
    }
}
