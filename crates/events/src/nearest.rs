//! The names that are nearest to a wrong one.

use crate::pool::MAX_NAME;
use crate::table::Table;

/// Returns up to three names of the tables, the nearest first.
pub(crate) fn nearest(name: &str, tables: &[Table]) -> Vec<String> {
    const MAX: usize = 3;
    if name.len() > MAX_NAME {
        return Vec::new();
    }
    let name = name.to_ascii_lowercase().replace(':', ".");
    // A quarter of the characters may differ. A long name may also be a part of the known one.
    let limit = name.len() / 4 + 1;
    let mut near: Vec<(usize, String)> = Vec::new();
    for table in tables {
        table.each(|_, known, _| {
            let is_part = name.len() >= 4 && known.contains(name.as_str());
            let distance = distance(&name, known, limit).or(is_part.then_some(limit + 1));
            if let Some(distance) =
                distance.filter(|_| near.iter().all(|(_, other)| other != known))
            {
                near.push((distance, known.to_owned()));
            }
        });
    }
    near.sort();
    near.into_iter().take(MAX).map(|(_, name)| name).collect()
}

/// Returns the number of characters to insert, remove or replace, if it is at most `limit`.
fn distance(one: &str, other: &str, limit: usize) -> Option<usize> {
    if one.len().abs_diff(other.len()) > limit {
        return None;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (place, byte) in one.bytes().enumerate() {
        let mut diagonal = place;
        let mut left = place + 1;
        for (above, own) in row.iter_mut().skip(1).zip(other.bytes()) {
            let replaced = diagonal + usize::from(byte != own);
            diagonal = *above;
            left = replaced.min(left + 1).min(*above + 1);
            *above = left;
        }
        if let Some(first) = row.first_mut() {
            *first = place + 1;
        }
        if row.iter().all(|distance| *distance > limit) {
            return None;
        }
    }
    row.last().copied().filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("", "", 0), Some(0));
        assert_eq!(distance("inst_retired.any", "inst_retired.ayn", 2), Some(2));
        assert_eq!(distance("inst_retired.any", "nst_retired.any_p", 3), Some(3));
        assert_eq!(distance("abc", "xyz", 2), None);
        assert_eq!(distance("abc", "abcdef", 2), None);
    }
}
