//! Code of known size is counted exactly, and what cannot be counted is an error.

use crate::in_turn;
use rdpmc_step::{StepError, count, seconds_per_step};
use rdpmc_testing::process::{fork, wait};
use std::arch::asm;
use std::hint::black_box;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Returns the instructions of a round.
fn per_round(code: &dyn Fn(u64)) -> u64 {
    let of = |rounds: u64| count(1_000_000, || code(rounds)).unwrap();
    of(1); // links functions
    let difference = of(20) - of(10);
    assert_eq!(difference % 10, 0);
    difference / 10
}

/// Loops around instructions: `rounds` is in r12, and each round ends with two more instructions.
macro_rules! rounds {
    ($($line:literal),* $(; $($name:ident = $value:expr),*)?) => {
        |rounds: u64| {
            // SAFETY: the instructions change the registers named here, and memory that the test owns.
            unsafe {
                asm!("2:", $($line,)* "dec r12", "jnz 2b", inout("r12") rounds => _,
                    $($($name = in(reg) $value,)*)?
                    out("rax") _, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _, out("r8") _,
                    out("r9") _, out("r10") _, out("r11") _);
            }
        }
    };
}

#[test]
fn instructions_of_known_code() {
    in_turn(|| {
        assert_eq!(per_round(&rounds!()), 2);
        assert_eq!(per_round(&rounds!("nop", "pushfq", "popfq")), 5);
        // getpid
        assert_eq!(per_round(&rounds!("mov eax, 39", "syscall")), 4);
    });
}

#[test]
fn a_step_takes_time() {
    in_turn(|| {
        let seconds = seconds_per_step().unwrap();
        assert!(seconds.is_finite() && seconds >= 1e-9, "{seconds}");
    });
}

#[test]
fn repeated_instructions_count_once() {
    in_turn(|| {
        let (from, mut to) = ([7_u8; 100], [0_u8; 100]);
        let (source, target) = (from.as_ptr(), to.as_mut_ptr());
        let copy = rounds!("mov rsi, {source}", "mov rdi, {target}", "mov ecx, 100", "rep movsb";
            source = source, target = target);
        assert_eq!(per_round(&copy), 6);
        assert_eq!(black_box(&to), &from);
        let none = rounds!("mov rsi, {source}", "mov rdi, {target}", "mov ecx, 0", "rep movsb", "rep movsw";
            source = source, target = target);
        assert_eq!(per_round(&none), 7);
        let words = rounds!("mov rsi, {source}", "mov rdi, {target}", "mov ecx, 50", "rep movsw", "mov eax, 39", "syscall";
            source = source, target = target);
        assert_eq!(per_round(&words), 8);
        // A prefix of an instruction that does not repeat, although the next one is at the same place: a return in a recursion.
        macro_rules! recursion {
            ($return:literal) => {
                rounds!(
                    "mov ecx, 3",
                    "call 3f",
                    "jmp 4f",
                    "3:",
                    "dec ecx",
                    "js 5f",
                    "call 3b",
                    "5:",
                    $return,
                    "4:"
                )
            };
        }
        let [plain, rep] =
            [per_round(&recursion!("ret")), per_round(&recursion!(".byte 0xf3, 0xc3"))];
        assert_eq!((plain, rep), (20, 20));
        let scan = rounds!("mov rdi, {source}", "mov ecx, 100", "mov al, 7", "repe scasb"; source = source);
        assert_eq!(per_round(&scan), 6);
    });
}

/// Instructions with something special about them. Each round has two more.
#[test]
fn instructions_of_each_kind() {
    in_turn(|| {
        let memory = [0_u64; 1_024];
        // XSAVE needs 64 bytes of alignment, and zeros where it does not write.
        let area = (memory.as_ptr() as usize + 63) & !63;
        let (_pages, code) = code_before_an_absent_page(&[
            0xb8, 0, 0, 0, 0, 0xc3, // mov eax, 0; ret
            0xc6, 0x05, 0, 0, 0, 0, 0x90, // mov byte ptr [rip], 0x90
            0xf4, 0xc3, // hlt, replaced by a nop; ret
        ]);
        let (rewritten, last) = (code + 6, code + 14);
        type Case<'a> = (&'a str, &'a dyn Fn(u64), u64);
        let all: [Case<'_>; 23] = [
            ("a CPU's name", &rounds!("push rbx", "xor eax, eax", "cpuid", "pop rbx"), 4),
            ("ticks", &rounds!("rdtsc"), 1),
            ("the registers that are saved", &rounds!("xor ecx, ecx", ".byte 0x0f, 0x01, 0xd0"), 2), // xgetbv
            ("a pause", &rounds!("pause"), 1),
            ("fences", &rounds!("mfence", "lfence", "sfence"), 3),
            ("a branch target", &rounds!(".byte 0xf3, 0x0f, 0x1e, 0xfa"), 1),
            ("a prefix of another operation", &rounds!(".byte 0xf3, 0x0f, 0xbc, 0xc1"), 1),
            ("a prefix without effect", &rounds!(".byte 0xf2, 0x90", ".byte 0x2e, 0x90"), 2),
            ("a lock", &rounds!("lock xadd [{area}], eax"; area = area), 1),
            ("floating point", &rounds!("fldz", "fstp st(0)"), 2),
            ("all registers", &rounds!("fxsave [{area}]", "fxrstor [{area}]"; area = area), 2),
            ("a frame", &rounds!("push rbp", "mov rbp, rsp", "leave"), 3),
            ("a loop", &rounds!("mov ecx, 3", "3:", "loop 3b"), 4),
            (
                "a far return",
                &rounds!(
                    "mov eax, cs",
                    "push rax",
                    "lea rax, [rip + 3f]",
                    "push rax",
                    ".byte 0x48, 0xcb",
                    "3:"
                ),
                5,
            ),
            ("no stack", &rounds!("mov r8, rsp", "xor esp, esp", "nop", "mov rsp, r8"), 4),
            (
                "calls one after the other",
                &rounds!("mov eax, 39", "syscall", "jmp 3f", "3:", "mov eax, 39", "syscall", "nop"),
                6,
            ),
            ("a call that fails", &rounds!("mov eax, 100000", "syscall", "nop"), 3),
            ("the carry flag", &rounds!("stc", "pushfq", "pop rax", "cmc"), 4),
            (
                "repetitions back to back",
                &rounds!("mov rdi, {area}", "mov ecx, 3", "xor eax, eax", "rep stosb", "rep stosb", "mov ecx, 2", "rep stosq"; area = area),
                7,
            ),
            (
                "repetitions backwards",
                &rounds!("mov rdi, {area}", "mov ecx, 3", "std", "rep stosb", "cld"; area = area + 64),
                5,
            ),
            (
                "code that was written",
                &rounds!("mov [{code} + 1], r12b", "call {code}"; code = code),
                4,
            ),
            (
                "code that writes what follows",
                &rounds!("mov byte ptr [{code} + 7], 0xf4", "call {code}"; code = rewritten),
                5,
            ),
            ("the last byte of a mapping", &rounds!("call {code}"; code = last), 2),
        ];
        for (name, code, expected) in all {
            assert_eq!(per_round(code), expected + 2, "{name}");
        }
        black_box(memory);
    });
}

/// Writes code to the end of a page, behind which there is none. Returns the mapping and the address of the code.
fn code_before_an_absent_page(code: &[u8]) -> (usize, usize) {
    const PAGE: usize = 4 << 10;
    // SAFETY: a new mapping of two pages, the second of which is given back. The code fits.
    unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let start = libc::mmap(std::ptr::null_mut(), 2 * PAGE, access, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        libc::munmap(start.byte_add(PAGE), PAGE);
        let place = start.byte_add(PAGE - code.len());
        std::ptr::copy_nonoverlapping(code.as_ptr(), place.cast(), code.len());
        (start as usize, place as usize)
    }
}

/// The CPU does not trap after these.
#[test]
fn instructions_without_a_step() {
    in_turn(|| {
        for code in [
            &rounds!("mov eax, 20", "int 0x80") as &dyn Fn(u64),
            &rounds!("mov eax, ss", "mov ss, eax"),
            &rounds!("mov r8d, ss", "mov ss, r8d"),
            &rounds!("mov eax, 39", "syscall", "syscall"),
            &rounds!("mov eax, 39", ".byte 0x48, 0x0f, 0x05"),
            // Behind a prefix that has no effect on them.
            &rounds!("mov eax, 39", ".byte 0xf3, 0x0f, 0x05"),
            &rounds!("mov eax, 39", ".byte 0xf2, 0x0f, 0x05"),
            &rounds!("mov eax, 20", ".byte 0xf3, 0xcd, 0x80"),
            &rounds!("mov eax, ss", ".byte 0xf3, 0x8e, 0xd0"),
            &rounds!("pushfw", "add rsp, 2"),
            // The kernel executes them where the CPU does not.
            &rounds!("sidt [rsp - 16]"),
            &rounds!("sgdt [rsp - 16]"),
            &rounds!("smsw eax"),
            // It may clear the trap flag.
            &rounds!(
                "mov eax, ss",
                "push rax",
                "lea rax, [rsp + 8]",
                "push rax",
                "pushfq",
                "mov eax, cs",
                "push rax",
                "lea rax, [rip + 3f]",
                "push rax",
                "iretq",
                "3:"
            ),
        ] {
            assert_eq!(count(1_000, || code(3)), Err(StepError::Disturbed));
        }
        assert_eq!(per_round(&rounds!("mov eax, ds", "mov ds, eax")), 4);
    });
}

/// A handler may skip instructions. What it skips does not count, and where it goes to a system call, nothing is counted.
#[test]
fn a_handler_that_goes_elsewhere() {
    unsafe extern "C" fn go_to_r8(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel's argument.
        let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let target = registers.get(libc::REG_R8 as usize).copied();
        if let Some((place, target)) = registers.get_mut(libc::REG_RIP as usize).zip(target) {
            *place = target;
        }
    }
    in_turn(|| {
        // SAFETY: structures of integers and addresses, for which zeros are valid, and calls that fill them.
        let before = unsafe {
            let (mut action, mut before): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
            action.sa_sigaction = go_to_r8 as unsafe extern "C" fn(_, _, _) as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGSEGV, &action, &mut before);
            before
        };
        let skips = rounds!(
            "lea r8, [rip + 3f]",
            "mov rcx, [0]",
            "nop",
            "3:",
            "nop",
            "mov eax, 39",
            "syscall",
            "nop"
        );
        let calls = rounds!(
            "lea r8, [rip + 3f]",
            "mov eax, 39",
            "mov rcx, [0]",
            "nop",
            "3:",
            "syscall",
            "nop"
        );
        assert_eq!(per_round(&skips), 7);
        assert_eq!(count(1_000, || calls(3)), Err(StepError::Disturbed));
        // SAFETY: the action of before.
        unsafe { libc::sigaction(libc::SIGSEGV, &before, std::ptr::null_mut()) };
    });
}

/// Flags that the code keeps have no trap flag, which would end the program where they are restored. Flags from before do not end the count.
#[test]
fn flags_that_are_kept() {
    fn flags() -> u64 {
        let flags: u64;
        // SAFETY: the stack is as it was.
        unsafe { asm!("pushfq", "pop {}", out(reg) flags) };
        flags
    }
    fn restore(flags: u64) {
        // SAFETY: flags of this thread, with the direction that code expects. The stack is as it was.
        unsafe { asm!("push {}", "popfq", in(reg) flags) };
    }
    in_turn(|| {
        let before = flags();
        let mut within = 0;
        let counted = count(1_000, || within = flags());
        assert!(counted.is_ok(), "{counted:?}");
        assert_eq!((before | within) & 256, 0);
        restore(within);
        assert_eq!(flags() & 256, 0);
        let restored = rounds!("push {flags}", "popfq", "nop"; flags = before);
        assert_eq!(per_round(&restored), 5);
        // Kept in memory, and restored twice.
        let mut context = before;
        let place = &raw mut context;
        let switch =
            rounds!("mov rax, rsp", "mov rsp, {context}", "popfq", "mov rsp, rax"; context = place);
        assert_eq!(per_round(&switch), 6);
        assert_eq!(black_box(context), before);
        // At each point where the limit may be reached.
        for limit in 0..400 {
            let _ = count(limit, || {
                within = flags();
                restore(before);
                // SAFETY: the call takes no argument.
                unsafe { libc::syscall(libc::SYS_getppid) };
                within |= flags();
            });
            assert_eq!((within | flags()) & 256, 0, "{limit}");
        }
        // A system call leaves the flags in a register.
        let (mut left, mut own) = (0, 0_u64);
        let counted = count(1_000, || {
            // SAFETY: asks for the process number.
            unsafe {
                asm!("mov eax, 39", "syscall", "nop", "mov {left}, r11", "mov r11, 256", "nop", "mov {own}, r11",
                    left = out(reg) left, own = out(reg) own, out("rax") _, out("rcx") _, out("r11") _);
            }
        });
        assert!(counted.is_ok(), "{counted:?}");
        assert_eq!((left & 256, own), (0, 256));
        restore(left);
        // Cleared, and set again as a debugger does.
        let cleared = rounds!("pushfq", "and dword ptr [rsp], -257", "popfq", "nop");
        assert_eq!(per_round(&cleared), 6);
    });
}

/// A thread that ends while it counts leaves its turn to others, and SIGTRAP's action is that of before again.
#[test]
fn a_thread_that_ends_within_a_count() {
    extern "C" fn on_trap(_: libc::c_int) {}
    in_turn(|| {
        let ours = on_trap as extern "C" fn(_) as libc::sighandler_t;
        // SAFETY: the handler does nothing.
        unsafe { libc::signal(libc::SIGTRAP, ours) };
        let (send, sent) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // SAFETY: the thread ends without its destructors. Nothing waits for it.
            unsafe {
                send.send(libc::syscall(libc::SYS_gettid)).unwrap();
                let _ = count(1_000, || libc::syscall(libc::SYS_exit, 0));
            }
        });
        let ended = format!("/proc/self/task/{}", sent.recv().unwrap());
        while std::path::Path::new(&ended).exists() {
            std::thread::yield_now();
        }
        assert_eq!(per_round(&rounds!("nop")), 3);
        // SAFETY: the call takes integers.
        assert_eq!(unsafe { libc::signal(libc::SIGTRAP, libc::SIG_DFL) }, ours);
    });
}

/// So does the main thread, which the kernel keeps until the last one has ended.
#[test]
fn the_main_thread_ends_within_a_count() {
    in_turn(|| {
        let ended = wait(fork(|| {
            let (send, sent) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                sent.recv().unwrap();
                let is_there = || {
                    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
                    !stat.contains(") Z ")
                };
                while is_there() {
                    std::thread::yield_now();
                }
                let is_right = count(1_000, || black_box(1)).is_ok();
                // SAFETY: ends the process.
                unsafe { libc::_exit(if is_right { 7 } else { 1 }) };
            });
            let _ = count(100_000, || {
                send.send(()).unwrap();
                // SAFETY: the thread ends without its destructors. Nothing waits for it.
                unsafe { libc::syscall(libc::SYS_exit, 0) };
            });
            1
        }));
        assert_eq!(ended, 7 << 8);
    });
}

/// A call of code that cannot be read, from which the program's handler of SIGSEGV returns, goes on.
#[test]
fn code_that_cannot_be_read() {
    /// Returns from the call.
    extern "C" fn on_fault(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel's argument. The stack has the address that the call pushed.
        unsafe {
            let context = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext;
            let registers = context.gregs.as_mut_ptr();
            let stack = registers.add(libc::REG_RSP as usize);
            *registers.add(libc::REG_RIP as usize) = *(*stack as *const i64);
            *stack += 8;
        }
    }
    in_turn(|| {
        let code = rounds!("call {nothing}"; nothing = 16_usize);
        // SAFETY: structures for which zeros are valid. The handler returns to the code.
        unsafe {
            let (mut action, mut before): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
            action.sa_flags = libc::SA_SIGINFO;
            action.sa_sigaction = on_fault as extern "C" fn(_, _, _) as usize;
            libc::sigaction(libc::SIGSEGV, &action, &mut before);
            let counted = count(1_000, || code(1));
            libc::sigaction(libc::SIGSEGV, &before, std::ptr::null_mut());
            assert_eq!(counted, Err(StepError::Disturbed));
        }
    });
}

/// A handler writes no `errno`, and what the code sets stays.
#[test]
fn what_the_code_sets_stays() {
    in_turn(|| {
        // SAFETY: structures of integers for which zeros are valid, and calls that fill them.
        unsafe {
            let (mut user, mut mask): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
            libc::sigaddset(&mut user, libc::SIGUSR1);
            libc::pthread_sigmask(libc::SIG_BLOCK, &user, std::ptr::null_mut());
            let counted = count(10_000, || {
                *libc::__errno_location() = 77;
                let unblocked =
                    libc::pthread_sigmask(libc::SIG_UNBLOCK, &user, std::ptr::null_mut());
                (*libc::__errno_location(), unblocked)
            });
            let errno = *libc::__errno_location();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask);
            assert!(counted.is_ok());
            assert_eq!((errno, libc::sigismember(&mask, libc::SIGUSR1)), (77, 0));
            // What was blocked before, and the code unblocks.
            libc::sigemptyset(&mut user);
            libc::sigaddset(&mut user, libc::SIGTRAP);
            libc::pthread_sigmask(libc::SIG_BLOCK, &user, std::ptr::null_mut());
            let is_blocked = || {
                let mut mask: libc::sigset_t = std::mem::zeroed();
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask);
                libc::sigismember(&mask, libc::SIGTRAP)
            };
            assert!(count(10_000, || ()).is_ok());
            assert_eq!(is_blocked(), 1);
            let unblock = || libc::pthread_sigmask(libc::SIG_UNBLOCK, &user, std::ptr::null_mut());
            assert!(count(10_000, unblock).is_ok());
            assert_eq!(is_blocked(), 0);
            let counted = count(10_000, || libc::signal(libc::SIGTRAP, libc::SIG_IGN));
            let action = libc::signal(libc::SIGTRAP, libc::SIG_DFL);
            assert_eq!((counted, action), (Err(StepError::Disturbed), libc::SIG_IGN));
        }
    });
}

/// A SIGTRAP that is sent does what it did before: it is ignored here.
#[test]
fn a_signal_that_is_ignored() {
    in_turn(|| {
        // SAFETY: the calls take integers.
        let counted = unsafe {
            libc::signal(libc::SIGTRAP, libc::SIG_IGN);
            let counted = count(10_000, || libc::raise(libc::SIGTRAP));
            libc::signal(libc::SIGTRAP, libc::SIG_DFL);
            counted
        };
        assert_eq!(counted, Err(StepError::Disturbed));
    });
}

#[test]
fn in_a_handler_with_a_stack() {
    static IS_REFUSED: AtomicBool = AtomicBool::new(false);
    extern "C" fn on_signal(_: libc::c_int) {
        IS_REFUSED.store(count(1_000, || ()) == Err(StepError::OnASignalStack), SeqCst);
    }
    in_turn(|| {
        // SAFETY: structures for which zeros are valid. Each thread has a signal stack by the standard library.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_flags = libc::SA_ONSTACK;
            action.sa_sigaction = on_signal as extern "C" fn(_) as usize;
            libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut());
            libc::raise(libc::SIGUSR2);
            libc::signal(libc::SIGUSR2, libc::SIG_DFL);
        }
        assert!(IS_REFUSED.load(SeqCst));
    });
}

/// A repetition takes as long as an instruction, so it counts for the limit.
#[test]
fn a_limit_of_repetitions() {
    in_turn(|| {
        let mut all = vec![0_u8; 100_000];
        let target = all.as_mut_ptr();
        let fill = rounds!("mov rdi, {target}", "mov ecx, 100000", "mov al, 7", "rep stosb"; target = target);
        let counted = count(1_000, || fill(1));
        assert!(matches!(counted, Err(StepError::TooLong { limit: 1_000, .. })), "{counted:?}");
        assert!(black_box(&all).iter().all(|byte| *byte == 7), "it has run to its end");
    });
}

/// A SIGTRAP that was blocked before, and is sent meanwhile, is pending afterwards.
#[test]
fn a_signal_that_is_blocked() {
    in_turn(|| {
        // tkill(gettid(), SIGTRAP)
        let kill = rounds!(
            "mov eax, 186",
            "syscall",
            "mov edi, eax",
            "mov esi, 5",
            "mov eax, 200",
            "syscall",
            "nop"
        );
        // SAFETY: structures of integers for which zeros are valid, and calls that fill them. The signal is taken at the end.
        unsafe {
            let (mut trap, mut pending): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
            libc::sigaddset(&mut trap, libc::SIGTRAP);
            libc::pthread_sigmask(libc::SIG_BLOCK, &trap, std::ptr::null_mut());
            for is_sent_before in [false, true] {
                if is_sent_before {
                    libc::raise(libc::SIGTRAP);
                }
                let counted = count(1_000, || kill(1));
                libc::sigpending(&mut pending);
                let is_pending = libc::sigismember(&pending, libc::SIGTRAP);
                assert_eq!((counted, is_pending), (Err(StepError::Disturbed), 1));
                let mut taken = 0;
                libc::sigwait(&trap, &mut taken);
            }
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &trap, std::ptr::null_mut());
        }
        assert!(count(1_000, || ()).is_ok());
    });
}

#[test]
fn the_same_each_time() {
    in_turn(|| {
        // Without the heap, which other threads use as well.
        let parse = || {
            count(100_000, || {
                let number = black_box("4294967295").parse::<u32>();
                let mut text = [0; 64];
                write!(text.as_mut_slice(), "{number:?} {}", black_box(1.5)).unwrap();
                text
            })
        };
        parse().unwrap();
        let first = parse().unwrap();
        for _ in 0..20 {
            assert_eq!(parse(), Ok(first));
        }
    });
}

#[test]
fn a_limit() {
    in_turn(|| {
        let mut sum = 0_u64;
        let counted =
            count(100, || (0..black_box(1_000_u64)).for_each(|number| sum += black_box(number)));
        assert!(matches!(counted, Err(StepError::TooLong { limit: 100, .. })), "{counted:?}");
        assert_eq!(sum, 499_500, "it has run to its end");
        assert!(count(1_000, || black_box(1)).is_ok());
    });
}

#[test]
fn threads_and_processes_go_on() {
    in_turn(|| {
        let counted = count(10_000_000, || std::thread::spawn(|| black_box(5)).join().unwrap());
        assert_eq!(counted, Err(StepError::Disturbed));
        let mut said = None;
        let counted = count(10_000_000, || {
            said = Some(std::process::Command::new("true").status().unwrap());
        });
        assert_eq!(counted, Err(StepError::Disturbed));
        assert!(said.unwrap().success());
    });
}

#[test]
fn other_threads_do_not_count() {
    in_turn(|| {
        let (done, work) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(SeqCst) {
                    work.fetch_add(1, SeqCst);
                }
            });
            while work.load(SeqCst) == 0 {}
            assert_eq!(per_round(&rounds!("nop")), 3);
            done.store(true, SeqCst);
        });
    });
}

#[test]
fn signal_handlers_do_not_count() {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    extern "C" fn on_signal(_: libc::c_int) {
        CALLS.fetch_add(1, SeqCst);
    }
    in_turn(|| {
        // SAFETY: the handler is async-signal-safe.
        unsafe { libc::signal(libc::SIGUSR1, on_signal as extern "C" fn(_) as libc::sighandler_t) };
        // kill(getpid(), SIGUSR1): a handler in each round.
        let kill = rounds!(
            "mov eax, 39",
            "syscall",
            "mov edi, eax",
            "mov esi, 10",
            "mov eax, 62",
            "syscall",
            "nop"
        );
        assert_eq!(per_round(&kill), 9);
        assert_eq!(CALLS.load(SeqCst), 31);
    });
}

#[test]
fn everything_is_restored() {
    fn state() -> (usize, i32, usize, bool) {
        // SAFETY: structures of integers and addresses, for which zeros are valid, and calls that fill them.
        unsafe {
            let (mut action, mut stack, mut mask): (
                libc::sigaction,
                libc::stack_t,
                libc::sigset_t,
            ) = std::mem::zeroed();
            libc::sigaction(libc::SIGTRAP, std::ptr::null(), &mut action);
            libc::sigaltstack(std::ptr::null(), &mut stack);
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask);
            let is_blocked = libc::sigismember(&mask, libc::SIGTRAP) == 1;
            // The C library adds SA_RESTORER.
            let flags = action.sa_flags & !0x0400_0000;
            (action.sa_sigaction, flags, stack.ss_sp as usize, is_blocked)
        }
    }
    in_turn(|| {
        // SAFETY: blocks a signal of this thread, and a structure of integers for which zeros are valid.
        unsafe {
            let mut trap: libc::sigset_t = std::mem::zeroed();
            libc::sigaddset(&mut trap, libc::SIGTRAP);
            libc::pthread_sigmask(libc::SIG_BLOCK, &trap, std::ptr::null_mut());
        }
        let before = state();
        assert!(before.3);
        assert!(count(1_000, || black_box(1)).is_ok());
        assert_eq!(state(), before);
        let counted = catch_unwind(AssertUnwindSafe(|| {
            count(10_000_000, || std::panic::resume_unwind(Box::new(5)))
        }));
        assert!(counted.is_err());
        assert_eq!(state(), before);
        let mut inner = None;
        count(100_000, || inner = Some(count(1_000, || ()))).unwrap();
        assert_eq!(inner, Some(Err(StepError::Busy)));
        assert_eq!(state(), before);
    });
}

/// A breakpoint of the code goes to the handler that was there before.
#[test]
fn breakpoints_are_passed_on() {
    static BREAKPOINTS: AtomicU64 = AtomicU64::new(0);
    extern "C" fn on_trap(_: libc::c_int) {
        BREAKPOINTS.fetch_add(1, SeqCst);
    }
    in_turn(|| {
        // SAFETY: the handler is async-signal-safe.
        unsafe { libc::signal(libc::SIGTRAP, on_trap as extern "C" fn(_) as libc::sighandler_t) };
        // SAFETY: the handler returns to the next instruction.
        let counted = count(1_000, || unsafe { asm!("int3") });
        // SAFETY: the default.
        unsafe { libc::signal(libc::SIGTRAP, libc::SIG_DFL) };
        assert_eq!((counted, BREAKPOINTS.load(SeqCst)), (Err(StepError::Disturbed), 1));
    });
}
