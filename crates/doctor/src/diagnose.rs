//! Finds out what this machine lets this process count.

use crate::report::{
    Availability, Descriptors, EventCost, LockedMemory, Report, Seccomp, Settings, UserAccess,
};
use crate::topdown::Topdown;
use crate::{errata, facts, pmu, scopes};
use rdpmc::pmu::{Pmu, Pmus};
use rdpmc::{Clock, DynGroup, Event, machine};
use std::time::Duration;

/// The kernel's generic hardware events, and some software events.
const EVENTS: [Event; 13] = [
    Event::CYCLES,
    Event::INSTRUCTIONS,
    Event::CACHE_REFERENCES,
    Event::CACHE_MISSES,
    Event::BRANCHES,
    Event::BRANCH_MISSES,
    Event::BUS_CYCLES,
    Event::STALLED_CYCLES_FRONTEND,
    Event::STALLED_CYCLES_BACKEND,
    Event::REF_CYCLES,
    Event::TASK_CLOCK,
    Event::PAGE_FAULTS,
    Event::CONTEXT_SWITCHES,
];

/// Reports what this machine lets this process count and read, and how to fix what does not work.
///
/// Opens and closes some dozens of counters, measures reads, tests the counters with known work, takes 2,000 single steps, and reads
/// `/proc` and `/sys`. Takes some 10 to 100 milliseconds, and leaves no counter open. Counters that are already
/// open may lose a turn on the PMU (see [`describe`](crate::describe)).
///
/// Call [`contain_faults`](rdpmc::contain_faults) first. Only then does `diagnose` try to read each counter. This
/// detects reads that fault although the setting allows them, and measures what a read costs.
///
/// The single steps replace the handler of SIGTRAP while they last (x86-64), or a child process traces this thread (arm64). Under a
/// debugger they are refused.
///
/// Must not be called in a signal handler.
pub fn diagnose() -> Report {
    let (pmus, unreadable) = match Pmus::local().all() {
        Ok(pmus) => (pmus, None),
        Err(unreadable) => (Vec::new(), Some(unreadable)),
    };
    let (core, others): (Vec<Pmu>, Vec<Pmu>) = pmus.into_iter().partition(Pmu::is_core);
    let user_access = machine::user_access();
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION"),
        architecture: std::env::consts::ARCH,
        cpu: facts::processor(),
        kernel: facts::kernel(),
        is_virtual: machine::is_virtual(),
        hypervisor: hypervisor(),
        costs: costs(),
        scopes: scopes::of_this_process(),
        core_pmus: core.iter().map(|pmu| pmu::describe_beside(pmu, &core)).collect(),
        other_pmus: others.iter().map(|pmu| pmu.name().to_owned()).collect(),
        unreadable,
        paranoid_level: machine::paranoid_level(),
        capability: machine::capability(),
        settings: Settings::of_this_machine(),
        errata: errata::of_this_machine(),
        seccomp: facts::seccomp_mode().map(Seccomp::of_mode),
        user_access: user_access.map(|(setting, value)| UserAccess { setting, value }),
        mlock_kilobytes: machine::mlock_kilobytes(),
        locked_memory: facts::locked_kilobytes().map(LockedMemory::of_kilobytes),
        descriptors: facts::descriptors().map(|(open, limit)| Descriptors { open, limit }),
        nmi_watchdog: facts::nmi_watchdog(),
        events: EVENTS.map(|event| Availability::for_event(event, &core)).into(),
        step: rdpmc_step::seconds_per_step().map(Duration::from_secs_f64),
        clock: Clock::open().map(|clock| clock.kind()),
        topdown: Topdown::of_this_cpu(),
        advice: Vec::new(),
    };
    report.advice = report.remedies();
    report
}

/// Returns the hypervisor's name, by what it tells the CPU or the firmware.
fn hypervisor() -> Option<String> {
    let name = machine::hypervisor()?;
    let known = match name.as_str() {
        "KVMKVMKVM" => "KVM",
        "Microsoft Hv" => "Hyper-V",
        "VMwareVMware" => "VMware",
        "XenVMMXenVMM" => "Xen",
        "TCGTCGTCGTCG" => "QEMU (TCG)",
        "bhyve bhyve" => "bhyve",
        "lrpepyh vr" | "prl hyperv" => "Parallels",
        "VBoxVBoxVBox" => "VirtualBox",
        "ACRNACRNACRN" => "ACRN",
        _ => return Some(name),
    };
    Some(known.to_owned())
}

/// Measures reads of one counter and of a group of two. Empty if faults are not contained, or nothing can be counted.
fn costs() -> Vec<EventCost> {
    if !rdpmc::faults_are_contained() {
        return Vec::new(); // measuring reads the counters
    }
    let cost = |events: &[Event]| {
        let group = DynGroup::builder(events).allow_all_privilege_levels(true).open().ok()?;
        Some(EventCost { events: events.to_vec(), access: group.access(), cost: group.read_cost() })
    };
    let one = [Event::INSTRUCTIONS, Event::CYCLES].iter().find_map(|event| cost(&[*event]));
    one.into_iter().chain(cost(&[Event::CYCLES, Event::INSTRUCTIONS])).collect()
}
