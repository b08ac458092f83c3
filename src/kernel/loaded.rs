//! Keeps shared objects loaded whose addresses the kernel or other code has for the rest of the process.
#![allow(unsafe_code)]

use super::Errno;
use std::ffi::c_void;

/// Keeps the shared object of an address loaded until the process ends. Does nothing for the program itself, and where the C
/// library unloads nothing (musl, programs that are linked statically).
///
/// # Errors
/// `ENOENT` if the loader no longer finds the object by its name. No such case is known.
pub(crate) fn keep_loaded(address: *const c_void) -> Result<(), Errno> {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(target_feature = "crt-static")))]
    {
        let object_of = |address: *const c_void| {
            let mut object = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
            // SAFETY: `object` is valid for the write, and the call has filled it if it does not return 0.
            unsafe {
                (libc::dladdr(address, object.as_mut_ptr()) != 0).then(|| object.assume_init())
            }
        };
        // SAFETY: the call takes an integer. The program's headers lie in the program.
        let program = object_of(unsafe { libc::getauxval(libc::AT_PHDR) } as *const c_void);
        let Some(object) = object_of(address) else { return Ok(()) };
        if program.is_some_and(|program| program.dli_fbase == object.dli_fbase) {
            return Ok(());
        }
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        // SAFETY: the name is the loader's own, of an object that is loaded, because its code runs. Nothing new is loaded.
        if unsafe { libc::dlopen(object.dli_fname, flags) }.is_null() {
            return Err(Errno(super::ENOENT));
        }
    }
    let _ = address;
    Ok(())
}
