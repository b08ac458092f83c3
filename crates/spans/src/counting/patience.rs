//! How long a reader waits for threads.

use crate::counting::sleep;
use std::time::{Duration, Instant};

/// The time that is left to wait for other threads, in steps that grow: on a machine whose CPUs are all in use, a sleep takes
/// much longer than it is to take.
pub(crate) struct Patience {
    left: Duration,
    step: Duration,
}

impl Patience {
    pub(crate) const fn new(left: Duration) -> Patience {
        Patience { left, step: Duration::from_micros(50) }
    }

    /// Returns one that waits for nothing.
    pub(crate) const fn none() -> Patience {
        Patience::new(Duration::ZERO)
    }

    /// Waits a step. Returns false at once if no time is left.
    pub(crate) fn wait(&mut self) -> bool {
        const MAX_STEP: Duration = Duration::from_millis(5);
        if self.left.is_zero() {
            return false;
        }
        let step = self.step.min(self.left);
        let begun = Instant::now();
        sleep(step);
        // A signal ends it early.
        self.left = self.left.saturating_sub(step.min(begun.elapsed()));
        self.step = step.saturating_mul(2).min(MAX_STEP);
        true
    }
}
