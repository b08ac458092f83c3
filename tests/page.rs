//! The control page on every machine: that of an event which counts nothing is as real as any. The
//! library's files are compiled into this test, to get at what is not public.
#![cfg(target_os = "linux")]
#![allow(missing_docs, dead_code, unreachable_pub, unused_imports)]

#[path = "../src/fork.rs"]
mod fork;
#[path = "../src/math.rs"]
mod math;
#[path = "../src/page.rs"]
mod page;
mod process;
mod skips;
#[path = "../src/sys.rs"]
mod sys;

use fork::Process;
use page::Page;
use process::{in_child, perf_mappings};
use sys::{Attr, Errno, kind, software};

#[test]
fn mapped_unmapped_and_lost_in_a_fork() -> Result<(), Errno> {
    let mut attr = Attr {
        type_: kind::SOFTWARE,
        config: software::DUMMY,
        size: sys::ATTR_SIZES[0],
        flags: sys::flag::EXCLUDE_KERNEL,
        ..Attr::default()
    };
    let mut open = || sys::open(&mut attr);
    let event = match open() {
        Ok(event) => event,
        Err(errno) => {
            skips::skip("mapped_unmapped_and_lost_in_a_fork", &format!("{errno:?}"));
            return Ok(());
        }
    };
    let process = Process::current()?;
    for _ in 0..10_000 {
        // A new event each: the kernel takes its time to map one anew.
        Page::map(&open()?)?;
    }
    assert_eq!(perf_mappings(), 0);

    let [first, second, third] = [Page::map(&event)?, Page::map(&event)?, Page::map(&event)?];
    assert_eq!(perf_mappings(), 3);
    let is_real = |page: &Page| page.capabilities().are_sure() && page.lock() > 0;
    assert!(is_real(&first) && is_real(&second) && is_real(&third));
    // Out of the middle of the list of mappings.
    drop(second);

    let is_zeros = |page: &Page| {
        let zeros = page.lock() == 0 && page.times() == (0, 0) && page.conversion().is_none();
        if zeros { Ok(()) } else { Err(format!("{page:?} at lock {}", page.lock())) }
    };
    in_child(|| {
        is_zeros(&first)?;
        is_zeros(&third)?;
        if !process.is_past() || perf_mappings() != 0 {
            return Err("the fork went unnoticed".to_owned());
        }
        in_child(|| is_zeros(&first).and_then(|()| is_zeros(&third)))?;
        // SAFETY: read out once: the parent's variable is forgotten by the _exit that ends this
        // child.
        drop(unsafe { std::ptr::read(&first) });
        is_zeros(&third)
    })
    .unwrap_or_else(|why| panic!("{why}"));
    assert!(!process.is_past() && is_real(&first) && is_real(&third));
    Ok(())
}
