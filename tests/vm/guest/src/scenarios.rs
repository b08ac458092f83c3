//! What is shown on a real kernel, a file for each subject. Each scenario has a process of its own.

mod access;
mod counting;
mod interruption;
mod lifetime;
mod multiplexing;
mod refusals;

use crate::harness::{Facts, Scenario};
use rdpmc::{Counter, Error, Event};

pub fn all() -> Vec<Scenario> {
    [counting::ALL, interruption::ALL, access::ALL, multiplexing::ALL, lifetime::ALL, refusals::ALL]
        .into_iter()
        .flatten()
        .map(|&(name, run)| Scenario { name, run })
        .collect()
}

/// A scenario's name and body.
type Entry = (&'static str, fn(&Facts) -> crate::harness::Outcome);

/// Opens a counter as every scenario here does: unfiltered where the PMU cannot filter.
fn open(event: Event) -> Result<Counter, Error> {
    Counter::builder(event).allow_unfiltered(true).open()
}

/// Whether the machine has no PMU, on purpose.
fn has_no_pmu(facts: &Facts) -> bool {
    facts.say("pmu=none")
}

/// As many instruction counters as the PMU has registers for, all scheduled.
fn fill_the_pmu() -> Result<Vec<Counter>, Error> {
    let mut counters = Vec::new();
    loop {
        let counter = open(Event::INSTRUCTIONS)?;
        if counter.read_user().is_none() {
            return Ok(counters);
        }
        counters.push(counter);
    }
}
