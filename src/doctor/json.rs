//! The report as JSON.

use super::{Availability, Description, EventCost, LockedMemory, Report, Seccomp};
use crate::error::OpenError;
use crate::error::access::Access;
use crate::trust::Trust;
use std::fmt;

impl Report {
    /// Returns the report as a JSON object with the fields of this structure. Unknown values are `null`, nested
    /// structures are several fields, and errors and clock kinds are their messages.
    pub fn to_json(&self) -> String {
        let text = |text: &Option<String>| text.as_ref().map_or(NULL.into(), |text| string(text));
        let access = |access: &Result<Access, OpenError>| match access {
            Ok(access) => [string(&access.to_string()), NULL.into()],
            Err(error) => [NULL.into(), string(&error.to_string())],
        };
        let pmu = |pmu: &Description| {
            let [how, error] = access(&pmu.access);
            object(&[
                ("name", string(&pmu.name)),
                ("type_id", pmu.type_id.to_string()),
                ("cpus", text(&pmu.cpus.as_ref().map(ToString::to_string))),
                ("general", number(pmu.general)),
                ("fixed", number(pmu.fixed)),
                ("counting", number(pmu.counting)),
                ("known_work", text(&pmu.trust.as_ref().map(ToString::to_string))),
                ("counts_right", number(pmu.trust.as_ref().map(Trust::is_right))),
                ("width", number(pmu.width)),
                ("user_space", (pmu.access == Ok(Access::UserSpace)).to_string()),
                ("counts_all_privilege_levels", pmu.counts_all_privilege_levels.to_string()),
                ("access", how),
                ("error", error),
            ])
        };
        let cost = |cost: &EventCost| {
            let [user, system_call, tick] = [cost.cost.user, cost.cost.system_call, cost.cost.tick]
                .map(|timing| number(timing.map(|timing| timing.median.as_nanos())));
            object(&[
                ("events", array(cost.events.iter().map(|event| string(&event.to_string())))),
                ("access", string(&cost.access.to_string())),
                ("user_ns", user),
                ("system_call_ns", system_call),
                ("tick_ns", tick),
                ("is_trapped", cost.cost.is_trapped.to_string()),
            ])
        };
        let event = |event: &Availability| {
            let [how, error] = access(&event.access);
            object(&[
                ("event", string(&event.event.to_string())),
                ("user_space", (event.access == Ok(Access::UserSpace)).to_string()),
                ("counts_all_privilege_levels", event.counts_all_privilege_levels.to_string()),
                ("access", how),
                ("error", error),
            ])
        };
        let (clock, clock_error) = match &self.clock {
            Ok(kind) => (string(&kind.to_string()), NULL.into()),
            Err(error) => (NULL.into(), string(&error.to_string())),
        };
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
        object(&[
            ("version", string(self.version)),
            ("architecture", string(self.architecture)),
            ("cpu", text(&self.cpu)),
            ("kernel", text(&self.kernel)),
            ("is_virtual", self.is_virtual.to_string()),
            ("hypervisor", text(&self.hypervisor)),
            ("summary", string(&self.summary())),
            ("costs", array(self.costs.iter().map(cost))),
            ("errata", array(self.errata.iter().map(|erratum| string(erratum.name)))),
            ("governor", text(&self.settings.governor)),
            ("turbo", number(self.settings.turbo)),
            ("smt", number(self.settings.smt)),
            ("siblings", text(&self.settings.siblings)),
            ("counts_kernel", number(self.settings.counts_kernel)),
            ("freezes_on_smi", number(self.settings.freezes_on_smi)),
            ("core_pmus", array(self.core_pmus.iter().map(pmu))),
            ("other_pmus", array(self.other_pmus.iter().map(|name| string(name)))),
            ("unreadable", text(&self.unreadable.as_ref().map(ToString::to_string))),
            ("paranoid_level", number(self.paranoid_level)),
            ("capability", self.capability.map_or(NULL.into(), string)),
            ("seccomp_mode", number(seccomp)),
            (
                "user_access_setting",
                self.user_access.map_or(NULL.into(), |access| string(access.setting)),
            ),
            ("user_access", number(self.user_access.map(|access| access.value))),
            ("mlock_kilobytes", number(self.mlock_kilobytes)),
            ("locked_kilobytes", number(locked)),
            (
                "locked_without_limit",
                (self.locked_memory == Some(LockedMemory::Unlimited)).to_string(),
            ),
            ("descriptors_open", number(self.descriptors.map(|files| files.open))),
            ("descriptors_limit", number(self.descriptors.map(|files| files.limit))),
            ("nmi_watchdog", number(self.nmi_watchdog)),
            ("events", array(self.events.iter().map(event))),
            ("clock", clock),
            ("clock_error", clock_error),
            ("advice", array(self.advice.iter().map(|line| string(line)))),
        ])
    }
}

const NULL: &str = "null";

fn number(number: Option<impl fmt::Display>) -> String {
    number.map_or(NULL.into(), |number| number.to_string())
}

fn string(text: &str) -> String {
    let mut result = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => result.extend(['\\', character]),
            '\u{0}'..='\u{1f}' => result.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => result.push(character),
        }
    }
    result.push('"');
    result
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn object(fields: &[(&str, String)]) -> String {
    let field = |(name, value): &(&str, String)| format!("{}:{value}", string(name));
    format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
}
