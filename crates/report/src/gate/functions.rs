//! Where the instructions of a benchmark went, by functions, and how two builds differ.

use crate::gate::cells::exact;
use crate::page::Table;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The instructions of a benchmark, by functions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Functions {
    /// The number of operations that these instructions are of.
    pub operations: u64,
    /// What the names come from: [`SYMBOLS`], or something with the names of inlined functions. Names from different sources are not
    /// compared.
    pub source: String,
    /// The functions, those with the most instructions first. Their sum is the figure of the process that was stepped for it: the
    /// row's, unless that is a range.
    pub all: Vec<Function>,
}

/// The instructions of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The function that it was inlined into. None if it was not.
    pub within: Option<String>,
    /// Of all operations together.
    pub instructions: i64,
}

/// What changed in a function between two builds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FunctionChange {
    /// The function.
    pub name: String,
    /// How many more instructions it has in an operation.
    pub more: f64,
    /// What else is different.
    pub kind: ChangeKind,
}

/// What else is different in a function.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeKind {
    /// Nothing.
    Same,
    /// It was inlined into this function, and is inlined nowhere.
    WasInlined(String),
    /// It is inlined into this function, and was inlined nowhere.
    IsInlined(String),
    /// The earlier build had no instructions of it.
    New,
    /// The later build has none.
    Gone,
    /// The earlier build had a function with this name and as many instructions, which is gone.
    PerhapsRenamed(String),
}

/// What a benchmark's instructions outside of all named functions are called: its closure, what was inlined there, and the loop around it.
pub const OWN: &str = "the benchmark's own code";

/// The source of names that has none of inlined functions.
pub const SYMBOLS: &str = "symbols";

/// A file has at most this many functions of a row. Those of a benchmark are some dozens.
const MAX_FUNCTIONS: usize = 10_000;

/// What those are called that do not fit.
const OTHERS: &str = "other functions";

/// Differences below this come from the division by the number of operations.
const DIVISION: f64 = 1e-9;

impl Functions {
    /// Returns the instructions of an operation.
    pub fn total(&self) -> f64 {
        self.per_operation(sum(&self.all))
    }

    /// Returns the functions of a count: names, what they were inlined into, and instructions of all operations. The names for which `is_own`
    /// says so become [`OWN`].
    pub fn new(
        operations: u64,
        source: &str,
        counted: impl Iterator<Item = (String, Option<String>, i64)>,
        is_own: impl Fn(&str) -> bool,
    ) -> Functions {
        let named = |name: String| if is_own(&name) { OWN.to_owned() } else { name };
        let mut found: BTreeMap<(String, Option<String>), i64> = BTreeMap::new();
        for (name, within, instructions) in counted {
            let (name, within) = (named(name), within.map(named));
            let within = within.filter(|within| *within != name);
            let known = found.entry((name, within)).or_default();
            *known = known.saturating_add(instructions);
        }
        let function = |((name, within), instructions)| Function { name, within, instructions };
        let found = found.into_iter().filter(|(_, instructions)| *instructions != 0);
        let mut all: Vec<Function> = found.map(function).collect();
        all.sort_by_key(|function| std::cmp::Reverse(function.instructions));
        if all.len() > MAX_FUNCTIONS {
            let instructions = sum(&all.split_off(MAX_FUNCTIONS - 1));
            all.push(Function { name: OTHERS.to_owned(), within: None, instructions });
        }
        Functions { operations, source: source.to_owned(), all }
    }

    /// Returns the functions of the process whose count is nearest to `typical`, and the names of those that differ in others.
    pub fn joined(processes: Vec<Functions>, typical: f64) -> (Option<Functions>, Option<String>) {
        let distance = |functions: &Functions| (functions.total() - typical).abs();
        let nearest =
            processes.iter().min_by(|one, two| distance(one).total_cmp(&distance(two))).cloned();
        let Some(nearest) = nearest else { return (None, None) };
        let changes = processes.iter().flat_map(|other| nearest.changes(other));
        let differing: BTreeSet<String> = changes.map(|change| change.name).collect();
        let names = (!differing.is_empty()).then(|| listed(differing));
        (Some(nearest), names)
    }

    /// Returns the instructions of an operation, of so many of all.
    pub fn per_operation(&self, instructions: i64) -> f64 {
        instructions as f64 / self.operations.max(1) as f64
    }

    /// Returns the instructions of an operation, their share and the name of each function, for a table.
    pub fn cells(&self) -> impl Iterator<Item = [String; 3]> {
        self.all.iter().map(|Function { name, within, instructions }| {
            let name = match within {
                Some(within) if within != OWN => format!("{name} (inlined into {within})"),
                _ => name.clone(),
            };
            let percent = self.share(*instructions) * 100.0;
            [exact(self.per_operation(*instructions)), format!("{percent:.1} %"), name]
        })
    }

    /// Returns a table for a page, with a bar for each function.
    pub fn table(&self) -> Table {
        /// The bar of all instructions.
        const BLOCKS: f64 = 40.0;
        let columns = [("instructions", true), ("share", true), ("function", false), ("", false)];
        let mut table = Table::new(columns);
        let all = [exact(self.total()), "100.0 %".to_owned(), "all".to_owned(), String::new()];
        table.row(all);
        for ([instructions, percent, name], function) in self.cells().zip(&self.all) {
            let share = self.share(function.instructions).clamp(0.0, 1.0);
            let bar = "█".repeat((share * BLOCKS).round() as usize);
            table.row([instructions, percent, name, bar]);
        }
        table
    }

    /// Returns the share of so many instructions. 0 if there are none.
    fn share(&self, instructions: i64) -> f64 {
        let total = self.total();
        if total == 0.0 { 0.0 } else { self.per_operation(instructions) / total }
    }

    /// Returns what a file of results has.
    pub fn to_json(&self) -> Value {
        let function = |Function { name, within, instructions }: &Function| match within {
            Some(within) => json!([name, instructions, within]),
            None => json!([name, instructions]),
        };
        let all: Vec<Value> = self.all.iter().map(function).collect();
        json!({ "operations": self.operations, "names": self.source, "instructions": all })
    }

    /// Reads what a file of results has. None if it is something else.
    pub fn from_json(json: &Value) -> Option<Functions> {
        let function = |function: &Value| {
            let text = |place: usize| function.get(place)?.as_str().map(str::to_owned);
            let instructions = function.get(1)?.as_i64()?;
            Some(Function { name: text(0)?, within: text(2), instructions })
        };
        let all = json.get("instructions")?.as_array()?;
        let source = json.get("names")?.as_str()?.to_owned();
        let operations = json.get("operations")?.as_u64().filter(|operations| *operations > 0)?;
        (all.len() <= MAX_FUNCTIONS).then_some(())?;
        let all = all.iter().map(function).collect::<Option<_>>()?;
        Some(Functions { operations, source, all })
    }

    /// Returns why the functions of a later build cannot be compared with these. None if they can.
    pub(crate) fn why_not_compared(&self, later: &Functions) -> Option<String> {
        let [was, is] = [&self.source, &later.source];
        (was != is).then(|| {
            format!("the earlier names are from {was}, and the later ones from {is}. Build both with one `debug` in the profile")
        })
    }

    /// Returns what a later build changed, the largest changes first. Their sum is the difference of the totals.
    pub fn changes(&self, later: &Functions) -> Vec<FunctionChange> {
        let (was, is) = (self.by_name(), later.by_name());
        let names: BTreeSet<&str> = was.keys().chain(is.keys()).copied().collect();
        let mut changes: Vec<FunctionChange> = Vec::new();
        for name in names {
            let (more, kind) = match (was.get(name), is.get(name)) {
                (Some((was, of_was)), Some((is, of_is))) => (is - was, inlining(of_was, of_is)),
                (Some((was, _)), None) => (-was, ChangeKind::Gone),
                (None, Some((is, _))) => (*is, ChangeKind::New),
                (None, None) => continue,
            };
            if more.abs() > DIVISION {
                changes.push(FunctionChange { name: name.to_owned(), more, kind });
            }
        }
        find_renamed(&mut changes);
        changes.sort_by(|one, two| two.more.abs().total_cmp(&one.more.abs()));
        changes
    }

    /// Returns the instructions of an operation for each name, and where the function is inlined. None there stands for itself.
    fn by_name(&self) -> BTreeMap<&str, (f64, BTreeSet<Option<&str>>)> {
        let mut found: BTreeMap<&str, (i64, BTreeSet<Option<&str>>)> = BTreeMap::new();
        for Function { name, within, instructions } in &self.all {
            let (known, places) = found.entry(name).or_default();
            *known = known.saturating_add(*instructions);
            places.insert(within.as_deref());
        }
        let per_operation = |(name, (sum, places))| (name, (self.per_operation(sum), places));
        found.into_iter().map(per_operation).collect()
    }
}

/// Returns the instructions of functions. A hostile file may have more than fit.
pub fn sum(functions: &[Function]) -> i64 {
    functions.iter().fold(0, |sum, function| sum.saturating_add(function.instructions))
}

/// Returns the first of the names, and how many others there are.
fn listed(names: BTreeSet<String>) -> String {
    const SHOWN: usize = 3;
    let others = names.len().saturating_sub(SHOWN);
    let mut text = names.into_iter().take(SHOWN).collect::<Vec<_>>().join(", ");
    if others > 0 {
        text += &format!(" and {others} other functions");
    }
    text
}

/// Returns how a function was inlined in both builds, if one of them inlined it nowhere.
fn inlining(was: &BTreeSet<Option<&str>>, is: &BTreeSet<Option<&str>>) -> ChangeKind {
    let first = |places: &BTreeSet<Option<&str>>| {
        places.iter().flatten().next().map(|place| (*place).to_owned())
    };
    match (first(was), first(is)) {
        (Some(place), None) => ChangeKind::WasInlined(place),
        (None, Some(place)) => ChangeKind::IsInlined(place),
        _ => ChangeKind::Same,
    }
}

/// Joins a function that is gone with a new one that has as many instructions, if there is no other such pair.
fn find_renamed(changes: &mut Vec<FunctionChange>) {
    /// With more, names say nothing. Each is compared with each.
    const MOST: usize = 200;
    if changes.len() > MOST {
        return;
    }
    let same = |one: f64, two: f64| (one - two).abs() <= DIVISION;
    let of = |kind: ChangeKind, changes: &[FunctionChange], count: f64| {
        let is_it = |it: &&FunctionChange| it.kind == kind && same(it.more.abs(), count);
        let mut found = changes.iter().filter(is_it).map(|it| it.name.clone());
        let first = found.next();
        first.filter(|_| found.next().is_none())
    };
    let new = changes.iter().filter(|it| it.kind == ChangeKind::New).map(|it| it.more);
    for count in new.collect::<Vec<f64>>() {
        let both = of(ChangeKind::New, changes, count).zip(of(ChangeKind::Gone, changes, count));
        let Some((new, gone)) = both else { continue };
        changes.retain(|it| it.name != gone);
        for it in changes.iter_mut().filter(|it| it.name == new) {
            (it.more, it.kind) = (0.0, ChangeKind::PerhapsRenamed(gone.clone()));
        }
    }
}

/// Returns the largest changes as text. `name` writes a name.
pub(crate) fn text_of(changes: &[FunctionChange], name: fn(&str) -> String) -> String {
    const SHOWN: usize = 5;
    let mut parts: Vec<String> = Vec::new();
    for FunctionChange { name: function, more, kind } in changes.iter().take(SHOWN) {
        let note = match kind {
            ChangeKind::Same => String::new(),
            ChangeKind::WasInlined(place) => format!(" (was inlined into {})", name(place)),
            ChangeKind::IsInlined(place) => format!(" (is inlined into {} now)", name(place)),
            ChangeKind::New => " (new)".to_owned(),
            ChangeKind::Gone => " (gone)".to_owned(),
            ChangeKind::PerhapsRenamed(other) => {
                format!(" (perhaps {} with another name)", name(other))
            }
        };
        parts.push(format!("{} {}{note}", name(function), signed(*more)));
    }
    let others = changes.get(SHOWN..).unwrap_or_default();
    if !others.is_empty() {
        let more = others.iter().map(|change| change.more).sum();
        let number = others.len();
        let others = if number == 1 { "other" } else { "others" };
        parts.push(format!("{number} {others} {}", signed(more)));
    }
    let text = parts.join(", ");
    match changes.iter().all(|it| it.kind == ChangeKind::Same && is_of_a_library(&it.name)) {
        true if !changes.is_empty() => text + FROM_DATA,
        _ => text,
    }
}

/// What a change in libraries alone may come from.
const FROM_DATA: &str = concat!(
    ". Only library functions changed. The alignment of a constant may cause that. ",
    "Put the input on the heap: its alignment then varies between the processes, and the figure covers it"
);

/// Whether a function is one of the standard library, or of a shared library.
fn is_of_a_library(name: &str) -> bool {
    let path = name.trim_start_matches(['<', '&', '[']);
    ["core::", "alloc::", "std::"].iter().any(|known| path.starts_with(known))
        || name.contains(".so") && name.ends_with(", no symbol")
}

fn signed(more: f64) -> String {
    let text = format!("{more:+.3}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    match short {
        "+" | "-" | "+0" | "-0" if more == 0.0 => "±0".to_owned(),
        "+" | "-" | "+0" | "-0" => format!("{more:+.0e}"),
        short => short.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn functions(operations: u64, all: &[(&str, i64, Option<&str>)]) -> Functions {
        let function = |(name, instructions, within): &(&str, i64, Option<&str>)| Function {
            name: (*name).to_owned(),
            within: within.map(str::to_owned),
            instructions: *instructions,
        };
        let all = all.iter().map(function).collect();
        Functions { operations, source: SYMBOLS.to_owned(), all }
    }

    fn text(was: &Functions, is: &Functions) -> String {
        let changes = was.changes(is);
        let sum: f64 = changes.iter().map(|change| change.more).sum();
        assert!((sum - (is.total() - was.total())).abs() < 1e-9, "{changes:?}");
        text_of(&changes, str::to_owned)
    }

    #[test]
    fn changes_by_function() {
        let was = functions(2, &[("f", 20, None), ("g", 6, Some("f")), ("h", 4, None)]);
        assert_eq!(text(&was, &was), "");
        let is = functions(4, &[("f", 76, None), ("g", 24, None), ("h", 8, None)]);
        assert_eq!(text(&was, &is), "f +9, g +3 (was inlined into f)");
        let inlined = functions(4, &[("f", 40, None), ("g", 13, Some("f")), ("h", 8, Some("g"))]);
        assert_eq!(text(&was, &inlined), "g +0.25");
        let other = functions(1, &[("f", 10, None), ("k", 3, None), ("h", 3, None)]);
        assert_eq!(text(&was, &other), "h +1, k ±0 (perhaps g with another name)");
        let little = functions(10_000, &[("f", 100_002, None), ("g", 30_000, None)]);
        assert_eq!(text(&was, &little), "h -2 (gone), f +2e-4");
        let gone = functions(1, &[("f", 10, None), ("k", 5, None), ("l", 5, None)]);
        assert_eq!(text(&was, &gone), "k +5 (new), l +5 (new), g -3 (gone), h -2 (gone)");
        let now = functions(1, &[("f", 10, None), ("g", 3, Some("f")), ("h", 4, Some("f"))]);
        assert_eq!(text(&was, &now), "h +2 (is inlined into f now)");
    }

    #[test]
    fn many_changes_are_cut() {
        let was = functions(1, &[]);
        let names: Vec<String> = (1..=9).map(|number| format!("f{number}")).collect();
        let all: Vec<(&str, i64, Option<&str>)> =
            names.iter().zip(1..).map(|(name, number)| (name.as_str(), number, None)).collect();
        assert!(text(&was, &functions(1, &all)).ends_with("f5 +5 (new), 4 others +10"));
        assert!(
            text(&was, &functions(1, all.get(..6).unwrap())).ends_with("f2 +2 (new), 1 other +1")
        );
    }

    #[test]
    fn more_than_fits() {
        let most =
            functions(1, &[("f", i64::MAX, None), ("f", i64::MAX, Some("g")), ("g", 1, None)]);
        let least = functions(u64::MAX, &[("f", i64::MIN, None), ("g", i64::MIN, None)]);
        assert_eq!(most.total(), i64::MAX as f64);
        assert_eq!(most.cells().count() + least.cells().count(), 5);
        assert_eq!(most.changes(&least).len(), 2);
        assert!(!text_of(&least.changes(&most), str::to_owned).is_empty());
    }

    #[test]
    fn a_change_in_libraries_alone() {
        let of = |count, mine| {
            let all = [("core::slice::memchr", count, None), ("mine", mine, None)];
            functions(1, &all)
        };
        assert_eq!(text(&of(10, 5), &of(13, 5)), format!("core::slice::memchr +3{FROM_DATA}"));
        assert_eq!(text(&of(10, 5), &of(13, 6)), "core::slice::memchr +3, mine +1");
    }

    #[test]
    fn those_of_processes() {
        let of = |count: i64| functions(1, &[("f", count, None), ("g", 7, None)]);
        let joined = |counts: &[i64], typical: f64| {
            Functions::joined(counts.iter().copied().map(of).collect(), typical)
        };
        assert_eq!(joined(&[5, 5], 12.0), (Some(of(5)), None));
        assert_eq!(joined(&[5, 6, 9], 13.0), (Some(of(6)), Some("f".to_owned())));
        assert_eq!(joined(&[], 13.0), (None, None));
    }

    /// What is written can be read.
    #[test]
    fn the_most_functions() {
        let all = (0..2 * MAX_FUNCTIONS as i64).map(|it| (format!("f{it}"), None, it + 1));
        let functions = Functions::new(1, SYMBOLS, all, |_| false);
        let expected = MAX_FUNCTIONS as f64 * (2.0 * MAX_FUNCTIONS as f64 + 1.0);
        assert_eq!((functions.all.len(), functions.total()), (MAX_FUNCTIONS, expected));
        assert_eq!(Functions::from_json(&functions.to_json()), Some(functions));
    }

    #[test]
    fn a_file_has_them() {
        let it = functions(3, &[("f", 20, None), ("g", -6, Some("f"))]);
        assert_eq!(Functions::from_json(&it.to_json()), Some(it));
        for wrong in [
            json!(null),
            json!({ "operations": 0, "names": "symbols", "instructions": [] }),
            json!({ "operations": 1, "names": "symbols", "instructions": [["f"]] }),
            json!({ "operations": 1, "names": "symbols", "instructions": [["f", 0.5]] }),
            json!({ "operations": 1, "instructions": [["f", 1]] }),
            json!({ "operations": 1, "names": "symbols", "instructions": vec![json!(["f", 1]); MAX_FUNCTIONS + 1] }),
        ] {
            assert_eq!(Functions::from_json(&wrong), None);
        }
    }
}
