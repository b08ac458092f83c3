//! The handle: one event of this thread.
#![allow(unsafe_code)]

use crate::core_types;
use crate::error::{Access, Error, NoUserAccess};
use crate::event::Event;
use crate::group::Group;
use crate::open::Builder;
use crate::ordered::Ordered;
use crate::read::{self, Reading, Snapshot, View};
use crate::region::Region;
use std::cell::Cell;
use std::time::Instant;

/// A counter of the thread that opened it.
///
/// ```
/// use rdpmc::{Counter, Error, Event};
///
/// fn instructions_of(work: impl FnOnce()) -> Result<u64, Error> {
///     let instructions = Counter::open(Event::INSTRUCTIONS)?;
///     let before = instructions.read()?;
///     work();
///     Ok(instructions.read()? - before)
/// }
///
/// match instructions_of(|| drop(std::hint::black_box(vec![0; 100]))) {
///     Ok(count) => println!("{count} instructions"),
///     Err(why) => println!("{why}"), // e.g. that this virtual machine has no PMU
/// }
/// ```
///
/// # One thread
///
/// The kernel publishes the registers of the thread that opened the event. Read by another
/// thread, they would give another thread's counts, so a counter is neither `Send` nor `Sync`:
///
/// ```compile_fail,E0277
/// fn only_if_send<T: Send>() {}
/// only_if_send::<rdpmc::Counter>();
/// ```
/// ```compile_fail,E0277
/// fn only_if_sync<T: Sync>() {}
/// only_if_sync::<rdpmc::Counter>();
/// ```
///
/// What is counted can go anywhere:
///
/// ```
/// fn only_if_send<T: Send>() {}
/// fn only_if_sync<T: Sync>() {}
/// only_if_send::<rdpmc::Event>();
/// only_if_sync::<rdpmc::Event>();
/// ```
///
/// # Fork
///
/// In the child of a `fork` the handles of the parent are harmless and useless:
/// [`read_user`](Counter::read_user) gives None, everything that can give an error gives
/// [`Error::Forked`], and dropping them leaves the parent's alone. While the child has them, by its
/// copies of the descriptors, the parent's events stay open even if the parent drops them.
///
/// A child made by `_Fork` or a raw system call, where the C library runs no handlers, must not
/// touch them; nor one in which a handler registered before this library's maps memory, or for which
/// there is not even a page of memory left.
///
/// # Faults
///
/// The processor refuses a read, and the process gets SIGSEGV or SIGILL unless
/// [`contain_faults`](crate::contain_faults) was called:
/// - from the moment the administrator revokes user access while the counter is open (x86-64:
///   `rdpmc` from 1 to 0; arm64 and riscv64: `perf_user_access` to 0): the page goes on to say yes;
/// - if, between looking at the page and reading the register, the event loses its counter on
///   riscv64, or the thread moves to another core type on a processor that has several.
///
/// [`reading`](Counter::reading) also reads the tick counter, which a thread can forbid itself with
/// `prctl(PR_SET_TSC)` on x86-64, and on arm64 since Linux 6.12.
///
/// # Several core types
///
/// Where the processor has cores of several types (Intel's hybrids, arm's big.LITTLE), each with a PMU of
/// its own, the kernel counts a generic event on one type only. A counter of such an event is opened on
/// each, unless the thread is kept on the processors of one type (`sched_setaffinity`) when it is opened:
/// then on that, and [`event`](Counter::event) says which; should it leave them later, or offline ones of
/// another type come back, the count lacks what it does there, and [`reading`](Counter::reading) tells.
///
/// Opened on each, it gives the sum. Reads need no system call either, and take some 140 instructions for two
/// types (`tests/vm/run aarch64-big-little`); readings and what controls the counter take the system calls
/// for each. The parts are started and stopped one after the other, so a [`Reading`] does not tell
/// multiplexing for less than that (20 microseconds or a thousandth at the most) from none. Regions are those
/// of the type that the thread is on when they are [made](Counter::region). Pinned, it is read by system call, as no page tells that one type's counter is
/// lost. If the event is not to be had on one of the types, opening fails; `cpu_core/EVENT/` opens it where
/// it is. Linux before 6.6 has the generic hardware events but reference cycles for it on arm64, and no cache
/// events. A raw event is opened on each type on arm64, and on Intel's hybrids on `cpu_core`, whose number raw
/// events have. Where the kernel's list of PMUs cannot be seen (no `/sys`), a counter is what the kernel makes
/// of the event: of one type.
///
/// # What it holds
///
/// A file descriptor (close-on-exec) and, for events of a PMU, one page of memory mapped
/// read-only; one of each for each core type. Dropping it gives them back.
#[derive(Debug)]
#[repr(C)]
pub struct Counter {
    /// Of `group`; or one that never answers, if there are others.
    view: View,
    /// A group of one, which its slower paths need not know.
    group: Group<1>,
    /// The same event on the PMUs of other core types, if there are.
    others: Option<Box<Others>>,
    event: Event,
}

#[derive(Debug)]
struct Others {
    groups: Vec<Group<1>>,
    /// Whether user space reads all of them, and the first.
    are_readable: bool,
    /// Then one may be in error state, and its page does not say so.
    are_pinned: bool,
    /// Nanoseconds by which they were started and stopped at different times, at the most.
    apart: Cell<u64>,
}

impl Counter {
    fn of(group: Group<1>) -> Counter {
        // SAFETY: the counter keeps the reader, and drops it with the view.
        let view = unsafe { group.reader.view() };
        let [event] = group.events();
        Counter { view, group, others: None, event }
    }

    /// Opens a counter of `event` for this thread, counting from now, in user mode alone (but for
    /// the three events that happen in the kernel only, such as [`Event::CONTEXT_SWITCHES`]).
    ///
    /// Costs two system calls where all is granted at once, and `Drop` two more; on riscv64, and for
    /// events of other PMUs on arm64, also a look into `/proc` or `/sys`, as for the first hardware event
    /// in the process. [Several core types](Counter#several-core-types) take as much for each, and a few
    /// more. Errors name the cause found on this machine. A counter that user space cannot read is no
    /// error: its reads are system calls, and [`access`](Counter::access) tells why.
    pub fn open(event: Event) -> Result<Counter, Error> {
        Counter::builder(event).open()
    }

    /// Says how to open a counter of `event`.
    pub fn builder(event: Event) -> Builder<Event> {
        Builder::new(event)
    }

    /// The count, read from user space: no system call, no branch into the C library, no
    /// allocation. Counts from 0 at the open or the last [`reset`](Counter::reset).
    ///
    /// None while there is nothing to read: the event has no counter at this moment (it is
    /// disabled, or multiplexing gave others the turn), user space may not read it, it is a
    /// software event, or this process is a fork. See [`access`](Counter::access).
    ///
    /// Takes 14 instructions on x86-64, 14 on arm64 (15 with 32-bit counters), 20 on riscv64, by
    /// `tests/vm/run TARGET cost`. Not ordered against the instructions around it: the processor
    /// may run some of them before or after; see [`ordered`](Counter::ordered).
    #[inline]
    pub fn read_user(&self) -> Option<u64> {
        match self.view.count::<false>() {
            Some(count) => Some(count),
            None => self.sum::<false>(),
        }
    }

    /// The groups of all core types.
    fn each(&self) -> impl Iterator<Item = &Group<1>> + Clone {
        let others = self.others.as_ref().map_or(&[][..], |others| &others.groups);
        std::iter::once(&self.group).chain(others)
    }

    /// The group of the core type that the thread is on.
    fn here(&self) -> &Group<1> {
        self.place_here().and_then(|place| self.each().nth(place)).unwrap_or(&self.group)
    }

    fn place_here(&self) -> Option<usize> {
        let pmus = self.each().filter_map(|group| group.pmu());
        self.others.as_ref().and_then(|_| core_types::current(pmus))
    }

    /// The counts of several core types, of which one has a counter at this moment. None if there are
    /// not several, or nothing to read.
    #[cold]
    #[inline(never)]
    fn sum<const ORDERED: bool>(&self) -> Option<u64> {
        let others = self.others.as_ref().filter(|others| others.are_readable)?;
        let readers = others.groups.iter().map(|group| &group.reader);
        read::sum::<ORDERED>(&self.group.reader, readers)
    }

    /// The count: as [`read_user`](Counter::read_user), and where that has no answer by `read(2)`,
    /// a system call.
    ///
    /// An event that had to share a counter with others (multiplexing) counts only while it has its
    /// turn, and one that never had a turn reads 0: [`reading`](Counter::reading) tells.
    ///
    /// # Errors
    /// [`Error::ErrorState`] for a pinned event without a counter, [`Error::Forked`] in the child
    /// of a fork, [`Error::System`] for what no kernel is known to do.
    #[inline]
    pub fn read(&self) -> Result<u64, Error> {
        match self.read_user() {
            Some(count) => Ok(count),
            None => self.read_by_system_call(),
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn read_by_system_call(&self) -> Result<u64, Error> {
        Ok(self.reading_by_system_call()?.value)
    }

    /// Of several core types the one that is counting last: what it was enabled until then is what all
    /// have been running, but for the moments between starting or stopping one and the next.
    fn reading_by_system_call(&self) -> Result<Reading, Error> {
        let Some(others) = &self.others else {
            let [reading] = self.group.reading_by_system_call()?;
            return Ok(reading);
        };
        let locks = || read::locks_of(self.each().map(|group| &group.reader));
        let mut rounds = 0..ROUNDS;
        loop {
            let before = locks();
            let mut sum = Reading { value: 0, time_enabled: 0, time_running: 0 };
            // Each once, whatever moves meanwhile.
            let counting = self.each().position(|group| group.reader.is_scheduled());
            let last = counting.or_else(|| self.place_here()).unwrap_or(0);
            let first = self.each().enumerate().filter(|(place, _)| *place != last);
            for group in first.map(|(_, group)| group).chain(self.each().nth(last)) {
                let [part] = group.reading_by_system_call()?;
                sum.value = sum.value.wrapping_add(part.value);
                sum.time_enabled = part.time_enabled;
                sum.time_running = sum.time_running.saturating_add(part.time_running);
            }
            // More than enabled it cannot have been running; less, as far as they are apart.
            let missing = sum.time_enabled.saturating_sub(sum.time_running);
            let most = SHORT.max(sum.time_enabled / 1024);
            if missing <= others.apart.get().min(most) {
                sum.time_running = sum.time_enabled;
            }
            if locks() == before || rounds.next().is_none() {
                return Ok(sum);
            }
        }
    }

    /// Does the same with the events of all core types, and notes how long it took: so far apart are they.
    fn with_each(&self, what: fn(&Group<1>) -> Result<(), Error>) -> Result<(), Error> {
        let Some(others) = &self.others else { return what(&self.group) };
        let start = Instant::now();
        // All of them, whatever becomes of one.
        let mut result = Ok(());
        for group in self.each() {
            result = result.and(what(group));
        }
        let apart = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        others.apart.set(others.apart.get().saturating_add(apart));
        result
    }

    /// The count, and how long the event was enabled and running, in nanoseconds: what it takes
    /// to judge and [scale](Reading::scaled) a multiplexed event.
    ///
    /// Without a system call where the page has a clock (`cap_user_time`) and the event a counter,
    /// 97 instructions on x86-64, 82 on arm64 (83 with 32-bit counters), 92 on riscv64; otherwise
    /// by `read(2)`.
    ///
    /// # Errors
    /// As [`read`](Counter::read).
    pub fn reading(&self) -> Result<Reading, Error> {
        self.reading_user_first::<false>()
    }

    pub(crate) fn reading_user_first<const ORDERED: bool>(&self) -> Result<Reading, Error> {
        match self.group.reader.snapshot::<ORDERED, true>() {
            Some(Snapshot { counts: [value], time_enabled, time_running })
                if self.others.is_none() =>
            {
                Ok(Reading { value, time_enabled, time_running })
            }
            _ => self.reading_by_system_call(),
        }
    }

    /// The same reads, ordered against the instructions around them.
    pub fn ordered(&self) -> Ordered<'_, Counter> {
        Ordered(self)
    }

    #[inline]
    pub(crate) fn read_user_ordered(&self) -> Option<u64> {
        match self.view.count::<true>() {
            Some(count) => Some(count),
            None => self.sum::<true>(),
        }
    }

    /// Measures pieces of code with this counter: see [`Region`]. No system call where the event
    /// has a counter at this moment, but for the first time in the process, which looks into
    /// `/sys`.
    ///
    /// # Errors
    /// As [`Group::region`].
    pub fn region(&self) -> Result<Region<'_, 1>, Error> {
        self.here().region()
    }

    /// Goes on counting. One system call (`PERF_EVENT_IOC_ENABLE`).
    ///
    /// # Errors
    /// [`Error::Forked`] in the child of a fork, [`Error::System`] for what no kernel is known to do.
    pub fn enable(&self) -> Result<(), Error> {
        self.with_each(Group::enable)
    }

    /// Stops counting; the count stays, and is then read by system call. One system call
    /// (`PERF_EVENT_IOC_DISABLE`).
    ///
    /// # Errors
    /// [`Error::Forked`] in the child of a fork, [`Error::System`] for what no kernel is known to do.
    pub fn disable(&self) -> Result<(), Error> {
        self.with_each(Group::disable)
    }

    /// Sets the count to 0; enabled and running time stay. One system call (`PERF_EVENT_IOC_RESET`),
    /// or three for a counter that user space reads, which is stopped meanwhile.
    ///
    /// # Errors
    /// [`Error::Forked`] in the child of a fork, [`Error::System`] for what no kernel is known to do.
    pub fn reset(&self) -> Result<(), Error> {
        self.with_each(Group::reset)
    }

    /// How this counter is read at this moment, and if not from user space, why.
    ///
    /// No system call if it is read from user space; otherwise a look into `/proc` or `/sys`. That
    /// access was revoked while it is open, it knows only after
    /// [`contain_faults`](crate::contain_faults): to find out takes a read.
    pub fn access(&self) -> Access {
        // One that never can be read keeps the sum from being read.
        let never = |access: &Access| {
            let later = Access::SystemCall(NoUserAccess::NotScheduled);
            !matches!(access, Access::UserSpace) && *access != later
        };
        match &self.others {
            None => self.group.access(),
            Some(others) => match self.each().map(Group::access).find(never) {
                Some(access) => access,
                None if others.are_pinned => Access::SystemCall(NoUserAccess::PinnedOnSeveralTypes),
                None => self.here().access(),
            },
        }
    }

    /// The event that is counted: the one that was asked for or, where the thread is kept on the
    /// processors of one of several core types, the same on the PMU of that type.
    pub fn event(&self) -> Event {
        self.event
    }

    /// The width of its register in bits, where user space may read it.
    pub(crate) fn width(&self) -> Option<u16> {
        let [width] = self.group.reader.widths();
        (self.group.is_readable() && width > 0).then_some(width)
    }

    /// As a group, which of several core types has the one that the thread is on.
    #[cfg(feature = "criterion")]
    pub(crate) fn into_group(self) -> Group<1> {
        let here = self.each().position(|group| std::ptr::eq(group, self.here()));
        let other = here.and_then(|place| place.checked_sub(1));
        match (other, self.others) {
            (Some(other), Some(others)) => {
                others.groups.into_iter().nth(other).unwrap_or(self.group)
            }
            _ => self.group,
        }
    }

    /// Whether all privilege levels are counted because the PMU cannot tell them apart: only
    /// after [`allow_unfiltered`](Builder::allow_unfiltered).
    pub fn is_unfiltered(&self) -> bool {
        self.each().any(Group::is_unfiltered)
    }
}

/// Nanoseconds without a counter that need not be multiplexing, of several core types.
const SHORT: u64 = 20_000;
/// How often the parts of a sum are read anew if the kernel has moved one meanwhile.
const ROUNDS: u32 = 8;

impl Builder<Event> {
    /// Opens the counter: see [`Counter::open`].
    pub fn open(self) -> Result<Counter, Error> {
        let event = self.events;
        let alone = self.of([event]);
        match core_types::counting(&event) {
            [] => Ok(Counter::of(alone.open()?)),
            [one] => Ok(Counter::of(alone.open_on(one.pmu)?)),
            [first, others @ ..] => {
                // So that there is little between the start of one and of the next.
                let idle = alone.disabled(true);
                let group = idle.open_on(first.pmu)?;
                let groups: Result<Vec<_>, _> =
                    others.iter().map(|one| idle.open_on(one.pmu)).collect();
                let groups = groups?;
                let are_pinned = self.is_pinned(&event);
                let are_readable =
                    !are_pinned && group.is_readable() && groups.iter().all(Group::is_readable);
                let apart = Cell::new(0);
                let others = Some(Box::new(Others { groups, are_readable, are_pinned, apart }));
                let counter = Counter { view: View::none(), group, others, event };
                if !self.is_disabled() {
                    counter.enable()?;
                }
                Ok(counter)
            }
        }
    }
}
