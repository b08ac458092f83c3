//! System calls of a child that this process answers in the kernel's place: refused, delayed, or let through
//! (seccomp's user notification, Linux 5.5).

use super::{answer, fork, install_with, load, skip_unless, statement};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A system call that waits for its answer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Call {
    id: u64,
    /// The process or thread that makes the call.
    pub process: u32,
    flags: u32,
    /// `SYS_...`.
    pub number: i32,
    architecture: u32,
    instruction_pointer: u64,
    pub arguments: [u64; 6],
}

#[repr(C)]
struct Reply {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// The answer to a call.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// The kernel handles the call.
    Pass,
    /// The call fails with this error number.
    Refuse(i32),
    /// The kernel handles the call after this time.
    Delay(Duration),
    /// The call does nothing and returns this value.
    Return(i64),
}

/// Whether answers are requested now, by a child and its children: shared memory.
pub struct Switch(*const AtomicBool);

impl Switch {
    fn new() -> Switch {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: the mapping is new and zeroed.
        let page = unsafe { libc::mmap(ptr::null_mut(), 4096, access, kind, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED);
        Switch(page.cast())
    }

    pub fn set(&self, on: bool) {
        self.on().store(on, SeqCst);
    }

    /// Returns whether an answer was requested since this was switched on.
    pub fn was_asked(&self) -> bool {
        self.asked().load(SeqCst)
    }

    fn on(&self) -> &AtomicBool {
        // SAFETY: the page is mapped while this lives, and used only as atomics.
        unsafe { &*self.0 }
    }

    fn asked(&self) -> &AtomicBool {
        // SAFETY: the page is mapped while this lives, and used only as atomics.
        unsafe { &*self.0.add(1) }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // SAFETY: `new` mapped the page, and it is not used after this.
        unsafe { libc::munmap(self.0.cast_mut().cast(), 4096) };
    }
}

/// Runs `body` in a child, and returns its wait status. While `body` has the switch on, this process answers each of
/// these system calls of the child and its children. None if this kernel or sandbox does not permit it.
pub fn supervised(
    calls: &[libc::c_long],
    mut what: impl FnMut(&Call) -> Answer,
    body: impl FnOnce(&Switch) -> i32,
) -> Option<i32> {
    const NO_LISTENER: i32 = 120;
    let switch = Switch::new();
    let (child_end, our_end) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
    let child = fork(|| {
        let Ok(listener) = listen(calls) else { return NO_LISTENER };
        let number = listener.to_ne_bytes();
        assert_eq!(
            // SAFETY: the pointer and the length are those of `number`.
            unsafe { libc::write(child_end.as_raw_fd(), number.as_ptr().cast(), number.len()) },
            number.len() as isize
        );
        // The parent confirms that it has the descriptor.
        let mut said = 0u8;
        // SAFETY: `said` is valid for the write of a byte.
        unsafe { libc::recv(child_end.as_raw_fd(), (&raw mut said).cast(), 1, 0) };
        // SAFETY: nothing else uses this descriptor here.
        unsafe { libc::close(listener) };
        body(&switch)
    });
    drop(child_end);
    let mut number = [0; 4];
    let listener = match io::Read::read_exact(&mut &our_end, &mut number) {
        Ok(()) => take(child, i32::from_ne_bytes(number)),
        Err(_) => None,
    };
    let Some(listener) = listener else {
        // SAFETY: kill takes numbers. The child has no process to answer its calls.
        unsafe { libc::kill(child, libc::SIGKILL) };
        super::wait(child);
        return None;
    };
    io::Write::write_all(&mut &our_end, &[1]).expect("the child waits");
    let mut delayed: Vec<(Instant, u64)> = Vec::new();
    loop {
        let mut poll = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` is valid for the read and the write.
        unsafe { libc::poll(&mut poll, 1, if delayed.is_empty() { 50 } else { 1 }) };
        delayed.retain(|(until, id)| {
            let is_over = Instant::now() >= *until;
            if is_over {
                reply(&listener, *id, Answer::Pass);
            }
            !is_over
        });
        if poll.revents & libc::POLLIN != 0 {
            let mut call = Call::default();
            // SAFETY: `call` is valid for the write of its size, which the request encodes.
            if unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE as _, &raw mut call) } == 0 {
                let answer = if switch.on().load(SeqCst) {
                    switch.asked().store(true, SeqCst);
                    what(&call)
                } else {
                    Answer::Pass
                };
                match answer {
                    Answer::Delay(time) => delayed.push((Instant::now() + time, call.id)),
                    answer => reply(&listener, call.id, answer),
                }
            }
            continue;
        }
        let mut status = 0;
        // SAFETY: `status` is valid for the write.
        if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
            let is_none = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == NO_LISTENER;
            return (!is_none).then_some(status);
        }
    }
}

const RECEIVE: u64 = 0xc000_2100 | (size_of::<Call>() as u64) << 16;
const SEND: u64 = 0xc000_2101 | (size_of::<Reply>() as u64) << 16;

fn reply(listener: &OwnedFd, id: u64, answer: Answer) {
    const CONTINUE: u32 = 1;
    let (value, error, flags) = match answer {
        Answer::Pass | Answer::Delay(_) => (0, 0, CONTINUE),
        Answer::Refuse(errno) => (0, -errno, 0),
        Answer::Return(value) => (value, 0, 0),
    };
    let mut reply = Reply { id, value, error, flags };
    // It fails if the caller is gone.
    // SAFETY: `reply` is valid for the read of its size, which the request encodes.
    unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, &raw mut reply) };
}

/// Installs the filter, and returns the descriptor that receives the calls.
fn listen(calls: &[libc::c_long]) -> io::Result<i32> {
    const NEW_LISTENER: libc::c_ulong = 1 << 3;
    let mut program = vec![load(super::NUMBER)];
    for call in calls {
        program.push(skip_unless(*call as u32, 1));
        program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_USER_NOTIF, 0, 0));
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    install_with(&mut program, NEW_LISTENER)
}

/// Returns a copy of a descriptor of the child.
fn take(child: libc::pid_t, descriptor: i32) -> Option<OwnedFd> {
    // SAFETY: the calls take numbers, and the descriptors that they return are new.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, child, 0);
        if process < 0 {
            return None;
        }
        let process = OwnedFd::from_raw_fd(process as i32);
        let taken = libc::syscall(
            libc::SYS_pidfd_getfd,
            process.as_raw_fd(),
            descriptor,
            0 as libc::c_ulong,
        );
        (taken >= 0).then(|| OwnedFd::from_raw_fd(taken as i32))
    }
}
