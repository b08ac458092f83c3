//! The crate without the feature `enabled`: what instrumented code needs, with nothing behind it.

use crate::Site;
use std::fmt;
use std::io::{self, Write};
use std::marker::PhantomData;

/// A span that is not recorded.
#[must_use = "the span ends when this is dropped: bind it to a variable such as `_span`"]
#[derive(Debug)]
pub struct Span(PhantomData<*const ()>);

impl Span {
    /// Does nothing.
    #[inline(always)]
    pub fn enter(_: &'static Site) -> Span {
        Span(PhantomData)
    }
}

// So that a span can be dropped explicitly without a warning, as with the feature.
impl Drop for Span {
    #[inline(always)]
    fn drop(&mut self) {}
}

/// A stage of a loop.
pub trait Stage {
    /// Returns the site of this stage's laps.
    fn site(self) -> &'static Site;
}

impl Stage for &'static Site {
    #[inline(always)]
    fn site(self) -> &'static Site {
        self
    }
}

/// Laps that are not recorded.
#[derive(Debug, Default)]
pub struct Laps(PhantomData<*const ()>);

impl Laps {
    /// Returns laps.
    #[inline(always)]
    pub const fn new() -> Laps {
        Laps(PhantomData)
    }

    /// Returns laps.
    #[inline(always)]
    pub fn start() -> Laps {
        Laps(PhantomData)
    }

    /// Does nothing.
    #[inline(always)]
    pub fn begin(&mut self) {}

    /// Does nothing.
    #[inline(always)]
    pub fn next(&mut self, _: impl Stage) {}
}

/// Settings that have no effect.
#[derive(Clone, Debug, Default)]
pub struct Settings(());

/// Whether spans have counts: without effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counters {
    /// Without effect.
    #[default]
    IfCheap,
    /// Without effect.
    Always,
    /// Without effect.
    Never,
}

/// Where a thread records its spans: without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Storage {
    /// Without effect.
    Ring {
        /// Without effect.
        records: usize,
    },
    /// Without effect.
    Histograms,
}

impl Settings {
    /// Returns the settings.
    #[inline(always)]
    pub fn new() -> Settings {
        Settings(())
    }

    /// Does nothing.
    #[inline(always)]
    #[must_use]
    pub fn events<E>(self, _: &[E]) -> Settings {
        self
    }

    /// Does nothing.
    #[inline(always)]
    #[must_use]
    pub fn counters(self, _: Counters) -> Settings {
        self
    }

    /// Does nothing.
    #[inline(always)]
    #[must_use]
    pub fn storage(self, _: Storage) -> Settings {
        self
    }

    /// Does nothing.
    #[inline(always)]
    #[must_use]
    pub fn keep(self, _: usize) -> Settings {
        self
    }

    /// Starts nothing.
    ///
    /// # Errors
    /// None.
    #[inline(always)]
    pub fn start(self) -> Result<Spans, StartError> {
        Ok(Spans(()))
    }
}

/// A recording of nothing.
#[must_use = "dropping this turns spans off"]
#[derive(Debug)]
pub struct Spans(());

// So that it can be dropped explicitly without a warning.
impl Drop for Spans {
    #[inline(always)]
    fn drop(&mut self) {}
}

/// There is none without the feature.
#[derive(Clone, Debug, PartialEq)]
pub enum StartError {}

impl fmt::Display for StartError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl std::error::Error for StartError {}

impl Spans {
    /// Returns 0.
    #[inline(always)]
    pub fn collect(&mut self) -> u64 {
        0
    }

    /// Returns an empty report.
    #[inline(always)]
    pub fn report(&mut self) -> Report {
        ""
    }

    /// Does nothing.
    #[inline(always)]
    pub fn clear(&mut self) {}

    /// Writes nothing.
    ///
    /// # Errors
    /// None.
    #[inline(always)]
    pub fn write_trace(&mut self, _: impl Write) -> io::Result<()> {
        Ok(())
    }

    /// Writes nothing.
    ///
    /// # Errors
    /// None.
    #[inline(always)]
    pub fn write_json_lines(&mut self, _: impl Write) -> io::Result<()> {
        Ok(())
    }
}

/// An empty text, so that printing it leaves nothing of this crate in the program.
pub type Report = &'static str;

/// Does nothing.
#[inline(always)]
pub fn set_enabled(_: bool) {}

/// Returns false.
#[inline(always)]
pub fn is_enabled() -> bool {
    false
}

/// Does nothing, and returns false.
#[inline(always)]
pub fn register_thread() -> bool {
    false
}

/// A layer that records nothing.
#[cfg(feature = "tracing")]
#[derive(Debug, Default)]
pub struct TracingLayer(());

#[cfg(feature = "tracing")]
impl TracingLayer {
    /// Returns a layer.
    #[inline(always)]
    pub fn new() -> TracingLayer {
        TracingLayer(())
    }
}

#[cfg(feature = "tracing")]
impl<S: tracing_core::Subscriber> tracing_subscriber::Layer<S> for TracingLayer {}
