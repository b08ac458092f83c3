//! Four pieces of code, each of which is bound by another part of the pipeline.
//!
//! `cargo run --release -p rdpmc-bench --features topdown --example topdown`

#![allow(clippy::indexing_slicing, reason = "each place is in the ring")]

use rdpmc_bench::Bench;
use std::arch::asm;
use std::hint::black_box;

fn main() -> Result<(), rdpmc::Error> {
    let mut random = Random(1);
    let ring = ring(4 << 20);
    let mut place = 0;

    let mut bench = Bench::with_events(&["instructions"])?;
    bench.topdown();
    bench.row("add: retiring").throughput(|| add(black_box(1)));
    bench.row("branches on random bits: bad speculation").throughput(|| count(&mut random));
    bench.row("256 KiB of code: front end").throughput(much_code);
    bench.row("loads that wait for each other: back end").throughput(|| {
        for _ in 0..100 {
            place = ring[place as usize];
        }
        place
    });
    println!("{}", bench.run());
    Ok(())
}

/// Makes 600 additions in six chains, so that some can start in each cycle.
fn add(start: u64) -> u64 {
    let mut sums = [start, 2, 3, 5, 7, 11];
    for _ in 0..100 {
        for sum in &mut sums {
            // Without this, the compiler computes the sum of all rounds.
            *sum = black_box(*sum).wrapping_add(start);
        }
    }
    sums.iter().fold(0, |all, sum| all ^ sum)
}

/// Takes 1,000 branches by random bits, which no predictor can learn.
fn count(random: &mut Random) -> u64 {
    let mut ones = 0;
    for _ in 0..1_000 {
        if random.next() & 1 == 1 {
            // Without this, the compiler adds the bit and takes no branch.
            ones = black_box(ones + 1);
        }
    }
    ones
}

/// Executes instructions that do nothing, more of them than the instruction cache holds.
#[inline(never)]
fn much_code() {
    // SAFETY: the instructions have no effect.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            ".rept 32768",
            "nop dword ptr [rax + rax + 0x11223344]", // of eight bytes
            ".endr",
            options(nomem, nostack, preserves_flags),
        );
        #[cfg(not(target_arch = "x86_64"))]
        asm!(".rept 65536", "nop", ".endr", options(nomem, nostack, preserves_flags));
    }
}

/// A linear congruential generator (Knuth's MMIX).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.0 >> 33
    }
}

/// Returns a permutation of one cycle. Each place has the next one, somewhere else in 16 MiB.
fn ring(length: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..length as u32).collect();
    let mut random = Random(1);
    for last in (1..length).rev() {
        order.swap(last, random.next() as usize % (last + 1));
    }
    let mut next = vec![0; length];
    for (from, to) in order.iter().zip(order.iter().cycle().skip(1)) {
        next[*from as usize] = *to;
    }
    next
}
