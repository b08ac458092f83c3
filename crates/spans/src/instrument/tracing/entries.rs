//! The spans of `tracing` that a thread has entered.
#![allow(unsafe_code)]

// A span is entered and left many times, perhaps on several threads at once. Each pair is a record. Nothing here waits for another thread: a
// child of a fork would wait for ever.

use crate::instrument::Moment;
use crate::record::{Site, count_lost};
use crate::thread;
use rdpmc::Clock;
use std::cell::RefCell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// A span of a layer: the layer's number, and its own.
pub(super) type Key = (u64, u64);

/// A span that this thread has entered.
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) site: &'static Site,
    /// The number of the recorded span. 0 if spans were off.
    pub(super) number: u64,
    /// Its ticks, on the inlined path.
    pub(super) ticks: u64,
    /// The program's number.
    pub(super) of_program: Option<u64>,
    /// When it was entered, if its whole time is recorded.
    pub(super) entered: Option<Moment>,
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
pub(super) fn leave_elsewhere(key: Key) {
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
pub(super) fn with_entries(use_them: impl FnOnce(&mut Vec<Entry>)) {
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
