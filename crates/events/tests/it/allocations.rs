//! A lookup does not allocate.
#![allow(unsafe_code)]

use rdpmc_events::Table;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counted;

thread_local!(static ALLOCATIONS: Cell<usize> = const { Cell::new(0) });

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

#[test]
fn a_lookup_does_not_allocate() {
    for (table, name) in [
        ("skylakex", "mem_load_retired.l3_miss"),
        ("ZEN4", "EX_RET_INSTR"),
        ("neoverse-n1", "inst_retired"),
    ] {
        let before = ALLOCATIONS.get();
        let event = Table::named(table).map(|table| table.event(name));
        assert_eq!(ALLOCATIONS.get(), before, "{table}::{name}");
        assert!(event.is_some_and(|event| event.is_ok()), "{table}::{name}");
    }
}
