//! The figures of one piece of code.

use crate::judging::estimate::Estimate;
use crate::judging::fence::Fence;
use crate::judging::slow::Slow;
use crate::judging::verdict::Verdict;
use crate::sampling::paths::{Path, Paths};
use rdpmc::Event;
use rdpmc_report::gate::STEPPED_INSTRUCTIONS;
use rdpmc_report::gate::bench_json::PARTS_OF_SLOTS;
use rdpmc_report::gate::functions::Functions;
use std::fmt;

/// What a figure measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Quantity {
    /// Nanoseconds.
    Time,
    /// The counts of an event.
    Event(Event),
    /// Instructions per cycle.
    InstructionsPerCycle,
    /// Instructions, counted by single-stepping where no counter counts them: see
    /// [`Bench::time_to_step`](crate::Bench::time_to_step).
    SteppedInstructions,
    /// Percent of the pipeline slots: those of operations that retired. See [`Bench::topdown`](crate::Bench#method.topdown), for
    /// this and those below.
    Retiring,
    /// Percent of the slots: those of discarded work.
    BadSpeculation,
    /// Percent of the slots: those for which the front end had no operation.
    FrontendBound,
    /// Percent of the slots: those for which the back end took none.
    BackendBound,
    /// Percent of the slots: the part of [`BackendBound`](Quantity::BackendBound) that waited for memory.
    MemoryBound,
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Time => f.write_str("ns"),
            Quantity::Event(event) => event.fmt(f),
            Quantity::InstructionsPerCycle => f.write_str("IPC"),
            Quantity::SteppedInstructions => f.write_str(STEPPED_INSTRUCTIONS),
            Quantity::Retiring => f.write_str(PARTS_OF_SLOTS[0]),
            Quantity::BadSpeculation => f.write_str(PARTS_OF_SLOTS[1]),
            Quantity::FrontendBound => f.write_str(PARTS_OF_SLOTS[2]),
            Quantity::BackendBound => f.write_str(PARTS_OF_SLOTS[3]),
            Quantity::MemoryBound => f.write_str(PARTS_OF_SLOTS[4]),
        }
    }
}

/// A figure: its value for one operation, and how far it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Figure {
    /// What it measures.
    pub quantity: Quantity,
    /// The value for one operation, with its interval.
    pub estimate: Estimate,
    /// How far it can be trusted.
    pub verdict: Verdict,
}

impl Figure {
    /// Returns the ratio to another figure. Its interval contains the true ratio in at least 90 % of cases. None unless
    /// the other's interval is above 0 and both are known.
    pub(crate) fn ratio_to(&self, other: &Figure, quantity: Quantity) -> Option<Figure> {
        let estimate = self.estimate.ratio_to(&other.estimate)?;
        let verdict = self.verdict.and(other.verdict);
        estimate.error().is_finite().then_some(Figure { quantity, estimate, verdict })
    }
}

/// The figures of one piece of code.
#[derive(Clone, Debug)]
pub struct Row {
    pub(crate) name: String,
    pub(crate) figures: Vec<Figure>,
    pub(crate) paths: Paths,
    /// What could not be measured in this row, and why.
    pub(crate) notes: Vec<String>,
    /// Why the instructions were not stepped. For the gate.
    pub(crate) not_stepped: Option<String>,
    /// The message of the code's panic.
    pub(crate) panicked: Option<String>,
    /// Where the stepped instructions are.
    pub(crate) functions: Option<Functions>,
    /// Why these are not known. None as well if nothing was to be stepped.
    pub(crate) no_functions: Option<String>,
    /// How many runs were stepped, in all processes.
    pub(crate) stepped_runs: u64,
    pub(crate) runs: u64,
    pub(crate) samples: usize,
    pub(crate) set_aside: usize,
    pub(crate) slow: Option<Slow>,
    pub(crate) fence: Option<Fence>,
    /// The time of an operation in each sample, in nanoseconds.
    pub(crate) times: Vec<f64>,
}

impl Row {
    pub(crate) fn empty(name: String) -> Row {
        Row {
            name,
            figures: Vec::new(),
            paths: Paths::default(),
            notes: Vec::new(),
            not_stepped: None,
            panicked: None,
            functions: None,
            no_functions: None,
            stepped_runs: 0,
            runs: 0,
            samples: 0,
            set_aside: 0,
            slow: None,
            fence: None,
            times: Vec::new(),
        }
    }

    /// Returns the row's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the figures: the time, then the events that could be counted, and instructions per cycle after the
    /// instructions.
    pub fn figures(&self) -> &[Figure] {
        &self.figures
    }

    /// Returns the figure of a quantity. None if it could not be measured.
    pub fn figure(&self, quantity: Quantity) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.quantity == quantity)
    }

    /// Returns the figure of an event. None if it could not be counted.
    pub fn event(&self, event: Event) -> Option<&Figure> {
        self.figure(Quantity::Event(event))
    }

    /// Returns the time of one operation in nanoseconds. None if there were no inputs.
    pub fn time(&self) -> Option<&Figure> {
        self.figure(Quantity::Time)
    }

    /// Returns the paths that single runs took, told apart by their instructions, the most frequent first. Several
    /// paths mean that the figures are averages over them. Paths of only one run are not listed.
    /// Empty if instructions could not be counted.
    pub fn paths(&self) -> &[Path] {
        &self.paths.found
    }

    /// Whether at least a tenth of the single runs took other paths than the most frequent one.
    pub fn takes_several_paths(&self) -> bool {
        self.paths.are_several
    }

    /// Returns the minimum of `k`, the number of turns in the short loops. Each sample draws a `k` of up to one and a half times the
    /// minimum, and its long loops have `2 k` turns.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Returns the message with which the code panicked. The row has no figures then. The gate ends with status 3.
    pub fn panicked(&self) -> Option<&str> {
        self.panicked.as_deref()
    }

    /// Returns how many runs of the code were stepped, in all [processes](crate::Bench::processes). A path that the code takes less often may be
    /// in none of them. 0 if none were stepped.
    pub fn stepped_runs(&self) -> u64 {
        self.stepped_runs
    }

    /// Returns where the instructions of an operation are, by functions, as one process has stepped them: the one whose count is nearest to
    /// the figure. Their sum is that count, which is the figure if it is [exact](crate::Verdict::Exact). None if nothing was stepped, or without
    /// the feature `functions`.
    pub fn functions(&self) -> Option<&Functions> {
        self.functions.as_ref()
    }

    /// Returns the number of samples behind the figures of the first round, including those set aside.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// Returns the time of one operation in each sample that was not set aside, in nanoseconds, in the order in which they were
    /// taken. A sample is a mean over [`runs`](Row::runs) or more runs, so single runs vary more. Empty if the time could not be measured.
    pub fn times(&self) -> &[f64] {
        &self.times
    }

    /// Returns how many of the samples were set aside, because of a context switch or an interrupt.
    pub fn set_aside(&self) -> usize {
        self.set_aside
    }

    /// Returns what is known of the fence after each operation. None unless
    /// [`latency`](crate::RowBuilder::latency) was measured.
    pub fn fence(&self) -> Option<&Fence> {
        self.fence.as_ref()
    }

    /// Returns the loops that took much longer than the others. None if they do not change the mean.
    pub fn slow(&self) -> Option<&Slow> {
        self.slow.as_ref()
    }
}
