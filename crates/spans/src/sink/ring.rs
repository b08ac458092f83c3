//! A queue of records with one writer, which never waits, and one reader.
#![allow(unsafe_code)]

// A record is a slot of some words, the first of which is never 0. The writer stores that word last, so the record is
// published by it. The reader stores 0 there when it has read the others, so the slot is free by it. After the last slot is a
// word that stands for the end. Neither side knows where the other one is.

use crate::record::{AtomicU64, HEAD};
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// In place of a record's first word: the end of the memory. No site has this address.
const END: u64 = 1;

/// A word of a record. Aligned for atomics, which 32-bit x86 does not do.
#[repr(C, align(8))]
struct Word(UnsafeCell<u64>);

/// The memory that writer and reader share.
pub(crate) struct Ring {
    /// The slots, and the end.
    words: Box<[Word]>,
    /// The writer's: a record for which there may be room once it is written, and an end.
    scratch: Box<[Word]>,
    /// The number of words of a record.
    stride: usize,
    /// The spans, and the slow outermost spans with all inside them, that found no room.
    dropped: AtomicU64,
    refused_trees: AtomicU64,
}

// SAFETY: the words of a slot belong to the writer while the first one is 0, otherwise to the reader. That word is atomic. The
// scratch record is the writer's.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// Returns both sides of a ring of `records`, each with this many counts.
    pub(crate) fn pair(records: usize, counts: usize) -> (Writer, Reader) {
        let stride = HEAD + counts;
        // Written, so that the writer's first round does not fault.
        let slots = |records: usize| -> Box<[Word]> {
            let zeros = std::iter::repeat_with(|| 0).take(records.saturating_mul(stride));
            zeros.chain([END]).map(|word| Word(UnsafeCell::new(word))).collect()
        };
        let ring = Arc::new(Ring {
            words: slots(records.max(1)),
            scratch: slots(1),
            stride,
            dropped: AtomicU64::new(0),
            refused_trees: AtomicU64::new(0),
        });
        let writer = Writer {
            at: Cell::new(ring.first()),
            resume: Cell::new(None),
            is_refused: Cell::new(false),
            ring: ring.clone(),
        };
        let reader = Reader { at: 0, ring };
        (writer, reader)
    }

    fn first(&self) -> *mut u64 {
        self.words.as_ptr().cast::<u64>().cast_mut()
    }

    fn records(&self) -> usize {
        self.words.len() / self.stride
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("records", &self.records()).finish_non_exhaustive()
    }
}

/// The side that records.
#[derive(Debug)]
pub(crate) struct Writer {
    /// Where the next record goes: a free slot, or the scratch record.
    at: Cell<*mut u64>,
    /// While records go to the scratch record: the slot to be free.
    resume: Cell<Option<*mut u64>>,
    /// Whether the next record is dropped even if there is room: a companion of it was.
    is_refused: Cell<bool>,
    ring: Arc<Ring>,
}

impl Writer {
    /// Sends all records to the scratch record, from where the caller takes them.
    pub(crate) fn to_scratch(&self) {
        self.resume.set(Some(self.ring.first()));
        self.at.set(self.scratch());
    }

    /// Writes a record. Returns true if the caller has to call `advance` next, or to take the scratch record.
    ///
    /// # Safety
    /// The ring was made for `N` counts. The first word of `head` is neither 0 nor 1.
    #[inline(always)]
    #[must_use]
    pub(crate) unsafe fn write<const N: usize>(
        &self,
        [site, rest @ ..]: [u64; HEAD],
        counts: [u64; N],
    ) -> bool {
        let at = self.at.get();
        // SAFETY: `at` is a free slot, which belongs to the writer, or the scratch record. Both have HEAD + N words, by the
        // caller's promise, and a word follows: the next slot's first, or the end.
        unsafe {
            at.add(1).cast::<[u64; HEAD - 1]>().write(rest);
            at.add(HEAD).cast::<[u64; N]>().write(counts);
            let next = at.add(HEAD + N);
            AtomicU64::from_ptr(at).store(site, Ordering::Release); // the other words first; pairs with Reader::read
            self.at.set(next);
            // The reader has read the words of a free slot; pairs with Reader::read.
            AtomicU64::from_ptr(next).load(Ordering::Acquire) != 0
        }
    }

    /// Finds the slot of the next record, after one that was followed by no free slot.
    pub(crate) fn advance(&self) {
        let after = self.at.get();
        let Some(slot) = self.resume.get() else { return self.set(after) };
        // The record is in the scratch record.
        if self.is_refused.take() || !self.is_free(slot) {
            self.drop_one();
            return self.at.set(self.scratch());
        }
        let stride = self.ring.stride;
        // SAFETY: the scratch record is written, and the slot is free, so it belongs to the writer.
        let next = unsafe {
            let scratch = self.scratch();
            std::ptr::copy_nonoverlapping(scratch.add(1), slot.add(1), stride - 1);
            let site = scratch.read();
            AtomicU64::from_ptr(slot).store(site, Ordering::Release); // as in `write`
            slot.add(stride)
        };
        self.set(next);
    }

    /// Sets the slot of the next record: `at`, or the first one if that is the end. If it is not free, the scratch record.
    fn set(&self, at: *mut u64) {
        // SAFETY: a slot's first word or the end. Only the reader writes it meanwhile.
        let is_end = unsafe { AtomicU64::from_ptr(at) }.load(Ordering::Relaxed) == END;
        let slot = if is_end { self.ring.first() } else { at };
        let is_free = self.is_free(slot);
        self.resume.set((!is_free).then_some(slot));
        self.at.set(if is_free { slot } else { self.scratch() });
    }

    /// Whether the next records, at least one, all have slots. Not if the next one is refused.
    ///
    /// Nothing is recorded meanwhile: neither in a signal handler.
    pub(crate) fn has_room(&self, records: usize) -> bool {
        let ring = &*self.ring;
        let next = self.resume.get().unwrap_or(self.at.get());
        let Some(bytes) = next.addr().checked_sub(ring.first().addr()) else { return false };
        let index = bytes / size_of::<Word>() / ring.stride;
        // The reader frees slots in their order, so all up to a free one are.
        let last = (index + records - 1) % ring.records();
        let slot = ring.first().wrapping_add(last * ring.stride);
        !self.is_refused.get() && records <= ring.records() && self.is_free(slot)
    }

    /// As `has_room` for two, in fewer instructions: a span with a number asks it.
    #[inline]
    pub(crate) fn has_room_for_two(&self) -> bool {
        let slot = self.resume.get();
        if self.is_refused.get() || slot.is_some_and(|slot| !self.is_free(slot)) {
            return false;
        }
        let slot = slot.unwrap_or(self.at.get());
        let next = slot.wrapping_add(self.ring.stride);
        // SAFETY: a slot's first word or the end, because a slot is before it.
        let is_end = unsafe { AtomicU64::from_ptr(next) }.load(Ordering::Relaxed) == END;
        let next = if is_end { self.ring.first() } else { next };
        next != slot && self.is_free(next)
    }

    /// Has the next record dropped, because a companion of it found no room.
    #[cold]
    pub(crate) fn refuse_next(&self) {
        self.is_refused.set(true);
        // Every record that goes to the scratch record is followed by `advance`.
        self.resume.set(Some(self.resume.get().unwrap_or(self.at.get())));
        self.at.set(self.scratch());
    }

    /// Counts an outermost span, with all inside it, for which there is no room.
    pub(crate) fn refuse_tree(&self) {
        self.ring.refused_trees.fetch_add(1, Ordering::Relaxed);
    }

    fn is_free(&self, slot: *mut u64) -> bool {
        // SAFETY: a slot's first word. Pairs with Reader::read.
        unsafe { AtomicU64::from_ptr(slot) }.load(Ordering::Acquire) == 0
    }

    fn scratch(&self) -> *mut u64 {
        self.ring.scratch.as_ptr().cast::<u64>().cast_mut()
    }

    /// Returns the words of the scratch record, and has it written again next.
    ///
    /// # Safety
    /// The last record was written there, and none is written while the words are used.
    pub(crate) unsafe fn take_scratch(&self) -> &[u64] {
        let scratch = self.scratch();
        self.at.set(scratch);
        // SAFETY: it has these words, which `write` has written.
        unsafe { std::slice::from_raw_parts(scratch, self.ring.stride) }
    }

    /// Returns the address of the next record.
    pub(crate) fn place(&self) -> usize {
        self.at.get().addr()
    }

    /// Counts a record that was not written.
    pub(crate) fn drop_one(&self) {
        self.ring.dropped.fetch_add(1, Ordering::Relaxed); // a signal handler may come in between
    }
}

/// The side from which another thread reads.
#[derive(Debug)]
pub(crate) struct Reader {
    /// The index of the next record's first word.
    at: usize,
    ring: Arc<Ring>,
}

impl Reader {
    /// Calls `each` with the words of every record that was written before this call, and perhaps of later ones: at most of
    /// as many as the ring has.
    pub(crate) fn read(&mut self, mut each: impl FnMut(&[u64])) {
        let stride = self.ring.stride;
        let mut record = [0; crate::record::MAX_WORDS];
        for _ in 0..self.ring.records() {
            if self.at + stride > self.ring.words.len() {
                self.at = 0;
            }
            let Some(words) = self.ring.words.get(self.at..self.at + stride) else { return };
            let first = words.as_ptr().cast::<u64>().cast_mut();
            // SAFETY: the first word of a slot.
            let first = unsafe { AtomicU64::from_ptr(first) };
            match first.load(Ordering::Acquire) {
                0 => return,
                // The other words come after it; pairs with Writer::write.
                site => {
                    for (to, word) in record.iter_mut().zip(words) {
                        // SAFETY: the slot is not free, so its words belong to the reader.
                        *to = unsafe { word.0.get().read() };
                    }
                    record[0] = site;
                }
            }
            // After reading the words; pairs with Writer::write and is_free. Before `each`, which may panic.
            first.store(0, Ordering::Release);
            self.at += stride;
            each(record.get(..stride).unwrap_or_default());
        }
    }

    /// Returns how many spans found the ring full.
    pub(crate) fn dropped(&self) -> u64 {
        self.ring.dropped.load(Ordering::Relaxed)
    }

    /// Returns how many slow outermost spans found the ring full.
    pub(crate) fn refused_trees(&self) -> u64 {
        self.ring.refused_trees.load(Ordering::Relaxed)
    }
}
