//! The cost of the operations: the instructions that this thread retires between two calls back to back, by the
//! counter itself. If each instruction counts once, the figures repeat exactly.

#[cfg(feature = "spans")]
pub mod spans;

use crate::harness::Facts;
use rdpmc::error::ErrorKind;
use rdpmc::region::{Delta, Disturbed};
use rdpmc::{Clock, Counter, Event, Group, Region};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

/// The operations and their maximum cost in instructions: design figures, which this file enforces. A fence is one
/// instruction, and a read has two of them.
#[cfg(target_arch = "x86_64")]
pub const LIMITS: &[(&str, u64)] = &[
    ("read_user", 15),
    ("read", 17),
    ("reading", 100),
    ("region", 3),
    ("group4", 48),
    ("snapshot", 16),
    ("snapshot4", 52),
    ("ordered_snapshot4", 54),
    ("group4_region", 18),
    ("group4_region_last", 48),
    ("clock_now", 20),
    ("clock_ticks", 6),
    ("ordered_read_user", 17),
    ("ordered_region", 5),
    ("ordered_group4", 50),
    ("ordered_group4_region", 20),
    ("ordered_clock_now", 22),
    ("large_read_user", 15),
    ("large_group4", 48),
    ("large_group3", 37),
    ("span", 45),
    ("span2", 140),
    ("lap2", 90),
    ("span_off", 4),
];
#[cfg(target_arch = "aarch64")]
pub const LIMITS: &[(&str, u64)] = &[
    ("read_user", 16),
    ("read", 18),
    ("reading", 100),
    ("region", 5),
    ("group4", 62),
    ("snapshot", 17),
    ("snapshot4", 66),
    ("ordered_snapshot4", 68),
    ("group4_region", 24),
    ("group4_region_last", 62),
    ("clock_now", 24),
    ("clock_ticks", 6),
    ("ordered_read_user", 18),
    ("ordered_region", 7),
    ("ordered_group4", 64),
    ("ordered_group4_region", 26),
    ("ordered_clock_now", 26),
    ("large_read_user", 16),
    ("large_group4", 62),
    ("large_group3", 50),
    ("span", 45),
    ("span2", 140),
    ("lap2", 90),
    ("span_off", 4),
];
/// On riscv64, the last of the four events counts no instructions.
#[cfg(target_arch = "riscv64")]
pub const LIMITS: &[(&str, u64)] = &[
    ("read_user", 20),
    ("read", 22),
    ("reading", 100),
    ("region", 5),
    ("group4", 76),
    ("snapshot", 22),
    ("snapshot4", 80),
    ("ordered_snapshot4", 80),
    ("group4_region", 26),
    ("clock_now", 26),
    ("clock_ticks", 6),
    ("ordered_read_user", 20),
    ("ordered_region", 5),
    ("ordered_group4", 76),
    ("ordered_group4_region", 26),
    ("ordered_clock_now", 28),
    ("large_read_user", 20),
    ("large_group4", 76),
    ("span", 50),
    ("span2", 170),
    ("lap2", 105),
    ("span_off", 4),
];

/// A cost and its maximum.
pub struct Cost {
    pub name: &'static str,
    pub instructions: u64,
    pub limit: u64,
}

/// Four events that this PMU counts at the same time, instructions first.
pub const FOUR: [Event; 4] = if cfg!(target_arch = "riscv64") {
    [Event::INSTRUCTIONS, Event::CYCLES, Event::DTLB_LOAD_MISSES, Event::DTLB_STORE_MISSES]
} else {
    [Event::INSTRUCTIONS; 4]
};

/// Returns what this machine and this build can show of LIMITS: if the page has no clock, nothing that uses it.
pub fn expected(facts: &Facts) -> impl Iterator<Item = (&'static str, u64)> {
    let has_clock = facts.say("clock") == Some("page");
    let goes_by_it =
        |name: &str| name.contains("clock") || ["reading", "span", "span2", "lap2"].contains(&name);
    let is_built = |name: &str| {
        cfg!(feature = "spans") || !name.starts_with("span") && !name.starts_with("lap")
    };
    LIMITS
        .iter()
        .copied()
        .filter(move |(name, _)| (has_clock || !goes_by_it(name)) && is_built(name))
}

/// Measures what `expected` returns.
pub fn measure(facts: &Facts) -> Result<Vec<Cost>, rdpmc::Error> {
    rdpmc::contain_faults()?;
    let clock = Clock::open()?;
    let costs = {
        // Alone, because riscv64 has one register for instructions.
        let counter =
            Counter::builder(Event::INSTRUCTIONS).allow_all_privilege_levels(true).open()?;
        let (plain, ordered) = (counter.region()?, counter.region()?.fenced());
        [
            ("read_user", least(|| read_user(&counter))),
            ("read", least(|| read(&counter))),
            ("snapshot", least(|| snapshot(&counter))),
            ("reading", least(|| reading(&counter))),
            ("region", least(|| first(region(&plain)))),
            ("clock_now", clock_now(&counter, &clock)),
            ("clock_ticks", clock_ticks(&counter, &clock)),
            ("ordered_clock_now", ordered_clock_now(&counter, &clock)),
            ("ordered_read_user", least(|| ordered_read_user(&counter))),
            ("ordered_region", least(|| first(region(&ordered)))),
            ("large_read_user", least(|| large_read_user(&counter))),
        ]
    };
    let group = Group::builder(FOUR).allow_all_privilege_levels(true).open()?;
    // On riscv64, a dropped event leaves its register only at the next turn.
    while group.read_user().is_none() && group.reading()?[0].time_enabled() < Duration::from_secs(1)
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (plain, ordered) = (group.region()?, group.region()?.fenced());
    let of_groups = [
        ("group4", least(|| group4(&group))),
        ("snapshot4", least(|| snapshot4(&group))),
        ("ordered_snapshot4", least(|| ordered_snapshot4(&group))),
        ("group4_region", least(|| first(region(&plain)))),
        ("ordered_group4", least(|| ordered_group4(&group))),
        ("ordered_group4_region", least(|| first(region(&ordered)))),
        ("group4_region_last", least(|| Some(region(&plain).ok()?[3]))),
        ("large_group4", least(|| large_group(&group))),
    ];
    drop(group);
    // riscv64 has one register for instructions.
    let three = Group::open([Event::INSTRUCTIONS; 3]).ok();
    let others = [("large_group3", three.and_then(|three| least(|| large_group(&three))))];
    #[cfg(feature = "spans")]
    let of_spans = spans::measure()?;
    #[cfg(not(feature = "spans"))]
    let of_spans = [];
    let costs = costs.iter().chain(&of_groups).chain(&others).chain(&of_spans);
    let measured = |name: &str| costs.clone().find(|(known, _)| *known == name);
    let costs = expected(facts).filter_map(|(name, limit)| {
        let instructions = measured(name)?.1?;
        Some(Cost { name, instructions, limit })
    });
    Ok(costs.collect())
}

/// Returns the minimum of several differences: an interrupt may have added to some.
fn least(sample: impl Fn() -> Option<u64>) -> Option<u64> {
    (0..100).filter_map(|_| sample()).min()
}

#[inline(never)]
fn read_user(counter: &Counter) -> Option<u64> {
    // The result of each call is checked before the next, as a user's program would do.
    let first = black_box(counter).read_user()?;
    let second = counter.read_user()?;
    Some(second - first)
}

#[inline(never)]
fn ordered_read_user(counter: &Counter) -> Option<u64> {
    let first = fenced(|| black_box(counter).read_user())?;
    let second = fenced(|| counter.read_user())?;
    Some(second - first)
}

#[inline(never)]
fn read(counter: &Counter) -> Option<u64> {
    let first = black_box(counter).read().ok()?;
    let second = counter.read().ok()?;
    Some(second - first)
}

#[inline(never)]
fn snapshot(counter: &Counter) -> Option<u64> {
    let first = black_box(counter).snapshot()?;
    let second = counter.snapshot()?;
    let [instructions] = undisturbed(second - first)?;
    Some(instructions)
}

#[inline(never)]
fn snapshot4(group: &Group<4>) -> Option<u64> {
    let first = black_box(group).snapshot()?;
    let second = group.snapshot()?;
    let [instructions, ..] = undisturbed(second - first)?;
    Some(instructions)
}

#[inline(never)]
fn ordered_snapshot4(group: &Group<4>) -> Option<u64> {
    let first = fenced(|| black_box(group).snapshot())?;
    let second = fenced(|| group.snapshot())?;
    let [instructions, ..] = undisturbed(second - first)?;
    Some(instructions)
}

/// The counts, all of which a program uses.
fn undisturbed<const N: usize>(delta: Delta<N>) -> Option<[u64; N]> {
    let delta = black_box(delta);
    delta.disturbed().is_none().then(|| delta.counts())
}

#[inline(never)]
fn reading(counter: &Counter) -> Option<u64> {
    let first = black_box(counter).reading().ok()?;
    let second = counter.reading().ok()?;
    Some(second.value - first.value)
}

#[inline(never)]
fn group4(group: &Group<4>) -> Option<u64> {
    // All counts of both reads are still there at the end, as in a program that computes the differences.
    let first = black_box(group).read_user()?;
    let second = group.read_user()?;
    let [instructions, ..] = difference(second, first);
    Some(instructions)
}

#[inline(never)]
fn ordered_group4(group: &Group<4>) -> Option<u64> {
    let first = fenced(|| black_box(group).read_user())?;
    let second = fenced(|| group.read_user())?;
    let [instructions, ..] = difference(second, first);
    Some(instructions)
}

/// Reads between two fences, as a program does whose instructions must not move across the read.
#[inline(always)]
fn fenced<T>(read: impl FnOnce() -> T) -> T {
    rdpmc::fence();
    let counts = read();
    rdpmc::fence();
    counts
}

fn difference<const N: usize>(mut second: [u64; N], first: [u64; N]) -> [u64; N] {
    for (second, first) in second.iter_mut().zip(first) {
        *second -= first;
    }
    black_box(second)
}

/// Reads 24 times in one function, where the compiler would rather call the read than inline it each time. Returns
/// the most expensive pair of reads.
macro_rules! from_a_large_function {
    ($read:expr, $difference:expr) => {{
        let mut most = 0;
        from_a_large_function!(@twelve, most, $read, $difference);
        Some(most)
    }};
    (@twelve, $most:ident, $read:expr, $difference:expr) => {
        from_a_large_function!(@three, $most, $read, $difference);
        from_a_large_function!(@three, $most, $read, $difference);
        from_a_large_function!(@three, $most, $read, $difference);
        from_a_large_function!(@three, $most, $read, $difference);
    };
    (@three, $most:ident, $read:expr, $difference:expr) => {
        from_a_large_function!(@pair, $most, $read, $difference);
        from_a_large_function!(@pair, $most, $read, $difference);
        from_a_large_function!(@pair, $most, $read, $difference);
    };
    (@pair, $most:ident, $read:expr, $difference:expr) => {
        let first = $read?;
        let second = $read?;
        $most = u64::max($most, $difference(second, first));
    };
}

#[inline(never)]
fn large_read_user(counter: &Counter) -> Option<u64> {
    from_a_large_function!(counter.read_user(), |second: u64, first| second - first)
}

#[inline(never)]
fn large_group<const N: usize>(group: &Group<N>) -> Option<u64> {
    let of_the_first = |second, first| {
        let difference: [u64; N] = difference(second, first);
        difference.into_iter().next().unwrap_or(u64::MAX)
    };
    from_a_large_function!(group.read_user(), of_the_first)
}

/// An empty region.
#[inline(never)]
fn region<const N: usize, const FENCED: bool>(
    region: &Region<'_, N, FENCED>,
) -> Result<[u64; N], Disturbed> {
    let start = region.start()?;
    region.stop(start)
}

fn first<const N: usize>(counts: Result<[u64; N], Disturbed>) -> Option<u64> {
    counts.ok()?.first().copied()
}

/// Defines the cost of one more call: three back to back, minus two, by a counter around them.
macro_rules! one_more {
    ($name:ident, $call:expr) => {
        #[inline(never)]
        fn $name(counter: &Counter, clock: &Clock) -> Option<u64> {
            #[inline(never)]
            fn two(counter: &Counter, clock: &Clock) -> Option<u64> {
                let first = black_box(counter).read_user()?;
                let times = [$call(clock), $call(clock)];
                let second = counter.read_user()?;
                black_box(times);
                Some(second - first)
            }
            #[inline(never)]
            fn three(counter: &Counter, clock: &Clock) -> Option<u64> {
                let first = black_box(counter).read_user()?;
                let times = [$call(clock), $call(clock), $call(clock)];
                let second = counter.read_user()?;
                black_box(times);
                Some(second - first)
            }
            let two = least(|| two(counter, clock))?;
            Some(least(|| three(counter, clock))? - two)
        }
    };
}
one_more!(clock_now, |clock: &Clock| clock.now());
one_more!(clock_ticks, |clock: &Clock| clock.ticks());
one_more!(ordered_clock_now, |clock: &Clock| clock.now_ordered());

/// Prints a line for each: `cost NAME INSTRUCTIONS`. On a machine without a PMU on purpose there are none.
pub fn print(facts: &Facts) -> ExitCode {
    match measure(facts) {
        Err(error) if matches!(error.kind(), ErrorKind::NoPmu { .. }) && facts.say_no_pmu() => {
            println!("cost: none, {error}");
            ExitCode::SUCCESS
        }
        Ok(costs) => {
            for Cost { name, instructions, .. } in &costs {
                println!("cost {name} {instructions}");
            }
            let is_limited = facts.say("limits") != Some("none");
            let is_within = |cost: &Cost| cost.instructions <= cost.limit || !is_limited;
            let all_within = costs.iter().all(is_within);
            ExitCode::from(u8::from(!all_within || costs.len() < expected(facts).count()))
        }
        Err(error) => {
            println!("cost: {error}");
            ExitCode::FAILURE
        }
    }
}
