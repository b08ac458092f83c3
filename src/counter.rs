//! The handle: one event of this thread.

use crate::error::{Access, Error};
use crate::event::Event;
use crate::group::Group;
use crate::open::Builder;
use crate::ordered::Ordered;
use crate::read::{Reading, Snapshot};
use crate::region::Region;

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
/// # What it holds
///
/// A file descriptor (close-on-exec) and, for events of a PMU, one page of memory mapped
/// read-only. Dropping it gives back both.
#[derive(Debug)]
pub struct Counter {
    /// A group of one, which its slower paths need not know.
    group: Group<1>,
}

impl Counter {
    /// Opens a counter of `event` for this thread, counting from now, in user mode alone (but for
    /// the three events that happen in the kernel only, such as [`Event::CONTEXT_SWITCHES`]).
    ///
    /// Costs two system calls where all is granted at once, and `Drop` two more; on riscv64, and for
    /// events of other PMUs on arm64, also a look into `/proc` or `/sys`. Errors name the cause
    /// found on this machine. A counter that user space cannot read is no error: its reads
    /// are system calls, and [`access`](Counter::access) tells why.
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
        self.group.reader.count::<false>()
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
        let [count] = self.group.read_by_system_call()?;
        Ok(count)
    }

    /// The count, and how long the event was enabled and running, in nanoseconds: what it takes
    /// to judge and [scale](Reading::scaled) a multiplexed event.
    ///
    /// Without a system call where the page has a clock (`cap_user_time`) and the event a counter,
    /// 93 instructions on x86-64, 80 on arm64 (81 with 32-bit counters), 88 on riscv64; otherwise
    /// by `read(2)`.
    ///
    /// # Errors
    /// As [`read`](Counter::read).
    pub fn reading(&self) -> Result<Reading, Error> {
        self.reading_user_first::<false>()
    }

    pub(crate) fn reading_user_first<const ORDERED: bool>(&self) -> Result<Reading, Error> {
        match self.group.reader.snapshot::<ORDERED, true>() {
            Some(Snapshot { counts: [value], time_enabled, time_running, .. }) => {
                Ok(Reading { value, time_enabled, time_running })
            }
            _ => {
                let [reading] = self.group.reading_by_system_call()?;
                Ok(reading)
            }
        }
    }

    /// The same reads, ordered against the instructions around them.
    pub fn ordered(&self) -> Ordered<'_, Counter> {
        Ordered(self)
    }

    pub(crate) fn read_user_ordered(&self) -> Option<u64> {
        self.group.reader.count::<true>()
    }

    /// Measures pieces of code with this counter: see [`Region`]. No system call where the event
    /// has a counter at this moment, but for the first time in the process, which looks into
    /// `/sys`.
    ///
    /// # Errors
    /// As [`Group::region`].
    pub fn region(&self) -> Result<Region<'_, 1>, Error> {
        self.group.region()
    }

    /// Goes on counting. One system call (`PERF_EVENT_IOC_ENABLE`).
    ///
    /// # Errors
    /// [`Error::Forked`] in the child of a fork, [`Error::System`] for what no kernel is known to do.
    pub fn enable(&self) -> Result<(), Error> {
        self.group.enable()
    }

    /// Stops counting; the count stays, and is then read by system call. One system call
    /// (`PERF_EVENT_IOC_DISABLE`).
    ///
    /// # Errors
    /// [`Error::Forked`] in the child of a fork, [`Error::System`] for what no kernel is known to do.
    pub fn disable(&self) -> Result<(), Error> {
        self.group.disable()
    }

    /// Sets the count to 0; enabled and running time stay. One system call (`PERF_EVENT_IOC_RESET`),
    /// or three for a counter that user space reads, which is stopped meanwhile.
    ///
    /// # Errors
    /// [`Error::Forked`] in the child of a fork, [`Error::System`] for what no kernel is known to do.
    pub fn reset(&self) -> Result<(), Error> {
        self.group.reset()
    }

    /// How this counter is read at this moment, and if not from user space, why.
    ///
    /// No system call if it is read from user space; otherwise a look into `/proc` or `/sys`. That
    /// access was revoked while it is open, it knows only after
    /// [`contain_faults`](crate::contain_faults): to find out takes a read.
    pub fn access(&self) -> Access {
        self.group.access()
    }

    /// The event that is counted.
    pub fn event(&self) -> Event {
        let [event] = self.group.events();
        event
    }

    #[cfg(feature = "criterion")]
    pub(crate) fn into_group(self) -> Group<1> {
        self.group
    }

    /// Whether all privilege levels are counted because the PMU cannot tell them apart: only
    /// after [`allow_unfiltered`](Builder::allow_unfiltered).
    pub fn is_unfiltered(&self) -> bool {
        self.group.is_unfiltered()
    }
}

impl Builder<Event> {
    /// Opens the counter: see [`Counter::open`].
    pub fn open(self) -> Result<Counter, Error> {
        Ok(Counter { group: self.of([self.events]).open()? })
    }
}
