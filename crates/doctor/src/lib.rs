//! Reports what a machine lets a process count by hardware counters, what a read costs, and whether the counts are right.
//!
//! The program `rdpmc-doctor` prints the report. [`diagnose`] returns it, as text, as JSON or as fields. [`test_counters`]
//! tests all counters with known work, for programs that must not run with wrong counts.
//!
//! ```
//! rdpmc::contain_faults()?; // so that counters may be read
//! let report = rdpmc_doctor::diagnose();
//! println!("{report}"); // or report.to_json()
//! for line in &report.advice {
//!     println!("to do: {line}");
//! }
//! # Ok::<(), rdpmc::Error>(())
//! ```

#![deny(unsafe_code)]

// Data flows up: `facts`, `work` and `trust` find out, `report` has it, `advice` and `print` say it. A file uses files of its
// group or of those above: `cargo test layers` proves it.
mod facts;
mod listing;
mod scopes;
mod text;
mod topdown;
mod work;

mod errata;
mod judge;
mod trust;

mod pmu;
mod report;

mod advice;
mod json;
mod print;
mod summary;

mod diagnose;

pub use diagnose::diagnose;
pub use errata::{ERRATA, Erratum};
pub use judge::Verdict;
pub use listing::{EventList, OtherEvent, list_events};
pub use pmu::{Description, describe};
pub use report::{
    Availability, Descriptors, EventCost, LockedMemory, Report, Seccomp, Settings, Status,
    UserAccess,
};
pub use scopes::{ScopeRead, ScopeReport};
pub use topdown::Topdown;
pub use trust::{EventTest, TestError, Trust, test_counters};

/// The README's examples are compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
