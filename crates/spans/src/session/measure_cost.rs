//! Measures what spans and laps cost on a thread that joins.
#![allow(unsafe_code)]

use crate::collect::{Amounts, Cost, MAX_SAMPLES, MeanTicks};
use crate::counting::{Counted, Patience};
use crate::record::{Companion, MAX_EVENTS, Raw, Site, count_lost, site_at};
use crate::sink::{Costs, Published, Reader};
use crate::thread::{self, Lap};
use std::hint::black_box;
use std::ptr;

/// The records of a thread's first spans, to measure their cost: enough that none of them is dropped.
pub(super) const RECORDS: usize = 512;

/// What reads the spans that are measured.
pub(super) enum Probe {
    Ring(Reader),
    Histograms(Published),
}

static EMPTY: Site = Site::new("an empty span", file!(), line!());
static AROUND: Site = Site::new("a span around another", file!(), line!());
static FIRST_LAP: Site = Site::new("a first empty lap", file!(), line!());
static EMPTY_LAP: Site = Site::new("an empty lap", file!(), line!());

/// Counts spans of the program that were recorded here: those in the allocator.
fn count_others(site: &'static Site, spans: u64) {
    if ![&EMPTY, &AROUND, &FIRST_LAP, &EMPTY_LAP].iter().any(|of| ptr::eq(*of, site)) {
        count_lost(spans);
    }
}

impl Probe {
    /// Returns the sums of the times and counts of a site's new records.
    fn sums(&mut self, site: &'static Site) -> (MeanTicks, [u64; MAX_EVENTS]) {
        let (mut time, mut counts) = (MeanTicks::default(), [0_u64; MAX_EVENTS]);
        let mut add = |ticks: u64, samples: u32, more: [u64; MAX_EVENTS]| {
            time.sum = time.sum.saturating_add(ticks);
            time.samples += samples;
            counts.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.wrapping_add(more));
        };
        match self {
            Probe::Ring(reader) => reader.read(|words| {
                if Companion::decode(words).is_some() {
                    return;
                }
                // SAFETY: this thread has written them, with the addresses of statics.
                let site_of = |address| unsafe { site_at(address) };
                let Some(raw) = Raw::decode(words, site_of) else { return };
                count_others(raw.site, 1);
                if ptr::eq(raw.site, site) {
                    add(raw.time(), 1, raw.counts);
                }
            }),
            Probe::Histograms(histograms) => {
                histograms.request();
                let mut patience = Patience::none();
                // SAFETY: this thread records there, and it alone reads.
                let all = unsafe { histograms.take(true, &mut patience) }.unwrap_or_default();
                for stats in &all {
                    count_others(stats.site, stats.count);
                    if ptr::eq(stats.site, site) {
                        add(stats.ticks, stats.count as u32, stats.counts);
                    }
                }
            }
        }
        (time, counts)
    }
}

/// Measures the cost of this thread's spans with these events, which `probe` reads. Takes some 100 microseconds.
pub(super) fn measure(probe: &mut Probe, session: u32, counted: &Counted) -> Cost {
    let mut counts = |site: &'static Site, run: &dyn Fn()| match counted.events.len() {
        0 => Amounts::default(),
        _ => counts(probe, site, run),
    };
    let steady = |amounts: Amounts| amounts.together(counted.events_of_slots()).steady();
    let span = counts(&EMPTY, &|| empty(&EMPTY, session));
    let numbered = counts(&EMPTY, &|| numbered(&EMPTY, session));
    let of_around = counts(&AROUND, &|| around(&AROUND, &EMPTY, session));
    let laps = |laps: u32| minimal_laps([&FIRST_LAP, &EMPTY_LAP], laps, session);
    let (lap, first_lap) = (counts(&EMPTY_LAP, &|| laps(2)), counts(&FIRST_LAP, &|| laps(1)));
    Cost {
        span_time: time(probe, &EMPTY, &|| {
            for number in 0..DURATIONS {
                empty(&EMPTY, session);
                // Spans at equal distances could all begin at the same point of the tick counter's step.
                (0..number).for_each(|_| black_box(()));
            }
        }),
        span_whole: MeanTicks {
            samples: DURATIONS,
            ..time(probe, &AROUND, &|| spans_inside(&AROUND, &EMPTY, DURATIONS, session))
        },
        lap_time: time(probe, &EMPTY_LAP, &|| laps(DURATIONS + 1)),
        span,
        subtracted: Costs {
            span: steady(span),
            in_parent: steady(of_around.saturating_sub(&span)),
            number: steady(numbered.saturating_sub(&span)),
            lap: steady(lap),
            first_lap: steady(first_lap),
        },
    }
}

/// Counts the spans of the program that were recorded since the last measurement.
pub(super) fn end(mut probe: Probe) {
    for _ in 0..2 {
        probe.sums(&EMPTY); // each side of histograms
    }
}

/// Returns the counts of the site's record of `run`.
fn counts(probe: &mut Probe, site: &'static Site, run: &dyn Fn()) -> Amounts {
    // Not a vector: spans in an allocator would be recorded here.
    let mut samples = [[0; MAX_EVENTS]; MAX_SAMPLES];
    let mut taken = 0;
    // The first ones are slow.
    for number in 0..MAX_SAMPLES + 10 {
        run();
        let (time, counts) = probe.sums(site);
        if let (1, true) = (time.samples, number >= 10) {
            if let Some(sample) = samples.get_mut(taken) {
                *sample = counts;
                taken += 1;
            }
        }
    }
    Amounts::from_samples(samples.get(..taken).unwrap_or(&samples))
}

/// The number of durations in a mean: fewer than RECORDS.
const DURATIONS: u32 = 64;

/// Returns the mean duration of the site's records of `run`: the median of several means, because an interrupt may
/// disturb some.
fn time(probe: &mut Probe, site: &'static Site, run: &dyn Fn()) -> MeanTicks {
    let mut means = [MeanTicks::default(); 5];
    for mean in &mut means {
        run();
        (*mean, _) = probe.sums(site);
    }
    // All have the same number of samples.
    means.sort_unstable();
    let [_, _, median, _, _] = means;
    median
}

// With counters, by the calls alone: call sites differ, and this is the minimum of what they execute. By the session's
// number, because spans may be switched off during the measurement.

/// Records a span around `inside`, with the least code.
#[inline(always)]
fn minimal_span(site: &'static Site, session: u32, inside: impl FnOnce()) {
    let header = thread::header();
    // SAFETY: the header is this thread's.
    let (is_inlined, calls) = unsafe { ((*header).is_inlined(session), (*header).calls()) };
    if is_inlined {
        let (number, start) = thread::enter(site, session);
        inside();
        return thread::exit(site, number, start);
    }
    // SAFETY: as above. Nothing replaces this thread's state while it joins.
    unsafe {
        let number = (calls.enter)(header, site, session);
        inside();
        (calls.exit)(header, site, number, 0);
    }
}

#[inline(never)]
fn empty(site: &'static Site, session: u32) {
    minimal_span(site, session, || ());
}

#[inline(never)]
fn numbered(site: &'static Site, session: u32) {
    let header = thread::header();
    // SAFETY: as in `minimal_span`. The span that is open is the innermost one.
    unsafe {
        let calls = (*header).calls();
        let number = (calls.enter)(header, site, session);
        (calls.number)(header, number, 0, 0);
        (calls.exit)(header, site, number, 0);
    }
}

#[inline(never)]
fn around(site: &'static Site, inner: &'static Site, session: u32) {
    minimal_span(site, session, || minimal_span(inner, session, || ()));
}

#[inline(never)]
fn spans_inside(site: &'static Site, inner: &'static Site, spans: u32, session: u32) {
    minimal_span(site, session, || {
        (0..spans).for_each(|_| minimal_span(inner, session, || ()));
    });
}

/// Begins a lap and ends `laps` laps, by the calls alone: the minimal cost of a lap.
#[inline(never)]
fn minimal_laps([first, others]: [&'static Site; 2], laps: u32, session: u32) {
    let (header, mut lap) = (thread::header(), Lap::new());
    // SAFETY: the header is this thread's, and `begin` has begun the lap in its state.
    unsafe {
        let calls = (*header).calls();
        if (calls.begin)(header, &mut lap, session) {
            (calls.lap)(header, first, &mut lap);
            for _ in 1..laps {
                (calls.lap)(header, others, &mut lap);
            }
        }
    }
}
