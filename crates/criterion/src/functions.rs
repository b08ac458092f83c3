//! Where the stepped instructions of a benchmark are, by functions.

use rdpmc_report::gate::functions::Functions;
use rdpmc_step::functions::{Names, Split};

/// Returns the functions of the process whose count is nearest to `typical`, and the names of those that differ in others.
pub(crate) fn joined<'p>(
    places: impl Iterator<Item = &'p Split>,
    typical: f64,
) -> (Option<Functions>, Option<String>) {
    let places: Vec<(f64, &Split)> = places.map(|it| (it.instructions(), it)).collect();
    let mut names = Names::new();
    Functions::joined(&places, typical, |places| {
        let all = places.functions(&mut names).into_iter();
        let all = all.map(|it| (it.name, it.within, it.instructions));
        Functions::new(places.runs(), all, is_own)
    })
}

/// Whether this is a function of criterion or of this library: a loop, into which the benchmark's closure is inlined.
fn is_own(name: &str) -> bool {
    let name = name.trim_start_matches('<');
    ["criterion::", "rdpmc_criterion::"].iter().any(|own| name.starts_with(own))
        || name.ends_with("(src/bencher.rs)")
}
