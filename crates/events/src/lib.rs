//! Events of Intel's, AMD's, Arm's and RISC-V CPUs by the vendors' names, for the crate [`rdpmc`].
//!
//! ```no_run
//! use rdpmc::Counter;
//!
//! let misses = rdpmc_events::event("mem_load_retired.l3_miss")?;
//! let counter = Counter::open(misses)?;
//! let before = counter.read()?;
//! // the code
//! println!("{} loads missed the last-level cache", counter.read()? - before);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`event`] finds the name in the table of this machine's CPU. [`Table`] has the tables of all CPUs, and [`search`] finds events
//! by words of their names and descriptions. [`Name`] is for functions of other crates that take events or names.
//!
//! # Names
//!
//! The case of tables, events and terms does not matter. That of modifiers does.
//!
//! | name | event |
//! |---|---|
//! | all that [`Event`](rdpmc::Event) parses | the same event |
//! | `inst_retired.any`, `ex_ret_instr`, `l1d_cache_refill` | a name of the vendor, as perf writes it |
//! | `INST_RETIRED.ANY`, `INST_RETIRED:ANY` | the same as Intel and libpfm4 write it |
//! | `skylake::inst_retired.any`, `lnl::INST_RETIRED:ANY` | an event of the table of this name; on another CPU it may count something else |
//! | `cpu/inst_retired.any,cmask=1/`, `inst_retired.any,cmask=1` | with terms that replace those of the event |
//! | `cpu_atom/inst_retired.any/` | an event of this PMU's core type |
//!
//! Modifiers follow a colon or the last slash, as in perf: `inst_retired.any:u`. libpfm4's are `u=1`, `k=1`, `c=1` (cmask), `i` (inv), `t`
//! (any) and `e`. `e` is `edge` after `::` or a unit mask with a colon, and perf's `e` (exclusive) elsewhere.
//!
//! [`event`] and [`Name`] give the event this [name](rdpmc::Event::named), which it prints from then on.
//!
//! # Where the pipeline slots go
//!
//! The feature `topdown` adds the module of this name: the events and the formulas of the top-down method, for each CPU that has them.
//!
//! # Data
//!
//! The data is from Intel's perfmon, Arm's data, libpfm4, and names and encodings of Linux. `sources/README.md` has the versions and
//! licences. Each vendor's tables are a feature (`intel`, `amd`, `arm`, `riscv`), and so are the `descriptions`. All are on by default. A
//! lookup reads the packed data where it is, and does not allocate.
//!
//! Uncore events belong to no thread, so they are not in the tables. `open` reports an event that the kernel refuses, such as one
//! that needs a register which the kernel does not set.
#![deny(unsafe_code)]

// Data flows up: `pool` unpacks events, `encoding` makes the kernel's words of them, `tables` has all of them with their CPUs,
// `table` finds an event in one, `cores` finds this machine's tables, `name` takes names apart, `foreign` and `nearest` say what a wrong name may be,
// `lookup` is what users call.
// Beside it, `interrupts` has the event that shows what instructions count too high, by `cpu_model`. Above it, `topdown` has the events
// and formulas of the top-down method.

mod cores;
mod cpu_model;
mod encoding;
mod error;
mod foreign;
mod interrupts;
mod lookup;
mod name;
mod nearest;
mod pool;
mod table;
mod tables;
#[cfg(feature = "topdown")]
pub mod topdown;

#[doc(hidden)]
pub use cpu_model::Processor;
pub use error::{EventError, TermFault};
pub use interrupts::{CorrectedInstructions, InstructionCount, hardware_interrupts};
pub use lookup::{Name, event, search};
pub use table::{Table, VendorEvent};
