//! Spans and laps of known work are exact, those that the kernel disturbed are flagged, and none makes a system call.

use super::{Entry, known_events, open};
use crate::harness::{Facts, Outcome, Stop, equal, require, samples, slack};
use crate::neighbour::Neighbour;
use rdpmc::{Counter, Event};
use rdpmc_spans::{
    Counters, Fiber, Flags, Interval, Laps, Report, Row, Settings, Site, Spans, Storage, span,
    stages,
};
use rdpmc_testing::kernels::countdown;
use rdpmc_testing::process::{self, wait};
use std::mem::ManuallyDrop;
use std::time::Duration;

pub const ALL: &[Entry] = &[
    ("spans_of_known_work", spans_of_known_work),
    ("spans_inside_laps_and_numbers", spans_inside_laps_and_numbers),
    ("spans_of_a_fiber", spans_of_a_fiber),
    ("spans_beside_a_neighbour", spans_beside_a_neighbour),
    ("spans_that_enter_the_kernel", spans_that_enter_the_kernel),
    ("spans_without_system_calls", spans_without_system_calls),
];

stages!(
    enum Stage {
        First = "first",
        Second = "second",
    }
);

fn start(events: &[Event], storage: Storage) -> Result<Spans, Stop> {
    let settings = Settings::new().events(events).counters(Counters::Always).storage(storage);
    let mut spans = settings.start().map_err(|error| error.to_string())?;
    // On riscv64, a dropped event leaves its register only at the next turn.
    for _ in 0..1_000 {
        drop(span!("until there are counters"));
        if records(&mut spans, events)
            .iter()
            .all(|record| !record.flags.contains(Flags::NOT_COUNTED))
        {
            return Ok(spans);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Stop::Failed("no counters in a second".into()))
}

const RING: Storage = Storage::Ring { records: 1 << 12 };

/// A record, with the counts of some events.
#[derive(Clone, Debug)]
struct Record {
    site: &'static Site,
    flags: Flags,
    counts: Vec<u64>,
}

/// Takes all records.
fn records(spans: &mut Spans, events: &[Event]) -> Vec<Record> {
    records_of(&spans.take(), events)
}

fn records_of(interval: &Interval, events: &[Event]) -> Vec<Record> {
    let records = interval.records().map(|record| Record {
        site: record.site(),
        flags: record.flags(),
        counts: events.iter().map(|event| record.count(*event).unwrap_or(0)).collect(),
    });
    records.collect()
}

fn row<'a>(report: &'a Report, name: &str) -> Result<&'a Row, Stop> {
    let found = report.rows.iter().find(|row| row.name == name);
    found.ok_or_else(|| Stop::Failed(format!("no row of {name}")))
}

/// A span around work, and two inside it: the same code for every number of rounds.
#[inline(never)]
fn nested(rounds: [u64; 3]) {
    let [outer, first, second] = rounds;
    let _span = span!("outer");
    countdown(outer);
    inner(first);
    inner(second);
}

#[inline(never)]
fn inner(rounds: u64) {
    let _span = span!("inner");
    countdown(rounds);
}

#[inline(never)]
fn laps(rounds: [u64; 2]) {
    let [first, second] = rounds;
    let mut laps = Laps::start();
    countdown(first);
    laps.next(Stage::First);
    countdown(second);
    laps.next(Stage::Second);
}

/// Work adds exactly itself: to its span, and to the one around it. What a span adds is subtracted.
fn spans_of_known_work(facts: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    let known: Vec<(Event, u64)> = known_events(facts).into_iter().take(2).collect();
    let events: Vec<Event> = known.iter().map(|(event, _)| *event).collect();
    let mut spans = start(&events, RING)?;
    records(&mut spans, &events);
    let is_unfiltered = spans.threads().iter().any(|thread| thread.counts_all_privilege_levels);
    let runs = samples(is_unfiltered);
    let mut counted = |run: &dyn Fn()| -> Result<Vec<Record>, Stop> {
        // A run that the kernel disturbed is repeated. If interrupts or the kernel add to counts, this is the minimum
        // of several runs.
        let mut least: Option<Vec<Record>> = None;
        let mut calm = 0;
        for _ in 0..runs + 100 {
            run();
            let records = records(&mut spans, &events);
            if !records.iter().all(|record| matches!(record.flags, Flags::NONE | Flags::LAP)) {
                continue;
            }
            let least = least.get_or_insert_with(|| records.clone());
            for (least, record) in least.iter_mut().zip(&records) {
                for (least, count) in least.counts.iter_mut().zip(&record.counts) {
                    *least = *count.min(least);
                }
            }
            calm += 1;
            if calm == runs {
                break;
            }
        }
        match least {
            Some(least) if calm == runs => Ok(least),
            _ => Err(Stop::Failed(format!("{calm} runs without a disturbance"))),
        }
    };
    // Not 0 rounds, because counts are never below 0, and the cost of a span may be some instructions less here.
    const SOME: u64 = 100;
    let some = counted(&|| nested([SOME; 3]))?;
    let some_laps = counted(&|| laps([SOME; 2]))?;
    equal("the spans", some.len(), 3)?;
    for rounds in [[101, 102, 103], [100, 200, 1_000], [300, 12_345, 50], [50_000, 500, 55]] {
        let [outer, first, second] = rounds;
        let found = counted(&|| nested(rounds))?;
        let lapped = counted(&|| laps([first, second]))?;
        for (place, (event, per_round)) in known.iter().enumerate() {
            let sum = outer + first + second;
            for (n, rounds) in [first, second, sum].into_iter().enumerate() {
                let before = if n == 2 { 3 * SOME } else { SOME };
                let expected = some[n].counts[place] + rounds * per_round - before * per_round;
                equal(&format!("{event} of span {n}"), found[n].counts[place], expected)?;
            }
            for (n, rounds) in [first, second].into_iter().enumerate() {
                let expected = some_laps[n].counts[place] + rounds * per_round - SOME * per_round;
                equal(&format!("{event} of lap {n}"), lapped[n].counts[place], expected)?;
            }
        }
    }
    // What is left of the cost is how the code here differs from the code that was measured: some instructions for each
    // span and lap.
    for (n, record) in some.iter().enumerate() {
        let rounds = if n == 2 { 3 * SOME } else { SOME };
        let rest = record.counts[0] as i64 - 2 * rounds as i64;
        println!("span {n}: {rest} instructions more than the work");
        require((-4..=128).contains(&rest), || format!("{record:?}"))?;
    }
    for record in &some_laps {
        let rest = record.counts[0] as i64 - 2 * SOME as i64;
        println!("{}: {rest} instructions more than the work", record.site.name());
        require((-4..=128).contains(&rest), || format!("{record:?}"))?;
    }
    let [info] = &spans.threads()[..] else { return Err(Stop::Failed("not one thread".into())) };
    equal("missing", info.missing.len(), 0)
}

/// A span that stays twice on this thread, and in between on another one, if there is one.
#[inline(never)]
fn stays([first, away, second]: [u64; 3], other: Option<u64>) {
    let mut fiber = Fiber::new();
    let entered = fiber.enter();
    let span = span!("of a fiber");
    countdown(first);
    drop(entered);
    countdown(away);
    if let Some(rounds) = other {
        let on_another = || {
            drop(span!("first span of the thread"));
            let entered = fiber.enter();
            countdown(rounds);
            drop(entered);
        };
        std::thread::scope(|scope| drop(scope.spawn(on_another).join()));
    }
    let entered = fiber.enter();
    countdown(second);
    drop(span);
    drop(entered);
}

/// Each stay of a fiber's span has the work of that stay, on the thread of that stay, and none of what is done in between.
fn spans_of_a_fiber(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    let events = [Event::INSTRUCTIONS];
    let mut spans = start(&events, RING)?;
    let is_unfiltered = spans.threads().iter().any(|thread| thread.counts_all_privilege_levels);
    let mut counted = |rounds: [u64; 3], other: Option<u64>| -> Result<Vec<u64>, Stop> {
        let (mut least, mut calm) = (vec![u64::MAX; 2 + usize::from(other.is_some())], 0);
        let runs = if other.is_some() { 5 } else { samples(is_unfiltered) };
        for _ in 0..runs + 200 {
            stays(rounds, other);
            let stays: Vec<Record> = records(&mut spans, &events)
                .into_iter()
                .filter(|record| record.site.name() == "of a fiber")
                .collect();
            equal("the stays", stays.len(), least.len())?;
            if !stays.iter().all(|record| record.flags == Flags::NONE) {
                continue;
            }
            for (least, record) in least.iter_mut().zip(&stays) {
                *least = record.counts[0].min(*least);
            }
            calm += 1;
            if calm == runs {
                return Ok(least);
            }
        }
        Err(Stop::Failed(format!("{calm} runs without a disturbance")))
    };
    const SOME: u64 = 100;
    for other in [None, Some(SOME)] {
        let some = counted([SOME; 3], other)?;
        for (n, count) in some.iter().enumerate() {
            let rest = *count as i64 - 2 * SOME as i64;
            println!("stay {n}: {rest} instructions more than the work");
            // Entering and leaving.
            require((-4..=1_000).contains(&rest), || format!("{some:?}"))?;
        }
        for rounds in [[101, 50_000, 102], [12_345, 10, 333]] {
            let [first, _, second] = rounds;
            let other = other.map(|_| 777);
            let expected = [Some(first), other, Some(second)].into_iter().flatten();
            let expected: Vec<u64> =
                expected.zip(&some).map(|(rounds, some)| (some + 2 * rounds) - 2 * SOME).collect();
            equal("the counts of the stays", counted(rounds, other)?, expected)?;
        }
    }
    Ok(())
}

/// Work in a span with a number, around a lap with spans in it, the last of which have numbers, and a lap without.
#[inline(never)]
fn mixed(times: u64, rounds: u64) {
    let _outer = span!("numbered and outer", times);
    let mut laps = Laps::start();
    for time in 0..times {
        numbered(time, rounds);
    }
    inner(rounds);
    laps.next(Stage::First);
    countdown(rounds);
    laps.next(Stage::Second);
}

#[inline(never)]
fn numbered(number: u64, rounds: u64) {
    let _span = span!("numbered", number);
    countdown(rounds);
}

/// Work adds exactly itself to spans with numbers, to the laps around them and to the spans around these.
/// What spans and numbers add is subtracted, however many there are.
fn spans_inside_laps_and_numbers(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    const SOME: u64 = 100;
    let names = ["numbered and outer", "numbered", "inner", "first", "second"];
    for storage in [RING, Storage::Histograms] {
        let mut spans = start(&[Event::INSTRUCTIONS], storage)?;
        let is_unfiltered = spans.threads().iter().any(|thread| thread.counts_all_privilege_levels);
        // The first spans on each of the two sides of histograms allocate, inside the span around them.
        for _ in 0..4 {
            mixed(1, SOME);
            spans.take();
        }
        let mut counted = |times: u64, rounds: u64| -> Result<Vec<u64>, Stop> {
            let (mut least, mut calm) = (vec![u64::MAX; names.len()], 0);
            for _ in 0..samples(is_unfiltered) + 100 {
                mixed(times, rounds);
                let report = spans.take().report();
                let is_calm = |row: &Row| row.disturbed == Some(0) && row.not_counted == 0;
                if !report.rows.iter().all(is_calm) {
                    continue;
                }
                for (least, name) in least.iter_mut().zip(names) {
                    let sum = row(&report, name)?.sum(Event::INSTRUCTIONS);
                    *least = sum.unwrap_or(u64::MAX).min(*least);
                }
                calm += 1;
                if calm == samples(is_unfiltered) {
                    return Ok(least);
                }
            }
            Err(Stop::Failed(format!("{calm} runs without a disturbance")))
        };
        let some = counted(1, SOME)?;
        for rounds in [101, 1_000, 12_345] {
            let found = counted(1, rounds)?;
            // The work in each, and the records that are written meanwhile. A lap has that of the lap before.
            let of_each = [(3, 4), (1, 0), (1, 0), (2, 2), (1, 1)];
            for ((name, (times, records)), (found, some)) in
                names.into_iter().zip(of_each).zip(found.into_iter().zip(&some))
            {
                let expected = some + 2 * times * (rounds - SOME);
                // A histogram takes some instructions more for a larger value.
                let more = if storage == Storage::Histograms { 64 * records } else { 0 };
                require(found.abs_diff(expected) <= more, || {
                    format!("{name} with {rounds} rounds is {found}, should be {expected}")
                })?;
            }
        }
        let many = counted(51, SOME)?;
        for ((name, spans), (many, some)) in
            names.into_iter().zip([50, 50, 0, 50, 0]).zip(many.into_iter().zip(some))
        {
            let rest = many as i64 - some as i64 - 2 * spans * SOME as i64;
            println!("{storage:?}: {name}: {rest} instructions more for {spans} spans more");
            // The code around the measured calls: the loop, the call, and the loads of the guard. A span with a number would
            // add 200 and more. And what the recording of larger values takes.
            require((0..=100 * spans + 128).contains(&rest), || format!("{name}: {rest}"))?;
        }
    }
    Ok(())
}

/// A span in which the kernel counts a context switch is flagged, and its counts are those of the work all the same.
fn spans_beside_a_neighbour(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    const EVENTS: [Event; 1] = [Event::INSTRUCTIONS];
    let mut spans = start(&EVENTS, RING)?;
    records(&mut spans, &EVENTS);
    let switches = Counter::open(Event::CONTEXT_SWITCHES)?;
    let is_unfiltered = spans.threads().iter().any(|thread| thread.counts_all_privilege_levels);
    let mut some = u64::MAX;
    for _ in 0..100 {
        inner(100);
        for record in records(&mut spans, &EVENTS) {
            some = some.min(record.counts[0]);
        }
    }
    let neighbour = Neighbour::start();
    let (mut calm, mut hit) = (0, 0);
    for sample in 0..20_000 {
        if hit > 50 && calm > 1_000 {
            break;
        }
        let rounds = 100 + sample % 61 * 500;
        let before = switches.read()?;
        inner(rounds);
        let inside = switches.read()? - before;
        let interval = spans.take();
        let records = records_of(&interval, &EVENTS);
        let [record] = &records[..] else {
            return Err(Stop::Failed("not one record".into()));
        };
        let is_disturbed = record.flags.contains(Flags::DISTURBED);
        require(is_disturbed || record.flags == Flags::NONE, || format!("{record:?}"))?;
        match is_disturbed {
            // A switch may also be between the reads of the other counter, and outside of the span.
            true => {
                require(inside > 0, || format!("flagged without a switch: {record:?}"))?;
                // In the report, it is also apart.
                let report = interval.report();
                let row = row(&report, "inner")?;
                equal("disturbed in the report", row.disturbed, Some(1))?;
                equal("the disturbed time", row.time_disturbed, row.time)?;
                hit += 1;
            }
            false => calm += 1,
        }
        if !is_unfiltered {
            let least = some + 2 * (rounds - 100);
            // A read that was repeated is counted.
            let most = if is_disturbed { least + 100 } else { least } + slack();
            require((least..=most).contains(&record.counts[0]), || {
                format!("{record:?} for {rounds} rounds, {some} for 100")
            })?;
        }
    }
    drop(neighbour);
    println!("{calm} calm, {hit} disturbed");
    require(calm > 1_000 && hit > 50, || format!("{calm} calm, {hit} disturbed"))
}

/// The kernel's instructions show which spans were interrupted. A system call is an interruption that is certain.
fn spans_that_enter_the_kernel(facts: &Facts) -> Outcome {
    const SPANS: u64 = 1_000;
    drop(open(Event::INSTRUCTIONS)?);
    for storage in [RING, Storage::Histograms] {
        let mut spans = start(&[Event::INSTRUCTIONS, Event::INSTRUCTIONS.kernel()], storage)?;
        spans.take();
        for _ in 0..SPANS {
            drop(span!("calm"));
            let _span = span!("calls");
            // SAFETY: no arguments.
            unsafe { libc::syscall(libc::SYS_getppid) };
        }
        let report = spans.report();
        let (calm, calls) = (row(&report, "calm")?, row(&report, "calls")?);
        println!("{:?} of {} calm spans were interrupted", calm.interrupted, calm.count);
        equal("spans", [calm.count, calls.count], [SPANS; 2])?;
        // Ticks of the kernel's clock are system calls, too.
        let is_clock_the_kernels = facts.say("clock") != Some("page");
        let is_unknown = is_clock_the_kernels && storage == Storage::Histograms;
        if is_unknown || report.threads.iter().any(|thread| thread.counts_all_privilege_levels) {
            equal("interrupted", [calm.interrupted, calls.interrupted], [None; 2])?;
            continue;
        }
        equal("spans with system calls that were interrupted", calls.interrupted, Some(SPANS))?;
        let interrupted = calm.interrupted.unwrap_or(SPANS);
        require(interrupted < SPANS / 4, || report.to_string())?;
        let of_the_kernel = calm.sum(Event::INSTRUCTIONS.kernel());
        equal("is 0 without", of_the_kernel == Some(0), interrupted == 0)?;
    }
    Ok(())
}

/// The promise for programs that run all day, with counters that are read all the time.
fn spans_without_system_calls(facts: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    // Ticks of the kernel's clock are a system call.
    let has_clock = facts.say("clock") == Some("page");
    for storage in [RING, Storage::Histograms] {
        let status = wait(process::fork(|| {
            let spans = start(&[Event::INSTRUCTIONS, Event::CYCLES], storage);
            let _spans = ManuallyDrop::new(spans.unwrap_or_else(|_| panic!("spans start")));
            nested([1; 3]);
            laps([1; 2]);
            process::allow_only(libc::SYS_exit_group);
            for _ in 0..10_000 {
                nested([1; 3]);
                laps([1; 2]);
            }
            0
        }));
        match has_clock {
            true => equal("the wait status", status, 0)?,
            false => require(status == 0 || libc::WTERMSIG(status) == libc::SIGSYS, || {
                format!("the wait status {status}")
            })?,
        }
    }
    Ok(())
}
