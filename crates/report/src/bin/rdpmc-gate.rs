//! Compares two saved results. The exit status says whether one got worse.

#![forbid(unsafe_code)]

use rdpmc_report::criterion::Gate;
use rdpmc_report::gate::export::Format;
use rdpmc_report::gate::{Certainty, Comparison, Limits, Row, Side, Status, bench_json, compare};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
Compares two saved benchmark results. Fails if one got worse.

Usage: rdpmc-gate [OPTIONS] OLD [NEW]
       rdpmc-gate --export FORMAT RESULTS

  OLD, NEW, RESULTS        files that `rdpmc-bench` has saved (a name with `/` or `.json`), or the names of baselines that
                           `cargo bench -- --save-baseline NAME` has saved with `rdpmc-criterion`. NEW is `new` by default, criterion's last run

  --accept FIGURE=PERCENT  compare FIGURE (cycles, page-faults, ns, ...), and accept growth of up to PERCENT
  --allow-missing          accept benchmarks that are missing on one side, and figures that are missing on either or both
  --allow-missing=NAME     accept that of one benchmark. May be given again
  --allow-unstable         accept figures that are too unstable to compare
  --markdown               print a comment for a pull request: the worst first, unchanged figures folded, below 60,000 characters
  --summary FILE           add that comment to a file, too: `--summary \"$GITHUB_STEP_SUMMARY\"`
  --export FORMAT          print results for a dashboard: `bencher` (Bencher Metric Format) or `github-action-benchmark`
  --home DIRECTORY         criterion's directory (default: CRITERION_HOME, or `criterion` in cargo's target directory)

Instructions, stepped-instructions and branches are compared by default. The limit is 0.001 %, and 0 if both figures are exact.
Another limit replaces it: `--accept instructions=1%`. Other figures are compared only if they are named.

Exit status: 0 nothing is worse, 1 regression, 2 wrong arguments, 3 not all could be compared.
";

fn main() -> ExitCode {
    let (said, mut status) = match Arguments::parse(std::env::args_os().skip(1)) {
        Ok(Some(arguments)) => {
            let (said, status) = arguments.run();
            (said, status.code())
        }
        Ok(None) => (USAGE.to_owned(), Status::Passed.code()),
        Err(why) => {
            let _ = write!(stderr(), "rdpmc-gate: {why}.\n\n{USAGE}");
            return ExitCode::from(Status::USAGE);
        }
    };
    let mut output = stdout();
    match output.write_all(said.as_bytes()).and_then(|()| output.flush()) {
        // A reader that has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        Err(error) => {
            say(&format!("the output cannot be written: {error}"));
            if status == Status::Passed.code() {
                status = Status::Incomplete.code();
            }
        }
        Ok(()) => {}
    }
    ExitCode::from(status)
}

fn say(text: &str) {
    let _ = writeln!(stderr(), "rdpmc-gate: {text}.");
}

struct Arguments {
    old: String,
    new: Option<String>,
    limits: Limits,
    home: Option<PathBuf>,
    is_markdown: bool,
    summary: Option<PathBuf>,
    export: Option<Format>,
}

impl Arguments {
    /// Reads the arguments. None to print the usage.
    fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Option<Arguments>, String> {
        let text = |argument: OsString| {
            argument.into_string().map_err(|argument| format!("{argument:?} is not UTF-8"))
        };
        let mut arguments =
            arguments.map(text).collect::<Result<Vec<String>, String>>()?.into_iter();
        let (mut names, mut limits, mut home, mut is_markdown) =
            (Vec::new(), Limits::new(), None, false);
        let (mut summary, mut export) = (None, None);
        while let Some(argument) = arguments.next() {
            let (name, given) = match argument.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (argument.as_str(), None),
            };
            let is_flag = matches!(name, "--help" | "--allow-unstable" | "--markdown");
            if is_flag && given.is_some() {
                return Err(format!("{name} takes no value"));
            }
            let mut value = || {
                given.clone().or_else(|| arguments.next()).ok_or(format!("{name} needs a value"))
            };
            match name {
                "--help" | "-h" => return Ok(None),
                "--accept" => limits = limits.accept_argument(&value()?)?,
                "--allow-missing" => {
                    limits = match given {
                        Some(benchmark) => limits.allow_missing_of(benchmark),
                        None => limits.allow_missing(),
                    }
                }
                "--allow-unstable" => limits = limits.allow_unstable(),
                "--markdown" => is_markdown = true,
                "--summary" => summary = Some(value()?.into()),
                "--export" => export = Some(value()?.parse()?),
                "--home" => home = Some(value()?.into()),
                option if option.starts_with('-') => {
                    return Err(format!("{option} is not an option"));
                }
                _ => names.push(argument),
            }
        }
        let mut names = names.into_iter();
        let old = names.next().ok_or("the name of the earlier results is missing")?;
        let new = names.next();
        if names.next().is_some() {
            return Err("there are more than two names. To accept one missing benchmark, write `--allow-missing=NAME`".into());
        }
        for name in [Some(&old), new.as_ref()].into_iter().flatten() {
            if !is_file(name) && name.contains('/') {
                return Err(format!(
                    "there is no file {name}, and criterion makes directories of a baseline with `/` in its name, which cannot be found \
                     again. Save the baseline under another name, such as {}",
                    name.replace('/', "-")
                ));
            }
        }
        if export.is_some() {
            return match (new, is_markdown, &summary) {
                (None, false, None) => Ok(Some(Arguments {
                    old,
                    new: None,
                    limits,
                    home,
                    is_markdown,
                    summary,
                    export,
                })),
                _ => Err("--export takes one name, and is not for comparisons".into()),
            };
        }
        if is_file(&old) && new.is_none() {
            return Err(format!("{old} is a file, and the later one is missing"));
        }
        let later = new.as_deref().unwrap_or("new");
        if later == old || (is_file(&old) && is_file(later) && is_one_file(&old, later)) {
            return Err("the earlier and the later results are the same".into());
        }
        if new.as_ref().is_some_and(|new| is_file(new) != is_file(&old)) {
            return Err("one of the names is a file, and the other is not".into());
        }
        Ok(Some(Arguments { old, new, limits, home, is_markdown, summary, export }))
    }

    /// Does what the arguments say. Returns what to print, and the status.
    fn run(&self) -> (String, Status) {
        if let Some(format) = self.export {
            let Side { rows, mut obstacles, .. } = self.side(&self.old);
            let of_row = |row: &Row| Some(format!("{}: {}", row.name, row.obstacle.as_ref()?));
            obstacles.extend(rows.iter().filter_map(of_row));
            let unstable = rows.iter().flat_map(|row| row.figures.iter().map(move |it| (row, it)));
            for (row, figure) in unstable.filter(|(_, it)| it.certainty == Certainty::Unstable) {
                say(&format!("{}, {}: left out, because it is unstable", row.name, figure.name));
            }
            let rows: Vec<Row> = rows.into_iter().filter(|row| row.obstacle.is_none()).collect();
            for why in &obstacles {
                say(why);
            }
            let is_whole = obstacles.is_empty();
            let status = if is_whole { Status::Passed } else { Status::Incomplete };
            return (format.text(&rows), status);
        }
        let comparison = self.compare();
        let mut status = comparison.status();
        // Outside of a job, the variable with the path is empty.
        if let Some(path) = self.summary.as_ref().filter(|path| !path.as_os_str().is_empty()) {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let written =
                file.and_then(|mut file| file.write_all(comparison.markdown().as_bytes()));
            if let Err(why) = written {
                say(&format!("{} cannot be written: {why}", path.display()));
                status = if status == Status::Passed { Status::Incomplete } else { status };
            }
        }
        let said = if self.is_markdown { comparison.markdown() } else { comparison.to_string() };
        (said, status)
    }

    /// Returns the results of this name.
    fn side(&self, name: &str) -> Side {
        match is_file(name) {
            true => bench_json::load(Path::new(name)),
            false => self.gate(name, name).results(),
        }
    }

    fn gate(&self, old: &str, new: &str) -> Gate {
        let gate = Gate::new(old, new).limits(self.limits.clone());
        self.home.iter().fold(gate, |gate, home| gate.home(home))
    }

    fn compare(&self) -> Comparison {
        match &self.new {
            Some(new) if is_file(&self.old) => {
                let [old, new] = [&self.old, new].map(|name| bench_json::load(Path::new(name)));
                compare(&old, &new, &self.limits)
            }
            new => self.gate(&self.old, new.as_deref().unwrap_or("new")).compare(),
        }
    }
}

/// Whether an argument names a file. Other names are those of baselines, which are directories without a `/`.
fn is_file(name: &str) -> bool {
    let path = Path::new(name);
    path.extension().is_some_and(|end| end == "json") || name.contains('/') && path.is_file()
}

/// Whether two paths lead to one file.
fn is_one_file(one: &str, other: &str) -> bool {
    let real = |name: &str| Path::new(name).canonicalize().ok();
    real(one).is_some_and(|one| real(other) == Some(one))
}
