//! The control page of an event: exactly one page, shared with the kernel, read-only.
#![allow(unsafe_code)]

use crate::fork::Watched;
use crate::math::{Conversion, Short};
use crate::sys::{self, ControlPage, Descriptor, Errno, capability};

/// Where handles without a mapping point, so that reading them needs no case of its own.
static EMPTY: ControlPage = ControlPage::EMPTY;

/// A control page that can be read: an event's, or [`EMPTY`].
///
/// In this order, so that the address and what [`Reader`](crate::read::Reader) puts after it lie
/// side by side: arm64 loads both with one instruction.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Page {
    mapping: Option<Watched>,
    address: *const ControlPage,
}

impl Page {
    /// The page that says no to everything.
    pub(crate) fn empty() -> Page {
        Page { address: &raw const EMPTY, mapping: None }
    }

    /// Maps the page of `event`.
    pub(crate) fn map(event: &Descriptor) -> Result<Page, Errno> {
        let page = sys::map(event)?;
        Ok(Page { address: page.as_ptr(), mapping: Some(Watched::new(page)) })
    }

    /// Its address: readable, if changing, for as long as `self` lives.
    #[inline(always)]
    pub(crate) fn address(&self) -> *const ControlPage {
        self.address
    }

    /// `lock`.
    pub(crate) fn lock(&self) -> u32 {
        // SAFETY: as for every load here: the page is readable for as long as self lives, and the
        // loads are volatile because the kernel writes it. The kernel does so on this processor,
        // while this thread is interrupted, so the compiler's order is order enough.
        unsafe { (&raw const (*self.address).lock).read_volatile() }
    }

    /// `pmc_width`.
    pub(crate) fn width(&self) -> u16 {
        // SAFETY: see lock.
        unsafe { (&raw const (*self.address).pmc_width).read_volatile() }
    }

    /// `time_enabled` and `time_running`, in nanoseconds, as of the page's last update.
    pub(crate) fn times(&self) -> (u64, u64) {
        // SAFETY: see lock.
        unsafe {
            (
                (&raw const (*self.address).time_enabled).read_volatile(),
                (&raw const (*self.address).time_running).read_volatile(),
            )
        }
    }

    /// What the page is good for.
    pub(crate) fn capabilities(&self) -> Capabilities {
        // SAFETY: see lock.
        Capabilities(unsafe { (&raw const (*self.address).capabilities).read_volatile() })
    }

    /// How ticks become nanoseconds, if `cap_user_time` is set.
    pub(crate) fn conversion(&self) -> Option<Conversion> {
        let capabilities = self.capabilities();
        if !capabilities.have(capability::USER_TIME) {
            return None;
        }
        // SAFETY: see lock.
        unsafe {
            let short = capabilities.have(capability::USER_TIME_SHORT).then(|| Short {
                cycles: (&raw const (*self.address).time_cycles).read_volatile(),
                mask: (&raw const (*self.address).time_mask).read_volatile(),
            });
            Some(Conversion {
                shift: (&raw const (*self.address).time_shift).read_volatile(),
                mult: (&raw const (*self.address).time_mult).read_volatile(),
                offset: (&raw const (*self.address).time_offset).read_volatile(),
                short,
            })
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if let Some(mapping) = self.mapping.take() {
            let page = mapping.page();
            // Off the list before it is gone.
            drop(mapping);
            // SAFETY: `map` mapped it, or in a forked child the list's handler did; self was its
            // only reader and reads no more.
            unsafe { sys::unmap(page) };
        }
    }
}

/// `capabilities` of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capabilities(u64);

impl Capabilities {
    /// Whether the bits mean what they say: before Linux 3.12 two of them shared one place.
    pub(crate) fn are_sure(self) -> bool {
        self.0 & capability::BIT0_IS_DEPRECATED != 0
    }

    /// Whether the page surely has this [`capability`].
    pub(crate) fn have(self, which: u64) -> bool {
        self.are_sure() && self.0 & which != 0
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::fork::Process;
    use crate::sys::{Attr, kind, software};
    use std::io::Write;

    fn mappings() -> usize {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        maps.lines().filter(|line| line.contains("perf_event")).count()
    }

    /// The status that a forked child ends with.
    fn status_of_child(body: impl FnOnce() -> bool) -> i32 {
        // SAFETY: the child runs `body`, which loads from memory, unmaps and frees, and ends.
        match unsafe { libc::fork() } {
            // SAFETY: ends the child at once.
            0 => unsafe { libc::_exit(if body() { 0 } else { 1 }) },
            child => {
                let mut status = -1;
                // SAFETY: status is valid for the write.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                status
            }
        }
    }

    /// On every machine: the page of an event that counts nothing is as real as any.
    #[test]
    fn mapped_unmapped_and_lost_in_a_fork() -> Result<(), Errno> {
        let mut attr = Attr {
            type_: kind::SOFTWARE,
            config: software::DUMMY,
            size: crate::sys::ATTR_SIZES[0],
            flags: crate::sys::flag::EXCLUDE_KERNEL,
            ..Attr::default()
        };
        let mut open = || sys::open(&mut attr);
        let event = match open() {
            Ok(event) => event,
            Err(errno) => {
                let test = "mapped_unmapped_and_lost_in_a_fork";
                let _ = writeln!(std::io::stderr(), "test {test} ... skipped ({errno:?})");
                return Ok(());
            }
        };
        let process = Process::current()?;
        for _ in 0..10_000 {
            // A new event each: the kernel takes its time to map one anew.
            Page::map(&open()?)?;
        }
        assert_eq!(mappings(), 0);

        let pages = [Page::map(&event)?, Page::map(&event)?, Page::map(&event)?];
        assert_eq!(mappings(), 3);
        assert!(pages.iter().all(|page| page.capabilities().are_sure() && page.lock() > 0));
        let [first, second, third] = pages;
        drop(second);
        let status = status_of_child(|| {
            let zeros = [&first, &third].iter().all(|page| {
                page.lock() == 0 && page.times() == (0, 0) && page.conversion().is_none()
            });
            let lost = zeros && process.is_past() && mappings() == 0;
            // The child of the child as well.
            let grandchild = status_of_child(|| first.lock() == 0 && third.lock() == 0);
            drop(first);
            lost && grandchild == 0 && third.lock() == 0
        });
        assert_eq!(status, 0, "the child's wait status");
        assert!(!process.is_past() && third.capabilities().are_sure());
        Ok(())
    }
}
