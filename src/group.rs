//! The handle: events of this thread that are counted together.

use crate::asm;
use crate::builder::Builder;
use crate::core_types;
use crate::error::{Access, Error, NoUserAccess};
use crate::event::Event;
use crate::faults;
use crate::fork::Process;
use crate::machine;
use crate::open::{Opened, READ_WORDS, why_not_mapped};
use crate::ordered::Ordered;
use crate::page::{MOST, Pages};
use crate::read::{Reader, Snapshot};
use crate::reading::Reading;
use crate::region::Region;
use crate::syntax::named;
use crate::sys::{self, Control};
use std::fmt;

/// `N` counters of the thread that opened them, 8 at most: a leader and its siblings, always on the
/// PMU together or not at all, so that their counts are of the same moments and can be compared.
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
///     Err(why) => println!("{why}"), // e.g. that this virtual machine has no PMU
/// }
/// ```
///
/// What is said of [`Counter`](crate::Counter) about threads, forks, signal handlers and faults is true
/// here as well: a group stays with its thread, and so do its regions.
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
/// only_if_send::<rdpmc::Start<'static, 2>>();
/// ```
///
/// # What it holds
///
/// A file descriptor (close-on-exec) and, if user space can read it, one page of memory for each event,
/// mapped read-only. Dropping it gives them back.
#[repr(C)]
pub struct Group<const N: usize> {
    // First, so that it is unmapped before the descriptors close: the kernel keeps an event alive,
    // and its counter taken, for as long as it is mapped.
    pub(crate) reader: Reader<N>,
    events: Box<OpenEvents<N>>,
}

/// What only the slower paths need.
struct OpenEvents<const N: usize> {
    events: [Event; N],
    opened: Opened,
    /// Why `reader` never answers, if so, and of which event.
    obstacle: Option<(Event, NoUserAccess)>,
    process: Process,
}

impl<const N: usize> Group<N> {
    /// Opens counters of `events` for this thread, all counting from now, in user mode alone (but for
    /// the three events that happen in the kernel only).
    ///
    /// The first is the leader, and the one to be counted most exactly: see [`Region`]. Of hardware
    /// events all must be of one PMU, or it is [`Error::SeveralPmus`]. Where the processor has cores of
    /// several types, each with a PMU, that is the one an event names; or that of the processors that this
    /// thread is kept on; or that of the one it is on at the moment. While the thread is on another type,
    /// the group has no counters. None at all, and more than 8, do not compile (`cargo build`
    /// says so, `cargo check` does not).
    ///
    /// Costs two system calls for each event and three more where all is granted at once, and more
    /// where the group has no counters then: it is found out whether it can have them, by a pinned
    /// group that others may have to make room for until the PMU's next turn. One that is opened
    /// disabled is not looked at so closely, and may turn out to have no room when it is enabled.
    ///
    /// A group that user space cannot read is no error: its reads are system calls, and
    /// [`access`](Group::access) tells why.
    ///
    /// # Errors
    /// As [`Counter::open`](crate::Counter::open), and
    /// - [`Error::GroupTooLarge`], which says how many fit, if the PMU has too few counters, or pinned events
    ///   hold them (on x86-64 the kernel's watchdog holds one, unless `kernel.nmi_watchdog` is 0);
    /// - [`Error::SeveralPmus`].
    pub fn open(events: [Event; N]) -> Result<Group<N>, Error> {
        Group::builder(events).open()
    }

    /// A builder, to choose more than the events before opening a group; it is for all of them.
    pub fn builder(events: [Event; N]) -> Builder<[Event; N]> {
        const { assert!(N >= 1 && N <= MOST, "a group has 1 to 8 events") };
        Builder::new(events)
    }

    /// The counts, all of one moment, read from user space: no system call, no branch into the C
    /// library, no allocation. They count from 0 at the open or the last [`reset`](Group::reset).
    ///
    /// None while one of them cannot be read: the group has no counters at this moment (it is
    /// disabled, or multiplexing gave others the turn), user space may not read it, there is a
    /// software event in it, or this process is a fork. See [`access`](Group::access).
    ///
    /// It is one round for all: if the kernel has moved the group meanwhile, all are read anew. So
    /// no two counts are ever of different turns on the PMU, or of before and after a reset. On
    /// riscv64, counters in a group must be 64 bits wide for it.
    ///
    /// Of four events, takes 48 instructions on x86-64, 56 on arm64 (60 with 32-bit counters), 69 on
    /// riscv64, by `tests/vm/run TARGET cost`. Not ordered against the instructions around it: see
    /// [`ordered`](Group::ordered).
    #[inline(always)]
    pub fn read_user(&self) -> Option<[u64; N]> {
        self.reader.counts::<false>()
    }

    /// The counts: as [`read_user`](Group::read_user), and where that has no answer by `read(2)`, one
    /// system call for all (`PERF_FORMAT_GROUP`).
    ///
    /// A group that had to take turns with others (multiplexing) counts only while it has its turn,
    /// and one that never had a turn reads 0: [`reading`](Group::reading) tells.
    ///
    /// # Errors
    /// [`Error::ErrorState`] for a pinned group without counters, [`Error::Forked`] in the child of a
    /// fork, [`Error::System`] for what no kernel is known to do.
    #[inline(always)]
    pub fn read(&self) -> Result<[u64; N], Error> {
        match self.read_user() {
            Some(counts) => Ok(counts),
            None => self.read_by_system_call(),
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn read_by_system_call(&self) -> Result<[u64; N], Error> {
        Ok(self.reading_by_system_call()?.map(|reading| reading.value))
    }

    /// The counts, and how long the group was enabled and running until then, the same for all: what it
    /// takes to judge and [scale](Reading::scaled) a multiplexed group.
    ///
    /// Without a system call where the first event's page has a clock (`cap_user_time`) and the group
    /// its counters; otherwise by one `read(2)`.
    ///
    /// # Errors
    /// As [`read`](Group::read).
    pub fn reading(&self) -> Result<[Reading; N], Error> {
        self.reading_user_first::<false>()
    }

    /// The same without a system call, ever: None where it takes one. That is while the group has no
    /// counters, where the first event's page has no clock (`cap_user_time`; most virtual machines), and where
    /// user space may not read the counters.
    pub fn reading_user(&self) -> Option<[Reading; N]> {
        self.timed::<false>()
    }

    #[inline(always)]
    fn timed<const ORDERED: bool>(&self) -> Option<[Reading; N]> {
        let Snapshot { counts, time_enabled, time_running } =
            self.reader.snapshot::<ORDERED, true>()?;
        Some(counts.map(|value| Reading { value, time_enabled, time_running }))
    }

    fn reading_user_first<const ORDERED: bool>(&self) -> Result<[Reading; N], Error> {
        match self.timed::<ORDERED>() {
            Some(readings) => Ok(readings),
            None => self.reading_by_system_call(),
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn reading_by_system_call(&self) -> Result<[Reading; N], Error> {
        if self.events.process.is_past() {
            return Err(Error::Forked);
        }
        let mut words = [0; READ_WORDS];
        match sys::read(&self.events.opened.leader, &mut words) {
            Ok(0) => Err(Error::ErrorState),
            Ok(_) => {
                let [first, time_enabled, time_running, values @ ..] = words;
                if N == 1 {
                    return Ok([Reading { value: first, time_enabled, time_running }; N]);
                }
                let mut values = values.into_iter();
                Ok([(); N].map(|()| Reading {
                    value: values.next().unwrap_or(0), // N is no more than MOST
                    time_enabled,
                    time_running,
                }))
            }
            Err(errno) => Err(Error::of_call("read")(errno)),
        }
    }

    /// The PMU that the first event says it is of.
    pub(crate) fn pmu(&self) -> Option<u32> {
        core_types::of(self.events.events.first()?).ok()?
    }

    /// Whether user space reads it, whenever it has its counters.
    pub(crate) fn is_readable(&self) -> bool {
        self.events.obstacle.is_none()
    }

    /// Whether the group has had no counters yet, by the kernel's word.
    fn has_not_run(&self) -> Result<bool, Error> {
        match self.reading_by_system_call() {
            Ok(readings) => Ok(readings.iter().all(|reading| reading.time_running == 0)),
            Err(Error::ErrorState) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The same reads, ordered against the instructions around them.
    pub fn ordered(&self) -> Ordered<'_, Group<N>> {
        Ordered(self)
    }

    /// Measures pieces of code with these counters: see [`Region`]. No system call where they have
    /// counters at this moment.
    ///
    /// # Errors
    /// - [`Error::NotFromUserSpace`] where user space cannot read them, for another reason than that
    ///   they have no counter at this moment;
    /// - [`Error::FaultsNotContained`] on riscv64 and on machines with several core types, or where
    ///   there is no list of PMUs, before [`contain_faults`](crate::contain_faults);
    /// - [`Error::Unreadable`] where that list is there and cannot be read;
    /// - [`Error::Forked`] in the child of a fork.
    pub fn region(&self) -> Result<Region<'_, N>, Error> {
        if self.events.process.is_past() {
            return Err(Error::Forked);
        }
        match self.obstacle() {
            // They may have their counters when it comes to that; and widths may differ here.
            None | Some((_, NoUserAccess::NotScheduled)) => {}
            Some((_, NoUserAccess::Width { .. })) if self.events.obstacle.is_none() => {}
            Some((event, reason)) => {
                return Err(Error::NotFromUserSpace { event: named(event), reason });
            }
        }
        if !faults::are_contained() && (asm::STALE_READ_FAULTS || core_types::may_be_several()?) {
            return Err(Error::FaultsNotContained);
        }
        Ok(Region::new(&self.reader, &self.events.events))
    }

    /// Goes on counting. One system call (`PERF_EVENT_IOC_ENABLE`).
    ///
    /// # Errors
    /// [`Error::Forked`] in the child of a fork, [`Error::System`] for what no kernel is known to do.
    pub fn enable(&self) -> Result<(), Error> {
        self.control(Control::Enable)
    }

    /// Stops counting; the counts stay, and are then read by system call. One system call
    /// (`PERF_EVENT_IOC_DISABLE`).
    ///
    /// # Errors
    /// [`Error::Forked`] in the child of a fork, [`Error::System`] for what no kernel is known to do.
    pub fn disable(&self) -> Result<(), Error> {
        self.control(Control::Disable)
    }

    /// Sets the counts to 0; enabled and running time stay. One system call
    /// (`PERF_EVENT_IOC_RESET`), or three for counters that user space reads, which are stopped
    /// meanwhile.
    ///
    /// # Errors
    /// [`Error::Forked`] in the child of a fork, [`Error::System`] for what no kernel is known to do.
    pub fn reset(&self) -> Result<(), Error> {
        // Reset while counting, the kernel computes the page's `offset` from the register taken as
        // unsigned, and sign extension then leaves the count one whole range short: 2^32 on arm64
        // with 32-bit counters (seen with Linux 6.12), 2^48 on x86-64 (likewise). When it
        // schedules the event anew it gets it right.
        if self.events.process.is_past() {
            return Err(Error::Forked);
        }
        if !self.reader.is_scheduled() {
            self.control(Control::Reset)?;
            if !self.reader.is_scheduled() {
                return Ok(());
            }
            // It got a counter just now, before the reset or after: do it again.
        }
        self.control(Control::Disable)?;
        let result = self.control(Control::Reset);
        self.control(Control::Enable)?;
        result
    }

    fn control(&self, what: Control) -> Result<(), Error> {
        if self.events.process.is_past() {
            return Err(Error::Forked);
        }
        sys::control(&self.events.opened.leader, what).map_err(Error::of_call("ioctl"))
    }

    /// How these counters are read at this moment, and if not from user space, why.
    ///
    /// No system call if they are read from user space; otherwise it reads `/proc` or `/sys`, and asks the
    /// kernel whether a group without counters is in error state. That
    /// access was revoked while they are open, it knows only after
    /// [`contain_faults`](crate::contain_faults): to find out takes a read.
    pub fn access(&self) -> Access {
        if self.events.process.is_past() {
            return Access::Forked;
        }
        // `read` says this before all else.
        if !self.reader.is_scheduled() && self.is_in_error_state() {
            return Access::SystemCall(NoUserAccess::ErrorState);
        }
        match self.obstacle() {
            None => Access::UserSpace,
            Some((_, reason)) => Access::SystemCall(reason),
        }
    }

    /// Returns what [`access`](Group::access) does as far as this process's memory tells. Reads no setting and no
    /// counter, and makes no system call.
    pub(crate) fn access_in_memory(&self) -> Access {
        if self.events.process.is_past() {
            return Access::Forked;
        }
        match &self.events.obstacle {
            Some((_, reason)) => Access::SystemCall(reason.clone()),
            None if self.reader.is_scheduled() => Access::UserSpace,
            None => Access::SystemCall(NoUserAccess::NotScheduled),
        }
    }

    /// What keeps user space from reading at this moment, and of which event.
    fn obstacle(&self) -> Option<(Event, NoUserAccess)> {
        if let Some(obstacle) = &self.events.obstacle {
            return Some(obstacle.clone());
        }
        let leader = self.events.events.first().copied()?;
        if self.reader.is_scheduled() {
            let is_other =
                |width: &u16| N > 1 && asm::WIDTH_IN_A_GROUP.is_some_and(|needed| needed != *width);
            let mut widths = self.events.events.into_iter().zip(self.reader.widths());
            if let Some((event, bits)) = widths.find(|(_, width)| is_other(width)) {
                return Some((event, NoUserAccess::Width { bits }));
            }
            // The page goes on to say yes when access is revoked. Nothing else has a read fail
            // while the kernel leaves the page alone, as it does sooner or later.
            let is_refused = || {
                loop {
                    let locks = self.reader.locks();
                    let is_none = self.reader.counts::<false>().is_none();
                    let is_scheduled = self.reader.is_scheduled();
                    if self.reader.locks() == locks {
                        return is_none && is_scheduled;
                    }
                }
            };
            if !faults::are_contained() || !is_refused() {
                return None;
            }
            return Some(self.switched_off().unwrap_or((leader, NoUserAccess::Refused)));
        }
        let off = self.switched_off();
        Some(match off {
            Some(off) => off,
            // Where the page cannot say that the kernel is too old, a missing setting does.
            None if !asm::FIXED_WHEN_MAPPED && machine::lacks_user_access() => {
                (leader, NoUserAccess::NotOffered)
            }
            // Or in error state, which a region does not ask.
            None => (leader, NoUserAccess::NotScheduled),
        })
    }

    /// Whether it is pinned, and has lost its counters for good: only the kernel knows.
    fn is_in_error_state(&self) -> bool {
        matches!(self.reading_by_system_call(), Err(Error::ErrorState))
    }

    /// The first event that the administrator's setting keeps from user space, if one.
    fn switched_off(&self) -> Option<(Event, NoUserAccess)> {
        self.events.events.into_iter().find_map(|event| Some((event, setting_that_forbids(event)?)))
    }

    /// The events that are counted.
    pub fn events(&self) -> [Event; N] {
        self.events.events
    }

    /// Whether all privilege levels are counted, of one event at least, because the PMU cannot tell
    /// them apart: only after [`allow_unfiltered`](Builder::allow_unfiltered).
    pub fn is_unfiltered(&self) -> bool {
        self.events.opened.unfiltered
    }
}

impl<'a, const N: usize> Ordered<'a, Group<N>> {
    /// As [`Group::read_user`]. One fence before all reads and one after.
    #[inline(always)]
    pub fn read_user(&self) -> Option<[u64; N]> {
        self.0.reader.counts::<true>()
    }

    /// As [`Group::read`].
    ///
    /// # Errors
    /// As [`Group::read`].
    #[inline(always)]
    pub fn read(&self) -> Result<[u64; N], Error> {
        match self.read_user() {
            Some(counts) => Ok(counts),
            None => self.0.read_by_system_call(),
        }
    }

    /// As [`Group::reading`]. The times are those of just before the fence.
    ///
    /// # Errors
    /// As [`Group::read`].
    pub fn reading(&self) -> Result<[Reading; N], Error> {
        self.0.reading_user_first::<true>()
    }

    /// As [`Group::reading_user`]. The times are those of just before the fence.
    pub fn reading_user(&self) -> Option<[Reading; N]> {
        self.0.timed::<true>()
    }

    /// As [`Group::region`], and [`Region::ordered`].
    ///
    /// # Errors
    /// As [`Group::region`].
    pub fn region(&self) -> Result<Region<'a, N, true>, Error> {
        Ok(self.0.region()?.ordered())
    }
}

impl<const N: usize> Builder<[Event; N]> {
    /// Opens the group: see [`Group::open`].
    pub fn open(self) -> Result<Group<N>, Error> {
        match core_types::of_group(&self.events)? {
            Some(pmu) => self.open_on(pmu),
            None => self.open_by_either_name(),
        }
    }

    /// The same, with those events that do not say which core type's PMU counts them on this one.
    pub(crate) fn open_on(self, pmu: u32) -> Result<Group<N>, Error> {
        self.of(core_types::on_pmu(self.events, pmu)?).open_by_either_name()
    }

    /// Older kernels do not know the newer way to say which PMU counts an event.
    fn open_by_either_name(self) -> Result<Group<N>, Error> {
        match self.of(self.events).open_as_it_is() {
            Err(refusal @ Error::EventNotSupported { .. }) => {
                match core_types::by_architecture(self.events)? {
                    Some(events) => self.of(events).open_as_it_is(),
                    None => Err(refusal),
                }
            }
            other => other,
        }
    }

    fn open_as_it_is(self) -> Result<Group<N>, Error> {
        // Before anything is opened: a signal handler may fork at any moment from here on, and what
        // the child makes of the parent's descriptors and pages is not to be used.
        let process = Process::current().map_err(Error::of_call("pthread_atfork"))?;
        let group = self.open_in(process);
        if process.is_past() { Err(Error::Forked) } else { group }
    }

    fn open_in(self, process: Process) -> Result<Group<N>, Error> {
        let what = self.events;
        let opened = self.options.open_events(&what)?;
        let (reader, obstacle) = match map_and_judge(&what, &opened, process)? {
            Ok(reader) => (reader, None),
            Err(obstacle) => (Reader::none(), Some(obstacle)),
        };
        let events = Box::new(OpenEvents { events: what, opened, obstacle, process });
        let group = Group { reader, events };
        if N > 1
            && !self.options.is_disabled()
            && !group.reader.is_scheduled()
            && group.has_not_run()?
        {
            // Perhaps it never will.
            self.options.check_that_they_fit(&what, group.events.opened.form)?;
        }
        Ok(group)
    }
}

impl<const N: usize> fmt::Debug for Group<N> {
    /// Its events, and how they are read as far as the control pages tell. No system call.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("events", &self.events.events)
            .field("access", &self.access_in_memory())
            .finish()
    }
}

/// Maps the pages of a group and judges whether they can be read: if not, why, and by which event.
///
/// # Errors
/// [`Error::Forked`] if this process is a fork of `process` by then.
fn map_and_judge<const N: usize>(
    events: &[Event; N],
    opened: &Opened,
    process: Process,
) -> Result<Result<Reader<N>, (Event, NoUserAccess)>, Error> {
    let [first, ..] = events.as_slice() else {
        return Ok(Err((Event::DUMMY, NoUserAccess::NotOffered)));
    };
    for &event in events {
        let obstacle = if event.is_software() {
            Some(NoUserAccess::SoftwareEvent)
        } else if event.is_not_in_its_register() {
            Some(NoUserAccess::NotInItsRegister)
        } else if !asm::FIXED_WHEN_MAPPED {
            // The page does not tell.
            setting_that_forbids(event)
        } else {
            None
        };
        if let Some(obstacle) = obstacle {
            return Ok(Err((event, obstacle)));
        }
    }
    let descriptors = std::iter::once(&opened.leader).chain(&opened.siblings);
    let pages = match Pages::map(descriptors, process) {
        Ok(pages) => pages.ok_or(Error::Forked)?,
        Err(errno) => return Ok(Err((*first, why_not_mapped(errno)))),
    };
    Ok(Reader::new(pages).map_err(|(place, obstacle)| {
        let event = events.get(place).copied().unwrap_or(*first);
        match obstacle {
            NoUserAccess::NotOffered => (event, setting_that_forbids(event).unwrap_or(obstacle)),
            obstacle => (event, obstacle),
        }
    }))
}

/// The administrator's setting, if that is why.
fn setting_that_forbids(event: Event) -> Option<NoUserAccess> {
    let (setting, value) = machine::user_access()?;
    // On riscv64, 2 lets everybody read the registers of cycles and instructions, all the time, and
    // nobody any other; the kernel publishes an index for others all the same.
    let fixed = matches!(event.bare(), Event::CYCLES | Event::INSTRUCTIONS);
    let off = value == 0 || (cfg!(target_arch = "riscv64") && value == 2 && !fixed);
    off.then_some(NoUserAccess::SwitchedOff { setting, value })
}
