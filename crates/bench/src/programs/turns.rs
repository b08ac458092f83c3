//! Whose turn it is: the samples of the rows of both programs.

use crate::judging::comparison::Measured;
use crate::running::leader::{self, Lines};
use crate::running::passes::{in_random_order, is_due};
use crate::sampling::code::Random;
use serde_json::Value;

/// A connection to a process that waits for its turns.
pub(super) struct Connection {
    program: String,
    lines: Lines,
    /// The names of its tasks. None for tasks that are not rows.
    names: Vec<Option<String>>,
    /// The rows that it cannot measure.
    without_inputs: Vec<String>,
    /// Whether it counts all threads.
    pub(super) counts_all_threads: bool,
    /// The number of rounds. Older versions of the program do not tell.
    rounds: u64,
    /// Whether it waits for turns in this round.
    is_ready: bool,
    /// The number of samples of each task in this round.
    wanted: Vec<usize>,
    results: Option<Vec<Vec<Measured>>>,
}

impl Connection {
    /// Returns the connection to a process that sent this as its first line.
    pub(super) fn new(program: String, lines: Lines, hello: &Value) -> Connection {
        let list = |name: &str| hello.get(name).and_then(Value::as_array).into_iter().flatten();
        let text = |name: &Value| name.as_str().map(str::to_owned);
        Connection {
            program,
            lines,
            names: list("names").map(text).collect(),
            without_inputs: list("without_inputs").filter_map(text).collect(),
            counts_all_threads: hello.get("counts_all_threads") == Some(&Value::Bool(true)),
            rounds: hello.get("rounds").and_then(Value::as_u64).unwrap_or(1).max(1),
            is_ready: false,
            wanted: Vec::new(),
            results: None,
        }
    }

    fn ended(&self) -> String {
        format!("{} ended before its rows were measured", self.program)
    }

    fn read(&mut self) -> Result<String, String> {
        self.lines.read().ok_or_else(|| self.ended())
    }

    fn write(&mut self, line: &str) -> Result<(), String> {
        self.lines.write(line).ok_or_else(|| self.ended())
    }

    /// Waits until the process is ready for a round, or has sent its results.
    fn wait(&mut self) -> Result<(), String> {
        if self.results.is_none() {
            let line = self.read()?;
            let wanted = line.strip_prefix("ready ");
            self.is_ready = wanted.is_some() || line == "ready";
            if self.is_ready {
                let numbers = wanted.unwrap_or_default().split(' ');
                self.wanted = numbers.map(|number| number.parse().unwrap_or(1)).collect();
            } else {
                let results = leader::measured(&line);
                let why = || format!("{} sent no results, but {line:.80}", self.program);
                let results = results.ok_or_else(why)?;
                let (expected, found) = (self.names.len(), results.len());
                if expected != found {
                    return Err(format!(
                        "{} sent the results of {found} instead of {expected} pieces of code",
                        self.program
                    ));
                }
                self.results = Some(results);
            }
        }
        Ok(())
    }

    /// Takes a sample of a task. Returns whether it needs no more.
    fn take(&mut self, task: usize, pass: u32) -> Result<bool, String> {
        self.write(&format!("take {task} {pass}"))?;
        Ok(self.read()? == "1")
    }
}

/// What a program measured: the names of its rows, with their quantities. None for rows without inputs.
pub(super) type Found = Vec<(String, Option<Vec<Measured>>)>;

/// Takes samples of the rows of all programs in turns. Rows of the same name follow one another. Tells `progress` which share is done.
pub(super) fn measure(
    programs: &mut [Connection],
    random: &mut Random,
    pass: &mut u32,
    progress: &mut dyn FnMut(f64),
) -> Result<Vec<Found>, String> {
    // All tasks: the place of the program, that of the task, and the name.
    let of = |(place, program): (usize, &Connection)| {
        let names = program.names.clone().into_iter().enumerate();
        names.map(move |(task, name)| (place, task, name)).collect::<Vec<_>>()
    };
    let tasks: Vec<(usize, usize, Option<String>)> =
        programs.iter().enumerate().flat_map(of).collect();
    let unit = |(place, (_, _, name)): (usize, &(usize, usize, Option<String>))| {
        let is_same =
            |(_, _, other): &(usize, usize, Option<String>)| name.is_some() && other == name;
        tasks.iter().position(is_same).unwrap_or(place)
    };
    let units: Vec<usize> = tasks.iter().enumerate().map(unit).collect();
    let rounds = programs.iter().map(|program| program.rounds).max().unwrap_or(1);
    for round in 0_u64.. {
        for program in programs.iter_mut() {
            program.wait()?;
        }
        if programs.iter().all(|program| !program.is_ready) {
            break;
        }
        let mut open = vec![true; tasks.len()];
        let all_wanted =
            programs.iter().filter(|it| it.is_ready).flat_map(|it| it.wanted.iter().copied());
        let most = all_wanted.max().unwrap_or(0);
        for number in 0.. {
            if !open.contains(&true) {
                break;
            }
            for place in in_random_order(&units, random) {
                let Some((task, is_open)) = tasks.get(place).zip(open.get_mut(place)) else {
                    continue;
                };
                let (program, task, _) = task;
                let program = programs.get_mut(*program).filter(|program| program.is_ready);
                let Some(program) = program.filter(|_| *is_open) else {
                    *is_open = false;
                    continue;
                };
                let wanted = program.wanted.get(*task).copied().unwrap_or(1);
                if is_due(wanted, most, number) {
                    *is_open = !program.take(*task, *pass)?;
                }
            }
            *pass = pass.saturating_add(1);
            let done = (number + 1) as f64 / most.max(number + 1) as f64;
            progress((round.min(rounds - 1) as f64 + done) / rounds as f64);
        }
        for program in programs.iter_mut().filter(|program| program.is_ready) {
            program.is_ready = false;
            program.write("end")?;
        }
    }
    let found = programs.iter_mut().map(|program| {
        let named = program.names.drain(..).zip(program.results.take().unwrap_or_default());
        let measured = named.filter_map(|(name, measured)| Some((name?, Some(measured))));
        measured.chain(program.without_inputs.drain(..).map(|name| (name, None))).collect()
    });
    Ok(found.collect())
}
