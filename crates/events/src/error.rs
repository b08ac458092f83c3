//! The reasons why a name is not an event.

use rdpmc::error::NameError;
use std::error::Error;
use std::fmt;

/// Why a name is not that of an event here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventError {
    /// No table of this CPU has an event of this name.
    #[non_exhaustive]
    UnknownEvent {
        /// The name.
        name: String,
        /// The tables in which it was looked up.
        tables: Vec<&'static str>,
        /// The nearest names in them, at most 3.
        nearest: Vec<String>,
        /// The tables of other CPUs that have this name.
        elsewhere: Vec<&'static str>,
    },
    /// There is no table of this name.
    #[non_exhaustive]
    UnknownTable {
        /// The name.
        name: String,
    },
    /// There is no table for this CPU.
    #[non_exhaustive]
    UnknownCpu {
        /// Its vendor, family and model. None if `/proc/cpuinfo` does not have them.
        cpu: Option<String>,
    },
    /// Several types of core have an event of this name.
    #[non_exhaustive]
    Ambiguous {
        /// The name.
        name: String,
        /// Names with the PMU.
        choices: Vec<String>,
    },
    /// A term is unknown, or its value is missing or too large.
    #[non_exhaustive]
    WrongTerm {
        /// The term, with its value.
        term: String,
        /// The terms of this PMU.
        terms: Vec<&'static str>,
    },
    /// The name is not in the tables, and `rdpmc` says why it is not one of its own names.
    Name(NameError),
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventError::UnknownEvent { name, tables, nearest, elsewhere } => {
                write!(f, "{} has no event {name}. ", tables.join(" or "))?;
                if !nearest.is_empty() {
                    return write!(f, "The nearest names: {}", nearest.join(", "));
                }
                match elsewhere.as_slice() {
                    [] => f.write_str("`rdpmc-doctor events WORD` lists what there is"),
                    [other] => write!(f, "{other} has it: write {other}::{name} for its encoding"),
                    [first, second, others @ ..] => {
                        write!(f, "Other CPUs have it: {first}, {second}")?;
                        match others.len() {
                            0 => Ok(()),
                            more => write!(f, " and {more} more"),
                        }
                    }
                }
            }
            EventError::UnknownTable { name } => {
                write!(f, "there is no table {name}. `Table::all` lists the tables")
            }
            EventError::UnknownCpu { cpu } => {
                let cpu = cpu.as_deref().unwrap_or("a CPU that /proc/cpuinfo does not describe");
                write!(
                    f,
                    "there is no table for this CPU ({cpu}). Name one, as in skylake::inst_retired.any"
                )
            }
            EventError::Ambiguous { name, choices } => {
                write!(f, "several core types have {name}. Write {}", choices.join(" or "))
            }
            EventError::WrongTerm { term, terms } => {
                write!(
                    f,
                    "{term} is not a term with a value that fits. The terms are {}",
                    terms.join(", ")
                )
            }
            EventError::Name(why) => why.fmt(f),
        }
    }
}

impl Error for EventError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            EventError::Name(why) => why.source(),
            _ => None,
        }
    }
}

impl From<NameError> for EventError {
    fn from(why: NameError) -> EventError {
        EventError::Name(why)
    }
}
