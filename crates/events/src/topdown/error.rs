//! Why there is no top-down analysis.

use super::family::FAMILIES;
use crate::EventError;
use rdpmc::Error;
use std::fmt;

/// The reason why the slots cannot be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopdownError {
    /// This CPU has no events for it.
    #[non_exhaustive]
    NoEvents {
        /// The CPU, by its table.
        cpu: &'static str,
    },
    /// This thread may run on several types of core, whose events differ.
    #[non_exhaustive]
    SeveralCoreTypes {
        /// The PMU of each type, and its CPUs, as in `cpu_core (0-15)`.
        types: Vec<String>,
    },
    /// The CPU is unknown, or a file that describes its PMU could not be read.
    Name(EventError),
    /// The events could not be opened.
    Open(Error),
}

impl TopdownError {
    /// Returns the cause: the first part of the message, without a period.
    pub fn cause(&self) -> String {
        match self {
            TopdownError::NoEvents { cpu } => {
                format!("{cpu} has no top-down events that are known here")
            }
            TopdownError::SeveralCoreTypes { types } => {
                format!("this thread may run on several core types: {}", types.join(", "))
            }
            TopdownError::Name(why) => why.cause(),
            TopdownError::Open(why) => why.cause(),
        }
    }

    /// Returns what to do: the second part of the message, without a period. Empty if nothing is known.
    pub fn remedy(&self) -> String {
        match self {
            TopdownError::NoEvents { .. } | TopdownError::Name(EventError::UnknownCpu { .. }) => {
                let names: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
                format!("CPUs with top-down events: {}", names.join("; "))
            }
            TopdownError::SeveralCoreTypes { .. } => {
                "Restrict it to the CPUs of one type, for example with `taskset --cpu-list`".into()
            }
            TopdownError::Name(why) => why.remedy().unwrap_or_default(),
            TopdownError::Open(why) => why.remedy(),
        }
    }
}

impl fmt::Display for TopdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause())?;
        match self.remedy() {
            remedy if remedy.is_empty() => Ok(()),
            remedy => write!(f, ". {remedy}"),
        }
    }
}

impl std::error::Error for TopdownError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TopdownError::Name(why) => why.source(),
            TopdownError::Open(why) => why.source(),
            _ => None,
        }
    }
}

impl From<EventError> for TopdownError {
    fn from(why: EventError) -> TopdownError {
        TopdownError::Name(why)
    }
}

impl From<Error> for TopdownError {
    fn from(why: Error) -> TopdownError {
        TopdownError::Open(why)
    }
}

impl From<TopdownError> for rdpmc::Error {
    fn from(why: TopdownError) -> rdpmc::Error {
        match why {
            TopdownError::Open(why) => why,
            TopdownError::Name(why) => why.into(),
            other => Error::of_name(other.cause(), other.remedy()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever has no events, the message says what has them, also as an error of `rdpmc`.
    #[test]
    fn the_cpus_are_listed() {
        let zen3 = TopdownError::NoEvents { cpu: "zen3" };
        let text = zen3.to_string();
        assert!(
            text.starts_with(
                "zen3 has no top-down events that are known here. CPUs with top-down events: Intel Skylake"
            )
        );
        let other = TopdownError::SeveralCoreTypes { types: vec!["cpu_core".into()] };
        for why in [zen3, other] {
            assert_eq!(rdpmc::Error::from(why.clone()).to_string(), why.to_string());
        }
    }
}
