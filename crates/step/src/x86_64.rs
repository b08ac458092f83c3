//! x86-64: the trap flag, bit 8 of the flags. While it is set, the CPU traps after each instruction.
#![allow(unsafe_code)]

// The kernel clears the flag while a signal handler runs, and has it in the flags that the handler returns to. So handlers
// run at full speed and do not count.
//
// A trap comes after an instruction, except in two cases:
// - After each repetition of an instruction with a `rep` prefix. It counts when the next instruction is another.
// - Not after `syscall`: the CPU clears the flag on entry, and the kernel returns with it set, so the next trap is that of the
//   instruction that follows. `syscall` counts when it is next.
//
// A trap of a thread that blocks SIGTRAP ends the process. A new thread or process inherits the flag, and the C library blocks
// all signals while it starts one. So the handler clears the flag before a system call of this kind.

use crate::StepError;
use std::arch::asm;
use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::Read;
use std::marker::PhantomData;
use std::mem;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize};

const TRAP_FLAG: u64 = 1 << 8;
/// `si_code` of a step.
const TRAP_TRACE: c_int = 2;
/// The size of the handler's stack. A frame with all registers of AVX-512 and AMX takes some 11 KiB.
const SIZE: usize = 64 << 10;
/// The handler's stack. Nothing here allocates memory, because that would change what the counted code finds.
static STACK: Stack = Stack(UnsafeCell::new([0; SIZE]));

#[repr(align(64))]
struct Stack(UnsafeCell<[u8; SIZE]>);

// SAFETY: only the kernel writes it, as the signal stack of the thread that counts.
unsafe impl Sync for Stack {}

/// The process in which a thread is counting, or 0. The handler's state belongs to that thread. A child that is forked
/// meanwhile has its parent's number here: it goes on without the flag, and may count by itself.
static PROCESS: AtomicI32 = AtomicI32::new(0);
static COUNT: AtomicU64 = AtomicU64::new(0);
static LIMIT: AtomicU64 = AtomicU64::new(0);
/// The instruction that executes next.
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// Whether a SIGTRAP came that was no step, or a system call after which nothing may be stepped.
static IS_DISTURBED: AtomicBool = AtomicBool::new(false);
/// The action before ours, for signals that are no steps. It is never freed, because a handler may run on another thread.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    /// Whether this is the thread that is counting. It needs no destructor.
    static IS_COUNTING: Cell<bool> = const { Cell::new(false) };
}

/// Checks that steps can be counted here, and once that they are counted right.
pub(crate) fn check() -> Result<(), StepError> {
    static IS_EXACT: AtomicBool = AtomicBool::new(false);
    if let Some(tracer) = tracer() {
        return Err(StepError::Traced { tracer });
    }
    if IS_EXACT.load(Relaxed) {
        return Ok(());
    }
    let counted = |rounds: u64| count(1_000, &mut || countdown(rounds));
    counted(1)?;
    let (one, more) = (counted(1)?, counted(51)?);
    if more.checked_sub(one) != Some(2 * 50) {
        return Err(StepError::Inexact);
    }
    IS_EXACT.store(true, Relaxed);
    Ok(())
}

/// Runs rounds of two instructions.
#[inline(never)]
fn countdown(rounds: u64) {
    // SAFETY: counts in a register.
    unsafe { asm!("2: dec {0}", "jnz 2b", inout(reg) rounds => _, options(nomem, nostack)) };
}

/// Returns the process that traces this one. None if there is none, or if `/proc` does not tell.
fn tracer() -> Option<u32> {
    let mut status = [0; 1_024];
    let length = File::open("/proc/self/status").ok()?.read(&mut status).ok()?;
    // The name of the program, in the first line, may be no text.
    let mut lines = status.get(..length)?.split(|byte| *byte == b'\n');
    let line = lines.find_map(|line| line.strip_prefix(b"TracerPid:"))?;
    std::str::from_utf8(line).ok()?.trim().parse().ok().filter(|tracer| *tracer != 0)
}

/// Counts the instructions of `code` and of its call.
fn count(limit: u64, code: &mut dyn FnMut()) -> Result<u64, StepError> {
    let counting = Counting::begin(limit)?;
    set_trap_flag();
    code();
    counting.end()
}

/// Sets the trap flag. Each instruction after `popfq` traps.
#[inline(never)]
pub(crate) fn set_trap_flag() {
    // SAFETY: sets a flag that makes this thread trap. The handler of the trap is installed. The stack is as it was.
    unsafe {
        asm!("pushfq", "or qword ptr [rsp], {flag}", "popfq", flag = const TRAP_FLAG as i32);
    }
}

/// Clears the trap flag. Returns whether it was set.
#[inline(never)]
fn clear_trap_flag() -> bool {
    let flags: u64;
    // SAFETY: clears a flag that no other code than this uses. The stack is as it was.
    unsafe {
        asm!(
            "pushfq",
            "mov {flags}, [rsp]",
            "and qword ptr [rsp], {others}",
            "popfq",
            flags = out(reg) flags,
            others = const !(TRAP_FLAG as i32),
        );
    }
    flags & TRAP_FLAG != 0
}

/// What was there before, to be restored: the action of SIGTRAP, this thread's signal mask, and its signal stack.
#[derive(Debug)]
pub(crate) struct Counting {
    limit: u64,
    process: c_int,
    action: Option<libc::sigaction>,
    mask: Option<libc::sigset_t>,
    stack: Option<libc::stack_t>,
    /// The flag and the stack are those of a thread.
    of_a_thread: PhantomData<*const ()>,
}

impl Counting {
    /// Installs the handler of steps. The trap flag is not set yet.
    pub(crate) fn begin(limit: u64) -> Result<Counting, StepError> {
        let (this, owner) = (process(), PROCESS.load(SeqCst));
        if owner == this || PROCESS.compare_exchange(owner, this, SeqCst, SeqCst).is_err() {
            return Err(StepError::Busy);
        }
        let stack = libc::stack_t { ss_sp: STACK.0.get().cast(), ss_flags: 0, ss_size: SIZE };
        let mut begun = Counting {
            limit,
            process: this,
            action: None,
            mask: None,
            stack: None,
            of_a_thread: PhantomData,
        };
        let failed = |call| {
            let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            StepError::System { call, errno }
        };
        // SAFETY: structures of integers, addresses and functions that may be absent, for which zeros are valid.
        let (mut old_stack, mut old, mut ours): (libc::stack_t, libc::sigaction, libc::sigaction) =
            unsafe { (mem::zeroed(), mem::zeroed(), mem::zeroed()) };
        // SAFETY: as above.
        let (mut trap, mut old_mask): (libc::sigset_t, libc::sigset_t) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        // SAFETY: the pointers are valid during the call. The memory is this thread's signal stack until `drop` restores the
        // old one, and no other thread's, because one thread counts at a time.
        if unsafe { libc::sigaltstack(&stack, &mut old_stack) } != 0 {
            return Err(failed("sigaltstack"));
        }
        begun.stack = Some(old_stack);
        ours.sa_sigaction = on_trap as unsafe extern "C" fn(_, _, _) as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        NEXT.store(0, Relaxed);
        COUNT.store(0, Relaxed);
        LIMIT.store(limit, Relaxed);
        IS_DISTURBED.store(false, Relaxed);
        IS_COUNTING.set(true);
        // SAFETY: the pointers are valid during the calls. The handler is async-signal-safe: it uses atomics, a thread-local
        // that exists, and calls that are.
        unsafe {
            libc::sigfillset(&mut ours.sa_mask);
            if libc::sigaction(libc::SIGTRAP, ptr::null(), &mut old) != 0 {
                return Err(failed("sigaction"));
            }
            remember(old);
            if libc::sigaction(libc::SIGTRAP, &ours, &mut old) != 0 {
                return Err(failed("sigaction"));
            }
            begun.action = Some(old);
            libc::sigemptyset(&mut trap);
            libc::sigaddset(&mut trap, libc::SIGTRAP);
            match libc::pthread_sigmask(libc::SIG_UNBLOCK, &trap, &mut old_mask) {
                0 => begun.mask = Some(old_mask),
                errno => return Err(StepError::System { call: "pthread_sigmask", errno }),
            }
        }
        Ok(begun)
    }

    /// Clears the trap flag, restores everything and returns the count.
    pub(crate) fn end(self) -> Result<u64, StepError> {
        let was_set = clear_trap_flag();
        let limit = self.limit;
        let (count, is_whole) = (COUNT.load(Relaxed), was_set && !IS_DISTURBED.load(Relaxed));
        drop(self);
        match is_whole {
            _ if count >= limit => Err(StepError::TooLong { limit }),
            true => Ok(count),
            false => Err(StepError::Disturbed),
        }
    }
}

impl Drop for Counting {
    /// Restores everything, also while a panic unwinds, with the trap flag set until here.
    fn drop(&mut self) {
        clear_trap_flag();
        IS_COUNTING.set(false);
        // SAFETY: the calls take what the kernel returned, and the pointers are valid during the calls. Nothing traps any more.
        unsafe {
            if let Some(mask) = &self.mask {
                libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut());
            }
            if let Some(action) = &self.action {
                libc::sigaction(libc::SIGTRAP, action, ptr::null_mut());
            }
            if let Some(stack) = &self.stack {
                libc::sigaltstack(stack, ptr::null_mut());
            }
        }
        // In a child that was forked meanwhile, the number is the parent's, or that of a counting of its own.
        if PROCESS.load(SeqCst) == self.process {
            PROCESS.store(0, SeqCst);
        }
    }
}

/// Keeps the action before ours for the handler. Ours is there already in a child that was forked meanwhile.
fn remember(before: libc::sigaction) {
    if before.sa_sigaction == on_trap as unsafe extern "C" fn(_, _, _) as usize {
        return;
    }
    let known = BEFORE.load(Acquire);
    let is_known = |known: &libc::sigaction| {
        (known.sa_sigaction, known.sa_flags) == (before.sa_sigaction, before.sa_flags)
    };
    // SAFETY: null, or from a Box that is never freed.
    if !unsafe { known.as_ref() }.is_some_and(is_known) {
        BEFORE.swap(Box::into_raw(Box::new(before)), AcqRel);
    }
}

/// Returns the process number, also in a child that shares this memory.
fn process() -> c_int {
    // SAFETY: the call takes no argument.
    unsafe { libc::getpid() }
}

/// Counts a step.
///
/// # Safety
/// The arguments are those that the kernel passes to a handler.
unsafe extern "C" fn on_trap(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let is_counted = IS_COUNTING.get() && PROCESS.load(Relaxed) == process();
    // SAFETY: the kernel's arguments are valid while this runs.
    let (is_step, registers) = unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        ((*info).si_code == TRAP_TRACE, registers)
    };
    let mut registers = Registers(registers);
    if !is_step {
        IS_DISTURBED.fetch_or(is_counted, Relaxed);
        // SAFETY: the kernel's arguments, and nothing follows.
        unsafe { pass_on(signal, info, context) };
    } else if !is_counted {
        registers.clear_trap_flag(); // a thread or a child that has inherited it
    } else {
        step(&mut registers);
    }
}

/// Counts the instruction that has executed, and looks at the next one.
fn step(registers: &mut Registers<'_>) {
    let next = registers.get(libc::REG_RIP) as usize;
    let executed = NEXT.swap(next, Relaxed);
    let instruction = next as *const u8;
    let is_repeated = next == executed && is_rep(instruction);
    let mut count = COUNT.load(Relaxed) + u64::from(!is_repeated);
    if is_syscall(instruction) && is_forbidden(registers) {
        IS_DISTURBED.store(true, Relaxed);
        registers.clear_trap_flag();
    }
    let mut instruction = instruction;
    while is_syscall(instruction) {
        count += 1;
        instruction = instruction.wrapping_add(SYSCALL.len());
        NEXT.store(instruction.addr(), Relaxed);
    }
    COUNT.store(count, Relaxed);
    if count >= LIMIT.load(Relaxed) {
        registers.clear_trap_flag();
    }
}

/// Whether an instruction has a `rep` prefix, possibly after others.
fn is_rep(instruction: *const u8) -> bool {
    const OTHERS: [u8; 9] = [0x66, 0x67, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65, 0xf0];
    for place in 0..4 {
        // SAFETY: the CPU has executed this instruction, and each byte before this one is a prefix of it.
        match unsafe { instruction.add(place).read() } {
            0xf2 | 0xf3 => return true,
            byte if OTHERS.contains(&byte) => {}
            _ => return false,
        }
    }
    false
}

const SYSCALL: [u8; 2] = [0x0f, 0x05];

fn is_syscall(instruction: *const u8) -> bool {
    let [first, second] = SYSCALL;
    // SAFETY: the CPU executes this instruction next, or after system calls. One that begins with this byte has a second.
    unsafe { instruction.read() == first && instruction.add(1).read() == second }
}

/// Whether nothing may be stepped after this system call: it starts a thread or a process, blocks signals, or replaces the
/// handler.
fn is_forbidden(registers: &Registers<'_>) -> bool {
    let [first, second] = [libc::REG_RDI, libc::REG_RSI].map(|register| registers.get(register));
    match registers.get(libc::REG_RAX) {
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork => true,
        libc::SYS_rt_sigprocmask => second != 0 && first != i64::from(libc::SIG_UNBLOCK),
        libc::SYS_rt_sigaction => second != 0 && first == i64::from(libc::SIGTRAP),
        libc::SYS_sigaltstack => first != 0,
        _ => false,
    }
}

/// The registers of the code that was interrupted.
struct Registers<'a>(&'a mut [i64; 23]);

impl Registers<'_> {
    fn get(&self, register: c_int) -> i64 {
        self.0.get(register as usize).copied().unwrap_or(0)
    }

    fn clear_trap_flag(&mut self) {
        if let Some(flags) = self.0.get_mut(libc::REG_EFL as usize) {
            *flags &= !(TRAP_FLAG as i64);
        }
    }
}

/// Takes the action before ours, for a signal that is no step.
///
/// # Safety
/// The arguments are those that the kernel passed to the handler, which does nothing after this call.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: null, or from a Box that is never freed.
    let before = unsafe { BEFORE.load(Acquire).as_ref() };
    match before {
        Some(before) if !matches!(before.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN) => {
            let place = before.sa_sigaction;
            if before.sa_flags & libc::SA_SIGINFO != 0 {
                type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
                // SAFETY: it was installed with SA_SIGINFO, so it is a function of this type.
                let handler: Handler = unsafe { mem::transmute(place) };
                // SAFETY: the arguments are the kernel's, and the kernel would call the handler now.
                unsafe { handler(signal, info, context) };
            } else {
                // SAFETY: it was installed without SA_SIGINFO, so it is a function of this type.
                let handler: unsafe extern "C" fn(c_int) = unsafe { mem::transmute(place) };
                // SAFETY: the argument is the kernel's, and the kernel would call the handler now.
                unsafe { handler(signal) };
            }
        }
        _ => {
            // SAFETY: the default action is valid, and the signal is blocked until this handler returns.
            unsafe {
                let default: libc::sigaction = mem::zeroed();
                libc::sigaction(signal, &default, ptr::null_mut());
                libc::raise(signal);
            }
        }
    }
}
