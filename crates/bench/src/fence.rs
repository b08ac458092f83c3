//! The cost of the fence that ends a run where latency is measured.

use crate::code::{self, Loops, Mode, opaque};
use crate::estimate::{self, Estimate};
use crate::sample::Sample;

/// The number of codes that [`codes`] returns.
pub(crate) const CODES: usize = 3;

/// Returns the code from which the cost of a fence follows: a fence alone, a chain of multiplications with a fence after it,
/// and without.
pub(crate) fn codes() -> [Box<dyn Loops>; CODES] {
    [
        code::plain(Mode::Latency, || ()),
        code::plain(Mode::Latency, || multiplications(3)),
        code::chain(3, multiplications),
    ]
}

/// Eight multiplications, each of which waits for the one before.
fn multiplications(number: u64) -> u64 {
    (0..8).fold(opaque(number), |number, _| opaque(number.wrapping_mul(number)))
}

/// What a fence adds to a run, of the time or of the cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FenceCost {
    /// After a chain of multiplications: this is subtracted.
    pub(crate) after_a_chain: Estimate,
    /// Alone.
    pub(crate) alone: f64,
}

impl FenceCost {
    /// Returns the cost that the samples of [`codes`] show. None if one has none.
    pub(crate) fn of(
        [alone, fenced, chain]: [&[&Sample]; CODES],
        place: usize,
    ) -> Option<FenceCost> {
        let [alone, fenced, chain] =
            [alone, fenced, chain].map(|samples| estimate::speed(samples, place));
        let (alone, fenced, chain) = (alone?, fenced?, chain?);
        Some(FenceCost { after_a_chain: fenced.less(&chain), alone: alone.value })
    }

    /// Returns how far the cost depends on the code.
    pub(crate) fn range(&self) -> f64 {
        (self.alone - self.after_a_chain.value).abs()
    }
}
