//! What ended threads have recorded, in bounded memory.
#![allow(unsafe_code)]

// No lock: a child of a fork might wait for it for ever. A thread that ends takes all that is there, adds its own, and puts
// it back. Another thread that ends meanwhile finds nothing, and puts its own beside it. So there are at most as many
// estates as threads end at once, and one.

use crate::collect::{Kept, Meta, OfThread, Taken};
use crate::counting::Patience;
use crate::statistics::{SiteStats, merge_into};
use std::collections::VecDeque;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The most names that are kept apart. Threads of further names are one entry.
pub(crate) const NAMES: usize = 64;
/// The most records that are kept.
pub(crate) const RECORDS: usize = 1 << 14;

/// Threads that have ended, of one name.
#[derive(Clone, Debug)]
pub(crate) struct OfName {
    /// That of the first one.
    pub(crate) meta: Arc<Meta>,
    pub(crate) threads: u64,
    pub(crate) sites: Vec<SiteStats>,
    pub(crate) dropped: u64,
    pub(crate) refused: u64,
}

/// What ended threads have left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Estate {
    pub(crate) names: Vec<OfName>,
    /// The latest records.
    pub(crate) records: VecDeque<Kept>,
    /// The number of earlier ones, which are in the statistics.
    pub(crate) not_kept: u64,
    /// With histograms: the number of earlier outermost spans that were slow, or had slow ones inside.
    pub(crate) slow_not_kept: u64,
}

impl Estate {
    /// Returns what a thread leaves. Reads its last records.
    ///
    /// # Safety
    /// The thread has ended, or is this one and records no more. Nobody else reads its records.
    pub(crate) unsafe fn of_thread(mut thread: OfThread) -> Estate {
        let mut estate = Estate::default();
        // Twice, because the thread may have answered a request for which nobody has waited.
        for _ in 0..2 {
            thread.request();
            let mut patience = Patience::none();
            // SAFETY: the caller's promise.
            unsafe {
                thread.collect_records(&mut |kept| estate.keep(kept));
                thread.collect_histograms(true, &mut patience);
            }
        }
        let Taken { sites, dropped, refused } = thread.take();
        let meta = of_group(thread.meta);
        estate.names.push(OfName { meta, threads: 1, sites, dropped, refused });
        estate
    }

    fn keep(&mut self, kept: Kept) {
        self.records.push_back(kept);
        if self.records.len() > RECORDS {
            self.forget_first();
        }
    }

    /// Forgets the first record, or the first slow span with all records inside it: they are the only ones that threads with
    /// histograms have.
    fn forget_first(&mut self) {
        let Some(first) = self.records.pop_front() else { return };
        if !first.thread.is_in_histograms {
            self.not_kept += 1;
            return;
        }
        let number = first.thread.number;
        let mut next = Some(first);
        while next.as_ref().is_some_and(|kept| kept.raw.depth != 1) {
            let is_of_same = self.records.front().is_some_and(|kept| kept.thread.number == number);
            next = if is_of_same { self.records.pop_front() } else { None };
        }
        self.slow_not_kept += 1;
    }

    /// Adds what other threads have left.
    pub(crate) fn add(&mut self, other: Estate) {
        self.not_kept += other.not_kept;
        self.slow_not_kept += other.slow_not_kept;
        other.records.into_iter().for_each(|kept| self.keep(kept));
        other.names.into_iter().for_each(|of| self.add_name(of));
    }

    fn add_name(&mut self, mut of: OfName) {
        let is_same = |known: &OfName, of: &OfName| {
            known.meta.name == of.meta.name && known.meta.is_like(&of.meta)
        };
        let is_new_name = of.meta.is_named && self.names.len() >= NAMES;
        if is_new_name && !self.names.iter().any(|known| is_same(known, &of)) {
            let name = "threads of other names".to_string();
            of.meta = Arc::new(Meta { name, ..(*of.meta).clone() });
        }
        let Some(known) = self.names.iter_mut().find(|known| is_same(known, &of)) else {
            return self.names.push(of);
        };
        known.threads += of.threads;
        known.dropped += of.dropped;
        known.refused += of.refused;
        of.sites.into_iter().for_each(|stats| merge_into(&mut known.sites, stats));
    }
}

/// Returns what is known of all threads that are listed as one with this.
fn of_group(meta: Arc<Meta>) -> Arc<Meta> {
    match meta.is_named {
        true => meta,
        false => Arc::new(Meta { name: meta.group().to_string(), ..(*meta).clone() }),
    }
}

/// The estates of ended threads that nobody has collected.
#[derive(Debug)]
pub(crate) struct Ended {
    newest: AtomicPtr<Node>,
    /// How often `add` has begun and ended. In between, it has what others have left.
    begun: AtomicU32,
    over: AtomicU32,
    /// The number of `add`s for which a reader has waited in vain: those of threads of the parent of this process.
    missing: AtomicU32,
}

#[derive(Debug)]
struct Node {
    estate: Estate,
    next: *mut Node,
}

impl Ended {
    pub(crate) const fn new() -> Ended {
        Ended {
            newest: AtomicPtr::new(ptr::null_mut()),
            begun: AtomicU32::new(0),
            over: AtomicU32::new(0),
            missing: AtomicU32::new(0),
        }
    }

    /// Adds what a thread has left.
    pub(crate) fn add(&self, estate: Estate) {
        self.begun.fetch_add(1, Ordering::SeqCst); // pairs with `take_all`
        let mut all = self.take().unwrap_or_default();
        all.add(estate);
        let node = Box::into_raw(Box::new(Node { estate: all, next: ptr::null_mut() }));
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            // SAFETY: from Box::into_raw, and not in the list yet.
            unsafe { (*node).next = newest };
            // Its fields first; pairs with `take`. SeqCst, for the check in `Session::bequeath`.
            match self.newest.compare_exchange_weak(
                newest,
                node,
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => newest = now,
            }
        }
        self.over.fetch_add(1, Ordering::SeqCst); // pairs with `take_all`
    }

    /// Takes all, also what an `add` on another thread has while it adds to it.
    pub(crate) fn take_all(&self, patience: &mut Patience) -> Option<Estate> {
        let mut all: Option<Estate> = None;
        let mut has_waited = false;
        loop {
            // In this order, so that no more are over than have begun.
            let over = self.over.load(Ordering::SeqCst);
            let begun = self.begun.load(Ordering::SeqCst);
            let open = begun.wrapping_sub(over);
            // Those that were waited for in vain, and have ended since then.
            let missing = self.missing.load(Ordering::Relaxed).min(open);
            self.missing.store(missing, Ordering::Relaxed); // only the reader does
            match (&mut all, self.take()) {
                (Some(all), Some(more)) => all.add(more),
                (None, more) => all = more,
                (Some(_), None) => {}
            }
            // None had any of it, and none has begun to before all was taken.
            if open == missing && self.begun.load(Ordering::SeqCst) == begun {
                return all;
            }
            if !patience.wait() {
                if has_waited {
                    self.missing.store(open, Ordering::Relaxed);
                }
                return all;
            }
            has_waited = true;
        }
    }

    /// Takes what is there.
    pub(crate) fn take(&self) -> Option<Estate> {
        let mut next = self.newest.swap(ptr::null_mut(), Ordering::SeqCst); // pairs with `add`
        let mut all: Option<Estate> = None;
        while !next.is_null() {
            // SAFETY: from Box::into_raw in `add`, and taken from the list by this thread alone.
            let node = *unsafe { Box::from_raw(next) };
            next = node.next;
            match &mut all {
                Some(all) => all.add(node.estate),
                None => all = Some(node.estate),
            }
        }
        all
    }
}
