//! A shared object with the library built in.

/// Returns 0 if every fault is contained.
#[unsafe(no_mangle)]
pub extern "C" fn contain_and_check() -> i32 {
    library::contain_faults().map_or(2, |()| library::check())
}
