//! Scoped guards.
use crate::Site;
use crate::local;
use std::fmt;
use std::marker::PhantomData;

/// A span that ends when this is dropped. From [`span!`](crate::span).
///
/// Belongs to the thread that began it:
///
/// ```compile_fail,E0277
/// fn only_if_send<T: Send>() {}
/// only_if_send::<rdpmc_spans::Span>();
/// ```
#[must_use = "the span ends when this is dropped: bind it to a variable such as `_span`"]
pub struct Span {
    site: &'static Site,
    /// The number of the span. 0 if spans were off when it began.
    open: u64,
    /// The ticks at the beginning, if the thread is on the inlined path. Otherwise its slot has them.
    start: u64,
    of_a_thread: PhantomData<*const ()>,
}

impl Span {
    /// Begins a span. [`span!`](crate::span) does this.
    #[inline(always)]
    pub fn enter(site: &'static Site) -> Span {
        let session = local::recording();
        let (open, start) = if session == 0 { (0, 0) } else { local::enter(site, session) };
        Span { site, open, start, of_a_thread: PhantomData }
    }
}

impl Drop for Span {
    #[inline(always)]
    fn drop(&mut self) {
        if self.open != 0 {
            local::exit(self.site, self.open, self.start);
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Span").field(&self.site).finish()
    }
}
