//! The two parts of a message: the cause found on this machine, and the remedy.

use super::Visible;
use std::fmt::{self, Write as _};

#[derive(Debug)]
pub(crate) struct Message {
    cause: String,
    remedy: String,
}

impl Message {
    pub(crate) fn new(cause: String, remedy: String) -> Message {
        Message { cause, remedy }
    }

    /// Puts something before the cause.
    pub(crate) fn after(self, what: String) -> Message {
        Message { cause: what + &self.cause, remedy: self.remedy }
    }

    pub(crate) fn cause(self) -> String {
        visible(self.cause)
    }

    pub(crate) fn remedy(self) -> String {
        visible(self.remedy)
    }
}

/// Names and files may contain anything, and a terminal obeys some of it.
fn visible(text: String) -> String {
    struct Escaped(String);
    impl fmt::Display for Escaped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            Visible(f).write_str(&self.0)
        }
    }
    Escaped(text).to_string()
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Visible(f), "{}. {}", self.cause, self.remedy)
    }
}

/// Makes a message of two format strings.
macro_rules! say {
    ($cause:literal, $remedy:literal $(, $of_cause:expr)*) => {
        $crate::kernel::Message::new(format!($cause $(, $of_cause)*), format!($remedy))
    };
}
pub(crate) use say;

/// Implements what all types with a `message` have.
macro_rules! has_message {
    ($($type:ident)*) => {
        $(
            impl $type {
                /// Returns the cause found on this machine: the first part of the message, without a period.
                pub fn cause(&self) -> String {
                    self.message().cause()
                }

                /// Returns what to do about it: the rest of the message.
                pub fn remedy(&self) -> String {
                    self.message().remedy()
                }
            }

            impl std::fmt::Display for $type {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    self.message().fmt(f)
                }
            }
        )*
    };
}
pub(crate) use has_message;
