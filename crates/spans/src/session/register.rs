//! Prepares a thread before its first span.
#![allow(unsafe_code)]

use crate::record::Site;
use crate::session::current;
use crate::thread;

/// Prepares this thread for its first span: opens its clock and counters, in some system calls and half a millisecond. A
/// thread that does not call this is prepared by its first span.
///
/// Returns true if this thread is ready to record, also while spans are off. Returns false if no recording runs.
pub fn register_thread() -> bool {
    register_thread_with(&[])
}

/// As [`register_thread`], and allocates the histograms of these sites, so that no span of theirs does, as long as a thread
/// has at most 64 sites.
///
/// ```
/// use rdpmc_spans::{Settings, Site, Span, Storage, register_thread_with};
///
/// static STEP: Site = Site::new("step", file!(), line!());
///
/// let mut spans = Settings::new().storage(Storage::Histograms).start()?;
/// register_thread_with(&[&STEP]);
/// drop(Span::enter(&STEP)); // allocates nothing
/// # Ok::<(), rdpmc_spans::StartError>(())
/// ```
pub fn register_thread_with(sites: &[&'static Site]) -> bool {
    if !cfg!(feature = "enabled") {
        return false;
    }
    let Some(header) = current().and_then(|session| thread::join(session.number)) else {
        return false;
    };
    for site in sites {
        // SAFETY: the header is this thread's.
        unsafe { ((*header).calls().prepare)(header, site) };
    }
    true
}
