//! The time that a benchmark may be stepped, by the environment.

use std::time::Duration;

/// The environment variable with the number of seconds that a benchmark may be stepped, for example `0.5`. 0 switches it off.
pub const VARIABLE: &str = "RDPMC_STEP_SECONDS";

/// The time that [`VARIABLE`] sets, or a second if it is not set or no number from 0.
pub fn time() -> Duration {
    const USUAL: Duration = Duration::from_secs(1);
    std::env::var(VARIABLE).map_or(USUAL, |seconds| of(&seconds).unwrap_or(USUAL))
}

fn of(seconds: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds.trim().parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds() {
        assert_eq!(of(" 0.5 "), Some(Duration::from_millis(500)));
        assert_eq!(of("0"), Some(Duration::ZERO));
        for wrong in ["", "-1", "NaN", "inf", "1e300", "1s"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
