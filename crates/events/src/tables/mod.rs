//! The tables of all vendors, and the CPUs that they are for. The other files here are generated: see tests/events.

#[cfg(feature = "amd")]
mod amd;
#[cfg(feature = "arm")]
mod arm;
#[cfg(feature = "intel")]
mod intel;
#[cfg(feature = "riscv")]
mod riscv;

use crate::encoding::Layout;
use crate::pool::{Pool, varint};

/// The tables of a vendor.
pub(crate) struct Vendor {
    pub(crate) layout: Layout,
    pub(crate) pool: Pool,
    /// The events of all tables: see [`Row::list`].
    lists: &'static [u8],
    pub(crate) rows: &'static [Row],
}

/// A table.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) models: &'static [Model],
    /// Where its events are in `lists`: the gaps between consecutive numbers.
    list: (usize, usize),
}

/// CPUs that have a table.
pub(crate) struct Model {
    /// The family, or Arm's implementer and part, whose variant is in `steppings`.
    pub(crate) family: u32,
    models: (u32, u32),
    steppings: (u32, u32),
    /// The PMU of the core type, or empty if there is only one type.
    pub(crate) pmu: &'static str,
    /// The beginning of RISC-V's three numbers, hexadecimal: a class of digits is in brackets, and `$` is the end. Others have none.
    pattern: &'static str,
}

impl Model {
    #[cfg(any(feature = "intel", feature = "amd"))]
    const fn of_x86(
        family: u32,
        models: (u32, u32),
        steppings: (u32, u32),
        pmu: &'static str,
    ) -> Model {
        Model { family, models, steppings, pmu, pattern: "" }
    }

    #[cfg(feature = "arm")]
    const fn of_part(part: u32, variants: (u32, u32)) -> Model {
        Model { family: part, models: (0, u32::MAX), steppings: variants, pmu: "", pattern: "" }
    }

    #[cfg(feature = "riscv")]
    const fn of_pattern(pattern: &'static str) -> Model {
        Model { family: u32::MAX, models: (0, 0), steppings: (0, 0), pmu: "", pattern }
    }

    /// Returns the last model.
    pub(crate) fn last(&self) -> u32 {
        self.models.1
    }

    pub(crate) fn has(&self, family: u32, model: u32, stepping: u32) -> bool {
        let is_in = |(first, last): (u32, u32), number| (first..=last).contains(&number);
        self.family == family && is_in(self.models, model) && is_in(self.steppings, stepping)
    }

    /// Whether a RISC-V CPU's `mvendorid-marchid-mimpid` is one of these.
    pub(crate) fn has_numbers(&self, numbers: &str) -> bool {
        !self.pattern.is_empty() && begins_with(numbers, self.pattern)
    }
}

/// Whether a text begins with a pattern: see [`Model`]'s.
fn begins_with(text: &str, pattern: &str) -> bool {
    let (mut text, mut pattern) = (text.chars(), pattern.chars());
    while let Some(wanted) = pattern.next() {
        let fits = match wanted {
            '$' => return text.next().is_none(),
            '[' => {
                let (class, rest) = pattern.as_str().split_once(']').unwrap_or_default();
                pattern = rest.chars();
                text.next().is_some_and(|digit| is_of(class, digit))
            }
            other => text.next() == Some(other),
        };
        if !fits {
            return false;
        }
    }
    true
}

/// Whether a class of digits has this one: `1-9a` has 1 to 9 and a.
fn is_of(class: &str, digit: char) -> bool {
    let mut previous = None;
    let mut digits = class.chars();
    while let Some(next) = digits.next() {
        match (next, previous) {
            ('-', Some(first)) => match digits.next() {
                Some(last) if (first..=last).contains(&digit) => return true,
                _ => {}
            },
            _ if next == digit => return true,
            _ => {}
        }
        previous = Some(next);
    }
    false
}

/// The vendors whose tables are compiled in.
pub(crate) static VENDORS: &[&Vendor] = &[
    #[cfg(feature = "intel")]
    &intel::INTEL,
    #[cfg(feature = "amd")]
    &amd::AMD,
    #[cfg(feature = "arm")]
    &arm::ARM,
    #[cfg(feature = "riscv")]
    &riscv::RISCV,
];

impl Vendor {
    /// Returns the numbers of a table's events, ascending.
    pub(crate) fn numbers(&self, row: &Row) -> impl Iterator<Item = usize> + use<> {
        let mut bytes = self.lists.get(row.list.0..row.list.1).unwrap_or_default();
        let mut next = 0_usize;
        std::iter::from_fn(move || {
            let number = next.saturating_add(usize::try_from(varint(&mut bytes)?).ok()?);
            next = number.saturating_add(1);
            Some(number)
        })
    }

    /// Whether a table has the event of this number.
    pub(crate) fn has(&self, row: &Row, number: usize) -> bool {
        self.numbers(row).take_while(|known| *known <= number).last() == Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::begins_with;

    #[test]
    fn patterns_of_numbers() {
        let pattern = "489-8000000000000[1-9a-e]07-[78ac]";
        for (numbers, fits) in [
            ("489-8000000000000107-7012", true),
            ("489-8000000000000e07-c", true),
            ("489-8000000000000f07-7", false),
            ("489-8000000000000007-7", false),
            ("489-8000000000000107-9", false),
            ("489-8000000000000107-", false),
            ("489", false),
            ("", false),
        ] {
            assert_eq!(begins_with(numbers, pattern), fits, "{numbers}");
        }
        assert!(begins_with("5b7-0-0", "5b7-0-0$") && !begins_with("5b7-0-01", "5b7-0-0$"));
        assert!(!begins_with("1", "[") && !begins_with("", "[1"));
    }
}
