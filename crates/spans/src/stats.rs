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
    /// The place among the thread's sites, by their first records. A span comes before those inside it.
    pub(crate) place: usize,
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
    pub(crate) fn new(site: &'static Site, place: usize, events: usize) -> SiteStats {
        SiteStats {
            site,
            place,
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
            place: histograms.place,
            count: histograms.count.load(Relaxed),
            flags: histograms.flags.each_ref().map(|flag| flag.load(Relaxed)),
            ticks: histograms.ticks.load(Relaxed),
            of_children: histograms.of_children.load(Relaxed),
            counts: histograms.counts.each_ref().map(|count| count.load(Relaxed)),
            distributions: histograms.distributions(),
            disturbed: histograms.disturbed(),
        }
    }

    pub(crate) fn add(&mut self, record: &Record) {
        self.count += 1;
        self.ticks = self.ticks.saturating_add(record.duration());
        for (bit, flag) in self.flags.iter_mut().enumerate() {
            *flag += u64::from(record.flags.bits() >> bit & 1);
        }
        let mut distributions = self.distributions.iter_mut();
        if let Some(times) = distributions.next() {
            times.record(record.duration());
        }
        if record.flags.has(Flags::DISTURBED) {
            self.disturbed.record(record.duration());
        }
        if !record.flags.has(Flags::NOT_COUNTED) {
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

    pub(crate) fn add_child(&mut self, child: &Record) {
        self.of_children = self.of_children.saturating_add(child.duration());
    }

    /// Returns how many of the spans have a flag.
    pub(crate) fn with(&self, flag: Flags) -> u64 {
        let bit = flag.bits().trailing_zeros() as usize;
        self.flags.get(bit).copied().unwrap_or(0)
    }
}

/// The cost of the spans inside those that are still open.
#[derive(Debug, Default)]
pub(crate) struct Nested {
    /// For each depth.
    spans: Vec<Vec<Inside>>,
    /// The ticks at which the latest lap ended. The next one begins there, unless it is a first one.
    lap_end: Option<u64>,
}

/// The cost of a finished span and of those inside it.
#[derive(Clone, Copy, Debug)]
struct Inside {
    start: u64,
    cost: [u64; MAX_EVENTS],
}

impl Nested {
    /// Subtracts from the counts the cost of this span, and that of the spans inside it. Records come in the order in
    /// which spans end, so the latter have come before.
    pub(crate) fn correct(&mut self, record: &mut Record, cost: &Cost) {
        let depth = usize::from(record.depth);
        let [start, end] = record.ticks;
        let (inside, whole) = match record.flags.has(Flags::LAP) {
            false => (&cost.inside, &cost.whole),
            true if self.lap_end.replace(end) == Some(start) => (&cost.lap, &cost.lap),
            true => (&cost.first_lap, &cost.lap),
        };
        let mut nested = [0_u64; MAX_EVENTS];
        if let Some(deeper) = self.spans.get_mut(depth + 1..) {
            for finished in deeper.iter_mut().flat_map(|spans| spans.drain(..)) {
                // Without this, they are those of a span whose record was dropped.
                if finished.start >= start {
                    add(&mut nested, finished.cost);
                }
            }
        }
        // Those of the lap's depth that began in it are inside it, and stay for the span around it.
        let mut of_lap = nested;
        if record.flags.has(Flags::LAP) {
            let beside = self.spans.get(depth).into_iter().flatten();
            beside.filter(|span| span.start >= start).for_each(|span| add(&mut of_lap, span.cost));
        }
        if !record.flags.has(Flags::NOT_COUNTED) {
            for ((count, nested), inside) in
                record.counts.iter_mut().zip(of_lap).zip(inside.constant())
            {
                *count = count.saturating_sub(nested).saturating_sub(inside);
            }
        }
        // Nothing is around a span of depth 1 but laps.
        if depth < 2 {
            if record.flags.has(Flags::LAP) {
                self.spans.get_mut(depth).into_iter().for_each(Vec::clear);
                return;
            }
            if self.lap_end.is_none() {
                return;
            }
        }
        add(&mut nested, whole.constant());
        if self.spans.len() <= depth {
            self.spans.resize_with(depth + 1, Vec::new);
        }
        if let Some(spans) = self.spans.get_mut(depth) {
            // A span that runs all day has many inside it. From here on, they are added to the last one.
            const MANY: usize = 1 << 12;
            match spans.len() < MANY {
                true => spans.push(Inside { start, cost: nested }),
                false => spans.last_mut().into_iter().for_each(|last| add(&mut last.cost, nested)),
            }
        }
    }
}

fn add(sums: &mut [u64; MAX_EVENTS], more: [u64; MAX_EVENTS]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.wrapping_add(more);
    }
}
