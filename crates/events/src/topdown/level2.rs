//! The second level: what each part of the first one is made of.

use super::level1::{Level1, Part, percent};
use std::fmt;

/// The second level of the top-down method: of each part of the first level one of its two halves. The other half is the rest.
///
/// | part | its half here | the rest |
/// |---|---|---|
/// | retiring | heavy operations | light operations |
/// | bad speculation | branch mispredicts | machine clears |
/// | frontend bound | fetch latency | fetch bandwidth |
/// | backend bound | memory bound | core bound |
///
/// `Display` writes percents: `retiring 41 % (heavy operations 2 %), bad speculation 3 % (branch mispredicts 3 %), ...`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Level2 {
    /// The first level. Its `memory_bound` is that below.
    pub level1: Level1,
    /// Retired operations of instructions that take several: on Intel all but the last of each (`uops_retired.heavy`), on AMD those of
    /// microcode.
    pub heavy_operations: Part,
    /// Bad speculation by mispredicted branches.
    pub branch_mispredicts: Part,
    /// The slots of cycles in which the front end delivered nothing.
    pub fetch_latency: Part,
    /// The part of `backend_bound` that waited for memory.
    pub memory_bound: Part,
}

impl Level2 {
    /// Returns why the counts disagree: as [`Level1::disagreement`], or because a half is more than its part, or below 0.
    pub fn disagreement(&self) -> Option<String> {
        let Level2 { level1, heavy_operations, branch_mispredicts, fetch_latency, .. } = self;
        let halves = [
            ("heavy operations", heavy_operations, "retiring", level1.retiring),
            ("branch mispredicts", branch_mispredicts, "bad speculation", level1.bad_speculation),
            ("fetch latency", fetch_latency, "frontend bound", level1.frontend_bound),
        ];
        level1.disagreement().or_else(|| {
            halves.iter().find_map(|(name, half, of, part)| level1.is_no_part(name, half, of, part))
        })
    }
}

impl fmt::Display for Level2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let halves = [
            ("heavy operations", self.heavy_operations),
            ("branch mispredicts", self.branch_mispredicts),
            ("fetch latency", self.fetch_latency),
            ("memory bound", self.memory_bound),
        ];
        for (place, ((category, part), (name, half))) in
            self.level1.parts().into_iter().zip(halves).enumerate()
        {
            let comma = if place == 0 { "" } else { ", " };
            let (whole, half) = (percent(part.fraction), percent(half.fraction));
            write!(f, "{comma}{category} {whole} ({name} {half})")?;
        }
        match self.level1.rest_is() {
            Some(what) => write!(f, ", {what} {}", percent(self.level1.rest)),
            None => Ok(()),
        }
    }
}
