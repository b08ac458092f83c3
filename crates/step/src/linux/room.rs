//! Memory for the addresses of counted instructions.
#![allow(unsafe_code)]

use crate::StepError;
use std::ffi::c_int;
use std::ptr;

/// Memory that the kernel maps for this alone: on the heap, it would change what the counted code finds there. A page of it is used when
/// something is written there.
#[derive(Debug)]
pub(crate) struct Room {
    /// Of `capacity` addresses, the first `used` of which are written. Null without any.
    start: *mut usize,
    capacity: usize,
    used: usize,
    /// The process that has it, if a child of that process would have the same memory.
    of_process: Option<c_int>,
}

// SAFETY: the mapping is the room's alone, and a reference to the room is needed to reach it.
unsafe impl Send for Room {}
// SAFETY: as above. Only `&mut` writes.
unsafe impl Sync for Room {}

impl Room {
    /// Room for no address.
    pub(crate) const NONE: Room =
        Room { start: ptr::null_mut(), capacity: 0, used: 0, of_process: None };

    /// Memory of this process alone.
    pub(crate) fn new(capacity: usize) -> Result<Room, StepError> {
        Room::mapped(capacity, libc::MAP_PRIVATE)
    }

    /// Memory that what steps this process writes to. That is another process where there is no trap flag, and in tests. A child of this
    /// process has the same memory then, and finds no room in it.
    pub(crate) fn to_step_into(capacity: usize) -> Result<Room, StepError> {
        if cfg!(any(not(target_arch = "x86_64"), test)) {
            // SAFETY: the call takes no argument.
            let this = unsafe { libc::getpid() };
            let mut room = Room::mapped(capacity, libc::MAP_SHARED)?;
            room.of_process = Some(this);
            return Ok(room);
        }
        Room::new(capacity)
    }

    fn mapped(capacity: usize, sharing: c_int) -> Result<Room, StepError> {
        if capacity == 0 {
            return Ok(Room::NONE);
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = sharing | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let length = capacity.saturating_mul(size_of::<usize>());
        // SAFETY: a new mapping, which is never memory of Rust's.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            return Err(StepError::System { call: "mmap", errno });
        }
        Ok(Room { start: start.cast(), capacity, used: 0, of_process: None })
    }

    /// Whether there is memory that no other process uses otherwise.
    fn is_here(&self) -> bool {
        // SAFETY: the call takes no argument.
        let is_of_this_process = |process| process == unsafe { libc::getpid() };
        !self.start.is_null() && self.of_process.is_none_or(is_of_this_process)
    }

    /// Returns where the next addresses are to be written, and how many fit.
    pub(crate) fn free(&mut self) -> (*mut usize, usize) {
        match self.is_here() {
            true => (self.start.wrapping_add(self.used), self.capacity - self.used),
            false => (ptr::null_mut(), 0),
        }
    }

    /// Adds as many addresses to those that are there.
    ///
    /// # Safety
    /// They were written to [`free`](Room::free), as far as they fit, by nobody who still does.
    pub(crate) unsafe fn add(&mut self, written: usize) {
        if self.is_here() {
            self.used += written.min(self.capacity - self.used);
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        if self.is_here() { self.capacity } else { 0 }
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
        match self.is_here() {
            // SAFETY: the mapping stays until `drop`, and this many addresses were written.
            true => unsafe { std::slice::from_raw_parts(self.start, self.used) },
            false => &[],
        }
    }

    pub(crate) fn addresses_mut(&mut self) -> &mut [usize] {
        match self.is_here() {
            // SAFETY: as above, and nobody else has the mapping meanwhile.
            true => unsafe { std::slice::from_raw_parts_mut(self.start, self.used) },
            false => &mut [],
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if !self.start.is_null() {
            // SAFETY: the mapping from `mapped`, of which no reference is left.
            unsafe { libc::munmap(self.start.cast(), self.capacity * size_of::<usize>()) };
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// What a child writes, its parent does not find, and the other way around.
    #[test]
    fn a_child_has_no_room_of_its_parent() {
        for is_shared in [false, true] {
            let mut room = if is_shared { Room::to_step_into(8) } else { Room::new(8) }.unwrap();
            assert!(room.push(5) && room.capacity() == 8);
            // SAFETY: the child calls nothing but this file and `_exit`.
            let status = unsafe {
                let child = libc::fork();
                if child == 0 {
                    let has_room = room.capacity() == 8 && room.addresses() == [5];
                    let has_written = room.push(6) && room.addresses_mut() == [5, 6];
                    let expected = [!is_shared; 2];
                    libc::_exit(i32::from([has_room, has_written] != expected));
                }
                let mut status = -1;
                libc::waitpid(child, &mut status, 0);
                status
            };
            assert_eq!((status, room.addresses()), (0, &[5][..]), "{is_shared}");
            assert!(room.push(7) && room.addresses() == [5, 7]);
        }
    }

    #[test]
    fn no_more_than_fits() {
        let mut room = Room::new(2).unwrap();
        assert_eq!([0, 1, 2].map(|word| room.push(word)), [true, true, false]);
        assert_eq!(room.addresses(), [0, 1]);
        assert!(Room::new(usize::MAX).is_err());
        assert_eq!(Room::new(0).unwrap().capacity(), 0);
    }
}
