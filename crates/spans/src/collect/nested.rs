//! The subtraction of what spans cost from the counts of their records. Histograms subtract it when they record.

use crate::record::{MAX_EVENTS, Raw};
use crate::sink::Costs;

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
    pub(crate) fn correct(&mut self, record: &mut Raw, is_numbered: bool, costs: &Costs) -> u64 {
        let depth = usize::from(record.depth);
        let [start, end] = record.ticks;
        let (own, in_parent) = match record.is_lap() {
            false => (costs.span, costs.in_parent),
            true if self.lap_end.replace(end) == Some(start) => (costs.lap, costs.lap),
            true => (costs.first_lap, costs.lap),
        };
        let (mut nested, mut ticks) = ([0_u64; MAX_EVENTS], 0_u64);
        if is_numbered {
            nested = costs.number;
        }
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
        if record.is_lap() {
            let beside = self.spans.get(depth).into_iter().flatten().rev();
            let of_this = beside.take_while(|span| span.start >= start);
            of_this.for_each(|span| add(&mut of_lap, span.cost));
        }
        if record.is_counted() {
            for ((count, nested), own) in record.counts.iter_mut().zip(of_lap).zip(own) {
                *count = count.saturating_sub(nested).saturating_sub(own);
            }
        }
        // Nothing is around a span of depth 1 but laps.
        if depth < 2 {
            if record.is_lap() {
                self.spans.get_mut(depth).into_iter().for_each(Vec::clear);
                return 0;
            }
            if self.lap_end.is_none() {
                return ticks;
            }
        }
        add(&mut nested, in_parent);
        let is_lap = record.is_lap();
        let inside = Inside {
            start,
            // A lap is not inside the span around it, but spans inside the lap are.
            ticks: if is_lap { ticks } else { record.time() },
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
