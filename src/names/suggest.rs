//! Suggests known names for a wrong one.

/// The maximum number of suggestions.
const SUGGESTED: usize = 3;

/// The maximum length of a name that is compared, in bytes.
const MAX_LENGTH: usize = 128;

/// The known names that a wrong one may have been meant for. Each word of a name is compared with the word in its place:
/// `mem-loads` is not a misspelt `LLC-loads`.
#[derive(Debug)]
pub struct Nearest<'n> {
    wanted: &'n [u8],
    found: Vec<(usize, String)>,
}

impl<'n> Nearest<'n> {
    /// Looks for names near this one.
    pub fn to(name: &'n str) -> Nearest<'n> {
        Nearest { wanted: name.as_bytes(), found: Vec::new() }
    }

    /// Keeps a known name if it is among the nearest. Allocates only then.
    pub fn consider(&mut self, known: &str) {
        let Some(far) = distance(self.wanted, known.as_bytes()) else { return };
        let place =
            self.found.partition_point(|(other, name)| (*other, name.as_str()) < (far, known));
        let is_there = self.found.get(place).is_some_and(|(_, name)| name == known);
        if !is_there && place < SUGGESTED {
            self.found.insert(place, (far, known.to_owned()));
            self.found.truncate(SUGGESTED);
        }
    }

    /// Returns up to three names, the nearest first.
    pub fn found(self) -> Vec<String> {
        self.found.into_iter().map(|(_, name)| name).collect()
    }
}

/// Returns the names in `known` that `name` may have been meant for.
pub(crate) fn nearest(name: &str, known: Vec<String>) -> Vec<String> {
    let mut nearest = Nearest::to(name);
    known.iter().for_each(|known| nearest.consider(known));
    nearest.found()
}

/// Returns how far a candidate is from what is wanted. None if it is not near.
fn distance(wanted: &[u8], candidate: &[u8]) -> Option<usize> {
    // What is wanted may be a prefix, or up to a third of it may be wrong.
    let begins = candidate.get(..wanted.len());
    let more = candidate.len().abs_diff(wanted.len());
    if wanted.len() >= 3 && begins.is_some_and(|begun| begun.eq_ignore_ascii_case(wanted)) {
        return Some(more);
    }
    if !near(more, wanted, candidate) || !words_are_near(wanted, candidate) {
        return None;
    }
    edit_distance(wanted, candidate).filter(|far| near(*far, wanted, candidate))
}

/// Whether a distance is at most a third of the longer one.
fn near(far: usize, one: &[u8], other: &[u8]) -> bool {
    far * 3 <= one.len().max(other.len())
}

/// Whether the words of two names are near each other. True if their numbers differ: then a separator may be wrong.
fn words_are_near(one: &[u8], other: &[u8]) -> bool {
    fn words(name: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
        name.split(|byte| b"-_.:".contains(byte))
    }
    let (one, other) = (words(one), words(other));
    // Short words such as `l1` and `l3` are of siblings.
    let are_near = |(one, other)| {
        edit_distance(one, other).is_some_and(|far| far <= 1 || near(far, one, other))
    };
    one.clone().count() != other.clone().count() || one.zip(other).all(are_near)
}

/// Returns the case-insensitive optimal string alignment distance. None if either is longer than `MAX_LENGTH`.
fn edit_distance(one: &[u8], other: &[u8]) -> Option<usize> {
    if one.len().max(other.len()) > MAX_LENGTH {
        return None;
    }
    let same =
        |a: Option<&u8>, b: Option<&u8>| a.zip(b).is_some_and(|(a, b)| a.eq_ignore_ascii_case(b));
    // Rows of the table of distances between all prefixes, none of which is above `MAX_LENGTH`.
    let mut before = [0_u8; MAX_LENGTH + 1];
    let mut last: [u8; MAX_LENGTH + 1] = std::array::from_fn(|place| place as u8);
    for (i, a) in one.iter().enumerate() {
        let at = |row: &[u8], place: usize| row.get(place).copied().unwrap_or(MAX_LENGTH as u8);
        let mut row = [i as u8 + 1; MAX_LENGTH + 1];
        let mut left = i as u8 + 1;
        for (j, b) in other.iter().enumerate() {
            let changed = at(&last, j) + u8::from(!same(Some(a), Some(b)));
            let mut least = changed.min(at(&last, j + 1) + 1).min(left + 1);
            if i > 0 && j > 0 && same(one.get(i - 1), Some(b)) && same(Some(a), other.get(j - 1)) {
                least = least.min(at(&before, j - 1) + 1);
            }
            left = least;
            if let Some(place) = row.get_mut(j + 1) {
                *place = least;
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last.get(other.len()).copied().map(usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::generic::all;

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn near_names() {
        let near = |name| nearest(name, all());
        assert_eq!(near("cylces").first().map(String::as_str), Some("cycles"));
        assert_eq!(near("instuctions"), ["instructions"]);
        assert_eq!(near("brnach-misses").first().map(String::as_str), Some("branch-misses"));
        assert_eq!(near("cache").len(), 2);
        assert_eq!(near("inst_retired.any"), [""; 0]);
        assert_eq!(near("mem-loads"), [""; 0]);
        assert_eq!(near("LCL-loads").first().map(String::as_str), Some("LLC-loads"));
        assert_eq!(near("brnach_msises").first().map(String::as_str), Some("branch-misses"));
        assert_eq!(near(""), [""; 0]);
        assert_eq!(edit_distance(b"abc", b"aCb"), Some(1));
        assert_eq!(edit_distance(b"", b"abc"), Some(3));
        assert_eq!(edit_distance(b"kitten", b"sitting"), Some(3));
        assert_eq!(edit_distance(b"same", b"SAME"), Some(0));
        assert_eq!(edit_distance(&[b'a'; 129], b"a"), None);
    }
}
