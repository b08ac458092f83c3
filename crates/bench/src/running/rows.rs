//! The rows of a plan: their names, which task measures each, and which are compared.

use super::task::Task;
use crate::judging::comparison::{RowComparison, differences, ratios};
use crate::judging::row::Row;
use crate::plan::Entry;
use rdpmc::Event;
use std::collections::BTreeSet;

/// A row, another that it is compared with, and the name of the latter. None for another that is not there.
type Compared = (usize, Option<usize>, String);

/// The rows, in the order of the plan.
pub(super) struct Rows {
    /// Names, and what is known before anything is measured.
    rows: Vec<Row>,
    /// Which task measures each row. Rows without inputs have none.
    task_of: Vec<Option<usize>>,
    compared: Vec<Compared>,
}

impl Rows {
    /// Returns the rows, and a task for each that has code.
    pub(super) fn from_entries<'a>(
        entries: Vec<Entry<'a>>,
        baseline: Option<&str>,
    ) -> (Rows, Vec<Task<'a>>) {
        let compared = compared(&entries, baseline);
        let units = units(entries.len(), &compared);
        let (mut rows, mut task_of, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
        for (entry, unit) in entries.into_iter().zip(units) {
            task_of.push(entry.code.is_some().then_some(tasks.len()));
            let mut row = Row::empty(entry.name);
            if entry.against.as_ref() == Some(&row.name) {
                row.notes
                    .push("it is not compared with itself. Use the name of another row".into());
            }
            rows.push(row);
            if let Some(code) = entry.code {
                tasks.push(Task::new(code, unit, entry.operations));
            }
        }
        (Rows { rows, task_of, compared }, tasks)
    }

    /// Returns a unit that no row is in.
    pub(super) fn another_unit(&self) -> usize {
        self.rows.len()
    }

    /// Returns the names of the rows that have a task, in the order of the tasks.
    pub(super) fn names(&self) -> Vec<&str> {
        self.named(true)
    }

    pub(super) fn without_inputs(&self) -> Vec<&str> {
        self.named(false)
    }

    fn named(&self, has_task: bool) -> Vec<&str> {
        let rows = self.rows.iter().zip(&self.task_of);
        rows.filter(|(_, task)| task.is_some() == has_task).map(|(row, _)| row.name()).collect()
    }

    /// Compares rows by what their tasks have measured.
    pub(super) fn comparisons(&self, tasks: &[Task<'_>], target: f64) -> Vec<RowComparison> {
        let task =
            |row: usize| self.task_of.get(row).copied().flatten().and_then(|it| tasks.get(it));
        let compare = |(row, other, against): &Compared| {
            let both = task(*row).zip(other.and_then(task));
            let both = both.map(|(row, other)| (&row.measured, &other.measured));
            let comparison = RowComparison {
                row: self.rows.get(*row).map_or_else(String::new, |row| row.name.clone()),
                differences: both.map_or_else(Vec::new, |(row, other)| differences(row, other)),
                against: against.clone(),
                place: *row,
                ratios: both.map_or_else(Default::default, |(row, other)| ratios(row, other)),
            };
            comparison.held_to(target)
        };
        self.compared.iter().map(compare).collect()
    }

    /// Returns the rows with their figures.
    pub(super) fn finished(self, tasks: Vec<Task<'_>>, events: &[Event]) -> Vec<Row> {
        let mut tasks = tasks.into_iter();
        let finish = |(known, task): (Row, Option<usize>)| {
            let Row { name, mut notes, .. } = known;
            // Tasks have the order of their rows.
            let Some(task) = task.and_then(|_| tasks.next()) else {
                return Row { notes: vec!["there are no inputs".to_owned()], ..Row::empty(name) };
            };
            let mut row = task.finished(events);
            row.notes.append(&mut notes);
            Row { name, ..row }
        };
        let mut rows: Vec<Row> = self.rows.into_iter().zip(self.task_of).map(finish).collect();
        let mut names = BTreeSet::new();
        for row in rows.iter_mut().filter(|row| !names.insert(row.name.clone())) {
            row.notes.push(
                "another row has this name, so saved results cannot be compared. Rename one"
                    .to_owned(),
            );
        }
        rows
    }
}

/// Returns which rows are compared.
fn compared(entries: &[Entry<'_>], baseline: Option<&str>) -> Vec<Compared> {
    let mut found = Vec::new();
    for (row, entry) in entries.iter().enumerate() {
        let Some(against) = entry.against.as_deref().or(baseline) else { continue };
        let other = entries.iter().position(|entry| entry.name == against);
        // The baseline is not compared with itself.
        if other != Some(row) {
            found.push((row, other, against.to_owned()));
        }
    }
    found
}

/// Returns a unit for each row. Rows that are compared are in one.
fn units(rows: usize, compared: &[Compared]) -> Vec<usize> {
    let mut units: Vec<usize> = (0..rows).collect();
    for (row, other, _) in compared {
        let unit = |row: usize| units.get(row).copied();
        if let (Some(old), Some(new)) = (unit(*row), other.and_then(unit)) {
            units.iter_mut().filter(|unit| **unit == old).for_each(|unit| *unit = new);
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compared_rows_are_in_one_unit() {
        let against = |row, other| (row, other, String::new());
        assert_eq!(units(4, &[]), [0, 1, 2, 3]);
        assert_eq!(units(4, &[against(2, Some(0)), against(3, None)]), [0, 1, 0, 3]);
        assert_eq!(
            units(4, &[against(1, Some(0)), against(3, Some(2)), against(2, Some(1))]),
            [0; 4]
        );
        assert_eq!(units(2, &[against(0, Some(1)), against(1, Some(0))]), [1, 1]);
    }
}
