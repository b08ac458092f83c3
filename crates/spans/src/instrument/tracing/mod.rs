//! The spans of the crate `tracing`.
#![allow(unsafe_code)]

// A span of `tracing` is entered and left many times, perhaps on several threads at once. Each pair is a record. A thread has
// a list of those that it has entered. Nothing here waits for another thread: a child of a fork would wait for ever.

mod fields;
mod sites;

use crate::instrument::Moment;
use crate::instrument::whole::Whole;
use crate::record::{AtomicU64, Site, count_lost};
use crate::thread;
use ::tracing::Subscriber;
use ::tracing::span::{Attributes, Id, Record};
use fields::{Fields, Kept, KeptByLayers};
use rdpmc::Clock;
use sites::{site_named, site_of, whole_of};
use std::cell::RefCell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// Records the spans of `tracing`, such as those of `#[instrument]`, beside those of [`span!`](crate::span).
///
/// ```
/// use rdpmc::Event;
/// use rdpmc_spans::{Settings, TracingLayer};
/// use tracing_subscriber::layer::SubscriberExt;
///
/// fn step() {
///     let _step = tracing::info_span!("step").entered(); // or `#[tracing::instrument]`
/// }
///
/// let mut spans = Settings::new().events(&[Event::CYCLES, Event::INSTRUCTIONS]).start()?;
/// let subscriber = tracing_subscriber::registry().with(TracingLayer::new());
/// tracing::subscriber::with_default(subscriber, step); // in a program, `set_global_default`
/// println!("{}", spans.report());
/// # Ok::<(), rdpmc_spans::StartError>(())
/// ```
///
/// Entering and leaving a span makes one record. In an async function, that is each poll, and one more when the
/// future is dropped. The counts are those of the thread that polls.
///
/// Direct calls of a `Dispatch` can leave a span on another thread than they entered it. It then counts as open until the
/// thread that entered it enters or leaves a span of `tracing`, and is recorded there. The record has the time and no counts,
/// and is flagged as [not counted](crate::Flags::NOT_COUNTED) and [out of order](crate::Flags::OUT_OF_ORDER). If the thread
/// ends before, it is counted as lost.
///
/// Fields can be part of a span's name, or its number:
///
/// ```
/// use rdpmc_spans::{Settings, TracingLayer};
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let mut spans = Settings::new().start()?;
/// let layer = TracingLayer::new().names_from("name").numbers_from("entities");
/// let subscriber = tracing_subscriber::registry().with(layer);
/// tracing::subscriber::with_default(subscriber, || {
///     let _system = tracing::info_span!("system", name = "physics", entities = 17).entered();
/// });
/// assert_eq!(spans.report().rows[0].name, "system: physics");
/// # Ok::<(), rdpmc_spans::StartError>(())
/// ```
///
/// Other fields and events of `tracing` are not recorded. This layer takes no lock, unless it has to look at fields or whole times: these are in
/// the registry, which locks those of a span. It allocates at the first span of a source
/// location, when a thread nests deeper than before, and for a span that moves. `tracing` itself allocates and locks, which the counts of a span include.
#[derive(Debug)]
pub struct TracingLayer {
    /// A number of its own, because layers of different subscribers have spans of the same ids.
    number: u64,
    /// The fields whose values are names and numbers.
    names: Vec<&'static str>,
    numbers: Vec<&'static str>,
    has_whole_times: bool,
}

/// A span of a layer.
type Key = (u64, u64);

impl Default for TracingLayer {
    fn default() -> TracingLayer {
        TracingLayer::new()
    }
}

impl TracingLayer {
    /// Returns a layer, to be added to a subscriber.
    pub fn new() -> TracingLayer {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        TracingLayer {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            names: Vec::new(),
            numbers: Vec::new(),
            has_whole_times: false,
        }
    }

    /// Adds the value of this field to the name of spans that have it: `system: physics` for `info_span!("system", name = "physics")`, so
    /// that each value has a row of its own. Of several such fields, a span is named by the first that has a value.
    ///
    /// For values of which there are few, such as systems and routes. A source location has at most 256 names. Spans of further ones are
    /// `system: other names`. A name takes memory until the process ends. With [histograms](crate::Storage::Histograms), it takes 116 KiB
    /// for each thread.
    #[must_use]
    pub fn names_from(mut self, field: &'static str) -> TracingLayer {
        self.names.push(field);
        self
    }

    /// Takes the value of this field, an integer, for the span's [number](crate::Record::number). Of several such fields, the first that
    /// has a value counts. Negative ones and others that do not fit into 64 bits are none.
    #[must_use]
    pub fn numbers_from(mut self, field: &'static str) -> TracingLayer {
        self.numbers.push(field);
        self
    }

    /// Records the whole time of spans that are entered more than once, such as those of async functions: from when the span is made to when
    /// it is closed, as [`polled!`](crate::polled) does. The row `load (whole)` has one for each, with the time in which it was entered and how
    /// often: each poll, and one more when the future is dropped.
    #[must_use]
    pub fn whole_times(mut self) -> TracingLayer {
        self.has_whole_times = true;
        self
    }

    /// Whether it keeps something of spans in the registry.
    fn keeps_more(&self) -> bool {
        cfg!(feature = "enabled")
            && (self.has_whole_times || !self.names.is_empty() || !self.numbers.is_empty())
    }

    fn key(&self, id: &Id) -> Key {
        (self.number, id.into_u64())
    }
}

/// A span that this thread has entered.
struct Entry {
    key: Key,
    site: &'static Site,
    /// The number of the recorded span. 0 if spans were off.
    number: u64,
    /// Its ticks, on the inlined path.
    ticks: u64,
    /// The program's number.
    of_program: Option<u64>,
    /// When it was entered, if its whole time is recorded.
    entered: Option<Moment>,
}

/// Those that this thread has entered, the latest last.
struct Entries(Vec<Entry>);

impl Drop for Entries {
    fn drop(&mut self) {
        end_left(&mut self.0);
        count_lost(self.0.iter().filter(|entry| entry.number != 0).count() as u64);
    }
}

thread_local! {
    static ENTRIES: RefCell<Entries> = const { RefCell::new(Entries(Vec::new())) };
}

/// A span that another thread has left than the one that entered it.
struct Left {
    key: Key,
    /// The ticks at its end.
    end: u64,
    /// How often a thread has found that it is not one of its own.
    age: u32,
    next: *mut Left,
}

/// The spans that other threads have left, and their number.
static LEFT: AtomicPtr<Left> = AtomicPtr::new(ptr::null_mut());
static LEFT_COUNT: AtomicUsize = AtomicUsize::new(0);

/// The most of these.
const MAX_LEFT: usize = 1_024;
/// The age at which one is given up.
const OLD: u32 = 100_000;

/// Tells the thread that entered a span that this one has left it.
#[cold]
fn leave_elsewhere(key: Key) {
    if LEFT_COUNT.fetch_add(1, Ordering::Relaxed) >= MAX_LEFT {
        LEFT_COUNT.fetch_sub(1, Ordering::Relaxed);
        return count_lost(1);
    }
    match thread::with_clock(Clock::ticks) {
        Some(end) => push_left(Box::new(Left { key, end, age: 0, next: ptr::null_mut() })),
        None => {
            LEFT_COUNT.fetch_sub(1, Ordering::Relaxed);
            count_lost(1);
        }
    }
}

fn push_left(left: Box<Left>) {
    let left = Box::into_raw(left);
    let mut newest = LEFT.load(Ordering::Relaxed);
    loop {
        // SAFETY: from Box::into_raw, and not in the list yet.
        unsafe { (*left).next = newest };
        // Its fields first; pairs with the swap of `end_left`.
        match LEFT.compare_exchange_weak(newest, left, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => newest = now,
        }
    }
}

/// Ends the spans of this thread that other threads have left.
#[cold]
fn end_left(entries: &mut Vec<Entry>) {
    let mut next = LEFT.swap(ptr::null_mut(), Ordering::Acquire); // pairs with `push_left`
    while !next.is_null() {
        // SAFETY: from Box::into_raw, and taken from the list by this thread alone.
        let mut left = unsafe { Box::from_raw(next) };
        next = left.next;
        match entries.iter().rposition(|entry| entry.key == left.key) {
            Some(place) => {
                let entry = entries.remove(place);
                LEFT_COUNT.fetch_sub(1, Ordering::Relaxed);
                if entry.number != 0 {
                    thread::exit_elsewhere(entry.site, entry.number, [entry.ticks, left.end]);
                }
            }
            // Its thread has ended, or never enters or leaves a span again.
            None if left.age == OLD => {
                LEFT_COUNT.fetch_sub(1, Ordering::Relaxed);
                count_lost(1);
            }
            None => {
                left.age += 1;
                push_left(left);
            }
        }
    }
}

/// Calls `use_them` with the spans that this thread has entered.
fn with_entries(use_them: impl FnOnce(&mut Vec<Entry>)) {
    // Refused while the thread ends, and to spans of `tracing` in an allocator that this calls.
    let used = ENTRIES.try_with(|entries| {
        let Ok(mut entries) = entries.try_borrow_mut() else { return count_refused() };
        if !LEFT.load(Ordering::Relaxed).is_null() {
            end_left(&mut entries.0);
        }
        use_them(&mut entries.0);
    });
    if used.is_err() {
        count_refused();
    }
}

/// Counts a span that could not be entered. One that is entered while the list is in use is left meanwhile, too.
fn count_refused() {
    count_lost(u64::from(thread::recording() != 0));
}

impl TracingLayer {
    /// Keeps what the fields of a span tell.
    fn keep<S: Subscriber + for<'a> LookupSpan<'a>>(
        &self,
        id: &Id,
        context: &Context<'_, S>,
        visit: impl FnOnce(&mut Fields<'_>),
        is_new: bool,
    ) {
        let Some(span) = context.span(id) else { return };
        let (names, numbers) = (&*self.names, &*self.numbers);
        let mut fields = Fields { names, numbers, name: None, number: None };
        visit(&mut fields);
        let site = fields.name.map(|(_, value)| site_named(span.metadata(), &value));
        let number = fields.number.map(|(_, value)| value);
        let whole = (is_new && self.has_whole_times && thread::recording() != 0).then(Whole::begin);
        if site.is_none() && number.is_none() && whole.is_none() {
            return;
        }
        let mut extensions = span.extensions_mut();
        if extensions.get_mut::<KeptByLayers>().is_none() {
            extensions.insert(KeptByLayers::default());
        }
        let Some(all) = extensions.get_mut::<KeptByLayers>() else { return };
        if all.of(self.number).is_none() {
            all.0.push((self.number, Kept::default()));
        }
        if let Some(kept) = all.of(self.number) {
            kept.site = site.or(kept.site);
            kept.number = number.or(kept.number);
            kept.whole = whole.or(kept.whole.take());
        }
    }

    /// Calls `see` with what is kept of a span.
    fn with_kept<S: Subscriber + for<'a> LookupSpan<'a>, R>(
        &self,
        id: &Id,
        context: &Context<'_, S>,
        see: impl FnOnce(&mut Kept) -> R,
    ) -> Option<R> {
        let span = context.span(id).filter(|_| self.keeps_more())?;
        let mut extensions = span.extensions_mut();
        extensions.get_mut::<KeptByLayers>()?.of(self.number).map(see)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TracingLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if self.keeps_more() {
            self.keep(id, &context, |fields| attributes.record(fields), true);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if self.keeps_more() {
            self.keep(id, &context, |fields| values.record(fields), false);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if !cfg!(feature = "enabled") {
            return;
        }
        let of = |kept: &mut Kept| (kept.site, kept.number, kept.whole.is_some());
        let (named, of_program, is_whole) = self.with_kept(id, &context, of).unwrap_or_default();
        let location = || context.span(id).map(|span| site_of(span.metadata()));
        let Some(site) = named.or_else(location) else { return };
        with_entries(|entries| {
            entries.reserve(1); // first, so that the span does not include it
            let entered = is_whole.then(Moment::now);
            let session = thread::recording();
            let (number, ticks) = if session == 0 { (0, 0) } else { thread::enter(site, session) };
            entries.push(Entry { key: self.key(id), site, number, ticks, of_program, entered });
        });
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        if !cfg!(feature = "enabled") {
            return;
        }
        let key = self.key(id);
        let mut entered = None;
        with_entries(|entries| match entries.iter().rposition(|entry| entry.key == key) {
            Some(place) => {
                let entry = entries.remove(place);
                if let Some(number) = entry.of_program.filter(|_| entry.number != 0) {
                    thread::record_number(entry.number, entry.ticks, number);
                }
                if entry.number != 0 {
                    thread::exit(entry.site, entry.number, entry.ticks);
                }
                entered = entry.entered;
            }
            None => leave_elsewhere(key),
        });
        if self.has_whole_times {
            let end = |kept: &mut Kept| match (&mut kept.whole, entered) {
                (Some(whole), Some(entered)) => whole.add_poll(entered),
                (Some(whole), None) => whole.forget_polls(),
                (None, _) => {}
            };
            self.with_kept(id, &context, end);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if !self.has_whole_times {
            return;
        }
        let kept = self.with_kept(&id, &context, std::mem::take);
        let Some(Kept { site, number, whole: Some(whole) }) = kept else { return };
        let location = || context.span(&id).map(|span| site_of(span.metadata()));
        if let Some(site) = site.or_else(location).filter(|_| whole.polls() > 1) {
            whole.end(whole_of(site), number);
        }
    }
}
