#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod decoded;
mod distribution;
mod game;
mod handover;
mod histogram_of_prometheus;
mod nested;
mod page;
mod perfetto;
mod recorder;
mod ring;
mod stack;
mod timeline;
