//! The remedies for what a report found.

use crate::pmu::Description;
use crate::report::{Availability, Report, is_hardware};
use crate::summary::INSTRUCTION;
use crate::text::nanoseconds;
use rdpmc::Error;
use rdpmc::error::{Errno, ErrorKind};
use rdpmc::{Access, Event};

const ENOENT: i32 = 2;
const EOPNOTSUPP: i32 = 95;

/// Fewer free descriptors than this are worth a line.
const FEW_DESCRIPTORS: u64 = 64;

impl Availability {
    /// Whether the PMU lacks the event, so that there is no remedy. `counts_others` shows that there is a PMU.
    pub(crate) fn is_lacking(&self, counts_others: bool) -> bool {
        // Other refusals are of settings.
        let lacks = |why: &Error| {
            let errno = why.errno().map(Errno::raw);
            why.kind() == ErrorKind::EventNotSupported
                && (errno == Some(ENOENT) || errno == Some(EOPNOTSUPP))
        };
        counts_others && self.access.as_ref().is_err_and(lacks)
    }

    /// Returns the problem and its remedy, in the same words for all events that have it. None if there is nothing to
    /// do.
    fn remedy(&self, counts_others: bool) -> Option<String> {
        match &self.access {
            _ if self.is_lacking(counts_others) => None,
            Ok(Access::UserSpace) => None,
            // The report says it once for all events.
            Ok(Access::SystemCall(why)) if why.kind() == ErrorKind::Slower => None,
            Ok(_) if !self.is_hardware() => None,
            Ok(access) => Some(access.to_string()),
            Err(error) => Some(format!("{}. {}", error.shared_cause(), error.remedy())),
        }
    }
}

impl Description {
    /// Returns what to do about counters that do not count right.
    fn remedy_of_counters(&self) -> Option<String> {
        let trust = self.trust.as_ref().filter(|trust| trust.is_wrong())?;
        let (counting, tested) = trust.counting();
        Some(if counting < tested {
            format!(
                "{} of {tested} counters of {} count nothing, because of an erratum or because the host of a virtual \
                 machine holds them. Open at most {counting} events at a time",
                tested - counting,
                self.name
            )
        } else {
            format!(
                "the counters of {} count known work wrong. Do not use their counts, and see the errata of this CPU \
                 and its hypervisor",
                self.name
            )
        })
    }
}

impl Report {
    /// Returns a line for each problem.
    pub(crate) fn remedies(&self) -> Vec<String> {
        let mut lines = self.remedies_of_events();
        lines.extend(self.remedy_of_traps());
        lines.extend(self.without_counters());
        lines.extend(self.core_pmus.iter().filter_map(Description::remedy_of_counters));
        lines.extend(self.errata.iter().map(|erratum| {
            let remedy = erratum.remedy.unwrap_or("No remedy is known");
            format!("{} ({}): {}. {remedy}", erratum.name, erratum.processors, erratum.effect)
        }));
        let mut add = |holds: bool, line: &str| {
            if holds {
                lines.push(line.to_owned());
            }
        };
        add(
            self.counts_hardware()
                && self.capability.is_none()
                && self.paranoid_level.is_some_and(|level| level >= 2),
            "this process may count user mode only, because kernel.perf_event_paranoid is 2 or more. To count the \
             kernel too, run `sysctl kernel.perf_event_paranoid=1` as root, or give the program CAP_PERFMON",
        );
        add(
            self.nmi_watchdog.is_some_and(|on| on > 0) && !self.core_pmus.is_empty(),
            "the kernel's watchdog may hold a counter of each CPU. Run `sysctl kernel.nmi_watchdog=0` as root to free \
             it",
        );
        add(
            self.user_access.is_some_and(|access| access.value == 2),
            "every process may read the counters, even without an open event, and observe others. Set user access to \
             1 unless something needs 2",
        );
        add(
            self.core_pmus.len() > 1,
            "there are several core types. Keep a thread on one (`taskset`) for groups and regions; a single counter \
             returns the sum",
        );
        add(
            self.unreadable.is_none() && self.core_types_are_unknown(),
            "the core types are unknown, and a count may be of one of them only. Make /sys/bus/event_source visible",
        );
        add(
            self.counts_hardware()
                && self.events.iter().any(|event| event.counts_all_privilege_levels),
            "this PMU cannot exclude the kernel. Call allow_all_privilege_levels(true), and take the minimum of \
             several samples",
        );
        add(
            self.descriptors.is_some_and(|descriptors| {
                descriptors.limit.saturating_sub(descriptors.open) < FEW_DESCRIPTORS
            }),
            "few file descriptors are left, and each counter takes one. Raise `ulimit -n`",
        );
        lines.extend(self.unreadable.as_ref().map(ToString::to_string));
        lines
    }

    /// Whether there is no list of PMUs, or one of several core types does not list its CPUs.
    fn core_types_are_unknown(&self) -> bool {
        let is_listed = !self.core_pmus.is_empty() || !self.other_pmus.is_empty();
        let lacks_cpus = |pmu: &Description| pmu.cpus.is_none();
        !is_listed || (self.core_pmus.len() > 1 && self.core_pmus.iter().any(lacks_cpus))
    }

    /// Returns what can be counted without hardware counters, if there are none.
    fn without_counters(&self) -> Vec<String> {
        if self.counts_hardware() {
            return Vec::new();
        }
        let step = self.step.as_ref().ok().map(|time| {
            format!(
                "no hardware counter counts instructions here. `rdpmc-step` counts them exactly by single steps of {}, and \
                 `rdpmc-bench` and `rdpmc-criterion` do so where `instructions` are asked for",
                nanoseconds(*time)
            )
        });
        let is_on_github = std::env::var_os("GITHUB_ACTIONS").is_some();
        let runner = (is_on_github && self.core_pmus.is_empty()).then(|| {
            "GitHub's x86-64 runners have no PMU. Run on its hosted arm64 runners, which have one according to a public report of August 2026"
                .to_owned()
        });
        step.into_iter().chain(runner).collect()
    }

    /// Returns what to do about reads that a hypervisor traps.
    fn remedy_of_traps(&self) -> Option<String> {
        let shortest = nanoseconds(self.shortest_work()?);
        let hypervisor = self.hypervisor.as_deref().unwrap_or("the hypervisor");
        let host = match hypervisor {
            "KVM" => {
                "A host with Linux 7.0 or newer can give its guests the PMU itself: load kvm_intel (Sapphire Rapids or \
                 newer) or kvm_amd (Zen 4 or newer) with enable_mediated_pmu=1"
            }
            _ => "Ask for a virtual machine whose host passes its PMU through",
        };
        Some(format!(
            "{hypervisor} traps {INSTRUCTION}, so each read is slow and the counts include the traps. Use counters for \
             work of at least {shortest}, and measure shorter work by time. {host}"
        ))
    }

    /// Returns a line for each cause, with the events that have it.
    fn remedies_of_events(&self) -> Vec<String> {
        let mut causes: Vec<(String, Vec<Event>)> = Vec::new();
        for event in &self.events {
            let Some(cause) = event.remedy(self.counts_hardware()) else { continue };
            match causes.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, events)) => events.push(event.event),
                None => causes.push((cause, vec![event.event])),
            }
        }
        let hardware = self.hardware().count();
        let line = |(cause, events): (String, Vec<Event>)| match events.len() {
            all if all == self.events.len() => format!("all events: {cause}"),
            all if all == hardware && events.iter().all(is_hardware) => {
                format!("all hardware events: {cause}")
            }
            _ => {
                let events: Vec<String> = events.iter().map(ToString::to_string).collect();
                format!("{}: {cause}", events.join(", "))
            }
        };
        causes.into_iter().map(line).collect()
    }
}
