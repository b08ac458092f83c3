//! Compares functions with a baseline, in one run.
//!
//! criterion measures each function with the library's clock. In every sample, the baseline runs as often, just
//! before or just after. A disturbance of the machine affects both, and their ratio little. (Both run in one loop,
//! whose cost is part of the ratio, and makes it a little nearer to 1.)
#![allow(unreachable_pub)]

use criterion::{BenchmarkGroup, Criterion};
use rdpmc::{Clock, Error};
use rdpmc_criterion::ClockMeasurement;
use std::cell::RefCell;
use std::hint::black_box;
use std::time::Duration;

/// Returns criterion with the clock as its measurement, for a thread that stays on one CPU. Otherwise, migrations
/// would be measured, too.
pub fn criterion() -> Result<Criterion<ClockMeasurement>, Error> {
    if let Some(core) = core_affinity::get_core_ids().and_then(|cores| cores.first().copied()) {
        core_affinity::set_for_current(core);
    }
    let _ = rdpmc::contain_faults(); // regions need it on some machines
    let criterion = Criterion::default()
        .with_measurement(ClockMeasurement::open()?)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(1_000))
        .configure_from_args();
    println!("The time comes from {}.", Clock::open()?.kind());
    Ok(criterion)
}

/// A group of benchmarks with a baseline, and its results.
pub struct Comparison<'a> {
    group: BenchmarkGroup<'a, ClockMeasurement>,
    clock: Clock,
    baseline: (&'a str, Box<Timed<'a>>),
    rows: RefCell<Vec<Row>>,
}

/// Makes a number of calls, and returns their time in nanoseconds.
type Timed<'a> = dyn Fn(&Clock, u64) -> u64 + 'a;

struct Row {
    name: String,
    nanoseconds: f64,
    ratio: f64,
}

/// Returns the time of `calls` calls in nanoseconds. Not inlined, so that one function has equal code as a candidate
/// and as the baseline.
#[inline(never)]
fn time<T>(clock: &Clock, calls: u64, call: &impl Fn() -> T) -> u64 {
    let start = clock.now_ordered();
    for _ in 0..calls {
        black_box(call());
    }
    clock.now_ordered().saturating_sub(start)
}

impl<'a> Comparison<'a> {
    /// Begins a group of benchmarks, and measures the baseline.
    pub fn with<T>(
        criterion: &'a mut Criterion<ClockMeasurement>,
        group: &str,
        name: &'a str,
        call: impl Fn() -> T + Copy + 'a,
    ) -> Result<Comparison<'a>, Error> {
        let baseline: Box<Timed> = Box::new(move |clock, calls| time(clock, calls, &call));
        let mut comparison = Comparison {
            group: criterion.benchmark_group(group),
            clock: Clock::open()?,
            baseline: (name, baseline),
            rows: RefCell::default(),
        };
        comparison.beside(name, call);
        Ok(comparison)
    }

    /// Measures a function and compares it with the baseline.
    pub fn beside<T>(&mut self, name: &str, call: impl Fn() -> T) {
        let Comparison { group, clock, baseline: (_, baseline), rows } = self;
        // For each sample: the calls, their time, and the time of as many calls of the baseline. The baseline runs
        // first in every other sample.
        let samples = RefCell::new(Vec::new());
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|calls| {
                let mut samples = samples.borrow_mut();
                let first = (samples.len() % 2 != 0).then(|| baseline(clock, calls));
                let this = time(clock, calls, &call);
                let baseline = first.unwrap_or_else(|| baseline(clock, calls));
                samples.push((calls, this as f64, baseline as f64));
                this
            });
        });
        let samples = samples.into_inner();
        if samples.iter().all(|(calls, ..)| *calls <= 1) {
            return; // only tried, not measured
        }
        // Short samples have little but noise: the first of the warm-up, or of `--quick`.
        let of = |what: fn(f64, f64, f64) -> f64| {
            let enough = samples.iter().filter(|(_, this, _)| *this >= ENOUGH);
            median(enough.map(|(calls, this, baseline)| what(*calls as f64, *this, *baseline)))
        };
        let row = Row {
            name: name.to_owned(),
            nanoseconds: of(|calls, this, _| this / calls),
            ratio: of(|_, this, baseline| this / baseline.max(1.0)),
        };
        println!("                 ratio:  {:.2} of {}", row.ratio, self.baseline.0);
        rows.borrow_mut().push(row);
    }
}

/// Prints the table.
impl Drop for Comparison<'_> {
    fn drop(&mut self) {
        let rows = self.rows.take();
        if rows.is_empty() {
            return;
        }
        let title = format!("to {}", self.baseline.0);
        println!("\n| ns/call | {title} |");
        println!("|--------:|{:->width$}:|:-", "", width = title.len() + 1);
        for Row { name, nanoseconds, ratio } in rows {
            println!("| {nanoseconds:7.2} | {ratio:width$.2} | {name}", width = title.len());
        }
    }
}

/// The minimum time of a sample that is used, in nanoseconds.
const ENOUGH: f64 = 50_000.0;

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let of = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
    (of(values.len().saturating_sub(1) / 2) + of(values.len() / 2)) / 2.0
}
