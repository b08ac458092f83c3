//! Spans that waited or were preempted, held against the kernel's own numbers of switches.

use crate::recording::turn;
use rdpmc_spans::{Flags, Settings, span};
use rdpmc_testing::skips;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Returns the kernel's numbers of this thread's switches: by itself, and by the scheduler.
fn switches() -> [i64; 2] {
    // SAFETY: zeros are a valid rusage, and the kernel writes one.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
        [usage.ru_nvcsw as i64, usage.ru_nivcsw as i64]
    }
}

/// What the kernel has counted around a span, and inside it: the truth is between them.
struct Truth {
    around: [i64; 2],
    inside: [i64; 2],
}

fn observed(work: impl FnOnce()) -> Truth {
    let before = switches();
    let (begin, end);
    {
        let _span = span!("observed");
        begin = switches();
        work();
        end = switches();
    }
    let after = switches();
    let minus = |later: [i64; 2], earlier: [i64; 2]| [0, 1].map(|of| later[of] - earlier[of]);
    Truth { around: minus(after, before), inside: minus(end, begin) }
}

/// Every 16th span sleeps, and more threads than CPUs want to run. No flag is missing, and none is there without a switch.
#[test]
fn flags_agree_with_the_kernel() {
    let enough = if skips::is_whole("flags_agree_with_the_kernel") { 20 } else { 4 };
    let _turn = turn();
    let mut spans = Settings::new().causes().start().unwrap();
    let is_over = AtomicBool::new(false);
    let cpus = std::thread::available_parallelism().unwrap().get();
    let mut truths = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..2 * cpus {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let mut preempted = 0;
        for number in 0..400_000 {
            let truth = observed(|| match number % 16 {
                0 => std::thread::sleep(Duration::from_micros(50)),
                _ => drop(black_box((0..20_000).map(black_box).sum::<u64>())),
            });
            preempted += usize::from(truth.inside[1] > 0);
            truths.push(truth);
            if number % 1_000 == 0 {
                spans.collect();
            }
            if number > 2_000 && preempted >= enough {
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let interval = spans.take();
    let report = interval.report();
    let row = report.rows.iter().find(|row| row.name == "observed").unwrap();
    if !interval.threads().iter().all(|thread| thread.knows_causes) {
        println!("causes are not known here, so nothing is said of them");
        assert_eq!((row.waited, row.preempted), (None, None), "{report}");
        return;
    }
    let records: Vec<_> = interval.records().collect();
    assert_eq!(records.len(), truths.len());
    let mut flagged = [0; 2];
    for (record, truth) in records.iter().zip(&truths) {
        for (of, flag) in [Flags::WAITED, Flags::PREEMPTED].into_iter().enumerate() {
            let has = record.flags().contains(flag);
            assert!(has || truth.inside[of] == 0, "{record:?}: {:?}", truth.inside);
            assert!(!has || truth.around[of] > 0, "{record:?}: {:?}", truth.around);
            flagged[of] += u64::from(has);
        }
        let any = Flags::WAITED.union(Flags::PREEMPTED);
        assert_eq!(record.flags().contains(Flags::DISTURBED), record.flags().intersects(any));
    }
    println!("{} spans, {} waited, {} were preempted", truths.len(), flagged[0], flagged[1]);
    assert_eq!([row.waited, row.preempted], flagged.map(Some), "{report}");
    // A sleep may be over before the thread is switched out.
    assert!(flagged.iter().all(|spans| *spans > 0));
}

/// A thread that sleeps is off the CPU for at least as long, and not longer than its spans take.
#[test]
fn time_off_the_cpu() {
    const SLEEP: Duration = Duration::from_millis(2);
    let _turn = turn();
    let mut spans = Settings::new().causes().start().unwrap();
    for number in 0..600_u32 {
        let _outer = span!("outer");
        {
            let _sleeps = span!("sleeps");
            if number % 6 == 0 {
                std::thread::sleep(SLEEP);
            }
        }
        let _works = span!("works");
        black_box((0..20_000).map(black_box).sum::<u64>());
    }
    let report = spans.report();
    let row = |name: &str| report.rows.iter().find(|row| row.name == name).unwrap();
    let [outer, sleeps, works] = ["outer", "sleeps", "works"].map(row);
    println!("{report}");
    for row in [outer, sleeps, works] {
        let Some((off_cpu, runnable)) = row.off_cpu.zip(row.runnable) else {
            return println!("causes are not known here, so nothing is said of them");
        };
        // Some nanoseconds of each end, and another clock.
        assert!(off_cpu <= row.total + row.total / 50, "{}: {off_cpu:?}", row.name);
        assert!(runnable <= off_cpu, "{}: {runnable:?}", row.name);
    }
    let slept = SLEEP * 99; // a hundred times
    assert!(sleeps.off_cpu.unwrap() >= slept, "{report}");
    assert!(outer.off_cpu.unwrap() >= slept, "{report}");
}
