//! The whole times of futures that a runtime moves between threads, some of which are dropped: by `polled!` and by the layer.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::disallowed_types, reason = "no child of a fork comes here")]

use rdpmc_spans::{Interval, Settings, Storage, TracingLayer, polled};
use rdpmc_testing::recording::turn;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;
use tracing_subscriber::layer::SubscriberExt;

const TASKS: u64 = 200;

/// What a task noted.
#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    polls: u64,
    /// The least and the most that its polls, and all of it, can have taken.
    busy: [Duration; 2],
    whole: [Duration; 2],
}

type Notes = Arc<Mutex<HashMap<u64, Noted>>>;

/// Notes what happens within and around a future that is recorded: `is_inner` is inside of it, the other around it.
struct Noting<F> {
    task: u64,
    is_inner: bool,
    begun: Instant,
    /// When the last poll ended, for the least that the whole can have taken.
    busy: Duration,
    polls: u64,
    notes: Notes,
    future: Pin<Box<F>>,
}

fn noting<F>(task: u64, is_inner: bool, begun: Instant, notes: &Notes, future: F) -> Noting<F> {
    let (notes, future) = (notes.clone(), Box::pin(future));
    Noting { task, is_inner, begun, busy: Duration::ZERO, polls: 0, notes, future }
}

impl<F: Future> Future for Noting<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let begin = Instant::now();
        self.polls += 1;
        let polled = self.future.as_mut().poll(context);
        self.busy += begin.elapsed();
        polled
    }
}

impl<F> Drop for Noting<F> {
    fn drop(&mut self) {
        let which = usize::from(!self.is_inner);
        let mut notes = self.notes.lock().unwrap();
        let noted = notes.entry(self.task).or_default();
        noted.polls = noted.polls.max(self.polls);
        noted.busy[which] = self.busy;
        noted.whole[which] = self.begun.elapsed();
    }
}

/// Works and sleeps some times. A tenth never ends.
async fn work(task: u64) {
    for round in 0..task % 7 {
        (0..task * 100).for_each(|_| std::hint::spin_loop());
        match (task + round) % 3 {
            0 => tokio::time::sleep(Duration::from_millis(1)).await,
            _ => tokio::task::yield_now().await,
        }
    }
    if task % 10 == 3 {
        std::future::pending::<()>().await;
    }
}

#[tracing::instrument(name = "load", skip_all, fields(task = task))]
async fn load(task: u64, notes: Notes) {
    noting(task, true, Instant::now(), &notes, work(task)).await;
}

/// What is recorded of each task: polls, busy and whole time.
type Recorded = HashMap<u64, (u64, Duration, Duration)>;

/// Runs the tasks on four workers. Those that never end are aborted, some of them before they are polled.
fn run(task: impl Fn(u64) -> Pin<Box<dyn Future<Output = ()> + Send>>) {
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(4).enable_time().build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..TASKS).map(|number| (number, tokio::spawn(task(number)))).collect();
        tasks.iter().filter(|(number, _)| number % 20 == 3).for_each(|(_, task)| task.abort());
        for (number, task) in tasks {
            if number % 10 == 3 {
                tokio::time::sleep(Duration::from_millis(5)).await;
                task.abort();
            }
            assert_eq!(task.await.is_err(), number % 10 == 3, "{number}");
        }
    });
}

fn check(recorded: &Recorded, notes: &HashMap<u64, Noted>) {
    assert_eq!(recorded.len(), notes.len());
    // Two clocks, one of which may be calibrated.
    let slack = |time: Duration| time / 1_000 + Duration::from_nanos(200);
    for (task, noted) in notes {
        let (polls, busy, whole) = recorded[task];
        let all = format!("{task}: {polls}, {busy:?}, {whole:?}, and {noted:?}");
        assert_eq!(polls, noted.polls, "{all}");
        for (time, [least, most]) in [(busy, noted.busy), (whole, noted.whole)] {
            assert!(time + slack(time) >= least && time <= most + slack(most), "{all}");
        }
        assert!(busy <= whole + slack(whole), "{all}");
    }
}

fn recorded_of(interval: &Interval, name: &str) -> Recorded {
    let mut recorded = Recorded::new();
    for record in interval.records().filter(|record| record.name() == name) {
        let parts = (record.polls().unwrap(), record.busy().unwrap(), record.time());
        assert_eq!(record.idle().unwrap(), record.time().saturating_sub(parts.1));
        assert!(recorded.insert(record.number().unwrap(), parts).is_none(), "{record:?}");
    }
    recorded
}

/// The recorded times of 200 tasks on four workers, a tenth of which are dropped, are between what the tasks note inside and outside.
#[test]
fn whole_times_of_tasks() {
    let _turn = turn();
    for storage in [Storage::Ring { records: 1 << 14 }, Storage::Histograms] {
        let mut spans = Settings::new().storage(storage).start().unwrap();
        let notes = Notes::default();
        run(|task| {
            let (begun, inner) = (Instant::now(), notes.clone());
            let recorded = polled!("task", async move {
                noting(task, true, Instant::now(), &inner, work(task)).await;
            });
            Box::pin(noting(task, false, begun, &notes, recorded))
        });
        let interval = spans.take();
        let report = interval.report();
        let rows: Vec<_> = report.rows.iter().filter(|row| row.name == "task (whole)").collect();
        let noted = notes.lock().unwrap();
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), TASKS, "{report}");
        let polls: u64 = noted.values().map(|noted| noted.polls).sum();
        assert_eq!(rows.iter().filter_map(|row| row.polls).sum::<u64>(), polls, "{report}");
        let spans_of_polls = report.rows.iter().filter(|row| row.name == "task");
        assert_eq!(spans_of_polls.map(|row| row.count).sum::<u64>(), polls, "{report}");
        let sum = |of: fn(&Noted) -> Duration| noted.values().map(of).sum::<Duration>();
        let busy: Duration = rows.iter().filter_map(|row| row.busy).sum();
        let total: Duration = rows.iter().map(|row| row.total).sum();
        let slack = |time: Duration| time / 1_000 + Duration::from_micros(50);
        for (time, least, most) in [
            (busy, sum(|it| it.busy[0]), sum(|it| it.busy[1])),
            (total, sum(|it| it.whole[0]), sum(|it| it.whole[1])),
        ] {
            assert!(time + slack(time) >= least && time <= most + slack(most), "{report}");
        }
        assert_eq!(report.lost, 0, "{report}");
        println!("{storage:?}: {TASKS} tasks, {polls} polls, {busy:?} of {total:?} busy");
    }
}

/// As above, for each task.
#[test]
fn whole_times_of_each_task() {
    let _turn = turn();
    let mut spans = Settings::new().start().unwrap();
    let notes = Notes::default();
    run(|task| {
        let (begun, inner) = (Instant::now(), notes.clone());
        let recorded = polled!("task", task, async move {
            noting(task, true, Instant::now(), &inner, work(task)).await;
        });
        Box::pin(noting(task, false, begun, &notes, recorded))
    });
    let interval = spans.take();
    let notes = notes.lock().unwrap();
    assert_eq!(notes.len() as u64, TASKS);
    check(&recorded_of(&interval, "task (whole)"), &notes);
    let mut polls: HashMap<u64, u64> = HashMap::new();
    for record in interval.records().filter(|record| record.name() == "task") {
        *polls.entry(record.number().unwrap()).or_default() += 1;
    }
    for (task, noted) in notes.iter() {
        assert_eq!(polls.get(task).copied().unwrap_or(0), noted.polls, "{task}");
    }
}

/// As above, by the layer.
#[test]
fn whole_times_by_the_layer() {
    let _turn = turn();
    let mut spans = Settings::new().start().unwrap();
    let notes = Notes::default();
    let layer = TracingLayer::new().numbers_from("task").whole_times();
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    run(|task| {
        let (begun, inner) = (Instant::now(), notes.clone());
        let future = load(task, inner).with_subscriber(dispatch.clone());
        Box::pin(noting(task, false, begun, &notes, future))
    });
    let interval = spans.take();
    let mut notes = notes.lock().unwrap();
    // The span of an async function is made by its first poll.
    notes.retain(|task, noted| noted.polls > 0 || task % 10 != 3);
    println!("{} of {TASKS} tasks were polled", notes.len());
    check(&recorded_of(&interval, "load (whole)"), &notes);
    let report = interval.report();
    assert!(report.rows.iter().any(|row| row.name == "load"), "{report}");
    assert_eq!(report.lost, 0, "{report}");
}
