//! What a thread counts with: a group of counters, or nothing.
#![allow(unsafe_code)]

use rdpmc::Group;
use rdpmc::region::{Disturbed, Snapshot};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::time::Duration;

/// The snapshot at the beginning of a span or lap, of a size that its thread knows.
#[derive(Debug)]
pub(crate) struct Start(UnsafeCell<MaybeUninit<[u64; 9]>>);

impl Start {
    pub(crate) const fn new() -> Start {
        Start(UnsafeCell::new(MaybeUninit::uninit()))
    }

    #[inline(always)]
    pub(crate) fn set<T: Copy>(&self, snapshot: T) {
        const { assert!(size_of::<T>() <= size_of::<[u64; 9]>()) };
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

    /// Returns the counts of this instant. None if they cannot be read.
    fn snapshot(&self) -> Option<Self::Snapshot>;

    /// Returns the counts between two snapshots, and the disturbance, if any.
    fn between(start: Self::Snapshot, end: Self::Snapshot) -> ([u64; N], Option<Disturbed>);

    /// Returns the time that the events have been without counters.
    fn without_counters(&self) -> Option<Duration>;
}

/// Counts nothing.
pub(crate) struct TimeOnly;

impl Counting<0> for TimeOnly {
    type Snapshot = ();

    #[inline(always)]
    fn snapshot(&self) -> Option<()> {
        Some(())
    }

    #[inline(always)]
    fn between((): (), (): ()) -> ([u64; 0], Option<Disturbed>) {
        ([], None)
    }

    fn without_counters(&self) -> Option<Duration> {
        None
    }
}

impl<const N: usize> Counting<N> for Group<N> {
    type Snapshot = Snapshot<N>;

    #[inline(always)]
    fn snapshot(&self) -> Option<Snapshot<N>> {
        Group::snapshot(self)
    }

    #[inline(always)]
    fn between(start: Snapshot<N>, end: Snapshot<N>) -> ([u64; N], Option<Disturbed>) {
        let delta = end - start;
        (delta.counts(), delta.disturbed())
    }

    fn without_counters(&self) -> Option<Duration> {
        self.time_without_counters()
    }
}
