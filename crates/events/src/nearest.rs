//! The names that are nearest to a wrong one.

use crate::pool::MAX_NAME;
use crate::table::Table;
use rdpmc::messages::Nearest;

/// Returns up to three names, of the tables and of all CPUs: the nearest first, and then those of the tables that have this name as a part.
pub(crate) fn nearest(name: &str, tables: &[Table], of_all_cpus: &[String]) -> Vec<String> {
    const MAX: usize = 3;
    if name.len() > MAX_NAME {
        return Vec::new();
    }
    let name = name.to_ascii_lowercase().replace(':', ".");
    let mut nearest = Nearest::to(&name);
    of_all_cpus.iter().for_each(|known| nearest.consider(known));
    tables.iter().for_each(|table| table.each(|_, known, _| nearest.consider(known)));
    let mut found = nearest.found();
    if name.len() >= 4 && found.len() < MAX {
        for table in tables {
            table.each(|_, known, _| {
                let is_part = known.contains(name.as_str());
                if is_part && found.len() < MAX && found.iter().all(|other| other != known) {
                    found.push(known.to_owned());
                }
            });
        }
    }
    found
}
