//! Errors of event names.

use self::foreign::{BREAKPOINT, METRIC, TRACEPOINT};
use super::no_pmu_on_wsl;
use crate::kernel::{Message, PMU_DIRECTORY, Unreadable, has_message, say};

/// What a name is that other tools know, if it is not an event.
pub(crate) mod foreign {
    pub(crate) const METRIC: &str = "a metric, computed from several events";
    pub(crate) const CLOCK: &str = "a clock of `perf stat`";
    pub(crate) const PAPI: &str = "a name of PAPI's";
    pub(crate) const LIKWID: &str = "a name of LIKWID's";
    pub(crate) const TRACEPOINT: &str = "a tracepoint or a probe";
    pub(crate) const BREAKPOINT: &str = "a breakpoint on memory";
}

/// Why a name is not the name of an event, from `"name".parse::<Event>()` or
/// [`Pmus::event`](crate::pmu::Pmus::event).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// Neither the kernel nor a PMU of this machine has an event of this name.
    #[non_exhaustive]
    UnknownEvent {
        /// The name.
        name: String,
        /// The nearest known names, at most 3.
        nearest: Vec<String>,
    },
    /// The name is that of something else.
    #[non_exhaustive]
    NotAnEvent {
        /// The name.
        name: String,
        /// What it is, such as "a metric, computed from several events".
        what: &'static str,
        /// What to count or use here in its place, if that is known.
        instead: Option<&'static str>,
    },
    /// The name requests what a counter does not do: precise samples (`:p`, `:P`), or the count of a whole core
    /// (`percore`).
    #[non_exhaustive]
    NotOfACounter {
        /// The modifiers, or the term.
        part: String,
    },
    /// The name needs a hardware counter, and this machine has no core PMU. Encodings that every core PMU has
    /// (`cpu/event=0xc0,umask=0x1/`) are parsed all the same, and opening them returns
    /// [`OpenError::NoPmu`](super::OpenError::NoPmu).
    #[non_exhaustive]
    NoPmu {
        /// The name.
        name: String,
        /// Whether this is known to be a virtual machine. It has the PMU that its host gives it.
        is_virtual: bool,
        /// Whether this is the virtual machine of WSL2.
        is_wsl: bool,
    },
    /// The name needs the list of PMUs in `/sys`, which does not exist here. So nothing shows whether this machine has the PMU.
    #[non_exhaustive]
    NoPmuList {
        /// The name.
        name: String,
    },
    /// This machine has no PMU of this name.
    #[non_exhaustive]
    UnknownPmu {
        /// The name.
        name: String,
        /// The nearest known names, at most 3.
        nearest: Vec<String>,
    },
    /// The PMU has no such term or event.
    #[non_exhaustive]
    UnknownTerm {
        /// The PMU.
        pmu: String,
        /// The unknown term.
        term: String,
        /// The nearest known terms and events, at most 3.
        nearest: Vec<String>,
    },
    /// Several PMUs have an event of this name.
    #[non_exhaustive]
    Ambiguous {
        /// The name.
        name: String,
        /// The full name on each PMU.
        choices: Vec<String>,
    },
    /// The value needs more bits than the PMU has for the term.
    #[non_exhaustive]
    TooLarge {
        /// The PMU.
        pmu: String,
        /// The term.
        term: String,
        /// The number of bits of the term.
        bits: u32,
    },
    /// The value is not a 64-bit number.
    #[non_exhaustive]
    NotANumber {
        /// The PMU.
        pmu: String,
        /// The term.
        term: String,
        /// The value.
        value: String,
    },
    /// The term repeats another: it is given twice, shares bits with another, or both are events.
    #[non_exhaustive]
    Twice {
        /// The PMU.
        pmu: String,
        /// The term.
        term: String,
    },
    /// The term needs a value: it has more than one bit, or the PMU's event requires one.
    #[non_exhaustive]
    NeedsValue {
        /// The PMU.
        pmu: String,
        /// The term without a value.
        term: String,
    },
    /// The modifiers are not valid, or one is repeated too often.
    #[non_exhaustive]
    Modifier {
        /// The modifiers as given.
        letters: String,
    },
    /// The second slash is missing.
    #[non_exhaustive]
    NotClosed {
        /// The name.
        name: String,
    },
    /// The name is too long.
    #[non_exhaustive]
    TooLong {
        /// The maximum length in bytes.
        limit: usize,
    },
    /// The kernel's list of PMUs could not be read, and the name depends on it.
    Unreadable(Unreadable),
    /// Another [`IntoEvent`](crate::IntoEvent) than those of this crate does not know the name: see [`other`](NameError::other).
    #[non_exhaustive]
    Other {
        /// The first part of the message, without a period.
        cause: String,
        /// The rest of the message.
        remedy: String,
    },
}

impl std::error::Error for NameError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            NameError::Unreadable(unreadable) => Some(&unreadable.errno),
            _ => None,
        }
    }
}

impl From<Unreadable> for NameError {
    fn from(unreadable: Unreadable) -> NameError {
        NameError::Unreadable(unreadable)
    }
}

has_message!(NameError);

/// Asks for the nearest names, or without any tells where all are.
fn suggest(nearest: &[String], all: &str) -> String {
    match nearest {
        [] => all.into(),
        [one] => format!("Did you mean {one}?"),
        [first @ .., last] => format!("Did you mean {} or {last}?", first.join(", ")),
    }
}

impl NameError {
    /// Returns an error with this cause, without a period, and this remedy: for an [`IntoEvent`](crate::IntoEvent) of another
    /// crate, with names of its own.
    pub fn other(cause: impl Into<String>, remedy: impl Into<String>) -> NameError {
        NameError::Other { cause: cause.into(), remedy: remedy.into() }
    }

    /// Returns the [`cause`](NameError::cause) with `this` in place of a name whose PMU is missing: such names can share a line.
    pub fn shared_cause(&self) -> String {
        match self {
            NameError::NoPmu { is_virtual, is_wsl, .. } => {
                let (is_virtual, is_wsl) = (*is_virtual, *is_wsl);
                NameError::NoPmu { name: "this".into(), is_virtual, is_wsl }.cause()
            }
            NameError::NoPmuList { .. } => NameError::NoPmuList { name: "this".into() }.cause(),
            other => other.cause(),
        }
    }

    fn message(&self) -> Message {
        match self {
            NameError::UnknownEvent { name, .. } if name.is_empty() => {
                say!("the event name is empty", "Give one, such as cycles")
            }
            NameError::UnknownEvent { name, .. } if name.contains(',') => say!(
                "`{name}` is not an event name",
                "Parse one event at a time, and open a group for several"
            ),
            NameError::UnknownEvent { name, nearest } => {
                let all = "Run `perf list` to see them. For an event that exists only in perf's own tables, use the \
                           encoding that `perf stat -vv -e NAME true` prints, e.g. cpu/event=0xc0,umask=0x1/";
                let remedy = suggest(nearest, all);
                say!("there is no event `{name}` on this machine", "{remedy}")
            }
            NameError::NotAnEvent { name, what, instead } => {
                let remedy = match (*what, instead) {
                    (METRIC, instead) => {
                        let events = instead.unwrap_or("its events");
                        format!("Count {events} as a group, and compute it from their counts")
                    }
                    (_, Some(instead)) => format!("Use {instead}"),
                    (TRACEPOINT | BREAKPOINT, None) => {
                        "This library counts hardware and software events. Use `perf stat -e` for others".into()
                    }
                    (_, None) => {
                        "Use the event that it stands for, by perf's name or as cpu/event=...,umask=.../".into()
                    }
                };
                say!("`{name}` is {what}, not an event", "{remedy}")
            }
            NameError::NotOfACounter { part } if part == "percore" => say!(
                "`percore` counts all threads of a core, and a counter counts its own thread",
                "Remove it"
            ),
            NameError::NotOfACounter { part } => say!(
                "`{part}` requests precise samples, and a counter takes no samples",
                "Remove it"
            ),
            NameError::NoPmu { name, is_wsl: true, .. } => no_pmu_on_wsl(&format!("`{name}`")),
            NameError::NoPmu { name, is_virtual: true, .. } => say!(
                "`{name}` needs a hardware counter, and this virtual machine has none (no core \
                 PMU in {PMU_DIRECTORY})",
                "Enable the virtual PMU in the hypervisor, run on the host, or use software \
                 events"
            ),
            NameError::NoPmu { name, .. } => say!(
                "`{name}` needs a hardware counter, and the kernel offers none (no core PMU in \
                 {PMU_DIRECTORY})",
                "Use software events, or another machine"
            ),
            NameError::NoPmuList { name } => say!(
                "`{name}` needs the list of this machine's PMUs, and there is no {PMU_DIRECTORY}",
                "Mount /sys in this container or chroot. Constants such as Event::CYCLES do not need it"
            ),
            NameError::UnknownPmu { name, nearest } => {
                let remedy =
                    suggest(nearest, &format!("Each PMU has a directory in {PMU_DIRECTORY}"));
                say!("there is no PMU `{name}` on this machine", "{remedy}")
            }
            NameError::UnknownTerm { pmu, term, nearest } => {
                let remedy =
                    suggest(nearest, &format!("See {PMU_DIRECTORY}/{pmu}/format and events"));
                say!("the PMU {pmu} has no term and no event `{term}`", "{remedy}")
            }
            NameError::Ambiguous { name, choices } => {
                let choices = choices.join(", ");
                say!("several PMUs have an event `{name}`", "Choose one of {choices}")
            }
            NameError::TooLarge { pmu, term, bits } => say!(
                "the value of `{term}` (PMU {pmu}) does not fit into {bits} {}",
                "Give a smaller one",
                if *bits == 1 { "bit" } else { "bits" }
            ),
            NameError::NotANumber { pmu, term, value } => say!(
                "`{value}` is not a valid value for `{term}` (PMU {pmu})",
                "Give a decimal or 0x-prefixed number of at most 64 bits"
            ),
            NameError::Twice { pmu, term } => {
                say!("`{term}` (PMU {pmu}) sets bits that another term sets", "Remove one of them")
            }
            NameError::NeedsValue { pmu, term } => {
                say!("`{term}` (PMU {pmu}) needs a value", "Write `{term}=VALUE`")
            }
            NameError::Modifier { letters } => say!(
                "`{letters}` are not valid event modifiers",
                "Use any of u, k, h, G, H, I, D, e, S and W, each at most once"
            ),
            NameError::NotClosed { name } => {
                say!("`{name}` has no second slash", "Write PMU/TERM=VALUE,.../")
            }
            NameError::TooLong { limit } => {
                say!("the name is longer than {limit} bytes", "Give the name of one event")
            }
            NameError::Unreadable(unreadable) => unreadable.message(),
            NameError::Other { cause, remedy } => say!("{cause}", "{remedy}"),
        }
    }
}
