//! A group of a size known only at run time.

use super::cost::ReadCost;
use super::group::Group;
use super::reading::Reading;
use crate::error::access::Access;
use crate::error::{OpenError, ReadError};
use crate::event::Event;
use crate::open::builder::Builder;
use crate::page::MAX_EVENTS;
use crate::page::monitor::Monitor;
use crate::region::Snapshot;
use std::fmt;
use std::ops::Deref;
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
pub struct DynGroup(BySize);

/// One group type for each number of events.
enum BySize {
    Of1(Group<1>),
    Of2(Group<2>),
    Of3(Group<3>),
    Of4(Group<4>),
    Of5(Group<5>),
    Of6(Group<6>),
    Of7(Group<7>),
    Of8(Group<8>),
}

/// Evaluates the expression for whichever group it is.
macro_rules! with_group {
    ($sized:expr, $group:ident => $value:expr) => {
        match $sized {
            BySize::Of1($group) => $value,
            BySize::Of2($group) => $value,
            BySize::Of3($group) => $value,
            BySize::Of4($group) => $value,
            BySize::Of5($group) => $value,
            BySize::Of6($group) => $value,
            BySize::Of7($group) => $value,
            BySize::Of8($group) => $value,
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

/// A value for each event of a [`DynGroup`] or [`SyscallGroup`](crate::SyscallGroup), in the events' order. Dereferences to a
/// slice.
#[derive(Clone, Copy)]
pub struct PerEvent<T> {
    values: [T; MAX_EVENTS],
    events: usize,
}

impl<T: Copy + Default> PerEvent<T> {
    fn of<const N: usize>(values: [T; N]) -> PerEvent<T> {
        let mut all = [T::default(); MAX_EVENTS];
        for (into, value) in all.iter_mut().zip(values) {
            *into = value;
        }
        PerEvent { values: all, events: N }
    }
}

impl<T: Copy> PerEvent<T> {
    /// The first values of a slice. `none` fills what is not used.
    pub(crate) fn of_slice(values: &[T], none: T) -> PerEvent<T> {
        let mut all = [none; MAX_EVENTS];
        for (into, value) in all.iter_mut().zip(values) {
            *into = *value;
        }
        PerEvent { values: all, events: values.len().min(MAX_EVENTS) }
    }

    /// Returns what `change` makes of each value.
    pub(crate) fn map<U>(self, change: impl FnMut(T) -> U) -> PerEvent<U> {
        PerEvent { values: self.values.map(change), events: self.events }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut().take(self.events)
    }
}

impl<T> Deref for PerEvent<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.values.get(..self.events).unwrap_or(&self.values)
    }
}

impl<T> IntoIterator for PerEvent<T> {
    type Item = T;
    type IntoIter = std::iter::Take<std::array::IntoIter<T, MAX_EVENTS>>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.into_iter().take(self.events)
    }
}

impl<'a, T> IntoIterator for &'a PerEvent<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: PartialEq> PartialEq for PerEvent<T> {
    fn eq(&self, other: &PerEvent<T>) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for PerEvent<T> {}

impl<T: fmt::Debug> fmt::Debug for PerEvent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl DynGroup {
    /// Opens counters of `events` for this thread: see [`Group::open`].
    ///
    /// # Errors
    /// As [`Group::open`], and [`OpenError::GroupSize`] if there are no events or more than 8.
    pub fn open(events: &[Event]) -> Result<DynGroup, OpenError> {
        DynGroup::builder(events).open()
    }

    /// Returns a builder, to choose privilege levels, pinning and more for all events before opening a group.
    pub fn builder(events: &[Event]) -> Builder<&[Event]> {
        Builder::new(events)
    }

    /// Passes the group, whose size is known then, to `code`: for regions, or a loop that is compiled for the number of
    /// events.
    pub fn with<W: WithGroup>(self, code: W) -> W::Output {
        with_group!(self.0, group => code.with(group))
    }

    /// Returns the counts, all of one instant, without a system call: see [`Group::read_user`].
    #[inline]
    pub fn read_user(&self) -> Option<PerEvent<u64>> {
        with_group!(&self.0, group => group.read_user().map(PerEvent::of))
    }

    /// Returns the counts of this instant as a plain value, without a system call: see [`Group::snapshot`]. Counts after
    /// those of the group's events are 0.
    #[inline]
    pub fn snapshot(&self) -> Option<Snapshot<MAX_EVENTS>> {
        with_group!(&self.0, group => group.snapshot().map(Snapshot::widened))
    }

    /// Returns the counts, by a system call if user space cannot read them: see [`Group::read`].
    ///
    /// # Errors
    /// As [`Group::read`].
    #[inline]
    pub fn read(&self) -> Result<PerEvent<u64>, ReadError> {
        with_group!(&self.0, group => group.read().map(PerEvent::of))
    }

    /// Returns the counts with their times: see [`Group::reading`].
    ///
    /// # Errors
    /// As [`Group::read`].
    pub fn reading(&self) -> Result<PerEvent<Reading>, ReadError> {
        with_group!(&self.0, group => group.reading().map(PerEvent::of))
    }

    /// Returns the counts with their times without a system call: see [`Group::reading_user`].
    pub fn reading_user(&self) -> Option<PerEvent<Reading>> {
        with_group!(&self.0, group => group.reading_user().map(PerEvent::of))
    }

    /// Returns the counts with their times, always by a system call: see [`Group::reading_by_system_call`].
    ///
    /// # Errors
    /// As [`Group::read`].
    pub fn reading_by_system_call(&self) -> Result<PerEvent<Reading>, ReadError> {
        with_group!(&self.0, group => group.reading_by_system_call().map(PerEvent::of))
    }

    /// Returns how long the group has been enabled but not scheduled: see [`Group::time_without_counters`].
    pub fn time_without_counters(&self) -> Option<Duration> {
        with_group!(&self.0, group => group.time_without_counters())
    }

    /// Continues counting: see [`Group::enable`].
    ///
    /// # Errors
    /// As [`Group::enable`].
    pub fn enable(&self) -> Result<(), ReadError> {
        with_group!(&self.0, group => group.enable())
    }

    /// Stops counting: see [`Group::disable`].
    ///
    /// # Errors
    /// As [`Group::enable`].
    pub fn disable(&self) -> Result<(), ReadError> {
        with_group!(&self.0, group => group.disable())
    }

    /// Sets the counts to 0: see [`Group::reset`].
    ///
    /// # Errors
    /// As [`Group::enable`].
    pub fn reset(&self) -> Result<(), ReadError> {
        with_group!(&self.0, group => group.reset())
    }

    /// Returns how these counters are read now: see [`Group::access`].
    pub fn access(&self) -> Access {
        with_group!(&self.0, group => group.access())
    }

    /// Returns the time that a read takes on this machine: see [`Group::read_cost`].
    pub fn read_cost(&self) -> ReadCost {
        with_group!(&self.0, group => group.read_cost())
    }

    /// Returns a view of this handle for other threads.
    pub fn monitor(&self) -> Monitor {
        with_group!(&self.0, group => group.monitor())
    }

    /// Reads in user space again after a read there faulted: see [`Group::retry_user`].
    ///
    /// # Errors
    /// As [`Group::retry_user`].
    pub fn retry_user(&mut self) -> Result<Access, ReadError> {
        with_group!(&mut self.0, group => group.retry_user())
    }

    /// Returns the events.
    pub fn events(&self) -> PerEvent<Event> {
        with_group!(&self.0, group => {
            PerEvent::of_slice(&group.events(), Event::DUMMY)
        })
    }

    /// Whether all privilege levels are counted: see [`Group::counts_all_privilege_levels`].
    pub fn counts_all_privilege_levels(&self) -> bool {
        with_group!(&self.0, group => group.counts_all_privilege_levels())
    }
}

impl fmt::Debug for DynGroup {
    /// Writes its events, and how they are read as far as the control pages tell. No system call.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynGroup")
            .field("events", &self.events())
            .field("access", &with_group!(&self.0, group => group.access_in_memory()))
            .finish()
    }
}

impl Builder<&[Event]> {
    /// Opens the group: see [`DynGroup::open`].
    ///
    /// # Errors
    /// As [`DynGroup::open`].
    pub fn open(self) -> Result<DynGroup, OpenError> {
        Ok(DynGroup(match *self.events {
            [a] => BySize::Of1(self.of([a]).open()?),
            [a, b] => BySize::Of2(self.of([a, b]).open()?),
            [a, b, c] => BySize::Of3(self.of([a, b, c]).open()?),
            [a, b, c, d] => BySize::Of4(self.of([a, b, c, d]).open()?),
            [a, b, c, d, e] => BySize::Of5(self.of([a, b, c, d, e]).open()?),
            [a, b, c, d, e, f] => BySize::Of6(self.of([a, b, c, d, e, f]).open()?),
            [a, b, c, d, e, f, g] => BySize::Of7(self.of([a, b, c, d, e, f, g]).open()?),
            [a, b, c, d, e, f, g, h] => BySize::Of8(self.of([a, b, c, d, e, f, g, h]).open()?),
            _ => return Err(OpenError::GroupSize { events: self.events.len() }),
        }))
    }
}
