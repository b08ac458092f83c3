//! The spans of the crate `tracing`.
#![allow(unsafe_code)]

// A span of `tracing` is entered and left many times, perhaps on several threads at once. Each pair is a record. A thread has
// a list of those that it has entered. Nothing here waits for another thread: a child of a fork would wait for ever.

use crate::record::{AtomicU64, Site, count_lost, leak};
use crate::thread;
use ::tracing::span::Id;
use ::tracing::{Metadata, Subscriber};
use rdpmc::Clock;
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
/// The fields and events of `tracing` are not recorded. This layer takes no lock. It allocates at the first span of a source
/// location, when a thread nests deeper than before, and for a span that moves. `tracing` itself allocates and locks, which the counts of a span include.
#[derive(Debug)]
pub struct TracingLayer {
    /// A number of its own, because layers of different subscribers have spans of the same ids.
    number: u64,
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
        TracingLayer { number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    fn key(&self, id: &Id) -> Key {
        (self.number, id.into_u64())
    }
}

/// A source location, in a list of those with the same hash.
struct Known {
    /// The address of its metadata.
    metadata: usize,
    site: &'static Site,
    /// The one that was added before.
    next: *const Known,
}

/// The known source locations, by hash. Of all layers, because a location is one site. Never freed, because records have
/// the addresses of sites.
static SITES: [AtomicPtr<Known>; 256] = [const { AtomicPtr::new(ptr::null_mut()) }; 256];

/// Returns the site of a source location.
fn site_of(metadata: &'static Metadata<'static>) -> &'static Site {
    let address = ptr::from_ref(metadata).addr();
    let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize) >> (usize::BITS - 8);
    let list = SITES.get(hash).unwrap_or(&SITES[0]);
    let find = |newest: *mut Known| {
        let mut next: *const Known = newest;
        // SAFETY: null or published, and never freed. Their fields came first: pairs with the exchange below.
        while let Some(known) = unsafe { next.as_ref() } {
            if known.metadata == address {
                return Some(known.site);
            }
            next = known.next;
        }
        None
    };
    let mut newest = list.load(Ordering::Acquire);
    if let Some(site) = find(newest) {
        return site;
    }
    let (file, line) = (metadata.file().unwrap_or(""), metadata.line().unwrap_or(0));
    // Its name is in the object of the source location. Refused for one that the program has closed meanwhile.
    let _ = rdpmc::keep_loaded(ptr::from_ref(metadata).cast());
    let site = leak(Site::new(metadata.name(), file, line));
    let new = Box::into_raw(Box::new(Known { metadata: address, site, next: ptr::null() }));
    loop {
        // SAFETY: from Box::into_raw, and not published yet.
        unsafe { (*new).next = newest };
        match list.compare_exchange(newest, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return site,
            Err(now) => newest = now,
        }
        // Another thread may have added it.
        if let Some(site) = find(newest) {
            // SAFETY: from Box::into_raw, and never published.
            drop(unsafe { Box::from_raw(new) });
            return site;
        }
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

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TracingLayer {
    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if !cfg!(feature = "enabled") {
            return;
        }
        let Some(site) = context.span(id).map(|span| site_of(span.metadata())) else { return };
        with_entries(|entries| {
            entries.reserve(1); // first, so that the span does not include it
            let session = thread::recording();
            let (number, ticks) = if session == 0 { (0, 0) } else { thread::enter(site, session) };
            entries.push(Entry { key: self.key(id), site, number, ticks });
        });
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        if !cfg!(feature = "enabled") {
            return;
        }
        let key = self.key(id);
        with_entries(|entries| match entries.iter().rposition(|entry| entry.key == key) {
            Some(place) => {
                let Entry { site, number, ticks, .. } = entries.remove(place);
                if number != 0 {
                    thread::exit(site, number, ticks);
                }
            }
            None => leave_elsewhere(key),
        });
    }
}
