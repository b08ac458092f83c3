//! The overhead of a region, as its own counters measure it.

use super::Region;
use crate::error::{Disturbed, RegionError};
use crate::event::Event;

/// The cost of an empty region, in the counts of its counters: a plain value, to be kept beside the counters.
///
/// It is valid for regions with these events, [fenced](Region::fenced) or not as the measured one. Other regions do not
/// accept it. (The events of a [`Counter`](crate::Counter) on several core types are those of the type that the thread was
/// on.)
///
/// ```
/// use rdpmc::region::Overhead;
/// use rdpmc::{Event, Group};
///
/// # fn main() -> Result<(), rdpmc::Error> {
/// # match Group::open([Event::CYCLES, Event::INSTRUCTIONS]) {
/// #     Ok(group) if group.read_user().is_some() => {
/// let region = group.region()?;
/// let overhead = Overhead::measure(&region)?;
/// println!("at least {:?}, up to {:?} more", overhead.minimum(), overhead.spread());
/// let region = region.corrected(&overhead)?;
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
/// It corrects instructions, branches and other counts that are equal in each run. Two effects remain:
/// - The compiler saves registers around the region. How many depends on the code in it.
/// - In cycles, the CPU overlaps the reads at the region's edges with the code.
///
/// For these, measure loops of the code with the crate `rdpmc-bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overhead<const N: usize> {
    events: [Event; N],
    minimum: [u64; N],
    maximum: [u64; N],
    is_fenced: bool,
}

/// The number of empty regions to measure: enough to find the minimum, in only microseconds.
const SAMPLES: usize = 100;

impl<const N: usize> Overhead<N> {
    /// Measures a hundred empty regions of this kind. No system call.
    ///
    /// It is inlined into its caller, because on an out-of-order CPU the instructions around a region contribute to
    /// its cost.
    ///
    /// # Errors
    /// The error of the last region, if all of them were disturbed. [`Disturbed::StandsStill`] if an event of
    /// [`INSTRUCTIONS`](Event::INSTRUCTIONS) counted none in any of them.
    #[inline(always)]
    pub fn measure<const FENCED: bool>(
        region: &Region<'_, N, FENCED>,
    ) -> Result<Overhead<N>, Disturbed> {
        let region = region.uncorrected();
        let mut found = Err(Disturbed::NoCounter);
        for _ in 0..SAMPLES {
            found = region.with_empty(found, region.measure(|| ()).1);
        }
        region.unless_it_stands_still(found)
    }

    /// Returns the minimum of each count.
    pub fn minimum(&self) -> [u64; N] {
        self.minimum
    }

    /// Returns the maximum minus the minimum of each count. Not 0 for cycles: the first empty regions run before the
    /// CPU's caches and predictors know them.
    pub fn spread(&self) -> [u64; N] {
        let mut spread = self.maximum;
        for (spread, minimum) in spread.iter_mut().zip(self.minimum) {
            *spread = spread.saturating_sub(minimum);
        }
        spread
    }
}

impl<'a, const N: usize, const FENCED: bool> Region<'a, N, FENCED> {
    /// Returns a region that subtracts this overhead from each count, clamped at 0. A [`Region`] is made whenever one
    /// is needed, so keep the [`Overhead`] beside the counters.
    ///
    /// # Errors
    /// [`RegionError::OtherOverhead`] if it was measured with other events, or of these two regions only one is
    /// [`fenced`](Region::fenced).
    pub fn corrected(self, overhead: &Overhead<N>) -> Result<Region<'a, N, FENCED>, RegionError> {
        if overhead.events != *self.events || overhead.is_fenced != FENCED {
            return Err(RegionError::OtherOverhead);
        }
        Ok(Region { overhead: Some(overhead.minimum), ..self })
    }

    /// Returns the overhead that the region subtracts from each count. None if it is not
    /// [corrected](Region::corrected).
    pub fn overhead(&self) -> Option<[u64; N]> {
        self.overhead
    }

    /// Returns the overhead that is known after one more empty region. Not inlined, so that none of its instructions
    /// are in the next region.
    #[inline(never)]
    fn with_empty(
        &self,
        known: Result<Overhead<N>, Disturbed>,
        empty: Result<[u64; N], Disturbed>,
    ) -> Result<Overhead<N>, Disturbed> {
        match (empty, known) {
            (Ok(counts), Ok(mut overhead)) => {
                let Overhead { minimum, maximum, .. } = &mut overhead;
                for (count, (minimum, maximum)) in
                    counts.iter().zip(minimum.iter_mut().zip(maximum))
                {
                    *minimum = (*minimum).min(*count);
                    *maximum = (*maximum).max(*count);
                }
                Ok(overhead)
            }
            (Ok(counts), Err(_)) => Ok(Overhead {
                events: *self.events,
                minimum: counts,
                maximum: counts,
                is_fenced: FENCED,
            }),
            (Err(_), Ok(overhead)) => Ok(overhead),
            (Err(disturbed), Err(_)) => Err(disturbed),
        }
    }

    /// Returns the overhead, unless a counter that must have moved has not. Not in `stop`: a check there moves
    /// instructions into regions.
    #[inline(never)]
    fn unless_it_stands_still(
        &self,
        found: Result<Overhead<N>, Disturbed>,
    ) -> Result<Overhead<N>, Disturbed> {
        let must_advance = |place: usize| self.reader.must_advance >> place & 1 != 0;
        let stands = |found: &Overhead<N>| {
            found.maximum.iter().enumerate().any(|(place, most)| *most == 0 && must_advance(place))
        };
        if found.as_ref().is_ok_and(stands) { Err(Disturbed::StandsStill) } else { found }
    }

    /// Returns the region without an overhead to subtract.
    #[must_use = "the region itself stays as it is"]
    pub fn uncorrected(self) -> Region<'a, N, FENCED> {
        Region { overhead: None, ..self }
    }
}
