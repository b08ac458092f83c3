//! Control pages, tested on every machine with the real page of an event that counts nothing.

use super::process::{in_child, perf_mappings};
use super::skips;
use crate::kernel::{self, Attr, Errno, kind, software};
use crate::page::Pages;
use crate::page::fork;
use std::process::Command;
use std::sync::atomic::Ordering::SeqCst;

/// Needs a process of its own: it registers its fork handler before the library's, and counts its mappings.
#[test]
#[allow(clippy::unwrap_used)]
fn pages_in_a_process_of_their_own() {
    let test = "tests::page::mapped_unmapped_and_lost_in_a_fork";
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", test, "--ignored", "--nocapture"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{errors}");
    for line in errors.lines().filter(|line| line.contains("... skipped")) {
        skips::say(line);
    }
}

/// A fork handler for children that was registered before the library's, as another library might have one.
mod earlier {
    use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::SeqCst};

    /// The address at which it maps a page and writes 42, unless null.
    pub(super) static PLACE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

    /// A page that a signal handler reads in the child, unless null.
    pub(super) static READ: AtomicPtr<u32> = AtomicPtr::new(std::ptr::null_mut());
    /// The number of those reads.
    pub(super) static READS: AtomicU32 = AtomicU32::new(0);

    pub(super) extern "C" fn on_signal(_: libc::c_int) {
        let page = READ.load(SeqCst);
        if !page.is_null() {
            // SAFETY: reads an aligned word of the page that the test keeps mapped. If the child has lost it, the
            // child ends here.
            unsafe { page.read_volatile() };
            READS.fetch_add(1, SeqCst);
        }
    }

    pub(super) extern "C" fn in_child() {
        if !READ.load(SeqCst).is_null() {
            // The signal comes before the library's handler has run.
            // SAFETY: raise takes a number.
            unsafe { libc::raise(libc::SIGUSR1) };
        }
        let place = PLACE.load(SeqCst);
        if !place.is_null() {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            // SAFETY: the mapping is new and replaces none, and the write is within it.
            unsafe {
                let size = libc::sysconf(libc::_SC_PAGESIZE) as usize;
                let page = libc::mmap(place.cast(), size, access, kind, -1, 0);
                assert_eq!(page, place.cast());
                place.write(42);
            }
        }
    }
}

#[test]
#[ignore = "run by pages_in_a_process_of_their_own"]
fn mapped_unmapped_and_lost_in_a_fork() -> Result<(), Errno> {
    let mut attr = Attr {
        type_: kind::SOFTWARE,
        config: software::DUMMY,
        size: kernel::ATTR_SIZES[0],
        flags: kernel::flag::EXCLUDE_KERNEL,
        ..Attr::default()
    };
    let mut open = || kernel::open(&mut attr, 0, None);
    let event = match open() {
        Ok(event) => event,
        Err(errno) => {
            let why = format!("perf_event_open is refused here: {errno:?}");
            skips::skip("mapped_unmapped_and_lost_in_a_fork", &why);
            return Ok(());
        }
    };
    // SAFETY: the handler only maps a page, raises a signal and uses atomics.
    assert_eq!(unsafe { libc::pthread_atfork(None, None, Some(earlier::in_child)) }, 0);
    let process = fork::process()?;
    for _ in 0..10_000 {
        // A new event each time, because the kernel is slow to map an event again.
        Pages::map(&[&open()?], process)?;
    }
    assert_eq!(perf_mappings(), 0);

    let map = || {
        let pages = Pages::map(&[&event], process)?;
        pages.ok_or(Errno(0)) // nothing forks here
    };
    let [first, second, third] = [map()?, map()?, map()?];
    assert_eq!(perf_mappings(), 3);
    let is_real = |pages: &Pages| {
        let page = pages.first();
        page.capabilities().are_sure() && page.lock() > 0
    };
    assert!(is_real(&first) && is_real(&second) && is_real(&third));
    // From the middle of the list of mappings.
    drop(second);

    let is_zeros = |pages: &Pages| {
        let page = pages.first();
        let zeros = page.lock() == 0 && page.times() == (0, 0) && page.since_update().is_none();
        if zeros { Ok(()) } else { Err(format!("{pages:?} at lock {}", page.lock())) }
    };
    in_child(|| {
        is_zeros(&first)?;
        is_zeros(&third)?;
        if !process.is_past() || perf_mappings() != 0 {
            return Err("the fork went unnoticed".to_owned());
        }
        in_child(|| is_zeros(&first).and_then(|()| is_zeros(&third)))?;
        // SAFETY: the value is read once, and _exit ends this child before the parent's variable could be dropped.
        drop(unsafe { std::ptr::read(&first) });
        is_zeros(&third)
    })
    .unwrap_or_else(|why| panic!("{why}"));
    assert!(!process.is_past() && is_real(&first) && is_real(&third));

    // A signal that arrives before the zero pages are mapped is delayed until they are.
    // SAFETY: the handler only reads a page and counts.
    unsafe { libc::signal(libc::SIGUSR1, earlier::on_signal as *const () as libc::sighandler_t) };
    earlier::READ.store(first.address().cast::<u32>().cast_mut(), SeqCst);
    in_child(|| match earlier::READS.load(SeqCst) {
        1 => in_child(|| match earlier::READS.load(SeqCst) {
            2 => Ok(()),
            other => Err(format!("the child's child read {other} times")),
        }),
        other => Err(format!("the child read {other} times")),
    })
    .unwrap_or_else(|why| panic!("{why}"));
    earlier::READ.store(std::ptr::null_mut(), SeqCst);
    // SAFETY: `blocked` is valid for the write, and without a new set the call changes nothing.
    let blocked = unsafe {
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut blocked);
        libc::sigismember(&blocked, libc::SIGUSR1)
    };
    assert_eq!(blocked, 0, "after the fork nothing is blocked that was not");

    // Memory that something else has mapped in the place of a page is left alone.
    let place = first.address().cast::<u8>().cast_mut();
    earlier::PLACE.store(place, SeqCst);
    let pages = [first, third];
    in_child(|| {
        // SAFETY: the value is read once, and _exit ends this child before `pages` could be dropped.
        drop(unsafe { std::ptr::read(&pages) });
        // SAFETY: the fork handler has mapped and written the page. If it is gone, the read ends the child.
        match unsafe { place.read_volatile() } {
            42 => Ok(()),
            other => Err(format!("it reads {other}")),
        }
    })
    .unwrap_or_else(|why| panic!("{why}"));
    Ok(())
}
