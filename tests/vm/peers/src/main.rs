//! The cost of other libraries' operations, in the unit and by the counter of `guest`'s `cost`: the instructions that
//! this thread retires in user mode. What the kernel adds for a system call is not included.

use perf_event::events::Hardware;
use rdpmc::{Counter, Event};
use std::hint::black_box;
use std::os::fd::AsRawFd;
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
    rdpmc::contain_faults()?;
    let ours = Counter::builder(Event::INSTRUCTIONS).allow_all_privilege_levels(true).open()?;
    let quanta = quanta::Clock::new();
    let mut measured = vec![
        ("std:Instant::now", over_a_second(|| one(&ours, Instant::now))),
        ("quanta:Clock::now", over_a_second(|| one(&ours, || quanta.now()))),
        ("minstant:Instant::now", over_a_second(|| one(&ours, minstant::Instant::now))),
    ];
    let builder = || perf_event::Builder::new(Hardware::INSTRUCTIONS);
    let open = || builder().exclude_kernel(true).exclude_hv(true).enabled(true).build();
    // The only architecture on which perf-event2 reads from user space.
    if cfg!(target_arch = "x86_64") {
        let sampler = open()?.sampled(0)?;
        measured.push(("perf-event2:read_user", least(|| read_user(&sampler))));
    }
    // A counter of instructions that includes the kernel's says little about the caller's.
    if !ours.counts_all_privilege_levels() {
        let mut counter = open()?;
        let descriptor = counter.as_raw_fd();
        measured.push(("perf-event2:read", least(|| read(&mut counter))));
        measured.push(("libc:read(2)", one(&ours, || read_2(descriptor))));
    }
    let measured: Option<Vec<_>> =
        measured.into_iter().map(|(name, cost)| Some((name, cost?))).collect();
    measured.ok_or_else(|| "a read had no answer".into())
}

/// Returns the minimum of several: an interrupt adds to some, and one-time set-up to the first.
fn least(mut sample: impl FnMut() -> Option<u64>) -> Option<u64> {
    (0..100).filter_map(|_| sample()).min()
}

/// Returns the minimum over several moments of a second: carrying nanoseconds over to the next second takes the C
/// library's clock some instructions more.
fn over_a_second(mut sample: impl FnMut() -> Option<u64>) -> Option<u64> {
    let moments = (0..8).filter_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(140));
        sample()
    });
    moments.min()
}

/// Two reads by perf-event2, back to back, like ours.
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

/// Reads as a program without a library would.
fn read_2(descriptor: i32) -> Option<u64> {
    let mut words = [0_u64; 3];
    // SAFETY: `words` is valid for the write of its size.
    let bytes = unsafe { libc::read(descriptor, words.as_mut_ptr().cast(), size_of_val(&words)) };
    let [count, ..] = words;
    (bytes > 0).then_some(count)
}

/// Returns the cost of one more call, as in `guest`'s costs: three back to back, minus two, between two of our reads.
fn one<T>(ours: &Counter, call: impl Fn() -> T) -> Option<u64> {
    let two = least(|| two(ours, &call))?;
    least(|| three(ours, &call))?.checked_sub(two)
}

#[inline(never)]
fn two<T>(ours: &Counter, call: impl Fn() -> T) -> Option<u64> {
    let first = black_box(ours).read_user()?;
    let called = [call(), call()];
    let second = ours.read_user()?;
    black_box(called);
    Some(second - first)
}

#[inline(never)]
fn three<T>(ours: &Counter, call: impl Fn() -> T) -> Option<u64> {
    let first = black_box(ours).read_user()?;
    let called = [call(), call(), call()];
    let second = ours.read_user()?;
    black_box(called);
    Some(second - first)
}
