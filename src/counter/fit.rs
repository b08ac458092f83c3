//! Which of several events can be counted together.

use crate::error::Error;
use crate::event::Event;
use crate::open::ReadBy;
use crate::open::builder::Builder;

/// Those of several events that can be counted together, from [`Builder::fit`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fit {
    /// The events that can be counted together, in their order. At least one.
    pub events: Vec<Event>,
    /// The other events, in their order, each with why it cannot be counted beside those before it. A group has at most 8.
    pub missing: Vec<(Event, Error)>,
}

impl Fit {
    /// Returns an event's place among the [`events`](Fit::events), and so among the counts of their group. None if it is
    /// missing. Of an event that was wanted twice, the first place.
    pub fn place(&self, event: Event) -> Option<usize> {
        self.events.iter().position(|counted| *counted == event)
    }
}

impl Builder<&[Event]> {
    /// Finds those of the events that can be counted together with these settings, and why the others cannot. The first
    /// events take precedence.
    ///
    /// ```
    /// use rdpmc::{DynGroup, Event};
    ///
    /// # fn main() -> Result<(), rdpmc::Error> {
    /// let wanted = [Event::CYCLES, Event::CACHE_MISSES, Event::TASK_CLOCK];
    /// # if DynGroup::builder(&wanted).fit().is_err() { return Ok(()) }
    /// let builder = DynGroup::builder(&wanted).pinned(true);
    /// let fit = builder.fit()?;
    /// for (event, why) in &fit.missing {
    ///     println!("without {event}: {why}"); // for example, this VM has no PMU
    /// }
    /// let group = builder.events(&fit.events).open()?;
    /// for (event, count) in fit.events.iter().zip(group.read()?) {
    ///     println!("{count} {event}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Opens and closes one group if all events fit, and otherwise one more for each event.
    ///
    /// # Errors
    /// Those of [`Group::open`](crate::Group::open), if none of the events can be counted: that of the first event, unless this
    /// process may open no events at all.
    pub fn fit(self) -> Result<Fit, Error> {
        // What a read costs does not matter here.
        let builder = self.read_by(ReadBy::UserSpace);
        let (mut events, mut missing) = (Vec::new(), Vec::new());
        if builder.open().is_ok() {
            events.extend_from_slice(self.events);
            return Ok(Fit { events, missing });
        }
        // One more event at a time, so that a refusal is that of the last one, whatever its error says.
        for &event in self.events {
            events.push(event);
            if let Err(error) = builder.events(&events).open() {
                events.pop();
                if events.is_empty() && error.is_of_the_process() {
                    return Err(error);
                }
                missing.push((event, error));
            }
        }
        if events.is_empty() {
            // The most important event's reason.
            let first = missing.into_iter().next().map(|(_, why)| why);
            return Err(first.unwrap_or_else(|| Error::of_group_size(0)));
        }
        Ok(Fit { events, missing })
    }
}
