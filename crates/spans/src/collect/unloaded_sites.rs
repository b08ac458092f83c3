//! Sites whose code may have been unloaded.
#![allow(unsafe_code)]

// A site is a static of the program or of a shared object, and a record has its address. The hot path does not look at it, so an
// object may be unloaded before its records are read, and another one may be loaded there. The reader therefore keeps an object
// loaded from the first record on that it sees of it, and trusts an address only if nothing was unloaded since the record was made.

use crate::record::{Site, is_leaked, site_at};
use std::collections::HashMap;

/// In place of sites that may have been unloaded.
pub(crate) static UNLOADED: Site = Site::new("code that may have been unloaded", file!(), line!());

/// The sites of a thread's records.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    known: HashMap<u64, &'static Site>,
    /// How many objects had been unloaded before all records of this collect were made.
    before: Unloads,
    /// How many there were in the last collect, and in this one, if it was found out.
    in_last: Option<Unloads>,
    in_this: Option<Unloads>,
}

/// How many objects have been unloaded from the process.
type Unloads = u64;

/// Whether there still is at an address what was there when its record was made.
enum Trust {
    Always,
    /// Unless fewer than these were unloaded before the record was made.
    #[allow(dead_code, reason = "where nothing is ever unloaded, this is not used")]
    Unless {
        unloads: Unloads,
    },
}

impl Loaded {
    pub(super) fn new() -> Loaded {
        Loaded { before: loader::unloads(), ..Loaded::default() }
    }

    /// Begins a collect. It reads no record that was made before the last collect began, so none from before the one before
    /// that ended.
    pub(super) fn begin_collect(&mut self) {
        self.before = self.in_last.unwrap_or(self.before);
        self.in_last = self.in_this.take();
    }

    /// Returns the site of an address. None for 0.
    ///
    /// # Safety
    /// It is 0 or from `address`, of a static in the program or in an object that was loaded when the record was made.
    pub(super) unsafe fn site(&mut self, address: u64) -> Option<&'static Site> {
        if let Some(known) = self.known.get(&address) {
            return Some(known);
        }
        if address == 0 {
            return None;
        }
        match loader::keep(address as usize) {
            _ if is_leaked(address as usize) => {}
            Trust::Always => {}
            Trust::Unless { unloads } if unloads == self.before => {}
            Trust::Unless { unloads } => {
                self.in_this = Some(unloads);
                return Some(&UNLOADED);
            }
        }
        // SAFETY: nothing was unloaded since the record was made, and the object stays loaded from now on.
        let site = unsafe { site_at(address) }?;
        self.known.insert(address, site);
        Some(site)
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu", not(target_feature = "crt-static"), not(miri)))]
mod loader {
    use super::{Trust, UNLOADED, Unloads};
    use std::ffi::{CStr, c_char, c_int, c_void};
    use std::ptr;
    use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

    /// What the loader knows of an address.
    struct Found {
        address: usize,
        unloads: Unloads,
        /// The first and the last address of the object that has the address. None if there is no such object.
        object: Option<[usize; 2]>,
        /// Its name, which ends with 0. A copy, and not on the heap: the loader is locked meanwhile, and an allocator may use it.
        name: [u8; 1_024],
    }

    unsafe extern "C" fn see(info: *mut libc::dl_phdr_info, _: usize, to: *mut c_void) -> c_int {
        // SAFETY: the loader's structure, and `find` passes a Found, which nobody else uses meanwhile.
        let (info, found) = unsafe { (&*info, &mut *to.cast::<Found>()) };
        found.unloads = info.dlpi_subs;
        if info.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: the object has as many headers, and is not unloaded while the loader calls this.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let ranges = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
            let first = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            [first, first.wrapping_add(header.p_memsz as usize)]
        });
        let has_it = |[first, end]: [usize; 2]| (first..end).contains(&found.address);
        if !ranges.clone().any(has_it) {
            return 0;
        }
        let (firsts, ends) = (ranges.clone().map(|range| range[0]), ranges.map(|range| range[1]));
        found.object = firsts.min().zip(ends.max()).map(|(first, end)| [first, end]);
        if !info.dlpi_name.is_null() {
            // SAFETY: the loader's own name, which ends with 0.
            let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes_with_nul();
            if let Some(to) = found.name.get_mut(..name.len()) {
                to.copy_from_slice(name);
            }
        }
        1
    }

    fn find(address: usize) -> Found {
        let mut found = Found { address, unloads: 0, object: None, name: [0; 1_024] };
        // SAFETY: `see` gets the structures of the loader, and `found`.
        unsafe { libc::dl_iterate_phdr(Some(see), (&raw mut found).cast()) };
        found
    }

    /// The objects that are not unloaded while this runs: the program, and the one that has this library.
    static STABLE: [[AtomicUsize; 2]; 2] = [const { [const { AtomicUsize::new(0) }; 2] }; 2];

    fn is_stable(address: usize) -> bool {
        STABLE.iter().any(|object| {
            let [first, end] = object.each_ref().map(|of| of.load(Ordering::Relaxed));
            (first..end).contains(&address)
        })
    }

    /// Whether this is a child of the process that first asked. Its loader may be locked for ever, by a thread that it has not.
    fn is_child() -> bool {
        static PROCESS: AtomicU32 = AtomicU32::new(0);
        let this = std::process::id();
        match PROCESS.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                // SAFETY: takes an integer.
                let of_program = unsafe { libc::getauxval(libc::AT_PHDR) } as usize;
                for (to, of) in STABLE.iter().zip([of_program, ptr::from_ref(&UNLOADED).addr()]) {
                    let ends = find(of).object.unwrap_or_default();
                    to.iter().zip(ends).for_each(|(to, end)| to.store(end, Ordering::Relaxed));
                }
                false
            }
            Err(first) => first != this,
        }
    }

    pub(super) fn unloads() -> Unloads {
        if is_child() { 0 } else { find(0).unloads }
    }

    /// Keeps the object of an address loaded, and returns whether it is the one that was there.
    pub(super) fn keep(address: usize) -> Trust {
        let is_child = is_child();
        if is_stable(address) {
            return Trust::Always;
        }
        if is_child {
            return Trust::Unless { unloads: Unloads::MAX };
        }
        let found = find(address);
        // An address in no object is one of the heap, or of an object that is gone: then more are unloaded.
        if found.object.is_none() {
            return Trust::Unless { unloads: found.unloads };
        }
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        let has_name = found.name.first().is_some_and(|first| *first != 0);
        // SAFETY: the name is a copy, and ends with 0. Nothing new is loaded.
        let is_kept = has_name
            && !unsafe { libc::dlopen(found.name.as_ptr().cast::<c_char>(), flags) }.is_null();
        // Once it is kept: another thread may have unloaded it before.
        let unloads = if is_kept { find(address).unloads } else { Unloads::MAX };
        Trust::Unless { unloads }
    }
}

// Nothing is unloaded: musl's `dlclose` keeps objects, and a static program has none.
#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(miri)
)))]
mod loader {
    use super::{Trust, Unloads};

    pub(super) fn unloads() -> Unloads {
        0
    }

    pub(super) fn keep(_: usize) -> Trust {
        Trust::Always
    }
}
