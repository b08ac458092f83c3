//! The processes of the programs, and the sockets by which they connect.

use super::turns::Connection;
use crate::running::leader::{self, GO, Lines, PROCESS, VARIABLE, VERSION};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The exit statuses of a gate, besides 0: see [`Status`](rdpmc_report::gate::Status).
const REGRESSED: i32 = 1;
const INCOMPLETE: i32 = 3;

/// A process of a program.
#[derive(Debug)]
pub(super) struct Running {
    name: String,
    child: Child,
    /// For the first process that connects, with its path. None after that.
    first: Option<(UnixListener, PathBuf)>,
    /// For the process that was started, and for further runs of the first one that connected.
    own: UnixListener,
    /// The process that connected.
    process: Option<u64>,
    /// How often it has connected.
    runs: u32,
    /// None while it runs.
    status: Option<i32>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nobody else would end it. Usually it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts a program, which connects by the socket of this path.
    pub(super) fn start(
        path: &Path,
        arguments: &[OsString],
        socket: PathBuf,
    ) -> Result<Running, String> {
        let listen = |path: &Path| {
            let listener = UnixListener::bind(path)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let why = |why: io::Error| format!("{}: {why}", socket.display());
        let first = listen(&socket).map_err(why)?;
        let own = listen(&leader::own_socket(&socket)).map_err(why)?;
        // Not from PATH.
        let is_name = path.parent() == Some(Path::new(""));
        let mut command =
            Command::new(if is_name { Path::new(".").join(path) } else { path.into() });
        command.args(arguments).env(VARIABLE, &socket).env(PROCESS, std::process::id().to_string());
        // Discards its tables. Its errors stay visible.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command
            .spawn()
            .map_err(|why| format!("{} cannot be started: {why}", path.display()))?;
        let first = Some((first, socket));
        let name = path.display().to_string();
        Ok(Running { name, child, first, own, process: None, runs: 0, status: None })
    }

    /// Waits until the process measures rows. None if it has ended.
    pub(super) fn connect(&mut self) -> Result<Option<Connection>, String> {
        loop {
            // It may connect just before it ends.
            let status = self.child.try_wait().map_err(|why| format!("{}: {why}", self.name))?;
            if let Some(stream) = self.accept().map_err(|why| format!("{}: {why}", self.name))? {
                let connection = self.hello(Lines::new(stream))?;
                self.runs += 1;
                return Ok(Some(connection));
            }
            if let Some(status) = status {
                return self.end(status).map(|()| None);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn accept(&self) -> io::Result<Option<UnixStream>> {
        let first = self.first.as_ref().map(|(listener, _)| listener);
        for listener in [Some(&self.own), first].into_iter().flatten() {
            match listener.accept() {
                Ok((stream, _)) => return stream.set_nonblocking(false).map(|()| Some(stream)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn end(&mut self, status: ExitStatus) -> Result<(), String> {
        let name = &self.name;
        match status.code() {
            _ if self.runs == 0 => Err(format!(
                "{name} measured nothing, and ended with {status}. It must call `Bench::run` of rdpmc-bench {}",
                env!("CARGO_PKG_VERSION")
            )),
            Some(code @ (0 | INCOMPLETE | REGRESSED)) => {
                self.status = Some(code);
                Ok(())
            }
            _ => Err(format!("{name} ended with {status} after some of its rows were measured")),
        }
    }

    /// Returns why this process may have ended before it measured all rows. `other` is that of the other program.
    ///
    /// The statuses of a gate in the program do not matter. But 1 is also that of an error, which may come before other
    /// rows. It did not if the other program came to its end with as many runs.
    pub(super) fn obstacle(&self, other: &Running) -> Option<String> {
        let status = self.status.filter(|status| *status != 0)?;
        let are_errors = [self, other].iter().all(|it| it.status == Some(REGRESSED));
        (are_errors || self.runs != other.runs).then(|| {
            let name = &self.name;
            format!(
                "{name} ended with status {status}. Rows that it did not reach are not compared"
            )
        })
    }

    fn hello(&mut self, mut lines: Lines) -> Result<Connection, String> {
        let program = self.name.clone();
        let line = lines.read().unwrap_or_default();
        let json: Value = serde_json::from_str(&line).unwrap_or_default();
        if json.get("version").and_then(Value::as_u64) != Some(VERSION) {
            return Err(format!(
                "{program} has another version of rdpmc-bench than this command. Build both programs with {}",
                env!("CARGO_PKG_VERSION")
            ));
        }
        let process = json.get("process").and_then(Value::as_u64);
        if self.runs > 0 && self.process != process {
            return Err(format!(
                "{program} and another program that it starts both measure. \
                 Remove {VARIABLE} from the environment of the other one"
            ));
        }
        self.process = process;
        // Before the program goes on: what it starts must not connect.
        if let Some((_, path)) = self.first.take() {
            std::fs::remove_file(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        }
        let ended = || format!("{program} ended before its rows were measured");
        lines.write(GO).ok_or_else(ended)?;
        Ok(Connection::new(program, lines, &json))
    }
}

/// A directory of this process, with the sockets.
pub(super) struct Directory(pub(super) PathBuf);

impl Directory {
    pub(super) fn new() -> io::Result<Directory> {
        let mut number = 0;
        loop {
            let name = format!("rdpmc-bench-{}-{number}", std::process::id());
            let of_user = std::path::absolute(std::env::temp_dir())?;
            // The path of a socket has less than 108 bytes.
            let is_short = of_user.as_os_str().len() < 64;
            let path = if is_short { of_user.join(name) } else { Path::new("/tmp").join(name) };
            // For this user alone: who connects decides what is measured.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Directory(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1_000 => {}
                Err(error) => return Err(error),
            }
            number += 1;
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
