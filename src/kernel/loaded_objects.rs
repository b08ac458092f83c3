//! Shared objects: keeps those loaded whose addresses the kernel or other code has for the rest of the process, and finds their code.
#![allow(unsafe_code)]

use super::Errno;
use std::ffi::c_void;
#[cfg(target_os = "linux")]
use std::ops::Range;

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

/// Where the program or a shared object is loaded.
#[cfg(target_os = "linux")]
#[derive(PartialEq)]
pub(crate) struct Object {
    /// From its first segment to its last.
    pub(crate) all: Range<usize>,
    /// Its readable code.
    pub(crate) code: Vec<Range<usize>>,
}

/// Returns the object that has this address. Takes a lock of the loader, so it is not for a child of `fork`.
#[cfg(target_os = "linux")]
pub(crate) fn object_of(address: *const c_void) -> Option<Object> {
    struct Wanted {
        address: usize,
        found: Option<Object>,
    }

    /// # Safety
    /// `object` describes an object that is loaded, and `wanted` is that of the call below.
    unsafe extern "C" fn look(
        object: *mut libc::dl_phdr_info,
        _: usize,
        wanted: *mut c_void,
    ) -> libc::c_int {
        // SAFETY: the caller promises both. The loader's headers have this number of entries.
        let (wanted, start, headers) = unsafe {
            let object = &*object;
            let headers = match object.dlpi_phdr.is_null() {
                true => &[],
                false => std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()),
            };
            (&mut *wanted.cast::<Wanted>(), object.dlpi_addr as usize, headers)
        };
        const CODE: u32 = libc::PF_R | libc::PF_X;
        let (mut first, mut last, mut has_address) = (usize::MAX, 0, false);
        let mut code = Vec::new();
        for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
            let from = start.wrapping_add(header.p_vaddr as usize);
            let range = from..from.wrapping_add(header.p_memsz as usize);
            (first, last) = (first.min(range.start), last.max(range.end));
            has_address |= range.contains(&wanted.address);
            if header.p_flags & CODE == CODE {
                code.push(range);
            }
        }
        if !has_address {
            return 0; // the next object
        }
        wanted.found = Some(Object { all: first..last, code });
        1
    }

    let mut wanted = Wanted { address: address.addr(), found: None };
    // SAFETY: the call passes what `look` needs, during the call alone.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut wanted).cast()) };
    wanted.found
}
