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

    /// Returns why each event that is not counted is missing, in the order of the events.
    pub fn missing(&self) -> impl Iterator<Item = &OpenError> {
        self.places.iter().filter_map(|place| place.as_ref().err())
    }

    /// Returns the group of the events that are counted.
    pub fn group(&self) -> &DynGroup {
        &self.group
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
        let mut missing = [const { None }; N];
        loop {
            let wanted: Vec<Event> = self
                .events
                .iter()
                .zip(&missing)
                .filter(|(_, missing)| missing.is_none())
                .map(|(event, _)| *event)
                .collect();
            match self.of(wanted.as_slice()).open() {
                Ok(group) => return Ok(AvailableGroup { group, places: places_of(missing) }),
                Err(error) => leave_out(&mut missing, &wanted, &self.events, error)?,
            }
        }
    }
}

/// Notes the event that the error is about as missing.
///
/// # Errors
/// The error, if it is not about one event, or if that was the last one.
fn leave_out<const N: usize>(
    missing: &mut [Option<OpenError>; N],
    wanted: &[Event],
    events: &[Event; N],
    error: OpenError,
) -> Result<(), OpenError> {
    let Some(refused) = error.event().map(|event| event.event()) else { return Err(error) };
    // Names of a core type's PMU are added when an event is opened.
    let is_refused = |event: &Event| *event == refused || event.bare() == refused.bare();
    let fits = match &error {
        OpenError::GroupTooLarge { fit, .. } => *fit,
        _ => 0,
    };
    // Of equal events, the first that does not fit.
    let Some(place) = (fits..wanted.len()).find(|place| wanted.get(*place).is_some_and(is_refused))
    else {
        return Err(error);
    };
    if wanted.len() == 1 {
        return Err(error);
    }
    let mut open = events.iter().zip(missing.iter_mut()).filter(|(_, missing)| missing.is_none());
    if let Some((_, slot)) = open.nth(place) {
        *slot = Some(error);
    }
    Ok(())
}

fn places_of<const N: usize>(missing: [Option<OpenError>; N]) -> [Result<usize, OpenError>; N] {
    let mut places = 0..N;
    missing.map(|missing| match missing {
        Some(error) => Err(error),
        None => Ok(places.next().unwrap_or(N)),
    })
}
