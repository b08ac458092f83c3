//! Measures the rows of a plan in turns.

// `start` does what the arguments of the program ask for. `run` goes through the rounds. `rows` has the names, and a `task` for each piece of
// code. `passes` take samples of all tasks in turns, or as the `leader` says: the connection to `programs`.

pub(crate) mod leader;
pub(crate) mod passes;
pub(crate) mod progress;
mod rows;
mod run;
pub(crate) mod start;
mod task;
