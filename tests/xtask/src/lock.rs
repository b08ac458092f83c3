//! Locks between runs, also with the scripts that take them with `flock`.

use crate::commands;
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::Stdio;

/// A lock, held until the value and all its inputs are gone.
pub(crate) struct Lock(File);

impl Lock {
    /// Takes the lock, None if another run holds it.
    pub(crate) fn try_take(path: &Path) -> Result<Option<Lock>, String> {
        let lock = Lock::open(path)?;
        Ok(lock.flock(&["--nonblock", "0"])?.then_some(lock))
    }

    /// Takes the lock, and calls `before_waiting` if another run holds it.
    pub(crate) fn take(path: &Path, before_waiting: impl FnOnce()) -> Result<Lock, String> {
        if let Some(lock) = Lock::try_take(path)? {
            return Ok(lock);
        }
        before_waiting();
        let lock = Lock::open(path)?;
        if lock.flock(&["0"])? {
            Ok(lock)
        } else {
            Err(format!("{} cannot be locked", path.display()))
        }
    }

    fn open(path: &Path) -> Result<Lock, String> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path);
        file.map(Lock).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Runs flock, which ends if this program does. `File::lock` is newer than the oldest supported Rust.
    fn flock(&self, arguments: &[&str]) -> Result<bool, String> {
        let mut flock = commands::program("setpriv");
        flock.args(["--pdeathsig", "TERM", "flock"]).args(arguments).stdin(self.input()?);
        Ok(commands::status(&mut flock)?.success())
    }

    /// Returns the lock as the standard input of another program, which then holds it too. If this program is killed,
    /// the next run waits until the other one has ended.
    pub(crate) fn input(&self) -> Result<Stdio, String> {
        let file = self.0.try_clone().map_err(|error| format!("a lock: {error}"))?;
        Ok(Stdio::from(file))
    }
}
