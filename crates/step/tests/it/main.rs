//! The tests of the public interface. Two cannot count at the same time, so they take turns.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64"))]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used)]

mod exact;
#[cfg(feature = "functions")]
mod functions;
mod hostile;
mod refusals;

fn in_turn(test: impl FnOnce()) {
    let _turn = rdpmc_testing::turn::turn();
    test();
}
