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
        Lock::wait(path, &[], before_waiting)
    }

    /// Takes a shared lock: others may share it meanwhile, and nobody can take it.
    pub(crate) fn share(path: &Path, before_waiting: impl FnOnce()) -> Result<Lock, String> {
        Lock::wait(path, &["--shared"], before_waiting)
    }

    fn wait(path: &Path, how: &[&str], before_waiting: impl FnOnce()) -> Result<Lock, String> {
        let lock = Lock::open(path)?;
        if lock.flock(&[how, &["--nonblock", "0"]].concat())? {
            return Ok(lock);
        }
        before_waiting();
        if lock.flock(&[how, &["0"]].concat())? {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::{env, fs, process};

    #[test]
    fn a_lock_is_for_one_or_shared() {
        let path = env::temp_dir().join(format!("rdpmc-lock-{}", process::id()));
        let at_once = || panic!("it waits");
        let one = Lock::share(&path, at_once).unwrap();
        let other = Lock::share(&path, at_once).unwrap();
        assert!(Lock::try_take(&path).unwrap().is_none());
        drop(one);
        assert!(Lock::try_take(&path).unwrap().is_none());
        drop(other);
        let alone = Lock::take(&path, || {}).unwrap();
        assert!(Lock::try_take(&path).unwrap().is_none());
        drop(alone);
        fs::remove_file(&path).unwrap();
    }
}
