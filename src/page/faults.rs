//! Faults of counter reads, contained.
//!
//! Every instruction of `asm/` that reads a counter has an entry in a section of its own,
//! `rdpmc_faults`, which the linker collects into one table for the binary or shared object: where
//! the instruction is, and where to go on if it faults, in 32 bits each, as the distance from there
//! to the place meant; or 0, 0 for an entry that is none. What is to be different after a fault,
//! the code there sees to. So it does not matter whose handler it is that goes through the table,
//! should there be several copies of this library in it; and the format must never change.
#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
use crate::asm;
use crate::error::OpenError;
use crate::kernel;
use std::sync::atomic::{AtomicBool, Ordering};

/// Has reads of counters that the processor refuses answer as if the event had no counter, rather
/// than end the process: [`read_user`](crate::Counter::read_user) gives None,
/// [`read`](crate::Counter::read) goes on to the system call, and a region is
/// [`Disturbed::Faulted`](crate::Disturbed::Faulted).
///
/// The processor refuses, by SIGSEGV or SIGILL, when the administrator has revoked user access
/// while the counter is open, and when a counter is gone between looking at its page and reading it
/// (riscv64; processors with several core types). Regions, which may read long after looking, must
/// have this where that can happen: see [`Counter::region`](crate::Counter::region).
///
/// ```
/// rdpmc::contain_faults()?;
/// # Ok::<(), rdpmc::Error>(())
/// ```
///
/// # What it does
///
/// Puts a handler in front of those for SIGSEGV and SIGILL, once; calling it again does nothing
/// more, but from another shared object it adds that one's reads. It takes up faults of this
/// library's own reads, each known by its address, and only those. Every other signal goes on to
/// whatever was there before, as if this were not: to a handler with the same information, on the
/// same stack, with the same signals blocked, and to the default by putting that back. The handler
/// is async-signal-safe. Until there is a fault it costs nothing, but that the linker keeps
/// functions that nobody calls if they read a counter.
///
/// # Limits
///
/// - A handler that somebody installs later comes before this one, and must pass on what it does not
///   know: call this after those that do not.
/// - A fault while SIGSEGV or SIGILL is blocked, say in a handler that blocks all signals, ends the
///   process: the kernel does not ask.
/// - Of a program in several shared objects, each that has reads of this library in it has to call
///   this; and one that has called it must not be unloaded.
/// - Where such a signal was ignored, one that somebody sends now interrupts those system calls
///   that do not restart by themselves (`poll`, `nanosleep`), and programs started by `exec` do not
///   ignore it.
/// - Restoring a handler that was there before removes this one. It does not come back.
/// - A handler that puts itself in front again whenever it is called, and calls what it finds there, would
///   find this one. The second time it is called for one signal, the default action is taken.
/// - The time stamp counter, which [`reading`](crate::Counter::reading) reads and a thread can forbid
///   itself (`PR_SET_TSC`), is not covered.
///
/// # Errors
/// [`OpenError::Unsupported`] where there are no such signals, [`OpenError::System`] for what no kernel is
/// known to do.
#[inline(always)]
pub fn contain_faults() -> Result<(), OpenError> {
    // Inlined, so that it is the table of the caller, which has most reads inlined as well.
    #[cfg(target_os = "linux")]
    handler::add_table(asm::exception_table());
    contain()
}

fn contain() -> Result<(), OpenError> {
    if !kernel::SUPPORTED {
        return Err(OpenError::Unsupported);
    }
    handler::install().map_err(OpenError::of_call("sigaction"))?;
    CALLED.store(true, Ordering::Release);
    Ok(())
}

static CALLED: AtomicBool = AtomicBool::new(false);

/// Whether [`contain_faults`] was called.
pub(crate) fn are_contained() -> bool {
    CALLED.load(Ordering::Acquire)
}

#[cfg(target_os = "linux")]
mod handler {
    use crate::asm;
    use crate::kernel::{self, Errno};
    use libc::{SIG_DFL, SIG_IGN, c_int, c_void, siginfo_t};
    use std::ops::Range;
    use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
    use std::{mem, ptr};

    /// What was there before, for [`SIGNALS`] in turn; null for the default.
    static BEFORE: [AtomicPtr<libc::sigaction>; 2] =
        [AtomicPtr::new(ptr::null_mut()), AtomicPtr::new(ptr::null_mut())];
    const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGILL];
    /// Whether the handler was put there, for each of them.
    static INSTALLED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

    /// A table that the handler goes through: a program, and a shared object, has one each.
    struct Table {
        entries: Range<*const [i32; 2]>,
        older: *mut Table,
    }

    /// The newest of those known.
    static TABLES: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());

    /// Adds a table to those known, if it is not among them and not empty. Two threads that do so
    /// at the same time may add it twice, which does no harm.
    pub(super) fn add_table(entries: Range<*const [i32; 2]>) {
        let mut older = TABLES.load(Ordering::Acquire);
        // SAFETY: null, or a table that is never freed.
        let mut next = unsafe { older.as_ref() };
        while let Some(table) = next {
            if table.entries == entries {
                return;
            }
            // SAFETY: as above.
            next = unsafe { table.older.as_ref() };
        }
        if entries.is_empty() {
            return;
        }
        let table = Box::into_raw(Box::new(Table { entries, older }));
        while let Err(newer) =
            TABLES.compare_exchange(older, table, Ordering::AcqRel, Ordering::Acquire)
        {
            older = newer;
            // SAFETY: nobody else knows it yet.
            unsafe { (*table).older = older };
        }
    }

    /// Called with what the kernel gives a handler with `SA_SIGINFO`.
    type Handler = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

    /// Nobody waits for anybody here: a fork would leave the child a lock that nobody releases. Threads
    /// that do this at the same time all put the handler there, and the first remembers what was before.
    pub(super) fn install() -> Result<(), Errno> {
        // The reads that are not inlined are in this library's.
        add_table(asm::exception_table());
        if TABLES.load(Ordering::Acquire).is_null() {
            return Ok(());
        }
        for ((signal, before), installed) in SIGNALS.into_iter().zip(&BEFORE).zip(&INSTALLED) {
            // Once only: whoever has put another handler in front of ours since may call ours, and ours
            // in front of that would be called by itself.
            if installed.load(Ordering::Acquire) {
                continue;
            }
            // It must be known before the handler can run.
            let found = sigaction(signal, None)?;
            if !is_ours(&found) {
                remember(before, found);
                let replaced = sigaction(signal, Some(&in_front_of(&found)))?;
                if !is_ours(&replaced) && replaced.sa_sigaction != found.sa_sigaction {
                    // Somebody else's, installed just in between.
                    remember(before, replaced);
                    sigaction(signal, Some(&in_front_of(&replaced)))?;
                }
            }
            installed.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn is_ours(action: &libc::sigaction) -> bool {
        [on_fault as Handler as usize, on_fault_or_default as Handler as usize]
            .contains(&action.sa_sigaction)
    }

    /// Remembers what was there before, for ever: the handler may be at it at any time.
    fn remember(slot: &AtomicPtr<libc::sigaction>, before: libc::sigaction) {
        let known = slot.load(Ordering::Acquire);
        let is_it = |known: &libc::sigaction| {
            (known.sa_sigaction, known.sa_flags) == (before.sa_sigaction, before.sa_flags)
        };
        // SAFETY: null, or from a Box that is never freed.
        if unsafe { known.as_ref() }.is_some_and(is_it) {
            return;
        }
        let mine = Box::into_raw(Box::new(before));
        if slot.compare_exchange(known, mine, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // Another thread has been faster.
            // SAFETY: from Box::into_raw above, and nobody else knows it.
            drop(unsafe { Box::from_raw(mine) });
        }
    }

    /// Our handler, called as the one before would have been: on its stack, with its mask.
    fn in_front_of(before: &libc::sigaction) -> libc::sigaction {
        let mut ours = *before;
        ours.sa_sigaction = on_fault as Handler as usize;
        ours.sa_flags = if matches!(before.sa_sigaction, SIG_DFL | SIG_IGN) {
            // What is ignored does not interrupt a system call.
            libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART
        } else {
            // One-shot is the other's business.
            (before.sa_flags | libc::SA_SIGINFO) & !libc::SA_RESETHAND
        };
        ours
    }

    fn sigaction(signal: c_int, to: Option<&libc::sigaction>) -> Result<libc::sigaction, Errno> {
        // SAFETY: a structure of numbers and an optional address, for which zeros are valid.
        let mut before: libc::sigaction = unsafe { mem::zeroed() };
        let to = to.map_or(ptr::null(), ptr::from_ref);
        // SAFETY: both are null or live through the call; what handler is set, the callers answer
        // for.
        match unsafe { libc::sigaction(signal, to, &mut before) } {
            0 => Ok(before),
            _ => Err(kernel::last_error()),
        }
    }

    /// Goes on elsewhere after a fault in the table, or does as if it were not here.
    ///
    /// # Safety
    /// The kernel calls it.
    unsafe extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel's arguments: both point to what they say while this runs, and the
        // context is taken up again when it returns.
        unsafe {
            if !resume(info, context) {
                pass_on(signal, info, context);
            }
        }
    }

    /// The same in front of the default, whatever was there when [`install`] was called.
    ///
    /// # Safety
    /// The kernel calls it.
    unsafe extern "C" fn on_fault_or_default(
        signal: c_int,
        info: *mut siginfo_t,
        context: *mut c_void,
    ) {
        // SAFETY: as in on_fault.
        unsafe {
            if !resume(info, context) {
                default(signal, info);
            }
        }
    }

    /// Has the thread go on elsewhere if it is a fault in a table, and says whether it is.
    ///
    /// # Safety
    /// With what the kernel called a handler with.
    unsafe fn resume(info: *mut siginfo_t, context: *mut c_void) -> bool {
        // SAFETY: by the caller's promise, both point to what they say.
        unsafe {
            // Above 0 it is the kernel's word; of processes, only this one can forge it. A forged fault at a
            // read makes that answer "no counter".
            let is_fault = (*info).si_code > 0;
            let counter = asm::program_counter(context);
            match resumption(*counter) {
                Some(place) if is_fault => {
                    *counter = place;
                    true
                }
                _ => false,
            }
        }
    }

    /// Where to go on after a fault at this address, if it is in a table.
    fn resumption(address: usize) -> Option<usize> {
        // SAFETY: null, or a table that is never freed.
        let mut next = unsafe { TABLES.load(Ordering::Acquire).as_ref() };
        while let Some(Table { entries, older }) = next {
            let mut entry = entries.start;
            while entry < entries.end {
                // SAFETY: within the table, which the linker has made of such entries and nobody
                // changes.
                let [instruction, resumption] = unsafe { entry.read() };
                let from = entry.addr();
                let is_one = [instruction, resumption] != [0, 0];
                if is_one && from.wrapping_add_signed(instruction as isize) == address {
                    return Some((from + 4).wrapping_add_signed(resumption as isize));
                }
                entry = entry.wrapping_add(1);
            }
            // SAFETY: as above.
            next = unsafe { older.as_ref() };
        }
        None
    }

    /// How `struct ucontext` begins, on every architecture.
    #[repr(C)]
    struct Beginning {
        _flags: libc::c_ulong,
        /// `uc_link`.
        link: *mut c_void,
    }

    /// What marks a context as passed on, by its address.
    static PASSED_ON: u8 = 0;

    /// Does what would have been done without us.
    ///
    /// # Safety
    /// With what the kernel called the handler with, and at its end.
    unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        let slot = SIGNALS.iter().zip(&BEFORE).find(|(known, _)| **known == signal);
        let Some((_, slot)) = slot else { return };
        // SAFETY: null, or from a Box that is never freed.
        let before = unsafe { slot.load(Ordering::Acquire).as_ref() };
        let place = before.map_or(SIG_DFL, |before| before.sa_sigaction);
        // SAFETY: by the caller's promise, info is what the kernel gave the handler.
        let is_fault = unsafe { (*info).si_code } > 0;
        match (before, place) {
            // SAFETY: likewise.
            (None, _) | (_, SIG_DFL) => unsafe { default(signal, info) },
            // A fault cannot be ignored: the kernel does not.
            // SAFETY: likewise.
            (_, SIG_IGN) if is_fault => unsafe { default(signal, info) },
            (_, SIG_IGN) => {}
            (Some(before), place) => {
                // The kernel leaves this field null at each delivery, and does not look at it again.
                // SAFETY: by the caller's promise, the context is what the kernel gave the handler.
                let link = unsafe { &raw mut (*context.cast::<Beginning>()).link };
                let mark = (&raw const PASSED_ON).cast_mut().cast();
                // SAFETY: as above.
                let marked = unsafe { link.replace(mark) };
                if marked == mark {
                    // The handler before ours calls ours: it has put itself in front again, and found
                    // ours there. So it is done, and what is left is the default.
                    // SAFETY: as above.
                    return unsafe { default(signal, info) };
                }
                if before.sa_flags & libc::SA_RESETHAND != 0 {
                    slot.store(ptr::null_mut(), Ordering::Release);
                }
                if before.sa_flags & libc::SA_SIGINFO != 0 {
                    // SAFETY: whoever installed it said that it is such a function.
                    let handler: Handler = unsafe { mem::transmute(place) };
                    // SAFETY: the kernel's arguments, at a moment at which it would call it.
                    unsafe { handler(signal, info, context) };
                } else {
                    // SAFETY: as above, of the other kind.
                    let handler: unsafe extern "C" fn(c_int) = unsafe { mem::transmute(place) };
                    // SAFETY: as above.
                    unsafe { handler(signal) };
                }
                // SAFETY: as above: the context is there until our handler returns.
                unsafe { link.write(marked) };
                // Rust's own handler, for one, puts the default back and has the fault happen again. Not
                // every signal does, so ours stays in front of the default, or nothing is contained any more.
                if let Ok(now @ libc::sigaction { sa_sigaction: SIG_DFL, .. }) =
                    sigaction(signal, None)
                {
                    let ours = libc::sigaction {
                        sa_sigaction: on_fault_or_default as Handler as usize,
                        ..in_front_of(&now)
                    };
                    match sigaction(signal, Some(&ours)) {
                        // Another thread's, installed just in between.
                        Ok(other) if other.sa_sigaction != SIG_DFL && !is_ours(&other) => {
                            let _ = sigaction(signal, Some(&other));
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// Puts the default back, and has it happen: the signal is sent again, as it came, and is blocked
    /// until the handler returns. Not every fault would happen again by itself: one of the signal frame
    /// that the kernel could not restore does not.
    ///
    /// # Safety
    /// `info` is what the kernel gave the handler.
    unsafe fn default(signal: c_int, info: *mut siginfo_t) {
        // SAFETY: the caller's promise.
        let is_fault = unsafe { (*info).si_code } > 0;
        // SAFETY: takes nothing.
        if !is_fault && unsafe { libc::getpid() } == 1 {
            return; // The default of signals that are sent to the first process is to be ignored.
        }
        // SAFETY: a structure of numbers and an optional address, for which zeros are valid: the
        // default, with no flags.
        let action: libc::sigaction = unsafe { mem::zeroed() };
        // It cannot fail for these signals; nor could anything be done here if it did.
        let _ = sigaction(signal, Some(&action));
        // SAFETY: takes numbers and what the kernel has written, and keeps no pointer. A process may
        // send itself any information.
        let sent = unsafe {
            let (process, thread) = (libc::getpid(), libc::gettid());
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info)
        };
        if sent != 0 {
            // Refused, by a seccomp filter, say. This may be allowed, or the fault happens again.
            // SAFETY: takes a number.
            unsafe { libc::raise(signal) };
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod handler {
    use crate::kernel::Errno;

    pub(super) fn install() -> Result<(), Errno> {
        Ok(())
    }
}
