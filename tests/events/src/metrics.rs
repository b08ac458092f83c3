//! Compares the formulas of `rdpmc_events::topdown` with perf's metrics of the first level.

use crate::import::json;
use crate::perf::{field, list};
use crate::source::Source;
use rdpmc::Event;
use rdpmc::pmu::Pmus;
use rdpmc_events::Table;
use rdpmc_events::topdown::{Category, Formula, Level1, Level2, Part};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// perf's names of the parts: Intel's and AMD's.
const METRICS: [(Category, [&str; 2]); 4] = [
    (Category::Retiring, ["tma_retiring", "retiring"]),
    (Category::BadSpeculation, ["tma_bad_speculation", "bad_speculation"]),
    (Category::FrontendBound, ["tma_frontend_bound", "frontend_bound"]),
    (Category::BackendBound, ["tma_backend_bound", "backend_bound"]),
];
const OF_MEMORY: [&str; 3] =
    ["tma_memory_bound", "backend_bound_memory", "backend_bound_by_memory"];

/// perf's metrics of Intel's P-cores take the parts of the slots from a register that has them, PERF_METRICS. These names stand for the
/// slots that our events have counted. So this shows only that perf divides a part by all of them, and which part it is. It is counted apart.
const PARTS_OF_A_REGISTER: [(&str, Category); 4] = [
    ("topdown-retiring", Category::Retiring),
    ("topdown-bad-spec", Category::BadSpeculation),
    ("topdown-fe-bound", Category::FrontendBound),
    ("topdown-be-bound", Category::BackendBound),
];
type HalfOf = fn(&Level2) -> Part;

/// The same of the second level.
const HALVES_OF_A_REGISTER: [(&str, HalfOf); 3] = [
    ("topdown-heavy-ops", |level2| level2.heavy_operations),
    ("topdown-br-mispredict", |level2| level2.branch_mispredicts),
    ("topdown-fetch-lat", |level2| level2.fetch_latency),
];
const MEMORY_OF_A_REGISTER: &str = "topdown-mem-bound";

/// perf's names of the second level's parts.
const HALVES: [([&str; 3], HalfOf); 3] = [
    (["tma_heavy_operations", "retiring_microcode", "retiring_from_microcode"], |level2| {
        level2.heavy_operations
    }),
    (
        [
            "tma_branch_mispredicts",
            "bad_speculation_mispredicts",
            "bad_speculation_from_mispredicts",
        ],
        |level2| level2.branch_mispredicts,
    ),
    (["tma_fetch_latency", "frontend_bound_latency", "frontend_bound_by_latency"], |level2| {
        level2.fetch_latency
    }),
];

/// Computes each metric of the first level with perf's formula and with ours, of the same random counts. Prints how many are equal.
pub(crate) fn compare(
    vendor: &str,
    source: &Source,
    room: &Path,
    perf: &[&str],
) -> Result<(), String> {
    let (mut compared, mut of_register) = (0, 0);
    for cpu in &source.cpus {
        let table = Table::named(&cpu.name).ok_or_else(|| format!("no table {}", cpu.name))?;
        let Some(formula) = Formula::for_table(table) else { continue };
        let formula = formula.with_level2().unwrap_or(formula);
        let metrics = Metrics::of(vendor, source, cpu.name.as_str(), room, perf)?;
        if let Some(other) = &metrics.of_another_pmu {
            println!("# {}: perf lists the metrics of {other} alone", cpu.name);
            continue;
        }
        let mut by_register = BTreeSet::new();
        let (mut equal, mut random) = (0, Random(7));
        for _ in 0..100 {
            let counts = random.counts(formula.events().len());
            let level1 = formula.level1(&counts).ok_or("no slots")?;
            let level2 = formula.level2(&counts);
            let values =
                Values { metrics: &metrics, table, formula: &formula, counts, level1, level2 };
            let ours = METRICS
                .iter()
                .map(|(category, names)| (&names[..], level1.part(*category).fraction));
            // That of Skylake needs seven more events.
            let memory = level1.memory_bound.map(|part| (&OF_MEMORY[..], part.fraction));
            let halves = level2.iter().flat_map(|level2| {
                HALVES.iter().map(|(names, half)| (&names[..], half(level2).fraction))
            });
            for (names, ours) in ours.chain(memory).chain(halves) {
                let known = names.iter().find_map(|name| metrics.formulas.get(*name));
                let Some(known) = known else { continue };
                let theirs = values.evaluate(known, &mut by_register)?;
                // Nor is it equal if perf's is not a number.
                let is_equal = (ours - theirs).abs() <= 1e-9 * ours.abs().max(1.0);
                if !is_equal {
                    return Err(format!(
                        "{}: {} is {ours}, and {theirs} by perf: {known}",
                        cpu.name,
                        names.first().copied().unwrap_or_default()
                    ));
                }
                equal += 1;
            }
        }
        if equal == 0 {
            println!("# {}: perf has no metrics", cpu.name);
            continue;
        }
        let how =
            if by_register.is_empty() { "" } else { ", with the parts of PERF_METRICS as counted" };
        println!(
            "# {}: {} metrics are equal to perf's, of 100 random counts each{how}",
            cpu.name,
            equal / 100
        );
        match by_register.is_empty() {
            true => compared += equal / 100,
            false => of_register += equal / 100,
        }
    }
    println!("# metrics: {compared} equal");
    println!("# {of_register} of PERF_METRICS have the same parts");
    Ok(())
}

/// Arm's cores whose slots are counted here: the table, Linux's directory, and the slots in a cycle, which Linux takes from a register.
const ARM: [(&str, &str, &str); 6] = [
    ("neoverse_n2", "neoverse-n2-v2", "5"),
    ("neoverse_n3", "neoverse-n3", "5"),
    ("neoverse_v1", "neoverse-v1", "8"),
    ("neoverse_v2", "neoverse-n2-v2", "8"),
    ("neoverse_v3", "neoverse-v3", "10"),
    ("neoverse_v3ae", "neoverse-v3", "10"),
];

/// Compares the formulas of Arm's cores with those in Linux's directory `tools/perf/pmu-events/arch`.
pub(crate) fn compare_arm(linux: &Path) -> Result<(), String> {
    let directory = linux.join("arm64");
    let shared = json(&directory.join("sbsa.json"))?;
    let mut compared = 0;
    for (name, files, width) in ARM {
        let table = Table::named(name).ok_or_else(|| format!("no table {name}"))?;
        let formula = Formula::for_table(table).ok_or_else(|| format!("no formula of {name}"))?;
        let own = json(&directory.join("arm").join(files).join("metrics.json"))?;
        let mut formulas = BTreeMap::new();
        for metric in
            [&shared, &own].into_iter().flat_map(|all| all.as_array().into_iter().flatten())
        {
            if !field(metric, "MetricExpr").is_empty() {
                // A core since r0p3.
                let formula = field(metric, "MetricExpr").replace(
                    "strcmp_cpuid_str(0x410fd493) | strcmp_cpuid_str(0x410fd490) ^ 1",
                    "1",
                );
                // One that all cores share has that name.
                let names = ["MetricName", "ArchStdEvent"].map(|name| field(metric, name));
                let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
                formulas.insert(name.to_owned(), formula);
            }
        }
        let sum = "STALL_SLOT_FRONTEND + STALL_SLOT_BACKEND".to_owned();
        formulas.extend([
            ("#slots".to_owned(), width.to_owned()),
            ("STALL_SLOT".to_owned(), sum.clone()),
        ]);
        formulas.insert("stall_slot".to_owned(), sum);
        let metrics = Metrics { formulas, events: BTreeMap::new(), of_another_pmu: None };
        let (mut random, mut unused) = (Random(7), BTreeSet::new());
        for _ in 0..100 {
            let counts = random.counts(formula.events().len());
            let level1 = formula.level1(&counts).ok_or("no slots")?;
            let values = Values {
                metrics: &metrics,
                table,
                formula: &formula,
                counts,
                level1,
                level2: None,
            };
            for (category, [_, metric]) in METRICS {
                let known = metrics.formulas.get(metric).ok_or_else(|| format!("no {metric}"))?;
                let theirs = values.evaluate(known, &mut unused)? / 100.0;
                let ours = level1.part(category).fraction;
                let is_equal = (ours - theirs).abs() <= 1e-9 * ours.abs().max(1.0);
                if !is_equal {
                    return Err(format!(
                        "{name}: {metric} is {ours}, and {theirs} by Linux: {known}"
                    ));
                }
            }
        }
        println!(
            "# {name}: {} metrics are equal to Linux's, of 100 random counts each",
            METRICS.len()
        );
        compared += METRICS.len();
    }
    println!("# metrics: {compared} equal");
    Ok(())
}

/// perf's metrics and events of a CPU.
struct Metrics {
    formulas: BTreeMap<String, String>,
    /// By the name in lower case.
    events: BTreeMap<String, Event>,
    /// The PMU of the parts, if it is that of another core type.
    of_another_pmu: Option<String>,
}

impl Metrics {
    fn of(
        vendor: &str,
        source: &Source,
        name: &str,
        room: &Path,
        perf: &[&str],
    ) -> Result<Metrics, String> {
        let cpu = source.cpus.iter().find(|cpu| cpu.name == name).ok_or("no such CPU")?;
        let events = list(vendor, cpu, room, perf, &[])?;
        let pmus = Pmus::from_dir(&events.devices);
        let of_event = |entry| {
            let event = pmus.event(field(entry, "Encoding")).ok()?;
            Some((field(entry, "EventName").to_ascii_lowercase(), event))
        };
        let events = events.entries.iter().filter_map(of_event).collect();
        let metrics = list(vendor, cpu, room, perf, &["metric"])?;
        // Of a hybrid, perf may list those of the other core type.
        let unit = |entry: &Value| field(entry, "Unit").to_owned();
        let is_its =
            |entry: &&Value| ["", "default_core", metrics.pmu].contains(&unit(entry).as_str());
        let formulas: BTreeMap<String, String> = metrics
            .entries
            .iter()
            .filter(is_its)
            .map(|entry| {
                (field(entry, "MetricName").to_owned(), field(entry, "MetricExpr").to_owned())
            })
            .filter(|(name, _)| !name.is_empty())
            .collect();
        let others = metrics.entries.iter().find(|entry| !is_its(entry)).map(unit);
        let of_another_pmu = others.filter(|_| !formulas.contains_key("tma_retiring"));
        Ok(Metrics { formulas, events, of_another_pmu })
    }
}

/// What the names of an expression are.
struct Values<'a> {
    metrics: &'a Metrics,
    table: Table,
    formula: &'a Formula,
    counts: Vec<u64>,
    level1: Level1,
    level2: Option<Level2>,
}

impl Values<'_> {
    fn evaluate(
        &self,
        expression: &str,
        by_register: &mut BTreeSet<String>,
    ) -> Result<f64, String> {
        let mut parser =
            Parser { values: self, tokens: tokens(expression)?, place: 0, by_register };
        let value = parser.choice()?;
        match parser.tokens.get(parser.place) {
            None => Ok(value),
            Some(token) => Err(format!("{token} is left in {expression}")),
        }
    }

    fn name(&self, name: &str, by_register: &mut BTreeSet<String>) -> Result<f64, String> {
        if let Some(formula) = self.metrics.formulas.get(name) {
            return self.evaluate(formula, by_register);
        }
        // On a PMU: `cpu_core@topdown-retiring@`.
        let name = name.split('@').nth(1).unwrap_or(name).to_ascii_lowercase();
        match name.as_str() {
            // As if the other hardware thread were idle: the formulas are without it.
            "#smt_on" => return Ok(0.0),
            "#core_wide" => return Ok(1.0),
            name if name.starts_with("topdown-") => {
                by_register.insert(name.to_owned());
                let of = PARTS_OF_A_REGISTER.iter().find(|(known, _)| *known == name);
                let memory = || self.level1.memory_bound.filter(|_| name == MEMORY_OF_A_REGISTER);
                let half = || {
                    let (_, half) =
                        HALVES_OF_A_REGISTER.iter().find(|(known, _)| *known == name)?;
                    self.level2.as_ref().map(half)
                };
                let part = of.map(|(_, category)| self.level1.part(*category));
                let part = part.or_else(memory).or_else(half);
                // Of a metric that is not compared.
                return Ok(part.map_or(f64::NAN, |part| part.slots));
            }
            // Corrections of those.
            "int_misc.uop_dropping" | "int_misc.clears_count" => return Ok(0.0),
            _ => {}
        }
        let event =
            self.table.event(&name).ok().or_else(|| self.metrics.events.get(&name).copied());
        let event = event.ok_or_else(|| format!("{name} is not known"))?;
        let place = self.formula.events().iter().position(|known| *known == event);
        let count = place.and_then(|place| self.counts.get(place));
        // Of a branch that is not taken, or the metric is no number.
        Ok(count.map_or(f64::NAN, |count| *count as f64))
    }
}

/// Splits an expression into numbers, names and operators. A backslash makes the next character part of a name.
fn tokens(expression: &str) -> Result<Vec<String>, String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut characters = expression.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.extend(characters.next()),
            '+' | '-' | '*' | '/' | '(' | ')' | ',' | '<' | '>' | ' ' => {
                tokens.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
                tokens.extend((character != ' ').then(|| character.to_string()));
            }
            other if other.is_alphanumeric() || "._#:@=".contains(other) => word.push(other),
            other => return Err(format!("{other} in {expression}")),
        }
    }
    tokens.extend((!word.is_empty()).then_some(word));
    Ok(tokens)
}

/// Evaluates perf's expressions: sums, products, `max`, `min`, `d_ratio`, and `A if B < C else D`.
struct Parser<'a, 'v> {
    values: &'a Values<'v>,
    tokens: Vec<String>,
    place: usize,
    by_register: &'a mut BTreeSet<String>,
}

impl Parser<'_, '_> {
    fn take(&mut self, wanted: &str) -> bool {
        let is_there = self.tokens.get(self.place).is_some_and(|token| token == wanted);
        self.place += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, wanted: &str) -> Result<(), String> {
        self.take(wanted).then_some(()).ok_or_else(|| format!("no {wanted} in {:?}", self.tokens))
    }

    fn choice(&mut self) -> Result<f64, String> {
        let first = self.sum()?;
        if !self.take("if") {
            return Ok(first);
        }
        let mut condition = self.sum()?;
        if self.take("<") {
            condition = f64::from(condition < self.sum()?);
        }
        self.expect("else")?;
        let other = self.choice()?;
        Ok(if condition != 0.0 { first } else { other })
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut sum = self.product()?;
        loop {
            if self.take("+") {
                sum += self.product()?;
            } else if self.take("-") {
                sum -= self.product()?;
            } else {
                return Ok(sum);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut product = self.value()?;
        loop {
            if self.take("*") {
                product *= self.value()?;
            } else if self.take("/") {
                product /= self.value()?;
            } else {
                return Ok(product);
            }
        }
    }

    fn value(&mut self) -> Result<f64, String> {
        if self.take("(") {
            let value = self.choice()?;
            self.expect(")")?;
            return Ok(value);
        }
        let token = self.tokens.get(self.place).cloned().ok_or("it ends early")?;
        self.place += 1;
        if let Ok(number) = token.parse() {
            return Ok(number);
        }
        if !self.take("(") {
            return self.values.name(&token, self.by_register);
        }
        let first = self.choice()?;
        self.expect(",")?;
        let second = self.choice()?;
        self.expect(")")?;
        match token.as_str() {
            "max" => Ok(first.max(second)),
            "min" => Ok(first.min(second)),
            "d_ratio" => Ok(if second == 0.0 { 0.0 } else { first / second }),
            _ => Err(format!("{token} is not a function that is known")),
        }
    }
}

/// A linear congruential generator (Knuth's MMIX).
struct Random(u64);

impl Random {
    /// Returns counts of which the first one, the slots or cycles, is larger than the others together.
    fn counts(&mut self, number: usize) -> Vec<u64> {
        let mut below = |bound: u64| {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % bound
        };
        let mut counts = vec![1_000_000 + below(1_000_000)];
        counts.extend((1..number).map(|_| 1 + below(100_000)));
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() -> Result<(), String> {
        let table = Table::named("icelake").ok_or("no table")?;
        let formula = Formula::for_table(table).ok_or("no formula")?;
        let counts = vec![100, 40, 30, 10];
        let one = ("one".to_owned(), "1 + 0 * slots_of_it".to_owned());
        let two = ("slots_of_it".to_owned(), "TOPDOWN.SLOTS".to_owned());
        let formulas = BTreeMap::from([one, two]);
        let events = BTreeMap::new();
        let metrics = Metrics { formulas, events, of_another_pmu: None };
        let level1 = formula.level1(&counts).ok_or("no slots")?;
        let values =
            Values { metrics: &metrics, table, formula: &formula, counts, level1, level2: None };
        let mut by_register = BTreeSet::new();
        for (expression, value) in [
            ("1 + 2 * 3 - 4 / 2", 5.0),
            ("(1 + 2) * 3", 9.0),
            ("max(1 - 2, 0)", 0.0),
            ("d_ratio(1, 0) + min(2, 3)", 2.0),
            ("2 if #SMT_on else one", 1.0),
            ("2 if #core_wide < 1 else 3 if 1 < 2 else 4", 3.0),
            ("UOPS_RETIRED.SLOTS / topdown.slots", 0.4),
            ("topdown\\-bad\\-spec - INT_MISC.UOP_DROPPING", 20.0),
        ] {
            assert_eq!(values.evaluate(expression, &mut by_register), Ok(value), "{expression}");
        }
        for wrong in ["", "1 +", "(1", "1 2", "f(1, 2)", "no_such.event", "1 ; 2"] {
            assert!(values.evaluate(wrong, &mut by_register).is_err(), "{wrong}");
        }
        assert!(by_register.contains("topdown-bad-spec"));
        Ok(())
    }
}
