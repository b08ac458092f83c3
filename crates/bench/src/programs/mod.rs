//! Two programs, started by this one, whose rows are measured in turns.

// `process` starts the programs and waits for their connections. `turns` asks each for samples. `report` has what all
// processes measured, `joined` for each row, and compares it.

mod error;
mod joined;
mod process;
mod report;
mod turns;

use crate::running::progress::Progress;
use crate::sampling::code::Random;
pub use error::CompareError;
use process::{Directory, Running};
use rdpmc_report::gate::Limits;
pub use report::ComparedPrograms;
use report::Rows;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use turns::{Connection, measure};

/// Two programs whose rows are compared, for the command `rdpmc-bench compare`.
#[derive(Clone, Debug)]
pub struct Programs {
    paths: [PathBuf; 2],
    arguments: Vec<OsString>,
    processes: u32,
}

impl Programs {
    /// Returns two programs to start.
    pub fn new(old: impl Into<PathBuf>, new: impl Into<PathBuf>) -> Programs {
        Programs { paths: [old.into(), new.into()], arguments: Vec::new(), processes: 8 }
    }

    /// Passes these arguments to both.
    pub fn arguments(self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Programs {
        Programs { arguments: arguments.into_iter().map(Into::into).collect(), ..self }
    }

    /// Starts each program this many times: 8 by default. Each process places its memory elsewhere, which may change
    /// the cost.
    pub fn processes(self, processes: u32) -> Programs {
        Programs { processes: processes.max(1), ..self }
    }

    /// Runs both programs, and compares their rows. After a second, it shows its progress if the standard error is a terminal. Growth of the time and of the cycles by 1 % is accepted, unless
    /// `limits` name them.
    ///
    /// # Errors
    /// One of the programs cannot be started, or ends before its rows are measured. The message says which and why.
    pub fn compare(&self, limits: &Limits) -> Result<ComparedPrograms, CompareError> {
        self.measured().map(|rows| rows.compared(limits)).map_err(CompareError::new)
    }

    /// Measures the rows in all processes.
    fn measured(&self) -> Result<Rows, String> {
        let directory = Directory::new().map_err(|why| {
            format!(
                "cannot make a directory for sockets in {}: {why}",
                std::env::temp_dir().display()
            )
        })?;
        let mut rows = Rows { all: Vec::new(), obstacles: BTreeSet::new() };
        let mut random = Random::new();
        let mut pass = 0;
        let mut progress = Progress::new();
        for process in 0..self.processes {
            let mut show = |done: f64| {
                progress.show((f64::from(process) + done) / f64::from(self.processes));
            };
            self.run_once(
                &directory.0.join(process.to_string()),
                &mut rows,
                &mut random,
                &mut pass,
                &mut show,
            )?;
        }
        progress.end();
        Ok(rows)
    }

    /// Starts a process of each program, and measures what both have.
    fn run_once(
        &self,
        directory: &Path,
        rows: &mut Rows,
        random: &mut Random,
        pass: &mut u32,
        progress: &mut dyn FnMut(f64),
    ) -> Result<(), String> {
        let [old, new] = &self.paths;
        let old = Running::start(old, &self.arguments, directory.with_extension("old"))?;
        let mut names = [BTreeSet::new(), BTreeSet::new()];
        let mut sides =
            [old, Running::start(new, &self.arguments, directory.with_extension("new"))?];
        for number in 0.. {
            let mut connected = Vec::new();
            for (place, running) in sides.iter_mut().enumerate() {
                connected.extend(running.connect()?.map(|connection| (place, connection)));
            }
            if connected.is_empty() {
                break;
            }
            let (places, mut connections): (Vec<usize>, Vec<Connection>) =
                connected.into_iter().unzip();
            let scopes: BTreeSet<bool> =
                connections.iter().map(|it| it.counts_all_threads).collect();
            if scopes.len() > 1 {
                return Err("one of the programs counts all threads, and the other one does not. Give both the same `Bench::scope`".into());
            }
            let found = measure(&mut connections, random, pass, progress)?;
            for (place, found) in places.into_iter().zip(found) {
                let Some(names) = names.get_mut(place) else { continue };
                let mut names_of_run = BTreeSet::new();
                for (name, measured) in found {
                    let is_new = names_of_run.insert(name.clone());
                    let name = match names.contains(&name) {
                        true if is_new => format!("{name} (run {})", number + 1),
                        _ => name,
                    };
                    if names.insert(name.clone()) {
                        rows.add(name, place, measured);
                    } else {
                        rows.obstacles
                            .insert(format!("two rows have the name {name}. Rename one of them"));
                    }
                }
            }
        }
        let [old, new] = &sides;
        rows.obstacles.extend([old.obstacle(new), new.obstacle(old)].into_iter().flatten());
        Ok(())
    }
}
