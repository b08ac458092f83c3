//! Those of criterion's arguments that this crate has to follow. criterion does not tell a measurement about them.

use std::env;
use std::time::Duration;

/// What criterion does with results, and how it prints them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// The name of the baseline to compare with.
    pub(crate) baseline: String,
    /// Whether results are saved under that name.
    pub(crate) saves: bool,
    /// Whether changes are left out (`--quiet`).
    pub(crate) is_quiet: bool,
    /// Whether criterion prints a line per benchmark for other programs (`--output-format bencher`).
    pub(crate) is_for_programs: bool,
    /// Whether benchmarks are measured (`--bench` without `--test` or `--profile-time`).
    pub(crate) measures: bool,
    /// Whether they are measured without a warm-up (`--quick`).
    pub(crate) is_quick: bool,
    /// The warm-up time, if it is given.
    pub(crate) warm_up: Option<Duration>,
}

impl Arguments {
    /// Reads the arguments of this process, as `configure_from_args` does.
    pub(crate) fn of_this_process() -> Arguments {
        Arguments::parse(
            env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()),
        )
    }

    fn parse(mut arguments: impl Iterator<Item = String>) -> Arguments {
        let mut found = Arguments {
            baseline: "base".into(),
            saves: true,
            is_quiet: false,
            is_for_programs: false,
            measures: false,
            is_quick: false,
            warm_up: None,
        };
        let mut is_other = false;
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                break;
            }
            let Some((name, value)) = option(&argument) else { continue };
            let mut value = || value.clone().or_else(|| arguments.next()).unwrap_or_default();
            match name {
                "save-baseline" | "s" => (found.baseline, found.saves) = (value(), true),
                "baseline" | "baseline-lenient" | "b" => {
                    (found.baseline, found.saves) = (value(), false);
                }
                "discard-baseline" => found.saves = false,
                "quiet" => found.is_quiet = true,
                "quick" => found.is_quick = true,
                "bench" => found.measures = true,
                "test" => is_other = true,
                "profile-time" => {
                    is_other = true;
                    drop(value());
                }
                "warm-up-time" => {
                    let seconds = value().parse().ok();
                    found.warm_up =
                        seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                }
                "output-format" => found.is_for_programs = value() == "bencher",
                // Their values are not options.
                "color" | "colour" | "c" | "format" | "load-baseline" | "sample-size"
                | "measurement-time" | "nresamples" | "noise-threshold" | "confidence-level"
                | "significance-level" | "plotting-backend" => drop(value()),
                _ => {}
            }
        }
        found.measures &= !is_other;
        found
    }
}

/// Returns an option's name, and its value if that is in the same argument. None if it is not an option.
fn option(argument: &str) -> Option<(&str, Option<String>)> {
    if let Some(long) = argument.strip_prefix("--") {
        return Some(match long.split_once('=') {
            Some((name, value)) => (name, Some(value.into())),
            None => (long, None),
        });
    }
    // Short options may follow one another. The first that takes a value takes the rest.
    let all = argument.strip_prefix('-')?;
    let at = all.find(|short| !"vnV".contains(short))?;
    let (name, rest) = all.get(at..)?.split_at_checked(1)?;
    let value = rest.strip_prefix('=').unwrap_or(rest);
    Some((name, (!rest.is_empty()).then(|| value.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &str) -> (String, bool) {
        let found = Arguments::parse(arguments.split_whitespace().map(String::from));
        (found.baseline, found.saves)
    }

    #[test]
    fn the_baseline_is_criterions() {
        for (arguments, baseline, saves) in [
            ("", "base", true),
            ("--bench parse", "base", true),
            ("--save-baseline main", "main", true),
            ("--bench --save-baseline=main parse", "main", true),
            ("-s main", "main", true),
            ("-smain", "main", true),
            ("-s=main", "main", true),
            ("-vns main", "main", true),
            ("--baseline main", "main", false),
            ("-b main --quick", "main", false),
            ("--baseline-lenient main", "main", false),
            ("--load-baseline new --baseline main", "main", false),
            ("--load-baseline -s --baseline main", "main", false),
            ("--color always -b main", "main", false),
            ("--discard-baseline", "base", false),
            ("-- --baseline main", "base", true),
            ("--baseline", "", false),
            ("-", "base", true),
            ("-v -é", "base", true),
        ] {
            assert_eq!(parse(arguments), (baseline.into(), saves), "{arguments}");
        }
    }

    #[test]
    fn the_format_is_criterions() {
        let of = |arguments: &str| {
            let found = Arguments::parse(arguments.split_whitespace().map(String::from));
            (found.is_quiet, found.is_for_programs)
        };
        assert_eq!(of("--bench"), (false, false));
        assert_eq!(of("--quiet"), (true, false));
        assert_eq!(of("--output-format bencher"), (false, true));
        assert_eq!(of("--output-format=criterion"), (false, false));
    }

    #[test]
    fn only_measurements_warm_up() {
        let of = |arguments: &str| {
            let found = Arguments::parse(arguments.split_whitespace().map(String::from));
            (found.measures, found.is_quick, found.warm_up)
        };
        assert_eq!(of("--bench"), (true, false, None));
        assert_eq!(of("--bench --quick"), (true, true, None));
        let half = Some(Duration::from_millis(500));
        assert_eq!(of("--warm-up-time 0.5 --bench"), (true, false, half));
        assert_eq!(of("--bench --warm-up-time=0.5"), (true, false, half));
        assert_eq!(of("--bench --warm-up-time -1"), (true, false, None));
        for other in ["", "--bench --test", "--bench --profile-time 5", "--profile-time --bench"] {
            assert_eq!(of(other), (false, false, None), "{other}");
        }
    }
}
