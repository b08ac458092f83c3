//! Which figures are compared, and how much more of each is accepted.

/// The figure of instructions that were counted by single-stepping. It is never compared with that of a counter.
pub const STEPPED_INSTRUCTIONS: &str = "stepped-instructions";

/// The figures whose counts are equal for equal code and data.
pub(crate) const REPEATED: [&str; 3] = ["instructions", "branches", STEPPED_INSTRUCTIONS];

/// Whether the count is equal for equal code and data.
pub fn repeats(figure: &str) -> bool {
    REPEATED.contains(&figure)
}

/// The relative growth of these that is accepted by default, unless both figures are exact. Interrupts
/// may add one instruction each, which is one in a million.
const OF_COUNTS: f64 = 1e-5;

/// Which figures a gate compares, and how much more of each it accepts.
///
/// By default, it compares instructions, stepped instructions and branches, which are equal for equal code and data. Growth of up
/// to 0.001 % is accepted, and none if both figures are exact. All other figures depend on more than the code, so they are compared
/// only if [`accept`](Limits::accept) says how much they may grow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    accepted: Vec<(String, f64)>,
    allows_missing: bool,
    /// Benchmarks of which anything may be missing.
    may_lack: Vec<String>,
    pub(crate) allows_unstable: bool,
}

impl Limits {
    /// Returns the default limits.
    pub fn new() -> Limits {
        Limits::default()
    }

    /// Compares this figure, and accepts a relative growth: 0.01 for 1 %. For those that are compared by default, it
    /// replaces the default. NaN and numbers below 0 accept none, infinity every growth.
    pub fn accept(mut self, figure: impl Into<String>, growth: f64) -> Limits {
        self.accepted.push((figure.into(), growth.max(0.0)));
        self
    }

    /// Accepts benchmarks that are missing on one side, and figures that are missing on either or both.
    pub fn allow_missing(self) -> Limits {
        Limits { allows_missing: true, ..self }
    }

    /// Accepts the same for one benchmark.
    pub fn allow_missing_of(mut self, benchmark: impl Into<String>) -> Limits {
        self.may_lack.push(benchmark.into());
        self
    }

    /// Returns the benchmarks of which anything may be missing.
    pub(crate) fn may_lack(&self) -> impl Iterator<Item = &str> {
        self.may_lack.iter().map(String::as_str)
    }

    pub(crate) fn allows_missing_of(&self, benchmark: &str) -> bool {
        self.allows_missing || self.may_lack.iter().any(|name| name == benchmark)
    }

    /// Accepts figures that are too unstable to compare, even if there are no others.
    pub fn allow_unstable(self) -> Limits {
        Limits { allows_unstable: true, ..self }
    }

    /// Adds the limits of another, which come before these.
    #[doc(hidden)]
    pub fn then(mut self, others: &Limits) -> Limits {
        self.accepted.extend(others.accepted.iter().cloned());
        self.may_lack.extend(others.may_lack.iter().cloned());
        Limits {
            allows_missing: self.allows_missing || others.allows_missing,
            allows_unstable: self.allows_unstable || others.allows_unstable,
            ..self
        }
    }

    /// Returns the growth to accept. None if the figure is not compared.
    pub(crate) fn limit_of(&self, figure: &str, is_exact: bool) -> Option<f64> {
        let usual = if is_exact { 0.0 } else { OF_COUNTS };
        self.accepted(figure).or(repeats(figure).then_some(usual))
    }

    /// Returns the growth from which a change is worth a line, of a figure that is not compared as well.
    #[doc(hidden)]
    pub fn usual(figure: &str) -> f64 {
        if repeats(figure) { OF_COUNTS } else { 0.01 }
    }

    /// Returns the growth that `accept` named. None if it did not name this figure.
    #[doc(hidden)]
    pub fn accepted(&self, figure: &str) -> Option<f64> {
        let named = self.accepted.iter().rev().find(|(name, _)| name == figure);
        named.map(|(_, growth)| *growth)
    }

    /// Returns the figures that `accept` named.
    pub(crate) fn named(&self) -> impl Iterator<Item = &str> {
        self.accepted.iter().map(|(name, _)| name.as_str())
    }

    /// Adds a limit as the command line has it: `instructions=1%`, `cpu/event=0x3c/=5`.
    ///
    /// # Errors
    /// Says what is wrong.
    #[doc(hidden)]
    pub fn accept_argument(self, argument: &str) -> Result<Limits, String> {
        // The name of an event may have a `=`, too.
        let Some((figure, percent)) =
            argument.rsplit_once('=').filter(|(_, end)| !end.contains('/'))
        else {
            return Err(format!("{argument} has no percentage. Write, for example, {argument}=1%"));
        };
        let number = percent.strip_suffix('%').unwrap_or(percent);
        match number.parse::<f64>() {
            Ok(percent) if percent >= 0.0 && percent.is_finite() && !figure.is_empty() => {
                Ok(self.accept(figure, percent / 100.0))
            }
            _ => Err(format!("{percent} is not a percentage")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_limit_counts() {
        let limits = Limits::new();
        assert_eq!(limits.limit_of("instructions", true), Some(0.0));
        assert_eq!(limits.limit_of("branches", false), Some(OF_COUNTS));
        assert_eq!(limits.limit_of("cycles", false), None);
        let limits =
            limits.accept("cycles", 0.05).accept("instructions", 0.01).accept("cycles", 0.1);
        assert_eq!(limits.limit_of("cycles", false), Some(0.1));
        assert_eq!(limits.limit_of("instructions", true), Some(0.01));
        assert_eq!(Limits::new().accept("ns", f64::NAN).limit_of("ns", false), Some(0.0));
        assert_eq!(Limits::new().accept("ns", -1.0).limit_of("ns", false), Some(0.0));
    }

    #[test]
    fn arguments_are_names_and_percentages() {
        let of = |argument: &str, name: &str| {
            Limits::new()
                .accept_argument(argument)
                .ok()
                .and_then(|limits| limits.limit_of(name, false))
        };
        assert_eq!(of("instructions=1%", "instructions"), Some(0.01));
        assert_eq!(of("cycles=5", "cycles"), Some(0.05));
        assert_eq!(of("cpu/event=0x3c/=5%", "cpu/event=0x3c/"), Some(0.05));
        for wrong in [
            "cycles",
            "cycles=",
            "cycles=five",
            "cycles=-5",
            "cycles=1e999",
            "cycles=NaN",
            "=5",
            "cpu/event=0x3c/",
            "cycles=5%%",
        ] {
            assert!(Limits::new().accept_argument(wrong).is_err(), "{wrong}");
        }
    }
}
