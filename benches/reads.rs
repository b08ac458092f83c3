//! Compares the cost of reading counters with that of other ways: `cargo bench --bench reads`.
//!
//! Reports, and leaves out, anything that this machine does not have.
#![allow(missing_docs)]

use criterion::Criterion;
use perf_event::ReadFormat;
use perf_event::events::{Event as TheirEvent, Hardware, Software};
use rdpmc::{Counter, Error, Event, Group};
use rdpmc_benches::{self as beside, Comparison};
use rdpmc_criterion::ClockMeasurement;
use std::cell::{Cell, RefCell};
use std::os::fd::AsRawFd;

type Part = fn(&mut Criterion<ClockMeasurement>) -> Result<(), Error>;

fn main() -> Result<(), Error> {
    let mut criterion = beside::criterion()?;
    let parts: [(&str, Part); 4] = [
        ("a counter, from user space", user_space),
        ("regions", regions),
        ("groups", groups),
        ("a counter, by the kernel", by_the_kernel),
    ];
    for (what, part) in parts {
        if let Err(why) = part(&mut criterion) {
            println!("Left out: {what}: {why}.\n");
        }
    }
    criterion.final_summary();
    Ok(())
}

/// Opens the event once more, with perf-event2.
fn theirs(event: impl TheirEvent) -> std::io::Result<perf_event::Counter> {
    perf_event::Builder::new(event).exclude_kernel(true).exclude_hv(true).enabled(true).build()
}

/// `PERF_EVENT_IOC_ID`.
const ID: libc::c_ulong = libc::_IOR::<*mut u64>(b'$' as u32, 7);

/// Makes a plain `read(2)` of an event that is already open.
fn read_2(event: &perf_event::Counter) -> [u64; 4] {
    let mut words = [0; 4];
    // SAFETY: `words` is valid for writes of its own size.
    unsafe { libc::read(event.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(&words)) };
    words
}

fn user_space(criterion: &mut Criterion<ClockMeasurement>) -> Result<(), Error> {
    let counter = &from_user_space(Event::INSTRUCTIONS)?;
    let mut comparison =
        Comparison::with(criterion, "counter", "Counter::read_user", || counter.read_user())?;
    comparison.beside("Counter::read", || counter.read().ok());
    comparison.beside("Counter::reading", || counter.reading().ok());
    comparison.beside("Counter::read_user, fenced", || fenced(|| counter.read_user()));
    if let Ok(theirs) = theirs(Hardware::INSTRUCTIONS) {
        comparison.beside("read(2)", || read_2(&theirs));
        if let Ok(sampler) = theirs.sampled(0) {
            if sampler.read_user().count().is_some() {
                comparison.beside("perf-event2 Sampler::read_user", || sampler.read_user().count());
            } else {
                println!("perf-event2 cannot read counters from user space on this machine.");
            }
        }
    }
    comparison.beside("std Instant::now", std::time::Instant::now);
    Ok(())
}

/// Reads between two fences.
#[inline(always)]
fn fenced<T>(read: impl FnOnce() -> T) -> T {
    rdpmc::fence();
    let counts = read();
    rdpmc::fence();
    counts
}

/// Opens a counter that user space must be able to read.
fn from_user_space(event: Event) -> Result<Counter, Error> {
    let counter = Counter::builder(event).allow_all_privilege_levels(true).open()?;
    counter.region()?; // fails with the reason if user space cannot
    Ok(counter)
}

fn regions(criterion: &mut Criterion<ClockMeasurement>) -> Result<(), Error> {
    let counter = &from_user_space(Event::INSTRUCTIONS)?;
    let (plain, fenced) = (counter.region()?, counter.region()?.fenced());
    let mut comparison = Comparison::with(criterion, "region", "an empty region", move || {
        plain.measure(|| ()).1.ok()
    })?;
    comparison.beside("an empty region, fenced", || fenced.measure(|| ()).1.ok());
    comparison.beside("two read_user", || (counter.read_user(), counter.read_user()));
    Ok(())
}

fn groups(criterion: &mut Criterion<ClockMeasurement>) -> Result<(), Error> {
    let events = [Event::CYCLES, Event::INSTRUCTIONS];
    let group = &Group::builder(events).allow_all_privilege_levels(true).open()?;
    let region = group.region()?;
    let mut comparison =
        Comparison::with(criterion, "group of two", "Group::read_user", || group.read_user())?;
    comparison.beside("Group::read_user, fenced", || fenced(|| group.read_user()));
    comparison.beside("Group::reading", || group.reading().ok());
    comparison.beside("an empty region of two", || region.measure(|| ()).1.ok());
    let apart = events.map(from_user_space);
    if let [Ok(cycles), Ok(instructions)] = &apart {
        comparison
            .beside("two counters' read_user", || (cycles.read_user(), instructions.read_user()));
    }
    Ok(())
}

/// Reads events that the kernel counts. The library is at best as fast as `read(2)`.
fn by_the_kernel(criterion: &mut Criterion<ClockMeasurement>) -> Result<(), Error> {
    let counter = &Counter::open(Event::TASK_CLOCK)?;
    let group = Group::open([Event::TASK_CLOCK, Event::PAGE_FAULTS])?;
    let mut comparison =
        Comparison::with(criterion, "software event", "Counter::read", || counter.read().ok())?;
    comparison.beside("Group::read, of two", || group.read().ok());
    // What the identifier in the answer costs, and what it would cost to ask for it before each read.
    let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    let of = |format| {
        perf_event::Builder::new(Software::TASK_CLOCK)
            .read_format(format)
            .exclude_kernel(true)
            .exclude_hv(true)
            .enabled(true)
            .build()
            .ok()
    };
    if let (Some(plain), Some(named)) = (of(times), of(times | ReadFormat::ID)) {
        comparison.beside("read(2) without the identifier", || read_2(&plain));
        comparison.beside("read(2) with the identifier", || read_2(&named));
        let id = Cell::new(0_u64);
        comparison.beside("an ioctl for it, and read(2)", || {
            // SAFETY: the request writes a u64, and `id` is valid for that.
            unsafe {
                libc::ioctl(named.as_raw_fd(), ID as _, id.as_ptr());
            }
            read_2(&named)
        });
    }
    if let Ok(theirs) = theirs(Software::TASK_CLOCK) {
        comparison.beside("read(2)", || read_2(&theirs));
        let theirs = RefCell::new(theirs);
        comparison.beside("perf-event2 Counter::read", || theirs.borrow_mut().read().ok());
    }
    Ok(())
}
