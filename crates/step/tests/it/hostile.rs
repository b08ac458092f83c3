//! What code may do while it is counted: an error or the right count, and no harm to the process.

use crate::in_turn;
use rdpmc_step::{StepError, count};
use rdpmc_testing::hostile::{KINDS, attempt};

#[test]
fn hostile_code() {
    in_turn(|| {
        let by_trap_flag = |limit, code: &mut dyn FnMut()| match count(limit, code) {
            Ok(count) => Ok(Some(count)),
            Err(StepError::Disturbed) => Ok(None),
            Err(why) => Err(why.to_string()),
        };
        let failed: Vec<String> = KINDS
            .iter()
            .filter_map(|kind| {
                attempt(*kind, &[("by the trap flag", &by_trap_flag, |kind| kind.by_trap_flag)])
                    .err()
            })
            .collect();
        assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), KINDS.len(), failed.join("\n"));
    });
}
