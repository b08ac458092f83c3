//! A queue of records with one writer, which never waits, and one reader.
#![allow(unsafe_code)]

// The writer alone moves `head`, the reader alone moves `tail`. Slots from `tail` up to `head` belong to the reader, the
// others to the writer. One slot is always free, so that a full ring differs from an empty one. After the last slot,
// `head` is the end of the memory, which stands for its beginning.

use crate::Site;
use crate::histogram::Recorder;
use crate::record::{Flags, MAX_EVENTS, Record};
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// The words of a record before its counts.
pub(crate) const HEAD: usize = 5;
/// Where the flags of a record are in the word of its depth.
pub(crate) const FLAGS_SHIFT: u32 = 56;
/// Where its depth is.
pub(crate) const DEPTH_SHIFT: u32 = 7;

/// The memory that writer and reader share.
pub(crate) struct Ring {
    head: CachePadded<AtomicPtr<u64>>,
    tail: CachePadded<AtomicPtr<u64>>,
    dropped: AtomicU64,
    is_closed: AtomicBool,
    words: Box<[UnsafeCell<u64>]>,
    /// The number of words of a record.
    stride: usize,
    /// The writer's: a record, for which there may be room once it is written.
    scratch: Box<[UnsafeCell<u64>]>,
    /// The writer's: in place of `head` for the scratch record.
    nowhere: CachePadded<AtomicPtr<u64>>,
}

/// Keeps the positions of writer and reader on different cache lines.
#[repr(align(128))]
struct CachePadded<T>(T);

// SAFETY: a word belongs to the reader or to the writer, and changes hands by `head` and `tail`. The scratch record is the
// writer's.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// Returns both ends of a ring of `records`, each with this many counts.
    pub(crate) fn pair(records: usize, counts: usize) -> (Writer, Reader) {
        let stride = HEAD + counts;
        let slots = records.max(1).saturating_add(1);
        // Written, so that the writer's first round does not fault.
        let zeros = |count| (0..count).map(|_| UnsafeCell::new(0)).collect();
        let none = || CachePadded(AtomicPtr::new(ptr::null_mut()));
        let ring = Arc::new(Ring {
            head: none(),
            tail: none(),
            dropped: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            words: zeros(slots.saturating_mul(stride)),
            stride,
            scratch: zeros(stride),
            nowhere: none(),
        });
        // Only now, because a box that moves invalidates pointers to its contents.
        ring.head.0.store(ring.first(), Ordering::Relaxed);
        ring.tail.0.store(ring.first(), Ordering::Relaxed);
        (Writer::new(ring.clone(), None), Reader { ring })
    }

    fn first(&self) -> *mut u64 {
        self.words.as_ptr().cast::<u64>().cast_mut()
    }

    fn end(&self) -> *mut u64 {
        // SAFETY: the end of the allocation.
        unsafe { self.first().add(self.words.len()) }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("words", &self.words.len()).finish_non_exhaustive()
    }
}

/// The end at which the thread records. Dropping it closes the ring.
#[derive(Debug)]
pub(crate) struct Writer {
    /// Where the next record goes: a slot of the ring or, if it is full, the scratch record.
    at: Cell<*mut u64>,
    /// Where the ring's new `head` goes: there, or nowhere.
    publish: Cell<*const AtomicPtr<u64>>,
    /// The end of the last record that may be written without reading `tail` again.
    limit: Cell<*mut u64>,
    ring: Arc<Ring>,
    /// Where records go in place of the ring.
    histograms: Option<Recorder>,
}

impl Writer {
    fn new(ring: Arc<Ring>, histograms: Option<Recorder>) -> Writer {
        let writer = Writer {
            at: Cell::new(ptr::null_mut()),
            publish: Cell::new(ptr::null()),
            limit: Cell::new(ptr::null_mut()),
            ring,
            histograms,
        };
        writer.set_at_scratch();
        writer
    }

    /// Returns a writer that records in histograms.
    pub(crate) fn into_histograms(mut self, histograms: Recorder) -> Writer {
        self.histograms = Some(histograms);
        self
    }

    /// Appends a record, or counts it as dropped if the ring is full.
    ///
    /// `head` has the addresses of a site and of its parent, the ticks at both ends, and a word with the depth in
    /// bits 7 to 15 and the flags from bit 56 on.
    ///
    /// # Safety
    /// The ring was made for `N` counts. The addresses are those of `address`.
    #[inline(always)]
    pub(crate) unsafe fn write<const N: usize>(&self, head: [u64; HEAD], counts: [u64; N]) {
        let at = self.at.get();
        // SAFETY: `at` is a slot that belongs to the writer, or the scratch record. Both have HEAD + N words, by the
        // caller's promise. `publish` is the ring's `head` or `nowhere`, which `self` holds.
        let next = unsafe {
            at.cast::<[u64; HEAD]>().write(head);
            at.add(HEAD).cast::<[u64; N]>().write(counts);
            let next = at.add(HEAD + N);
            (*self.publish.get()).store(next, Ordering::Release); // the words first; pairs with Reader::read
            next
        };
        self.at.set(next);
        // Last, so that nothing of the record has to be kept for the call.
        if next == self.limit.get() {
            self.advance();
        }
    }

    /// Finds the next slot, after a record at the limit.
    #[cold]
    #[inline(never)]
    fn advance(&self) {
        let ring = &*self.ring;
        let is_scratch = ptr::eq(self.publish.get(), &raw const ring.nowhere.0);
        if !is_scratch {
            return match self.room() {
                Some((at, limit)) => self.set(at, limit),
                None => self.set_at_scratch(),
            };
        }
        if let Some(histograms) = &self.histograms {
            // A copy, because a span in the allocator may write the next scratch record meanwhile.
            // SAFETY: `write` wrote its words and has returned, and nothing else touches them.
            let record = unsafe { decode(std::slice::from_raw_parts(self.scratch(), ring.stride)) };
            self.set_at_scratch();
            if !record.is_some_and(|record| histograms.record(&record)) {
                self.drop_one();
            }
            return;
        }
        let Some((at, limit)) = self.room() else {
            self.drop_one();
            return self.set_at_scratch();
        };
        // SAFETY: the scratch record is written, and `at` is a slot that belongs to the writer.
        let next = unsafe {
            ptr::copy_nonoverlapping(self.scratch().cast_const(), at, ring.stride);
            at.add(ring.stride)
        };
        ring.head.0.store(next, Ordering::Release); // the words first; pairs with Reader::read
        self.set(next, limit);
        if next == limit {
            self.advance(); // not scratch any more
        }
    }

    fn scratch(&self) -> *mut u64 {
        self.ring.scratch.as_ptr().cast::<u64>().cast_mut()
    }

    fn set(&self, at: *mut u64, limit: *mut u64) {
        self.at.set(at);
        self.limit.set(limit);
        self.publish.set(&raw const self.ring.head.0);
    }

    fn set_at_scratch(&self) {
        let at = self.scratch();
        self.at.set(at);
        self.limit.set(at.wrapping_add(self.ring.stride));
        self.publish.set(&raw const self.ring.nowhere.0);
    }

    /// Returns the next slot, and the end of the slots that may be written without reading `tail` again. None if the
    /// ring is full.
    fn room(&self) -> Option<(*mut u64, *mut u64)> {
        let ring = &*self.ring;
        let (first, end) = (ring.first(), ring.end());
        let head = ring.head.0.load(Ordering::Relaxed); // its own
        let at = if head == end { first } else { head };
        let tail = ring.tail.0.load(Ordering::Acquire); // the reader has read what is before; pairs with Reader::read
        let limit = match tail {
            tail if tail > at => tail.wrapping_sub(ring.stride),
            // The last slot stays free, because the next one is the reader's.
            tail if tail == first => end.wrapping_sub(ring.stride),
            _ => end,
        };
        (at != limit).then_some((at, limit))
    }

    /// Counts a record that was not written.
    pub(crate) fn drop_one(&self) {
        let dropped = self.ring.dropped.load(Ordering::Relaxed);
        self.ring.dropped.store(dropped.wrapping_add(1), Ordering::Relaxed); // the only writer
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.ring.is_closed.store(true, Ordering::Release); // the last record first; pairs with Reader::is_closed
    }
}

/// The end from which another thread reads.
#[derive(Debug)]
pub(crate) struct Reader {
    ring: Arc<Ring>,
}

impl Reader {
    /// Calls `each` with every record that was written before this call.
    pub(crate) fn read(&mut self, mut each: impl FnMut(Record)) {
        let ring = &*self.ring;
        let head = ring.head.0.load(Ordering::Acquire); // pairs with Writer::write
        let head = if head == ring.end() { ring.first() } else { head };
        let mut at = ring.tail.0.load(Ordering::Relaxed); // its own
        while at != head {
            // SAFETY: the words from `tail` up to `head` are written, belong to the reader, and no writer touches them
            // until `tail` has passed them. `write` wrote them.
            let record = unsafe { decode(std::slice::from_raw_parts(at, ring.stride)) };
            // SAFETY: within the memory, or its end.
            at = unsafe { at.add(ring.stride) };
            if at == ring.end() {
                at = ring.first();
            }
            // After reading the words; pairs with `room`. Before `each`, which may panic.
            ring.tail.0.store(at, Ordering::Release);
            if let Some(record) = record {
                each(record);
            }
        }
    }

    /// Frees the memory of a ring that is closed and read.
    pub(crate) fn free(&mut self) {
        if self.ring.words.len() > 2 * HEAD {
            let (writer, empty) = Ring::pair(1, 0);
            empty.ring.dropped.store(self.dropped(), Ordering::Relaxed);
            drop(writer);
            *self = empty;
        }
    }

    /// Whether there are records to read.
    pub(crate) fn has_more(&self) -> bool {
        let ring = &*self.ring;
        let head = ring.head.0.load(Ordering::Relaxed);
        let head = if head == ring.end() { ring.first() } else { head };
        ring.tail.0.load(Ordering::Relaxed) != head
    }

    /// Returns how many records found the ring full.
    pub(crate) fn dropped(&self) -> u64 {
        self.ring.dropped.load(Ordering::Relaxed)
    }

    /// Whether no more records will come. Those that are there can still be read.
    pub(crate) fn is_closed(&self) -> bool {
        self.ring.is_closed.load(Ordering::Acquire) // pairs with Writer's drop
    }
}

/// A site's address in a record.
#[inline(always)]
pub(crate) fn address(site: *const Site) -> u64 {
    site.expose_provenance() as u64
}

/// Returns the record that these words stand for.
///
/// # Safety
/// [`Writer::write`] wrote them.
unsafe fn decode(words: &[u64]) -> Option<Record> {
    let (&[site_of, parent, start, end, depth], counted) = words.split_first_chunk()?;
    let site = |address: u64| {
        let site: *const Site = ptr::with_exposed_provenance(address as usize);
        // SAFETY: null, or the address of a static, by `write`'s contract.
        unsafe { site.as_ref() }
    };
    let mut counts = [0; MAX_EVENTS];
    for (count, counted) in counts.iter_mut().zip(counted) {
        *count = *counted;
    }
    Some(Record {
        site: site(site_of)?,
        parent: site(parent),
        ticks: [start, end],
        depth: (depth as u16) >> DEPTH_SHIFT,
        counts,
        flags: Flags::from_bits((depth >> FLAGS_SHIFT) as u8),
    })
}
