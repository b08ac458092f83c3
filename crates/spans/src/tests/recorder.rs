//! The subtraction of the cost of spans from the counts of histograms.
#![allow(unsafe_code)]

use crate::counting::Patience;
use crate::record::{Companion, FLAGS_SHIFT, Flags, OUTERMOST, SLOT, Site, address};
use crate::sink::{Published, Recorder, Shape};
use crate::tests::nested::costs;

static SITE: Site = Site::new("a site", file!(), line!());

fn recorder() -> (Recorder, Published) {
    let (recorder, published) = Recorder::new(Shape { events: 1, ..Shape::default() });
    recorder.set_costs(costs());
    (recorder, published)
}

fn record(
    to: &Recorder,
    site: &'static Site,
    depth: u64,
    ticks: [u64; 2],
    count: u64,
    flags: Flags,
) {
    let last = (OUTERMOST - depth * SLOT) | u64::from(flags.bits()) << FLAGS_SHIFT;
    // SAFETY: this thread's histograms, and a static.
    unsafe { to.record(&[address(site), 0, ticks[0], ticks[1], last, count]) }
}

/// Records a number for a span of this depth and beginning.
fn number(to: &Recorder, depth: u64, start: u64) {
    let head = Companion::Number(77).head(start, OUTERMOST - depth * SLOT);
    let words: Vec<u64> = head.into_iter().chain([0]).collect();
    // SAFETY: as in `record`.
    unsafe { to.record(&words) }
}

/// Returns the count of the one record since the last call.
fn sum(published: &mut Published) -> u64 {
    published.request();
    let mut patience = Patience::none();
    // SAFETY: this thread records, and reads.
    let all = unsafe { published.take(true, &mut patience) }.unwrap();
    all.iter().map(|stats| stats.counts[0]).sum()
}

#[test]
fn the_cost_of_spans_numbers_and_laps_is_subtracted() {
    let (to, mut published) = recorder();
    let span = |depth, ticks, count| record(&to, &SITE, depth, ticks, count, Flags::NONE);
    span(2, [1, 2], 110);
    number(&to, 2, 3);
    span(2, [3, 4], 100 + 10 + 7);
    assert_eq!(sum(&mut published), 200);
    to.begin_lap(2);
    span(2, [5, 6], 100 + 10);
    assert_eq!(sum(&mut published), 100);
    record(&to, &SITE, 2, [5, 7], 1_000 + 3 + 30, Flags::LAP);
    assert_eq!(sum(&mut published), 1_000);
    record(&to, &SITE, 2, [7, 8], 1_000 + 5, Flags::LAP);
    assert_eq!(sum(&mut published), 1_000);
    span(1, [0, 9], 5_000 + 10 + 3 * 30 + 7 + 2 * 5);
    assert_eq!(sum(&mut published), 5_000);
    span(1, [10, 11], 100 + 10);
    assert_eq!(sum(&mut published), 100, "nothing is left over");
}

/// The spans inside a forgotten one are inside the span around it, and not inside a later one.
#[test]
fn the_cost_inside_a_forgotten_span_is_that_of_the_one_around_it() {
    let (to, mut published) = recorder();
    let span = |depth, ticks, count| record(&to, &SITE, depth, ticks, count, Flags::NONE);
    span(3, [2, 3], 10);
    span(1, [0, 4], 1_000 + 10 + 30);
    assert_eq!(sum(&mut published), 1_000);
    span(2, [5, 6], 100 + 10);
    assert_eq!(sum(&mut published), 100);
}
