//! What a reader has to know of a result: samples that are not exact, and the cost of reading that may be left in it.

use crate::meter::Counts;
use crate::units::Unit;
use rdpmc::error::ReadError;
use rdpmc_step::OtherThreads;
use std::cell::Cell;

/// The samples of a benchmark, as far as notes tell of them.
#[derive(Debug, Default)]
pub(crate) struct SampleNotes {
    /// The CPU time of other threads from its first iteration to its last sample.
    others: OtherThreads,
    /// Whether all threads are counted.
    is_of_process: bool,
    samples: Cell<u64>,
    /// The number of times that this thread waited, at the last sample, and the samples in which it did.
    waits: Cell<Option<i64>>,
    waited: Cell<u64>,
    estimates: Cell<u64>,
    incomplete: Cell<u64>,
}

impl SampleNotes {
    pub(crate) fn take<const N: usize>(&self, sample: &Counts<N>) {
        // Not at the ends of its intervals, which take no system call. The warm-up and the first sample are in no interval: threads that
        // criterion has used for the benchmark before may not sleep yet.
        self.others.end();
        self.others.begin();
        self.samples.set(self.samples.get() + 1);
        let waits = rdpmc_step::waits();
        let before = self.waits.replace(waits);
        self.waited.set(self.waited.get() + u64::from(before.is_some() && before != waits));
        self.estimates.set(self.estimates.get() + u64::from(sample.are_estimates()));
        self.incomplete.set(self.incomplete.get() + u64::from(sample.are_incomplete()));
    }

    /// Returns notes on counts of all threads of the process.
    pub(crate) fn of_process() -> SampleNotes {
        SampleNotes { is_of_process: true, ..SampleNotes::default() }
    }

    pub(crate) fn are_of_process(&self) -> bool {
        self.is_of_process
    }

    /// Returns the share of the CPU time that other threads had. None if they did not work.
    pub(crate) fn share_of_others(&self) -> Option<f64> {
        self.others.share()
    }

    /// Returns in how many percent of the samples the code waited. None if it did so in few.
    pub(crate) fn share_of_waits(&self) -> Option<f64> {
        let (waited, samples) = (self.waited.get(), self.samples.get());
        // Nothing is known of the first sample.
        (waited * 2 > samples).then(|| (waited as f64 / (samples - 1) as f64 * 100.0).min(100.0))
    }

    /// Returns the number of samples that are estimates, and of those that are incomplete.
    pub(crate) fn inexact(&self) -> (u64, u64) {
        (self.estimates.get(), self.incomplete.get())
    }

    /// Returns the notes, and begins another benchmark. `events` are the names of the events.
    pub(crate) fn lines(&self, events: &str, error: Option<ReadError>) -> Vec<String> {
        let samples = self.samples.take();
        self.waits.take();
        self.waited.take();
        let (estimates, incomplete) = (self.estimates.take(), self.incomplete.take());
        let mut lines = Vec::new();
        let share = self.others.take().filter(|_| !self.is_of_process && !events.is_empty());
        if let Some(share) = share {
            let percent = share * 100.0;
            lines.push(format!(
                "other threads: they had {percent:.1} % of the CPU time, and their {events} are not in the figures of this benchmark. \
                 Count all with `CountersOrTime::builder(...).scope(Scope::Process)`"
            ));
        }
        if estimates > 0 {
            let why = "the counters were not there, or not for user space, all the time";
            lines.push(format!("estimates: {estimates} of {samples} samples of {events}: {why}"));
        }
        if incomplete > 0 {
            let why = error.map_or("there was no counter".into(), |error| error.to_string());
            lines.push(format!("incomplete: {incomplete} of {samples} samples of {events}: {why}"));
        }
        lines
    }
}

/// The count of a benchmark, and how many times reading is part of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Batches {
    pub(crate) count: u64,
    pub(crate) batches: u64,
}

impl Batches {
    pub(crate) fn plus(self, count: u64, batches: u64) -> Batches {
        Batches {
            count: self.count.saturating_add(count),
            batches: self.batches.saturating_add(batches),
        }
    }

    /// Returns a note if reading may be a tenth of the count or more. `floor` is its remaining cost per batch.
    pub(crate) fn close_to(self, floor: u64, unit: &Unit, event: &str) -> Option<String> {
        let most = u128::from(floor) * u128::from(self.batches);
        if most == 0 || most.saturating_mul(10) < u128::from(self.count) {
            return None;
        }
        let floor = unit.plain(floor as f64);
        let share = match most.saturating_mul(100) / u128::from(self.count.max(1)) {
            percent if percent <= 100 => format!("{percent} % of this result"),
            _ => "more than this result".into(),
        };
        Some(format!(
            "floor: up to {floor} of each batch may be the cost of reading {event}, {share}. Use larger batches"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdpmc::Event;

    #[test]
    fn a_result_close_to_its_floor_says_so() {
        let cycles = Unit::for_event(Event::CYCLES);
        let of = |count, batches, floor| {
            Batches::default()
                .plus(count, batches)
                .close_to(floor, cycles, "cycles")
                .unwrap_or_default()
        };
        assert_eq!(of(1_400_000, 1_000, 14), "");
        assert_eq!(of(5_000, 0, 14), "");
        assert_eq!(of(0, 1_000, 0), "");
        let head = "of each batch may be the cost of reading cycles";
        let said = |share| format!("floor: up to 14 cycles {head}, {share}. Use larger batches");
        assert_eq!(of(140_000, 1_000, 14), said("10 % of this result"));
        assert_eq!(of(14_000, 1_000, 14), said("100 % of this result"));
        assert_eq!(of(9_000, 1_000, 14), said("more than this result"));
        assert_eq!(of(0, 1_000, 14), said("more than this result"));
        assert_eq!(of(u64::MAX, u64::MAX, u64::MAX), {
            let most = cycles.plain(u64::MAX as f64);
            format!("floor: up to {most} {head}, more than this result. Use larger batches")
        });
    }
}
