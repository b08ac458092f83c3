//! The handle: one event of this thread.
#![allow(unsafe_code)]

use crate::builder::Builder;
use crate::core_types;
use crate::error::{Access, Error};
use crate::event::Event;
use crate::fork::Process;
use crate::group::Group;
use crate::ordered::Ordered;
use crate::read::{Snapshot, View};
use crate::reading::Reading;
use crate::region::Region;
use crate::sum::Others;
use std::fmt;

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
/// These children must not touch them:
/// - one made by `_Fork` or a raw system call, where the C library runs no fork handlers;
/// - one in which a fork handler registered before this library's maps memory, which may then be where
///   the counter's page was;
/// - one for which there is not even a page of memory left.
///
/// A fork handler of the program (`pthread_atfork`) that was registered before the first counter was
/// opened must not read counters in the child, either. Child handlers run in the order of their
/// registration, so this library's has not made them harmless yet: the read gets SIGSEGV.
///
/// # Signal handlers
///
/// A signal handler may read the counters of the thread that it interrupts
/// ([`read_user`](Counter::read_user), [`read`](Counter::read), [`reading`](Counter::reading)). It may
/// fork, at any moment. If it interrupts `open` and returns in the child, `open` gives
/// [`Error::Forked`] there. It must not open, drop or control handles, make regions, or call
/// [`diagnose`](crate::diagnose) or [`contain_faults`](crate::contain_faults): these allocate, or
/// change what the handler may have interrupted.
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
/// Where the processor has cores of several types (Intel's hybrids, arm's big.LITTLE), each with a PMU
/// of its own, the kernel counts a generic event on one type only. A counter of such an event is opened
/// on each, unless the thread is kept on the processors of one type (`sched_setaffinity`) when it is
/// opened: then on that, and [`event`](Counter::event) says which; should it leave them later, or
/// offline ones of another type come back, the count lacks what it does there, and
/// [`reading`](Counter::reading) tells.
///
/// Opened on each, it gives the sum. Reads need no system call either, and take some 140 instructions
/// for two types (`tests/vm/run aarch64-big-little`); readings and what controls the counter take the
/// system calls for each. The parts are started and stopped one after the other, so a [`Reading`] does
/// not tell multiplexing for less than that (20 microseconds or a thousandth at the most) from none.
/// Regions are those of the type that the thread is on when they are [made](Counter::region). A pinned
/// counter of several core types is always read by system call: no page says when one of the types has
/// lost its counter. If the event is not to be had on one of the types, opening fails;
/// `cpu_core/EVENT/` opens it where it is. Linux before 6.6 has the generic hardware events but
/// reference cycles for it on arm64, and no cache events. A raw event is opened on each type on arm64,
/// and on Intel's hybrids on `cpu_core`, whose number raw events have. Where there is no list of PMUs
/// (no `/sys`), a counter is what the kernel makes of the event: of one type. Where the list is there and
/// cannot be read, opening fails with [`Error::Unreadable`].
///
/// # What it holds
///
/// A file descriptor (close-on-exec) and, for events of a PMU, one page of memory mapped
/// read-only; one of each for each core type. Dropping it gives them back.
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

impl Counter {
    fn of(group: Group<1>) -> Counter {
        // SAFETY: the counter keeps the reader, whose pages stay where they are when it moves, and drops it
        // with the view.
        let view = unsafe { group.reader.view() };
        let [event] = group.events();
        Counter { view, group, others: None, event }
    }

    /// Opens a counter of `event` for this thread, counting from now, in user mode alone (but for
    /// the three events that happen in the kernel only, such as [`Event::CONTEXT_SWITCHES`]).
    ///
    /// Costs two system calls where all is granted at once, and `Drop` two more; on riscv64, and for
    /// events of other PMUs on arm64, also a look into `/proc` or `/sys`, as for the first event in the
    /// process. [Several core types](Counter#several-core-types) take as much for each, and a few
    /// more. Errors name the cause found on this machine. A counter that user space cannot read is no
    /// error: its reads are system calls, and [`access`](Counter::access) tells why.
    ///
    /// # Errors
    /// - What the machine lacks: [`Error::NoPmu`], [`Error::EventNotSupported`], [`Error::NoPrivilegeFilter`],
    ///   [`Error::NotOfAThread`];
    /// - what this process may not: [`Error::Paranoid`], [`Error::Seccomp`], [`Error::Denied`];
    /// - what is used up: [`Error::TooManyDescriptors`], [`Error::OutOfMemory`], [`Error::Busy`];
    /// - what cannot be found out: [`Error::Unreadable`], if the kernel's list of PMUs is there and cannot
    ///   be read. The first counter of a process that needs it reads it; the next one tries again;
    /// - [`Error::Forked`], if a signal handler forked meanwhile and this is the child;
    /// - what the kernel does not know: [`Error::NoSystemCall`], [`Error::TooNewForKernel`],
    ///   [`Error::Unsupported`];
    /// - [`Error::System`] for what no kernel is known to do.
    pub fn open(event: Event) -> Result<Counter, Error> {
        Counter::builder(event).open()
    }

    /// A builder, to choose more than the event before opening a counter.
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
    /// Takes 15 instructions on x86-64, 14 on arm64 (15 with 32-bit counters), 20 on riscv64, by
    /// `tests/vm/run TARGET cost`. Not ordered against the instructions around it: the processor
    /// may run some of them before or after; see [`ordered`](Counter::ordered).
    #[inline(always)]
    pub fn read_user(&self) -> Option<u64> {
        match self.view.count::<false>() {
            Some(count) => Some(count),
            None => self.sum::<false>(),
        }
    }

    /// The group of the core type that the thread is on.
    fn here(&self) -> &Group<1> {
        match &self.others {
            None => &self.group,
            Some(others) => others.here(&self.group),
        }
    }

    /// The counts of several core types, of which one has a counter at this moment. None if there are
    /// not several, or nothing to read.
    #[cold]
    #[inline(never)]
    fn sum<const ORDERED: bool>(&self) -> Option<u64> {
        self.others.as_ref()?.sum::<ORDERED>(&self.group)
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
    #[inline(always)]
    pub fn read(&self) -> Result<u64, Error> {
        match self.read_user() {
            Some(count) => Ok(count),
            None => self.read_by_system_call(),
        }
    }

    #[cold]
    #[inline(never)]
    fn read_by_system_call(&self) -> Result<u64, Error> {
        Ok(self.reading_by_system_call()?.value)
    }

    #[cold]
    #[inline(never)]
    fn reading_by_system_call(&self) -> Result<Reading, Error> {
        match &self.others {
            None => {
                let [reading] = self.group.reading_by_system_call()?;
                Ok(reading)
            }
            Some(others) => others.reading(&self.group),
        }
    }

    fn with_each(&self, what: fn(&Group<1>) -> Result<(), Error>) -> Result<(), Error> {
        match &self.others {
            None => what(&self.group),
            Some(others) => others.with_each(&self.group, what),
        }
    }

    /// The count, and how long the event was enabled and running, in nanoseconds: what it takes
    /// to judge and [scale](Reading::scaled) a multiplexed event.
    ///
    /// Without a system call where the page has a clock (`cap_user_time`) and the event a counter,
    /// 92 instructions on x86-64, 79 on arm64 (80 with 32-bit counters), 88 on riscv64; otherwise
    /// by `read(2)`.
    ///
    /// # Errors
    /// As [`read`](Counter::read).
    pub fn reading(&self) -> Result<Reading, Error> {
        self.reading_user_first::<false>()
    }

    /// The same without a system call, ever: None where it takes one. That is while the event has no
    /// counter, where the page has no clock (`cap_user_time`; most virtual machines), where user space may
    /// not read the counter, and for a sum of several core types.
    pub fn reading_user(&self) -> Option<Reading> {
        self.timed::<false>()
    }

    fn timed<const ORDERED: bool>(&self) -> Option<Reading> {
        if self.others.is_some() {
            return None;
        }
        let Snapshot { counts: [value], time_enabled, time_running } =
            self.group.reader.snapshot::<ORDERED, true>()?;
        Some(Reading { value, time_enabled, time_running })
    }

    fn reading_user_first<const ORDERED: bool>(&self) -> Result<Reading, Error> {
        // To look for others first would cost all an instruction.
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

    #[inline(always)]
    fn read_user_ordered(&self) -> Option<u64> {
        match self.view.count::<true>() {
            Some(count) => Some(count),
            None => self.sum::<true>(),
        }
    }

    /// Measures pieces of code with this counter: see [`Region`]. No system call where the event
    /// has a counter at this moment.
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
    /// No system call if it is read from user space; otherwise it reads `/proc` or `/sys`, and asks the
    /// kernel whether a counter without a register is in error state. That
    /// access was revoked while it is open, it knows only after
    /// [`contain_faults`](crate::contain_faults): to find out takes a read.
    pub fn access(&self) -> Access {
        match &self.others {
            None => self.group.access(),
            Some(others) => others.access(&self.group),
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
        match self.others {
            None => self.group,
            Some(others) => others.into_here(self.group),
        }
    }

    /// Whether all privilege levels are counted because the PMU cannot tell them apart: only
    /// after [`allow_unfiltered`](Builder::allow_unfiltered).
    pub fn is_unfiltered(&self) -> bool {
        match &self.others {
            None => self.group.is_unfiltered(),
            Some(others) => others.each(&self.group).any(Group::is_unfiltered),
        }
    }
}

impl fmt::Debug for Counter {
    /// Its event, and how it is read as far as the control page tells. No system call.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = match &self.others {
            None => self.group.access_in_memory(),
            Some(others) => others.access_in_memory(&self.group),
        };
        f.debug_struct("Counter").field("event", &self.event).field("access", &access).finish()
    }
}

impl<'a> Ordered<'a, Counter> {
    /// As [`Counter::read_user`]: 17 instructions on x86-64, 16 on arm64 (17 with 32-bit counters),
    /// 20 on riscv64.
    #[inline(always)]
    pub fn read_user(&self) -> Option<u64> {
        self.0.read_user_ordered()
    }

    /// As [`Counter::read`].
    ///
    /// # Errors
    /// As [`Counter::read`].
    #[inline(always)]
    pub fn read(&self) -> Result<u64, Error> {
        match self.read_user() {
            Some(count) => Ok(count),
            None => self.0.read_by_system_call(),
        }
    }

    /// As [`Counter::reading`]. The times are those of just before the fence.
    ///
    /// # Errors
    /// As [`Counter::read`].
    pub fn reading(&self) -> Result<Reading, Error> {
        self.0.reading_user_first::<true>()
    }

    /// As [`Counter::reading_user`]. The times are those of just before the fence.
    pub fn reading_user(&self) -> Option<Reading> {
        self.0.timed::<true>()
    }

    /// As [`Counter::region`], and [`Region::ordered`].
    ///
    /// # Errors
    /// As [`Counter::region`].
    pub fn region(&self) -> Result<Region<'a, 1, true>, Error> {
        Ok(self.0.region()?.ordered())
    }
}

impl Builder<Event> {
    /// Opens the counter: see [`Counter::open`].
    pub fn open(self) -> Result<Counter, Error> {
        let event = self.events;
        let alone = self.of([event]);
        match core_types::counting(&event)? {
            [] => Ok(Counter::of(alone.open()?)),
            [one] => Ok(Counter::of(alone.open_on(one.pmu)?)),
            [first, others @ ..] => {
                // A signal handler may fork between one and the next.
                let process = Process::current().map_err(Error::of_call("pthread_atfork"))?;
                // So that there is little between the start of one and of the next.
                let idle = alone.disabled(true);
                let group = idle.open_on(first.pmu)?;
                let groups: Result<Vec<_>, _> =
                    others.iter().map(|one| idle.open_on(one.pmu)).collect();
                let others = Others::new(&group, groups?, self.options.is_pinned(&event));
                let others = Some(Box::new(others));
                let counter = Counter { view: View::none(), group, others, event };
                if !self.options.is_disabled() {
                    counter.enable()?;
                }
                if process.is_past() { Err(Error::Forked) } else { Ok(counter) }
            }
        }
    }
}
