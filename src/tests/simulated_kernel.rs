//! The library's reads, run against a simulated kernel.
//!
//! They are the library's own code and assembly, with a control page in shared memory, and `rdpmc` is executed for
//! real. It faults in this process, because no counter is mapped. A handler answers with the simulated register that
//! ECX names, and steps over the instruction. The handler, a trap after every single instruction, and a second thread
//! play the kernel, which may move the event at any of these moments.
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use super::arithmetic::sign_extend;
use super::skips;
use crate::clock::source::{Kind, Source};
use crate::clock::{Clock, ClockKind, KernelReason};
use crate::counter::{Counter, Group};
use crate::error::access::Access;
use crate::error::{Disturbed, RegionError, SyscallReason};
use crate::event::Event as What;
use crate::kernel::{ControlPage, capability};
use crate::open::cost::{self, ReadCost, Timing};
use crate::open::{OpenGroup, Options};
use crate::page::Pages;
use crate::page::fork::Process;
use crate::page::monitor::{Monitor, ReadPath};
use crate::page::reader::{self, Reader, Timed};
use crate::region::{Overhead, Region, Snapshot};
use std::arch::asm;
use std::cell::{Cell, RefCell};
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Returns a region of the simulated events, which stand for instructions.
fn region<const N: usize>(reader: &Reader<N>) -> Region<'_, N> {
    Region::new(reader, const { &[What::INSTRUCTIONS; N] })
}

fn fenced_region<const N: usize>(reader: &Reader<N>) -> Region<'_, N, true> {
    region(reader).fenced()
}

fn map<'a, const N: usize>(events: impl Iterator<Item = &'a OwnedFd> + Clone) -> Pages<N> {
    Pages::map(events, Process::current().unwrap(), Monitor::new()).unwrap().unwrap()
}

/// The simulated registers. Four of them have an index like a fixed counter's.
const REGISTERS: usize = 8;
const FIXED: u32 = 1 << 30;
const WIDTH: u16 = 48;
const MASK: u64 = (1 << WIDTH) - 1;
/// The flag that makes the CPU trap after every instruction.
const TRAP: libc::greg_t = 0x100;
/// The mask of a narrow tick counter, which soon wraps.
const NARROW: u64 = 0x3ff;
/// The distance between an event's counts in successive turns on the PMU.
const TURN: u64 = 1 << 32;

/// Converts ECX, or the page's index minus one, to an index into `Kernel::registers`.
fn place(register: u32) -> Option<usize> {
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
struct Kernel {
    events: Vec<Event>,
    registers: [AtomicU64; REGISTERS],
    ticks: AtomicU64,
    /// The mask of the tick counter.
    mask: AtomicU64,
    faults: AtomicU64,
    /// The state of the random number generator.
    random: Cell<u64>,
    /// The change to make at the next read or single step, if that is its moment.
    plan: Cell<Option<(Moment, Change)>>,
    steps: Cell<u32>,
    /// The change to make after each single step, and the steps after which no more follow.
    always: Cell<Option<(Change, u32)>>,
    /// Whether each read also counts some events.
    noise: Cell<bool>,
    /// The reads so far: the event that had the register, and its count.
    log: [Cell<(usize, u64)>; 2 * REGISTERS],
    reads: Cell<usize>,
    /// The clock to read after each step, and the times that it returned.
    clock: Cell<*const Clock>,
    times: RefCell<Vec<u64>>,
    /// Whether a handler saw something that the library must not do.
    broken: AtomicBool,
}

/// An event, with the kernel's own writable mapping of its page.
struct Event {
    page: NonNull<ControlPage>,
    memory: OwnedFd,
    /// How often the event has begun to happen, and how often it has been counted completely.
    begun: AtomicU64,
    done: AtomicU64,
}

// SAFETY: only the reading thread and its handlers use the cells. The page is shared through volatile stores.
unsafe impl Sync for Kernel {}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    BeforeRead,
    AfterRead,
    AfterStep(u32),
}

/// What an interruption may do to the event.
#[derive(Clone, Copy, Debug)]
enum Change {
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
const CHANGES: [Change; 5] =
    [Change::Count, Change::Move, Change::Restart, Change::Exchange, Change::Leave];

thread_local! {
    static CURRENT: Cell<*const Kernel> = const { Cell::new(ptr::null()) };
}

impl Kernel {
    fn new(seed: u64) -> Kernel {
        Kernel::with_events(seed, 1)
    }

    fn with_events(seed: u64, events: usize) -> Kernel {
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

    fn reader<const N: usize>(&self) -> Reader<N> {
        let descriptors = self.events.iter().map(|event| &event.memory);
        Reader::new(map(descriptors)).unwrap()
    }

    /// Returns a reader of one event.
    fn reader_of(&self, event: usize) -> Reader<1> {
        let memory = &self.events[event].memory;
        Reader::new(map([memory].into_iter())).unwrap()
    }

    /// Returns the sum over all events.
    fn sum(&self, of: fn(&Event) -> &AtomicU64) -> u64 {
        self.events.iter().map(|event| of(event).load(SeqCst)).sum()
    }

    fn random(&self) -> u64 {
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
    fn enter_at(&self, event: &Event, place: usize) {
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
    fn set_clock(&self, (mult, shift): (u32, u16), zero: u64) {
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
    fn cycles(&self) -> u64 {
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
    fn enter(&self) {
        for (event, place) in self.in_any_order().zip(self.order::<REGISTERS>()) {
            self.enter_at(event, place);
        }
    }

    /// Takes the event's register away. From now on the register counts for another program.
    fn leave(&self, event: &Event) {
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
    fn count(&self, events: u64) {
        for event in &self.events {
            let Some(place) = event.place() else { continue };
            event.begun.fetch_add(events, SeqCst);
            let register = &self.registers[place];
            register.store((register.load(SeqCst) + events) & MASK, SeqCst);
            event.done.fetch_add(events, SeqCst);
        }
    }

    /// Counts 1 to 3 more. If that leaves a register at 0, which is not read, counts a few more than that.
    fn count_some(&self) {
        let registers = || self.events.iter().filter_map(|event| event.place());
        let value = |place: usize| self.registers[place].load(SeqCst);
        let is_fine = |events| registers().all(|place| (value(place) + events) & MASK != 0);
        let least = 1 + self.random() % 3;
        self.count((least..).find(|events| is_fine(*events)).unwrap());
    }

    fn tick(&self) {
        self.ticks.fetch_add(1 + self.random() % 100, SeqCst);
    }

    fn happen(&self, change: Change) {
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
    fn emulate(&self, registers: &mut [libc::greg_t; 23]) -> bool {
        let [ip, ax, cx, dx] = [libc::REG_RIP, libc::REG_RAX, libc::REG_RCX, libc::REG_RDX]
            .map(|register| register as usize);
        // SAFETY: RIP is the address of the instruction that faulted, which has two bytes.
        let code = unsafe { *(registers[ip] as *const [u8; 2]) };
        let value = match code {
            [0x0f, 0x33] => {
                self.faults.fetch_add(1, SeqCst);
                self.moment(Moment::BeforeRead);
                if self.noise.get() {
                    self.count_some();
                }
                match place(registers[cx] as u32) {
                    Some(place) => {
                        self.remember(place);
                        self.registers[place].load(SeqCst)
                    }
                    None => {
                        self.broken.store(true, SeqCst);
                        0
                    }
                }
            }
            [0x0f, 0x31] => self.ticks.load(SeqCst) & self.mask.load(SeqCst),
            _ => return false,
        };
        registers[ax] = (value & 0xffff_ffff) as i64;
        registers[dx] = (value >> 32) as i64;
        registers[ip] += 2;
        if code == [0x0f, 0x33] {
            self.moment(Moment::AfterRead);
            if registers[libc::REG_EFL as usize] & TRAP != 0 {
                // The trap itself comes only after the next instruction.
                self.step(registers);
            }
        }
        true
    }

    /// Handles the trap after an instruction.
    fn step(&self, registers: &mut [libc::greg_t; 23]) {
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
    fn check(&self, count: Option<u64>, done_before: u64, may_be_none: bool) {
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

impl Event {
    fn new() -> Event {
        // SAFETY: the new descriptor and mapping have no other owner.
        let (memory, page) = unsafe {
            let memory = libc::memfd_create(c"page".as_ptr(), libc::MFD_CLOEXEC);
            assert!(memory >= 0);
            assert_eq!(libc::ftruncate(memory, 4096), 0);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let page = libc::mmap(ptr::null_mut(), 4096, access, libc::MAP_SHARED, memory, 0);
            assert_ne!(page, libc::MAP_FAILED);
            (OwnedFd::from_raw_fd(memory), NonNull::new(page.cast()).unwrap())
        };
        let event = Event { page, memory, begun: AtomicU64::new(0), done: AtomicU64::new(0) };
        event.write(|page| unsafe {
            // SAFETY: within the page.
            (&raw mut (*page).capabilities).write_volatile(
                capability::BIT0_IS_DEPRECATED
                    | capability::USER_RDPMC
                    | capability::USER_TIME
                    | capability::USER_TIME_ZERO,
            );
            (&raw mut (*page).pmc_width).write_volatile(WIDTH);
        });
        event
    }

    /// Makes one update of the page.
    fn write<R>(&self, update: impl FnOnce(*mut ControlPage) -> R) -> R {
        let page = self.page.as_ptr();
        // SAFETY: the mapping is the kernel's own and writable. On x86-64, the other thread sees volatile stores in
        // program order.
        unsafe {
            let lock = &raw mut (*page).lock;
            lock.write_volatile(lock.read_volatile().wrapping_add(1));
            let result = update(page);
            lock.write_volatile(lock.read_volatile().wrapping_add(1));
            result
        }
    }

    fn lock(&self) -> u32 {
        // SAFETY: within the page.
        unsafe { (&raw const (*self.page.as_ptr()).lock).read_volatile() }
    }

    fn index(&self) -> u32 {
        // SAFETY: within the page.
        unsafe { (&raw const (*self.page.as_ptr()).index).read_volatile() }
    }

    /// Returns its register, if it has one.
    fn place(&self) -> Option<usize> {
        self.index().checked_sub(1).and_then(place)
    }
}

extern "C" fn on_fault(signal: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let kernel = CURRENT.get();
    // SAFETY: the kernel outlives the time in which it is current. The context is the interrupted thread's, and only
    // the handler uses it while it runs.
    let ours = unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        match kernel.as_ref() {
            Some(kernel) if signal == libc::SIGTRAP => {
                kernel.step(registers);
                true
            }
            Some(kernel) => kernel.emulate(registers),
            None => false,
        }
    };
    if !ours {
        // SAFETY: restores the default action. The real fault happens again and ends the process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Makes `kernel` this thread's kernel, and `rdpmc` and `rdtsc` fault on this thread. Returns None and skips the test
/// if `rdpmc` is open to every process here.
fn with<const N: usize, T>(
    test: &str,
    kernel: &Kernel,
    body: impl FnOnce(Reader<N>) -> T,
) -> Option<T> {
    let is_open = ["cpu", "cpu_core", "cpu_atom"].iter().any(|pmu| {
        let setting = format!("/sys/bus/event_source/devices/{pmu}/rdpmc");
        std::fs::read_to_string(setting).is_ok_and(|value| value.trim() == "2")
    });
    if is_open {
        skips::skip(test, "the setting rdpmc is 2 here, so rdpmc does not fault");
        return None;
    }
    // SAFETY: the action is fully initialized, and the handler uses the thread's own kernel only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        for signal in [libc::SIGSEGV, libc::SIGTRAP] {
            assert_eq!(libc::sigaction(signal, &action, ptr::null_mut()), 0);
        }
    }
    /// Restores the thread's settings, however the test ends.
    struct Ordinary;
    impl Drop for Ordinary {
        fn drop(&mut self) {
            time_stamps(libc::PR_TSC_ENABLE);
            CURRENT.set(ptr::null());
        }
    }
    let _ordinary = Ordinary;
    CURRENT.set(kernel);
    time_stamps(libc::PR_TSC_SIGSEGV);
    Some(body(kernel.reader()))
}

fn time_stamps(mode: i32) {
    // SAFETY: affects this thread's rdtsc only.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_TSC, mode) }, 0);
}

/// Reads as a counter does.
#[inline(always)]
fn read_one(reader: &Reader<1>) -> Option<u64> {
    // SAFETY: the reader outlives the view.
    unsafe { reader.view() }.count()
}

/// Runs `body` with a trap after every instruction.
#[inline(always)]
fn stepping<T>(kernel: &Kernel, body: impl FnOnce() -> T) -> T {
    kernel.steps.set(0);
    // SAFETY: sets the trap flag and nothing else. Its handler is installed.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    let result = body();
    // SAFETY: clears the trap flag and nothing else.
    unsafe { asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq") };
    result
}

/// Calls `body` with 0, 1, 2 and so on, until the plan that it makes for the moment after this step remains, because it has
/// fewer steps. Returns the number of steps.
fn after_each_step(kernel: &Kernel, mut body: impl FnMut(u32)) -> u32 {
    let mut step = 0;
    loop {
        body(step);
        if kernel.plan.take().is_some() {
            return step;
        }
        step += 1;
    }
}

/// Lets the other thread end, however the reading ends.
struct Over<'a>(&'a AtomicBool);
impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn ten_million_reads_with_a_kernel_on_another_processor() {
    const READS: u64 = 10_000_000;
    if !std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1) {
        let why = "on one processor the kernel's thread would move nothing meanwhile";
        return skips::skip("ten_million_reads_with_a_kernel_on_another_processor", why);
    }
    let kernel = Kernel::new(1);
    let over = AtomicBool::new(false);
    let none = with(
        "ten_million_reads_with_a_kernel_on_another_processor",
        &kernel,
        |reader: Reader<1>| {
            std::thread::scope(|threads| {
                let _over = Over(&over);
                threads.spawn(|| {
                    // Some faults, then some counts, then a change. So changes come at any moment of a read, and most
                    // reads still end with a count.
                    let mut next = 0;
                    while !over.load(SeqCst) {
                        kernel.happen(Change::Count);
                        if kernel.faults.load(SeqCst) >= next {
                            (0..kernel.random() % 256).for_each(|_| kernel.happen(Change::Count));
                            let anew = kernel.random() % 2 == 0;
                            kernel.happen(if anew { Change::Move } else { Change::Restart });
                            next = kernel.faults.load(SeqCst) + kernel.random() % 4;
                        }
                    }
                });
                let (mut counts, mut none, mut last) = (0, 0u64, 0);
                // Longer if the other thread gets little time on a busy machine.
                let is_calm = || moves_of(&kernel) <= READS / 1_000;
                while counts < READS || counts < 20 * READS && is_calm() {
                    let done = kernel.events[0].done.load(SeqCst);
                    let count = read_one(&reader);
                    kernel.check(count, done, true);
                    if let Some(count) = count {
                        assert!(last <= count, "{count} after {last}");
                        last = count;
                        counts += 1;
                    } else {
                        none += 1;
                        std::thread::yield_now();
                    }
                }
                none
            })
        },
    );
    if let Some(none) = none {
        let moves = moves_of(&kernel);
        skips::say(&format!("{READS} counts, {none} none, {moves} moves meanwhile, none torn"));
        assert!(moves > READS / 1_000, "too calm a kernel: {moves} moves");
    }
}

/// Returns how often the first event was moved.
fn moves_of(kernel: &Kernel) -> u64 {
    u64::from((kernel.events[0].lock() / 4).saturating_sub(1))
}

#[test]
fn a_million_reads_interrupted_at_the_instruction() {
    let kernel = Kernel::new(2);
    with("a_million_reads_interrupted_at_the_instruction", &kernel, |reader: Reader<1>| {
        for round in 0..1_000_000 {
            let change = CHANGES[round % CHANGES.len()];
            let moment = if round % 8 < 4 { Moment::BeforeRead } else { Moment::AfterRead };
            if kernel.events[0].index() == 0 {
                kernel.enter();
            }
            let done = kernel.events[0].done.load(SeqCst);
            kernel.plan.set(Some((moment, change)));
            let count = read_one(&reader);
            assert_eq!(kernel.plan.take().map(|(moment, _)| moment), None, "it never happened");
            // A changed lock makes the read retry, so it sees that an event has left.
            assert_eq!(count.is_none(), matches!(change, Change::Leave), "{moment:?} {change:?}");
            kernel.check(count, done, true);
        }
    });
}

#[test]
fn a_count_interrupted_after_every_single_instruction() {
    let kernel = Kernel::new(3);
    with("a_count_interrupted_after_every_single_instruction", &kernel, |reader: Reader<1>| {
        let mut boundaries = 0;
        for repetition in 0..50 {
            for change in CHANGES {
                let steps = after_each_step(&kernel, |step| {
                    kernel.happen(Change::Move);
                    let done = kernel.events[0].done.load(SeqCst);
                    kernel.plan.set(Some((Moment::AfterStep(step), change)));
                    let count = stepping(&kernel, || read_one(&reader));
                    let left = matches!(change, Change::Leave);
                    kernel.check(count, done, left);
                });
                boundaries += if repetition == 0 { steps } else { 0 };
            }
        }
        // At least 11 instructions, and 5 kinds of change after each.
        assert!(boundaries >= 55, "{boundaries}");
    });
}

/// The sum over two core types. The thread is on one of them at a time.
#[test]
fn a_sum_interrupted_after_every_single_instruction() {
    let kernel = Kernel::with_events(12, 2);
    with("a_sum_interrupted_after_every_single_instruction", &kernel, |_: Reader<1>| {
        let (first, second) = (kernel.reader_of(0), kernel.reader_of(1));
        let mut boundaries = 0;
        for repetition in 0..20 {
            for change in [Change::Count, Change::Migrate, Change::Leave] {
                let steps = after_each_step(&kernel, |step| {
                    if kernel.events.iter().all(|event| event.place().is_none()) {
                        kernel.enter_at(&kernel.events[0], 0);
                    }
                    kernel.happen(Change::Migrate);
                    let done = kernel.sum(|event| &event.done);
                    kernel.plan.set(Some((Moment::AfterStep(step), change)));
                    let sum = stepping(&kernel, || {
                        reader::sum([&first, &second].into_iter()).map(|(sum, _)| sum)
                    });
                    assert!(!kernel.broken.load(SeqCst), "rdpmc of a register of nobody");
                    let begun = kernel.sum(|event| &event.begun);
                    match sum {
                        Some(sum) => {
                            assert!((done..=begun).contains(&sum), "{sum}: {done}..{begun}")
                        }
                        None => assert!(matches!(change, Change::Leave), "no sum, {change:?}"),
                    }
                });
                boundaries += if repetition == 0 { steps } else { 0 };
            }
        }
        // Two reads of at least 11 instructions, and 3 kinds of change after each.
        assert!(boundaries >= 66, "{boundaries}");
    });
}

#[test]
fn a_reading_interrupted_after_every_single_instruction() {
    let kernel = Kernel::new(4);
    with("a_reading_interrupted_after_every_single_instruction", &kernel, |reader: Reader<1>| {
        let mut boundaries = 0;
        for change in CHANGES {
            boundaries += after_each_step(&kernel, |step| {
                kernel.happen(Change::Move);
                kernel.count(kernel.random() % 1_000);
                kernel.tick();
                let done = kernel.events[0].done.load(SeqCst);
                let before = kernel.ticks.load(SeqCst);
                kernel.plan.set(Some((Moment::AfterStep(step), change)));
                let reading = stepping(&kernel, || reader.timed::<true>());
                let after = kernel.ticks.load(SeqCst);
                let left = matches!(change, Change::Leave);
                kernel.check(reading.map(|Timed { counts: [value], .. }| value), done, left);
                if let Some(Timed { time_enabled, time_running, .. }) = reading {
                    // One tick is one nanosecond. The event ran for half of the time up to the page's update.
                    assert!((before..=after).contains(&time_enabled), "{change:?} {step}");
                    assert!(time_running <= time_enabled, "{time_running} {time_enabled}");
                    assert!(time_running >= time_enabled / 2, "{time_running} {time_enabled}");
                }
            });
        }
        // With the times, at least twice a count's 11 instructions, and 5 kinds of change.
        assert!(boundaries >= 110, "{boundaries}");
    });
}

/// Every read ends although the kernel moves the events after each of its instructions, as under a debugger that steps.
#[test]
fn reads_that_are_never_left_alone_end() {
    const MOST_STEPS: u32 = 50_000;
    let kernel = Kernel::with_events(15, 4);
    with("reads_that_are_never_left_alone_end", &kernel, |first: Reader<1>| {
        let other = kernel.reader_of(1);
        let (group, all): (Reader<2>, Reader<4>) = (kernel.reader(), kernel.reader());
        let clock = clock(&kernel);
        let reads: [(&str, &dyn Fn() -> bool); 10] = [
            ("a count", &|| read_one(&first).is_none()),
            ("two counts", &|| group.counts().is_none()),
            ("four counts", &|| all.counts().is_none()),
            ("a snapshot", &|| Snapshot::take(&all).is_none()),
            ("a reading", &|| first.timed::<true>().is_none()),
            ("a group's reading", &|| all.timed::<true>().is_none()),
            ("an absence", &|| all.absence().is_none()),
            ("a sum", &|| reader::sum([&first, &other].into_iter()).is_none()),
            ("a question", &|| !all.is_refused()),
            ("a time", &|| clock.now() > 0),
        ];
        for (what, read) in reads {
            for change in [Change::Move, Change::Restart, Change::Exchange] {
                kernel.happen(Change::Move);
                kernel.always.set(Some((change, MOST_STEPS)));
                let result = stepping(&kernel, read);
                assert!(kernel.always.take().is_some(), "{what} does not end: {change:?}");
                // Some pages may be left alone by a change.
                assert!(result || !matches!(change, Change::Move), "{what}, {change:?}");
                assert!(
                    !kernel.broken.load(SeqCst),
                    "rdpmc of a register that the page did not name"
                );
                // It is right again.
                let done = kernel.events[0].done.load(SeqCst);
                kernel.check(read_one(&first), done, false);
            }
        }
        // The clock goes on from there.
        let [before, now] = [clock.now(), clock.now()];
        assert!(before <= now && (now..=kernel.ticks.load(SeqCst)).contains(&now));
    });
}

fn clock(kernel: &Kernel) -> Clock {
    let pages = map([&kernel.events[0].memory].into_iter());
    Clock::of(Source::new(pages, Kind::Page, None, false, Process::current().unwrap()))
}

#[test]
fn a_time_interrupted_after_every_single_instruction() {
    let kernel = Kernel::new(9);
    with("a_time_interrupted_after_every_single_instruction", &kernel, |_: Reader<1>| {
        let clock = clock(&kernel);
        let (mut last, mut boundaries) = (0, 0);
        for change in CHANGES {
            for step in 0.. {
                // Every third time, the clock already has the page's parameters.
                match step % 3 {
                    0 => last = clock.now(),
                    1 => kernel.happen(Change::Move),
                    _ => kernel.tick(),
                }
                let before = kernel.ticks.load(SeqCst);
                kernel.plan.set(Some((Moment::AfterStep(step / 3), change)));
                let now = stepping(&kernel, || clock.now());
                let after = kernel.ticks.load(SeqCst);
                assert!((before..=after).contains(&now), "{before} {now} {after} {change:?}");
                assert!(last <= now, "{now} after {last}, {change:?} at {step}");
                last = now;
                let ticks = clock.ticks();
                assert_eq!(clock.ticks_to_ns(ticks), after, "{change:?} at {step}");
                assert_eq!(clock.ns_to_ticks(after), ticks);
                // The call has fewer steps, even if it re-reads the page.
                if kernel.plan.take().is_some() && step % 3 == 1 {
                    break;
                }
                boundaries += 1;
            }
        }
        assert!(boundaries > 3 * 5 * 100, "{boundaries}");
    });
}

/// The page moves after each instruction in turn, so the handler must fall back to the latest time that was returned.
#[test]
fn a_signal_handler_tells_the_time_beside_a_page_that_moves() {
    let kernel = Kernel::new(14);
    with("a_signal_handler_tells_the_time_beside_a_page_that_moves", &kernel, |_: Reader<1>| {
        let clock = clock(&kernel);
        for step in 0.. {
            kernel.happen(Change::Restart);
            kernel.plan.set(Some((Moment::AfterStep(step), Change::Move)));
            kernel.clock.set(&raw const clock);
            stepping(&kernel, || clock.now());
            kernel.clock.set(ptr::null());
            let is_over = kernel.plan.take().is_some();
            let mut times = kernel.times.take();
            times.push(clock.now());
            assert!(times.is_sorted(), "moved after {step}: {times:?}");
            if is_over {
                assert!(step > 100, "only {step} steps");
                return;
            }
        }
    });
}

/// A handler reads the clock after every instruction of the call that it interrupts.
#[test]
fn a_signal_handler_tells_the_time_after_every_single_instruction() {
    let kernel = Kernel::new(13);
    with(
        "a_signal_handler_tells_the_time_after_every_single_instruction",
        &kernel,
        |_: Reader<1>| {
            let clock = clock(&kernel);
            for round in 0..200 {
                match round % 3 {
                    0 => {}
                    1 => kernel.happen(Change::Move),
                    _ => kernel.tick(),
                }
                let before = clock.now().max(kernel.ticks.load(SeqCst));
                kernel.happen(Change::Restart);
                kernel.plan.set(Some((Moment::AfterStep(u32::MAX), Change::Count)));
                kernel.clock.set(&raw const clock);
                let now = stepping(&kernel, || clock.now());
                kernel.clock.set(ptr::null());
                kernel.plan.set(None);
                let mut times = kernel.times.take();
                assert!(times.len() > 100, "{} times", times.len());
                let within = before..=kernel.ticks.load(SeqCst);
                assert!(within.contains(&now), "{now} from {before} on: {times:?}");
                // The interrupted call began before all of them and ended after them.
                times.push(clock.now());
                assert!(times.is_sorted(), "{times:?}");
                // Until the page is re-read, the handler gets the latest time.
                assert!(times.iter().all(|time| time <= within.end()), "{before} {times:?}");
                assert!(times.iter().any(|time| within.contains(time)), "{before} {times:?}");
            }
        },
    );
}

#[test]
fn a_time_that_wraps_goes_on() {
    let kernel = Kernel::new(10);
    with("a_time_that_wraps_goes_on", &kernel, |_: Reader<1>| {
        let clock = clock(&kernel);
        for _ in 0..10_000 {
            // Past the end of the narrow counter, but at most once around.
            let now = clock.now();
            assert_eq!(now, kernel.ticks.load(SeqCst));
            let ticks = clock.ticks();
            let mask = kernel.mask.load(SeqCst);
            let passed = kernel.random() % (NARROW / 4);
            kernel.ticks.fetch_add(passed, SeqCst);
            // Earlier ticks convert to earlier times, and differences are right.
            assert_eq!(clock.ticks_to_ns(ticks), now);
            assert_eq!(clock.conversion().delta_ns(clock.ticks().wrapping_sub(ticks)), passed);
            if kernel.random() % 4 == 0 {
                // Also if the page then counts from a later time.
                kernel.happen(Change::Move);
                if kernel.mask.load(SeqCst) == mask {
                    assert_eq!(clock.ticks_to_ns(ticks), now);
                }
            } else if kernel.ticks.load(SeqCst) > kernel.cycles() + NARROW / 2 {
                kernel.happen(Change::Restart);
            }
        }
    });
}

#[test]
fn a_page_that_takes_time_back_is_waited_for() {
    let kernel = Kernel::new(11);
    with("a_page_that_takes_time_back_is_waited_for", &kernel, |_: Reader<1>| {
        let clock = clock(&kernel);
        kernel.set_clock((1, 0), 5_000);
        let reached = clock.now();
        assert_eq!(reached, kernel.ticks.load(SeqCst) + 5_000);
        for zero in [4_000, 4_990, 2_000] {
            kernel.set_clock((1, 0), zero);
            kernel.ticks.fetch_add(1, SeqCst);
            assert_eq!(clock.now(), reached);
        }
        // Conversions still use the page's parameters.
        let ticks = clock.ticks();
        assert_eq!(clock.ticks_to_ns(ticks), ticks + 2_000);
        kernel.ticks.fetch_add(2_999, SeqCst);
        assert_eq!(clock.now(), reached + 2);
        // Also if the counter began before the timeline and is set back to before it.
        let begun = kernel.ticks.load(SeqCst) - 1_000;
        let clock = {
            kernel.set_clock((1, 0), begun.wrapping_neg());
            self::clock(&kernel)
        };
        assert_eq!(clock.now(), 1_000);
        kernel.ticks.fetch_sub(5_000, SeqCst);
        assert_eq!([clock.now(), clock.now_ordered()], [1_000; 2]);
        assert_eq!(clock.ns_to_ticks(0), begun);
        kernel.ticks.fetch_add(5_001, SeqCst);
        assert_eq!(clock.now(), 1_001);
        // Also with larger shifts, the last of which only the slow path handles.
        kernel.set_clock((1, 0), 0);
        let clock = self::clock(&kernel);
        let reached = clock.now();
        kernel.set_clock((1 << 31, 32), reached - kernel.ticks.load(SeqCst) / 2);
        kernel.ticks.fetch_add(7, SeqCst);
        assert!((3..=4).contains(&(clock.now() - reached)));
        kernel.set_clock((1 << 31, 33), reached - kernel.ticks.load(SeqCst) / 4);
        kernel.ticks.fetch_add(70, SeqCst);
        assert!((17..=18).contains(&(clock.now() - reached)));
    });
}

#[test]
fn a_page_that_loses_its_clock_is_done_without() {
    // The ticks are real ones here.
    let kernel = Kernel::new(12);
    kernel.set_clock((1, 0), 0);
    let clock = clock(&kernel);
    assert_eq!(clock.kind(), ClockKind::Page);
    let (before, now) = (clock.ticks(), clock.now());
    assert!(before <= now && now <= clock.ticks(), "{before} {now}");
    let capabilities = |to| {
        kernel.events[0].write(|page| unsafe {
            // SAFETY: within the page.
            let capabilities = &raw mut (*page).capabilities;
            let before = capabilities.read_volatile();
            capabilities.write_volatile(to);
            before
        })
    };
    let with_clock = capabilities(capability::BIT0_IS_DEPRECATED);
    // Asking for the kind changes nothing, because a change would cost a calibration.
    assert_eq!(clock.kind(), ClockKind::Kernel(KernelReason::NotTrusted));
    assert_eq!(clock.error_bound(), None);
    capabilities(with_clock);
    assert_eq!(clock.kind(), ClockKind::Page);
    capabilities(capability::BIT0_IS_DEPRECATED);
    let mut last = clock.now();
    assert!(now <= last, "{last} after {now}");
    assert_eq!(clock.kind(), ClockKind::Kernel(KernelReason::NotTrusted));
    // It continues from where it was, at the true rate, which is not a tick per nanosecond.
    let outer = std::time::Instant::now();
    let begun = (clock.now(), std::time::Instant::now());
    for _ in 0..100_000 {
        let now = clock.now();
        assert!(last <= now, "{now} after {last}");
        last = now;
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    let passed = begun.1.elapsed().as_nanos() as u64;
    let told = clock.now() - begun.0;
    let most = outer.elapsed().as_nanos() as u64;
    let slack = 1_000 + most / 1_000; // NTP may be changing the rate of one of the two
    assert!(passed <= told + slack && told <= most + slack, "{told} ns of {passed} to {most}");
}

#[test]
fn every_value_of_a_register_is_read_right() {
    let kernel = Kernel::new(5);
    with("every_value_of_a_register_is_read_right", &kernel, |reader: Reader<1>| {
        let place = 5;
        kernel.leave(&kernel.events[0]);
        kernel.enter_at(&kernel.events[0], place);
        // SAFETY: within the page.
        kernel.events[0].write(|page| unsafe { (&raw mut (*page).offset).write_volatile(0) });
        let edges = (0..WIDTH).flat_map(|bit| [1 << bit, (1 << bit) - 1, MASK ^ (1 << bit)]);
        let others = (0..100_000).map(|_| kernel.random() & MASK);
        for value in edges.chain(others) {
            kernel.registers[place].store(value, SeqCst);
            let model = sign_extend(value, WIDTH).map(|value| value as u64);
            let model = model.filter(|_| value != 0); // 0 may stand for a forbidden counter
            assert_eq!(read_one(&reader), model, "{value:#x}");
        }
    });
}

/// Sets each register of a group to 0 in turn, which may stand for a forbidden counter, and then to another value.
fn a_group_with_a_register_at_0<const N: usize>() {
    let kernel = Kernel::with_events(15, N);
    with("a_group_with_a_register_at_0_is_not_read", &kernel, |reader: Reader<N>| {
        for event in &kernel.events {
            let place = event.place().unwrap();
            let before = kernel.registers[place].swap(0, SeqCst);
            assert_eq!(reader.counts(), None);
            kernel.registers[place].store(before | 1, SeqCst);
            assert!(reader.counts().is_some());
        }
    });
}

#[test]
fn a_group_with_a_register_at_0_is_not_read() {
    a_group_with_a_register_at_0::<1>();
    a_group_with_a_register_at_0::<2>();
    a_group_with_a_register_at_0::<8>();
}

#[test]
fn a_page_that_is_not_sure_is_not_read() {
    let kernel = Kernel::new(6);
    let judge = |capabilities: u64, width: u16| {
        kernel.events[0].write(|page| unsafe {
            // SAFETY: within the page.
            (&raw mut (*page).capabilities).write_volatile(capabilities);
            (&raw mut (*page).pmc_width).write_volatile(width);
        });
        Reader::<1>::new(map([&kernel.events[0].memory].into_iter())).err().map(|(_, why)| why)
    };
    let sure = capability::BIT0_IS_DEPRECATED;
    // Before Linux 3.12, bit 0 is user time, or user reads, or both.
    assert_eq!(judge(capability::BIT0, 48), Some(SyscallReason::PageTooOld));
    assert_eq!(judge(0, 48), Some(SyscallReason::PageTooOld));
    assert_eq!(judge(sure, 48), Some(SyscallReason::NotOffered));
    assert_eq!(judge(sure | capability::USER_TIME, 48), Some(SyscallReason::NotOffered));
    assert_eq!(judge(sure | capability::USER_RDPMC, 40), Some(SyscallReason::Width { bits: 40 }));
    assert_eq!(judge(sure | capability::USER_RDPMC, 48), None);
}

#[test]
fn without_a_clock_there_is_a_count_but_no_reading() {
    let kernel = Kernel::new(7);
    let capabilities = capability::BIT0_IS_DEPRECATED | capability::USER_RDPMC;
    kernel.events[0].write(|page| unsafe {
        // SAFETY: within the page.
        (&raw mut (*page).capabilities).write_volatile(capabilities);
    });
    with("without_a_clock_there_is_a_count_but_no_reading", &kernel, |reader: Reader<1>| {
        kernel.count(5);
        assert_eq!(read_one(&reader), Some(5));
        // The clock is checked first: no counter is read in vain.
        let faults = kernel.faults.load(SeqCst);
        assert!(reader.timed::<true>().is_none());
        assert_eq!(kernel.faults.load(SeqCst), faults);
        // The times are then those of the page's last update.
        let times = || {
            let counts = reader.timed::<false>().unwrap();
            assert_eq!(counts.counts, [5]);
            (counts.time_enabled, counts.time_running)
        };
        let before = times();
        (0..100).for_each(|_| kernel.tick());
        assert_eq!(times(), before);
    });
}

/// Makes a change after every single instruction of a group's read, and checks that the counts are simultaneous.
/// Returns the number of instructions with a change. None if this cannot be tried.
fn group_interrupted<const N: usize>(repetitions: u32) -> Option<u32> {
    let kernel = Kernel::with_events(8 + N as u64, N);
    let test = "groups_interrupted_after_every_single_instruction";
    with(test, &kernel, |reader: Reader<N>| {
        let mut boundaries = 0;
        for repetition in 0..repetitions {
            for change in CHANGES {
                let steps = after_each_step(&kernel, |step| {
                    kernel.happen(Change::Move);
                    let done = kernel.events[0].done.load(SeqCst);
                    kernel.plan.set(Some((Moment::AfterStep(step), change)));
                    // Every other time, with the times.
                    let counts = stepping(&kernel, || match repetition % 2 {
                        0 => reader.counts(),
                        _ => reader.timed::<true>().map(|all| all.counts),
                    });
                    assert!(!kernel.broken.load(SeqCst));
                    let begun = kernel.events[0].begun.load(SeqCst);
                    match counts {
                        Some(counts) => {
                            assert!(counts.iter().all(|count| (done..=begun).contains(count)));
                            // All events have equal counts at each moment. If the group stays in place, what happens
                            // between two reads is in the later counts. If all events were moved, the read detects it
                            // at any moment.
                            let one_moment = match change {
                                Change::Move => counts.iter().all(|count| *count == counts[0]),
                                _ => counts.is_sorted(),
                            };
                            assert!(one_moment, "{counts:?} after {change:?} at {step}");
                        }
                        None => assert!(matches!(change, Change::Leave), "none: {change:?}"),
                    }
                });
                boundaries += if repetition == 0 { steps } else { 0 };
            }
        }
        boundaries
    })
}

#[test]
fn groups_interrupted_after_every_single_instruction() {
    let found = [
        group_interrupted::<1>(2),
        group_interrupted::<2>(4),
        group_interrupted::<4>(4),
        group_interrupted::<5>(2),
        group_interrupted::<8>(2),
    ];
    // At least 10 instructions for each counter, and 5 kinds of change after each.
    for (boundaries, counters) in found.into_iter().zip([1, 2, 4, 5, 8]) {
        let Some(boundaries) = boundaries else { return };
        assert!(boundaries >= 50 * counters, "{boundaries} for {counters}");
    }
}

#[test]
fn a_million_groups_with_a_kernel_on_another_processor() {
    if !std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1) {
        let why = "on one processor the kernel's thread would move nothing meanwhile";
        return skips::skip("a_million_groups_with_a_kernel_on_another_processor", why);
    }
    const READS: u64 = 1_000_000;
    let kernel = Kernel::with_events(20, 4);
    let over = AtomicBool::new(false);
    let none = with(
        "a_million_groups_with_a_kernel_on_another_processor",
        &kernel,
        |reader: Reader<4>| {
            std::thread::scope(|threads| {
                let _over = Over(&over);
                threads.spawn(|| {
                    let mut next = 0;
                    while !over.load(SeqCst) {
                        kernel.happen(Change::Count);
                        if kernel.faults.load(SeqCst) >= next {
                            let change = CHANGES[1 + kernel.random() as usize % 3];
                            kernel.happen(change);
                            next = kernel.faults.load(SeqCst) + kernel.random() % 64;
                        }
                    }
                });
                let (mut counts, mut none, mut last, mut wrong) = (0, 0u64, [0; 4], None);
                let (mut undisturbed, mut disturbed) = (0u64, 0u64);
                let turns = || kernel.events[0].done.load(SeqCst) / TURN;
                let is_calm = |disturbed| disturbed <= 1_000 || turns() <= READS / 1_000;
                // Longer if the other thread gets little time on a busy machine.
                while wrong.is_none()
                    && (counts < READS || counts < 20 * READS && is_calm(disturbed))
                {
                    let done = [0, 1, 2, 3].map(|n| kernel.events[n].done.load(SeqCst));
                    let found = reader.counts();
                    let begun = [0, 1, 2, 3].map(|n| kernel.events[n].begun.load(SeqCst));
                    let Some(found) = found else {
                        none += 1;
                        std::thread::yield_now();
                        continue;
                    };
                    let is_right = |n: usize| {
                        let of_one_turn = found[n] / TURN == found[0] / TURN;
                        let between = done[n] <= found[n] && found[n] <= begun[n];
                        of_one_turn && between && last[n] <= found[n]
                    };
                    if !(0..4).all(is_right) {
                        wrong = Some((done, found, begun));
                    }
                    // And a region, which must not contain a turn of the events.
                    match empty(&region(&reader)) {
                        Ok(region) if region.iter().any(|count| *count >= TURN) => {
                            wrong = Some((done, region, begun));
                        }
                        Ok(_) => undisturbed += 1,
                        Err(_) => disturbed += 1,
                    }
                    last = found;
                    counts += 1;
                }
                assert_eq!(wrong, None);
                assert!(undisturbed > 10_000 && disturbed > 1_000, "{undisturbed}, {disturbed}");
                none
            })
        },
    );
    if let Some(none) = none {
        let moves = kernel.events[0].done.load(SeqCst) / TURN;
        skips::say(&format!("{READS} groups of four, {none} none, {moves} moves, none torn"));
        assert!(moves > READS / 1_000, "too calm a kernel: {moves} moves");
    }
}

/// Makes a change after every single instruction from before a region to after it. The region returns counts only if
/// they are exactly what was counted between its reads, and an error if the kernel was at work between them. None if
/// this cannot be tried.
fn region_interrupted<const N: usize, const ORDERED: bool>(
    region: impl Fn(&Reader<N>) -> Result<[u64; N], Disturbed>,
) -> Option<[u32; 3]> {
    let kernel = Kernel::with_events(40 + N as u64, N);
    let test = "regions_interrupted_after_every_single_instruction";
    with(test, &kernel, |reader: Reader<N>| {
        // The samples that were undisturbed, interrupted, and without a counter.
        let mut found = [0; 3];
        for change in CHANGES {
            after_each_step(&kernel, |step| {
                kernel.happen(Change::Move);
                kernel.reads.set(0);
                kernel.plan.set(Some((Moment::AfterStep(step), change)));
                let sample = stepping(&kernel, || region(&reader));
                assert!(!kernel.broken.load(SeqCst), "{change:?} at {step}");
                let reads = kernel.reads.get();
                match sample {
                    Ok(counts) => {
                        found[0] += 1;
                        assert_eq!(reads, 2 * N);
                        for (n, count) in counts.into_iter().enumerate() {
                            // The first counter is read last at the start, and first at the stop.
                            let (owner, start) = kernel.log[N - 1 - n].get();
                            assert_eq!(owner, n);
                            let (owner, end) = kernel.log[N + n].get();
                            assert_eq!(owner, n);
                            assert_eq!(count, end - start, "{change:?} at {step}");
                        }
                    }
                    Err(Disturbed::Interrupted { lock_moved }) => {
                        found[1] += 1;
                        assert!(lock_moved > 0 && lock_moved % 2 == 0, "{lock_moved}");
                        assert!(!matches!(change, Change::Count), "{change:?} at {step}");
                    }
                    Err(Disturbed::NoCounter) => {
                        found[2] += 1;
                        assert!(matches!(change, Change::Leave), "{change:?} at {step}");
                        assert_eq!(reads, 0);
                    }
                    Err(other) => panic!("{other:?}"),
                }
            });
        }
        found
    })
}

#[test]
fn regions_interrupted_after_every_single_instruction() {
    let found = [
        region_interrupted::<1, false>(|reader| empty(&region(reader))),
        region_interrupted::<1, true>(|reader| empty(&fenced_region(reader))),
        region_interrupted::<2, false>(|reader| empty(&region(reader))),
        region_interrupted::<4, true>(|reader| empty(&fenced_region(reader))),
    ];
    for found in found {
        let Some([undisturbed, interrupted, without]) = found else { return };
        assert!(undisturbed > 20 && interrupted > 20 && without > 0, "{found:?}");
    }
}

#[inline(never)]
fn empty<const N: usize, const FENCED: bool>(
    region: &Region<'_, N, FENCED>,
) -> Result<[u64; N], Disturbed> {
    let start = region.start()?;
    region.stop(start)
}

/// Makes a change after every single instruction from before a snapshot to after the next. Their difference is disturbed
/// exactly if the kernel was at work between the two. Returns the numbers of undisturbed and disturbed differences. None
/// if this cannot be tried.
fn snapshots_interrupted<const N: usize>() -> Option<[u32; 2]> {
    let kernel = Kernel::with_events(50 + N as u64, N);
    let test = "snapshots_interrupted_after_every_single_instruction";
    with(test, &kernel, |reader: Reader<N>| {
        let mut found = [0; 2];
        for change in CHANGES {
            after_each_step(&kernel, |step| {
                kernel.happen(Change::Move);
                kernel.plan.set(Some((Moment::AfterStep(step), change)));
                let delta = stepping(&kernel, || {
                    let earlier = Snapshot::take(&reader)?;
                    let later = Snapshot::take(&reader)?;
                    Some(later - earlier)
                });
                assert!(!kernel.broken.load(SeqCst), "{change:?} at {step}");
                let Some(delta) = delta else {
                    return assert!(matches!(change, Change::Leave), "none: {change:?} at {step}");
                };
                // A move adds a turn to all counts, the others to some or none.
                let turns = delta.counts().map(|count| count / TURN);
                match (delta.disturbed(), change) {
                    (None, _) => {
                        found[0] += 1;
                        assert_eq!(turns, [0; N], "{change:?} at {step}");
                    }
                    (Some(Disturbed::Interrupted { lock_moved }), Change::Move) => {
                        found[1] += 1;
                        assert_eq!(turns, [1; N], "at {step}");
                        assert!(lock_moved > 0 && lock_moved % 2 == 0, "{lock_moved}");
                    }
                    (Some(_), Change::Restart | Change::Exchange) => found[1] += 1,
                    (Some(other), _) => panic!("{other:?} after {change:?} at {step}"),
                }
            });
        }
        found
    })
}

#[test]
fn snapshots_interrupted_after_every_single_instruction() {
    let found =
        [snapshots_interrupted::<1>(), snapshots_interrupted::<2>(), snapshots_interrupted::<4>()];
    for found in found {
        let Some([undisturbed, disturbed]) = found else { return };
        assert!(undisturbed > 20 && disturbed > 20, "{found:?}");
    }
}

#[test]
fn snapshots_of_two_handles_have_no_difference() {
    let kernel = Kernel::with_events(60, 2);
    with("snapshots_of_two_handles_have_no_difference", &kernel, |one: Reader<2>| {
        let other: Reader<2> = kernel.reader();
        let [one, other] = [&one, &other].map(|reader| Snapshot::take(reader).unwrap());
        assert_eq!((other - one).disturbed(), Some(Disturbed::OtherCounters));
        assert_eq!((one - one).disturbed(), None);
        // Nor do those of a handle that is at the address of one that was closed.
        let closed: Reader<2> = kernel.reader();
        let earlier = Snapshot::take(&closed).unwrap();
        drop(closed);
        let opened: Reader<2> = kernel.reader();
        let later = Snapshot::take(&opened).unwrap();
        assert_eq!((later - earlier).disturbed(), Some(Disturbed::OtherCounters));
        assert_eq!((one - one).counts(), [0; 2]);
    });
}

/// Overheads of a region whose counts are known, with disturbed samples among them.
#[test]
fn overheads_of_known_regions() {
    let kernel = Kernel::with_events(50, 1);
    with("overheads_of_known_regions", &kernel, |reader: Reader<1>| {
        let region = self::region(&reader);
        // Nothing happens in an empty region here.
        let overhead = Overhead::measure(&region).unwrap();
        assert_eq!((overhead.minimum(), overhead.spread()), ([0], [0]));
        // A region with overhead: each of its reads counts one to three events.
        kernel.noise.set(true);
        let overhead = Overhead::measure(&region).unwrap();
        assert_eq!((overhead.minimum(), overhead.spread()), ([1], [2]));
        let corrected = region.corrected(&overhead).unwrap();
        let (_, counts) = corrected.measure(|| kernel.count(40));
        assert!(matches!(counts, Ok([40..=42])), "{counts:?}");
        // Other events have another overhead.
        let others = Region::new(&reader, &[What::CYCLES]);
        assert_eq!(others.corrected(&overhead).err(), Some(RegionError::OtherOverhead));
        // A corrected count does not go below 0.
        kernel.noise.set(false);
        assert_eq!(corrected.measure(|| ()).1, Ok([0]));
        assert_eq!(fenced_region(&reader).measure(|| kernel.count(3)).1, Ok([3]));
    });
}

#[test]
fn a_region_does_not_stop_what_other_counters_started() {
    let kernel = Kernel::with_events(61, 1);
    with("a_region_does_not_stop_what_other_counters_started", &kernel, |first: Reader<1>| {
        // A region of another reader.
        let others = Reader::<1>::none();
        let start = region(&first).start().unwrap();
        let stopped = region(&others).stop(start);
        assert_eq!(stopped, Err(Disturbed::OtherCounters));
        assert_eq!(region(&first).stop(start), Ok([0]));
    });
}

#[test]
fn a_region_counts_across_the_end_of_the_register() {
    let kernel = Kernel::with_events(60, 2);
    with("a_region_counts_across_the_end_of_the_register", &kernel, |reader: Reader<2>| {
        let region = self::region(&reader);
        for events in [0, 1, 2, 1 << 20, (1 << 47) - 1, 1 << 47, MASK] {
            for start in [0, 1, MASK, MASK - 1, 1 << 47, (1 << 47) - 1] {
                for event in &kernel.events {
                    kernel.registers[event.place().unwrap()].store(start, SeqCst);
                }
                let (_, counts) = region.measure(|| kernel.count(events));
                let is_zero = start == 0 || (start + events) & MASK == 0;
                let expected = if is_zero { Err(Disturbed::Faulted) } else { Ok([events; 2]) };
                assert_eq!(counts, expected, "from {start:#x}");
            }
        }
    });
}

/// Returns a group whose reads in user space fault, as a hypervisor's traps do, and whose system calls read software
/// events. `choice` decides how it is read. The costs of `event` are kept in this process.
fn trapped<const N: usize>(
    reader: Reader<N>,
    event: What,
    choice: impl FnOnce(&ReadCost) -> Option<SyscallReason>,
) -> Option<(Group<N>, ReadCost)> {
    let options = Options::default();
    let opened = options.open_events(&[What::TASK_CLOCK; N]).ok()?;
    let process = Process::current().unwrap();
    let events = [event; N];
    let (obstacle, flags) = (None, 0);
    let mut open = OpenGroup { events, opened, obstacle, choice: None, flags, process };
    let cost = cost::of_group(&reader, &open);
    open.choice = choice(&cost);
    Some((Group::of((reader, Box::new(open))), cost))
}

/// Measures both ways of a group of N, and reads by the cheaper one. Prints a row.
fn priced<const N: usize>(test: &str) {
    let kernel = Kernel::with_events(70 + N as u64, N);
    with(test, &kernel, |reader: Reader<N>| {
        time_stamps(libc::PR_TSC_ENABLE); // these are not trapped here
        let Some((group, cost)) = trapped(reader, What::raw(0x7ead), ReadCost::reason) else {
            return skips::skip(test, "no software event can be opened");
        };
        let ns = |timing: Option<Timing>| timing.map_or(0, |timing| timing.median.as_nanos());
        let [user, system_call, tick] = [cost.user, cost.system_call, cost.tick].map(ns);
        let trapped = if cost.is_trapped { "yes" } else { "no" };
        let access = group.access();
        let used = if access == Access::UserSpace { "user space" } else { "read(2)" };
        skips::say(&format!(
            "| {N} | {user} ns | {system_call} ns | {tick} ns | {trapped} | {used} |"
        ));
        assert!(cost.is_trapped, "{cost:?}");
        assert!(user > system_call && system_call > tick, "{cost:?}");
        assert!(matches!(access, Access::SystemCall(SyscallReason::Slower { .. })), "{access}");
        // What is known is not measured again.
        let faults = || kernel.faults.load(SeqCst);
        let before = faults();
        assert_eq!(group.read_cost(), cost);
        // No user read but where the name says so.
        let (monitor, reads) = (group.monitor(), group.monitor().system_calls());
        let first = group.read().unwrap()[0];
        assert!(first < group.reading().unwrap()[0].value);
        assert!(first < group.read().unwrap()[0]);
        assert_eq!((faults(), monitor.system_calls()), (before, reads + 3));
        assert_eq!(monitor.path(), ReadPath::UserSpace); // as `open` has not set it here
        assert!(group.read_user().is_some());
        assert_eq!(faults(), before + N as u64);
    });
}

#[test]
fn a_trapped_read_is_priced_and_avoided() {
    let test = "a_trapped_read_is_priced_and_avoided";
    skips::say("| counters | user space | read(2) | tick | trapped | used |");
    priced::<1>(test);
    priced::<2>(test);
    priced::<4>(test);
    priced::<8>(test);
}

/// A handle can be told to read in user space, whatever that costs.
#[test]
fn a_trapped_read_that_was_requested() {
    let test = "a_trapped_read_that_was_requested";
    let kernel = Kernel::with_events(80, 1);
    with(test, &kernel, |reader: Reader<1>| {
        let Some((group, _)) = trapped(reader, What::raw(0xbead), |_| None) else {
            return skips::skip(test, "no software event can be opened");
        };
        let counter = Counter::of(group);
        kernel.count(7);
        let before = kernel.faults.load(SeqCst);
        assert_eq!((counter.read(), counter.read_user()), (Ok(7), Some(7)));
        assert_eq!(kernel.faults.load(SeqCst), before + 2);
        assert_eq!((counter.access(), counter.monitor().system_calls()), (Access::UserSpace, 0));
    });
    with(test, &kernel, |reader: Reader<1>| {
        let Some((group, _)) =
            trapped(reader, What::raw(0xbead), |_| Some(SyscallReason::Requested))
        else {
            return;
        };
        let counter = Counter::of(group);
        let before = kernel.faults.load(SeqCst);
        assert!(counter.read().is_ok());
        assert!(counter.reading().is_ok());
        assert_eq!((kernel.faults.load(SeqCst), counter.monitor().system_calls()), (before, 2));
        assert_eq!(counter.read_user(), Some(7));
        assert_eq!(counter.access(), Access::SystemCall(SyscallReason::Requested));
    });
}
