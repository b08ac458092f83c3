//! Work with a known number of page faults, which the kernel counts exactly on every machine.
#![allow(dead_code, unreachable_pub)]

const PAGE: usize = 4096;

/// Memory for page faults.
#[derive(Clone, Copy)]
pub struct Memory(*mut u8);

impl Memory {
    const PAGES: usize = 16;

    #[allow(clippy::new_without_default, reason = "each is another mapping")]
    pub fn new() -> Memory {
        let (length, access) = (Memory::PAGES * PAGE, libc::PROT_READ | libc::PROT_WRITE);
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the mapping is new, and stays until the process ends.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, private, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // No fault may bring in more than one page.
        // SAFETY: the range is that of the mapping.
        unsafe { libc::madvise(start, length, libc::MADV_NOHUGEPAGE) };
        Memory(start.cast())
    }

    /// Makes `pages` page faults.
    pub fn fault(self, pages: usize) {
        assert!(pages <= Memory::PAGES);
        // SAFETY: the range is within the mapping, to which nothing refers.
        unsafe { libc::madvise(self.0.cast(), pages * PAGE, libc::MADV_DONTNEED) };
        for page in 0..pages {
            // SAFETY: within the mapping.
            unsafe { self.0.add(page * PAGE).write_volatile(1) };
        }
    }
}
