//! Statistics of a site's spans, and the subtraction of their own cost.

use crate::Site;
use crate::cost::Cost;
use crate::histogram::{Distribution, SiteHistograms};
use crate::record::{Flags, MAX_EVENTS, Record};
use std::sync::atomic::Ordering::Relaxed;

/// The spans of a site on a thread.
#[derive(Clone, Debug)]
pub(crate) struct SiteStats {
    pub(crate) site: &'static Site,
    /// The order of the thread's sites, by their first records. A span comes before those inside it.
    pub(crate) order: usize,
    pub(crate) count: u64,
    /// How often each flag was set.
    pub(crate) flags: [u64; 8],
    /// The sum of their ticks, and the part in spans inside them.
    pub(crate) ticks: u64,
    pub(crate) of_children: u64,
    /// The sums of the counts.
    pub(crate) counts: [u64; MAX_EVENTS],
    /// Of the ticks, and of each count.
    pub(crate) distributions: Vec<Distribution>,
    /// Of the ticks of disturbed spans.
    pub(crate) disturbed: Distribution,
}

impl SiteStats {
    pub(crate) fn new(site: &'static Site, order: usize, events: usize) -> SiteStats {
        SiteStats {
            site,
            order,
            count: 0,
            flags: [0; 8],
            ticks: 0,
            of_children: 0,
            counts: [0; MAX_EVENTS],
            distributions: vec![Distribution::default(); events + 1],
            disturbed: Distribution::default(),
        }
    }

    pub(crate) fn of_histograms(histograms: &SiteHistograms) -> SiteStats {
        SiteStats {
            site: histograms.site,
            order: histograms.order,
            count: histograms.count.load(Relaxed),
            flags: histograms.flags.each_ref().map(|flag| flag.load(Relaxed)),
            ticks: histograms.ticks.load(Relaxed),
            of_children: histograms.of_children.load(Relaxed),
            counts: histograms.counts.each_ref().map(|count| count.load(Relaxed)),
            distributions: histograms.distributions(),
            disturbed: histograms.disturbed(),
        }
    }

    /// Adds a record, with the ticks of the spans inside it.
    pub(crate) fn add(&mut self, record: &Record, of_children: u64) {
        self.count += 1;
        self.of_children = self.of_children.saturating_add(of_children.min(record.duration()));
        self.ticks = self.ticks.saturating_add(record.duration());
        for (bit, flag) in self.flags.iter_mut().enumerate() {
            *flag += u64::from(record.flags.bits() >> bit & 1);
        }
        let mut distributions = self.distributions.iter_mut();
        if let Some(times) = distributions.next() {
            times.record(record.duration());
        }
        if record.flags.contains(Flags::DISTURBED) {
            self.disturbed.record(record.duration());
        }
        if !record.flags.contains(Flags::NOT_COUNTED) {
            let sums = record.counts.iter().zip(&mut self.counts);
            for ((count, sum), distribution) in sums.zip(distributions) {
                *sum = sum.wrapping_add(*count);
                distribution.record(*count);
            }
        }
    }

    /// Returns the statistics of the spans that were recorded after `before` was.
    pub(crate) fn since(mut self, before: &SiteStats) -> SiteStats {
        let less = |value: &mut u64, before: u64| *value = value.saturating_sub(before);
        less(&mut self.count, before.count);
        less(&mut self.ticks, before.ticks);
        less(&mut self.of_children, before.of_children);
        self.flags.iter_mut().zip(before.flags).for_each(|(flag, before)| less(flag, before));
        for (count, before) in self.counts.iter_mut().zip(before.counts) {
            *count = count.wrapping_sub(before);
        }
        for (all, before) in self.distributions.iter_mut().zip(&before.distributions) {
            *all = all.since(before);
        }
        self.disturbed = self.disturbed.since(&before.disturbed);
        self
    }

    /// Returns how many of the spans have a flag.
    pub(crate) fn with(&self, flag: Flags) -> u64 {
        let bit = flag.bits().trailing_zeros() as usize;
        self.flags.get(bit).copied().unwrap_or(0)
    }
}

/// The cost and the ticks of the spans inside those that are still open.
#[derive(Debug, Default)]
pub(crate) struct Nested {
    /// For each depth.
    spans: Vec<Vec<Inside>>,
    /// The ticks at which the latest lap ended. The next one begins there, unless it is a first one.
    lap_end: Option<u64>,
}

/// A finished span, with the cost of those inside it.
#[derive(Clone, Copy, Debug)]
struct Inside {
    start: u64,
    ticks: u64,
    cost: [u64; MAX_EVENTS],
}

impl Nested {
    /// Subtracts from the counts the cost of this span, and that of the spans inside it. Records come in the order in
    /// which spans end, so the latter have come before. Returns the ticks of the spans inside it: 0 for a lap.
    pub(crate) fn correct(&mut self, record: &mut Record, cost: &Cost) -> u64 {
        let depth = usize::from(record.depth);
        let [start, end] = record.ticks;
        let (inside, whole) = match record.flags.contains(Flags::LAP) {
            false => (&cost.inside, &cost.whole),
            true if self.lap_end.replace(end) == Some(start) => (&cost.lap, &cost.lap),
            true => (&cost.first_lap, &cost.lap),
        };
        let (mut nested, mut ticks) = ([0_u64; MAX_EVENTS], 0_u64);
        if let Some(deeper) = self.spans.get_mut(depth + 1..) {
            for finished in deeper.iter_mut().flat_map(|spans| spans.drain(..)) {
                // Earlier ones were inside a span whose record was dropped.
                if finished.start >= start {
                    add(&mut nested, finished.cost);
                    ticks = ticks.saturating_add(finished.ticks);
                }
            }
        }
        // Spans of the lap's depth that began in it are inside it, and are also inside the span around it.
        let mut of_lap = nested;
        if record.flags.contains(Flags::LAP) {
            let beside = self.spans.get(depth).into_iter().flatten();
            beside.filter(|span| span.start >= start).for_each(|span| add(&mut of_lap, span.cost));
        }
        if !record.flags.contains(Flags::NOT_COUNTED) {
            for ((count, nested), inside) in
                record.counts.iter_mut().zip(of_lap).zip(inside.constant())
            {
                *count = count.saturating_sub(nested).saturating_sub(inside);
            }
        }
        // Nothing is around a span of depth 1 but laps.
        if depth < 2 {
            if record.flags.contains(Flags::LAP) {
                self.spans.get_mut(depth).into_iter().for_each(Vec::clear);
                return 0;
            }
            if self.lap_end.is_none() {
                return ticks;
            }
        }
        add(&mut nested, whole.constant());
        let is_lap = record.flags.contains(Flags::LAP);
        let inside = Inside {
            start,
            // A lap is not inside the span around it, but spans inside the lap are.
            ticks: if is_lap { ticks } else { record.duration() },
            cost: nested,
        };
        if self.spans.len() <= depth {
            self.spans.resize_with(depth + 1, Vec::new);
        }
        if let Some(spans) = self.spans.get_mut(depth) {
            // A span that runs all day has many inside it. The oldest become one. A lap needs those that began in it.
            const MANY: usize = 1 << 12;
            if spans.len() == MANY {
                let oldest = spans.drain(..MANY / 2).reduce(|mut all, next| {
                    add(&mut all.cost, next.cost);
                    Inside { start: next.start, ticks: all.ticks.saturating_add(next.ticks), ..all }
                });
                spans.splice(..0, oldest);
            }
            spans.push(inside);
        }
        if is_lap { 0 } else { ticks }
    }
}

fn add(sums: &mut [u64; MAX_EVENTS], more: [u64; MAX_EVENTS]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.wrapping_add(more);
    }
}
