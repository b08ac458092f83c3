//! Measures three workloads, and prints a table of the cost of one operation of each.
//!
//! For shorter code, see the example `region` of rdpmc-bench.
//!
//! `cargo run --release --example quickstart`

use rdpmc::error::OpenError;
use rdpmc::{Counter, Event};
use std::hint::black_box;
use std::time::Instant;

/// The events. The hardware events are last: they are read last before the work and first after it, so their counts
/// do not include the reads of the others.
const EVENTS: [Event; 4] =
    [Event::PAGE_FAULTS, Event::BRANCH_MISSES, Event::INSTRUCTIONS, Event::CYCLES];

type Counters = [Result<Counter, OpenError>; 4];

fn main() {
    // A read that faults then returns no count, and does not kill the process. It faults after the administrator has
    // revoked user access, for example.
    let _ = rdpmc::contain_faults();
    let counters =
        EVENTS.map(|event| Counter::builder(event).allow_all_privilege_levels(true).open());

    println!("|   ns/op | cycles/op |  ins/op |  IPC | branch-misses/op | faults/op | workload");
    println!("|--------:|----------:|--------:|-----:|-----------------:|----------:|:--------");
    let numbers: Vec<u64> = (0..1 << 12).collect();
    measure("sum of an array", numbers.len(), &counters, || {
        black_box(numbers.iter().fold(0, |sum: u64, n| black_box(sum + n)));
    });
    // More numbers than a branch predictor remembers from run to run.
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

/// The nanoseconds, and a count for each of [`EVENTS`] that could be counted.
struct Sample {
    nanoseconds: f64,
    counts: [Option<f64>; 4],
}

/// Measures one run of `work`.
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

/// Returns the fastest of 50 runs.
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

/// Prints the cost of one operation of `work`. The cost of measuring is subtracted.
fn measure(name: &str, operations: usize, counters: &Counters, work: impl FnMut()) {
    let nothing = fastest(counters, || ());
    let work = fastest(counters, work);
    let per_operation = |count: f64, nothing: f64| (count - nothing).max(0.0) / operations as f64;
    let mut counts = work.counts.into_iter().zip(nothing.counts);
    let [faults, branch_misses, instructions, cycles] = std::array::from_fn(|_| {
        let (count, nothing) = counts.next()?;
        Some(per_operation(count?, nothing?))
    });
    // These are separate counters. If they are multiplexed, their counts are of different times. examples/group.rs
    // counts them together.
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

/// Formats a number with two decimals, or a dash if it could not be counted.
fn cell(number: Option<f64>, width: usize) -> String {
    match number {
        Some(number) => format!("{number:width$.2}"),
        None => format!("{:>width$}", "-"),
    }
}

/// Prints how each event was read, or why not. Events with equal sentences share a line.
fn print_how_they_were_read(counters: &Counters) {
    let mut sentences: Vec<(String, Vec<String>)> = Vec::new();
    for (event, counter) in EVENTS.iter().zip(counters) {
        let event = event.to_string();
        let sentence = match counter {
            Ok(counter) => {
                let all = if counter.counts_all_privilege_levels() {
                    ", including the kernel"
                } else {
                    ""
                };
                let low = match counter.reading() {
                    Ok(reading) if reading.is_multiplexed() => {
                        ", and low because the event was multiplexed"
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

/// Returns the numbers below `length` in an unpredictable order.
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

/// Returns the index to visit after each index, so that all of them form one cycle.
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
