//! Floor 1: the kernel's interface for counting, its system calls, facts about the machine from `/proc` and `/sys`,
//! the conversion of ticks to nanoseconds, and lists without a lock. Uses nothing else of this library.

pub mod abi;
#[cfg_attr(not(target_os = "linux"), path = "calls_none.rs")]
mod calls;
pub(crate) mod conversion;
#[cfg_attr(not(target_os = "linux"), path = "descriptor_none.rs")]
mod descriptor;
mod errno;
mod files;
mod loaded;
pub(crate) mod machine;
mod publish;
pub(crate) mod threads;
mod unreadable;
pub(crate) mod visible;
mod wide;

pub(crate) use abi::*;
pub(crate) use calls::*;
pub(crate) use descriptor::Descriptor;
pub use errno::Errno;
pub(crate) use files::read_file;
pub(crate) use loaded::keep_loaded;
#[cfg(target_os = "linux")]
pub(crate) use loaded::{Object, object_of};
pub(crate) use publish::List;
pub(crate) use unreadable::Unreadable;
pub(crate) use visible::{Thousands, Visible};
pub(crate) use wide::AtomicU64;

/// A request for [`Descriptor::control`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    Enable,
    Disable,
    Reset,
}
