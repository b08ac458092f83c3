//! A group whose events are optional.

use super::dyn_group::DynGroup;
use super::reading::Reading;
use crate::error::access::Access;
use crate::error::{OpenError, ReadError};
use crate::event::Event;
use crate::open::builder::Builder;

/// Counters of those of `N` events that can be counted together, from
/// [`Group::open_available`](crate::Group::open_available).
///
/// ```
/// use rdpmc::{Event, Group};
///
/// # fn main() -> Result<(), rdpmc::Error> {
/// # let events = [Event::CYCLES, Event::CACHE_MISSES, Event::TASK_CLOCK];
/// # if Group::open_available(events).is_err() { return Ok(()) }
/// let group = Group::open_available([Event::CYCLES, Event::CACHE_MISSES, Event::TASK_CLOCK])?;
/// for why in group.missing() {
///     println!("{why}"); // for example, this VM has no PMU
/// }
/// let [cycles, cache_misses, nanoseconds] = group.read()?; // each is an Option
/// # let _ = (cycles, cache_misses, nanoseconds);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AvailableGroup<const N: usize> {
    group: DynGroup,
    /// For each event, its place in the group, or why it has none.
    places: [Result<usize, OpenError>; N],
}

impl<const N: usize> AvailableGroup<N> {
    /// Returns the counts, all of one instant, without a system call; None for each event that is
    /// [missing](AvailableGroup::missing).
    ///
    /// None as a whole while user space cannot read them: see [`Group::read_user`](crate::Group::read_user).
    pub fn read_user(&self) -> Option<[Option<u64>; N]> {
        self.group.read_user().map(|counts| self.of_each(&counts))
    }

    /// Returns the counts, by a system call if user space cannot read them; None for each event that is
    /// [missing](AvailableGroup::missing).
    ///
    /// # Errors
    /// As [`Group::read`](crate::Group::read).
    pub fn read(&self) -> Result<[Option<u64>; N], ReadError> {
        Ok(self.of_each(&self.group.read()?))
    }

    /// Returns the counts with their times: see [`Group::reading`](crate::Group::reading). None for each event that is
    /// [missing](AvailableGroup::missing).
    ///
    /// # Errors
    /// As [`Group::read`](crate::Group::read).
    pub fn reading(&self) -> Result<[Option<Reading>; N], ReadError> {
        Ok(self.of_each(&self.group.reading()?))
    }

    /// Returns the counts with their times without a system call: see
    /// [`Group::reading_user`](crate::Group::reading_user). None for each event that is
    /// [missing](AvailableGroup::missing), and as a whole as there.
    pub fn reading_user(&self) -> Option<[Option<Reading>; N]> {
        self.group.reading_user().map(|readings| self.of_each(&readings))
    }

    /// Returns why each event that is not counted is missing, in the order of the events.
    pub fn missing(&self) -> impl Iterator<Item = &OpenError> {
        self.places.iter().filter_map(|place| place.as_ref().err())
    }

    /// Returns the group of the events that are counted.
    pub fn group(&self) -> &DynGroup {
        &self.group
    }

    /// Reads in user space again after a read there faulted: see [`Group::retry_user`](crate::Group::retry_user).
    ///
    /// # Errors
    /// As [`Group::retry_user`](crate::Group::retry_user).
    pub fn retry_user(&mut self) -> Result<Access, ReadError> {
        self.group.retry_user()
    }

    /// Returns how the counters are read now: see [`Group::access`](crate::Group::access).
    pub fn access(&self) -> Access {
        self.group.access()
    }

    fn of_each<T: Copy>(&self, values: &[T]) -> [Option<T>; N] {
        let mut each = [None; N];
        for (value, place) in each.iter_mut().zip(&self.places) {
            *value = place.as_ref().ok().and_then(|place| values.get(*place).copied());
        }
        each
    }
}

impl<const N: usize> Builder<[Event; N]> {
    /// Opens those of the events that can be counted together: see
    /// [`Group::open_available`](crate::Group::open_available).
    ///
    /// # Errors
    /// As [`Group::open_available`](crate::Group::open_available).
    pub fn open_available(self) -> Result<AvailableGroup<N>, OpenError> {
        if let Ok(group) = self.of(self.events.as_slice()).open() {
            let mut places = 0..N;
            let places = [(); N].map(|()| Ok(places.next().unwrap_or(N)));
            return Ok(AvailableGroup { group, places });
        }
        // One more event at a time, so that a refusal is that of the last one, whatever its error says.
        let mut counted = Vec::with_capacity(N);
        let mut places = [const { Ok(0) }; N];
        for (event, place) in self.events.into_iter().zip(&mut places) {
            counted.push(event);
            *place = match self.of(counted.as_slice()).open() {
                Ok(_) => Ok(counted.len() - 1),
                Err(error) if error.is_of_the_process() => return Err(error),
                Err(error) => {
                    counted.pop();
                    Err(error)
                }
            };
        }
        if counted.is_empty() {
            // The most important event's reason.
            let first = places.into_iter().find_map(Result::err);
            return Err(first.unwrap_or(OpenError::GroupSize { events: N }));
        }
        let group = self.of(counted.as_slice()).open()?;
        Ok(AvailableGroup { group, places })
    }
}
