//! Where the stepped instructions of a benchmark are, by functions.

use crate::stepped::Placed;
use rdpmc_report::gate::functions::Functions;
use rdpmc_step::functions::Names;

/// Returns the functions of the process whose count is nearest to `typical`, and the names of those that differ in others. Only processes
/// that have subtracted the same are compared.
pub(crate) fn joined<'p>(
    processes: impl Iterator<Item = &'p Placed>,
    typical: f64,
    names: &mut Names,
) -> (Option<Functions>, Option<String>) {
    let mut first = None;
    let functions = processes.filter_map(|Placed { counted, places }| {
        let places = places.as_ref()?;
        // A difference of two batches has fewer of criterion's own instructions than one batch.
        let of_this = (counted.process.slack, places.runs());
        if *first.get_or_insert(of_this) != of_this {
            return None;
        }
        let all = places.functions(names).into_iter();
        let all = all.map(|it| (it.name, it.within, it.instructions));
        Some(Functions::new(places.runs(), &names.source().to_string(), all, is_own))
    });
    Functions::joined(functions.collect(), typical)
}

/// Whether this is a function of criterion or of this library: a loop, into which the benchmark's closure is inlined.
fn is_own(name: &str) -> bool {
    let name = name.trim_start_matches('<');
    ["criterion::", "rdpmc_criterion::"].iter().any(|own| name.starts_with(own))
        || name.ends_with("(src/bencher.rs)")
}
