//! The report on this machine, beside what its files say; as text, and as JSON.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod machines;
mod process;
mod skips;

use machines::Machine;
use process::in_child;
use rdpmc::{Access, Counter, Error, Pmus, diagnose};
use serde_json::Value;
use std::fs;

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
    // SAFETY: limit is valid for the write.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    assert_eq!(report.descriptors.map(|(_, limit)| limit), Some(limit.rlim_cur));
    // Other tests of this process open and close some meanwhile.
    let open = fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    assert!(report.descriptors.is_some_and(|(said, _)| said.abs_diff(open) < 30), "{report}");
    // SAFETY: as above.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    let kilobytes =
        if limit.rlim_cur == libc::RLIM_INFINITY { u64::MAX } else { limit.rlim_cur / 1024 };
    assert_eq!(report.locked_kilobytes, Some(kilobytes));
    let pmus = Pmus::here().all().unwrap();
    assert_eq!(report.core_pmus.len() + report.other_pmus.len(), pmus.len());

    // Ten of the kernel's generic ones, and one of software.
    assert_eq!(report.events.len(), 11);
    for found in &report.events {
        let counter = Counter::builder(found.event).allow_unfiltered(true).open();
        // Whether it has a counter at this moment may change.
        assert_eq!(found.access.is_ok(), counter.is_ok(), "{}", found.event);
        if let (Err(found), Err(error)) = (&found.access, &counter) {
            assert_eq!(found, error);
        }
    }
}

/// On a machine whose only lack is a PMU.
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
    let (software, hardware) = report.events.split_last().unwrap();
    assert!(software.access.is_ok(), "{report}");
    for found in hardware {
        let is_of_this = |error: &Error| {
            matches!(error, Error::NoPmu { event, is_virtual: virtual_, .. }
                if event.event() == found.event && *virtual_ == is_virtual)
        };
        assert!(found.access.as_ref().is_err_and(is_of_this), "{:?}", found.access);
    }
    let advice = |line: &String| line.starts_with("all hardware events: this needs");
    assert!(report.advice.iter().any(advice), "{report}");
}

/// The names of an object's fields, so that a new one is not left untested.
fn keys(json: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// How something is read, or why it is not.
fn is_access(json: &Value, access: &Result<Access, Error>) {
    let how = access.as_ref().ok().map(ToString::to_string);
    assert_eq!(json["access"].as_str(), how.as_deref());
    let error = access.as_ref().err().map(ToString::to_string);
    assert_eq!(json["error"].as_str(), error.as_deref());
}

#[test]
fn json_is_what_the_report_is() {
    let mut report = diagnose();
    // Other machines' as well, as this one may have none. What is found of them here does not matter.
    let elsewhere = ["intel-hybrid", "arm64-server"].map(|name| Machine::new(name, "json"));
    let described = elsewhere.iter().flat_map(|machine| machine.pmus().all().unwrap());
    let described: Vec<_> = described.map(|pmu| pmu.describe()).collect();
    // Nothing of this machine is said of another's PMU, though it may have one of that number.
    assert!(described.iter().all(|pmu| pmu.access == Err(Error::NotThisMachine)));
    assert!(described.iter().all(|pmu| (pmu.general, pmu.fixed, pmu.width) == (None, None, None)));
    report.core_pmus.extend(described);
    assert!(report.core_pmus.len() > 2);
    let json: Value = serde_json::from_str(&report.to_json()).unwrap();
    let of_the_report = [
        "advice",
        "architecture",
        "capability",
        "clock",
        "clock_error",
        "core_pmus",
        "descriptors_limit",
        "descriptors_open",
        "events",
        "is_virtual",
        "kernel",
        "locked_kilobytes",
        "locked_without_limit",
        "mlock_kilobytes",
        "nmi_watchdog",
        "other_pmus",
        "paranoid_level",
        "processor",
        "seccomp_mode",
        "unreadable",
        "user_access",
        "user_access_setting",
        "version",
    ];
    assert_eq!(keys(&json), of_the_report);
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["architecture"], report.architecture);
    assert_eq!(json["processor"].as_str(), report.processor.as_deref());
    assert_eq!(json["kernel"].as_str(), report.kernel.as_deref());
    assert_eq!(json["is_virtual"], report.is_virtual);
    assert_eq!(json["paranoid_level"].as_i64(), report.paranoid_level.map(i64::from));
    assert_eq!(json["capability"].as_str(), report.capability);
    assert_eq!(
        json["unreadable"].as_str(),
        report.unreadable.as_ref().map(ToString::to_string).as_deref()
    );
    assert_eq!(json["seccomp_mode"].as_u64(), report.seccomp_mode.map(u64::from));
    assert_eq!(json["user_access"].as_i64(), report.user_access.map(|(_, value)| value.into()));
    let locked = report.locked_kilobytes.filter(|kilobytes| *kilobytes != u64::MAX);
    assert_eq!(json["locked_kilobytes"].as_u64(), locked);
    assert_eq!(json["locked_without_limit"], report.locked_kilobytes == Some(u64::MAX));
    assert_eq!(json["mlock_kilobytes"].as_u64(), report.mlock_kilobytes);
    assert_eq!(json["nmi_watchdog"].as_i64(), report.nmi_watchdog.map(i64::from));
    assert_eq!(json["descriptors_open"].as_u64(), report.descriptors.map(|(open, _)| open));
    let setting = report.user_access.map(|(setting, _)| setting);
    assert_eq!(json["user_access_setting"].as_str(), setting);
    let clock = report.clock.as_ref().map(ToString::to_string);
    assert_eq!(json["clock"].as_str(), clock.as_deref().ok());
    assert_eq!(json["clock_error"].as_str(), clock.err().map(ToString::to_string).as_deref());
    for (json, pmu) in json["core_pmus"].as_array().unwrap().iter().zip(&report.core_pmus) {
        let of_a_pmu = [
            "access",
            "error",
            "fixed",
            "general",
            "is_unfiltered",
            "name",
            "number",
            "processors",
            "user_space",
            "width",
        ];
        assert_eq!(keys(json), of_a_pmu);
        assert_eq!(json["name"], pmu.name);
        assert_eq!(json["number"], pmu.number);
        let processors = pmu.processors.as_ref().map(ToString::to_string);
        assert_eq!(json["processors"].as_str(), processors.as_deref());
        assert_eq!(json["general"].as_u64(), pmu.general.map(|counters| counters as u64));
        assert_eq!(json["fixed"].as_u64(), pmu.fixed.map(|counters| counters as u64));
        assert_eq!(json["width"].as_u64(), pmu.width.map(u64::from));
        assert_eq!(json["user_space"], pmu.access == Ok(Access::UserSpace));
        assert_eq!(json["is_unfiltered"], pmu.is_unfiltered);
        is_access(json, &pmu.access);
    }
    assert_eq!(json["descriptors_limit"].as_u64(), report.descriptors.map(|(_, limit)| limit));
    assert_eq!(json["core_pmus"].as_array().unwrap().len(), report.core_pmus.len());
    let names: Vec<&str> =
        json["other_pmus"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(names, report.other_pmus);
    let events = json["events"].as_array().unwrap();
    assert_eq!(events.len(), report.events.len());
    for (json, event) in events.iter().zip(&report.events) {
        assert_eq!(keys(json), ["access", "error", "event", "is_unfiltered", "user_space"]);
        assert_eq!(json["event"], event.event.to_string());
        assert_eq!(json["user_space"], event.access == Ok(Access::UserSpace));
        assert_eq!(json["is_unfiltered"], event.is_unfiltered);
        is_access(json, &event.access);
    }
    let advice: Vec<&str> =
        json["advice"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(advice, report.advice);
    // What a hostile machine could call itself.
    let mut hostile = report;
    let name = "a \"quoted\" \\ name\n\t\u{1}é\u{2028}";
    hostile.processor = Some(name.into());
    (hostile.nmi_watchdog, hostile.mlock_kilobytes) = (Some(-7), None);
    let json: Value = serde_json::from_str(&hostile.to_json()).unwrap();
    assert_eq!(json["processor"], name);
    assert_eq!((json["nmi_watchdog"].as_i64(), &json["mlock_kilobytes"]), (Some(-7), &Value::Null));
}

/// The report's text, in a child in which something is off.
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

/// As in a container that shows no PMUs: nothing is said of what a PMU lacks, and what is off stays among what
/// there is to do.
#[test]
fn where_no_pmus_are_shown() {
    let hidden = in_child(|| {
        let folder = c"/sys/bus/event_source".as_ptr();
        let (private, none) = (libc::MS_REC | libc::MS_PRIVATE, std::ptr::null());
        // SAFETY: changes what this process alone sees; the strings live through the calls.
        let is_hidden = unsafe {
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(c"none".as_ptr(), c"/".as_ptr(), none, private, none.cast()) == 0
                && libc::mount(c"none".as_ptr(), folder, c"tmpfs".as_ptr(), 0, none.cast()) == 0
        };
        if !is_hidden {
            return Err(format!("not hidden: {}", std::io::Error::last_os_error()));
        }
        let report = diagnose();
        let said = report.to_string();
        let lacks = said.contains("this PMU does not have it");
        let has_pmu = report
            .events
            .iter()
            .any(|event| event.access.is_ok() && event.event != rdpmc::Event::TASK_CLOCK);
        let is_told = report.advice.iter().any(|line| line.contains("is not supported here"));
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

#[test]
fn under_a_seccomp_filter() {
    let said = advice(|| process::refuse(libc::SYS_perf_event_open, libc::EPERM));
    assert!(said.contains("seccomp         a filter"), "{said}");
    assert!(said.contains("all events: perf_event_open is refused (EPERM)"), "{said}");
    assert!(said.contains("--security-opt seccomp="), "{said}");
}

#[test]
fn with_few_descriptors() {
    let said = advice(|| process::limit(libc::RLIMIT_NOFILE as _, 40));
    assert!(said.contains(" of 40 in use"), "{said}");
    assert!(said.contains("few descriptors are left"), "{said}");
}

#[test]
fn as_a_user_without_rights() {
    let said = advice(|| assert!(process::drop_rights()));
    assert!(said.contains("this process is not exempt"), "{said}");
    // Not every kernel takes levels above 2 for more than 2.
    let denied = said.contains("and this process does not have CAP_PERFMON");
    assert_eq!(denied, said.contains("task-clock              not available"), "{said}");
}
