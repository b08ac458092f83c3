//! A shared object that records spans, with their causes: the kernel gets an address of its own for the calling thread (rseq).

/// Returns 0 if the spans were recorded.
#[unsafe(no_mangle)]
pub extern "C" fn contain_and_check() -> i32 {
    let Ok(mut spans) = rdpmc_spans::Settings::new().causes().start() else { return 2 };
    for _ in 0..3 {
        let _span = rdpmc_spans::span!("work");
    }
    i32::from(spans.take().records().count() != 3)
}

static SITE: rdpmc_spans::Site = rdpmc_spans::Site::new("of the object", file!(), line!());

/// Returns a site of this object, for spans of the program that loads it.
#[unsafe(no_mangle)]
pub extern "C" fn site() -> *const rdpmc_spans::Site {
    &raw const SITE
}
