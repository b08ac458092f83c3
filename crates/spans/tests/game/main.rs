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
    let settings = Settings::new().causes().faults("frame").keep(0);
    let mut spans = settings.slow("frame", Duration::from_millis(2)).start().unwrap();
    let mut engine = Engine::start();
    let kinds: Vec<Kind> = KINDS.into_iter().filter(|kind| engine.can_plant(*kind)).collect();
    let planted_at = |frame: u64| {
        let place = frame.checked_sub(BEFORE)?;
        let kind = usize::try_from(place / PERIOD).unwrap() % kinds.len();
        (place % PERIOD == 0).then(|| kinds[kind])
    };
    let last = BEFORE + PERIOD * rounds * kinds.len() as u64;
    for frame in 0..last {
        engine.frame(frame, planted_at(frame));
        spans.collect();
    }
    engine.end();
    let interval = spans.take();
    if !interval.threads().iter().all(|thread| thread.knows_causes) {
        println!("causes are not known here, so nothing is said of them");
        return;
    }
    let mut verdicts = vec![Verdict::default(); kinds.len()];
    for (verdict, kind) in verdicts.iter_mut().zip(&kinds) {
        for frame in (0..last).filter(|frame| planted_at(*frame) == Some(*kind)) {
            let mut slow = interval.slowest();
            let found = slow.find(|slow| slow.record().number() == Some(frame));
            verdict.add(*kind, frame, found.map(|slow| slow.cause()));
        }
    }
    println!("| planted | frames | place | reason | who held it up");
    println!("|:-|-:|-:|-:|-:");
    for (verdict, kind) in verdicts.iter().zip(&kinds) {
        let Verdict { frames, place, reason, holder } = verdict;
        println!("| {kind:?} | {frames} | {place} | {reason} | {holder}");
    }
    println!("{}", interval.line("frame"));
    for (verdict, kind) in verdicts.iter().zip(&kinds) {
        let Verdict { frames, place, reason, holder } = *verdict;
        assert_eq!(frames, rounds);
        // What the machine does beside it may be slower than what is planted.
        for right in [place, reason, holder] {
            assert!(right * 20 >= frames * 17, "{kind:?}: {verdict:?}");
        }
    }
    let all = |of: fn(&Verdict) -> u64| verdicts.iter().map(of).sum::<u64>();
    for right in [all(|it| it.place), all(|it| it.reason), all(|it| it.holder)] {
        assert!(right * 100 >= all(|it| it.frames) * 95, "{verdicts:?}");
    }
}
