//! Measures three workloads and prints a table, what one operation of each costs; and three pieces of
//! code that are too short for that, by regions.
//!
//! `cargo run --release --example quickstart`

use rdpmc::{Access, Counter, Error, Event, Group};
use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

/// What is counted. The hardware's last: read last before the work and first after it, so that what
/// reading the others costs is not in their counts.
const EVENTS: [Event; 4] =
    [Event::PAGE_FAULTS, Event::BRANCH_MISSES, Event::INSTRUCTIONS, Event::CYCLES];

type Counters = [Result<Counter, Error>; 4];

fn main() {
    // So that a read that the processor refuses, say since the administrator switched user access off
    // meanwhile, is an answer like any other.
    let _ = rdpmc::contain_faults();
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

    println!();
    for line in how_they_were_read(&counters) {
        println!("{line}");
    }
    println!();
    drop(counters); // the PMU has few counters
    if let Err(why) = measure_short_code() {
        println!("Short code is not measured: {why}.");
    }
}

/// Prints what code of nanoseconds takes.
fn measure_short_code() -> Result<(), Error> {
    let group =
        Group::builder([Event::CYCLES, Event::INSTRUCTIONS]).allow_unfiltered(true).open()?;
    let region = group.region()?.ordered();
    println!("| cycles: least | median |  90% |  ins | disturbed | one run of");
    println!("|--------------:|-------:|-----:|-----:|----------:|:----------");
    let row = |name: &str, code: &mut dyn FnMut()| {
        // Once in one region and twice in another: what both have in common cancels.
        let samples = region.sample_by_difference(1_000, code);
        let found = (samples.minimum(), samples.median(), samples.quantile(0.9));
        if let (Some([least, _]), Some([median, instructions]), Some([most, _])) = found {
            let disturbed = samples.disturbed();
            println!(
                "| {least:13} | {median:6} | {most:4} | {instructions:4} | {disturbed:9} | {name}"
            );
        } else {
            println!("|             - |      - |    - |    - | {:9} | {name}", samples.disturbed());
        }
    };
    let known: HashMap<u32, u32> = (0..1_000).map(|n| (n * n, n)).collect();
    row("parsing a number of ten digits", &mut || {
        black_box(black_box("4294967295").parse::<u32>().ok());
    });
    row("looking up a number in a HashMap", &mut || {
        black_box(known.get(&black_box(123 * 123)));
    });
    row("sorting eight numbers", &mut || {
        let mut numbers = black_box([3, 1, 4, 1, 5, 9, 2, 6]);
        numbers.sort_unstable();
        black_box(numbers);
    });
    Ok(())
}

/// Nanoseconds, and a count for each of [`EVENTS`] that could be counted.
struct Sample {
    nanoseconds: f64,
    counts: [Option<f64>; 4],
}

/// What one run of `work` takes.
fn sample(counters: &Counters, work: &mut impl FnMut()) -> Sample {
    let read = |counter: &Result<Counter, Error>| counter.as_ref().ok()?.read().ok();
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

/// Which counts came without a system call, and why others did not or are missing.
fn how_they_were_read(counters: &Counters) -> Vec<String> {
    let (mut user, mut system, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    // Each cause once, with the events it stopped.
    let mut causes: Vec<(String, Vec<String>)> = Vec::new();
    let mut because =
        |event: Event, cause: String| match causes.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, events)) => events.push(event.to_string()),
            None => causes.push((cause, vec![event.to_string()])),
        };
    for (event, counter) in EVENTS.into_iter().zip(counters) {
        let counter = match counter {
            Ok(counter) => counter,
            Err(why) => {
                missing.push(event.to_string());
                // The same sentence for every event it is true of.
                because(event, why.to_string().replacen(&event.to_string(), "the event", 1));
                continue;
            }
        };
        match counter.access() {
            Access::UserSpace => user.push(event.to_string()),
            access => {
                system.push(event.to_string());
                because(event, access.to_string());
            }
        }
        if counter.is_unfiltered() {
            because(event, "the kernel is included, this PMU cannot leave it out".into());
        }
        if counter.reading().is_ok_and(|reading| reading.is_multiplexed()) {
            because(event, "had no counter part of the time (too many events, or another core type), so it is low".into());
        }
    }
    let list = |events: &[String]| match events {
        [] => "none".into(),
        events => events.join(", "),
    };
    let mut lines: Vec<String> =
        causes.iter().map(|(cause, events)| format!("{}: {cause}.", list(events))).collect();
    lines.push(format!(
        "Read from user space: {}. By system call: {}. Not available: {}.",
        list(&user),
        list(&system),
        list(&missing)
    ));
    lines
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
