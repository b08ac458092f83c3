//! The report as JSON.

use crate::pmu::Description;
use crate::report::{Availability, EventCost, LockedMemory, Report, Seccomp};
use crate::scopes::ScopeReport;
use crate::trust::Trust;
use rdpmc::Access;
use rdpmc::Error;
use serde_json::{Value, json};
use std::time::Duration;

impl Report {
    /// Returns the report as a JSON object with the fields of this structure. Unknown values are `null`, nested
    /// structures are several fields, and errors and clock kinds are their messages.
    pub fn to_json(&self) -> String {
        let locked = match self.locked_memory {
            Some(LockedMemory::Kilobytes(kilobytes)) => Some(kilobytes),
            _ => None,
        };
        let seccomp = self.seccomp.map(|seccomp| match seccomp {
            Seccomp::Off => 0,
            Seccomp::Strict => 1,
            Seccomp::Filter => 2,
            Seccomp::Other(mode) => mode,
        });
        let topdown_error = match &self.topdown {
            Ok(topdown) => topdown.counted.as_ref().err().map(ToString::to_string),
            Err(why) => Some(why.to_string()),
        };
        let errata: Vec<&str> = self.errata.iter().map(|erratum| erratum.name).collect();
        let all = |values: &mut dyn Iterator<Item = Value>| Value::Array(values.collect());
        let json = json!({
            "version": self.version,
            "architecture": self.architecture,
            "cpu": self.cpu,
            "kernel": self.kernel,
            "is_virtual": self.is_virtual,
            "hypervisor": self.hypervisor,
            "status": u8::from(self.status()),
            "summary": self.summary(),
            "costs": all(&mut self.costs.iter().map(cost)),
            "scopes": all(&mut self.scopes.iter().map(scope)),
            "errata": errata,
            "governor": self.settings.governor,
            "turbo": self.settings.turbo,
            "smt": self.settings.smt,
            "siblings": self.settings.siblings,
            "counts_kernel": self.settings.counts_kernel,
            "freezes_on_smi": self.settings.freezes_on_smi,
            "core_pmus": all(&mut self.core_pmus.iter().map(pmu)),
            "other_pmus": self.other_pmus,
            "unreadable": self.unreadable.as_ref().map(ToString::to_string),
            "paranoid_level": self.paranoid_level,
            "capability": self.capability,
            "seccomp_mode": seccomp,
            "user_access_setting": self.user_access.map(|access| access.setting),
            "user_access": self.user_access.map(|access| access.value),
            "mlock_kilobytes": self.mlock_kilobytes,
            "locked_kilobytes": locked,
            "locked_without_limit": self.locked_memory == Some(LockedMemory::Unlimited),
            "descriptors_open": self.descriptors.map(|files| files.open),
            "descriptors_limit": self.descriptors.map(|files| files.limit),
            "nmi_watchdog": self.nmi_watchdog,
            "events": all(&mut self.events.iter().map(event)),
            "step_ns": nanoseconds(self.step.as_ref().ok().copied()),
            "step_error": self.step.as_ref().err().map(ToString::to_string),
            "clock": self.clock.as_ref().ok().map(ToString::to_string),
            "clock_error": self.clock.as_ref().err().map(ToString::to_string),
            "topdown": self.topdown.as_ref().ok().map(ToString::to_string),
            "topdown_error": topdown_error,
            "advice": self.advice,
        });
        json.to_string()
    }
}

/// How something is read, and why it is not.
fn access(access: &Result<Access, Error>) -> (Option<String>, Option<String>) {
    (access.as_ref().ok().map(ToString::to_string), access.as_ref().err().map(ToString::to_string))
}

fn pmu(pmu: &Description) -> Value {
    let (how, error) = access(&pmu.access);
    json!({
        "name": pmu.name,
        "type_id": pmu.type_id,
        "cpus": pmu.cpus.as_ref().map(ToString::to_string),
        "general": pmu.general,
        "fixed": pmu.fixed,
        "counting": pmu.counting,
        "known_work": pmu.trust.as_ref().map(ToString::to_string),
        "counts_right": pmu.trust.as_ref().map(Trust::is_right),
        "width": pmu.width,
        "user_space": pmu.access == Ok(Access::UserSpace),
        "counts_all_privilege_levels": pmu.counts_all_privilege_levels,
        "access": how,
        "error": error,
    })
}

fn nanoseconds(time: Option<Duration>) -> Option<u64> {
    time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

fn cost(cost: &EventCost) -> Value {
    json!({
        "events": cost.events.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "access": cost.access.to_string(),
        "user_ns": nanoseconds(cost.cost.user),
        "system_call_ns": nanoseconds(cost.cost.system_call),
        "tick_ns": nanoseconds(cost.cost.tick),
        "is_trapped": cost.cost.is_trapped,
    })
}

fn scope(scope: &ScopeReport) -> Value {
    let read = scope.found.as_ref().ok();
    json!({
        "scope": scope.name(),
        "event": scope.event.to_string(),
        "threads": read.map(|read| read.threads),
        "system_call_ns": nanoseconds(read.and_then(|read| read.time)),
        "counts_child_processes": read.map(|read| read.counts_child_processes),
        "error": scope.found.as_ref().err().map(ToString::to_string),
    })
}

fn event(event: &Availability) -> Value {
    let (how, error) = access(&event.access);
    json!({
        "event": event.event.to_string(),
        "user_space": event.access == Ok(Access::UserSpace),
        "counts_all_privilege_levels": event.counts_all_privilege_levels,
        "lacking_on": event.lacking_on,
        "access": how,
        "error": error,
    })
}
