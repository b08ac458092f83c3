//! Floor 6: the handles, [`Counter`] and [`Group`], and what they return. Uses all floors below: `open`, `region`,
//! `page`, `names`, `error`, `pmu`, `event`, `asm`, `kernel`.

mod available;
#[allow(clippy::module_inception)]
mod counter;
mod dyn_group;
mod group;
pub(crate) mod reading;
mod sum;

pub use available::AvailableGroup;
pub use counter::Counter;
pub use dyn_group::{DynGroup, PerEvent};
pub use group::Group;
pub use reading::Reading;
