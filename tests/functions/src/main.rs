//! Plants instructions in functions of crates, and asks the gate where they are.
//!
//! The benchmark `rows` is built from copies of the crates: with one `nop` at the beginning of a function, and with several more. The change
//! between these two must be said to be in that function and in no other, with the right number: as many as there are `nop`s more, for each of
//! its calls. In a build of its own, each function has counted its calls. Between the crates as they are and one `nop`, the compiler may change
//! other functions, too: those are counted, and no fault. Two builds of the crates as they are must not differ.

use rdpmc_report::gate::{
    Comparison, FunctionChange, Limits, Row, STEPPED_INSTRUCTIONS, bench_json, compare,
};
use serde_json::Value;
use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const CRATES: [&str; 3] = ["semver", "csv-core", "httparse"];

/// Crates, files and functions.
const PLACES: [(&str, &str, &[&str]); 3] = [
    (
        "semver",
        "src/parse.rs",
        &[
            "numeric_identifier",
            "dot",
            "identifier",
            "op",
            "comparator",
            "version_req",
            "wildcard",
            "prerelease_identifier",
        ],
    ),
    (
        "csv-core",
        "src/reader.rs",
        &[
            "read_record",
            "read_record_dfa",
            "strip_utf8_bom",
            "get_output",
            "new_read_record_result",
            "scan_and_copy",
        ],
    ),
    (
        "httparse",
        "src/lib.rs",
        &[
            "skip_empty_lines",
            "parse_version",
            "parse_with_config",
            "parse_uri",
            "parse_headers_iter_uninit",
            "parse_with_config_and_uninit_headers",
        ],
    ),
];

fn main() -> Result<ExitCode> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let work = here.join("../../target/functions");
    fs::create_dir_all(&work)?;
    let rows = Rows { work: fs::canonicalize(work)? };
    for (source, name) in sources(here)?.iter().zip(CRATES) {
        copy_all(source, &rows.work.join(name))?;
    }
    rows.copy_package(here)?;
    let base = rows.measured("base")?;
    if let Some(why) = why_not_stepped(&base)? {
        println!("skipped: {why}");
        return Ok(ExitCode::SUCCESS);
    }
    let again = compared(&base, &rows.measured("again")?);
    let (_, differ) = changes_of(&again);
    println!(
        "equal builds: {} figures, functions that differ: {}",
        again.compared().len(),
        differ.len()
    );
    let calls = rows.calls()?;
    let (mut named, mut right, mut others, mut all) = (0, 0, 0, 0_usize);
    for (name, file, functions) in PLACES {
        let path = rows.work.join(name).join(file);
        let original = fs::read_to_string(&path)?;
        for function in functions {
            let more = all + 1;
            let with = |nops| fs::write(&path, planted(&original, function, &nop(nops))?);
            with(1)?;
            let one = rows.measured("one")?;
            with(1 + more)?;
            let (figures, changes) = changes_of(&compared(&one, &rows.measured("more")?));
            fs::write(&path, &original)?;
            let expected = (calls.get(all).copied().unwrap_or(0) * more) as f64;
            let is_named =
                changes.first().is_some_and(|change| last_part(&change.name) == *function);
            let sum = changes.iter().map(|change| change.more).sum::<f64>() + 0.0;
            let is_right = is_named
                && changes.len() == 1
                && sum == expected
                && figures == expected
                && sum > 0.0;
            let said = changes.first().map_or("nothing", |change| change.name.as_str());
            println!("+{expected} in {function}: the gate says {sum:+} in {said}");
            if !is_right {
                println!("  figures {figures:+}, {changes:?}");
            }
            let (_, by_one) = changes_of(&compared(&base, &one));
            others += usize::from(by_one.len() > 1);
            named += usize::from(is_named);
            right += usize::from(is_right);
            all += 1;
        }
    }
    println!("named: {named} of {all}. With the right number: {right} of {all}.");
    println!("The first `nop` also changed how other functions are compiled: {others} of {all}.");
    Ok(ExitCode::from(u8::from(!differ.is_empty() || right < all)))
}

/// Returns why the results have no stepped instructions. None if they have.
fn why_not_stepped(results: &Path) -> Result<Option<String>> {
    let side = bench_json::load(results);
    if let Some(obstacle) = side.obstacles.first() {
        return Err(obstacle.clone().into());
    }
    let stepped = |row: &&Row| row.figures.iter().any(|it| it.name == STEPPED_INSTRUCTIONS);
    let without = side.rows.iter().find(|row| !stepped(row));
    let counted = || "a counter counts the instructions, with those of interrupts".to_owned();
    Ok(without.map(|row| row.not_stepped.clone().unwrap_or_else(counted)))
}

/// Returns the directories of packages.
fn sources(here: &Path) -> Result<Vec<PathBuf>> {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let answer = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--manifest-path"])
        .arg(here.join("Cargo.toml"))
        .output()?;
    let json: Value = serde_json::from_slice(&answer.stdout)?;
    let packages = json["packages"].as_array().ok_or("no packages")?;
    let directory = |name: &str| {
        let package = packages.iter().find(|package| package["name"] == *name);
        let manifest = package.and_then(|package| package["manifest_path"].as_str());
        let parent = manifest.and_then(|manifest| Path::new(manifest).parent());
        parent.map(Path::to_owned).ok_or_else(|| format!("{name} is no dependency").into())
    };
    CRATES.into_iter().map(directory).collect()
}

fn copy_all(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_all(&entry.path(), &target)?,
            // As they are read, so that all may be written.
            false => fs::write(&target, fs::read(entry.path())?)?,
        }
    }
    // A crate that forbids unsafe code forbids assembly.
    let root = to.join("src/lib.rs");
    if let Ok(text) = fs::read_to_string(&root) {
        fs::write(root, text.replace("#![forbid(unsafe_code)]", ""))?;
    }
    Ok(())
}

/// Returns a statement with so many instructions.
fn nop(number: usize) -> String {
    let nops = vec!["\"nop\""; number].join(", ");
    format!("unsafe {{ ::core::arch::asm!({nops}, options(nomem, nostack, preserves_flags)) }};\n")
}

/// Returns a file with a statement at the beginning of each function of this name.
fn planted(file: &str, function: &str, statement: &str) -> std::io::Result<String> {
    let start = format!("fn {function}");
    let (mut text, mut is_head, mut found) = (String::new(), false, 0);
    for line in file.lines() {
        let after = line.split_once(&start).map(|(_, after)| after);
        is_head |= after.is_some_and(|after| after.starts_with(['(', '<'])) && !line.contains("//");
        text += line;
        text += "\n";
        if is_head && line.ends_with('{') {
            text += statement;
            found += 1;
        }
        is_head &= !line.ends_with(['{', ';']);
    }
    match found {
        0 => Err(std::io::Error::other(format!("there is no {function}"))),
        _ => Ok(text),
    }
}

/// The benchmark, built from the copies of the crates.
struct Rows {
    work: PathBuf,
}

impl Rows {
    /// Copies this package, with the copies of the crates in place of those of the registry: cargo writes that to the lock file.
    fn copy_package(&self, here: &Path) -> Result<()> {
        let copy = self.work.join("package");
        for folder in ["src", "benches"] {
            copy_all(&here.join(folder), &copy.join(folder))?;
        }
        fs::write(copy.join("Cargo.lock"), fs::read(here.join("Cargo.lock"))?)?;
        let crates = fs::canonicalize(here.join("../../crates"))?.display().to_string();
        let mut manifest = fs::read_to_string(here.join("Cargo.toml"))?;
        manifest = manifest.replace("../../crates", &crates) + "\n[patch.crates-io]\n";
        for name in CRATES {
            manifest +=
                &format!("{name}.path = {:?}\n", self.work.join(name).display().to_string());
        }
        Ok(fs::write(copy.join("Cargo.toml"), manifest)?)
    }

    fn command(&self) -> Command {
        let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["bench", "--quiet", "--bench", "rows", "--manifest-path"]);
        command.arg(self.work.join("package/Cargo.toml"));
        command.arg("--target-dir").arg(self.work.join("target")).arg("--");
        command
    }

    /// Measures the rows, and returns the file of the results.
    fn measured(&self, name: &str) -> Result<PathBuf> {
        let saved = self.work.join(format!("{name}.json"));
        output(self.command().arg("--save").arg(&saved))?;
        Ok(saved)
    }

    /// Returns how often a run of all rows calls each function.
    fn calls(&self) -> Result<Vec<usize>> {
        let (mut place, mut originals) = (0, Vec::new());
        for (name, file, functions) in PLACES {
            let path = self.work.join(name).join(file);
            let original = fs::read_to_string(&path)?;
            let mut text = original.clone();
            for function in functions {
                let statement = format!(
                    "unsafe extern \"Rust\" {{ static PLANTED_CALLS: [::core::sync::atomic::AtomicU64; 20]; }}\n\
                     unsafe {{ PLANTED_CALLS[{place}].fetch_add(1, ::core::sync::atomic::Ordering::Relaxed) }};\n"
                );
                text = planted(&text, function, &statement)?;
                place += 1;
            }
            fs::write(&path, text)?;
            originals.push((path, original));
        }
        let said = output(self.command().env("CALLS", "1"))?;
        for (path, original) in originals {
            fs::write(path, original)?;
        }
        let line = said.lines().last().unwrap_or_default();
        Ok(line.split(' ').map(str::parse).collect::<std::result::Result<_, _>>()?)
    }
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn compared(old: &Path, new: &Path) -> Comparison {
    compare(&bench_json::load(old), &bench_json::load(new), &Limits::new())
}

/// Returns the change of all figures together, and the changes of functions, the largest first.
fn changes_of(comparison: &Comparison) -> (f64, Vec<FunctionChange>) {
    let compared = || comparison.compared().iter().filter(|it| it.is_gated);
    let figures =
        compared().filter_map(|it| it.values.as_ref()).map(|values| values.is - values.was);
    let functions = compared().flat_map(|it| &it.functions);
    let mut all: Vec<FunctionChange> = functions.cloned().collect();
    all.sort_by(|one, two| two.more.abs().total_cmp(&one.more.abs()));
    (figures.sum(), all)
}

/// Returns a function's name without its path.
fn last_part(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}
