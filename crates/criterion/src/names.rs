//! The names of the benchmarks, before criterion has written them down.
//!
//! criterion tells a measurement no names. A directory has the name of its benchmark with `_` for some characters, and cut. So this program is
//! started once more, with its own arguments and `--list`, for which criterion prints all names.

use rdpmc_step::processes::{Wanted, asked};
use std::cell::OnceCell;
use std::path::Path;
use std::time::{Duration, Instant};

/// The word that the process is started with. It only lists.
const WORD: &str = "rdpmc-criterion-list";

/// criterion cuts a part of a directory's path after this number of bytes, or a few before.
const CUT: usize = 64 - 3;

/// The end of a name that criterion has cut in its list.
const CUT_NAME: &str = "...";

/// The names of all benchmarks that this program runs with its arguments.
#[derive(Debug, Default)]
pub(crate) struct Names(OnceCell<(Result<Vec<String>, String>, Duration)>);

/// Ends this process if it was started for the names alone: this program measures although it was told to list.
pub(crate) fn end_if_listing() {
    if let Some(question) = asked(WORD) {
        question.answer("");
    }
}

impl Names {
    fn listed(&self) -> &(Result<Vec<String>, String>, Duration) {
        self.0.get_or_init(|| {
            // Before a `--`, after which there are only names.
            let mut arguments = vec!["--list".into()];
            arguments.extend(std::env::args_os().skip(1));
            let begun = Instant::now();
            let time = Duration::ZERO;
            let lines = Wanted { question: WORD, number: 1, arguments, time }.lines();
            let names = lines.map_err(|why| why.to_string()).map(|lines| {
                let name = |line: &String| Some(line.strip_suffix(": benchmark")?.to_owned());
                lines.iter().filter_map(name).collect()
            });
            (names, begun.elapsed())
        })
    }

    /// Returns how long the program takes to come to all benchmarks.
    pub(crate) fn time_to_list(&self) -> Duration {
        self.listed().1
    }

    /// Returns the name of the benchmark with this directory below criterion's.
    ///
    /// # Errors
    /// Why it is not known.
    pub(crate) fn of(&self, directory: &Path) -> Result<&str, String> {
        let names = self.listed().0.as_ref().map_err(String::clone)?;
        match one_of(names, &directory.to_string_lossy()) {
            Some(name) if name.ends_with(CUT_NAME) => {
                Err("criterion truncates names of more than 100 characters, and cannot run this benchmark by its name. Use a shorter name".to_owned())
            }
            Some(name) => Ok(name),
            None => Err("criterion lists no benchmark of this name, or several".to_owned()),
        }
    }
}

/// Returns the name that has this directory, if it is one. None for a second benchmark of a name, which criterion runs with the first.
fn one_of<'a>(names: &'a [String], directory: &str) -> Option<&'a str> {
    let may_have = |name: &&String| match name_of_second(name) {
        // criterion numbers the directories apart from the names.
        Some(first) => directory.rsplit_once('_').is_some_and(|(before, _)| fits(first, before)),
        None => fits(name, directory),
    };
    let mut found = names.iter().filter(may_have);
    match (found.next(), found.next()) {
        (Some(name), None) if name_of_second(name).is_none() => Some(name),
        _ => None,
    }
}

/// Returns the name without its number, if criterion has numbered it: ` #2` is the second benchmark of a name.
fn name_of_second(name: &str) -> Option<&str> {
    let (first, number) = name.rsplit_once(" #")?;
    number.parse::<u32>().is_ok().then_some(first)
}

/// Whether a benchmark of this name may have this directory.
fn fits(name: &str, directory: &str) -> bool {
    let plain = |text: &str| text.replace(['?', '"', '/', '\\', '*', '<', '>', ':', '|', '^'], "_");
    let name = plain(name);
    if name == plain(directory) {
        return true;
    }
    // The parts of the path may be cut.
    let mut rest = name.as_str();
    let mut is_cut = false;
    for part in directory.split('/') {
        let Some(after) = rest.strip_prefix(part) else { return false };
        let is_long = part.len() >= CUT;
        is_cut |= is_long;
        rest = match after.find('_') {
            _ if after.is_empty() => after,
            Some(end) if is_long || end == 0 => after.get(end + 1..).unwrap_or_default(),
            None if is_long => "",
            _ => return false,
        };
    }
    is_cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_the_name_of_its_benchmark() {
        let long = "x".repeat(80);
        let all: Vec<String> =
            ["SmolStr::from len=12", "a/b/c", "two/digits", "plain", &long, "twin_s", "twin/s"]
                .map(str::to_owned)
                .to_vec();
        let of = |directory: &str| one_of(&all, directory);
        assert_eq!(of("SmolStr__from len=12"), Some("SmolStr::from len=12"));
        assert_eq!(of("a_b/c"), Some("a/b/c"));
        assert_eq!(of("a/b/c"), Some("a/b/c"));
        assert_eq!([of("two_digits"), of("plain")], [Some("two/digits"), Some("plain")]);
        assert_eq!(of(&"x".repeat(64)), Some(long.as_str()));
        let names = ["g/p", "g/p #2", "g/p_2", "h", "h #2"].map(str::to_owned);
        let of = |directory: &str| one_of(&names, directory);
        assert_eq!([of("g/p"), of("h")], [Some("g/p"), Some("h")]);
        assert_eq!([of("g/p_2"), of("g/p_2_2"), of("h_2")], [None; 3]);
        let of = |directory: &str| one_of(&all, directory);
        for unknown in ["twin_s", "plai", "plain_2", "", "a", &"x".repeat(50)] {
            assert_eq!(of(unknown), None, "{unknown}");
        }
    }
}
