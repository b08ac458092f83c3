//! The reasons why a name is not an event.

use rdpmc::Error;
use std::fmt;

/// The reason why a name was not found.
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
    /// There is no table of this name, or the name is of another table than the one that was asked.
    #[non_exhaustive]
    UnknownTable {
        /// The name.
        name: String,
    },
    /// The CPUs of the table have no core PMU of this name.
    #[non_exhaustive]
    UnknownPmu {
        /// The name.
        pmu: String,
        /// The table.
        table: &'static str,
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
        /// The same with the PMU, and with its terms and modifiers.
        choices: Vec<String>,
    },
    /// A term or modifier is unknown, is there twice, or its value is missing or too large.
    #[non_exhaustive]
    WrongTerm {
        /// The term, with its value.
        term: String,
        /// The terms of this PMU.
        terms: Vec<&'static str>,
    },
    /// `rdpmc` rejected the name, and no table has it. Or a file of the PMUs could not be read.
    Name(Error),
}

impl EventError {
    /// Returns the cause: the first part of the message, without a period.
    pub fn cause(&self) -> String {
        match self {
            EventError::UnknownEvent { name, tables, .. } => {
                format!("{} has no event {name}", tables.join(" or "))
            }
            EventError::UnknownTable { name } => {
                format!("{name} is not the name of this table or of another")
            }
            EventError::UnknownPmu { pmu, table } => {
                format!("CPUs with the table {table} have no core PMU {pmu}")
            }
            EventError::UnknownCpu { cpu } => {
                let cpu = cpu.as_deref().unwrap_or("/proc/cpuinfo does not name it");
                format!("there is no table for this CPU ({cpu})")
            }
            EventError::Ambiguous { name, .. } => format!("several core types have {name}"),
            EventError::WrongTerm { term, .. } => {
                format!("{term} is not a term with a value that fits, or is there twice")
            }
            EventError::Name(why) => why.cause(),
        }
    }

    /// Returns what to do: the second part of the message, without a period. None if nothing is known.
    pub fn remedy(&self) -> Option<String> {
        match self {
            EventError::UnknownEvent { nearest, elsewhere, .. } => {
                let near = (!nearest.is_empty())
                    .then(|| format!("The nearest names: {}", nearest.join(", ")));
                let other = match elsewhere.as_slice() {
                    [] => None,
                    [one] => Some(format!("Only {one} has it")),
                    [one, two] => Some(format!("Other CPUs have it: {one} and {two}")),
                    [one, two, more @ ..] => {
                        Some(format!("Other CPUs have it: {one}, {two} and {} more", more.len()))
                    }
                };
                match (near, other) {
                    (Some(near), Some(other)) => Some(format!("{near}. {other}")),
                    (None, None) => Some("`Table::search` finds names by words".to_owned()),
                    (near, other) => near.or(other),
                }
            }
            EventError::UnknownTable { .. } => Some("`Table::all` returns the tables".to_owned()),
            EventError::UnknownPmu { .. } => Some("Write cpu/NAME/, or the name alone".to_owned()),
            EventError::UnknownCpu { .. } => {
                Some("Name one of another CPU, or give the encoding, as in r01c2".to_owned())
            }
            EventError::Ambiguous { choices, .. } => {
                Some(format!("Write {}", choices.join(" or ")))
            }
            EventError::WrongTerm { terms, .. } => {
                Some(format!("The terms are {}", terms.join(", ")))
            }
            EventError::Name(why) => Some(why.remedy()).filter(|remedy| !remedy.is_empty()),
        }
    }
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let EventError::Name(why) = self {
            return why.fmt(f);
        }
        f.write_str(&self.cause())?;
        self.remedy().map_or(Ok(()), |remedy| write!(f, ". {remedy}"))
    }
}

impl std::error::Error for EventError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            EventError::Name(why) => why.source(),
            _ => None,
        }
    }
}

/// For functions that take an event or a name: see [`Name`](crate::Name).
impl From<EventError> for Error {
    fn from(why: EventError) -> Error {
        match why {
            EventError::Name(why) => why,
            other => Error::of_name(other.cause(), other.remedy().unwrap_or_default()),
        }
    }
}

impl From<Error> for EventError {
    fn from(why: Error) -> EventError {
        EventError::Name(why)
    }
}
