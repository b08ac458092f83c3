//! Regions count exactly the code in between, or report a disturbance.

use super::interruption::signal_every;
use super::{Entry, ROUNDS, known_events, least, newest, open};
use crate::cost::FOUR;
use crate::events::read_event;
use crate::harness::{Facts, Outcome, Stop, equal, near, require, samples, says, skip, slack};
use crate::neighbour::Neighbour;
use rdpmc::error::ErrorKind;
use rdpmc::region::{Delta, Disturbed, Snapshot};
use rdpmc::{Counter, Error, Event, Group, Region};
use rdpmc_testing::kernels::{COUNTDOWN_ENTRY, countdown};
use std::hint::black_box;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

pub const ALL: &[Entry] = &[
    ("regions_of_known_work", regions_of_known_work),
    ("regions_of_a_group", regions_of_a_group),
    ("regions_under_a_spinner", regions_under_a_spinner),
    ("snapshots_of_known_work", snapshots_of_known_work),
    ("work_after_a_retried_snapshot", work_after_a_retried_snapshot),
    ("regions_that_are_disturbed", regions_that_are_disturbed),
    ("the_kernels_instructions_show_interrupts", the_kernels_instructions_show_interrupts),
    ("no_region_without_user_access", no_region_without_user_access),
];

/// Returns what a region counts of `rounds`: the minimum of several if interrupts add to it.
fn of_work<const N: usize, const FENCED: bool>(
    region: &Region<'_, N, FENCED>,
    rounds: u64,
) -> Result<[u64; N], Stop> {
    let mut least = [u64::MAX; N];
    for _ in 0..samples(cfg!(target_arch = "riscv64")) {
        for (least, count) in least.iter_mut().zip(once(region, rounds)?) {
            *least = (*least).min(count);
        }
    }
    Ok(least)
}

#[inline(never)]
fn once<const N: usize, const FENCED: bool>(
    region: &Region<'_, N, FENCED>,
    rounds: u64,
) -> Result<[u64; N], Stop> {
    let rounds = black_box(rounds);
    // This machine's timer disturbs about one in a hundred.
    for _ in 0..10 {
        if let (77, Ok(counts)) = region.measure(|| {
            countdown(rounds);
            77
        }) {
            return Ok(counts);
        }
    }
    Err(Stop::Failed("ten disturbed regions in a row".into()))
}

/// Checks that each counter of a region counts what each round adds, and returns its counts of no rounds.
fn exact_in<const N: usize, const FENCED: bool>(
    region: &Region<'_, N, FENCED>,
    per_round: [u64; N],
) -> Result<[u64; N], Stop> {
    let nothing = of_work(region, 0)?;
    for rounds in ROUNDS {
        let counted = of_work(region, rounds)?;
        for n in 0..N {
            let what = format!("counter {n} of {rounds} rounds");
            equal(&what, counted[n], nothing[n] + per_round[n] * rounds)?;
        }
    }
    Ok(nothing)
}

fn regions_of_known_work(facts: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    rdpmc::contain_faults()?;
    for (event, per_round) in known_events(facts) {
        let counter = open(event)?;
        wait_for(&|| counter.read_user().is_some())?;
        let plain = counter.region()?;
        let [nothing] = exact_in(&plain, [per_round])?;
        let [fenced] = exact_in(&counter.region()?.fenced(), [per_round])?;
        require(nothing <= fenced, || format!("{event}: {nothing} plain, {fenced} fenced"))?;
        if event == Event::INSTRUCTIONS {
            // Without what an empty region counts, only the work and its entry are left. The number of rounds is moved into the
            // register in which it is counted down.
            let [empty] = around_nothing(&plain)?;
            let entry = COUNTDOWN_ENTRY..=COUNTDOWN_ENTRY + 1;
            require(entry.contains(&(nothing - empty)), || format!("{nothing} - {empty}"))?;
        }
    }
    Ok(())
}

// In small functions, which have registers for all that lives during a region. In a large one, the compiler may store some
// of it in between.

#[inline(never)]
fn around_nothing(region: &Region<'_, 1>) -> Result<[u64; 1], Disturbed> {
    region.measure(|| ()).1
}

#[inline(never)]
fn of_a_countdown<const N: usize>(
    region: &Region<'_, N>,
    rounds: u64,
) -> Result<[u64; N], Disturbed> {
    region.measure(|| countdown(rounds)).1
}

/// Waits at most a second for what a turn on the PMU brings.
fn wait_for(is_there: &dyn Fn() -> bool) -> Outcome {
    for _ in 0..1_000 {
        if is_there() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Stop::Failed("no counter in a second".into()))
}

fn regions_of_a_group(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    rdpmc::contain_faults()?;
    let group = Group::builder(FOUR).allow_all_privilege_levels(true).open()?;
    wait_for(&|| group.read_user().is_some())?;
    let alone = Counter::builder(Event::INSTRUCTIONS).allow_all_privilege_levels(true);
    let per_round = if cfg!(target_arch = "riscv64") { [2, 2, 0, 0] } else { [2; 4] };
    let counts = exact_in(&group.region()?, per_round)?;
    let fenced = exact_in(&group.region()?.fenced(), per_round)?;
    if !group.counts_all_privilege_levels() {
        // Each event sees the reads of those before it.
        require(counts.is_sorted() && counts[0] < counts[3], || format!("{counts:?}"))?;
        require(fenced.is_sorted() && counts[0] < fenced[0], || format!("{fenced:?}"))?;
    }
    drop(group);
    // The first event sees no more than if it were alone.
    let alone = alone.open()?;
    wait_for(&|| alone.read_user().is_some())?;
    let [alone] = exact_in(&alone.region()?, [2])?;
    require(counts[0] <= alone + 1, || format!("{} alone, {counts:?} in the group", alone))
}

/// The kernel counts context switches, just outside of the region and at both ends inside. A switch that was
/// certainly inside makes a disturbed sample. Without a switch, there is a count, and it is right.
/// Snapshots around known work, beside a neighbour on this CPU. A difference that contains a context switch says so, and
/// has its counts.
fn snapshots_of_known_work(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    rdpmc::contain_faults()?;
    let group = Group::builder(FOUR).allow_all_privilege_levels(true).open()?;
    wait_for(&|| group.read_user().is_some())?;
    let is_unfiltered = group.counts_all_privilege_levels();
    let switches = Switches::open()?;
    let nothing = least(100, || Ok(known_work(&group, 0)?.counts()[0]))?;
    let neighbour = Neighbour::start();
    let (mut calm, mut hit) = (0, 0);
    for sample in 0..20_000 {
        if hit > 50 && calm > 1_000 {
            break;
        }
        let rounds = sample % 61 * 500;
        let before = switches.read();
        let delta = known_work(&group, rounds)?;
        let inside = switches.read() - before;
        match delta.disturbed() {
            None => calm += 1,
            Some(Disturbed::Interrupted { lock_moved, .. }) => {
                // A switch may also be between the reads of the other counter, and outside of the snapshots.
                require(lock_moved >= 2 && inside > 0, || format!("{lock_moved}, {inside}"))?;
                hit += 1;
            }
            Some(other) => return Err(Stop::Failed(format!("{other:?}"))),
        }
        let ([count, ..], expected) = (delta.counts(), nothing + 2 * rounds);
        let of_interrupts = match (is_unfiltered, delta.disturbed()) {
            (true, _) => u64::MAX,
            (false, None) => slack(),
            // A switch during a snapshot repeats its read. Some CPUs count an instruction for each interrupt.
            (false, Some(_)) => 500,
        };
        let is_exact = (expected..=expected.saturating_add(of_interrupts)).contains(&count);
        require(is_exact, || format!("{count} of {expected}, disturbed: {:?}", delta.disturbed()))?;
    }
    drop(neighbour);
    require(hit > 10 && calm > 100, || format!("{hit} disturbed, {calm} not"))
}

#[inline(never)]
fn known_work(group: &Group<4>, rounds: u64) -> Result<Delta<4>, Stop> {
    let rounds = black_box(rounds);
    // The neighbour may have the counters' only turn (riscv64).
    for _ in 0..1_000 {
        let before = group.snapshot();
        countdown(rounds);
        if let (Some(before), Some(after)) = (before, group.snapshot()) {
            return Ok(after - before);
        }
    }
    Err(Stop::Failed("no snapshot".into()))
}

/// A snapshot that was repeated, because a signal handler stopped and started the counters meanwhile, counts as many
/// instructions until the next one as a snapshot that was not.
fn work_after_a_retried_snapshot(facts: &Facts) -> Outcome {
    static COUNTER: AtomicPtr<Counter> = AtomicPtr::new(ptr::null_mut());
    static GROUP: AtomicPtr<Group<4>> = AtomicPtr::new(ptr::null_mut());
    static HANDLED: AtomicU64 = AtomicU64::new(0);
    extern "C" fn stop_and_start(_: libc::c_int) {
        // SAFETY: both are null, or never freed.
        let (counter, group) =
            unsafe { (COUNTER.load(Relaxed).as_ref(), GROUP.load(Relaxed).as_ref()) };
        let of_counter = counter.is_none_or(|it| it.disable().is_ok() && it.enable().is_ok());
        let of_group = group.is_none_or(|it| it.disable().is_ok() && it.enable().is_ok());
        HANDLED.fetch_add(u64::from(of_counter && of_group), Relaxed);
    }
    /// All undisturbed differences of two snapshots are equal, until the handler has run `times` times.
    #[inline(never)]
    fn are_equal<const N: usize>(
        snapshot: impl Fn() -> Option<Snapshot<N>>,
        is_unfiltered: bool,
        handled: &AtomicU64,
        times: u64,
    ) -> Outcome {
        let until = handled.load(Relaxed) + times;
        let (mut usual, mut calm, mut hit) = (None, 0u64, 0u64);
        while handled.load(Relaxed) < until {
            let before = snapshot();
            countdown(black_box(1));
            let (Some(before), Some(after)) = (before, snapshot()) else { continue };
            let delta = after - before;
            if delta.disturbed().is_some() {
                hit += 1;
                continue;
            }
            calm += 1;
            let count = delta.counts().first().copied().unwrap_or(0);
            let usual = *usual.get_or_insert(count);
            if !is_unfiltered {
                near("an undisturbed difference", count as i64, usual as i64)?;
            }
        }
        require(calm > 1_000 && hit > 0, || format!("{calm} undisturbed, {hit} disturbed"))
    }
    let times = 1_500 / facts.share().of as u64;
    drop(open(Event::INSTRUCTIONS)?);
    rdpmc::contain_faults()?;
    signal_every(400_000, stop_and_start)?;
    let counter: &Counter = Box::leak(Box::new(open(Event::INSTRUCTIONS)?));
    COUNTER.store(ptr::from_ref(counter).cast_mut(), Relaxed);
    are_equal(|| counter.snapshot(), counter.counts_all_privilege_levels(), &HANDLED, times)?;
    COUNTER.store(ptr::null_mut(), Relaxed);
    counter.disable()?;
    let group = Group::builder(FOUR).allow_all_privilege_levels(true).open()?;
    let group: &Group<4> = Box::leak(Box::new(group));
    GROUP.store(ptr::from_ref(group).cast_mut(), Relaxed);
    are_equal(|| group.snapshot(), group.counts_all_privilege_levels(), &HANDLED, times)
}

fn regions_under_a_spinner(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    rdpmc::contain_faults()?;
    {
        let counter = open(Event::INSTRUCTIONS)?;
        wait_for(&|| counter.read_user().is_some())?;
        let is_unfiltered = counter.counts_all_privilege_levels();
        under_a_spinner(&counter.region()?, is_unfiltered)?;
    }
    let group = Group::builder(FOUR).allow_all_privilege_levels(true).open()?;
    wait_for(&|| group.read_user().is_some())?;
    under_a_spinner(&group.region()?.fenced(), group.counts_all_privilege_levels())
}

fn under_a_spinner<const N: usize, const FENCED: bool>(
    region: &Region<'_, N, FENCED>,
    is_unfiltered: bool,
) -> Outcome {
    let switches = Switches::open()?;
    let neighbour = Neighbour::start();
    let mut constant = [u64::MAX; N];
    let (mut calm, mut hit, mut beside, mut others) = (Vec::new(), 0, 0, 0);
    for sample in 0..20_000 {
        if hit > 100 && sample > 2_000 {
            break;
        }
        // The length changes, because the neighbour might otherwise always come at one location.
        countdown(black_box(sample % 61 * 100));
        let outside = switches.read();
        let (inside, sample) = around_both_reads(region, &switches);
        let inside = inside?;
        let outside = switches.read() - outside;
        match sample {
            Ok(counts) => {
                for (constant, count) in constant.iter_mut().zip(counts) {
                    *constant = (*constant).min(count);
                }
                calm.push(counts);
                require(inside == 0, || {
                    format!("{inside} switches inside, and counts: {counts:?}")
                })?;
                beside += u32::from(outside > 0);
            }
            Err(Disturbed::Interrupted { lock_moved, .. }) => {
                require(lock_moved >= 2, || format!("lock moved by {lock_moved}"))?;
                hit += u32::from(inside > 0);
                others += u32::from(outside == 0);
            }
            Err(other) => return Err(other.into()),
        }
    }
    drop(neighbour);
    require(hit > 100 && calm.len() > 100, || format!("{hit} hit, {} calm", calm.len()))?;
    equal("disturbed without a switch", others, 0)?;
    // Between the region's ends and the reads next to them there is hardly time for a switch.
    require(beside * 5 < hit, || format!("{beside} beside, {hit} hit"))?;
    // Work, and at least the user-mode part of two system calls. The first event counts instructions.
    let most = if is_unfiltered { 60_000 } else { 41_000 };
    require((40_000..most).contains(&constant[0]), || format!("{constant:?} for 40,000"))?;
    if is_unfiltered {
        return Ok(()); // interrupts add to some
    }
    let is_wrong = |counts: &&[u64; N]| {
        counts.iter().zip(constant).any(|(count, least)| count.abs_diff(least) > slack())
    };
    equal("counts that differ", calm.iter().filter(is_wrong).count(), 0)
}

/// The thread's context switches, which the kernel counts. Each read takes the same number of instructions: the library's own
/// looks at the descriptor's identifier from time to time.
struct Switches {
    descriptor: RawFd,
    _counter: Counter,
}

impl Switches {
    fn open() -> Result<Switches, Stop> {
        let _counter = Counter::open(Event::CONTEXT_SWITCHES)?;
        Ok(Switches { descriptor: newest(), _counter })
    }

    fn read(&self) -> u64 {
        let [switches, ..] = read_event(self.descriptor);
        switches
    }
}

/// Returns a sample with 40,000 instructions, and the number of switches between its ends.
#[inline(never)]
fn around_both_reads<const N: usize, const FENCED: bool>(
    region: &Region<'_, N, FENCED>,
    switches: &Switches,
) -> (Result<u64, Error>, Result<[u64; N], Disturbed>) {
    let rounds = black_box(20_000);
    region.measure(|| {
        let before = switches.read();
        countdown(rounds);
        Ok(switches.read() - before)
    })
}

fn regions_that_are_disturbed(_: &Facts) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    rdpmc::contain_faults()?;
    let region = counter.region()?;
    let interrupted = |what: &str, sample: Result<[u64; 1], Disturbed>| match sample {
        Err(Disturbed::Interrupted { lock_moved: 2.., .. }) => Ok(()),
        other => Err(Stop::Failed(format!("{what}: {other:?}"))),
    };
    let (value, sample) = region.measure(|| std::thread::sleep(Duration::from_millis(1)));
    equal("the value", value, ())?;
    interrupted("a sleep", sample)?;
    interrupted("a reset", region.measure(|| counter.reset()).1)?;
    interrupted("stopped and started", region.measure(|| (counter.disable(), counter.enable())).1)?;
    // It ends without a counter. On riscv64 that is a fault, which is contained.
    interrupted("stopped", region.measure(|| counter.disable()).1)?;
    equal("started without a counter", region.start().err(), Some(Disturbed::NoCounter))?;
    let (value, sample) = region.measure(|| "it runs all the same");
    equal("the value", value, "it runs all the same")?;
    equal("the sample", sample, Err(Disturbed::NoCounter))?;
    counter.enable()?;
    // One start and several stops, not affected by what was before.
    let before = least(20, || Ok(once(&region, 10)?[0]))?;
    let start = region.start()?;
    let first = region.stop(start);
    countdown(black_box(1_000));
    match (first, region.stop(start)) {
        (Ok([first]), Ok([second])) => {
            require(second >= first + 2_000, || format!("{first}, then {second}"))?;
        }
        (_, Err(Disturbed::Interrupted { .. })) => {} // by this machine's timer
        other => return Err(Stop::Failed(format!("{other:?}"))),
    }
    equal("what it counts again", least(20, || Ok(once(&region, 10)?[0]))?, before)
}

/// A sample in which the kernel did nothing is exact, even if the CPU counts an instruction for each interrupt. The
/// kernel's instructions show which samples had an interrupt.
fn the_kernels_instructions_show_interrupts(_: &Facts) -> Outcome {
    const ROUNDS: u64 = 100_000;
    drop(open(Event::INSTRUCTIONS)?);
    rdpmc::contain_faults()?;
    let group = match Group::open([Event::INSTRUCTIONS, Event::INSTRUCTIONS.kernel()]) {
        Err(why) if why.kind() == ErrorKind::NoPrivilegeFilter => {
            return skip("the PMU counts the kernel, too");
        }
        group => group?,
    };
    let region = group.region()?;
    let (mut calm, mut interrupted, mut disturbed) = (Vec::new(), Vec::new(), 0);
    for _ in 0..400 {
        match of_a_countdown(&region, black_box(ROUNDS)) {
            Ok([count, 0]) => calm.push(count),
            Ok([count, _]) => interrupted.push(count),
            // arm64's driver updates the page at some ticks.
            Err(Disturbed::Interrupted { .. }) => disturbed += 1,
            Err(other) => return Err(other.into()),
        }
    }
    require(calm.len() > 100 && interrupted.len() + disturbed > 5, || {
        format!("{} calm, {} interrupted, {disturbed} disturbed", calm.len(), interrupted.len())
    })?;
    let exact = calm[0];
    require((2 * ROUNDS..2 * ROUNDS + 20).contains(&exact), || {
        format!("{exact} in a calm sample")
    })?;
    equal("calm samples that differ", calm.iter().filter(|count| **count != exact).count(), 0)?;
    let is_wrong = |count: &&u64| !(exact..=exact + slack()).contains(*count);
    equal("interrupted samples that are wrong", interrupted.iter().filter(is_wrong).count(), 0)?;
    // Each interrupt that returned to this thread has added one.
    let added = interrupted.iter().filter(|count| **count > exact).count();
    match slack() {
        0 => equal("instructions that were added", added, 0),
        _ => require(added > 5, || format!("{added} of {} have more", interrupted.len())),
    }
}

fn no_region_without_user_access(_: &Facts) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    // On riscv64 only after faults are contained.
    let first = counter.region().err();
    let needed = cfg!(target_arch = "riscv64").then_some(ErrorKind::FaultsNotContained);
    equal("before faults are contained", first.map(|why| why.kind()), needed)?;
    rdpmc::contain_faults()?;
    equal("afterwards", counter.region().err(), None)?;
    // Without a counter now, the event will have one later.
    counter.disable()?;
    equal("disabled", counter.region().err(), None)?;
    let software = Counter::open(Event::TASK_CLOCK)?;
    let refused = |why: rdpmc::Error, event: Event| {
        equal("the event", why.event(), Some(event))?;
        says("the error", &why, ErrorKind::UserReadUnavailable, "in software. Take the difference")
    };
    refused(software.region().map(drop).expect_err("software"), Event::TASK_CLOCK)?;
    let mixed = Group::builder([Event::INSTRUCTIONS, Event::PAGE_FAULTS]);
    let mixed = mixed.allow_all_privilege_levels(true).open()?;
    refused(mixed.region().map(drop).expect_err("mixed"), Event::PAGE_FAULTS)
}
