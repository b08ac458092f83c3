#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod distribution;
mod handover;
mod nested;
mod recorder;
mod ring;
mod stack;
mod timeline;
