//! The events that this CPU has by its vendor's names, and which of them can be opened.

use crate::text::Visible;
use rdpmc::Counter;
use rdpmc::pmu::Pmus;
use rdpmc_events::{EventError, Table, VendorEvent};
use std::fmt::{self, Write as _};

/// Events of this machine's CPU: see [`list_events`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventList {
    /// The tables of this CPU: one, or one for each type of core.
    pub tables: Vec<Table>,
    /// Each event, and the reason why it cannot be opened for user mode in this thread. None if it can. Ordered by table, then
    /// name.
    pub events: Vec<(VendorEvent, Option<String>)>,
    /// The events of this machine's other PMUs that have these words in their names. Ordered by PMU, then name.
    pub of_other_pmus: Vec<OtherEvent>,
}

/// An event of a PMU that is not the CPU's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtherEvent {
    /// The PMU and the event, as `power/energy-pkg/`.
    pub name: String,
    /// Whether its PMU counts for CPUs, so that no thread can have it.
    pub counts_for_cpus: bool,
}

/// Lists the events of this CPU whose name or description has all these words, and opens each one to see whether it can be
/// counted. All events for no words. Displays as lines of text.
///
/// # Errors
/// [`EventError::UnknownCpu`] if there is no table for this CPU.
pub fn list_events(words: &str) -> Result<EventList, EventError> {
    let tables = Table::local()?;
    let mut events = Vec::new();
    for known in rdpmc_events::search(words)? {
        // Without the event's name, so that `Display` can group equal causes.
        let why_not = Counter::open(known.event).err().map(|why| why.shared_cause());
        events.push((known, why_not));
    }
    Ok(EventList { tables, events, of_other_pmus: of_other_pmus(words) })
}

/// Returns the events of other PMUs whose names have all words.
fn of_other_pmus(words: &str) -> Vec<OtherEvent> {
    let words: Vec<String> = words.split_whitespace().map(str::to_ascii_lowercase).collect();
    let pmus = Pmus::local().all().unwrap_or_default();
    let events = pmus.iter().filter(|pmu| !pmu.is_core()).flat_map(|pmu| {
        pmu.events().iter().map(move |event| OtherEvent {
            name: format!("{}/{}/", pmu.name(), event.name),
            counts_for_cpus: pmu.counts_for_cpus(),
        })
    });
    let has_all = |event: &OtherEvent| {
        let name = event.name.to_ascii_lowercase();
        words.iter().all(|word| name.contains(word.as_str()))
    };
    events.filter(has_all).collect()
}

impl fmt::Display for EventList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.tables.iter().map(Table::name).collect();
        writeln!(f, "table {}, {} of its events", names.join(" and "), self.events.len())?;
        if self.events.is_empty() && self.of_other_pmus.is_empty() {
            return writeln!(
                f,
                "No event of this CPU has all of these words in its name or description. The kernel's own events are in the report of \
                 `rdpmc-doctor`"
            );
        }
        // With the PMU where the CPU has several core types.
        let written = |known: &VendorEvent| match &known.pmu {
            Some(pmu) => format!("{pmu}/{}/", known.name),
            None => known.name.clone(),
        };
        let width =
            self.events.iter().map(|(known, _)| written(known).len()).max().unwrap_or(0).min(40);
        for (known, why_not) in &self.events {
            let opens = if why_not.is_none() { "opens" } else { "-" };
            let text = known.description.as_deref().unwrap_or_default();
            writeln!(f, "{:width$}  {opens:5}  {text}", written(known))?;
        }
        // A reason that many have is said once.
        let mut reasons: Vec<(&str, usize)> = Vec::new();
        for reason in self.events.iter().filter_map(|(_, why_not)| why_not.as_deref()) {
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += 1,
                None => reasons.push((reason, 1)),
            }
        }
        for (reason, count) in reasons {
            writeln!(f, "{count} with - cannot be opened: {reason}")?;
        }
        for OtherEvent { name, counts_for_cpus } in &self.of_other_pmus {
            // Files may contain anything.
            write!(Visible(f), "{name:width$}  ")?;
            match counts_for_cpus {
                true => write!(
                    Visible(f),
                    "counts for CPUs, not for a thread: `perf stat -a -e {name}`"
                )?,
                false => f.write_str("of a PMU beside the CPU's")?,
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
