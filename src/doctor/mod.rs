//! What this machine lets this process count and read, and what to do about what it does not: for a
//! person to look at, or to paste into a bug report.

mod describe;

pub use describe::Description;

use crate::clock::{Clock, ClockKind};
use crate::counter::Counter;
use crate::error::OpenError;
use crate::error::access::Access;
use crate::event::{Event, generic};
use crate::kernel::{self, Errno, Unreadable, Visible, machine};
use crate::pmu::{Pmu, Pmus, core_types};
use std::fmt::{self, Write as _};

/// Looks at this machine and at what this process may do on it. Opens and closes some
/// dozens of counters by some hundred system calls, and reads `/proc` and `/sys`; takes milliseconds. No
/// counter is left open; those that are open may lose their turn on the PMU for it (see
/// [`Pmu::describe`](crate::Pmu::describe)).
///
/// That a setting says yes and the processor no, it finds out only after
/// [`contain_faults`](crate::contain_faults): only then is a counter read to try it.
///
/// ```
/// let report = rdpmc::diagnose();
/// println!("{report}"); // or report.to_json()
/// for line in &report.advice {
///     println!("to do: {line}");
/// }
/// ```
pub fn diagnose() -> Report {
    let (pmus, unreadable) = match Pmus::local().all() {
        Ok(pmus) => (pmus, None),
        Err(unreadable) => (Vec::new(), Some(unreadable)),
    };
    let is_core = |pmu: &&Pmu| pmu.is_core();
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION"),
        architecture: std::env::consts::ARCH,
        processor: machine::processor(),
        kernel: machine::kernel(),
        is_virtual: machine::is_virtual(),
        core_pmus: pmus.iter().filter(is_core).map(Pmu::describe).collect(),
        other_pmus: pmus
            .iter()
            .filter(|pmu| !pmu.is_core())
            .map(|pmu| pmu.name().to_owned())
            .collect(),
        unreadable,
        paranoid_level: machine::paranoid_level(),
        capability: machine::capability(),
        seccomp_mode: machine::seccomp_mode(),
        user_access: machine::user_access(),
        mlock_kilobytes: machine::mlock_kilobytes(),
        locked_kilobytes: machine::locked_kilobytes(),
        descriptors: machine::descriptors(),
        nmi_watchdog: machine::nmi_watchdog(),
        events: generic::hardware_events()
            .chain([Event::TASK_CLOCK])
            .map(Availability::of)
            .collect(),
        clock: Clock::open().map(|clock| clock.kind()),
        advice: Vec::new(),
    };
    report.advice = report.to_do();
    report
}

/// What [`diagnose`] found. What could not be seen is None. `Display` prints all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The version of this library.
    pub version: &'static str,
    /// The architecture that this program was built for.
    pub architecture: &'static str,
    /// The processor's name (`/proc/cpuinfo`).
    pub processor: Option<String>,
    /// The kernel and its release (`/proc/sys/kernel/osrelease`).
    pub kernel: Option<String>,
    /// Whether this is known to be a virtual machine.
    pub is_virtual: bool,
    /// The PMUs of the processor's cores: none, one, or one for each core type.
    pub core_pmus: Vec<Description>,
    /// The names of the others.
    pub other_pmus: Vec<String>,
    /// Why none are listed in these two, if what the kernel says of its PMUs could not be read.
    pub unreadable: Option<Unreadable>,
    /// `kernel.perf_event_paranoid`.
    pub paranoid_level: Option<i32>,
    /// The capability by which this process is exempt from that, if it has one.
    pub capability: Option<&'static str>,
    /// The mode of seccomp: 0 none, 1 strict, 2 a filter.
    pub seccomp_mode: Option<u32>,
    /// The setting that lets user space read counters, and its value: x86-64's `rdpmc`, which only root
    /// sees, or `perf_user_access`.
    pub user_access: Option<(&'static str, i32)>,
    /// `kernel.perf_event_mlock_kb`: the KiB that a user's control pages may take, for each processor.
    pub mlock_kilobytes: Option<u64>,
    /// The KiB that this process may lock beyond that (`ulimit -l`); the largest number for no limit.
    pub locked_kilobytes: Option<u64>,
    /// How many descriptors this process has open, and may have (`ulimit -n`); each counter takes one.
    pub descriptors: Option<(u64, u64)>,
    /// `kernel.nmi_watchdog`: 1 where it may hold a counter of each processor.
    pub nmi_watchdog: Option<i32>,
    /// The generic hardware events, and one of software.
    pub events: Vec<Availability>,
    /// What a [`Clock`](crate::Clock) goes by.
    pub clock: Result<ClockKind, OpenError>,
    /// What to do, a line for each thing that is not as it could be.
    pub advice: Vec<String>,
}

/// Whether and how an event can be counted by this thread at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Availability {
    /// The event.
    pub event: Event,
    /// How it is read, or why it is not.
    pub access: Result<Access, OpenError>,
    /// Whether all privilege levels are counted, since the PMU cannot tell them apart.
    pub is_unfiltered: bool,
}

impl Availability {
    fn of(event: Event) -> Availability {
        let counter = Counter::builder(event).allow_all_privilege_levels(true).open();
        Availability {
            event,
            is_unfiltered: counter.as_ref().is_ok_and(Counter::counts_all_privilege_levels),
            access: counter.map(|counter| counter.access()),
        }
    }

    /// Whether the PMU lacks the event, so that there is no remedy. That there is a PMU, `counts_others` shows.
    fn is_lacking(&self, counts_others: bool) -> bool {
        counts_others
            && matches!(
                self.access,
                Err(OpenError::EventNotSupported {
                    errno: Errno(kernel::ENOENT | kernel::EOPNOTSUPP),
                    ..
                })
            )
    }

    /// What there is to do about it, if anything, the same for all events that it is true of.
    fn remedy(&self, counts_others: bool) -> Option<String> {
        match &self.access {
            _ if self.is_lacking(counts_others) => None,
            Ok(Access::UserSpace) => None,
            Ok(_) if self.event.is_software() => None,
            Ok(access) => Some(access.to_string()),
            // It is said of several at once.
            Err(error) => Some(match error.event() {
                Some(event) => {
                    let name = event.name();
                    let this = match name.split_once('/') {
                        Some((pmu, _)) => format!("this on {pmu}"),
                        None => "this".into(),
                    };
                    error.to_string().replacen(name, &this, 1)
                }
                None => error.to_string(),
            }),
        }
    }
}

/// A descriptor for each counter, and some for the rest of the program.
const FEW_DESCRIPTORS: u64 = 64;

impl Report {
    /// Whether one of the hardware events can be counted.
    fn counts_hardware(&self) -> bool {
        self.events.iter().any(|event| !event.event.is_software() && event.access.is_ok())
    }

    fn to_do(&self) -> Vec<String> {
        // Each cause once, with the events it is true of.
        let mut causes: Vec<(String, Vec<Event>)> = Vec::new();
        for event in &self.events {
            let Some(cause) = event.remedy(self.counts_hardware()) else { continue };
            match causes.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, events)) => events.push(event.event),
                None => causes.push((cause, vec![event.event])),
            }
        }
        let is_hardware = |event: &Event| !event.is_software();
        let hardware = self.events.iter().filter(|event| is_hardware(&event.event)).count();
        let causes = causes.into_iter().map(|(cause, events)| match events.len() {
            all if all == self.events.len() => format!("all events: {cause}"),
            all if all == hardware && events.iter().all(is_hardware) => {
                format!("all hardware events: {cause}")
            }
            _ => {
                let events: Vec<String> = events.iter().map(ToString::to_string).collect();
                format!("{}: {cause}", events.join(", "))
            }
        });
        let mut lines: Vec<String> = causes.collect();
        let mut say = |holds: bool, line: &str| {
            if holds {
                lines.push(line.to_owned());
            }
        };
        say(
            self.counts_hardware()
                && self.capability.is_none()
                && self.paranoid_level.is_some_and(|level| level >= 2),
            "the kernel's share of a count is closed to this process (kernel.perf_event_paranoid is 2 or \
             more), user mode is open: to count both, `sysctl kernel.perf_event_paranoid=1` as root, or give \
             the program CAP_PERFMON",
        );
        say(
            self.nmi_watchdog.is_some_and(|on| on > 0) && !self.core_pmus.is_empty(),
            "the kernel's watchdog may hold a counter of each processor: `sysctl kernel.nmi_watchdog=0` as \
             root gives it back",
        );
        say(
            self.user_access.is_some_and(|(_, value)| value == 2),
            "every process may read the counters, whether it has an event open or not, and see what others \
             do: set user access to 1 unless something needs 2",
        );
        say(
            self.core_pmus.len() > 1,
            "there are several core types: keep a thread on one (`taskset`) for groups and regions; a \
             counter by itself gives the sum of all",
        );
        say(
            self.unreadable.is_none() && core_types::are_unknown(),
            "whether there are several core types cannot be seen: a count may be of one of them only; make \
             /sys/bus/event_source visible here",
        );
        say(
            self.counts_hardware() && self.events.iter().any(|event| event.is_unfiltered),
            "this PMU cannot leave the kernel out: ask for allow_all_privilege_levels(true), and take the least of \
             several samples",
        );
        say(
            self.descriptors
                .is_some_and(|(open, limit)| limit.saturating_sub(open) < FEW_DESCRIPTORS),
            "few descriptors are left, and each counter takes one: raise `ulimit -n`",
        );
        lines.extend(self.unreadable.as_ref().map(ToString::to_string));
        lines
    }

    /// The whole report as JSON: an object with the fields of this structure, where what is not there is
    /// `null`, pairs are two fields, and errors and kinds are the sentences that they print.
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
                ("number", pmu.number.to_string()),
                ("processors", text(&pmu.processors.as_ref().map(ToString::to_string))),
                ("general", number(pmu.general)),
                ("fixed", number(pmu.fixed)),
                ("width", number(pmu.width)),
                ("user_space", (pmu.access == Ok(Access::UserSpace)).to_string()),
                ("is_unfiltered", pmu.is_unfiltered.to_string()),
                ("access", how),
                ("error", error),
            ])
        };
        let event = |event: &Availability| {
            let [how, error] = access(&event.access);
            object(&[
                ("event", string(&event.event.to_string())),
                ("user_space", (event.access == Ok(Access::UserSpace)).to_string()),
                ("is_unfiltered", event.is_unfiltered.to_string()),
                ("access", how),
                ("error", error),
            ])
        };
        let (clock, clock_error) = match &self.clock {
            Ok(kind) => (string(&kind.to_string()), NULL.into()),
            Err(error) => (NULL.into(), string(&error.to_string())),
        };
        let locked = self.locked_kilobytes.filter(|kilobytes| *kilobytes != u64::MAX);
        let (setting, value) = self.user_access.unzip();
        let (open, limit) = self.descriptors.unzip();
        object(&[
            ("version", string(self.version)),
            ("architecture", string(self.architecture)),
            ("processor", text(&self.processor)),
            ("kernel", text(&self.kernel)),
            ("is_virtual", self.is_virtual.to_string()),
            ("core_pmus", array(self.core_pmus.iter().map(pmu))),
            ("other_pmus", array(self.other_pmus.iter().map(|name| string(name)))),
            ("unreadable", text(&self.unreadable.as_ref().map(ToString::to_string))),
            ("paranoid_level", number(self.paranoid_level)),
            ("capability", self.capability.map_or(NULL.into(), string)),
            ("seccomp_mode", number(self.seccomp_mode)),
            ("user_access_setting", setting.map_or(NULL.into(), string)),
            ("user_access", number(value)),
            ("mlock_kilobytes", number(self.mlock_kilobytes)),
            ("locked_kilobytes", number(locked)),
            ("locked_without_limit", (self.locked_kilobytes == Some(u64::MAX)).to_string()),
            ("descriptors_open", number(open)),
            ("descriptors_limit", number(limit)),
            ("nmi_watchdog", number(self.nmi_watchdog)),
            ("events", array(self.events.iter().map(event))),
            ("clock", clock),
            ("clock_error", clock_error),
            ("advice", array(self.advice.iter().map(|line| string(line)))),
        ])
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNSEEN: &str = "not to be seen";
        let said = |value: Option<String>| value.unwrap_or_else(|| UNSEEN.into());
        // Of files as they are, which may say anything.
        let mut line = |name: &str, value: String| {
            write!(Visible(f), "{name:16}{value}")?;
            writeln!(f)
        };
        line("rdpmc", format!("{} for {}", self.version, self.architecture))?;
        line("processor", said(self.processor.clone()))?;
        let kind = if self.is_virtual {
            ", in a virtual machine"
        } else {
            ", not known to be in a virtual machine"
        };
        line("kernel", said(self.kernel.clone()) + kind)?;
        let none = || match &self.unreadable {
            Some(unreadable) => unreadable.to_string(),
            None => "none of the processor's cores".to_owned(),
        };
        line("PMU", self.core_pmus.first().map_or_else(none, ToString::to_string))?;
        for pmu in self.core_pmus.iter().skip(1) {
            line("PMU", pmu.to_string())?;
        }
        line("other PMUs", self.other_pmus.join(", "))?;
        let exempt = match self.capability {
            Some(capability) => format!("this process is exempt by {capability}"),
            None => "this process is not exempt".into(),
        };
        line(
            "paranoid level",
            format!("{}; {exempt}", said(self.paranoid_level.map(|n| n.to_string()))),
        )?;
        line(
            "seccomp",
            match self.seccomp_mode {
                Some(0) => "none".into(),
                Some(1) => "strict".into(),
                Some(2) => "a filter".into(),
                other => said(other.map(|n| n.to_string())),
            },
        )?;
        line(
            "user access",
            said(self.user_access.map(|(setting, value)| format!("{setting} is {value}"))),
        )?;
        let locked = match self.locked_kilobytes {
            Some(u64::MAX) => "no limit".into(),
            Some(kilobytes) => format!("{kilobytes} KiB"),
            None => UNSEEN.into(),
        };
        let mlock =
            said(self.mlock_kilobytes.map(|kilobytes| format!("{kilobytes} KiB a processor")));
        line("control pages", format!("{mlock}, and locked memory: {locked}"))?;
        line(
            "descriptors",
            said(self.descriptors.map(|(open, limit)| format!("{open} of {limit} in use"))),
        )?;
        line(
            "watchdog",
            match self.nmi_watchdog {
                Some(0) => "off".into(),
                Some(_) => "on, and may hold a counter".into(),
                None => UNSEEN.into(),
            },
        )?;
        line(
            "clock",
            match &self.clock {
                Ok(kind) => kind.to_string(),
                Err(error) => error.to_string(),
            },
        )?;
        writeln!(f, "\nevents, in user mode, at this moment")?;
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
            let levels = if event.is_unfiltered { ", all privilege levels" } else { "" };
            writeln!(f, "  {:24}{how}{levels}", event.event.to_string())?;
        }
        match self.advice.as_slice() {
            [] => write!(f, "\nnothing to do"),
            lines => {
                write!(f, "\nwhat to do")?;
                lines.iter().try_for_each(|line| write!(f, "\n- {line}"))
            }
        }
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
