//! Signals that are not faults of this library's reads, after `contain_faults`.
//!
//! The handler that was installed before gets them. Without one, they end the process as they would have. The
//! emulated machines test what takes a counter, for example `tests/vm/run TARGET only
//! foreign_faults_reach_the_programs_handler`.

use crate::process;
use crate::process::{fork, wait};
use crate::turn;
use libc::{c_int, c_void, siginfo_t};
use std::mem::zeroed;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::SeqCst};

/// Runs `before`, contains faults, and runs `after`, in a child. Returns its wait status.
fn ends(before: fn(), after: fn()) -> i32 {
    wait(fork(|| {
        before();
        rdpmc::contain_faults().unwrap();
        // SAFETY: alarm takes a number. A child that hangs is killed.
        unsafe { libc::alarm(10) };
        after();
        0
    }))
}

/// Returns the signal that killed such a child, or None.
fn killed_by(before: fn(), after: fn()) -> Option<c_int> {
    let status = ends(before, after);
    libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status))
}

fn set(signal: c_int, handler: usize, flags: c_int) -> libc::sigaction {
    // SAFETY: the action is fully initialized, and all handlers here are async-signal-safe.
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
    // Not null itself, because a debug build would panic.
    let nowhere = std::hint::black_box(ptr::without_provenance::<u8>(8));
    // SAFETY: nothing is mapped there. The read ends this child, or its handler jumps away.
    unsafe { nowhere.read_volatile() };
}

/// Sends this thread a signal that claims to be a fault.
fn forge() {
    // SAFETY: the structure has only numbers, and the kernel copies it. A process may send itself any signal.
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
    // Rust's own handler restores the default action and waits for the fault to happen again. It does not, so the
    // process goes on, with or without this library, and reads are still contained.
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
    // The second signal ends the process, as it does without this library.
    fn twice() {
        forge();
        forge();
    }
    assert_eq!(killed_by(nothing, twice), Some(libc::SIGSEGV));
    assert_eq!(killed_by(nothing, touch_nothing), Some(libc::SIGSEGV));
}

/// A handler that leaves a signal frame which the kernel cannot restore gets SIGSEGV, without an instruction that
/// would fault again.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_frame_that_cannot_be_restored_ends_the_process() {
    extern "C" fn spoil(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: the context is the kernel's. Only the kernel uses its pointer to the floating point registers.
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.fpregs = ptr::dangling_mut() };
    }
    fn spoiled() {
        set(libc::SIGUSR1, spoil as *const () as usize, libc::SA_SIGINFO);
        // SAFETY: raise takes a number.
        unsafe { libc::raise(libc::SIGUSR1) };
    }
    assert_eq!(killed_by(default, spoiled), Some(libc::SIGSEGV));
}

/// A signal frame may have any address, where a fault then is, and where the handler must not look for an instruction.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_fault_where_no_code_is_reaches_the_programs_handler() {
    extern "C" fn report(_: c_int) {
        // SAFETY: ends this child.
        unsafe { libc::_exit(42) };
    }
    fn reported() {
        set(libc::SIGSEGV, report as *const () as usize, 0);
    }
    extern "C" fn go_nowhere(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: the context is the kernel's. No return is made to this address: there is no such stack segment.
        unsafe {
            let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
            registers[libc::REG_RIP as usize] = 0x1000;
            let segments = &mut registers[libc::REG_CSGSFS as usize];
            *segments = *segments & 0x0000_ffff_ffff_ffff | 0x6b << 48;
        }
    }
    fn gone() {
        set(libc::SIGUSR1, go_nowhere as *const () as usize, libc::SA_SIGINFO);
        // SAFETY: raise takes a number.
        unsafe { libc::raise(libc::SIGUSR1) };
    }
    assert_eq!(ends(reported, gone), 42 << 8);
}

/// The signal that is sent again is the one that came, with its address, for readers of the core dump.
#[test]
fn the_default_ends_the_process_with_the_signal_that_came() {
    assert_eq!(killed_by(default, touch_nothing), Some(libc::SIGSEGV));
    let send = || {
        // SAFETY: raise takes a number.
        unsafe { libc::raise(libc::SIGILL) };
    };
    assert_eq!(killed_by(default, send), Some(libc::SIGILL));
    // A filter that refuses the sending does not keep a fault from happening again.
    let filtered = || {
        process::refuse(libc::SYS_rt_tgsigqueueinfo, libc::EPERM);
        touch_nothing();
    };
    assert_eq!(killed_by(default, filtered), Some(libc::SIGSEGV));
}

/// The handler that a crash reporter found when it installed its own.
static FOUND: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static CALLS: AtomicU32 = AtomicU32::new(0);

/// Calls the handler that was there before. Ends the child if the calls do not end.
extern "C" fn reporter(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if CALLS.fetch_add(1, SeqCst) > 5 {
        // SAFETY: ends the child.
        unsafe { libc::_exit(3) };
    }
    match FOUND.load(SeqCst) as usize {
        libc::SIG_DFL | libc::SIG_IGN => {}
        found => {
            // SAFETY: the handler was installed with SA_SIGINFO, and the arguments are the kernel's.
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

/// A handler jumps out of itself a thousand times, at one position of the stack. Each time it is another fault,
/// though the context is at an unchanged address.
#[test]
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
fn a_handler_that_jumps_away_is_called_each_time() {
    use std::arch::asm;

    /// The address at which to continue, with its stack pointer.
    static PLACE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

    extern "C" fn jump(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
        CALLS.fetch_add(1, SeqCst);
        // As siglongjmp does: neither this handler nor its caller returns.
        // SAFETY: the mask is this thread's. The context has the registers of the faulting location, and `fault`
        // continues at PLACE with the stack pointer of that location.
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
        // SAFETY: faults, and continues at the label with an unchanged stack pointer. All other registers are
        // clobbered.
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

/// Eight threads install the handler at once, and it is there once: the earlier handler gets its signal once.
#[test]
fn installed_by_many_threads_at_once() {
    extern "C" fn count(_: c_int) {
        CALLS.fetch_add(1, SeqCst);
    }
    let _bound = turn::bounded();
    for _ in 0..50 {
        let status = wait(fork(|| {
            set(libc::SIGSEGV, count as *const () as usize, 0);
            let threads = [(); 8].map(|()| std::thread::spawn(rdpmc::contain_faults));
            for thread in threads {
                thread.join().unwrap().unwrap();
            }
            // SAFETY: raise takes a number.
            unsafe { libc::raise(libc::SIGSEGV) };
            CALLS.load(SeqCst) as i32 - 1
        }));
        assert_eq!(status, 0);
    }
}

/// Faults of code that is no read of this library, each at a place where the handler looks at the instruction, or could not.
#[cfg(target_arch = "x86_64")]
#[test]
fn instructions_of_others_fault_as_before() {
    use std::arch::asm;
    fn reported() {
        extern "C" fn report(_: c_int) {
            // SAFETY: ends this child.
            unsafe { libc::_exit(42) };
        }
        set(libc::SIGSEGV, report as *const () as usize, 0);
    }
    /// Goes to the last bytes of a page, behind which nothing is mapped.
    fn at_the_end_of_a_page(code: &[u8]) {
        // SAFETY: maps two new pages, writes to the first, removes the second, and jumps to what was written.
        unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let page = libc::mmap(std::ptr::null_mut(), 8192, access, flags, -1, 0).cast::<u8>();
            libc::munmap(page.add(4096).cast(), 4096);
            let start = page.add(4096 - code.len());
            start.copy_from_nonoverlapping(code.as_ptr(), code.len());
            asm!("jmp {start}", start = in(reg) start, options(noreturn));
        }
    }
    // SAFETY: each ends this child.
    let others: [(&str, fn()); 6] = unsafe {
        [
            // Reads counters that no CPU has.
            ("rdpmc", || asm!("rdpmc", in("ecx") u32::MAX, out("eax") _, out("edx") _)),
            ("ds rdpmc", || {
                asm!(".byte 0x3e", "rdpmc", in("ecx") u32::MAX, out("eax") _, out("edx") _);
            }),
            ("hlt", || at_the_end_of_a_page(&[0xf4])),
            ("ds cs hlt", || at_the_end_of_a_page(&[0x3e, 0x2e, 0xf4])),
            ("a jump to nothing", || asm!("jmp {}", in(reg) 8_u64, options(noreturn))),
            ("a jump to no address", || asm!("jmp {}", in(reg) 1_u64 << 62, options(noreturn))),
        ]
    };
    for (name, fault) in others {
        assert_eq!(ends(reported, fault), 42 << 8, "{name}");
    }
}
