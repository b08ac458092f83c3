//! Numbers of 64 bits that a signal handler may read while its thread changes them.

#[cfg(target_has_atomic = "64")]
pub(crate) use std::sync::atomic::AtomicU64;

/// For targets without 64-bit atomics. A handler that interrupts a store there may see half of it.
#[cfg(not(target_has_atomic = "64"))]
#[derive(Debug)]
pub(crate) struct AtomicU64(std::cell::Cell<u64>);

#[cfg(not(target_has_atomic = "64"))]
impl AtomicU64 {
    pub(crate) fn new(value: u64) -> AtomicU64 {
        AtomicU64(std::cell::Cell::new(value))
    }
    pub(crate) fn load(&self, _: std::sync::atomic::Ordering) -> u64 {
        self.0.get()
    }
    pub(crate) fn store(&self, value: u64, _: std::sync::atomic::Ordering) {
        self.0.set(value);
    }
}
