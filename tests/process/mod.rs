//! What a test does to a process of its own: fork it, drop its rights, filter its system calls. The guest program of
//! the emulated machines uses this, too.
#![allow(dead_code, unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

pub mod supervised;

use std::fmt::Display;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;

/// Runs `body` in a forked child and returns its result. A child that dies is a failure.
pub fn in_child<E: Display>(body: impl FnOnce() -> Result<(), E>) -> Result<(), String> {
    let (mut reader, mut writer) = UnixStream::pair().expect("a pair of sockets");
    let child = fork(|| {
        let said = match body() {
            Ok(()) => "ok".into(),
            Err(why) => format!("in the child: {why}"),
        };
        let _ = writer.write_all(said.as_bytes());
        0
    });
    drop(writer);
    let mut said = String::new();
    reader.read_to_string(&mut said).expect("the child writes text");
    match (said.as_str(), wait(child)) {
        ("ok", 0) => Ok(()),
        ("ok" | "", status) => Err(format!("the child ended with wait status {status:#x}")),
        _ => Err(said),
    }
}

/// Runs `body` in a forked child, which exits with the status that `body` returns, or with 101 if it panics.
pub fn fork(body: impl FnOnce() -> i32) -> libc::pid_t {
    // SAFETY: the child runs this thread only. It allocates, which the C library allows after a
    // fork, and takes no lock that another thread may have held.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", io::Error::last_os_error());
    if child == 0 {
        // A child that hangs or is stopped ends with its parent.
        // SAFETY: prctl takes numbers here.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        // SAFETY: _exit ends the process at once, and leaves alone what it shares with its parent.
        unsafe { libc::_exit(result.unwrap_or(101)) };
    }
    child
}

/// Waits for a child and returns its wait status.
pub fn wait(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: `status` is valid for the write.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

/// Becomes a user without rights. Returns false if this process may not do even that.
pub fn drop_rights() -> bool {
    const NOBODY: libc::uid_t = 65534;
    // SAFETY: the calls take numbers. The C library changes every thread.
    unsafe { libc::geteuid() != 0 || libc::setresuid(NOBODY, NOBODY, NOBODY) == 0 }
}

/// Returns CLOCK_MONOTONIC_RAW, by system call, which works whatever a thread has forbidden itself.
pub fn monotonic_raw() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the write.
    let result =
        unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC_RAW, &raw mut time) };
    assert_eq!(result, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Limits a resource of this process, permanently.
pub fn limit(resource: i32, to: u64) {
    let limit = libc::rlimit { rlim_cur: to, rlim_max: to };
    // SAFETY: `limit` is valid for the read.
    assert_eq!(unsafe { libc::setrlimit(resource as _, &limit) }, 0);
}

/// From now on, this process is killed for any system call but `call`.
pub fn allow_only(call: libc::c_long) {
    filter(call, libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_KILL_PROCESS);
}

/// From now on, `call` fails with `errno`.
pub fn refuse(call: libc::c_long, errno: i32) {
    filter(call, libc::SECCOMP_RET_ERRNO | errno as u32, libc::SECCOMP_RET_ALLOW);
}

/// From now on, this process is killed for `perf_event_open`, unless it opens an event of the calling thread, on any
/// CPU, without a group, with close-on-exec.
pub fn allow_events_of_this_thread_only() {
    /// The offset of the low half of an argument in `seccomp_data`. The calls take arguments as `int`, except for the
    /// flags, which have no bit above that.
    const fn argument(n: u32) -> u32 {
        16 + 8 * n
    }
    const MINUS_1: u32 = u32::MAX;
    const FD_CLOEXEC: u32 = 8;
    install(&mut [
        load(NUMBER),
        skip_unless(libc::SYS_perf_event_open as u32, 9),
        load(argument(1)),
        skip_unless(0, 6),
        load(argument(2)),
        skip_unless(MINUS_1, 4),
        load(argument(3)),
        skip_unless(MINUS_1, 2),
        load(argument(4)),
        skip_if(FD_CLOEXEC, 1),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
        answer(libc::SECCOMP_RET_ALLOW),
    ]);
}

/// Installs a filter with one action for `call`, and another for all other calls.
fn filter(call: libc::c_long, action: u32, otherwise: u32) {
    install(&mut [load(NUMBER), skip_unless(call as u32, 1), answer(action), answer(otherwise)]);
}

/// The offset of the system call's number in `seccomp_data`.
const NUMBER: u32 = 0;

fn statement(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

fn load(place: u32) -> libc::sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, place, 0, 0)
}

fn skip_unless(value: u32, statements: u8) -> libc::sock_filter {
    statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, 0, statements)
}

fn skip_if(value: u32, statements: u8) -> libc::sock_filter {
    statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, statements, 0)
}

fn answer(action: u32) -> libc::sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, action, 0, 0)
}

/// Installs a seccomp filter.
fn install(program: &mut [libc::sock_filter]) {
    install_with(program, 0).unwrap();
}

/// Installs a seccomp filter with `flags`, and returns the kernel's result.
fn install_with(program: &mut [libc::sock_filter], flags: libc::c_ulong) -> io::Result<i32> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program and its statements live through the calls, which copy them.
    let result = unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_u64, 0_u64, 0_u64, 0_u64), 0);
        let set_filter = libc::SECCOMP_SET_MODE_FILTER as libc::c_ulong;
        libc::syscall(libc::SYS_seccomp, set_filter, flags, &raw const program)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// Returns this process's descriptors of events, lowest first. That is oldest first as long as none was closed.
pub fn perf_descriptors() -> Vec<RawFd> {
    let is_event = |link: &std::path::Path| link.as_os_str() == "anon_inode:[perf_event]";
    let mut found: Vec<RawFd> = fs::read_dir("/proc/self/fd")
        .expect("/proc is mounted")
        .flatten()
        .filter(|entry| fs::read_link(entry.path()).is_ok_and(|link| is_event(&link)))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    found.sort_unstable();
    found
}

/// Returns the number of mappings of events in this process.
pub fn perf_mappings() -> usize {
    let maps = fs::read_to_string("/proc/self/maps").expect("/proc is mounted");
    maps.lines().filter(|line| line.ends_with("anon_inode:[perf_event]")).count()
}

/// Closes all descriptors but the standard ones, as daemons and sandboxes do.
pub fn close_all() {
    // SAFETY: the call takes integers. The caller expects to lose its descriptors.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    if closed != 0 {
        (3..1024).for_each(|number| {
            // SAFETY: as above. Linux before 5.9 has no close_range.
            unsafe { libc::close(number) };
        });
    }
}
