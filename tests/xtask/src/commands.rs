//! Other programs, and the directories in which they run.

use std::env;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    // Cargo does not build anew in a copy of the repository, so its path when this was built may be another one.
    let here =
        env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let here = PathBuf::from(here);
    here.ancestors().nth(2).unwrap_or(&here).to_owned()
}

/// Makes the root of the repository the working directory, so that paths in commands and messages are relative to it.
pub(crate) fn enter_root() -> Result<(), String> {
    env::set_current_dir(root()).map_err(|error| format!("{}: {error}", root().display()))
}

/// The directory with the emulated machines, their locks and their logs.
pub(crate) fn machines_directory() -> PathBuf {
    match env::var_os("RDPMC_VM_DIR") {
        Some(directory) if !directory.is_empty() => root().join(directory),
        _ => root().join("target/vm"),
    }
}

/// A program without the variables that `cargo run` set for this one.
pub(crate) fn program(name: impl AsRef<Path>) -> Command {
    let mut command = Command::new(name.as_ref());
    for (variable, _) in env::vars_os() {
        let is_cargos = variable.to_str().is_some_and(|variable| {
            let ours = ["CARGO", "CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "LD_LIBRARY_PATH"];
            ours.contains(&variable) || variable.starts_with("CARGO_PKG_")
        });
        if is_cargos {
            command.env_remove(variable);
        }
    }
    command
}

/// A script in `tests/vm`.
pub(crate) fn script(name: &str) -> Command {
    let mut command = program(root().join("tests/vm").join(name));
    command.env("RDPMC_VM_DIR", machines_directory());
    command
}

/// A program of the Debian that `tests/vm/prepare` makes.
pub(crate) fn in_debian(name: &str) -> Command {
    let mut command = program("chroot");
    command.arg(machines_directory().join("debian")).arg(name);
    command
}

pub(crate) fn status(command: &mut Command) -> Result<ExitStatus, String> {
    command.status().map_err(|error| unstarted(command, &error))
}

/// Runs a program that has to succeed. Its own messages say why it does not.
pub(crate) fn succeed(command: &mut Command, failure: &str) -> Result<(), String> {
    if status(command)?.success() { Ok(()) } else { Err(failure.to_owned()) }
}

/// Returns the output of a program that has to succeed.
pub(crate) fn text(command: &mut Command) -> Result<String, String> {
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|error| unstarted(command, &error))?;
    if !output.status.success() {
        let name = Path::new(command.get_program()).display();
        let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        return Err(format!("{name} {} failed: {}", arguments.join(" "), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the lines of `diff` between a file and what it should contain. They are empty if it does.
pub(crate) fn difference(file: &Path, wanted: &str) -> Result<String, String> {
    let mut diff = program("diff");
    diff.arg(file).arg("-").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = diff.spawn().map_err(|error| unstarted(&diff, &error))?;
    // `diff` reads all of its input before it writes.
    if let Some(mut input) = child.stdin.take() {
        input.write_all(wanted.as_bytes()).map_err(|error| format!("diff: {error}"))?;
    }
    let output = child.wait_with_output().map_err(|error| format!("diff: {error}"))?;
    match output.status.code() {
        Some(0 | 1) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        _ => Err(format!("{} cannot be compared", file.display())),
    }
}

fn unstarted(command: &Command, error: &std::io::Error) -> String {
    format!("{}: {error}", Path::new(command.get_program()).display())
}
