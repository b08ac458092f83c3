//! The spans of the crate `tracing`.
#![allow(
    clippy::disallowed_types,
    reason = "tracing itself allocates and locks, as the documentation says"
)]

// A span of `tracing` is entered and left many times, perhaps on several threads at once. Each pair is a record. Open
// entries are in the span's extensions, because another thread may leave the span.

use crate::Site;
use crate::local::{self, Beginning};
use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
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
/// Direct calls of a `Dispatch` can leave a span on another thread than they entered it. The record then belongs to the second
/// thread. It has the time and no counts, and is flagged as [not counted](crate::Flags::NOT_COUNTED) and
/// [out of order](crate::Flags::OUT_OF_ORDER). On the first thread, the span counts as open until a span around it ends, or
/// the next span of `tracing` begins.
///
/// The fields and events of `tracing` are not recorded. Spans of `tracing` allocate and lock, which their counts
/// include: `cargo bench --bench spans` compares them with others.
#[derive(Debug, Default)]
pub struct TracingLayer(());

/// The sites of the source locations, by the address of their metadata. Of all layers, because a location is one site.
static SITES: RwLock<BTreeMap<usize, &'static Site>> = RwLock::new(BTreeMap::new());

/// Spans that other threads have left: the thread that entered it, and its number.
static MOVED: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
/// The length of `MOVED`, so that it is rarely locked.
static ANY_MOVED: AtomicUsize = AtomicUsize::new(0);

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
}

/// Returns the site of a source location.
fn site_of(metadata: &'static Metadata<'static>) -> &'static Site {
    let address = ptr::from_ref(metadata).addr();
    let known = SITES.read().unwrap_or_else(PoisonError::into_inner).get(&address).copied();
    known.unwrap_or_else(|| {
        let mut sites = SITES.write().unwrap_or_else(PoisonError::into_inner);
        sites.entry(address).or_insert_with(|| {
            let (file, line) = (metadata.file().unwrap_or(""), metadata.line().unwrap_or(0));
            // Leaked, because records have its address.
            Box::leak(Box::new(Site::new(metadata.name(), file, line)))
        })
    })
}

/// Takes the spans of this thread from its stack that other threads have left.
#[cold]
fn discard_moved(thread: u64) {
    let mut moved = MOVED.lock().unwrap_or_else(PoisonError::into_inner);
    moved.retain(|(entered_by, number)| {
        let is_of_another = *entered_by != thread;
        if !is_of_another {
            local::discard(*number);
        }
        is_of_another
    });
    ANY_MOVED.store(moved.len(), Ordering::Relaxed);
}

impl Entry {
    /// Ends the recorded span on this thread.
    fn end(self, site: &'static Site, thread: u64) {
        match self.beginning {
            _ if self.number == 0 => {}
            Some(beginning) if self.thread != thread => {
                local::exit_moved(site, beginning);
                let mut moved = MOVED.lock().unwrap_or_else(PoisonError::into_inner);
                moved.push((self.thread, self.number));
                ANY_MOVED.store(moved.len(), Ordering::Relaxed);
            }
            _ => local::exit(site, self.number, self.ticks),
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TracingLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let entries = Entries { site: site_of(attributes.metadata()), open: Vec::new() };
            span.extensions_mut().replace(entries);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(entries) = extensions.get_mut::<Entries>() else { return };
        let (session, thread) = (local::recording(), this_thread());
        if ANY_MOVED.load(Ordering::Relaxed) != 0 {
            discard_moved(thread);
        }
        entries.open.reserve(1); // first, so that the span does not include it
        let (number, ticks) = match session {
            0 => (0, 0),
            _ => local::enter(entries.site, session),
        };
        let beginning = if number == 0 { None } else { local::beginning(number, ticks) };
        entries.open.push(Entry { thread, number, ticks, beginning });
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(entries) = extensions.get_mut::<Entries>() else { return };
        let thread = this_thread();
        let of_this = entries.open.iter().rposition(|entry| entry.thread == thread);
        let Some(index) = of_this.or(entries.open.len().checked_sub(1)) else { return };
        entries.open.remove(index).end(entries.site, thread);
    }

    /// Ends the span if it was dropped while it was entered. `on_exit` does not find it any more.
    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(entries) = span.extensions_mut().remove::<Entries>() else { return };
        let thread = this_thread();
        entries.open.into_iter().rev().for_each(|entry| entry.end(entries.site, thread));
    }
}
