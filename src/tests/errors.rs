//! Every message names its cause and the remedy, and every error has its source. Those that need a machine or a sandbox are in
//! `provoked.rs` and `sandboxes.rs`.

#![allow(clippy::unwrap_used)]

use crate::error::{Disturbed, Errno, Error, ErrorKind, ReadError};
use crate::event::Event;
use crate::kernel::{self, Unreadable};
use crate::names::named;
use crate::open::{denied, denied_by_filter, group_too_large, why_no_region, why_not_mapped};
use crate::pmu::no_pmu_on;
use std::error::Error as _;

#[test]
fn every_message_names_cause_and_remedy() {
    let of = |error: Error| error.for_event(named(Event::INSTRUCTIONS));
    let unreadable =
        |path: &str, errno| Error::from(Unreadable { path: path.into(), errno: Errno(errno) });
    let clocks = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    let no_region = |why| why_no_region(Event::INSTRUCTIONS, why);
    let errors: Vec<(Error, [&str; 2])> = vec![
        (Error::unsupported(), ["was built for", "Build it for Linux"]),
        (of(no_pmu_on(true, false, true)), ["WSL2", "hardwarePerformanceCounters=false"]),
        (of(no_pmu_on(true, false, false)), ["virtual machine", "hypervisor"]),
        (of(no_pmu_on(false, false, false)), ["driver", "software events"]),
        (of(no_pmu_on(true, true, false)), ["hybrid Intel CPUs", "on the host"]),
        (denied(Errno(kernel::EPERM), None, false), ["EPERM", "lockdown"]),
        (
            denied(Errno(kernel::EACCES), Some(2), false),
            [
                "may be /proc/sys/kernel/perf_event_paranoid, which cannot be read",
                "mount all of /proc",
            ],
        ),
        (
            denied(Errno(kernel::EACCES), Some(2), true),
            ["or a seccomp filter", "perf_event_paranoid=2"],
        ),
        (
            denied(Errno(kernel::EPERM), None, true),
            ["whether a seccomp filter", "Make /proc readable"],
        ),
        (denied_by_filter(Errno(0)), ["returned 0", "outside of the sandbox"]),
        (denied_by_filter(Errno(kernel::EPERM)), ["denied (EPERM)", "--cap-add PERFMON"]),
        (Error::of_call("open")(Errno(kernel::ENFILE)), ["descriptor", "fs.file-max"]),
        (Error::of_call("mmap")(Errno(kernel::ENODEV)), ["mmap failed with ENODEV", "report it"]),
        (Error::of_call("mmap")(Errno(kernel::ENOMEM)), ["mmap", "Free memory"]),
        (Error::of_call("ioctl")(Errno(kernel::EBADF)), ["closed the counter", "close_range"]),
        (Error::of_group_size(0), ["at least one", "between 1 and 8"]),
        (Error::of_group_size(9), ["not 9", "several groups"]),
        (of(group_too_large(2, false)), ["2 events before it", "group of its own"]),
        (of(group_too_large(1, false)), ["1 event before it", "nmi_watchdog"]),
        (of(group_too_large(5, true)), ["the 5 events before it", "fewer events at a time"]),
        (of(group_too_large(0, true)), ["stands still", "Try again"]),
        (of(group_too_large(0, false)), ["pinned events", "Close some"]),
        (Error::forked_meanwhile(), ["fork", "Open a new counter"]),
        (ReadError::ErrorState.into(), ["error state", "Pin fewer"]),
        (ReadError::Forked.into(), ["fork", "Open a new counter"]),
        (
            ReadError::System { call: "read", errno: Errno(kernel::EIO) }.into(),
            ["EIO", "report it"],
        ),
        (
            ReadError::System { call: "ioctl", errno: Errno(kernel::EPERM) }.into(),
            ["ioctl of the counter was denied (EPERM)", "outside of it"],
        ),
        (no_region(Error::not_offered()), ["region", "arm64 needs"]),
        (
            no_region(why_not_mapped(Errno(kernel::EAGAIN))),
            [
                "instructions cannot be read there: the control page cannot be mapped (EAGAIN)",
                "ulimit -l",
            ],
        ),
        (Error::not_scheduled(), ["not on a hardware counter", "nmi_watchdog"]),
        (Error::of_width(40), ["40 bits", "No action"]),
        (Disturbed::NoCounter.into(), ["no counter when", "fewer events"]),
        (Disturbed::Faulted.into(), ["could not be read", "access()"]),
        (
            Disturbed::Interrupted { lock_moved: 6 }.into(),
            ["switched the thread", "another sample"],
        ),
        (Disturbed::OtherCounters.into(), ["other counters", "same counters"]),
        (
            unreadable("/proc/self/task", kernel::ENOENT),
            [
                "/proc/self/task cannot be read (ENOENT)",
                "in this container or chroot (mount /proc)",
            ],
        ),
        (
            unreadable("/sys/bus/event_source/devices", kernel::ENOENT),
            ["cannot be read (ENOENT)", "in this container or chroot (mount /sys)"],
        ),
        (unreadable(clocks, kernel::ENOENT), ["ENOENT", "or open a clock before"]),
        (unreadable(clocks, kernel::EACCES), ["EACCES", "read access to it"]),
        (unreadable("/sys/bus/event_source", kernel::EMFILE), ["each counter holds one", "ulimit"]),
        (Error::of_name("a", "B"), ["a", "B"]),
    ];
    for (error, [cause, remedy]) in errors {
        assert!(error.cause().contains(cause), "{error:?}");
        assert!(error.remedy().contains(remedy), "{error:?}");
        assert!(!error.to_string().contains(['{', '}']), "{error}");
        assert_eq!(error.to_string(), format!("{}. {}", error.cause(), error.remedy()));
        assert!(format!("{error:?}").ends_with(&error.to_string()), "{error:?}");
    }
}

/// Events with the same cause share a line. The remedy keeps the name.
#[test]
fn a_cause_can_be_shared() {
    let of = |name: &str| {
        let error =
            Error::new(ErrorKind::NotPerThread, "{event} is counted for CPUs", "-e {event}");
        let event = if name.contains('/') { Event::CYCLES.on_core_pmu(4) } else { Event::CYCLES };
        error.for_event((event, name.into()))
    };
    let (one, other) = (of("cycles"), of("instructions"));
    assert_eq!(one.shared_cause(), other.shared_cause());
    assert!(one.shared_cause().starts_with("this is counted for CPUs"), "{one}");
    assert!(one.remedy().contains("-e cycles"), "{one}");
    assert!(of("cpu_core/cycles/").shared_cause().starts_with("this on cpu_core is counted"));
    let several = "cycles,instructions".parse::<Event>().unwrap_err();
    assert!(several.shared_cause().starts_with("`cycles,instructions` is a list"), "{several}");
    assert!(several.remedy().starts_with("Parse one event at a time"), "{several}");
    assert_eq!(
        no_pmu_on(true, false, false).about("cpu/x/").shared_cause().split_once(' ').unwrap().0,
        "this"
    );
}

/// What a name brings along is neither taken for a placeholder nor obeyed by a terminal.
#[test]
fn names_are_shown_as_they_are() {
    let error = Error::of_name("no event {0} \u{1b}[2J", "{event}{errno}");
    assert_eq!(error.to_string(), "no event {0} \\u{1b}[2J. {event}{errno}");
}

#[test]
fn the_source_is_the_kernels_answer() {
    let errno = Errno(kernel::EIO);
    let error = Error::from(ReadError::System { call: "read", errno });
    let source = error.source().and_then(|source| source.downcast_ref::<Errno>());
    assert_eq!(source.map(|errno| (errno.raw(), errno.to_string())), Some((5, "EIO".into())));
    assert!(why_no_region(Event::CYCLES, why_not_mapped(errno)).source().is_some());
    assert!(why_no_region(Event::CYCLES, Error::not_offered()).source().is_none());
    let denied = std::io::Error::from(denied(errno, None, false));
    assert_eq!(denied.kind(), std::io::ErrorKind::PermissionDenied);
    assert!(denied.to_string().contains("EIO"), "{denied}");
}
