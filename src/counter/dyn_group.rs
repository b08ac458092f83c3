//! A group of a size known only at run time.

use super::group::{Group, timed};
use super::per_event::PerEvent;
use super::reading::{Reading, readings_of};
use crate::error::access::Access;
use crate::error::{Error, ReadError};
use crate::event::Event;
use crate::open::builder::Builder;
use crate::open::cost::ReadCost;
use crate::open::{OpenGroup, open};
use crate::page::MAX_EVENTS;
use crate::page::reader::{Repeat, View};
use crate::region::Snapshot;
use std::fmt;
use std::time::Duration;

/// Counters of 1 to 8 events for the thread that opened them: a [`Group`] of a size known only at run time.
///
/// ```
/// use rdpmc::{DynGroup, Error, Event};
///
/// fn print_counts(names: &str) -> Result<(), Error> {
///     let events: Vec<Event> = names.split(' ').map(str::parse).collect::<Result<_, _>>()?;
///     let group = DynGroup::open(&events)?;
///     for (event, count) in group.events().into_iter().zip(group.read()?) {
///         println!("{count} {event}");
///     }
///     Ok(())
/// }
///
/// if let Err(why) = print_counts("cycles instructions branch-misses") {
///     println!("{why}");
/// }
/// ```
///
/// A read takes some instructions more than that of a [`Group`], to choose the code for the number of events. For
/// [regions](crate::Region), use a `Group`: [`DynGroup::with`] has it.
pub struct DynGroup(OpenGroup);

/// Evaluates the expression with `$n` as the constant that `$events` is. None for other numbers.
macro_rules! by_size {
    ($events:expr, $n:ident => $value:expr) => {
        by_size!($events, $n => $value; 1, 2, 3, 4, 5, 6, 7, 8)
    };
    ($events:expr, $n:ident => $value:expr; $($size:literal),*) => {
        match $events {
            $($size => {
                const $n: usize = $size;
                Some($value)
            })*
            _ => None,
        }
    };
}

/// Code that takes a group of any size, for [`DynGroup::with`].
pub trait WithGroup {
    /// What it returns.
    type Output;

    /// Takes the group.
    fn with<const N: usize>(self, group: Group<N>) -> Self::Output;
}

impl DynGroup {
    /// Opens counters of `events` for this thread: see [`Group::open`].
    ///
    /// # Errors
    /// As [`Group::open`], and [`ErrorKind::GroupSize`](crate::error::ErrorKind::GroupSize) if there are no events or more than 8.
    pub fn open(events: &[Event]) -> Result<DynGroup, Error> {
        DynGroup::builder(events).open()
    }

    /// Returns a builder, to choose privilege levels, pinning and more for all events before opening a group.
    pub fn builder(events: &[Event]) -> Builder<&[Event]> {
        Builder::new(events)
    }

    /// Passes the group, whose size is known then, to `code`: for regions, or a loop that is compiled for the number of
    /// events.
    pub fn with<W: WithGroup>(self, code: W) -> W::Output {
        let open = self.0;
        match open.events.len() {
            1 => code.with(Group::<1> { open }),
            2 => code.with(Group::<2> { open }),
            3 => code.with(Group::<3> { open }),
            4 => code.with(Group::<4> { open }),
            5 => code.with(Group::<5> { open }),
            6 => code.with(Group::<6> { open }),
            7 => code.with(Group::<7> { open }),
            _ => code.with(Group::<8> { open }),
        }
    }

    /// Returns the counts, all of one instant, without a system call: see [`Group::read_user`].
    pub fn read_user(&self) -> Option<PerEvent<u64>> {
        counts(self.0.user(), self.0.events.len())
    }

    /// Returns the counts of this instant as a plain value, without a system call: see [`Group::snapshot`]. Counts after
    /// those of the group's events are 0.
    pub fn snapshot(&self) -> Option<Snapshot<MAX_EVENTS>> {
        let view = self.0.user();
        by_size!(self.0.events.len(), N => Snapshot::<N>::take(view)?.widened())
    }

    /// Returns the counts, by a system call if user space cannot read them: see [`Group::read`].
    ///
    /// # Errors
    /// As [`Group::read`].
    pub fn read(&self) -> Result<PerEvent<u64>, ReadError> {
        match counts(self.0.read(), self.0.events.len()) {
            Some(counts) => Ok(counts),
            None => Ok(self.reading_by_system_call()?.map(|reading| reading.value)),
        }
    }

    /// Returns the counts with their times: see [`Group::reading`].
    ///
    /// # Errors
    /// As [`Group::read`].
    pub fn reading(&self) -> Result<PerEvent<Reading>, ReadError> {
        match readings(self.0.read(), self.0.events.len()) {
            Some(readings) => Ok(readings),
            None => self.reading_by_system_call(),
        }
    }

    /// Returns the counts with their times without a system call: see [`Group::reading_user`].
    pub fn reading_user(&self) -> Option<PerEvent<Reading>> {
        readings(self.0.user(), self.0.events.len())
    }

    /// Returns the counts with their times, always by a system call: see [`Group::reading_by_system_call`].
    ///
    /// # Errors
    /// As [`Group::read`].
    pub fn reading_by_system_call(&self) -> Result<PerEvent<Reading>, ReadError> {
        let readings = readings_of(self.0.counts_by_system_call()?);
        Ok(readings.take(self.0.events.len()).collect())
    }

    /// Returns how long the group has been enabled but not scheduled: see [`Group::time_without_counters`].
    pub fn time_without_counters(&self) -> Option<Duration> {
        self.0.absence().map(Duration::from_nanos)
    }

    /// Continues counting: see [`Group::enable`].
    ///
    /// # Errors
    /// As [`Group::enable`].
    pub fn enable(&self) -> Result<(), ReadError> {
        self.0.enable()
    }

    /// Stops counting: see [`Group::disable`].
    ///
    /// # Errors
    /// As [`Group::enable`].
    pub fn disable(&self) -> Result<(), ReadError> {
        self.0.disable()
    }

    /// Sets the counts to 0: see [`Group::reset`].
    ///
    /// # Errors
    /// As [`Group::enable`].
    pub fn reset(&self) -> Result<(), ReadError> {
        self.0.reset()
    }

    /// Returns how these counters are read now: see [`Group::access`].
    pub fn access(&self) -> Access {
        self.0.access()
    }

    /// Returns the time that a read takes on this machine: see [`Group::read_cost`].
    pub fn read_cost(&self) -> ReadCost {
        self.0.read_cost()
    }

    /// Reads in user space again after a read there faulted: see [`Group::retry_user`].
    ///
    /// # Errors
    /// As [`Group::retry_user`].
    pub fn retry_user(&mut self) -> Result<Access, ReadError> {
        let obstacle = self.0.retry_user()?;
        Ok(self.0.access_after(obstacle))
    }

    /// Returns the events.
    pub fn events(&self) -> PerEvent<Event> {
        PerEvent::of_slice(&self.0.events, Event::DUMMY)
    }

    /// Whether all privilege levels are counted: see [`Group::counts_all_privilege_levels`].
    pub fn counts_all_privilege_levels(&self) -> bool {
        self.0.counts_all_privilege_levels()
    }
}

fn counts(view: &View, events: usize) -> Option<PerEvent<u64>> {
    by_size!(events, N => PerEvent::from_array(view.counts::<N>()?))
}

fn readings(view: &View, events: usize) -> Option<PerEvent<Reading>> {
    by_size!(events, N => PerEvent::from_array(timed::<N>(view)?))
}

impl fmt::Debug for DynGroup {
    /// Writes its events, and how they are read as far as the control pages tell. No system call.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynGroup")
            .field("events", &self.0.events)
            .field("access", &self.0.access_in_memory())
            .finish()
    }
}

impl Builder<&[Event]> {
    /// Opens the group: see [`DynGroup::open`].
    ///
    /// # Errors
    /// As [`DynGroup::open`].
    pub fn open(self) -> Result<DynGroup, Error> {
        let events = self.events.len();
        let repeat = by_size!(events, N => View::repeat::<N> as Repeat);
        let repeat = repeat.ok_or_else(|| Error::of_group_size(events))?;
        Ok(DynGroup(open(self.events, self.options, None, repeat)?))
    }
}
