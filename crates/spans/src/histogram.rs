//! Histograms that one thread records in and another may read meanwhile.
#![allow(unsafe_code)]

use crate::Site;
use crate::record::{Flags, MAX_DEPTH, MAX_EVENTS, Record};
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The bits of a value that its bucket keeps, below the highest: an error of at max 1/128.
const BITS: u32 = 7;
const BUCKETS: usize = ((u64::BITS - BITS + 1) as usize) << BITS;

/// Returns the number of a value's bucket. The buckets are those of HdrHistogram: values below 256 have one each, and
/// there are 128 from each further power of two to the next.
pub(crate) fn bucket(value: u64) -> usize {
    let shift = (u64::BITS - BITS).saturating_sub((value | 1).leading_zeros());
    match shift {
        0 => value as usize,
        // The highest bit is in the number of the power.
        _ => ((shift as usize) << BITS) + (value >> (shift - 1)) as usize - (1 << BITS),
    }
}

/// Returns the lowest and the highest value of a bucket.
pub(crate) fn values(bucket: usize) -> [u64; 2] {
    let (power, low) = (bucket >> BITS, (bucket & ((1 << BITS) - 1)) as u64);
    match power {
        0 => [low, low],
        _ => {
            let shift = (power - 1) as u32;
            let lowest = (low | 1 << BITS) << shift;
            [lowest, lowest + ((1 << shift) - 1)]
        }
    }
}

/// A histogram of all 64-bit values, which takes 58 KiB. One thread records, others may read.
#[derive(Debug)]
struct Histogram {
    buckets: Box<[AtomicU64]>,
    max: AtomicU64,
}

impl Histogram {
    fn new() -> Histogram {
        // Written, so that recording does not fault.
        let buckets = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Histogram { buckets, max: AtomicU64::new(0) }
    }

    fn record(&self, value: u64) {
        if let Some(bucket) = self.buckets.get(bucket(value)) {
            add(bucket, 1);
        }
        if value > self.max.load(Relaxed) {
            self.max.store(value, Relaxed);
        }
    }
}

/// A histogram that grows with the largest value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distribution {
    buckets: Vec<u64>,
    count: u64,
    max: u64,
}

impl Distribution {
    pub(crate) fn record(&mut self, value: u64) {
        self.add(bucket(value), 1);
        self.max = self.max.max(value);
    }

    fn add(&mut self, bucket: usize, count: u64) {
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        if let Some(known) = self.buckets.get_mut(bucket) {
            *known = known.saturating_add(count);
            self.count = self.count.saturating_add(count);
        }
    }

    fn of(histogram: &Histogram) -> Distribution {
        let mut all = Distribution::default();
        for (bucket, count) in histogram.buckets.iter().enumerate() {
            match count.load(Relaxed) {
                0 => {}
                count => all.add(bucket, count),
            }
        }
        all.max = histogram.max.load(Relaxed);
        all
    }

    /// Returns the distribution of the values that were recorded after `before` was. The maximum is that of its bucket.
    pub(crate) fn since(&self, before: &Distribution) -> Distribution {
        let mut later = Distribution::default();
        for (bucket, count) in self.buckets.iter().enumerate() {
            let earlier = before.buckets.get(bucket).copied().unwrap_or(0);
            if *count > earlier {
                later.add(bucket, count - earlier);
                later.max = values(bucket)[1].min(self.max);
            }
        }
        later
    }

    /// Returns the `q`-quantile: the highest value of its bucket, and at max the maximum. 0 if there are no values.
    pub(crate) fn quantile(&self, q: f64) -> u64 {
        let rank = ((q * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut before = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            before += count;
            if before >= rank {
                let [_, highest] = values(bucket);
                return highest.min(self.max);
            }
        }
        0
    }

    /// Returns the largest value.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }
}

/// Adds to a value that only this thread writes.
fn add(value: &AtomicU64, more: u64) {
    value.store(value.load(Relaxed).wrapping_add(more), Relaxed);
}

/// What one thread has recorded of one site. Its thread writes, others read.
#[derive(Debug)]
pub(crate) struct SiteHistograms {
    pub(crate) site: &'static Site,
    /// The order of the thread's sites, by their first spans.
    pub(crate) order: usize,
    pub(crate) count: AtomicU64,
    /// How often each flag was set.
    pub(crate) flags: [AtomicU64; 8],
    pub(crate) ticks: AtomicU64,
    /// The ticks of spans whose parent this is.
    pub(crate) of_children: AtomicU64,
    pub(crate) counts: [AtomicU64; MAX_EVENTS],
    /// Of the ticks, and of each count.
    histograms: Vec<Histogram>,
    /// Of the ticks of disturbed spans. Only counters show a disturbance.
    disturbed: Option<Histogram>,
    /// The one that was published before.
    next: AtomicPtr<SiteHistograms>,
}

impl SiteHistograms {
    /// Returns the distributions of the ticks, and of each count.
    pub(crate) fn distributions(&self) -> Vec<Distribution> {
        self.histograms.iter().map(Distribution::of).collect()
    }

    /// Returns the distribution of the ticks of disturbed spans.
    pub(crate) fn disturbed(&self) -> Distribution {
        self.disturbed.as_ref().map(Distribution::of).unwrap_or_default()
    }
}

/// The histograms of a thread, for both sides: a list that only grows.
#[derive(Debug, Default)]
pub(crate) struct Published {
    newest: AtomicPtr<SiteHistograms>,
}

impl Published {
    /// Calls `each` with every site's histograms.
    pub(crate) fn each(&self, mut each: impl FnMut(&SiteHistograms)) {
        let mut next = self.newest.load(Ordering::Acquire); // pairs with Recorder::publish
        // SAFETY: null, or published, and freed only with this list.
        while let Some(histograms) = unsafe { next.as_ref() } {
            each(histograms);
            next = histograms.next.load(Relaxed);
        }
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        let mut next = *self.newest.get_mut();
        while !next.is_null() {
            // SAFETY: from Box::into_raw in `publish`, and no reference to it is left: both sides have dropped the list.
            let histograms = unsafe { Box::from_raw(next) };
            next = histograms.next.load(Relaxed);
        }
    }
}

thread_local! {
    static IS_RECORDING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in [`Recorder::record`]: a span that begins now is one in the allocator.
pub(crate) fn is_recording() -> bool {
    IS_RECORDING.get()
}

/// Whether the kernel executed instructions during a span, if the count at `index` shows it.
pub(crate) fn is_interrupted(index: Option<usize>, record: &Record) -> bool {
    index.and_then(|index| record.counts.get(index)).is_some_and(|count| *count > 0)
}

/// The side that records.
#[derive(Debug)]
pub(crate) struct Recorder {
    published: Arc<Published>,
    events: usize,
    /// The index of the kernel's instructions among the counts, which show interrupts.
    kernel_instructions: Option<usize>,
    /// The ticks of finished spans inside those that are still open, for each depth, and the greatest of these depths.
    nested: Box<[Cell<u64>]>,
    deepest: Cell<usize>,
    /// The known sites, by their address: a hash table with at least half of its places free.
    table: RefCell<Vec<(*const Site, *const SiteHistograms)>>,
}

impl Recorder {
    pub(crate) fn new(
        events: usize,
        kernel_instructions: Option<usize>,
    ) -> (Recorder, Arc<Published>) {
        let published = Arc::new(Published::default());
        let recorder = Recorder {
            published: published.clone(),
            events,
            kernel_instructions,
            nested: (0..=usize::from(MAX_DEPTH)).map(|_| Cell::new(0)).collect(),
            deepest: Cell::new(0),
            table: RefCell::new(vec![(ptr::null(), ptr::null()); 64]),
        };
        (recorder, published)
    }

    /// Records a span. Allocates at the first span of each site. Returns false if this interrupts another call: a span in
    /// the allocator.
    pub(crate) fn record(&self, record: &Record) -> bool {
        if IS_RECORDING.replace(true) {
            return false;
        }
        self.record_alone(record);
        IS_RECORDING.set(false);
        true
    }

    fn record_alone(&self, record: &Record) {
        let Ok(mut table) = self.table.try_borrow_mut() else { return };
        let (ticks, mut flags) = (record.duration(), record.flags);
        // First, so that a span is listed before those inside it.
        if let Some(parent) = record.parent {
            self.of(&mut table, parent);
        }
        let of = self.of(&mut table, record.site);
        add(&of.of_children, self.nested_in(record).min(ticks));
        if is_interrupted(self.kernel_instructions, record) {
            flags = flags.union(Flags::INTERRUPTED);
        }
        add(&of.count, 1);
        add(&of.ticks, ticks);
        if flags != Flags::NONE {
            for (bit, flag) in of.flags.iter().enumerate() {
                add(flag, u64::from(flags.bits() >> bit & 1));
            }
        }
        if flags.contains(Flags::DISTURBED) {
            of.disturbed.iter().for_each(|disturbed| disturbed.record(ticks));
        }
        let mut histograms = of.histograms.iter();
        if let Some(times) = histograms.next() {
            times.record(ticks);
        }
        if !flags.contains(Flags::NOT_COUNTED) {
            for ((count, histogram), sum) in record.counts.iter().zip(histograms).zip(&of.counts) {
                histogram.record(*count);
                add(sum, *count);
            }
        }
    }

    /// Returns the ticks of the spans inside this one: 0 for a lap. Spans end before those around them.
    fn nested_in(&self, record: &Record) -> u64 {
        if record.flags.contains(Flags::LAP) {
            return 0;
        }
        let depth = usize::from(record.depth);
        // More than one deeper, if spans were leaked.
        let deeper = self.nested.get(depth + 1..=self.deepest.get()).unwrap_or_default();
        let nested = deeper.iter().fold(0_u64, |sum, ticks| sum.saturating_add(ticks.take()));
        if let Some(ticks) = self.nested.get(depth) {
            let with_this = ticks.get().saturating_add(record.duration());
            ticks.set(if depth > 1 { with_this } else { 0 });
        }
        self.deepest.set(depth);
        nested
    }

    /// Returns the histograms of a site.
    fn of(
        &self,
        table: &mut Vec<(*const Site, *const SiteHistograms)>,
        site: &'static Site,
    ) -> &SiteHistograms {
        let place = place(table, site);
        let known = table.get(place).map_or(ptr::null(), |(_, histograms)| *histograms);
        // SAFETY: null, or published, and `self` holds the list.
        if let Some(known) = unsafe { known.as_ref() } {
            return known;
        }
        self.publish(table, site)
    }

    #[cold]
    #[inline(never)]
    fn publish(
        &self,
        table: &mut Vec<(*const Site, *const SiteHistograms)>,
        site: &'static Site,
    ) -> &SiteHistograms {
        let used = table.iter().filter(|(site, _)| !site.is_null()).count();
        let new = Box::into_raw(Box::new(SiteHistograms {
            order: used,
            site,
            count: AtomicU64::new(0),
            flags: Default::default(),
            ticks: AtomicU64::new(0),
            of_children: AtomicU64::new(0),
            counts: Default::default(),
            histograms: (0..=self.events).map(|_| Histogram::new()).collect(),
            disturbed: (self.events > 0).then(Histogram::new),
            next: AtomicPtr::new(self.published.newest.load(Relaxed)),
        }));
        self.published.newest.store(new, Ordering::Release); // its fields first; pairs with Published::each
        if used * 2 >= table.len() {
            let old = std::mem::replace(table, vec![(ptr::null(), ptr::null()); table.len() * 2]);
            for (site, histograms) in old.into_iter().filter(|(site, _)| !site.is_null()) {
                let at = place(table, site);
                if let Some(entry) = table.get_mut(at) {
                    *entry = (site, histograms);
                }
            }
        }
        let at = place(table, site);
        if let Some(entry) = table.get_mut(at) {
            *entry = (site, new);
        }
        // SAFETY: published, and `self` holds the list.
        unsafe { &*new }
    }
}

/// Returns the place of a site in the table: its own, or the first free one from there.
fn place(table: &[(*const Site, *const SiteHistograms)], site: *const Site) -> usize {
    let mask = table.len().wrapping_sub(1);
    let mut at = (site.addr() >> 3) & mask;
    while let Some((other, _)) = table.get(at) {
        if other.is_null() || ptr::eq(*other, site) {
            break;
        }
        at = (at + 1) & mask;
    }
    at
}
