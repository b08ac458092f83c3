//! The spans of the crate `tracing`.

// A span of `tracing` is entered and left many times, perhaps on several threads at once. Each time is a record. What is
// known of those that are not left yet is with the span, because it may be left on another thread.

use crate::Site;
use crate::local::{self, Beginning};
use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use tracing_core::span::{Attributes, Id};
use tracing_core::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// Records the spans of `tracing`, such as those of `#[instrument]`, beside those of [`span!`](crate::span).
///
/// ```
/// use rdpmc::Event;
/// use rdpmc_spans::{Settings, TracingLayer};
/// use tracing_subscriber::layer::SubscriberExt;
///
/// #[tracing::instrument]
/// fn step() {}
///
/// let mut spans = Settings::new().events(&[Event::CYCLES, Event::INSTRUCTIONS]).start()?;
/// let subscriber = tracing_subscriber::registry().with(TracingLayer::new());
/// tracing::subscriber::with_default(subscriber, step); // in a program, `set_global_default`
/// println!("{}", spans.report());
/// # Ok::<(), rdpmc_spans::StartError>(())
/// ```
///
/// A record is the time from entering a span to leaving it: of an async function, one poll. Its counts are those of the
/// thread that polls. If a span is entered on one thread and left on another, which only calls of a `Dispatch` can do, the
/// record belongs to the second thread, has the time, and is flagged as [not counted](crate::Flags::NOT_COUNTED) and
/// [out of order](crate::Flags::OUT_OF_ORDER).
///
/// The fields and events of `tracing` are not recorded. Spans of `tracing` allocate and lock, which their counts
/// include: some 100 ns for each record.
#[derive(Debug, Default)]
pub struct TracingLayer {
    /// The sites of the places in the source, by the address of their metadata.
    sites: RwLock<HashMap<usize, &'static Site>>,
}

/// What a span has: its site, and when it was entered. The last entry is the latest.
struct Entries {
    site: &'static Site,
    open: Vec<Entry>,
}

struct Entry {
    thread: u64,
    /// The number of the recorded span. 0 if spans were off.
    number: u64,
    /// Its ticks, on the inlined path.
    ticks: u64,
    /// For another thread.
    beginning: Option<Beginning>,
}

/// Returns a number that no other thread has had.
fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! { static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed); }
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

impl TracingLayer {
    /// Returns a layer, to be added to a subscriber.
    pub fn new() -> TracingLayer {
        TracingLayer::default()
    }

    fn site(&self, metadata: &'static Metadata<'static>) -> &'static Site {
        let place = ptr::from_ref(metadata).addr();
        let known = self.sites.read().unwrap_or_else(PoisonError::into_inner).get(&place).copied();
        known.unwrap_or_else(|| {
            let mut sites = self.sites.write().unwrap_or_else(PoisonError::into_inner);
            sites.entry(place).or_insert_with(|| {
                let (file, line) = (metadata.file().unwrap_or(""), metadata.line().unwrap_or(0));
                // One for each place in the source. Records have its address.
                Box::leak(Box::new(Site::new(metadata.name(), file, line)))
            })
        })
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TracingLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let entries = Entries { site: self.site(attributes.metadata()), open: Vec::new() };
            span.extensions_mut().replace(entries);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(entries) = extensions.get_mut::<Entries>() else { return };
        let session = local::recording();
        entries.open.reserve(1); // first, so that the span does not include it
        let (number, ticks) = match session {
            0 => (0, 0),
            _ => local::enter(entries.site, session),
        };
        let beginning = if number == 0 { None } else { local::beginning(number, ticks) };
        entries.open.push(Entry { thread: this_thread(), number, ticks, beginning });
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(entries) = extensions.get_mut::<Entries>() else { return };
        let thread = this_thread();
        let of_this = entries.open.iter().rposition(|entry| entry.thread == thread);
        let Some(place) = of_this.or(entries.open.len().checked_sub(1)) else { return };
        let entry = entries.open.remove(place);
        match entry.beginning {
            _ if entry.number == 0 => {}
            Some(beginning) if entry.thread != thread => local::exit_moved(entries.site, beginning),
            _ => local::exit(entries.site, entry.number, entry.ticks),
        }
    }
}
