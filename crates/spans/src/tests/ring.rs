//! The ring alone, with both ends on one thread and on two.
#![allow(unsafe_code)]

use crate::record::{Raw, SLOT, Site, address, site_at};
use crate::sink::{Reader, Ring, Writer};
use std::sync::atomic::{AtomicBool, Ordering};

static SITE: Site = Site::new("a site", file!(), line!());
static PARENT: Site = Site::new("a parent", file!(), line!());

/// Writes a record whose words all follow from `n`.
fn write(writer: &Writer, n: u64) {
    let head = [address(&SITE), address(&PARENT), n, 2 * n + 1, n % 256 * SLOT];
    // SAFETY: the rings of these tests have two counts.
    if unsafe { writer.write(head, [3 * n, !n]) } {
        writer.advance();
    }
}

/// Returns the `n` of a record that is whole.
fn number_of(record: &Raw) -> u64 {
    let n = record.ticks[0];
    assert!(std::ptr::eq(record.site, &SITE));
    assert!(record.parent.is_some_and(|parent| std::ptr::eq(parent, &PARENT)));
    assert_eq!(record.ticks[1], 2 * n + 1);
    assert_eq!(u64::from(record.depth), 511 - n % 256);
    assert_eq!(record.counts[..3], [3 * n, !n, 0]);
    n
}

fn read(reader: &mut Reader) -> Vec<u64> {
    let mut all = Vec::new();
    reader.read(|words| {
        // SAFETY: `write` has written them.
        let record = Raw::decode(words, |address| unsafe { site_at(address) }).unwrap();
        all.push(number_of(&record));
    });
    all
}

/// Against a queue with a maximum length: all sequences of 14 writes and reads, for small rings.
#[test]
fn it_is_a_queue_that_drops_when_full() {
    const STEPS: u64 = if cfg!(miri) { 6 } else { 14 };
    for records in 1..=4 {
        for sequence in 0..1_u32 << STEPS {
            let (writer, mut reader) = Ring::pair(records, 2);
            let (mut queue, mut dropped) = (Vec::new(), 0);
            for step in 0..STEPS {
                if sequence >> step & 1 == 0 {
                    assert_eq!(read(&mut reader), queue, "{records} records, {sequence:b}, {step}");
                    queue.clear();
                    continue;
                }
                write(&writer, step);
                match queue.len() < records {
                    true => queue.push(step),
                    false => dropped += 1,
                }
            }
            assert_eq!(reader.dropped(), dropped, "{records} records, {sequence:b}");
            assert_eq!(read(&mut reader), queue, "{records} records, {sequence:b}");
        }
    }
}

/// Each record that arrives is whole, in order, and once. The others are counted.
#[test]
fn two_threads_lose_nothing_in_silence() {
    const RECORDS: u64 = if cfg!(miri) { 200 } else { 2_000_000 };
    for records in [1, 2, 3, 1_000] {
        let (writer, mut reader) = Ring::pair(records, 2);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // The writer is moved to its thread, as no program can do.
            let (writer, is_over) = (Moved(writer), &is_over);
            scope.spawn(move || {
                let writer = { writer };
                (1..=RECORDS).for_each(|n| write(&writer.0, n));
                is_over.store(true, Ordering::Release);
            });
            let (mut arrived, mut last) = (0, 0);
            loop {
                let was_over = is_over.load(Ordering::Acquire);
                let numbers = read(&mut reader);
                for n in &numbers {
                    assert!(*n > last, "{n} after {last}");
                    (arrived, last) = (arrived + 1, *n);
                }
                if was_over && numbers.is_empty() {
                    break;
                }
            }
            println!("{records} records: {arrived} arrived, {} dropped", reader.dropped());
            assert_eq!(arrived + reader.dropped(), RECORDS);
            assert!(arrived > 0);
        });
    }
}

struct Moved(Writer);

// SAFETY: only the thread that it is moved to uses it.
unsafe impl Send for Moved {}

/// Room for several records is there if the reader has freed as many slots, in whatever state the ring is.
#[test]
fn room_for_several_records() {
    for records in 1..6 {
        let (writer, mut reader) = Ring::pair(records, 2);
        let mut random = 1_u64;
        let mut waiting = 0;
        for step in 0..if cfg!(miri) { 100 } else { 10_000 } {
            let free = records - waiting;
            assert_eq!(writer.has_room_for_two(), free >= 2, "{records}, {waiting}");
            for wanted in 1..8 {
                assert_eq!(
                    writer.has_room(wanted),
                    wanted <= free,
                    "{records}, {waiting}, {wanted}"
                );
            }
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            match random >> 33 & 7 {
                0 => waiting -= read(&mut reader).len(),
                1 if free < 2 => {
                    // The next one is dropped, although there is room by then.
                    let dropped = reader.dropped();
                    writer.refuse_next();
                    assert!(!writer.has_room(1) && !writer.has_room_for_two());
                    waiting -= read(&mut reader).len();
                    write(&writer, step);
                    assert_eq!(reader.dropped(), dropped + 1);
                }
                _ if free > 0 => {
                    write(&writer, step);
                    waiting += 1;
                }
                _ => {}
            }
        }
    }
}
