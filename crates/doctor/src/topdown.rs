//! Whether this CPU shows where pipeline slots go.

use rdpmc::DynGroup;
use rdpmc::Error;
use rdpmc_events::topdown::{Formula, TopdownError};
use std::fmt;

/// The events of the top-down method on this CPU: see [`rdpmc_events::topdown`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Topdown {
    /// The family of CPUs.
    pub cpus: &'static str,
    /// The vendor's names of the events that have to be counted at the same time. The first one counts slots or cycles.
    pub events: Vec<&'static str>,
    /// Those of further events, for the memory's part of the back end.
    pub events_for_memory: Vec<&'static str>,
    /// Whether they can be counted together now, by opening and closing them, without those for memory.
    pub counted: Result<(), Error>,
}

impl Topdown {
    /// Returns those of this CPU, or why it has none.
    pub(crate) fn of_this_cpu() -> Result<Topdown, TopdownError> {
        let formula = Formula::of_this_cpu()?;
        let all = formula.names();
        let formula = formula.without_memory();
        let (events, for_memory) = all.split_at(formula.names().len());
        Ok(Topdown {
            cpus: formula.cpus(),
            events: events.to_vec(),
            events_for_memory: for_memory.to_vec(),
            counted: DynGroup::open(formula.events()).map(drop),
        })
    }
}

impl fmt::Display for Topdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Topdown { cpus, events, events_for_memory, counted } = self;
        write!(f, "{cpus}: {}", events.join(", "))?;
        if !events_for_memory.is_empty() {
            write!(f, ", and for the memory's part {}", events_for_memory.join(", "))?;
        }
        match counted {
            Ok(()) => write!(f, ". The {} events can be counted together", events.len()),
            Err(why) => {
                write!(
                    f,
                    ". The {} events cannot be counted together: {}",
                    events.len(),
                    why.shared_cause()
                )
            }
        }
    }
}
