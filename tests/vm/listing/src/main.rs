//! The hot path, inlined from the library into functions of this crate, for `tests/vm/list` to disassemble. The
//! functions return what fits into registers, so that the listing does not show how a larger result is returned.

use rdpmc::{Clock, Counter, Event, Group, Region, fence};
use std::hint::black_box;

#[unsafe(no_mangle)]
#[inline(never)]
pub fn read_user(counter: &Counter) -> Option<u64> {
    counter.read_user()
}

#[unsafe(no_mangle)]
#[inline(never)]
pub fn read_user_ordered(counter: &Counter) -> Option<u64> {
    fence();
    let count = counter.read_user();
    fence();
    count
}

#[unsafe(no_mangle)]
#[inline(never)]
pub fn group_of_four(group: &Group<4>) -> Option<u64> {
    let [a, b, c, d] = group.read_user()?;
    Some(a ^ b ^ c ^ d)
}

#[unsafe(no_mangle)]
#[inline(never)]
pub fn group_of_four_ordered(group: &Group<4>) -> Option<u64> {
    fence();
    let counts = group.read_user();
    fence();
    let [a, b, c, d] = counts?;
    Some(a ^ b ^ c ^ d)
}

/// Start and stop with nothing between. The code between the two reads is what a region adds.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn region(region: &Region<'_, 1>) -> Option<u64> {
    let start = region.start().ok()?;
    let [count] = region.stop(start).ok()?;
    Some(count)
}

#[unsafe(no_mangle)]
#[inline(never)]
pub fn region_ordered(region: &Region<'_, 1, true>) -> Option<u64> {
    let start = region.start().ok()?;
    let [count] = region.stop(start).ok()?;
    Some(count)
}

#[unsafe(no_mangle)]
#[inline(never)]
pub fn now(clock: &Clock) -> u64 {
    clock.now()
}

#[unsafe(no_mangle)]
#[inline(never)]
pub fn now_ordered(clock: &Clock) -> u64 {
    clock.now_ordered()
}

/// Reads in a function that is larger than the shortest branches reach (32 KiB on arm64, 4 KiB on riscv64): the code of the
/// retries is behind it.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn in_a_large_function(counter: &Counter, group: &Group<4>) -> Option<u64> {
    let count = counter.read_user()?;
    let [a, b, c, d] = group.read_user()?;
    // SAFETY: `nop` does nothing.
    #[cfg(target_os = "linux")]
    unsafe {
        std::arch::asm!(".rept 12000", "nop", ".endr", options(nomem, nostack, preserves_flags));
    }
    Some(count ^ a ^ b ^ c ^ d)
}

fn main() {
    // This never runs. It only keeps the functions.
    if let (Ok(counter), Ok(group)) =
        (Counter::open(Event::CYCLES), Group::open([Event::CYCLES; 4]))
    {
        black_box((read_user(&counter), read_user_ordered(&counter)));
        black_box((group_of_four(&group), group_of_four_ordered(&group)));
        black_box(in_a_large_function(&counter, &group));
        black_box(Clock::open().ok().map(|clock| (now(&clock), now_ordered(&clock))));
        black_box(counter.region().ok().and_then(|plain| region(&plain)));
        black_box(counter.region().ok().and_then(|region| region_ordered(&region.fenced())));
    }
}
