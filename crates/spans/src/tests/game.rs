//! A game, without a machine: a main thread and a worker, with two counters.

use crate::batch::{Batch, Timeline};
use crate::collect::{Cost, Kept, Meta};
use crate::counting::Counted;
use crate::record::{Flags, MAX_EVENTS, OUTERMOST, Raw, SLOT, Site};
use rdpmc::Event;
use rdpmc::clock::{ClockKind, ClockReason, Conversion};
use std::sync::Arc;

/// The spans of a frame, with the frame itself.
pub(crate) const SPANS: usize = 20;
/// The ticks of a frame at 60 a second. A tick is a nanosecond.
const FRAME: u64 = 16_666_667;

macro_rules! sites {
    ($($name:literal),+) => { [$(Site::new($name, "game.rs", line!())),+] };
}

static SITES: [Site; SPANS] = sites!(
    "frame",
    "input",
    "poll",
    "bind",
    "physics",
    "broad phase",
    "narrow phase",
    "solve",
    "ai",
    "paths",
    "plans",
    "steer",
    "audio",
    "mix",
    "render",
    "cull",
    "sort",
    "draw",
    "submit",
    "present"
);
static JOB: Site = Site::new("job <\"&'>\n", "worker.rs", 7);

pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number from 0 to below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// A number within some percent of `value`.
    fn near(&mut self, value: u64, percent: u64) -> u64 {
        value - value * percent / 100 + self.below(value * percent / 50 + 1)
    }
}

/// The game.
pub(crate) struct Game {
    threads: [Arc<Meta>; 2],
    random: Random,
    frame: u64,
    spans: u64,
    /// When the last frame ended.
    end: u64,
}

impl Game {
    pub(crate) fn new() -> Game {
        let thread = |number: u32, name: &str| {
            let events = vec![Event::CYCLES, Event::INSTRUCTIONS];
            Arc::new(Meta {
                number,
                name: name.into(),
                is_named: true,
                counted: Counted { events, ..Counted::default() },
                unknown: Vec::new(),
                clock: clock(),
                conversion: nanoseconds(),
                cost: Cost::default(),
                is_in_histograms: false,
            })
        };
        Game {
            threads: [thread(1, "main"), thread(2, "a worker")],
            random: Random(88_172_645_463_325_252),
            frame: 0,
            spans: 0,
            end: 0,
        }
    }

    fn span(
        &mut self,
        place: usize,
        site: &'static Site,
        ticks: [u64; 2],
        around: &[&'static Site],
        instructions: u64,
    ) -> Kept {
        let depth = around.len() as u16 + 1;
        self.spans += 1;
        let time = ticks[1] - ticks[0];
        let mut counts = [0; MAX_EVENTS];
        // The instructions are those of the code, the cycles those of the time.
        counts[..2]
            .copy_from_slice(&[self.random.near(time * 3, 2), self.random.near(instructions, 3)]);
        let is_disturbed = self.random.below(2_000) == 0;
        Kept {
            thread: self.threads[place].clone(),
            raw: Raw {
                site,
                parent: around.last().copied(),
                ticks,
                depth,
                span: self.spans << 16 | (OUTERMOST - u64::from(depth) * SLOT),
                flags: if is_disturbed {
                    Flags::DISTURBED.union(Flags::PREEMPTED)
                } else {
                    Flags::NONE
                },
                counts,
            },
            number: (depth == 1 && place == 0).then_some(self.frame),
        }
    }

    /// Adds the records of a frame, in the order in which its spans end.
    pub(crate) fn frame(&mut self, records: &mut Vec<Kept>) {
        let begin = (self.frame * FRAME).max(self.end);
        let mut now = begin + 300;
        // Five systems, of three to five stages.
        let mut sites = SITES.iter().skip(1);
        for stages in [2, 3, 3, 1, 5] {
            let (Some(system), start) = (sites.next(), now) else { break };
            now += 40 + self.random.below(20);
            for site in sites.by_ref().take(stages) {
                // A stage has its own length, and some take a hundred times as long.
                let usual = 20_000 + u64::from(site.name().as_bytes()[1]) * 1_500;
                let rare = if self.random.below(1_000) == 0 { 100 } else { 1 };
                let time = self.random.near(usual, 20) * rare;
                records.push(self.span(
                    0,
                    site,
                    [now, now + time],
                    &[&SITES[0], system],
                    usual * 4,
                ));
                now += time + 25 + self.random.below(30);
            }
            records.push(self.span(0, system, [start, now], &[&SITES[0]], (now - start) * 4));
            now += 60;
        }
        records.push(self.span(0, &SITES[0], [begin, now], &[], (now - begin) * 4));
        if self.frame % 2 == 0 {
            let time = self.random.near(400_000, 30);
            records.push(self.span(1, &JOB, [begin + 1_000, begin + 1_000 + time], &[], 1_000_000));
        }
        (self.frame, self.end) = (self.frame + 1, now);
    }
}

impl Game {
    /// A span of the main thread.
    pub(crate) fn around(&mut self, ticks: [u64; 2], depth: u16) -> Kept {
        let mut kept = self.span(0, &SITES[0], ticks, &[], 0);
        kept.raw.depth = depth;
        kept
    }
}

/// Spans in any trees.
pub(crate) struct Nest {
    game: Game,
    now: u64,
    /// Whether all are laps or in laps.
    is_of_laps: bool,
    around: Vec<&'static Site>,
    pub(crate) records: Vec<Kept>,
}

impl Nest {
    pub(crate) fn new(is_of_laps: bool) -> Nest {
        Nest { game: Game::new(), now: 0, is_of_laps, around: Vec::new(), records: Vec::new() }
    }

    /// Adds a span or a lap of this depth, and what is inside. The clock seldom advances.
    pub(crate) fn tree(&mut self, random: &mut Random, depth: u16) {
        self.now += [0, 0, 0, 1, 7][random.below(5) as usize];
        let (start, site) = (self.now, &SITES[random.below(SPANS as u64) as usize]);
        let is_lap = self.is_of_laps && depth == 1;
        self.around.push(site);
        // Spans in a lap have the lap's depth.
        let inside = if is_lap { depth } else { depth + 1 };
        let most = if depth < 6 || is_lap { 3 } else { 0 };
        for _ in 0..random.below(most + 1) {
            self.tree_inside(random, inside);
        }
        self.around.pop();
        self.now += [0, 0, 0, 1, 7][random.below(5) as usize];
        let mut kept = self.game.span(0, site, [start, self.now], &self.around, 9);
        kept.raw.depth = depth;
        if is_lap {
            kept.raw.flags = kept.raw.flags.union(Flags::LAP);
        }
        self.records.push(kept);
    }

    fn tree_inside(&mut self, random: &mut Random, depth: u16) {
        let is_of_laps = std::mem::take(&mut self.is_of_laps);
        self.tree(random, depth);
        self.is_of_laps = is_of_laps;
    }
}

fn clock() -> ClockKind {
    ClockKind::Calibrated(ClockReason::NotOffered)
}

/// A tick is a nanosecond.
fn nanoseconds() -> Conversion {
    Conversion::through((0, 0), (1 << 40, 1 << 40)).unwrap()
}

/// An interval with these records, and nothing else.
pub(crate) fn batch(records: Vec<Kept>) -> Batch {
    Batch {
        threads: Vec::new(),
        records,
        not_kept: 0,
        slow: Vec::new(),
        slow_not_kept: 0,
        lost: 0,
        time: Timeline::at(0, 0, nanoseconds(), clock()),
        not_contained: None,
    }
}
