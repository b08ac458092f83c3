//! Regions, and differences of snapshots.

use super::Reader;
use super::kernel::{CHANGES, Change, Kernel, MASK, Moment, TURN};
use super::stepper::{Walk, stepping, with};
use crate::error::Disturbed;
use crate::region::{Region, Snapshot};
use std::sync::atomic::Ordering::SeqCst;

/// Returns a region of the simulated events.
pub(super) fn region<const N: usize>(reader: &Reader<N>) -> Region<'_, N> {
    Region::new(&reader.view)
}

fn fenced_region<const N: usize>(reader: &Reader<N>) -> Region<'_, N, true> {
    region(reader).fenced()
}

/// Makes a change after every single instruction from before a region to after it. The region returns counts only if
/// they are exactly what was counted between its reads, and an error if the kernel was at work between them. None if
/// this cannot be tried.
fn region_interrupted<const N: usize, const ORDERED: bool>(
    walk: Walk,
    region: impl Fn(&Reader<N>) -> Result<[u64; N], Disturbed>,
) -> Option<[u32; 3]> {
    let kernel = Kernel::with_events(40 + N as u64, N);
    let test = "regions_interrupted_after_every_single_instruction";
    with(test, &kernel, |reader: Reader<N>| {
        // The samples that were undisturbed, interrupted, and without a counter.
        let mut found = [0; 3];
        walk.over(N).make(&kernel, &CHANGES, N as u32, |change, step| {
            kernel.happen(Change::Move);
            kernel.reads.set(0);
            kernel.plan.set(Some((Moment::AfterStep(step), change)));
            let sample = stepping(&kernel, || region(&reader));
            assert!(!kernel.broken.load(SeqCst), "{change:?} at {step}");
            let reads = kernel.reads.get();
            match sample {
                Ok(counts) => {
                    found[0] += 1;
                    assert_eq!(reads, 2 * N);
                    for (n, count) in counts.into_iter().enumerate() {
                        // The first counter is read last at the start, and first at the stop.
                        let (owner, start) = kernel.log[N - 1 - n].get();
                        assert_eq!(owner, n);
                        let (owner, end) = kernel.log[N + n].get();
                        assert_eq!(owner, n);
                        assert_eq!(count, end - start, "{change:?} at {step}");
                    }
                }
                Err(Disturbed::Interrupted { lock_moved }) => {
                    found[1] += 1;
                    assert!(lock_moved > 0 && lock_moved % 2 == 0, "{lock_moved}");
                    assert!(!matches!(change, Change::Count), "{change:?} at {step}");
                }
                Err(Disturbed::NoCounter) => {
                    found[2] += 1;
                    assert!(matches!(change, Change::Leave), "{change:?} at {step}");
                    assert_eq!(reads, 0);
                }
                Err(other) => panic!("{other:?}"),
            }
        });

        found
    })
}

#[test]
fn regions_interrupted_after_every_single_instruction() {
    let walk = Walk::for_test("regions_interrupted_after_every_single_instruction");
    let least = walk.times(20, 4) as u32;
    let found = [
        region_interrupted::<1, false>(walk, |reader| empty(&region(reader))),
        region_interrupted::<1, true>(walk, |reader| empty(&fenced_region(reader))),
        region_interrupted::<2, false>(walk, |reader| empty(&region(reader))),
        region_interrupted::<4, true>(walk, |reader| empty(&fenced_region(reader))),
    ];
    for found in found {
        let Some([undisturbed, interrupted, without]) = found else { return };
        assert!(undisturbed > least && interrupted > least && without > 0, "{found:?}");
    }
}

#[inline(never)]
pub(super) fn empty<const N: usize, const FENCED: bool>(
    region: &Region<'_, N, FENCED>,
) -> Result<[u64; N], Disturbed> {
    let start = region.start()?;
    region.stop(start)
}

/// Makes a change after every single instruction from before a snapshot to after the next. Their difference is disturbed
/// exactly if the kernel was at work between the two. Returns the numbers of undisturbed and disturbed differences. None
/// if this cannot be tried.
fn snapshots_interrupted<const N: usize>(walk: Walk) -> Option<[u32; 2]> {
    let kernel = Kernel::with_events(50 + N as u64, N);
    let test = "snapshots_interrupted_after_every_single_instruction";
    with(test, &kernel, |reader: Reader<N>| {
        let mut found = [0; 2];
        walk.over(N).make(&kernel, &CHANGES, N as u32, |change, step| {
            kernel.happen(Change::Move);
            kernel.plan.set(Some((Moment::AfterStep(step), change)));
            let delta = stepping(&kernel, || {
                let earlier = Snapshot::take(&reader)?;
                let later = Snapshot::take(&reader)?;
                Some(later - earlier)
            });
            assert!(!kernel.broken.load(SeqCst), "{change:?} at {step}");
            let Some(delta) = delta else {
                return assert!(matches!(change, Change::Leave), "none: {change:?} at {step}");
            };
            // A move adds a turn to all counts, the others to some or none.
            let turns = delta.counts().map(|count| count / TURN);
            match (delta.disturbed(), change) {
                (None, _) => {
                    found[0] += 1;
                    assert_eq!(turns, [0; N], "{change:?} at {step}");
                }
                (Some(Disturbed::Interrupted { lock_moved }), Change::Move) => {
                    found[1] += 1;
                    assert_eq!(turns, [1; N], "at {step}");
                    assert!(lock_moved > 0 && lock_moved % 2 == 0, "{lock_moved}");
                }
                (Some(_), Change::Restart | Change::Exchange) => found[1] += 1,
                (Some(other), _) => panic!("{other:?} after {change:?} at {step}"),
            }
        });

        found
    })
}

#[test]
fn snapshots_interrupted_after_every_single_instruction() {
    let walk = Walk::for_test("snapshots_interrupted_after_every_single_instruction");
    let least = walk.times(20, 4) as u32;
    let found = [
        snapshots_interrupted::<1>(walk),
        snapshots_interrupted::<4>(walk),
        snapshots_interrupted::<2>(walk),
    ];
    for found in found {
        let Some([undisturbed, disturbed]) = found else { return };
        assert!(undisturbed > least && disturbed > least, "{found:?}");
    }
}

#[test]
fn snapshots_of_two_handles_have_no_difference() {
    let kernel = Kernel::with_events(60, 2);
    with("snapshots_of_two_handles_have_no_difference", &kernel, |one: Reader<2>| {
        let other: Reader<2> = kernel.reader();
        let [one, other] = [&one, &other].map(|reader| Snapshot::<2>::take(reader).unwrap());
        assert_eq!((other - one).disturbed(), Some(Disturbed::OtherCounters));
        assert_eq!((one - one).disturbed(), None);
        // Nor do those of a handle that is at the address of one that was closed.
        let closed: Reader<2> = kernel.reader();
        let earlier = Snapshot::<2>::take(&closed).unwrap();
        drop(closed);
        let opened: Reader<2> = kernel.reader();
        let later = Snapshot::<2>::take(&opened).unwrap();
        assert_eq!((later - earlier).disturbed(), Some(Disturbed::OtherCounters));
        assert_eq!((one - one).counts(), [0; 2]);
    });
}

#[test]
fn a_region_does_not_stop_what_other_counters_started() {
    let kernel = Kernel::with_events(61, 1);
    with("a_region_does_not_stop_what_other_counters_started", &kernel, |first: Reader<1>| {
        // A region of another reader.
        let others = Reader::<1>::none();
        let start = region(&first).start().unwrap();
        let stopped = region(&others).stop(start);
        assert_eq!(stopped, Err(Disturbed::OtherCounters));
        assert_eq!(region(&first).stop(start), Ok([0]));
        assert_eq!(fenced_region(&first).measure(|| kernel.count(3)).1, Ok([3]));
    });
}

#[test]
fn a_region_counts_across_the_end_of_the_register() {
    let kernel = Kernel::with_events(60, 2);
    with("a_region_counts_across_the_end_of_the_register", &kernel, |reader: Reader<2>| {
        let region = self::region(&reader);
        for events in [0, 1, 2, 1 << 20, (1 << 47) - 1, 1 << 47, MASK] {
            for start in [0, 1, MASK, MASK - 1, 1 << 47, (1 << 47) - 1] {
                for event in &kernel.events {
                    kernel.registers[event.place().unwrap()].store(start, SeqCst);
                }
                let (_, counts) = region.measure(|| kernel.count(events));
                let is_zero = start == 0 || (start + events) & MASK == 0;
                let expected = if is_zero { Err(Disturbed::Faulted) } else { Ok([events; 2]) };
                assert_eq!(counts, expected, "from {start:#x}");
            }
        }
    });
}
