//! The time that stepping may take, and the time of a step.

use crate::{StepError, count};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The environment variable with the number of seconds that a benchmark may be stepped, for example `0.5`. 0 switches it off.
pub const VARIABLE: &str = "RDPMC_STEP_SECONDS";

/// The time that [`VARIABLE`] sets, or a second if it is not set or no number from 0.
pub fn time() -> Duration {
    const USUAL: Duration = Duration::from_secs(1);
    std::env::var(VARIABLE).map_or(USUAL, |seconds| parse(&seconds).unwrap_or(USUAL))
}

/// Measures how many seconds a step takes: the fastest of five series, because another program may run during some of them.
/// Takes some 2,000 steps.
///
/// # Errors
/// Those of [`count`].
pub fn seconds_per_step() -> Result<f64, StepError> {
    const SERIES: usize = 5;
    const TURNS: u64 = 100;
    let series = || count(1_000 * TURNS, || (0..TURNS).for_each(|_| black_box(())));
    series()?; // with the check and what else happens once
    let mut fastest = f64::INFINITY;
    for _ in 0..SERIES {
        let begun = Instant::now();
        let steps = series()?.max(1);
        fastest = fastest.min(begun.elapsed().as_secs_f64() / steps as f64);
    }
    Ok(fastest.max(1e-9))
}

fn parse(seconds: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds.trim().parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds() {
        assert_eq!(parse(" 0.5 "), Some(Duration::from_millis(500)));
        assert_eq!(parse("0"), Some(Duration::ZERO));
        for wrong in ["", "-1", "NaN", "inf", "1e300", "1s"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
