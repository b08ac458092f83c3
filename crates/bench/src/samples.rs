//! Samples of code in regions, with the cost of the region subtracted.

use rdpmc::Region;
use rdpmc::order::Order;
use rdpmc::region::Disturbed;
use std::hint::black_box;

/// The number of empty regions that are measured at least.
const EMPTY_REGIONS: usize = 100;

/// The counts of many runs of a piece of code, from [`sample`] or [`sample_by_difference`].
///
/// ```
/// use rdpmc::{Counter, Event};
/// use rdpmc_bench::sample;
///
/// # fn main() -> Result<(), rdpmc::Error> {
/// # match Counter::open(Event::CYCLES) {
/// #     Ok(counter) if counter.read_user().is_some() => {
/// let region = counter.ordered().region()?;
/// let samples = sample(&region, 1_000, || std::hint::black_box("12345").parse::<u32>())?;
/// println!("{:?} cycles, of {} samples", samples.median(), samples.len());
/// #     }
/// #     _ => {}
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Samples<const N: usize> {
    /// One list per counter, in ascending order.
    counts: [Vec<u64>; N],
    /// The single runs, one list per counter, in ascending order. Empty unless sampled by difference.
    single: [Vec<u64>; N],
    disturbed: usize,
}

/// Runs `code` `runs` times, each in a region of its own, and subtracts the cost of an empty region.
///
/// The cost is the minimum of as many empty regions, and at least a hundred, measured alternately in the same loop,
/// unless the region is [corrected](rdpmc::Region::corrected). Disturbed samples are left out and counted. The return
/// value of `code` is consumed opaquely, outside of the region.
///
/// If `code` is only a few instructions, its overlap with the surrounding reads can distort the result by more than the
/// code costs. Use [`sample_by_difference`] then.
///
/// Allocates before the first run and not again until after the last, 8 bytes for each run and counter.
///
/// # Errors
/// All empty regions were disturbed, so the overhead is unknown.
#[inline(always)]
pub fn sample<T, const N: usize, O: Order>(
    region: &Region<'_, N, O>,
    runs: usize,
    mut code: impl FnMut() -> T,
) -> Result<Samples<N>, Disturbed> {
    let known = region.overhead();
    let region = region.uncorrected();
    sample_with(
        runs,
        known,
        || region.measure(|| ()).1,
        || {
            let (value, counts) = region.measure(&mut code);
            black_box(value);
            counts
        },
    )
}

#[inline(always)]
fn sample_with<const N: usize>(
    runs: usize,
    known: Option<[u64; N]>,
    mut empty: impl FnMut() -> Result<[u64; N], Disturbed>,
    mut run: impl FnMut() -> Result<[u64; N], Disturbed>,
) -> Result<Samples<N>, Disturbed> {
    let mut samples = Samples::with_room_for(runs);
    let mut overhead = Err(Disturbed::NoCounter);
    // The first ones run before the caches and predictors know them.
    for _ in runs..if known.is_none() { EMPTY_REGIONS } else { 0 } {
        overhead = smaller(overhead, empty());
    }
    for _ in 0..runs {
        overhead = smaller(overhead, empty());
        samples.take(run());
    }
    let overhead = match known {
        None => overhead?,
        Some(known) => known,
    };
    for (counts, overhead) in samples.counts.iter_mut().zip(overhead) {
        counts.iter_mut().for_each(|count| *count = count.saturating_sub(overhead));
    }
    samples.sort();
    Ok(samples)
}

/// Returns the smaller of each count. Not inlined, so that none of its instructions are in the next region.
#[inline(never)]
fn smaller<const N: usize>(
    known: Result<[u64; N], Disturbed>,
    counts: Result<[u64; N], Disturbed>,
) -> Result<[u64; N], Disturbed> {
    match (known, counts) {
        (Ok(mut known), Ok(counts)) => {
            known.iter_mut().zip(counts).for_each(|(known, count)| *known = count.min(*known));
            Ok(known)
        }
        (Ok(known), Err(_)) => Ok(known),
        (Err(_), counts) => counts,
    }
}

/// Runs `code` once in one region and twice in another, alternately, `runs` times each, and subtracts the quantiles.
///
/// A quantile is that of the double runs minus that of the single runs, clamped at 0. The cost of the region, the loop
/// and the call cancels. Higher quantiles subtract one tail from another and mean little.
///
/// This measures throughput: independent runs overlap, as they would in a loop. To measure latency, make each run
/// depend on the previous one through a captured variable.
///
/// Disturbed pairs are left out and counted. Allocates before the first run and not again until after the last, 16
/// bytes for each run and counter.
pub fn sample_by_difference<T, const N: usize, O: Order>(
    region: &Region<'_, N, O>,
    runs: usize,
    mut code: impl FnMut() -> T,
) -> Samples<N> {
    let region = region.uncorrected();
    let mut samples = Samples::with_room_for(runs);
    samples.single = room_for(runs);
    for _ in 0..runs {
        let (value, one) = region.measure(|| black_box(code()));
        black_box(value);
        let (values, two) = region.measure(|| (black_box(code()), black_box(code())));
        black_box(values);
        samples.take_pair(one, two);
    }
    samples.sort();
    samples
}

/// An empty list for each counter. If there is no memory for all runs, it grows as needed.
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
        Samples { counts: room_for(runs), single: [(); N].map(|()| Vec::new()), disturbed: 0 }
    }

    fn take(&mut self, sample: Result<[u64; N], Disturbed>) {
        match sample {
            Ok(counts) => push(&mut self.counts, counts),
            Err(_) => self.disturbed += 1,
        }
    }

    fn take_pair(&mut self, one: Result<[u64; N], Disturbed>, two: Result<[u64; N], Disturbed>) {
        match (one, two) {
            (Ok(one), Ok(two)) => {
                self.take(Ok(two));
                push(&mut self.single, one);
            }
            (Err(disturbed), _) | (_, Err(disturbed)) => self.take(Err(disturbed)),
        }
    }

    fn sort(&mut self) {
        self.counts.iter_mut().chain(&mut self.single).for_each(|counts| counts.sort_unstable());
    }

    /// Returns the number of samples, without the disturbed ones.
    pub fn len(&self) -> usize {
        self.counts.first().map_or(0, Vec::len)
    }

    /// Whether every sample was disturbed, or none was taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of disturbed samples, which were left out.
    pub fn disturbed(&self) -> usize {
        self.disturbed
    }

    /// Returns the minimum of each counter, per run of the code. None if every sample was disturbed.
    pub fn min(&self) -> Option<[u64; N]> {
        self.quantile(0.0)
    }

    /// Returns the median of each counter, per run of the code; for an even number of samples the upper of the two in
    /// the middle. None if every sample was disturbed.
    pub fn median(&self) -> Option<[u64; N]> {
        self.quantile(0.5)
    }

    /// Returns the `q`-quantile of each counter, independently, per run of the code: `quantile(0.9)` is the 90th
    /// percentile. For [`sample_by_difference`], it is the `q`-quantile of the double runs minus that of the single
    /// runs.
    ///
    /// `q` is clamped to 0..=1, and NaN is treated as 0. None if every sample was disturbed.
    pub fn quantile(&self, q: f64) -> Option<[u64; N]> {
        let last = self.len().checked_sub(1)?;
        // NaN becomes 0 in the cast.
        let place = (last as f64 * q.clamp(0.0, 1.0)).ceil() as usize;
        let mut quantile = [0; N];
        for (quantile, (counts, single)) in
            quantile.iter_mut().zip(self.counts.iter().zip(&self.single))
        {
            let single = single.get(place).copied().unwrap_or(0);
            *quantile = counts.get(place)?.saturating_sub(single);
        }
        Some(quantile)
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;

    fn of(counts: &[u64], single: &[u64]) -> Samples<1> {
        let mut samples =
            Samples { counts: [counts.to_vec()], single: [single.to_vec()], disturbed: 0 };
        samples.sort();
        samples
    }

    #[test]
    fn quantiles_are_what_so_many_do_not_exceed() {
        let ten = of(&[50, 10, 90, 30, 70, 20, 100, 40, 80, 60], &[]);
        assert_eq!((ten.len(), ten.is_empty(), ten.disturbed()), (10, false, 0));
        assert_eq!((ten.min(), ten.median()), (Some([10]), Some([60])));
        for (share, quantile) in [(0.0, 10), (0.1, 20), (0.9, 100), (0.85, 90), (1.0, 100)] {
            assert_eq!(ten.quantile(share), Some([quantile]), "{share}");
        }
        for (share, quantile) in [(-1.0, 10), (f64::NAN, 10), (7.0, 100), (f64::INFINITY, 100)] {
            assert_eq!(ten.quantile(share), Some([quantile]), "{share}");
        }
        let one = of(&[7], &[]);
        assert_eq!([one.min(), one.median(), one.quantile(1.0)], [Some([7]); 3]);
        assert_eq!(of(&[1, 9, 5], &[]).median(), Some([5]));
        let none = of(&[], &[]);
        assert!(none.is_empty());
        assert_eq!([none.min(), none.median(), none.quantile(1.0)], [None; 3]);
    }

    #[test]
    fn a_difference_is_that_of_the_same_quantiles_and_not_below_0() {
        let difference = of(&[30, 10, 20], &[1, 25, 3]);
        assert_eq!(difference.min(), Some([9]));
        assert_eq!(difference.median(), Some([17]));
        assert_eq!(difference.quantile(1.0), Some([5]));
        assert_eq!(of(&[3], &[4]).min(), Some([0]));
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
        assert_eq!(samples.min(), Some([1, 0]));
        assert_eq!(samples.quantile(1.0), Some([5, 2]));
    }

    /// Counts of a region that costs 1 to 3, and is disturbed in every tenth run.
    #[test]
    fn the_overhead_is_subtracted() {
        let mut runs = 0_u64;
        let run = || {
            runs += 1;
            if runs % 10 == 0 { Err(Disturbed::Faulted) } else { Ok([20 + 1 + runs % 3]) }
        };
        let mut empties = 0_u64;
        let empty = || {
            empties += 1;
            if empties == 1 { Err(Disturbed::NoCounter) } else { Ok([1 + empties % 3]) }
        };
        let samples = sample_with(1_000, None, empty, run);
        let samples = samples.expect("one empty region was undisturbed");
        assert_eq!((samples.len(), samples.disturbed()), (900, 100));
        assert_eq!((samples.min(), samples.quantile(1.0)), (Some([20]), Some([22])));
        assert_eq!((runs, empties), (1_000, 1_000));
        // At least a hundred empty regions, and none if the overhead is known.
        let mut empties = 0;
        let few = sample_with(
            3,
            None,
            || {
                empties += 1;
                Ok([7])
            },
            || Ok([9]),
        );
        assert_eq!((few.map(|few| few.min()), empties), (Ok(Some([2])), 100));
        let corrected = sample_with(3, Some([4]), || Err(Disturbed::NoCounter), || Ok([9]));
        assert_eq!(corrected.map(|few| few.min()), Ok(Some([5])));
        let unknown = sample_with(3, None, || Err(Disturbed::Faulted), || Ok([9]));
        assert_eq!(unknown, Err(Disturbed::Faulted));
    }

    #[test]
    fn pairs_are_whole() {
        let mut samples = Samples::<1>::with_room_for(3);
        samples.take_pair(Ok([5]), Ok([12]));
        samples.take_pair(Err(Disturbed::Faulted), Ok([99]));
        samples.take_pair(Ok([6]), Err(Disturbed::Faulted));
        samples.sort();
        assert_eq!((samples.len(), samples.disturbed(), samples.min()), (1, 2, Some([7])));
    }
}
