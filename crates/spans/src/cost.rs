//! The cost of a span, measured when a thread joins.
#![allow(unsafe_code)]

use crate::Site;
use crate::laps;
use crate::local;
use crate::record::MAX_EVENTS;
use crate::ring::Reader;
use rdpmc::clock::Conversion;
use std::hint::black_box;
use std::time::Duration;

/// The cost of spans and laps on a thread, in ticks and counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// The time that an empty span measures of itself.
    pub(crate) span_time: MeanTicks,
    /// The time of an empty lap that begins where another ends.
    pub(crate) lap_time: MeanTicks,
    /// The cost that an empty span measures of itself.
    pub(crate) inside: Amounts,
    /// What an empty span adds to the span around it.
    pub(crate) whole: Amounts,
    /// What an empty lap shows that begins where another ends.
    pub(crate) lap: Amounts,
    /// What an empty lap shows that is the first one.
    pub(crate) first_lap: Amounts,
}

/// A mean, as the sum of several durations in ticks.
///
/// A span takes less than a step of some tick counters (10 ns on AMD's CPUs, 40 ns on some of arm64). So a single duration
/// says nothing, and neither does a minimum or a median of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MeanTicks {
    sum: u64,
    samples: u32,
}

impl MeanTicks {
    /// Returns the mean. Zero without samples.
    pub(crate) fn duration(self, conversion: &Conversion) -> Duration {
        conversion.duration(self.sum).checked_div(self.samples).unwrap_or_default()
    }
}

/// The most frequent counts of several samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amounts {
    pub(crate) counts: [u64; MAX_EVENTS],
    /// Whether most samples had this count.
    pub(crate) is_constant: [bool; MAX_EVENTS],
}

impl Default for Amounts {
    fn default() -> Amounts {
        Amounts { counts: [0; MAX_EVENTS], is_constant: [false; MAX_EVENTS] }
    }
}

impl Amounts {
    /// Returns what is subtracted from counts: those that are constant.
    pub(crate) fn constant(&self) -> [u64; MAX_EVENTS] {
        let mut counts = self.counts;
        for (count, is_constant) in counts.iter_mut().zip(self.is_constant) {
            if !is_constant {
                *count = 0;
            }
        }
        counts
    }

    fn of(samples: &[[u64; MAX_EVENTS]]) -> Amounts {
        let mut amounts = Amounts::default();
        let places = amounts.counts.iter_mut().zip(&mut amounts.is_constant).enumerate();
        for (place, (count, is_constant)) in places {
            let count_of = |counts: &[u64; MAX_EVENTS]| counts.get(place).copied();
            let same =
                |count| samples.iter().filter(|sample| count_of(sample) == Some(count)).count();
            // The most frequent count. Interrupts may have disturbed some.
            let frequent = samples.iter().filter_map(count_of).max_by_key(|count| same(*count));
            *count = frequent.unwrap_or(0);
            *is_constant = frequent.is_some_and(|count| same(count) * 2 >= samples.len());
        }
        amounts
    }

    fn saturating_sub(mut self, other: &Amounts) -> Amounts {
        for (count, other) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_sub(other);
        }
        for (is_constant, other) in self.is_constant.iter_mut().zip(other.is_constant) {
            *is_constant &= other;
        }
        self
    }
}

/// Measures the cost of this thread's spans, which `reader` reads. Takes some 100 microseconds.
pub(crate) fn measure(mut reader: Reader, session: u32) -> Cost {
    static EMPTY: Site = Site::new("an empty span", file!(), line!());
    static AROUND: Site = Site::new("a span around another", file!(), line!());
    static EMPTY_LAP: Site = Site::new("an empty lap", file!(), line!());
    let inside = counts(&mut reader, &|| empty(&EMPTY, session));
    let around = counts(&mut reader, &|| around(&AROUND, &EMPTY, session));
    Cost {
        span_time: time(&mut reader, 0, &|| {
            for number in 0..DURATIONS {
                empty(&EMPTY, session);
                // Spans at equal distances could all begin at the same point of the tick counter's step.
                (0..number).for_each(|_| black_box(()));
            }
        }),
        // One duration of all laps.
        lap_time: time(&mut reader, 1, &|| laps::minimal_laps(&EMPTY_LAP, DURATIONS + 1, session)),
        inside,
        whole: around.saturating_sub(&inside),
        lap: counts(&mut reader, &|| laps::minimal_laps(&EMPTY_LAP, 2, session)),
        first_lap: counts(&mut reader, &|| laps::minimal_laps(&EMPTY_LAP, 1, session)),
    }
}

/// Returns the most frequent counts of the last record of `run`.
fn counts(reader: &mut Reader, run: &dyn Fn()) -> Amounts {
    const SAMPLES: usize = 40;
    // Not a vector: spans in an allocator would be recorded here.
    let mut samples = [[0; MAX_EVENTS]; SAMPLES];
    let mut taken = 0;
    // The first ones are slow.
    for number in 0..SAMPLES + 10 {
        run();
        // The last record is that of the outermost span.
        let mut last = None;
        reader.read(|record| last = Some(record));
        if let (Some(record), true) = (last, number >= 10) {
            if let Some(sample) = samples.get_mut(taken) {
                *sample = record.counts;
                taken += 1;
            }
        }
    }
    Amounts::of(samples.get(..taken).unwrap_or(&samples))
}

/// The number of durations in a mean. At most the records of the scratch ring.
const DURATIONS: u32 = 64;

/// Returns the mean duration of the records of `run`, without the first `skipped`: the median of several means, because
/// an interrupt may disturb some.
fn time(reader: &mut Reader, skipped: usize, run: &dyn Fn()) -> MeanTicks {
    let mut means = [MeanTicks::default(); 5];
    for mean in &mut means {
        run();
        let (mut seen, mut sum, mut samples) = (0, 0_u64, 0);
        reader.read(|record| {
            if seen >= skipped {
                sum = sum.saturating_add(record.duration());
                samples += 1;
            }
            seen += 1;
        });
        *mean = MeanTicks { sum, samples };
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
    let header = local::header();
    // SAFETY: the header is this thread's.
    let (is_inlined, calls) = unsafe { ((*header).is_inlined(session), (*header).calls) };
    if is_inlined {
        let (number, start) = local::enter(site, session);
        inside();
        return local::exit(site, number, start);
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
fn around(site: &'static Site, inner: &'static Site, session: u32) {
    minimal_span(site, session, || minimal_span(inner, session, || ()));
}
