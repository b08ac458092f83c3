//! What measuring costs, as the counters themselves see it.

use super::Region;
use crate::asm::order::{Order, Unordered};
use crate::error::{Disturbed, RegionError};
use crate::event::Event;
use std::marker::PhantomData;

/// The cost of an empty region: what its counters count of nothing. A plain value, to be kept beside the
/// counters. It is for regions of the same events and the same ordering, and no other takes it. (The events
/// of a [`Counter`](crate::Counter) on several core types are those of the type that the thread was on.)
///
/// ```compile_fail,E0308
/// # fn corrected(group: &rdpmc::Group<2>) -> Result<(), rdpmc::Error> {
/// let ordered = rdpmc::region::Overhead::measure(&group.ordered().region()?)?;
/// group.region()?.corrected(&ordered)?; // mismatched types
/// # Ok(())
/// # }
/// ```
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
/// Instructions, branches and the like, which are the same each time. What it cannot: the registers
/// that the compiler has to put away around the region, which depend on the code in it, and in cycles
/// what the processor makes of the region's edges, where it overlaps reading the counter with the
/// code. For these, compare one with two copies of the code:
/// [`Region::sample_by_difference`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overhead<const N: usize, O: Order = Unordered> {
    events: [Event; N],
    minimum: [u64; N],
    maximum: [u64; N],
    order: PhantomData<O>,
}

/// How many empty regions are measured: enough to find the minimum, and still only microseconds.
const SAMPLES: usize = 100;

impl<const N: usize, O: Order> Overhead<N, O> {
    /// Measures a hundred empty regions of this kind, in the function that calls this: on an
    /// out-of-order processor the instructions around a region have a part in its cost. No system call.
    ///
    /// # Errors
    /// All of them were disturbed, the last one so.
    #[inline(always)]
    pub fn measure(region: &Region<'_, N, O>) -> Result<Overhead<N, O>, Disturbed> {
        let region = region.uncorrected();
        let mut found = Err(Disturbed::NoCounter);
        for _ in 0..SAMPLES {
            found = region.with_empty(found, region.measure(|| ()).1);
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

impl<'a, const N: usize, O: Order> Region<'a, N, O> {
    /// The same, with this overhead subtracted from each count from now on, clamped at 0. A [`Region`] is
    /// made anew whenever one is needed, so keep the [`Overhead`] beside the counters.
    ///
    /// # Errors
    /// [`RegionError::OtherOverhead`] if it was measured with other events.
    pub fn corrected(self, overhead: &Overhead<N, O>) -> Result<Region<'a, N, O>, RegionError> {
        if overhead.events != *self.events {
            return Err(RegionError::OtherOverhead);
        }
        Ok(Region { overhead: Some(overhead.minimum), ..self })
    }

    /// Returns the overhead that the region subtracts from each count. None if it is not
    /// [corrected](Region::corrected).
    pub fn overhead(&self) -> Option<[u64; N]> {
        self.overhead
    }

    /// What is known of the overhead after one more empty region. Not inlined, so that none of its
    /// instructions come to lie in the next one.
    #[inline(never)]
    fn with_empty(
        &self,
        known: Result<Overhead<N, O>, Disturbed>,
        empty: Result<[u64; N], Disturbed>,
    ) -> Result<Overhead<N, O>, Disturbed> {
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
                order: PhantomData,
            }),
            (Err(_), Ok(overhead)) => Ok(overhead),
            (Err(disturbed), Err(_)) => Err(disturbed),
        }
    }

    /// Returns the same region without an overhead to subtract.
    #[must_use = "the region itself stays as it is"]
    pub fn uncorrected(self) -> Region<'a, N, O> {
        Region { overhead: None, ..self }
    }
}
