//! The doctor's report as JSON, field by field.

use rdpmc::Access;
use rdpmc::Error;
use rdpmc::pmu::Pmus;
use rdpmc_doctor::{LockedMemory, describe, diagnose};
use rdpmc_testing::machines::Machine;
use rdpmc_testing::skips;
use serde_json::Value;

/// Returns the names of an object's fields, so that a new one does not stay untested.
fn keys(json: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// Checks how something is read, or why it is not.
fn is_access(json: &Value, access: &Result<Access, Error>) {
    let how = access.as_ref().ok().map(ToString::to_string);
    assert_eq!(json["access"].as_str(), how.as_deref());
    let error = access.as_ref().err().map(ToString::to_string);
    assert_eq!(json["error"].as_str(), error.as_deref());
}

#[test]
fn json_is_what_the_report_is() {
    let mut report = diagnose();
    // PMUs of other kinds as well, because this machine may have none of a core.
    let others = Pmus::local().all().unwrap_or_default().into_iter().filter(|pmu| !pmu.is_core());
    report.core_pmus.extend(others.map(|pmu| describe(&pmu).unwrap()));
    // The report says nothing of another machine's PMU, though this one may have a PMU of that type.
    for machine in ["intel-hybrid", "arm64-server"]
        .map(|name| Machine::new(env!("CARGO_TARGET_TMPDIR"), name, "json"))
    {
        assert!(machine.pmus().all().unwrap().iter().all(|pmu| describe(pmu).is_none()));
    }
    if report.core_pmus.is_empty() {
        skips::say("json_is_what_the_report_is: this machine shows no PMU to describe");
    }
    let json: Value = serde_json::from_str(&report.to_json()).unwrap();
    let of_the_report = [
        "advice",
        "architecture",
        "capability",
        "clock",
        "clock_error",
        "core_pmus",
        "costs",
        "counts_kernel",
        "cpu",
        "descriptors_limit",
        "descriptors_open",
        "errata",
        "events",
        "freezes_on_smi",
        "governor",
        "hypervisor",
        "is_virtual",
        "kernel",
        "locked_kilobytes",
        "locked_without_limit",
        "mlock_kilobytes",
        "nmi_watchdog",
        "other_pmus",
        "paranoid_level",
        "scopes",
        "seccomp_mode",
        "siblings",
        "smt",
        "status",
        "step_error",
        "step_ns",
        "summary",
        "topdown",
        "topdown_error",
        "turbo",
        "unreadable",
        "user_access",
        "user_access_setting",
        "version",
    ];
    assert_eq!(keys(&json), of_the_report);
    assert_eq!(json["version"], report.version);
    assert_eq!(json["architecture"], report.architecture);
    assert_eq!(json["cpu"].as_str(), report.cpu.as_deref());
    assert_eq!(json["kernel"].as_str(), report.kernel.as_deref());
    assert_eq!(json["is_virtual"], report.is_virtual);
    assert_eq!(json["hypervisor"].as_str(), report.hypervisor.as_deref());
    assert_eq!(json["status"], u8::from(report.status()));
    assert_eq!(json["summary"], report.summary());
    let settings = &report.settings;
    assert_eq!(json["governor"].as_str(), settings.governor.as_deref());
    assert_eq!(json["siblings"].as_str(), settings.siblings.as_deref());
    for (name, value) in [
        ("turbo", settings.turbo),
        ("smt", settings.smt),
        ("counts_kernel", settings.counts_kernel),
        ("freezes_on_smi", settings.freezes_on_smi),
    ] {
        assert_eq!(json[name].as_bool(), value, "{name}");
    }
    let errata: Vec<&str> = report.errata.iter().map(|erratum| erratum.name).collect();
    assert_eq!(json["errata"], serde_json::json!(errata));
    assert_eq!(json["scopes"].as_array().unwrap().len(), 2);
    for (json, scope) in json["scopes"].as_array().unwrap().iter().zip(&report.scopes) {
        assert_eq!(
            keys(json),
            ["counts_child_processes", "error", "event", "scope", "system_call_ns", "threads"]
        );
        assert_eq!(json["event"], scope.event.to_string());
        match &scope.found {
            Ok(read) => {
                assert_eq!(json["threads"], read.threads);
                assert_eq!(json["counts_child_processes"], read.counts_child_processes);
                let time = read.time.map(|time| u64::try_from(time.as_nanos()).unwrap());
                assert_eq!(json["system_call_ns"], serde_json::json!(time));
                // The threads of other tests are there, too.
                assert!(read.threads >= 1 && read.time.is_some(), "{scope:?}");
            }
            Err(why) => assert_eq!(json["error"], why.to_string()),
        }
    }
    assert_eq!(json["costs"].as_array().unwrap().len(), report.costs.len());
    for (json, cost) in json["costs"].as_array().unwrap().iter().zip(&report.costs) {
        assert_eq!(
            keys(json),
            ["access", "events", "is_trapped", "system_call_ns", "tick_ns", "user_ns"]
        );
        let events: Vec<String> = cost.events.iter().map(ToString::to_string).collect();
        assert_eq!(json["events"], serde_json::json!(events));
        assert_eq!(json["access"], cost.access.to_string());
        assert_eq!(json["is_trapped"], cost.cost.is_trapped);
        for (name, timing) in [
            ("user_ns", cost.cost.user),
            ("system_call_ns", cost.cost.system_call),
            ("tick_ns", cost.cost.tick),
        ] {
            let median = timing.map(|median| median.as_nanos() as u64);
            assert_eq!(json[name].as_u64(), median, "{name}");
        }
    }
    assert_eq!(json["paranoid_level"].as_i64(), report.paranoid_level.map(i64::from));
    assert_eq!(json["capability"].as_str(), report.capability);
    assert_eq!(
        json["unreadable"].as_str(),
        report.unreadable.as_ref().map(ToString::to_string).as_deref()
    );
    assert_eq!(json["seccomp_mode"].as_u64().is_some(), report.seccomp.is_some());
    assert_eq!(json["user_access"].as_i64(), report.user_access.map(|access| access.value.into()));
    let locked = json["locked_kilobytes"].as_u64().map(LockedMemory::Kilobytes);
    let is_unlimited = json["locked_without_limit"] == true;
    assert_eq!(locked.or(is_unlimited.then_some(LockedMemory::Unlimited)), report.locked_memory);
    assert_eq!(json["mlock_kilobytes"].as_u64(), report.mlock_kilobytes);
    assert_eq!(json["nmi_watchdog"].as_i64(), report.nmi_watchdog.map(i64::from));
    assert_eq!(json["descriptors_open"].as_u64(), report.descriptors.map(|files| files.open));
    let setting = report.user_access.map(|access| access.setting);
    assert_eq!(json["user_access_setting"].as_str(), setting);
    let clock = report.clock.as_ref().map(ToString::to_string);
    assert_eq!(json["clock"].as_str(), clock.as_deref().ok());
    assert_eq!(json["clock_error"].as_str(), clock.err().map(ToString::to_string).as_deref());
    for (json, pmu) in json["core_pmus"].as_array().unwrap().iter().zip(&report.core_pmus) {
        let of_a_pmu = [
            "access",
            "counting",
            "counts_all_privilege_levels",
            "counts_right",
            "cpus",
            "error",
            "fixed",
            "general",
            "known_work",
            "name",
            "type_id",
            "user_space",
            "width",
        ];
        assert_eq!(keys(json), of_a_pmu);
        assert_eq!(json["name"], pmu.name);
        assert_eq!(json["type_id"], pmu.type_id);
        let cpus = pmu.cpus.as_ref().map(ToString::to_string);
        assert_eq!(json["cpus"].as_str(), cpus.as_deref());
        assert_eq!(json["general"].as_u64(), pmu.general.map(|counters| counters as u64));
        assert_eq!(json["fixed"].as_u64(), pmu.fixed.map(|counters| counters as u64));
        assert_eq!(json["counting"].as_u64(), pmu.counting.map(|counters| counters as u64));
        let known_work = pmu.trust.as_ref().map(ToString::to_string);
        assert_eq!(json["known_work"].as_str(), known_work.as_deref());
        let is_right = pmu.trust.as_ref().map(|trust| trust.is_right());
        assert_eq!(json["counts_right"].as_bool(), is_right);
        assert_eq!(json["width"].as_u64(), pmu.width.map(u64::from));
        assert_eq!(json["user_space"], pmu.access == Ok(Access::UserSpace));
        assert_eq!(json["counts_all_privilege_levels"], pmu.counts_all_privilege_levels);
        is_access(json, &pmu.access);
    }
    assert_eq!(json["descriptors_limit"].as_u64(), report.descriptors.map(|files| files.limit));
    assert_eq!(json["core_pmus"].as_array().unwrap().len(), report.core_pmus.len());
    let names: Vec<&str> =
        json["other_pmus"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(names, report.other_pmus);
    let events = json["events"].as_array().unwrap();
    assert_eq!(events.len(), report.events.len());
    for (json, event) in events.iter().zip(&report.events) {
        assert_eq!(
            keys(json),
            ["access", "counts_all_privilege_levels", "error", "event", "lacking_on", "user_space"]
        );
        assert_eq!(json["event"], event.event.to_string());
        assert_eq!(json["user_space"], event.access == Ok(Access::UserSpace));
        assert_eq!(json["counts_all_privilege_levels"], event.counts_all_privilege_levels);
        is_access(json, &event.access);
    }
    let advice: Vec<&str> =
        json["advice"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(advice, report.advice);
    // A name that a hostile machine could have.
    let mut hostile = report;
    let name = "a \"quoted\" \\ name\n\t\u{1}é\u{2028}";
    hostile.cpu = Some(name.into());
    (hostile.nmi_watchdog, hostile.mlock_kilobytes) = (Some(-7), None);
    let json: Value = serde_json::from_str(&hostile.to_json()).unwrap();
    assert_eq!(json["cpu"], name);
    assert_eq!((json["nmi_watchdog"].as_i64(), &json["mlock_kilobytes"]), (Some(-7), &Value::Null));
}
