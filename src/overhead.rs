//! What measuring costs, as the counters themselves see it.

use crate::error::Disturbed;
use crate::region::Region;

/// The cost of an empty region: what its counters count of nothing. A plain value, to be kept
/// beside the counters it was measured with, for regions of the same kind.
///
/// ```
/// use rdpmc::{Event, Group, Overhead};
///
/// # fn main() -> Result<(), rdpmc::Error> {
/// # match Group::open([Event::CYCLES, Event::INSTRUCTIONS]) {
/// #     Ok(group) if group.read_user().is_some() => {
/// let region = group.region()?;
/// let overhead = Overhead::of(&region)?;
/// println!("at least {:?}, up to {:?} more", overhead.minimum(), overhead.spread());
/// let region = region.corrected(&overhead);
/// let (_, counts) = region.measure(|| ());
/// # let _ = counts;
/// #     }
/// #     _ => {}
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # What it can correct
///
/// Instructions, branches and the like, which are the same each time. What it cannot: the registers
/// that the compiler has to put away around the region, which depend on the code in it, and in cycles
/// what the processor makes of the region's edges, where it overlaps reading the counter with the
/// code. For these, compare one with two copies of the code:
/// [`Region::sample_by_difference`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overhead<const N: usize> {
    minimum: [u64; N],
    maximum: [u64; N],
}

/// How many empty regions are measured: enough to find the minimum, and still only microseconds.
const SAMPLES: usize = 100;

impl<const N: usize> Overhead<N> {
    /// Measures a hundred empty regions of this kind. No system call.
    ///
    /// # Errors
    /// All of them were disturbed, the last one so.
    pub fn of<const ORDERED: bool>(
        region: &Region<'_, N, ORDERED>,
    ) -> Result<Overhead<N>, Disturbed> {
        let region = region.uncorrected();
        let mut found: Result<Overhead<N>, Disturbed> = Err(Disturbed::NoCounter);
        for _ in 0..SAMPLES {
            match (region.measure(|| ()).1, &mut found) {
                (Ok(counts), Ok(Overhead { minimum, maximum })) => {
                    for (count, (minimum, maximum)) in
                        counts.iter().zip(minimum.iter_mut().zip(maximum))
                    {
                        *minimum = (*minimum).min(*count);
                        *maximum = (*maximum).max(*count);
                    }
                }
                (Ok(counts), found) => *found = Ok(Overhead { minimum: counts, maximum: counts }),
                (Err(_), Ok(_)) => {}
                (Err(disturbed), found) => *found = Err(disturbed),
            }
        }
        found
    }

    /// The least that each counter counted.
    pub fn minimum(&self) -> [u64; N] {
        self.minimum
    }

    /// By how much the most exceeds the least. Not 0 for cycles: the first empty regions run before
    /// the processor's caches and predictors know them.
    pub fn spread(&self) -> [u64; N] {
        let mut spread = self.maximum;
        for (spread, minimum) in spread.iter_mut().zip(self.minimum) {
            *spread = spread.saturating_sub(minimum);
        }
        spread
    }
}

impl<'a, const N: usize, const ORDERED: bool> Region<'a, N, ORDERED> {
    /// The same, with so much taken off each count from now on, though not below 0. It is for the
    /// overhead of this very kind of region, plain or ordered; a [`Region`] is made anew whenever
    /// one is needed, so keep the [`Overhead`] beside the counters.
    #[must_use = "this region is as it was"]
    pub fn corrected(self, overhead: &Overhead<N>) -> Region<'a, N, ORDERED> {
        Region { overhead: Some(overhead.minimum()), ..self }
    }

    pub(crate) fn is_corrected(&self) -> bool {
        self.overhead.is_some()
    }

    pub(crate) fn uncorrected(self) -> Region<'a, N, ORDERED> {
        Region { overhead: None, ..self }
    }
}
