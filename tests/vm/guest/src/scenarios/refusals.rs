//! Each refusal of the kernel, provoked for real, is reported with its cause.

use super::{Entry, open};
use crate::harness::{Facts, Outcome, Stop, equal, require, says};
use crate::system::{Changed, PARANOID, set};
use rdpmc::error::{Error, ErrorKind};
use rdpmc::internals::abi::open_flag::FD_CLOEXEC;
use rdpmc::{Counter, Event};
use rdpmc_testing::process::{self, in_child, wait};

pub const ALL: &[Entry] = &[
    ("paranoid_levels", paranoid_levels),
    ("seccomp", seccomp),
    ("foreign_use", foreign_use),
    ("descriptors_used_up", descriptors_used_up),
    ("event_not_supported", event_not_supported),
    ("attr_too_new_for_kernel", attr_too_new_for_kernel),
    ("no_pmu", no_pmu),
];

/// Returns the error of an open that should fail.
fn refused(opened: Result<Counter, Error>) -> Result<Error, Stop> {
    match opened {
        Ok(_) => Err(Stop::Failed("was not refused".into())),
        Err(error) => Ok(error),
    }
}

fn is_paranoid(error: &Error, level: u32, allowed: u32) -> Outcome {
    says("the error", error, ErrorKind::Paranoid, &format!("perf_event_paranoid is {level},"))?;
    says("the error", error, ErrorKind::Paranoid, &format!("perf_event_paranoid={allowed}`"))
}

fn paranoid_levels(_: &Facts) -> Outcome {
    let user = || Counter::open(Event::TASK_CLOCK);
    let kernel = || Counter::builder(Event::TASK_CLOCK).exclude_kernel(false).open();
    // Debian's kernel has level 3: nothing at all without the capability.
    let _level = Changed::to(PARANOID, "3");
    in_child(|| -> Outcome {
        assert!(process::drop_rights());
        is_paranoid(&refused(user())?, 3, 2)?;
        is_paranoid(&refused(kernel())?, 3, 1)
    })?;
    set(PARANOID, "2");
    in_child(|| -> Outcome {
        assert!(process::drop_rights());
        user()?;
        is_paranoid(&refused(kernel())?, 2, 1)
    })?;
    set(PARANOID, "1");
    in_child(|| -> Outcome {
        assert!(process::drop_rights());
        user()?;
        kernel()?;
        Ok(())
    })?;
    // The capability overrides all levels.
    set(PARANOID, "3");
    user()?;
    kernel()?;
    Ok(())
}

fn seccomp(_: &Facts) -> Outcome {
    for errno in [libc::EPERM, libc::EACCES, libc::ENOSYS] {
        in_child(|| -> Outcome {
            process::refuse(libc::SYS_perf_event_open, errno);
            let error = refused(Counter::open(Event::TASK_CLOCK))?;
            equal("the answer", error.errno().map(|errno| errno.raw()), Some(errno))?;
            says("the error", &error, ErrorKind::Seccomp, "by a seccomp filter")
        })?;
    }
    Ok(())
}

/// The kernel kills a process that opens an event of another process, of a CPU, or in a group. No setting of the
/// builder makes it do so.
fn foreign_use(facts: &Facts) -> Outcome {
    let share = facts.share();
    in_child(|| -> Outcome {
        process::allow_events_of_this_thread_only();
        let events = [
            Event::INSTRUCTIONS,
            Event::CYCLES,
            Event::TASK_CLOCK,
            Event::CONTEXT_SWITCHES,
            Event::LLC_LOAD_MISSES,
            Event::raw(u64::MAX),
            Event::of_pmu(u32::MAX, u64::MAX).with_config1(u64::MAX).with_config2(u64::MAX),
            Event::DUMMY.with_config3(u64::MAX).with_config4(u64::MAX),
        ];
        for event in events {
            // These need no PMU, whatever the bits. But context switches without the kernel leave nothing to count.
            let software = [(Event::TASK_CLOCK, 1 << 6), (Event::CONTEXT_SWITCHES, 1 << 5)];
            let software = software.iter().find(|(known, _)| *known == event);
            let mut opened = 0;
            for bits in (0..1 << 6).filter(|bits| software.is_some() || share.has(*bits)) {
                let bit = |n: u32| bits >> n & 1 == 1;
                let counter = Counter::builder(event)
                    .exclude_user(bit(0))
                    .exclude_kernel(bit(1))
                    .exclude_hypervisor(bit(2))
                    .pinned(bit(3))
                    .disabled(bit(4))
                    .allow_all_privilege_levels(bit(5))
                    .open();
                opened += u32::from(counter.is_ok());
            }
            if let Some((_, expected)) = software {
                equal("times opened", opened, *expected)?;
            }
        }
        Ok(())
    })?;
    // The control: each of these is detected, except the first.
    const PID_CGROUP: u64 = 4;
    for ((process, processor, group, flags), end) in [
        ((0, -1, -1, FD_CLOEXEC), 0),
        ((1, -1, -1, FD_CLOEXEC), libc::SIGSYS),
        ((0, 0, -1, FD_CLOEXEC), libc::SIGSYS),
        ((0, -1, 0, FD_CLOEXEC), libc::SIGSYS),
        ((0, -1, -1, FD_CLOEXEC | PID_CGROUP), libc::SIGSYS),
    ] {
        let status = wait(process::fork(|| {
            process::allow_events_of_this_thread_only();
            let event = std::ptr::null::<u8>();
            // SAFETY: the kernel refuses to read the event from this address.
            unsafe {
                libc::syscall(libc::SYS_perf_event_open, event, process, processor, group, flags)
            };
            0
        }));
        let what = format!("the end of one who asks for {:?}", (process, processor, group, flags));
        equal(&what, status & 0x7f, end)?;
    }
    Ok(())
}

fn descriptors_used_up(_: &Facts) -> Outcome {
    Ok(in_child(|| -> Outcome {
        process::limit(libc::RLIMIT_NOFILE as _, 16);
        let folder = std::fs::read_dir("/proc/self/fd").map_err(|error| error.to_string())?;
        // Minus the descriptor of the directory itself.
        let free = 16 - (folder.count() - 1);
        let mut counters = Vec::new();
        for _ in 0..free {
            counters.push(Counter::open(Event::TASK_CLOCK)?);
        }
        let error = refused(Counter::open(Event::TASK_CLOCK))?;
        says(
            "the error",
            &error,
            ErrorKind::TooManyOpenFiles,
            "this process has no file descriptor",
        )?;
        // After one is closed, there is room for one.
        counters.pop();
        counters.push(Counter::open(Event::TASK_CLOCK)?);
        refused(Counter::open(Event::TASK_CLOCK)).map(drop)
    })?)
}

fn is_not_supported(error: Error, event: Event) -> Outcome {
    match error.kind() {
        ErrorKind::EventNotSupported => equal("the event", error.event(), Some(event)),
        _ => Err(error.into()),
    }
}

fn event_not_supported(facts: &Facts) -> Outcome {
    // The emulated PMUs do not have this event.
    let odd: Event = "node-prefetch-misses".parse()?;
    if !facts.say_no_pmu() {
        is_not_supported(refused(open(odd))?, odd)?;
    }
    let unknown = Event::of_pmu(1, 999);
    is_not_supported(refused(open(unknown))?, unknown)
}

fn attr_too_new_for_kernel(facts: &Facts) -> Outcome {
    let known_here = facts.number("attr");
    // config4 came with Linux 6.19; a kernel that knows it ignores it for a software event.
    match Counter::open(Event::TASK_CLOCK.with_config4(1)) {
        Ok(_) => require(known_here >= Some(144), || "was not refused".into()),
        Err(why) => {
            let known = known_here.unwrap_or_default();
            let words =
                format!("needs 144 bytes of perf_event_attr, and this kernel knows {known}");
            says("the error", &why, ErrorKind::UnsupportedField, &words)
        }
    }
}

fn no_pmu(facts: &Facts) -> Outcome {
    if !facts.say_no_pmu() {
        return crate::harness::skip("this machine has a PMU");
    }
    // Only x86-64 reports a virtual machine.
    let is_virtual = cfg!(target_arch = "x86_64");
    let error = refused(open(Event::INSTRUCTIONS))?;
    equal("the event", error.event(), Some(Event::INSTRUCTIONS))?;
    let words = if is_virtual { "this virtual machine has none" } else { "the kernel offers none" };
    let is_it = matches!(error.kind(), ErrorKind::NoPmu { is_virtual: of, .. } if of == is_virtual);
    require(is_it && error.to_string().contains(words), || format!("{error:?}"))
}
