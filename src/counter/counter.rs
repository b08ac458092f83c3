//! The handle of one event.
#![allow(unsafe_code)]

use super::group::Group;
use super::reading::Reading;
use super::sum::OtherCores;
use crate::asm;
use crate::asm::order::{Order, Ordered, Unordered};
use crate::error::access::Access;
use crate::error::{OpenError, ReadError, RegionError};
use crate::event::Event;
use crate::open::builder::Builder;
use crate::open::cost::ReadCost;
use crate::page::fork::Process;
use crate::page::monitor::Monitor;
use crate::page::reader::{Timed, View};
use crate::pmu::core_types;
use crate::region::{Region, Snapshot};
use std::fmt;
use std::marker::PhantomData;

/// A counter of one event, for the thread that opened it.
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
///     Err(why) => println!("{why}"), // for example, this VM has no PMU
/// }
/// ```
///
/// # Threads
///
/// A counter is neither `Send` nor `Sync`. The control page names the register that holds the event while the opening
/// thread runs. On any other thread, that register holds an unrelated count.
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
/// Events and counts can go to any thread:
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
/// In the child of a `fork`, the parent's handles are harmless and useless. [`read_user`](Counter::read_user) returns
/// None, other calls return the `Forked` variant of their error, and dropping a handle does not affect the parent's.
/// While the child holds its copies of the descriptors, the parent's events stay open even if the parent drops them.
///
/// These children must not touch the parent's handles:
/// - a child made by `_Fork` or a raw system call, because the C library runs no fork handlers there;
/// - a child in which another fork handler, registered before this library's handler, maps memory: the mapping may
///   land where the counter's page was;
/// - a child in which this library's fork handler could not allocate a page of memory.
///
/// A program's own fork handler (`pthread_atfork`) that was registered before the first counter was opened must not
/// read counters in the child. It runs before this library's handler has replaced the pages, so the read raises
/// SIGSEGV.
///
/// # Signal handlers
///
/// A signal handler may read the counters of the thread that it interrupts ([`read_user`](Counter::read_user),
/// [`read`](Counter::read), [`reading`](Counter::reading)). It is also allowed to fork, at any point. If it forks
/// during `open`, then `open` returns [`OpenError::Forked`] in the child. A handler must not open, drop or control
/// handles, make regions, or call [`contain_faults`](crate::contain_faults). It must
/// not read a handle whose [`retry_user`](Counter::retry_user) it interrupts. All of these allocate memory, or modify
/// state that the interrupted code may be using.
///
/// # Faults
///
/// Unless [`contain_faults`](crate::contain_faults) was called, a read raises SIGSEGV or SIGILL in these cases:
/// - after the administrator revokes user access while the counter is open (x86-64: `rdpmc` from 1 to 0; arm64 and
///   riscv64: `perf_user_access` to 0), because the kernel does not update the page;
/// - on riscv64, if the event loses its register between the load of the page and the read of the register;
/// - on hybrid CPUs, if the thread moves to another core type between that load and that read.
///
/// If faults are contained, a counter whose read faulted is read by system call until
/// [`retry_user`](Counter::retry_user). In a virtual machine, `open` may read the counter to measure the cost, and that
/// read may fault too: see [`ReadBy`](crate::ReadBy).
///
/// [`reading`](Counter::reading) also reads the tick counter. A thread can disable its own access
/// with `prctl(PR_SET_TSC)`, on x86-64, and on arm64 since Linux 6.12. The reading then faults.
///
/// # Several core types
///
/// CPUs with several core types (Intel's hybrids, arm's big.LITTLE) have a PMU for each type, and the kernel counts a
/// generic event on one of them. `open` therefore opens the event on each type, and the counter returns the sum. If the
/// thread's affinity mask is within one type (`sched_setaffinity`), `open` uses that type alone, and
/// [`event`](Counter::event) names that type's PMU.
///
/// - [`read_user`](Counter::read_user) returns the sum without a system call, in some 140 instructions for two types
///   (`tests/vm/run aarch64-big-little`). [`reading`](Counter::reading), `enable`, `disable` and `reset` need one set
///   of system calls per type.
/// - The counters of the types are not started at the same instant. A [`Reading`] therefore
///   does not report a difference of the times that these starts explain: at most 20 microseconds, or 0.1 % of the
///   enabled time if that is more.
/// - A region uses the core type that the thread is on when the region is [made](Counter::region).
/// - A pinned counter on several types is always read by system call: the control pages do not show whether one type
///   has lost its register.
/// - A counter on one type misses what the thread does on other types. [`reading`](Counter::reading) then shows a
///   running time below the enabled time.
/// - If one type does not have the event, `open` fails. `cpu_core/EVENT/` opens the event on the type that has it.
/// - On arm64 before Linux 6.6, generic hardware events can be opened per type, except `REF_CYCLES`. Cache events
///   cannot.
/// - Raw events are opened on each type on arm64, and on `cpu_core` on Intel's hybrids.
/// - Without `/sys`, the core types are unknown, and the kernel opens the event on a type of its choice. If the
///   PMU list in `/sys` exists and cannot be read, `open` fails with [`OpenError::Unreadable`].
///
/// # Resources
///
/// A counter holds a file descriptor (close-on-exec) and, for events of a PMU, one page of memory mapped read-only; one
/// of each per core type. Dropping it releases them. It does not implement `AsFd`: a request on the descriptor, such as
/// `PERF_EVENT_IOC_RESET`, would change the count in ways that this library cannot account for.
#[repr(transparent)]
pub struct Counter<O: Order = Unordered> {
    open: OpenCounter,
    order: PhantomData<O>,
}

/// A counter, whatever the order of its reads.
#[repr(C)]
struct OpenCounter {
    /// The view that `read_user` uses: one of `group`'s page, or none if there are others.
    user: View<1>,
    /// The view that `read` uses: the same, or none if it makes system calls.
    read: View<1>,
    /// A group of one event. Its slower paths need not know that it is a counter.
    group: Group<1>,
    /// The same event on the PMUs of other core types, if there are any.
    others: Option<Box<OtherCores>>,
    event: Event,
}

impl Counter {
    pub(crate) fn of(group: Group<1>) -> Counter {
        // SAFETY: the counter keeps the reader and drops it with the view. The reader's pages stay at their addresses
        // when it moves.
        let user = unsafe { group.reader.view() };
        let read = group.view_to_read();
        let [event] = group.events();
        Counter::from_open(OpenCounter { user, read, group, others: None, event })
    }

    fn from_open(open: OpenCounter) -> Counter {
        Counter { open, order: PhantomData }
    }

    /// Opens a counter of `event` for this thread, counting from now, in user mode alone.
    ///
    /// Exception: the three software events that happen only in the kernel, such as [`Event::CONTEXT_SWITCHES`], are
    /// counted in kernel mode.
    ///
    /// In a virtual machine, the first counter of an event in the process also measures what its reads cost, in some 200
    /// microseconds, and `read` takes the cheaper way from then on: see [`ReadBy`](crate::ReadBy).
    ///
    /// Takes two system calls if no retry is needed, and `Drop` takes two more. Reads `/proc` or `/sys` for the first
    /// event of the process. On arm64, it also does so for each event that names a PMU, and on riscv64 for each event.
    /// On hybrid CPUs, these costs apply per core type. A counter that user space cannot read is not an error: its
    /// reads are system calls, and [`access`](Counter::access) has the reason.
    ///
    /// # Errors
    /// - The machine lacks something: [`OpenError::NoPmu`], [`OpenError::EventNotSupported`],
    ///   [`OpenError::NoPrivilegeFilter`], [`OpenError::NotPerThread`].
    /// - The process lacks permission: [`OpenError::Paranoid`], [`OpenError::Seccomp`], [`OpenError::Denied`].
    /// - A resource is used up: [`OpenError::TooManyOpenFiles`], [`OpenError::OutOfMemory`], [`OpenError::Busy`].
    /// - The kernel is too old, or was built without perf: [`OpenError::NoSystemCall`],
    ///   [`OpenError::UnsupportedField`], [`OpenError::Unsupported`].
    /// - [`OpenError::CountsNothing`] if the settings exclude everything, [`OpenError::IncludesGuests`] if they include
    ///   guests and the kernel refuses that.
    /// - [`OpenError::Unreadable`] if the kernel's list of PMUs exists and cannot be read.
    /// - [`OpenError::Forked`] if a signal handler forked during the call, and this is the child.
    /// - [`OpenError::System`] for any other kernel error; no such error is known.
    pub fn open(event: Event) -> Result<Counter, OpenError> {
        Counter::builder(event).open()
    }

    /// Returns a builder, to choose privilege levels, pinning and more before opening a counter.
    pub fn builder(event: Event) -> Builder<Event> {
        Builder::new(event)
    }

    /// Returns this counter with ordered reads and regions: see [`Ordered`]. Free of cost.
    #[inline(always)]
    pub fn ordered(&self) -> &Counter<Ordered> {
        // SAFETY: both types are transparent wrappers of OpenCounter, and the marker has no values.
        unsafe { &*std::ptr::from_ref(self).cast::<Counter<Ordered>>() }
    }

    /// Turns the counter into a group of one event. On a hybrid CPU, the group keeps only the current core type.
    pub fn into_group(self) -> Group<1> {
        match self.open.others {
            None => self.open.group,
            Some(others) => others.into_here(self.open.group),
        }
    }
}

impl<O: Order> Counter<O> {
    /// Returns the count without a system call: no call into the C library, no allocation. The count starts at 0 when
    /// the counter is opened or [`reset`](Counter::reset).
    ///
    /// None while there is nothing to read: the event is not on a hardware counter now (it is disabled, or multiplexing
    /// gave others the turn), user space may not read it, it is a software event, or this process is a fork. See
    /// [`access`](Counter::access).
    ///
    /// Takes 15 instructions on x86-64, 14 on arm64 (15 with 32-bit counters), 20 on riscv64 (`tests/vm/run TARGET
    /// cost`). With [`Ordered`] reads, it takes two more on x86-64 and arm64. Without ordering, an out-of-order CPU may
    /// move surrounding instructions across the read.
    #[inline(always)]
    pub fn read_user(&self) -> Option<u64> {
        if O::FENCED { self.open.read_user::<true>() } else { self.open.read_user::<false>() }
    }

    /// Returns the count of this instant as a plain value, without a system call. The difference of two snapshots shows
    /// whether the kernel came in between: see [`Snapshot`].
    ///
    /// None in the same cases as [`read_user`](Counter::read_user).
    #[inline(always)]
    pub fn snapshot(&self) -> Option<Snapshot<1>> {
        match Snapshot::take::<O>(&self.open.user) {
            Some(snapshot) => Some(snapshot),
            None => match O::FENCED {
                true => self.open.snapshot_of_several::<true>(),
                false => self.open.snapshot_of_several::<false>(),
            },
        }
    }

    /// Returns the count by [`read_user`](Counter::read_user), or if that is None, by the system call `read(2)`. If the
    /// system call is cheaper here or was requested, `read` always makes it: see [`access`](Counter::access).
    ///
    /// A multiplexed event counts only during its turns, and reads 0 if it has had none. [`reading`](Counter::reading)
    /// reports that.
    ///
    /// # Errors
    /// [`ReadError::ErrorState`] for a pinned event without a hardware counter, [`ReadError::Forked`] in the child of a fork,
    /// [`ReadError::System`] for any other kernel error; no such error is known.
    #[inline(always)]
    pub fn read(&self) -> Result<u64, ReadError> {
        let count = match O::FENCED {
            true => self.open.read.count::<true>(),
            false => self.open.read.count::<false>(),
        };
        match count {
            Some(count) => Ok(count),
            None => self.open.read_otherwise::<O>(),
        }
    }

    /// Returns the count, the time that the event was enabled, and the time that it was running. Use them to judge and
    /// [scale](Reading::scaled) a multiplexed event. With ordered reads, the times are taken just before the fence.
    ///
    /// Makes no system call if the page has a clock (`cap_user_time`) and the event is on a hardware counter: 93
    /// instructions on x86-64, 79 on arm64 (80 with 32-bit counters), 89 on riscv64. Otherwise makes one `read(2)` per
    /// event.
    ///
    /// # Errors
    /// As [`read`](Counter::read).
    #[inline(always)]
    pub fn reading(&self) -> Result<Reading, ReadError> {
        if O::FENCED { self.open.reading_ordered() } else { self.open.reading() }
    }

    /// Returns the [`reading`](Counter::reading) without a system call.
    ///
    /// None in any of these cases: the event is not on a hardware counter now; the page has no clock (`cap_user_time`;
    /// most virtual machines); user space may not read the counter; the count is a sum over several core types.
    #[inline(always)]
    pub fn reading_user(&self) -> Option<Reading> {
        if O::FENCED { self.open.timed::<true>() } else { self.open.timed::<false>() }
    }

    /// Returns the [`reading`](Counter::reading) by `read(2)`, always a system call.
    ///
    /// # Errors
    /// As [`read`](Counter::read).
    #[inline(always)]
    pub fn reading_by_system_call(&self) -> Result<Reading, ReadError> {
        self.open.reading_by_system_call()
    }

    /// Returns a [`Region`], which measures pieces of code with this counter. No system call if the event is on a
    /// hardware counter now.
    ///
    /// # Errors
    /// As [`Group::region`].
    pub fn region(&self) -> Result<Region<'_, 1, O>, RegionError> {
        let group = match &self.open.others {
            None => &self.open.group,
            Some(others) => others.here(&self.open.group),
        };
        group.region_in_order()
    }

    /// Continues counting. One system call (`PERF_EVENT_IOC_ENABLE`).
    ///
    /// # Errors
    /// [`ReadError::Forked`] in the child of a fork, [`ReadError::System`] for any other kernel error; no such
    /// error is known.
    pub fn enable(&self) -> Result<(), ReadError> {
        self.open.with_each(Group::enable)
    }

    /// Stops counting. The count stays, and reads are system calls until [`enable`](Counter::enable). One system call
    /// (`PERF_EVENT_IOC_DISABLE`).
    ///
    /// # Errors
    /// As [`enable`](Counter::enable).
    pub fn disable(&self) -> Result<(), ReadError> {
        self.open.with_each(Group::disable)
    }

    /// Sets the count to 0. The enabled time and the running time do not change. One system call
    /// (`PERF_EVENT_IOC_RESET`), or three for a counter that user space reads, which is stopped during the reset.
    ///
    /// # Errors
    /// As [`enable`](Counter::enable).
    pub fn reset(&self) -> Result<(), ReadError> {
        self.open.with_each(Group::reset)
    }

    /// Returns how this counter is read now, and if not from user space, the reason.
    ///
    /// No system call if the counter is read from user space. Otherwise this method reads `/proc` or `/sys`, and asks
    /// the kernel whether the counter is in error state. Revocation while the counter is open is detected only if
    /// [`contain_faults`](crate::contain_faults) was called, because detecting it takes a read that may fault.
    pub fn access(&self) -> Access {
        match &self.open.others {
            None => self.open.group.access(),
            Some(others) => others.access(&self.open.group),
        }
    }

    /// Returns the time that a read takes on this machine: see [`Group::read_cost`]. On a hybrid CPU, that of the current
    /// core type's counter.
    pub fn read_cost(&self) -> ReadCost {
        match &self.open.others {
            None => self.open.group.read_cost(),
            Some(others) => others.here(&self.open.group).read_cost(),
        }
    }

    /// Returns a view of this handle for other threads. On a hybrid CPU, that of the first core type's counter.
    pub fn monitor(&self) -> Monitor {
        self.open.group.monitor()
    }

    /// Reads in user space again after a read there faulted: see [`Group::retry_user`].
    ///
    /// # Errors
    /// As [`Group::retry_user`].
    pub fn retry_user(&mut self) -> Result<Access, ReadError> {
        let OpenCounter { user, read, group, others, .. } = &mut self.open;
        match others {
            None => {
                let retried = group.retry_user();
                // SAFETY: the counter keeps the reader and drops it with the view.
                *user = unsafe { group.reader.view() };
                *read = group.view_to_read();
                retried?;
            }
            Some(others) => others.retry_user(group)?,
        }
        Ok(self.access())
    }

    /// Returns the event: the one that was requested or, if the thread's affinity mask is within one core type, the
    /// same event on the PMU of that type.
    pub fn event(&self) -> Event {
        self.open.event
    }

    /// Returns the width of its register in bits (`pmc_width`), of the first core type's counter if there are several.
    ///
    /// None if user space cannot read it: it is a software event, its page is not mapped or names no width, or a read of it
    /// has faulted.
    pub fn width(&self) -> Option<u16> {
        let [width] = self.open.group.reader.widths();
        (self.open.group.is_readable() && width > 0).then_some(width)
    }

    /// Reads its register `rounds` times, at least once, with three instructions per round. False on other architectures than
    /// x86-64, or if the event has no register now. For rdpmc-doctor, which finds out what a hypervisor's trap of the read
    /// adds: no promise of this library.
    ///
    /// Faults as [`read_user`](Counter::read_user) does. A contained fault ends the rounds.
    #[doc(hidden)]
    pub fn known_reads(&self, rounds: u64) -> bool {
        let Some([register]) = self.open.group.reader.named() else { return false };
        // SAFETY: the page names the register, so this thread may read it. If that has changed since then, the read faults,
        // as documented.
        unsafe { asm::known_reads(register, rounds) }
    }

    /// Whether all privilege levels are counted, because the PMU cannot exclude any. Always false unless
    /// [`allow_all_privilege_levels`](Builder::allow_all_privilege_levels) was set.
    pub fn counts_all_privilege_levels(&self) -> bool {
        match &self.open.others {
            None => self.open.group.counts_all_privilege_levels(),
            Some(others) => others.each(&self.open.group).any(Group::counts_all_privilege_levels),
        }
    }
}

// Not generic over the order, so that these are compiled once, here, and not into each program that calls them.
impl OpenCounter {
    #[inline(always)]
    fn read_user<const ORDERED: bool>(&self) -> Option<u64> {
        match self.user.count::<ORDERED>() {
            Some(count) => Some(count),
            None => self.sum::<ORDERED>(),
        }
    }

    /// The sum over several core types, one of which has a counter now. None if there are not several, or nothing to
    /// read.
    #[cold]
    #[inline(never)]
    fn sum<const ORDERED: bool>(&self) -> Option<u64> {
        let (sum, _) = self.others.as_ref()?.sum::<ORDERED>(&self.group)?;
        Some(sum)
    }

    /// The snapshot over several core types.
    #[cold]
    #[inline(never)]
    fn snapshot_of_several<const ORDERED: bool>(&self) -> Option<Snapshot<1>> {
        let (sum, locks) = self.others.as_ref()?.sum::<ORDERED>(&self.group)?;
        Some(Snapshot::new([sum], locks, &self.group.reader))
    }

    /// Returns the sum over several core types, or what the kernel reads.
    #[cold]
    #[inline(never)]
    fn read_otherwise<O: Order>(&self) -> Result<u64, ReadError> {
        let sum = match &self.others {
            Some(others) if !others.prefer_system_call(&self.group) => match O::FENCED {
                true => others.sum::<true>(&self.group),
                false => others.sum::<false>(&self.group),
            },
            _ => None,
        };
        match sum {
            Some((sum, _)) => Ok(sum),
            None => Ok(self.reading_by_system_call()?.value),
        }
    }

    #[cold]
    #[inline(never)]
    fn reading_by_system_call(&self) -> Result<Reading, ReadError> {
        match &self.others {
            None => {
                let [reading] = self.group.reading_by_system_call()?;
                Ok(reading)
            }
            Some(others) => others.reading(&self.group),
        }
    }

    fn reading(&self) -> Result<Reading, ReadError> {
        self.reading_user_first::<false>()
    }

    fn reading_ordered(&self) -> Result<Reading, ReadError> {
        self.reading_user_first::<true>()
    }

    fn reading_user_first<const ORDERED: bool>(&self) -> Result<Reading, ReadError> {
        // A check for other core types before the read would cost every counter an instruction.
        match self.group.view_of_read().timed::<ORDERED, true>() {
            Some(Timed { counts: [value], time_enabled, time_running })
                if self.others.is_none() =>
            {
                Ok(Reading { value, time_enabled, time_running })
            }
            _ => self.reading_by_system_call(),
        }
    }

    fn timed<const ORDERED: bool>(&self) -> Option<Reading> {
        if self.others.is_some() {
            return None;
        }
        let Timed { counts: [value], time_enabled, time_running } =
            self.group.reader.timed::<ORDERED, true>()?;
        Some(Reading { value, time_enabled, time_running })
    }

    fn with_each(&self, request: fn(&Group<1>) -> Result<(), ReadError>) -> Result<(), ReadError> {
        match &self.others {
            None => request(&self.group),
            Some(others) => others.with_each(&self.group, request),
        }
    }
}

impl<O: Order> fmt::Debug for Counter<O> {
    /// Writes its event, and how it is read as far as the control page tells. No system call.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OpenCounter { group, others, event, .. } = &self.open;
        let access = match others {
            None => group.access_in_memory(),
            Some(others) => others.access_in_memory(group),
        };
        f.debug_struct("Counter").field("event", event).field("access", &access).finish()
    }
}

impl Builder<Event> {
    /// Opens the counter: see [`Counter::open`].
    ///
    /// # Errors
    /// As [`Counter::open`].
    pub fn open(self) -> Result<Counter, OpenError> {
        let event = self.events;
        let alone = self.of([event]);
        match core_types::counting(&event)? {
            [] => Ok(Counter::of(alone.open()?)),
            [one] => Ok(Counter::of(alone.open_on(one.pmu)?)),
            [first, others @ ..] => {
                // A signal handler may fork between one and the next.
                let process = Process::current().map_err(OpenError::of_call("pthread_atfork"))?;
                // Disabled, so that there is little time between the start of one and of the next.
                let idle = alone.disabled(true);
                let group = idle.open_on(first.pmu)?;
                let groups: Result<Vec<_>, _> =
                    others.iter().map(|one| idle.open_on(one.pmu)).collect();
                let others = OtherCores::new(&group, groups?, self.options.is_pinned(&event));
                let others = Some(Box::new(others));
                let (user, read) = (View::none(), View::none());
                let open = OpenCounter { user, read, group, others, event };
                if !self.options.is_disabled() {
                    open.with_each(Group::enable).map_err(OpenError::of_start)?;
                }
                if process.is_past() {
                    Err(OpenError::Forked)
                } else {
                    Ok(Counter::from_open(open))
                }
            }
        }
    }
}
