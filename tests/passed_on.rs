//! Signals that are not faults of this library's reads, with `contain_faults` called before: whoever was
//! there before gets them, and where nobody was, they end the process as they would have.
//!
//! What takes a counter is shown by the emulated machines: `tests/vm/run TARGET only
//! foreign_faults_reach_the_programs_handler`, say.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod process;

use libc::{c_int, c_void, siginfo_t};
use process::{fork, wait};
use std::mem::zeroed;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::SeqCst};

/// How a child ends that contains faults, after `before`, and does this.
fn ends(before: fn(), after: fn()) -> i32 {
    wait(fork(|| {
        before();
        rdpmc::contain_faults().unwrap();
        // SAFETY: takes a number: one that goes on for ever ends.
        unsafe { libc::alarm(10) };
        after();
        0
    }))
}

/// The same, and the signal that killed it, or None.
fn killed_by(before: fn(), after: fn()) -> Option<c_int> {
    let status = ends(before, after);
    libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status))
}

fn set(signal: c_int, handler: usize, flags: c_int) -> libc::sigaction {
    // SAFETY: the action is whole, and all handlers here are async-signal-safe.
    unsafe {
        let (mut action, mut before): (libc::sigaction, libc::sigaction) = (zeroed(), zeroed());
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &action, &mut before), 0);
        before
    }
}

fn default() {
    for signal in [libc::SIGSEGV, libc::SIGILL] {
        set(signal, libc::SIG_DFL, 0);
    }
}

fn nothing() {}

fn touch_nothing() {
    // Not null itself, of which a debug build would panic.
    let nowhere = std::hint::black_box(ptr::without_provenance::<u8>(8));
    // SAFETY: it is not; that is the end of this child, or its handler jumps away.
    unsafe { nowhere.read_volatile() };
}

/// Sends this thread a signal that says it is a fault.
fn forge() {
    // SAFETY: a structure of numbers; the kernel copies it, and a process may send itself any.
    unsafe {
        let mut info: siginfo_t = zeroed();
        info.si_signo = libc::SIGSEGV;
        info.si_code = 1;
        let call = libc::SYS_rt_tgsigqueueinfo;
        let sent =
            libc::syscall(call, libc::getpid(), libc::gettid(), libc::SIGSEGV, &raw mut info);
        assert_eq!(sent, 0);
    }
}

#[test]
fn a_forged_fault_ends_the_process() {
    assert_eq!(killed_by(default, forge), Some(libc::SIGSEGV));
    // Rust's own handler puts the default back and waits for it to happen again. So the process goes on, as
    // it does by itself, and reads are still contained.
    let alone = wait(fork(|| {
        forge();
        0
    }));
    fn still_contained() {
        forge();
        let now = set(libc::SIGSEGV, libc::SIG_DFL, 0);
        assert_ne!(now.sa_sigaction, libc::SIG_DFL);
    }
    assert_eq!((alone, ends(nothing, still_contained)), (0, 0));
    // The second is the end, as it is without.
    fn twice() {
        forge();
        forge();
    }
    assert_eq!(killed_by(nothing, twice), Some(libc::SIGSEGV));
    assert_eq!(killed_by(nothing, touch_nothing), Some(libc::SIGSEGV));
}

/// A handler that leaves a signal frame which the kernel cannot restore gets SIGSEGV, and no instruction that
/// would fault again.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_frame_that_cannot_be_restored_ends_the_process() {
    extern "C" fn spoil(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel's context; what it says of the floating point registers is nowhere.
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.fpregs = ptr::dangling_mut() };
    }
    fn spoiled() {
        set(libc::SIGUSR1, spoil as *const () as usize, libc::SA_SIGINFO);
        // SAFETY: takes a number.
        unsafe { libc::raise(libc::SIGUSR1) };
    }
    assert_eq!(killed_by(default, spoiled), Some(libc::SIGSEGV));
}

/// What is sent again is what came: the address, for whoever looks at the core.
#[test]
fn the_default_ends_the_process_with_the_signal_that_came() {
    assert_eq!(killed_by(default, touch_nothing), Some(libc::SIGSEGV));
    let send = || {
        // SAFETY: takes a number.
        unsafe { libc::raise(libc::SIGILL) };
    };
    assert_eq!(killed_by(default, send), Some(libc::SIGILL));
    // A filter that refuses to send it does not keep a fault from happening.
    let filtered = || {
        process::refuse(libc::SYS_rt_tgsigqueueinfo, libc::EPERM);
        touch_nothing();
    };
    assert_eq!(killed_by(default, filtered), Some(libc::SIGSEGV));
}

/// The handler that a crash reporter found when it put itself in front.
static FOUND: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static CALLS: AtomicU32 = AtomicU32::new(0);

/// Calls what was there before. Ends the child if it goes on and on.
extern "C" fn reporter(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if CALLS.fetch_add(1, SeqCst) > 5 {
        // SAFETY: ends the child.
        unsafe { libc::_exit(3) };
    }
    match FOUND.load(SeqCst) as usize {
        libc::SIG_DFL | libc::SIG_IGN => {}
        found => {
            // SAFETY: it was installed with SA_SIGINFO, and this is what the kernel gave.
            let found: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(found) };
            found(signal, info, context);
        }
    }
}

fn install_reporter() {
    let before =
        set(libc::SIGSEGV, reporter as *const () as usize, libc::SA_SIGINFO | libc::SA_NODEFER);
    FOUND.store(before.sa_sigaction as *mut c_void, SeqCst);
}

#[test]
fn a_handler_that_puts_itself_in_front_again_is_called_once_more_and_that_is_all() {
    fn installed() {
        default();
        install_reporter();
    }
    fn reported_again() {
        install_reporter();
        touch_nothing();
    }
    assert_eq!(killed_by(installed, reported_again), Some(libc::SIGSEGV));
}

/// A handler that jumps out of itself, a thousand times, at the same place of the stack: each time it is
/// another fault, though the context is at the same address.
#[test]
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
fn a_handler_that_jumps_away_is_called_each_time() {
    use std::arch::asm;

    /// Where to go on, and with which stack.
    static PLACE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

    extern "C" fn jump(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
        CALLS.fetch_add(1, SeqCst);
        // As siglongjmp: this handler never returns, nor does the one that called it.
        // SAFETY: the mask is this thread's; the context has the registers of the place that faulted, where
        // `fault` goes on at PLACE with the stack as it is there.
        unsafe {
            let mut mask: libc::sigset_t = zeroed();
            libc::sigaddset(&mut mask, libc::SIGSEGV);
            libc::sigprocmask(libc::SIG_UNBLOCK, &mask, ptr::null_mut());
            let registers = &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
            let stack = registers[libc::REG_RSP as usize];
            asm!("mov rsp, {stack}", "jmp {place}", stack = in(reg) stack, place = in(reg) PLACE.load(SeqCst),
                options(noreturn));
        }
    }

    #[inline(never)]
    fn fault() {
        // SAFETY: faults, and goes on at the label with the same stack; all other registers are given up.
        unsafe {
            asm!(
                "lea rax, [rip + 2f]",
                "mov [{place}], rax",
                "xor eax, eax",
                "push rbx",
                "push rbp",
                "mov rcx, [rax]",
                "2:",
                "pop rbp",
                "pop rbx",
                place = in(reg) PLACE.as_ptr(),
                out("rax") _, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _, out("r8") _,
                out("r9") _, out("r10") _, out("r11") _, out("r12") _, out("r13") _, out("r14") _,
                out("r15") _,
                clobber_abi("C"),
            );
        }
    }

    fn thousand() {
        for _ in 0..1_000 {
            fault();
        }
        assert_eq!(CALLS.load(SeqCst), 1_000);
    }
    fn installed() {
        set(libc::SIGSEGV, jump as *const () as usize, libc::SA_SIGINFO);
    }
    assert_eq!(ends(installed, thousand), 0);
}

/// Eight threads at once, and the handler is there once: what was before gets its signal once.
#[test]
fn installed_by_many_threads_at_once() {
    extern "C" fn count(_: c_int) {
        CALLS.fetch_add(1, SeqCst);
    }
    for _ in 0..50 {
        let status = wait(fork(|| {
            set(libc::SIGSEGV, count as *const () as usize, 0);
            let threads = [(); 8].map(|()| std::thread::spawn(rdpmc::contain_faults));
            for thread in threads {
                thread.join().unwrap().unwrap();
            }
            // SAFETY: takes a number.
            unsafe { libc::raise(libc::SIGSEGV) };
            CALLS.load(SeqCst) as i32 - 1
        }));
        assert_eq!(status, 0);
    }
}
