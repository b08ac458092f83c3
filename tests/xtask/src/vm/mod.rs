//! Emulated machines: boots one under a stock Linux kernel and runs the guest program in it.

mod emulators;
mod guests;
mod machines;
mod results;
mod run;
mod tiers;

pub(crate) use run::{all_costs, run};

/// What the guest program does.
#[derive(Clone, PartialEq, Eq)]
enum Task {
    Tests,
    Only(String),
    Examples,
    Doctor,
    Names,
    Cost,
    /// The costs, and then the scenarios.
    Both,
    Criterion,
}

impl Task {
    /// The guest's word for it, also in the names of logs.
    fn name(&self) -> &'static str {
        match self {
            Task::Tests => "tests",
            Task::Only(_) => "only",
            Task::Examples => "examples",
            Task::Doctor => "doctor",
            Task::Names => "names",
            Task::Cost => "cost",
            Task::Both => "both",
            Task::Criterion => "criterion",
        }
    }

    /// Whether the guest runs all scenarios.
    fn has_scenarios(&self) -> bool {
        matches!(self, Task::Tests | Task::Both)
    }

    /// Whether the guest prints costs.
    fn has_costs(&self) -> bool {
        matches!(self, Task::Cost | Task::Both)
    }
}
