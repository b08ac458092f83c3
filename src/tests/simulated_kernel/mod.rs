//! The library's reads, run against a simulated kernel.
//!
//! They are the library's own code and assembly, with a control page in shared memory, and `rdpmc` is executed for
//! real. It faults in this process, because no counter is mapped. A handler answers with the simulated register that
//! ECX names, and steps over the instruction. The handler, a trap after every single instruction, and a second thread
//! play the kernel, which may move the event at any of these moments.
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod costs;
mod counts;
mod event;
mod groups;
mod kernel;
mod regions;
mod stepper;
mod times;

use super::reader::{Reader, map};
