//! The cost of a span, measured when a thread joins.

use crate::laps;
use crate::local;
use crate::record::MOST_EVENTS;
use crate::ring::Reader;
use crate::span::{enter_outlined, exit_outlined};
use crate::{Site, Span};

/// The cost of spans and laps on a thread, in ticks and counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// What an empty span shows.
    pub(crate) inside: Amounts,
    /// What an empty span adds to the span around it.
    pub(crate) whole: Amounts,
    /// What an empty lap shows that begins where another ends.
    pub(crate) lap: Amounts,
    /// What an empty lap shows that is the first one.
    pub(crate) first_lap: Amounts,
}

/// The minimum of several samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amounts {
    pub(crate) ticks: u64,
    pub(crate) counts: [u64; MOST_EVENTS],
    /// Whether nearly all samples had this count.
    pub(crate) is_constant: [bool; MOST_EVENTS],
}

impl Default for Amounts {
    fn default() -> Amounts {
        Amounts { ticks: 0, counts: [0; MOST_EVENTS], is_constant: [false; MOST_EVENTS] }
    }
}

impl Amounts {
    /// Returns what is subtracted from counts: those that are constant.
    pub(crate) fn constant(&self) -> [u64; MOST_EVENTS] {
        let mut counts = self.counts;
        for (count, is_constant) in counts.iter_mut().zip(self.is_constant) {
            if !is_constant {
                *count = 0;
            }
        }
        counts
    }

    fn of(samples: &[(u64, [u64; MOST_EVENTS])]) -> Amounts {
        let ticks = samples.iter().map(|(ticks, _)| *ticks).min().unwrap_or(0);
        let mut amounts = Amounts { ticks, ..Amounts::default() };
        let places = amounts.counts.iter_mut().zip(&mut amounts.is_constant).enumerate();
        for (place, (least, is_constant)) in places {
            let counts = || samples.iter().filter_map(|(_, counts)| counts.get(place).copied());
            *least = counts().min().unwrap_or(0);
            // An interrupt may have disturbed one or two.
            let same = counts().filter(|count| count == least).count();
            *is_constant = same * 10 >= samples.len() * 9 && same > 0;
        }
        amounts
    }

    fn less(mut self, other: &Amounts) -> Amounts {
        self.ticks = self.ticks.saturating_sub(other.ticks);
        for (count, other) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_sub(other);
        }
        for (is_constant, other) in self.is_constant.iter_mut().zip(other.is_constant) {
            *is_constant &= other;
        }
        self
    }
}

/// Measures the cost of this thread's spans, which `reader` reads. Takes some 20 microseconds.
pub(crate) fn measure(mut reader: Reader) -> Cost {
    const SAMPLES: usize = 40;
    let mut samples = |run: fn()| {
        let mut samples = Vec::with_capacity(SAMPLES);
        // The first ones are slow.
        for number in 0..SAMPLES + 10 {
            run();
            // The last record is that of the outermost span.
            let mut last = None;
            reader.read(|record| last = Some(record));
            if let (Some(record), true) = (last, number >= 10) {
                samples.push((record.duration(), record.counts));
            }
        }
        Amounts::of(&samples)
    };
    static EMPTY: Site = Site::new("an empty span", file!(), line!());
    static AROUND: Site = Site::new("a span around another", file!(), line!());
    static EMPTY_LAP: Site = Site::new("an empty lap", file!(), line!());
    // With counts, the calls alone, without the code around them, which differs from place to place: so what is
    // subtracted is never too much. Without, the whole span, for its time.
    let is_inlined = local::inlined(local::recording()).is_some();
    let inside = samples(if is_inlined { empty_inlined } else { empty });
    let around = samples(if is_inlined { around_inlined } else { around });
    let first_lap = samples(|| laps::least(&EMPTY_LAP, false));
    let lap = samples(|| laps::least(&EMPTY_LAP, true));
    #[inline(never)]
    fn empty() {
        let (open, start) = enter_outlined(&EMPTY, local::recording());
        exit_outlined(&EMPTY, open, start);
    }
    #[inline(never)]
    fn around() {
        let (open, start) = enter_outlined(&AROUND, local::recording());
        empty();
        exit_outlined(&AROUND, open, start);
    }
    #[inline(never)]
    fn empty_inlined() {
        let _span = Span::enter(&EMPTY);
    }
    #[inline(never)]
    fn around_inlined() {
        let _span = Span::enter(&AROUND);
        empty_inlined();
    }
    Cost { inside, whole: around.less(&inside), lap, first_lap }
}
