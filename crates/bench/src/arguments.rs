//! The arguments of a program that measures: those of libtest, criterion and divan, with which cargo, nextest and editors start it.

use rdpmc_report::gate::cells::plain;
use rdpmc_report::gate::export;
use std::ffi::OsString;
use std::path::PathBuf;

pub(crate) const HELP: &str = "\
Measures rows of code with rdpmc-bench.

Usage: PROGRAM [OPTIONS] [FILTER...]

  FILTER           measure the rows whose names contain one of these texts (default: all)

  --exact          take the rows whose names are equal to a FILTER
  --skip TEXT      leave out the rows whose names contain this text. May be given again
  --list           print the names of the rows
  --test           run each row once. So do `cargo test` and nextest without `--bench`
  --bench          measure, also if cargo test or nextest starts the program
  --save FILE      save the results for rdpmc-gate, as JSON. `--json FILE` is the same
  --where          show in which functions the instructions of each row are (feature `functions`)
  --format FORMAT  print them as `table` (default), `csv`, `json`, `bencher` or `github-action-benchmark`. `--list --format terse` prints names
                   alone
  --help           print this text

--ignored chooses nothing, because no row is ignored. Other options of libtest change nothing: --nocapture, --quiet, --test-threads, ...
";

/// What is done with the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Action {
    #[default]
    Measure,
    /// Run each once.
    Test,
    List,
    Help,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Table,
    Csv,
    Json,
    Dashboard(export::Format),
}

/// What the arguments ask for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Arguments {
    pub(crate) action: Action,
    pub(crate) is_terse: bool,
    pub(crate) format: Format,
    pub(crate) save: Option<PathBuf>,
    /// Whether the functions of the rows are shown.
    pub(crate) shows_functions: bool,
    /// Whether `--bench` was given.
    is_bench: bool,
    filters: Vec<String>,
    skipped: Vec<String>,
    is_exact: bool,
    is_ignored: bool,
}

impl Arguments {
    /// Reads the arguments of this process.
    ///
    /// # Errors
    /// Says what is wrong with them.
    pub(crate) fn of_this_process() -> Result<Arguments, String> {
        let found = Arguments::parse(std::env::args_os().skip(1))?;
        let is_test = found.action == Action::Measure && !found.is_bench && is_started_as_a_test();
        Ok(if is_test { Arguments { action: Action::Test, ..found } } else { found })
    }

    fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Arguments, String> {
        let text = |argument: OsString| {
            argument.into_string().map_err(|argument| format!("{argument:?} is not UTF-8"))
        };
        let arguments = arguments.map(text).collect::<Result<Vec<String>, String>>()?;
        let mut arguments = arguments.into_iter();
        let mut found = Arguments::default();
        while let Some(argument) = arguments.next() {
            let (name, given) = match argument.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (argument.as_str(), None),
            };
            if argument == "--" {
                found.filters.extend(arguments);
                break;
            }
            let mut value = || {
                // cargo adds `--bench` behind the others.
                let next = || arguments.next().filter(|value| !value.starts_with("--"));
                given.clone().or_else(next).ok_or(format!("{name} needs a value"))
            };
            match name {
                "--help" | "-h" => found.action = Action::Help,
                "--list" => found.action = Action::List,
                "--test" if found.action == Action::Measure => found.action = Action::Test,
                "--bench" => found.is_bench = true,
                "--exact" => found.is_exact = true,
                "--where" if cfg!(feature = "functions") => found.shows_functions = true,
                "--where" => {
                    return Err("--where needs the feature `functions` of rdpmc-bench: `cargo add --dev rdpmc-bench --features functions`".into());
                }
                "--ignored" => found.is_ignored = true,
                "--skip" => found.skipped.push(value()?),
                "--save" | "--json" => found.save = Some(value()?.into()),
                "--format" => match value()?.as_str() {
                    "terse" => found.is_terse = true,
                    "table" | "pretty" => found.format = Format::Table,
                    "csv" => found.format = Format::Csv,
                    "json" => found.format = Format::Json,
                    other => {
                        let format = other.parse().map_err(|_| {
                            format!("{other} is not a format. Use table, csv, json, bencher or github-action-benchmark")
                        });
                        found.format = Format::Dashboard(format?);
                    }
                },
                // Options of libtest that change nothing here.
                "--color" | "--colour" | "--test-threads" | "--logfile" | "--shuffle-seed"
                | "-Z" => drop(value()?),
                "--test" | "--include-ignored" | "--nocapture" | "--no-capture"
                | "--show-output" | "--quiet" | "-q" | "--verbose" | "-v" | "--report-time"
                | "--ensure-time" | "--shuffle" => {}
                // A row may have the name of an option.
                option if option.starts_with('-') && option.len() > 1 && !found.is_exact => {
                    return Err(format!("{option} is not an option"));
                }
                _ => found.filters.push(argument),
            }
        }
        Ok(found)
    }

    /// Whether these can choose a row at all.
    pub(crate) fn may_choose(&self) -> bool {
        !self.is_ignored
    }

    /// Whether the row of this name is chosen.
    pub(crate) fn choose(&self, name: &str) -> bool {
        // A list has each name in one line.
        let name = plain(name);
        let is_like =
            |text: &String| if self.is_exact { name == *text } else { name.contains(text) };
        !self.is_ignored
            && (self.filters.is_empty() || self.filters.iter().any(is_like))
            && !self.skipped.iter().any(is_like)
    }
}

/// Whether this call belongs to a program of its own. In a test, which libtest runs on a thread with the test's name, the arguments are those of
/// libtest.
pub(crate) fn is_of_program() -> bool {
    std::thread::current().name() == Some("main")
}

/// Whether nextest or `cargo test` has started this program. They build it as `target/…/deps/NAME-HASH`, as `cargo bench` does, which passes
/// `--bench`.
fn is_started_as_a_test() -> bool {
    if std::env::var_os("NEXTEST").is_some() {
        return true;
    }
    let program = std::env::current_exe().unwrap_or_default();
    let is_hash =
        |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = program.file_stem().unwrap_or_default().to_string_lossy();
    let has_hash = name.rsplit_once('-').is_some_and(|(_, end)| is_hash(end));
    let is_in_deps = program.parent().is_some_and(|directory| directory.ends_with("deps"));
    std::env::var_os("CARGO_MANIFEST_DIR").is_some() && has_hash && is_in_deps
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(arguments: &str) -> Result<Arguments, String> {
        Arguments::parse(arguments.split_whitespace().map(OsString::from))
    }

    #[test]
    fn rows_are_chosen_as_libtest_chooses_tests() {
        const NAMES: [&str; 3] = ["parse", "parse/long", "sort"];
        let chosen = |arguments: &str| -> Vec<&str> {
            let arguments = parse(arguments).unwrap();
            NAMES.into_iter().filter(|name| arguments.choose(name)).collect()
        };
        assert_eq!(chosen(""), NAMES);
        assert_eq!(chosen("parse"), ["parse", "parse/long"]);
        assert_eq!(chosen("long sort"), ["parse/long", "sort"]);
        assert_eq!(chosen("--exact parse"), ["parse"]);
        assert_eq!(chosen("parse --exact --nocapture --bench"), ["parse"]);
        assert_eq!(chosen("-- sort --list"), ["sort"]);
        assert!(parse("--exact -x").unwrap().choose("-x"));
        assert_eq!(chosen("--skip parse"), ["sort"]);
        assert_eq!(chosen("--skip=parse --exact"), ["parse/long", "sort"]);
        assert_eq!(chosen("--include-ignored -q --color never"), NAMES);
        assert!(chosen("--ignored").is_empty() && chosen("nothing").is_empty());
        let two_lines = Arguments::parse(["--exact", "two lines"].map(OsString::from).into_iter());
        assert!(two_lines.unwrap().choose("two\nlines"));
        assert_eq!(chosen("--test-threads 1 -Z unstable-options --report-time sort"), ["sort"]);
    }

    #[test]
    fn actions_and_formats() {
        assert_eq!(parse("").unwrap().action, Action::Measure);
        assert_eq!(parse("--bench --test").unwrap().action, Action::Test);
        assert_eq!(parse("--list --format terse --test").unwrap().action, Action::List);
        assert!(parse("--list --format terse").unwrap().is_terse);
        assert_eq!(parse("x -h").unwrap().action, Action::Help);
        assert_eq!(parse("--format csv").unwrap().format, Format::Csv);
        let bencher = Format::Dashboard(export::Format::Bencher);
        assert_eq!(parse("--format=bencher").unwrap().format, bencher);
        for save in ["--save a.json", "--json a.json", "--json=a.json"] {
            assert_eq!(parse(save).unwrap().save, Some("a.json".into()));
        }
        for (wrong, why) in [
            ("--slower", "--slower is not an option"),
            ("--save", "--save needs a value"),
            ("--save --bench", "--save needs a value"),
            (
                "--format yaml",
                "yaml is not a format. Use table, csv, json, bencher or github-action-benchmark",
            ),
        ] {
            assert_eq!(parse(wrong).unwrap_err(), why);
        }
    }
}
