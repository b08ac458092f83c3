//! The handle of one event.
#![allow(unsafe_code)]

use super::mock::Mock;
use super::reading::Reading;
use super::sum::Sum;
use crate::asm;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::access::Access;
use crate::error::{Error, ReadError};
use crate::event::Event;
use crate::kernel::Control;
use crate::open::builder::Builder;
use crate::open::cost::ReadCost;
use crate::open::{OpenGroup, open, why_no_region};
use crate::page::fork;
use crate::page::process::Process;
use crate::page::reader::{Timed, View};
use crate::pmu::core_types;
use crate::region::{Region, Snapshot};
use std::fmt;

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
/// thread runs. On any other thread, that register holds an unrelated count. Open a counter inside the thread that uses it. [`PerThread`](crate::PerThread) has a group for
/// each thread that reads, and [`SyscallGroup`](crate::SyscallGroup) counts several threads.
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
/// None, other calls return an error of the kind `Forked`, and dropping a handle does not affect the parent's.
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
/// during `open`, then `open` returns [`ErrorKind::Forked`] in the child. A handler must not open, drop or control
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
///   PMU list in `/sys` exists and cannot be read, `open` fails with [`ErrorKind::Unreadable`].
///
/// # Closed descriptors
///
/// Some programs close descriptors that are not theirs: daemons and sandboxes (`close_range`, `closefrom`), and code with a
/// wrong number (`close`, `dup2`). The number of a counter's event may then become another file's. A child of a fork that
/// closes its copies does not affect the parent.
///
/// - Reads in user space go on, because the mapped page keeps the event.
/// - Other calls return [`ReadError::Closed`]. The other file is not read, controlled, mapped or closed.
///
/// The kernel gives each event an identifier. This library compares it:
/// - before each request, and before `Drop` closes the descriptor;
/// - in the answer to each read by system call;
/// - before a read of software events, once in each period of the coarse clock (1 to 10 ms).
///
/// Hardware events are not compared before a read, because they may count the instructions of the comparison. `open` moves
/// each descriptor to the first free number from 32 up (16 on 32-bit targets). New files rarely get such a number.
///
/// Exceptions:
/// - If `dup2` or many open files have taken the number, the first read that is not compared before reaches the other file.
///   It returns `Closed`, and so do all later ones. The position of a file is restored. Of a stream, the read takes up to 32
///   bytes (24, plus 16 for each event of a group). It takes a whole datagram, or the count of an eventfd. It waits if a
///   blocking file has no data.
/// - If a seccomp filter refuses `ioctl` and there is no `/proc`, requests and `Drop` reach whatever has the number.
/// - Another thread, or a signal handler of this thread, may close the descriptor between the comparison and the request, and
///   while the counter is being opened.
///
/// The comparison is an `ioctl(2)`. If a seccomp filter kills for it, a read of a software event or `Drop` ends the process.
///
/// # Events that the thread has disabled
///
/// `prctl(PR_TASK_PERF_EVENTS_DISABLE)` stops all events that the calling thread has opened, and nothing tells this library.
/// [`read`](Counter::read) returns the last count without an error, and the times of [`reading`](Counter::reading) stop, too.
/// [`read_user`](Counter::read_user) returns None. [`enable`](Counter::enable) starts the counter again.
///
/// # Resources
///
/// A counter holds a file descriptor (close-on-exec) and, for events of a PMU, one page of memory mapped read-only; one
/// of each per core type. Dropping it releases them. It does not implement `AsFd`: a request on the descriptor, such as
/// `PERF_EVENT_IOC_RESET`, would change the count in ways that this library cannot account for.
#[repr(C)]
pub struct Counter {
    /// What reads in user space, and what `read` reads there: the pages of the only group. Nothing for other handles.
    user: View,
    read: View,
    handle: Handle,
}

/// What a counter is.
enum Handle {
    One(OpenGroup),
    /// The same event on the PMU of each core type.
    Sum(Box<Sum>),
    /// A test's, in the process that made it.
    Mock {
        event: Event,
        mock: Mock,
        process: Process,
    },
}

impl Counter {
    fn from_handle(handle: Handle) -> Counter {
        let (user, read) = match &handle {
            Handle::One(group) => (*group.user(), *group.read()),
            Handle::Sum(_) | Handle::Mock { .. } => (View::none(), View::none()),
        };
        Counter { user, read, handle }
    }

    #[cfg(test)]
    pub(crate) fn of_group(group: super::Group<1>) -> Counter {
        Counter::from_handle(Handle::One(group.open))
    }

    /// Opens a counter of `event` for this thread, counting from now, in user mode alone.
    ///
    /// Exception: the three software events that happen only in the kernel, such as [`Event::CONTEXT_SWITCHES`], are
    /// counted in kernel mode.
    ///
    /// In a virtual machine, the first counter of an event in the process also measures what its reads cost, in some 200
    /// microseconds, and `read` takes the cheaper way from then on: see [`ReadBy`](crate::ReadBy).
    ///
    /// Takes five system calls if no retry is needed, and `Drop` takes three more. Reads `/proc` or `/sys` for the first
    /// event of the process. On arm64, it also does so for each event that names a PMU, and on riscv64 for each event.
    /// On hybrid CPUs, these costs apply per core type. A counter that user space cannot read is not an error: its
    /// reads are system calls, and [`access`](Counter::access) has the reason.
    ///
    /// # Errors
    /// - The machine lacks something: [`ErrorKind::NoPmu`], [`ErrorKind::EventNotSupported`],
    ///   [`ErrorKind::NoPrivilegeFilter`], [`ErrorKind::NotPerThread`], [`ErrorKind::NoFixedCounter`]. [`ErrorKind::NoPmuList`] if `/sys` has no list of PMUs.
    /// - The process lacks permission: [`ErrorKind::Paranoid`], [`ErrorKind::Seccomp`], [`ErrorKind::Denied`].
    /// - A resource is used up: [`ErrorKind::TooManyOpenFiles`], [`ErrorKind::OutOfMemory`], [`ErrorKind::Busy`].
    /// - The kernel is too old, was built without perf, or is not Linux: [`ErrorKind::UnsupportedField`],
    ///   [`ErrorKind::NoSystemCall`], [`ErrorKind::Unsupported`].
    /// - [`ErrorKind::CountsNothing`] if the settings exclude everything, [`ErrorKind::IncludesGuests`] if they include
    ///   guests and the kernel refuses that.
    /// - [`ErrorKind::Unreadable`] if the kernel's list of PMUs exists and cannot be read.
    /// - [`ErrorKind::Forked`] if a signal handler forked during the call, and this is the child.
    /// - [`ErrorKind::Closed`] if another thread closed the descriptor during the call.
    /// - [`ErrorKind::System`] for any other kernel error; no such error is known.
    pub fn open(event: Event) -> Result<Counter, Error> {
        Counter::builder(event).open()
    }

    /// Returns a builder, to choose privilege levels, pinning and more before opening a counter.
    pub fn builder(event: Event) -> Builder<Event> {
        Builder::new(event)
    }

    /// Returns a counter whose counts a test sets, and the [`Mock`] that sets them. Counts nothing, and needs no PMU and no
    /// permission. Its reads make no system call.
    ///
    /// It starts at 0, enabled and read from user space. `read_user` takes longer than that of an open event. The event is
    /// what [`event`](Counter::event) returns, and need not exist on this machine.
    ///
    /// A mock has no register: [`region`](Counter::region) returns an error, [`reading_user`](Counter::reading_user) None, and
    /// [`read_cost`](Counter::read_cost) no times.
    pub fn mock(event: Event) -> (Counter, Mock) {
        let mock = Mock::new();
        // Where forks cannot be counted, a mock is as good in a child as in its parent.
        let process = fork::process().unwrap_or_else(|_| Process::current());
        (Counter::from_handle(Handle::Mock { event, mock: mock.clone(), process }), mock)
    }

    /// Returns the count without a system call: no call into the C library, no allocation. The count starts at 0 when
    /// the counter is opened or [`reset`](Counter::reset).
    ///
    /// None while there is nothing to read: the event is not on a hardware counter now (it is disabled, or multiplexing
    /// gave others the turn), user space may not read it, it is a software event, or this process is a fork. See
    /// [`access`](Counter::access).
    ///
    /// Takes 15 instructions on x86-64, 14 on arm64 (15 with 32-bit counters), 20 on riscv64 (`tests/vm/run TARGET
    /// cost`). Without a [`fence`](crate::fence), an out-of-order CPU may move surrounding instructions across the read.
    #[inline(always)]
    pub fn read_user(&self) -> Option<u64> {
        match self.user.count() {
            Some(count) => Some(count),
            None => self.count_elsewhere(),
        }
    }

    /// Returns the count of this instant as a plain value, without a system call. The difference of two snapshots shows
    /// whether the kernel came in between: see [`Snapshot`].
    ///
    /// None in the same cases as [`read_user`](Counter::read_user).
    #[inline(always)]
    pub fn snapshot(&self) -> Option<Snapshot<1>> {
        match Snapshot::take(&self.user) {
            Some(snapshot) => Some(snapshot),
            None => self.snapshot_elsewhere(),
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
    /// [`ReadError::Closed`] if other code has [closed the descriptor](Counter#closed-descriptors), [`ReadError::System`] for any
    /// other kernel error; no such error is known.
    #[inline(always)]
    pub fn read(&self) -> Result<u64, ReadError> {
        match self.read.count() {
            Some(count) => Ok(count),
            None => self.read_otherwise(),
        }
    }

    /// Returns the count, the time that the event was enabled, and the time that it was running. Use them to judge and
    /// [scale](Reading::scaled) a multiplexed event.
    ///
    /// Makes no system call if the page has a clock (`cap_user_time`) and the event is on a hardware counter: 91
    /// instructions on x86-64, 74 on arm64 (75 with 32-bit counters), 85 on riscv64. Otherwise makes one `read(2)` per
    /// event.
    ///
    /// # Errors
    /// As [`read`](Counter::read).
    pub fn reading(&self) -> Result<Reading, ReadError> {
        match timed(&self.read) {
            Some(reading) => Ok(reading),
            None => self.reading_by_system_call(),
        }
    }

    /// Returns the [`reading`](Counter::reading) without a system call.
    ///
    /// None in any of these cases: the event is not on a hardware counter now; the page has no clock (`cap_user_time`;
    /// most virtual machines); user space may not read the counter; the count is a sum over several core types.
    pub fn reading_user(&self) -> Option<Reading> {
        timed(&self.user)
    }

    /// Returns the [`reading`](Counter::reading) by `read(2)`, always a system call.
    ///
    /// # Errors
    /// As [`read`](Counter::read).
    #[cold]
    #[inline(never)]
    pub fn reading_by_system_call(&self) -> Result<Reading, ReadError> {
        let [value, time_enabled, time_running] = match &self.handle {
            Handle::One(group) => group.count_by_system_call()?,
            Handle::Sum(sum) => return sum.reading(),
            Handle::Mock { process, .. } if process.is_past() => return Err(ReadError::Forked),
            Handle::Mock { mock, .. } => mock.read().ok_or(ReadError::ErrorState)?,
        };
        Ok(Reading { value, time_enabled, time_running })
    }

    /// Returns a [`Region`], which measures pieces of code with this counter. No system call if the event is on a
    /// hardware counter now.
    ///
    /// # Errors
    /// As [`Group::region`](crate::Group::region).
    pub fn region(&self) -> Result<Region<'_, 1>, Error> {
        match &self.handle {
            Handle::Mock { event, .. } => Err(why_no_region(*event, Error::not_in_its_register())),
            Handle::One(_) | Handle::Sum(_) => {
                let group = self.here().ok_or(ReadError::Forked)?; // there is one
                group.check_region()?;
                Ok(Region::new(group.user()))
            }
        }
    }

    /// Continues counting. Two system calls (`PERF_EVENT_IOC_ID`, `PERF_EVENT_IOC_ENABLE`).
    ///
    /// # Errors
    /// [`ReadError::Forked`] in the child of a fork, [`ReadError::Closed`] if other code has
    /// [closed the descriptor](Counter#closed-descriptors), [`ReadError::System`] for any other kernel error; no such error
    /// is known.
    pub fn enable(&self) -> Result<(), ReadError> {
        self.request(OpenGroup::enable, Control::Enable)
    }

    /// Stops counting. The count stays, and reads are system calls until [`enable`](Counter::enable). Two system
    /// calls (`PERF_EVENT_IOC_ID`, `PERF_EVENT_IOC_DISABLE`).
    ///
    /// # Errors
    /// As [`enable`](Counter::enable).
    pub fn disable(&self) -> Result<(), ReadError> {
        self.request(OpenGroup::disable, Control::Disable)
    }

    /// Sets the count to 0. The enabled time and the running time do not change. Two system calls
    /// (`PERF_EVENT_IOC_ID`, `PERF_EVENT_IOC_RESET`), or six for a counter that user space reads, which is stopped during
    /// the reset.
    ///
    /// # Errors
    /// As [`enable`](Counter::enable).
    pub fn reset(&self) -> Result<(), ReadError> {
        self.request(OpenGroup::reset, Control::Reset)
    }

    /// Returns how this counter is read now, and if not from user space, the reason.
    ///
    /// No system call if the counter is read from user space. Otherwise this method reads `/proc` or `/sys`, and reads the
    /// count by system call, which shows an error state or a closed descriptor. Revocation while the counter is open is detected only if
    /// [`contain_faults`](crate::contain_faults) was called, because detecting it takes a read that may fault.
    pub fn access(&self) -> Access {
        match &self.handle {
            Handle::One(group) => group.access(),
            Handle::Sum(sum) => sum.access(),
            Handle::Mock { process, .. } if process.is_past() => Access::Forked,
            Handle::Mock { mock, .. } => mock.access(),
        }
    }

    /// Returns the time that a read takes on this machine: see [`Group::read_cost`](crate::Group::read_cost). On a hybrid CPU, that of the current
    /// core type's counter.
    pub fn read_cost(&self) -> ReadCost {
        self.here().map(OpenGroup::read_cost).unwrap_or_default()
    }

    /// Reads in user space again after a read there faulted: see [`Group::retry_user`](crate::Group::retry_user).
    ///
    /// # Errors
    /// As [`Group::retry_user`](crate::Group::retry_user).
    pub fn retry_user(&mut self) -> Result<Access, ReadError> {
        match &mut self.handle {
            Handle::One(group) => {
                let result = group.retry_user();
                // At once: the old pages are gone.
                (self.user, self.read) = (*group.user(), *group.read());
                result.map(|obstacle| group.access_after(obstacle))
            }
            Handle::Sum(sum) => {
                let ids = |sum: &Sum| -> Vec<u32> {
                    sum.each().iter().map(|one| one.user().id()).collect()
                };
                let before = ids(sum);
                let result = sum.retry_user();
                if ids(sum) != before {
                    self.user.renumber(); // snapshots of the sum have this number
                }
                result.map(|()| sum.access())
            }
            Handle::Mock { .. } => Ok(self.access()),
        }
    }

    /// Returns the event: the one that was requested or, if the thread's affinity mask is within one core type, the
    /// same event on the PMU of that type.
    pub fn event(&self) -> Event {
        match &self.handle {
            Handle::One(group) => group.events.first().copied().unwrap_or(Event::DUMMY), // there is one
            Handle::Sum(sum) => sum.event(),
            Handle::Mock { event, .. } => *event,
        }
    }

    /// Returns the width of its register in bits (`pmc_width`), of the first core type's counter if there are several.
    ///
    /// None if user space cannot read it: it is a software event, its page is not mapped or names no width, or a read of it
    /// has faulted.
    pub fn width(&self) -> Option<u16> {
        let group = self.first().filter(|group| group.is_readable())?;
        let [width] = group.user().widths();
        (width > 0).then_some(width)
    }

    /// Reads its register `rounds` times, at least once, with three instructions per round. False on other architectures than
    /// x86-64, or if the event has no register now. For rdpmc-doctor, which finds out what a hypervisor's trap of the read
    /// adds: no promise of this library.
    ///
    /// Faults as [`read_user`](Counter::read_user) does, in each round.
    #[doc(hidden)]
    pub fn known_reads(&self, rounds: u64) -> bool {
        let named = self.first().and_then(|group| group.user().named());
        let Some([register]) = named else { return false };
        // SAFETY: the page names the register, so this thread may read it. If that has changed since then, the read faults,
        // as documented.
        unsafe { asm::known_reads(register, rounds) }
    }

    /// Whether all privilege levels are counted, because the PMU cannot exclude any. Always false unless
    /// [`allow_all_privilege_levels`](Builder::allow_all_privilege_levels) was set.
    pub fn counts_all_privilege_levels(&self) -> bool {
        match &self.handle {
            Handle::One(group) => group.counts_all_privilege_levels(),
            Handle::Sum(sum) => sum.each().iter().any(OpenGroup::counts_all_privilege_levels),
            Handle::Mock { .. } => false,
        }
    }

    /// The first core type's group. None for a mock.
    fn first(&self) -> Option<&OpenGroup> {
        match &self.handle {
            Handle::One(group) => Some(group),
            Handle::Sum(sum) => sum.each().first(),
            Handle::Mock { .. } => None,
        }
    }

    /// The group of the core type that the thread is on. None for a mock.
    fn here(&self) -> Option<&OpenGroup> {
        match &self.handle {
            Handle::One(group) => Some(group),
            Handle::Sum(sum) => sum.here(),
            Handle::Mock { .. } => None,
        }
    }

    /// Returns the count that the group's pages do not have: the sum over several core types, one of which has a counter now,
    /// or that of a mock. None if it is neither, or if there is nothing to read.
    #[cold]
    #[inline(never)]
    fn count_elsewhere(&self) -> Option<u64> {
        self.sum_or_mock().map(|(count, _)| count)
    }

    /// Returns the count, and the sum of the pages' locks.
    fn sum_or_mock(&self) -> Option<(u64, u32)> {
        match &self.handle {
            Handle::One(_) => None,
            Handle::Sum(sum) => sum.read_user(),
            Handle::Mock { process, .. } if process.is_past() => None,
            Handle::Mock { mock, .. } => mock.count_in_user_space(),
        }
    }

    #[cold]
    #[inline(never)]
    fn snapshot_elsewhere(&self) -> Option<Snapshot<1>> {
        let (count, locks) = self.sum_or_mock()?;
        Some(Snapshot::new([count], locks, &self.user))
    }

    /// Returns the count that the group's pages do not have, or what the kernel reads.
    #[cold]
    #[inline(never)]
    fn read_otherwise(&self) -> Result<u64, ReadError> {
        let count = match &self.handle {
            Handle::Sum(sum) if sum.prefers_system_call() => None,
            _ => self.count_elsewhere(),
        };
        match count {
            Some(count) => Ok(count),
            None => Ok(self.reading_by_system_call()?.value),
        }
    }

    fn request(
        &self,
        of_group: fn(&OpenGroup) -> Result<(), ReadError>,
        of_mock: Control,
    ) -> Result<(), ReadError> {
        match &self.handle {
            Handle::One(group) => of_group(group),
            Handle::Sum(sum) => sum.with_each(of_group),
            Handle::Mock { process, .. } if process.is_past() => Err(ReadError::Forked),
            Handle::Mock { mock, .. } => {
                mock.control(of_mock);
                Ok(())
            }
        }
    }
}

fn timed(view: &View) -> Option<Reading> {
    let Timed { counts: [value], time_enabled, time_running } = view.timed::<1, true>()?;
    Some(Reading { value, time_enabled, time_running })
}

impl fmt::Debug for Counter {
    /// Writes its event, and how it is read as far as the control page tells. No system call.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = match &self.handle {
            Handle::One(group) => group.access_in_memory(),
            Handle::Sum(sum) => sum.access_in_memory(),
            Handle::Mock { .. } => self.access(),
        };
        f.debug_struct("Counter").field("event", &self.event()).field("access", &access).finish()
    }
}

impl Builder<Event> {
    /// Opens the counter: see [`Counter::open`].
    ///
    /// # Errors
    /// As [`Counter::open`].
    pub fn open(self) -> Result<Counter, Error> {
        let event = self.events;
        let open = |options, pmu| open(&[event], options, pmu, View::repeat::<1>);
        let types = match core_types::counting(&event)? {
            [] => return Ok(Counter::from_handle(Handle::One(open(self.options, None)?))),
            [one] => {
                return Ok(Counter::from_handle(Handle::One(open(self.options, Some(one.pmu))?)));
            }
            types => types,
        };
        // A signal handler may fork between one and the next.
        let process = fork::process().map_err(Error::of_call("pthread_atfork"))?;
        // Disabled, so that there is little time between the start of one and of the next.
        let idle = self.disabled(true).options;
        let groups: Result<Vec<_>, _> = types.iter().map(|one| open(idle, Some(one.pmu))).collect();
        let sum = Sum::new(event, groups?, self.options.is_pinned(&event));
        if !self.options.is_disabled() {
            sum.with_each(OpenGroup::enable).map_err(Error::from)?;
        }
        match process.is_past() {
            true => Err(Error::forked_meanwhile()),
            false => Ok(Counter::from_handle(Handle::Sum(Box::new(sum)))),
        }
    }
}
