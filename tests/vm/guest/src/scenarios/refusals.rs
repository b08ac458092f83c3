//! What the kernel refuses, it says why; each error is provoked for real.

use super::{Entry, has_no_pmu, open};
use crate::harness::{Facts, Outcome, Stop, equal, require};
use crate::machine::{PARANOID, get, set};
use crate::process::{self, in_child};
use rdpmc::{Cache, CacheAccess, CacheOutcome, Counter, Error, Event};

pub const ALL: &[Entry] = &[
    ("paranoid_levels", paranoid_levels),
    ("seccomp", seccomp),
    ("descriptors_used_up", descriptors_used_up),
    ("event_not_supported", event_not_supported),
    ("attr_too_new_for_kernel", attr_too_new_for_kernel),
    ("no_pmu", no_pmu),
];

/// The error of an open that should fail.
fn refused(opened: Result<Counter, Error>) -> Result<Error, Stop> {
    match opened {
        Ok(_) => Err(Stop::Failed("was not refused".into())),
        Err(error) => Ok(error),
    }
}

fn paranoid_levels(_: &Facts) -> Outcome {
    let before = get(PARANOID);
    let result = paranoid_levels_in_turn();
    set(PARANOID, &before);
    result
}

fn paranoid_levels_in_turn() -> Outcome {
    let user = || Counter::open(Event::TASK_CLOCK);
    let kernel = || Counter::builder(Event::TASK_CLOCK).exclude_kernel(false).open();
    // Debian's kernel has level 3: nothing at all without the capability.
    set(PARANOID, "3");
    in_child(|| -> Outcome {
        assert!(process::drop_rights());
        equal("user", refused(user())?, Error::Paranoid { level: 3, allowed: 2 })?;
        equal("kernel", refused(kernel())?, Error::Paranoid { level: 3, allowed: 1 })
    })?;
    set(PARANOID, "2");
    in_child(|| -> Outcome {
        assert!(process::drop_rights());
        user()?;
        equal("kernel", refused(kernel())?, Error::Paranoid { level: 2, allowed: 1 })
    })?;
    set(PARANOID, "1");
    in_child(|| -> Outcome {
        assert!(process::drop_rights());
        user()?;
        kernel()?;
        Ok(())
    })?;
    // The capability stands above all levels.
    set(PARANOID, "3");
    user()?;
    kernel()?;
    Ok(())
}

fn seccomp(_: &Facts) -> Outcome {
    for errno in [libc::EPERM, libc::EACCES, libc::ENOSYS] {
        in_child(|| -> Outcome {
            process::refuse(libc::SYS_perf_event_open, errno);
            equal("the error", refused(Counter::open(Event::TASK_CLOCK))?, Error::Seccomp { errno })
        })?;
    }
    Ok(())
}

fn descriptors_used_up(_: &Facts) -> Outcome {
    Ok(in_child(|| -> Outcome {
        process::limit(libc::RLIMIT_NOFILE as _, 16);
        let mut counters = Vec::new();
        loop {
            match Counter::open(Event::TASK_CLOCK) {
                Ok(counter) => counters.push(counter),
                Err(error) => {
                    equal("the error", error, Error::TooManyDescriptors { of_the_machine: false })?;
                    return require(counters.len() > 5, || format!("after {}", counters.len()));
                }
            }
        }
    })?)
}

fn event_not_supported(facts: &Facts) -> Outcome {
    // The emulated PMUs have no such event.
    let odd = Event::cache(Cache::Node, CacheAccess::Prefetch, CacheOutcome::Miss);
    if !has_no_pmu(facts) {
        match refused(open(odd))? {
            Error::EventNotSupported { event, .. } => equal("the event", event, odd)?,
            other => return Err(other.into()),
        }
    }
    let unknown = Event::of_pmu(1, 999);
    match refused(open(unknown))? {
        Error::EventNotSupported { event, .. } => equal("the event", event, unknown),
        other => Err(other.into()),
    }
}

fn attr_too_new_for_kernel(_: &Facts) -> Outcome {
    // config4 came with Linux 6.19; a kernel that knows it ignores it for a software event.
    match Counter::open(Event::TASK_CLOCK.with_config4(1)) {
        Ok(_) => Ok(()),
        Err(Error::TooNewForKernel { needed, known }) => {
            equal("needed", needed, 144)?;
            require((64..144).contains(&known), || format!("known: {known}"))
        }
        Err(other) => Err(other.into()),
    }
}

fn no_pmu(facts: &Facts) -> Outcome {
    if !has_no_pmu(facts) {
        return crate::harness::skip("this machine has a PMU");
    }
    let error = refused(open(Event::INSTRUCTIONS))?;
    require(matches!(error, Error::NoPmu { event: Event::INSTRUCTIONS, .. }), || {
        format!("{error:?}")
    })
}
