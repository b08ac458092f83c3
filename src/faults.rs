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
use crate::error::Error;
use crate::sys;
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
/// - The time stamp counter, which [`reading`](crate::Counter::reading) reads and a thread can forbid
///   itself (`PR_SET_TSC`), is not covered.
///
/// # Errors
/// [`Error::Unsupported`] where there are no such signals, [`Error::System`] for what no kernel is
/// known to do.
#[inline(always)]
pub fn contain_faults() -> Result<(), Error> {
    // Inlined, so that it is the table of the caller, which has most reads inlined as well.
    #[cfg(target_os = "linux")]
    handler::add_table(asm::exception_table());
    contain()
}

fn contain() -> Result<(), Error> {
    if !sys::SUPPORTED {
        return Err(Error::Unsupported);
    }
    handler::install().map_err(Error::of_call("sigaction"))?;
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
    use crate::sys::{self, Errno};
    use libc::{SIG_DFL, SIG_IGN, c_int, c_void, siginfo_t};
    use std::ops::Range;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicPtr, Ordering};
    use std::{mem, ptr};

    /// What was there before, for [`SIGNALS`] in turn; null for the default.
    static BEFORE: [AtomicPtr<libc::sigaction>; 2] =
        [AtomicPtr::new(ptr::null_mut()), AtomicPtr::new(ptr::null_mut())];
    const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGILL];

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

    pub(super) fn install() -> Result<(), Errno> {
        static INSTALLED: Mutex<bool> = Mutex::new(false);
        // What it guards is right at every moment, whoever has panicked.
        let mut installed = INSTALLED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // The reads that are not inlined are in this library's.
        add_table(asm::exception_table());
        if *installed || TABLES.load(Ordering::Acquire).is_null() {
            return Ok(());
        }
        for (signal, slot) in SIGNALS.into_iter().zip(&BEFORE) {
            // It must be known before the handler can run.
            let before = sigaction(signal, None)?;
            if before.sa_sigaction == on_fault as Handler as usize {
                continue; // by a call that failed half-way
            }
            remember(slot, before);
            let replaced = sigaction(signal, Some(&in_front_of(&before)))?;
            if replaced.sa_sigaction != before.sa_sigaction {
                // Somebody else's, installed just in between.
                remember(slot, replaced);
                sigaction(signal, Some(&in_front_of(&replaced)))?;
            }
        }
        *installed = true;
        Ok(())
    }

    /// What is remembered stays for ever: the handler may be at it at any time.
    fn remember(slot: &AtomicPtr<libc::sigaction>, before: libc::sigaction) {
        slot.store(Box::into_raw(Box::new(before)), Ordering::Release);
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
            _ => Err(sys::last_error()),
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
            // Above 0 it is the processor's word, not some process's.
            let is_fault = (*info).si_code > 0;
            let counter = asm::program_counter(context);
            match resumption(*counter) {
                Some(place) if is_fault => *counter = place,
                _ => pass_on(signal, info, context),
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
        let code = unsafe { (*info).si_code };
        let is_fault = code > 0;
        // All faults of instructions, but not arm64's late word of a store with a wrong tag.
        const SEGV_MTEAERR: c_int = 8;
        let happens_again = is_fault && (signal, code) != (libc::SIGSEGV, SEGV_MTEAERR);
        match (before, place) {
            (None, _) | (_, SIG_DFL) => default(signal, happens_again),
            // A fault cannot be ignored: the kernel does not.
            (_, SIG_IGN) if is_fault => default(signal, happens_again),
            (_, SIG_IGN) => {}
            (Some(before), place) => {
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
            }
        }
    }

    /// Puts the default back, and has it happen: a fault by happening again as soon as the handler
    /// returns, another signal by being sent again.
    fn default(signal: c_int, happens_again: bool) {
        // SAFETY: a structure of numbers and an optional address, for which zeros are valid: the
        // default, with no flags.
        let action: libc::sigaction = unsafe { mem::zeroed() };
        // It cannot fail for these signals; nor could anything be done here if it did.
        let _ = sigaction(signal, Some(&action));
        if !happens_again {
            // SAFETY: takes a number. It is blocked until the handler returns.
            unsafe { libc::raise(signal) };
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod handler {
    use crate::sys::Errno;

    pub(super) fn install() -> Result<(), Errno> {
        Ok(())
    }
}
