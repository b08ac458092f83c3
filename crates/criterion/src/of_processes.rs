//! The instructions of several processes that a counter has counted in each.

use crate::batches::Counted;
use rdpmc_report::gate::stepped::Process;
use rdpmc_report::gate::{Interval, Limits};

/// Returns how far below and above this process's count those of other processes may be. None if they are the same, or if counts differ
/// between the iterations of a process: then a difference between processes says nothing.
pub(crate) fn spread(own: &Counted, others: &[Counted]) -> Option<(f64, f64)> {
    let accepted = |process: &Process| Limits::usual("instructions") * process.run.median.abs();
    // With one iteration, it has what happens once.
    let is_steady = |counted: &&Counted| {
        let process = &counted.process;
        counted.iterations > 1 && process.run.high - process.run.low <= accepted(process)
    };
    let own = Some(own).filter(is_steady)?.process;
    let others: Vec<Process> = others.iter().filter(is_steady).map(|it| it.process).collect();
    let differs = |other: &Process| {
        let distance = (other.run.median - own.run.median).abs();
        distance > accepted(&own) + own.slack + other.slack
    };
    if !others.iter().any(differs) {
        return None;
    }
    let Interval { low, high, .. } = own.joined(&others);
    Some((own.run.median - low, high - own.run.median))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(low: f64, high: f64, iterations: u64) -> Counted {
        let run = Interval { low, median: (low + high) / 2.0, high };
        Counted { process: Process { run, slack: 0.0 }, iterations }
    }

    #[test]
    fn only_constants_of_a_process_are_compared() {
        let steady = |count: f64| counted(count, count, 7);
        let seven = |last: Counted| [vec![steady(620.0); 6], vec![last]].concat();
        assert_eq!(spread(&steady(620.0), &seven(steady(620.0))), None);
        assert_eq!(spread(&steady(620.0), &seven(steady(629.0))), Some((4.5, 13.5)));
        assert_eq!(spread(&steady(629.0), &seven(steady(629.0))), Some((13.5, 4.5)));
        // An interrupt in one batch.
        assert_eq!(spread(&steady(620.0), &seven(counted(620.0, 620.5, 7))), None);
        // A path that is longer in each fifth iteration of each process.
        let varies = counted(100.0, 400.0, 7);
        assert_eq!(spread(&varies, &[varies; 7]), None);
        assert_eq!(spread(&varies, &seven(steady(629.0))), None);
        // The first iteration did what happens once.
        assert_eq!(spread(&counted(629.0, 629.0, 1), &seven(steady(620.0))), None);
        assert_eq!(spread(&steady(620.0), &seven(counted(629.0, 629.0, 1))), None);
        // Less than the gate finds.
        assert_eq!(spread(&steady(6_200_000.0), &[steady(6_200_009.0); 7]), None);
        assert_eq!(spread(&steady(620.0), &[]), None);
    }
}
