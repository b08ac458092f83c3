//! One table: the events of a CPU model, or of one of its core types.

use crate::encoding::{Encoding, Layout};
use crate::pool::MAX_NAME;
use crate::tables::{Model, Row, VENDORS, Vendor};
use std::fmt;

/// The events of a CPU model, or of one of its core types.
///
/// ```
/// use rdpmc_events::Table;
///
/// let table = Table::named("skylake").ok_or("built without the feature `intel`")?;
/// let event = table.event("mem_load_retired.l3_miss")?;
/// assert_eq!(event, "r20d1".parse()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Table {
    pub(crate) vendor: &'static Vendor,
    pub(crate) row: &'static Row,
}

/// An event of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VendorEvent {
    /// The event's name, in lower case.
    pub name: String,
    /// The table.
    pub table: Table,
    /// The event.
    pub event: rdpmc::Event,
    /// The PMU of the core type that the event names. None if the CPU has one type, and for an event of a [`Table`].
    pub pmu: Option<String>,
    /// What it counts, in the vendor's words. None if the vendor says nothing, or without the feature `descriptions`.
    pub description: Option<String>,
}

impl Table {
    /// Returns all tables.
    pub fn all() -> impl Iterator<Item = Table> {
        VENDORS.iter().flat_map(|&vendor| vendor.rows.iter().map(move |row| Table { vendor, row }))
    }

    /// Returns the table of this name or alias: `skylakex`, `skx`, `zen4`, `neoverse_n1`. Upper and lower case, and `-` and
    /// `_`, are the same. None if there is none.
    pub fn named(name: &str) -> Option<Table> {
        let matches = |known: &str| {
            let plain = |byte: u8| if byte == b'-' { b'_' } else { byte.to_ascii_lowercase() };
            known.len() == name.len() && known.bytes().map(plain).eq(name.bytes().map(plain))
        };
        Table::all().find(|table| table.all_names().any(matches))
    }

    /// Returns its name.
    pub fn name(&self) -> &'static str {
        self.row.name
    }

    /// Returns its other names.
    pub fn aliases(&self) -> &'static [&'static str] {
        self.row.aliases
    }

    pub(crate) fn all_names(self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.row.name).chain(self.row.aliases.iter().copied())
    }

    /// Whether a core PMU of this name can have these events.
    pub(crate) fn has_pmu(&self, pmu: &str) -> bool {
        let is_of_arm = self.layout() == Layout::Arm && pmu.starts_with("armv");
        pmu == "cpu"
            || is_of_arm
            || self
                .row
                .models
                .iter()
                .any(|model| model.pmu.eq_ignore_ascii_case(pmu) && !pmu.is_empty())
    }

    /// Returns the CPU families that it is for, without doubles.
    pub(crate) fn families(self) -> impl Iterator<Item = u32> {
        let mut families: Vec<u32> = self.row.models.iter().map(|model| model.family).collect();
        families.sort_unstable();
        families.dedup();
        families.into_iter()
    }

    /// Whether a CPU has both tables, one for each type of core.
    pub(crate) fn shares_a_model(&self, other: &Table) -> bool {
        let numbers = |model: &Model| (model.family, model.last());
        let others = &other.row.models;
        let is_there = |model: &Model| others.iter().any(|other| numbers(other) == numbers(model));
        self.layout() != Layout::RiscV && self.row.models.iter().any(is_there)
    }

    pub(crate) fn layout(&self) -> Layout {
        self.vendor.layout
    }

    /// Returns the encoding of the event of this name, whose colons are dots here. Does not allocate.
    pub(crate) fn find(&self, name: &str) -> Option<Encoding> {
        let mut buffer = [0; MAX_NAME];
        let lower = buffer.get_mut(..name.len())?;
        for (to, from) in lower.iter_mut().zip(name.bytes()) {
            *to = if from == b':' { b'.' } else { from.to_ascii_lowercase() };
        }
        self.vendor.pool.find(lower, |number| self.vendor.has(self.row, number))
    }

    /// Calls `visit` with the number, the name and the encoding of each event.
    pub(crate) fn each(&self, mut visit: impl FnMut(usize, &str, Encoding)) {
        let mut numbers = self.vendor.numbers(self.row).peekable();
        let mut cursor = self.vendor.pool.cursor();
        while let (Some(wanted), Some((number, encoding))) =
            (numbers.peek().copied(), cursor.next())
        {
            if number == wanted {
                numbers.next();
                visit(number, std::str::from_utf8(cursor.name()).unwrap_or_default(), encoding);
            }
        }
    }

    /// Returns all events, ordered by name.
    pub fn events(&self) -> Vec<VendorEvent> {
        let mut all = Vec::new();
        #[cfg(feature = "descriptions")]
        let (mut descriptions, mut next) =
            (crate::pool::Descriptions::from_pool(&self.vendor.pool), 0);
        self.each(|_number, name, encoding| {
            #[cfg(feature = "descriptions")]
            let description = {
                let skipped = (next.._number).all(|_| descriptions.next().is_some());
                next = _number + 1;
                descriptions.next().filter(|text| skipped && !text.is_empty())
            };
            #[cfg(not(feature = "descriptions"))]
            let description = None;
            let event = encoding.event(self.layout());
            all.push(VendorEvent {
                name: name.to_owned(),
                table: *self,
                event,
                pmu: None,
                description,
            });
        });
        all
    }
}

impl PartialEq for Table {
    fn eq(&self, other: &Table) -> bool {
        std::ptr::eq(self.row, other.row)
    }
}

impl Eq for Table {}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Table").field(&self.row.name).finish()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.row.name)
    }
}
