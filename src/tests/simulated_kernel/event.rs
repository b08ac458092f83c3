//! An event, with its control page.

use super::kernel::{WIDTH, place};
use crate::kernel::{ControlPage, Descriptor, capability};
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

/// An event, with the kernel's own writable mapping of its page.
pub(super) struct Event {
    pub(super) page: NonNull<ControlPage>,
    pub(super) memory: Descriptor,
    /// How often the event has begun to happen, and how often it has been counted completely.
    pub(super) begun: AtomicU64,
    pub(super) done: AtomicU64,
}

impl Event {
    pub(super) fn new() -> Event {
        // SAFETY: the new descriptor and mapping have no other owner.
        let (memory, page) = unsafe {
            let memory = libc::memfd_create(c"page".as_ptr(), libc::MFD_CLOEXEC);
            assert!(memory >= 0);
            assert_eq!(libc::ftruncate(memory, 4096), 0);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let page = libc::mmap(ptr::null_mut(), 4096, access, libc::MAP_SHARED, memory, 0);
            assert_ne!(page, libc::MAP_FAILED);
            let memory = Descriptor::imitated_by(OwnedFd::from_raw_fd(memory));
            (memory, NonNull::new(page.cast()).unwrap())
        };
        let event = Event { page, memory, begun: AtomicU64::new(0), done: AtomicU64::new(0) };
        event.write(|page| unsafe {
            // SAFETY: within the page.
            (&raw mut (*page).capabilities).write_volatile(
                capability::BIT0_IS_DEPRECATED
                    | capability::USER_RDPMC
                    | capability::USER_TIME
                    | capability::USER_TIME_ZERO,
            );
            (&raw mut (*page).pmc_width).write_volatile(WIDTH);
        });
        event
    }

    /// Makes one update of the page.
    pub(super) fn write<R>(&self, update: impl FnOnce(*mut ControlPage) -> R) -> R {
        let page = self.page.as_ptr();
        // SAFETY: the mapping is the kernel's own and writable. On x86-64, the other thread sees volatile stores in
        // program order.
        unsafe {
            let lock = &raw mut (*page).lock;
            lock.write_volatile(lock.read_volatile().wrapping_add(1));
            let result = update(page);
            lock.write_volatile(lock.read_volatile().wrapping_add(1));
            result
        }
    }

    pub(super) fn lock(&self) -> u32 {
        // SAFETY: within the page.
        unsafe { (&raw const (*self.page.as_ptr()).lock).read_volatile() }
    }

    pub(super) fn index(&self) -> u32 {
        // SAFETY: within the page.
        unsafe { (&raw const (*self.page.as_ptr()).index).read_volatile() }
    }

    /// Returns its register, if it has one.
    pub(super) fn place(&self) -> Option<usize> {
        self.index().checked_sub(1).and_then(place)
    }
}
