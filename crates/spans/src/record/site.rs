//! The source locations that spans are named after.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// A source location where spans begin, made by [`span!`](crate::span) and [`stages!`](crate::stages).
///
/// Each has a static of its own, so a span names it by its address. Two sites may have the same name.
pub struct Site {
    name: &'static str,
    file: &'static str,
    line: u32,
    /// 0 until the first histogram of its spans.
    index: AtomicU32,
}

impl Site {
    /// What the name of a future's whole time ends with.
    pub(crate) const WHOLE: &str = " (whole)";

    /// Makes a site. The macros do this.
    pub const fn new(name: &'static str, file: &'static str, line: u32) -> Site {
        Site { name, file, line, index: AtomicU32::new(0) }
    }

    /// Returns the length of the name for the whole time of a future.
    #[doc(hidden)]
    pub const fn whole_len(name: &str) -> usize {
        name.len() + Site::WHOLE.len()
    }

    /// Returns the name for the whole time of a future. `N` is its length.
    #[doc(hidden)]
    pub const fn whole_name<const N: usize>(name: &str) -> [u8; N] {
        let mut whole = [0; N];
        let (mut name, mut after) = (name.as_bytes(), Site::WHOLE.as_bytes());
        let mut to: &mut [u8] = &mut whole;
        while let Some((first, rest)) = to.split_first_mut() {
            if let Some((byte, more)) = name.split_first() {
                (*first, name) = (*byte, more);
            } else if let Some((byte, more)) = after.split_first() {
                (*first, after) = (*byte, more);
            }
            to = rest;
        }
        whole
    }

    /// Makes the site of the whole times of futures. The macros do this.
    #[doc(hidden)]
    pub const fn new_whole(
        whole: &'static [u8],
        name: &'static str,
        file: &'static str,
        line: u32,
    ) -> Site {
        match std::str::from_utf8(whole) {
            Ok(whole) => Site::new(whole, file, line),
            Err(_) => Site::new(name, file, line),
        }
    }

    /// Returns the name of the spans that begin here.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the source file.
    pub fn file(&self) -> &'static str {
        self.file
    }

    /// Returns the line in the source file.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// Returns its place in the threads' tables of histograms, from 1. 0 if it has none yet.
    #[inline(always)]
    pub(crate) fn index(&self) -> u32 {
        self.index.load(Ordering::Relaxed)
    }

    /// Returns its place in the threads' tables of histograms, and takes one if it has none. 0 if all 2^32 are taken.
    #[cold]
    pub(crate) fn take_index(&self) -> u32 {
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        if self.index() == 0 {
            let next = |taken: u32| taken.checked_add(1);
            if let Ok(taken) = TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
                // Another thread may have been first. Its number counts, and this one stays unused.
                let _ =
                    self.index.compare_exchange(0, taken + 1, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        self.index()
    }
}

/// A site that is never freed, in a list of these.
struct Leaked {
    site: Site,
    /// The one that was added before.
    next: *const Leaked,
}

/// The sites that `leak` has made.
static LEAKED: AtomicPtr<Leaked> = AtomicPtr::new(ptr::null_mut());

/// Returns a site that is never freed.
#[cfg(feature = "tracing")]
pub(crate) fn leak(site: Site) -> &'static Site {
    let new = Box::into_raw(Box::new(Leaked { site, next: ptr::null() }));
    let mut newest = LEAKED.load(Ordering::Relaxed);
    loop {
        // SAFETY: from Box::into_raw, and not in the list yet.
        unsafe { (*new).next = newest };
        // Its fields first; pairs with `is_leaked`.
        match LEAKED.compare_exchange_weak(newest, new, Ordering::Release, Ordering::Relaxed) {
            // SAFETY: never freed.
            Ok(_) => return unsafe { &(*new).site },
            Err(now) => newest = now,
        }
    }
}

/// Whether `leak` has returned the site of this address.
pub(crate) fn is_leaked(address: usize) -> bool {
    let mut next: *const Leaked = LEAKED.load(Ordering::Acquire);
    // SAFETY: null or added by `leak`, and never freed.
    while let Some(leaked) = unsafe { next.as_ref() } {
        if ptr::from_ref(&leaked.site).addr() == address {
            return true;
        }
        next = leaked.next;
    }
    false
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Site({} at {}:{})", self.name, self.file, self.line)
    }
}
