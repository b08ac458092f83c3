//! Reads hardware performance counters from user space.
//!
//! [`Counter::open`] opens a counter for the calling thread and maps its control page. From then
//! on a read is a loop around one instruction (`rdpmc` on x86-64, `mrs` on arm64, `csrr` on
//! riscv64) and some arithmetic, with no system call. Where that cannot be, the same calls read
//! through the kernel, and [`Counter::access`] says why.
//!
//! ```
//! use rdpmc::{Counter, Event};
//!
//! match Counter::open(Event::INSTRUCTIONS) {
//!     Ok(counter) => println!("{:?} instructions so far; {}", counter.read(), counter.access()),
//!     Err(why) => println!("{why}"),
//! }
//! ```
//!
//! What a counter is of, and who may read it: [`Counter`]. What can be counted: [`Event`]. Several
//! at once: [`Group`]. Short pieces of code, and nothing but them: [`Region`]. In production, where
//! no read may end the process: [`contain_faults`]. The time, without a system call either:
//! [`Clock`]. What can go wrong, with its remedy: [`Error`],
//! [`NoUserAccess`], [`Disturbed`]. What this machine allows, and what to do about what it does not:
//! [`diagnose`]; its PMUs and their events: [`Pmus`]. For criterion's benchmarks, with the feature `criterion`: the module
//! of that name.
//!
//! Linux only; elsewhere everything compiles and opening is [`Error::Unsupported`].
#![deny(unsafe_code)]

#[cfg_attr(
    all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64"),
    path = "../asm/x86_64.rs"
)]
#[cfg_attr(
    all(
        target_os = "linux",
        target_arch = "aarch64",
        target_pointer_width = "64",
        target_endian = "little"
    ),
    path = "../asm/aarch64.rs"
)]
#[cfg_attr(
    all(target_os = "linux", target_arch = "riscv64", target_pointer_width = "64"),
    path = "../asm/riscv64.rs"
)]
#[cfg_attr(
    not(all(
        target_os = "linux",
        target_pointer_width = "64",
        any(
            target_arch = "x86_64",
            all(target_arch = "aarch64", target_endian = "little"),
            target_arch = "riscv64"
        )
    )),
    path = "../asm/none.rs"
)]
mod asm;
mod calibration;
mod clock;
mod core_types;
mod counter;
#[cfg(feature = "criterion")]
pub mod criterion;
mod description;
mod diagnosis;
mod error;
mod event;
mod faults;
mod field;
mod fork;
mod group;
mod machine;
mod math;
mod modifiers;
mod names;
mod open;
mod ordered;
mod overhead;
mod page;
mod pmu;
mod read;
mod region;
mod samples;
mod syntax;
mod sys;

pub use clock::Clock;
pub use counter::Counter;
pub use description::Description;
pub use diagnosis::{Availability, Report, diagnose};
pub use error::{
    Access, ClockKind, Disturbed, Error, NameError, NoPageClock, NoTicks, NoUserAccess,
};
pub use event::{Cache, CacheAccess, CacheOutcome, Event};
pub use faults::contain_faults;
pub use group::Group;
pub use math::Conversion;
pub use open::Builder;
pub use ordered::Ordered;
pub use overhead::Overhead;
pub use pmu::{Pmu, PmuEvent, Pmus, Processors};
pub use read::Reading;
pub use region::{Region, Start};
pub use samples::Samples;

/// The README's examples are compiled and run with the others; one of them is for criterion.
#[cfg(all(doctest, feature = "criterion"))]
#[doc = include_str!("../README.md")]
struct Readme;
