//! Attacks on the library that need no test harness. The tests use them, and so does the guest program of the
//! emulated machines, which have counters.
#![allow(dead_code, unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[cfg(target_os = "linux")]
pub mod closed;
pub mod guests;
pub mod refusals;
#[cfg(target_os = "linux")]
pub mod stepped;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod stepped_forks;
#[cfg(target_os = "linux")]
pub mod threads;
#[cfg(target_os = "linux")]
pub mod time_namespace;

use rdpmc::Error;
use rdpmc::error::ReadError;
use rdpmc::{Counter, Event, Group};

/// Some of many trials: every `of`-th. Similar machines make different ones, so that together they make all where the trials are
/// the same.
#[derive(Clone, Copy)]
pub struct Share {
    /// Out of `0..of`.
    pub number: usize,
    pub of: usize,
}

impl Share {
    pub const WHOLE: Share = Share { number: 0, of: 1 };

    /// Returns whether the share contains the trial with this number.
    pub fn has(self, trial: usize) -> bool {
        trial % self.of == self.number
    }
}

/// Executes at least 2,000 instructions, none of which the compiler removes.
#[inline(never)]
pub fn work() {
    for n in 0..1_000 {
        std::hint::black_box(n);
    }
}

/// Opens a counter as every attack does: for all privilege levels if the PMU cannot filter.
pub fn open(event: Event) -> Result<Counter, Error> {
    Counter::builder(event).allow_all_privilege_levels(true).open()
}

pub fn open_group<const N: usize>(events: [Event; N]) -> Result<Group<N>, Error> {
    Group::builder(events).allow_all_privilege_levels(true).open()
}

/// Checks that a counter of this process counts, however it is read, and that one of another process reports
/// `Forked`.
pub fn counts(counter: &Counter) -> Result<(), String> {
    let before = match counter.read() {
        Err(ReadError::Forked) => {
            return match (counter.read_user(), counter.access()) {
                (None, rdpmc::Access::Forked) => Ok(()),
                other => Err(format!("a counter of another process has {other:?}")),
            };
        }
        before => before.map_err(|why| format!("read: {why:?}"))?,
    };
    let user = counter.read_user();
    work();
    let after = counter.read().map_err(|why| format!("read again: {why:?}"))?;
    // Less than a second later. A count of another thread or a stray register would be further away.
    if after <= before || after - before > 1_000_000_000 {
        return Err(format!("it counts from {before} to {after}"));
    }
    match user {
        Some(user) if !(before..=after).contains(&user) => {
            Err(format!("{user} by user space, between {before} and {after}"))
        }
        _ => Ok(()),
    }
}

/// Checks a group whose first event counts in this way.
pub fn group_counts<const N: usize>(group: &Group<N>) -> Result<(), String> {
    let before = match group.read() {
        Err(ReadError::Forked) => {
            return match (group.read_user(), group.access()) {
                (None, rdpmc::Access::Forked) => Ok(()),
                other => Err(format!("a group of another process has {other:?}")),
            };
        }
        before => before.map_err(|why| format!("read: {why:?}"))?[0],
    };
    work();
    let after = group.read().map_err(|why| format!("read again: {why:?}"))?[0];
    match after > before && after - before < 1_000_000_000 {
        true => Ok(()),
        false => Err(format!("it counts from {before} to {after}")),
    }
}
