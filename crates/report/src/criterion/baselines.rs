//! Compares two of criterion's baselines.

use super::counters_json::Results;
use super::home::{self, home_of};
use super::samples::has_samples;
use crate::gate::Limits;
use crate::gate::bench_json::is_same_program;
use crate::gate::{Comparison, SCOPES_DIFFER, compare};
use crate::gate::{Row, Side};
use std::collections::BTreeMap;
use std::fs::DirEntry;
use std::path::PathBuf;

/// A comparison of two baselines, for a CI job that fails if counts have grown.
///
/// The baselines are those of criterion: `cargo bench -- --save-baseline NAME` saves one, and `new` is the last run.
///
/// ```no_run
/// # mod rdpmc_criterion { pub use rdpmc_report::{criterion::Gate, gate::Comparison}; }
/// use rdpmc_criterion::{Comparison, Gate};
///
/// fn main() -> Comparison {
///     let comparison = Gate::new("main", "new").compare();
///     println!("{comparison}");
///     comparison // the exit status
/// }
/// ```
///
/// `rdpmc-gate main` is the same as a command.
///
/// Results of a benchmark that no longer exists stay in criterion's directory. They are noticed if its program has run again since,
/// or if any other program has, a day later.
#[derive(Clone, Debug)]
pub struct Gate {
    baseline: String,
    new: String,
    home: PathBuf,
    limits: Limits,
}

impl Gate {
    /// Returns a comparison of the results `new` with those of `baseline`.
    pub fn new(baseline: impl Into<String>, new: impl Into<String>) -> Gate {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let home = home::default_home(Some(cargo));
        Gate { baseline: baseline.into(), new: new.into(), home, limits: Limits::new() }
    }

    /// Sets criterion's directory. By default it is that of criterion: `CRITERION_HOME`, or `criterion` in cargo's target
    /// directory. Results in the directories beside it (`criterion-instructions`) are compared as well.
    pub fn home(self, home: impl Into<PathBuf>) -> Gate {
        Gate { home: home.into(), ..self }
    }

    /// Sets what is compared, and how much more is accepted.
    pub fn limits(self, limits: Limits) -> Gate {
        Gate { limits, ..self }
    }

    /// Reads and compares the results.
    pub fn compare(&self) -> Comparison {
        let (mut old, mut new) = (self.saved_as(&self.baseline), self.saved_as(&self.new));
        let renamed = new.accept_as_renamed(&old);
        old.mark();
        new.mark();
        self.join(&mut old, &mut new);
        let mut comparison = compare(&old.side(), &new.side(), &self.limits);
        comparison.reasons.extend(renamed);
        comparison
    }

    /// Reads the later results alone.
    #[doc(hidden)]
    pub fn results(&self) -> Side {
        let mut new = self.saved_as(&self.new);
        new.mark();
        new.side()
    }

    /// Returns all results that are saved under a name.
    fn saved_as(&self, baseline: &str) -> Saved {
        let mut saved =
            Saved { label: baseline.to_owned(), entries: Vec::new(), obstacles: Vec::new() };
        for home in self.homes() {
            let (directories, unreadable) = home::search(&home, &|name| name == baseline);
            saved.obstacles.extend(unreadable);
            let (mut others, mut has_ours) = (Vec::new(), false);
            for directory in directories {
                let benchmark = directory.parent().unwrap_or(&directory);
                let name = home::name(&home, benchmark);
                let loaded = Results::load(&directory);
                let is_ours = |measured: &str| {
                    let is_of = |base: &PathBuf| home == *base || home == home_of(base, measured);
                    self.bases().iter().any(is_of)
                };
                has_ours |= matches!(&loaded, Ok(Some(results)) if is_ours(&results.measured));
                match loaded {
                    Ok(Some(results)) if !is_ours(&results.measured) => others.push(format!(
                        "{name}: {baseline} was measured by {}, and {} has other results. Save it again",
                        results.measured,
                        home.display()
                    )),
                    Ok(Some(results))
                        if has_samples(&directory, &results.iterations, &results.values) =>
                    {
                        let path = benchmark.strip_prefix(&home).unwrap_or(benchmark).to_owned();
                        saved.entries.push(Entry {
                            home: home.clone(),
                            path,
                            name,
                            results,
                            key: None,
                            obstacle: None,
                        });
                    }
                    Ok(Some(_)) => {
                        saved.obstacles.push(format!(
                            "{name}: the counters of {baseline} are of an earlier run"
                        ));
                    }
                    // criterion's own directory may have other results.
                    Ok(None) if self.bases().contains(&home) => {}
                    Ok(None) => {
                        saved.obstacles.push(format!("{name}: no counters are saved in {baseline}"))
                    }
                    Err(why) => saved.obstacles.push(format!("{name}: {why}. Save it again")),
                }
            }
            // A copy of such a directory is not one, and has no results of its own.
            saved.obstacles.extend(others.into_iter().filter(|_| has_ours));
        }
        if saved.entries.is_empty() && saved.obstacles.is_empty() {
            saved.obstacles.push(format!(
                "Nothing is saved as {baseline} in {0} or {0}-*. Save it with `cargo bench -- --save-baseline {baseline}`",
                self.home.display()
            ));
        }
        saved.leave_out_earlier_kinds();
        saved
    }

    /// Returns criterion's directory as it is given, and where it really is.
    fn bases(&self) -> Vec<PathBuf> {
        let mut bases = vec![self.home.clone()];
        bases.extend(self.home.canonicalize().ok().filter(|real| *real != self.home));
        bases
    }

    /// Returns criterion's directory, and those beside it for each kind of results.
    fn homes(&self) -> Vec<PathBuf> {
        let mut homes = BTreeMap::new();
        for base in self.bases() {
            let prefix = home_of(&base, "");
            let prefix = prefix.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let parent = match base.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
                _ => PathBuf::from("."),
            };
            let beside = std::fs::read_dir(parent).into_iter().flatten().flatten();
            let is_of_kind =
                |entry: &DirEntry| entry.file_name().to_string_lossy().starts_with(&prefix);
            let beside =
                beside.filter(is_of_kind).map(|entry| base.with_file_name(entry.file_name()));
            for home in beside.chain([base.clone()]).filter(|home| home.is_dir()) {
                // A link and its target are one.
                homes.insert(home.canonicalize().unwrap_or_else(|_| home.clone()), home);
            }
        }
        homes.into_values().collect()
    }

    /// Gives the results of one benchmark on both sides the same key.
    fn join(&self, old: &mut Saved, new: &mut Saved) {
        for was in &mut old.entries {
            let key = was.home.join(&was.path).display().to_string();
            was.key = Some(key.clone());
            let is_same = |is: &&mut Entry| is.home == was.home && is.path == was.path;
            if let Some(is) = new.entries.iter_mut().find(is_same) {
                is.key = Some(key);
                let is_one_run = (&was.results.program, was.results.run)
                    == (&is.results.program, is.results.run);
                if is_one_run {
                    let line = format!(
                        "{} is the run that was saved as {}. Run the benchmark again",
                        self.new, self.baseline
                    );
                    is.obstacle.get_or_insert(line);
                }
            }
        }
        // What has been measured in another way since.
        let kept: Vec<Option<String>> = new.entries.iter().map(|is| is.key.clone()).collect();
        for was in old.entries.iter_mut().filter(|was| !kept.contains(&was.key)) {
            let is_same = |is: &&mut Entry| is.key.is_none() && is.path == was.path;
            if let Some(is) = new.entries.iter_mut().find(is_same) {
                let (from, to) = (&was.results.measured, &is.results.measured);
                let line = match was.results.is_of_process == is.results.is_of_process {
                    true => format!(
                        "{} was measured by {from}, and {} by {to}",
                        self.baseline, self.new
                    ),
                    false => SCOPES_DIFFER.into(),
                };
                is.key.clone_from(&was.key);
                is.obstacle.get_or_insert(line);
            }
        }
    }
}

/// What is saved under a name.
struct Saved {
    label: String,
    entries: Vec<Entry>,
    obstacles: Vec<String>,
}

/// Results of a benchmark.
#[derive(Debug)]
struct Entry {
    home: PathBuf,
    /// The benchmark's directory below `home`. Unlike its name, it is unique.
    path: PathBuf,
    name: String,
    results: Results,
    key: Option<String>,
    obstacle: Option<String>,
}

/// Programs that are run together do not start further apart than this, in milliseconds.
const DAY: u64 = 24 * 60 * 60 * 1_000;

impl Saved {
    /// A program that has measured something else since has left its earlier results in another directory.
    fn leave_out_earlier_kinds(&mut self) {
        let all = std::mem::take(&mut self.entries);
        let newer = |entry: &Entry| {
            all.iter().find(|other| {
                other.path == entry.path
                    && is_same_program(&other.results.program, &entry.results.program)
                    && other.results.run > entry.results.run
            })
        };
        let mut left_out = Vec::new();
        for (place, entry) in all.iter().enumerate() {
            let Some(newer) = newer(entry) else { continue };
            left_out.push(place);
            // Results by time and results by counters are not compared anyway.
            if entry.results.without_counters.is_none() && newer.results.without_counters.is_none()
            {
                let (name, label) = (&entry.name, &self.label);
                let (was, is) = (&entry.results.measured, &newer.results.measured);
                let home = entry.home.display();
                self.obstacles.push(format!(
                    "{name}: {label} was measured by {was}, and later by {is}. Remove {home}"
                ));
            }
        }
        let kept = all.into_iter().enumerate().filter(|(place, _)| !left_out.contains(place));
        self.entries = kept.map(|(_, entry)| entry).collect();
    }

    /// Returns the program that measured all, if it is one.
    fn program(&self) -> Option<&str> {
        let mut programs = self.entries.iter().map(|entry| entry.results.program.as_str());
        let first = programs.next()?;
        programs.all(|other| is_same_program(first, other)).then_some(first)
    }

    /// If each side was measured by one program, and these have different names, the earlier one was renamed: its benchmarks are compared.
    /// Returns a line that says so.
    fn accept_as_renamed(&mut self, earlier: &Saved) -> Option<String> {
        let (was, is) = (earlier.program()?.to_owned(), self.program()?.to_owned());
        if is_same_program(&was, &is) {
            return None;
        }
        for Results { program, shared_with, .. } in
            self.entries.iter_mut().map(|it| &mut it.results)
        {
            program.clone_from(&was);
            // Its results are where those of the earlier name were.
            shared_with.take_if(|other| is_same_program(other, &was));
        }
        Some(format!(
            "{} was measured by the program {was}, and {} by {is}. They are compared as one program that was renamed",
            earlier.label, self.label
        ))
    }

    /// Finds results that cannot be compared with any others.
    fn mark(&mut self) {
        let runs = self.entries.iter().map(|it| (it.results.program.clone(), it.results.run));
        let runs: Vec<(String, u64)> = runs.collect();
        let newest = runs.iter().map(|(_, run)| *run).max().unwrap_or(0);
        for entry in &mut self.entries {
            let Results { program, run, shared_with, .. } = &entry.results;
            let of_program = runs
                .iter()
                .filter(|(of, _)| is_same_program(of, program))
                .map(|(_, run)| *run)
                .max();
            let directory = entry.home.join(&entry.path);
            let label = &self.label;
            if let Some(other) = shared_with {
                entry.obstacle = Some(format!(
                    "the programs {program} and {other} both have a benchmark of this name, and one replaces the other's \
                     results. Rename one, and run both again"
                ));
            } else if of_program.is_some_and(|newest| *run < newest)
                || run.saturating_add(DAY) < newest
            {
                entry.obstacle = Some(format!(
                    "{label} is of an earlier run than others. Run all benchmarks, or remove {} if it no longer exists",
                    directory.display()
                ));
            }
        }
    }

    fn side(self) -> Side {
        let Saved { label, entries, obstacles } = self;
        let rows = entries.into_iter().map(Entry::row).collect();
        Side { label, rows, obstacles }
    }
}

impl Entry {
    fn row(self) -> Row {
        let figures = self.results.counters.iter().map(|counted| self.results.figure(counted));
        Row {
            figures: figures.collect(),
            key: self.key.unwrap_or_else(|| self.home.join(&self.path).display().to_string()),
            name: self.name,
            program: self.results.program,
            processor: self.results.processor,
            obstacle: self.obstacle,
            without_counters: self.results.without_counters,
            not_stepped: self.results.not_stepped,
            functions: self.results.functions,
            build: self.results.build,
            is_of_process: self.results.is_of_process,
            spec_lock_map: self.results.spec_lock_map,
        }
    }
}

#[cfg(test)]
#[path = "tests/baselines.rs"]
mod tests;
