//! Scoped guards.

use crate::record::Site;
use crate::thread;
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
        let session = thread::recording();
        let (open, start) = if session == 0 { (0, 0) } else { thread::enter(site, session) };
        Span { site, open, start, of_a_thread: PhantomData }
    }

    /// Begins a span with a number of the program's, such as that of a frame. [`span!`](crate::span) does this.
    ///
    /// Traces, records and slow spans have the number. It takes a second record, just before the span ends: both are recorded, or the
    /// span is dropped. Histograms have no numbers.
    #[inline(always)]
    pub fn enter_numbered(site: &'static Site, number: u64) -> NumberedSpan {
        NumberedSpan { span: Span::enter(site), number }
    }
}

impl Drop for Span {
    #[inline(always)]
    fn drop(&mut self) {
        if cfg!(feature = "enabled") && self.open != 0 {
            thread::exit(self.site, self.open, self.start);
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Span").field(&self.site).finish()
    }
}

/// A span with a number, which ends when this is dropped. From [`span!`](crate::span).
#[must_use = "the span ends when this is dropped: bind it to a variable such as `_span`"]
#[derive(Debug)]
pub struct NumberedSpan {
    span: Span,
    number: u64,
}

impl Drop for NumberedSpan {
    #[inline(always)]
    fn drop(&mut self) {
        if cfg!(feature = "enabled") && self.span.open != 0 {
            thread::record_number(self.span.open, self.span.start, self.number);
        }
    }
}
