//! Tests whether the counters of this machine count: known work on all of them at once.
//!
//! Hypervisors and processor errata make counters stand still, count a part, or jump, and nothing else reports that.

use crate::facts;
use crate::judge::{self, Lengths, UserRead, Verdict, judge_cycles, judge_exact};
use crate::work::known_work;
use rdpmc::Error;
use rdpmc::error::ErrorKind;
use rdpmc::pmu::{Pmu, Pmus};
use rdpmc::{Access, Clock, Counter, Event};
use std::fmt;

/// Tests whether the counters of this thread's core PMU count: instructions, branches and cycles of known work, on all
/// counters at the same time.
///
/// Takes a few milliseconds, some hundred system calls, and reads the files of all PMUs. The counters are pinned, so events that are open may lose
/// their turn meanwhile. On a hybrid CPU, the core type that the thread is on is tested.
///
/// Reads in user space are compared with the kernel's if faults are [contained](rdpmc::contain_faults).
///
/// ```
/// rdpmc::contain_faults()?;
/// match rdpmc_doctor::test_counters() {
///     Ok(trust) if trust.is_right() => println!("{trust}"),
///     Ok(trust) => println!("this machine's counters are wrong: {trust}"),
///     Err(why) => println!("{why}"), // for example, this VM has no PMU
/// }
/// # Ok::<(), rdpmc::Error>(())
/// ```
///
/// # Errors
/// [`TestError::NotOpened`] if instructions cannot be counted, or if the list of PMUs cannot be read.
/// [`TestError::NoFreeCounter`] if pinned events hold every counter, so that nothing can be tested.
/// [`TestError::NoKnownWork`] on other architectures than x86-64, arm64 and riscv64.
pub fn test_counters() -> Result<Trust, TestError> {
    if !known_work(0) {
        return Err(TestError::NoKnownWork);
    }
    let all = Pmus::local().all().map_err(TestError::NotOpened)?;
    let core: Vec<Pmu> = all.into_iter().filter(Pmu::is_core).collect();
    let cpu = facts::current_cpu();
    let is_here =
        |pmu: &&rdpmc::pmu::Pmu| pmu.cpus().zip(cpu).is_some_and(|(cpus, cpu)| cpus.contains(cpu));
    let trust = match core.iter().find(is_here).filter(|_| core.len() > 1) {
        Some(pmu) => test(|event| event.on_core_pmu(pmu.type_id())),
        None => test(|event| event),
    };
    let trust = trust.map_err(TestError::NotOpened)?;
    if trust.tests.is_empty() { Err(TestError::NoFreeCounter) } else { Ok(trust) }
}

/// Why [`test_counters`] could not test.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TestError {
    /// Instructions cannot be counted.
    NotOpened(Error),
    /// Pinned events hold every counter.
    NoFreeCounter,
    /// This library has no work of known length for this architecture.
    NoKnownWork,
}

impl fmt::Display for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TestError::NotOpened(error) => error.fmt(f),
            TestError::NoFreeCounter => f.write_str(
                "no counter is free to be tested. Close pinned events, and run `sysctl kernel.nmi_watchdog=0` as \
                 root",
            ),
            TestError::NoKnownWork => f.write_str(
                "counters are not tested on this architecture: no work of known length is known. No action needed",
            ),
        }
    }
}

impl std::error::Error for TestError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TestError::NotOpened(error) => error.source(),
            TestError::NoFreeCounter | TestError::NoKnownWork => None,
        }
    }
}

/// The result of [`test_counters`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trust {
    /// A test for each event that this PMU counts: instructions, branches, cycles.
    pub tests: Vec<EventTest>,
    /// The number of instructions counted in excess in 5 milliseconds. On real CPUs, each interrupt adds one.
    pub added_by_interrupts: Option<u64>,
    /// The number of instructions that each read in user space adds, besides its own. A hypervisor that traps the
    /// instruction may count it twice. Measured on x86-64.
    pub added_by_reads: Option<u64>,
}

/// The test of all counters with one event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventTest {
    /// The generic event, without its PMU on a machine with several core types.
    pub event: Event,
    /// A verdict for each counter that counted the event at the same time.
    pub verdicts: Vec<Verdict>,
}

impl Trust {
    /// Whether every counter counted right. The instructions that interrupts and reads add do not matter here.
    pub fn is_right(&self) -> bool {
        self.tests.iter().all(|test| test.verdicts.iter().all(Verdict::is_right))
    }

    /// Whether a counter was found to be wrong. If the samples differ too much to decide, this and
    /// [`is_right`](Trust::is_right) both return false: test again.
    pub fn is_wrong(&self) -> bool {
        self.tests.iter().any(|test| test.verdicts.iter().any(Verdict::is_wrong))
    }

    /// Returns the number of counters that count and the number tested, for the event with the fewest that count.
    pub fn counting(&self) -> (usize, usize) {
        let of = |test: &EventTest| {
            let counting = test.verdicts.iter().filter(|verdict| verdict.counts()).count();
            (counting, test.verdicts.len())
        };
        let dead = |&(counting, tested): &(usize, usize)| tested - counting;
        self.tests.iter().map(of).max_by_key(dead).unwrap_or((0, 0))
    }
}

impl fmt::Display for Trust {
    /// Writes one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, test) in self.tests.iter().enumerate() {
            let separator = if place == 0 { "" } else { "; " };
            write!(f, "{separator}{} ", test.event)?;
            let mut rest = test.verdicts.as_slice();
            while let [first, ..] = rest {
                let equal = rest.iter().take_while(|verdict| *verdict == first).count();
                let (_, others) = rest.split_at(equal);
                let separator = if rest.len() == test.verdicts.len() { "" } else { ", " };
                write!(f, "{separator}{first}")?;
                if test.verdicts.len() > 1 {
                    write!(f, " on {equal} {}", if equal == 1 { "counter" } else { "counters" })?;
                }
                rest = others;
            }
        }
        if let Some(added @ 1..) = self.added_by_interrupts {
            write!(f, "; interrupts added {added} in 5 ms")?;
        }
        if let Some(added @ 1..) = self.added_by_reads {
            write!(f, "; each read in user space adds {added}")?;
        }
        Ok(())
    }
}

/// More counters than any PMU has.
pub(crate) const MAX_COUNTERS: usize = 64;
/// The number of samples of each length of work.
const SAMPLES: usize = 9;
/// The lengths of the work, in rounds.
const ROUNDS: [u64; 3] = [0, 1_000, 10_000];
/// The time, in nanoseconds, in which interrupts are counted.
const INTERRUPTED: u64 = 5_000_000;
/// The maximum number of rounds for that: some 10 milliseconds.
const MAX_ROUNDS: u64 = 30_000_000;
/// The number of user-space reads of which half are compared with the other half.
const READS: u64 = 8;

/// Tests each event, on the PMU that `own` chooses.
pub(crate) fn test(own: impl Fn(Event) -> Event) -> Result<Trust, Error> {
    let mut trust = Trust { tests: Vec::new(), added_by_interrupts: None, added_by_reads: None };
    let clock = Clock::open().ok();
    for (event, per_round) in
        [(Event::INSTRUCTIONS, Some(2)), (Event::BRANCHES, Some(1)), (Event::CYCLES, None)]
    {
        let counters = match fill(own(event)) {
            Ok(counters) => counters,
            Err(error) if event == Event::INSTRUCTIONS => return Err(error),
            Err(_) => continue, // this PMU does not have it
        };
        if counters.is_empty() || !known_work(0) {
            continue;
        }
        let samples = sample(&counters, clock.as_ref());
        let verdict = |(lengths, counter): (Lengths, &Counter)| {
            let verdict = match per_round {
                Some(per_round) => judge_exact(&lengths, ROUNDS, per_round),
                None => judge_cycles(&lengths, samples.nanoseconds),
            };
            if verdict.is_right() && !agrees_with_user_space(counter) {
                return Verdict::WrongInUserSpace;
            }
            verdict
        };
        let mut verdicts: Vec<Verdict> =
            samples.of_counters.iter().cloned().zip(&counters).map(verdict).collect();
        if per_round.is_none() {
            judge::compare(&mut verdicts, &samples.of_counters);
        }
        if let (Event::INSTRUCTIONS, Some(counter)) = (event, counters.first()) {
            trust.added_by_interrupts = added_by_interrupts(counter, clock.as_ref());
            trust.added_by_reads = added_by_reads(counter);
        }
        trust.tests.push(EventTest { event, verdicts });
    }
    Ok(trust)
}

/// Opens as many counters of the event as the PMU has.
fn fill(event: Event) -> Result<Vec<Counter>, Error> {
    let mut counters = Vec::new();
    while counters.len() < MAX_COUNTERS {
        match pinned(event) {
            Ok(Some(counter)) => counters.push(counter),
            Err(error) if counters.is_empty() => return Err(error),
            Ok(None) | Err(_) => break,
        }
    }
    Ok(counters)
}

/// Opens a pinned event. None if no counter is free for it.
pub(crate) fn pinned(event: Event) -> Result<Option<Counter>, Error> {
    match Counter::builder(event).allow_all_privilege_levels(true).pinned(true).open() {
        // Otherwise in error state.
        Ok(counter) => Ok(Some(counter).filter(|counter| counter.reading_by_system_call().is_ok())),
        Err(why) if matches!(why.kind(), ErrorKind::GroupTooLarge { .. } | ErrorKind::Busy) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The samples of all counters.
struct Samples {
    of_counters: Vec<Lengths>,
    /// The minimum time of each length.
    nanoseconds: [u64; ROUNDS.len()],
}

/// Runs work of each length several times, and reads the counters before and after.
fn sample(counters: &[Counter], clock: Option<&Clock>) -> Samples {
    let mut samples = Samples {
        of_counters: vec![Lengths::default(); counters.len()],
        nanoseconds: [u64::MAX; ROUNDS.len()],
    };
    let read = || -> Vec<_> { counters.iter().map(Counter::reading_by_system_call).collect() };
    let now = || clock.map(Clock::now);
    for _ in 0..SAMPLES {
        for (length, rounds) in ROUNDS.into_iter().enumerate() {
            let before = read();
            let start = now();
            known_work(rounds);
            let end = now();
            let after = read();
            if let (Some(least), Some((start, end))) =
                (samples.nanoseconds.get_mut(length), start.zip(end))
            {
                *least = (*least).min(end.saturating_sub(start));
            }
            for ((lengths, before), after) in samples.of_counters.iter_mut().zip(before).zip(after)
            {
                let (Ok(before), Ok(after)) = (before, after) else { continue };
                let Some(counts) = lengths.get_mut(length) else { continue };
                match after.since(&before) {
                    // Only samples for which the counter was there all the time.
                    Some(all) if all.time_running() < all.time_enabled() => {}
                    Some(all) => counts.push(all.value),
                    None => counts.push(u64::MAX), // it went back
                }
            }
        }
    }
    samples
}

/// Whether a read in user space lies between two of the kernel. True if user space cannot read the counter at all, or
/// if that might fault.
fn agrees_with_user_space(counter: &Counter) -> bool {
    if !rdpmc::faults_are_contained() || counter.width().is_none() {
        return true;
    }
    let faults = rdpmc::contained_faults();
    // The page says that user space cannot read it, or the CPU does, by a fault. A read that returns None without a fault,
    // although the page names a register, is `Refused`, too, and wrong.
    let is_not_offered = || match counter.access() {
        Access::SystemCall(why) if why.kind() == ErrorKind::Refused => {
            rdpmc::contained_faults() > faults
        }
        Access::SystemCall(_) => true,
        _ => false,
    };
    judge::agree((0..SAMPLES).map(|_| {
        let before = counter.reading_by_system_call();
        let user = counter.read_user();
        let after = counter.reading_by_system_call();
        match (before, user, after) {
            (Ok(before), Some(user), Ok(after)) => {
                UserRead::Count { before: before.value, user, after: after.value }
            }
            (_, None, _) if is_not_offered() => UserRead::NotOffered,
            _ => UserRead::None,
        }
    }))
}

/// Returns what the counter of instructions counts too many in some milliseconds.
fn added_by_interrupts(counter: &Counter, clock: Option<&Clock>) -> Option<u64> {
    let clock = clock?;
    let count = |rounds: u64| {
        let start = clock.now();
        let before = counter.reading_by_system_call().ok()?;
        known_work(rounds);
        let counted = counter.reading_by_system_call().ok()?.since(&before)?.value;
        let end = clock.now();
        Some((counted, end.saturating_sub(start).max(1)))
    };
    let least = |rounds: u64| {
        let samples = (0..SAMPLES).filter_map(|_| count(rounds));
        samples.reduce(|least, other| (least.0.min(other.0), least.1.min(other.1)))
    };
    let [_, _, most] = ROUNDS;
    let ((empty, around), (_, time)) = (least(0)?, least(most)?);
    // None if the clock is too coarse.
    let time = time.checked_sub(around).filter(|time| *time > 0)?;
    let rounds = (most.saturating_mul(INTERRUPTED) / time).min(MAX_ROUNDS);
    let (counted, _) = count(rounds)?;
    counted.checked_sub(empty.saturating_add(rounds.saturating_mul(2)))
}

/// Returns how many instructions a read in user space adds. None if that is unknown.
fn added_by_reads(counter: &Counter) -> Option<u64> {
    if !rdpmc::faults_are_contained() || counter.read_user().is_none() {
        return None;
    }
    let count = |rounds: u64| {
        let before = counter.reading_by_system_call().ok()?.value;
        if !counter.known_reads(rounds) {
            return None;
        }
        counter.reading_by_system_call().ok()?.value.checked_sub(before)
    };
    let least = |rounds: u64| (0..SAMPLES).filter_map(|_| count(rounds)).min();
    let more = least(2 * READS)?.checked_sub(least(READS)?)?;
    Some(more.checked_sub(3 * READS)? / READS)
}
