//! Stand-ins for `calls.rs` on targets without `perf_event_open`. No event can be opened, so functions that take one
//! are never called.
#![allow(unsafe_code)]

use super::{Attr, ControlPage, Descriptor, Errno};
use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::NonNull;

pub(crate) const EPERM: i32 = 1;
pub(crate) const ENOENT: i32 = 2;
pub(crate) const ESRCH: i32 = 3;
pub(crate) const ECHILD: i32 = 10;
pub(crate) const EINTR: i32 = 4;
pub(crate) const EIO: i32 = 5;
pub(crate) const E2BIG: i32 = 7;
pub(crate) const EAGAIN: i32 = 11;
pub(crate) const ENOMEM: i32 = 12;
pub(crate) const EACCES: i32 = 13;
pub(crate) const EBADF: i32 = 9;
pub(crate) const EBUSY: i32 = 16;
pub(crate) const EEXIST: i32 = 17;
pub(crate) const ENODEV: i32 = 19;
pub(crate) const ENOTDIR: i32 = 20;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const ENFILE: i32 = 23;
pub(crate) const EMFILE: i32 = 24;
pub(crate) const EFBIG: i32 = 27;
pub(crate) const ENOSPC: i32 = 28;
pub(crate) const ENOSYS: i32 = 38;
pub(crate) const EOPNOTSUPP: i32 = 95;

pub(crate) const SUPPORTED: bool = false;

pub(crate) fn open(_: &mut Attr, _: u32, _: Option<&Descriptor>) -> Result<Descriptor, Errno> {
    Err(Errno(ENOSYS))
}
pub(crate) fn thread_id() -> u32 {
    0
}
pub(crate) fn thread_exists(_: u32) -> bool {
    false
}
pub(crate) fn thread_time(_: u32) -> u64 {
    0
}
pub(crate) fn monotonic_raw(_: bool) -> Result<u64, Errno> {
    Err(Errno(ENOSYS))
}
pub(crate) fn realtime() -> u64 {
    0
}
pub(crate) fn time_namespace() -> Option<u64> {
    None
}
pub(crate) fn allowed_cpus() -> Vec<u32> {
    Vec::new()
}
pub(crate) fn current_cpu() -> Option<u32> {
    None
}
pub(crate) fn seccomp_mode() -> Option<i32> {
    None
}
pub(crate) fn ticks_are_forbidden() -> bool {
    true
}
pub(crate) fn map_at(
    event: &Descriptor,
    _: *mut ControlPage,
) -> Result<NonNull<ControlPage>, Errno> {
    match *event {}
}
pub(crate) fn free_place(_: usize) -> Result<*mut ControlPage, Errno> {
    Err(Errno(ENOSYS))
}
/// # Safety
/// Nothing can be mapped here, so there is no page to pass.
pub(crate) unsafe fn unmap_page(_: NonNull<ControlPage>) {}
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    File::open(path)
}
pub(crate) fn cover(_: NonNull<ControlPage>) -> Result<(), Errno> {
    Ok(())
}
/// # Safety
/// Nothing can be mapped here, so there is no page to pass.
pub(crate) unsafe fn replace_by_zeros(_: NonNull<ControlPage>, _: u32) -> Result<(), Errno> {
    Ok(())
}
/// # Safety
/// The handlers are never called.
pub(crate) unsafe fn at_fork(
    _: unsafe extern "C" fn(),
    _: unsafe extern "C" fn(),
    _: unsafe extern "C" fn(),
) -> Result<(), Errno> {
    Ok(())
}
pub(crate) fn process_id() -> u32 {
    0
}
/// A placeholder for the set of signals that a thread has blocked.
pub(crate) type Mask = ();
pub(crate) fn block_signals() -> Option<Mask> {
    None
}
pub(crate) fn restore_signals(_: &Mask) {}
