//! Whether this CPU shows where pipeline slots go.

use rdpmc::DynGroup;
use rdpmc::error::OpenError;
use rdpmc_topdown::Formula;
use std::fmt;

/// The events of the top-down method on this CPU: see `rdpmc-topdown`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Topdown {
    /// The family of CPUs.
    pub cpus: &'static str,
    /// The number of events that have to be counted at the same time.
    pub events: usize,
    /// The number of further events for the memory's part of the back end.
    pub events_for_memory: usize,
    /// Whether they can be counted together now, by opening and closing them, without those for memory.
    pub counted: Result<(), OpenError>,
}

impl Topdown {
    /// Returns those of this CPU, or why it has none.
    pub(crate) fn of_this_cpu() -> Result<Topdown, String> {
        let formula = Formula::of_this_cpu().map_err(|why| why.cause())?;
        let (cpus, all) = (formula.cpus(), formula.events().len());
        let formula = formula.without_memory();
        let events = formula.events();
        Ok(Topdown {
            cpus,
            events: events.len(),
            events_for_memory: all - events.len(),
            counted: DynGroup::open(events).map(drop),
        })
    }
}

impl fmt::Display for Topdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Topdown { cpus, events, events_for_memory, counted } = self;
        write!(f, "{cpus}: {events} events")?;
        if *events_for_memory > 0 {
            write!(f, ", and {events_for_memory} more for the memory's part")?;
        }
        match counted {
            Ok(()) => f.write_str(". They can be counted together"),
            Err(why) => write!(f, ". They cannot be counted: {}", why.cause()),
        }
    }
}
