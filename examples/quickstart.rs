//! Measures three workloads and prints a table, what one operation of each costs. For code too short for
//! that, see `region.rs`.
//!
//! `cargo run --release --example quickstart`

use rdpmc::error::OpenError;
use rdpmc::{Counter, Event};
use std::hint::black_box;
use std::time::Instant;

/// What is counted. The hardware's last: read last before the work and first after it, so that what
/// reading the others costs is not in their counts.
const EVENTS: [Event; 4] =
    [Event::PAGE_FAULTS, Event::BRANCH_MISSES, Event::INSTRUCTIONS, Event::CYCLES];

type Counters = [Result<Counter, OpenError>; 4];

fn main() {
    // So that a read that the processor refuses, say since the administrator switched user access off
    // meanwhile, is an answer like any other.
    let _ = rdpmc::contain_faults();
    let counters =
        EVENTS.map(|event| Counter::builder(event).allow_all_privilege_levels(true).open());

    println!("|   ns/op | cycles/op |  ins/op |  IPC | branch-misses/op | faults/op | workload");
    println!("|--------:|----------:|--------:|-----:|-----------------:|----------:|:--------");
    let numbers: Vec<u64> = (0..1 << 12).collect();
    measure("sum of an array", numbers.len(), &counters, || {
        black_box(numbers.iter().fold(0, |sum: u64, n| black_box(sum + n)));
    });
    // More of them than a branch predictor remembers from run to run.
    let random = shuffled(1 << 16);
    measure("unpredictable branches", random.len(), &counters, || {
        let mut taken = 0;
        for place in black_box(&random) {
            if place % 2 == 0 {
                taken = black_box(taken + 1);
            }
        }
        black_box(taken);
    });
    let next = one_cycle(1 << 20);
    let mut place = 0;
    measure("pointer chasing, 8 MiB", 1 << 12, &counters, || {
        for _ in 0..1 << 12 {
            place = next.get(place).copied().unwrap_or(0);
        }
        black_box(place);
    });

    println!();
    print_how_they_were_read(&counters);
}

/// Nanoseconds, and a count for each of [`EVENTS`] that could be counted.
struct Sample {
    nanoseconds: f64,
    counts: [Option<f64>; 4],
}

/// What one run of `work` takes.
fn sample(counters: &Counters, work: &mut impl FnMut()) -> Sample {
    let read = |counter: &Result<Counter, OpenError>| counter.as_ref().ok()?.read().ok();
    let start = Instant::now();
    let before = counters.each_ref().map(read);
    work();
    let mut after = [None; 4];
    for (after, counter) in after.iter_mut().zip(counters).rev() {
        *after = read(counter);
    }
    let nanoseconds = start.elapsed().as_nanos() as f64;
    let mut counts = before.into_iter().zip(after);
    let counts = std::array::from_fn(|_| {
        let (before, after) = counts.next()?;
        Some(after?.saturating_sub(before?) as f64)
    });
    Sample { nanoseconds, counts }
}

/// The fastest of some runs.
fn fastest(counters: &Counters, mut work: impl FnMut()) -> Sample {
    let mut best = sample(counters, &mut work);
    for _ in 1..50 {
        let next = sample(counters, &mut work);
        if next.nanoseconds < best.nanoseconds {
            best = next;
        }
    }
    best
}

/// Prints what one operation of `work` takes, less what measuring nothing takes.
fn measure(name: &str, operations: usize, counters: &Counters, work: impl FnMut()) {
    let nothing = fastest(counters, || ());
    let work = fastest(counters, work);
    let per_operation = |count: f64, nothing: f64| (count - nothing).max(0.0) / operations as f64;
    let mut counts = work.counts.into_iter().zip(nothing.counts);
    let [faults, branch_misses, instructions, cycles] = std::array::from_fn(|_| {
        let (count, nothing) = counts.next()?;
        Some(per_operation(count?, nothing?))
    });
    // Of two counters by themselves. Where others take turns with them, their counts are not of the same
    // moments: examples/group.rs has them counted together.
    let ratio = match (instructions, cycles) {
        (Some(instructions), Some(cycles)) if cycles > 0.0 => Some(instructions / cycles),
        _ => None,
    };
    println!(
        "| {} | {} | {} | {} | {} | {} | {name}",
        cell(Some(per_operation(work.nanoseconds, nothing.nanoseconds)), 7),
        cell(cycles, 9),
        cell(instructions, 7),
        cell(ratio, 4),
        cell(branch_misses, 16),
        cell(faults, 9),
    );
}

/// A number with two decimals, or a dash where nothing could be counted.
fn cell(number: Option<f64>, width: usize) -> String {
    match number {
        Some(number) => format!("{number:width$.2}"),
        None => format!("{:>width$}", "-"),
    }
}

/// Says of each event how it was read, or why not: the same sentence once, for all that it is true of.
fn print_how_they_were_read(counters: &Counters) {
    let mut sentences: Vec<(String, Vec<String>)> = Vec::new();
    for (event, counter) in EVENTS.iter().zip(counters) {
        let event = event.to_string();
        let sentence = match counter {
            Ok(counter) => {
                let all = if counter.counts_all_privilege_levels() {
                    ", the kernel's share included"
                } else {
                    ""
                };
                let low = match counter.reading() {
                    Ok(reading) if reading.is_multiplexed() => {
                        ", and low: it had to take turns with others"
                    }
                    _ => "",
                };
                format!("{}{all}{low}", counter.access())
            }
            Err(why) => why.to_string().replacen(&event, "the event", 1),
        };
        match sentences.iter_mut().find(|(known, _)| *known == sentence) {
            Some((_, events)) => events.push(event),
            None => sentences.push((sentence, vec![event])),
        }
    }
    for (sentence, events) in sentences {
        println!("{}: {sentence}.", events.join(", "));
    }
}

/// The numbers below `length` in an order that no predictor knows.
fn shuffled(length: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..length).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..length).rev() {
        // xorshift64
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        numbers.swap(last, (random % (last as u64 + 1)) as usize);
    }
    numbers
}

/// For each place the next one to visit, so that all of them form one cycle.
fn one_cycle(length: usize) -> Vec<usize> {
    let order = shuffled(length);
    let mut next = vec![0; length];
    for (from, to) in order.iter().zip(order.iter().cycle().skip(1)) {
        if let Some(place) = next.get_mut(*from) {
            *place = *to;
        }
    }
    next
}
