//! How far a figure can be trusted, and why not further.

use std::fmt;

/// How far a figure can be trusted.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// All samples agree to the last unit, except for those that an interrupt or a context switch disturbed.
    Exact,
    /// The error is at most the [target](crate::Bench::target): by default 1 %, or half a count (0.1 ns for the time)
    /// if that is more.
    Stable,
    /// Runs or processes have different instructions, and the interval has all of them, with a margin. The gate compares such intervals.
    Range,
    /// The interval is wider than the target, or the figure is in doubt.
    Unstable(Cause),
}

/// Why a figure is unstable.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Cause {
    /// The counter did not move, although the code ran. If it counts instructions, all counts of its group are
    /// in doubt.
    DoesNotCount,
    /// The counters could be read for fewer than six samples, for example because another program pinned its events.
    Unreadable,
    /// A run costs less than the resolution: less than half a cycle or 0.1 ns, or the interval is wide and reaches 0.
    TooShort,
    /// Runs take paths of different lengths.
    SeveralPaths,
    /// The kernel switched the thread or moved a counter during more than a quarter of the samples. They are set aside,
    /// unless fewer than six others are left.
    #[non_exhaustive]
    ContextSwitches {
        /// The disturbed samples.
        samples: usize,
        /// All samples.
        of: usize,
    },
    /// Interrupts came during many samples, which were set aside: each adds an instruction, or runs kernel code.
    #[non_exhaustive]
    Interrupts {
        /// The interrupted samples.
        samples: usize,
        /// All samples.
        of: usize,
    },
    /// The CPU's frequency changed: cycles per nanosecond differ between samples.
    #[non_exhaustive]
    Frequency {
        /// The change in percent of the median: that of the 90th percentile, or between the two halves of the samples,
        /// whichever is more.
        percent: f64,
    },
    /// The events occurred in few samples only, so their mean is not well known. For example, one run in 10,000 faults.
    #[non_exhaustive]
    Rare {
        /// The samples with events.
        samples: usize,
        /// All samples.
        of: usize,
    },
    /// A few runs are much slower or faster, and change the mean: it is outside of the median's interval. If the code takes
    /// several paths by its instructions, they are the cause. If not, the mean differs from the median by more than 5 %, and
    /// the machine may be the cause as well. See [`Row::slow`](crate::Row::slow).
    #[non_exhaustive]
    HeavyTail {
        /// The mean, for one operation.
        mean: f64,
    },
    /// Other threads of the process worked, and their events are not among the counts. [`Bench::scope`](crate::Bench::scope) counts all
    /// threads.
    #[non_exhaustive]
    OtherThreads {
        /// Their part of the CPU time, in percent.
        percent: f64,
        /// Whether the figure is that of single-stepping, which counts this thread alone in each scope.
        is_stepped: bool,
    },
    /// The code waits for another thread, a device or a timer in most samples. Single-stepping does not count the work of others.
    #[non_exhaustive]
    Waits {
        /// The samples in which it waited.
        samples: usize,
        /// All samples.
        of: usize,
    },
    /// Fewer than six processes of this program could count it, so nobody knows whether it is the same in all of them. See
    /// [`Bench::processes`](crate::Bench::processes).
    #[non_exhaustive]
    FewProcesses {
        /// Those that did.
        processes: usize,
    },
    /// The rounds of different events counted different numbers of instructions, so their figures do not belong
    /// together.
    RoundsDisagree,
    /// The code's cost varies for no cause that the counters show: caches, neighbours on the core, a hypervisor.
    Varies,
}

impl Verdict {
    /// Returns the verdict on a figure that is computed from two others: the worse of theirs.
    pub(crate) fn and(self, other: Verdict) -> Verdict {
        match (self, other) {
            (Verdict::Unstable(cause), _) | (_, Verdict::Unstable(cause)) => {
                Verdict::Unstable(cause)
            }
            (Verdict::Exact, Verdict::Exact) => Verdict::Exact,
            (Verdict::Range, _) | (_, Verdict::Range) => Verdict::Range,
            _ => Verdict::Stable,
        }
    }

    /// Returns the verdict on a figure that was multiplied by `by`.
    pub(crate) fn scaled(self, by: f64) -> Verdict {
        match self {
            Verdict::Unstable(Cause::HeavyTail { mean }) => {
                Verdict::Unstable(Cause::HeavyTail { mean: mean * by })
            }
            other => other,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::DoesNotCount => {
                f.write_str("a counter stands still. Run `rdpmc-doctor`")
            }
            Cause::Unreadable => {
                f.write_str("the counters could not be read. Close other programs that count events, and measure no code that closes descriptors")
            }
            Cause::TooShort => f.write_str(
                "too short for the resolution. Run the code several times in the closure, and set `operations`",
            ),
            Cause::SeveralPaths => f.write_str("runs take paths of different lengths"),
            Cause::ContextSwitches { samples, of } => {
                write!(f, "context switches in {samples} of {of} samples. Use an idle CPU, unless the code waits")
            }
            Cause::Interrupts { samples, of } => {
                write!(f, "interrupts in {samples} of {of} samples. Use an idle CPU")
            }
            Cause::Frequency { percent } => {
                write!(f, "the CPU's frequency changed by {percent:.1} %. Compare cycles, or fix the frequency")
            }
            Cause::Rare { samples, of } => {
                write!(f, "rare events, in {samples} of {of} samples. Give the row more time")
            }
            Cause::HeavyTail { mean } => {
                write!(f, "the mean is {}, because some loops took much longer or shorter than the median. Use the mean if the code is the cause", with_digits(*mean))
            }
            Cause::OtherThreads { percent, is_stepped } => {
                write!(f, "other threads of the process had {percent:.1} % of the CPU time, and are not counted. ")?;
                f.write_str(match is_stepped {
                    true => "Single-stepping counts one thread, so a change of others would pass unnoticed. Measure their work in a row of its own",
                    false => "Count all with `bench.scope(Scope::Process)`, or end those that have nothing to do with this row",
                })
            }
            Cause::Waits { samples, of } => {
                write!(f, "the code waits for another thread, a device or a timer in {samples} of {of} samples, whose work is not stepped. Use the time, or count all threads with `bench.scope(Scope::Process)` on a machine with a PMU")
            }
            Cause::FewProcesses { processes } => {
                let s = if *processes == 1 { "" } else { "es" };
                write!(f, "it was counted in {processes} process{s}, and may differ in others. `bench.processes(1)` accepts one")
            }
            Cause::RoundsDisagree => {
                f.write_str("this round counted other instructions than the first, so the code varies")
            }
            Cause::Varies => f.write_str(
                "the cost varies, for example by caches or by a neighbour on the core. Give each row more time",
            ),
        }
    }
}

/// A number with four significant digits.
pub(crate) fn with_digits(number: f64) -> String {
    let whole = number.abs().max(1e-9).log10().floor() as i32;
    format!("{number:.*}", usize::try_from(3 - whole).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_of_one_operation() {
        let of_a_run = Verdict::Unstable(Cause::HeavyTail { mean: 500.0 });
        let of_one = Verdict::Unstable(Cause::HeavyTail { mean: 5.0 });
        assert_eq!(of_a_run.scaled(0.01), of_one);
        let others = [Verdict::Exact, Verdict::Range, Verdict::Unstable(Cause::Varies)];
        assert!(others.into_iter().all(|verdict| verdict.scaled(0.01) == verdict));
    }
}
