//! Opens events: from an event to its descriptor, its control page and a view.

// Floor 6. `options` has the settings, `attempt` opens one event, `refusal` says why not, `events` the events of a group, `checks` finds out whether they
// count, `mapping` maps their control pages, and `opening` puts these together to a `group`. `cost` measures reads. Uses the
// floors below: `kernel`, `asm`, `event`, `pmu`, `error`, `names`, `page`.

mod attempt;
pub(crate) mod builder;
mod checks;
pub(crate) mod cost;
mod events;
mod group;
mod mapping;
mod opening;
mod options;
mod refusal;

#[cfg(test)]
pub(crate) use events::group_too_large;
pub(crate) use events::{Counts, Opened, open_events};
pub(crate) use group::{OpenGroup, why_no_region};
pub(crate) use mapping::why_not_mapped;
pub(crate) use opening::{by_either_name, open, open_unmapped};
pub(crate) use options::Options;
pub use options::ReadBy;
#[cfg(test)]
pub(crate) use refusal::{denied, denied_by_filter};
