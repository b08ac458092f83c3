//! Futures whose polls are spans.

use crate::instrument::whole::Whole;
use crate::instrument::{Moment, Span};
use crate::record::Site;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future with a span for each poll, and a record of its whole time. From [`polled!`](crate::polled).
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited or polled"]
pub struct Polled<F> {
    of_polls: &'static Site,
    of_whole: &'static Site,
    number: Option<u64>,
    /// None once it is recorded.
    whole: Option<Whole>,
    future: Pin<Box<F>>,
}

impl<F> Polled<F> {
    /// Returns a future with the polls of `future`. [`polled!`](crate::polled) does this. Allocates.
    pub fn new(
        [of_polls, of_whole]: [&'static Site; 2],
        number: Option<u64>,
        future: F,
    ) -> Polled<F> {
        let future = Box::pin(future);
        Polled { of_polls, of_whole, number, whole: Some(Whole::begin()), future }
    }

    /// Records the whole time, once.
    fn end(&mut self) {
        if let Some(whole) = self.whole.take() {
            whole.end(self.of_whole, self.number);
        }
    }
}

impl<F: Future> Future for Polled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        /// Adds the poll when it ends, also by a panic.
        struct Added<'a>(Option<&'a mut Whole>, Moment);

        impl Drop for Added<'_> {
            fn drop(&mut self) {
                if let Some(whole) = &mut self.0 {
                    whole.add_poll([self.1, Moment::now()]);
                }
            }
        }

        let this = &mut *self;
        // In the span, which may end with a system call.
        let polled = match this.number {
            Some(number) => {
                let _span = Span::enter_numbered(this.of_polls, number);
                let _added = Added(this.whole.as_mut(), Moment::now());
                this.future.as_mut().poll(context)
            }
            None => {
                let _span = Span::enter(this.of_polls);
                let _added = Added(this.whole.as_mut(), Moment::now());
                this.future.as_mut().poll(context)
            }
        };
        if polled.is_ready() {
            this.end();
        }
        polled
    }
}

impl<F> Drop for Polled<F> {
    fn drop(&mut self) {
        self.end();
    }
}
