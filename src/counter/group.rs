//! The handle of several events that are counted together.
#![allow(unsafe_code)]

use super::cost::{self, ReadCost};
use super::reading::Reading;
use crate::asm;
use crate::error::access::Access;
use crate::error::{OpenError, ReadError, RegionError, SyscallReason};
use crate::event::Event;
use crate::kernel::{Control, machine};
use crate::names::named;
use crate::open::builder::Builder;
use crate::open::{Answers, Counts, Mock, OpenGroup, Options, open, open_on, setting_that_forbids};
use crate::page::fork;
use crate::page::monitor::Monitor;
use crate::page::process::Process;
use crate::page::reader::{Reader, Timed, View};
use crate::page::{MAX_EVENTS, faults};
use crate::pmu::core_types;
use crate::region::{Region, Snapshot};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// Counters of `N` events, at most 8, for the thread that opened them.
///
/// The events are on the PMU together or not at all, so their counts cover the same instants and can be compared. For a
/// number of events known only at run time, use [`DynGroup`](crate::DynGroup). If some events may be unavailable, ask
/// [`Builder::fit`] first.
///
/// ```
/// use rdpmc::{Error, Event, Group};
///
/// fn instructions_per_cycle(work: impl FnOnce()) -> Result<f64, Error> {
///     let group = Group::open([Event::CYCLES, Event::INSTRUCTIONS])?;
///     let before = group.read()?;
///     work();
///     let [cycles, instructions] = group.read()?;
///     Ok((instructions - before[1]) as f64 / (cycles - before[0]) as f64)
/// }
///
/// match instructions_per_cycle(|| drop(std::hint::black_box(vec![0; 100]))) {
///     Ok(ratio) => println!("{ratio:.2} instructions per cycle"),
///     Err(why) => println!("{why}"), // for example, this VM has no PMU
/// }
/// ```
///
/// The notes on [threads](crate::Counter#threads), [forks](crate::Counter#fork),
/// [signal handlers](crate::Counter#signal-handlers), [faults](crate::Counter#faults) and
/// [closed descriptors](crate::Counter#closed-descriptors) of `Counter` apply to groups and their regions too.
///
/// ```compile_fail,E0277
/// fn only_if_send<T: Send>() {}
/// only_if_send::<rdpmc::Group<2>>();
/// ```
/// ```compile_fail,E0277
/// fn only_if_send<T: Send>() {}
/// only_if_send::<rdpmc::Region<'static, 2>>();
/// ```
/// ```compile_fail,E0277
/// fn only_if_send<T: Send>() {}
/// only_if_send::<rdpmc::region::Start<'static, 2>>();
/// ```
///
/// # Resources
///
/// For each event, a group holds a file descriptor (close-on-exec) and, if user space can read the group, one page of
/// memory mapped read-only. Dropping it releases them.
#[repr(C)]
pub struct Group<const N: usize> {
    // First, so that it is unmapped before the descriptors close: a mapping keeps an event alive, and its counter taken.
    pub(crate) reader: Reader<N>,
    /// The view that `read` uses: one of `reader`'s pages, or none if it makes system calls.
    read: View<N>,
    /// Shared with nothing but [`Group::without_pages`].
    open: Rc<OpenGroup<N>>,
}

impl<const N: usize> Group<N> {
    /// Opens counters of `events` for this thread, all counting from now, in user mode alone.
    ///
    /// Exception: the three software events that happen only in the kernel, such as [`Event::CONTEXT_SWITCHES`], are
    /// counted in kernel mode.
    ///
    /// The first event is the leader, and the one that regions measure most exactly: see [`Region`]. All hardware
    /// events must belong to one PMU. On hybrid CPUs, `open` uses the first of these that applies:
    /// 1. the PMU that an event names;
    /// 2. the PMU of the core type that contains the thread's affinity mask;
    /// 3. the PMU of the core type that the thread is on.
    ///
    /// While the thread is on another core type, the group does not count.
    ///
    /// An empty array, or an array of more than 8 events, does not compile (`cargo build` reports it, `cargo check`
    /// does not).
    ///
    /// In a virtual machine, the first group of these events in the process also measures the cost of its reads, in
    /// some 200 microseconds: see [`ReadBy`](crate::ReadBy). `open` tests a pinned copy of the first group of each size
    /// and mix of events with known work, because the host may have fewer counters than it offers.
    ///
    /// On bare metal, without retries, takes five system calls per event, plus four. If the group is not scheduled right after
    /// opening, `open` checks that it fits by opening a pinned copy, which may displace other events until the kernel
    /// next rotates them. A group opened disabled is not checked, and may fail to fit when it is enabled. A group that
    /// user space cannot read is not an error: its reads are system calls, and [`access`](Group::access) has the
    /// reason.
    ///
    /// # Errors
    /// As [`Counter::open`](crate::Counter::open), and:
    /// - [`OpenError::GroupTooLarge`], with the number of events that fit, if the PMU has too few counters, if pinned
    ///   events hold them, or if one of the counters stands still. On x86-64, the kernel's watchdog holds a counter
    ///   unless `kernel.nmi_watchdog` is 0.
    /// - [`OpenError::SeveralPmus`].
    pub fn open(events: [Event; N]) -> Result<Group<N>, OpenError> {
        Group::builder(events).open()
    }

    /// Returns a builder, to choose privilege levels, pinning and more for all events before opening a group.
    pub fn builder(events: [Event; N]) -> Builder<[Event; N]> {
        const { assert!(N >= 1 && N <= MAX_EVENTS, "a group has 1 to 8 events") };
        Builder::new(events)
    }

    /// Makes the handle of an open group, and chooses how `read` reads it.
    pub(crate) fn new(
        (reader, mut open): (Reader<N>, OpenGroup<N>),
        options: Options,
    ) -> Result<Group<N>, OpenError> {
        open.choice = cost::choose(options, &reader, &open);
        // A signal handler may have forked meanwhile.
        if open.process.is_past() { Err(OpenError::Forked) } else { Ok(Group::of(reader, open)) }
    }

    pub(crate) fn of(reader: Reader<N>, open: OpenGroup<N>) -> Group<N> {
        let read = view_to_read(&reader, &open);
        if !reader.is_given_up() {
            reader.monitor().set(open.is_in_user_space());
        }
        Group { reader, read, open: Rc::new(open) }
    }

    /// Returns a group of the same events that user space never reads.
    pub(crate) fn without_pages(&self) -> Group<N> {
        Group { reader: Reader::none(), read: View::none(), open: Rc::clone(&self.open) }
    }

    /// Whether this process is a fork of the one that opened the group.
    pub(crate) fn is_forked(&self) -> bool {
        self.open.process.is_past()
    }

    /// The PMU that the first event names.
    pub(crate) fn pmu(&self) -> Option<u32> {
        core_types::of(self.open.events.first()?).ok()?
    }

    /// Returns the counts, all of one instant, without a system call: no call into the C library, no allocation. They
    /// start at 0 when the group is opened or [`reset`](Group::reset).
    ///
    /// None while one of them cannot be read: the group is not scheduled now (it is disabled, or multiplexing gave
    /// others the turn), user space may not read it, one of its events is a software event, or this process is a fork.
    /// See [`access`](Group::access).
    ///
    /// One seqlock covers all counts: if the kernel moves the group during the read, all are read again. No two counts
    /// are ever from different turns on the PMU, or from before and after a reset. On riscv64, all counters of the
    /// group must be 64 bits wide.
    ///
    /// For four events, takes 48 instructions on x86-64, 56 on arm64 (60 with 32-bit counters), 69 on riscv64
    /// (`tests/vm/run TARGET cost`). Without a [`fence`](crate::fence), an out-of-order CPU may move surrounding
    /// instructions across the read.
    #[inline(always)]
    pub fn read_user(&self) -> Option<[u64; N]> {
        self.reader.counts()
    }

    /// Returns the counts of this instant as a plain value, without a system call. The difference of two snapshots shows
    /// whether the kernel came in between: see [`Snapshot`].
    ///
    /// None in the same cases as [`read_user`](Group::read_user).
    ///
    /// For four events, takes 52 instructions on x86-64, 58 on arm64 (62 with 32-bit counters), 73 on riscv64
    /// (`tests/vm/run TARGET cost`).
    #[inline(always)]
    pub fn snapshot(&self) -> Option<Snapshot<N>> {
        Snapshot::take(&self.reader)
    }

    /// Returns the counts by [`read_user`](Group::read_user), or if that is None, by one `read(2)` for all
    /// (`PERF_FORMAT_GROUP`). If the system call is cheaper here or was requested, `read` always makes it: see
    /// [`access`](Group::access).
    ///
    /// A multiplexed group counts only during its turns, and reads 0 if it has had none. [`reading`](Group::reading)
    /// reports that.
    ///
    /// # Errors
    /// [`ReadError::ErrorState`] for a pinned group that is not scheduled, [`ReadError::Forked`] in the child of a fork,
    /// [`ReadError::Closed`] if other code has [closed a descriptor](crate::Counter#closed-descriptors), [`ReadError::System`] for
    /// any other kernel error; no such error is known.
    #[inline(always)]
    pub fn read(&self) -> Result<[u64; N], ReadError> {
        match self.read.counts() {
            Some(counts) => Ok(counts),
            None => self.read_by_system_call(),
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn read_by_system_call(&self) -> Result<[u64; N], ReadError> {
        Ok(self.reading_by_system_call()?.map(|reading| reading.value))
    }

    /// Returns the counts, each with the group's enabled time and running time. Use these to judge and
    /// [scale](Reading::scaled) a multiplexed group.
    ///
    /// Makes no system call if the first event's page has a clock (`cap_user_time`) and the group is scheduled.
    /// Otherwise makes one `read(2)`.
    ///
    /// # Errors
    /// As [`read`](Group::read).
    pub fn reading(&self) -> Result<[Reading; N], ReadError> {
        match Self::timed(&self.read) {
            Some(readings) => Ok(readings),
            None => self.reading_by_system_call(),
        }
    }

    /// Returns the [`reading`](Group::reading) without a system call.
    ///
    /// None in any of these cases: the group is not scheduled now; the first event's page has no clock
    /// (`cap_user_time`; most virtual machines); user space may not read the counters.
    pub fn reading_user(&self) -> Option<[Reading; N]> {
        Self::timed(&self.reader)
    }

    #[inline(always)]
    fn timed(view: &View<N>) -> Option<[Reading; N]> {
        let Timed { counts, time_enabled, time_running } = view.timed::<true>()?;
        Some(counts.map(|value| Reading { value, time_enabled, time_running }))
    }

    /// Returns the [`reading`](Group::reading) by `read(2)`, always a system call.
    ///
    /// # Errors
    /// As [`read`](Group::read).
    #[cold]
    #[inline(never)]
    pub fn reading_by_system_call(&self) -> Result<[Reading; N], ReadError> {
        if self.open.answers.mock().is_none() {
            self.reader.monitor().count_system_call();
        }
        self.ask_kernel()
    }

    fn ask_kernel(&self) -> Result<[Reading; N], ReadError> {
        if self.open.process.is_past() {
            return Err(ReadError::Forked);
        }
        let failed = |errno| ReadError::of_call("read", errno);
        if N == 1 {
            let one = self.open.answers.read_one().map_err(failed)?;
            let [value, time_enabled, time_running] = one.ok_or(ReadError::ErrorState)?;
            return Ok([Reading { value, time_enabled, time_running }; N]);
        }
        let counts = self.open.answers.read().map_err(failed)?.ok_or(ReadError::ErrorState)?;
        let Counts { values, time_enabled, time_running } = counts;
        let mut values = values.into_iter();
        Ok([(); N].map(|()| Reading {
            value: values.next().unwrap_or(0), // N is no more than MAX_EVENTS
            time_enabled,
            time_running,
        }))
    }

    /// Returns the total time, since the group was opened, for which it was enabled but not scheduled. No system call
    /// and no counter read.
    ///
    /// None while the group is not scheduled. If the result is the same before and after a piece of code, the group was
    /// scheduled all the time in between.
    pub fn time_without_counters(&self) -> Option<Duration> {
        self.reader.absence().map(Duration::from_nanos)
    }

    /// Returns the time that a read takes on this machine, in user space and by system call.
    ///
    /// The first call for these events in this process measures, in about 200 microseconds. Later calls return the same
    /// result. A result without a user-space time is not kept, and the next call measures again. In a virtual machine,
    /// [`open`](Group::open) has usually measured already.
    ///
    /// The measured reads may fault as others do. The kernel and the hypervisor do more work per read while other
    /// counters are open, so first open all counters that the program uses.
    pub fn read_cost(&self) -> ReadCost {
        cost::of_group(&self.reader, &self.open)
    }

    /// Returns a view of this handle for other threads.
    pub fn monitor(&self) -> Monitor {
        self.reader.monitor().clone()
    }

    /// Reads in user space again after a read there faulted, for example when the administrator has enabled user access
    /// again. Returns how the counters are read then, as [`access`](Group::access) does.
    ///
    /// Does nothing if no read has faulted. Otherwise maps the control pages again and stops the counters briefly, in
    /// some seven system calls for one event. If the pages cannot be mapped, returns the reason, and a later call tries
    /// again. If the next read faults too, the handle reads by system call again.
    ///
    /// # Errors
    /// [`ReadError::Forked`] in the child of a fork. [`ReadError::Closed`] if other code has
    /// [closed a descriptor](crate::Counter#closed-descriptors). [`ReadError::System`] if the counters could not be stopped
    /// and started; no such error is known.
    pub fn retry_user(&mut self) -> Result<Access, ReadError> {
        if !self.reader.is_given_up() {
            return Ok(self.access());
        }
        let mut reader = match self.open.map_again(self.monitor())? {
            Ok(reader) => reader,
            Err(reason) => return Ok(Access::SystemCall(reason)),
        };
        if reader.is_scheduled() {
            // The kernel has written the new page from what it last read of the register, taken as unsigned. When it
            // schedules the event again, the page is right: see `reset`.
            self.control(Control::Disable)?;
            self.control(Control::Enable)?;
        }
        reader.must_advance = self.reader.must_advance;
        // The view first: the old pages are unmapped with the old reader.
        self.read = view_to_read(&reader, &self.open);
        self.reader = reader;
        self.reader.monitor().set(self.open.is_in_user_space());
        Ok(self.access())
    }

    /// Returns the view that `read` uses.
    pub(crate) fn view_of_read(&self) -> &View<N> {
        &self.read
    }

    /// Whether user space reads it, whenever it has its counters.
    pub(crate) fn is_readable(&self) -> bool {
        self.open.obstacle.is_none()
    }

    /// Returns a [`Region`], which measures pieces of code with these counters. No system call if the group is
    /// scheduled now.
    ///
    /// # Errors
    /// - [`RegionError::UserReadUnavailable`] if user space cannot read them, unless the only reason is that the group
    ///   is not scheduled now. A region has no fallback to `read(2)`.
    /// - [`RegionError::FaultsNotContained`] on riscv64, on hybrid CPUs, or where the PMUs cannot be listed, if
    ///   [`contain_faults`](crate::contain_faults) was not called.
    /// - [`RegionError::Unreadable`] if the PMU list in `/sys` exists and cannot be read.
    /// - [`RegionError::Forked`] in the child of a fork.
    pub fn region(&self) -> Result<Region<'_, N>, RegionError> {
        if self.open.process.is_past() {
            return Err(RegionError::Forked);
        }
        match self.obstacle() {
            // They may have their counters when the region starts, and widths may differ here.
            None | Some((_, SyscallReason::NotScheduled)) => {}
            Some((_, SyscallReason::Width { .. })) if self.open.obstacle.is_none() => {}
            Some((event, reason)) => {
                return Err(RegionError::UserReadUnavailable { event: named(event), reason });
            }
        }
        if !faults::faults_are_contained()
            && (asm::STALE_READ_FAULTS || core_types::may_be_several()?)
        {
            return Err(RegionError::FaultsNotContained);
        }
        Ok(Region::new(&self.reader, &self.open.events))
    }

    /// Continues counting. Two system calls (`PERF_EVENT_IOC_ID`, `PERF_EVENT_IOC_ENABLE`).
    ///
    /// # Errors
    /// [`ReadError::Forked`] in the child of a fork, [`ReadError::Closed`] if other code has
    /// [closed the descriptor](crate::Counter#closed-descriptors) of the first event, [`ReadError::System`] for any other kernel
    /// error; no such error is known.
    pub fn enable(&self) -> Result<(), ReadError> {
        self.control(Control::Enable)
    }

    /// Stops counting. The counts stay, and reads are system calls until [`enable`](Group::enable). Two system
    /// calls (`PERF_EVENT_IOC_ID`, `PERF_EVENT_IOC_DISABLE`).
    ///
    /// # Errors
    /// As [`enable`](Group::enable).
    pub fn disable(&self) -> Result<(), ReadError> {
        self.control(Control::Disable)
    }

    /// Sets the counts to 0. The enabled time and the running time do not change. Two system calls
    /// (`PERF_EVENT_IOC_ID`, `PERF_EVENT_IOC_RESET`), or six for counters that user space reads, which are stopped during the
    /// reset.
    ///
    /// # Errors
    /// As [`enable`](Group::enable).
    pub fn reset(&self) -> Result<(), ReadError> {
        // If the event is reset while it counts, the kernel computes the page's `offset` from the register taken as
        // unsigned. Sign extension then leaves the count one whole range short: 2^32 on arm64 with 32-bit counters,
        // 2^48 on x86-64 (both seen with Linux 6.12). When the kernel schedules the event again, the offset is right.
        if self.open.process.is_past() {
            return Err(ReadError::Forked);
        }
        if !self.reader.is_scheduled() {
            self.control(Control::Reset)?;
            if !self.reader.is_scheduled() {
                return Ok(());
            }
            // It got a counter just now, before the reset or after it: repeat the reset below.
        }
        self.control(Control::Disable)?;
        let result = self.control(Control::Reset);
        self.control(Control::Enable)?;
        result
    }

    fn control(&self, request: Control) -> Result<(), ReadError> {
        if self.open.process.is_past() {
            return Err(ReadError::Forked);
        }
        self.open.answers.control(request).map_err(|errno| ReadError::of_call("ioctl", errno))
    }

    /// Returns how these counters are read now, and if not from user space, the reason.
    ///
    /// No system call if the counters are read from user space. Otherwise this method reads `/proc` or `/sys`, and reads the
    /// counts by system call, which shows an error state or a closed descriptor. Revocation while the group is open is detected only if
    /// [`contain_faults`](crate::contain_faults) was called, because detecting it takes a read that may fault.
    pub fn access(&self) -> Access {
        if self.open.process.is_past() {
            return Access::Forked;
        }
        // First, as `read` does.
        if !self.reader.is_scheduled() {
            match self.ask_kernel() {
                Err(ReadError::ErrorState) => {
                    return Access::SystemCall(SyscallReason::ErrorState);
                }
                Err(ReadError::Closed) => return Access::SystemCall(SyscallReason::Closed),
                _ => {}
            }
        }
        match self.obstacle() {
            None => self.chosen(),
            Some((_, reason)) => Access::SystemCall(reason),
        }
    }

    /// How it is read if user space can read it.
    fn chosen(&self) -> Access {
        self.open.choice.map_or(Access::UserSpace, Access::SystemCall)
    }

    /// Returns what [`access`](Group::access) does as far as this process's memory tells. Reads no setting and no
    /// counter, and makes no system call.
    pub(crate) fn access_in_memory(&self) -> Access {
        if self.open.process.is_past() {
            return Access::Forked;
        }
        match &self.open.obstacle {
            Some((_, reason)) => Access::SystemCall(*reason),
            None if self.reader.is_given_up() => Access::SystemCall(SyscallReason::Refused),
            None if self.reader.is_scheduled() => self.chosen(),
            None => Access::SystemCall(SyscallReason::NotScheduled),
        }
    }

    /// Returns why user space cannot read now, and which event. None if it can.
    fn obstacle(&self) -> Option<(Event, SyscallReason)> {
        if let Some(obstacle) = &self.open.obstacle {
            return Some(*obstacle);
        }
        let leader = self.open.events.first().copied()?;
        if self.reader.is_given_up() {
            return Some(self.switched_off().unwrap_or((leader, SyscallReason::Refused)));
        }
        if self.reader.is_scheduled() {
            let is_other =
                |width: &u16| N > 1 && asm::WIDTH_IN_A_GROUP.is_some_and(|needed| needed != *width);
            let mut widths = self.open.events.into_iter().zip(self.reader.widths());
            if let Some((event, bits)) = widths.find(|(_, width)| is_other(width)) {
                return Some((event, SyscallReason::Width { bits }));
            }
            // A refused read has the page replaced by zeros, so that the read itself looks undecided.
            let is_refused = || self.reader.is_refused() || self.reader.is_given_up();
            if !faults::faults_are_contained() || !is_refused() {
                return None;
            }
            return Some(self.switched_off().unwrap_or((leader, SyscallReason::Refused)));
        }
        let off = self.switched_off();
        Some(match off {
            Some(off) => off,
            // On riscv64, the page cannot tell that the kernel is too old. The missing setting can.
            None if !asm::FIXED_WHEN_MAPPED && machine::lacks_user_access() => {
                (leader, SyscallReason::NotOffered)
            }
            // Or in error state, which a region does not ask.
            None => (leader, SyscallReason::NotScheduled),
        })
    }

    /// The first event for which the administrator has disabled user access.
    fn switched_off(&self) -> Option<(Event, SyscallReason)> {
        self.open.events.into_iter().find_map(|event| Some((event, setting_that_forbids(event)?)))
    }

    /// Returns the events.
    pub fn events(&self) -> [Event; N] {
        self.open.events
    }

    /// Whether at least one event is counted at all privilege levels, because its PMU cannot exclude any level. Always
    /// false unless [`allow_all_privilege_levels`](Builder::allow_all_privilege_levels) was set.
    pub fn counts_all_privilege_levels(&self) -> bool {
        self.open.answers.opened().is_some_and(|opened| opened.counts_all_levels)
    }
}

/// Returns a view for `read`, to be dropped with the reader.
fn view_to_read<const N: usize>(reader: &Reader<N>, open: &OpenGroup<N>) -> View<N> {
    match open.choice {
        // SAFETY: each handle drops its views with its reader.
        None => unsafe { reader.view() },
        Some(_) => View::none(),
    }
}

impl<const N: usize> Builder<[Event; N]> {
    /// Opens the group: see [`Group::open`].
    ///
    /// # Errors
    /// As [`Group::open`].
    pub fn open(self) -> Result<Group<N>, OpenError> {
        Group::new(open(self.events, self.options)?, self.options)
    }

    /// Opens the group with events that name no core type on this PMU.
    pub(crate) fn open_on(self, pmu: u32) -> Result<Group<N>, OpenError> {
        Group::new(open_on(self.events, self.options, pmu)?, self.options)
    }
}

impl Group<1> {
    /// Returns a group whose counts are those of the mock.
    pub(super) fn mocked(event: Event, mock: Mock) -> Group<1> {
        // Where forks cannot be counted, a mock is as good in a child as in its parent.
        let process = fork::process().unwrap_or_else(|_| Process::current());
        let obstacle = Some((event, SyscallReason::NotInItsRegister));
        let (events, answers, choice) = ([event], Answers::OfATest(mock), None);
        let mut reader = Reader::none();
        reader.renumber(); // its snapshots are of no other handle
        let open = OpenGroup { events, answers, obstacle, choice, flags: 0, process };
        let group = Group::of(reader, open);
        group.reader.monitor().set(true); // its counter is read so, if not the group
        group
    }

    /// Returns how a mock's counter is read now. None if this is an event of the kernel.
    pub(super) fn access_of_mock(&self) -> Option<Access> {
        let mock = self.open.answers.mock()?;
        Some(if self.open.process.is_past() { Access::Forked } else { mock.access() })
    }

    /// Returns the count of a mock and the number of its updates, if user space could read it now.
    pub(super) fn count_of_mock(&self) -> Option<(u64, u32)> {
        let mock = self.open.answers.mock()?;
        if self.open.process.is_past() { None } else { mock.count_in_user_space() }
    }
}

impl<const N: usize> Drop for Group<N> {
    fn drop(&mut self) {
        // Not when a reader is dropped: a new one may have its monitor, after `retry_user`.
        self.reader.monitor().close();
    }
}

impl<const N: usize> fmt::Debug for Group<N> {
    /// Writes its events, and how they are read as far as the control pages tell. No system call.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("events", &self.open.events)
            .field("access", &self.access_in_memory())
            .finish()
    }
}
