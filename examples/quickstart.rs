//! Measures three small workloads and prints a table: what one operation of each costs.
//!
//! `cargo run --release --example quickstart`

use rdpmc::{Access, Counter, Error, Event};
use std::hint::black_box;
use std::time::Instant;

/// What is counted, in the order of the table's columns.
const EVENTS: [Event; 4] =
    [Event::CYCLES, Event::INSTRUCTIONS, Event::BRANCH_MISSES, Event::PAGE_FAULTS];

fn main() {
    let counters = EVENTS.map(|event| Counter::builder(event).allow_unfiltered(true).open());

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

    println!("\n{}", how_they_were_read(&counters));
}

/// The four counts, where there are any.
fn read(counters: &[Result<Counter, Error>; 4]) -> [Option<u64>; 4] {
    counters.each_ref().map(|counter| counter.as_ref().ok()?.read().ok())
}

/// Runs `work` a number of times and prints the fastest run's counts for each of its operations.
fn measure(
    name: &str,
    operations: usize,
    counters: &[Result<Counter, Error>; 4],
    mut work: impl FnMut(),
) {
    let mut best: Option<(f64, [Option<f64>; 4])> = None;
    for _ in 0..50 {
        let before = read(counters);
        let start = Instant::now();
        work();
        let nanoseconds = start.elapsed().as_nanos() as f64;
        let after = read(counters);
        if best.is_none_or(|(fastest, _)| nanoseconds < fastest) {
            let mut counts = before.into_iter().zip(after);
            let count = std::array::from_fn(|_| {
                let (before, after) = counts.next()?;
                Some(after?.saturating_sub(before?) as f64)
            });
            best = Some((nanoseconds, count));
        }
    }
    let Some((nanoseconds, [cycles, instructions, branch_misses, faults])) = best else { return };
    let per_operation = |count: Option<f64>| count.map(|count| count / operations as f64);
    let ratio = instructions.zip(cycles).map(|(instructions, cycles)| instructions / cycles);
    println!(
        "| {} | {} | {} | {} | {} | {} | {name}",
        cell(per_operation(Some(nanoseconds)), 7),
        cell(per_operation(cycles), 9),
        cell(per_operation(instructions), 7),
        cell(ratio, 4),
        cell(per_operation(branch_misses), 16),
        cell(per_operation(faults), 9),
    );
}

/// A number with two decimals, or a dash where nothing could be counted.
fn cell(number: Option<f64>, width: usize) -> String {
    match number {
        Some(number) => format!("{number:width$.2}"),
        None => format!("{:>width$}", "-"),
    }
}

/// Which columns came without a system call, and why others did not or are empty.
fn how_they_were_read(counters: &[Result<Counter, Error>; 4]) -> String {
    let mut lines = Vec::new();
    let (mut user, mut system, mut empty) = (Vec::new(), Vec::new(), Vec::new());
    for (event, counter) in EVENTS.iter().zip(counters) {
        match counter {
            Err(why) => {
                empty.push(event.to_string());
                // The same cause, said once, for the first event it stopped.
                if empty.len() == 1 {
                    lines.push(format!("Columns are empty because {why}."));
                }
            }
            Ok(counter) => match counter.access() {
                Access::UserSpace => user.push(event.to_string()),
                access => {
                    system.push(event.to_string());
                    if *event != Event::PAGE_FAULTS {
                        lines.push(format!("{event}: {access}."));
                    }
                }
            },
        }
        if counter.as_ref().is_ok_and(Counter::is_unfiltered) {
            lines.push(format!("{event} includes the kernel: this PMU cannot leave it out."));
        }
    }
    let list = |events: Vec<String>| {
        if events.is_empty() { "none".into() } else { events.join(", ") }
    };
    lines.push(format!(
        "Read from user space: {}. By system call: {}. Not available: {}.",
        list(user),
        list(system),
        list(empty)
    ));
    lines.join("\n")
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
