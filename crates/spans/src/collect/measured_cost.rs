//! The cost of spans and laps on a thread.

use crate::record::MAX_EVENTS;
use crate::sink::Costs;
use rdpmc::clock::Conversion;
use std::time::Duration;

/// The cost of spans and laps on a thread, in ticks and counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// The time that an empty span measures of itself.
    pub(crate) span_time: MeanTicks,
    /// The time that an empty span takes in all.
    pub(crate) span_whole: MeanTicks,
    /// The time of an empty lap that begins where another ends.
    pub(crate) lap_time: MeanTicks,
    /// The counts that an empty span has of itself.
    pub(crate) span: Amounts,
    /// What is subtracted from counts.
    pub(crate) subtracted: Costs,
}

/// A mean, as the sum of several durations in ticks.
///
/// A span takes less than a step of some tick counters (10 ns on AMD's CPUs, 40 ns on some of arm64). So a single duration
/// says nothing, and neither does a minimum or a median of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MeanTicks {
    pub(crate) sum: u64,
    pub(crate) samples: u32,
}

impl MeanTicks {
    /// Returns the mean. Zero without samples.
    pub(crate) fn duration(self, conversion: &Conversion) -> Duration {
        conversion.duration(self.sum).checked_div(self.samples).unwrap_or_default()
    }
}

/// The most samples of [`Amounts::from_samples`].
pub(crate) const MAX_SAMPLES: usize = 40;

/// The most frequent counts of several samples, or the lower quartile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amounts {
    pub(crate) counts: [u64; MAX_EVENTS],
    /// Whether most samples had this count, or half of them are as close to each other as a sixteenth of it.
    pub(crate) is_steady: [bool; MAX_EVENTS],
    /// The difference of the quartiles, 0 if most samples have one count.
    spread: [u64; MAX_EVENTS],
}

impl Default for Amounts {
    fn default() -> Amounts {
        Amounts { counts: [0; MAX_EVENTS], is_steady: [false; MAX_EVENTS], spread: [0; MAX_EVENTS] }
    }
}

impl Amounts {
    /// Returns those that are steady, and 0 for the others.
    pub(crate) fn steady(&self) -> [u64; MAX_EVENTS] {
        let mut counts = self.counts;
        for (count, is_steady) in counts.iter_mut().zip(self.is_steady) {
            if !is_steady {
                *count = 0;
            }
        }
        counts
    }

    pub(crate) fn from_samples(samples: &[[u64; MAX_EVENTS]]) -> Amounts {
        let mut amounts = Amounts::default();
        let places = amounts.counts.iter_mut().zip(&mut amounts.is_steady);
        for (place, ((count, is_steady), spread)) in places.zip(&mut amounts.spread).enumerate() {
            // Not a vector: a span in an allocator would be lost.
            let mut all = [0; MAX_SAMPLES];
            let of_place = samples.iter().filter_map(|counts| counts.get(place));
            all.iter_mut().zip(of_place).for_each(|(to, count)| *to = *count);
            let all = all.get_mut(..samples.len()).unwrap_or_default();
            all.sort_unstable();
            let quartile = |quarters: usize| all.get(all.len() * quarters / 4).copied();
            let (Some(low), Some(high)) = (quartile(1), quartile(3)) else { continue };
            // The most frequent count, if most samples have it: interrupts may have disturbed some.
            let same = |count: u64| all.iter().filter(|other| **other == count).count();
            let frequent =
                all.iter().rev().copied().max_by_key(|count| same(*count)).unwrap_or(low);
            let is_constant = same(frequent) * 2 >= all.len();
            *count = if is_constant { frequent } else { low };
            *spread = if is_constant { 0 } else { high - low };
            *is_steady = *spread <= low / 16;
        }
        amounts
    }

    /// Takes the first counts as steady: those of the pipeline slots. A part of the slots is a difference or a quotient of several counts,
    /// so all of them are subtracted. Where they vary, it is the lower quartile.
    pub(crate) fn together(mut self, first: usize) -> Amounts {
        self.is_steady.iter_mut().take(first).for_each(|is_steady| *is_steady = true);
        self
    }

    /// Returns the differences, which are steady if both are close enough for that.
    pub(crate) fn saturating_sub(mut self, other: &Amounts) -> Amounts {
        let counts = self.counts.iter_mut().zip(other.counts);
        let spreads = self.spread.iter_mut().zip(other.spread);
        let are_steady = self.is_steady.iter_mut().zip(other.is_steady);
        for (((count, less), (spread, more)), (is_steady, is_other)) in
            counts.zip(spreads).zip(are_steady)
        {
            *count = count.saturating_sub(less);
            *spread = spread.saturating_add(more);
            *is_steady &= is_other && *spread <= *count / 16;
        }
        self
    }
}
