//! The file that `rdpmc-bench` saves: all results of a program.

use crate::gate::figure::{Certainty, Figure, Row, SCOPE_PROCESS, SCOPE_THREAD, Side};
use crate::gate::files;
use crate::gate::functions::Functions;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// The names of the parts of the pipeline slots, in percent. They are saved, and not compared.
pub const PARTS_OF_SLOTS: [&str; 5] =
    ["retiring %", "bad speculation %", "frontend bound %", "backend bound %", "memory bound %"];
/// What three of them were called in older files.
const OLDER_PARTS: [&str; 3] = ["front end %", "back end %", "memory %"];

/// The version of the file's format.
pub const VERSION: u64 = 2;

/// A file with more rows is refused. A benchmark program does not need so many.
const MAX_ROWS: usize = 10_000;

/// Longer names of a program or a processor are refused.
const MAX_NAME_LENGTH: usize = 4_096;

/// Whether two names are those of one program. That of a package is unknown if cargo did not start the program.
pub fn is_same_program(one: &str, other: &str) -> bool {
    let parts = |name: &str| match name.split_once('/') {
        Some((package, target)) => (Some(package.to_owned()), target.to_owned()),
        None => (None, name.to_owned()),
    };
    let ((package, target), (other_package, other_target)) = (parts(one), parts(other));
    target == other_target
        && (package.is_none() || other_package.is_none() || package == other_package)
}

/// Returns the compiler that made this program, its target, its optimization level and its flags.
pub fn build() -> &'static str {
    env!("RDPMC_BUILD")
}

/// Returns the name of this program: `PACKAGE/TARGET` if cargo has started it, otherwise `TARGET`.
pub fn program() -> String {
    match std::env::var("CARGO_PKG_NAME") {
        Ok(package) => format!("{package}/{}", target()),
        Err(_) => target(),
    }
}

/// Returns the name of this program's file without the hash that cargo adds to it.
fn target() -> String {
    let name = std::env::current_exe().ok();
    let name = name.as_deref().and_then(Path::file_stem).unwrap_or_default().to_string_lossy();
    let is_hash = |end: &str| end.len() == 16 && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    match name.rsplit_once('-') {
        Some((name, end)) if is_hash(end) => name.to_owned(),
        _ => name.into_owned(),
    }
}

/// Reads the results of a file. What is wrong with it is among their obstacles.
pub fn load(path: &Path) -> Side {
    let label = path.display().to_string();
    let read = || {
        let text = files::read(path)
            .map_err(|why| format!("{label} cannot be read: {why}. Save results there first"))?;
        let json = files::json(&text)
            .map_err(|why| format!("{label} is {why}. Save results there again"))?;
        rows(&json).map_err(|why| {
            format!(
                "{label} is damaged or not a file of rdpmc-bench: {why}. Save results there again"
            )
        })
    };
    match read() {
        Ok(rows) => Side { label, rows, obstacles: Vec::new() },
        Err(why) => Side { obstacles: vec![why], label, rows: Vec::new() },
    }
}

/// Returns the results of a file's content.
///
/// # Errors
/// Says what is wrong with it.
pub fn rows(results: &Value) -> Result<Vec<Row>, String> {
    match results.get("version").and_then(Value::as_u64) {
        Some(VERSION) => {}
        Some(other) => return Err(format!("its version is {other}, not {VERSION}")),
        None => return Err("it has no version".into()),
    }
    let text = |name: &str| results.get(name).and_then(Value::as_str).map(str::to_owned);
    let program = text("program").ok_or("it has no program")?;
    let (processor, build) = (text("processor"), text("build"));
    // Version 2 began without it.
    let is_of_process = match results.get("scope") {
        None => false,
        Some(scope) if scope == SCOPE_THREAD => false,
        Some(scope) if scope == SCOPE_PROCESS => true,
        Some(_) => return Err("its scope is unknown".into()),
    };
    let missing = |event: &str| results.get("missing")?.get(event)?.as_str();
    let without_counters = missing("instructions").map(str::to_owned);
    // Each row has a copy of them.
    let texts = [Some(&program), processor.as_ref(), build.as_ref(), without_counters.as_ref()];
    if texts.into_iter().flatten().any(|text| text.len() > MAX_NAME_LENGTH) {
        return Err(format!(
            "its program, processor, build or reason is longer than {MAX_NAME_LENGTH} bytes"
        ));
    }
    let rows = results.get("rows").and_then(Value::as_array).ok_or("it has no rows")?;
    if rows.len() > MAX_ROWS {
        return Err(format!("it has {} rows, and {MAX_ROWS} is the most", rows.len()));
    }
    let (mut found, mut names) = (Vec::new(), BTreeSet::new());
    for row in rows {
        let name = row.get("name").and_then(Value::as_str).ok_or("a row has no name")?;
        if !names.insert(name) {
            return Err(format!("two rows have the name {name} (rename one)"));
        }
        let figures = row.get("figures").and_then(Value::as_object);
        let figures = figures.ok_or_else(|| format!("{name} has no figures"))?;
        let figure = |(event, figure): (&String, &Value)| {
            self::figure(event, figure).ok_or_else(|| format!("{event} of {name} is not a figure"))
        };
        found.push(Row {
            key: name.to_owned(),
            name: name.to_owned(),
            // More of a ratio may be better, and if one part of the slots is larger, another is smaller.
            figures: figures
                .iter()
                .filter(|(name, _)| {
                    let is_part = |part: &&str| *name == *part;
                    *name != "IPC" && !PARTS_OF_SLOTS.iter().chain(&OLDER_PARTS).any(is_part)
                })
                .map(figure)
                .collect::<Result<_, _>>()?,
            program: program.clone(),
            processor: processor.clone(),
            build: build.clone(),
            obstacle: row
                .get("panicked")
                .and_then(Value::as_str)
                .map(|message| format!("its code panicked: {message}")),
            is_of_process,
            spec_lock_map: results.get("spec_lock_map").and_then(Value::as_bool),
            without_counters: without_counters.clone(),
            not_stepped: row.get("not_stepped").and_then(Value::as_str).map(str::to_owned),
            functions: row.get("functions").and_then(Functions::from_json),
        });
    }
    Ok(found)
}

fn figure(name: &str, figure: &Value) -> Option<Figure> {
    let number = |name: &str| figure.get(name)?.as_f64();
    // An end that is not known is null.
    let is_null = |name: &str| figure.get(name).is_some_and(Value::is_null);
    let certainty = match figure.get("verdict")?.as_str()? {
        "exact" => Certainty::Exact,
        "stable" | "range" => Certainty::Stable,
        "unstable" => Certainty::Unstable,
        _ => return None,
    };
    let value = number("value")?;
    let (low, high) = match (number("low"), number("high")) {
        (Some(low), Some(high)) => (low, high),
        _ if certainty == Certainty::Unstable && is_null("low") && is_null("high") => {
            (f64::NEG_INFINITY, f64::INFINITY)
        }
        _ => return None,
    };
    let is_whole = low <= value && value <= high && (certainty != Certainty::Exact || low == high);
    let doubt = figure.get("cause").and_then(Value::as_str).map(str::to_owned);
    let name = name.to_owned();
    is_whole.then_some(Figure { name, value, low, high, certainty, slack: 0.0, doubt })
}

#[cfg(test)]
#[path = "tests/bench_json.rs"]
mod tests;
