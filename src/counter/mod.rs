//! Floor 7: the handles, [`Counter`] and [`Group`], and what they return. Uses all floors below: `open`, `region`,
//! `page`, `names`, `error`, `pmu`, `event`, `asm`, `kernel`.

#[allow(clippy::module_inception)]
mod counter;
mod dyn_group;
mod fit;
mod group;
mod mock;
mod own_thread;
mod per_event;
pub(crate) mod reading;
mod spec_lock_map;
mod sum;

pub use counter::Counter;
pub use dyn_group::{DynGroup, WithGroup};
pub use fit::Fit;
pub use group::Group;
pub use mock::Mock;
pub use per_event::PerEvent;
pub use reading::Reading;
pub use spec_lock_map::spec_lock_map;
