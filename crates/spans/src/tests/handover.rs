//! Two sides, exchanged while one is written: by the writer, and by the reader where the writer rests.
#![allow(unsafe_code)]

use crate::counting::Patience;
use crate::sink::{Handover, allow_barriers, barrier};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Numbers that are to agree.
#[derive(Default)]
struct Sums {
    first: u64,
    second: u64,
}

/// What the reader takes is whole, and in the end nothing is missing. The writer rests now and then.
#[test]
fn nothing_is_torn_or_missing() {
    // Miri takes a thousand times as long.
    const WRITES: u64 = if cfg!(miri) { 3_000 } else { 3_000_000 };
    for has_barriers in [allow_barriers(), false] {
        let (handover, is_over) =
            (Handover::new([Sums::default(), Sums::default()]), AtomicBool::new(false));
        let (mut taken, mut times, mut refused) = (0, 0_u64, 0_u64);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..WRITES {
                    // SAFETY: only this thread writes.
                    unsafe {
                        handover.write(|sums| {
                            sums.first += 1;
                            std::hint::black_box(&mut *sums);
                            sums.second += 1;
                        });
                    }
                    if number % (WRITES / 30) == 0 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
                is_over.store(true, Ordering::Release);
            });
            let mut read = |is_quiet| {
                // SAFETY: only this thread reads, after a request, and a barrier if it says so.
                let sums = unsafe {
                    handover.take(
                        is_quiet,
                        &mut Patience::new(Duration::from_millis(2)),
                        std::mem::take,
                    )
                };
                let Some(sums) = sums else { return refused += 1 };
                assert_eq!(sums.first, sums.second);
                taken += sums.first;
                times += 1;
            };
            while !is_over.load(Ordering::Acquire) {
                handover.request();
                read(has_barriers && barrier());
            }
            // Both sides, because a request may have been answered after it was given up.
            for _ in 0..2 {
                handover.request();
                read(true);
            }
        });
        println!("barriers: {has_barriers}, taken {times} times, refused {refused} times");
        assert_eq!(taken, WRITES);
        assert!(times > 10);
    }
}
