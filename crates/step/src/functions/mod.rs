//! Where the instructions of a count went, by functions.
//!
//! ```no_run
//! use rdpmc_step::functions::{Loaded, Names, Split};
//! use rdpmc_step::{Addresses, StepError, Tally, count_into};
//! use std::hint::black_box;
//!
//! # fn main() -> Result<(), StepError> {
//! let mut addresses = Addresses::with_room(1_000_000)?;
//! let mut parse = |times: usize| {
//!     addresses.clear();
//!     count_into(1_000_000, &mut addresses, || {
//!         for _ in 0..times {
//!             let _ = black_box(black_box("1e300").parse::<f64>());
//!         }
//!     })?;
//!     Ok::<_, StepError>(addresses.as_slice().to_vec())
//! };
//! parse(1)?;
//! let (mut one, mut two) = (parse(1)?, parse(2)?);
//! let tally = Tally::new(&mut [(1, &mut two), (-1, &mut one)])?;
//! for function in Split::new(&tally, 1, &Loaded::now()).functions(&mut Names::new()) {
//!     println!("{} instructions in {}", function.instructions, function.name);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The names are those of the symbol tables of the program and its shared libraries. Only an address within the size of a symbol has its
//! name. If the program has debug information (`debug = 1` in the profile), functions that were inlined have their own instructions. With `debug = "line-tables-only"`, they have short names and the end of the path of their file.

mod inlined;
mod loaded;
mod names;
mod split;
mod symbols;

pub use loaded::Loaded;
pub use names::Names;
pub use split::{Function, Split};
