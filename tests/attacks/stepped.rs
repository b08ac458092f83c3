//! A debugger that stops the program after every instruction, as `stepi` and `record full` do. Each stop is a context
//! switch, which updates the control pages. Every read must end all the same.

use super::{open, open_group};
use crate::process::fork;
use rdpmc::Error;
use rdpmc::{Clock, Counter, Event, Group};
use std::hint::black_box;

/// The steps after which a read passes for one that never ends. A clock that calibrates takes the most: some thousands.
const MAX_STEPS: u32 = 60_000;

/// The handles that a debugged program has.
struct Handles {
    counter: Counter,
    group: Group<2>,
    clock: Clock,
}

/// What the error begins with if the kernel lets no process trace another.
pub const REFUSED: &str = "no process may step another";
const NOT_TRACED: i32 = 3;

type Read = (&'static str, fn(&Handles));

/// Everything that reads, or loads pages that the kernel updates.
const READS: &[Read] = &[
    ("read_user", |all| _ = black_box(all.counter.read_user())),
    ("read", |all| _ = black_box(all.counter.read())),
    ("read_user between fences", |all| {
        rdpmc::fence();
        _ = black_box(all.counter.read_user());
        rdpmc::fence();
    }),
    ("reading", |all| _ = black_box(all.counter.reading())),
    ("reading_user", |all| _ = black_box(all.counter.reading_user())),
    ("snapshot", |all| _ = black_box(all.counter.snapshot())),
    ("access", |all| _ = black_box(all.counter.access())),
    ("a group's read_user", |all| _ = black_box(all.group.read_user())),
    ("a group's read", |all| _ = black_box(all.group.read())),
    ("a group's reading", |all| _ = black_box(all.group.reading())),
    ("a group's snapshot", |all| _ = black_box(all.group.snapshot())),
    ("a group's access", |all| _ = black_box(all.group.access())),
    ("time_without_counters", |all| _ = black_box(all.group.time_without_counters())),
    ("a region", |all| {
        if let Ok(region) = all.group.region() {
            _ = black_box(region.start().map(|start| region.stop(start)));
        }
    }),
    ("Clock::now", |all| _ = black_box(all.clock.now())),
    ("Clock::kind", |all| _ = black_box(all.clock.kind())),
    ("Clock::conversion", |all| _ = black_box(all.clock.conversion())),
    ("Clock::error_bound", |all| _ = black_box(all.clock.error_bound())),
];

/// Steps through each read of handles for these events. Returns a line with the number of steps of each.
pub fn every_read_ends(events: [Event; 2]) -> Result<Result<String, Error>, String> {
    let [first, _] = events;
    let all = || -> Result<Handles, Error> {
        Ok(Handles { counter: open(first)?, group: open_group(events)?, clock: Clock::open()? })
    };
    if let Err(why) = all() {
        return Ok(Err(why));
    }
    let mut said = Vec::new();
    for (name, read) in READS {
        match steps(|| all().ok(), read)? {
            Some(steps) => said.push(format!("{name} {steps}")),
            None => return Err(format!("{name}: it has not ended after {MAX_STEPS} steps")),
        }
    }
    Ok(Ok(said.join(", ")))
}

/// Returns the number of steps of `body` in a child of its own, stepped by this process. None if there are more than
/// [`MAX_STEPS`].
fn steps<T>(prepare: impl FnOnce() -> Option<T>, body: impl Fn(&T)) -> Result<Option<u32>, String> {
    let child = fork(|| {
        // SAFETY: the call takes numbers. The parent traces from now on.
        if unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } != 0 {
            return NOT_TRACED;
        }
        let Some(all) = prepare() else { return 2 };
        body(&all); // prepared, as in a program that has run for a while
        stop();
        body(&all);
        stop();
        0
    });
    let wait = || {
        let mut status = 0;
        // SAFETY: `status` is valid for the write.
        let waited = unsafe { libc::waitpid(child, &mut status, libc::WUNTRACED) };
        match (waited == child, libc::WIFSTOPPED(status)) {
            (true, true) => Ok(libc::WSTOPSIG(status)),
            (true, false) if libc::WEXITSTATUS(status) == NOT_TRACED => Err(REFUSED.to_owned()),
            _ => Err(format!("the child ended with wait status {status:#x}")),
        }
    };
    let mut steps = 0;
    let stepped = loop {
        match wait()? {
            // The second stop is the end.
            libc::SIGSTOP if steps > 0 => break Ok(Some(steps)),
            libc::SIGSTOP | libc::SIGTRAP => steps += 1,
            signal => return Err(format!("the child got signal {signal}")),
        }
        if steps > MAX_STEPS {
            break Ok(None);
        }
        // SAFETY: the child is ours, and stopped.
        if unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, child, 0, 0) } != 0 {
            break Err(format!("{REFUSED}: {}", std::io::Error::last_os_error()));
        }
    };
    let mut status = 0;
    // SAFETY: the child is ours. `status` is valid for the write.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &mut status, 0);
    }
    stepped
}

/// Stops this process until its parent goes on with it.
fn stop() {
    // SAFETY: the call takes a number.
    unsafe { libc::raise(libc::SIGSTOP) };
}
