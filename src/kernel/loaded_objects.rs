//! Shared objects: keeps those loaded whose addresses the kernel or other code has for the rest of the process, and finds their code.
#![allow(unsafe_code)]

use super::Errno;
use std::ffi::c_void;
#[cfg(target_os = "linux")]
use std::ops::Range;
#[cfg(target_os = "linux")]
use std::ptr;

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

/// The ELF header of the program or of a shared object.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy)]
pub(crate) struct Header(*const c_void);

#[cfg(target_os = "linux")]
impl Header {
    pub(crate) fn address(self) -> *const c_void {
        self.0
    }
}

/// Returns the ELF header of the object that this is inlined into. The linker has it: the loader, asked for an
/// object's headers, takes a lock that a child of `fork` may never get.
#[cfg(target_os = "linux")]
#[inline(always)]
pub(crate) fn object_here() -> Header {
    unsafe extern "C" {
        // GNU's linkers, LLD and mold define it in each object that they link, hidden from other objects.
        static __ehdr_start: u8;
    }
    Header((&raw const __ehdr_start).cast())
}

/// Where the program or a shared object is loaded.
#[cfg(target_os = "linux")]
#[derive(PartialEq)]
pub(crate) struct Object {
    /// Its ELF header.
    pub(crate) header: usize,
    /// Its readable code.
    pub(crate) code: Vec<Range<usize>>,
}

#[cfg(target_os = "linux")]
impl Object {
    /// Reads the headers of an object.
    ///
    /// # Safety
    /// The object is loaded.
    pub(crate) unsafe fn at(Header(header): Header) -> Object {
        #[cfg(target_pointer_width = "32")]
        use libc::{Elf32_Ehdr as Contents, Elf32_Phdr as Segment};
        #[cfg(target_pointer_width = "64")]
        use libc::{Elf64_Ehdr as Contents, Elf64_Phdr as Segment};
        const CODE: u32 = libc::PF_R | libc::PF_X;

        // The headers are more than the static that `object_here` declares.
        let start = ptr::with_exposed_provenance::<c_void>(header.expose_provenance());
        // SAFETY: the header is from `object_here`: a linker that defines the address has put the ELF header there, and the program headers into the same segment.
        // Both are aligned in the file, and nothing writes them.
        let segments = unsafe {
            let header = &*start.cast::<Contents>();
            let first = start.wrapping_byte_add(header.e_phoff as usize).cast::<Segment>();
            std::slice::from_raw_parts(first, header.e_phnum.into())
        };
        let loaded = || segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD);
        // The segment at the beginning of the file has the header.
        let first = loaded().find(|segment| segment.p_offset == 0);
        let moved = first.map_or(0, |first| start.addr().wrapping_sub(first.p_vaddr as usize));
        let code = loaded().filter(|segment| segment.p_flags & CODE == CODE).map(|segment| {
            let from = moved.wrapping_add(segment.p_vaddr as usize);
            from..from.wrapping_add(segment.p_memsz as usize)
        });
        Object { header: start.addr(), code: code.collect() }
    }
}
