//! The side of histograms that records: their own time and cost as they end.
#![allow(unsafe_code)]

use crate::record::{
    Companion, FLAGS_SHIFT, Flags, HEAD, MAX_DEPTH, MAX_EVENTS, Pending, Polls, Site, depth_of,
    is_companion, site_at, ticks_between,
};
use crate::sink::histograms::{Published, Shape, Side, SiteHistograms};
use crate::sink::{Costs, Handover};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// How many spans and laps have ended, and how many of the spans had a number.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    spans: u64,
    laps: u64,
    numbers: u64,
}

impl Tally {
    fn plus(self, other: Tally) -> Tally {
        Tally {
            spans: self.spans.wrapping_add(other.spans),
            laps: self.laps.wrapping_add(other.laps),
            numbers: self.numbers.wrapping_add(other.numbers),
        }
    }

    fn minus(self, other: Tally) -> Tally {
        Tally {
            spans: self.spans.wrapping_sub(other.spans),
            laps: self.laps.wrapping_sub(other.laps),
            numbers: self.numbers.wrapping_sub(other.numbers),
        }
    }

    /// Adds what these cost the span around them.
    fn add_cost(self, sums: &mut [u64; MAX_EVENTS], costs: &Costs) {
        let of = [
            (self.spans, &costs.in_parent),
            (self.laps, &costs.lap),
            (self.numbers, &costs.number),
        ];
        for (times, costs) in of {
            for (sum, cost) in sums.iter_mut().zip(costs) {
                *sum = sum.wrapping_add(cost.wrapping_mul(times));
            }
        }
    }
}

/// What has ended inside an open span.
#[derive(Debug, Default)]
struct Inside {
    ticks: Cell<u64>,
    /// At every depth.
    ended: Cell<Tally>,
    /// What had ended when the current lap began.
    before_lap: Cell<Tally>,
}

/// The side that records.
#[derive(Debug)]
pub(crate) struct Recorder {
    sides: Arc<Handover<Side>>,
    shape: Shape,
    costs: Cell<Costs>,
    /// For the other side: the histograms of sites that only one side has.
    spare: RefCell<Vec<SiteHistograms>>,
    /// For each depth, and the greatest of these depths.
    inside: Box<[Inside]>,
    deepest: Cell<usize>,
    /// The ticks at which the latest lap ended.
    lap_end: Cell<u64>,
    /// What is known of the span that ends next.
    pending: Cell<Pending>,
    /// Whether its page faults are.
    has_faults: Cell<bool>,
}

impl Recorder {
    pub(crate) fn new(shape: Shape) -> (Recorder, Published) {
        let sides = Arc::new(Handover::new([Side::new(), Side::new()]));
        let recorder = Recorder {
            sides: sides.clone(),
            shape,
            costs: Cell::default(),
            spare: RefCell::new(Vec::with_capacity(64)),
            inside: (0..=usize::from(MAX_DEPTH) + 1).map(|_| Inside::default()).collect(),
            deepest: Cell::new(0),
            lap_end: Cell::new(0),
            pending: Cell::default(),
            has_faults: Cell::new(false),
        };
        (recorder, Published::new(sides))
    }

    /// Subtracts these costs from later counts.
    pub(crate) fn set_costs(&self, costs: Costs) {
        self.costs.set(costs);
    }

    /// Allocates the histograms of a site.
    ///
    /// # Safety
    /// As `record`.
    pub(crate) unsafe fn prepare(&self, site: &'static Site) {
        // SAFETY: the caller's promise.
        unsafe { self.sides.write(|side| self.add(side, site)) }
    }

    /// Adds the histograms of a site to a side. Allocates those of both sides at once, so that a thread does not allocate
    /// after an exchange.
    #[cold]
    #[inline(never)]
    fn add(&self, side: &mut Side, site: &'static Site) {
        let Ok(mut spare) = self.spare.try_borrow_mut() else { return };
        if side.of_site(site).is_some() {
            return;
        }
        let place = spare.iter().position(|histograms| histograms.is_of(site));
        side.add(match place {
            Some(place) => spare.swap_remove(place),
            None => {
                spare.push(SiteHistograms::new(site, &self.shape));
                SiteHistograms::new(site, &self.shape)
            }
        });
    }

    /// Records a span of the words of a record. Allocates at the first one of each site on each side.
    ///
    /// # Safety
    /// Only the thread whose histograms these are calls this, and not while it is in here. The addresses of sites are those
    /// of statics.
    #[inline(always)]
    pub(crate) unsafe fn record(&self, words: &[u64]) {
        let Some((&[site, parent, start, end, last], counts)) = words.split_first_chunk::<HEAD>()
        else {
            return;
        };
        if is_companion(site) {
            return self.add_pending(words);
        }
        // SAFETY: the caller's promise.
        let Some(site_of) = (unsafe { site_at(site) }) else { return };
        let flags = Flags::from_bits((last >> FLAGS_SHIFT) as u8);
        let (time, depth) = (ticks_between(start, end), usize::from(depth_of(last)));
        let is_lap = flags.contains(Flags::LAP);
        let nested = if is_lap { 0 } else { self.nested(depth, time) };
        let add = |side: &mut Side| {
            let of = match side.of_site(site_of) {
                Some(of) => of,
                None => {
                    // First, so that a span is listed before those inside it.
                    // SAFETY: the caller's promise.
                    if let Some(parent) = unsafe { site_at(parent) } {
                        self.add(side, parent);
                    }
                    self.add(side, site_of);
                    match side.of_site(site_of) {
                        Some(of) => of,
                        None => return,
                    }
                }
            };
            of.add_time(time, nested);
            // That it is a lap is not counted.
            let has_more = flags.bits() & !Flags::LAP.bits() != 0 || self.has_faults.get();
            if has_more || !counts.is_empty() {
                self.record_rest(of, [start, end], last, counts);
            }
        };
        // SAFETY: the caller's promise.
        unsafe { self.sides.write(add) }
    }

    /// Records a time of the program's, which is in no span. Allocates as `record`.
    ///
    /// # Safety
    /// As `record`.
    pub(crate) unsafe fn record_time(
        &self,
        site: &'static Site,
        [start, end]: [u64; 2],
        polls: Option<Polls>,
    ) {
        let add = |side: &mut Side| {
            if side.of_site(site).is_none() {
                self.add(side, site);
            }
            if let Some(of) = side.of_site(site) {
                of.add_recorded(ticks_between(start, end), polls);
            }
        };
        // SAFETY: the caller's promise.
        unsafe { self.sides.write(add) }
    }

    #[cold]
    #[inline(never)]
    fn add_pending(&self, words: &[u64]) {
        let Some(companion) = Companion::decode(words) else { return };
        // Histograms have no numbers. What these cost is subtracted from counts.
        if self.shape.events == 0 && matches!(companion, Companion::Number(_)) {
            return;
        }
        let mut pending = self.pending.get();
        pending.add(companion, words);
        self.pending.set(pending);
        if matches!(companion, Companion::Faults(_)) {
            self.has_faults.set(true);
        }
    }

    /// Records what a span of time alone has not.
    fn record_rest(
        &self,
        of: &mut SiteHistograms,
        [start, end]: [u64; 2],
        last: u64,
        counts: &[u64],
    ) {
        let mut flags = Flags::from_bits((last >> FLAGS_SHIFT) as u8);
        let mut pending = self.pending.take();
        self.has_faults.set(false);
        let details = pending.take(start, last);
        let is_counted = !flags.contains(Flags::NOT_COUNTED);
        let costs = self.costs_of([start, end], last, flags, details.number.is_some());
        let corrected = counts.iter().zip(costs).map(|(count, cost)| count.saturating_sub(cost));
        let of_the_kernel = self.shape.kernel_instructions.and_then(|index| counts.get(index));
        if is_counted && of_the_kernel.is_some_and(|count| *count > 0) {
            flags = flags.union(Flags::INTERRUPTED);
        }
        of.add_rest(ticks_between(start, end), flags, &details, corrected);
    }

    /// Returns the ticks of the spans inside a span, and adds it to the one around it. Spans end before those around them.
    #[inline(always)]
    fn nested(&self, depth: usize, time: u64) -> u64 {
        let deepest = self.deepest.replace(depth);
        let Some(inside) = self.inside.get(depth + 1) else { return 0 };
        // More than one deeper, if guards were forgotten.
        let mut nested = if deepest > depth { inside.ticks.take() } else { 0 };
        if deepest > depth + 1 {
            nested += self.nested_deeper(inside, depth + 2..=deepest);
        }
        if let Some(around) = self.inside.get(depth) {
            around.ticks.set(if depth > 1 { around.ticks.get().wrapping_add(time) } else { 0 });
        }
        nested
    }

    #[cold]
    fn nested_deeper(&self, inside: &Inside, depths: std::ops::RangeInclusive<usize>) -> u64 {
        let deeper = self.inside.get(depths).unwrap_or_default();
        deeper.iter().for_each(|deeper| {
            inside.ended.set(inside.ended.get().plus(deeper.ended.take()));
            deeper.before_lap.take();
        });
        deeper.iter().fold(0, |sum, deeper| sum.wrapping_add(deeper.ticks.take()))
    }

    /// Begins a lap of this depth, which is not the next one of another.
    pub(crate) fn begin_lap(&self, depth: u16) {
        if let Some(around) = self.inside.get(usize::from(depth)) {
            around.before_lap.set(around.ended.get());
        }
    }

    /// Returns the costs in the counts of a span or lap, and adds it to the one around it.
    fn costs_of(
        &self,
        [start, end]: [u64; 2],
        last: u64,
        flags: Flags,
        is_numbered: bool,
    ) -> [u64; MAX_EVENTS] {
        let costs = self.costs.get();
        let depth = usize::from(depth_of(last));
        // Spans in a lap have the lap's depth.
        let (Some(around), Some(inside)) = (self.inside.get(depth), self.inside.get(depth + 1))
        else {
            return [0; MAX_EVENTS];
        };
        let ended = around.ended.get();
        let (mut all, nested) = if flags.contains(Flags::LAP) {
            let is_next = self.lap_end.replace(end) == start;
            let after = ended.plus(Tally { laps: 1, ..Tally::default() });
            around.ended.set(after);
            let nested = ended.minus(around.before_lap.replace(after));
            (if is_next { costs.lap } else { costs.first_lap }, nested)
        } else {
            let mut nested = inside.ended.take();
            inside.before_lap.take();
            nested.numbers = nested.numbers.wrapping_add(is_numbered.into());
            let own = Tally { spans: 1, ..Tally::default() };
            // What is around a span that ended out of order is not known.
            if !flags.contains(Flags::OUT_OF_ORDER) {
                around.ended.set(ended.plus(nested).plus(own));
            }
            (costs.span, nested)
        };
        nested.add_cost(&mut all, &costs);
        all
    }

    /// The number of counts of a record.
    pub(crate) fn events(&self) -> usize {
        self.shape.events
    }
}
