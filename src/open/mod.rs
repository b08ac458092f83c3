//! Opens events: from an event to its descriptor, its control page and a reader.

// Floor 5. `options` has the settings, `attempt` opens one event, `events` opens a group, `mapping` maps the control
// pages, `cost` measures reads, `group` puts these together. Uses the floors below: `kernel`, `asm`, `event`, `pmu`, `error`, `names`,
// `page`.

mod attempt;
pub(crate) mod builder;
pub(crate) mod cost;
mod events;
mod group;
mod mapping;
mod options;

pub(crate) use events::READ_WORDS;
pub(crate) use group::{OpenGroup, open, open_on};
pub(crate) use mapping::{setting_that_forbids, why_not_mapped};
pub(crate) use options::Options;
