//! Another process traces this thread and steps it, with `ptrace`. It works on each CPU that has a single step.
#![allow(unsafe_code)]

// The tracer is a child of this process, made for one count. It attaches to this thread, steps it from one marked function to
// another, and writes the count into memory that both have. While it steps it, this thread stops after each instruction, so
// there is no race between the two. If the tracer is killed, the kernel goes on with the steps, and the next one ends this process
// with SIGTRAP. So the tracer blocks all signals but SIGKILL.
//
// The child is a copy of this process with this thread alone. It may find locks that are held, so it only makes system calls.

use super::turn::Turn;
use crate::StepError;
use std::arch::asm;
use std::ffi::{c_int, c_long, c_void};
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// The size of the memory that both processes have.
const SIZE: usize = 4_096;

/// What the tracer tells, in memory that both processes have. Zeros are valid.
#[derive(Debug)]
#[repr(C)]
struct Told {
    state: AtomicU32,
    errno: AtomicI32,
    count: AtomicU64,
}

/// The tracer is not there yet. This process has to allow it.
const BEGUN: u32 = 0;
/// The tracer may attach.
const ALLOWED: u32 = 1;
/// The tracer was refused. `errno` says why.
const REFUSED: u32 = 2;
/// The tracer steps this thread.
const ATTACHED: u32 = 3;
/// The thread has reached the second mark.
const COUNTED: u32 = 4;
const TOO_LONG: u32 = 5;
const EXCLUSIVE: u32 = 6;
const DISTURBED: u32 = 7;

/// A count that has begun, to be ended.
#[derive(Debug)]
pub(crate) struct Counting {
    limit: u64,
    told: *const Told,
    tracer: c_int,
    /// The action of SIGTRAP, and this thread's signal mask. The kernel unblocks the signal of a step, and resets its action if
    /// it was blocked or ignored.
    action: libc::sigaction,
    mask: libc::sigset_t,
    /// The thread that is traced.
    of_a_thread: PhantomData<*const ()>,
    /// The last field, so that the turn ends after everything is restored.
    _turn: Turn,
}

/// The steps after this call count.
#[inline(never)]
pub(crate) fn start() {
    // SAFETY: changes a register that it names. It differs from the other mark, so that the linker does not make them one.
    unsafe { asm!("mov {0}, 1", out(reg) _, options(nomem, nostack)) };
}

/// The steps before this call count.
#[inline(never)]
fn finish() {
    // SAFETY: as above.
    unsafe { asm!("mov {0}, 2", out(reg) _, options(nomem, nostack)) };
}

impl Counting {
    /// Makes the tracer. It steps this thread when this returns.
    pub(crate) fn begin(limit: u64) -> Result<Counting, StepError> {
        let turn = Turn::take()?;
        let failed = |call| {
            let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
            StepError::System { call, errno }
        };
        // SAFETY: a new mapping, which is never memory of Rust's.
        let told = unsafe {
            libc::mmap(
                ptr::null_mut(),
                SIZE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if told == libc::MAP_FAILED {
            return Err(failed("mmap"));
        }
        let told: *const Told = told.cast();
        // SAFETY: structures of integers, addresses and functions that may be absent, for which zeros are valid.
        let (mut action, mut all, mut mask): (libc::sigaction, libc::sigset_t, libc::sigset_t) =
            unsafe { (mem::zeroed(), mem::zeroed(), mem::zeroed()) };
        // SAFETY: the call takes no argument.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) };
        // SAFETY: the pointers are valid during the calls. The child makes system calls alone and ends. No signal reaches it,
        // because it has the mask of this moment. It uses no files of its own: a pipe that this process closes is closed.
        let child = unsafe {
            libc::sigaction(libc::SIGTRAP, ptr::null(), &mut action);
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut mask);
            let child = libc::syscall(libc::SYS_clone, libc::CLONE_FILES, 0, 0, 0, 0);
            if child == 0 {
                trace(thread, &*told, limit);
            }
            child
        };
        let cloned = if child < 0 { Err(failed("clone")) } else { Ok(child as c_int) };
        // SAFETY: the mask of before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &mask, ptr::null_mut()) };
        let tracer = match cloned {
            Ok(tracer) => tracer,
            Err(why) => {
                // SAFETY: the mapping from above, which nothing else has.
                unsafe { libc::munmap(told.cast_mut().cast(), SIZE) };
                return Err(why);
            }
        };
        let counting =
            Counting { limit, told, tracer, action, mask, of_a_thread: PhantomData, _turn: turn };
        // Where Yama restricts tracing, a child may trace its parent if the parent names it. Elsewhere the call fails.
        // SAFETY: a call with integers.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, tracer as libc::c_ulong, 0, 0, 0) };
        counting.told().state.store(ALLOWED, Release);
        // From the tracer's Release: it has written `errno`, or this thread is stepped.
        while counting.told().state.load(Acquire) == ALLOWED {
            // SAFETY: a call without arguments.
            unsafe { libc::sched_yield() };
            // A tracer that was killed tells nothing.
            if is_ended(tracer, libc::WNOHANG) && counting.told().state.load(Acquire) == ALLOWED {
                return Err(StepError::Refused { errno: 0 });
            }
        }
        match counting.told().state.load(Acquire) {
            REFUSED => Err(StepError::Refused { errno: counting.told().errno.load(Relaxed) }),
            _ => Ok(counting),
        }
    }

    fn told(&self) -> &Told {
        // SAFETY: the mapping stays until `drop`. Atomics may change in another process.
        unsafe { &*self.told }
    }

    /// Ends the steps, restores everything and returns the count.
    pub(crate) fn end(self) -> Result<u64, StepError> {
        finish();
        let limit = self.limit;
        is_ended(self.tracer, 0);
        // After the tracer's end, so that it has written everything.
        let (state, count) = (self.told().state.load(Acquire), self.told().count.load(Relaxed));
        drop(self);
        match state {
            COUNTED => Ok(count),
            TOO_LONG => Err(StepError::TooLong { limit }),
            EXCLUSIVE => Err(StepError::Exclusive),
            _ => Err(StepError::Disturbed),
        }
    }
}

impl Drop for Counting {
    /// Ends the tracer, also while a panic unwinds.
    fn drop(&mut self) {
        finish();
        is_ended(self.tracer, 0);
        // SAFETY: what the kernel returned, an integer, and the mapping from `begin`, of which no reference is left.
        unsafe {
            libc::sigaction(libc::SIGTRAP, &self.action, ptr::null_mut());
            if libc::sigismember(&self.mask, libc::SIGTRAP) == 1 {
                let mut trap: libc::sigset_t = mem::zeroed();
                libc::sigaddset(&mut trap, libc::SIGTRAP);
                libc::pthread_sigmask(libc::SIG_BLOCK, &trap, ptr::null_mut());
            }
            libc::prctl(libc::PR_SET_PTRACER, 0, 0, 0, 0);
            libc::munmap(self.told.cast_mut().cast(), SIZE);
        }
    }
}

/// Waits for the end of a child that signals nothing at its end. Also true if there is no such child any more.
fn is_ended(child: c_int, options: c_int) -> bool {
    loop {
        let mut status = 0;
        // SAFETY: the pointer is valid during the call.
        match unsafe { libc::waitpid(child, &mut status, options | libc::__WALL) } {
            0 => return false,
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return true,
        }
    }
}

// What follows runs in the tracer.

/// `si_code` of a step, and of a stop at the first instruction of a signal handler.
const TRAP_TRACE: c_int = 2;
const AT_A_HANDLER: c_int = libc::SIGTRAP;
const REGISTERS: c_long = 1; // NT_PRSTATUS

/// Steps a thread from one mark to the other, and ends this process.
fn trace(thread: c_long, told: &Told, limit: u64) -> ! {
    let thread = Thread(thread);
    // SAFETY: a call without arguments.
    let parent = || unsafe { libc::getppid() };
    let this = parent();
    // Its parent's Release: this process is allowed. A parent that has died allows nothing.
    while told.state.load(Acquire) == BEGUN && parent() == this {
        // SAFETY: as above.
        unsafe { libc::sched_yield() };
    }
    if thread.request(PTRACE_SEIZE, 0, 0).is_none()
        || thread.request(PTRACE_INTERRUPT, 0, 0).is_none()
    {
        told.errno.store(io::Error::last_os_error().raw_os_error().unwrap_or(0), Relaxed);
        told.state.store(REFUSED, Release);
    } else if let Some(first) = thread.stop() {
        told.state.store(ATTACHED, Release);
        let end = step(&thread, first, told, limit);
        told.state.store(end, Release);
        // It goes on at full speed.
        thread.request(PTRACE_DETACH, 0, 0);
    }
    // SAFETY: ends this process without running anything of its parent's.
    unsafe { libc::_exit(0) }
}

/// Steps a thread until it reaches the second mark, or until its steps do not count. Returns the state to tell.
fn step(thread: &Thread, first: Stop, told: &Told, limit: u64) -> u32 {
    let (begin, end) = (start as fn() as usize as u64, finish as fn() as usize as u64);
    // Steps before the first mark and in signal handlers do not count, and do not go on for ever.
    let (mut count, mut others) = (None, 0_u64);
    // Where the thread was before a signal, and whether the signal's handler runs.
    let (mut interrupted, mut is_in_a_handler) = (None, false);
    let (mut stop, mut is_at_a_call) = (first, false);
    loop {
        let mut signal = 0;
        if !stop.is_by_job_control {
            let (Some(code), Some(place)) = (thread.code(), thread.place()) else {
                return DISTURBED;
            };
            let is_trap = stop.signal == libc::SIGTRAP;
            if is_trap && code == AT_A_HANDLER && interrupted.is_some() {
                is_in_a_handler = true;
            } else if is_trap && (code == TRAP_TRACE || is_at_a_call) {
                if is_in_a_handler || count.is_none() {
                    others += 1;
                }
                if !is_in_a_handler {
                    interrupted = None;
                    count = count.map(|count: u64| count + 1);
                } else if interrupted == Some(place) {
                    (interrupted, is_in_a_handler) = (None, false);
                }
            } else {
                // Before the signal has its effect. The thread has executed nothing.
                signal = stop.signal;
                interrupted = interrupted.or(Some(place));
            }
            let Some(next) = thread.word(place.instruction) else { return DISTURBED };
            is_at_a_call = is_system_call(next);
            if signal == 0 {
                if place.instruction == end {
                    // Not if a handler left for here.
                    return match count {
                        Some(count) if !is_in_a_handler => {
                            told.count.store(count, Relaxed);
                            COUNTED
                        }
                        _ => DISTURBED,
                    };
                }
                if place.instruction == begin {
                    count = Some(0);
                }
                if count.is_some_and(|count| count >= limit) {
                    return TOO_LONG;
                }
                if others > limit.saturating_add(100_000) {
                    return DISTURBED;
                }
                if is_load_exclusive(next) {
                    return EXCLUSIVE;
                }
            }
        }
        // A thread that SIGSTOP has stopped stays so until it is continued.
        let is_stopped = stop.is_by_job_control && stop.signal != libc::SIGTRAP;
        let request = if is_stopped { PTRACE_LISTEN } else { PTRACE_SINGLESTEP };
        if thread.request(request, 0, signal as usize).is_none() {
            return DISTURBED;
        }
        match thread.stop() {
            Some(next) => stop = next,
            None => return DISTURBED,
        }
    }
}

const PTRACE_PEEKTEXT: c_long = 1;
const PTRACE_SINGLESTEP: c_long = 9;
const PTRACE_DETACH: c_long = 17;
const PTRACE_GETSIGINFO: c_long = 0x4202;
const PTRACE_GETREGSET: c_long = 0x4204;
const PTRACE_SEIZE: c_long = 0x4206;
const PTRACE_INTERRUPT: c_long = 0x4207;
const PTRACE_LISTEN: c_long = 0x4208;

/// The thread that is traced.
struct Thread(c_long);

/// Why it has stopped.
#[derive(Clone, Copy)]
struct Stop {
    signal: c_int,
    is_by_job_control: bool,
}

/// The instruction that it executes next, and its stack.
#[derive(Clone, Copy, PartialEq)]
struct Place {
    instruction: u64,
    stack: u64,
}

impl Thread {
    /// Makes a request. None if the kernel refuses it, for example because the thread has ended.
    fn request(&self, request: c_long, address: usize, data: usize) -> Option<()> {
        // SAFETY: the callers give addresses that are valid during the call where the request has some.
        let done = unsafe { libc::syscall(libc::SYS_ptrace, request, self.0, address, data) };
        (done == 0).then_some(())
    }

    /// Waits until it stops. None if it has ended.
    fn stop(&self) -> Option<Stop> {
        let mut status = 0;
        loop {
            // SAFETY: the pointer is valid during the call.
            match unsafe { libc::waitpid(self.0 as c_int, &mut status, libc::__WALL) } {
                -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                -1 => return None,
                _ => break,
            }
        }
        libc::WIFSTOPPED(status)
            .then(|| Stop { signal: libc::WSTOPSIG(status), is_by_job_control: status >> 16 != 0 })
    }

    /// Returns the code of the signal that stopped it.
    fn code(&self) -> Option<c_int> {
        // SAFETY: a structure of integers, for which zeros are valid.
        let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
        self.request(PTRACE_GETSIGINFO, 0, &raw mut info as usize)?;
        Some(info.si_code)
    }

    fn place(&self) -> Option<Place> {
        // SAFETY: a structure of integers, for which zeros are valid.
        let mut registers: libc::user_regs_struct = unsafe { mem::zeroed() };
        let mut buffer = libc::iovec {
            iov_base: (&raw mut registers).cast::<c_void>(),
            iov_len: mem::size_of::<libc::user_regs_struct>(),
        };
        self.request(PTRACE_GETREGSET, REGISTERS as usize, &raw mut buffer as usize)?;
        #[cfg(target_arch = "aarch64")]
        return Some(Place { instruction: registers.pc, stack: registers.sp });
        #[cfg(target_arch = "x86_64")]
        return Some(Place { instruction: registers.rip, stack: registers.rsp });
    }

    /// Returns the four bytes of an instruction, the first one lowest. Others may follow a shorter one.
    fn word(&self, instruction: u64) -> Option<u32> {
        let (start, bits) = (instruction & !7, 8 * (instruction & 7));
        let (mut low, mut high) = (0_u64, 0_u64);
        self.request(PTRACE_PEEKTEXT, start as usize, &raw mut low as usize)?;
        if bits > 32 {
            // The next page may be absent. Then the instruction ends before it.
            let _ = self.request(PTRACE_PEEKTEXT, start as usize + 8, &raw mut high as usize);
        }
        Some(((u128::from(high) << 64 | u128::from(low)) >> bits) as u32)
    }
}

/// `svc`.
#[cfg(target_arch = "aarch64")]
fn is_system_call(word: u32) -> bool {
    word & 0xffe0_001f == 0xd400_0001
}

/// `ldxr`, `ldaxr`, `ldxp`, `ldaxp` and their narrow forms: the store that follows fails after a stop in between. `casp` has the
/// same class.
#[cfg(target_arch = "aarch64")]
fn is_load_exclusive(word: u32) -> bool {
    let is_casp = word & 0x8020_0000 == 0x0020_0000;
    word & 0x3fc0_0000 == 0x0840_0000 && !is_casp
}

/// `syscall`.
#[cfg(target_arch = "x86_64")]
fn is_system_call(word: u32) -> bool {
    word & 0xffff == 0x050f
}

#[cfg(target_arch = "x86_64")]
fn is_load_exclusive(_: u32) -> bool {
    false
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[allow(clippy::disallowed_types, reason = "the tests do not lock in a child")]
mod tests {
    use super::super::check::countdown;
    use super::*;
    use std::hint::black_box;
    use std::sync::Mutex;

    /// Two cannot count at the same time.
    static TURN: Mutex<()> = Mutex::new(());

    fn in_turn(test: impl FnOnce()) {
        let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match Counting::begin(1_000).and_then(Counting::end) {
            Err(why @ StepError::Refused { .. }) => {
                rdpmc_testing::skips::skip("tracer", &why.to_string());
            }
            _ => test(),
        }
    }

    fn traced(limit: u64, code: &mut dyn FnMut()) -> Result<u64, StepError> {
        let counting = Counting::begin(limit)?;
        start();
        code();
        counting.end()
    }

    #[test]
    fn known_code() {
        in_turn(|| {
            let count = |rounds| traced(1_000, &mut || countdown(rounds)).unwrap();
            for _ in 0..20 {
                assert_eq!(count(51) - count(1), 100);
            }
        });
    }

    /// Instructions of a run, by this module and by the trap flag.
    #[cfg(target_arch = "x86_64")]
    fn agree(name: &str, code: &dyn Fn()) {
        use super::super::trap_flag;
        let by_the_trap_flag = |runs: u64| {
            let counting = trap_flag::Counting::begin(100_000).unwrap();
            trap_flag::start();
            (0..runs).for_each(|_| code());
            counting.end().unwrap()
        };
        let by_a_tracer =
            |runs: u64| traced(100_000, &mut || (0..runs).for_each(|_| code())).unwrap();
        let _ = (by_the_trap_flag(1), by_a_tracer(1));
        let one = by_the_trap_flag(4) - by_the_trap_flag(2);
        assert_eq!(by_a_tracer(4) - by_a_tracer(2), one, "{name}");
        assert!(one > 4, "{name}: {one}");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_trap_flag_counts_the_same() {
        in_turn(|| {
            agree("arithmetic", &|| countdown(100));
            agree("parsing", &|| drop(black_box(black_box("4294967295.5").parse::<f64>())));
            agree("formatting", &|| {
                use std::io::Write;
                let mut text = [0; 64];
                write!(text.as_mut_slice(), "{:?} {}", black_box(5), black_box(1.5)).unwrap();
            });
            agree("system calls", &|| {
                // SAFETY: calls without pointers.
                unsafe { (libc::getppid(), libc::sched_yield()) };
            });
            // SAFETY: a call without arguments. What tells the time takes other paths at other times.
            agree("the vDSO", &|| _ = black_box(unsafe { libc::sched_getcpu() }));
        });
    }

    #[test]
    fn signal_handlers_do_not_count() {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        extern "C" fn on_signal(_: c_int) {
            CALLS.fetch_add(1, Relaxed);
        }
        in_turn(|| {
            let count = |signal| {
                // SAFETY: the call takes integers. One of the signals has a handler, the other is ignored.
                traced(100_000, &mut || unsafe { assert_eq!(libc::raise(signal), 0) }).unwrap()
            };
            // SAFETY: the handler is async-signal-safe.
            unsafe {
                libc::signal(libc::SIGUSR1, on_signal as extern "C" fn(_) as libc::sighandler_t);
                libc::signal(libc::SIGUSR2, libc::SIG_IGN);
            }
            assert_eq!(count(libc::SIGUSR2), count(libc::SIGUSR2));
            let calls = CALLS.load(Relaxed);
            assert_eq!(count(libc::SIGUSR1), count(libc::SIGUSR2));
            assert_eq!(CALLS.load(Relaxed), calls + 1);
        });
    }

    #[test]
    fn a_limit_a_thread_and_a_panic() {
        in_turn(|| {
            let mut sum = 0_u64;
            let mut work = || (0..black_box(1_000_u64)).for_each(|number| sum += black_box(number));
            assert_eq!(traced(100, &mut work), Err(StepError::TooLong { limit: 100 }));
            assert_eq!(sum, 499_500, "it has run to its end");
            let mut threads = || assert_eq!(std::thread::spawn(|| black_box(5)).join().unwrap(), 5);
            assert!(traced(100_000, &mut threads).is_ok());
            let panic = std::panic::catch_unwind(|| {
                traced(100_000, &mut || std::panic::resume_unwind(Box::new(5)))
            });
            assert!(panic.is_err());
            let mut inner = None;
            assert!(traced(10_000, &mut || inner = Some(traced(100, &mut || ()))).is_ok());
            assert_eq!(inner, Some(Err(StepError::Busy)));
        });
    }

    #[test]
    fn what_was_set_is_restored() {
        in_turn(|| {
            // SAFETY: structures of integers and addresses, for which zeros are valid, and calls that fill them. The signal is
            // unblocked at the end.
            unsafe {
                let (mut trap, mut mask): (libc::sigset_t, libc::sigset_t) = mem::zeroed();
                libc::sigaddset(&mut trap, libc::SIGTRAP);
                libc::pthread_sigmask(libc::SIG_BLOCK, &trap, ptr::null_mut());
                libc::signal(libc::SIGTRAP, libc::SIG_IGN);
                let counted = traced(1_000, &mut || countdown(10));
                libc::pthread_sigmask(libc::SIG_UNBLOCK, &trap, &mut mask);
                let before = libc::signal(libc::SIGTRAP, libc::SIG_DFL);
                assert!(counted.is_ok());
                assert_eq!((libc::sigismember(&mask, libc::SIGTRAP), before), (1, libc::SIG_IGN));
            }
        });
    }

    #[cfg(target_arch = "aarch64")]
    #[test]
    fn exclusive_loads() {
        // ldxr x0, [x1]; ldaxr w0, [x1]; ldxp x0, x2, [x1]; ldaxrb w0, [x1]
        for word in [0xc85f_7c20, 0x885f_fc20, 0xc87f_0820, 0x085f_fc20] {
            assert!(is_load_exclusive(word), "{word:#x}");
        }
        // stxr w0, x2, [x1]; ldar x0, [x1]; cas x0, x2, [x1]; casp x0, x1, x2, x3, [x4]; ldr x0, [x1]
        for word in [0xc800_7c22, 0xc8df_fc20, 0xc8a0_7c22, 0x4820_7c82, 0xf940_0020] {
            assert!(!is_load_exclusive(word), "{word:#x}");
        }
    }
}
