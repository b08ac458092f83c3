//! Where the slots of known work go, exactly. The emulated PMU derives them from instructions, branches and loads: see
//! `tests/vm/qemu-x86-pmu/pmu.c`.

use super::Entry;
use crate::harness::{Facts, Outcome, Stop, equal, require};
use rdpmc::Access;
use rdpmc_testing::kernels::countdown;
use rdpmc_topdown::{Level1, Topdown};
use std::arch::asm;
use std::hint::black_box;

pub const ALL: &[Entry] = &[("topdown_of_random_mixtures", topdown_of_random_mixtures)];

/// Work of a known number of instructions, branches and loads.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    /// Rounds of two instructions, one of which is a branch.
    branches: u64,
    /// Rounds of three, one of which is a load, and one a branch.
    loads: u64,
    /// Rounds of ten, one of which is a branch.
    additions: u64,
}

impl Work {
    /// Each piece takes as many instructions without a round as with some.
    #[inline(never)]
    fn run(self) {
        let Work { branches, loads, additions } = black_box(self);
        countdown(branches);
        let word = 7_u64;
        // SAFETY: reads a local variable, and works on its own registers.
        unsafe {
            asm!(
                "test {left}, {left}", "jz 3f",
                "2:", "mov {to}, [{from}]", "dec {left}", "jnz 2b",
                "3:",
                left = inout(reg) loads => _, to = out(reg) _, from = in(reg) &word,
                options(readonly, nostack),
            );
            asm!(
                "test {left}, {left}", "jz 3f",
                "2:", ".rept 8", "add {sum}, {left}", ".endr", "dec {left}", "jnz 2b",
                "3:",
                left = inout(reg) additions => _, sum = inout(reg) 0_u64 => _,
                options(nomem, nostack),
            );
        }
    }

    /// Returns its instructions, branches and loads, without those of no round.
    fn events(self) -> [u64; 3] {
        let Work { branches, loads, additions } = self;
        [2 * branches + 3 * loads + 10 * additions, branches + loads + additions, loads]
    }
}

/// The slots of each part of the four, and the memory's, of known work.
fn expected(work: Work, slots_per_instruction: u64) -> [u64; 6] {
    let [instructions, branches, loads] = work.events();
    let all = slots_per_instruction * instructions;
    let (retiring, bad, back_end) = (5 * instructions, 2 * branches, 3 * loads);
    [all, retiring, bad, all - retiring - bad - back_end, back_end, 2 * loads]
}

/// The same by an analysis. They are whole numbers.
fn found(level1: &Level1) -> [u64; 5] {
    let Level1 { slots, retiring, bad_speculation, front_end, back_end, .. } = level1;
    [*slots, retiring.slots, bad_speculation.slots, front_end.slots, back_end.slots]
        .map(|slots| slots as u64)
}

fn topdown_of_random_mixtures(facts: &Facts) -> Outcome {
    let slots = facts.number("slots").expect("a fact of these machines");
    let topdown = Topdown::open().map_err(|why| Stop::Failed(why.to_string()))?;
    equal("access", topdown.group().access(), Access::UserSpace)?;
    let formula = topdown.formula();
    equal("events", formula.events().len() as u64, facts.number("topdown_events").unwrap_or(0))?;
    let counts = |work: Work| -> Result<Vec<u64>, Stop> {
        let before = topdown.read()?;
        work.run();
        let after = topdown.read()?;
        Ok(after.iter().zip(&before).map(|(after, before)| after - before).collect())
    };
    let nothing = counts(Work::default())?;
    let mut random = Random(1);
    let mut memory = 0;
    for _ in 0..1_000 {
        let work = Work {
            branches: random.below(2_000),
            loads: 1 + random.below(2_000),
            additions: random.below(2_000),
        };
        let counted = counts(work)?;
        let counted: Vec<u64> =
            counted.iter().zip(&nothing).map(|(count, nothing)| count - nothing).collect();
        let level1 = formula.level1(&counted).ok_or_else(|| format!("no slots: {counted:?}"))?;
        let [all, retiring, bad, front_end, back_end, of_memory] = expected(work, slots);
        equal(&format!("{work:?}"), found(&level1), [all, retiring, bad, front_end, back_end])?;
        let fraction = |slots: u64| slots as f64 / all as f64;
        equal("retiring", level1.retiring.fraction, fraction(retiring))?;
        equal("back end", level1.back_end.fraction, fraction(back_end))?;
        equal("the rest", level1.rest, 0.0)?;
        equal("disagreement", level1.disagreement(), None)?;
        if let Some(part) = level1.memory {
            equal("memory", part.slots as u64, of_memory)?;
            memory += 1;
        }
    }
    let sample = formula.level1(&counts(Work { branches: 100, loads: 900, additions: 10 })?);
    let sample = sample.ok_or_else(|| "no slots".to_owned())?;
    println!("{}: {sample}; 1,000 mixtures exact, {memory} with memory", formula.cpus());
    require(sample.to_string().starts_with("retiring 2"), || sample.to_string())
}

/// A linear congruential generator (Knuth's MMIX).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}
