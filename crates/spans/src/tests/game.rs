//! A game, without a machine: a main thread and a worker, with two counters.

use crate::batch::{Batch, Keep, Records, SlowKeeper, Thread, Timeline};
use crate::collect::{Cost, Kept, Meta};
use crate::counting::Counted;
use crate::record::{Details, Flags, Lost, MAX_EVENTS, OUTERMOST, Raw, SLOT, Site};
use crate::session::Slow;
use crate::statistics::{SiteStats, merge_into};
use rdpmc::Event;
use rdpmc::clock::{ClockKind, Conversion};
use std::collections::HashMap;
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

/// How long it takes.
const PLANTED: u64 = 8_000_000;

impl Planted {
    fn stage(self) -> &'static str {
        match self {
            Planted::Switch => "solve",
            Planted::Misses => "sort",
            Planted::Interrupt => "mix",
        }
    }

    /// Adds what it does to a span.
    fn slow_down(self, kept: &mut Kept) {
        let [cycles, _, misses, kernel, ..] = &mut kept.raw.counts;
        match self {
            Planted::Misses => *misses += 60_000,
            // Cycles and misses are those in user space.
            Planted::Switch => {
                *cycles = cycles.saturating_sub(PLANTED * 3);
                *misses = 450;
            }
            Planted::Interrupt => {
                *cycles = cycles.saturating_sub(PLANTED * 3);
                *misses = 450;
                *kernel += PLANTED * 2;
            }
        }
        let flags = match self {
            Planted::Misses => Flags::NONE,
            Planted::Switch => Flags::DISTURBED.union(Flags::PREEMPTED),
            Planted::Interrupt => Flags::INTERRUPTED,
        };
        kept.raw.flags = kept.raw.flags.union(flags);
        if self == Planted::Switch {
            lose(kept, Lost { off_cpu: Some(PLANTED), runnable: Some(PLANTED) });
        }
    }
}

/// Sets the time that a span has lost.
fn lose(kept: &mut Kept, lost: Lost) {
    let details = Details { lost: Some(lost), ..kept.details() };
    *kept = Kept::new(kept.thread.clone(), kept.raw, details);
}

/// What is known of the waits of each frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Waits {
    /// No frame waits.
    Never,
    /// Each frame waits, and how long is not known.
    OfUnknownTime,
    /// Each frame waits for 60 µs.
    OfKnownTime,
}

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
    /// What slows a frame down, and which one.
    planted: Vec<(u64, Planted)>,
    pub(crate) waits: Waits,
}

/// What slows a stage of a frame down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Planted {
    /// The kernel gives the CPU to another thread, in `solve`.
    Switch,
    /// Its data is not in the caches, in `sort`.
    Misses,
    /// The kernel handles interrupts, in `mix`.
    Interrupt,
}

impl Game {
    /// With cycles and instructions.
    pub(crate) fn new() -> Game {
        Game::counting(&[Event::CYCLES, Event::INSTRUCTIONS])
    }

    /// With these, and cache misses and the kernel's instructions. Three frames are slow.
    pub(crate) fn planted(frames: [u64; 3]) -> Game {
        let causes = [Planted::Switch, Planted::Misses, Planted::Interrupt];
        let events =
            [Event::CYCLES, Event::INSTRUCTIONS, Event::CACHE_MISSES, Event::INSTRUCTIONS.kernel()];
        Game { planted: frames.into_iter().zip(causes).collect(), ..Game::counting(&events) }
    }

    fn counting(events: &[Event]) -> Game {
        let thread = |number: u32, name: &str| {
            let events = events.to_vec();
            Arc::new(Meta {
                number,
                name: name.into(),
                kernel_ids: [std::process::id(), 1],
                is_named: true,
                counted: Counted {
                    events,
                    wants_causes: true,
                    knows_causes: true,
                    ..Counted::default()
                },
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
            planted: Vec::new(),
            waits: Waits::Never,
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
        counts[2] = self.random.near(time / 400, 20);
        let is_disturbed = self.random.below(2_000) == 0;
        let number = (depth == 1 && place == 0).then_some(self.frame);
        let raw = Raw {
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
        };
        Kept::new(self.threads[place].clone(), raw, Details { number, ..Details::default() })
    }

    /// Adds the records of a frame, in the order in which its spans end.
    pub(crate) fn frame(&mut self, records: &mut Vec<Kept>) {
        let begin = (self.frame * FRAME).max(self.end);
        let mut now = begin + 300;
        let planted = self.planted.iter().find(|(frame, _)| *frame == self.frame);
        let planted = planted.map(|(_, planted)| *planted);
        // Five systems, of three to five stages.
        let mut sites = SITES.iter().skip(1);
        for stages in [2, 3, 3, 1, 5] {
            let (Some(system), start) = (sites.next(), now) else { break };
            let mut slow_system = None;
            now += 40 + self.random.below(20);
            for site in sites.by_ref().take(stages) {
                // A stage has its own length, and some take a hundred times as long.
                let usual = 20_000 + u64::from(site.name().as_bytes()[1]) * 1_500;
                let is_rare = self.random.below(1_000) == 0 && self.planted.is_empty();
                let mut time = self.random.near(usual, 20) * if is_rare { 100 } else { 1 };
                let here = planted.filter(|planted| planted.stage() == site.name());
                time += here.map_or(0, |_| PLANTED);
                slow_system = slow_system.or(here);
                let mut stage =
                    self.span(0, site, [now, now + time], &[&SITES[0], system], usual * 4);
                here.iter().for_each(|planted| planted.slow_down(&mut stage));
                records.push(stage);
                now += time + 25 + self.random.below(30);
            }
            let mut system = self.span(0, system, [start, now], &[&SITES[0]], 900_000);
            slow_system.iter().for_each(|planted| planted.slow_down(&mut system));
            records.push(system);
            now += 60;
        }
        let mut frame = self.span(0, &SITES[0], [begin, now], &[], 9_000_000);
        planted.iter().for_each(|planted| planted.slow_down(&mut frame));
        if self.waits != Waits::Never {
            let waited = Flags::DISTURBED.union(Flags::WAITED);
            frame.raw.flags = frame.raw.flags.union(waited);
            let preempted = frame.details().lost.unwrap_or_default();
            let off_cpu = Some(preempted.off_cpu.unwrap_or(0) + 60_000);
            let lost = Lost { off_cpu, runnable: Some(preempted.runnable.unwrap_or(0)) };
            lose(&mut frame, lost);
        }
        if self.waits == Waits::OfUnknownTime {
            let details = Details { lost: None, ..frame.details() };
            frame = Kept::new(frame.thread.clone(), frame.raw, details);
        }
        records.push(frame);
        if self.frame % 2 == 0 {
            let time = self.random.near(400_000, 30);
            records.push(self.span(1, &JOB, [begin + 1_000, begin + 1_000 + time], &[], 1_000_000));
        }
        (self.frame, self.end) = (self.frame + 1, now);
    }
}

impl Game {
    /// Another thread, like the main one.
    pub(crate) fn thread(&self, number: u32) -> Arc<Meta> {
        Arc::new(Meta { number, ..Meta::clone(&self.threads[0]) })
    }

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
    ClockKind::Calibrated(rdpmc::Error::of_name("another clock", "No action needed"))
}

/// A tick is a nanosecond.
fn nanoseconds() -> Conversion {
    Conversion::through((0, 0), (1 << 40, 1 << 40)).unwrap()
}

/// An interval with these records, in which both threads live.
pub(crate) fn batch(records: Vec<Kept>) -> Batch {
    let threads = Game::new().threads.into_iter();
    let threads =
        threads.map(|meta| Thread { meta, ended: 0, sites: Vec::new(), dropped: 0, refused: 0 });
    Batch {
        threads: threads.collect(),
        records: Records::new(records),
        not_kept: 0,
        written: 0,
        slow: Vec::new(),
        slow_not_kept: 0,
        plan: Keep::default(),
        lost: 0,
        time: Timeline::at(0, 0, nanoseconds(), clock()),
        begun: 0,
        not_contained: None,
    }
}

/// As [`batch`], with the statistics of all spans, and as many of the slowest.
pub(crate) fn interval(mut records: Vec<Kept>, slowest: usize) -> Batch {
    let mut threads: Vec<Thread> = Vec::new();
    let mut keeper = SlowKeeper::new(Slow { slowest, ..Slow::default() }.into());
    let whole = batch(Vec::new());
    // The time inside spans of each depth, which ended since the last one above.
    let mut inside: HashMap<(u32, u16), u64> = HashMap::new();
    for kept in &records {
        let Kept { thread: meta, raw, .. } = kept;
        let known = threads.iter_mut().position(|known| Arc::ptr_eq(&known.meta, meta));
        let place = known.unwrap_or_else(|| {
            threads.push(Thread {
                meta: meta.clone(),
                ended: 0,
                sites: Vec::new(),
                dropped: 0,
                refused: 0,
            });
            threads.len() - 1
        });
        let of_children = inside.remove(&(meta.number, raw.depth + 1)).unwrap_or(0);
        *inside.entry((meta.number, raw.depth)).or_default() += raw.time();
        let mut stats = SiteStats::new(raw.site, meta.counted.events.len());
        stats.add(raw, &kept.details(), of_children);
        merge_into(&mut threads[place].sites, stats);
        keeper.see(kept, &whole.time);
    }
    records.sort_by_key(|kept| kept.raw.ticks[1]);
    keeper.end_collect(&records);
    Batch { threads, slow: keeper.view().0, records: Records::new(records), ..whole }
}
