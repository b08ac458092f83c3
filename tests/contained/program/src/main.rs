//! Exits with 0 if every fault is contained: in this program, or in the shared object that is named. With `without`,
//! faults are not contained, and end the program.

use std::ffi::{CString, c_int};

fn main() {
    let status = match std::env::args().nth(1).as_deref() {
        None => {
            library::contain_faults().expect("signals can be handled");
            library::check()
        }
        Some("without") => library::check(),
        Some(plugin) => {
            // With FIRST, this program contains its faults before the shared object does, and both after.
            let first = std::env::var_os("FIRST").is_some();
            if first {
                library::contain_faults().expect("signals can be handled");
            }
            let name = CString::new(plugin).expect("no zero in it");
            // SAFETY: the shared object is ours, and its function has this type.
            unsafe {
                let object = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
                assert!(!object.is_null(), "{plugin} is not loaded");
                let function = libc::dlsym(object, c"contain_and_check".as_ptr());
                assert!(!function.is_null(), "{plugin} has no such function");
                let function =
                    std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> c_int>(function);
                function() + if first { library::check() } else { 0 }
            }
        }
    };
    std::process::exit(status);
}
