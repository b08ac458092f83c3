//! The cost of spans and laps.

use rdpmc::{Counter, Event};
use rdpmc_spans::{Counters, Laps, Settings, Site, span};
use std::hint::black_box;

/// Two events beside the counter that measures the spans.
const TWO: [Event; 2] = if cfg!(target_arch = "riscv64") {
    [Event::CYCLES, Event::DTLB_LOAD_MISSES]
} else {
    [Event::INSTRUCTIONS; 2]
};

/// Measures spans and laps.
pub fn measure() -> Result<[(&'static str, Option<u64>); 4], rdpmc::Error> {
    let counter = Counter::builder(Event::INSTRUCTIONS).allow_all_privilege_levels(true).open()?;
    let recording = Settings::new().start().expect("no other recording");
    let span = span(&counter);
    drop(recording);
    let off = span_off(&counter);
    let counted = Settings::new().events(&TWO).counters(Counters::Always).start();
    let mut recording = counted.expect("no other recording");
    let (span2, lap2) = (span2(&counter), lap2(&counter));
    let report = recording.report();
    let is_counted = report.rows.iter().all(|row| row.not_counted == 0 && row.counts.len() == 2);
    let (span2, lap2) = (span2.filter(|_| is_counted), lap2.filter(|_| is_counted));
    Ok([("span", span), ("span2", span2), ("lap2", lap2), ("span_off", off)])
}

/// Returns the cost of a span and of a lap with the events of the top-down method.
#[cfg(all(target_arch = "x86_64", feature = "scenarios"))]
pub fn topdown() -> Result<[u64; 2], String> {
    let counter = Counter::open(Event::INSTRUCTIONS).map_err(|why| why.to_string())?;
    let settings = Settings::new().topdown().counters(Counters::Always);
    let mut recording = settings.start().map_err(|why| why.to_string())?;
    let costs = [span2(&counter), lap2(&counter)];
    let report = recording.report();
    // An empty span has no slots of its own.
    let is_counted = report.threads.iter().all(|thread| thread.events.len() >= 4);
    if !is_counted || report.rows.iter().any(|row| row.not_counted > 0) {
        return Err(format!("not all were counted: {report}"));
    }
    match costs {
        [Some(span), Some(lap)] => Ok([span, lap]),
        _ => Err("the counter could not be read".into()),
    }
}

/// Defines the cost of one more span or lap: three in a row, minus two.
macro_rules! one_more_span {
    ($name:ident, $laps:ident, $call:expr) => {
        #[inline(never)]
        fn $name(counter: &Counter) -> Option<u64> {
            #[inline(never)]
            fn two(counter: &Counter, $laps: &mut Laps) -> Option<u64> {
                let first = black_box(counter).read_user()?;
                $call;
                $call;
                let second = counter.read_user()?;
                Some(second - first)
            }
            #[inline(never)]
            fn three(counter: &Counter, $laps: &mut Laps) -> Option<u64> {
                let first = black_box(counter).read_user()?;
                $call;
                $call;
                $call;
                let second = counter.read_user()?;
                Some(second - first)
            }
            let mut laps = Laps::new();
            laps.begin();
            let two = (0..100).filter_map(|_| two(counter, &mut laps)).min()?;
            let three = (0..100).filter_map(|_| three(counter, &mut laps)).min()?;
            three.checked_sub(two)
        }
    };
}
one_more_span!(span, _laps, drop(span!("a span")));
one_more_span!(span2, _laps, drop(span!("a span with two counters")));
one_more_span!(span_off, _laps, drop(span!("a span that is off")));
one_more_span!(lap2, laps, {
    static SITE: Site = Site::new("a lap", file!(), line!());
    laps.next(&SITE)
});
