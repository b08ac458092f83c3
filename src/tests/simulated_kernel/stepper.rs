//! Instructions that fault are answered by the thread's kernel, and traps after each instruction are its moments.

use super::Reader;
use super::kernel::{Change, Kernel};
use crate::tests::skips;
use std::arch::asm;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

thread_local! {
    static CURRENT: Cell<*const Kernel> = const { Cell::new(ptr::null()) };
}

extern "C" fn on_fault(signal: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let kernel = CURRENT.get();
    // SAFETY: the kernel outlives the time in which it is current. The context is the interrupted thread's, and only
    // the handler uses it while it runs.
    let ours = unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        match kernel.as_ref() {
            Some(kernel) if signal == libc::SIGTRAP => {
                kernel.step(registers);
                true
            }
            Some(kernel) => kernel.emulate(registers),
            None => false,
        }
    };
    if !ours {
        // SAFETY: restores the default action. The real fault happens again and ends the process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Makes `kernel` this thread's kernel, and `rdpmc` and `rdtsc` fault on this thread. Returns None and skips the test
/// if `rdpmc` is open to every process here.
pub(super) fn with<const N: usize, T>(
    test: &str,
    kernel: &Kernel,
    body: impl FnOnce(Reader<N>) -> T,
) -> Option<T> {
    let is_open = ["cpu", "cpu_core", "cpu_atom"].iter().any(|pmu| {
        let setting = format!("/sys/bus/event_source/devices/{pmu}/rdpmc");
        std::fs::read_to_string(setting).is_ok_and(|value| value.trim() == "2")
    });
    if is_open {
        skips::skip(test, "the setting rdpmc is 2 here, so rdpmc does not fault");
        return None;
    }
    // SAFETY: the action is fully initialized, and the handler uses the thread's own kernel only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        for signal in [libc::SIGSEGV, libc::SIGTRAP] {
            assert_eq!(libc::sigaction(signal, &action, ptr::null_mut()), 0);
        }
    }
    /// Restores the thread's settings, however the test ends.
    struct Ordinary;
    impl Drop for Ordinary {
        fn drop(&mut self) {
            time_stamps(libc::PR_TSC_ENABLE);
            CURRENT.set(ptr::null());
        }
    }
    let _ordinary = Ordinary;
    CURRENT.set(kernel);
    time_stamps(libc::PR_TSC_SIGSEGV);
    Some(body(kernel.reader()))
}

pub(super) fn time_stamps(mode: i32) {
    // SAFETY: affects this thread's rdtsc only.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_TSC, mode) }, 0);
}

/// Runs `body` with a trap after every instruction.
#[inline(always)]
pub(super) fn stepping<T>(kernel: &Kernel, body: impl FnOnce() -> T) -> T {
    kernel.steps.set(0);
    // SAFETY: sets the trap flag and nothing else. Its handler is installed.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    let result = body();
    // SAFETY: clears the trap flag and nothing else.
    unsafe { asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq") };
    result
}

/// The changes that a test makes after the instructions of a read, in turn or all of them.
#[derive(Clone, Copy)]
pub(super) enum Walk {
    /// Each change after each instruction.
    Whole,
    /// One of the changes after each instruction, in another order in each round.
    Short,
}

impl Walk {
    pub(super) fn for_test(test: &str) -> Walk {
        if skips::is_whole(test) { Walk::Whole } else { Walk::Short }
    }

    /// Returns the walk for reads of this number of counters. One has few instructions, so its whole walk is short.
    pub(super) fn over(self, counters: usize) -> Walk {
        if counters == 1 { Walk::Whole } else { self }
    }

    /// Calls `body` with a change and a step, until the plan that it makes for the moment after this step remains, because
    /// it has fewer steps. Returns the sum of the steps of all changes.
    pub(super) fn make(
        self,
        kernel: &Kernel,
        changes: &[Change],
        round: u32,
        mut body: impl FnMut(Change, u32),
    ) -> u32 {
        let every = self.every(changes);
        let mut steps = 0;
        for (n, change) in (round..).zip(changes) {
            let mut step = n % every;
            loop {
                body(*change, step);
                if kernel.plan.take().is_some() {
                    break;
                }
                step += every;
            }
            steps += step;
        }
        steps
    }

    /// Returns the number of instructions from one that a change follows to the next.
    pub(super) fn every(self, changes: &[Change]) -> u32 {
        match self {
            Walk::Whole => 1,
            Walk::Short => changes.len() as u32,
        }
    }

    /// Returns a number of repetitions.
    pub(super) fn times(self, whole: u64, short: u64) -> u64 {
        match self {
            Walk::Whole => whole,
            Walk::Short => short,
        }
    }
}

/// Lets the other thread end, however the reading ends.
pub(super) struct Over<'a>(pub(super) &'a AtomicBool);
impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
