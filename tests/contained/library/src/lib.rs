//! The library's own files, and reads of pages that say there is a counter where there is none: every
//! `rdpmc` faults, on any x86-64 machine without an open event.
#![allow(dead_code, unreachable_pub, clippy::enum_variant_names)]

#[path = "../../../../asm/x86_64.rs"]
mod asm;
#[path = "../../../../src/error.rs"]
mod error;
#[path = "../../../../src/event.rs"]
mod event;
#[path = "../../../../src/faults.rs"]
mod faults;
#[path = "../../../../src/field.rs"]
mod field;
#[path = "../../../../src/fork.rs"]
mod fork;
#[path = "../../../../src/math.rs"]
mod math;
#[path = "../../../../src/modifiers.rs"]
mod modifiers;
#[path = "../../../../src/names.rs"]
mod names;
#[path = "../../../../src/overhead.rs"]
mod overhead;
#[path = "../../../../src/page.rs"]
mod page;
#[path = "../../../../src/pmu.rs"]
mod pmu;
#[path = "../../../../src/read.rs"]
mod read;
#[path = "../../../../src/region.rs"]
mod region;
#[path = "../../../../src/syntax.rs"]
mod syntax;
#[path = "../../../../src/sys.rs"]
mod sys;

use error::Disturbed;
pub use faults::contain_faults;
use read::Reader;
use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// A file with a control page of an event that has the first counter.
fn page() -> std::io::Result<OwnedFd> {
    // SAFETY: a new descriptor, which nobody else knows.
    let memory =
        unsafe { File::from_raw_fd(libc::memfd_create(c"page".as_ptr(), libc::MFD_CLOEXEC)) };
    memory.set_len(4096)?;
    memory.write_all_at(&1u32.to_ne_bytes(), 12)?; // index
    let capabilities = sys::capability::BIT0_IS_DEPRECATED | sys::capability::USER_RDPMC;
    memory.write_all_at(&capabilities.to_ne_bytes(), 40)?;
    memory.write_all_at(&48u16.to_ne_bytes(), 48)?; // pmc_width
    Ok(memory.into())
}

fn reader<const N: usize>() -> Reader<N> {
    let events: Vec<OwnedFd> = (0..N).map(|_| page().expect("a file in memory")).collect();
    let process = fork::Process::current().expect("it can be watched");
    let pages = page::Pages::map(events.iter(), process).expect("it can be mapped");
    Reader::new(pages.expect("nobody forks")).expect("it says that user space may read")
}

/// Reads that all fault, compiled into the crate that calls this: 0 if each is contained.
#[inline(always)]
pub fn check() -> i32 {
    let (one, four) = (reader::<1>(), reader::<4>());
    let region = region::Region::new(&four, &[event::Event::INSTRUCTIONS; 4]);
    let faulted = |sample| sample == Err(Disturbed::Faulted);
    for _ in 0..1_000 {
        let contained = one.counts::<false>().is_none()
            && one.counts::<true>().is_none()
            && four.counts::<false>().is_none()
            && four.counts::<true>().is_none()
            && faulted(region.measure(|| ()).1)
            && faulted(region.ordered().measure(|| ()).1)
            && not_inlined(&one);
        if !contained {
            return 1;
        }
    }
    0
}

/// Reads in the library itself, wherever that is.
#[inline(never)]
fn not_inlined(reader: &Reader<1>) -> bool {
    reader.counts::<false>().is_none()
}
