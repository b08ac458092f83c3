//! What a thread counts with: a group of counters, or nothing.
#![allow(unsafe_code)]

use crate::counting::Switches;
use crate::record::{Flags, Lost};
use rdpmc::Group;
use rdpmc::region::Snapshot;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::time::Duration;

/// The words of the largest snapshot: eight counts, the group's locks, and the number of context switches.
const WORDS: usize = 10;

/// The snapshot at the beginning of a span or lap, of a size that its thread knows.
#[derive(Debug)]
pub(crate) struct Start(UnsafeCell<MaybeUninit<[u64; WORDS]>>);

impl Start {
    pub(crate) const fn new() -> Start {
        Start(UnsafeCell::new(MaybeUninit::uninit()))
    }

    #[inline(always)]
    pub(crate) fn set<T: Copy>(&self, snapshot: T) {
        const { assert!(size_of::<T>() <= size_of::<[u64; WORDS]>()) };
        const { assert!(align_of::<T>() <= align_of::<u64>()) };
        // SAFETY: there is room for it, by the assertions, and no reference to it. Start is not Sync.
        unsafe { self.0.get().cast::<T>().write(snapshot) }
    }

    /// # Safety
    /// It was set before, by a `T`.
    #[inline(always)]
    pub(crate) unsafe fn get<T: Copy>(&self) -> T {
        // SAFETY: the caller's promise.
        unsafe { self.0.get().cast::<T>().read() }
    }
}

/// Counters of `N` events.
pub(crate) trait Counting<const N: usize> {
    /// Their counts at one instant.
    type Snapshot: Copy;

    /// Whether spans take the inlined path, because there is nothing to read.
    const IS_NOTHING: bool = false;

    /// Returns the counts of this instant. None if they cannot be read.
    fn snapshot(&self) -> Option<Self::Snapshot>;

    /// Returns the counts between two snapshots, and whether the kernel disturbed them.
    fn between(start: Self::Snapshot, end: Self::Snapshot) -> ([u64; N], bool);

    /// Returns the flags of the causes of a disturbance, as far as they are known.
    fn causes(_start: Self::Snapshot, _end: Self::Snapshot) -> Flags {
        Flags::NONE
    }

    /// As `snapshot`, at the beginning of a span: what it takes to learn of a context switch before is not in its counts.
    #[inline(always)]
    fn snapshot_at_begin(&self) -> Option<Self::Snapshot> {
        self.snapshot()
    }

    /// Returns what a span of this many nanoseconds between two snapshots has lost. None if it is not known.
    fn lost(&self, _start: Self::Snapshot, _end: Self::Snapshot, _span: u64) -> Option<Lost> {
        None
    }

    /// Returns the time that the events have been without counters.
    fn without_counters(&self) -> Option<Duration> {
        None
    }
}

/// Counts nothing.
pub(crate) struct Nothing;

impl Counting<0> for Nothing {
    type Snapshot = ();
    const IS_NOTHING: bool = true;

    #[inline(always)]
    fn snapshot(&self) -> Option<()> {
        Some(())
    }

    #[inline(always)]
    fn between((): (), (): ()) -> ([u64; 0], bool) {
        ([], false)
    }
}

impl<const N: usize> Counting<N> for Group<N> {
    type Snapshot = Snapshot<N>;

    #[inline(always)]
    fn snapshot(&self) -> Option<Snapshot<N>> {
        Group::snapshot(self)
    }

    #[inline(always)]
    fn between(start: Snapshot<N>, end: Snapshot<N>) -> ([u64; N], bool) {
        let delta = end - start;
        (delta.counts(), delta.disturbed().is_some())
    }

    fn without_counters(&self) -> Option<Duration> {
        self.time_without_counters()
    }
}

/// Counts with `counting`, and knows the thread's context switches.
pub(crate) struct Watched<C> {
    pub(crate) counting: C,
    pub(crate) switches: Switches,
}

impl<C: Counting<N>, const N: usize> Counting<N> for Watched<C> {
    type Snapshot = (C::Snapshot, u64);

    #[inline(always)]
    fn snapshot(&self) -> Option<Self::Snapshot> {
        Some((self.counting.snapshot()?, self.switches.number()))
    }

    #[inline(always)]
    fn snapshot_at_begin(&self) -> Option<Self::Snapshot> {
        let number = self.switches.number();
        Some((self.counting.snapshot()?, number))
    }

    #[inline(always)]
    fn between(start: Self::Snapshot, end: Self::Snapshot) -> ([u64; N], bool) {
        let (counts, is_disturbed) = C::between(start.0, end.0);
        (counts, is_disturbed | (start.1 != end.1))
    }

    fn causes(start: Self::Snapshot, end: Self::Snapshot) -> Flags {
        Switches::causes(start.1, end.1)
    }

    fn lost(&self, start: Self::Snapshot, end: Self::Snapshot, span: u64) -> Option<Lost> {
        self.switches.lost(start.1, end.1, span)
    }

    fn without_counters(&self) -> Option<Duration> {
        self.counting.without_counters()
    }
}
