//! Opens events: from an event to its descriptor, its control page and a reader.

// Floor 5. `options` has the settings, `attempt` opens one event, `events` opens a group, `checks` finds out whether it
// counts, `mapping` maps the control pages, `mock` has events that a test plays, and `group` puts these together. Uses the
// floors below: `kernel`, `asm`, `event`, `pmu`, `error`, `names`, `page`.

mod attempt;
pub(crate) mod builder;
mod checks;
mod events;
mod group;
mod mapping;
mod mock;
mod options;

pub(crate) use checks::is_virtual;
pub(crate) use events::{Counts, Opened, open_events};
pub(crate) use group::{OpenGroup, by_either_name, open, open_as_is, open_on, open_unmapped};
pub(crate) use mapping::{setting_that_forbids, why_not_mapped};
pub(crate) use mock::Answers;
pub use mock::Mock;
pub(crate) use options::Options;
pub use options::ReadBy;
