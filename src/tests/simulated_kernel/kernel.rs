//! The kernel, the registers under it, and what it may do to its events.

use super::Reader;
use super::event::Event;
use super::map;
use crate::clock::Clock;
use crate::kernel::Descriptor;
use crate::kernel::capability;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// The simulated registers. Four of them have an index like a fixed counter's.
const REGISTERS: usize = 8;
const FIXED: u32 = 1 << 30;
pub(super) const WIDTH: u16 = 48;
pub(super) const MASK: u64 = (1 << WIDTH) - 1;
/// The flag that makes the CPU trap after every instruction.
const TRAP: libc::greg_t = 0x100;
/// The mask of a narrow tick counter, which soon wraps.
pub(super) const NARROW: u64 = 0x3ff;
/// The distance between an event's counts in successive turns on the PMU.
pub(super) const TURN: u64 = 1 << 32;

/// Converts ECX, or the page's index minus one, to an index into `Kernel::registers`.
pub(super) fn place(register: u32) -> Option<usize> {
    match register {
        0..=3 => Some(register as usize),
        FIXED..=0x4000_0003 => Some((register - FIXED) as usize + 4),
        _ => None,
    }
}

fn name(place: usize) -> u32 {
    if place < 4 { place as u32 } else { FIXED + (place as u32 - 4) }
}

/// The kernel and the hardware under it.
pub(super) struct Kernel {
    pub(super) events: Vec<Event>,
    pub(super) registers: [AtomicU64; REGISTERS],
    pub(super) ticks: AtomicU64,
    /// The mask of the tick counter.
    pub(super) mask: AtomicU64,
    pub(super) faults: AtomicU64,
    /// The state of the random number generator.
    random: Cell<u64>,
    /// The change to make at the next read or single step, if that is its moment.
    pub(super) plan: Cell<Option<(Moment, Change)>>,
    pub(super) steps: Cell<u32>,
    /// The change to make after each single step, and the steps after which no more follow.
    pub(super) always: Cell<Option<(Change, u32)>>,
    /// Whether each read also counts some events.
    pub(super) noise: Cell<bool>,
    /// The reads so far: the event that had the register, and its count.
    pub(super) log: [Cell<(usize, u64)>; 2 * REGISTERS],
    pub(super) reads: Cell<usize>,
    /// The clock to read after each step, and the times that it returned.
    pub(super) clock: Cell<*const Clock>,
    pub(super) times: RefCell<Vec<u64>>,
    /// Whether a handler saw something that the library must not do.
    pub(super) broken: AtomicBool,
}

// SAFETY: only the reading thread and its handlers use the cells. The page is shared through volatile stores.
unsafe impl Sync for Kernel {}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Moment {
    BeforeRead,
    AfterRead,
    AfterStep(u32),
}

/// What an interruption may do to the event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// The hardware counts on, without an interruption.
    Count,
    /// All events leave the PMU and return, in any registers with any start values.
    Move,
    /// One event returns to its register, which starts at another value.
    Restart,
    /// Two events, if there are two, exchange registers.
    Exchange,
    /// All events leave the PMU.
    Leave,
    /// The thread moves to a CPU of another type: one event leaves its PMU, the other enters its own.
    Migrate,
}
pub(super) const CHANGES: [Change; 5] =
    [Change::Count, Change::Move, Change::Restart, Change::Exchange, Change::Leave];

impl Kernel {
    pub(super) fn new(seed: u64) -> Kernel {
        Kernel::with_events(seed, 1)
    }

    pub(super) fn with_events(seed: u64, events: usize) -> Kernel {
        let kernel = Kernel {
            events: (0..events).map(|_| Event::new()).collect(),
            registers: Default::default(),
            ticks: AtomicU64::new(1 << 40),
            mask: AtomicU64::new(u64::MAX),
            faults: AtomicU64::new(0),
            random: Cell::new(seed),
            plan: Cell::new(None),
            steps: Cell::new(0),
            always: Cell::new(None),
            noise: Cell::new(false),
            log: Default::default(),
            reads: Cell::new(0),
            clock: Cell::new(ptr::null()),
            times: RefCell::default(),
            broken: AtomicBool::new(false),
        };
        kernel.enter();
        kernel
    }

    pub(super) fn reader<const N: usize>(&self) -> Reader<N> {
        let descriptors: Vec<&Descriptor> = self.events.iter().map(|event| &event.memory).collect();
        Reader::new(map(&descriptors))
    }

    /// Returns a reader of one event.
    pub(super) fn reader_of(&self, event: usize) -> Reader<1> {
        Reader::new(map(&[&self.events[event].memory]))
    }

    /// Returns the sum over all events.
    pub(super) fn sum(&self, of: fn(&Event) -> &AtomicU64) -> u64 {
        self.events.iter().map(|event| of(event).load(SeqCst)).sum()
    }

    pub(super) fn random(&self) -> u64 {
        // The constants of the MMIX generator. Its upper half is the better one.
        let next = self
            .random
            .get()
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.random.set(next);
        next >> 33 ^ next << 31
    }

    /// Gives the event a register. The start value exposes every wrong read: it is negative or about to become
    /// positive, and far from any other event's.
    pub(super) fn enter_at(&self, event: &Event, place: usize) {
        let start = match self.random() % 3 {
            0 => (self.random() & MASK) as i64 - (1 << (WIDTH - 1)),
            1 => -1 - (self.random() % 4) as i64,
            _ => -0x7fff_ffff,
        };
        self.registers[place].store(start as u64 & MASK, SeqCst);
        let count = event.done.load(SeqCst);
        let now = self.ticks.load(SeqCst);
        event.write(|page| unsafe {
            // SAFETY: within the page. `index` is written last, so that a reader on another CPU does not combine it
            // with the former offset.
            (&raw mut (*page).offset).write_volatile((count as i64).wrapping_sub(start));
            // A tick is a nanosecond, with a different `time_shift` each time.
            let shift = (self.random() % 32) as u16;
            (&raw mut (*page).time_shift).write_volatile(shift);
            (&raw mut (*page).time_mult).write_volatile(1 << shift);
            // Every other time, the counter is so narrow that it soon wraps, and its zero is up to two wraps back.
            let narrow = self.random() % 2 == 0;
            let mask = if narrow { NARROW } else { u64::MAX };
            self.mask.store(mask, SeqCst);
            (&raw mut (*page).time_mask).write_volatile(mask);
            let zero = match narrow {
                true => (now & !NARROW) - (NARROW + 1) * (self.random() % 3),
                false => 0,
            };
            (&raw mut (*page).time_cycles).write_volatile(now - zero);
            (&raw mut (*page).time_zero).write_volatile(zero);
            (&raw mut (*page).time_offset).write_volatile(zero.wrapping_sub(now));
            let bits = &raw mut (*page).capabilities;
            let others = bits.read_volatile() & !capability::USER_TIME_SHORT;
            bits.write_volatile(others | if narrow { capability::USER_TIME_SHORT } else { 0 });
            (&raw mut (*page).time_enabled).write_volatile(now);
            (&raw mut (*page).time_running).write_volatile(now / 2);
            (&raw mut (*page).index).write_volatile(name(place) + 1);
        });
    }

    /// Gives the page a clock with these parameters from `zero` on.
    pub(super) fn set_clock(&self, (mult, shift): (u32, u16), zero: u64) {
        self.mask.store(u64::MAX, SeqCst);
        self.events[0].write(|page| unsafe {
            // SAFETY: within the page.
            let bits = &raw mut (*page).capabilities;
            bits.write_volatile(bits.read_volatile() & !capability::USER_TIME_SHORT);
            (&raw mut (*page).time_shift).write_volatile(shift);
            (&raw mut (*page).time_mult).write_volatile(mult);
            (&raw mut (*page).time_zero).write_volatile(zero);
        });
    }

    /// Returns the page's `time_cycles`, on the timeline.
    pub(super) fn cycles(&self) -> u64 {
        let page = self.events[0].page.as_ptr();
        // SAFETY: within the page.
        unsafe {
            (&raw const (*page).time_cycles).read_volatile()
                + (&raw const (*page).time_zero).read_volatile()
        }
    }

    /// Returns the numbers below `LENGTH` in random order.
    fn order<const LENGTH: usize>(&self) -> [usize; LENGTH] {
        let mut order = std::array::from_fn(|n| n);
        for last in (1..LENGTH).rev() {
            order.swap(last, self.random() as usize % (last + 1));
        }
        order
    }

    /// Returns the events in random order.
    fn in_any_order(&self) -> impl Iterator<Item = &Event> {
        self.order::<REGISTERS>().into_iter().filter_map(|n| self.events.get(n))
    }

    /// Gives each event a register, and updates the pages in random order.
    pub(super) fn enter(&self) {
        for (event, place) in self.in_any_order().zip(self.order::<REGISTERS>()) {
            self.enter_at(event, place);
        }
    }

    /// Takes the event's register away. From now on the register counts for another program.
    pub(super) fn leave(&self, event: &Event) {
        let place = event.place();
        event.write(|page| unsafe {
            // SAFETY: within the page. Then `offset` has the whole count. `index` is written first, so that a reader
            // on another CPU does not combine it with the new offset.
            (&raw mut (*page).index).write_volatile(0);
            (&raw mut (*page).offset).write_volatile(event.done.load(SeqCst) as i64);
        });
        if let Some(place) = place {
            self.registers[place].store(self.random() & MASK, SeqCst);
        }
    }

    /// Counts `events` more of each event that has a register.
    pub(super) fn count(&self, events: u64) {
        for event in &self.events {
            let Some(place) = event.place() else { continue };
            event.begun.fetch_add(events, SeqCst);
            let register = &self.registers[place];
            register.store((register.load(SeqCst) + events) & MASK, SeqCst);
            event.done.fetch_add(events, SeqCst);
        }
    }

    /// Counts 1 to 3 more. If that leaves a register at 0, which is not read, counts a few more than that.
    pub(super) fn count_some(&self) {
        let registers = || self.events.iter().filter_map(|event| event.place());
        let value = |place: usize| self.registers[place].load(SeqCst);
        let is_fine = |events| registers().all(|place| (value(place) + events) & MASK != 0);
        let least = 1 + self.random() % 3;
        self.count((least..).find(|events| is_fine(*events)).unwrap());
    }

    pub(super) fn tick(&self) {
        self.ticks.fetch_add(1 + self.random() % 100, SeqCst);
    }

    pub(super) fn happen(&self, change: Change) {
        self.tick();
        // Counts right before and right after the change, so that a read across the change shows.
        self.count_some();
        match change {
            Change::Count => return,
            Change::Move => {
                self.in_any_order().for_each(|event| self.leave(event));
                // A value from one turn on the PMU cannot be mistaken for one from another turn.
                for event in &self.events {
                    event.begun.fetch_add(TURN, SeqCst);
                    event.done.fetch_add(TURN, SeqCst);
                }
                self.enter();
            }
            Change::Restart => {
                let event = self.in_any_order().next().unwrap();
                let place = event.place();
                self.leave(event);
                self.enter_at(event, place.unwrap_or(0));
            }
            Change::Exchange => {
                let mut two = self.in_any_order().map(|event| (event, event.place()));
                let (Some((one, a)), Some((other, b))) = (two.next(), two.next()) else {
                    return;
                };
                self.leave(one);
                self.leave(other);
                self.enter_at(one, b.unwrap_or(0));
                self.enter_at(other, a.unwrap_or(1));
            }
            Change::Leave => {
                self.in_any_order().for_each(|event| self.leave(event));
                return;
            }
            Change::Migrate => {
                let (here, there) = match self.events.as_slice() {
                    [one, other] if one.place().is_some() => (one, other),
                    [other, one] => (one, other),
                    events => panic!("{} core types", events.len()),
                };
                self.leave(here);
                self.count_some(); // for no event, because none has a register
                self.enter_at(there, self.random() as usize % REGISTERS);
            }
        }
        self.count_some();
    }

    fn moment(&self, moment: Moment) {
        let planned = self.plan.get().filter(|(planned, _)| *planned == moment);
        if let Some((_, change)) = planned {
            self.plan.set(None);
            self.happen(change);
        }
    }

    /// Emulates an instruction that faulted. Returns false if it is not one that this test emulates.
    pub(super) fn emulate(&self, registers: &mut [libc::greg_t; 23]) -> bool {
        let [ip, ax, cx, dx] = [libc::REG_RIP, libc::REG_RAX, libc::REG_RCX, libc::REG_RDX]
            .map(|register| register as usize);
        // SAFETY: RIP is the address of the instruction that faulted. Either has two bytes, and code behind it.
        let code = unsafe { *(registers[ip] as *const [u8; 4]) };
        let (value, length) = match code {
            [0x3e, 0x2e, 0x0f, 0x33] => {
                self.faults.fetch_add(1, SeqCst);
                self.moment(Moment::BeforeRead);
                if self.noise.get() {
                    self.count_some();
                }
                let value = match place(registers[cx] as u32) {
                    Some(place) => {
                        self.remember(place);
                        self.registers[place].load(SeqCst)
                    }
                    None => {
                        self.broken.store(true, SeqCst);
                        0
                    }
                };
                (value, 4)
            }
            [0x0f, 0x31, ..] => (self.ticks.load(SeqCst) & self.mask.load(SeqCst), 2),
            _ => return false,
        };
        registers[ax] = (value & 0xffff_ffff) as i64;
        registers[dx] = (value >> 32) as i64;
        registers[ip] += length;
        if length == 4 {
            self.moment(Moment::AfterRead);
            if registers[libc::REG_EFL as usize] & TRAP != 0 {
                // The trap itself comes only after the next instruction.
                self.step(registers);
            }
        }
        true
    }

    /// Handles the trap after an instruction.
    pub(super) fn step(&self, registers: &mut [libc::greg_t; 23]) {
        if let Some((change, most)) = self.always.get() {
            self.happen(change);
            self.steps.set(self.steps.get() + 1);
            if self.steps.get() >= most {
                self.always.set(None);
                registers[libc::REG_EFL as usize] &= !TRAP;
            }
            return;
        }
        self.moment(Moment::AfterStep(self.steps.get()));
        // SAFETY: the test that sets the clock keeps it alive until it resets the pointer, on this thread.
        if let Some(clock) = unsafe { self.clock.get().as_ref() } {
            self.ticks.fetch_add(1, SeqCst);
            self.times.borrow_mut().push(clock.now());
        }
        self.steps.set(self.steps.get() + 1);
        if self.plan.get().is_none() {
            // The change has happened, so the rest may run at full speed.
            registers[libc::REG_EFL as usize] &= !TRAP;
        }
    }

    /// Logs the event that has the register, and its count.
    fn remember(&self, place: usize) {
        let owner = self.events.iter().position(|event| event.place() == Some(place));
        let read = owner.map_or((usize::MAX, 0), |n| (n, self.events[n].done.load(SeqCst)));
        if let Some(entry) = self.log.get(self.reads.get()) {
            entry.set(read);
        }
        self.reads.set(self.reads.get() + 1);
    }

    /// Checks a count of the first event that was read between these two moments.
    pub(super) fn check(&self, count: Option<u64>, done_before: u64, may_be_none: bool) {
        assert!(!self.broken.load(SeqCst), "rdpmc of a register that the page did not name");
        let begun_after = self.events[0].begun.load(SeqCst);
        match count {
            Some(count) => assert!(
                (done_before..=begun_after).contains(&count),
                "read {count}, right would be {done_before} to {begun_after}"
            ),
            None => assert!(may_be_none, "no count, though the event never left the PMU"),
        }
    }
}
