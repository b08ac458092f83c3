//! Whether other threads of the process worked during a measurement.

use crate::usage::{process_time, thread_time};
use std::cell::Cell;
use std::time::Duration;

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

    /// The interval ends. Takes two system calls.
    pub fn end(&self) {
        let process = process_time();
        let now = thread_time().zip(process);
        let Some(((thread, process), begun)) = now.zip(self.begun.take()) else {
            return;
        };
        let (own, all) = self.times.get();
        let since = |now: Duration, begun| now.saturating_sub(begun);
        self.times.set((
            own.saturating_add(since(thread, begun.0)),
            all.saturating_add(since(process, begun.1)),
        ));
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

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::thread;

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
        let share = both.share().unwrap();
        assert!((0.05..0.3).contains(&share), "{share}");
    }
}
