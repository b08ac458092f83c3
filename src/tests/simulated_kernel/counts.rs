//! Counts of one event, sums of two, and readings.

use super::Reader;
use super::kernel::{CHANGES, Change, Kernel, MASK, Moment, WIDTH};
use super::map;
use super::stepper::{Over, Walk, stepping, with};
use super::times::clock;
use crate::error::ErrorKind;
use crate::kernel::capability;
use crate::page::reader::{self, Timed, View};
use crate::region::Snapshot;
use crate::tests::arithmetic::sign_extend;
use crate::tests::skips;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Reads as a counter does.
#[inline(always)]
pub(super) fn read_one(reader: &Reader<1>) -> Option<u64> {
    reader.count()
}

#[test]
fn ten_million_reads_with_a_kernel_on_another_processor() {
    if !std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1) {
        let why = "on one processor the kernel's thread would move nothing meanwhile";
        return skips::skip("ten_million_reads_with_a_kernel_on_another_processor", why);
    }
    let walk = Walk::for_test("ten_million_reads_with_a_kernel_on_another_processor");
    let reads = walk.times(10_000_000, 300_000);
    let kernel = Kernel::new(1);
    let over = AtomicBool::new(false);
    let none = with(
        "ten_million_reads_with_a_kernel_on_another_processor",
        &kernel,
        |reader: Reader<1>| {
            std::thread::scope(|threads| {
                let _over = Over(&over);
                threads.spawn(|| {
                    // Some faults, then some counts, then a change. So changes come at any moment of a read, and most
                    // reads still end with a count.
                    let mut next = 0;
                    while !over.load(SeqCst) {
                        kernel.happen(Change::Count);
                        if kernel.faults.load(SeqCst) >= next {
                            (0..kernel.random() % 256).for_each(|_| kernel.happen(Change::Count));
                            let anew = kernel.random() % 2 == 0;
                            kernel.happen(if anew { Change::Move } else { Change::Restart });
                            next = kernel.faults.load(SeqCst) + kernel.random() % 4;
                        }
                    }
                });
                let (mut counts, mut none, mut last) = (0, 0u64, 0);
                // Longer if the other thread gets little time on a busy machine.
                let is_calm = || moves_of(&kernel) <= reads / 1_000;
                while counts < reads || counts < 20 * reads && is_calm() {
                    let done = kernel.events[0].done.load(SeqCst);
                    let count = read_one(&reader);
                    kernel.check(count, done, true);
                    if let Some(count) = count {
                        assert!(last <= count, "{count} after {last}");
                        last = count;
                        counts += 1;
                    } else {
                        none += 1;
                        std::thread::yield_now();
                    }
                }
                none
            })
        },
    );
    if let Some(none) = none {
        let moves = moves_of(&kernel);
        skips::say(&format!("{reads} counts, {none} none, {moves} moves meanwhile, none torn"));
        assert!(moves > reads / 1_000, "too calm a kernel: {moves} moves");
    }
}

/// Returns how often the first event was moved.
fn moves_of(kernel: &Kernel) -> u64 {
    u64::from((kernel.events[0].lock() / 4).saturating_sub(1))
}

#[test]
fn a_million_reads_interrupted_at_the_instruction() {
    let walk = Walk::for_test("a_million_reads_interrupted_at_the_instruction");
    let kernel = Kernel::new(2);
    with("a_million_reads_interrupted_at_the_instruction", &kernel, |reader: Reader<1>| {
        for round in 0..walk.times(1_000_000, 100_000) {
            let change = CHANGES[round as usize % CHANGES.len()];
            let moment = if round % 8 < 4 { Moment::BeforeRead } else { Moment::AfterRead };
            if kernel.events[0].index() == 0 {
                kernel.enter();
            }
            let done = kernel.events[0].done.load(SeqCst);
            kernel.plan.set(Some((moment, change)));
            let count = read_one(&reader);
            assert_eq!(kernel.plan.take().map(|(moment, _)| moment), None, "it never happened");
            // A changed lock makes the read retry, so it sees that an event has left.
            assert_eq!(count.is_none(), matches!(change, Change::Leave), "{moment:?} {change:?}");
            kernel.check(count, done, true);
        }
    });
}

#[test]
fn a_count_interrupted_after_every_single_instruction() {
    let kernel = Kernel::new(3);
    with("a_count_interrupted_after_every_single_instruction", &kernel, |reader: Reader<1>| {
        let mut boundaries = 0;
        for repetition in 0..50 {
            let steps = Walk::Whole.make(&kernel, &CHANGES, repetition, |change, step| {
                kernel.happen(Change::Move);
                let done = kernel.events[0].done.load(SeqCst);
                kernel.plan.set(Some((Moment::AfterStep(step), change)));
                let count = stepping(&kernel, || read_one(&reader));
                let left = matches!(change, Change::Leave);
                kernel.check(count, done, left);
            });
            boundaries += if repetition == 0 { steps } else { 0 };
        }
        // At least 11 instructions, and 5 kinds of change after each.
        assert!(boundaries >= 55, "{boundaries}");
    });
}

/// The sum over two core types. The thread is on one of them at a time.
#[test]
fn a_sum_interrupted_after_every_single_instruction() {
    let walk = Walk::for_test("a_sum_interrupted_after_every_single_instruction");
    let kernel = Kernel::with_events(12, 2);
    with("a_sum_interrupted_after_every_single_instruction", &kernel, |_: Reader<1>| {
        let (first, second) = (kernel.reader_of(0), kernel.reader_of(1));
        let mut boundaries = 0;
        for repetition in 0..walk.times(20, 6) as u32 {
            let changes = [Change::Count, Change::Migrate, Change::Leave];
            let steps = walk.make(&kernel, &changes, repetition, |change, step| {
                if kernel.events.iter().all(|event| event.place().is_none()) {
                    kernel.enter_at(&kernel.events[0], 0);
                }
                kernel.happen(Change::Migrate);
                let done = kernel.sum(|event| &event.done);
                kernel.plan.set(Some((Moment::AfterStep(step), change)));
                let sum = stepping(&kernel, || {
                    reader::sum([&first.view, &second.view].into_iter()).map(|(sum, _)| sum)
                });
                assert!(!kernel.broken.load(SeqCst), "rdpmc of a register of nobody");
                let begun = kernel.sum(|event| &event.begun);
                match sum {
                    Some(sum) => {
                        assert!((done..=begun).contains(&sum), "{sum}: {done}..{begun}")
                    }
                    None => assert!(matches!(change, Change::Leave), "no sum, {change:?}"),
                }
            });
            boundaries += if repetition == 0 { steps } else { 0 };
        }
        // Two reads of at least 11 instructions, and 3 kinds of change after each.
        assert!(boundaries >= 66, "{boundaries}");
    });
}

#[test]
fn a_reading_interrupted_after_every_single_instruction() {
    let kernel = Kernel::new(4);
    with("a_reading_interrupted_after_every_single_instruction", &kernel, |reader: Reader<1>| {
        let boundaries = Walk::Whole.make(&kernel, &CHANGES, 0, |change, step| {
            kernel.happen(Change::Move);
            kernel.count(kernel.random() % 1_000);
            kernel.tick();
            let done = kernel.events[0].done.load(SeqCst);
            let before = kernel.ticks.load(SeqCst);
            kernel.plan.set(Some((Moment::AfterStep(step), change)));
            let reading = stepping(&kernel, || reader.timed::<true>());
            let after = kernel.ticks.load(SeqCst);
            let left = matches!(change, Change::Leave);
            kernel.check(reading.map(|Timed { counts: [value], .. }| value), done, left);
            if let Some(Timed { time_enabled, time_running, .. }) = reading {
                // One tick is one nanosecond. The event ran for half of the time up to the page's update.
                assert!((before..=after).contains(&time_enabled), "{change:?} {step}");
                assert!(time_running <= time_enabled, "{time_running} {time_enabled}");
                assert!(time_running >= time_enabled / 2, "{time_running} {time_enabled}");
            }
        });

        // With the times, at least twice a count's 11 instructions, and 5 kinds of change.
        assert!(boundaries >= 110, "{boundaries}");
    });
}

/// Every read ends although the kernel moves the events after each of its instructions, as under a debugger that steps.
#[test]
fn reads_that_are_never_left_alone_end() {
    const MAX_STEPS: u32 = 50_000;
    let kernel = Kernel::with_events(15, 4);
    with("reads_that_are_never_left_alone_end", &kernel, |first: Reader<1>| {
        let other = kernel.reader_of(1);
        let (group, all): (Reader<2>, Reader<4>) = (kernel.reader(), kernel.reader());
        let clock = clock(&kernel);
        let reads: [(&str, &dyn Fn() -> bool); 10] = [
            ("a count", &|| read_one(&first).is_none()),
            ("two counts", &|| group.counts().is_none()),
            ("four counts", &|| all.counts().is_none()),
            ("a snapshot", &|| Snapshot::<4>::take(&all).is_none()),
            ("a reading", &|| first.timed::<true>().is_none()),
            ("a group's reading", &|| all.timed::<true>().is_none()),
            ("an absence", &|| all.pages.absence().is_none()),
            ("a sum", &|| reader::sum([&first.view, &other.view].into_iter()).is_none()),
            ("a question", &|| all.pages.undisturbed(|| all.counts().is_none()).is_none()),
            ("a time", &|| clock.now() > 0),
        ];
        for (what, read) in reads {
            for change in [Change::Move, Change::Restart, Change::Exchange] {
                kernel.happen(Change::Move);
                kernel.always.set(Some((change, MAX_STEPS)));
                let result = stepping(&kernel, read);
                assert!(kernel.always.take().is_some(), "{what} does not end: {change:?}");
                // Some pages may be left alone by a change.
                assert!(result || !matches!(change, Change::Move), "{what}, {change:?}");
                assert!(
                    !kernel.broken.load(SeqCst),
                    "rdpmc of a register that the page did not name"
                );
                // It is right again.
                let done = kernel.events[0].done.load(SeqCst);
                kernel.check(read_one(&first), done, false);
            }
        }
        // The clock goes on from there.
        let [before, now] = [clock.now(), clock.now()];
        assert!(before <= now && (now..=kernel.ticks.load(SeqCst)).contains(&now));
    });
}

#[test]
fn every_value_of_a_register_is_read_right() {
    let kernel = Kernel::new(5);
    with("every_value_of_a_register_is_read_right", &kernel, |reader: Reader<1>| {
        let place = 5;
        kernel.leave(&kernel.events[0]);
        kernel.enter_at(&kernel.events[0], place);
        // SAFETY: within the page.
        kernel.events[0].write(|page| unsafe { (&raw mut (*page).offset).write_volatile(0) });
        let edges = (0..WIDTH).flat_map(|bit| [1 << bit, (1 << bit) - 1, MASK ^ (1 << bit)]);
        let others = (0..100_000).map(|_| kernel.random() & MASK);
        for value in edges.chain(others) {
            kernel.registers[place].store(value, SeqCst);
            let model = sign_extend(value, WIDTH).map(|value| value as u64);
            let model = model.filter(|_| value != 0); // 0 may stand for a forbidden counter
            assert_eq!(read_one(&reader), model, "{value:#x}");
        }
    });
}

#[test]
fn a_page_that_is_not_sure_is_not_read() {
    let kernel = Kernel::new(6);
    let judge = |capabilities: u64, width: u16| {
        kernel.events[0].write(|page| unsafe {
            // SAFETY: within the page.
            (&raw mut (*page).capabilities).write_volatile(capabilities);
            (&raw mut (*page).pmc_width).write_volatile(width);
        });
        let pages = map(&[&kernel.events[0].memory]);
        // SAFETY: the view is not read.
        unsafe { View::of_pages(&pages) }.err().map(|(_, why)| why.kind())
    };
    let sure = capability::BIT0_IS_DEPRECATED;
    // Before Linux 3.12, bit 0 is user time, or user reads, or both.
    assert_eq!(judge(capability::BIT0, 48), Some(ErrorKind::PageTooOld));
    assert_eq!(judge(0, 48), Some(ErrorKind::PageTooOld));
    assert_eq!(judge(sure, 48), Some(ErrorKind::NotOffered));
    assert_eq!(judge(sure | capability::USER_TIME, 48), Some(ErrorKind::NotOffered));
    assert_eq!(judge(sure | capability::USER_RDPMC, 40), Some(ErrorKind::Width));
    assert_eq!(judge(sure | capability::USER_RDPMC, 48), None);
}

#[test]
fn without_a_clock_there_is_a_count_but_no_reading() {
    let kernel = Kernel::new(7);
    let capabilities = capability::BIT0_IS_DEPRECATED | capability::USER_RDPMC;
    kernel.events[0].write(|page| unsafe {
        // SAFETY: within the page.
        (&raw mut (*page).capabilities).write_volatile(capabilities);
    });
    with("without_a_clock_there_is_a_count_but_no_reading", &kernel, |reader: Reader<1>| {
        kernel.count(5);
        assert_eq!(read_one(&reader), Some(5));
        // The clock is checked first: no counter is read in vain.
        let faults = kernel.faults.load(SeqCst);
        assert!(reader.timed::<true>().is_none());
        assert_eq!(kernel.faults.load(SeqCst), faults);
        // The times are then those of the page's last update.
        let times = || {
            let counts = reader.timed::<false>().unwrap();
            assert_eq!(counts.counts, [5]);
            (counts.time_enabled, counts.time_running)
        };
        let before = times();
        (0..100).for_each(|_| kernel.tick());
        assert_eq!(times(), before);
    });
}
