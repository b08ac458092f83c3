//! Reads of pages that report a counter where there is none: every `rdpmc` faults, on any x86-64 machine without an
//! open event.
#![allow(unreachable_pub)]

use rdpmc::Event;
pub use rdpmc::contain_faults;
use rdpmc::internals::abi::capability;
use rdpmc::internals::{Reader, is_none_in_the_library};
use rdpmc::order::{Ordered, Unordered};
use rdpmc::region::Disturbed;
use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Returns a file with the control page of an event that has the first counter.
fn page() -> std::io::Result<OwnedFd> {
    // SAFETY: the descriptor is new and has no other owner.
    let memory =
        unsafe { File::from_raw_fd(libc::memfd_create(c"page".as_ptr(), libc::MFD_CLOEXEC)) };
    memory.set_len(4096)?;
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

/// Makes reads that all fault, compiled into the calling crate. Returns 0 if each is contained.
#[inline(always)]
pub fn check() -> i32 {
    let (one, four) = (reader::<1>(), reader::<4>());
    let events = [Event::INSTRUCTIONS; 4];
    let (plain, ordered) = (four.region::<Unordered>(&events), four.region::<Ordered>(&events));
    let faulted = |sample| sample == Err(Disturbed::Faulted);
    for _ in 0..1_000 {
        let contained = one.counts::<Unordered>().is_none()
            && one.counts::<Ordered>().is_none()
            && four.counts::<Unordered>().is_none()
            && four.counts::<Ordered>().is_none()
            && faulted(plain.measure(|| ()).1)
            && faulted(ordered.measure(|| ()).1)
            && is_none_in_the_library(&one);
        if !contained {
            return 1;
        }
    }
    0
}
