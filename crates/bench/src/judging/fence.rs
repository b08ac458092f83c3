//! The cost of the fence that ends a run where latency is measured.

use crate::judging::estimate::{self, Estimate, Turns};
use crate::sampling::code::{self, Loops, Mode, opaque};
use crate::sampling::sample::{Sample, Shape};
use std::hint::black_box;
use std::time::Duration;

/// The codes take at most this long each, however long a row takes.
pub(crate) const MAX_TIME: Duration = Duration::from_millis(20);

/// The number of codes that [`codes`] returns.
pub(crate) const CODES: usize = 7;

/// Returns the code from which the cost of a fence follows: a fence alone, and three pieces of code with a fence after each
/// and without. These are a chain of multiplications, the same with an input from memory, and stores.
///
/// Without a fence, each run waits for the one before. The first chain has the same instructions as with a fence, because their
/// difference is subtracted. The others are as short as they can be, because their differences are a bound.
pub(crate) fn codes() -> [Box<dyn Loops>; CODES] {
    [
        code::plain(Mode::Latency, || ()),
        code::plain(Mode::Latency, || multiplications(opaque(3))),
        code::chain(3, |number| {
            opaque(3);
            kept(multiplications(number))
        }),
        code::plain(Mode::Latency, || multiplications(black_box(3))),
        code::chain(3, |number| multiplications(black_box(number))),
        code::plain(Mode::Latency, || stores(3)),
        code::chain(3, stores),
    ]
}

/// Keeps a result as a row with a fence does, beside the next run.
#[inline(always)]
fn kept(result: u64) -> u64 {
    black_box(result);
    result
}

/// Eight multiplications, each of which waits for the one before. A call would be part of one loop and not of another.
#[inline(always)]
fn multiplications(number: u64) -> u64 {
    (0..8).fold(number, |number, _| opaque(number.wrapping_mul(number)))
}

/// Stores, and a load that waits for one of them.
#[inline(always)]
fn stores(number: u64) -> u64 {
    black_box([number; 8]).get(number as usize % 8).copied().unwrap_or(0)
}

/// The fence after each run, where latency is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fence {
    /// What was subtracted from the time of a run, in nanoseconds: the cost after a chain of multiplications.
    pub cost: f64,
    /// How much more or less the fence took after other code, in nanoseconds: the largest difference that was measured with
    /// several pieces of code, among them stores.
    pub range: f64,
}

/// What a fence adds to a run, of the time or of the cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FenceCost {
    /// After a chain of multiplications: this is subtracted.
    pub(crate) after_a_chain: Estimate,
    /// How far the cost after other code, or alone, is from it.
    range: f64,
    /// An empty turn with a fence.
    empty: f64,
}

impl FenceCost {
    /// Returns the cost that the samples of [`codes`] show. None if one has none.
    pub(crate) fn from_samples(
        samples: [&[&Sample]; CODES],
        place: usize,
        shape: &Shape,
    ) -> Option<FenceCost> {
        let speed = |samples: &[&Sample]| estimate::speed(samples, place, shape);
        let [alone, fenced, chain, others @ ..] = samples;
        let empty = Turns::from_samples(fenced, place, shape)?.empty(fenced)?;
        let after_a_chain = speed(fenced)?.less(&speed(chain)?);
        let mut range = (speed(alone)?.value - after_a_chain.value).abs();
        for pair in others.chunks_exact(2) {
            let [fenced, chain] = pair else { continue };
            let cost = speed(fenced)?.value - speed(chain)?.value;
            range = range.max((cost - after_a_chain.value).abs());
        }
        Some(FenceCost { after_a_chain, range, empty })
    }

    /// Returns what a fence adds in the loop of these samples. The loop's own instructions do not overlap with the fence, and
    /// other loops have others: an empty turn shows how much longer they take.
    pub(crate) fn in_loop_of(&self, samples: &[&Sample], place: usize, shape: &Shape) -> Estimate {
        let empty =
            Turns::from_samples(samples, place, shape).and_then(|turns| turns.empty(samples));
        let more = empty.map_or(0.0, |empty| empty - self.empty);
        let Estimate { value, low, high } = self.after_a_chain;
        Estimate { value: value + more, low: low + more, high: high + more }
    }

    /// Returns what is said of it below the table.
    pub(crate) fn as_note(&self, ns_per_tick: f64, scale: f64) -> Fence {
        let scale = ns_per_tick * scale;
        Fence { cost: self.after_a_chain.value * scale, range: self.range * scale }
    }
}
