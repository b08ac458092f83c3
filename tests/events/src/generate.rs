//! Packs a vendor's events: the format is explained in `crates/events/src/pool.rs`.

use crate::source::{Cpu, Source, Terms};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The number of events in a block of the pool.
const BLOCK: usize = 16;

/// The files of a vendor.
pub(crate) struct Generated {
    /// Paths in the crate, and contents.
    pub(crate) files: Vec<(String, Vec<u8>)>,
    pub(crate) names: usize,
    pub(crate) pool_bytes: usize,
    pub(crate) table_bytes: usize,
    pub(crate) description_bytes: usize,
}

pub(crate) fn generate(vendor: &str, source: &Source) -> Result<Generated, String> {
    let (mut events, mut blocks, mut before) = (Vec::new(), Vec::new(), "");
    let mut ids: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (id, ((name, terms), entry)) in source.events.iter().enumerate() {
        if id % BLOCK == 0 {
            blocks
                .extend(u32::try_from(events.len()).map_err(|_| "too many events")?.to_le_bytes());
            before = "";
        }
        let shared =
            before.bytes().zip(name.bytes()).take_while(|(one, other)| one == other).count();
        let rest = name.get(shared..).ok_or_else(|| format!("{name} is not ASCII"))?;
        for length in [shared, rest.len()] {
            events.push(u8::try_from(length).map_err(|_| format!("{name} is too long"))?);
        }
        events.extend(rest.bytes());
        // What the vendor's PMU has no bits for would be lost.
        let (max_event, max_umask) = match vendor {
            "intel" => (0xff, 0xffff),
            "amd" => (0xfff, 0xff),
            "riscv" => (FIRMWARE | 0xffff_ffff, 0),
            _ => (0xffff, 0),
        };
        let has_others = vendor == "riscv" && terms.event & !max_event != 0;
        if has_others || terms.event > max_event || terms.umask > max_umask {
            return Err(format!("{name}: {terms} does not fit"));
        }
        encode(packed(*terms), &mut events);
        before = name;
        for table in &entry.tables {
            ids.entry(table).or_default().push(id);
        }
    }
    let (mut lists, mut rows, mut names) = (Vec::new(), String::new(), 0);
    for cpu in &source.cpus {
        let own =
            ids.remove(cpu.name.as_str()).ok_or_else(|| format!("{} has no events", cpu.name))?;
        let start = lists.len();
        let mut next = 0;
        for id in &own {
            varint((id - next) as u64, &mut lists);
            next = id + 1;
        }
        names += own.len();
        rows += &row(vendor, cpu, start, lists.len())?;
    }
    if let Some(table) = ids.keys().next() {
        return Err(format!("{table} is not among the CPUs"));
    }
    let (words, texts) = describe(source);
    let upper = vendor.to_ascii_uppercase();
    let code = format!(
        "// Written by tests/events from sources/{vendor}.txt.\n\n\
         use super::{{Model, Row, Vendor}};\nuse crate::encoding::Layout;\nuse crate::pool::Pool;\n\n\
         pub(super) static {upper}: Vendor = Vendor {{\n\
         {I}layout: Layout::{},\n\
         {I}pool: Pool {{\n\
         {I}{I}events: include_bytes!(\"../../data/{vendor}.events\"),\n\
         {I}{I}blocks: include_bytes!(\"../../data/{vendor}.blocks\"),\n\
         {I}{I}#[cfg(feature = \"descriptions\")]\n\
         {I}{I}words: include_bytes!(\"../../data/{vendor}.words\"),\n\
         {I}{I}#[cfg(feature = \"descriptions\")]\n\
         {I}{I}texts: include_bytes!(\"../../data/{vendor}.texts\"),\n\
         {I}}},\n\
         {I}lists: include_bytes!(\"../../data/{vendor}.tables\"),\n\
         {I}rows: &ROWS,\n\
         }};\n\n\
         static ROWS: [Row; {}] = [\n{rows}];\n",
        layout(vendor)?,
        source.cpus.len(),
        I = "    ",
    );
    let pool_bytes = events.len() + blocks.len();
    let description_bytes = words.len() + texts.len();
    let table_bytes = lists.len();
    let data = |kind: &str| format!("data/{vendor}.{kind}");
    Ok(Generated {
        files: vec![
            (format!("src/tables/{vendor}.rs"), code.into_bytes()),
            (data("events"), events),
            (data("blocks"), blocks),
            (data("tables"), lists),
            (data("words"), words),
            (data("texts"), texts),
        ],
        names,
        pool_bytes,
        table_bytes,
        description_bytes,
    })
}

fn layout(vendor: &str) -> Result<&'static str, String> {
    match vendor {
        "intel" => Ok("Intel"),
        "amd" => Ok("Amd"),
        "arm" => Ok("Arm"),
        "riscv" => Ok("RiscV"),
        _ => Err(format!("unknown vendor {vendor}")),
    }
}

/// Appends a number, seven bits in a byte, the lowest first. The highest bit tells that more follow.
fn varint(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// In a RISC-V event's `config`: it is one of the firmware's.
const FIRMWARE: u64 = 2 << 62;

/// Returns a RISC-V event's terms as the pool has them: 16 bits each in `event` and `umask`, and the firmware's bit as a flag.
fn packed(terms: Terms) -> Terms {
    Terms {
        event: terms.event & 0xffff,
        umask: terms.umask | (terms.event >> 16 & 0xffff) as u16,
        any: terms.any || terms.event & FIRMWARE != 0,
        ..terms
    }
}

/// Appends the terms of an event: which of them follow, and those.
fn encode(terms: Terms, bytes: &mut Vec<u8>) {
    let flags = terms
        .flags()
        .iter()
        .enumerate()
        .fold(0, |all, (bit, (_, is_set))| all | u8::from(*is_set) << bit);
    let [event, event_high, ..] = terms.event.to_le_bytes();
    let [umask, umask_high] = terms.umask.to_le_bytes();
    let optional = [umask, umask_high, terms.cmask, flags, event_high];
    let has_config1 = u8::from(terms.config1 != 0) << optional.len();
    let present = optional
        .iter()
        .enumerate()
        .fold(has_config1, |all, (bit, value)| all | u8::from(*value != 0) << bit);
    bytes.push(present);
    bytes.push(event);
    bytes.extend(optional.iter().filter(|value| **value != 0));
    if terms.config1 != 0 {
        varint(terms.config1, bytes);
    }
}

/// Returns the source of a table.
fn row(vendor: &str, cpu: &Cpu, start: usize, end: usize) -> Result<String, String> {
    let mut row = format!(
        "    Row {{\n        name: \"{}\",\n        aliases: &{:?},\n        models: &[\n",
        cpu.name, cpu.aliases
    );
    for text in &cpu.matches {
        let not_understood = || format!("{}: {text}", cpu.name);
        let (numbers, pmu) = text.split_once('/').unwrap_or((text, ""));
        let line = if vendor == "arm" {
            let (part, variants) = numbers.split_once('-').unwrap_or((numbers, "0..f"));
            let variants = range(variants).ok_or_else(not_understood)?;
            format!("Model::of_part({part}, ({}, {}))", variants.0, variants.1)
        } else if vendor == "riscv" {
            format!("Model::of_pattern({numbers:?})")
        } else {
            let mut parts = numbers.split('-');
            let family: u32 =
                parts.next().and_then(|text| text.parse().ok()).ok_or_else(not_understood)?;
            let models =
                range(parts.next().ok_or_else(not_understood)?).ok_or_else(not_understood)?;
            let steppings = range(parts.next().unwrap_or("0..f")).ok_or_else(not_understood)?;
            format!(
                "Model::of_x86({family}, ({:#x}, {:#x}), ({}, {}), {pmu:?})",
                models.0, models.1, steppings.0, steppings.1
            )
        };
        let _ = writeln!(row, "            {line},");
    }
    let _ = write!(row, "        ],\n        list: ({start}, {end}),\n    }},\n");
    Ok(row)
}

/// Parses `A..B` or `A`, hexadecimal.
fn range(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    match text.split_once("..") {
        Some((first, last)) => Some((number(first)?, number(last)?)),
        None => Some((number(text)?, number(text)?)),
    }
}

/// Returns the words of all descriptions, the most frequent first, and the descriptions as numbers of words.
fn describe(source: &Source) -> (Vec<u8>, Vec<u8>) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in source.events.values() {
        for word in entry.description.split_whitespace() {
            *counts.entry(word).or_default() += 1;
        }
    }
    let mut words: Vec<(&str, usize)> = counts.into_iter().collect();
    words.sort_by(|(one, count), (other, more)| more.cmp(count).then(one.cmp(other)));
    let places: BTreeMap<&str, usize> =
        words.iter().enumerate().map(|(place, (word, _))| (*word, place)).collect();
    let mut texts = Vec::new();
    for entry in source.events.values() {
        let own: Vec<&str> = entry.description.split_whitespace().collect();
        varint(own.len() as u64, &mut texts);
        for word in own {
            varint(places.get(word).copied().unwrap_or_default() as u64, &mut texts);
        }
    }
    let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    (words.join(" ").into_bytes(), texts)
}
