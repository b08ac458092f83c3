//! Another process traces this thread and steps it, with `ptrace`. It works on each CPU that has a single step.
#![allow(unsafe_code)]

// The tracer is a child of this process, made for one count. It attaches to this thread, steps it from one marked function to
// another, and writes the count into memory that both have. While it steps it, this thread stops after each instruction, so
// there is no race between the two. If the tracer is killed, the kernel goes on with the steps, and the next one ends this process
// with SIGTRAP. So the tracer blocks all signals but SIGKILL.
//
// The child is a copy of this process with this thread alone. It may find locks that are held, so it only makes system calls.

use super::room::Room;
use super::turn::Turn;
use crate::StepError;
use std::arch::asm;
use std::cell::Cell;
use std::ffi::{c_int, c_long, c_void};
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};

/// The size of the memory that both processes have.
const SIZE: usize = 4_096;

/// What the tracer tells, in memory that both processes have. Zeros are valid.
#[derive(Debug)]
#[repr(C)]
struct Told {
    state: AtomicU32,
    errno: AtomicI32,
    count: AtomicU64,
    /// How many addresses were to be kept.
    placed: AtomicU64,
    /// Whether SIGTRAP has a handler. The kernel resets it if a step comes while SIGTRAP is blocked. Written before the tracer is there.
    has_handler: AtomicBool,
    /// Whether the code has SIGTRAP blocked when the count begins. The mask at the tracer's first stop may be that of a signal handler.
    blocks_trap: AtomicBool,
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
    /// The tracer, or 0 when it has ended.
    tracer: Cell<c_int>,
    /// The action of SIGTRAP. The kernel resets that of a step if it was blocked or ignored.
    action: libc::sigaction,
    /// The tracer writes there.
    room: Room,
    /// The thread that is traced.
    of_a_thread: PhantomData<*const ()>,
    /// The last field, so that the turn ends after everything is restored.
    turn: Turn,
}

/// The steps after this call count.
#[inline(never)]
pub(crate) fn start() {
    // SAFETY: changes a register that it names. It differs from the other mark, so that the linker does not make them one.
    unsafe { asm!("mov {0}, 21069", out(reg) _, options(nomem, nostack)) };
}

/// The steps before this call count.
#[inline(never)]
fn finish() {
    // SAFETY: as above.
    unsafe { asm!("mov {0}, 21070", out(reg) _, options(nomem, nostack)) };
}

impl Counting {
    /// Makes the tracer. It steps this thread when this returns.
    pub(crate) fn begin(limit: u64, mut room: Room) -> Result<Counting, (StepError, Room)> {
        let mut begun = match Counting::begin_without(limit, room.free()) {
            Ok(begun) => begun,
            Err(why) => return Err((why, room)),
        };
        begun.room = room;
        Ok(begun)
    }

    /// Does as `begin`, without the room: where the addresses are to be written, and how many fit.
    fn begin_without(limit: u64, places: (*mut usize, usize)) -> Result<Counting, StepError> {
        let turn = Turn::take()?;
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
            return Err(StepError::System { call: "mmap", errno: errno() });
        }
        let told: *const Told = told.cast();
        // SAFETY: structures of integers, addresses and functions that may be absent, for which zeros are valid.
        let (mut action, mut all, mut mask): (libc::sigaction, libc::sigset_t, libc::sigset_t) =
            unsafe { (mem::zeroed(), mem::zeroed(), mem::zeroed()) };
        // SAFETY: the pointers are valid during the calls, and the handler does nothing.
        unsafe {
            libc::sigaction(libc::SIGTRAP, ptr::null(), &mut action);
            if action.sa_sigaction == libc::SIG_IGN {
                let mut ours: libc::sigaction = mem::zeroed();
                ours.sa_sigaction = nothing();
                ours.sa_flags = libc::SA_RESTART;
                libc::sigaction(libc::SIGTRAP, &ours, ptr::null_mut());
            }
            (*told).has_handler.store(action.sa_sigaction != libc::SIG_DFL, Relaxed);
        }
        // SAFETY: the calls take no argument.
        let (this, thread, cpu) =
            unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid), libc::sched_getcpu()) };
        // SAFETY: the pointers are valid during the calls. The child makes system calls alone and ends, and a panic there would
        // abort it. It has the mask of this moment, so no handler runs in it: the signals that the C library keeps are sent to
        // threads. It uses no files of its own: a pipe that this process closes is closed.
        let child = unsafe {
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut mask);
            let child = libc::syscall(libc::SYS_clone, libc::CLONE_FILES, 0, 0, 0, 0);
            if child == 0 {
                stay_on(cpu);
                trace(this, thread, &*told, limit, places.0, places.1);
            }
            child
        };
        let refused = StepError::Refused { errno: errno() }; // too many processes, or an emulator
        // SAFETY: the mask of before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &mask, ptr::null_mut()) };
        // From here on, `drop` restores everything.
        let tracer = child.max(0) as c_int;
        let counting = Counting {
            limit,
            told,
            tracer: Cell::new(tracer),
            action,
            room: Room::NONE,
            of_a_thread: PhantomData,
            turn,
        };
        if child < 0 {
            return Err(refused);
        }
        // Where Yama restricts tracing, a child may trace its parent if the parent names it. Elsewhere the call fails.
        // SAFETY: a call with integers.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, tracer as libc::c_ulong, 0, 0, 0) };
        // SAFETY: the set is what the kernel returned.
        let blocks_trap = unsafe { libc::sigismember(&mask, libc::SIGTRAP) } == 1;
        counting.told().blocks_trap.store(blocks_trap, Relaxed);
        counting.told().state.store(ALLOWED, Release);
        // From the tracer's Release: it has written `errno`, or this thread is stepped.
        while counting.told().state.load(Acquire) == ALLOWED {
            // SAFETY: a call without arguments.
            unsafe { libc::sched_yield() };
            // A tracer that was killed tells nothing.
            if counting.is_ended(libc::WNOHANG) && counting.told().state.load(Acquire) == ALLOWED {
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

    /// Waits for the tracer's end. Also true in a child that was forked meanwhile, whose child it is not.
    fn is_ended(&self, options: c_int) -> bool {
        if self.tracer.get() != 0 && wait(self.tracer.get(), options) == Some(None) {
            return false;
        }
        self.tracer.set(0);
        true
    }

    /// Ends the steps, restores everything and returns the count, and the room with the addresses.
    pub(crate) fn end(mut self) -> (Result<u64, StepError>, Room) {
        finish();
        let limit = self.limit;
        self.is_ended(0);
        // After the tracer's end, so that it has written everything.
        let (state, count) = (self.told().state.load(Acquire), self.told().count.load(Relaxed));
        // A child that is forked meanwhile was not stepped.
        let is_stepped = self.turn.is_of_this_process();
        let mut room = mem::replace(&mut self.room, Room::NONE);
        // SAFETY: the tracer has written them, and has ended.
        unsafe { room.add(self.told().placed.load(Relaxed) as usize) };
        drop(self);
        let counted = match state {
            _ if !is_stepped => Err(StepError::Disturbed),
            COUNTED => Ok(count),
            TOO_LONG => Err(StepError::TooLong { limit }),
            EXCLUSIVE => Err(StepError::Exclusive),
            _ => Err(StepError::Disturbed),
        };
        (counted, room)
    }
}

impl Drop for Counting {
    /// Ends the tracer, also while a panic unwinds.
    fn drop(&mut self) {
        finish();
        self.is_ended(0);
        // SAFETY: what the kernel returned, an integer, and the mapping from `begin`, of which no reference is left.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            libc::sigaction(libc::SIGTRAP, ptr::null(), &mut action);
            if [libc::SIG_DFL, nothing()].contains(&action.sa_sigaction) {
                libc::sigaction(libc::SIGTRAP, &self.action, ptr::null_mut());
            }
            if self.turn.is_of_this_process() {
                libc::prctl(libc::PR_SET_PTRACER, 0, 0, 0, 0);
            }
            libc::munmap(self.told.cast_mut().cast(), SIZE);
        }
    }
}

/// Returns the handler in place of a SIGTRAP that is ignored: the kernel would reset that, and then one that the code sends would end the
/// process.
fn nothing() -> usize {
    extern "C" fn nothing(_: c_int) {}
    nothing as extern "C" fn(_) as usize
}

fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Waits for a child, or for a thread that is traced. Returns its status, if there is one yet. None if there is no such child.
///
/// Not by the C library, which may end a thread in this call.
fn wait(child: c_int, options: c_int) -> Option<Option<c_int>> {
    loop {
        let (mut status, options) = (0, options | libc::__WALL);
        // SAFETY: the pointer is valid during the call.
        let done =
            unsafe { libc::syscall(libc::SYS_wait4, child, &raw mut status, options, 0_usize) };
        match done {
            0 => return Some(None),
            -1 if errno() == libc::EINTR => {}
            -1 => return None,
            _ => return Some(Some(status)),
        }
    }
}

// What follows runs in the tracer.

/// `si_code` of a step. Old kernels for arm64 have that of a breakpoint in hardware, of which nothing here sets one.
const OF_A_STEP: [c_int; 2] = if cfg!(target_arch = "aarch64") { [2, 4] } else { [2, 2] };
/// That of a step whose instruction was a system call.
const AFTER_A_CALL: c_int = if cfg!(target_arch = "aarch64") { libc::SI_USER } else { 1 };
/// That of a stop at the first instruction of a signal handler.
const AT_A_HANDLER: c_int = libc::SIGTRAP;
const REGISTERS: c_long = 1; // NT_PRSTATUS

/// Keeps this process on the CPU on which the traced thread was last. The two never run at the same time, and one that is woken on another
/// CPU starts later: steps took up to four times as long.
fn stay_on(cpu: c_int) {
    const BITS: usize = u64::BITS as usize;
    let Ok(cpu) = usize::try_from(cpu) else { return };
    let mut mask = [0_u64; 8_192 / BITS];
    let Some(word) = mask.get_mut(cpu / BITS) else { return };
    *word = 1 << (cpu % BITS);
    // SAFETY: the mask is valid during the call. If the kernel refuses it, the process stays where it is.
    unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&mask), mask.as_ptr()) };
}

/// Steps a thread from one mark to the other, and ends this process.
extern "C" fn trace(
    parent: c_int,
    thread: c_long,
    told: &Told,
    limit: u64,
    places: *mut usize,
    capacity: usize,
) -> ! {
    // SAFETY: calls with integers.
    let is_orphan = || unsafe { libc::getppid() } != parent;
    // SAFETY: as above. If the thread dies, this process has nothing to do.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0) };
    // From its parent's Release: this process may attach.
    while told.state.load(Acquire) == BEGUN && !is_orphan() {
        // SAFETY: as above.
        unsafe { libc::sched_yield() };
    }
    let thread = Thread(thread);
    let has_attached = !is_orphan()
        && thread.request(PTRACE_SEIZE, 0, 0).is_some()
        && thread.request(PTRACE_INTERRUPT, 0, 0).is_some();
    if !has_attached {
        told.errno.store(errno(), Relaxed);
        told.state.store(REFUSED, Release);
    } else if let Some(first) = thread.stop() {
        told.state.store(ATTACHED, Release);
        thread.unblock_trap();
        let blocks_trap = told.blocks_trap.load(Relaxed); // from the parent's Release of ALLOWED
        let mut code = Code { handlers: 0, frame: 0, blocks_trap, is_held: false };
        let (end, mut signal) = step(&thread, first, told, limit, (places, capacity), &mut code);
        told.state.store(end, Release);
        if code.blocks_trap {
            thread.block_trap();
            if code.handlers > 0 {
                thread.block_trap_after(code.frame);
            }
            if signal == libc::SIGTRAP || code.is_held {
                // It waits there, as it would without a count.
                // SAFETY: a call with integers.
                unsafe { libc::syscall(libc::SYS_tgkill, parent, thread.0, libc::SIGTRAP) };
                signal = if signal == libc::SIGTRAP { 0 } else { signal };
            }
        }
        // It goes on at full speed, with the signal that has stopped it.
        thread.request(PTRACE_DETACH, 0, signal as usize);
    }
    // SAFETY: ends this process without running anything of its parent's.
    unsafe { libc::_exit(0) }
}

/// What the code does that is stepped.
struct Code {
    /// How many signal handlers run, one in the other, and the stack of the outermost one.
    handlers: u64,
    frame: u64,
    /// Whether it has SIGTRAP blocked, which the tracer unblocks.
    blocks_trap: bool,
    /// Whether a SIGTRAP came that it has blocked.
    is_held: bool,
}

/// Steps a thread until it reaches the second mark, or until its steps do not count. Returns the state to tell, and the signal
/// that the thread has not got yet.
fn step(
    thread: &Thread,
    first: Stop,
    told: &Told,
    limit: u64,
    (places, capacity): (*mut usize, usize),
    code: &mut Code,
) -> (u32, c_int) {
    let keep = |address: u64| {
        let placed = told.placed.fetch_add(1, Relaxed) as usize;
        if placed < capacity {
            // SAFETY: within the room of the thread that is traced, which both processes have: [`Room::to_step_into`]. Its owner reads it after this process's end.
            unsafe { places.add(placed).write(address as usize) };
        }
    };
    let (begin, end) = (start as fn() as usize as u64, finish as fn() as usize as u64);
    // Steps before the first mark and in signal handlers do not count, and do not go on for ever.
    let (mut count, mut others) = (None, 0_u64);
    let Code { handlers, frame, blocks_trap, is_held } = code;
    let mut stop = first;
    // Where the thread was at the last stop, whether its instruction there is a system call, and the signal it was given.
    let mut before: Option<(Place, bool, c_int)> = None;
    // Where the thread was after a system call. arm64 traps there once more, before the next instruction: the kernel reports the
    // call's step, and the CPU has a step of its own pending.
    let mut after_a_call = None;
    // A system call that was interrupted, and will be made again unless a handler prevents it.
    let mut interrupted = None;
    loop {
        let mut signal = 0;
        if !stop.is_by_job_control {
            let (Some((code, sender)), Some(place)) = (thread.code(), thread.place()) else {
                return (DISTURBED, stop.signal);
            };
            let is_trap = stop.signal == libc::SIGTRAP;
            let call = before.filter(|(_, is_call, _)| *is_call).map(|(place, ..)| place);
            // On x86-64, this is also the code of a step for which the CPU named no reason.
            let may_be = call.is_some() || cfg!(target_arch = "x86_64");
            let is_after_a_call = may_be && code == AFTER_A_CALL && sender == 0;
            if is_trap && (code == AT_A_HANDLER || enters_a_handler(before, place)) {
                if *handlers == 0 {
                    *frame = place.stack;
                }
                *handlers += 1;
                thread.unblock_trap(); // until it returns
            } else if is_trap
                && OF_A_STEP.contains(&code)
                && after_a_call.take() == Some(place.instruction)
            {
                // Nothing was executed.
            } else if is_trap && (OF_A_STEP.contains(&code) || is_after_a_call) {
                after_a_call = is_after_a_call.then_some(place.instruction);
                let is_return = call.is_some_and(|call| call.call() == libc::SYS_rt_sigreturn);
                let is_made_again = call.is_some_and(|call| call.instruction == place.instruction);
                if *handlers > 0 || count.is_none() {
                    others += 1;
                }
                if is_return && *handlers > 0 {
                    *handlers -= 1;
                    // The call ends here, in place of being made again.
                    let after: Option<u64> = interrupted.take();
                    let ends_here = *handlers == 0 && after == Some(place.instruction);
                    if let (true, Some(known)) = (ends_here, count) {
                        keep(place.instruction - CALL_LENGTH);
                        count = Some(known + 1);
                    }
                } else if *handlers == 0 {
                    interrupted = is_made_again.then(|| place.instruction + CALL_LENGTH);
                    if let (false, Some(known)) = (is_made_again, count) {
                        keep(before.map_or(0, |(executed, ..)| executed.instruction));
                        count = Some(known + 1);
                    }
                }
            } else if is_trap && call.is_some() {
                // The kernel keeps one SIGTRAP at a time, so that of the step is lost.
                if *handlers == 0 || !*blocks_trap {
                    return (DISTURBED, stop.signal);
                }
                *is_held = true;
            } else if is_trap && *blocks_trap {
                *is_held = true;
            } else if is_trap
                && before
                    .is_some_and(|(place_before, ..)| place_before.instruction != place.instruction)
            {
                // As above. It was sent while the thread executed an instruction.
                return (DISTURBED, stop.signal);
            } else {
                // Before the signal has its effect. The thread has executed nothing.
                signal = stop.signal;
            }
            if *is_held && *handlers == 0 {
                return (DISTURBED, 0);
            }
            let Some(next) = thread.word(place.instruction) else {
                return (DISTURBED, signal);
            };
            let is_call = is_system_call(next);
            if signal == 0 {
                if place.instruction == end {
                    // Not if a handler left for here.
                    return match count {
                        Some(count) if *handlers == 0 => {
                            told.count.store(count, Relaxed);
                            (COUNTED, 0)
                        }
                        _ => (DISTURBED, 0),
                    };
                }
                if place.instruction == begin {
                    count = Some(0);
                }
                if count.is_some_and(|count| count >= limit) {
                    return (TOO_LONG, 0);
                }
                if others > limit.saturating_add(10_000) || is_call && is_forbidden(place) {
                    return (DISTURBED, 0);
                }
                if is_call {
                    let has_handler = told.has_handler.load(Relaxed);
                    let change = thread.mask_of_trap(place);
                    let resets_handler =
                        change == Some(true) || thread.blocks_trap_meanwhile(place);
                    if has_handler && resets_handler || *blocks_trap && keeps_mask(place) {
                        return (DISTURBED, 0);
                    }
                    if *handlers == 0 {
                        *blocks_trap = change.unwrap_or(*blocks_trap); // a handler's return restores it
                    }
                }
                if count.is_some() && is_load_exclusive(next) {
                    return (EXCLUSIVE, 0);
                }
            }
            before = Some((place, is_call, signal));
        }
        // A thread that SIGSTOP has stopped stays so until it is continued.
        let is_stopped = stop.is_by_job_control && stop.signal != libc::SIGTRAP;
        let request = if is_stopped { PTRACE_LISTEN } else { PTRACE_SINGLESTEP };
        if thread.request(request, 0, signal as usize).is_none() {
            return (DISTURBED, signal);
        }
        match thread.stop() {
            Some(next) => stop = next,
            None => return (DISTURBED, 0),
        }
    }
}

/// Whether a thread has come from here to a signal handler by a step, as kernels for arm64 before 5.8 do it. The frame of the
/// signal is more than 4 KiB, or is on another stack.
fn enters_a_handler(before: Option<(Place, bool, c_int)>, now: Place) -> bool {
    cfg!(target_arch = "aarch64")
        && before.is_some_and(|(before, _, signal)| {
            signal != 0 && before.stack.abs_diff(now.stack) > 4_096
        })
}

/// Whether nothing is stepped from this system call on: it replaces the program, or the action of SIGTRAP, which the kernel resets, or sends
/// what looks like a step.
fn is_forbidden(place: Place) -> bool {
    let [first, second, third, ..] = place.arguments;
    let is_trap = |signal: u64| signal as c_int == libc::SIGTRAP;
    match place.call() {
        libc::SYS_execve | libc::SYS_execveat => true,
        libc::SYS_rt_sigaction => is_trap(first) && second != 0,
        libc::SYS_rt_sigqueueinfo => is_trap(second),
        libc::SYS_rt_tgsigqueueinfo => is_trap(third),
        _ => false,
    }
}

/// Whether the code gets its mask from this system call, in which SIGTRAP is not blocked.
fn keeps_mask(place: Place) -> bool {
    place.call() == libc::SYS_rt_sigprocmask && place.arguments[2] != 0
}

const PTRACE_PEEKTEXT: c_long = 1;
const PTRACE_POKETEXT: c_long = 4;
const PTRACE_SINGLESTEP: c_long = 9;
const PTRACE_DETACH: c_long = 17;
const PTRACE_GETSIGINFO: c_long = 0x4202;
const PTRACE_GETREGSET: c_long = 0x4204;
const PTRACE_SEIZE: c_long = 0x4206;
const PTRACE_INTERRUPT: c_long = 0x4207;
const PTRACE_LISTEN: c_long = 0x4208;
const PTRACE_GETSIGMASK: c_long = 0x420a;
const PTRACE_SETSIGMASK: c_long = 0x420b;
/// SIGTRAP in the kernel's mask of 64 signals.
const TRAP: u64 = 1 << (libc::SIGTRAP - 1);

/// The thread that is traced.
struct Thread(c_long);

/// Why it has stopped.
#[derive(Clone, Copy)]
struct Stop {
    signal: c_int,
    is_by_job_control: bool,
}

/// The instruction that it executes next, its stack, and if that is a system call, which, and its arguments.
#[derive(Clone, Copy)]
struct Place {
    instruction: u64,
    stack: u64,
    number: u64,
    arguments: [u64; 6],
}

impl Place {
    /// Returns the number of the system call. The kernel takes the lower half.
    fn call(&self) -> c_long {
        c_long::from(self.number as c_int)
    }
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
        let status = wait(self.0 as c_int, 0)??;
        libc::WIFSTOPPED(status)
            .then(|| Stop { signal: libc::WSTOPSIG(status), is_by_job_control: status >> 16 != 0 })
    }

    /// Returns the code of the signal that stopped it, and the process that sent it, if the code is that of one.
    fn code(&self) -> Option<(c_int, c_int)> {
        // SAFETY: a structure of integers, for which zeros are valid.
        let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
        self.request(PTRACE_GETSIGINFO, 0, &raw mut info as usize)?;
        // SAFETY: the kernel has filled the structure, and each part of it is an integer.
        Some((info.si_code, if info.si_code <= 0 { unsafe { info.si_pid() } } else { 0 }))
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
        let (place, number) = ((registers.pc, registers.sp), *registers.regs.get(8)?);
        #[cfg(target_arch = "aarch64")]
        let arguments = *registers.regs.first_chunk()?;
        #[cfg(target_arch = "x86_64")]
        let (place, number) = ((registers.rip, registers.rsp), registers.rax);
        #[cfg(target_arch = "x86_64")]
        let arguments = {
            let it = registers;
            [it.rdi, it.rsi, it.rdx, it.r10, it.r8, it.r9]
        };
        let (instruction, stack) = place;
        Some(Place { instruction, stack, number, arguments })
    }

    /// Returns the mask of blocked signals.
    fn mask(&self) -> Option<u64> {
        let mut mask = 0_u64;
        self.request(PTRACE_GETSIGMASK, size_of_val(&mask), &raw mut mask as usize)?;
        Some(mask)
    }

    fn set_mask(&self, mask: u64) {
        self.request(PTRACE_SETSIGMASK, size_of_val(&mask), &raw const mask as usize);
    }

    fn unblock_trap(&self) {
        if let Some(mask) = self.mask().filter(|mask| mask & TRAP != 0) {
            self.set_mask(mask & !TRAP);
        }
    }

    fn block_trap(&self) {
        if let Some(mask) = self.mask() {
            self.set_mask(mask | TRAP);
        }
    }

    /// Blocks SIGTRAP in the mask to which the handler returns whose frame is there.
    fn block_trap_after(&self, frame: u64) {
        // The layout of the kernel's structure.
        let place = frame as usize + if cfg!(target_arch = "aarch64") { 168 } else { 304 };
        let mut mask = 0_u64;
        if self.request(PTRACE_PEEKTEXT, place, &raw mut mask as usize).is_some() {
            self.request(PTRACE_POKETEXT, place, (mask | TRAP) as usize);
        }
    }

    fn has_trap(&self, set: u64) -> Option<bool> {
        Some(self.word(set)? & TRAP as u32 != 0)
    }

    /// Whether SIGTRAP is blocked during this system call.
    fn blocks_trap_meanwhile(&self, place: Place) -> bool {
        let [first, .., fourth, fifth, sixth] = place.arguments;
        let set = match place.call() {
            libc::SYS_rt_sigsuspend => first,
            libc::SYS_ppoll => fourth,
            libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => fifth,
            libc::SYS_pselect6 if sixth != 0 => {
                let mut set = 0_u64;
                self.request(PTRACE_PEEKTEXT, sixth as usize, &raw mut set as usize);
                set
            }
            _ => 0,
        };
        set != 0 && self.has_trap(set) == Some(true)
    }

    /// Returns whether SIGTRAP is blocked after this system call. None if the call does not change that.
    fn mask_of_trap(&self, place: Place) -> Option<bool> {
        let [how, set, _, size, ..] = place.arguments;
        if place.call() != libc::SYS_rt_sigprocmask || set == 0 || size != 8 {
            return None;
        }
        let has_trap = self.has_trap(set)?;
        match how as c_int {
            libc::SIG_BLOCK => has_trap.then_some(true),
            libc::SIG_UNBLOCK => has_trap.then_some(false),
            libc::SIG_SETMASK => Some(has_trap),
            _ => None,
        }
    }

    /// Returns the four bytes there, the first one lowest. Behind an instruction that is shorter, others follow.
    fn word(&self, instruction: u64) -> Option<u32> {
        let (start, bits) = (instruction & !7, 8 * (instruction & 7));
        let (mut low, mut high) = (0_u64, 0_u64);
        self.request(PTRACE_PEEKTEXT, start as usize, &raw mut low as usize)?;
        if bits > 32 {
            // The next page may be absent. Then the instruction ends before it.
            let _ = self.request(PTRACE_PEEKTEXT, start as usize + 8, &raw mut high as usize);
        }
        let [low, high] = [low, high].map(|bytes| u128::from(u64::from_le(bytes)));
        Some(((high << 64 | low) >> bits) as u32)
    }
}

/// The length of a system call's instruction.
const CALL_LENGTH: u64 = if cfg!(target_arch = "aarch64") { 4 } else { 2 };

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
    use super::super::check::{ROUND, countdown};
    use super::*;
    use std::collections::BTreeMap;
    use std::hint::black_box;
    use std::sync::Mutex;

    /// Two cannot count at the same time.
    static TURN: Mutex<()> = Mutex::new(());

    fn in_turn(test: impl FnOnce()) {
        let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match Counting::begin(1_000, Room::NONE)
            .map_err(|(why, _)| why)
            .and_then(|counting| counting.end().0)
        {
            Err(why @ StepError::Refused { .. }) => {
                // Past the test runner's capture, for `.ci/parts/tests`.
                let line = format!("\ntest tracer ... skipped ({why})\n");
                let _ = std::io::Write::write_all(&mut io::stderr(), line.as_bytes());
            }
            _ => test(),
        }
    }

    fn traced(limit: u64, code: &mut dyn FnMut()) -> Result<u64, StepError> {
        traced_into(limit, Room::NONE, code).0
    }

    fn traced_into(
        limit: u64,
        room: Room,
        code: &mut dyn FnMut(),
    ) -> (Result<u64, StepError>, Room) {
        let counting = match Counting::begin(limit, room) {
            Ok(counting) => counting,
            Err((why, room)) => return (Err(why), room),
        };
        start();
        code();
        counting.end()
    }

    #[test]
    fn known_code() {
        in_turn(|| {
            let count = |rounds| traced(1_000, &mut || countdown(rounds)).unwrap();
            for _ in 0..20 {
                assert_eq!(count(51) - count(1), 50 * ROUND);
            }
        });
    }

    /// A handler that leaves by another way, a restarted call, a forked child, and a SIGTRAP that the code sends.
    #[test]
    fn never_a_wrong_count() {
        static MARK: AtomicU64 = AtomicU64::new(0);
        extern "C" fn on_signal(_: c_int) {
            MARK.fetch_add(1, Relaxed);
        }
        in_turn(|| {
            // SAFETY: the calls take integers.
            let mut raise = || unsafe { assert_eq!(libc::raise(libc::SIGTRAP), 0) };
            // SAFETY: the handler is async-signal-safe.
            unsafe {
                libc::signal(libc::SIGTRAP, on_signal as extern "C" fn(_) as libc::sighandler_t)
            };
            let calls = MARK.load(Relaxed);
            assert_eq!(traced(100_000, &mut raise), Err(StepError::Disturbed));
            assert_eq!(MARK.load(Relaxed), calls + 1);
            // SAFETY: the default.
            unsafe { libc::signal(libc::SIGTRAP, libc::SIG_DFL) };

            let counting = Counting::begin(100_000, Room::NONE).ok().unwrap();
            start();
            // SAFETY: the child makes system calls and atomic operations alone.
            let child = unsafe { libc::fork() };
            let counted = counting.end().0;
            if child == 0 {
                // SAFETY: ends the child.
                unsafe { libc::_exit(i32::from(counted != Err(StepError::Disturbed))) };
            }
            assert!(counted.is_ok());
            assert_eq!(wait(child, 0), Some(Some(0)));
        });
    }

    /// Makes a system call fail in this process from here on.
    fn refuse(call: c_long, errno: c_int) {
        let [load, is_equal, result] = [0x20, 0x15, 0x06]; // of a word, jump, return
        let filter = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        let mut filters = [
            filter(load, 0, 0, 0), // the call's number
            filter(is_equal, 0, 1, call as u32),
            filter(result, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
            filter(result, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: 4, filter: filters.as_mut_ptr() };
        // SAFETY: the kernel copies the program.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program), 0);
        }
    }

    /// Each system call refused: an error, the code has not run, and nothing is left.
    #[test]
    fn refused_calls() {
        let refused = |errno| Err(StepError::Refused { errno });
        let mmap = Err(StepError::System { call: "mmap", errno: libc::ENOMEM });
        in_turn(|| {
            for (call, errno, expected) in [
                (libc::SYS_mmap, libc::ENOMEM, mmap),
                (libc::SYS_clone, libc::EAGAIN, refused(libc::EAGAIN)),
                (libc::SYS_ptrace, libc::EPERM, refused(libc::EPERM)),
            ] {
                // SAFETY: the child allocates at most what its own copy of the allocator has, and ends.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    refuse(call, errno);
                    let mut has_run = false;
                    let is_refused = traced(100, &mut || has_run = true) == expected && !has_run;
                    // Neither a child nor the turn is left. The last call shows the same again.
                    let is_clean = wait(-1, libc::WNOHANG).is_none();
                    let again = traced(100, &mut || has_run = true) == expected;
                    // SAFETY: ends the child.
                    unsafe { libc::_exit(i32::from(!(is_refused && is_clean && again))) };
                }
                assert_eq!(wait(child, 0), Some(Some(0)), "{expected:?}");
            }
        });
    }

    /// A tracer that may not choose its CPU counts all the same.
    #[test]
    fn a_refused_affinity() {
        in_turn(|| {
            // SAFETY: the child allocates at most what its own copy of the allocator has, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                refuse(libc::SYS_sched_setaffinity, libc::EPERM);
                let count = |rounds| traced(1_000, &mut || countdown(rounds)).unwrap_or(0);
                let (one, more) = (count(1), count(51));
                // SAFETY: ends the child.
                unsafe { libc::_exit(i32::from(one == 0 || more != one + 50 * ROUND)) };
            }
            assert_eq!(wait(child, 0), Some(Some(0)));
        });
    }

    /// Instructions of a run, by this module and by the trap flag.
    #[cfg(target_arch = "x86_64")]
    fn agree(name: &str, code: &dyn Fn()) {
        use super::super::x86_64_trap_flag as trap_flag;
        // The same instructions for both.
        #[inline(never)]
        fn repeat(runs: u64, code: &dyn Fn()) {
            (0..runs).for_each(|_| code());
        }
        let by_the_trap_flag = |runs: u64| {
            let counting =
                trap_flag::Counting::begin(100_000, Room::to_step_into(100_000).unwrap())
                    .ok()
                    .unwrap();
            trap_flag::start();
            repeat(runs, code);
            counted(counting.end())
        };
        let by_a_tracer = |runs: u64| {
            let room = Room::to_step_into(100_000).unwrap();
            counted(traced_into(100_000, room, &mut || repeat(runs, code)))
        };
        // How often each instruction has run. There is an address for each one that counts.
        fn counted((count, room): (Result<u64, StepError>, Room)) -> (u64, BTreeMap<usize, i64>) {
            let mut runs = BTreeMap::new();
            room.addresses().iter().for_each(|address| *runs.entry(*address).or_default() += 1);
            assert_eq!(count, Ok(room.addresses().len() as u64));
            (count.unwrap(), runs)
        }
        type Counts = (u64, BTreeMap<usize, i64>);
        let difference = |(more, mut places): Counts, (less, others): Counts| {
            for (address, runs) in others {
                *places.entry(address).or_default() -= runs;
            }
            places.retain(|_, runs| *runs != 0);
            (more - less, places)
        };
        let _ = (by_the_trap_flag(1), by_a_tracer(1));
        let expected = difference(by_the_trap_flag(4), by_the_trap_flag(2));
        assert_eq!(difference(by_a_tracer(4), by_a_tracer(2)), expected, "{name}");
        assert!(expected.0 > 4, "{name}: {expected:?}");
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

    /// The program is not harmed, and each method counts the same, or not at all.
    #[test]
    fn hostile_code() {
        use rdpmc_testing::hostile::{KINDS, Method, Stepper, attempt};
        fn told(counted: Result<u64, StepError>) -> Result<Option<u64>, String> {
            match counted {
                Ok(count) => Ok(Some(count)),
                Err(StepError::Disturbed) => Ok(None),
                Err(why) => Err(why.to_string()),
            }
        }
        let by_tracer: Method<'_> = &|limit, code| told(traced(limit, code));
        #[cfg(target_arch = "x86_64")]
        let by_trap_flag: Method<'_> = &|limit, code| {
            use super::super::x86_64_trap_flag as trap_flag;
            let counting = trap_flag::Counting::begin(limit, Room::NONE)
                .map_err(|(why, _)| why.to_string())?;
            trap_flag::start();
            code();
            told(counting.end().0)
        };
        let steppers: &[Stepper<'_>] = &[
            #[cfg(target_arch = "x86_64")]
            ("by the trap flag", by_trap_flag, |kind| kind.by_trap_flag),
            ("by a tracer", by_tracer, |kind| kind.by_tracer),
        ];
        in_turn(|| {
            let failed: Vec<String> =
                KINDS.iter().filter_map(|kind| attempt(*kind, steppers).err()).collect();
            assert!(
                failed.is_empty(),
                "{} of {}:\n{}",
                failed.len(),
                KINDS.len(),
                failed.join("\n")
            );
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
