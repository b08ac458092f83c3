//! What code may do while its instructions are counted by single-stepping, each kind in a process of its own.
//!
//! A kind runs without a count, and then within counts by each method. The process ends as it did without a count, and its state is the
//! same. A count is an error or right: the same each time, and by each method.
#![allow(unsafe_code)]

use crate::process::{fork, wait};

use std::ffi::{c_int, c_long, c_void};
use std::fs::read_dir;
use std::hint::black_box;
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU64, Ordering::SeqCst};

/// Counts the instructions of code, up to a limit. None if the code cannot be stepped to its end.
pub type Method<'a> = &'a dyn Fn(u64, &mut dyn FnMut()) -> Result<Option<u64>, String>;

/// What a method does about a kind that does not end the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    Counted,
    Refused,
    /// Now this, now that.
    Either,
    /// As above, and the instructions depend on what other threads do.
    Varies,
}

/// A kind of code.
#[derive(Clone, Copy)]
pub struct Kind {
    pub name: &'static str,
    /// Runs once, before the code.
    before: fn(),
    code: fn(),
    pub by_trap_flag: Expected,
    pub by_tracer: Expected,
    /// Whether each count takes all steps for which there is time: minutes in an emulated machine.
    pub is_long: bool,
}

/// A method's name, the method, and what it does about a kind.
pub type Stepper<'a> = (&'a str, Method<'a>, fn(&Kind) -> Expected);

/// How often each count runs the code.
const RUNS: [u64; 5] = [1, 2, 4, 2, 4];
/// More than each kind has, but for a panic on some machines. Then it runs on at full speed.
const LIMIT: u64 = 50_000;
/// In place of a count.
const REFUSED: i64 = -1;
const FAILED: i64 = -2;

/// What a child leaves.
#[derive(Debug)]
struct Left {
    counts: [AtomicI64; RUNS.len()],
    runs: AtomicU64,
    state: [AtomicU64; STATE.len()],
}

/// The same instructions for each method.
#[inline(never)]
fn repeat(runs: u64, code: fn(), done: &AtomicU64) {
    for _ in 0..runs {
        code();
        done.fetch_add(1, SeqCst);
    }
}

/// Runs a kind in a child. Returns how that ended, and what it left.
fn run(kind: Kind, method: Option<Method<'_>>) -> (c_int, &'static Left) {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of zeros, which stays, for a structure of integers.
    let left: &Left = unsafe {
        let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let start = libc::mmap(null_mut(), size_of::<Left>(), access, shared, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        &*start.cast()
    };
    let status = wait(fork(|| {
        crate::process::close_all(); // those of other tests, whose number changes
        (kind.before)();
        for (runs, place) in RUNS.iter().zip(&left.counts) {
            let mut code = || repeat(*runs, kind.code, &left.runs);
            let count = match method {
                None => {
                    code();
                    0
                }
                Some(method) => match method(LIMIT, &mut code) {
                    Ok(count) => count.map_or(REFUSED, |count| count as i64),
                    Err(_) => FAILED,
                },
            };
            place.store(count, SeqCst);
        }
        for ((_, state), place) in STATE.iter().zip(&left.state) {
            place.store(state(), SeqCst);
        }
        0
    }));
    (status, left)
}

type State = fn() -> u64;

/// What a process has, and a count must not change.
const STATE: [(&str, State); 10] = [
    ("the blocked signals", || {
        let mut mask = set_of(&[]);
        // SAFETY: the set is valid during the call.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, null(), &mut mask) };
        signals_of(&mask)
    }),
    ("the signals that wait", || {
        let mut waiting = set_of(&[]);
        // SAFETY: the set is valid during the call.
        unsafe { libc::sigpending(&mut waiting) };
        signals_of(&waiting)
    }),
    ("the action of SIGTRAP", || {
        // SAFETY: a structure for which zeros are valid, and the kernel fills it.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            libc::sigaction(libc::SIGTRAP, null(), &mut action);
            action.sa_sigaction as u64
        }
    }),
    ("the signal stack", || {
        // SAFETY: as above.
        unsafe {
            let mut stack: libc::stack_t = zeroed();
            libc::sigaltstack(null(), &mut stack);
            stack.ss_sp as u64 + stack.ss_flags as u64
        }
    }),
    ("the trap flag", || {
        #[cfg(target_arch = "x86_64")]
        let flags: u64 = {
            let flags;
            // SAFETY: the stack is as it was.
            unsafe { std::arch::asm!("pushfq", "pop {}", out(reg) flags) };
            flags
        };
        #[cfg(not(target_arch = "x86_64"))]
        let flags = 0;
        flags & 256
    }),
    ("the signals that were handled, but for those of a timer", || {
        if has_timer() { 0 } else { SIGNALS.load(SeqCst) }
    }),
    ("the descriptors", || read_dir("/proc/self/fd").map_or(0, |all| all.count() as u64)),
    ("the threads", || {
        let count = || read_dir("/proc/self/task").map_or(0, |all| all.count() as u64);
        // One that was waited for is there a moment longer.
        let after_a_moment = |_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            count()
        };
        if count() == 1 { 1 } else { (0..20).map(after_a_moment).min().unwrap_or(0) }
    }),
    ("the children", || {
        let mut status = 0;
        // SAFETY: the pointer is valid during the call.
        unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG | libc::__WALL) as u64 }
    }),
    // SAFETY: a call with integers.
    ("whether it may be traced", || unsafe { libc::prctl(libc::PR_GET_DUMPABLE) as u64 }),
];

/// Tries a kind. An error says what differs.
pub fn attempt(kind: Kind, steppers: &[Stepper<'_>]) -> Result<(), String> {
    let (ended, native) = run(kind, None);
    let mut known = None;
    for (by, method, expected) in steppers {
        let (status, left) = run(kind, Some(method));
        let wrong = |what: &str| Err(format!("{}, {by}: {what}: {left:?}", kind.name));
        if status != ended {
            return wrong(&format!("it ended with {status:#x}, {ended:#x} without a count"));
        }
        if left.runs.load(SeqCst) != native.runs.load(SeqCst) {
            return wrong("it did not run as often as without a count");
        }
        for ((state, _), (here, there)) in STATE.iter().zip(left.state.iter().zip(&native.state)) {
            let (here, there) = (here.load(SeqCst), there.load(SeqCst));
            if here != there {
                return wrong(&format!("{state}: {here:#x}, {there:#x} without a count"));
            }
        }
        if ended != 0 {
            continue;
        }
        let expected = expected(&kind);
        let all = left.counts.each_ref().map(|count| count.load(SeqCst));
        let is_expected = all.iter().all(|count| match *count {
            REFUSED => expected != Expected::Counted,
            FAILED => false,
            _ => expected != Expected::Refused,
        });
        if !is_expected {
            return wrong(&format!("{expected:?} was expected"));
        }
        let [_, rest @ ..] = all;
        for [less, more] in [[rest[0], rest[1]], [rest[2], rest[3]]] {
            if less != REFUSED && more != REFUSED && expected != Expected::Varies {
                let difference = more - less;
                if difference < 2 || *known.get_or_insert(difference) != difference {
                    return wrong(&format!("{difference} for two runs, and {known:?}"));
                }
            }
        }
    }
    Ok(())
}

fn nothing() {}

const fn kind(name: &'static str, code: fn()) -> Kind {
    let counted = Expected::Counted;
    let (by_trap_flag, by_tracer) = (counted, counted);
    Kind { name, before: nothing, code, by_trap_flag, by_tracer, is_long: false }
}

impl Kind {
    const fn after(mut self, before: fn()) -> Kind {
        self.before = before;
        self
    }

    const fn long(mut self) -> Kind {
        self.is_long = true;
        self
    }

    const fn by(mut self, by_trap_flag: Expected, by_tracer: Expected) -> Kind {
        (self.by_trap_flag, self.by_tracer) = (by_trap_flag, by_tracer);
        self
    }
}

/// The first 31 signals of a set, by bits.
fn signals_of(set: &libc::sigset_t) -> u64 {
    // SAFETY: the set is valid during the call.
    let has = |signal: &c_int| unsafe { libc::sigismember(set, *signal) == 1 };
    (1..32).filter(has).map(|signal| 1 << signal).sum()
}

fn set_of(signals: &[c_int]) -> libc::sigset_t {
    // SAFETY: a structure of integers for which zeros are valid.
    let mut set: libc::sigset_t = unsafe { zeroed() };
    for signal in signals {
        // SAFETY: a set from above.
        unsafe { libc::sigaddset(&mut set, *signal) };
    }
    set
}

fn ignore_trap() {
    // SAFETY: a call with integers.
    unsafe { libc::signal(libc::SIGTRAP, libc::SIG_IGN) };
}

fn block_trap() {
    change_mask(libc::SIG_BLOCK, &[libc::SIGTRAP]);
}

/// Does as critical sections do: blocks a signal, and restores the mask that it found.
fn save_and_restore_mask(how: c_int, signals: &[c_int]) {
    let mut found = set_of(&[]);
    // SAFETY: the sets are valid during the calls.
    unsafe {
        libc::pthread_sigmask(how, &set_of(signals), &mut found);
        libc::pthread_sigmask(libc::SIG_SETMASK, &found, null_mut());
    }
}

/// Waits for a signal that is there, while SIGTRAP is blocked.
fn suspend_without_trap() {
    send(libc::SIGUSR1);
    // SAFETY: the set is valid during the call.
    unsafe { libc::sigsuspend(&set_of(&[libc::SIGTRAP])) };
}

fn change_mask(how: c_int, signals: &[c_int]) {
    // SAFETY: the set is valid during the call.
    unsafe { libc::pthread_sigmask(how, &set_of(signals), null_mut()) };
}

type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

fn handle(signal: c_int, handler: Handler, flags: c_int) {
    // SAFETY: a structure for which zeros are valid. The handlers of this file are async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | flags;
        assert_eq!(libc::sigaction(signal, &action, null_mut()), 0);
    }
}

static SIGNALS: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn mark(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    SIGNALS.fetch_add(1, SeqCst);
}

unsafe extern "C" fn mark_and_send(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    send(libc::SIGUSR2);
}

unsafe extern "C" fn mark_and_trap(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    send(libc::SIGTRAP);
    SIGNALS.fetch_add(1, SeqCst);
}

/// Arithmetic, whose instructions are always the same.
fn work() {
    black_box((0..black_box(10_u64)).fold(0, |sum, n| black_box(sum ^ n)));
}

/// Longer than the steps for which there is time.
fn spin() {
    (0..LIMIT).for_each(|n| _ = black_box(n));
}

unsafe extern "C" fn spin_in_a_handler(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    spin();
}

unsafe extern "C" fn trap_and_spin(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    send(libc::SIGTRAP);
    spin();
}

unsafe extern "C" fn trap_and_ask(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    send(libc::SIGTRAP);
    // SAFETY: a structure for which zeros are valid, and the kernel fills it.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        libc::sigaction(libc::SIGTRAP, null(), &mut action);
    }
}

/// Makes the page of the fault accessible.
unsafe extern "C" fn mend(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel's argument, which has the address of a fault. The page is this file's.
    unsafe {
        let page = (*info).si_addr() as usize & !(PAGE - 1);
        libc::mprotect(page as *mut c_void, PAGE, libc::PROT_READ | libc::PROT_WRITE);
    }
}

fn send(signal: c_int) {
    // SAFETY: a call with integers.
    unsafe { libc::raise(signal) };
}

/// As large as a page is on any machine that is tested.
const PAGE: usize = 4 << 10;

/// Uses pages of a new mapping, and gives them back.
fn use_pages(access: c_int, pages: usize) {
    // SAFETY: a new mapping, which this function alone has. Where it has no access, a handler mends that.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let start = libc::mmap(null_mut(), pages * PAGE, access, flags, -1, 0).cast::<u8>();
        for page in 0..pages {
            start.add(page * PAGE).write_volatile(1);
        }
        libc::munmap(start.cast(), pages * PAGE);
    }
}

/// Sends a signal again and again, from this code on.
fn start_timer(timer: c_int, microseconds: i64) {
    let each = libc::timeval { tv_sec: 0, tv_usec: microseconds };
    let value = libc::itimerval { it_interval: each, it_value: each };
    // SAFETY: the structure is valid during the call. `setitimer` has another type for the first argument on other C libraries.
    unsafe { libc::syscall(libc::SYS_setitimer, timer, &raw const value, 0_usize) };
}

fn has_timer() -> bool {
    [libc::ITIMER_REAL, libc::ITIMER_PROF].iter().any(|timer| {
        // SAFETY: a structure of integers, for which zeros are valid, and which the kernel fills.
        unsafe {
            let mut value: libc::itimerval = zeroed();
            libc::syscall(libc::SYS_getitimer, *timer, &raw mut value);
            value.it_interval.tv_usec != 0
        }
    })
}

/// Both ends of a pipe that nobody else has.
static PIPE: [AtomicI32; 2] = [const { AtomicI32::new(-1) }; 2];

fn open_pipe() {
    let mut ends = [-1; 2];
    // SAFETY: room for two descriptors.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    PIPE.iter().zip(ends).for_each(|(place, end)| place.store(end, SeqCst));
}

fn read_pipe() -> isize {
    let mut byte = 0_u8;
    // SAFETY: room for a byte.
    unsafe { libc::read(PIPE[0].load(SeqCst), (&raw mut byte).cast(), 1) }
}

fn write_pipe() -> isize {
    // SAFETY: a byte.
    unsafe { libc::write(PIPE[1].load(SeqCst), b"x".as_ptr().cast(), 1) }
}

/// Starts a thread that writes to the pipe, and one that waits for all children of the process.
fn have_threads() {
    open_pipe();
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(std::time::Duration::from_micros(300));
            write_pipe();
        }
    });
    std::thread::spawn(|| {
        loop {
            let mut status = 0;
            // SAFETY: the pointer is valid during the call.
            unsafe { libc::waitpid(-1, &mut status, libc::__WALL) };
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    });
}

/// Starts a process that continues this one again and again.
fn have_a_continuer() {
    // SAFETY: calls with integers. The child makes system calls alone, and ends after its parent.
    unsafe {
        let parent = libc::getpid();
        if libc::fork() == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            while libc::getppid() == parent {
                libc::kill(parent, libc::SIGCONT);
                libc::usleep(200);
            }
            libc::_exit(0);
        }
    }
}

fn system_call(number: c_long, [first, second, third, fourth]: [usize; 4]) -> c_long {
    // SAFETY: the kinds below pass integers, and pointers that are valid during the call.
    unsafe { libc::syscall(number, first, second, third, fourth) }
}

/// A process that ends at once with this status.
fn fork_and_wait(number: c_long, flags: c_int) {
    // SAFETY: the child ends at once. Its memory is a copy, or its parent waits.
    unsafe {
        let child = libc::syscall(number, flags | libc::SIGCHLD, 0, 0, 0, 0);
        if child == 0 {
            libc::_exit(5);
        }
        let mut status = 0;
        libc::waitpid(child as c_int, &mut status, 0);
        assert_eq!(status, 5 << 8);
    }
}

static STACK: [AtomicU8; 128 << 10] = [const { AtomicU8::new(0) }; 128 << 10];

fn use_own_stack(size: usize, flags: c_int) {
    let ss_sp = STACK.as_ptr().cast_mut().cast();
    let stack = libc::stack_t { ss_sp, ss_flags: flags, ss_size: size };
    // SAFETY: the memory stays, and nothing else uses it. Atomics may change.
    assert_eq!(unsafe { libc::sigaltstack(&stack, null_mut()) }, 0);
}

/// Goes to another context and back, as fibers do by the C library.
#[cfg(all(target_env = "gnu", not(target_arch = "riscv64")))] // libc has it on these
fn swap_contexts() {
    extern "C" fn other() {
        SIGNALS.fetch_add(1, SeqCst);
    }
    // SAFETY: structures for which zeros are valid. The other context has a stack that nothing else uses, and goes on here.
    unsafe {
        let (mut here, mut there): (libc::ucontext_t, libc::ucontext_t) = zeroed();
        libc::getcontext(&mut there);
        there.uc_stack.ss_sp = STACK.as_ptr().cast_mut().cast();
        there.uc_stack.ss_size = STACK.len();
        there.uc_link = &mut here;
        libc::makecontext(&mut there, other, 0);
        libc::swapcontext(&mut here, &there);
    }
}

fn execute(path: &std::ffi::CStr) {
    let arguments = [path.as_ptr(), c"-c".as_ptr(), c"exit 7".as_ptr(), null()];
    // SAFETY: texts and lists that end, and stay.
    unsafe { libc::execv(path.as_ptr(), arguments.as_ptr()) };
}

use Expected::{Counted, Either, Refused, Varies};

/// All kinds that need no particular CPU.
pub const KINDS: &[Kind] = &[
    kind("arithmetic", work),
    kind("the allocator", || drop(black_box(Vec::<u8>::with_capacity(black_box(1_000))))),
    kind("a system call", || _ = black_box(system_call(libc::SYS_sched_yield, [0; 4]))),
    // Memory.
    kind("page faults", || use_pages(libc::PROT_READ | libc::PROT_WRITE, 4)),
    kind("a fault that a handler mends", || use_pages(libc::PROT_NONE, 4))
        .after(|| handle(libc::SIGSEGV, mend, 0)),
    kind("a fault that a handler mends on its own stack", || use_pages(libc::PROT_NONE, 4))
        .after(|| handle(libc::SIGSEGV, mend, libc::SA_ONSTACK)),
    // Signals.
    kind("a signal", || send(libc::SIGUSR1)).after(|| handle(libc::SIGUSR1, mark, 0)),
    kind("a signal in a handler", || send(libc::SIGUSR1)).after(|| {
        handle(libc::SIGUSR1, mark_and_send, 0);
        handle(libc::SIGUSR2, mark, 0);
    }),
    kind("a signal on the program's large stack", || send(libc::SIGUSR1)).after(|| {
        use_own_stack(STACK.len(), 0);
        handle(libc::SIGUSR1, mark, libc::SA_ONSTACK);
    }),
    kind("a signal on the program's small stack", || send(libc::SIGUSR1)).after(|| {
        use_own_stack(32 << 10, 0);
        handle(libc::SIGUSR1, mark, libc::SA_ONSTACK);
    }),
    kind("a signal that disables the stack", || send(libc::SIGUSR1)).after(|| {
        use_own_stack(STACK.len(), 1 << 31); // SS_AUTODISARM
        handle(libc::SIGUSR1, mark_and_send, libc::SA_ONSTACK);
        handle(libc::SIGUSR2, mark, libc::SA_ONSTACK);
    }),
    kind("a handler for one signal", || {
        handle(libc::SIGUSR1, mark, libc::SA_RESETHAND | libc::SA_NODEFER);
        send(libc::SIGUSR1);
    }),
    kind("a signal that is ignored", || send(libc::SIGUSR1)).after(|| {
        // SAFETY: a call with integers.
        unsafe { libc::signal(libc::SIGUSR1, libc::SIG_IGN) };
    }),
    kind("a signal that waits", || {
        send(libc::SIGUSR1);
        let none = set_of(&[]);
        // SAFETY: the set is valid during the call.
        unsafe { libc::sigsuspend(&none) };
    })
    .after(|| {
        handle(libc::SIGUSR1, mark, 0);
        change_mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
    }),
    kind("SIGTRAP blocked while it waits for a signal", suspend_without_trap)
        .after(|| {
            handle(libc::SIGUSR1, mark, 0);
            change_mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
        })
        .by(Counted, Either),
    kind("SIGTRAP blocked while it polls", || {
        let (trap, now) = (set_of(&[libc::SIGTRAP]), libc::timespec { tv_sec: 0, tv_nsec: 0 });
        // SAFETY: no descriptors, and structures that are valid during the call.
        unsafe { libc::ppoll(null_mut(), 0, &now, &trap) };
    }),
    kind("a signal that is queued", || {
        // SAFETY: a value of no meaning.
        let value = libc::sigval { sival_ptr: null_mut() };
        // SAFETY: calls with integers.
        unsafe { libc::sigqueue(libc::getpid(), libc::SIGUSR1, value) };
    })
    .after(|| handle(libc::SIGUSR1, mark, 0))
    .by(Refused, Counted),
    kind("signals of a timer", work)
        .after(|| {
            handle(libc::SIGALRM, mark, 0);
            start_timer(libc::ITIMER_REAL, 10_000);
        })
        .by(Counted, Either),
    kind("signals of a timer on the signal stack", work)
        .after(|| {
            handle(libc::SIGALRM, mark, libc::SA_ONSTACK);
            start_timer(libc::ITIMER_REAL, 10_000);
        })
        .by(Counted, Either),
    kind("signals of a profiler", work)
        .after(|| {
            handle(libc::SIGPROF, mark, libc::SA_RESTART);
            start_timer(libc::ITIMER_PROF, 10_000);
        })
        .by(Counted, Either),
    kind("a read that a signal interrupts", || assert_eq!(read_pipe(), -1))
        .after(|| {
            open_pipe();
            handle(libc::SIGALRM, mark, 0);
            start_timer(libc::ITIMER_REAL, 10_000);
        })
        .by(Counted, Either),
    kind("a write that no one reads", || assert_eq!(write_pipe(), -1)).after(|| {
        open_pipe();
        handle(libc::SIGPIPE, mark, 0);
        // SAFETY: a descriptor of this file's.
        unsafe { libc::close(PIPE[0].load(SeqCst)) };
    }),
    kind("a read that another thread ends, and a thread that takes all children", || {
        assert_eq!(read_pipe(), 1);
    })
    .after(have_threads),
    kind("a stop that another process ends", || send(libc::SIGSTOP)).after(have_a_continuer),
    // The signal mask, SIGTRAP, and the signal stack.
    kind("SIGTRAP is blocked", || change_mask(libc::SIG_BLOCK, &[libc::SIGTRAP]))
        .by(Refused, Either),
    kind("all signals are blocked", || {
        // SAFETY: a structure of integers for which zeros are valid.
        unsafe {
            let mut all: libc::sigset_t = zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, null_mut());
        }
    })
    .by(Refused, Either),
    kind("SIGTRAP was blocked", work).after(block_trap),
    kind("SIGTRAP was blocked, and is unblocked", || {
        change_mask(libc::SIG_UNBLOCK, &[libc::SIGTRAP]);
    })
    .after(block_trap)
    .by(Counted, Either),
    kind("SIGTRAP was blocked, and is sent", || send(libc::SIGTRAP))
        .after(block_trap)
        .by(Refused, Refused),
    kind("SIGTRAP was blocked, and a handler sends it", || send(libc::SIGUSR1))
        .after(|| {
            handle(libc::SIGUSR1, mark_and_trap, 0);
            change_mask(libc::SIG_BLOCK, &[libc::SIGTRAP]);
        })
        .by(Refused, Refused),
    kind("SIGTRAP was blocked, is sent, and goes to a handler", || {
        send(libc::SIGTRAP);
        change_mask(libc::SIG_UNBLOCK, &[libc::SIGTRAP]);
        change_mask(libc::SIG_BLOCK, &[libc::SIGTRAP]);
    })
    .after(|| {
        handle(libc::SIGTRAP, mark, 0);
        change_mask(libc::SIG_BLOCK, &[libc::SIGTRAP]);
    })
    .by(Refused, Refused),
    kind("a handler of SIGTRAP, and one that blocks all signals", || {
        send(libc::SIGUSR1);
        send(libc::SIGTRAP);
    })
    .after(|| {
        handle(libc::SIGTRAP, mark, 0);
        // SAFETY: structures for which zeros are valid.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = mark as Handler as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigfillset(&mut action.sa_mask);
            libc::sigaction(libc::SIGUSR1, &action, null_mut());
        }
    })
    .by(Refused, Refused),
    kind("SIGTRAP was blocked, and the mask is saved and restored", || {
        save_and_restore_mask(libc::SIG_BLOCK, &[libc::SIGINT]);
        send(libc::SIGTRAP);
    })
    .after(block_trap)
    .by(Refused, Refused),
    kind("SIGTRAP was blocked, and the mask is saved with less in it", || {
        save_and_restore_mask(libc::SIG_UNBLOCK, &[libc::SIGUSR1]);
    })
    .after(block_trap)
    .by(Refused, Refused),
    kind("SIGTRAP was blocked, and the mask is looked at", || {
        let mut found = set_of(&[]);
        // SAFETY: the sets are valid during the calls.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, null(), &mut found);
            libc::pthread_sigmask(libc::SIG_SETMASK, &found, null_mut());
        }
    })
    .after(block_trap)
    .by(Refused, Refused),
    kind("SIGTRAP was blocked, and a thread finds it so", || {
        let look = || {
            let mut found = set_of(&[]);
            // SAFETY: the set is valid during the call.
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, null(), &mut found) };
            SIGNALS.fetch_add(signals_of(&found) & 1 << libc::SIGTRAP, SeqCst);
        };
        std::thread::spawn(look).join().map(drop).unwrap();
    })
    .after(block_trap)
    .by(Refused, Refused),
    kind("SIGTRAP was blocked, and a handler takes long before it is sent", || {
        send(libc::SIGUSR1);
        send(libc::SIGTRAP);
    })
    .after(|| {
        block_trap();
        handle(libc::SIGUSR1, spin_in_a_handler, 0);
    })
    .by(Refused, Refused)
    .long(),
    kind("SIGTRAP was blocked, and a handler sends it and takes long", || send(libc::SIGUSR1))
        .after(|| {
            block_trap();
            handle(libc::SIGUSR1, trap_and_spin, 0);
        })
        .by(Refused, Refused)
        .long(),
    kind("SIGTRAP was blocked, and a handler sends it once and takes long", || {
        if SIGNALS.fetch_add(1, SeqCst) == 0 {
            send(libc::SIGUSR1);
        }
    })
    .after(|| {
        block_trap();
        handle(libc::SIGUSR1, trap_and_spin, 0);
    })
    .by(Either, Either),
    kind("SIGTRAP was blocked, and a handler sends it and asks for its action", || {
        send(libc::SIGUSR1);
    })
    .after(|| {
        block_trap();
        handle(libc::SIGUSR1, trap_and_ask, 0);
    })
    .by(Refused, Refused),
    kind("a mask of the wrong size", || {
        let set = set_of(&[libc::SIGTRAP]);
        let [how, set] = [libc::SIG_BLOCK as usize, &raw const set as usize];
        assert_eq!(system_call(libc::SYS_rt_sigprocmask, [how, set, 0, 4]), -1);
    })
    .by(Either, Counted),
    kind("SIGTRAP has a handler, and comes after it was blocked for a while", || {
        suspend_without_trap();
        send(libc::SIGTRAP);
    })
    .after(|| {
        handle(libc::SIGTRAP, mark, 0);
        handle(libc::SIGUSR1, mark, 0);
        change_mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
    })
    .by(Refused, Refused),
    kind("SIGTRAP is ignored, and comes after it was blocked for a while", || {
        suspend_without_trap();
        send(libc::SIGTRAP);
    })
    .after(|| {
        ignore_trap();
        handle(libc::SIGUSR1, mark, 0);
        change_mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
    })
    .by(Refused, Refused),
    kind("a handler of SIGTRAP", || handle(libc::SIGTRAP, mark, 0)).by(Refused, Refused),
    kind("SIGTRAP for a handler", || send(libc::SIGTRAP))
        .after(|| handle(libc::SIGTRAP, mark, 0))
        .by(Refused, Refused),
    kind("SIGTRAP, ignored", || send(libc::SIGTRAP)).after(ignore_trap).by(Refused, Refused),
    kind("SIGTRAP that ends the process", || send(libc::SIGTRAP)),
    kind("a signal stack", || use_own_stack(STACK.len(), 0)).by(Refused, Counted),
    #[cfg(all(target_env = "gnu", not(target_arch = "riscv64")))] // libc has it on these
    kind("another context", swap_contexts).by(Refused, Counted),
    // Processes and threads.
    kind("a thread", || std::thread::spawn(|| black_box(5)).join().map(drop).unwrap())
        .by(Refused, Varies),
    kind("a process", || fork_and_wait(libc::SYS_clone, 0)).by(Refused, Either),
    kind("a process that its parent waits for", || {
        fork_and_wait(libc::SYS_clone, libc::CLONE_VFORK)
    })
    .by(Refused, Either),
    kind("a program", || {
        _ = black_box(std::process::Command::new("/bin/true").status().is_ok());
    })
    .by(Refused, Either),
    kind("another program in place of this one", || execute(c"/bin/sh")).by(Refused, Refused),
    kind("no program in place of this one", || execute(c"/absent")).by(Refused, Refused),
    kind("another CPU", || {
        // SAFETY: a structure of integers for which zeros are valid. The kernel refuses a CPU that is not there.
        unsafe {
            let mut first: libc::cpu_set_t = zeroed();
            libc::CPU_SET(0, &mut first);
            libc::sched_setaffinity(0, size_of_val(&first), &first);
        }
    }),
    // The end of the process.
    kind("abort", || std::process::abort()),
    // SAFETY: a call with integers.
    kind("exit", || unsafe { libc::exit(7) }),
    kind("the end of the thread", || _ = system_call(libc::SYS_exit, [7, 0, 0, 0])),
    kind("the end of all threads", || _ = system_call(libc::SYS_exit_group, [7, 0, 0, 0])),
    kind("SIGKILL", || send(libc::SIGKILL)),
    kind("SIGTERM", || send(libc::SIGTERM)),
    kind("a fault", || use_pages(libc::PROT_NONE, 1)).after(|| {
        // SAFETY: a call with integers. The standard library's handler would say more.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
    }),
    kind("a panic that leaves the count", || std::panic::resume_unwind(Box::new(5))),
    // What changes system calls.
    kind("strict filters", || {
        // SAFETY: a call with integers.
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, 1) };
        system_call(libc::SYS_exit, [7, 0, 0, 0]);
    }),
    kind("it may not be traced", || {
        // SAFETY: a call with integers.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
    })
    .by(Counted, Either),
    kind("no descriptors", crate::process::close_all),
    kind("few resources", || {
        let few = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        for resource in [libc::RLIMIT_NOFILE, libc::RLIMIT_SIGPENDING, libc::RLIMIT_MEMLOCK] {
            // SAFETY: the structure is valid during the call.
            unsafe { libc::setrlimit(resource, &few) };
        }
    }),
];
