//! Keeps shared objects loaded whose addresses the kernel or other code has for the rest of the process.
#![allow(unsafe_code)]

use super::Errno;
use std::ffi::c_void;

/// Keeps the shared object of an address loaded until the process ends. Does nothing for the program itself, or without a
/// dynamic loader.
///
/// # Errors
/// `ENOENT` if the loader no longer finds the object by its name. No such case is known.
#[cfg(not(target_feature = "crt-static"))]
pub(crate) fn keep_loaded(address: *const c_void) -> Result<(), Errno> {
    let object_of = |address: *const c_void| {
        // SAFETY: a structure of addresses, for which zeros are valid.
        let mut object: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: the call compares the address, and `object` is valid for the write.
        let is_known = unsafe { libc::dladdr(address, &raw mut object) } != 0;
        is_known.then_some(object)
    };
    let Some(ours) = object_of(address) else { return Ok(()) };
    // SAFETY: the call takes an integer.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) } as usize;
    let program = object_of(std::ptr::without_provenance(headers));
    if program.is_some_and(|program| program.dli_fbase == ours.dli_fbase) {
        return Ok(());
    }
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    // SAFETY: the loader's name of the object, which is loaded while its code runs. Nothing new is loaded.
    let handle = unsafe { libc::dlopen(ours.dli_fname, flags) };
    if handle.is_null() { Err(Errno(super::ENOENT)) } else { Ok(()) }
}

/// A program that is linked statically is never unloaded.
#[cfg(target_feature = "crt-static")]
pub(crate) fn keep_loaded(_: *const c_void) -> Result<(), Errno> {
    Ok(())
}
