//! Opening, dropping, forking, and what is left afterwards.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod process;
mod skips;
mod turn;

use process::{in_child, perf_descriptors, perf_mappings};
use rdpmc::error::ReadError;
use rdpmc::{Access, Counter, Event};
use skips::skip;
use turn::turn;

#[test]
fn lifetime_of_software_counters() {
    let _alone = turn(); // each counts what this process has open and mapped
    if let Err(why) = Counter::open(Event::TASK_CLOCK) {
        return skip("lifetime_of_software_counters", &why.to_string());
    }
    counts_this_thread_alone();
    lifetime(Event::TASK_CLOCK);
    lifetime(Event::PAGE_FAULTS);
}

#[test]
fn lifetime_of_hardware_counters() {
    let _alone = turn(); // each counts what this process has open and mapped
    if let Err(why) = Counter::open(Event::INSTRUCTIONS) {
        return skip("lifetime_of_hardware_counters", &why.to_string());
    }
    lifetime(Event::INSTRUCTIONS);
}

fn lifetime(event: Event) {
    ten_thousand_leave_nothing(event);
    any_order_leaves_nothing(event);
    the_child_of_a_fork_is_safe(event);
    threads_have_their_own(event);
    its_descriptor_says_close_on_exec(event);
    dropped_as_the_thread_ends(event);
}

/// A counter does not count the threads that its thread starts.
fn counts_this_thread_alone() {
    const PAGES: usize = 1_000;
    let ours = Counter::open(Event::PAGE_FAULTS).unwrap();
    let before = ours.read().unwrap();
    let theirs = std::thread::spawn(|| {
        let theirs = Counter::open(Event::PAGE_FAULTS).unwrap();
        let mut memory = Vec::<u8>::with_capacity(PAGES * 4096);
        for page in memory.spare_capacity_mut().chunks_mut(4096) {
            page[0].write(1);
        }
        theirs.read().unwrap()
    });
    let theirs = theirs.join().unwrap();
    let ours = ours.read().unwrap() - before;
    assert!(ours < theirs, "{ours} page faults of {theirs} in another thread");
}

fn its_descriptor_says_close_on_exec(event: Event) {
    let _counter = Counter::open(event).unwrap();
    let descriptors = perf_descriptors();
    let [descriptor] = descriptors[..] else { panic!("{descriptors:?} of one counter") };
    // SAFETY: F_GETFD takes no pointer.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
    assert_eq!(flags, libc::FD_CLOEXEC);
}

fn dropped_as_the_thread_ends(event: Event) {
    thread_local! {
        static LATE: std::cell::RefCell<Vec<Counter>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    let thread = std::thread::spawn(move || {
        LATE.with_borrow_mut(|late| late.extend((0..3).map(|_| Counter::open(event).unwrap())));
    });
    thread.join().unwrap();
    nothing_is_left();
}

fn nothing_is_left() {
    assert_eq!(perf_descriptors().len(), 0);
    assert_eq!(perf_mappings(), 0);
}

fn ten_thousand_leave_nothing(event: Event) {
    for _ in 0..10_000 {
        Counter::open(event).unwrap();
    }
    nothing_is_left();
}

fn any_order_leaves_nothing(event: Event) {
    let open = || Counter::open(event).unwrap();
    let mut counters: Vec<Counter> = (0..30).map(|_| open()).collect();
    assert_eq!(perf_descriptors().len(), 30);
    for place in [15, 0, 27, 1, 10] {
        drop(counters.remove(place));
    }
    counters.reverse();
    counters.extend((0..5).map(|_| open()));
    assert_eq!(perf_descriptors().len(), 30);
    assert!(counters.iter().all(|counter| counter.read().is_ok()));
    drop(counters);
    nothing_is_left();
}

/// In a child, the parent's counters answer every call and do nothing.
fn is_useless(counter: &Counter) -> Result<(), String> {
    let answers = [
        counter.read_user().is_none(),
        counter.read() == Err(ReadError::Forked),
        counter.reading() == Err(ReadError::Forked),
        counter.enable() == Err(ReadError::Forked),
        counter.disable() == Err(ReadError::Forked),
        counter.reset() == Err(ReadError::Forked),
        counter.access() == Access::Forked,
    ];
    if answers == [true; 7] { Ok(()) } else { Err(format!("{answers:?} of {counter:?}")) }
}

fn the_child_of_a_fork_is_safe(event: Event) {
    let counters: Vec<Counter> = (0..3).map(|_| Counter::open(event).unwrap()).collect();
    in_child(|| -> Result<(), String> {
        counters.iter().try_for_each(is_useless)?;
        // The child has counters of its own, which are useless in its own child.
        let own = Counter::open(event).map_err(|why| why.to_string())?;
        own.read().map_err(|why| why.to_string())?;
        in_child(|| -> Result<(), String> {
            counters.iter().try_for_each(is_useless)?;
            is_useless(&own)
        })?;
        // SAFETY: the value is read once, and _exit ends this child before the parent's vector could be dropped.
        drop(unsafe { std::ptr::read(&counters) });
        if perf_descriptors().len() == 1 { Ok(()) } else { Err("not dropped".to_owned()) }
    })
    .unwrap();
    for counter in &counters {
        let before = counter.read().unwrap();
        assert!(counter.read().unwrap() >= before);
    }
    drop(counters);
    nothing_is_left();
}

fn threads_have_their_own(event: Event) {
    let threads: Vec<_> = (0..9)
        .map(|_| {
            std::thread::spawn(move || {
                let counter = Counter::open(event).unwrap();
                (0..1_000).try_fold(0, |last, _| {
                    let now = counter.read().unwrap();
                    (now >= last).then_some(now)
                })
            })
        })
        .collect();
    for thread in threads {
        assert!(thread.join().unwrap().is_some(), "a count went backwards");
    }
    nothing_is_left();
}
