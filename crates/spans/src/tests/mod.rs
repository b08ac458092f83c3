//! Tests of private code.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod histogram;
mod ring;
mod stats;
