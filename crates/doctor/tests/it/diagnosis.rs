//! The report on this machine, compared with the machine's files.

use rdpmc::Counter;
use rdpmc::Error;
use rdpmc::error::ErrorKind;
use rdpmc::pmu::Pmus;
use rdpmc_doctor::{Availability, LockedMemory, Status, diagnose};
use rdpmc_testing::process::{self, in_child};
use rdpmc_testing::skips;
use std::fs;
use std::process::Command;

fn file(path: &str) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[test]
fn it_says_what_the_files_say() {
    let report = diagnose();
    assert_eq!(report.architecture, std::env::consts::ARCH);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(report.kernel, Some(format!("Linux {}", release.trim())));
    let paranoid = file("/proc/sys/kernel/perf_event_paranoid");
    assert_eq!(report.paranoid_level.map(i64::from), paranoid);
    assert_eq!(report.nmi_watchdog.map(i64::from), file("/proc/sys/kernel/nmi_watchdog"));
    let mlock = file("/proc/sys/kernel/perf_event_mlock_kb");
    assert_eq!(report.mlock_kilobytes.map(|kilobytes| kilobytes as i64), mlock);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for the write.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    assert_eq!(report.descriptors.map(|files| files.limit), Some(limit.rlim_cur));
    // Other tests of this process open and close some at the same time.
    let open = fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    assert!(report.descriptors.is_some_and(|files| files.open.abs_diff(open) < 30), "{report}");
    // SAFETY: `limit` is valid for the write.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    let locked = match limit.rlim_cur {
        libc::RLIM_INFINITY => LockedMemory::Unlimited,
        bytes => LockedMemory::Kilobytes(bytes / 1024),
    };
    assert_eq!(report.locked_memory, Some(locked));
    let pmus = Pmus::local().all().unwrap();
    assert_eq!(report.core_pmus.len() + report.other_pmus.len(), pmus.len());

    // Ten of the kernel's generic events, and three software events.
    assert_eq!(report.events.len(), 13);
    for found in &report.events {
        let counter = Counter::builder(found.event).allow_all_privilege_levels(true).open();
        // Whether the event has a counter now may change.
        assert_eq!(found.access.is_ok(), counter.is_ok(), "{}", found.event);
        if let (Err(found), Err(error)) = (&found.access, &counter) {
            assert_eq!(found, error);
        }
    }
}

fn is_software(event: rdpmc::Event) -> bool {
    use rdpmc::Event;
    [Event::TASK_CLOCK, Event::PAGE_FAULTS, Event::CONTEXT_SWITCHES].contains(&event)
}

/// On a machine that lacks nothing but a PMU.
#[test]
fn it_says_that_there_is_no_pmu() {
    let report = diagnose();
    let paranoid = file("/proc/sys/kernel/perf_event_paranoid");
    let may_open = report.capability.is_some() || paranoid.is_some_and(|level| level <= 2);
    let is_open = Counter::open(rdpmc::Event::TASK_CLOCK).is_ok(); // no filter refuses it
    if !report.core_pmus.is_empty() || !may_open || !is_open {
        let why =
            if report.core_pmus.is_empty() { "no event may be opened" } else { "there is one" };
        return skips::skip("it_says_that_there_is_no_pmu", why);
    }
    let is_virtual = report.is_virtual;
    let (software, hardware): (Vec<_>, Vec<_>) =
        report.events.iter().partition(|found| is_software(found.event));
    // That one may be refused.
    let is_open = |found: &&Availability| {
        found.access.is_ok() || found.event == rdpmc::Event::CONTEXT_SWITCHES
    };
    assert!(software.len() == 3 && software.iter().all(is_open), "{report}");
    for found in hardware {
        let is_of_this = |error: &Error| {
            matches!(error.kind(), ErrorKind::NoPmu { is_virtual: virtual_, .. }
                if error.event() == Some(found.event) && virtual_ == is_virtual)
        };
        assert!(found.access.as_ref().is_err_and(is_of_this), "{:?}", found.access);
    }
    let advice = |line: &String| line.starts_with("all hardware events: this needs");
    assert!(report.advice.iter().any(advice), "{report}");
}

/// Returns the report's text from a child in which `off` has changed something.
fn advice(off: impl FnOnce()) -> String {
    let mut said = String::new();
    let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
    in_child(|| {
        off();
        use std::io::Write;
        let mut writer = writer;
        writer.write_all(diagnose().to_string().as_bytes())
    })
    .unwrap();
    std::io::Read::read_to_string(&mut { reader }, &mut said).unwrap();
    said
}

/// As in a container that shows no PMUs: the report does not mention what a PMU lacks, and what is off stays in the
/// advice.
#[test]
fn where_no_pmus_are_shown() {
    let hidden = in_child(|| {
        let folder = c"/sys/bus/event_source".as_ptr();
        let (private, none) = (libc::MS_REC | libc::MS_PRIVATE, std::ptr::null());
        // SAFETY: the strings live through the calls, which change the mounts of this process alone.
        let is_hidden = unsafe {
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(c"none".as_ptr(), c"/".as_ptr(), none, private, none.cast()) == 0
                && libc::mount(c"none".as_ptr(), folder, c"tmpfs".as_ptr(), 0, none.cast()) == 0
        };
        if !is_hidden {
            return Err(format!("not hidden: {}", std::io::Error::last_os_error()));
        }
        // A program of its own: this process may have seen them before.
        let output = Command::new(env!("CARGO_BIN_EXE_rdpmc-doctor")).output();
        let said = output.map_err(|why| format!("the program: {why}"))?.stdout;
        let said = String::from_utf8_lossy(&said).into_owned();
        let lacks = said.contains("this PMU does not have it");
        let is_told = said.contains("nothing shows whether this machine has a PMU");
        // The kernel opens events of a PMU that is not shown.
        let has_pmu = Counter::open(rdpmc::Event::INSTRUCTIONS).is_ok();
        match has_pmu || (!lacks && is_told) {
            true => Ok(()),
            false => Err(said),
        }
    });
    match hidden {
        Err(why) if why.contains("not hidden: ") => skips::skip("where_no_pmus_are_shown", &why),
        other => other.unwrap(),
    }
}

/// The files that facts come from, each in turn replaced by one that would never end a careless read: a pipe that nobody
/// writes to, an endless device, and a regular file of a terabyte.
#[test]
fn strange_files_in_place_of_facts() {
    const FILES: [&str; 11] = [
        "/proc/cpuinfo",
        "/proc/sys/kernel/perf_event_paranoid",
        "/proc/sys/kernel/perf_event_mlock_kb",
        "/proc/sys/kernel/perf_user_access",
        "/proc/sys/kernel/nmi_watchdog",
        "/proc/sys/kernel/ostype",
        "/proc/sys/kernel/osrelease",
        "/proc/self/limits",
        "/proc/self/status",
        "/sys/devices/system/clocksource/clocksource0/available_clocksource",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    ];
    let room = std::env::temp_dir().join(format!("rdpmc-strange-{}", std::process::id()));
    std::fs::create_dir(&room).unwrap();
    let path_of = |path: &std::path::Path| {
        std::ffi::CString::new(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())).unwrap()
    };
    let (pipe, endless) = (room.join("pipe"), room.join("endless"));
    // SAFETY: the string lives through the call.
    assert_eq!(unsafe { libc::mkfifo(path_of(&pipe).as_ptr(), 0o600) }, 0);
    std::fs::File::create(&endless).unwrap().set_len(1 << 40).unwrap();
    let (mut replaced, mut result) = (0, Ok(()));
    'all: for file in FILES.map(std::path::Path::new).into_iter().filter(|file| file.exists()) {
        for strange in [&pipe, std::path::Path::new("/dev/zero"), &endless] {
            result = in_child(|| {
                let (from, to) = (path_of(strange), path_of(file));
                let (private, bind, none) =
                    (libc::MS_REC | libc::MS_PRIVATE, libc::MS_BIND, std::ptr::null());
                // SAFETY: the strings live through the calls, which change the mounts of this process alone.
                let is_replaced = unsafe {
                    libc::unshare(libc::CLONE_NEWNS) == 0
                        && libc::mount(c"none".as_ptr(), c"/".as_ptr(), none, private, none.cast())
                            == 0
                        && libc::mount(from.as_ptr(), to.as_ptr(), none, bind, none.cast()) == 0
                };
                if !is_replaced {
                    return Err(format!("not replaced: {}", std::io::Error::last_os_error()));
                }
                // A read that waits ends with the alarm, and an endless one for lack of memory.
                process::limit(libc::RLIMIT_AS as _, 1 << 30);
                // SAFETY: the call takes a number.
                unsafe { libc::alarm(30) };
                drop(rdpmc::Counter::open(rdpmc::Event::INSTRUCTIONS));
                drop(rdpmc::Clock::open());
                drop(diagnose());
                Ok(())
            });
            match &result {
                Ok(()) => replaced += 1,
                Err(_) => break 'all,
            }
        }
    }
    std::fs::remove_dir_all(&room).unwrap();
    match result {
        Err(why) if why.contains("not replaced: ") => {
            skips::skip("strange_files_in_place_of_facts", &why);
        }
        other => other.unwrap(),
    }
    assert!(replaced == 0 || replaced >= 3 * 8, "only {replaced} replaced");
}

#[test]
fn under_a_seccomp_filter() {
    let said = advice(|| process::refuse(libc::SYS_perf_event_open, libc::EPERM));
    assert!(said.contains("seccomp              a filter"), "{said}");
    assert!(said.contains("all events: perf_event_open was denied (EPERM)"), "{said}");
    assert!(said.contains("--security-opt seccomp="), "{said}");
}

#[test]
fn with_few_descriptors() {
    let said = advice(|| process::limit(libc::RLIMIT_NOFILE as _, 40));
    assert!(said.contains(" of 40 in use"), "{said}");
    assert!(said.contains("few file descriptors are left"), "{said}");
}

#[test]
fn as_a_user_without_rights() {
    let said = advice(|| assert!(process::drop_rights()));
    assert!(!said.contains("bypassed"), "{said}");
    // Some kernels treat levels above 2 as 2.
    let denied = said.contains("and this process does not have CAP_PERFMON");
    // They happen in the kernel, which may be excluded alone.
    assert_eq!(denied, said.contains("context-switches        not available"), "{said}");
}

/// What a script decides by.
#[test]
fn the_status_says_what_the_events_do() {
    let report = diagnose();
    let hardware = report.events.iter().filter(|found| !is_software(found.event));
    let ways: Vec<rdpmc::Access> = hardware.filter_map(|found| found.access.clone().ok()).collect();
    let expected = match (ways.is_empty(), ways.contains(&rdpmc::Access::UserSpace)) {
        (true, _) => Status::NoCounters,
        (false, true) => Status::UserSpace,
        (false, false) => Status::SystemCall,
    };
    let is_wrong = |pmu: &rdpmc_doctor::Description| {
        pmu.trust.as_ref().is_some_and(rdpmc_doctor::Trust::is_wrong)
    };
    match report.core_pmus.iter().any(is_wrong) {
        true => assert_eq!(report.status(), Status::CountsWrong, "{report}"),
        false => assert_eq!(report.status(), expected, "{report}"),
    }
}
