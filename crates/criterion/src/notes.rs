//! Notes that are printed below criterion's reports.

use crate::meter::{Counts, Meter};
use rdpmc::pmu::Pmus;
use std::cell::Cell;
use std::io::{IsTerminal, Write};

/// The number of samples of a benchmark that are not exact, to be printed below its report.
///
/// criterion does not tell a measurement about benchmarks and reports, but its calls show them:
/// - `formatter`, after `to_f64` of all samples: it is about to print a report.
/// - `zero`: it has printed the report, and goes on to the next benchmark.
/// - `formatter` once more: it has printed the last report of a group.
#[derive(Debug, Default)]
pub(crate) struct SampleNotes {
    samples: Cell<u64>,
    estimates: Cell<u64>,
    incomplete: Cell<u64>,
    is_reported: Cell<bool>,
}

impl SampleNotes {
    pub(crate) fn take<const N: usize>(&self, sample: &Counts<N>) {
        self.samples.set(self.samples.get() + 1);
        self.estimates.set(self.estimates.get() + u64::from(sample.are_estimates()));
        self.incomplete.set(self.incomplete.get() + u64::from(sample.are_incomplete()));
    }

    /// Records that a report is about to be printed, if there is anything to report.
    pub(crate) fn report(&self) {
        self.is_reported.set(self.samples.get() > 0);
    }

    /// Prints the notes below a report that has been printed. Returns true if there is such a report.
    pub(crate) fn say<const N: usize>(&self, meter: &Meter<N>) -> bool {
        if !self.is_reported.take() {
            return false;
        }
        let samples = self.samples.take();
        let (estimates, incomplete) = (self.estimates.take(), self.incomplete.take());
        let error = meter.take_error();
        let events = meter.group().events().map(|event| Pmus::local().name_of(event)).join(", ");
        if estimates > 0 {
            let why = "the counters were not there, or not for user space, all the time";
            below("estimates:", &format!("{estimates} of {samples} samples of {events}: {why}"));
        }
        if incomplete > 0 {
            let why = error.map_or("there was no counter".into(), |error| error.to_string());
            below("incomplete:", &format!("{incomplete} of {samples} samples of {events}: {why}"));
        }
        true
    }
}

/// Prints a line below a report, in criterion's columns.
pub(crate) fn below(label: &str, text: &str) {
    // criterion may already show its next step on this line, which it would overwrite later.
    let mut terminal = std::io::stderr();
    if terminal.is_terminal() {
        let _ = terminal.write_all(b"\r\x1b[K");
    }
    let _ = writeln!(std::io::stdout(), "{label:>23} {text}");
}
