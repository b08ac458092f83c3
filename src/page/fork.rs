//! Counters in the child of a fork: zeros in place of the pages, and a count of forks.
#![allow(unsafe_code)]

// The kernel does not copy the mapping of an event into the child. The next load from it would fault. So each thread
// keeps a list of its mappings. In the child, only the thread that forked exists, and only it may use its counters. A
// fork handler runs there and maps a page of zeros in place of each listed page. From then on `index` reads 0, and
// the number of forks shows the handles that this is a child.
//
// The C library lets signals through before it calls fork handlers in the child. A signal handler that reads a
// counter there would fault. So all signals are blocked from before the fork until the pages are covered.
//
// A signal handler may fork at any instruction, and return in parent and child. So code that opens something takes a
// `Process` first. A page that is listed after such a fork is never read and never unmapped: in the child, its
// address may belong to another mapping.
//
// Not covered:
// - A child made by `_Fork` or by a raw `clone` system call, where no handlers run. Its own counters work.
// - A page whose address was taken by a fork handler that was registered before this one, for a mapping of its own.
//
// A child that shares the memory (`vfork`, `posix_spawn`) needs none of this.

use super::monitor::Monitor;
use crate::asm::{self, Registers};
use crate::kernel::{self, ControlPage, Errno};
use crate::pmu::core_types;
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering, compiler_fence,
};

/// The number of forks between the first process that opened a counter and this one.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// The process in which the fork handlers were registered, or its latest child that called them.
static PROCESS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The number of calls of `before_fork` whose `restore` is due. The handlers may be registered twice.
    static BLOCKED: Cell<u32> = const { Cell::new(0) };
    /// The signals that were blocked before the first of these calls. None if blocking was refused.
    static MASK: Cell<Option<kernel::Mask>> = const { Cell::new(None) };
    /// The newest mapping of this thread. It needs no destructor, so counters that are dropped late in the thread's
    /// exit still find it.
    static NEWEST: AtomicPtr<Mapping> = const { AtomicPtr::new(ptr::null_mut()) };
}

/// The process that a handle was opened in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(usize);

impl Process {
    /// Returns this process. From now on, its forks are counted.
    pub(crate) fn current() -> Result<Process, Errno> {
        static WATCHED: AtomicBool = AtomicBool::new(false);
        if !WATCHED.load(Ordering::Acquire) {
            // Two threads may both get here: a handler that runs twice does no harm.
            // SAFETY: the handlers use atomics, thread-locals without destructors, mmap, munmap and pthread_sigmask.
            // These are async-signal-safe once the memory of the thread-locals is allocated.
            unsafe { kernel::at_fork(before_fork, restore, in_child)? };
            PROCESS.store(kernel::process_id(), Ordering::Relaxed);
            WATCHED.store(true, Ordering::Release);
        }
        Ok(Process(FORKS.load(Ordering::Relaxed)))
    }

    /// Whether the current process is a fork of this one, so that the handle does not belong to it.
    pub(crate) fn is_past(self) -> bool {
        self.0 != FORKS.load(Ordering::Relaxed)
    }
}

/// Runs before a fork, on the thread that forks: no signal handler runs until the child's pages are covered.
extern "C" fn before_fork() {
    if BLOCKED.get() == 0 {
        // A signal handler that forks before this line has restored everything when it returns.
        MASK.set(kernel::block_signals());
    }
    BLOCKED.set(BLOCKED.get() + 1);
}

/// Runs after a fork in the parent, and at the end of the handler in the child.
extern "C" fn restore() {
    match BLOCKED.get() {
        // The fork began before the handlers were registered.
        0 => {}
        1 => {
            BLOCKED.set(0);
            if let Some(before) = MASK.take() {
                kernel::restore_signals(&before);
            }
        }
        more => BLOCKED.set(more - 1),
    }
}

/// Runs in the child, on the thread that forked.
extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    PROCESS.store(kernel::process_id(), Ordering::Relaxed);
    let newest = NEWEST.try_with(|newest| newest.load(Ordering::Relaxed));
    let mut next = newest.unwrap_or(ptr::null_mut());
    // SAFETY: null, or a mapping on this thread's list, which is alive: Watched's drop removes it from the list
    // before it frees it, and the code that this handler interrupts does not run at this time.
    while let Some(mapping) = unsafe { next.as_ref() } {
        // Zeros that an earlier fork put there are copied like any memory.
        if mapping.is(Backing::Event) || mapping.is(Backing::Closing) {
            mapping.set(match kernel::cover(mapping.page) {
                Ok(()) => Backing::Zeros,
                Err(_) => Backing::Lost,
            });
        }
        next = mapping.older.load(Ordering::Relaxed);
    }
    restore();
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

/// A mapped page on its thread's list.
///
/// Only a signal handler of the thread that forks accesses it besides its owner, so the fields that change are
/// atomic. One thread alone is involved, so Relaxed is enough. There is a compiler fence where the order matters.
#[derive(Debug)]
struct Mapping {
    page: NonNull<ControlPage>,
    /// A [`Backing`].
    backing: AtomicU8,
    /// Whether a read has faulted, and the page's `lock` then.
    has_faulted: AtomicBool,
    lock_at_fault: AtomicU32,
    monitor: Monitor,
    older: AtomicPtr<Mapping>,
    newer: AtomicPtr<Mapping>,
}

impl Mapping {
    fn is(&self, backing: Backing) -> bool {
        self.backing.load(Ordering::Relaxed) == backing as u8
    }

    fn set(&self, backing: Backing) {
        self.backing.store(backing as u8, Ordering::Relaxed);
    }
}

/// The owner of a [`Mapping`], which stays at one address while its owner moves.
#[derive(Debug)]
pub(crate) struct Watched(NonNull<Mapping>);

impl Watched {
    /// Takes ownership of a page, and puts it on this thread's list.
    ///
    /// The page must not be read if `process` [is past](Process::is_past) afterwards. A signal handler may have
    /// forked between the mapping and the list, and then this child has a hole there.
    ///
    /// # Safety
    /// [`kernel`] mapped the page on this thread, after `process` was taken. It has no other owner, and is not read
    /// after this is dropped.
    pub(crate) unsafe fn new(
        page: NonNull<ControlPage>,
        process: Process,
        monitor: Monitor,
    ) -> Watched {
        let older = NEWEST.with(|newest| newest.load(Ordering::Relaxed));
        let mapping = NonNull::from(Box::leak(Box::new(Mapping {
            page,
            backing: AtomicU8::new(Backing::Event as u8),
            has_faulted: AtomicBool::new(false),
            lock_at_fault: AtomicU32::new(0),
            monitor,
            older: AtomicPtr::new(older),
            newer: AtomicPtr::new(ptr::null_mut()),
        })));
        // SAFETY: null, or on the list and therefore alive.
        if let Some(older) = unsafe { older.as_ref() } {
            older.newer.store(mapping.as_ptr(), Ordering::Relaxed);
        }
        // The mapping is complete before it is on the list. Pairs with in_child, which may run between any two of
        // these.
        compiler_fence(Ordering::Release);
        NEWEST.with(|newest| newest.store(mapping.as_ptr(), Ordering::Relaxed));
        compiler_fence(Ordering::SeqCst); // on the list before the check for a fork
        // SAFETY: alive until the owner drops it.
        let this = unsafe { mapping.as_ref() };
        if process.is_past() && this.is(Backing::Event) {
            // The fork was before the mapping was on the list, so in_child has not covered it. If the parent had
            // mapped the page, this child has a hole there, or a later mapping of the signal handler. If this child
            // mapped the page itself, it keeps it.
            this.set(Backing::Lost);
        }
        Watched(mapping)
    }
}

impl Watched {
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
    if PROCESS.load(Ordering::Relaxed) != kernel::process_id() {
        return; // a child without fork handlers: the list's pages are holes here
    }
    let newest = NEWEST.try_with(|newest| newest.load(Ordering::Relaxed));
    let mut next = newest.unwrap_or(ptr::null_mut());
    // SAFETY: null, or a mapping on this thread's list, which is alive: Watched's drop removes it from the list
    // before it frees it, and the code that this handler interrupts does not run at this time.
    while let Some(mapping) = unsafe { next.as_ref() } {
        if mapping.is(Backing::Event) {
            mapping.give_up(registers);
        }
        next = mapping.older.load(Ordering::Relaxed);
    }
}

impl Mapping {
    /// Puts zeros in place of the page, if it still names the counter whose read has faulted. So `index` reads 0, and no
    /// read faults again. Its `lock` advances, so a read that a signal handler interrupts, which gives up the page, notices
    /// that.
    fn give_up(&self, registers: &[usize]) {
        let page = self.page.as_ptr();
        // SAFETY: the page is mapped: `Backing::Event` is set while it is, in the process that mapped it. The loads are volatile, because the kernel writes the page.
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
        self.monitor.set(false);
        // SAFETY: this library has mapped the page, and its readers take zeros for an event without a counter.
        let replaced = unsafe { kernel::replace_by_zeros(self.page, lock) };
        // If the kernel has removed the page and had no memory for the zeros, there is nothing at the address.
        if replaced.or_else(|_| kernel::cover(self.page)).is_ok() {
            self.set(Backing::GivenUp);
        }
    }
}

impl Drop for Watched {
    /// Unmaps the page, if it is still ours, then removes it from the list. In this order, a signal handler that
    /// forks in between finds a mapping to cover, although its page is gone.
    fn drop(&mut self) {
        // SAFETY: alive until the end of this function, and owned by self.
        let mapping = unsafe { self.0.as_ref() };
        if mapping.is(Backing::Event) {
            // A signal handler whose read faults must not look at the page any more. Pairs with give_up.
            mapping.set(Backing::Closing);
            compiler_fence(Ordering::SeqCst);
        }
        if !mapping.is(Backing::Lost) {
            // SAFETY: `new` was given the page to own, or in_child has put zeros there.
            unsafe { kernel::unmap_page(mapping.page) };
        }
        let older = mapping.older.load(Ordering::Relaxed);
        let newer = mapping.newer.load(Ordering::Relaxed);
        // SAFETY: null, or a neighbour on the list, which is alive.
        if let Some(older) = unsafe { older.as_ref() } {
            older.newer.store(newer, Ordering::Relaxed);
        }
        // SAFETY: null, or a neighbour on the list, which is alive.
        match unsafe { newer.as_ref() } {
            Some(newer) => newer.older.store(older, Ordering::Relaxed),
            None => NEWEST.with(|newest| newest.store(older, Ordering::Relaxed)),
        }
        // Removed from the list before it is freed. Pairs with in_child.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: from Box::leak in `new`, removed from the list, and owned by self alone.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
