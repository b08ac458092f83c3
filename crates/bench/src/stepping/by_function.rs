//! Where the instructions of a run went, by functions.

#[cfg(feature = "functions")]
pub(crate) use with_names::{Placer, Resolver, Where};
#[cfg(not(feature = "functions"))]
pub(crate) use without_names::{Placer, Resolver, Where};

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

    /// The places of the instructions of some runs.
    pub(crate) type Where = Split;

    /// Finds the places of addresses in the files that are loaded.
    pub(crate) struct Placer(Loaded);

    impl Placer {
        pub(crate) fn new() -> Placer {
            Placer(Loaded::now())
        }

        pub(crate) fn places(&self, Recorded { tally, runs }: &Recorded) -> Option<Where> {
            Some(Split::new(tally, *runs, &self.0))
        }
    }

    /// Finds the names of functions.
    pub(crate) struct Resolver(Names);

    impl Resolver {
        pub(crate) fn new() -> Resolver {
            Resolver(Names::new())
        }

        /// Returns the functions of runs with so many operations each.
        pub(crate) fn functions(&mut self, places: &Where, operations: u64) -> Functions {
            let all = places.functions(&mut self.0).into_iter();
            let all = all.map(|it| (it.name, it.within, it.instructions));
            Functions::new(places.runs().saturating_mul(operations), all, is_own)
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
    use std::fmt;
    use std::str::FromStr;

    /// Does not exist.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) enum Where {}

    impl Where {
        pub(crate) fn instructions(&self) -> f64 {
            match *self {}
        }
    }

    impl fmt::Display for Where {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            match *self {}
        }
    }

    impl FromStr for Where {
        type Err = ();

        fn from_str(_: &str) -> Result<Where, ()> {
            Err(())
        }
    }

    /// Finds nothing.
    pub(crate) struct Placer;

    impl Placer {
        pub(crate) fn new() -> Placer {
            Placer
        }

        pub(crate) fn places(&self, recorded: &Recorded) -> Option<Where> {
            let Recorded { tally, runs } = recorded;
            let _ = (tally, runs);
            None
        }
    }

    /// Knows no names.
    pub(crate) struct Resolver;

    impl Resolver {
        pub(crate) fn new() -> Resolver {
            Resolver
        }

        pub(crate) fn functions(&mut self, places: &Where, _: u64) -> Functions {
            match *places {}
        }
    }
}
