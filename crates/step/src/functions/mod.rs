//! Where the instructions of a count went, by functions.
//!
//! ```no_run
//! use rdpmc_step::functions::{Loaded, Names, Split};
//! use rdpmc_step::{Addresses, StepError, Tally, count_into};
//! use std::hint::black_box;
//!
//! # fn main() -> Result<(), StepError> {
//! let mut addresses = Addresses::with_capacity(1_000_000)?;
//! let mut parse = |times: usize| {
//!     let start = addresses.as_slice().len();
//!     count_into(1_000_000, &mut addresses, || {
//!         for _ in 0..times {
//!             let _ = black_box(black_box("1e300").parse::<f64>());
//!         }
//!     })?;
//!     Ok::<_, StepError>(start..addresses.as_slice().len())
//! };
//! parse(1)?; // what happens only once
//! let (one, two) = (parse(1)?, parse(2)?);
//! let tally = Tally::new(&mut addresses, &[(1, two), (-1, one)]).expect("separate ranges, and memory");
//! for function in Split::new(&tally, 1, &Loaded::now()).functions(&mut Names::new()) {
//!     println!("{} instructions in {}", function.instructions, function.name);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The names are those of the symbol tables of the program and its shared libraries. Only an address within the size of a symbol has its
//! name.
//!
//! If the program has debug information (`debug = 1` in the profile), functions that were inlined have their own instructions. With
//! `debug = "line-tables-only"`, they have short names and the end of the path of their file. A function of the standard library that was
//! inlined belongs to the function that it was inlined into: its source file tells. Debug information that is compressed, or in files of its own
//! (`split-debuginfo`), is not read.

mod inlined;
mod loaded;
mod names;
mod split;
mod symbols;

pub use loaded::Loaded;
pub use names::{Names, Source};
pub use split::{Function, Split};
