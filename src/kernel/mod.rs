//! Floor 1: the kernel's interface for counting, its system calls, facts about the machine from `/proc` and `/sys`,
//! the conversion of ticks to nanoseconds, and lists without a lock. Uses nothing else of this library.

pub mod abi;
mod atomic_u64;
#[cfg_attr(not(target_os = "linux"), path = "calls_none.rs")]
mod calls;
pub(crate) mod conversion;
#[cfg_attr(not(target_os = "linux"), path = "descriptor_none.rs")]
mod descriptor;
mod errno;
mod files;
mod growing_list;
mod loaded_objects;
pub(crate) mod machine;
pub(crate) mod text;
pub(crate) mod threads;
mod unreadable;

pub(crate) use abi::*;
pub(crate) use atomic_u64::AtomicU64;
pub(crate) use calls::*;
pub(crate) use descriptor::Descriptor;
pub use errno::Errno;
pub(crate) use files::read_file;
pub(crate) use growing_list::List;
pub(crate) use loaded_objects::keep_loaded;
#[cfg(target_os = "linux")]
pub(crate) use loaded_objects::{Header, Object, object_here};
pub(crate) use text::{Thousands, Visible};
pub(crate) use unreadable::Unreadable;

/// A request for [`Descriptor::control`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    Enable,
    Disable,
    Reset,
}
