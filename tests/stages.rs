//! The promises of examples/stages.rs: its loop makes no allocation and no system call. The emulated machines run it
//! without system calls and with counters that are read (`a_loop_of_stages`).
#![cfg(target_os = "linux")]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![allow(unsafe_code)]

mod process;
mod skips;
#[allow(dead_code)]
#[path = "../examples/stages.rs"]
mod stages;

use rdpmc::Clock;
use rdpmc::clock::ClockKind;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

const MESSAGES: usize = 10_000;

#[test]
fn a_loop_of_stages_allocates_nothing() {
    let feed = stages::feed();
    let mut meter = stages::Meter::open().unwrap();
    let before = ALLOCATIONS.get();
    stages::run(&mut meter, &feed, MESSAGES);
    assert_eq!(ALLOCATIONS.get(), before);
    assert_eq!(meter.recorded().0, 3 * MESSAGES as u64);
    drop(black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.get(), before + 1, "the control");
}

#[test]
fn a_loop_of_stages_makes_no_system_call() {
    if let ClockKind::Kernel(why) = Clock::open().unwrap().kind() {
        let why = format!("a tick is a call of the kernel's clock here: {why}");
        return skips::skip("a_loop_of_stages_makes_no_system_call", &why);
    }
    let feed = stages::feed();
    let ends = |obedient| {
        process::wait(process::fork(|| {
            let mut meter = std::mem::ManuallyDrop::new(stages::Meter::open().unwrap());
            process::allow_only(libc::SYS_exit_group);
            stages::run(&mut meter, &feed, MESSAGES);
            if obedient {
                return 0;
            }
            process::monotonic_raw(); // a system call
            1
        }))
    };
    assert_eq!(ends(true), 0, "the wait status");
    assert_eq!(libc::WTERMSIG(ends(false)), libc::SIGSYS, "what ends the control");
}

/// The system's allocator, with the number of each thread's allocations.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is the condition of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the condition of the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
