//! Another process that competes for the CPU.

use rdpmc_testing::kernels::countdown;
use std::hint::black_box;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A process that alternates between short sleep and short work.
pub struct Neighbour(Child);

impl Neighbour {
    pub fn start() -> Neighbour {
        let program = Command::new("/init").arg("neighbour").stdout(Stdio::null()).spawn();
        Neighbour(program.expect("this very program starts"))
    }

    /// Sleeps and works until it is killed.
    pub fn work() -> ! {
        // It ends with its parent, however that ends.
        // SAFETY: prctl takes numbers here.
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
