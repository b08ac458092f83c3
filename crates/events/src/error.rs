//! The reasons why a name is not an event.

use crate::encoding::MODIFIERS;
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
    /// There is no table of this name.
    #[non_exhaustive]
    UnknownTable {
        /// The name.
        name: String,
        /// The nearest names of tables, at most 3.
        nearest: Vec<String>,
    },
    /// The name is of another table than the one that was asked.
    #[non_exhaustive]
    OtherTable {
        /// The name of the other table.
        name: String,
        /// The table that was asked.
        table: &'static str,
    },
    /// The name is that of an event that no table has, because every CPU has it or it is an encoding.
    #[non_exhaustive]
    NoTableNeeded {
        /// The name.
        name: String,
    },
    /// There is one colon after the name of a table, where two belong.
    #[non_exhaustive]
    OneColon {
        /// The name.
        name: String,
        /// The same with two colons.
        right: String,
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
    /// A term, a modifier or a unit mask is wrong.
    #[non_exhaustive]
    WrongTerm {
        /// The term, with its value.
        term: String,
        /// What is wrong.
        fault: TermFault,
        /// The terms of this PMU.
        terms: Vec<&'static str>,
    },
    /// The name is one of another tool's own.
    #[non_exhaustive]
    OtherTool {
        /// The name.
        name: String,
        /// The tool.
        tool: &'static str,
        /// What to write in its place.
        remedy: String,
    },
    /// The event is one of a PMU beside the cores, and counts for no thread.
    #[non_exhaustive]
    Uncore {
        /// The name.
        name: String,
        /// The PMU, or the beginning of the names of several.
        pmu: &'static str,
    },
    /// `rdpmc` rejected the name, and no table has it. Or a file of the PMUs could not be read.
    Name(Error),
}

/// What is wrong with a term of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TermFault {
    /// The PMU has no such term, and perf no such modifier.
    Unknown,
    /// It is there twice.
    Twice,
    /// It needs a value.
    NoValue,
    /// Its value is not a number.
    NotANumber,
    /// Its value has more bits than this term.
    TooLarge {
        /// The number of bits.
        bits: u32,
    },
    /// It is a second unit mask of the event.
    SecondUnitMask,
    /// It is another event.
    Event,
    /// There is nothing behind a comma or a colon.
    Empty,
    /// It is a modifier behind a comma.
    Modifier,
}

impl EventError {
    /// Returns the cause: the first part of the message, without a period.
    pub fn cause(&self) -> String {
        match self {
            EventError::UnknownEvent { name, tables, .. } => {
                format!("{} has no event {name}", tables.join(" or "))
            }
            EventError::UnknownTable { name, .. } => {
                format!("there is no table {name}")
            }
            EventError::OtherTable { name, table } => {
                format!("the table is {table}, and the name is one of {name}")
            }
            EventError::NoTableNeeded { name } => {
                format!("{name} belongs to no table")
            }
            EventError::OneColon { name, .. } => {
                format!("{name} has one colon after the name of a table")
            }
            EventError::OtherTool { name, tool, .. } => format!("{name} is a name of {tool}'s"),
            EventError::Uncore { name, pmu } => {
                format!(
                    "{name} is an event of the PMU {pmu}, which counts for a part of the machine and not for a thread"
                )
            }
            EventError::UnknownPmu { pmu, table } => {
                format!("the core PMU {pmu} does not count the events of the table {table}")
            }
            EventError::UnknownCpu { cpu } => {
                let cpu = cpu.as_deref().unwrap_or("/proc/cpuinfo does not name it");
                format!("there is no table for this CPU ({cpu})")
            }
            EventError::Ambiguous { name, .. } => format!("several core types have {name}"),
            EventError::WrongTerm { term, fault, .. } => match fault {
                TermFault::Unknown => {
                    format!("{term} is neither a term of this PMU nor a modifier")
                }
                TermFault::Twice => format!("the term {term} is there twice"),
                TermFault::NoValue => format!("the term {term} has no value"),
                TermFault::NotANumber => format!("the value of {term} is not a number"),
                TermFault::TooLarge { bits: 1 } => {
                    format!("the value of {term} is too large: this term has one bit")
                }
                TermFault::TooLarge { bits } => {
                    format!("the value of {term} is too large: this term has {bits} bits")
                }
                TermFault::SecondUnitMask => format!("{term} is a second unit mask"),
                TermFault::Event => format!("{term} is another event"),
                TermFault::Empty => format!("{term} has a comma or colon with nothing behind it"),
                TermFault::Modifier => format!("the modifier {term} stands behind a comma"),
            },
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
            EventError::UnknownTable { nearest, .. } => Some(match nearest.as_slice() {
                [] => "`Table::all` returns the tables".to_owned(),
                near => {
                    format!("The nearest: {}. `Table::all` returns the tables", near.join(", "))
                }
            }),
            EventError::OtherTable { .. } => {
                Some("`event` takes names of all tables, and `Table::named` returns one".to_owned())
            }
            EventError::NoTableNeeded { name } => Some(format!("Write {name} without the table")),
            EventError::OneColon { right, .. } => Some(format!("Write {right}")),
            EventError::OtherTool { remedy, .. } => Some(remedy.clone()),
            EventError::Uncore { .. } => {
                Some("`perf stat -a -e NAME` counts it, with privileges".to_owned())
            }
            EventError::UnknownPmu { .. } => {
                Some("Write cpu/NAME/, the name alone, or the table of that core type".to_owned())
            }
            EventError::UnknownCpu { .. } => {
                Some("Name one of another CPU, or give the encoding, as in r01c2".to_owned())
            }
            EventError::Ambiguous { choices, .. } => {
                Some(format!("Write {}", choices.join(" or ")))
            }
            EventError::WrongTerm { term, fault, terms } => Some(match fault {
                TermFault::Unknown => format!(
                    "The terms are {}, and the modifiers {}",
                    terms.join(", "),
                    MODIFIERS.chars().map(String::from).collect::<Vec<_>>().join(", ")
                ),
                TermFault::Twice => "Give it once".to_owned(),
                TermFault::NoValue => format!("Write {}=NUMBER", term.trim_end_matches(['=', ' '])),
                TermFault::NotANumber => {
                    "Write it in decimal, or in hexadecimal after 0x".to_owned()
                }
                TermFault::TooLarge { .. } => "Give a smaller one".to_owned(),
                TermFault::SecondUnitMask => {
                    "Give one unit mask, or the bits of all in one, as umask=NUMBER".to_owned()
                }
                TermFault::Event => {
                    "Give one event at a time, and open a group for several".to_owned()
                }
                TermFault::Empty => "Remove it".to_owned(),
                TermFault::Modifier => format!("Write :{term} at the end"),
            }),
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
