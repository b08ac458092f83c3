//! Exits with 0 if every fault is contained: in this program, or in the shared object that is named. With `without`,
//! faults are not contained, and end the program. With UNLOAD, the program unloads the shared object, and exits with 42 if its
//! own handler gets the next fault. With BETWEEN, a handler that passes all on is installed between those of both. With HERE, it has called the object on the thread that goes on.

use std::ffi::{CString, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};

fn main() {
    let status = match std::env::args().nth(1).as_deref() {
        None => {
            library::contain_faults().expect("signals can be handled");
            library::check()
        }
        Some("without") => library::check(),
        Some(plugin) => {
            // With FIRST, this program contains its faults before the shared object does, and both after.
            let first = std::env::var_os("FIRST").is_some();
            if first {
                library::contain_faults().expect("signals can be handled");
            }
            if std::env::var_os("BETWEEN").is_some() {
                pass_on();
            }
            let name = CString::new(plugin).expect("no zero in it");
            // SAFETY: the shared object is ours, and its function has this type.
            unsafe {
                let object = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
                assert!(!object.is_null(), "{plugin} is not loaded");
                let function = libc::dlsym(object, c"contain_and_check".as_ptr());
                assert!(!function.is_null(), "{plugin} has no such function");
                let function =
                    std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> c_int>(function);
                if std::env::var_os("UNLOAD").is_some() {
                    unload(object, function);
                }
                function() + if first { library::check() } else { 0 }
            }
        }
    };
    std::process::exit(status);
}

/// Installs a handler that calls the one before.
fn pass_on() {
    static BEFORE: AtomicUsize = AtomicUsize::new(0);
    type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void);
    unsafe extern "C" fn on(signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the handler before has this type, and gets the kernel's arguments.
        unsafe {
            let before = std::mem::transmute::<usize, Handler>(BEFORE.load(Ordering::Relaxed));
            before(signal, info, context);
        }
    }
    // SAFETY: the actions are fully initialized. The handler before has SA_SIGINFO.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        assert_eq!(libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut action), 0);
        assert_ne!(action.sa_flags & libc::SA_SIGINFO, 0);
        BEFORE.store(action.sa_sigaction, Ordering::Relaxed);
        action.sa_sigaction = on as Handler as usize;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()), 0);
    }
}

/// Calls the function, unloads its object, and faults.
///
/// # Safety
/// The function is of the object, and nothing else of it is used.
unsafe fn unload(object: *mut libc::c_void, function: extern "C" fn() -> c_int) -> ! {
    extern "C" fn report(_: c_int) {
        // SAFETY: ends this process.
        unsafe { libc::_exit(42) };
    }
    // SAFETY: the handler makes one async-signal-safe call, and the caller promises the rest.
    unsafe {
        libc::signal(libc::SIGSEGV, report as extern "C" fn(c_int) as libc::sighandler_t);
        // A thread that goes on keeps the object loaded, because it has destructors of it to run.
        let status = match std::env::var_os("HERE") {
            Some(_) => Some(function()),
            None => std::thread::spawn(move || function()).join().ok(),
        };
        assert_eq!(status, Some(0));
        assert_eq!(libc::dlclose(object), 0);
        // The kernel looks at what this thread has registered.
        std::thread::sleep(std::time::Duration::from_millis(5));
        std::hint::black_box(std::ptr::without_provenance::<u8>(8)).read_volatile();
    }
    std::process::exit(3);
}
