//! Where the instructions of a run went, by functions.

#[cfg(feature = "functions")]
pub(crate) use with_names::{Placer, Resolver};
#[cfg(not(feature = "functions"))]
pub(crate) use without_names::{Placer, Resolver};

use rdpmc_step::Tally;

/// The instructions at each address, of so many runs.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) tally: Tally,
    pub(crate) runs: u64,
}

/// Whether addresses are kept.
pub(crate) const IS_KEPT: bool = cfg!(feature = "functions");

#[cfg(feature = "functions")]
mod with_names {
    use super::Recorded;
    use rdpmc_report::gate::functions::Functions;
    use rdpmc_step::functions::{Loaded, Names, Split};

    /// Finds the places of addresses in the files that are loaded.
    pub(crate) struct Placer(Loaded);

    impl Placer {
        pub(crate) fn new() -> Placer {
            Placer(Loaded::now())
        }

        /// Returns the places as text, which processes of one program understand.
        pub(crate) fn places(&self, Recorded { tally, runs }: &Recorded) -> Option<String> {
            Some(Split::new(tally, *runs, &self.0).to_string())
        }
    }

    /// Finds the names of functions.
    pub(crate) struct Resolver(Names);

    impl Resolver {
        pub(crate) fn new() -> Resolver {
            Resolver(Names::new())
        }

        /// Returns the functions of runs with so many operations each. None if the text is something else.
        pub(crate) fn functions(&mut self, places: &str, operations: u64) -> Option<Functions> {
            let split = Split::from_text(places)?;
            let all = split.functions(&mut self.0).into_iter();
            let all = all.map(|it| (it.name, it.within, it.instructions));
            let operations = split.runs().saturating_mul(operations);
            Some(Functions::new(operations, &self.0.source().to_string(), all, is_own))
        }
    }

    /// Whether this is a function of this library: a loop, into which the row's closure is inlined.
    fn is_own(name: &str) -> bool {
        name.trim_start_matches('<').starts_with("rdpmc_bench::")
            || name.ends_with("(sampling/code.rs)")
    }
}

#[cfg(not(feature = "functions"))]
mod without_names {
    use super::Recorded;
    use rdpmc_report::gate::functions::Functions;

    /// Finds nothing.
    pub(crate) struct Placer;

    impl Placer {
        pub(crate) fn new() -> Placer {
            Placer
        }

        pub(crate) fn places(&self, recorded: &Recorded) -> Option<String> {
            let _ = (&recorded.tally, recorded.runs);
            None
        }
    }

    /// Knows no names.
    pub(crate) struct Resolver;

    impl Resolver {
        pub(crate) fn new() -> Resolver {
            Resolver
        }

        pub(crate) fn functions(&mut self, _: &str, _: u64) -> Option<Functions> {
            None
        }
    }
}
