//! The figures of a site's spans.

use crate::batch::{Batch, Thread, Timeline};
use crate::counting::Level1;
use crate::distribution::Distribution;
use crate::record::{Flags, Site};
use crate::statistics::SiteStats;
use rdpmc::Event;
use std::ptr;
use std::time::Duration;

/// The spans of one site on one thread.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Row {
    /// The thread's number. None for ended threads, and for the sum of several.
    pub thread: Option<u32>,
    /// The thread's name, as [`ThreadInfo::name`](crate::ThreadInfo::name). `all threads` for the sum of several.
    pub thread_name: String,
    /// The name of the site.
    pub name: &'static str,
    /// The source location.
    pub site: &'static Site,
    /// The number of spans.
    pub count: u64,
    /// How many of them the kernel disturbed: see [`Flags::DISTURBED`]. They are in all other figures, too. None if it is
    /// not known: without counters and without [`Settings::causes`](crate::Settings::causes).
    pub disturbed: Option<u64>,
    /// The sum of the times in which their threads were not on a CPU: they waited, or were ready to run. None if it is not known
    /// of any of them: see [`Settings::causes`](crate::Settings::causes).
    ///
    /// Not known, and not in the sum, is that of a span that waited after 20 times its own length without a context switch.
    /// Interrupts, and time that the hypervisor took, may be in it.
    pub off_cpu: Option<Duration>,
    /// The part of that in which they were ready to run: preempted, or woken and without a CPU. None if it is not known. After
    /// waits of less than 100 µs together, it may be counted for a later span.
    pub runnable: Option<Duration>,
    /// How many of them waited: see [`Flags::WAITED`]. None without [`Settings::causes`](crate::Settings::causes).
    pub waited: Option<u64>,
    /// How many of them were preempted: see [`Flags::PREEMPTED`]. None as `waited`.
    pub preempted: Option<u64>,
    /// How many of them were interrupted: see [`Flags::INTERRUPTED`]. None if the kernel's instructions are not counted.
    pub interrupted: Option<u64>,
    /// How many of them have no counts, although events were counted: see [`Flags::NOT_COUNTED`].
    pub not_counted: u64,
    /// How many of them have counts that are too low: see [`Flags::MULTIPLEXED`].
    pub multiplexed: u64,
    /// How many of them ended out of order: see [`Flags::OUT_OF_ORDER`].
    pub out_of_order: u64,
    /// The sum of their times.
    pub total: Duration,
    /// `total` without the time of the spans inside them. Laps are not subtracted. For laps, it is `total`.
    pub own: Duration,
    /// The times, in nanoseconds.
    pub time: Percentiles,
    /// The times of those that were not disturbed. None as `disturbed`.
    pub time_clean: Option<Percentiles>,
    /// The times of the disturbed ones alone. 0 if there are none.
    pub time_disturbed: Percentiles,
    /// Of the spans above the 99.9th percentile: their number, and how many of them were disturbed or interrupted. None if
    /// neither is known.
    pub slowest_disturbed: Option<(u64, u64)>,
    /// The sum of the times of the polls. None if the row is not of the whole times of futures: see [`polled!`](crate::polled).
    pub busy: Option<Duration>,
    /// The number of polls. None as `busy`.
    pub polls: Option<u64>,
    /// Whether the row is of [recorded times](macro@crate::record), and not of spans. These have no counts and no flags.
    pub is_recorded_time: bool,
    /// The distribution of the times.
    pub distribution: Distribution,
    /// The counts of each event. Those without counts are left out, and so are those of the top-down method.
    pub counts: Vec<Counts>,
    pub(super) level1: Option<Level1>,
}

/// The counts of one event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Counts {
    /// The event.
    pub event: Event,
    /// The sum of the counts.
    pub sum: u64,
    /// Their percentiles.
    pub percentiles: Percentiles,
    /// Their distribution.
    pub distribution: Distribution,
}

impl Counts {
    /// Returns the mean count of a span. None if no span has counts.
    pub fn mean(&self) -> Option<f64> {
        let spans = self.distribution.count();
        (spans > 0).then(|| self.sum as f64 / spans as f64)
    }
}

/// Percentiles of times or counts. Those of counts below 256, and of times below 256 ticks of the clock, are exact. Others are too
/// high by less than 1/128.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Percentiles {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The 99.9th percentile.
    pub p999: u64,
    /// The 99.99th percentile.
    pub p9999: u64,
    /// The maximum.
    pub max: u64,
}

impl Percentiles {
    fn from_distribution(distribution: &Distribution) -> Percentiles {
        let quantile = |q| distribution.quantile(q).unwrap_or(0);
        Percentiles {
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            p9999: quantile(0.9999),
            max: distribution.max().unwrap_or(0),
        }
    }
}

/// What a thread's figures tell.
#[derive(Clone, Copy)]
struct Known {
    has_tick_counter: bool,
    disturbances: bool,
    causes: bool,
    interrupts: bool,
}

impl Known {
    fn of_row(thread: &Thread, stats: &SiteStats) -> Known {
        let counted = &thread.meta.counted;
        let has_tick_counter = thread.meta.has_tick_counter();
        if stats.is_recorded {
            let [disturbances, causes, interrupts] = [false; 3];
            return Known { has_tick_counter, disturbances, causes, interrupts };
        }
        Known {
            has_tick_counter,
            disturbances: counted.knows_disturbances(),
            causes: counted.knows_causes,
            interrupts: counted.index_of_interrupts().is_some()
                && (!thread.meta.is_in_histograms || has_tick_counter),
        }
    }
}

impl Row {
    /// Returns the mean of the times: `total` by `count`. 0 without spans.
    pub fn mean(&self) -> Duration {
        let nanoseconds = self.total.as_nanos().checked_div(u128::from(self.count)).unwrap_or(0);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// Returns the sum of an event's counts. None if it was not counted.
    pub fn sum(&self, event: Event) -> Option<u64> {
        self.counts.iter().find(|counts| counts.event == event).map(|counts| counts.sum)
    }

    /// Returns the instructions per cycle. None if they, or cycles, were not counted.
    pub fn ipc(&self) -> Option<f64> {
        let [instructions, cycles] = [self.sum(Event::INSTRUCTIONS)?, self.sum(Event::CYCLES)?];
        (cycles > 0).then(|| instructions as f64 / cycles as f64)
    }

    /// Returns how often an event happened in 1,000 instructions. None if it, or instructions, were not counted.
    pub fn per_thousand(&self, event: Event) -> Option<f64> {
        let [count, instructions] = [self.sum(event)?, self.sum(Event::INSTRUCTIONS)?];
        (instructions > 0).then(|| count as f64 * 1000.0 / instructions as f64)
    }

    /// Returns where the pipeline slots went. None without [`Settings::topdown`](crate::Settings::topdown), and if the thread could not
    /// count them. Needs the feature `topdown`.
    #[cfg(feature = "topdown")]
    pub fn topdown(&self) -> Option<rdpmc_events::topdown::Level1> {
        self.level1
    }

    pub(super) fn new(thread: &Thread, stats: &SiteStats, time: &Timeline) -> Row {
        let (known, conversion) = (Known::of_row(thread, stats), time.conversion(&thread.meta));
        let not_counted = stats.with(Flags::NOT_COUNTED);
        let is_counted = stats.count > not_counted && !stats.is_recorded;
        let times = stats.times.clone().of_ticks(known.has_tick_counter, conversion);
        let disturbed = stats.disturbed.clone().of_ticks(known.has_tick_counter, conversion);
        let interrupted = stats.interrupted.clone().of_ticks(known.has_tick_counter, conversion);
        let mut clean = times.clone();
        // Disturbed spans are among all, so this does not fail.
        let clean =
            clean.subtract(&disturbed).is_ok().then(|| Percentiles::from_distribution(&clean));
        let time = Percentiles::from_distribution(&times);
        let above = |of: &Distribution| of.count_above(time.p999);
        let events = &thread.meta.counted.events;
        let counts = events.iter().zip(&stats.of_counts).zip(stats.counts);
        let counts = counts.skip(thread.meta.counted.events_of_slots()).map(
            |((event, distribution), sum)| Counts {
                event: *event,
                sum,
                percentiles: Percentiles::from_distribution(distribution),
                distribution: distribution.clone(),
            },
        );
        let flag = |is_known: bool, flag: Flags| is_known.then(|| stats.with(flag));
        let was_off_cpu = stats.with(Flags::WAITED) + stats.with(Flags::PREEMPTED) > 0;
        let lost = |sum: Option<u64>| match known.causes {
            true if !was_off_cpu => Some(Duration::ZERO),
            true => sum.map(Duration::from_nanos),
            false => None,
        };
        Row {
            thread: (thread.ended == 0).then_some(thread.meta.number),
            thread_name: thread.meta.name.clone(),
            name: stats.site.name(),
            site: stats.site,
            count: stats.count,
            disturbed: flag(known.disturbances, Flags::DISTURBED),
            off_cpu: lost(stats.lost.off_cpu),
            runnable: lost(stats.lost.runnable),
            waited: flag(known.causes, Flags::WAITED),
            preempted: flag(known.causes, Flags::PREEMPTED),
            interrupted: flag(known.interrupts, Flags::INTERRUPTED),
            not_counted,
            multiplexed: stats.with(Flags::MULTIPLEXED),
            out_of_order: stats.with(Flags::OUT_OF_ORDER),
            total: conversion.duration(stats.ticks),
            own: conversion.duration(stats.ticks.saturating_sub(stats.of_children)),
            time,
            time_clean: clean.filter(|_| known.disturbances),
            time_disturbed: Percentiles::from_distribution(&disturbed),
            slowest_disturbed: (known.disturbances || known.interrupts)
                .then(|| (above(&times), above(&disturbed) + above(&interrupted))),
            busy: stats.polls.map(|polls| conversion.duration(polls.busy)),
            polls: stats.polls.map(|polls| polls.times),
            is_recorded_time: stats.is_recorded,
            distribution: times,
            level1: is_counted.then(|| thread.meta.counted.level1(&stats.counts)).flatten(),
            counts: if is_counted { counts.collect() } else { Vec::new() },
        }
    }
}

/// Returns the rows of the sites with spans on several threads.
pub(super) fn of_several_threads(batch: &Batch) -> Vec<Row> {
    let mut all: Vec<(SiteStats, &Thread, usize)> = Vec::new();
    for thread in &batch.threads {
        for stats in &thread.sites {
            let known = all.iter_mut().find(|(known, first, _)| {
                ptr::eq(known.site, stats.site) && first.meta.is_like(&thread.meta)
            });
            match known {
                Some((known, _, threads)) => {
                    known.merge(stats);
                    *threads += 1;
                }
                None => all.push((stats.clone(), thread, 1)),
            }
        }
    }
    let all = all.into_iter().filter(|(_, _, threads)| *threads > 1);
    all.map(|(stats, thread, _)| {
        let row = Row::new(thread, &stats, &batch.time);
        Row { thread: None, thread_name: "all threads".into(), ..row }
    })
    .collect()
}
