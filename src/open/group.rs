//! An open group: its descriptors, its pages, and how it is read. The handles add the number of events that their reads are
//! compiled for.

use super::cost::{self, ReadCost};
use super::events::{Counts, Opened};
use super::mapping::{Mapped, map_and_judge, setting_that_forbids};
use crate::asm;
use crate::error::access::Access;
use crate::error::{Error, ErrorKind, ReadError};
use crate::event::Event;
use crate::kernel::{Control, Errno, machine};
use crate::names::named;
use crate::page::Pages;
use crate::page::faults;
use crate::page::process::Process;
use crate::page::reader::{Repeat, View};
use crate::pmu::core_types;
use std::ops::Deref;

/// An open group: what reads need, and the rest. It is small, so that a struct that holds a handle keeps its own fields close.
#[repr(C)]
pub(crate) struct OpenGroup {
    /// What reads in user space read: the pages.
    user: View,
    /// What `read` reads: `user`, or nothing if it makes system calls.
    read: View,
    rest: Box<Rest>,
}

pub(crate) struct Rest {
    // Unmapped before the descriptors close: a mapping keeps an event alive, and its counter taken.
    pages: Pages,
    opened: Opened,
    pub(crate) events: Vec<Event>,
    path: Path,
    /// The settings that influence the cost of a read.
    cost_flags: u64,
    process: Process,
    repeat: Repeat,
}

impl Deref for OpenGroup {
    type Target = Rest;

    fn deref(&self) -> &Rest {
        &self.rest
    }
}

/// How the group is read while its events have counters.
#[derive(Debug)]
enum Path {
    /// In user space.
    UserSpace,
    /// By system call for this reason, although user space can.
    Chosen(Error),
    /// By system call, because user space cannot read this event.
    Never(Event, Error),
}

impl OpenGroup {
    /// Opens nothing: puts together what is open.
    pub(crate) fn new(
        events: Vec<Event>,
        opened: Opened,
        mapped: Mapped,
        cost_flags: u64,
        process: Process,
        repeat: Repeat,
    ) -> OpenGroup {
        let (pages, user, path) = match mapped {
            Ok((pages, view)) => (pages, view, Path::UserSpace),
            Err((event, why)) => (Pages::empty(), View::none(), Path::Never(event, why)),
        };
        let rest = Rest { pages, opened, events, path, cost_flags, process, repeat };
        OpenGroup { user, read: user, rest: Box::new(rest) }
    }

    /// Makes `read` make system calls, for this reason.
    pub(crate) fn choose_system_call(&mut self, why: Error) {
        if matches!(self.path, Path::UserSpace) {
            (self.rest.path, self.read) = (Path::Chosen(why), View::none());
        }
    }

    /// Returns what reads in user space read.
    #[inline(always)]
    pub(crate) fn user(&self) -> &View {
        &self.user
    }

    /// Returns what `read` reads.
    #[inline(always)]
    pub(crate) fn read(&self) -> &View {
        &self.read
    }

    /// Whether this process is a fork of the one that opened the group.
    pub(crate) fn is_forked(&self) -> bool {
        self.process.is_past()
    }

    /// The PMU that the first event names.
    pub(crate) fn pmu(&self) -> Option<u32> {
        core_types::pmu_type_of(self.events.first()?).ok()?
    }

    /// Whether user space reads it, whenever it has its counters.
    pub(crate) fn is_readable(&self) -> bool {
        !matches!(self.path, Path::Never(..))
    }

    /// Whether it has its counters now, as its pages tell.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.pages.are_scheduled()
    }

    /// Returns the total time without counters, in nanoseconds: see [`Pages::absence`].
    pub(crate) fn absence(&self) -> Option<u64> {
        self.pages.absence()
    }

    pub(crate) fn counts_all_privilege_levels(&self) -> bool {
        self.opened.counts_all_levels
    }

    /// Returns the cost of a read in this process, known or measured now.
    pub(crate) fn read_cost(&self) -> ReadCost {
        let mut user = |times| (self.repeat)(&self.user, times);
        cost::known_or_measured(&self.events, self.cost_flags, &self.opened, &mut user)
    }

    /// Returns the known cost of a read.
    pub(super) fn known_cost(&self) -> Option<ReadCost> {
        cost::known(&self.events, self.cost_flags)
    }

    /// Reads counts and times by system call.
    #[cold]
    #[inline(never)]
    pub(crate) fn counts_by_system_call(&self) -> Result<Counts, ReadError> {
        self.asked(Opened::read)
    }

    /// Reads count, enabled and running time of the only event by system call, in fewer instructions.
    pub(crate) fn count_by_system_call(&self) -> Result<[u64; 3], ReadError> {
        self.asked(Opened::read_one)
    }

    fn asked<T>(&self, read: fn(&Opened) -> Result<Option<T>, Errno>) -> Result<T, ReadError> {
        if self.process.is_past() {
            return Err(ReadError::Forked);
        }
        let counts = read(&self.opened).map_err(|errno| ReadError::of_call("read", errno))?;
        counts.ok_or(ReadError::ErrorState)
    }

    /// Reads in user space again: see [`Group::retry_user`](crate::Group::retry_user).
    /// Returns what still prevents it, if that is known. A copy of a view is of the old pages.
    pub(crate) fn retry_user(&mut self) -> Result<Option<Error>, ReadError> {
        if !self.pages.are_given_up() {
            return Ok(None);
        }
        if self.process.is_past() {
            return Err(ReadError::Forked);
        }
        self.opened.are_own().map_err(|_| ReadError::Closed)?;
        let (pages, view) = match map_and_judge(&self.events, &self.opened, self.process) {
            Ok(Ok(mapped)) => mapped,
            Ok(Err((_, why))) => return Ok(Some(why)),
            Err(_) => return Err(ReadError::Forked),
        };
        if pages.are_scheduled() {
            // The kernel has written the new page from what it last read of the register, taken as unsigned. When it
            // schedules the event again, the page is right: see `reset`.
            self.control(Control::Disable)?;
            self.control(Control::Enable)?;
        }
        // The views first: the old pages are unmapped when they are replaced.
        self.user = view;
        if matches!(self.path, Path::UserSpace) {
            self.read = view;
        }
        self.rest.pages = pages;
        Ok(None)
    }

    /// Returns how the counters are read after [`retry_user`](OpenGroup::retry_user), which has returned `obstacle`.
    pub(crate) fn access_after(&self, obstacle: Option<Error>) -> Access {
        obstacle.map_or_else(|| self.access(), Access::SystemCall)
    }

    /// Continues counting.
    pub(crate) fn enable(&self) -> Result<(), ReadError> {
        self.control(Control::Enable)
    }

    /// Stops counting.
    pub(crate) fn disable(&self) -> Result<(), ReadError> {
        self.control(Control::Disable)
    }

    /// Sets the counts to 0.
    pub(crate) fn reset(&self) -> Result<(), ReadError> {
        // If the event is reset while it counts, the kernel computes the page's `offset` from the register taken as
        // unsigned. Sign extension then leaves the count one whole range short: 2^32 on arm64 with 32-bit counters,
        // 2^48 on x86-64 (both seen with Linux 6.12). When the kernel schedules the event again, the offset is right.
        if self.process.is_past() {
            return Err(ReadError::Forked);
        }
        if !self.is_scheduled() {
            self.control(Control::Reset)?;
            if !self.is_scheduled() {
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
        if self.process.is_past() {
            return Err(ReadError::Forked);
        }
        self.opened.leader.control(request).map_err(|errno| ReadError::of_call("ioctl", errno))
    }

    /// Checks that a region can read the counters: see [`Group::region`](crate::Group::region).
    pub(crate) fn check_region(&self) -> Result<(), Error> {
        if self.process.is_past() {
            return Err(ReadError::Forked.into());
        }
        if let Some((event, why)) = self.obstacle() {
            match why.kind() {
                // They may have their counters when the region starts, and widths may differ here.
                ErrorKind::NotScheduled => {}
                ErrorKind::Width if self.is_readable() => {}
                _ => return Err(why_no_region(event, why)),
            }
        }
        let may_fault = asm::STALE_READ_FAULTS || core_types::may_be_several()?;
        if may_fault && !faults::faults_are_contained() {
            return Err(Error::new(
                ErrorKind::FaultsNotContained,
                "on this machine a counter may be gone when a region ends, and reading it then faults",
                "Call rdpmc::contain_faults() before making regions",
            ));
        }
        Ok(())
    }

    /// Returns how the counters are read now: see [`Group::access`](crate::Group::access).
    pub(crate) fn access(&self) -> Access {
        if self.process.is_past() {
            return Access::Forked;
        }
        // First, as `read` does.
        if !self.is_scheduled() {
            let counts = self.counts_by_system_call();
            if let Err(why @ (ReadError::ErrorState | ReadError::Closed)) = counts {
                return Access::SystemCall(why.into());
            }
        }
        match (self.obstacle(), &self.path) {
            (Some((_, why)), _) => Access::SystemCall(why),
            (None, Path::Chosen(why)) => Access::SystemCall(why.clone()),
            (None, _) => Access::UserSpace,
        }
    }

    /// Returns what [`access`](OpenGroup::access) does as far as this process's memory tells. Reads no setting and no
    /// counter, and makes no system call.
    pub(crate) fn access_in_memory(&self) -> Access {
        if self.process.is_past() {
            return Access::Forked;
        }
        match &self.path {
            Path::Never(_, why) => Access::SystemCall(why.clone()),
            _ if self.pages.are_given_up() => Access::SystemCall(refused()),
            _ if !self.is_scheduled() => Access::SystemCall(Error::not_scheduled()),
            Path::Chosen(why) => Access::SystemCall(why.clone()),
            Path::UserSpace => Access::UserSpace,
        }
    }

    /// Returns why user space cannot read now, and which event. None if it can.
    fn obstacle(&self) -> Option<(Event, Error)> {
        if let Path::Never(event, why) = &self.path {
            return Some((*event, why.clone()));
        }
        // The first event for which the administrator has disabled user access, or else the leader with this reason.
        let off_or = |why: fn() -> Error| {
            let off = |event: &Event| Some((*event, setting_that_forbids(*event)?));
            let leader = || Some((*self.events.first()?, why()));
            self.events.iter().find_map(off).or_else(leader)
        };
        if self.pages.are_given_up() {
            return off_or(refused);
        }
        if self.is_scheduled() {
            // One event may have any width.
            let needed = asm::WIDTH_IN_A_GROUP.filter(|_| self.events.len() > 1);
            let mut widths = self.events.iter().zip(self.pages.each().map(|page| page.width()));
            let other = widths.find(|(_, width)| needed.is_some_and(|needed| needed != *width));
            if let Some((event, bits)) = other {
                return Some((*event, Error::of_width(bits)));
            }
            if !faults::faults_are_contained() || !self.is_refused() {
                return None;
            }
            return off_or(refused);
        }
        // On riscv64, the page cannot tell that the kernel is too old. The missing setting can.
        if !asm::FIXED_WHEN_MAPPED && machine::lacks_user_access() {
            return off_or(Error::not_offered);
        }
        off_or(Error::not_scheduled) // or in error state, which a region does not ask
    }

    /// Whether a read fails although the pages name counters: user access was revoked. Nothing else makes it fail while
    /// the kernel leaves the pages alone. False if the kernel does not. A refused read has its page replaced by zeros.
    fn is_refused(&self) -> bool {
        let is_none = || (self.repeat)(&self.user, 1).is_none() && self.is_scheduled();
        self.pages.undisturbed(is_none).unwrap_or(false) || self.pages.are_given_up()
    }
}

fn refused() -> Error {
    Error::new(
        ErrorKind::Refused,
        "the CPU refused to read a counter that the kernel offers, for example because user access was disabled for a while",
        "Call retry_user(), or open the counter again",
    )
}

/// Makes the error of a region of an event that user space cannot read.
pub(crate) fn why_no_region(event: Event, why: Error) -> Error {
    let why = match why.kind() {
        ErrorKind::SoftwareEvent => Error::new(
            ErrorKind::SoftwareEvent,
            "a region reads its counters in user space, and the kernel counts {event} in software",
            "Take the difference of two reads, or choose a hardware event",
        ),
        _ => why.in_words(
            "a region reads its counters in user space, and {event} cannot be read there: {0}",
        ),
    };
    why.for_event(named(event)).of_kind(ErrorKind::UserReadUnavailable)
}
