//! Many samples of a short piece of code, and what they come to.

use crate::error::Disturbed;
use crate::overhead::SAMPLES as LEAST;
use crate::region::Region;
use std::hint::black_box;

/// What many runs of a piece of code cost: from [`Region::sample`] or
/// [`Region::sample_by_difference`].
///
/// ```
/// use rdpmc::{Event, Group};
/// use std::hint::black_box;
///
/// # fn main() -> Result<(), rdpmc::Error> {
/// # match Group::open([Event::CYCLES, Event::INSTRUCTIONS]) {
/// #     Ok(group) if group.read_user().is_some() => {
/// let samples = group.region()?.sample(1_000, || black_box("12345").parse::<u32>())?;
/// if let (Some([cycles, instructions]), Some([slow, _])) = (samples.median(), samples.quantile(0.9)) {
///     println!("{cycles} cycles (90%: {slow}), {instructions} instructions");
/// }
/// println!("{} samples, {} disturbed ones left out", samples.len(), samples.disturbed());
/// #     }
/// #     _ => {}
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Samples<const N: usize> {
    /// Of each counter by itself, in ascending order.
    counts: [Vec<u64>; N],
    /// Of the runs of one copy, in ascending order, to be taken off by quantiles; empty unless sampled by
    /// difference.
    less: [Vec<u64>; N],
    disturbed: usize,
}

impl<const N: usize, const ORDERED: bool> Region<'_, N, ORDERED> {
    /// Runs `code` so many times, each in a region of its own, and takes off the region's overhead: that
    /// of as many empty regions, and at least a hundred, measured in turn with these in the same loop, unless
    /// the region is [corrected](Region::corrected) already. Disturbed samples are left out and counted.
    ///
    /// What `code` returns is used up in a way that the compiler cannot see through, outside of the
    /// region. `code` may be too short to fill the processor: then what the region's reads hide of it
    /// or add to it is more than the code itself, and
    /// [`sample_by_difference`](Region::sample_by_difference) is better.
    ///
    /// Allocates before the first run and not until after the last, 8 bytes for each run and counter.
    ///
    /// # Errors
    /// Not one empty region was undisturbed, so that nothing is known of the overhead.
    #[inline(always)]
    pub fn sample<T>(
        &self,
        runs: usize,
        mut code: impl FnMut() -> T,
    ) -> Result<Samples<N>, Disturbed> {
        let region = self.uncorrected();
        let mut samples = Samples::with_room_for(runs);
        let mut overhead = Err(Disturbed::NoCounter);
        // The first ones run before the caches and predictors know them.
        for _ in runs..if self.overhead.is_none() { LEAST } else { 0 } {
            overhead = region.with_empty(overhead, region.measure(|| ()).1);
        }
        for _ in 0..runs {
            overhead = region.with_empty(overhead, region.measure(|| ()).1);
            let (value, counts) = region.measure(&mut code);
            black_box(value);
            samples.take(counts);
        }
        let overhead = match self.overhead {
            None => overhead?.minimum(),
            Some(known) => known,
        };
        for (counts, overhead) in samples.counts.iter_mut().zip(overhead) {
            counts.iter_mut().for_each(|count| *count = count.saturating_sub(overhead));
        }
        samples.sort();
        Ok(samples)
    }

    /// Runs `code` once in one region and twice in another, in turn, so many times, and reports the
    /// difference: each quantile of the runs of two less the same quantile of the runs of one, or 0
    /// if that is below it. What the region, the loop and the entry into the code cost is in both,
    /// and goes away. The least and the median are to be trusted; further out it is two tails that
    /// are compared.
    ///
    /// Where it matters that a single run waits for the one before, let it depend on it, by a
    /// variable that the closure keeps; otherwise the processor overlaps the two, as it would in a
    /// loop.
    ///
    /// Disturbed samples are left out and counted, one for each pair. Allocates before the first
    /// run and not until after the last, 16 bytes for each run and counter.
    pub fn sample_by_difference<T>(&self, runs: usize, mut code: impl FnMut() -> T) -> Samples<N> {
        let region = self.uncorrected();
        let mut samples = Samples::with_room_for(runs);
        samples.less = room_for(runs);
        for _ in 0..runs {
            let (value, one) = region.measure(|| black_box(code()));
            black_box(value);
            let (values, two) = region.measure(|| (black_box(code()), black_box(code())));
            black_box(values);
            match (one, two) {
                (Ok(one), Ok(two)) => {
                    samples.take(Ok(two));
                    push(&mut samples.less, one);
                }
                (Err(disturbed), _) | (_, Err(disturbed)) => samples.take(Err(disturbed)),
            }
        }
        samples.sort();
        samples
    }
}

/// A list for each counter. Of a number that no memory holds, it grows when it comes to that.
fn room_for<const N: usize>(runs: usize) -> [Vec<u64>; N] {
    [(); N].map(|()| {
        let mut counts = Vec::new();
        let _ = counts.try_reserve_exact(runs);
        counts
    })
}

fn push<const N: usize>(into: &mut [Vec<u64>; N], counts: [u64; N]) {
    for (into, count) in into.iter_mut().zip(counts) {
        into.push(count);
    }
}

impl<const N: usize> Samples<N> {
    fn with_room_for(runs: usize) -> Samples<N> {
        Samples { counts: room_for(runs), less: [(); N].map(|()| Vec::new()), disturbed: 0 }
    }

    fn take(&mut self, sample: Result<[u64; N], Disturbed>) {
        match sample {
            Ok(counts) => push(&mut self.counts, counts),
            Err(_) => self.disturbed += 1,
        }
    }

    fn sort(&mut self) {
        self.counts.iter_mut().chain(&mut self.less).for_each(|counts| counts.sort_unstable());
    }

    /// How many samples there are, without those disturbed.
    pub fn len(&self) -> usize {
        self.counts.first().map_or(0, Vec::len)
    }

    /// Whether every sample was disturbed, or none was taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many were disturbed, and left out.
    pub fn disturbed(&self) -> usize {
        self.disturbed
    }

    /// The least of each counter, for one run of the code; None if every sample was disturbed.
    pub fn minimum(&self) -> Option<[u64; N]> {
        self.quantile(0.0)
    }

    /// The median of each counter, for one run of the code, of an even number the upper one of the two in
    /// the middle; None if every sample was disturbed.
    pub fn median(&self) -> Option<[u64; N]> {
        self.quantile(0.5)
    }

    /// What this share of the samples does not exceed, of each counter by itself, for one run of
    /// the code: of 0.9, nine in ten are not above it ([by
    /// difference](Region::sample_by_difference), what this share of the runs of two does not
    /// exceed less the same of one). None if every sample was disturbed. Shares below 0, and what
    /// is no number, are taken for 0, and those above 1 for 1.
    pub fn quantile(&self, share: f64) -> Option<[u64; N]> {
        // A cast of what is no number is 0.
        let last = self.len().checked_sub(1)?;
        let place = (last as f64 * share.clamp(0.0, 1.0)).ceil() as usize;
        let mut quantile = [0; N];
        for (quantile, (counts, less)) in
            quantile.iter_mut().zip(self.counts.iter().zip(&self.less))
        {
            let less = less.get(place).copied().unwrap_or(0);
            *quantile = counts.get(place)?.saturating_sub(less);
        }
        Some(quantile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &[u64], less: &[u64]) -> Samples<1> {
        let mut samples =
            Samples { counts: [counts.to_vec()], less: [less.to_vec()], disturbed: 0 };
        samples.sort();
        samples
    }

    #[test]
    fn quantiles_are_what_so_many_do_not_exceed() {
        let ten = of(&[50, 10, 90, 30, 70, 20, 100, 40, 80, 60], &[]);
        assert_eq!((ten.len(), ten.is_empty(), ten.disturbed()), (10, false, 0));
        assert_eq!((ten.minimum(), ten.median()), (Some([10]), Some([60])));
        for (share, quantile) in [(0.0, 10), (0.1, 20), (0.9, 100), (0.85, 90), (1.0, 100)] {
            assert_eq!(ten.quantile(share), Some([quantile]), "{share}");
        }
        for (share, quantile) in [(-1.0, 10), (f64::NAN, 10), (7.0, 100), (f64::INFINITY, 100)] {
            assert_eq!(ten.quantile(share), Some([quantile]), "{share}");
        }
        let one = of(&[7], &[]);
        assert_eq!([one.minimum(), one.median(), one.quantile(1.0)], [Some([7]); 3]);
        assert_eq!(of(&[1, 9, 5], &[]).median(), Some([5]));
        let none = of(&[], &[]);
        assert!(none.is_empty());
        assert_eq!([none.minimum(), none.median(), none.quantile(1.0)], [None; 3]);
    }

    #[test]
    fn a_difference_is_that_of_the_same_quantiles_and_not_below_0() {
        let difference = of(&[30, 10, 20], &[1, 25, 3]);
        assert_eq!(difference.minimum(), Some([9]));
        assert_eq!(difference.median(), Some([17]));
        assert_eq!(difference.quantile(1.0), Some([5]));
        assert_eq!(of(&[3], &[4]).minimum(), Some([0]));
    }

    #[test]
    fn disturbed_samples_are_counted_and_left_out() {
        let mut samples = Samples::<2>::with_room_for(3);
        samples.take(Ok([1, 2]));
        samples.take(Err(Disturbed::NoCounter));
        samples.take(Ok([5, 0]));
        samples.sort();
        assert_eq!((samples.len(), samples.disturbed()), (2, 1));
        // Each counter by itself.
        assert_eq!(samples.minimum(), Some([1, 0]));
        assert_eq!(samples.quantile(1.0), Some([5, 2]));
    }
}
