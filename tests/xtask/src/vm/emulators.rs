//! Running emulators: the console, the time limit, and what is left of a machine that did not finish.

use super::Task;
use super::machines::Machine;
use super::results::Console;
use crate::commands::{machines_directory, program};
use crate::lock::Lock;
use std::env;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

/// Boots the machine and copies its console to `output`, without the guest's status and the kernel's last line. Returns the
/// guest's status. Fails if other scenarios were skipped than the target lists.
pub(super) fn boot(
    machine: &Machine,
    task: &Task,
    lock: &Lock,
    output: &mut dyn Write,
) -> Result<u8, String> {
    let name = &machine.name;
    let log = machines_directory().join(format!("{name}.{}.log", task.name()));
    // In seconds. A slow machine needs less, and a guest that hangs is stopped.
    let time_limit = env::var("RDPMC_VM_TIME_LIMIT").unwrap_or_default();
    let time_limit = if time_limit.is_empty() { "1200" } else { &time_limit };
    // The emulator ends when the thread that starts it ends, even by a signal. Until then it holds the lock.
    let mut shell = program("sh");
    shell.args(["-c", r#"exec "$@" 3<&0 </dev/null 2>&1"#, "sh"]);
    shell.args(["setpriv", "--pdeathsig", "TERM"]);
    shell.args(["timeout", "--foreground", "-k", "10", time_limit]);
    shell.arg("chroot").arg(machines_directory().join("debian")).args(&machine.emulator);
    shell.args(["-nic", "none", "-m", "512", "-smp", &machine.processors.to_string()]);
    shell.args(["-icount", "shift=0", "-display", "none", "-serial", "stdio", "-monitor", "none"]);
    shell.arg("-no-reboot").arg("-kernel").arg(format!("/kernels/{}", machine.kernel));
    shell.arg("-initrd").arg(format!("/{name}.cpio"));
    shell.arg("-append").arg(kernel_command_line(machine, task));
    let mut emulator = shell
        .stdin(lock.input()?)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("sh: {error}"))?;
    let mut console = Console::default();
    if let Some(pipe) = emulator.stdout.take() {
        let copy = || copy(pipe, File::create(&log)?, output, &mut console);
        copy().map_err(|error| format!("{name}: the console cannot be copied: {error}"))?;
    }
    let status = emulator.wait().map_err(|error| format!("{name}: {error}"))?;
    let log = log.display();
    match status.code().or(status.signal().map(|signal| 128 + signal)) {
        Some(0) => {}
        Some(124) => {
            return Err(format!(
                "{name}: stopped after {time_limit} seconds: the guest hangs, or this machine is very slow"
            ));
        }
        code => {
            let code = code.map_or_else(|| "unknown".to_owned(), |code| code.to_string());
            return Err(format!(
                "{name}: the emulator failed, status {code}; its output is in {log}"
            ));
        }
    }
    let status = console
        .guest_status()
        .ok_or_else(|| format!("{name}: the guest did not finish; its output is in {log}"))?;
    console.check_skips(machine, task)?;
    Ok(status)
}

/// Returns the kernel's arguments, and after `--` those of the guest program, which is process 1.
fn kernel_command_line(machine: &Machine, task: &Task) -> String {
    let scenario = if let Task::Only(scenario) = task { scenario } else { "" };
    format!(
        "{} quiet panic=-1 -- {} {scenario} {} {}",
        machine.kernel_arguments,
        task.name(),
        machine.name,
        machine.facts.join(" ")
    )
}

fn copy(
    pipe: impl Read,
    mut log: File,
    output: &mut dyn Write,
    console: &mut Console,
) -> io::Result<()> {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    while pipe.read_until(b'\n', &mut line)? > 0 {
        let clean = clean(&line);
        log.write_all(&clean)?;
        if !is_hidden(&clean) {
            output.write_all(&clean)?;
            output.flush()?;
        }
        console.add(&clean);
        line.clear();
    }
    Ok(())
}

/// Returns a line without carriage returns and without lines of progress before it, which end with a command to the
/// terminal.
fn clean(line: &[u8]) -> Vec<u8> {
    const ERASE: &[u8] = b"\x1b[K";
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let last = line.windows(ERASE.len()).rposition(|part| part == ERASE);
    let shown = last.and_then(|start| line.get(start + ERASE.len()..)).unwrap_or(line);
    let mut clean: Vec<u8> = shown.iter().copied().filter(|byte| *byte != b'\r').collect();
    clean.push(b'\n');
    clean
}

fn is_hidden(line: &[u8]) -> bool {
    line.starts_with(b"guest status ") || line.ends_with(b"reboot: Power down\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_console_line_by_line() {
        let printed = b"one\r\nBenchmarking\x1b[KAnalyzing\r\x1b[Ktwo\xff\nguest status 3\n[ 1.0] reboot: Power down\r\nlast";
        let path = env::temp_dir().join(format!("xtask-{}.log", std::process::id()));
        let (mut output, mut console) = (Vec::new(), Console::default());
        copy(&printed[..], File::create(&path).unwrap(), &mut output, &mut console).unwrap();
        assert_eq!(output, b"one\ntwo\xff\nlast\n");
        let log = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(log, b"one\ntwo\xff\nguest status 3\n[ 1.0] reboot: Power down\nlast\n");
        assert_eq!(console.guest_status(), Some(3));
    }
}
