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
//! | for | use |
//! |---|---|
//! | one event, from here to there | [`Counter`]: 14 instructions a read on x86-64 |
//! | several events of the same moments, for ratios; the stages of a loop that runs all day | [`Group`] |
//! | code of nano- or microseconds, and nothing but it | [`Region`], [`Overhead`], [`Samples`] |
//! | the time, in nanoseconds or ticks | [`Clock`] |
//! | what can be counted, by constants or by perf's names | [`Event`]; what this machine has: [`Pmus`] |
//! | privilege levels, pinned events | [`Builder`] |
//! | call this first: otherwise a read can end the process, if the administrator revokes access | [`contain_faults`] |
//! | why something cannot be counted, or only by system call | [`Error`], [`Access`], [`diagnose`] |
//! | criterion's benchmarks by counters, with the feature `criterion` | the module `criterion` |
//!
//! Most have an example in `examples/`. Counters are of the thread that opens them. Other threads and processes,
//! whole processors and sampling are not for this crate. `tests/vm`, which the documentation names, is in the
//! repository: emulated machines in which every instruction counts once.
//!
//! Linux only; elsewhere everything compiles and opening is [`Error::Unsupported`].
#![deny(unsafe_code)]
// On docs.rs, which builds with nightly: what takes a feature says so.
#![cfg_attr(docsrs, feature(doc_cfg))]

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
mod builder;
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
mod reading;
mod region;
mod samples;
mod sum;
mod syntax;
mod sys;

pub use builder::Builder;
pub use clock::Clock;
pub use counter::Counter;
pub use description::Description;
pub use diagnosis::{Availability, Report, diagnose};
pub use error::{
    Access, ClockKind, Disturbed, Error, NameError, NamedEvent, NoPageClock, NoTicks, NoUserAccess,
};
pub use event::{Cache, CacheAccess, CacheOutcome, Event};
pub use faults::contain_faults;
pub use group::Group;
pub use math::Conversion;
pub use ordered::Ordered;
pub use overhead::Overhead;
pub use pmu::{Pmu, PmuEvent, Pmus, Processors, Unreadable};
pub use reading::Reading;
pub use region::{Region, Start};
pub use samples::Samples;

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
#[path = "../tests/inside/simulated_kernel.rs"]
mod simulated_kernel;

/// The README's examples are compiled and run with the others; one of them is for criterion.
#[cfg(all(doctest, feature = "criterion"))]
#[doc = include_str!("../README.md")]
struct Readme;
