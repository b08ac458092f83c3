//! The names that are nearest to a wrong one.

use crate::pool::MAX_NAME;
use crate::table::Table;
use rdpmc::messages::Nearest;

/// Vendors' names that `rdpmc` takes for other events: with a table, or as part of a longer name, they are the vendor's.
pub(crate) const OTHERWISE: [&str; 2] = ["itlb", "l1d"];

/// Returns up to three names, of the tables and of all CPUs: the nearest first, then unit masks of the same event, and then those of the
/// tables that have this name as a part.
pub(crate) fn nearest(name: &str, tables: &[Table], of_all_cpus: &[String]) -> Vec<String> {
    const MAX: usize = 3;
    if name.len() > MAX_NAME {
        return Vec::new();
    }
    let name = name.to_ascii_lowercase().replace(':', ".");
    let mut nearest = Nearest::to(&name);
    of_all_cpus.iter().for_each(|known| nearest.consider(known));
    let mut consider = |known: &str| {
        if !OTHERWISE.contains(&known) {
            nearest.consider(known);
        }
    };
    tables.iter().for_each(|table| table.each(|_, known, _| consider(known)));
    let mut found = nearest.found();
    let mut add = |is_near: &dyn Fn(&str) -> bool| {
        for table in tables {
            table.each(|_, known, _| {
                let is_new = found.len() < MAX && found.iter().all(|other| other != known);
                if is_new && is_near(known) {
                    found.push(known.to_owned());
                }
            });
        }
    };
    if let Some((event, _)) = name.split_once('.') {
        add(&|known| known.split('.').next() == Some(event));
    }
    if name.len() >= 4 {
        add(&|known| known.contains(name.as_str()));
    }
    found
}

/// Returns up to three names of tables: the nearest, and those that have this name as a part.
pub(crate) fn nearest_tables(name: &str) -> Vec<String> {
    let name = name.to_ascii_lowercase();
    let mut nearest = Nearest::to(&name);
    for table in Table::all() {
        table.all_names().for_each(|known| nearest.consider(known));
    }
    let mut found = nearest.found();
    if name.len() >= 3 {
        let parts = Table::all().flat_map(Table::all_names).filter(|known| known.contains(&name));
        for known in parts.map(str::to_owned) {
            if !found.contains(&known) {
                found.push(known);
            }
        }
    }
    found.truncate(3);
    found
}

#[cfg(all(test, feature = "intel", feature = "amd", feature = "arm", feature = "riscv"))]
mod tests {
    use super::*;

    /// Of all names, `rdpmc` takes exactly these for others.
    #[test]
    fn names_that_mean_something_else() {
        let mut names: Vec<String> = Vec::new();
        for table in Table::all() {
            // Its own have no dots.
            table.each(|_, name, _| names.extend((!name.contains('.')).then(|| name.to_owned())));
        }
        names.sort();
        names.dedup();
        assert!(names.len() > 1_000, "{}", names.len());
        names.retain(|name| name.parse::<rdpmc::Event>().is_ok());
        assert_eq!(names, OTHERWISE);
    }
}
