//! The handle of several events that are counted together.

use super::reading::{Reading, readings_of};
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::access::Access;
use crate::error::{Error, ReadError};
use crate::event::Event;
use crate::open::builder::Builder;
use crate::open::cost::ReadCost;
use crate::open::{OpenGroup, open};
use crate::page::MAX_EVENTS;
use crate::page::reader::{Timed, View};
use crate::region::{Region, Snapshot};
use std::fmt;
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
    pub(crate) open: OpenGroup,
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
    /// - [`ErrorKind::GroupTooLarge`], with the number of events that fit, if the PMU has too few counters, if pinned
    ///   events hold them, or if one of the counters stands still. On x86-64, the kernel's watchdog holds a counter
    ///   unless `kernel.nmi_watchdog` is 0.
    /// - [`ErrorKind::SeveralPmus`].
    pub fn open(events: [Event; N]) -> Result<Group<N>, Error> {
        Group::builder(events).open()
    }

    /// Returns a builder, to choose privilege levels, pinning and more for all events before opening a group.
    pub fn builder(events: [Event; N]) -> Builder<[Event; N]> {
        const { assert!(N >= 1 && N <= MAX_EVENTS, "a group has 1 to 8 events") };
        Builder::new(events)
    }

    /// Whether this process is a fork of the one that opened the group.
    pub(crate) fn is_forked(&self) -> bool {
        self.open.is_forked()
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
        self.open.user().counts()
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
        Snapshot::take(self.open.user())
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
        match self.open.read().counts() {
            Some(counts) => Ok(counts),
            None => self.read_by_system_call(),
        }
    }

    #[cold]
    #[inline(never)]
    fn read_by_system_call(&self) -> Result<[u64; N], ReadError> {
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
        match timed(self.open.read()) {
            Some(readings) => Ok(readings),
            None => self.reading_by_system_call(),
        }
    }

    /// Returns the [`reading`](Group::reading) without a system call.
    ///
    /// None in any of these cases: the group is not scheduled now; the first event's page has no clock
    /// (`cap_user_time`; most virtual machines); user space may not read the counters.
    pub fn reading_user(&self) -> Option<[Reading; N]> {
        timed(self.open.user())
    }

    /// Returns the [`reading`](Group::reading) by `read(2)`, always a system call.
    ///
    /// # Errors
    /// As [`read`](Group::read).
    #[cold]
    #[inline(never)]
    pub fn reading_by_system_call(&self) -> Result<[Reading; N], ReadError> {
        if N == 1 {
            let [value, time_enabled, time_running] = self.open.count_by_system_call()?;
            return Ok([Reading { value, time_enabled, time_running }; N]);
        }
        let mut readings = readings_of(self.open.counts_by_system_call()?);
        Ok([(); N].map(|()| readings.next().unwrap_or_default())) // N is no more than MAX_EVENTS
    }

    /// Returns the total time, since the group was opened, for which it was enabled but not scheduled. No system call
    /// and no counter read.
    ///
    /// None while the group is not scheduled. If the result is the same before and after a piece of code, the group was
    /// scheduled all the time in between.
    pub fn time_without_counters(&self) -> Option<Duration> {
        self.open.absence().map(Duration::from_nanos)
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
        self.open.read_cost()
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
        let obstacle = self.open.retry_user()?;
        Ok(self.open.access_after(obstacle))
    }

    /// Returns a [`Region`], which measures pieces of code with these counters. No system call if the group is
    /// scheduled now.
    ///
    /// # Errors
    /// - [`ErrorKind::UserReadUnavailable`] if user space cannot read them, unless the only reason is that the group
    ///   is not scheduled now. A region has no fallback to `read(2)`.
    /// - [`ErrorKind::FaultsNotContained`] on riscv64, on hybrid CPUs, or where the PMUs cannot be listed, if
    ///   [`contain_faults`](crate::contain_faults) was not called.
    /// - [`ErrorKind::Unreadable`] if the PMU list in `/sys` exists and cannot be read.
    /// - [`ErrorKind::Forked`] in the child of a fork.
    pub fn region(&self) -> Result<Region<'_, N>, Error> {
        self.open.check_region()?;
        Ok(Region::new(self.open.user()))
    }

    /// Continues counting. Two system calls (`PERF_EVENT_IOC_ID`, `PERF_EVENT_IOC_ENABLE`).
    ///
    /// # Errors
    /// [`ReadError::Forked`] in the child of a fork, [`ReadError::Closed`] if other code has
    /// [closed the descriptor](crate::Counter#closed-descriptors) of the first event, [`ReadError::System`] for any other kernel
    /// error; no such error is known.
    pub fn enable(&self) -> Result<(), ReadError> {
        self.open.enable()
    }

    /// Stops counting. The counts stay, and reads are system calls until [`enable`](Group::enable). Two system
    /// calls (`PERF_EVENT_IOC_ID`, `PERF_EVENT_IOC_DISABLE`).
    ///
    /// # Errors
    /// As [`enable`](Group::enable).
    pub fn disable(&self) -> Result<(), ReadError> {
        self.open.disable()
    }

    /// Sets the counts to 0. The enabled time and the running time do not change. Two system calls
    /// (`PERF_EVENT_IOC_ID`, `PERF_EVENT_IOC_RESET`), or six for counters that user space reads, which are stopped during the
    /// reset.
    ///
    /// # Errors
    /// As [`enable`](Group::enable).
    pub fn reset(&self) -> Result<(), ReadError> {
        self.open.reset()
    }

    /// Returns how these counters are read now, and if not from user space, the reason.
    ///
    /// No system call if the counters are read from user space. Otherwise this method reads `/proc` or `/sys`, and reads the
    /// counts by system call, which shows an error state or a closed descriptor. Revocation while the group is open is detected only if
    /// [`contain_faults`](crate::contain_faults) was called, because detecting it takes a read that may fault.
    pub fn access(&self) -> Access {
        self.open.access()
    }

    /// Returns the events.
    pub fn events(&self) -> [Event; N] {
        let mut events = self.open.events.iter().copied();
        [(); N].map(|()| events.next().unwrap_or(Event::DUMMY)) // there are N
    }

    /// Whether at least one event is counted at all privilege levels, because its PMU cannot exclude any level. Always
    /// false unless [`allow_all_privilege_levels`](Builder::allow_all_privilege_levels) was set.
    pub fn counts_all_privilege_levels(&self) -> bool {
        self.open.counts_all_privilege_levels()
    }
}

#[inline(always)]
pub(super) fn timed<const N: usize>(view: &View) -> Option<[Reading; N]> {
    let Timed { counts, time_enabled, time_running } = view.timed::<N, true>()?;
    Some(counts.map(|value| Reading { value, time_enabled, time_running }))
}

impl<const N: usize> Builder<[Event; N]> {
    /// Opens the group: see [`Group::open`].
    ///
    /// # Errors
    /// As [`Group::open`].
    pub fn open(self) -> Result<Group<N>, Error> {
        Ok(Group { open: open(&self.events, self.options, None, View::repeat::<N>)? })
    }
}

impl<const N: usize> fmt::Debug for Group<N> {
    /// Writes its events, and how they are read as far as the control pages tell. No system call.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("events", &self.open.events)
            .field("access", &self.open.access_in_memory())
            .finish()
    }
}
