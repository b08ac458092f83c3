//! Other tools: how they are started, and what they print.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Measures as nanobench does: epochs of at least a millisecond, and the median of eleven. Prints it as `NAME NUMBER ns`.
pub(crate) fn with_nanobench<T>(name: &str, mut code: impl FnMut() -> T) {
    let mut epoch = |runs: u64| {
        let start = Instant::now();
        for _ in 0..runs {
            black_box(code());
        }
        start.elapsed()
    };
    let mut runs = 1;
    while epoch(runs) < Duration::from_millis(1) {
        runs *= 2;
    }
    let mut epochs: Vec<Duration> = (0..11).map(|_| epoch(runs)).collect();
    epochs.sort_unstable();
    if let Some(median) = epochs.get(5) {
        println!("{name} {} ns", median.as_nanos() as f64 / runs as f64);
    }
}

/// Returns the name and the nanoseconds, if a line of the tool's output has a result.
pub(crate) fn result(tool: &str, line: &str) -> Option<(String, f64)> {
    match tool {
        // NAME    time:   [LOW UNIT MIDDLE UNIT HIGH UNIT], or the name on the line before if it is long.
        "criterion" => {
            let (name, times) = line.split_once("time:")?;
            let mut words = times.trim().trim_start_matches('[').split(' ').skip(2);
            Some((name.trim().to_owned(), nanoseconds(words.next()?, words.next()?)?))
        }
        // ├─ NAME   FASTEST UNIT │ SLOWEST UNIT │ MEDIAN UNIT │ ...
        "divan" => {
            let mut columns = line.split('│');
            let name =
                columns.next()?.trim_start_matches(['├', '╰', '─', ' ']).split(' ').next()?;
            let mut words = columns.nth(1)?.split_whitespace();
            Some((name.to_owned(), nanoseconds(words.next()?, words.next()?)?))
        }
        _ => {
            let mut words = line.split(' ');
            let name = words.next()?;
            Some((name.to_owned(), nanoseconds(words.next()?, words.next()?)?))
        }
    }
}

fn nanoseconds(number: &str, unit: &str) -> Option<f64> {
    let each = match unit {
        "ps" => 1e-3,
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * each)
}
