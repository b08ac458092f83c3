//! The pages that this thread has mapped: their owners, and the list of them that the handlers of forks and faults walk.
#![allow(unsafe_code)]

// Each thread keeps a list of its mappings. Two handlers walk it on the thread that they interrupt: that of a fork, in the
// child, puts zeros in place of each page (`cover_all`), and that of a fault puts them in place of the page whose counter
// cannot be read (`give_up`). A page of zeros has `index` 0, so no read goes to a register any more.
//
// A signal handler may fork at any instruction, and return in parent and child. So code that opens something takes a
// `Process` first. A page that is listed after such a fork is never read and never unmapped: in the child, its
// address may belong to another mapping.

use super::process::{self, Process};
use crate::asm::{self, Registers};
use crate::kernel::{self, ControlPage};
use crate::pmu::core_types;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering, compiler_fence};

thread_local! {
    /// The newest mapping of this thread. It needs no destructor, so counters that are dropped late in the thread's
    /// exit still find it.
    static NEWEST: AtomicPtr<Entry> = const { AtomicPtr::new(ptr::null_mut()) };
}

/// The contents of a page's address.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
enum Backing {
    /// The event's page.
    Event,
    /// Zeros: this is a fork.
    Zeros,
    /// Zeros: reading the event's counter faults.
    GivenUp,
    /// The event's page or nothing: the page is being unmapped.
    Closing,
    /// Possibly not our mapping: this is a fork, and the zeros were not mapped there.
    Lost,
}

/// A mapped page, as the list has it.
///
/// Only a signal handler of the thread that forks accesses it besides its owner, so the fields that change are
/// atomic. One thread alone is involved, so Relaxed is enough. There is a compiler fence where the order matters.
#[derive(Debug)]
struct Entry {
    page: NonNull<ControlPage>,
    /// A [`Backing`].
    backing: AtomicU8,
    /// Whether a read has faulted, and the page's `lock` then.
    has_faulted: AtomicBool,
    lock_at_fault: AtomicU32,
    older: AtomicPtr<Entry>,
    newer: AtomicPtr<Entry>,
}

impl Entry {
    fn is(&self, backing: Backing) -> bool {
        self.backing.load(Ordering::Relaxed) == backing as u8
    }

    fn set(&self, backing: Backing) {
        self.backing.store(backing as u8, Ordering::Relaxed);
    }

    /// Puts zeros in place of the page, if it still names the counter whose read has faulted. So `index` reads 0, and no
    /// read faults again. Its `lock` advances, so a read that a signal handler interrupts, which gives up the page, notices
    /// that.
    fn give_up(&self, registers: &[usize]) {
        let page = self.page.as_ptr();
        // SAFETY: the page is mapped: `Backing::Event` is set while it is, in the process that mapped it. The loads are
        // volatile, because the kernel writes the page.
        let (lock, index, width) = unsafe {
            (
                (&raw const (*page).lock).read_volatile(),
                (&raw const (*page).index).read_volatile(),
                (&raw const (*page).pmc_width).read_volatile(),
            )
        };
        let named = Registers::of_width(width).and_then(|all| all.register(index));
        if !named.is_some_and(|named| named.was_read_with(registers)) {
            return; // another event's counter, or one that this event has lost
        }
        // Where a lost counter faults, this event may have got it since then, or come back to it. A second fault without
        // an update of the page is certain.
        let is_certain = !asm::STALE_READ_FAULTS && core_types::is_known_to_be_one()
            || self.has_faulted.load(Ordering::Relaxed)
                && self.lock_at_fault.load(Ordering::Relaxed) == lock;
        self.has_faulted.store(true, Ordering::Relaxed);
        self.lock_at_fault.store(lock, Ordering::Relaxed);
        if !is_certain {
            return;
        }
        // SAFETY: this library has mapped the page, and its readers take zeros for an event without a counter.
        let replaced = unsafe { kernel::replace_by_zeros(self.page, lock) };
        // If the kernel has removed the page and had no memory for the zeros, there is nothing at the address.
        if replaced.or_else(|_| kernel::cover(self.page)).is_ok() {
            self.set(Backing::GivenUp);
        }
    }
}

/// The owner of a mapped page. Its entry stays at one address while the owner moves.
#[derive(Debug)]
pub(crate) struct Mapped(NonNull<Entry>);

impl Mapped {
    /// Takes ownership of a page, and puts it on this thread's list.
    ///
    /// The page must not be read if `process` [is past](Process::is_past) afterwards. A signal handler may have
    /// forked between the mapping and the list, and then this child has a hole there.
    ///
    /// # Safety
    /// [`kernel`] mapped the page on this thread, after `process` was taken. It has no other owner, and is not read
    /// after this is dropped.
    pub(crate) unsafe fn new(page: NonNull<ControlPage>, process: Process) -> Mapped {
        let older = NEWEST.with(|newest| newest.load(Ordering::Relaxed));
        let entry = NonNull::from(Box::leak(Box::new(Entry {
            page,
            backing: AtomicU8::new(Backing::Event as u8),
            has_faulted: AtomicBool::new(false),
            lock_at_fault: AtomicU32::new(0),
            older: AtomicPtr::new(older),
            newer: AtomicPtr::new(ptr::null_mut()),
        })));
        // SAFETY: null, or on the list and therefore alive.
        if let Some(older) = unsafe { older.as_ref() } {
            older.newer.store(entry.as_ptr(), Ordering::Relaxed);
        }
        // The entry is complete before it is on the list. Pairs with cover_all, which may run between any two of
        // these.
        compiler_fence(Ordering::Release);
        NEWEST.with(|newest| newest.store(entry.as_ptr(), Ordering::Relaxed));
        compiler_fence(Ordering::SeqCst); // on the list before the check for a fork
        // SAFETY: alive until the owner drops it.
        let this = unsafe { entry.as_ref() };
        if process.is_past() && this.is(Backing::Event) {
            // The fork was before the entry was on the list, so cover_all has not covered it. If the parent had
            // mapped the page, this child has a hole there, or a later mapping of the signal handler. If this child
            // mapped the page itself, it keeps it.
            this.set(Backing::Lost);
        }
        Mapped(entry)
    }

    /// Whether zeros are in place of the page, because reading its counter faults.
    pub(crate) fn is_given_up(&self) -> bool {
        // SAFETY: alive until the owner drops it.
        unsafe { self.0.as_ref() }.is(Backing::GivenUp)
    }
}

/// Gives up the page whose counter could not be read. `registers` are those of the code whose read has faulted. Runs in
/// the handler of the fault, on the thread that reads.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "no faults are contained there"))]
pub(crate) fn give_up(registers: &[usize]) {
    // In a child without fork handlers, the list's pages are holes.
    if process::is_known() {
        for_each(|entry| {
            if entry.is(Backing::Event) {
                entry.give_up(registers);
            }
        });
    }
}

/// Calls `what` with each mapping of this thread. Runs in a handler of this thread.
fn for_each(what: impl Fn(&Entry)) {
    let newest = NEWEST.try_with(|newest| newest.load(Ordering::Relaxed));
    let mut next = newest.unwrap_or(ptr::null_mut());
    // SAFETY: null, or an entry of this thread's list, which is alive: Mapped's drop removes it from the list before it frees
    // it, and the code that a handler interrupts does not run at this time.
    while let Some(entry) = unsafe { next.as_ref() } {
        what(entry);
        next = entry.older.load(Ordering::Relaxed);
    }
}

/// Puts zeros in place of each of the parent's pages. Runs in the child of a fork, on the thread that forked.
pub(super) fn cover_all() {
    for_each(|entry| {
        // Zeros that an earlier fork put there are copied like any memory.
        if entry.is(Backing::Event) || entry.is(Backing::Closing) {
            entry.set(match kernel::cover(entry.page) {
                Ok(()) => Backing::Zeros,
                Err(_) => Backing::Lost,
            });
        }
    });
}

impl Drop for Mapped {
    /// Unmaps the page, if it is still ours, then removes it from the list. In this order, a signal handler that
    /// forks in between finds a mapping to cover, although its page is gone.
    fn drop(&mut self) {
        // SAFETY: alive until the end of this function, and owned by self.
        let entry = unsafe { self.0.as_ref() };
        if entry.is(Backing::Event) {
            // A signal handler whose read faults must not look at the page any more. Pairs with give_up.
            entry.set(Backing::Closing);
            compiler_fence(Ordering::SeqCst);
        }
        if !entry.is(Backing::Lost) {
            // SAFETY: `new` was given the page to own, or cover_all has put zeros there.
            unsafe { kernel::unmap_page(entry.page) };
        }
        let older = entry.older.load(Ordering::Relaxed);
        let newer = entry.newer.load(Ordering::Relaxed);
        // SAFETY: null, or a neighbour on the list, which is alive.
        if let Some(older) = unsafe { older.as_ref() } {
            older.newer.store(newer, Ordering::Relaxed);
        }
        // SAFETY: null, or a neighbour on the list, which is alive.
        match unsafe { newer.as_ref() } {
            Some(newer) => newer.older.store(older, Ordering::Relaxed),
            None => NEWEST.with(|newest| newest.store(older, Ordering::Relaxed)),
        }
        // Removed from the list before it is freed. Pairs with cover_all.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: from Box::leak in `new`, removed from the list, and owned by self alone.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
