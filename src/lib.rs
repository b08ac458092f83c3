//! Reads hardware performance counters from user space.
//!
//! [`Counter::open`] opens a counter for the calling thread and maps its control page. From then on a read is a loop around
//! one instruction (`rdpmc` on x86-64, `mrs` on arm64, `csrr` on riscv64), without a system call. Where that is not
//! possible, the same calls read through the kernel, and [`Counter::access`] has the reason.
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
//! Will it work on this machine? `cargo install rdpmc-doctor`, and run `rdpmc-doctor`.
//!
//! | to measure | use |
//! |---|---|
//! | one event | [`Counter`] |
//! | several events at the same instants, for ratios | [`Group`], [`DynGroup`] |
//! | a few nano- or microseconds of code | [`Region`] |
//! | time, in nanoseconds or ticks | [`Clock`] |
//! | a program with threads, by system call | [`SyscallGroup`] |
//! | each thread of a program by itself | [`PerThread`] |
//! | what a test sets, in place of an event | [`Counter::mock`] |
//!
//! [`Event`] has constants and perf's names for what can be counted, [`pmu::Pmus`] lists what this machine has, and
//! [`Builder`] has privilege levels and pinning. Errors ([`Error`]) name the cause on this machine and the remedy.
//!
//! Call [`contain_faults`] once at startup. Otherwise a read raises SIGSEGV if the administrator revokes access while a
//! counter is open.
//!
//! In a virtual machine, a read in user space may take longer than a system call. There, [`Counter::open`] measures both,
//! and [`Counter::read`] takes the cheaper way. See [`ReadBy`] and [`ReadCost`].
//!
//! Counters belong to the thread that opens them. [`SyscallGroup`] counts several threads of the process. Other processes,
//! whole CPUs, and sampling are out of scope. `tests/vm`, which the documentation mentions, is in the repository: emulated machines in which every
//! instruction counts exactly once.
//!
//! On other systems than Linux, everything compiles and opening returns [`ErrorKind::Unsupported`].
#![deny(unsafe_code)]

// The folders are on floors. Each uses lower floors only: `cargo test layers` proves it.
#[path = "../asm/mod.rs"]
mod asm;
pub mod clock;
mod counter;
pub mod error;
pub mod event;
#[cfg(rdpmc_internals)]
#[doc(hidden)]
#[path = "tests/internals.rs"]
pub mod internals;
mod kernel;
mod names;
mod open;
mod page;
pub mod pmu;
pub mod region;
mod threads;

#[cfg(test)]
mod tests;

/// What this machine and its settings allow, as the errors of this library see it. Each call reads some files of `/proc` and
/// `/sys`, and is None or false if they are missing or not understood. The answers may change while a process runs.
pub mod machine {
    pub use crate::counter::spec_lock_map;
    pub use crate::kernel::machine::{capability, mlock_kilobytes, paranoid_level, user_access};
    pub use crate::pmu::is_virtual;

    /// Returns the hypervisor's name for itself, such as `KVMKVMKVM` (x86-64's CPUID), or else the name of the virtual
    /// machine's product by its firmware. None if neither is there, which [`is_virtual`] may know better.
    pub fn hypervisor() -> Option<String> {
        let name = crate::asm::hypervisor()
            .map(|name| String::from_utf8_lossy(&name).trim_matches(['\0', ' ']).to_owned());
        name.filter(|name| !name.is_empty()).or_else(crate::kernel::machine::hypervisor_product)
    }
}

/// Waits until earlier instructions are complete, and lets later ones begin only then: `lfence` on x86-64, `isb` on arm64. One
/// instruction, and the wait for the instructions in flight, which no instruction count shows.
///
/// A counter is read by an ordinary instruction. An out-of-order CPU may run it before earlier instructions are complete and
/// after later ones have begun. With a fence before the read, it waits for the earlier instructions. With one after the read,
/// the later ones wait for it.
///
/// ```
/// use rdpmc::{Counter, Event};
///
/// if let Ok(cycles) = Counter::open(Event::CYCLES) {
///     rdpmc::fence();
///     let now = cycles.read();
///     rdpmc::fence();
///     println!("{now:?}");
/// }
/// ```
///
/// [`Region::fenced`] has the fences in a region. Pieces of code with a fence after each do not overlap. Stores may still be on
/// their way to other CPUs. On arm64, neither a read nor the next piece waits for a load, unless a branch depends on it.
///
/// Does nothing on other architectures. On riscv64, counters need no fence: a hart reads its own CSRs in program order (Zicsr).
/// For times there, see [`Clock::ticks_ordered`].
#[inline(always)]
pub fn fence() {
    asm::fence();
}

#[doc(inline)]
pub use clock::Clock;
pub use counter::{Counter, DynGroup, Fit, Group, Mock, PerEvent, Reading, WithGroup};
pub use error::access::Access;
#[doc(inline)]
pub use error::{Error, ErrorKind};
#[doc(inline)]
pub use event::Event;
pub use names::IntoEvent;
pub use open::ReadBy;
pub use open::builder::Builder;
pub use open::cost::ReadCost;
pub use page::faults::{contain_faults, contained_faults, faults_are_contained, keep_loaded};
#[doc(inline)]
pub use region::Region;
pub use threads::{PerThread, Scope, SyscallGroup};

/// Parts of the messages of this project's other crates. Hidden from other users, because it may change with each minor version.
#[doc(hidden)]
pub mod messages {
    pub use crate::event::generic::all as generic_names;
    pub use crate::kernel::text::{Thousands, Visible};
    pub use crate::names::name_of;
    pub use crate::names::suggest::Nearest;
}

/// The README's examples are compiled with the others, and those with a `main` run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
