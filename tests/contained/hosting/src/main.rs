//! A program that records the spans of a shared object which it unloads: `hosting OBJECT`. Exits with 0 if they have their name,
//! or are said to be of unloaded code, as the documentation has it.

use rdpmc_spans::{Settings, Site, Span, Spans, Storage};
use std::ffi::{CString, c_void};

const UNLOADED: &str = "code that may have been unloaded";

/// Loads the object, calls `record` with its site, and unloads it.
fn with_site(object: &CString, record: impl FnOnce(&'static Site)) {
    // SAFETY: the object's constructors do nothing, and its site is of this program's version of the crate.
    unsafe {
        let handle = libc::dlopen(object.as_ptr(), libc::RTLD_NOW);
        assert!(!handle.is_null());
        let function = libc::dlsym(handle, c"site".as_ptr());
        assert!(!function.is_null());
        let site = std::mem::transmute::<*mut c_void, extern "C" fn() -> *const Site>(function);
        record(&*site());
        assert_eq!(libc::dlclose(handle), 0);
    }
}

/// Returns the names of the rows, and how many spans each has.
fn names(spans: &mut Spans) -> Vec<(&'static str, u64)> {
    spans.take().report().rows.iter().map(|row| (row.name, row.count)).collect()
}

fn check(object: &CString, storage: Storage, is_collected: bool) {
    let mut spans = Settings::new().storage(storage).start().unwrap();
    drop(rdpmc_spans::span!("of the program"));
    with_site(object, |site| {
        (0..3).for_each(|_| drop(Span::enter(site)));
        if is_collected {
            spans.report();
        }
    });
    let name = if is_collected { "of the object" } else { UNLOADED };
    assert_eq!(names(&mut spans), [("of the program", 1), (name, 3)], "{storage:?}");
}

fn main() {
    let object = CString::new(std::env::args().nth(1).unwrap()).unwrap();
    for storage in [Storage::Ring { records: 64 }, Storage::Histograms] {
        check(&object, storage, false);
    }
    // In the child of a fork, the loader may be locked for ever, so nothing can be kept.
    let mut spans = Settings::new().start().unwrap();
    drop(rdpmc_spans::span!("of the program"));
    assert_eq!(names(&mut spans), [("of the program", 1)]);
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        with_site(&object, |site| {
            drop(Span::enter(site));
            spans.report();
        });
        drop(rdpmc_spans::span!("of the child"));
        assert_eq!(names(&mut spans), [(UNLOADED, 1), ("of the child", 1)]);
        return;
    }
    let mut status = 1;
    // SAFETY: waits for the child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    drop(spans);
    // Last, because the object stays loaded from then on.
    for storage in [Storage::Ring { records: 64 }, Storage::Histograms] {
        check(&object, storage, true);
    }
}
