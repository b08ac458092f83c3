//! Prints the public interface of a crate: a line for each item, from the JSON that rustdoc writes.
//!
//! Usage: `rdpmc-interface FILE.json`
//!
//! The crate `public-api` does nearly the same. It was not chosen because it leaves out the defaults of type parameters, and
//! names types of other crates by private modules, so that a moved file would change these texts. This program needs
//! `serde_json` alone. It ends with an error if it meets anything that it does not know, so nothing is left out silently.
//!
//! The paths are public ones, the shortest of each item. Types of other crates are `crate::Name`, and those of the standard
//! library `Name`, wherever they are defined. Left out: hidden items, auto traits, blanket implementations, the methods of a
//! trait's implementation, and values of constants.

mod render;

use render::{Interface, case, entries, get, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::process::ExitCode;

/// What the last line counts.
const TYPES: [&str; 5] = ["struct", "enum", "union", "trait", "type_alias"];

/// The lines of one item: its declaration, then its members and implementations.
struct Block {
    declaration: String,
    lines: Vec<String>,
}

fn main() -> ExitCode {
    let Some(file) = std::env::args().nth(1) else {
        eprintln!("usage: rdpmc-interface FILE.json");
        return ExitCode::from(2);
    };
    let json = std::fs::read_to_string(&file).unwrap_or_else(|why| panic!("{file}: {why}"));
    let json: Value = serde_json::from_str(&json).unwrap_or_else(|why| panic!("{file}: {why}"));
    let mut found = Found { json: &json, paths: BTreeMap::new(), outside: BTreeSet::new() };
    let root = get(&json, "root");
    let name = text(get(item(&json, root).unwrap_or_else(|| panic!("{file} has no root")), "name"));
    found.module(root, name, &mut Vec::new());
    found.print(name);
    ExitCode::SUCCESS
}

/// The item with this id. None for hidden items, and for items of other crates.
fn item<'a>(json: &'a Value, id: &Value) -> Option<&'a Value> {
    get(json, "index").get(id.to_string()).filter(|item| get(item, "crate_id") == 0)
}

/// The kind of an item, and what only items of this kind have.
fn kind(item: &Value) -> (&str, &Value) {
    case(get(item, "inner"))
}

struct Found<'a> {
    json: &'a Value,
    /// The public paths of each item that a module has.
    paths: BTreeMap<String, Vec<String>>,
    /// Re-exports of other crates' items.
    outside: BTreeSet<String>,
}

impl<'a> Found<'a> {
    /// Finds the items of a module under one of its public paths.
    fn module(&mut self, id: &'a Value, path: &str, above: &mut Vec<&'a Value>) {
        let Some(module) = item(self.json, id).filter(|_| !above.contains(&id)) else { return };
        above.push(id);
        for id in entries(get(kind(module).1, "items")) {
            self.member(id, path, None, above);
        }
        above.pop();
    }

    fn member(
        &mut self,
        id: &'a Value,
        module: &str,
        name: Option<&str>,
        above: &mut Vec<&'a Value>,
    ) {
        let Some(member) = item(self.json, id) else { return };
        let (kind, inner) = kind(member);
        if kind == "use" {
            let target = get(inner, "id");
            let name = text(get(inner, "name"));
            let is_glob = get(inner, "is_glob") == true;
            match item(self.json, target) {
                Some(_) if !is_glob => self.member(target, module, Some(name), above),
                Some(found) if self::kind(found).0 == "module" => {
                    self.module(target, module, above)
                }
                _ => {
                    let name = if is_glob { "*" } else { name };
                    self.outside.insert(format!(
                        "pub use {} as {module}::{name}",
                        text(get(inner, "source"))
                    ));
                }
            }
            return;
        }
        let path = format!("{module}::{}", name.unwrap_or_else(|| text(get(member, "name"))));
        if kind == "module" {
            self.module(id, &path, above);
        }
        self.paths.entry(id.to_string()).or_default().push(path);
    }

    fn print(mut self, name: &str) {
        let mut shortest = BTreeMap::new();
        for (id, paths) in &mut self.paths {
            paths.sort_by_key(|path| (path.matches("::").count(), path.clone()));
            paths.dedup();
            if let Some(path) = paths.first() {
                shortest.insert(id.clone(), path.clone());
            }
        }
        let json = self.json;
        // By path, because rustdoc numbers the items anew after each change.
        let mut all: Vec<(&String, &Vec<String>)> = self.paths.iter().collect();
        all.sort_by_key(|(_, paths)| *paths);
        let interface = Interface { json, name, public: shortest };
        let mut blocks: BTreeMap<String, Block> = BTreeMap::new();
        let mut counts = [0; TYPES.len()];
        let mut listed = HashSet::new();
        for (id, paths) in all {
            let found = paths.split_first().zip(get(json, "index").get(id));
            let Some(((path, others), item)) = found else { continue };
            for (count, counted) in counts.iter_mut().zip(TYPES) {
                *count += usize::from(kind(item).0 == counted);
            }
            blocks.insert(path.clone(), block(&interface, item, path, &mut listed));
            for other in others {
                let declaration = format!("pub use {path} as {other}");
                blocks.insert(other.clone(), Block { declaration, lines: Vec::new() });
            }
        }
        println!(
            "# The public interface of {name}, written by tests/interface/run. Names without a path are std's."
        );
        for line in self.outside {
            println!("{line}");
        }
        let mut is_apart = true;
        for block in blocks.values() {
            // Blank lines around each type.
            if is_apart || !block.lines.is_empty() {
                println!();
            }
            is_apart = !block.lines.is_empty();
            println!("{}", block.declaration);
            for line in &block.lines {
                println!("{line}");
            }
        }
        let each: Vec<String> = counts
            .iter()
            .zip(TYPES)
            .map(|(count, kind)| format!("{kind} {count}").replace('_', " "))
            .collect();
        println!("\n# Public types: {} ({})", counts.iter().sum::<usize>(), each.join(", "));
    }
}

fn block(interface: &Interface, item: &Value, path: &str, listed: &mut HashSet<String>) -> Block {
    let json = interface.json;
    let (kind, inner) = kind(item);
    let mut lines = Vec::new();
    let members = match kind {
        "struct" => match get(inner, "kind").get("plain") {
            Some(plain) => entries(get(plain, "fields")),
            None => &[],
        },
        "union" => entries(get(inner, "fields")),
        "enum" => entries(get(inner, "variants")),
        "trait" => entries(get(inner, "items")),
        _ => &[],
    };
    for id in members {
        if let Some(member) = self::item(json, id) {
            let name = text(get(member, "name"));
            lines.push(interface.declaration(member, &format!("{path}::{name}"), kind == "trait"));
        }
    }
    // The order in the source is no part of the interface, except that of variants and fields, which derived orders and
    // representations in C depend on.
    if kind == "trait" {
        lines.sort();
    }
    let implementations = match kind {
        "struct" | "enum" | "union" => entries(get(inner, "impls")),
        "trait" => entries(get(inner, "implementations")),
        _ => &[],
    };
    // By their first line, so that it does not matter into how many blocks the source divides them.
    let mut inherent: BTreeMap<String, BTreeMap<&str, String>> = BTreeMap::new();
    let mut of_traits = BTreeSet::new();
    for id in implementations {
        let Some(implementation) = self::item(json, id) else { continue };
        let (_, inner) = self::kind(implementation);
        let is_left_out =
            get(inner, "is_synthetic") == true || !get(inner, "blanket_impl").is_null();
        // rustdoc has it with each type and trait that it names. Here it is listed once, if possible
        // with the type that it is for.
        let for_type = interface.public_type(get(inner, "for"));
        if is_left_out
            || for_type.is_some_and(|public| public != path)
            || !listed.insert(id.to_string())
        {
            continue;
        }
        let first = interface.implementation(inner);
        let members = entries(get(inner, "items")).iter().filter_map(|id| self::item(json, id));
        let members = members.map(|member| (text(get(member, "name")), member));
        if get(inner, "trait").is_null() {
            let lines = members.map(|(name, member)| {
                (name, interface.declaration(member, &format!("{path}::{name}"), false))
            });
            inherent.entry(first).or_default().extend(lines);
        // No program can name this one, which `derive` adds.
        } else if !first.contains("StructuralPartialEq for") {
            let types = members.filter(|(_, member)| self::kind(member).0 == "assoc_type");
            let types: Vec<String> =
                types.map(|(name, member)| interface.declaration(member, name, true)).collect();
            let types = if types.is_empty() {
                String::new()
            } else {
                format!(" {{ {} }}", types.join(", "))
            };
            of_traits.insert(first + &types);
        }
    }
    for (first, members) in inherent.into_iter().filter(|(_, members)| !members.is_empty()) {
        lines.push(first);
        lines.extend(members.into_values());
    }
    lines.extend(of_traits);
    Block { declaration: interface.declaration(item, path, false), lines }
}
