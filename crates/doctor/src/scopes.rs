//! Counts of several threads: which scopes can be counted here, and what a read costs.

use crate::text::nanoseconds;
use rdpmc::Error;
use rdpmc::{Event, Scope, SyscallGroup};
use std::time::{Duration, Instant};

/// What was found of counts of a [`Scope`]. Each scope needs the same permission as a counter of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeReport {
    /// Whose work is counted.
    pub scope: Scope,
    /// The event that was tried: instructions, or page faults if they cannot be counted.
    pub event: Event,
    /// What a read is like, or why the event cannot be counted.
    pub found: Result<ScopeRead, Error>,
}

/// A read of the counts of a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeRead {
    /// The number of threads that were there.
    pub threads: usize,
    /// The median time of a read. None if reads failed.
    pub time: Option<Duration>,
    /// Whether processes that the threads start are counted, too (before Linux 5.13).
    pub counts_child_processes: bool,
}

impl ScopeReport {
    /// Returns the scope's name.
    pub(crate) fn name(&self) -> &'static str {
        match self.scope {
            Scope::Thread => "this thread",
            Scope::NewThreads => "new threads",
            _ => "the process",
        }
    }

    /// Returns the report's line.
    pub(crate) fn line(&self) -> String {
        let (name, event) = (self.name(), self.event);
        let read = match &self.found {
            Ok(read) => read,
            Err(why) => return format!("{event} of {name}: {}", why.cause()),
        };
        let time =
            read.time.map_or("no read".into(), |time| format!("{} per read", nanoseconds(time)));
        let threads = match (self.scope, read.threads) {
            (Scope::Process, 1) => " with one thread".into(),
            (Scope::Process, threads) => format!(" with {threads} threads"),
            _ => String::new(),
        };
        let children = if read.counts_child_processes { ", and of child processes" } else { "" };
        format!("{event} of {name}{children}: {time} by system call{threads}")
    }
}

/// Opens counters of each scope, and reads them some dozen times.
pub(crate) fn of_this_process() -> Vec<ScopeReport> {
    let open = |event, scope| {
        SyscallGroup::builder(&[event]).allow_all_privilege_levels(true).open_scope(scope)
    };
    let event = match open(Event::INSTRUCTIONS, Scope::Thread) {
        Ok(_) => Event::INSTRUCTIONS,
        Err(_) => Event::PAGE_FAULTS,
    };
    let of = |scope| {
        let found = open(event, scope).map(|group| ScopeRead {
            threads: group.threads(),
            time: time_of(&group),
            counts_child_processes: group.counts_child_processes(),
        });
        ScopeReport { scope, event, found }
    };
    [Scope::NewThreads, Scope::Process].map(of).into()
}

fn time_of(group: &SyscallGroup) -> Option<Duration> {
    const READS: usize = 31;
    let read = |_| {
        let begin = Instant::now();
        group.read().ok()?;
        Some(begin.elapsed())
    };
    let mut times: Vec<Duration> = (0..READS).map(read).collect::<Option<_>>()?;
    times.sort_unstable();
    times.get(READS / 2).copied()
}
