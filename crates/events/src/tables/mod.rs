//! The tables of all vendors, and the CPUs that they are for. The other files here are generated: see tests/events.

#[cfg(feature = "amd")]
mod amd;
#[cfg(feature = "arm")]
mod arm;
#[cfg(feature = "intel")]
mod intel;

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
    /// The family, or Arm's implementer and part.
    pub(crate) family: u32,
    models: (u32, u32),
    steppings: (u32, u32),
    /// The PMU of the core type, or empty if there is only one type.
    pub(crate) pmu: &'static str,
}

impl Model {
    #[cfg(feature = "arm")]
    const fn of_part(part: u32) -> Model {
        Model { family: part, models: (0, u32::MAX), steppings: (0, u32::MAX), pmu: "" }
    }

    pub(crate) fn has(&self, family: u32, model: u32, stepping: u32) -> bool {
        let is_in = |(first, last): (u32, u32), number| (first..=last).contains(&number);
        self.family == family && is_in(self.models, model) && is_in(self.steppings, stepping)
    }
}

/// The vendors whose tables are compiled in.
pub(crate) static VENDORS: &[&Vendor] = &[
    #[cfg(feature = "intel")]
    &intel::INTEL,
    #[cfg(feature = "amd")]
    &amd::AMD,
    #[cfg(feature = "arm")]
    &arm::ARM,
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
