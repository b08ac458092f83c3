//! Floor 1: the kernel's interface for counting, its system calls, facts about the machine from `/proc` and `/sys`,
//! and the conversion of ticks to nanoseconds. Uses nothing else of this library.

pub mod abi;
#[cfg_attr(not(target_os = "linux"), path = "calls_none.rs")]
mod calls;
pub(crate) mod conversion;
mod errno;
mod files;
pub(crate) mod machine;
mod unreadable;
mod visible;

pub(crate) use abi::*;
pub(crate) use calls::*;
pub use errno::Errno;
pub(crate) use files::read_file;
pub use unreadable::Unreadable;
pub(crate) use visible::{Thousands, Visible};

/// A request for [`control`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    Enable,
    Disable,
    Reset,
}
