//! The statistics of one site's spans on one thread: one kind, whether the thread records in a ring or in histograms.

use crate::distribution::Distribution;
use crate::record::{Details, Flags, Lost, MAX_EVENTS, Polls, Raw, Site};

/// The time that spans lost, in nanoseconds. None if it is not known of any.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LostSums {
    /// The time off the CPU.
    pub(crate) off_cpu: Option<u64>,
    /// The time in which the thread was ready to run.
    pub(crate) runnable: Option<u64>,
}

impl LostSums {
    /// Adds what a span has lost.
    pub(crate) fn add(&mut self, lost: Option<Lost>) {
        if let Some(Lost { off_cpu, runnable }) = lost {
            self.merge(LostSums { off_cpu, runnable });
        }
    }

    fn merge(&mut self, other: LostSums) {
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0).saturating_add(more));
            }
        };
        add(&mut self.off_cpu, other.off_cpu);
        add(&mut self.runnable, other.runnable);
    }
}

/// The spans of a site on a thread.
#[derive(Clone, Debug)]
pub(crate) struct SiteStats {
    pub(crate) site: &'static Site,
    pub(crate) count: u64,
    /// How often each flag was set.
    pub(crate) flags: [u64; Flags::COUNT],
    /// The sum of their ticks, and the part in spans inside them.
    pub(crate) ticks: u64,
    pub(crate) of_children: u64,
    /// The sums of the counts.
    pub(crate) counts: [u64; MAX_EVENTS],
    pub(crate) lost: LostSums,
    /// Of the ticks, and of each count.
    pub(crate) times: Distribution,
    pub(crate) of_counts: Vec<Distribution>,
    /// Of the ticks of disturbed spans.
    pub(crate) disturbed: Distribution,
    /// Of the ticks of spans that were interrupted, and not disturbed.
    pub(crate) interrupted: Distribution,
    /// Of the page faults, where they are counted, and the sum of those for which the kernel read from a disk.
    pub(crate) faults: Distribution,
    pub(crate) major_faults: u64,
    /// Whether these are times that the program recorded, which have no counts, flags or causes.
    pub(crate) is_recorded: bool,
    /// The polls, if they are futures.
    pub(crate) polls: Option<Polls>,
}

impl SiteStats {
    pub(crate) fn new(site: &'static Site, events: usize) -> SiteStats {
        SiteStats {
            site,
            count: 0,
            flags: [0; Flags::COUNT],
            ticks: 0,
            of_children: 0,
            counts: [0; MAX_EVENTS],
            lost: LostSums::default(),
            times: Distribution::default(),
            of_counts: vec![Distribution::default(); events],
            disturbed: Distribution::default(),
            interrupted: Distribution::default(),
            faults: Distribution::default(),
            major_faults: 0,
            is_recorded: false,
            polls: None,
        }
    }

    /// Adds a record, with the ticks of the spans inside it.
    pub(crate) fn add(&mut self, record: &Raw, details: &Details, of_children: u64) {
        let time = record.time();
        self.lost.add(details.lost);
        if let Some(faults) = details.faults {
            self.faults.record(faults.all());
            self.major_faults = self.major_faults.saturating_add(faults.major);
        }
        self.count += 1;
        self.of_children = self.of_children.saturating_add(of_children.min(time));
        self.ticks = self.ticks.saturating_add(time);
        // Those of recorded times say nothing.
        let flags = if record.is_recorded_time() { Flags::NONE } else { record.flags };
        for (bit, flag) in self.flags.iter_mut().enumerate() {
            *flag += u64::from(flags.bits() >> bit & 1);
        }
        self.times.record(time);
        self.is_recorded |= record.is_recorded_time();
        self.polls = Polls::sum(self.polls, details.polls);
        if record.flags.contains(Flags::DISTURBED) {
            self.disturbed.record(time);
        } else if record.flags.contains(Flags::INTERRUPTED) {
            self.interrupted.record(time);
        }
        if record.is_counted() {
            let sums = record.counts.iter().zip(&mut self.counts);
            for ((count, sum), distribution) in sums.zip(&mut self.of_counts) {
                *sum = sum.wrapping_add(*count);
                distribution.record(*count);
            }
        }
    }

    /// Adds the spans of another thread, or of another time, that counted the same events.
    pub(crate) fn merge(&mut self, other: &SiteStats) {
        self.count = self.count.saturating_add(other.count);
        self.ticks = self.ticks.saturating_add(other.ticks);
        self.of_children = self.of_children.saturating_add(other.of_children);
        self.flags.iter_mut().zip(other.flags).for_each(|(flag, more)| *flag += more);
        for (sum, more) in self.counts.iter_mut().zip(other.counts) {
            *sum = sum.wrapping_add(more);
        }
        self.lost.merge(other.lost);
        self.is_recorded |= other.is_recorded;
        self.polls = Polls::sum(self.polls, other.polls);
        self.major_faults = self.major_faults.saturating_add(other.major_faults);
        let mut all = vec![
            (&mut self.times, &other.times),
            (&mut self.disturbed, &other.disturbed),
            (&mut self.interrupted, &other.interrupted),
            (&mut self.faults, &other.faults),
        ];
        all.extend(self.of_counts.iter_mut().zip(&other.of_counts));
        // Both are in ticks or counts, so no unit differs.
        all.into_iter().for_each(|(to, from)| to.merge(from).unwrap_or_default());
    }

    /// Returns how many of the spans have a flag.
    pub(crate) fn with(&self, flag: Flags) -> u64 {
        let bit = flag.bits().trailing_zeros() as usize;
        self.flags.get(bit).copied().unwrap_or(0)
    }
}

/// Adds statistics to a list with one entry for each site, in the order of their first spans.
pub(crate) fn merge_into(all: &mut Vec<SiteStats>, more: SiteStats) {
    match all.iter_mut().find(|known| std::ptr::eq(known.site, more.site)) {
        Some(known) => known.merge(&more),
        None => all.push(more),
    }
}
