//! Counts at one instant as plain values, and their differences.

use crate::error::Disturbed;
use crate::page::reader::View;
use std::ops::Sub;

/// The counts of a handle at one instant, as a plain value: from [`Counter::snapshot`](crate::Counter::snapshot) or
/// [`Group::snapshot`](crate::Group::snapshot).
///
/// The difference of two snapshots is a [`Delta`]. It has the counts in between, and reports context switches and
/// moved counters. `n` stages take `n + 1` snapshots, because the end of a stage is the beginning of the next.
///
/// ```
/// use rdpmc::{Error, Event, Group};
///
/// # fn decode() {}
/// # fn decide() {}
/// fn stages() -> Result<(), Error> {
///     let group = Group::open([Event::CYCLES, Event::INSTRUCTIONS])?;
///     let Some(start) = group.snapshot() else { return Ok(()) }; // not readable in user space
///     decode();
///     let Some(decoded) = group.snapshot() else { return Ok(()) };
///     decide();
///     let Some(decided) = group.snapshot() else { return Ok(()) };
///     for (stage, delta) in [("decode", decoded - start), ("decide", decided - decoded)] {
///         let [cycles, instructions] = delta.counts();
///         // A disturbed stage has its counts, too: it is the slow one that matters.
///         let mark = if delta.disturbed().is_some() { ", with a context switch" } else { "" };
///         println!("{stage}: {cycles} cycles, {instructions} instructions{mark}");
///     }
///     Ok(())
/// }
/// # match stages() { Ok(()) => {} Err(why) => println!("{why}") }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot<const N: usize> {
    counts: [u64; N],
    /// The sum of the pages' locks.
    locks: u32,
    /// The number of the handle's view.
    reader: u32,
}

impl<const N: usize> Snapshot<N> {
    /// Returns the snapshot of these pages. None while an `index` is 0.
    #[inline(always)]
    pub(crate) fn take(view: &View) -> Option<Snapshot<N>> {
        let (counts, locks) = view.counts_and_locks::<N, true>()?;
        Some(Snapshot { counts, locks, reader: view.id() })
    }

    pub(crate) fn new(counts: [u64; N], locks: u32, view: &View) -> Snapshot<N> {
        Snapshot { counts, locks, reader: view.id() }
    }

    /// Returns the counts since the handle was opened or reset, as
    /// [`Group::read_user`](crate::Group::read_user) does.
    #[inline(always)]
    pub fn counts(&self) -> [u64; N] {
        self.counts
    }

    /// Returns this snapshot with room for `M` counts. Those that are added are 0.
    #[inline(always)]
    pub(crate) fn widened<const M: usize>(self) -> Snapshot<M> {
        let mut counts = [0; M];
        for (wide, count) in counts.iter_mut().zip(self.counts) {
            *wide = count;
        }
        Snapshot { counts, locks: self.locks, reader: self.reader }
    }
}

impl<const N: usize> Sub for Snapshot<N> {
    type Output = Delta<N>;

    /// Returns what was counted between an earlier snapshot and this one.
    #[inline(always)]
    fn sub(self, earlier: Snapshot<N>) -> Delta<N> {
        let mut counts = self.counts;
        for (count, earlier) in counts.iter_mut().zip(earlier.counts) {
            *count = count.wrapping_sub(earlier);
        }
        let lock_moved = self.locks.wrapping_sub(earlier.locks);
        Delta { counts, lock_moved, is_of_one: self.reader == earlier.reader }
    }
}

/// The counts between two snapshots of a handle, and the disturbance, if any.
///
/// The counts are those of this thread between the two snapshots. They include about one snapshot: for four events,
/// 52 instructions on x86-64. The counts of a disturbed delta are correct, because counters count only this thread.
/// They include the indirect cost of the context switch, such as cold caches, and a read that was repeated for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta<const N: usize> {
    counts: [u64; N],
    lock_moved: u32,
    is_of_one: bool,
}

impl<const N: usize> Delta<N> {
    /// Returns the counts. Subtracting a later snapshot from an earlier one wraps around.
    ///
    /// The counts mean nothing if [`disturbed`](Delta::disturbed) returns [`Disturbed::OtherCounters`], or if the
    /// handle was [reset](crate::Group::reset) in between.
    #[inline(always)]
    pub fn counts(&self) -> [u64; N] {
        self.counts
    }

    /// Returns the disturbance between the two snapshots. None if the kernel updated no control page in between.
    ///
    /// - [`Disturbed::Interrupted`]: the kernel updated a control page, for example for a context switch. See
    ///   [`Region`](crate::Region#interrupts) for what does not update it.
    /// - [`Disturbed::OtherCounters`]: the snapshots are of two handles, or of one whose pages were mapped again
    ///   ([`Group::retry_user`](crate::Group::retry_user)) in between.
    #[inline]
    pub fn disturbed(&self) -> Option<Disturbed> {
        match (self.is_of_one, self.lock_moved) {
            (false, _) => Some(Disturbed::OtherCounters),
            (true, 0) => None,
            (true, moved) => Some(Disturbed::Interrupted { lock_moved: moved.into() }),
        }
    }
}
