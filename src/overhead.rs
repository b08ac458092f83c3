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
/// println!("at least {:?}, up to {:?} more", overhead.least(), overhead.spread());
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
    least: [u64; N],
    most: [u64; N],
}

/// Regions to be had from: enough for the least to be the least, and still only microseconds.
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
                (Ok(counts), Ok(Overhead { least, most })) => {
                    for (count, (least, most)) in counts.iter().zip(least.iter_mut().zip(most)) {
                        *least = (*least).min(*count);
                        *most = (*most).max(*count);
                    }
                }
                (Ok(counts), found) => *found = Ok(Overhead { least: counts, most: counts }),
                (Err(_), Ok(_)) => {}
                (Err(disturbed), found) => *found = Err(disturbed),
            }
        }
        found
    }

    /// The least that each counter counted.
    pub fn least(&self) -> [u64; N] {
        self.least
    }

    /// By how much the most exceeds the least. Not 0 for cycles: the first empty regions run before
    /// the processor's caches and predictors know them.
    pub fn spread(&self) -> [u64; N] {
        let mut spread = self.most;
        for (spread, least) in spread.iter_mut().zip(self.least) {
            *spread = spread.saturating_sub(least);
        }
        spread
    }
}
