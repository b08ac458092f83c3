//! The result: which part of the slots went where.

use std::fmt;

/// Where a pipeline slot went.
///
/// In each cycle, a core can start a fixed number of micro-operations: its pipeline slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// A micro-operation that retired used it.
    Retiring,
    /// A micro-operation that was later discarded used it, or the pipeline was recovering from that.
    BadSpeculation,
    /// The front end delivered no micro-operation.
    FrontendBound,
    /// The back end could not take one: a load, an execution unit or a buffer was missing.
    BackendBound,
}

impl Category {
    /// All, in the usual order.
    pub const ALL: [Category; 4] = [
        Category::Retiring,
        Category::BadSpeculation,
        Category::FrontendBound,
        Category::BackendBound,
    ];
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Category::Retiring => "retiring",
            Category::BadSpeculation => "bad speculation",
            Category::FrontendBound => "frontend bound",
            Category::BackendBound => "backend bound",
        })
    }
}

/// One part of the slots.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Part {
    /// The part of all slots: 0 to 1, if the counters agree.
    pub fraction: f64,
    /// The number of slots.
    pub slots: f64,
    /// The vendor's events that it is computed from, or `the remainder` of the slots. The fraction also rests on the event of all
    /// slots: the first of [`Formula::names`](super::Formula::names).
    pub rests_on: &'static str,
}

/// The first level of the top-down method: the parts of the slots.
///
/// `Display` writes percents: `retiring 41 %, bad speculation 3 %, frontend bound 20 %, backend bound 36 % (memory bound 30 %)`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Level1 {
    /// The number of slots.
    pub slots: f64,
    /// See [`Category::Retiring`].
    pub retiring: Part,
    /// See [`Category::BadSpeculation`].
    pub bad_speculation: Part,
    /// See [`Category::FrontendBound`].
    pub frontend_bound: Part,
    /// See [`Category::BackendBound`].
    pub backend_bound: Part,
    /// The part of `backend_bound` that waited for memory. The rest of it is core bound, in the method's words. None if the CPU has no events for it, or too few
    /// counters.
    pub memory_bound: Option<Part>,
    /// The slots that are in none of the four: 1 minus their fractions. 0 where one of them is computed as the remainder of the
    /// others. AMD's CPUs have those of the core's other hardware thread here.
    pub rest: f64,
    pub(crate) rest_is: Option<&'static str>,
    /// How many slots may disagree: those of two reads, and none of means.
    pub(crate) few: f64,
}

/// Smaller disagreements are not reported: counters are read one after the other.
const TOLERANCE: f64 = 0.01;
/// Nor are those of fewer slots in one difference of two reads: some ten cycles.
pub(crate) const FEW_SLOTS: f64 = 80.0;

impl Level1 {
    /// Returns the four parts with their categories.
    pub fn parts(&self) -> [(Category, Part); 4] {
        Category::ALL.map(|category| (category, self.part(category)))
    }

    /// Returns the part of a category.
    pub fn part(&self, category: Category) -> Part {
        match category {
            Category::Retiring => self.retiring,
            Category::BadSpeculation => self.bad_speculation,
            Category::FrontendBound => self.frontend_bound,
            Category::BackendBound => self.backend_bound,
        }
    }

    /// Returns what [`rest`](Level1::rest) is, if it is known and at least 0.5 % of the slots: on AMD's CPUs the core's other thread, if
    /// a core has two that are in use.
    pub fn rest_is(&self) -> Option<&'static str> {
        self.rest_is.filter(|_| self.rest >= 0.005)
    }

    /// Returns the category with the most slots.
    pub fn largest(&self) -> (Category, Part) {
        let first = (Category::Retiring, self.retiring);
        let larger = |most: (Category, Part), next: (Category, Part)| {
            if next.1.slots > most.1.slots { next } else { most }
        };
        self.parts().into_iter().fold(first, larger)
    }

    /// Returns why the counts disagree: a part is below 0, the four are not all slots, or memory bound is negative or exceeds backend bound. None if they
    /// agree to 1 % of the slots, or to 80 slots. Of [means](super::Formula::level1_of_means), they agree to 1 %.
    ///
    /// A remainder is below 0 if the other events counted more than all slots. A difference, if two events contradict each other.
    pub fn disagreement(&self) -> Option<String> {
        let tolerance = self.tolerance();
        let negative = self.parts().into_iter().find(|(_, part)| part.fraction < -tolerance);
        if let Some((category, Part { fraction, rests_on, .. })) = negative {
            let percent = fraction * 100.0;
            return Some(format!("{category} is {percent:.1} % of the slots, by {rests_on}"));
        }
        let sum = (1.0 - self.rest) * 100.0;
        if self.rest < -tolerance {
            return Some(format!("the four parts are {sum:.1} % of the slots"));
        }
        let memory = self.memory_bound.and_then(|memory| {
            self.is_no_part("memory bound", &memory, "backend bound", &self.backend_bound)
        });
        if memory.is_some() {
            return memory;
        }
        (self.rest > tolerance && self.rest_is.is_none())
            .then(|| format!("the four parts are only {sum:.1} % of the slots"))
    }
}

impl Level1 {
    fn tolerance(&self) -> f64 {
        TOLERANCE.max(self.few / self.slots)
    }

    /// Returns the disagreement of one half of a part: it is below 0, or more than the part.
    pub(super) fn is_no_part(
        &self,
        name: &str,
        half: &Part,
        of: &str,
        part: &Part,
    ) -> Option<String> {
        let tolerance = self.tolerance();
        let is_part = (-tolerance..=part.fraction + tolerance).contains(&half.fraction);
        let [half_percent, whole] = [half.fraction, part.fraction].map(|part| part * 100.0);
        let rests_on = half.rests_on;
        (!is_part).then(|| {
            format!(
                "{name} is {half_percent:.1} % of the slots, by {rests_on}, and {of} {whole:.1} %"
            )
        })
    }
}

impl fmt::Display for Level1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (category, part)) in self.parts().into_iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{category} {}", percent(part.fraction))?;
        }
        if let Some(memory) = self.memory_bound {
            write!(f, " (memory bound {})", percent(memory.fraction))?;
        }
        match self.rest_is() {
            Some(what) => write!(f, ", {what} {}", percent(self.rest)),
            None => Ok(()),
        }
    }
}

/// Whole percents, without a minus sign before 0.
pub(super) fn percent(fraction: f64) -> String {
    format!("{:.0} %", (fraction * 100.0).round() + 0.0)
}
