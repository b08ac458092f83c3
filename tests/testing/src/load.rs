//! Other programs that compute without end.

use std::hint::black_box;
use std::process::{Child, Command, Stdio};
use std::{env, io};

/// The variable of the processes that compute.
const VARIABLE: &str = "RDPMC_BENCHES_LOAD";

/// Whether this process was started to compute.
pub fn is_child() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Computes until the process is killed.
pub fn compute() -> ! {
    let mut number = 3_u64;
    loop {
        number = black_box(number.wrapping_mul(number | 1));
    }
}

/// Processes that compute, until this is dropped.
pub struct Load(Vec<Child>);

impl Load {
    /// Starts this program `count` times. Its `main` has to call [`compute`] if it [is a child](is_child).
    pub fn start(count: usize) -> io::Result<Load> {
        let mut load = Load(Vec::new());
        for _ in 0..count {
            let mut command = Command::new(env::current_exe()?);
            load.0.push(command.env(VARIABLE, "1").stdout(Stdio::null()).spawn()?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
