//! Errors provoked for real, each in a process of its own if that takes more than an event.
//!
//! Errors that are tested elsewhere:
//! - In `tests/vm/guest/src/scenarios`: `ErrorState` in `multiplexing.rs`, `GroupTooLarge` in `groups.rs`,
//!   `SeveralPmus` in `core_types.rs`, `FaultsNotContained` and `UserReadUnavailable` in `regions.rs`, `Disturbed` in
//!   `regions.rs` and `faults.rs`. The limit of locked memory, which is not an error, in `access.rs`.
//! - `Disturbed` also in `simulated_kernel/regions.rs`, `Forked` in `tests/lifetime.rs`, `Error` in `tests/repository/names.rs`.
//! - Nowhere: `Denied` needs a security module's rule, `NoSystemCall` another kernel, and `Unsupported` another
//!   target, which CI builds.
//!
//! For `Busy`, `System` and the machine's last descriptor, a filter gives the kernel's answer. The real causes are a
//! second profiler that reserves the PMU, a fault of the kernel, and every descriptor in use.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use super::process::in_child;
use super::{process, skips};
use crate::error::{Errno, Error, ErrorKind, ReadError};
use crate::open::denied_by_filter;
use crate::pmu::Pmus;
use crate::{Counter, Event};
use skips::skip;
use std::fmt::Write;
use std::{fs, ptr};

/// The directory in which the kernel lists PMUs.
const PMUS: &str = "/sys/bus/event_source/devices";

/// Opens the event that every machine has.
fn open_software() -> Result<Counter, Error> {
    Counter::open(Event::TASK_CLOCK)
}

/// Returns whether counters can be opened here. If not, skips the test with the reason.
fn can_open(test: &str) -> bool {
    match open_software() {
        Ok(_) => true,
        Err(why) => {
            skip(test, &why.to_string());
            false
        }
    }
}

fn has_core_pmu() -> bool {
    fs::read_dir(PMUS).is_ok_and(|pmus| {
        pmus.flatten().any(|pmu| {
            let name = pmu.file_name().to_string_lossy().into_owned();
            name.starts_with("cpu") || name.starts_with("armv8") || pmu.path().join("cpus").exists()
        })
    })
}

fn paranoid_level() -> i32 {
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    level.ok().and_then(|level| level.trim().parse().ok()).unwrap_or(2)
}

fn refused(opened: Result<Counter, Error>) -> Result<Error, String> {
    opened.map_or_else(Ok, |counter| Err(format!("{} was opened", counter.event())))
}

fn same<T: PartialEq + std::fmt::Debug>(is: T, should: T) -> Result<(), String> {
    if is == should { Ok(()) } else { Err(format!("{is:?}, should be {should:?}")) }
}

#[test]
fn no_pmu() {
    if !can_open("no_pmu") {
        return;
    }
    if has_core_pmu() {
        return skip("no_pmu", "this machine has a PMU");
    }
    for event in [Event::INSTRUCTIONS, Event::CYCLES, Event::raw(0xc0)] {
        let error = Counter::open(event).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::NoPmu { .. }) && error.event() == Some(event),
            "{error:?}"
        );
        assert!(error.to_string().contains(&event.to_string()), "{error}");
    }
}

/// A program under a strict filter can print what went wrong without being killed.
#[test]
fn printing_makes_no_system_call() {
    if !can_open("printing_makes_no_system_call") {
        return;
    }
    // Events that are written by the kernel's name, by type, and by config words; of a PMU that exists, and of one
    // that does not.
    let events = [
        Event::CYCLES,
        Event::raw(0xc0),
        Event::raw(0xc0).with_config1(3),
        Event::of_pmu(1, 999),
        Event::of_pmu(0x7fff_0001, 5),
    ];
    let errors: Vec<Error> =
        events.iter().filter_map(|event| Counter::open(*event).err()).collect();
    assert!(errors.len() >= 2, "{errors:?}");
    let ends = |look: bool| {
        process::wait(process::fork(|| {
            let counter = std::mem::ManuallyDrop::new(open_software().unwrap());
            let group = crate::Group::open([Event::TASK_CLOCK, Event::PAGE_FAULTS]).unwrap();
            let group = std::mem::ManuallyDrop::new(group);
            let print = |text: &mut String| {
                for event in events {
                    write!(text, "{event} {event:?}").unwrap();
                }
                for error in &errors {
                    write!(text, "{error} {error:?}").unwrap();
                }
                write!(text, "{counter:?} {group:?}").unwrap();
            };
            // The first time, the allocator requests the memory that it needs.
            let mut text = String::new();
            print(&mut text);
            text.clear();
            process::allow_only(libc::SYS_exit_group);
            print(&mut text);
            if look {
                text.push_str(&Pmus::local().name_of(Event::of_pmu(1, 999)));
            }
            i32::from(text.is_empty())
        }))
    };
    assert_eq!(ends(false), 0, "the wait status");
    assert_eq!(libc::WTERMSIG(ends(true)), libc::SIGSYS, "what ends the control");
}

/// Tests what a `main` that returns an error prints, and what `dbg!` prints for a handle.
#[test]
fn debug_is_readable() {
    let event = Event::CYCLES;
    let error = Error::of_group_size(9);
    assert_eq!(format!("{error:?}"), format!("GroupSize: {error}"));
    let error = "cylces".parse::<Event>().unwrap_err();
    assert!(format!("{error:?}").ends_with("Did you mean cycles?"), "{error:?}");
    assert_eq!(format!("{:?}", event.kernel()), "Event(cycles:k)");
    assert_eq!(
        format!("{:?}", Event::of_pmu(9, 1).with_config2(2)),
        "Event(9/config=0x1,config2=0x2/)"
    );
}

#[test]
fn debug_of_a_handle_has_events_and_access() {
    if !can_open("debug_of_a_handle_has_events_and_access") {
        return;
    }
    let counter = open_software().unwrap();
    let shown = "Counter { event: Event(task-clock), access: SystemCall(SoftwareEvent) }";
    assert_eq!(format!("{counter:?}"), shown);
    let group = crate::Group::open([Event::TASK_CLOCK, Event::PAGE_FAULTS]).unwrap();
    let events = "[Event(task-clock), Event(page-faults)]";
    let shown = format!("Group {{ events: {events}, access: SystemCall(SoftwareEvent) }}");
    assert_eq!(format!("{group:?}"), shown);
    let clock = crate::Clock::open().unwrap();
    assert_eq!(format!("{clock:?}"), format!("Clock {{ kind: {:?} }}", clock.kind()));
}

#[test]
fn event_not_supported() {
    if !can_open("event_not_supported") {
        return;
    }
    let unknown = Event::of_pmu(1, 999);
    let error = Counter::open(unknown).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EventNotSupported);
    assert_eq!((error.event(), error.errno()), (Some(unknown), Some(Errno(libc::ENOENT))));
    assert!(error.to_string().contains("perf list"), "{error}");
}

/// Settings that leave nothing to count are an error, with or without a PMU, instead of a count of 0.
#[test]
fn nothing_to_count() {
    if !can_open("nothing_to_count") {
        return;
    }
    let named = |name: &str| -> Event { name.parse().unwrap() };
    let counts_nothing = |error: &Error, event| {
        assert_eq!((error.kind(), error.event()), (ErrorKind::CountsNothing, Some(event)));
    };
    for event in [Event::CYCLES, Event::PAGE_FAULTS, Event::raw(0xc0)] {
        let error = Counter::builder(event).exclude_user(true).open().unwrap_err();
        counts_nothing(&error, event);
        assert!(error.to_string().contains("exclude_kernel(false)"), "{error}");
        let group = crate::Group::builder([Event::TASK_CLOCK, event]).exclude_user(true).open();
        counts_nothing(&group.unwrap_err(), event);
        if event != Event::PAGE_FAULTS {
            let both = Counter::builder(event).exclude_host(true).exclude_guest(true).open();
            counts_nothing(&both.unwrap_err(), event);
        }
    }
    let switches = named("context-switches:u");
    counts_nothing(&Counter::open(switches).unwrap_err(), switches);
    // Time has no privilege level.
    assert!(Counter::builder(Event::TASK_CLOCK).exclude_user(true).open().is_ok());
    assert!(Counter::open(named("page-faults:u")).is_ok());
}

#[test]
fn paranoid() {
    if !can_open("paranoid") {
        return;
    }
    let level = paranoid_level();
    if level < 2 {
        return skip("paranoid", &format!("perf_event_paranoid is {level} and allows everything"));
    }
    let rights = || if process::drop_rights() { Ok(()) } else { Err("no other user here") };
    if let Err(why) = in_child(rights) {
        return skip("paranoid", &why);
    }
    in_child(|| -> Result<(), String> {
        assert!(process::drop_rights());
        let kernel = Counter::builder(Event::TASK_CLOCK).exclude_kernel(false).open();
        let error = refused(kernel)?;
        same(error.kind(), ErrorKind::Paranoid)?;
        let message = error.to_string();
        same(message.contains(&format!("kernel.perf_event_paranoid is {level}")), true)?;
        same(message.contains("sysctl kernel.perf_event_paranoid=1"), true)?;
        if level > 2 {
            let error = refused(open_software())?;
            same(error.kind(), ErrorKind::Paranoid)?;
            same(error.remedy().contains("perf_event_paranoid=2"), true)?;
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn seccomp() {
    if !can_open("seccomp") {
        return;
    }
    for errno in [libc::EPERM, libc::EACCES, libc::ENOSYS] {
        in_child(|| -> Result<(), String> {
            process::refuse(libc::SYS_perf_event_open, errno);
            let error = refused(open_software())?;
            same(error.to_string().contains("seccomp"), true)?;
            same(error, denied_by_filter(Errno(errno)))
        })
        .unwrap();
    }
}

#[test]
fn too_many_descriptors() {
    if !can_open("too_many_descriptors") {
        return;
    }
    in_child(|| -> Result<(), String> {
        process::limit(libc::RLIMIT_NOFILE as _, 64);
        let mut counters = Vec::new();
        loop {
            match open_software() {
                Ok(counter) => counters.push(counter),
                Err(error) => {
                    same(error.to_string().contains("ulimit -n"), true)?;
                    return same(error.kind(), ErrorKind::TooManyOpenFiles);
                }
            }
        }
    })
    .unwrap();
}

/// Events for which no descriptor is left do not take the others with them.
#[test]
fn what_fits_with_few_descriptors() {
    if !can_open("what_fits_with_few_descriptors") {
        return;
    }
    in_child(|| -> Result<(), String> {
        let wanted = [Event::TASK_CLOCK, Event::PAGE_FAULTS, Event::DUMMY, Event::TASK_CLOCK];
        drop(open_software()); // the facts of this machine are known from here on
        process::limit(libc::RLIMIT_NOFILE as _, 64);
        let mut taken: Vec<std::fs::File> =
            std::iter::from_fn(|| std::fs::File::open("/").ok()).collect();
        taken.truncate(taken.len() - 2);
        let fit = crate::DynGroup::builder(&wanted).fit().map_err(|why| why.to_string())?;
        same(&*fit.events, &wanted[..2])?;
        let refused = Error::of_call("perf_event_open")(Errno(libc::EMFILE));
        same(fit.missing, vec![(wanted[2], refused.clone()), (wanted[3], refused.clone())])?;
        taken.extend(std::iter::from_fn(|| std::fs::File::open("/").ok()));
        same(crate::DynGroup::builder(&wanted).fit().unwrap_err(), refused)
    })
    .unwrap();
}

#[test]
fn too_new_for_the_kernel() {
    if !can_open("too_new_for_the_kernel") {
        return;
    }
    // Linux 6.19 has config4, and a software event ignores it.
    match Counter::open(Event::TASK_CLOCK.with_config4(1)) {
        Ok(counter) => assert!(counter.read().unwrap() > 0),
        Err(why) if why.kind() == ErrorKind::UnsupportedField => {
            assert!(why.cause().starts_with("the event needs 144 bytes"), "{why}");
        }
        Err(other) => panic!("{other:?}"),
    }
}

/// A filter can give the kernel's answers. For a denied permission, `open` would report the filter as the cause.
#[test]
fn answers_that_no_setting_explains() {
    if !can_open("answers_that_no_setting_explains") {
        return;
    }
    let event = Event::TASK_CLOCK;
    for (errno, should) in [
        (libc::EBUSY, (ErrorKind::Busy, "exclusive use of what task-clock needs. Stop it")),
        (libc::EMFILE, (ErrorKind::TooManyOpenFiles, "this process has no file descriptor left")),
        (libc::ENFILE, (ErrorKind::TooManyOpenFiles, "this machine has no file descriptor left")),
        (libc::ENOMEM, (ErrorKind::OutOfMemory, "perf_event_open failed for lack of memory")),
        // No kernel gives these two answers every time, but a filter does.
        (libc::EINTR, (ErrorKind::Seccomp, "denied (EINTR) by a seccomp filter")),
        (0, (ErrorKind::Seccomp, "returned 0 and opened no event")),
    ] {
        in_child(|| -> Result<(), String> {
            process::refuse(libc::SYS_perf_event_open, errno);
            let error = refused(Counter::open(event))?;
            let (kind, words) = should;
            same((error.kind(), error.to_string().contains(words)), (kind, true))
        })
        .unwrap();
    }
}

/// If a filter answers 0 in the kernel's place, descriptor 0 belongs to something else, and stays open.
#[test]
fn standard_input_is_no_event() {
    in_child(|| -> Result<(), String> {
        process::refuse(libc::SYS_perf_event_open, 0);
        for _ in 0..2 {
            same(refused(Counter::open(Event::TASK_CLOCK))?, denied_by_filter(Errno(0)))?;
            let clock = crate::Clock::open().map_err(|why| why.to_string())?;
            same(matches!(clock.kind(), crate::clock::ClockKind::Page), false)?;
        }
        // SAFETY: F_GETFD takes no pointer.
        same(unsafe { libc::fcntl(0, libc::F_GETFD) } >= 0, true)
    })
    .unwrap();
}

/// If descriptor 0 is free, the kernel gives it to an event, which is not an error. The event is moved to a higher number.
#[test]
fn descriptor_0_may_be_an_event() {
    if !can_open("descriptor_0_may_be_an_event") {
        return;
    }
    in_child(|| -> Result<(), String> {
        // SAFETY: nothing in this child uses descriptor 0.
        unsafe { libc::close(0) };
        let counter = Counter::open(Event::TASK_CLOCK).map_err(|why| why.to_string())?;
        same(process::perf_descriptors().iter().all(|number| *number >= 16), true)?;
        same(process::perf_descriptors().len(), 1)?;
        let before = counter.read().map_err(|why| why.to_string())?;
        same(counter.read().is_ok_and(|after| after > before), true)?;
        drop(counter);
        same(process::perf_descriptors(), vec![])
    })
    .unwrap();
}

/// A group that is read by system call takes no memory of its own, so memory limits do not prevent it: neither in a
/// program that locks all its memory, as real-time programs do, nor in one with little address space.
#[test]
fn groups_without_room_for_pages() {
    if !can_open("groups_without_room_for_pages") {
        return;
    }
    let open_and_read = || -> Result<(), String> {
        let group = crate::Group::open([Event::TASK_CLOCK, Event::PAGE_FAULTS]);
        let group = group.map_err(|why| format!("{why:?}"))?;
        let before = group.read().map_err(|why| format!("{why:?}"))?;
        let after = group.read().map_err(|why| format!("{why:?}"))?;
        same(before[0] < after[0], true)?;
        let all = crate::Group::open([Event::TASK_CLOCK; 8]).map_err(|why| format!("{why:?}"))?;
        same(all.read().is_ok(), true)?;
        same(all.read_user(), None)
    };
    in_child(|| {
        // The test is about a user without rights. A process that may not change its user has none already.
        process::drop_rights();
        process::limit(libc::RLIMIT_MEMLOCK as _, 1 << 16);
        // SAFETY: mlockall takes a number.
        same(unsafe { libc::mlockall(libc::MCL_FUTURE) }, 0)?;
        open_and_read()
    })
    .unwrap();
    in_child(|| {
        // The present address space, without room for 64 KiB more.
        let status = fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = status.split(' ').next().unwrap().parse().unwrap();
        // SAFETY: sysconf takes a number.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        process::limit(libc::RLIMIT_AS as _, pages * size + (1 << 15));
        open_and_read()
    })
    .unwrap();
}

/// Replaces the machine's PMU files, for this process, by those of one PMU that does not exist. Returns the reason if
/// this is not permitted.
fn see_only(pmu: &str, number: u32, has_cpumask: bool) -> Result<(), String> {
    let folder = std::ffi::CString::new(PMUS).unwrap();
    let private = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: the strings live through the calls, which change the mounts of this process alone.
    let mounted = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(c"none".as_ptr(), c"/".as_ptr(), ptr::null(), private, ptr::null()) == 0
            && libc::mount(c"none".as_ptr(), folder.as_ptr(), c"tmpfs".as_ptr(), 0, ptr::null())
                == 0
    };
    if !mounted {
        return Err(std::io::Error::last_os_error().to_string());
    }
    let folder = std::path::Path::new(PMUS).join(pmu);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("type"), format!("{number}\n")).unwrap();
    if has_cpumask {
        fs::write(folder.join("cpumask"), "0\n").unwrap();
    }
    Ok(())
}

/// On a machine without a core PMU, a name that is an encoding is parsed as the constant is, and opening both returns the same
/// error. Other names of that PMU have an error of their own, with the cause.
#[test]
#[cfg(target_arch = "x86_64")]
fn names_without_a_core_pmu() {
    const TEST: &str = "names_without_a_core_pmu";
    let result = in_child(|| {
        see_only("other", 77, false).map_err(|why| format!("not hidden: {why}"))?;
        let parse = str::parse::<Event>;
        for (name, event) in [
            ("cpu/event=0xc0/", Event::raw(0xc0)),
            ("cpu/event=0xc0,umask=0x1,inv,cmask=2/", Event::raw(0x0280_01c0)),
            ("cpu/event=0x1ff/", Event::raw(0x1_0000_00ff)), // as on AMD's CPUs
            ("cpu/config=0x1c2/u", parse("r1c2:u").unwrap()),
            ("cpu/instructions/", Event::INSTRUCTIONS),
        ] {
            same(parse(name), Ok(event))?;
        }
        for name in
            ["cpu/mem-loads/", "cpu/mem-loads,ldlat=3/P", "cpu_atom/cycles/", "cpu/offcore_rsp=1/"]
        {
            let error = parse(name).unwrap_err();
            let is_precise = error.cause().contains("precise samples");
            let has_cause = matches!(error.kind(), ErrorKind::NoPmu { .. })
                && error.cause().starts_with(&format!("`{name}` needs a hardware counter"));
            if !(has_cause || is_precise && name.ends_with('P')) {
                return Err(format!("{name}: {error:?}"));
            }
        }
        match parse("cpv/event=1/") {
            Err(why) if why.kind() == ErrorKind::UnknownName => {}
            other => return Err(format!("{other:?}")),
        }
        let of = |event| Counter::open(event).map(drop).map_err(|error| error.kind());
        same(of(parse("cpu/event=0xc0/").unwrap()), of(Event::INSTRUCTIONS))
    });
    match result {
        Err(why) if why.contains("not hidden: ") => skip(TEST, &why),
        other => other.unwrap(),
    }
}

/// Foreign code closes the descriptor of one of a group's events, which the kernel then takes out of the group: the counts
/// after it would move up.
#[test]
fn a_group_that_has_lost_an_event() {
    if !can_open("a_group_that_has_lost_an_event") {
        return;
    }
    in_child(|| {
        let events = [Event::TASK_CLOCK, Event::CONTEXT_SWITCHES, Event::PAGE_FAULTS];
        let group = crate::Group::open(events).unwrap();
        let before = group.read();
        let descriptors = process::perf_descriptors();
        // SAFETY: the descriptor is the group's own, which is never dropped.
        let closed = unsafe { libc::close(descriptors[descriptors.len() - 2]) };
        let after = group.read();
        std::mem::forget(group);
        match (before, closed, after) {
            (Ok(_), 0, Err(ReadError::Closed)) => Ok(()),
            other => Err(format!("{other:?}, {descriptors:?}")),
        }
    })
    .unwrap();
}

/// Tests each PMU of this machine that counts for CPUs.
#[test]
fn not_of_a_thread() {
    if !can_open("not_of_a_thread") {
        return;
    }
    for pmu in Pmus::local().all().unwrap().iter().filter(|pmu| pmu.counts_for_cpus()) {
        let event = Event::of_pmu(pmu.type_id(), 0);
        match Counter::open(event) {
            // Arm's SPE has a `cpumask` file and samples threads.
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotPerThread),
        }
    }
}

/// Tests the files of a PMU that counts for CPUs, because this machine may have no such PMU.
#[test]
fn not_of_a_thread_by_its_files() {
    const NUMBER: u32 = 0x7fff_0000;
    let event = Event::of_pmu(NUMBER, 0);
    if !can_open("not_of_a_thread_by_its_files") {
        return;
    }
    let may_not = in_child(|| see_only("uncore", NUMBER, true));
    if let Err(why) = may_not {
        return skip("not_of_a_thread_by_its_files", &why);
    }
    for (has_cpumask, should) in
        [(true, ErrorKind::NotPerThread), (false, ErrorKind::EventNotSupported)]
    {
        in_child(|| -> Result<(), String> {
            see_only("uncore", NUMBER, has_cpumask)?;
            let error = refused(Counter::open(event))?;
            same(error.to_string().contains("uncore/config=0x0/"), true)?;
            same((error.kind(), error.event()), (should, Some(event)))
        })
        .unwrap();
    }
}

/// x86-64's `msr` PMU counts at all privilege levels. Virtual machines have it, too.
#[test]
fn no_privilege_filter() {
    let number = fs::read_to_string("/sys/bus/event_source/devices/msr/type");
    let Some(number) = number.ok().and_then(|number| number.trim().parse().ok()) else {
        return skip("no_privilege_filter", "it takes a PMU that cannot filter, such as x86's msr");
    };
    if !can_open("no_privilege_filter") {
        return;
    }
    let time_stamp_counter = Event::of_pmu(number, 0);
    let error = match Counter::open(time_stamp_counter) {
        Err(error)
            if matches!(error.kind(), ErrorKind::Paranoid | ErrorKind::EventNotSupported) =>
        {
            return skip("no_privilege_filter", &error.to_string());
        }
        other => refused(other).unwrap(),
    };
    assert_eq!(error.kind(), ErrorKind::NoPrivilegeFilter);
    assert!(error.to_string().contains("allow_all_privilege_levels"), "{error}");

    let counter =
        Counter::builder(time_stamp_counter).allow_all_privilege_levels(true).open().unwrap();
    assert!(counter.counts_all_privilege_levels());
    assert_eq!(counter.access().why_system_call(), Some(ErrorKind::NotOffered));
    assert_eq!(counter.read_user(), None);
    let before = counter.read().unwrap();
    assert!(before < counter.read().unwrap());
}

#[test]
fn a_software_event_is_no_error_and_says_how_it_is_read() {
    if !can_open("a_software_event_is_no_error_and_says_how_it_is_read") {
        return;
    }
    let counter = open_software().unwrap();
    assert_eq!(counter.read_user(), None);
    assert_eq!(counter.access().why_system_call(), Some(ErrorKind::SoftwareEvent));
    let before = counter.reading().unwrap();
    let after = counter.reading().unwrap();
    assert!(before.value < after.value && !after.is_multiplexed());
    counter.disable().unwrap();
    let stopped = counter.read().unwrap();
    assert_eq!(counter.read().unwrap(), stopped);
    counter.reset().unwrap();
    assert_eq!(counter.read().unwrap(), 0);
    counter.enable().unwrap();
    assert!(counter.read().unwrap() > 0);
}
