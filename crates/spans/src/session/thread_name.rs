//! The name of a thread.
#![allow(unsafe_code)]

use crate::record::AtomicU64;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::atomic::Ordering;

/// The bytes of a name that the kernel keeps.
const KEPT: usize = 15;

/// The hashes of the names that threads have in Rust, as far as the kernel keeps them. 0 for none.
static NAMES: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];

/// Returns the name of this thread: in Rust, or as the kernel knows it. None if it has none of its own.
pub(super) fn of_this_thread() -> Option<String> {
    remember();
    std::thread::current().name().map(str::to_string).or_else(by_the_kernel)
}

/// Remembers the name that this thread has in Rust: threads that it starts have it in the kernel, too.
pub(crate) fn remember() {
    if let Some(name) = std::thread::current().name() {
        let hash = hash(name.as_bytes());
        // The first free place, unless there is none.
        let _ = NAMES.iter().find(|place| {
            let taken = place.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok() || taken == Err(hash)
        });
    }
}

#[cfg(target_os = "linux")]
fn is_remembered(name: &[u8]) -> bool {
    let hash = hash(name);
    NAMES.iter().any(|place| place.load(Ordering::Relaxed) == hash)
}

fn hash(name: &[u8]) -> u64 {
    let kept = name.get(..KEPT).unwrap_or(name);
    BuildHasherDefault::<DefaultHasher>::default().hash_one(kept).max(1)
}

/// Returns the name that the thread or its creator has set by `prctl` or `pthread_setname_np`, as those of C and C++ do. None for
/// a name that it has inherited: that of the process, or of a thread that has it in Rust.
#[cfg(target_os = "linux")]
fn by_the_kernel() -> Option<String> {
    let mut name = [0_u8; KEPT + 1];
    // SAFETY: the kernel writes 16 bytes, of which the last is 0.
    if unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) } != 0 {
        return None;
    }
    let name = name.split(|byte| *byte == 0).next().filter(|name| !name.is_empty())?;
    // Without it, nobody knows whether the name is inherited.
    let of_process = std::fs::read("/proc/self/comm").ok()?;
    let is_inherited = of_process.strip_suffix(b"\n") == Some(name) || is_remembered(name);
    (!is_inherited).then(|| String::from_utf8_lossy(name).into_owned())
}

#[cfg(not(target_os = "linux"))]
fn by_the_kernel() -> Option<String> {
    None
}

/// Returns the kernel's number of this thread.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) fn kernel_id() -> Option<u32> {
    // SAFETY: takes nothing.
    u32::try_from(unsafe { libc::gettid() }).ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn kernel_id() -> Option<u32> {
    None
}
