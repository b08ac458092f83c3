//! Whether other threads of the process worked during a measurement.

use crate::usage::{process_time, thread_time};
use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The share of the CPU time up to which other threads are not mentioned: a timer's, say.
const LITTLE: f64 = 0.001;

/// The CPU time of this thread and of all threads of its process, in the intervals of a measurement.
///
/// The kernel adds the time of a thread that runs on another CPU at its next timer interrupt, and when it sleeps or ends. So an interval
/// of less than some milliseconds may miss a thread that does neither.
#[derive(Debug, Default)]
pub struct OtherThreads {
    begun: Cell<Option<(Duration, Duration)>>,
    /// Of this thread, and of the process.
    times: Cell<(Duration, Duration)>,
}

impl OtherThreads {
    /// An interval begins. Takes two system calls.
    pub fn begin(&self) {
        // The process's clock is read within the thread's interval, so that this thread's own work is never taken for others'. Others' work
        // is missed up to the time of these reads, some 0.2 us an interval.
        self.begun.set(thread_time().zip(process_time()));
    }

    /// The interval ends. Takes two system calls. Returns whether other threads worked in it.
    pub fn end(&self) -> bool {
        let process = process_time();
        let now = thread_time().zip(process);
        let Some(((thread, process), begun)) = now.zip(self.begun.take()) else {
            return false;
        };
        let (own, all) = self.times.get();
        let since = |now: Duration, begun| now.saturating_sub(begun);
        let (of_this, of_all) = (since(thread, begun.0), since(process, begun.1));
        self.times.set((own.saturating_add(of_this), all.saturating_add(of_all)));
        of_all > of_this
    }

    /// Returns the share of the CPU time that other threads had, up to 1. None if they had at most a thousandth, or if the system
    /// does not tell.
    pub fn share(&self) -> Option<f64> {
        let (own, all) = self.times.get();
        let share = all.saturating_sub(own).as_secs_f64() / all.as_secs_f64();
        (share > LITTLE).then_some(share)
    }

    /// Returns the [share](OtherThreads::share), and forgets all intervals, also one that has begun.
    pub fn take(&self) -> Option<f64> {
        let share = self.share();
        self.begun.take();
        self.times.take();
        share
    }
}

/// Waits until the other threads of this process sleep, for at most 5 ms. Returns whether they sleep: false if one still runs.
///
/// Call this between two measurements if the first one uses other threads. Such a thread works on for some microseconds after its answer,
/// and the kernel adds its CPU time only when it sleeps.
///
/// Reads a file for each thread, repeatedly while one runs. Returns true at once if `/proc` is not there.
pub fn settle() -> bool {
    const MOST: Duration = Duration::from_millis(5);
    let begin = Instant::now();
    while are_others_awake() == Some(true) {
        if begin.elapsed() > MOST {
            return false;
        }
        thread::yield_now();
    }
    true
}

/// Whether another thread of this process runs, or waits for a CPU. None if `/proc` does not tell.
fn are_others_awake() -> Option<bool> {
    let this = fs::read_link("/proc/thread-self").ok()?;
    let is_awake = |thread: &Path| {
        let stat = fs::read(thread.join("stat")).unwrap_or_default();
        // Behind the name, which may have any bytes.
        let after = stat.iter().rposition(|byte| *byte == b')').map_or(0, |end| end + 2);
        stat.get(after) == Some(&b'R')
    };
    let threads = fs::read_dir("/proc/self/task").ok()?.flatten();
    let mut others = threads.filter(|thread| Some(&*thread.file_name()) != this.file_name());
    Some(others.any(|thread| is_awake(&thread.path())))
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn work() {
        let begin = thread_time().unwrap();
        while thread_time().unwrap() - begin < Duration::from_millis(2) {}
    }

    fn during(work: impl Fn()) -> OtherThreads {
        let others = OtherThreads::default();
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().count();
        for _ in 0..10 {
            others.begin();
            work();
            others.end();
            // What is between two intervals does not count.
            work();
            thread::spawn(|| (0..5).for_each(|_| self::work())).join().unwrap();
            // It works until the kernel has removed it.
            while std::fs::read_dir("/proc/self/task").unwrap().count() > tasks {
                thread::yield_now();
            }
        }
        others
    }

    /// Each of these runs in a process of its own: the other tests' threads work, too.
    #[test]
    fn the_work_of_other_threads_is_seen() {
        const VARIABLE: &str = "RDPMC_STEP_TEST_OF_OTHER_THREADS";
        if std::env::var_os(VARIABLE).is_none() {
            let mut test = std::process::Command::new(std::env::current_exe().unwrap());
            test.args(["--exact", "other_threads::tests::the_work_of_other_threads_is_seen"]);
            let output = test.args(["--test-threads=1"]).env(VARIABLE, "1").output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            return;
        }
        assert_eq!(during(work).share(), None);
        let others = during(|| thread::spawn(work).join().unwrap());
        assert!(others.share().unwrap() > 0.5, "{others:?}");
        assert!(others.take().is_some());
        assert_eq!(others.share(), None);
        assert!(others.begun.get().is_none());
        let both = during(|| {
            let other = thread::spawn(work);
            (0..9).for_each(|_| work());
            other.join().unwrap();
        });
        let (work, works) = std::sync::mpsc::sync_channel::<()>(1);
        let pool = thread::spawn(move || while works.recv().is_ok() {});
        let begin = Instant::now();
        while !settle() {
            assert!(begin.elapsed() < Duration::from_secs(60));
        }
        drop(work);
        pool.join().unwrap();
        let share = both.share().unwrap();
        assert!((0.05..0.3).contains(&share), "{share}");
    }
}
