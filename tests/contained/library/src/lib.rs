//! Reads of pages that report a counter where there is none: every `rdpmc` faults, on any x86-64 machine without an
//! open event.
#![allow(unreachable_pub)]

pub use rdpmc::contain_faults;
use rdpmc::internals::abi::capability;
use rdpmc::internals::{Reader, is_none_in_the_library};
use rdpmc::region::{Disturbed, Region};
use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Returns a file with the control page of an event that has the first counter.
fn page() -> std::io::Result<OwnedFd> {
    // SAFETY: the descriptor is new and has no other owner.
    let memory =
        unsafe { File::from_raw_fd(libc::memfd_create(c"page".as_ptr(), libc::MFD_CLOEXEC)) };
    memory.set_len(4096)?;
    memory.write_all_at(&2u32.to_ne_bytes(), 8)?; // lock
    memory.write_all_at(&1u32.to_ne_bytes(), 12)?; // index
    let capabilities = capability::BIT0_IS_DEPRECATED | capability::USER_RDPMC;
    memory.write_all_at(&capabilities.to_ne_bytes(), 40)?;
    memory.write_all_at(&48u16.to_ne_bytes(), 48)?; // pmc_width
    Ok(memory.into())
}

fn reader<const N: usize>() -> Reader<N> {
    let events: Vec<OwnedFd> = (0..N).map(|_| page().expect("a file in memory")).collect();
    Reader::map(&events).expect("its pages say that user space may read")
}

/// Returns whether a region's fault is contained. A fault puts zeros in place of the pages, so it changes their locks,
/// and the next region has no counter.
#[inline(always)]
fn region_is_contained<const FENCED: bool>(
    fenced: impl FnOnce(Region<'_, 4>) -> Region<'_, 4, FENCED>,
) -> bool {
    let reader = reader::<4>();
    let region = fenced(reader.region());
    matches!(region.measure(|| ()).1, Err(Disturbed::Interrupted { .. }))
        && region.measure(|| ()).1 == Err(Disturbed::NoCounter)
}

/// Makes reads that all fault, compiled into the calling crate. Returns 0 if each is contained.
///
/// Each read is the first of its handle, because a handle does not read again after a fault.
#[inline(always)]
pub fn check() -> i32 {
    for _ in 0..1_000 {
        let contained = reader::<1>().counts().is_none()
            && reader::<4>().counts().is_none()
            && region_is_contained(|region| region)
            && region_is_contained(|region| region.fenced())
            && is_none_in_the_library(&reader::<1>());
        if !contained {
            return 1;
        }
    }
    0
}
