//! x86-64 has a trap flag, bit 8 of the flags. While it is set, the CPU traps after each instruction.
#![allow(unsafe_code)]

// The kernel clears the flag while a signal handler runs, and has it in the flags that the handler returns to. So handlers
// run at full speed and do not count.
//
// A trap comes after an instruction, with these exceptions:
// - A trap comes after each repetition of an instruction with a `rep` prefix. It counts when the next instruction is another.
// - A system call leaves the flags in `r11`. The handler removes the flag there, after the instruction behind the call.
// - No trap comes after `syscall`: the CPU clears the flag on entry, and the kernel returns with it set, so the next trap is that
//   of the instruction that follows. `syscall` counts when it is next.
// - `pushf` pushes the flag, and `popf` may clear it. So the handler removes it from what was pushed. It adds it to what is popped, and
//   removes it there after the `popf`. Otherwise flags that the code keeps for later, as switches between fibers do, would trap after
//   the count.
// - No trap comes after an instruction that the kernel executes itself: `cli` and `sti` after `iopl`, and `sidt` and its like.
// - No trap comes after `mov ss` and `int`, nor between two system calls without an instruction in between. `iret` may clear the flag.
//   The trap after `icebp` is the program's. Nothing is counted from there on.
//
// A trap of a thread that blocks SIGTRAP ends the process. A new thread or process inherits the flag, and the C library blocks
// all signals while it starts one. So the handler clears the flag before a system call of this kind.

use super::room::Room;
use super::turn::Turn;
use crate::StepError;
use std::arch::asm;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize};

const TRAP_FLAG: u64 = 1 << 8;
/// `si_code` of a step, and of a trap for which the CPU names no reason (debug register 6 is 0). An `icebp` is such a trap. A step is
/// one, rarely, on virtual machines whose host loses the reason: it ended 3 of 60 processes of a test of `rdpmc-bench`. The trap flag tells
/// steps from the others: no `icebp` executes while it is set.
const TRAP_TRACE: c_int = 2;
const TRAP_BRKPT: c_int = 1;
/// That of a signal that was sent to this thread, and not to the process.
const SI_TKILL: c_int = -6;
/// SIGTRAP in the kernel's set of 64 signals.
const TRAP: u64 = 1 << (libc::SIGTRAP - 1);
/// The size of the handler's stack. A frame with all registers of AVX-512 and AMX takes some 11 KiB.
const SIZE: usize = 64 << 10;
/// A page without access is below the stack.
const GUARD: usize = 4 << 10;
/// The handler's stack, above its guard page. It is mapped once, and not allocated, because that would change what the counted
/// code finds.
static STACK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The thread that is counting, or 0. What follows belongs to it.
static THREAD: AtomicI32 = AtomicI32::new(0);
static COUNT: AtomicU64 = AtomicU64::new(0);
static LIMIT: AtomicU64 = AtomicU64::new(0);
/// The instruction that executes next.
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// Where the addresses of counted instructions go, how many fit, and how many there were.
static PLACES: AtomicPtr<usize> = AtomicPtr::new(ptr::null_mut());
static CAPACITY: AtomicUsize = AtomicUsize::new(0);
static PLACED: AtomicUsize = AtomicUsize::new(0);
/// The traps of repetitions, which do not count.
static REPETITIONS: AtomicU64 = AtomicU64::new(0);
/// The address behind the `pushf` of the code that executes next, or 0.
static PUSHED: AtomicUsize = AtomicUsize::new(0);
/// The address of flags with the trap flag, which a `popf` of the code pops next, or 0.
static POPPED: AtomicUsize = AtomicUsize::new(0);
/// The address behind the last system call that was seen before it executed.
static BEHIND_CALL: AtomicUsize = AtomicUsize::new(0);
/// The flags with which it executed, which it leaves in a register.
static FLAGS_OF_CALL: AtomicU64 = AtomicU64::new(0);
/// Whether the count ends: its own `pushf` and `popf` are left alone.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Whether this thread blocked SIGTRAP before, and the code has not changed that. It is blocked again when the steps end.
static WAS_BLOCKED: AtomicBool = AtomicBool::new(false);
/// Whether one was waiting before. It is sent again at the end.
static IS_HELD: AtomicBool = AtomicBool::new(false);
/// Whether a SIGTRAP came that was no step, or an instruction or a system call after which nothing may be stepped.
static IS_DISTURBED: AtomicBool = AtomicBool::new(false);
/// The page that was readable when its bytes were looked at last. Only a system call can change that.
static READABLE: AtomicUsize = AtomicUsize::new(0);
/// The handler before ours, for signals that are no steps. The highest bit, which no address has, tells that it takes three
/// arguments.
static BEFORE: AtomicUsize = AtomicUsize::new(0);
const TAKES_THREE: usize = 1 << 63;
/// All of that action, to be restored.
static ACTION: Action = Action(UnsafeCell::new(None));
struct Action(UnsafeCell<Option<libc::sigaction>>);
// SAFETY: the owner of the turn alone uses it: see `remember`.
unsafe impl Sync for Action {}

/// Sets the trap flag. Each instruction after `popfq` traps.
#[inline(never)]
pub(crate) fn start() {
    // SAFETY: sets a flag that makes this thread trap. The handler of the trap is installed. The stack is as it was. Without
    // `nomem`, what was written for the handler is written before.
    unsafe {
        asm!("pushfq", "or qword ptr [rsp], {flag}", "popfq", flag = const TRAP_FLAG as i32);
    }
}

/// Clears the trap flag. Returns whether it was set.
#[inline(never)]
fn clear_trap_flag() -> bool {
    IS_ENDING.store(true, Relaxed);
    let flags: u64;
    // SAFETY: clears a flag that this file alone sets. The stack is as it was. Without `nomem`, what the handler has
    // written is read afterwards.
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
    action: Option<libc::sigaction>,
    stack: Option<libc::stack_t>,
    room: Room,
    /// The flag and the stack are those of a thread.
    of_a_thread: PhantomData<*const ()>,
    /// The last field, so that the turn ends after everything is restored.
    _turn: Turn,
}

impl Counting {
    /// Installs the handler of steps. The trap flag is not set yet.
    pub(crate) fn begin(limit: u64, room: Room) -> Result<Counting, (StepError, Room)> {
        let turn = match Turn::take() {
            Ok(turn) => turn,
            Err(why) => return Err((why, room)),
        };
        let (action, stack, of_a_thread) = (None, None, PhantomData);
        let mut begun = Counting { limit, action, stack, room, of_a_thread, _turn: turn };
        match begun.install() {
            Ok(()) => Ok(begun),
            Err(why) => Err((why, mem::replace(&mut begun.room, Room::NONE))),
        }
    }

    /// Installs the handler.
    fn install(&mut self) -> Result<(), StepError> {
        let begun = self;
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
        // SAFETY: the pointers are valid during the calls. The mapping is this thread's signal stack until `drop` restores the old
        // one, and no other thread's, because one thread counts at a time.
        unsafe {
            if libc::sigaltstack(ptr::null(), &mut old_stack) != 0 {
                return Err(failed("sigaltstack"));
            }
            if old_stack.ss_flags & libc::SS_ONSTACK != 0 {
                return Err(StepError::OnASignalStack);
            }
            // The program's own stack stays if it is large enough: handlers may rely on its size.
            if old_stack.ss_flags & libc::SS_DISABLE != 0 || old_stack.ss_size < SIZE {
                let ss_sp = stack().ok_or_else(|| failed("mmap"))?;
                let stack = libc::stack_t { ss_sp, ss_flags: 0, ss_size: SIZE };
                if libc::sigaltstack(&stack, ptr::null_mut()) != 0 {
                    return Err(failed("sigaltstack"));
                }
                begun.stack = Some(old_stack);
            }
        }
        ours.sa_sigaction = handler();
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        NEXT.store(0, Relaxed);
        COUNT.store(0, Relaxed);
        REPETITIONS.store(0, Relaxed);
        PUSHED.store(0, Relaxed);
        POPPED.store(0, Relaxed);
        BEHIND_CALL.store(0, Relaxed);
        IS_ENDING.store(false, Relaxed);
        WAS_BLOCKED.store(false, Relaxed);
        IS_HELD.store(false, Relaxed);
        LIMIT.store(begun.limit, Relaxed);
        let (places, capacity) = begun.room.free();
        PLACES.store(places, Relaxed);
        CAPACITY.store(capacity, Relaxed);
        PLACED.store(0, Relaxed);
        IS_DISTURBED.store(false, Relaxed);
        READABLE.store(0, Relaxed);
        THREAD.store(thread(), Relaxed);
        // SAFETY: the pointers are valid during the calls. The handler is async-signal-safe: it uses atomics, and calls that are.
        unsafe {
            libc::sigfillset(&mut ours.sa_mask);
            // A fault in the handler, and a system call that seccomp refuses, go to their handlers.
            for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGSYS] {
                libc::sigdelset(&mut ours.sa_mask, fault);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &mut old_mask);
            if libc::sigaction(libc::SIGTRAP, ptr::null(), &mut old) != 0 {
                return Err(failed("sigaction"));
            }
            let before = remember(&old);
            if libc::sigaction(libc::SIGTRAP, &ours, ptr::null_mut()) != 0 {
                return Err(failed("sigaction"));
            }
            begun.action = Some(before);
            libc::sigemptyset(&mut trap);
            libc::sigaddset(&mut trap, libc::SIGTRAP);
            // Before a pending one is taken.
            WAS_BLOCKED.store(libc::sigismember(&old_mask, libc::SIGTRAP) == 1, Relaxed);
            let errno = libc::pthread_sigmask(libc::SIG_UNBLOCK, &trap, ptr::null_mut());
            if errno != 0 {
                WAS_BLOCKED.store(false, Relaxed);
                return Err(StepError::System { call: "pthread_sigmask", errno });
            }
        }
        Ok(())
    }

    /// Clears the trap flag, restores everything and returns the count, and the room with the addresses.
    pub(crate) fn end(mut self) -> (Result<u64, StepError>, Room) {
        // A tracer that came meanwhile may have taken signals.
        let was_set = clear_trap_flag() && super::check::tracer().is_none();
        let (limit, count) = (self.limit, COUNT.load(Relaxed));
        let is_too_long = count + REPETITIONS.load(Relaxed) >= limit;
        let is_whole = was_set && !IS_DISTURBED.load(Relaxed);
        let mut room = mem::replace(&mut self.room, Room::NONE);
        // SAFETY: the handler has written them, and is called no more.
        unsafe { room.add(PLACED.load(Relaxed)) };
        drop(self);
        let counted = match is_whole {
            _ if is_too_long => Err(StepError::TooLong { limit }),
            true => Ok(count),
            false => Err(StepError::Disturbed),
        };
        (counted, room)
    }
}

impl Drop for Counting {
    /// Restores everything, also while a panic unwinds, with the trap flag set until here.
    fn drop(&mut self) {
        clear_trap_flag();
        // SAFETY: structures of integers, addresses and functions that may be absent, for which zeros are valid. The calls take
        // what the kernel returned, and the pointers are valid during the calls. Nothing traps any more.
        unsafe {
            let mut trap: libc::sigset_t = mem::zeroed();
            libc::sigaddset(&mut trap, libc::SIGTRAP);
            if WAS_BLOCKED.load(Relaxed) {
                libc::pthread_sigmask(libc::SIG_BLOCK, &trap, ptr::null_mut());
            }
            THREAD.store(0, Relaxed); // one that comes before this is still held
            // What the code has set stays.
            let (mut action, mut stack): (libc::sigaction, libc::stack_t) =
                (mem::zeroed(), mem::zeroed());
            libc::sigaction(libc::SIGTRAP, ptr::null(), &mut action);
            libc::sigaltstack(ptr::null(), &mut stack);
            if let Some(before) = self.action.filter(|_| action.sa_sigaction == handler()) {
                libc::sigaction(libc::SIGTRAP, &before, ptr::null_mut());
            }
            if let Some(before) = self.stack.filter(|_| stack.ss_sp == STACK.load(Relaxed)) {
                libc::sigaltstack(&before, ptr::null_mut());
            }
            if IS_HELD.load(Relaxed) {
                libc::raise(libc::SIGTRAP);
            }
        }
    }
}

/// Returns the address of the handler.
fn handler() -> usize {
    on_trap as unsafe extern "C" fn(_, _, _) as usize
}

/// Returns the handler's stack. None if it cannot be mapped.
fn stack() -> Option<*mut c_void> {
    let known = STACK.load(Relaxed);
    if !known.is_null() {
        return Some(known);
    }
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, which is never memory of Rust's, and then a part of it.
    let stack = unsafe {
        let start = libc::mmap(ptr::null_mut(), GUARD + SIZE, access, flags, -1, 0);
        if start == libc::MAP_FAILED {
            return None;
        }
        libc::mprotect(start, GUARD, libc::PROT_NONE);
        start.byte_add(GUARD)
    };
    STACK.store(stack, Relaxed);
    Some(stack)
}

/// Returns the thread's number.
fn thread() -> c_int {
    // SAFETY: the call takes no argument.
    unsafe { libc::syscall(libc::SYS_gettid) as c_int }
}

/// Keeps the action before ours, and returns it. Ours is there already in a child that was forked meanwhile, and if a thread has ended
/// within a count: then it is the one that was kept.
///
/// # Safety
/// The caller has the turn.
unsafe fn remember(found: &libc::sigaction) -> libc::sigaction {
    if found.sa_sigaction != handler() {
        let takes_three = found.sa_flags & libc::SA_SIGINFO != 0;
        let flag = if takes_three { TAKES_THREE } else { 0 };
        BEFORE.store(found.sa_sigaction | flag, Release);
        // SAFETY: the turn's owner alone uses it.
        unsafe { *ACTION.0.get() = Some(*found) };
    }
    // SAFETY: as above.
    unsafe { *ACTION.0.get() }.unwrap_or(*found)
}

/// Counts a step.
///
/// # Safety
/// The arguments are those that the kernel passes to a handler.
unsafe extern "C" fn on_trap(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let is_counted = THREAD.load(Relaxed) == thread();
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the kernel's arguments are valid while this runs. The registers overlap nothing else.
    let (code, registers) = unsafe { ((*info).si_code, &mut (*context).uc_mcontext.gregs) };
    let mut registers = Registers(registers);
    // The C library's set is longer than the kernel's, behind which is what `info` leads to.
    // SAFETY: within the kernel's structure.
    let mask = unsafe { (&raw mut (*context).uc_sigmask).cast::<u64>() };
    // A handler of the code has none.
    let is_stepped = registers.has_trap_flag();
    let is_step = code == TRAP_TRACE || code == TRAP_BRKPT && registers.has_trap_flag();
    if !is_step {
        if is_counted {
            IS_DISTURBED.store(true, Relaxed);
            registers.clear_trap_flag();
            hide_popped();
            // The kernel drops the trap of a step while another SIGTRAP is pending.
            if PUSHED.swap(0, Relaxed) == registers.get(libc::REG_RIP) as usize {
                set_on_stack(registers.get(libc::REG_RSP) as usize, false);
            }
            let is_sent = code <= 0;
            if is_sent && WAS_BLOCKED.load(Relaxed) {
                if NEXT.load(Relaxed) == 0 {
                    return IS_HELD.store(true, Relaxed); // the steps have not begun
                }
                // It waits there, and the code may unblock it. In a handler of the code, the return brings back the mask from before.
                WAS_BLOCKED.store(!is_stepped, Relaxed);
                // SAFETY: the set of 64 signals to which the kernel returns, and calls with integers.
                return unsafe {
                    *mask |= TRAP;
                    match code {
                        SI_TKILL => _ = libc::raise(signal),
                        _ => _ = libc::kill(libc::getpid(), signal), // another thread may wait for it
                    }
                };
            }
        }
        // SAFETY: the kernel's arguments, and nothing follows.
        unsafe { pass_on(signal, info, context.cast(), is_counted) };
    } else if !is_counted {
        registers.clear_trap_flag(); // a thread or a child that has inherited it
    } else {
        step(&mut registers);
        if !registers.has_trap_flag() && WAS_BLOCKED.swap(false, Relaxed) {
            // SAFETY: the set of 64 signals to which the kernel returns.
            unsafe { *mask |= TRAP };
        }
    }
}

/// Counts the instruction that has executed, and looks at the next one.
fn step(registers: &mut Registers<'_>) {
    let next = registers.get(libc::REG_RIP) as usize;
    let executed = NEXT.swap(next, Relaxed);
    let count = COUNT.load(Relaxed);
    let stack = registers.get(libc::REG_RSP) as usize;
    hide_popped();
    // A signal handler may have gone elsewhere than to the `pushf`.
    let is_kept = match PUSHED.swap(0, Relaxed) {
        0 => false,
        pushed => pushed != next || !set_on_stack(stack, false),
    };
    hide_from_call(executed, registers);
    let is_unseen = has_made_an_unseen_call(next, registers);
    let mut pops = false;
    let (counted, is_disturbed) = match Next::at(next) {
        Next::Repeated if next == executed => (0, false),
        Next::Other | Next::Repeated => (1, false),
        Next::SystemCall => {
            let after = next.wrapping_add(SYSTEM_CALL.len());
            NEXT.store(after, Relaxed);
            BEHIND_CALL.store(after, Relaxed);
            FLAGS_OF_CALL.store(registers.get(libc::REG_EFL) as u64, Relaxed);
            let is_steppable = matches!(Next::at(after), Next::Other | Next::Repeated);
            if unblocks_trap(registers) {
                WAS_BLOCKED.store(false, Relaxed);
            }
            READABLE.store(0, Relaxed); // the call may change that
            (2, is_forbidden(registers) || !is_steppable)
        }
        Next::PushFlags { behind } => {
            PUSHED.store(if IS_ENDING.load(Relaxed) { 0 } else { behind }, Relaxed);
            (1, false)
        }
        Next::PopFlags => {
            pops = !IS_ENDING.load(Relaxed);
            (1, false)
        }
        Next::Unsteppable => (1, true),
    };
    let mut is_disturbed = is_disturbed || is_kept || is_unseen || !registers.are_of_64_bits();
    COUNT.store(count + counted, Relaxed);
    if counted > 0 {
        keep(executed);
    }
    if counted > 1 {
        keep(next); // the system call
    }
    // The limit is one of traps: a repetition takes as long as an instruction.
    let repetitions = REPETITIONS.load(Relaxed) + u64::from(counted == 0);
    REPETITIONS.store(repetitions, Relaxed);
    let is_last = count + counted + repetitions >= LIMIT.load(Relaxed);
    if pops && !is_disturbed && !is_last {
        POPPED.store(stack, Relaxed);
        is_disturbed = !set_on_stack(stack, true);
    }
    IS_DISTURBED.fetch_or(is_disturbed, Relaxed);
    if is_disturbed || is_last {
        registers.clear_trap_flag();
        hide_popped();
    }
}

/// Removes the trap flag from the flags that a system call has left in a register, if the instruction behind it has executed.
fn hide_from_call(executed: usize, registers: &mut Registers<'_>) {
    let is_behind = executed == BEHIND_CALL.load(Relaxed);
    let flags = registers.0.get_mut(libc::REG_R11 as usize);
    if let Some(flags) = flags.filter(|_| is_behind) {
        if *flags as u64 == FLAGS_OF_CALL.load(Relaxed) {
            *flags &= !(TRAP_FLAG as i64);
        }
    }
}

/// Whether the instruction before this one was a system call that was not seen before: a signal handler went there, so two instructions had
/// one trap. A system call leaves the address behind it in a register.
fn has_made_an_unseen_call(next: usize, registers: &Registers<'_>) -> bool {
    const LONGEST: usize = 15; // the bytes of an instruction
    let behind = registers.get(libc::REG_RCX) as usize;
    let is_near = (1..=LONGEST).contains(&next.wrapping_sub(behind));
    is_near
        && behind != BEHIND_CALL.load(Relaxed)
        && SYSTEM_CALL
            .iter()
            .rev()
            .zip(1..)
            .all(|(known, before)| byte(behind.wrapping_sub(before)) == Some(*known))
}

/// Keeps the address of a counted instruction, if there is room.
fn keep(address: usize) {
    let placed = PLACED.load(Relaxed);
    PLACED.store(placed + 1, Relaxed);
    if placed < CAPACITY.load(Relaxed) {
        // SAFETY: within the room of the thread that counts, which is this one.
        unsafe { PLACES.load(Relaxed).add(placed).write(address) };
    }
}

/// Removes the trap flag from the flags that a `popf` has popped, or does not pop with it any more.
fn hide_popped() {
    match POPPED.swap(0, Relaxed) {
        0 => {}
        stack => _ = set_on_stack(stack, false),
    }
}

/// The instruction that executes next.
enum Next {
    /// It traps once.
    Other,
    /// It has a `rep` prefix, and is one that repeats.
    Repeated,
    /// `syscall`.
    SystemCall,
    /// `pushf`, which shows the trap flag. The address of the instruction behind it.
    PushFlags { behind: usize },
    /// `popf`, which may clear the trap flag.
    PopFlags,
    /// `int`, `iret`, `icebp`, `mov ss`, `pushf` and `popf` of 16 bits, `ud2`, from which a signal handler goes elsewhere, one that the kernel
    /// executes itself, or one whose bytes cannot be read: the page is absent, or a protection key forbids it.
    Unsteppable,
}

const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];

impl Next {
    fn at(address: usize) -> Next {
        // What may precede the operation. 0x40 to 0x4f come last.
        const OTHER_PREFIXES: [u8; 8] = [0x67, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65, 0xf0];
        let (start, mut address) = (address, address);
        let (mut is_repeated, mut is_short) = (false, false);
        for _ in 0..15 {
            let Some(first) = byte(address) else { return Next::Unsteppable };
            address = address.wrapping_add(1);
            match first {
                0xf2 | 0xf3 => is_repeated = true,
                // ins, outs, movs, cmps, stos, lods, scas
                0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf if is_repeated => return Next::Repeated,
                0xcd | 0xcf | 0xf1 | 0xfa | 0xfb => return Next::Unsteppable,
                // Half of the flags. The other bytes of the word are not this instruction's.
                0x9c | 0x9d if is_short => return Next::Unsteppable,
                0x9c => return Next::PushFlags { behind: address },
                0x9d => return Next::PopFlags,
                // The second byte of these has the register, or the rest of the operation.
                0x8e | 0x0f => {
                    return match byte(address) {
                        Some(second) if [first, second] == SYSTEM_CALL => {
                            let has_prefix = address != start.wrapping_add(1);
                            if has_prefix { Next::Unsteppable } else { Next::SystemCall }
                        }
                        Some(second) if first == 0x8e && second >> 3 & 7 == 2 => Next::Unsteppable,
                        Some(0x0b) if first == 0x0f => Next::Unsteppable,
                        Some(second @ (0 | 1)) if first == 0x0f => {
                            let operands = byte(address.wrapping_add(1));
                            let is_emulated = operands.is_none_or(|byte| is_emulated(second, byte));
                            if is_emulated { Next::Unsteppable } else { Next::Other }
                        }
                        Some(_) => Next::Other,
                        None => Next::Unsteppable,
                    };
                }
                0x40..=0x4f => {}
                0x66 => is_short = true,
                prefix if OTHER_PREFIXES.contains(&prefix) => {}
                _ => return Next::Other,
            }
        }
        Next::Unsteppable
    }
}

/// Whether the kernel executes this instruction of group 6 or 7 where the CPU refuses it (UMIP), and no trap comes: `sldt`, `str`, `sgdt`,
/// `sidt` or `smsw`.
fn is_emulated(group: u8, operands: u8) -> bool {
    let (is_memory, operation) = (operands >> 6 != 3, operands >> 3 & 7);
    match (group, operation) {
        (0, 0 | 1) | (1, 4) => true,
        (1, 0 | 1) => is_memory,
        _ => false,
    }
}

/// Sets or clears the trap flag in flags on the stack. Returns whether that was possible.
fn set_on_stack(stack: usize, is_set: bool) -> bool {
    const BIT: u8 = (TRAP_FLAG >> 8) as u8;
    let address = stack.wrapping_add(1);
    let (Some(_), Some(flags)) = (byte(stack.wrapping_add(7)), byte(address)) else {
        return false;
    };
    let wanted = if is_set { flags | BIT } else { flags & !BIT };
    if flags == wanted {
        return true;
    }
    // SAFETY: the eight bytes can be read: `byte` has read from each page.
    let before = unsafe { (stack as *const u64).read_unaligned() };
    // The kernel writes the mask of blocked signals there, or finds that it cannot.
    // SAFETY: `before` has what these eight bytes had. They hold the flags that an instruction of this thread pushes or pops, so no other
    // thread uses them, and this one is here.
    if unsafe { sigprocmask(i64::from(libc::SIG_BLOCK), 0, stack) } != 0 {
        return false;
    }
    // SAFETY: the kernel has written to these eight bytes, and they get back what they had, but for the flag.
    unsafe {
        (stack as *mut u64).write_unaligned(before);
        (address as *mut u8).write(wanted);
    }
    true
}

/// Returns a byte of the program. None if it cannot be read.
fn byte(address: usize) -> Option<u8> {
    /// No such way to change a signal mask exists. The kernel reads the new mask before it says so, and changes nothing.
    const NO_CHANGE: i64 = -1;
    let page = address & !0xfff | 1;
    if READABLE.load(Relaxed) != page {
        // SAFETY: nothing is written.
        let answer = unsafe { sigprocmask(NO_CHANGE, address & !7, 0) };
        if answer != -i64::from(libc::EINVAL) {
            return None;
        }
        READABLE.store(page, Relaxed);
    }
    // SAFETY: the kernel has read from this page, and no system call came since.
    Some(unsafe { (address as *const u8).read() })
}

/// `rt_sigprocmask`, not by the C library, which would write the `errno` of the counted code. Reads eight bytes at `new`, and writes eight
/// at `old`, unless they are 0.
///
/// # Safety
/// Eight bytes at `old` may be written, if it is not 0.
unsafe fn sigprocmask(how: i64, new: usize, old: usize) -> i64 {
    let result: i64;
    // SAFETY: the caller's promise. The kernel checks both addresses.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") libc::SYS_rt_sigprocmask => result,
            in("rdi") how,
            in("rsi") new,
            in("rdx") old,
            in("r10") 8,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result
}

/// Whether this system call unblocks SIGTRAP.
fn unblocks_trap(registers: &Registers<'_>) -> bool {
    const BIT: u8 = 1 << (libc::SIGTRAP - 1);
    let [how, number] =
        [libc::REG_RDI, libc::REG_RAX].map(|register| registers.get(register) as i32);
    let mask = registers.get(libc::REG_RSI) as usize;
    i64::from(number) == libc::SYS_rt_sigprocmask
        && how == libc::SIG_UNBLOCK
        && registers.get(libc::REG_R10) == 8
        && mask != 0
        && byte(mask).is_some_and(|byte| byte & BIT != 0)
}

/// It may be that the handler's own system calls send a signal then.
const PR_SET_SYSCALL_USER_DISPATCH: c_int = 59;

/// Whether nothing may be stepped after this system call: it starts a thread or a process, blocks signals, or replaces the
/// handler, changes what system calls do, or sends what looks like a step.
fn is_forbidden(registers: &Registers<'_>) -> bool {
    let second = registers.get(libc::REG_RSI);
    // The kernel takes the lower halves of these.
    let [first, number] =
        [libc::REG_RDI, libc::REG_RAX].map(|register| registers.get(register) as i32);
    match i64::from(number) {
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork => true,
        libc::SYS_execve | libc::SYS_execveat | libc::SYS_ptrace | libc::SYS_seccomp => true,
        // They send a SIGTRAP that looks like a step.
        libc::SYS_rt_sigqueueinfo | libc::SYS_rt_tgsigqueueinfo => true,
        libc::SYS_prctl => [libc::PR_SET_SECCOMP, PR_SET_SYSCALL_USER_DISPATCH].contains(&first),
        // The code may keep the mask from before, in which SIGTRAP would not be blocked.
        libc::SYS_rt_sigprocmask => {
            let is_kept = registers.get(libc::REG_RDX) != 0 && WAS_BLOCKED.load(Relaxed);
            is_kept || second != 0 && first != libc::SIG_UNBLOCK
        }
        libc::SYS_rt_sigaction => second != 0 && first == libc::SIGTRAP,
        libc::SYS_sigaltstack => registers.get(libc::REG_RDI) != 0,
        _ => false,
    }
}

/// The registers of the code that was interrupted.
struct Registers<'a>(&'a mut [i64; 23]);

impl Registers<'_> {
    fn get(&self, register: c_int) -> i64 {
        self.0.get(register as usize).copied().unwrap_or(0)
    }

    /// Whether the code is 64-bit code: that of 32 bits has other instructions.
    fn are_of_64_bits(&self) -> bool {
        const USER_CS: i64 = 0x33;
        self.get(libc::REG_CSGSFS) & 0xffff == USER_CS
    }

    fn has_trap_flag(&self) -> bool {
        self.get(libc::REG_EFL) & TRAP_FLAG as i64 != 0
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
unsafe fn pass_on(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    is_counted: bool,
) {
    let before = BEFORE.load(Acquire);
    let place = before & !TAKES_THREE;
    match place {
        libc::SIG_DFL | libc::SIG_IGN => {}
        _ if before & TAKES_THREE != 0 => {
            type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
            // SAFETY: it was installed with SA_SIGINFO, so it is a function of this type.
            let handler: Handler = unsafe { mem::transmute(place) };
            // SAFETY: the arguments are the kernel's, and the kernel would call the handler now.
            return unsafe { handler(signal, info, context) };
        }
        _ => {
            // SAFETY: it was installed without SA_SIGINFO, so it is a function of this type.
            let handler: unsafe extern "C" fn(c_int) = unsafe { mem::transmute(place) };
            // SAFETY: the argument is the kernel's, and the kernel would call the handler now.
            return unsafe { handler(signal) };
        }
    }
    // SAFETY: the kernel's argument, which has a sender if the code is that of a signal that a process has sent.
    let (is_sent, sender) = unsafe { ((*info).si_code <= 0, (*info).si_pid()) };
    // A breakpoint cannot be ignored. A probe of the kernel (uprobe) in the code sends SIGTRAP in this process's name for each
    // step, and has no other effect.
    // SAFETY: the call takes no argument.
    let is_by_a_probe =
        is_counted && unsafe { (*info).si_code == libc::SI_USER && sender == libc::getpid() };
    if is_sent && (place == libc::SIG_IGN || is_by_a_probe) {
        return;
    }
    // SAFETY: the default action is valid, and the signal is blocked until this handler returns.
    unsafe {
        let default: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, &default, ptr::null_mut());
        libc::raise(signal);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::*;

    /// What the kernel passes to the handler before the instruction at this place.
    fn trap(reason: c_int, place: *const u8) -> (libc::siginfo_t, libc::ucontext_t) {
        // SAFETY: structures of integers and addresses, for which zeros are valid.
        let (mut info, mut context): (libc::siginfo_t, libc::ucontext_t) = unsafe { mem::zeroed() };
        (info.si_signo, info.si_code) = (libc::SIGTRAP, reason);
        let registers = &mut context.uc_mcontext.gregs;
        registers[libc::REG_RIP as usize] = place as i64;
        registers[libc::REG_EFL as usize] = TRAP_FLAG as i64;
        registers[libc::REG_CSGSFS as usize] = 0x33;
        (info, context)
    }

    /// A step without a reason cannot be provoked: 2.3 million steps of one process had none. So the test calls the handler with what the
    /// kernel passed where one came. It does so in a child, which has a turn of its own.
    #[test]
    fn a_step_without_a_reason_is_a_step() {
        let right = || {
            let code: [u8; 6] = [0x90, 0xf1, 0xf3, 0xf1, 0x48, 0x90];
            let _counting = Counting::begin(100, Room::NONE).ok().unwrap();
            let after = |reason, at: usize| {
                let (mut info, mut context) = trap(reason, code.as_ptr().wrapping_add(at));
                // SAFETY: the arguments have the types of the kernel's, and live during the call.
                unsafe { on_trap(libc::SIGTRAP, &mut info, ptr::from_mut(&mut context).cast()) };
                let is_stepped = Registers(&mut context.uc_mcontext.gregs).has_trap_flag();
                (COUNT.load(Relaxed), is_stepped, IS_DISTURBED.load(Relaxed))
            };
            // Nothing is stepped from an `icebp` on, also behind a prefix, so the trap after it comes without the flag.
            let steps = [(TRAP_TRACE, 0), (TRAP_BRKPT, 4), (TRAP_BRKPT, 1), (TRAP_TRACE, 2)]
                .map(|(reason, at)| after(reason, at));
            let expected = [(1, true, false), (2, true, false), (3, false, true), (4, false, true)];
            steps == expected
        };
        // SAFETY: the child calls nothing but this library and `_exit`, and has one thread.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(i32::from(!right()));
            }
            let mut status = -1;
            libc::waitpid(child, &mut status, 0);
            status
        };
        assert_eq!(status, 0, "1 << 8 if a step is wrong");
    }
}
