//! The top-down method of `rdpmc-events`, which is optional.

use rdpmc::Event;
use std::fmt;

/// The events of the pipeline slots, and what makes a line of their counts.
pub(crate) struct Slots {
    pub(crate) events: Vec<Event>,
    pub(crate) line: Box<Line>,
}

pub(crate) type Line = dyn Fn(&[u64]) -> Option<String>;

impl Slots {
    /// Returns those of this CPU, or why there are none.
    #[cfg(feature = "topdown")]
    pub(crate) fn of_this_cpu() -> Result<Slots, String> {
        let formula = rdpmc_events::topdown::Formula::of_this_cpu();
        let formula = formula.map_err(|why| why.to_string())?.without_memory();
        let events = formula.events().to_vec();
        let line = move |counts: &[u64]| {
            let level1 = formula.level1(counts)?;
            Some(match level1.disagreement() {
                Some(why) => format!("{level1}. The counts disagree: {why}"),
                None => level1.to_string(),
            })
        };
        Ok(Slots { events, line: Box::new(line) })
    }

    #[cfg(not(feature = "topdown"))]
    pub(crate) fn of_this_cpu() -> Result<Slots, String> {
        Err("rdpmc-criterion was compiled without its feature `topdown`".into())
    }

    /// Returns the line of these counts. None if there were no slots.
    pub(crate) fn line(&self, counts: &[u64]) -> Option<String> {
        Some(format!("slots: {}", (self.line)(counts)?))
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slots").field(&self.events).finish()
    }
}
