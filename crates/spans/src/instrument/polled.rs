//! Futures whose polls are spans.

use crate::instrument::Span;
use crate::record::Site;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that records a span for each time it is polled. From [`polled!`](crate::polled).
///
/// The span belongs to the thread that polls. The time in which the future waits is not recorded.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited or polled"]
pub struct Polled<F> {
    site: &'static Site,
    future: Pin<Box<F>>,
}

impl<F> Polled<F> {
    /// Returns a future with the polls of `future`. [`polled!`](crate::polled) does this. Allocates.
    pub fn new(site: &'static Site, future: F) -> Polled<F> {
        Polled { site, future: Box::pin(future) }
    }
}

impl<F: Future> Future for Polled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _span = Span::enter(self.site);
        self.future.as_mut().poll(context)
    }
}
