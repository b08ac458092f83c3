//! The spans of the crate `tracing`.

mod entries;
mod fields;
mod sites;

use crate::instrument::Moment;
use crate::record::AtomicU64;
use crate::thread;
use ::tracing::Subscriber;
use ::tracing::span::{Attributes, Id, Record};
use entries::{Entry, Key, leave_elsewhere, with_entries};
use fields::Kept;
use sites::{site_of, whole_of};
use std::sync::atomic::Ordering;
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
/// Other fields and events of `tracing` are not recorded.
///
/// Without fields and whole times, this layer takes no lock. It allocates at the first span of a source location, when a thread nests deeper than
/// before, and for a span that moves. With them, it locks what the registry keeps of a span, and allocates for each span. `tracing` itself
/// allocates and locks. The counts of a span include that.
#[derive(Debug)]
pub struct TracingLayer {
    /// A number of its own, because layers of different subscribers have spans of the same ids.
    number: u64,
    /// The fields whose values are names and numbers.
    names: Vec<&'static str>,
    numbers: Vec<&'static str>,
    has_whole_times: bool,
}

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
    /// Use it for fields with few distinct values, such as systems and routes. A source location has at most 256 names. Spans of further ones are
    /// `system: other names`. A name takes memory until the process ends. With [histograms](crate::Storage::Histograms), it takes 116 KiB
    /// for each thread.
    #[must_use]
    pub fn names_from(mut self, field: &'static str) -> TracingLayer {
        self.names.push(field);
        self
    }

    /// Uses this integer field, of any span that has it, as the span's [number](crate::Record::number). If several fields are named, the first with a value is used. Values
    /// outside of `u64` are ignored.
    #[must_use]
    pub fn numbers_from(mut self, field: &'static str) -> TracingLayer {
        self.numbers.push(field);
        self
    }

    /// Records the whole time of spans that are entered more than once, such as those of async functions: from when the span is made to when
    /// it is closed, as [`polled!`](crate::polled) does.
    ///
    /// The row `load (whole)` has one record for each span, with the time in which the span was entered and the number of entries: the polls. The last
    /// entry, which drops the future, is left out there. The row `load` has it. A span that several threads have entered at once has the sum of their
    /// times. A whole time has no spans inside.
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
        let of = |kept: &mut Kept| (kept.site(), kept.number(), kept.whole.is_some());
        let (named, of_program, is_whole) = self.with_kept(id, &context, of).unwrap_or_default();
        let location = || context.span(id).map(|span| site_of(span.metadata()));
        let Some(site) = named.or_else(location) else { return };
        with_entries(|entries| {
            entries.reserve(1); // first, so that the span does not include it
            let session = thread::recording();
            let (number, ticks) = if session == 0 { (0, 0) } else { thread::enter(site, session) };
            let entered = is_whole.then(Moment::now);
            thread::bind(number, true);
            entries.push(Entry { key: self.key(id), site, number, ticks, of_program, entered });
        });
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        if !cfg!(feature = "enabled") {
            return;
        }
        let key = self.key(id);
        // Before the span ends, which may take a system call, and before the registry locks the span.
        let now = if self.has_whole_times { Some(Moment::now()) } else { None };
        let mut entered = None;
        with_entries(|entries| match entries.iter().rposition(|entry| entry.key == key) {
            Some(place) => {
                let entry = entries.remove(place);
                if let Some(number) = entry.of_program.filter(|_| entry.number != 0) {
                    thread::record_number(entry.number, entry.ticks, number);
                }
                if entry.number != 0 {
                    thread::bind(entry.number, false);
                    thread::exit(entry.site, entry.number, entry.ticks);
                }
                entered = entry.entered;
            }
            None => leave_elsewhere(key),
        });
        if let Some(now) = now {
            let end = |kept: &mut Kept| match (&mut kept.whole, entered) {
                (Some(whole), Some(entered)) => whole.add_poll([entered, now]),
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
        let Some(kept) = kept else { return };
        let (site, number) = (kept.site(), kept.number());
        let Some(whole) = kept.whole else { return };
        let location = || context.span(&id).map(|span| site_of(span.metadata()));
        if let Some(site) = site.or_else(location).filter(|_| whole.is_of_several_polls()) {
            whole.without_last().end(whole_of(site), number);
        }
    }
}
