//! The sites of `tracing`'s spans: one for each source location, and for each name that a field gives it.
#![allow(unsafe_code)]

// Nothing here waits for another thread: a child of a fork would wait for ever.

use crate::record::{Site, leak};
use ::tracing::Metadata;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// A site, in a list of those with the same hash.
struct Known {
    /// The address of the metadata, or of the site whose whole time this is of.
    of: usize,
    /// The value of the field that names it. Empty without one.
    value: &'static str,
    site: &'static Site,
    /// Of a location: how many names it has.
    names: AtomicU32,
    /// The one that was added before.
    next: *const Known,
}

/// The known sites, by hash. Of all layers, because a location is one site. Never freed, because records have the addresses of
/// sites.
static SITES: [AtomicPtr<Known>; 256] = [const { AtomicPtr::new(ptr::null_mut()) }; 256];

/// The most names of a source location. Spans of further ones have one name.
const NAMES: u32 = 256;
/// The value that stands for these.
const OTHERS: &str = "other names";

/// Returns the site of a source location.
pub(super) fn site_of(metadata: &'static Metadata<'static>) -> &'static Site {
    of_location(metadata).site
}

/// Returns the site of a source location's spans whose field has this value.
pub(super) fn site_named(metadata: &'static Metadata<'static>, value: &str) -> &'static Site {
    let named = |value: &str| {
        find_or_add(ptr::from_ref(metadata).addr(), value, |value| {
            let name = String::leak(format!("{}: {value}", metadata.name()));
            Site::new(name, metadata.file().unwrap_or(""), metadata.line().unwrap_or(0))
        })
    };
    let location = of_location(metadata);
    let address = ptr::from_ref(metadata).addr();
    let newest = list(address, value).load(Ordering::Acquire);
    if let Some(known) = find(newest, address, value) {
        return known.site;
    }
    match location.names.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |names| {
        (names < NAMES).then_some(names + 1)
    }) {
        Ok(_) => named(value).site,
        Err(_) => named(OTHERS).site,
    }
}

/// Returns the site of the whole times of a site's spans.
pub(super) fn whole_of(site: &'static Site) -> &'static Site {
    let whole = |_: &'static str| {
        let name = String::leak(format!("{}{}", site.name(), Site::WHOLE));
        Site::new(name, site.file(), site.line())
    };
    find_or_add(ptr::from_ref(site).addr(), "", whole).site
}

fn of_location(metadata: &'static Metadata<'static>) -> &'static Known {
    find_or_add(ptr::from_ref(metadata).addr(), "", |_| {
        // Its name is in the object of the source location. Refused for one that the program has closed meanwhile.
        let _ = rdpmc::keep_loaded(ptr::from_ref(metadata).cast());
        let (file, line) = (metadata.file().unwrap_or(""), metadata.line().unwrap_or(0));
        Site::new(metadata.name(), file, line)
    })
}

/// Returns the list of an address and a value.
fn list(of: usize, value: &str) -> &'static AtomicPtr<Known> {
    const MULTIPLIER: usize = 0x9e37_79b9_7f4a_7c15_u64 as usize;
    let mix = |hash: usize, next: usize| (hash.rotate_left(5) ^ next).wrapping_mul(MULTIPLIER);
    let hash = value.bytes().fold(mix(0, of), |hash, byte| mix(hash, byte.into()));
    SITES.get(hash >> (usize::BITS - 8)).unwrap_or(&SITES[0])
}

fn find(newest: *const Known, of: usize, value: &str) -> Option<&'static Known> {
    let mut next = newest;
    // SAFETY: null or published, and never freed. Their fields came first: pairs with the exchange below.
    while let Some(known) = unsafe { next.as_ref() } {
        if known.of == of && known.value == value {
            return Some(known);
        }
        next = known.next;
    }
    None
}

/// Returns the site of an address and a value. Makes it if it is new.
fn find_or_add(of: usize, value: &str, make: impl Fn(&'static str) -> Site) -> &'static Known {
    let list = list(of, value);
    let mut newest = list.load(Ordering::Acquire);
    if let Some(known) = find(newest, of, value) {
        return known;
    }
    let value: &'static str = String::leak(value.to_owned());
    let site = leak(make(value));
    let names = AtomicU32::new(0);
    let new = Box::into_raw(Box::new(Known { of, value, site, names, next: ptr::null() }));
    loop {
        // SAFETY: from Box::into_raw, and not published yet.
        unsafe { (*new).next = newest };
        match list.compare_exchange(newest, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: published, and never freed.
            Ok(_) => return unsafe { &*new },
            Err(now) => newest = now,
        }
        // Another thread may have added it.
        if let Some(known) = find(newest, of, value) {
            // SAFETY: from Box::into_raw, and never published.
            drop(unsafe { Box::from_raw(new) });
            return known;
        }
    }
}
