//! Where the slots of known work go, exactly. The emulated PMU derives them from instructions, branches and loads: see
//! `tests/vm/qemu-x86-pmu/pmu.c`.

use super::Entry;
use crate::cost;
use crate::harness::{Facts, Outcome, Stop, equal, require};
use rdpmc::{Access, Counter, DynGroup, Event};
use rdpmc_bench::{Bench, Quantity, Verdict};
use rdpmc_events::topdown::{Formula, Level1, Level2, Topdown};
use rdpmc_spans::{Counters, Settings, span};
use rdpmc_testing::kernels::countdown;
use std::arch::asm;
use std::hint::black_box;
use std::time::Duration;

pub const ALL: &[Entry] = &[
    ("topdown_of_random_mixtures", topdown_of_random_mixtures),
    ("topdown_level2_of_random_mixtures", topdown_level2_of_random_mixtures),
    ("topdown_in_bench", topdown_in_bench),
    ("topdown_in_spans", topdown_in_spans),
    ("topdown_beside_too_many_events", topdown_beside_too_many_events),
];

/// Work of a known number of instructions, branches and loads.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    /// Rounds of two instructions, one of which is a branch.
    branches: u64,
    /// Rounds of three, one of which is a load, and one a branch.
    loads: u64,
    /// Rounds of ten, one of which is a branch.
    additions: u64,
}

impl Work {
    /// Each piece takes as many instructions without a round as with some.
    #[inline(never)]
    fn run(self) {
        let Work { branches, loads, additions } = black_box(self);
        countdown(branches);
        let word = 7_u64;
        // SAFETY: reads a local variable, and works on its own registers.
        unsafe {
            asm!(
                "test {left}, {left}", "jz 3f",
                "2:", "mov {to}, [{from}]", "dec {left}", "jnz 2b",
                "3:",
                left = inout(reg) loads => _, to = out(reg) _, from = in(reg) &word,
                options(readonly, nostack),
            );
            asm!(
                "test {left}, {left}", "jz 3f",
                "2:", ".rept 8", "add {sum}, {left}", ".endr", "dec {left}", "jnz 2b",
                "3:",
                left = inout(reg) additions => _, sum = inout(reg) 0_u64 => _,
                options(nomem, nostack),
            );
        }
    }

    /// Returns its instructions, branches and loads, without those of no round.
    fn events(self) -> [u64; 3] {
        let Work { branches, loads, additions } = self;
        [2 * branches + 3 * loads + 10 * additions, branches + loads + additions, loads]
    }
}

/// The slots of each part of the four, and the memory's, of known work.
fn expected(work: Work, slots_per_instruction: u64) -> [u64; 6] {
    let [instructions, branches, loads] = work.events();
    let all = slots_per_instruction * instructions;
    let (retiring, bad, backend_bound) = (5 * instructions, 2 * branches, 3 * loads);
    [all, retiring, bad, all - retiring - bad - backend_bound, backend_bound, 2 * loads]
}

/// The same by an analysis.
fn found(level1: &Level1) -> [f64; 5] {
    let Level1 { slots, retiring, bad_speculation, frontend_bound, backend_bound, .. } = level1;
    [*slots, retiring.slots, bad_speculation.slots, frontend_bound.slots, backend_bound.slots]
}

fn topdown_of_random_mixtures(facts: &Facts) -> Outcome {
    let slots = fact(facts, "slots");
    let topdown = Topdown::open().map_err(|why| Stop::Failed(why.to_string()))?;
    equal("access", topdown.group().access(), Access::UserSpace)?;
    let formula = topdown.formula();
    equal("events", formula.events().len() as u64, fact(facts, "topdown_events"))?;
    let events = formula.events().len();
    // A read that the kernel interrupts is repeated, which takes more instructions.
    let counts = |work: Work| -> Result<Vec<u64>, Stop> {
        for _ in 0..100 {
            let before = topdown.group().snapshot();
            work.run();
            let after = topdown.group().snapshot();
            let (Some(before), Some(after)) = (before, after) else { continue };
            let delta = after - before;
            if delta.disturbed().is_none() {
                return Ok(delta.counts().into_iter().take(events).collect());
            }
        }
        Err(Stop::Failed(format!("{work:?} was disturbed each time")))
    };
    let nothing = counts(Work::default())?;
    let mut random = Random(1);
    let mut memory = 0;
    for _ in 0..1_000 {
        let work = Work {
            branches: random.below(2_000),
            loads: 1 + random.below(2_000),
            additions: random.below(2_000),
        };
        let counted = counts(work)?;
        let counted: Vec<u64> =
            counted.iter().zip(&nothing).map(|(count, nothing)| count - nothing).collect();
        let level1 = formula.level1(&counted).ok_or_else(|| format!("no slots: {counted:?}"))?;
        let [all, retiring, bad, frontend_bound, backend_bound, of_memory] = expected(work, slots);
        let parts = [all, retiring, bad, frontend_bound, backend_bound].map(|slots| slots as f64);
        equal(&format!("{work:?}"), found(&level1), parts)?;
        let fraction = |slots: u64| slots as f64 / all as f64;
        equal("retiring", level1.retiring.fraction, fraction(retiring))?;
        equal("backend bound", level1.backend_bound.fraction, fraction(backend_bound))?;
        equal("the rest", level1.rest, 0.0)?;
        equal("disagreement", level1.disagreement(), None)?;
        if let Some(part) = level1.memory_bound {
            equal("memory", part.slots, of_memory as f64)?;
            memory += 1;
        }
    }
    let sample = formula.level1(&counts(Work { branches: 100, loads: 900, additions: 10 })?);
    let sample = sample.ok_or_else(|| "no slots".to_owned())?;
    println!("{}: {sample}; 1,000 mixtures exact, {memory} with memory", formula.cpus());
    require(sample.to_string().starts_with("retiring 2"), || sample.to_string())
}

/// The events of both levels are more than AMD's counters, so they are counted in turns: known work has the same counts each time.
fn topdown_level2_of_random_mixtures(facts: &Facts) -> Outcome {
    const AT_ONCE: usize = 4;
    let slots = fact(facts, "slots");
    let formula = Formula::of_this_cpu().map_err(|why| Stop::Failed(why.to_string()))?;
    let Some(formula) = formula.with_level2() else {
        equal("a CPU without a second level", facts.say("memory"), Some("no"))?;
        return Ok(());
    };
    let counts = |work: Work| -> Result<Vec<u64>, Stop> {
        let mut counts = Vec::new();
        for events in formula.events().chunks(AT_ONCE) {
            let group = DynGroup::open(events)?;
            let counted = (0..100).find_map(|_| {
                let before = group.snapshot();
                work.run();
                let delta = group.snapshot()? - before?;
                delta.disturbed().is_none().then(|| delta.counts())
            });
            let counted = counted.ok_or_else(|| format!("{work:?} was disturbed each time"))?;
            counts.extend(counted.into_iter().take(events.len()));
        }
        Ok(counts)
    };
    let nothing = counts(Work::default())?;
    let mut random = Random(2);
    for _ in 0..100 {
        let work = Work {
            branches: 1 + random.below(2_000),
            loads: 1 + random.below(2_000),
            additions: random.below(2_000),
        };
        let counted: Vec<u64> =
            counts(work)?.iter().zip(&nothing).map(|(count, nothing)| count - nothing).collect();
        let level2 = formula.level2(&counted).ok_or_else(|| format!("no slots: {counted:?}"))?;
        let [instructions, branches, loads] = work.events();
        // In one cycle of each instruction, which has three.
        let latency = slots / 3 * instructions;
        let expected = [branches, branches, latency, 2 * loads];
        let Level2 { heavy_operations, branch_mispredicts, fetch_latency, memory_bound, .. } =
            level2;
        let found = [heavy_operations, branch_mispredicts, fetch_latency, memory_bound];
        let all = (slots * instructions) as f64;
        for (part, expected) in found.iter().zip(expected) {
            near(&format!("{work:?}: {}", part.rests_on), part.fraction, expected as f64 / all)?;
        }
        equal("disagreement", level2.disagreement(), None)?;
    }
    let sample = formula.level2(&counts(Work { branches: 100, loads: 900, additions: 10 })?);
    let sample = sample.ok_or_else(|| "no slots".to_owned())?;
    println!("{}: {sample}; 100 mixtures exact in both levels", formula.cpus());
    require(sample.to_string().contains("(branch mispredicts "), || sample.to_string())
}

/// The share of retiring slots of any code: 5 of those of each instruction.
fn retiring(facts: &Facts) -> f64 {
    5.0 / fact(facts, "slots") as f64
}

fn fact(facts: &Facts, name: &str) -> u64 {
    facts.number(name).unwrap_or_else(|| panic!("these machines have the fact {name}"))
}

fn near(what: &str, found: f64, expected: f64) -> Outcome {
    require((found - expected).abs() < 1e-9, || format!("{what} is {found}, should be {expected}"))
}

fn topdown_in_bench(facts: &Facts) -> Outcome {
    let mut bench = Bench::with_events(&["instructions"])?;
    bench.time_per_row(Duration::from_millis(5)).ignore_arguments().processes(1).topdown();
    bench.row("branches").throughput(|| countdown(black_box(100)));
    bench.row("loads").throughput(|| Work { loads: 100, ..Work::default() }.run());
    let results = bench.run();
    equal("missing", results.missing().len(), 0)?;
    let mut backend_bounds = Vec::new();
    for row in results.rows() {
        let percent = |quantity: Quantity| -> Result<f64, Stop> {
            let figure = row.figure(quantity).ok_or_else(|| format!("{quantity}: {results}"))?;
            require(matches!(figure.verdict, Verdict::Exact | Verdict::Stable), || {
                format!("{quantity} is {figure:?}")
            })?;
            Ok(figure.estimate.value)
        };
        let parts = [
            percent(Quantity::Retiring)?,
            percent(Quantity::BadSpeculation)?,
            percent(Quantity::FrontendBound)?,
            percent(Quantity::BackendBound)?,
        ];
        near("retiring", parts[0], 100.0 * retiring(facts))?;
        near("the sum", parts.iter().sum(), 100.0)?;
        backend_bounds.push(parts[3]);
        // Zen 4 needs seven events for it, and has six counters: they are counted in rounds.
        if facts.say("memory") == Some("yes") && parts[3] > 0.0 {
            near("memory", percent(Quantity::MemoryBound)? / parts[3], 2.0 / 3.0)?;
        }
    }
    println!("{results}");
    require(backend_bounds[0] < 1.0 && backend_bounds[1] > 3.0, || {
        format!("back end: {backend_bounds:?}")
    })
}

fn topdown_in_spans(facts: &Facts) -> Outcome {
    let [span_cost, lap_cost] = cost::spans::topdown()?;
    println!("cost of a top-down span {span_cost}, lap {lap_cost}");
    equal("the cost of a span", span_cost, fact(facts, "topdown_span"))?;
    equal("the cost of a lap", lap_cost, fact(facts, "topdown_lap"))?;
    let settings = Settings::new().topdown().counters(Counters::Always).slowest(1);
    let mut recording = settings.start().map_err(|why| why.to_string())?;
    for loads in [100, 200, 10_000] {
        let _span = span!("loads");
        Work { loads, ..Work::default() }.run();
    }
    let interval = recording.take();
    let report = interval.report();
    let row = &report.rows[0];
    let level1 = row.topdown().ok_or_else(|| format!("no slots: {report}"))?;
    near("retiring", level1.retiring.fraction, retiring(facts))?;
    equal("the rest", level1.rest, 0.0)?;
    // Loads of the call beside those of the work.
    let of_work = 3 * (100 + 200 + 10_000);
    let loads = level1.backend_bound.slots as u64 - of_work;
    require(loads < 3 * 30, || format!("{loads} slots of other loads"))?;
    let text = report.to_string();
    println!("{text}");
    for part in [
        "| retiring | bad speculation | frontend bound | backend bound |",
        "Slots: frontend bound ",
    ] {
        require(text.contains(part), || format!("no {part}"))?;
    }
    for record in interval.records() {
        let level1 = record.topdown().ok_or_else(|| format!("no slots: {record:?}"))?;
        near("retiring of a span", level1.retiring.fraction, retiring(facts))?;
    }
    // The events themselves are in no output, except for the report's list of a thread's events.
    let (mut json, mut lines, mut trace, mut prometheus) = Default::default();
    let written = [
        interval.write_json(&mut json),
        interval.write_json_lines(&mut lines),
        interval.write_trace(&mut trace),
        interval.write_prometheus(&mut prometheus),
    ];
    require(written.iter().all(Result::is_ok), || format!("{written:?}"))?;
    let outputs: [(Vec<u8>, &str); 4] = [
        (json, "\"slots\":{\"retiring\":0.2"),
        (lines, "\"slots\":{\"retiring\":0.2"),
        (trace, "slots, backend bound"),
        (prometheus, "loads"),
    ];
    let events = report.threads[0].events.iter().map(Event::to_string).collect::<Vec<_>>();
    for (output, part) in outputs {
        let output = String::from_utf8_lossy(&output);
        require(output.contains(part), || format!("no {part} in {output}"))?;
        let shown = events.iter().find(|event| output.contains(event.as_str()));
        require(shown.is_none(), || format!("{shown:?} is in {output}"))?;
    }
    Ok(())
}

/// The slots are counted first, and other events if counters are left. If a counter is taken from them, the report says so.
fn topdown_beside_too_many_events(facts: &Facts) -> Outcome {
    let others = vec![Event::BRANCHES; 8 - fact(facts, "topdown_events") as usize];
    let report = |others: &[Event]| -> Result<String, Stop> {
        let settings = Settings::new().topdown().events(others).counters(Counters::Always);
        let mut recording = settings.start().map_err(|why| why.to_string())?;
        {
            let _span = span!("work");
            countdown(black_box(100));
        }
        Ok(recording.report().to_string())
    };
    // Enough general counters are left only if fixed counters count the other events.
    let needed = fact(facts, "topdown_general") as usize;
    let general = fact(facts, "general") as usize;
    let formula = Formula::of_this_cpu().map_err(|why| why.to_string())?;
    let last = *formula.events().last().expect("there are events");
    let taken: Vec<Counter> =
        (needed..general).map(|_| super::open_pinned(last)).collect::<Result<_, _>>()?;
    let topdown = Topdown::open().map_err(|why| Stop::Failed(why.to_string()))?;
    require(topdown.group().read_user().is_some(), || {
        format!("{} events are not in {needed} general counters", topdown.formula().events().len())
    })?;
    drop((taken, topdown));
    // Pinned: they keep their counters, all general ones. They are taken first, because the thread keeps those of a recording
    // until the next one.
    let formula = formula.without_memory();
    let last = *formula.events().last().expect("there are events");
    let taken: Vec<Counter> = (0..8).map_while(|_| super::open_pinned(last).ok()).collect();
    let counting = taken.iter().filter(|counter| counter.read_user().is_some()).count();
    require(counting >= 6, || format!("{counting} of {} count", taken.len()))?;
    let without = report(&[Event::INSTRUCTIONS])?;
    drop(taken);
    println!("{without}");
    // Intel's CPUs have a fixed counter for instructions.
    let reasons = ["Without top-down: ", "Time only: "];
    let has_reason = reasons.iter().any(|reason| without.contains(reason));
    require(!without.contains("| backend bound |") && has_reason, || without)?;
    let beside = report(&others)?;
    require(beside.contains("| backend bound |"), || beside.clone())
}

/// A linear congruential generator (Knuth's MMIX).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}
