//! The report as text.

use crate::report::{LockedMemory, Report, Seccomp, Settings};
use crate::text::{Visible, nanoseconds};
use rdpmc::Access;
use rdpmc::clock::ClockKind;
use rdpmc_events::topdown::TopdownError;
use std::fmt::{self, Write as _};

const UNKNOWN: &str = "unknown";

fn or_unknown(value: Option<impl ToString>) -> String {
    value.map_or_else(|| UNKNOWN.into(), |value| value.to_string())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Visible(f), "{}", self.summary().replace('\n', " "))?;
        writeln!(f, "\n")?;
        for (name, value) in self.lines() {
            // Files may contain anything.
            write!(Visible(f), "{name:21}{value}")?;
            writeln!(f)?;
        }
        writeln!(f, "\nevents (user mode)")?;
        let counts_others = self.counts_hardware();
        for event in &self.events {
            let how = match &event.access {
                Ok(Access::UserSpace) => "read from user space",
                Ok(_) => "read by system call",
                Err(_) if event.is_lacking(counts_others) => {
                    "not available: this PMU does not have it"
                }
                Err(_) => "not available",
            };
            let levels =
                if event.counts_all_privilege_levels { ", all privilege levels" } else { "" };
            write!(f, "  {:24}{how}{levels}", event.event.to_string())?;
            if !event.lacking_on.is_empty() {
                write!(Visible(f), ", not on {}", event.lacking_on.join(", "))?;
            }
            writeln!(f)?;
        }
        match self.advice.as_slice() {
            [] => write!(f, "\nnothing to do"),
            lines => {
                write!(f, "\nwhat to do")?;
                for line in lines {
                    write!(f, "\n- ")?;
                    write!(Visible(f), "{line}")?;
                }
                Ok(())
            }
        }
    }
}

fn allowed(is_allowed: bool) -> &'static str {
    if is_allowed { "may be counted" } else { "may not be counted" }
}

impl Settings {
    fn frequency(&self) -> String {
        let governor = self.governor.as_ref().map(|governor| format!("governor {governor}"));
        let turbo = self.turbo.map(|on| format!("turbo {}", if on { "on" } else { "off" }));
        let known: Vec<String> = governor.into_iter().chain(turbo).collect();
        if known.is_empty() { UNKNOWN.into() } else { known.join(", ") }
    }

    fn sharing(&self, is_virtual: bool) -> String {
        match (self.smt, &self.siblings) {
            (Some(false) | None, _) if is_virtual => "not visible to this guest".into(),
            (Some(true), Some(siblings)) => format!("on, and CPUs {siblings} share a core"),
            (Some(true), None) => "on".into(),
            (Some(false), _) => "off".into(),
            (None, _) => UNKNOWN.into(),
        }
    }
}

impl Report {
    /// The lines above the events: name and value.
    fn lines(&self) -> Vec<(&'static str, String)> {
        let kind = match (&self.hypervisor, self.is_virtual) {
            (Some(name), true) => format!(", in a virtual machine ({name})"),
            (None, true) => ", in a virtual machine".into(),
            (_, false) => ", no known virtual machine".into(),
        };
        let mut lines = vec![
            ("rdpmc-doctor", format!("{} for {}", self.version, self.architecture)),
            ("CPU", or_unknown(self.cpu.as_ref())),
            ("kernel", or_unknown(self.kernel.as_ref()) + &kind),
        ];
        match (self.core_pmus.as_slice(), &self.unreadable) {
            ([], Some(unreadable)) => lines.push(("PMU", unreadable.to_string())),
            ([], None) => lines.push(("PMU", "no core PMU".into())),
            (pmus, _) => lines.extend(pmus.iter().map(|pmu| ("PMU", pmu.to_string()))),
        }
        let tests = self.core_pmus.iter().filter_map(|pmu| pmu.trust.as_ref());
        lines.extend(tests.map(|trust| ("known work", trust.to_string())));
        lines.extend(self.costs.iter().map(|cost| ("cost of a read", cost.line())));
        let tick = self.costs.first().and_then(|cost| cost.cost.tick);
        lines.extend(tick.map(|tick| ("cost of a tick", nanoseconds(tick))));
        lines.extend(self.scopes.iter().map(|scope| ("several threads", scope.line())));
        lines.extend(self.errata.iter().map(|erratum| ("erratum", erratum.name.to_owned())));
        let exempt = match self.capability {
            Some(capability) => format!(" (bypassed: {capability})"),
            None => String::new(),
        };
        let seccomp = match self.seccomp {
            Some(Seccomp::Off) => "off".into(),
            Some(Seccomp::Strict) => "strict".into(),
            Some(Seccomp::Filter) => "a filter".into(),
            Some(Seccomp::Other(mode)) => mode.to_string(),
            None => UNKNOWN.into(),
        };
        let user_access = self.user_access.map(|access| {
            let meaning = match access.value {
                0 => " (disabled)",
                1 => " (allowed for processes with an open event)",
                2 => " (allowed for every process)",
                _ => "",
            };
            format!("{} is {}{meaning}", access.setting, access.value)
        });
        let locked = match self.locked_memory {
            Some(LockedMemory::Unlimited) => "unlimited".into(),
            Some(LockedMemory::Kilobytes(kilobytes)) => format!("{kilobytes} KiB"),
            None => UNKNOWN.into(),
        };
        let mlock =
            or_unknown(self.mlock_kilobytes.map(|kilobytes| format!("{kilobytes} KiB per CPU")));
        let open =
            self.descriptors.map(|files| format!("{} of {} in use", files.open, files.limit));
        let watchdog = match self.nmi_watchdog {
            Some(0) => "off".into(),
            Some(_) => "on, and may hold a counter".into(),
            None => UNKNOWN.into(),
        };
        let clock = match &self.clock {
            // Otherwise the events' line has the reason.
            Ok(ClockKind::Calibrated(_))
                if self.events.iter().all(|event| event.access.is_err()) =>
            {
                "the tick counter, calibrated against CLOCK_MONOTONIC_RAW: no event can be opened"
                    .into()
            }
            Ok(kind) => kind.to_string(),
            Err(error) => error.to_string(),
        };
        lines.extend([
            ("other PMUs", self.other_pmus.join(", ")),
            ("perf_event_paranoid", or_unknown(self.paranoid_level) + &exempt),
            ("seccomp", seccomp),
            ("user access", or_unknown(user_access)),
            ("mlock limits", format!("perf_event_mlock_kb {mlock}, RLIMIT_MEMLOCK {locked}")),
            ("file descriptors", or_unknown(open)),
            ("nmi_watchdog", watchdog),
            ("frequency", self.settings.frequency()),
            ("SMT", self.settings.sharing(self.is_virtual)),
            ("kernel mode", or_unknown(self.settings.counts_kernel.map(allowed))),
            (
                "single steps",
                match &self.step {
                    Ok(time) => format!("instructions can be stepped, {} each", nanoseconds(*time)),
                    Err(why) => why.to_string(),
                },
            ),
            ("clock", clock),
            (
                "top-down",
                match &self.topdown {
                    Ok(topdown) => topdown.to_string(),
                    // The CPUs that have it are no remedy here.
                    Err(why @ TopdownError::NoEvents { .. }) => why.cause(),
                    Err(why) => why.to_string(),
                },
            ),
        ]);
        lines
    }
}
