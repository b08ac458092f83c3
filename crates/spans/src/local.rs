//! The state of a thread that records spans, and the hot path over it.
#![allow(unsafe_code)]

// The open spans of a thread are a stack of slots. A span is known by a number: the byte offset of its slot in the lowest
// bits, and above it a number that is new whenever a span ends out of order. So the numbers of a thread's open spans differ,
// and a span that is dropped out of order, or when its thread's state is gone or replaced, finds another number and is
// told apart.

use crate::Site;
use crate::counting::{Counting, Start};
use crate::histogram;
use crate::record::Flags;
use crate::ring::{DEPTH_SHIFT, FLAGS_SHIFT, Writer, address};
use crate::session;
use rdpmc::Clock;
use rdpmc::clock::TickCounter;
use std::cell::{Cell, RefCell};
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The number of the session that records, 0 if spans are off. The hot path's one check.
pub(crate) static RECORDING: AtomicU32 = AtomicU32::new(0);

/// What every thread has, so that the hot path needs no check for a thread without a state.
#[repr(C)]
pub(crate) struct Header {
    /// The number of the session, if the thread counts no events and has a tick counter: the inlined path. Otherwise 0.
    inlined: u32,
    /// The number of the session. 0 for none.
    session: u32,
    /// The number of the innermost open span of a thread on the inlined path. Elsewhere, a number that no span has.
    open_inlined: Cell<u64>,
    pub(crate) calls: Calls,
}

impl Header {
    /// Whether the thread is on the inlined path in this session.
    #[inline(always)]
    pub(crate) fn is_inlined(&self, session: u32) -> bool {
        self.inlined == session
    }
}

type Enter = unsafe fn(*const Header, &'static Site, u32) -> u64;
type Begin = unsafe fn(*const Header, &mut Lap, u32) -> bool;

/// The outlined path, for the number of events that the thread counts.
#[derive(Clone, Copy)]
pub(crate) struct Calls {
    /// Begins a span in this session, and returns its number.
    pub(crate) enter: Enter,
    /// Ends a span that is not the innermost one on the inlined path.
    pub(crate) exit: unsafe fn(*const Header, &'static Site, u64, u64),
    /// Begins a lap in this session, and returns whether it has.
    pub(crate) begin: Begin,
    /// Ends a lap that `begin` has begun, and begins the next.
    pub(crate) lap: unsafe fn(*const Header, &'static Site, &mut Lap),
    /// Ends a span that began on another thread.
    #[cfg(feature = "tracing")]
    exit_moved: unsafe fn(*const Header, &'static Site, Beginning),
}

/// The beginning of a lap.
#[derive(Debug)]
pub(crate) struct Lap {
    ticks: u64,
    start: Start,
    /// The number of the span around it, which also tells the state.
    around: u64,
    /// `around` if `start` is set, otherwise a number that no span has.
    counted_in: u64,
}

impl Lap {
    pub(crate) const fn new() -> Lap {
        Lap { ticks: 0, start: Start::new(), around: NOT_INLINED, counted_in: NOT_INLINED }
    }
}

/// The beginning of a span, as another thread needs it.
#[cfg(feature = "tracing")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    session: u32,
    ticks: u64,
    /// Whether the ticks are those of the kernel's clock.
    is_by_the_kernel: bool,
}

/// Returns the beginning of a span that this thread has just begun, from what `enter` has returned. None if it was not
/// recorded.
#[cfg(feature = "tracing")]
pub(crate) fn beginning(number: u64, ticks: u64) -> Option<Beginning> {
    let local = state_of_this_thread()?;
    let is_outlined = local.header.inlined == 0 || number & UNCOUNTED != 0;
    let ticks = if is_outlined { local.slot(number).ticks.get() } else { ticks };
    (number != TOO_DEEP).then_some(Beginning {
        session: local.header.session,
        ticks,
        is_by_the_kernel: local.ticks.is_none(),
    })
}

#[cfg(feature = "tracing")]
fn state_of_this_thread<'a>() -> Option<&'a Local> {
    let header = header();
    // SAFETY: as in `enter`. A header with a session is that of a state.
    unsafe { ((*header).session != 0).then(|| &*header.cast::<Local>()) }
}

/// Takes a span of this thread from the stack, without a record.
#[cfg(feature = "tracing")]
pub(crate) fn discard(number: u64) {
    state_of_this_thread().map(|local| local.pop(number & !UNCOUNTED));
}

/// Ends a span that began on another thread.
#[cfg(feature = "tracing")]
pub(crate) fn exit_moved(site: &'static Site, beginning: Beginning) {
    match join(beginning.session) {
        // SAFETY: the header is that of this thread's state.
        Some(header) => unsafe { ((*header).calls.exit_moved)(header, site, beginning) },
        None => session::count_lost(),
    }
}

/// A header that never changes.
struct Never(Header);

// SAFETY: its cell is never set, because nothing is recorded there.
unsafe impl Sync for Never {}

impl Never {
    const fn new(enter: Enter, begin: Begin) -> Never {
        let calls = Calls {
            enter,
            exit: lose,
            begin,
            lap: lose_lap,
            #[cfg(feature = "tracing")]
            exit_moved: lose_moved,
        };
        Never(Header { inlined: 0, session: 0, open_inlined: Cell::new(NOT_INLINED), calls })
    }
}

/// The header of threads that have no state yet.
static UNREGISTERED: Never = Never::new(join_and_enter, join_and_begin);
/// The header of threads that are ending.
static ENDED: Never = Never::new(enter_late, begin_late);

/// A number that no span has.
const NOT_INLINED: u64 = u64::MAX;
/// In the number of a span that has no counts at its beginning, or whose ticks are in its slot although it is on the
/// inlined path. Its number on the stack is without it.
const UNCOUNTED: u64 = 1 << 63;
/// The number of a span for which there is no slot.
const TOO_DEEP: u64 = UNCOUNTED;
/// From one slot to the next.
const SLOT: u64 = size_of::<Slot>() as u64;
/// The bits of a number that are its slot's offset.
const OFFSET: u64 = 0xffff;
/// The last offset.
const LAST: u64 = OFFSET & !(SLOT - 1);
/// The slots, the first of which stands for no span: one for each offset.
const SLOTS: usize = (OFFSET + 1) as usize / size_of::<Slot>();

const _: () = assert!(SLOT == 1 << DEPTH_SHIFT);

thread_local! {
    /// Points to UNREGISTERED, ENDED or the state that OWNER has.
    static CURRENT: Cell<*const Header> = const { Cell::new(&raw const UNREGISTERED.0) };
    static OWNER: RefCell<Owner> = const { RefCell::new(Owner { state: None, refused: 0 }) };
}

struct Owner {
    state: Option<State>,
    /// The session that this thread could not join.
    refused: u32,
}

impl Drop for Owner {
    fn drop(&mut self) {
        CURRENT.set(&raw const ENDED.0);
    }
}

/// The state of a thread: what does not depend on the number of events.
#[repr(C)]
pub(crate) struct Local {
    header: Header,
    /// The number of the innermost open span, on the outlined path.
    open: Cell<u64>,
    clock: Clock,
    /// The clock's ticks, if they are those of a tick counter.
    ticks: Option<TickCounter>,
    ring: Writer,
    /// The counts at the end of a span or lap, on their way to a slow path.
    ended: Start,
    /// The ticks at which events were last found to have been without counters.
    multiplexed_at: Cell<u64>,
    /// The time that they had been without counters then.
    without_counters: Cell<Duration>,
    /// The first number of this state.
    born: u64,
    /// On the inlined path, the offset up to which slots have their spans' numbers.
    numbered: Cell<u64>,
    slots: [Slot; SLOTS],
}

/// A span that is open.
#[repr(align(128))]
struct Slot {
    site: Cell<*const Site>,
    /// The ticks at the beginning of a span that began on the outlined path.
    ticks: Cell<u64>,
    /// The number of the span that used this slot last: on the inlined path, see `numbered`.
    number: Cell<u64>,
    start: Start,
}

impl Slot {
    fn unused() -> Slot {
        Slot {
            site: Cell::new(ptr::null()),
            ticks: Cell::new(0),
            number: Cell::new(NOT_INLINED),
            start: Start::new(),
        }
    }
}

/// The state of a thread that counts with `C`.
///
/// The counters are before the rest, and the slots at its end, so that all else is close to the header.
#[repr(C)]
struct LocalOf<C> {
    counting: C,
    local: Local,
}

/// The owner of a state, whatever it counts with. A pointer and not a box, because CURRENT points to it, too.
pub(crate) struct State {
    all: *mut dyn Owned,
    header: *const Header,
}

/// Lets `State` drop a state, whatever it counts with.
trait Owned {}
impl<C> Owned for LocalOf<C> {}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: from Box::into_raw in `state`, and CURRENT does not point to it any more.
        drop(unsafe { Box::from_raw(self.all) });
    }
}

/// Returns the session that records, or 0.
#[inline(always)]
pub(crate) fn recording() -> u32 {
    RECORDING.load(Ordering::Relaxed)
}

/// Returns this thread's header.
#[inline(always)]
pub(crate) fn header() -> *const Header {
    CURRENT.get()
}

/// Begins a span. Returns its number and, on the inlined path, its ticks.
#[inline(always)]
pub(crate) fn enter(site: &'static Site, session: u32) -> (u64, u64) {
    let header = header();
    // SAFETY: CURRENT points to a static or to this thread's state, which is alive until CURRENT is changed. Only `join` and
    // the end of the thread change it. The only foreign code on the inlined path is the allocator, at a histogram's first
    // span of a site. A span there cannot replace the state, because `join` refuses while `is_recording`.
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

impl Local {
    /// Returns the slot of a number.
    #[inline(always)]
    fn slot(&self, number: u64) -> &Slot {
        let offset = (number & OFFSET) as usize;
        // SAFETY: OFFSET masks 16 bits, which are SLOTS * SLOT. Numbers change by SLOT alone, and begin with offset 0, so
        // there is a slot at each of their offsets.
        unsafe { &*self.slots.as_ptr().byte_add(offset) }
    }

    /// Puts a span on the stack that `open` is the top of, and returns its number and slot. None if there are too many.
    #[inline(always)]
    fn push(&self, open: &Cell<u64>, site: &'static Site) -> Option<(u64, &Slot)> {
        let number = open.get().wrapping_add(SLOT);
        if number & OFFSET == 0 {
            return None; // the next offset would be the first
        }
        let slot = self.slot(number);
        slot.site.set(site);
        open.set(number);
        Some((number, slot))
    }

    /// Returns the stack: the number of its top.
    #[inline(always)]
    fn stack(&self) -> &Cell<u64> {
        match self.header.inlined {
            0 => &self.open,
            _ => &self.header.open_inlined,
        }
    }

    /// Begins a span on the inlined path. Returns its number and its ticks.
    ///
    /// # Safety
    /// The thread is on the inlined path.
    #[inline(always)]
    unsafe fn enter_inlined(&self, site: &'static Site) -> (u64, u64) {
        match self.push(&self.header.open_inlined, site) {
            // SAFETY: a thread without a tick counter is not on the inlined path.
            Some((number, _)) => (number, unsafe { self.tick_counter() }.read()),
            None => (TOO_DEEP, 0),
        }
    }

    /// Returns the clock's tick counter.
    ///
    /// # Safety
    /// There is one.
    #[inline(always)]
    unsafe fn tick_counter(&self) -> TickCounter {
        // SAFETY: the caller's promise.
        unsafe { self.ticks.unwrap_unchecked() }
    }

    /// Ends the innermost span on the inlined path.
    ///
    /// # Safety
    /// The thread is on the inlined path.
    #[inline(always)]
    unsafe fn exit_inlined(&self, site: &'static Site, number: u64, start: u64) {
        // SAFETY: a thread without a tick counter is not on the inlined path.
        let end = unsafe { self.tick_counter() }.read();
        let around = number.wrapping_sub(SLOT);
        self.header.open_inlined.set(around);
        let parent = self.slot(around).site.get();
        // SAFETY: on the inlined path, the ring has no counts.
        unsafe { self.ring.write([address(site), address(parent), start, end, number], []) }
    }

    /// Takes a span from the stack. Returns the site of the one around it, and its flags. None if it is not on the stack.
    ///
    /// Spans inside it that are still open are off the stack, too, and are not found when they end.
    fn pop(&self, number: u64) -> Option<(*const Site, Flags)> {
        let stack = self.stack();
        let innermost = stack.get();
        let offset = number & OFFSET;
        // On the inlined path, slots have no numbers above `numbered`: those of the stack's top are theirs.
        let is_numbered = self.header.inlined == 0 || offset <= self.numbered.get();
        let in_slot = match is_numbered {
            true => self.slot(offset).number.get(),
            false => innermost & !OFFSET | offset,
        };
        if offset == 0 || offset > innermost & OFFSET || number != in_slot {
            return None;
        }
        let around = offset - SLOT;
        let parent = self.slot(around).site.get();
        if offset == innermost & OFFSET {
            stack.set(innermost.wrapping_sub(SLOT));
            self.numbered.set(self.numbered.get().min(around));
            return Some((parent, Flags::NONE));
        }
        // Later spans have other numbers. Those that are still open keep theirs.
        let mut numbered = self.numbered.get();
        while self.header.inlined != 0 && numbered < around {
            numbered += SLOT;
            self.slot(numbered).number.set(innermost & !OFFSET | numbered);
        }
        self.numbered.set(around);
        stack.set(new_number() | around);
        Some((parent, Flags::OUT_OF_ORDER))
    }

    /// Ends a span on the inlined path that is not the innermost one, or that began on the outlined path.
    fn exit_disordered(&self, site: &'static Site, number: u64, start: u64, end: u64) {
        let number_on_stack = number & !UNCOUNTED;
        if number_on_stack < self.born {
            return session::count_lost(); // in an earlier session
        }
        // Only the thread's first span is such a one, so its slot still has its ticks.
        let start = if number == number_on_stack { start } else { self.slot(number).ticks.get() };
        let number = number_on_stack;
        let (parent, flags) = self.pop(number).unwrap_or(OFF_STACK);
        self.record(site, parent, [start, end], number, flags, []);
    }

    /// Records a span or lap.
    #[inline(always)]
    fn record<const N: usize>(
        &self,
        site: &'static Site,
        parent: *const Site,
        [start, end]: [u64; 2],
        open: u64,
        flags: Flags,
        counts: [u64; N],
    ) {
        let last = open & !(!0 << FLAGS_SHIFT) | u64::from(flags.bits()) << FLAGS_SHIFT;
        // SAFETY: the ring was made for the number of events of `counts`.
        unsafe { self.ring.write([address(site), address(parent), start, end, last], counts) }
    }

    /// Returns the flags of a span that the kernel disturbed.
    fn disturbed(&self, without_counters: Option<Duration>, [start, end]: [u64; 2]) -> Flags {
        if let Some(now) = without_counters {
            if self.without_counters.replace(now) != now {
                self.multiplexed_at.set(end);
            }
        }
        match self.multiplexed_at.get() > start {
            true => Flags::DISTURBED.union(Flags::MULTIPLEXED),
            false => Flags::DISTURBED,
        }
    }
}

impl<C: Counting<N>, const N: usize> LocalOf<Counter<C, N>> {
    const CALLS: Calls = Calls {
        enter: Self::enter,
        exit: Self::exit,
        begin: Self::begin,
        lap: Self::lap,
        #[cfg(feature = "tracing")]
        exit_moved: Self::exit_moved,
    };
    /// For a thread whose clock is the kernel's.
    const BY_THE_KERNEL: Calls = Calls {
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
    unsafe fn of<'a>(header: *const Header) -> &'a Self {
        // SAFETY: `state` made the header's pointer from one to all of it.
        unsafe { &*header.byte_sub(offset_of!(Self, local)).cast::<Self>() }
    }

    /// Begins a span.
    ///
    /// # Safety
    /// The header is this thread's, and the thread has a tick counter.
    unsafe fn enter(header: *const Header, site: &'static Site, session: u32) -> u64 {
        // SAFETY: the caller's promise, and the state whose calls these are is a Self.
        let this = unsafe { Self::of(header) };
        let local = &this.local;
        if N == 0 || local.header.session != session {
            // SAFETY: the caller's promise.
            return unsafe { Self::enter_slowly(header, site, session) };
        }
        let Some((number, slot)) = local.push(&local.open, site) else { return too_deep() };
        slot.number.set(number);
        // The time is inside the counts, because the cost of a read is constant in instructions, not in time.
        let Some(start) = this.counting.0.snapshot() else { return this.enter_uncounted(number) };
        slot.start.set(start);
        // SAFETY: the caller's promise.
        slot.ticks.set(unsafe { local.tick_counter() }.read());
        number
    }

    /// Begins a span that is on the stack, without counts.
    #[cold]
    #[inline(never)]
    fn enter_uncounted(&self, number: u64) -> u64 {
        self.local.slot(number).ticks.set(self.local.clock.ticks());
        number | UNCOUNTED
    }

    /// Begins a span, in other cases.
    ///
    /// # Safety
    /// The header is this thread's.
    #[cold]
    #[inline(never)]
    unsafe fn enter_slowly(header: *const Header, site: &'static Site, session: u32) -> u64 {
        // SAFETY: as in `enter`.
        let this = unsafe { Self::of(header) };
        let local = &this.local;
        if local.header.session != session {
            // SAFETY: the caller's promise.
            return unsafe { join_and_enter(header, site, session) };
        }
        let Some((number, slot)) = local.push(this.stack(), site) else { return too_deep() };
        slot.number.set(number);
        // The first span of a thread on the inlined path.
        let counted = if local.header.inlined == 0 { this.counting.0.snapshot() } else { None };
        let Some(start) = counted else { return this.enter_uncounted(number) };
        slot.start.set(start);
        slot.ticks.set(local.clock.ticks());
        number
    }

    /// Ends a span.
    ///
    /// # Safety
    /// As `enter`.
    unsafe fn exit(header: *const Header, site: &'static Site, number: u64, start: u64) {
        // SAFETY: as in `enter`.
        let this = unsafe { Self::of(header) };
        let local = &this.local;
        // Only spans on the inlined path have it. For the others, this frees a register.
        let start = if N == 0 { start } else { 0 };
        // SAFETY: the caller's promise.
        let end = unsafe { local.tick_counter() }.read();
        let Some(counted) = this.counting.0.snapshot() else {
            return this.exit_uncounted(site, number, start, end);
        };
        if local.open.get() != number {
            local.ended.set(counted);
            return this.exit_counted(site, number, start, end);
        }
        let slot = local.slot(number);
        // SAFETY: a span whose number is on the stack is counted, so `enter` has set its slot.
        let begun = unsafe { slot.start.get() };
        let (counts, None) = C::between(begun, counted) else {
            local.ended.set(counted);
            return this.exit_counted(site, number, start, end);
        };
        local.open.set(number.wrapping_sub(SLOT));
        // SAFETY: no span has the first slot, so there is one before.
        let parent = unsafe { (*ptr::from_ref(slot).sub(1)).site.get() };
        let head = [address(site), address(parent), slot.ticks.get(), end, number];
        // SAFETY: the ring was made for N counts.
        unsafe { local.ring.write(head, counts) }
    }

    /// Ends a span at the kernel's time.
    ///
    /// # Safety
    /// The header is this thread's.
    unsafe fn exit_by_the_kernel(
        header: *const Header,
        site: &'static Site,
        number: u64,
        start: u64,
    ) {
        // SAFETY: as in `enter`.
        let this = unsafe { Self::of(header) };
        let (end, counted) = (this.local.clock.ticks(), this.counting.0.snapshot());
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
        if number == TOO_DEEP {
            return local.ring.drop_one();
        }
        if local.header.inlined != 0 {
            return local.exit_disordered(site, number, start, end);
        }
        let is_counted = number & UNCOUNTED == 0;
        let number = number & !UNCOUNTED;
        let slot = local.slot(number);
        let ticks = [slot.ticks.get(), end];
        if slot.number.get() != number {
            return session::count_lost(); // with its slot, or in an earlier session
        }
        let (parent, mut flags) = local.pop(number).unwrap_or(OFF_STACK);
        let mut counts = [0; N];
        match counted {
            Some(counted) if is_counted => {
                // SAFETY: a span without UNCOUNTED is counted, so `enter` has set its slot.
                let (between, disturbed) = C::between(unsafe { slot.start.get() }, counted);
                counts = between;
                if disturbed.is_some() {
                    flags = flags.union(local.disturbed(self.counting.0.without_counters(), ticks));
                }
            }
            _ => flags = flags.union(Flags::NOT_COUNTED),
        }
        local.record(site, parent, ticks, number, flags, counts);
    }

    /// Ends a span that began on another thread.
    ///
    /// # Safety
    /// The header is this thread's.
    #[cfg(feature = "tracing")]
    unsafe fn exit_moved(header: *const Header, site: &'static Site, beginning: Beginning) {
        // SAFETY: as in `enter`.
        let this = unsafe { Self::of(header) };
        let local = &this.local;
        if beginning.is_by_the_kernel != local.ticks.is_none() {
            return session::count_lost(); // its length is not known
        }
        let ticks = [beginning.ticks, local.clock.ticks()];
        let number = one_deeper(this.stack().get());
        let flags = Flags::OUT_OF_ORDER.union(Flags::NOT_COUNTED);
        local.record(site, ptr::null(), ticks, number, flags, [0; N]);
    }

    /// Begins a lap. Returns whether it has.
    ///
    /// # Safety
    /// As `enter`.
    unsafe fn begin(header: *const Header, lap: &mut Lap, session: u32) -> bool {
        // SAFETY: as in `enter`.
        let this = unsafe { Self::of(header) };
        if this.local.header.session != session {
            // SAFETY: the caller's promise.
            return unsafe { join_and_begin(header, lap, session) };
        }
        lap.ticks = this.local.clock.ticks();
        this.set(lap, this.counting.0.snapshot());
        true
    }

    /// As [`Local::stack`]. A thread with counters is not on the inlined path.
    #[inline(always)]
    fn stack(&self) -> &Cell<u64> {
        if N == 0 { self.local.stack() } else { &self.local.open }
    }

    #[inline(always)]
    fn set(&self, lap: &mut Lap, counted: Option<C::Snapshot>) {
        lap.around = self.stack().get();
        lap.counted_in = NOT_INLINED;
        if let Some(counted) = counted {
            lap.start.set(counted);
            // A lap has the depth of a span there. At the last depth, it is left to `lap_slowly`.
            if lap.around & OFFSET != LAST {
                lap.counted_in = lap.around;
            }
        }
    }

    /// Ends a lap, and begins the next.
    ///
    /// # Safety
    /// As `enter`.
    unsafe fn lap(header: *const Header, site: &'static Site, lap: &mut Lap) {
        // SAFETY: as in `enter`.
        let this = unsafe { Self::of(header) };
        let local = &this.local;
        // SAFETY: the caller's promise.
        let end = unsafe { local.tick_counter() }.read();
        let Some(counted) = this.counting.0.snapshot() else {
            return this.lap_uncounted(site, lap, end);
        };
        let around = this.stack().get();
        if around != lap.counted_in {
            local.ended.set(counted);
            return this.lap_counted(site, lap, end);
        }
        // SAFETY: it is counted, so `begin` has set it, or the lap before. Other states have other numbers.
        let begun = unsafe { lap.start.get() };
        let (counts, None) = C::between(begun, counted) else {
            local.ended.set(counted);
            return this.lap_counted(site, lap, end);
        };
        lap.start.set(counted);
        let start = std::mem::replace(&mut lap.ticks, end);
        let parent = local.slot(around).site.get();
        // Within the depth, because `set` has left the last one to `lap_slowly`.
        let last = around.wrapping_add(SLOT | u64::from(Flags::LAP.bits()) << FLAGS_SHIFT);
        let head = [address(site), address(parent), start, end, last];
        // SAFETY: the ring was made for N counts.
        unsafe { local.ring.write(head, counts) }
    }

    /// Ends a lap at the kernel's time, and begins the next.
    ///
    /// # Safety
    /// The header is this thread's.
    unsafe fn lap_by_the_kernel(header: *const Header, site: &'static Site, lap: &mut Lap) {
        // SAFETY: as in `enter`.
        let this = unsafe { Self::of(header) };
        this.lap_slowly(site, lap, this.local.clock.ticks(), this.counting.0.snapshot());
    }

    #[cold]
    #[inline(never)]
    fn lap_uncounted(&self, site: &'static Site, lap: &mut Lap, end: u64) {
        self.lap_slowly(site, lap, end, None);
    }

    /// With the counts in `ended`.
    #[cold]
    #[inline(never)]
    fn lap_counted(&self, site: &'static Site, lap: &mut Lap, end: u64) {
        // SAFETY: the caller has set it.
        let counted = unsafe { self.local.ended.get() };
        self.lap_slowly(site, lap, end, Some(counted));
    }

    /// Ends a lap that is disturbed or not counted, and begins the next.
    fn lap_slowly(
        &self,
        site: &'static Site,
        lap: &mut Lap,
        end: u64,
        counted: Option<C::Snapshot>,
    ) {
        let local = &self.local;
        let ticks = [std::mem::replace(&mut lap.ticks, end), end];
        let (mut counts, mut flags) = ([0; N], Flags::LAP);
        if lap.around < local.born {
            self.set(lap, counted);
            return session::count_lost(); // it began in an earlier session
        }
        match counted {
            Some(counted) if lap.counted_in == lap.around => {
                // SAFETY: it is counted, so `begin` has set it, or the lap before, in this state.
                let (between, disturbed) = C::between(unsafe { lap.start.get() }, counted);
                counts = between;
                if disturbed.is_some() {
                    flags = flags.union(local.disturbed(self.counting.0.without_counters(), ticks));
                }
            }
            _ => flags = flags.union(Flags::NOT_COUNTED),
        }
        let around = std::mem::replace(&mut lap.around, self.stack().get());
        let mut parent = local.slot(around).site.get();
        if around != lap.around {
            // The span around its beginning is not the one around its end.
            (parent, flags) = (ptr::null(), flags.union(Flags::OUT_OF_ORDER));
        }
        self.set(lap, counted);
        let number = one_deeper(around);
        local.record(site, parent, ticks, number, flags, counts);
    }
}

/// Returns a number one deeper than `around`, if there is such a depth: that of a lap, which has no slot.
fn one_deeper(around: u64) -> u64 {
    if around & OFFSET == LAST { around } else { around.wrapping_add(SLOT) }
}

/// The parent and the flags of a span that is not on the stack any more, because a span around it has ended.
const OFF_STACK: (*const Site, Flags) = (ptr::null(), Flags::OUT_OF_ORDER);

/// What a state counts with. Has `N` among its parameters, because an implementation must name it.
pub(crate) struct Counter<C, const N: usize>(pub(crate) C);

/// Returns the state of a thread that counts with `counting`. Its ring has `N` counts.
pub(crate) fn state<C: Counting<N> + 'static, const N: usize>(
    counting: C,
    session: u32,
    inlined: u32,
    clock: Clock,
    ring: Writer,
) -> State {
    let ticks = clock.tick_counter();
    let inlined = if ticks.is_some() { inlined } else { 0 };
    let slots = std::array::from_fn(|_| Slot::unused());
    let born = new_number();
    let calls = match ticks {
        Some(_) => LocalOf::<Counter<C, N>>::CALLS,
        None => LocalOf::<Counter<C, N>>::BY_THE_KERNEL,
    };
    let all = Box::into_raw(Box::new(LocalOf {
        counting: Counter::<C, N>(counting),
        local: Local {
            header: Header {
                inlined,
                session,
                open_inlined: Cell::new(if inlined == 0 { NOT_INLINED } else { born }),
                calls,
            },
            open: Cell::new(born),
            clock,
            ticks,
            ring,
            ended: Start::new(),
            multiplexed_at: Cell::new(0),
            without_counters: Cell::new(Duration::ZERO),
            born,
            numbered: Cell::new(0),
            slots,
        },
    }));
    // SAFETY: `all` is valid. The pointer is derived from it, so that `LocalOf::of` may go back from the header to all.
    let header = unsafe { &raw const (*all).local.header };
    State { all, header }
}

/// Returns a number that no span has, for depth 0.
fn new_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(OFFSET + 1);
    number & !(!0 << FLAGS_SHIFT)
}

/// Prepares this thread for its first span of a session. None if the session has ended, or the thread has no clock.
#[cold]
#[inline(never)]
pub(crate) fn join(session: u32) -> Option<*const Header> {
    // SAFETY: CURRENT points to a static or to this thread's state.
    if unsafe { (*CURRENT.get()).session } == session && session != 0 {
        return Some(CURRENT.get());
    }
    if histogram::is_recording() {
        return None; // a span in the allocator, while this thread's state is in use
    }
    let session = session::get(session)?;
    OWNER
        .try_with(|owner| {
            // A span that begins while this registers, in an allocator, say, is not recorded.
            let mut owner = owner.try_borrow_mut().ok()?;
            if owner.refused == session.number {
                return None;
            }
            CURRENT.set(&raw const UNREGISTERED.0);
            // First, so that its counters are free.
            owner.state = None;
            let Some(joining) = session.join() else {
                owner.refused = session.number;
                return None;
            };
            let header = owner.state.insert(joining.state).header;
            CURRENT.set(header);
            // This thread's spans are recorded in a ring of its own until they have been measured.
            let cost = crate::cost::measure(joining.scratch, session.number);
            let ring = header.cast_mut().cast::<Local>();
            // SAFETY: OWNER has it, and no reference to it is left: those of the hot path do not outlive its calls.
            let scratch = unsafe { std::mem::replace(&mut (*ring).ring, joining.ring) };
            drop(scratch); // afterwards, because a span in the deallocator uses the ring
            joining.thread.publish(cost);
            Some(header)
        })
        .ok()
        .flatten()
}

/// Begins the first span of a thread.
unsafe fn join_and_enter(_: *const Header, site: &'static Site, session: u32) -> u64 {
    match join(session) {
        // SAFETY: the header is this thread's, and its session is the one that it has joined.
        Some(header) => unsafe { ((*header).calls.enter)(header, site, session) },
        None => {
            session::count_lost();
            0
        }
    }
}

unsafe fn join_and_begin(_: *const Header, lap: &mut Lap, session: u32) -> bool {
    match join(session) {
        // SAFETY: as in `join_and_enter`.
        Some(header) => unsafe { ((*header).calls.begin)(header, lap, session) },
        None => false,
    }
}

unsafe fn enter_late(_: *const Header, _: &'static Site, _: u32) -> u64 {
    session::count_lost();
    0
}

#[cold]
#[inline(never)]
fn too_deep() -> u64 {
    TOO_DEEP
}

unsafe fn begin_late(_: *const Header, _: &mut Lap, _: u32) -> bool {
    false
}

/// Ends a span when its thread's state is gone.
unsafe fn lose(_: *const Header, _: &'static Site, _: u64, _: u64) {
    session::count_lost();
}

#[cfg(feature = "tracing")]
unsafe fn lose_moved(_: *const Header, _: &'static Site, _: Beginning) {
    session::count_lost();
}

unsafe fn lose_lap(_: *const Header, _: &'static Site, _: &mut Lap) {
    session::count_lost();
}
