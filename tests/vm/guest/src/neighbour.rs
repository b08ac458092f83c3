//! Somebody else who wants the processor.

use crate::kernels::countdown;
use std::hint::black_box;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A process that sleeps and works in turn, a moment each.
pub struct Neighbour(Child);

impl Neighbour {
    pub fn start() -> Neighbour {
        let program = Command::new("/init").arg("neighbour").stdout(Stdio::null()).spawn();
        Neighbour(program.expect("this very program starts"))
    }

    /// What it does, until it is killed.
    pub fn work() -> ! {
        // It goes with its parent, whatever ends that.
        // SAFETY: takes numbers.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) };
        loop {
            std::thread::sleep(Duration::from_micros(200));
            countdown(black_box(10_000));
        }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
