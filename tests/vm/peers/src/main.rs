//! What others' operations cost, in the same unit and by the same counter as `guest`'s `cost`: the
//! instructions that this thread retires in user mode, and what the kernel adds for a system call is
//! not among them. x86-64, the only processor that perf-event2 reads from user space.

use perf_event::events::Hardware;
use rdpmc::{Counter, Event};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    match measure() {
        Ok(costs) => {
            for (name, instructions) in costs {
                println!("cost peer:{name} {instructions}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("cost of peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<Vec<(&'static str, u64)>, Box<dyn std::error::Error>> {
    let ours = Counter::open(Event::INSTRUCTIONS)?;
    let builder = || perf_event::Builder::new(Hardware::INSTRUCTIONS);
    let sampler = builder().exclude_kernel(true).exclude_hv(true).enabled(true).build()?;
    let sampler = sampler.sampled(0)?;
    let mut counter = builder().exclude_kernel(true).exclude_hv(true).enabled(true).build()?;
    let measured = [
        ("perf-event2:read_user", least(|| read_user(&sampler))),
        ("perf-event2:read", least(|| read(&mut counter))),
        ("std:Instant::now", least(|| now(&ours))),
    ];
    let measured: Option<Vec<_>> =
        measured.into_iter().map(|(name, cost)| Some((name, cost?))).collect();
    measured.ok_or_else(|| "a read had no answer".into())
}

/// The least of several: an interrupt may have added to some, and to the first what is set up then.
fn least(mut sample: impl FnMut() -> Option<u64>) -> Option<u64> {
    (0..100).filter_map(|_| sample()).min()
}

/// Their own counts, back to back, as ours are.
#[inline(never)]
fn read_user(sampler: &perf_event::Sampler) -> Option<u64> {
    let first = black_box(sampler).read_user().count()?;
    let second = sampler.read_user().count()?;
    Some(second - first)
}

#[inline(never)]
fn read(counter: &mut perf_event::Counter) -> Option<u64> {
    let first = black_box(&mut *counter).read().ok()?;
    let second = counter.read().ok()?;
    Some(second - first)
}

/// Between two of our reads, less what these take.
#[inline(never)]
fn now(ours: &Counter) -> Option<u64> {
    let first = black_box(ours).read_user()?;
    let second = ours.read_user()?;
    black_box(Instant::now());
    let third = ours.read_user()?;
    Some((third - second) - (second - first))
}
