//! A game whose slow frames are planted: is the cause that the library tells the one that was planted?
//!
//! The main thread waits for a worker in every frame, as in each game with a job system. All threads share the CPUs with load.

#![cfg(all(target_os = "linux", feature = "enabled"))]
#![allow(unreachable_pub, clippy::unwrap_used, clippy::indexing_slicing)]
#![allow(clippy::disallowed_types, reason = "no child of a fork waits for the game's lock")]

mod engine;
mod planted;

use engine::Engine;
use planted::{KINDS, Kind, Verdict};
use rdpmc_spans::Settings;
use rdpmc_testing::skips;
use std::time::Duration;

/// The frames from one planted one to the next.
const PERIOD: u64 = 8;
/// The frames before the first one, so that it is known what is usual.
const BEFORE: u64 = 64;

#[test]
fn the_cause_is_the_planted_one() {
    let rounds = if skips::is_whole("the_cause_is_the_planted_one") { 40 } else { 20 };
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return skips::skip("the_cause_is_the_planted_one", "the game needs two CPUs");
    }
    let settings = Settings::new().causes().faults("frame").keep(0);
    let mut spans = settings.slow("frame", Duration::from_millis(2)).start().unwrap();
    assert!(rdpmc_spans::register_thread());
    if !spans.threads().iter().all(|thread| thread.knows_causes) {
        return skips::skip("the_cause_is_the_planted_one", "the kernel shows no context switch");
    }
    let mut engine = Engine::start();
    let mut kinds: Vec<(Kind, Vec<u64>)> = KINDS.map(|kind| (kind, Vec::new())).into();
    kinds.retain(|(kind, _)| engine.can_plant(*kind));
    let most = BEFORE + 5 * PERIOD * rounds * kinds.len() as u64;
    let (mut frame, mut next) = (0, 0);
    while kinds.iter().any(|(_, frames)| (frames.len() as u64) < rounds) && frame < most {
        let is_planted = frame >= BEFORE && frame % PERIOD == 0;
        if is_planted {
            // The next one that has too few.
            let missing = |place: &usize| (kinds[place % kinds.len()].1.len() as u64) < rounds;
            next = (next + 1..).find(missing).unwrap();
            let place = next % kinds.len();
            // What others do beside it may be slower than what is planted. The engine knows, by the kernel's own numbers.
            if engine.frame(frame, Some(kinds[place].0)) {
                kinds[place].1.push(frame);
            }
        } else {
            engine.frame(frame, None);
        }
        spans.collect();
        frame += 1;
    }
    engine.end();
    let interval = spans.take();
    let mut verdicts = Vec::new();
    for (kind, frames) in kinds {
        let mut verdict = Verdict::new(kind);
        for frame in frames {
            let mut slow = interval.slowest();
            let found = slow.find(|slow| slow.record().number() == Some(frame));
            verdict.add(frame, found.map(|slow| slow.cause()));
        }
        verdicts.push(verdict);
    }
    println!("| planted | frames | place | reason | who held it up");
    println!("|:-|-:|-:|-:|-:");
    for Verdict { kind, frames, place, reason, holder } in &verdicts {
        println!("| {kind:?} | {frames} | {place} | {reason} | {holder}");
    }
    println!("{}", interval.line("frame"));
    for verdict in &verdicts {
        assert!(verdict.frames >= 5, "{verdict:?}");
    }
    let all = |of: fn(&Verdict) -> u64| verdicts.iter().map(of).sum::<u64>();
    for right in [all(|it| it.place), all(|it| it.reason), all(|it| it.holder)] {
        assert!(right * 100 >= all(|it| it.frames) * 95, "{verdicts:?}");
    }
}
