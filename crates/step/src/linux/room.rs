//! Memory for the addresses of counted instructions.
#![allow(unsafe_code)]

use crate::StepError;
use std::ptr;

/// Memory that the kernel maps for this alone: on the heap, it would change what the counted code finds there. A process that steps
/// this one writes to it as well. A page of it is used when something is written there.
#[derive(Debug)]
pub(crate) struct Room {
    /// Of `capacity` addresses, the first `used` of which are written. Null without any.
    start: *mut usize,
    capacity: usize,
    used: usize,
}

impl Room {
    /// Room for no address.
    pub(crate) const NONE: Room = Room { start: ptr::null_mut(), capacity: 0, used: 0 };

    pub(crate) fn new(capacity: usize) -> Result<Room, StepError> {
        if capacity == 0 {
            return Ok(Room::NONE);
        }
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        let length = capacity.saturating_mul(size_of::<usize>());
        // SAFETY: a new mapping, which is never memory of Rust's.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            return Err(StepError::System { call: "mmap", errno });
        }
        Ok(Room { start: start.cast(), capacity, used: 0 })
    }

    /// Returns where the next addresses are to be written, and how many fit.
    pub(crate) fn free(&mut self) -> (*mut usize, usize) {
        (self.start.wrapping_add(self.used), self.capacity - self.used)
    }

    /// Adds as many addresses to those that are there.
    ///
    /// # Safety
    /// They were written to [`free`](Room::free), by nobody who still does.
    pub(crate) unsafe fn add(&mut self, written: usize) {
        self.used += written.min(self.capacity - self.used);
    }

    pub(crate) fn has_none(&self) -> bool {
        self.capacity == 0
    }

    /// Adds a word. Returns whether there was room.
    pub(crate) fn push(&mut self, word: usize) -> bool {
        let (place, free) = self.free();
        if free == 0 {
            return false;
        }
        // SAFETY: within the mapping, of which nobody else has this word.
        unsafe {
            place.write(word);
            self.add(1);
        }
        true
    }

    pub(crate) fn truncate(&mut self, used: usize) {
        self.used = self.used.min(used);
    }

    pub(crate) fn addresses(&self) -> &[usize] {
        match self.start.is_null() {
            true => &[],
            // SAFETY: the mapping stays until `drop`, and this many addresses were written.
            false => unsafe { std::slice::from_raw_parts(self.start, self.used) },
        }
    }

    pub(crate) fn addresses_mut(&mut self) -> &mut [usize] {
        match self.start.is_null() {
            true => &mut [],
            // SAFETY: as above, and nobody else has the mapping meanwhile.
            false => unsafe { std::slice::from_raw_parts_mut(self.start, self.used) },
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if !self.start.is_null() {
            // SAFETY: the mapping from `new`, of which no reference is left.
            unsafe { libc::munmap(self.start.cast(), self.capacity * size_of::<usize>()) };
        }
    }
}
