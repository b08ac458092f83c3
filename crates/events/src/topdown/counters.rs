//! The counters of one thread.

use super::error::TopdownError;
use super::formula::Formula;
use super::level1::Level1;
use rdpmc::error::ReadError;
use rdpmc::{DynGroup, PerEvent};

/// Counts where the pipeline slots of this thread's code go.
///
/// ```no_run
/// use rdpmc_events::topdown::Topdown;
///
/// let topdown = Topdown::open()?;
/// let before = topdown.read()?;
/// // the code
/// if let Some(level1) = topdown.since(&before)? {
///     println!("{level1}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Belongs to the thread that opened it. Counts user mode only. All events are in one group, so they count at the same time, and the
/// parts are right even if the kernel multiplexes the group.
#[derive(Debug)]
pub struct Topdown {
    group: DynGroup,
    formula: Formula,
}

impl Topdown {
    /// Opens the events of this CPU: of the core type that this thread may run on, if there are several types. The memory's part is
    /// left out if there are too few counters for it.
    ///
    /// # Errors
    /// As [`Formula::of_this_cpu`]. [`TopdownError::Open`] if the events cannot be counted together: no PMU, no permission, or too few
    /// counters.
    pub fn open() -> Result<Topdown, TopdownError> {
        let formula = Formula::of_this_cpu()?;
        if let Ok(group) = DynGroup::open(formula.events()) {
            return Ok(Topdown { group, formula });
        }
        let formula = formula.without_memory();
        Ok(Topdown { group: DynGroup::open(formula.events())?, formula })
    }

    /// Returns the events and formulas.
    pub fn formula(&self) -> &Formula {
        &self.formula
    }

    /// Returns the group of counters: how it is read, what a read costs.
    pub fn group(&self) -> &DynGroup {
        &self.group
    }

    /// Returns the counts, without a system call where user space can read them. One read takes about a hundred instructions.
    ///
    /// # Errors
    /// As [`DynGroup::read`].
    pub fn read(&self) -> Result<PerEvent<u64>, ReadError> {
        self.group.read()
    }

    /// Returns the parts of the slots since a read. None if there were none.
    ///
    /// Part of the two reads is in it: about a hundred instructions. For code of less than some microseconds, use `rdpmc-bench` with its
    /// feature `topdown`, which runs it many times.
    ///
    /// # Errors
    /// As [`read`](Topdown::read).
    pub fn since(&self, before: &PerEvent<u64>) -> Result<Option<Level1>, ReadError> {
        let now = self.read()?;
        Ok(self.between(before, &now))
    }

    /// Returns the parts of the slots between two reads. None if there were none, or if `after` was before.
    pub fn between(&self, before: &PerEvent<u64>, after: &PerEvent<u64>) -> Option<Level1> {
        let counts = after.iter().zip(before).map(|(after, before)| after.checked_sub(*before));
        self.formula.level1(&counts.collect::<Option<Vec<u64>>>()?)
    }
}
