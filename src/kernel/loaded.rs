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
    #[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
    if !is_of_the_program(address) {
        let mut object = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        // SAFETY: `object` is valid for the write, and the call has filled it if it finds the address. It then has the
        // loader's name of an object that is loaded, because its code runs. Nothing new is loaded.
        let is_kept = unsafe {
            libc::dladdr(address, object.as_mut_ptr()) == 0
                || !libc::dlopen(object.assume_init().dli_fname, flags).is_null()
        };
        if !is_kept {
            return Err(Errno(super::ENOENT));
        }
    }
    let _ = address;
    Ok(())
}

/// Whether the address is in the program, rather than in a shared object.
#[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
fn is_of_the_program(address: *const c_void) -> bool {
    /// What is asked, and the answer.
    struct Question {
        address: usize,
        is_inside: bool,
    }

    /// Looks at the first object, which is the program.
    ///
    /// # Safety
    /// The arguments are those of `dl_iterate_phdr`, to which a `Question` was passed.
    unsafe extern "C" fn look(
        object: *mut libc::dl_phdr_info,
        _: libc::size_t,
        question: *mut c_void,
    ) -> libc::c_int {
        // SAFETY: by the caller's promise, both are valid during this call, and the headers with the object.
        let (object, question) = unsafe { (&*object, &mut *question.cast::<Question>()) };
        // SAFETY: the object has this many headers.
        let headers =
            unsafe { std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()) };
        question.is_inside = headers.iter().any(|header| {
            let start = (object.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            header.p_type == libc::PT_LOAD
                && question.address.wrapping_sub(start) < header.p_memsz as usize
        });
        1 // no other object
    }

    let mut question = Question { address: address.addr(), is_inside: false };
    // SAFETY: the question is valid during the call, and of the type that `look` expects.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut question).cast()) };
    question.is_inside
}
