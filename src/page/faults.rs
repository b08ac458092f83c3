//! Contains the faults of counter reads.
#![allow(unsafe_code)]

use crate::error::Error;
use crate::kernel;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Lets a program survive faults in counter reads: a read that faults returns "no counter" instead of ending the
/// process.
///
/// After this call, [`read_user`](crate::Counter::read_user) returns None on a fault, [`read`](crate::Counter::read)
/// continues with the system call, and a region returns [`Disturbed::Faulted`](crate::region::Disturbed::Faulted).
/// A handle whose read faulted does not fault again until [`retry_user`](crate::Counter::retry_user).
/// [`contained_faults`] returns the number of contained faults.
///
/// A read raises SIGSEGV or SIGILL in two cases:
/// - The administrator has revoked user access while the counter is open.
/// - The counter is lost between the load of its page and the read of the register (riscv64; CPUs with several core
///   types).
///
/// A region may read the register long after it loaded the page. On riscv64 and on CPUs with several core types,
/// regions require this function: see [`Counter::region`](crate::Counter::region).
///
/// ```
/// rdpmc::contain_faults()?;
/// # Ok::<(), rdpmc::Error>(())
/// ```
///
/// # Operation
///
/// Installs a handler in front of the existing ones for SIGSEGV and SIGILL, once. Later calls do nothing, except that
/// a call from another shared object covers that object's reads too.
///
/// The handler takes only the faults of this library's own reads, each known by its address (arm64, riscv64) or by its
/// instruction in an object that has called this function (x86-64). Every other signal is
/// passed on to the previous action, as if this handler did not exist. A previous handler runs on its own stack with
/// its own signal mask, and receives the original `siginfo` and context. If the previous action is the default, the
/// handler restores the default and raises the signal again. The handler is async-signal-safe. It costs nothing until a
/// fault occurs.
///
/// # Limits
///
/// - A handler that is installed later runs before this one, and must pass on the faults that it does not know. Call
///   this function after installing handlers that do not pass faults on.
/// - A fault while SIGSEGV or SIGILL is blocked ends the process, because the kernel then calls no handler. This
///   includes faults in a handler that blocks all signals.
/// - If several shared objects in a program contain reads of this library, each must call this function: the faults of others'
///   reads are passed on. An object that has called it stays loaded: `dlclose` does not unload it.
/// - Two versions of this library in one object contain each other's faults, but a handle of the other faults at each read. On
///   x86-64, nothing is contained in code that can be executed and not read.
/// - If SIGSEGV or SIGILL was ignored before, sending it to the process now interrupts system calls that do not restart
///   (`poll`, `nanosleep`). Programs started by `exec` no longer ignore it.
/// - Restoring an earlier handler removes this one. It does not come back.
/// - Some handlers reinstall themselves in front each time they are called, and then call the handler that they
///   replaced. Such a handler and this one can call each other in a loop. If this handler is entered again for the same
///   signal, it takes the default action.
/// - A refused read makes the handler call `mmap` and `getpid`. A seccomp filter that kills for these ends the process. If
///   one refuses them, each read of the handle faults.
/// - Reads of the tick counter are not covered. [`reading`](crate::Counter::reading) makes them, and a thread can
///   disable them for itself (`PR_SET_TSC`).
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::error::ErrorKind) on systems without these signals. `System` for any other kernel error; no
/// such error is known.
#[inline] // into the caller's object, which has most reads
pub fn contain_faults() -> Result<(), Error> {
    #[cfg(target_os = "linux")]
    return contain(kernel::object_here());
    #[cfg(not(target_os = "linux"))]
    Err(Error::unsupported())
}

/// Installs the handler for the reads of this library's object and the caller's.
#[cfg(target_os = "linux")]
fn contain(caller: kernel::Header) -> Result<(), Error> {
    handler::install(caller)?;
    CALLED.store(true, Ordering::Release);
    Ok(())
}

/// Keeps the shared object of an address loaded until the process ends. For rdpmc-spans, which gives the kernel addresses of
/// its own: no promise of this library.
#[doc(hidden)]
pub fn keep_loaded(address: *const ()) -> Result<(), Error> {
    kernel::keep_loaded(address.cast()).map_err(Error::of_call("dlopen"))
}

static CALLED: AtomicBool = AtomicBool::new(false);

/// Whether [`contain_faults`] has succeeded in this process. Stays true if another handler replaces this library's.
pub fn faults_are_contained() -> bool {
    CALLED.load(Ordering::Acquire)
}

/// Returns how many faults of counter reads were [contained](contain_faults) in this process, by this copy of the library. Any
/// thread may ask.
///
/// A handle stops trying after its first fault (on riscv64 and on CPUs with several core types, after the second): see
/// [`Counter::retry_user`](crate::Counter::retry_user).
pub fn contained_faults() -> u64 {
    contained() as u64
}

/// The number of contained faults.
pub(crate) fn contained() -> usize {
    CONTAINED.load(Ordering::Relaxed)
}

static CONTAINED: AtomicUsize = AtomicUsize::new(0);

#[cfg(target_os = "linux")]
mod handler {
    use crate::asm;
    use crate::error::Error;
    use crate::kernel::{self, Errno, Header, List, Object};
    use crate::page::mapped;
    use libc::{SIG_DFL, SIG_IGN, c_int, c_void, siginfo_t};
    use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
    use std::{mem, ptr};

    /// The previous action for each of [`SIGNALS`]. Null for the default.
    static BEFORE: [AtomicPtr<libc::sigaction>; 2] =
        [AtomicPtr::new(ptr::null_mut()), AtomicPtr::new(ptr::null_mut())];
    const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGILL];
    /// Whether the handler was installed, for each of [`SIGNALS`].
    static INSTALLED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

    /// This library's object and those that have called [`install`]. They stay loaded.
    static OBJECTS: List<Object> = List::new();

    /// Adds an object to those with reads, and keeps it loaded. Two threads that call this at the same time may add it twice, which
    /// does no harm.
    fn cover(header: Header) -> Result<(), Error> {
        if OBJECTS.iter().any(|known| known.header == header.address().addr()) {
            return Ok(());
        }
        kernel::keep_loaded(header.address()).map_err(Error::of_call("dlopen"))?;
        // SAFETY: it has just been kept loaded.
        OBJECTS.push(unsafe { Object::at(header) });
        Ok(())
    }

    /// A handler with `SA_SIGINFO`.
    type Handler = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

    /// Installs the handler, without waiting for another thread: a fork would leave the child a lock that no thread
    /// releases. Threads that do this at the same time all install the handler, and the first stores the previous
    /// action. `caller` is the caller's object.
    pub(super) fn install(caller: Header) -> Result<(), Error> {
        if asm::TICKS.is_none() {
            return Ok(()); // this target reads neither ticks nor counters
        }
        let set = |signal, to: &libc::sigaction| {
            sigaction(signal, Some(to)).map_err(Error::of_call("sigaction"))
        };
        // The reads that are not inlined are in this library's object, as is the handler.
        cover(kernel::object_here())?;
        cover(caller)?;
        for ((signal, before), installed) in SIGNALS.into_iter().zip(&BEFORE).zip(&INSTALLED) {
            // Once only. A handler that was installed in front of ours since then may call ours. If ours were
            // installed in front of that one, it would be called by itself.
            if installed.load(Ordering::Acquire) {
                continue;
            }
            // The previous action must be stored before the handler can run.
            let found = sigaction(signal, None).map_err(Error::of_call("sigaction"))?;
            if !is_ours(&found) {
                remember(before, found);
                let replaced = set(signal, &in_front_of(&found))?;
                if !is_ours(&replaced) && replaced.sa_sigaction != found.sa_sigaction {
                    // Another handler was installed in between.
                    remember(before, replaced);
                    set(signal, &in_front_of(&replaced))?;
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

    /// Stores the previous action for ever: the handler may use it at any time.
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
            // Another thread was faster.
            // SAFETY: from Box::into_raw above, and not published.
            drop(unsafe { Box::from_raw(mine) });
        }
    }

    /// Returns the action with our handler, called as the previous handler would be: on its stack, with its mask.
    fn in_front_of(before: &libc::sigaction) -> libc::sigaction {
        let mut ours = *before;
        ours.sa_sigaction = on_fault as Handler as usize;
        ours.sa_flags = if matches!(before.sa_sigaction, SIG_DFL | SIG_IGN) {
            // An ignored signal does not interrupt system calls.
            libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART
        } else {
            // `pass_on` handles one-shot handlers.
            (before.sa_flags | libc::SA_SIGINFO) & !libc::SA_RESETHAND
        };
        ours
    }

    fn sigaction(signal: c_int, to: Option<&libc::sigaction>) -> Result<libc::sigaction, Errno> {
        // SAFETY: a structure of integers and an optional address, for which zeros are valid.
        let mut before: libc::sigaction = unsafe { mem::zeroed() };
        let to = to.map_or(ptr::null(), ptr::from_ref);
        // SAFETY: both pointers are null or valid during the call. Callers set only our handler, an earlier action or
        // the default.
        match unsafe { libc::sigaction(signal, to, &mut before) } {
            0 => Ok(before),
            _ => Err(kernel::last_error()),
        }
    }

    /// Continues after a fault of a read. Passes every other signal on.
    ///
    /// # Safety
    /// The arguments are those that the kernel passes to a handler.
    unsafe extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel's arguments: both pointers are valid while this runs, and the context is restored when
        // it returns.
        unsafe {
            if !continue_after_fault(info, context) {
                pass_on(signal, info, context);
            }
        }
    }

    /// Does as [`on_fault`] with the default as the previous action, whatever [`install`] found.
    ///
    /// # Safety
    /// The arguments are those that the kernel passes to a handler.
    unsafe extern "C" fn on_fault_or_default(
        signal: c_int,
        info: *mut siginfo_t,
        context: *mut c_void,
    ) {
        // SAFETY: the kernel's arguments: both pointers are valid while this runs, and the context is restored when
        // it returns.
        unsafe {
            if !continue_after_fault(info, context) {
                default(signal, info);
            }
        }
    }

    /// Makes the thread continue behind a read of this library that has faulted. Returns whether it does.
    ///
    /// # Safety
    /// The arguments are those that the kernel passes to a handler.
    unsafe fn continue_after_fault(info: *mut siginfo_t, context: *mut c_void) -> bool {
        let has = |object: &Object, address| object.code.iter().any(|code| code.contains(&address));
        let is_code = |address: usize| OBJECTS.iter().any(|object| has(object, address));
        // SAFETY: the caller promises the kernel's arguments: both pointers are valid while this runs. The loader has mapped
        // the code readable, and its objects stay loaded.
        unsafe {
            // A code above 0 comes from the kernel. Among processes, only this one can forge it. A forged fault at a
            // read makes the read return "no counter".
            if (*info).si_code <= 0 {
                return false;
            }
            let Some(read) = asm::refused_read(context, is_code) else { return false };
            super::CONTAINED.fetch_add(1, Ordering::Relaxed);
            kernel::keeping_errno(|| mapped::give_up(asm::saved_registers(context)));
            asm::continue_after(read, context);
            true
        }
    }

    /// The beginning of `struct ucontext`, on every architecture.
    #[repr(C)]
    struct Beginning {
        _flags: libc::c_ulong,
        /// `uc_link`.
        link: *mut c_void,
    }

    /// The mark of a context that was passed on: the address of this static.
    static PASSED_ON: u8 = 0;

    /// Takes the previous action, as if our handler did not exist.
    ///
    /// # Safety
    /// The arguments are those that the kernel passed to the handler. The handler does nothing after this call.
    unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        let slot = SIGNALS.iter().zip(&BEFORE).find(|(known, _)| **known == signal);
        let Some((_, slot)) = slot else { return };
        // SAFETY: null, or from a Box that is never freed.
        let before = unsafe { slot.load(Ordering::Acquire).as_ref() };
        let place = before.map_or(SIG_DFL, |before| before.sa_sigaction);
        // SAFETY: by the caller's promise, `info` is what the kernel passed to the handler.
        let is_fault = unsafe { (*info).si_code } > 0;
        match (before, place) {
            // SAFETY: by the caller's promise, `info` is what the kernel passed to the handler.
            (None, _) | (_, SIG_DFL) => unsafe { default(signal, info) },
            // A fault cannot be ignored: the kernel does not ignore it either.
            // SAFETY: by the caller's promise, `info` is what the kernel passed to the handler.
            (_, SIG_IGN) if is_fault => unsafe { default(signal, info) },
            (_, SIG_IGN) => {}
            (Some(before), place) => {
                // The kernel sets this field to null at each delivery, and does not load it again.
                // SAFETY: by the caller's promise, `context` is what the kernel passed to the handler.
                let link = unsafe { &raw mut (*context.cast::<Beginning>()).link };
                let mark = (&raw const PASSED_ON).cast_mut().cast();
                // SAFETY: the field is within the context, which is valid and writable until our handler returns.
                let marked = unsafe { link.replace(mark) };
                if marked == mark {
                    // The previous handler calls ours: it has reinstalled itself in front, and found ours there. It
                    // has run, and only the default remains.
                    // SAFETY: by the caller's promise, `info` is what the kernel passed to the handler.
                    return unsafe { default(signal, info) };
                }
                if before.sa_flags & libc::SA_RESETHAND != 0 {
                    slot.store(ptr::null_mut(), Ordering::Release);
                }
                if before.sa_flags & libc::SA_SIGINFO != 0 {
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
                // SAFETY: the field is within the context, which is valid and writable until our handler returns.
                unsafe { link.write(marked) };
                // Rust's own handler, for example, restores the default and lets the fault repeat. Not every signal
                // repeats, so ours goes back in front of the default. Otherwise nothing would be contained any more.
                if let Ok(now @ libc::sigaction { sa_sigaction: SIG_DFL, .. }) =
                    sigaction(signal, None)
                {
                    let mut ours = in_front_of(&now);
                    ours.sa_sigaction = on_fault_or_default as Handler as usize;
                    match sigaction(signal, Some(&ours)) {
                        // Another thread has installed this one in between.
                        Ok(other) if other.sa_sigaction != SIG_DFL && !is_ours(&other) => {
                            let _ = sigaction(signal, Some(&other));
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// Restores the default action and sends the signal again, with its information. It is blocked until the handler
    /// returns. Not every fault repeats by itself: one of a signal frame that the kernel could not restore does not.
    ///
    /// # Safety
    /// `info` is what the kernel passed to the handler.
    unsafe fn default(signal: c_int, info: *mut siginfo_t) {
        // SAFETY: by the caller's promise, `info` is what the kernel passed to the handler.
        let is_fault = unsafe { (*info).si_code } > 0;
        // SAFETY: the call takes no argument.
        if !is_fault && unsafe { libc::getpid() } == 1 {
            return; // By default, the first process ignores signals that are sent to it.
        }
        // SAFETY: a structure of integers and an optional address, for which zeros are valid: the default action
        // without flags.
        let action: libc::sigaction = unsafe { mem::zeroed() };
        // This cannot fail for these signals, and a failure would have no remedy here.
        let _ = sigaction(signal, Some(&action));
        // SAFETY: the call takes integers and a pointer to what the kernel wrote, and keeps no pointer. A process may
        // send itself any information.
        let sent = unsafe {
            let (process, thread) = (libc::getpid(), libc::gettid());
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info)
        };
        if sent != 0 {
            // Refused, for example by a seccomp filter. `raise` may be allowed. Otherwise the fault repeats.
            // SAFETY: the call takes an integer.
            unsafe { libc::raise(signal) };
        }
    }
}
