//! What cannot be looked at is named as such: `/proc` and `/sys` that are missing, refused, or cost a descriptor that is not there.
//!
//! Each sandbox is a child of a fork. `in_each` makes it forget what the parent has seen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use super::process::{self, in_child};
use super::skips::skip;
use crate::clock::{Clock, ClockKind};
use crate::error::{Errno, Error, ErrorKind};
use crate::kernel::machine;
use crate::open::{denied, denied_by_filter};
use crate::pmu::core_types;
use crate::{Counter, Event};
use std::fs::File;

/// Why a process does not see its files.
#[derive(Clone, Copy, Debug)]
enum Sandbox {
    EmptyRoot,
    NoDescriptorLeft,
    Refused,
}

use Sandbox::{EmptyRoot, NoDescriptorLeft, Refused};

impl Sandbox {
    /// Goes in. Returns the kernel's answer for a file of `/sys` from then on, and what keeps it so.
    fn enter(self) -> Result<(i32, Vec<File>), String> {
        match self {
            EmptyRoot => {
                let root = std::env::temp_dir().join(format!("rdpmc-root-{}", std::process::id()));
                let made =
                    std::fs::create_dir(&root).and_then(|()| std::env::set_current_dir(&root));
                made.and_then(|()| std::fs::remove_dir(&root)).map_err(|why| why.to_string())?;
                std::os::unix::fs::chroot(".").map_err(|_| CANNOT)?;
                Ok((libc::ENOENT, Vec::new()))
            }
            NoDescriptorLeft => {
                process::limit(libc::RLIMIT_NOFILE as _, 64);
                let taken = std::iter::from_fn(|| File::open("/").ok()).collect();
                Ok((libc::EMFILE, taken))
            }
            Refused => {
                process::refuse(libc::SYS_openat, libc::EACCES);
                Ok((libc::EACCES, Vec::new()))
            }
        }
    }
}

const CANNOT: &str = "this process may not change its root";

/// Skips the test if this process may not make the sandbox, and panics if it went wrong there.
fn skipped_or(test: &str, sandbox: Sandbox, result: Result<(), String>) {
    match result {
        Err(why) if why.contains(CANNOT) => skip(test, CANNOT),
        result => result.unwrap_or_else(|why| panic!("{sandbox:?}: {why}")),
    }
}

/// Runs `body` in each sandbox, in which no clock was opened before. Skips those that this process may not make.
fn in_each(test: &str, body: impl Fn(Sandbox, i32) -> Result<(), String>) {
    for sandbox in [EmptyRoot, NoDescriptorLeft, Refused] {
        let result = in_child(|| {
            let (errno, _taken) = sandbox.enter()?;
            machine::remember_trust(false);
            core_types::forget();
            body(sandbox, errno)
        });
        skipped_or(test, sandbox, result);
    }
}

fn same<T: PartialEq + std::fmt::Debug>(is: T, should: T) -> Result<(), String> {
    if is == should { Ok(()) } else { Err(format!("{is:?}, should be {should:?}")) }
}

fn contains(text: &str, part: &str) -> Result<(), String> {
    if text.contains(part) { Ok(()) } else { Err(format!("{text:?} has no {part:?}")) }
}

/// A clock that could use the tick counter says which file it lacks.
#[test]
fn a_list_of_clock_sources_that_cannot_be_read() {
    const TEST: &str = "a_list_of_clock_sources_that_cannot_be_read";
    let kind = Clock::open().unwrap().kind();
    if !cfg!(target_arch = "x86_64") || !matches!(kind, ClockKind::Calibrated(_)) {
        return skip(TEST, "it takes a clock whose tick counter only the list calls trusted");
    }
    in_each(TEST, |sandbox, errno| {
        let kind = Clock::open().map_err(|why| why.to_string())?.kind();
        let cause = kind.to_string();
        let ClockKind::Kernel(why) = kind else { return Err(cause) };
        let (expected, part) = match sandbox {
            NoDescriptorLeft => {
                (ErrorKind::TooManyOpenFiles, "this process has no file descriptor")
            }
            EmptyRoot | Refused => (ErrorKind::Unreadable, "/sys/devices/system/clocksource"),
        };
        same((why.kind(), why.errno()), (expected, Some(Errno(errno))))?;
        contains(&cause, &format!("trusts the tick counter: {part}"))?;
        contains(&cause, "clock_gettime")?;
        same(cause.contains("dmesg"), false)
    });
}

/// A clock that was trusted once in the process is trusted where the list cannot be read.
#[test]
fn a_counter_that_was_trusted_before() {
    const TEST: &str = "a_counter_that_was_trusted_before";
    let kind = Clock::open().unwrap().kind();
    if !matches!(kind, ClockKind::Calibrated(_)) {
        return skip(TEST, "it takes a calibrated clock");
    }
    for sandbox in [EmptyRoot, NoDescriptorLeft, Refused] {
        let result = in_child(|| {
            drop(Clock::open());
            let (_, _taken) = sandbox.enter()?;
            let kind = Clock::open().map_err(|why| why.to_string())?.kind();
            if matches!(kind, ClockKind::Calibrated(_)) { Ok(()) } else { Err(kind.to_string()) }
        });
        skipped_or(TEST, sandbox, result);
    }
}

/// A PMU that is missing, and a list that is missing, are two things.
#[test]
fn a_list_of_pmus_that_cannot_be_read() {
    const TEST: &str = "a_list_of_pmus_that_cannot_be_read";
    let is_no_pmu = |why: Error| matches!(why.kind(), ErrorKind::NoPmu { .. });
    let has_pmu = !Counter::open(Event::INSTRUCTIONS).is_err_and(is_no_pmu);
    if has_pmu {
        return skip(TEST, "it takes a machine without a PMU");
    }
    in_each(TEST, |sandbox, errno| {
        let error = Counter::open(Event::INSTRUCTIONS).map(drop).unwrap_err();
        let name = "cpu/mem-loads/".parse::<Event>().unwrap_err();
        match sandbox {
            EmptyRoot => {
                contains(&error.to_string(), "there is no /sys/bus/event_source/devices")?;
                same((error.kind(), error.errno()), (ErrorKind::NoPmuList, Some(Errno(errno))))?;
                contains(&name.to_string(), "`cpu/mem-loads/` needs the list")?;
                same(name.kind(), ErrorKind::NoPmuList)
            }
            NoDescriptorLeft => {
                same(error.kind(), ErrorKind::TooManyOpenFiles)?;
                same(name.kind(), ErrorKind::TooManyOpenFiles)
            }
            Refused => {
                same((error.kind(), error.errno()), (ErrorKind::Unreadable, Some(Errno(errno))))?;
                contains(&error.to_string(), "read access to it")
            }
        }
    });
}

/// A filter in an empty root is named: the kernel tells without a file.
#[test]
fn a_filter_in_an_empty_root() {
    const TEST: &str = "a_filter_in_an_empty_root";
    for errno in [libc::EPERM, libc::EACCES, libc::ENOSYS] {
        let result = in_child(|| {
            EmptyRoot.enter()?;
            process::refuse(libc::SYS_perf_event_open, errno);
            same(machine::has_seccomp_filter(), Some(true))?;
            let error = Counter::open(Event::TASK_CLOCK).map(drop).unwrap_err();
            let errno = Errno(errno);
            same(
                error,
                match errno.0 {
                    // As the level would, which cannot be read.
                    libc::EACCES => denied(errno, Some(2), true),
                    _ => denied_by_filter(errno),
                },
            )
        });
        skipped_or(TEST, EmptyRoot, result);
    }
    let result = in_child(|| {
        EmptyRoot.enter()?;
        same(machine::has_seccomp_filter(), Some(false))
    });
    skipped_or(TEST, EmptyRoot, result);
}
