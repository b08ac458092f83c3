//! Rounds on simulated machines: with noise recorded on a real PMU, with interrupts, with several paths.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use super::*;
use crate::estimate::{self, Estimate};
use crate::pairs::{Content, Loop, VALUES};
use crate::paths::Path;
use crate::verdict::Cause;

/// The recorded noise of reads: the distance of a region's cycles from the median of its kind, and how often it came.
/// On an AMD EPYC (Zen 5) under KVM, which traps reads: 26,400 samples of a quiet machine, and 17,540 beside a
/// compiling neighbour.
const NOISE: [(&str, &str); 2] =
    [("quiet", include_str!("noise-quiet.csv")), ("busy", include_str!("noise-busy.csv"))];

fn noise(recorded: &str) -> Vec<i64> {
    let mut all = Vec::new();
    for line in recorded.lines() {
        let (distance, times) = line.split_once(',').unwrap();
        let (distance, times): (i64, usize) = (distance.parse().unwrap(), times.parse().unwrap());
        all.extend(std::iter::repeat_n(distance, times));
    }
    all
}

/// A machine whose reads cost 430 cycles and the noise, and a run `cost`. All in `unit`s of a cycle.
struct Noisy<'a> {
    noise: &'a [i64],
    random: Random,
    cost: i64,
    unit: i64,
}

impl Measure for Noisy<'_> {
    fn measure(&mut self, content: Content, runs: u64) -> Option<Loop> {
        let each = if content == Content::Work { self.cost + 5 } else { 5 };
        let noise = self.noise[self.random.below(self.noise.len())];
        // A cycle is whole because the counter is: the part that it hides is anywhere within half a cycle.
        let part = self.random.below(self.unit as usize) as i64 - self.unit / 2;
        let cycles = (430 + each * runs as i64 + noise) * self.unit + part;
        let mut values = [0; VALUES];
        values[0] = u64::try_from(cycles).unwrap();
        values[TICKS] = (1_000 + each as u64) * runs;
        Some(Loop { values, is_disturbed: false })
    }
}

const CYCLES: Shape = Shape {
    counts: 1,
    instructions: None,
    kernel: None,
    cycles: Some(0),
    includes_kernel: false,
    ns_per_tick: 1.0,
    step: 1.0,
};
const LONG: Effort =
    Effort { time: Duration::from_secs(3_600), k: None, multiple: 1, target: 0.01 };

/// The interval contains the cost in 95 % of 10,000 trials, although a round goes on until it is narrow.
#[test]
fn the_interval_covers_the_cost() {
    for (name, recorded) in NOISE {
        let noise = noise(recorded);
        // With whole cycles, equal counts make the interval wider than needed. With the parts of cycles it is right.
        for (unit, range) in [(1, 9_500..=10_000), (1_000, 9_300..=9_700)] {
            let mut machine = Noisy { noise: &noise, random: Random::new(), cost: 300, unit };
            let (mut covered, mut worst) = (0, 0.0f64);
            for _ in 0..10_000 {
                let (estimate, _) =
                    round(&mut machine, &CYCLES, &LONG, &mut || ()).judged.figures[0].unwrap();
                let truth = 300.0 * unit as f64;
                covered += i32::from((estimate.low..=estimate.high).contains(&truth));
                worst = worst.max((estimate.value - truth).abs() / unit as f64);
            }
            println!(
                "{name}, parts of 1/{unit} cycle: {covered} of 10,000 covered, at worst {worst:.2} cycles off"
            );
            assert!(range.contains(&covered), "{covered}");
            assert!(worst < 3.0, "{worst}");
        }
    }
}

/// A machine whose tick counter shows one value for 26 ticks, 10 ns, as on AMD's CPUs, and then one more each time it is
/// read.
struct Coarse {
    random: Random,
    /// The picoseconds of a run.
    cost: u64,
}

impl Measure for Coarse {
    fn measure(&mut self, content: Content, runs: u64) -> Option<Loop> {
        let each = if content == Content::Work { self.cost + 400 } else { 400 };
        let noise = self.random.below(2_000) as u64;
        let begun = self.random.below(1 << 40) as u64;
        let shown = |picoseconds: u64| picoseconds / 10_000 * 26;
        let (start, end) = (shown(begun), shown(begun + 9_000 + each * runs + noise));
        let mut values = [0; VALUES];
        values[TICKS] = if end > start { end - start } else { 1 };
        Some(Loop { values, is_disturbed: false })
    }
}

/// A run may take less than a step of the clock.
#[test]
fn the_interval_covers_a_time_shorter_than_a_step() {
    let shape = Shape { counts: 0, cycles: None, ns_per_tick: 10.0 / 26.0, step: 26.0, ..CYCLES };
    for cost in [300, 3_000, 30_000, 1_000_000] {
        let mut machine = Coarse { random: Random::new(), cost };
        let mut covered = 0;
        for _ in 0..200 {
            let found = round(&mut machine, &shape, &LONG, &mut || ()).judged;
            let (estimate, verdict) = found.figures[TICKS].unwrap();
            assert_eq!(verdict, Verdict::Stable, "{cost} ps: {estimate:?}");
            let truth = cost as f64 / 1_000.0;
            covered += i32::from((estimate.low..=estimate.high).contains(&truth));
        }
        assert!(covered >= 190, "{cost} ps: {covered} of 200 covered");
    }
}

/// The half-sample mode: the middle of the densest half, again and again.
fn half_sample_mode(mut values: &[i64]) -> f64 {
    while values.len() > 2 {
        let half = values.len().div_ceil(2);
        let width = |start: &usize| values[start + half - 1] - values[*start];
        let start = (0..=values.len() - half).min_by_key(width).unwrap();
        values = &values[start..start + half];
    }
    values.iter().sum::<i64>() as f64 / values.len() as f64
}

/// Why the centre is the median: its error is a fraction of the half-sample mode's.
#[test]
fn the_median_is_closer_than_the_half_sample_mode() {
    const K: u64 = 8;
    for (name, recorded) in NOISE {
        let noise = noise(recorded);
        let mut machine = Noisy { noise: &noise, random: Random::new(), cost: 300, unit: 1 };
        let mut random = Random::new();
        let (mut of_median, mut of_mode) = (0.0, 0.0);
        for _ in 0..1_000 {
            let mut values: Vec<i64> = (0..PAIRS)
                .map(|_| {
                    pair(&mut machine, K, &mut random).unwrap().differences[0] - 300 * K as i64
                })
                .collect();
            of_median += estimate::median(&mut values).unwrap().value.powi(2);
            of_mode += half_sample_mode(&values).powi(2);
        }
        let [of_median, of_mode] =
            [of_median, of_mode].map(|sum: f64| (sum / 1_000.0).sqrt() / K as f64);
        println!(
            "{name}, k = {K}: error of the median {of_median:.3}, of the half-sample mode {of_mode:.3} cycles"
        );
        assert!(of_median * 3.5 < of_mode, "{of_median}, {of_mode}");
    }
}

/// A machine that counts instructions (place 0), cycles (1) and kernel instructions (2), all exact.
struct Exact {
    random: Random,
    /// The instructions of each run in turn.
    runs: Vec<u64>,
    next: usize,
    /// An interrupt adds an instruction to one in this many loops. 0 for none.
    interrupted: usize,
    /// A context switch comes in one in this many loops.
    switched: usize,
    /// The frequency falls to half after this many loops.
    slow_after: usize,
    /// The counter of instructions does not move.
    stands_still: bool,
    /// Cycles vary by up to this many per run.
    varies: usize,
    loops: usize,
}

impl Exact {
    fn new(runs: &[u64]) -> Exact {
        Exact {
            random: Random::new(),
            runs: runs.to_vec(),
            next: 0,
            interrupted: 0,
            switched: 0,
            slow_after: usize::MAX,
            stands_still: false,
            varies: 0,
            loops: 0,
        }
    }
}

impl Measure for Exact {
    fn measure(&mut self, content: Content, runs: u64) -> Option<Loop> {
        self.loops += 1;
        let mut instructions = 50 + 3 * runs;
        if content == Content::Work {
            for _ in 0..runs {
                instructions += self.runs[self.next];
                self.next = (self.next + 1) % self.runs.len();
            }
        }
        let mut values = [0; VALUES];
        let mut comes = |one_in: usize| one_in > 0 && self.random.below(one_in) == 0;
        let is_interrupted = comes(self.interrupted);
        let is_disturbed = comes(self.switched);
        let varied = if self.varies > 0 { self.random.below(self.varies) as u64 * runs } else { 0 };
        let cycles = instructions * 2 + varied;
        values[0] = if self.stands_still { 0 } else { instructions + u64::from(is_interrupted) };
        values[1] = cycles;
        values[2] = u64::from(is_interrupted) * 700;
        values[TICKS] = if self.loops > self.slow_after { cycles * 2 } else { cycles };
        Some(Loop { values, is_disturbed })
    }
}

const BOTH: Shape = Shape {
    counts: 3,
    instructions: Some(0),
    kernel: Some(2),
    cycles: Some(1),
    includes_kernel: false,
    ns_per_tick: 0.5,
    step: 1.0,
};
const SHORT: Effort = Effort { time: Duration::from_millis(50), ..LONG };

fn of(machine: &mut Exact) -> Round {
    round(machine, &BOTH, &SHORT, &mut || ())
}

/// Judges 67 pairs and 100 single runs, however long they take.
fn judged(machine: &mut dyn Measure) -> (Judged, Paths) {
    const K: u64 = 64;
    let mut random = Random::new();
    let paths = paths(machine, &BOTH, &mut random, LONG.time);
    let pairs: Vec<Pair> = (0..PAIRS).map(|_| pair(machine, K, &mut random).unwrap()).collect();
    (judge(&pairs, &BOTH, K, 0.01, &paths), paths)
}

fn cause(machine: &mut dyn Measure, place: usize) -> Cause {
    match judged(machine).0.figures[place] {
        Some((_, Verdict::Unstable(cause))) => cause,
        other => panic!("{other:?}"),
    }
}

fn exactly(value: f64) -> Option<(Estimate, Verdict)> {
    Some((Estimate { value, low: value, high: value }, Verdict::Exact))
}

#[test]
fn exact_counts_are_exact() {
    for instructions in [1, 10, 1_000] {
        let Round { judged, paths, .. } = of(&mut Exact::new(&[instructions]));
        assert_eq!(judged.figures[0], exactly(instructions as f64));
        assert_eq!(judged.figures[1], exactly(2.0 * instructions as f64));
        assert_eq!(paths.found, [Path { instructions: instructions as i64, share: 1.0 }]);
        assert_eq!((judged.set_aside, judged.figures[3]), (0, None));
        let (time, verdict) = judged.figures[TICKS].unwrap();
        assert_eq!((time.value, verdict), (instructions as f64, Verdict::Stable));
    }
}

#[test]
fn interrupts_are_set_aside_and_counted() {
    let mut machine = Exact { interrupted: 30, ..Exact::new(&[100]) };
    let (judged, paths) = judged(&mut machine);
    assert_eq!(judged.figures[0], exactly(100.0));
    assert!(judged.set_aside > 0 && judged.set_aside < judged.pairs, "{judged:?}");
    assert_eq!((paths.found.len(), paths.are_several), (1, false));
}

#[test]
fn two_paths_are_reported_as_two() {
    // In turn: each loop has as many of both, and is exact.
    let (judged, mut paths) = judged(&mut Exact::new(&[1_000, 2_000]));
    assert_eq!(judged.figures[0], exactly(1_500.0));
    paths.found.sort_by_key(|path| path.instructions);
    let half = |instructions| Path { instructions, share: 0.5 };
    assert_eq!(paths, Paths { found: vec![half(1_000), half(2_000)], are_several: true });
}

#[test]
fn many_paths_are_several() {
    let runs: Vec<u64> = (0..67).map(|n| 1_000 + 20 * n).collect();
    let paths = judged(&mut Exact::new(&runs)).1;
    assert!(paths.are_several, "{paths:?}");
}

/// The growth of a table, for example: the median does not show it, so it must not pass for exact.
#[test]
fn a_rare_slow_path_is_not_exact() {
    for rare in [100, 300, 1_000, 3_000] {
        let mut runs = vec![100; rare];
        runs[rare - 1] = 100 * rare as u64;
        let cause = cause(&mut Exact::new(&runs), 0);
        assert_eq!(cause, Cause::SeveralPaths, "1 in {rare}");
    }
}

#[test]
fn every_cause_is_named() {
    let machine = || Exact { varies: 300, ..Exact::new(&[1_000]) };
    assert_eq!(cause(&mut machine(), 1), Cause::Varies);
    let switched = &mut Exact { switched: 6, ..machine() };
    assert!(matches!(cause(switched, 1), Cause::ContextSwitches { pairs, of } if pairs * 4 > of));
    let switched = &mut Exact { switched: 1, ..Exact::new(&[1_000]) };
    assert_eq!(cause(switched, 0), Cause::ContextSwitches { pairs: PAIRS, of: PAIRS });
    let interrupted = &mut Exact { interrupted: 6, ..machine() };
    let found = cause(interrupted, 1);
    assert!(matches!(found, Cause::Interrupts { pairs, of } if pairs * 4 > of), "{found:?}");
    let several = &mut Exact { varies: 300, ..Exact::new(&[1_000, 3_000, 2_000]) };
    assert_eq!(cause(several, 1), Cause::SeveralPaths);
    for place in [0, 1] {
        let dead = &mut Exact { stands_still: true, ..Exact::new(&[100]) };
        assert_eq!(cause(dead, place), Cause::DoesNotCount);
    }
    assert_eq!(cause(&mut Exact::new(&[0]), 1), Cause::TooShort);
    // After the single runs and half of the pairs.
    let slower = || Exact { slow_after: 200 + 2 * PAIRS, ..Exact::new(&[100]) };
    match cause(&mut slower(), TICKS) {
        Cause::Frequency { percent } => assert!(percent > 40.0, "{percent}"),
        other => panic!("{other:?}"),
    }
    // The cycles do not depend on it.
    assert_eq!(judged(&mut slower()).0.figures[1], exactly(200.0));
}

#[test]
fn a_counter_of_cycles_that_stands_still_spoils_only_itself() {
    struct Dead(Exact);
    impl Measure for Dead {
        fn measure(&mut self, content: Content, runs: u64) -> Option<Loop> {
            let mut found = self.0.measure(content, runs)?;
            found.values[1] = 0;
            Some(found)
        }
    }
    let machine = || Dead(Exact::new(&[100]));
    assert_eq!(cause(&mut machine(), 1), Cause::DoesNotCount);
    assert_eq!(judged(&mut machine()).0.figures[0], exactly(100.0));
}

/// A machine whose counters can be read a number of times.
struct Readable {
    times: usize,
}

impl Measure for Readable {
    fn measure(&mut self, content: Content, runs: u64) -> Option<Loop> {
        self.times = self.times.checked_sub(1)?;
        Exact::new(&[100]).measure(content, runs)
    }
}

#[test]
fn counters_that_cannot_be_read_are_reported() {
    let effort = Effort { k: Some(64), ..LONG };
    let of = |times| round(&mut Readable { times }, &BOTH, &effort, &mut || ()).judged;
    assert_eq!((of(0).pairs, of(0).figures), (0, [None; VALUES]));
    let few = of(16);
    assert_eq!(few.pairs, 4);
    for place in [0, 1, TICKS] {
        let (estimate, verdict) = few.figures[place].unwrap();
        assert_eq!(verdict, Verdict::Unstable(Cause::Unreadable));
        assert!(estimate.value > 0.0 && estimate.error().is_infinite());
    }
    // Of the time alone, six pairs are enough.
    assert!(of(24).figures[0].is_some_and(|(_, verdict)| verdict == Verdict::Exact));
}

/// The new pairs of the last round are as many as those that decided. So it is as good as they were.
#[test]
fn the_last_round_is_as_long_as_the_one_that_decided() {
    struct Slow {
        random: Random,
    }
    impl Measure for Slow {
        fn measure(&mut self, content: Content, runs: u64) -> Option<Loop> {
            // A pair takes longer than a loop may, so pairs accumulate.
            std::thread::sleep(LONGEST / 2);
            let each =
                if content == Content::Work { 1_000 + self.random.below(60) as u64 } else { 0 };
            let mut values = [0; VALUES];
            values[TICKS] = each * runs;
            Some(Loop { values, is_disturbed: false })
        }
    }
    let shape = Shape { counts: 0, instructions: None, kernel: None, cycles: None, ..BOTH };
    let effort = Effort { time: Duration::from_secs(20), ..LONG };
    let round = round(&mut Slow { random: Random::new() }, &shape, &effort, &mut || ());
    assert!(round.judged.pairs > PAIRS, "{round:?}");
    let (estimate, verdict) = round.judged.figures[TICKS].unwrap();
    assert_eq!(verdict, Verdict::Stable, "{estimate:?}");
}
