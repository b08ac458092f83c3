//! What to count on a CPU, and how to compute the parts of it.

use super::error::TopdownError;
use super::family::{Counts, FAMILIES, Family, MAX_EVENTS};
use super::level1::{FEW_SLOTS, Level1};
use super::level2::Level2;
use super::this_cpu::{self, Core};
use crate::Table;
use rdpmc::{Counter, Event};
use std::hint::black_box;

/// The events to count on a CPU, and the arithmetic that turns their counts into parts of the slots.
///
/// For those who open the events themselves, for example beside others in one group:
///
/// ```no_run
/// use rdpmc::DynGroup;
/// use rdpmc_events::topdown::Formula;
///
/// let formula = Formula::of_this_cpu()?;
/// let group = DynGroup::open(formula.events())?;
/// let before = group.read()?;
/// // the code
/// let after = group.read()?;
/// let counts: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after.wrapping_sub(*before)).collect();
/// println!("{:?}", formula.level1(&counts));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Formula {
    family: &'static Family,
    table: Table,
    events: Vec<Event>,
    has_memory: bool,
    has_level2: bool,
    /// The PMU of the core type, if there are several types.
    pmu: Option<String>,
    /// Whether a core has two hardware threads that are in use.
    has_smt: bool,
}

impl Formula {
    /// Returns the formula of this CPU. On a CPU with several core types, it is that of the type on which this thread may run.
    ///
    /// Opens and closes the event of the slots if it needs a fixed counter. Where that is missing, as in a virtual machine, an event of
    /// a general-purpose counter takes its place.
    ///
    /// # Errors
    /// - [`TopdownError::NoEvents`] if this CPU has no events for it, and [`TopdownError::Name`] if the CPU is unknown.
    /// - [`TopdownError::SeveralCoreTypes`] if this thread may run on several types of core.
    pub fn of_this_cpu() -> Result<Formula, TopdownError> {
        let core = this_cpu::core()?;
        let family = family(&core)?;
        let named = family.events.iter().map(|name| core.event(name));
        let mut events = named.collect::<Result<Vec<Event>, TopdownError>>()?;
        if let (Some(slots), Some(other)) = (events.first_mut(), family.without_fixed) {
            if !counts(*slots) {
                *slots = core.event(other)?;
            }
        }
        Ok(Formula {
            family,
            table: core.table,
            events,
            has_memory: family.for_memory > 0,
            has_level2: false,
            pmu: core.pmu,
            has_smt: this_cpu::has_smt(),
        })
    }

    /// Returns the formula of the CPUs of a table, for counts of another machine. Counts of its events on a CPU with another table may mean
    /// something else. Its events name no PMU, and the slots' event needs a fixed counter where there is one. It takes it that a core has two
    /// hardware threads in use. None if these CPUs have no events for it.
    pub fn for_table(table: Table) -> Option<Formula> {
        let family = by_table(table)?;
        let events = family.events.iter().map(|name| table.event(name).ok()).collect::<Option<_>>();
        let has_memory = family.for_memory > 0;
        let events = events?;
        Some(Formula {
            family,
            table,
            events,
            has_memory,
            has_level2: false,
            pmu: None,
            has_smt: true,
        })
    }

    /// Returns the same without the memory's part of the back end, which may need fewer counters.
    #[must_use]
    pub fn without_memory(mut self) -> Formula {
        self.has_level2 = false;
        self.events.truncate(self.family.events.len() - self.family.for_memory);
        self.has_memory = false;
        self
    }

    /// Returns the same with the events of the second level, after those of the first. None if these CPUs have no events for it: it is known
    /// for Intel's P-cores from Golden Cove to Redwood Cove, and for AMD's Zen 4 to 6.
    ///
    /// Intel's are 8 events, which fit one group. AMD's are 11 events, for 6 counters: count them in turns, in groups of the same code, and
    /// give their means to [`level2_of_means`](Formula::level2_of_means).
    pub fn with_level2(&self) -> Option<Formula> {
        let second = self.family.second.filter(|_| self.has_memory && !self.has_level2)?;
        let core = Core { table: self.table, pmu: self.pmu.clone() };
        let mut formula = Formula { has_level2: true, ..self.clone() };
        for name in second.events {
            formula.events.push(core.event(name).ok()?);
        }
        Some(formula)
    }

    /// Returns the events to count: at most 7, and with the second level at most 11.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Whether this thread is restricted to the core type of the formula. True if there is one type, and for a formula
    /// [of a table](Formula::for_table).
    pub fn is_of_this_thread(&self) -> bool {
        self.pmu.is_none() || this_cpu::core().is_ok_and(|core| core.pmu == self.pmu)
    }

    /// Returns the names of the first level's events in the vendor's tables. The first one counts the slots, or cycles. Where it needs a fixed counter
    /// that is missing, [`events`](Formula::events) has another one in its place.
    pub fn names(&self) -> &'static [&'static str] {
        let without_memory = if self.has_memory { 0 } else { self.family.for_memory };
        self.family.events.get(..self.family.events.len() - without_memory).unwrap_or_default()
    }

    /// Returns the family of CPUs, for example `AMD Zen 4`.
    pub fn cpus(&self) -> &'static str {
        self.family.name
    }

    /// Returns the parts of the slots. `counts` has the count of each of [`events`](Formula::events), in their order. None if there
    /// were no slots, if there are not as many counts as events, or if a part is not a finite number.
    pub fn level1(&self, counts: &[u64]) -> Option<Level1> {
        let counts: Vec<f64> = counts.iter().map(|count| *count as f64).collect();
        Some(Level1 { few: FEW_SLOTS, ..self.level1_of_means(&counts)? })
    }

    /// Does the same with means of counts.
    pub fn level1_of_means(&self, counts: &[f64]) -> Option<Level1> {
        let (first, _) = self.padded(counts)?;
        self.family.level1(&first, self.has_memory, self.has_smt)
    }

    /// Returns the second level of the counts, by a formula [with it](Formula::with_level2). None as for [`level1`](Formula::level1).
    pub fn level2(&self, counts: &[u64]) -> Option<Level2> {
        let counts: Vec<f64> = counts.iter().map(|count| *count as f64).collect();
        let mut level2 = self.level2_of_means(&counts)?;
        level2.level1.few = FEW_SLOTS;
        Some(level2)
    }

    /// Does the same with means of counts.
    pub fn level2_of_means(&self, counts: &[f64]) -> Option<Level2> {
        let (first, second) = self.padded(counts).filter(|_| self.has_level2)?;
        self.family.level2(&first, &second, self.has_smt)
    }

    /// Returns the counts of the first level's events and of the second's. None if these are not as many as events.
    fn padded(&self, counts: &[f64]) -> Option<(Counts, Counts)> {
        let counts = Some(counts).filter(|counts| counts.len() == self.events.len())?;
        let (first, second) = counts.split_at(counts.len().min(self.names().len()));
        let pad = |counts: &[f64]| {
            let mut padded: Counts = [0.0; MAX_EVENTS];
            padded.get_mut(..counts.len())?.copy_from_slice(counts);
            Some(padded)
        };
        Some((pad(first)?, pad(second)?))
    }
}

fn by_table(table: Table) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.tables.contains(&table.name()))
}

fn family(core: &Core) -> Result<&'static Family, TopdownError> {
    let family =
        by_table(core.table).ok_or_else(|| TopdownError::NoEvents { cpu: core.table.name() })?;
    Ok(this_cpu::revised(family))
}

/// Whether an event can be opened here, and counts.
fn counts(event: Event) -> bool {
    let builder = Counter::builder(event).allow_all_privilege_levels(true);
    builder.open().is_ok_and(|counter| {
        // Some cycles.
        (0..1_000).for_each(|round| {
            black_box(round);
        });
        counter.read().is_ok_and(|count| count > 0)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Each name is in each table of its family, and each table exists.
    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn every_family_has_its_events() {
        for family in &FAMILIES {
            assert!(family.events.len() < MAX_EVENTS);
            for name in family.tables {
                let table = Table::named(name).unwrap_or_else(|| panic!("no table {name}"));
                for event in family.events.iter().chain(&family.without_fixed) {
                    assert!(table.event(event).is_ok(), "{name} has no {event}");
                }
                let formula = Formula::for_table(table).unwrap();
                assert_eq!(formula.cpus(), family.name);
                assert_eq!(formula.events().len(), family.events.len());
                assert_eq!(
                    formula.clone().without_memory().events().len(),
                    family.events.len() - family.for_memory
                );
            }
        }
        // Both levels, by name.
        for (name, events) in [("sapphirerapids", 8), ("zen4", 11), ("zen5", 11), ("zen6", 11)] {
            let formula = Formula::for_table(Table::named(name).unwrap()).unwrap();
            let both = formula.with_level2().unwrap_or_else(|| panic!("{name}"));
            assert_eq!(both.events().len(), events, "{name}");
            assert_eq!(both.names(), formula.names());
            assert!(
                both.with_level2().is_none() && formula.without_memory().with_level2().is_none()
            );
            let counts = vec![1_000; events];
            assert!(both.level2(&counts).is_some() && both.level1(&counts).is_some());
            assert!(both.level2(&vec![1_000; events - 1]).is_none());
        }
        assert!(
            Formula::for_table(Table::named("skylake").unwrap()).unwrap().with_level2().is_none()
        );
        for name in ["zen3", "haswell", "neoverse_n1", "elkhartlake"] {
            assert!(Formula::for_table(Table::named(name).unwrap()).is_none(), "{name}");
        }
    }

    /// A CPU that has such events and no family is left out on purpose.
    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn every_cpu_with_such_events_is_known() {
        let has = |table: &Table, name: &str| table.event(name).is_ok();
        let is_one = |table: &Table| {
            ["topdown.backend_bound_slots", "topdown_be_bound.all", "dispatch_stalls_1.be_stalls"]
                .iter()
                .any(|name| has(table, name))
        };
        let left_out: Vec<&str> = Table::all()
            .filter(|table| is_one(table) && Formula::for_table(*table).is_none())
            .map(|table| table.name())
            .collect();
        // Tremont, older than what is supported; and a core whose slots in a cycle are not published.
        assert_eq!(left_out, ["elkhartlake", "novalake_arcticwolf", "snowridgex"]);
    }

    #[test]
    fn counts_that_are_missing() {
        let formula = Formula::for_table(Table::named("icelake").unwrap()).unwrap();
        for counts in [&[][..], &[1], &[1, 1, 1], &[1; 5], &[1; 9], &[0; 4]] {
            assert_eq!(formula.level1(counts), None, "{counts:?}");
        }
        assert!(formula.level1(&[100, 50, 20, 10]).is_some());
        // Two reads of short code may disagree by some slots, and means may not.
        let contradicting = [80, 60, 50, 10];
        assert_eq!(formula.level1(&contradicting).unwrap().disagreement(), None);
        let means = contradicting.map(|count| count as f64);
        assert!(formula.level1_of_means(&means).unwrap().disagreement().is_some());
    }
}
