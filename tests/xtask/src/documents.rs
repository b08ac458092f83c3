//! What a document shows as a program's output, compared with what the program printed.

use crate::{Outcome, USAGE};
use std::fs;

const HELP: &str = "\
Usage: xtask shown DOCUMENT WORD OUTPUT
Fails unless the file OUTPUT contains the lines of the document's first ```text block with WORD, in their order.";

pub(crate) fn shown(arguments: &[&str]) -> Outcome {
    let [document, word, output] = arguments else {
        eprintln!("{HELP}");
        return Ok(USAGE);
    };
    let read = |path: &str| {
        let bytes = fs::read(path).map_err(|error| format!("{path}: {error}"))?;
        // A console may have any bytes.
        Ok::<_, String>(String::from_utf8_lossy(&bytes).into_owned())
    };
    compare(&read(document)?, word, &read(output)?).map_err(|why| format!("{document} {why}"))?;
    Ok(0)
}

fn compare(document: &str, word: &str, output: &str) -> Result<(), String> {
    let block = block(document, word).ok_or_else(|| format!("has no block with {word}"))?;
    let mut printed = steady(output);
    if steady(&block).next().is_none() {
        return Err(format!("has no line to compare in the block with {word}"));
    }
    for line in steady(&block) {
        // The output may have more lines in between.
        if !printed.any(|printed| printed == line) {
            let is_early = steady(output).any(|printed| printed == line);
            let what = match is_early {
                true => "that was printed before the line above it",
                false => "that was not printed",
            };
            return Err(format!("has a line {what}: {line}"));
        }
    }
    Ok(())
}

/// Returns the first block of output that contains a word.
fn block(document: &str, word: &str) -> Option<String> {
    let mut blocks = document.split("\n```text\n").skip(1);
    blocks.find_map(|rest| {
        let block = rest.split("\n```").next()?;
        block.contains(word).then(|| block.to_owned())
    })
}

/// Returns the lines without what differs between runs:
/// - rows of a `HashMap`, which has a random seed
/// - the kernel's version, and the costs of reads in nanoseconds
/// - the column of nanoseconds, and the line below the head of a table, whose width follows from it
/// - the digits of a change in percent, which depend on the number of iterations
fn steady(text: &str) -> impl Iterator<Item = String> {
    let varies = |line: &&str| {
        let starts = ["kernel", "Counters work", "cost of", "|--"];
        line.is_empty()
            || *line == "..."
            || line.contains("HashMap")
            || starts.iter().any(|start| line.starts_with(start))
    };
    text.lines()
        .map(str::trim_end)
        .filter(move |line| !varies(line))
        .map(|line| without_percents(&without_time(line)))
}

/// Returns a row without its first cell, if that is a time.
fn without_time(line: &str) -> String {
    let first = line.strip_prefix('|').and_then(|rest| rest.split_once('|'));
    match first {
        Some((cell, rest)) if is_time(cell.trim()) => format!("|{rest}"),
        _ => line.to_owned(),
    }
}

/// Whether a cell is empty, `ns`, or a number with its error and perhaps a question mark.
fn is_time(cell: &str) -> bool {
    let is_number = |text: &str| text.parse::<f64>().is_ok();
    let number = cell.strip_suffix(" ?").unwrap_or(cell).split_once(" ± ");
    cell.is_empty()
        || cell == "ns"
        || number.is_some_and(|(value, error)| is_number(value) && is_number(error))
}

/// Returns a line with `+%` in place of `+1.2345%`.
fn without_percents(line: &str) -> String {
    let mut parts: Vec<&str> = line.split('%').collect();
    let last = parts.pop().unwrap_or_default();
    let mut steady = String::new();
    for part in parts {
        let number = part.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        steady += if number.ends_with(['+', '-']) { number } else { part };
        steady.push('%');
    }
    steady + last
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const DOCUMENT: &str = "\
Text.

```text
|        ns | cycles | per operation
|----------:|-------:|:-
| 6.0 ± 0.1 |      6 | a row
| 9.0 ± 0.1 |      9 | look up in a HashMap
```

```text
kernel  Linux 6
b: +0.0123% (limit 1%)
...
```
";

    #[test]
    fn each_line_of_a_block_is_printed() {
        let printed = "first\n|    ns | cycles | per operation\n|------:|---\n| 7.25 ± 0.01 ? |      6 | a row\nlast\n";
        assert_eq!(compare(DOCUMENT, "a row", printed), Ok(()));
        let other = printed.replace("      6 |", "      7 |");
        let why = compare(DOCUMENT, "a row", &other).unwrap_err();
        assert_eq!(why, "has a line that was not printed: |      6 | a row");
        let longer = printed.replace("a row", "a row of others");
        assert!(compare(DOCUMENT, "a row", &longer).is_err());
        let reversed: Vec<&str> = printed.lines().rev().collect();
        let why = compare(DOCUMENT, "a row", &reversed.join("\n")).unwrap_err();
        assert_eq!(why, "has a line that was printed before the line above it: |      6 | a row");
        assert_eq!(compare(DOCUMENT, "limit", "b: +0.5% (limit 1%)\n"), Ok(()));
        assert!(compare(DOCUMENT, "limit", "b: -0.5% (limit 1%)\n").is_err());
        assert!(compare(DOCUMENT, "limit", "b: 0.5% (limit 1%)\n").is_err());
        assert!(compare(DOCUMENT, "limit", "b: +0.5% (limit 2%)\n").is_err());
        assert_eq!(compare(DOCUMENT, "none", ""), Err("has no block with none".to_owned()));
    }

    #[test]
    fn only_times_are_left_out() {
        assert_eq!(without_time("| 68.0 ± 0.1 |  68 | row"), "|  68 | row");
        assert_eq!(without_time("| 68 ± x |  68 | row"), "| 68 ± x |  68 | row");
        assert_eq!(without_time("text"), "text");
        assert_eq!(without_percents("+1.5% of -20%, 3%"), "+% of -%, 3%");
    }
}
