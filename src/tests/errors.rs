//! Every message names its cause and the remedy, and every error has its source.

#![allow(clippy::unwrap_used)]

use crate::error::clock::ClockReason;
use crate::error::{
    Disturbed, Errno, Error, NameError, OpenError, ReadError, RegionError, SyscallReason,
    Unreadable,
};
use crate::event::Event;
use crate::kernel;
use std::error::Error as _;

#[test]
fn every_message_names_cause_and_remedy() {
    let event = Event::INSTRUCTIONS;
    let no_pmu = |is_virtual, is_guest_of_hybrid| OpenError::NoPmu {
        event: event.into(),
        is_virtual,
        is_guest_of_hybrid,
        is_wsl: false,
    };
    let wsl = OpenError::NoPmu {
        event: event.into(),
        is_virtual: true,
        is_guest_of_hybrid: false,
        is_wsl: true,
    };
    let denied = |errno, allowed, may_be_filter| {
        Error::from(OpenError::Denied { errno: Errno(errno), allowed, may_be_filter })
    };
    let clock = |errno| {
        let path = "/sys/devices/system/clocksource/clocksource0/available_clocksource".into();
        ClockReason::Unreadable(Unreadable { path, errno: Errno(errno) })
    };
    for (errno, name, remedy) in [
        (kernel::ENOENT, "ENOENT", "mount /sys"),
        (kernel::EMFILE, "EMFILE", "ulimit -n"),
        (kernel::EACCES, "EACCES", "read access to it"),
    ] {
        let (cause, found) = (clock(errno).cause(), clock(errno).remedy());
        assert!(cause.contains("trusts the tick counter") && cause.contains(name), "{cause}");
        assert!(found.contains(remedy), "{found}");
    }
    for (path, remedy) in [
        ("/proc/self/task", "Make it visible in this container or chroot (mount /proc)"),
        (
            "/sys/bus/event_source/devices",
            "Make it visible in this container or chroot (mount /sys)",
        ),
    ] {
        let unreadable = Unreadable { path: path.into(), errno: Errno(kernel::ENOENT) };
        assert_eq!(Error::from(OpenError::from(unreadable)).remedy(), remedy);
    }
    let unavailable = |reason| RegionError::UserReadUnavailable { event: event.into(), reason };
    let errors: Vec<(Error, [&str; 2])> = vec![
        (OpenError::Unsupported.into(), ["was built for", "Build it for Linux"]),
        (wsl.into(), ["WSL2", "hardwarePerformanceCounters=false"]),
        (
            OpenError::NoPmuList { event: event.into(), errno: Errno(kernel::ENOENT) }.into(),
            ["nothing shows whether this machine has a PMU", "Mount /sys"],
        ),
        (
            NameError::NoPmuList { name: "cpu/mem-loads/".into() }.into(),
            ["list of this machine's PMUs", "Mount /sys"],
        ),
        (OpenError::Closed.into(), ["closed the counter's descriptor", "close_range"]),
        (no_pmu(true, false).into(), ["virtual machine", "hypervisor"]),
        (no_pmu(false, false).into(), ["driver", "software events"]),
        (no_pmu(true, true).into(), ["hybrid Intel CPUs", "on the host"]),
        (OpenError::NoSystemCall.into(), ["no perf_event_open", "CONFIG_PERF_EVENTS"]),
        (denied(kernel::EPERM, None, false), ["EPERM", "lockdown"]),
        (
            denied(kernel::EACCES, Some(2), false),
            ["may be /proc/sys/kernel/perf_event_paranoid", "mount all of /proc"],
        ),
        (denied(kernel::EACCES, Some(2), true), ["or a seccomp filter", "perf_event_paranoid=2"]),
        (denied(kernel::EPERM, None, true), ["whether a seccomp filter", "Make /proc readable"]),
        (OpenError::Busy { event: event.into() }.into(), ["exclusive use", "Stop it"]),
        (
            OpenError::UnsupportedField { needed: 144, known: 128 }.into(),
            ["144 bytes", "newer kernel"],
        ),
        (
            OpenError::TooManyOpenFiles { is_system_wide: true }.into(),
            ["descriptor", "fs.file-max"],
        ),
        (OpenError::GroupSize { events: 9 }.into(), ["not 9", "several groups"]),
        (
            OpenError::GroupTooLarge { fit: 2, event: event.into(), stands_still: false }.into(),
            ["2 events before it", "group of its own"],
        ),
        (
            OpenError::GroupTooLarge { fit: 1, event: event.into(), stands_still: false }.into(),
            ["1 event before it", "nmi_watchdog"],
        ),
        (
            OpenError::GroupTooLarge { fit: 5, event: event.into(), stands_still: true }.into(),
            ["the 5 events before it", "fewer events at a time"],
        ),
        (
            OpenError::GroupTooLarge { fit: 0, event: event.into(), stands_still: true }.into(),
            ["stands still", "Try again"],
        ),
        (
            OpenError::GroupTooLarge { fit: 0, event: event.into(), stands_still: false }.into(),
            ["pinned events", "Close some"],
        ),
        (
            OpenError::NotPerThread { event: event.into() }.into(),
            ["not for a thread", "perf stat -a -e instructions"],
        ),
        (
            OpenError::SeveralPmus { first: Event::CYCLES.into(), event: event.into() }.into(),
            ["instructions and cycles belong to different PMUs", "a group of its own"],
        ),
        (
            OpenError::System { call: "mmap", errno: Errno(kernel::ENODEV) }.into(),
            ["mmap failed with ENODEV", "report it"],
        ),
        (
            OpenError::IncludesGuests { event: event.into() }.into(),
            ["instructions includes guests", "exclude_guest(true)"],
        ),
        (OpenError::Paranoid { level: 4, allowed: 2 }.into(), ["is 4", "perf_event_paranoid=2"]),
        (OpenError::OutOfMemory { call: "mmap" }.into(), ["mmap", "Free memory"]),
        (
            OpenError::Seccomp { call: "ioctl", errno: Errno(kernel::EPERM) }.into(),
            ["ioctl was denied (EPERM)", "outside of the sandbox"],
        ),
        (OpenError::seccomp(Errno(0)).into(), ["returned 0", "outside of the sandbox"]),
        (OpenError::Forked.into(), ["fork", "Open a new counter"]),
        (ReadError::ErrorState.into(), ["error state", "Pin fewer"]),
        (ReadError::Forked.into(), ["fork", "Open a new counter"]),
        (
            ReadError::System { call: "read", errno: Errno(kernel::EIO) }.into(),
            ["EIO", "report it"],
        ),
        (RegionError::FaultsNotContained.into(), ["faults", "rdpmc::contain_faults()"]),
        (RegionError::Forked.into(), ["fork", "Open a new counter"]),
        (unavailable(SyscallReason::Refused).into(), ["region", "retry_user()"]),
        (
            unavailable(SyscallReason::NotMapped { errno: Errno(kernel::EAGAIN) }).into(),
            ["EAGAIN", "ulimit -l"],
        ),
        (Disturbed::NoCounter.into(), ["no counter when", "fewer events"]),
        (Disturbed::Faulted.into(), ["could not be read", "access()"]),
        (
            Disturbed::Interrupted { lock_moved: 6 }.into(),
            ["switched the thread", "another sample"],
        ),
        (Disturbed::OtherCounters.into(), ["other counters", "same counters"]),
    ];
    for (error, [cause, remedy]) in errors {
        assert!(error.cause().contains(cause), "{error:?}");
        assert!(error.remedy().contains(remedy), "{error:?}");
        assert_eq!(error.to_string(), format!("{}. {}", error.cause(), error.remedy()));
        assert!(format!("{error:?}").ends_with(&error.to_string()), "{error:?}");
    }
}

/// Events with the same cause share a line. The remedy keeps the name.
#[test]
fn a_cause_can_be_shared() {
    let of = |event: Event| OpenError::NotPerThread { event: event.into() };
    let (one, other) = (of(Event::CYCLES), of(Event::INSTRUCTIONS));
    assert_eq!(one.shared_cause(), other.shared_cause());
    assert!(one.shared_cause().starts_with("this is counted for CPUs"), "{one}");
    assert!(one.remedy().contains("-e cycles"), "{one}");
    let name = crate::error::NamedEvent::new(Event::CYCLES, "cpu_core/cycles/".into());
    let on_one_type = Error::from(OpenError::NotPerThread { event: name });
    assert!(on_one_type.shared_cause().starts_with("this on cpu_core is counted"));
    let several = Error::from("cycles,instructions".parse::<Event>().unwrap_err());
    assert!(several.shared_cause().starts_with("`cycles,instructions` is not"), "{several}");
    assert!(several.remedy().starts_with("Parse one event at a time"), "{several}");
}

#[test]
fn the_source_is_the_kernels_answer() {
    let errno = Errno(kernel::EIO);
    let error = Error::from(ReadError::System { call: "read", errno });
    let source = error.source().and_then(|source| source.downcast_ref::<Errno>());
    assert_eq!(source.map(|errno| (errno.raw(), errno.to_string())), Some((5, "EIO".into())));
    let refused = unavailable_because(SyscallReason::NotMapped { errno });
    assert!(refused.source().is_some());
    assert!(unavailable_because(SyscallReason::Refused).source().is_none());
    let denied = OpenError::Denied { errno, allowed: None, may_be_filter: false };
    let denied = std::io::Error::from(Error::from(denied));
    assert_eq!(denied.kind(), std::io::ErrorKind::PermissionDenied);
    assert!(denied.to_string().contains("EIO"), "{denied}");
}

fn unavailable_because(reason: SyscallReason) -> RegionError {
    RegionError::UserReadUnavailable { event: Event::CYCLES.into(), reason }
}
