//! Atomic numbers of 64 bits on every target.

#[cfg(not(target_has_atomic = "64"))]
pub(crate) use portable_atomic::AtomicU64;
#[cfg(target_has_atomic = "64")]
pub(crate) use std::sync::atomic::AtomicU64;
