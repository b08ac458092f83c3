//! Counts of several threads. Each test has a process of its own, without the threads of other tests.

use crate::attacks::threads::{Bare, Crew, touch};
use crate::process::{fork, in_child, perf_descriptors, wait};
use crate::skips;
use rdpmc::error::{Error, ErrorKind, ReadError};
use rdpmc::{Event, Group, PerThread, Scope, SyscallGroup};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

const EVENTS: [Event; 2] = [Event::PAGE_FAULTS, Event::TASK_CLOCK];
const PAGES: u64 = 1_000;

/// Runs the body of a test in a child, unless there are no events here.
fn alone(test: &str, body: fn() -> Result<(), Error>) {
    let can_open = || i32::from(SyscallGroup::open(&EVENTS, Scope::Thread).is_err());
    if wait(fork(can_open)) != 0 {
        return skips::skip(test, "no event can be opened here");
    }
    in_child(body).unwrap_or_else(|why| panic!("{why}"));
}

fn touch_pages(pages: u64) {
    touch(pages as usize);
}

/// Returns the page faults while this runs.
fn faults(counters: &SyscallGroup, work: impl FnOnce()) -> Result<u64, ReadError> {
    let before = counters.read()?;
    work();
    let after = counters.read()?;
    Ok(after[0] - before[0])
}

#[test]
fn each_scope_counts_its_threads_exactly() {
    alone("each_scope_counts_its_threads_exactly", || {
        for round in 0..100 {
            let there = Crew::new(4, touch_pages);
            let events = &EVENTS[..1 + round % 2];
            let own = SyscallGroup::open(events, Scope::Thread)?;
            let new = SyscallGroup::open(events, Scope::NewThreads)?;
            let all = SyscallGroup::open(events, Scope::Process)?;
            assert_eq!([own.threads(), new.threads(), all.threads()], [1, 1, 5]);
            let come = Crew::new(4, touch_pages);
            let each = || -> Result<[u64; 3], ReadError> {
                let before = [own.read()?[0], new.read()?[0], all.read()?[0]];
                touch_pages(PAGES);
                there.run(PAGES);
                come.run(PAGES);
                let after = [own.read()?[0], new.read()?[0], all.read()?[0]];
                Ok([0, 1, 2].map(|place| after[place] - before[place]))
            };
            each()?; // so that its code is there
            assert_eq!(each()?, [PAGES, 5 * PAGES, 9 * PAGES], "round {round}");
            // Of threads that have ended, too.
            drop((there, come));
            assert_eq!(faults(&all, || {})?, 0);
        }
        Ok(())
    });
}

/// Threads come and go by thousands while the counters are opened and read. None is lost, and none counts twice.
#[test]
fn threads_that_come_and_go() {
    alone("threads_that_come_and_go", || {
        let is_whole = skips::is_whole("threads_that_come_and_go");
        for round in 0..if is_whole { 300 } else { 30 } {
            let bare = Arc::new(Bare::new(40));
            let (stop, is_open) =
                (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            // Two threads start others all the time, and some of these stay.
            let starters: Vec<_> = [0_usize, 20]
                .into_iter()
                .map(|first| {
                    let (bare, stop, is_open) =
                        (Arc::clone(&bare), Arc::clone(&stop), Arc::clone(&is_open));
                    std::thread::spawn(move || {
                        let mut staying = 0;
                        for number in 0.. {
                            if stop.load(SeqCst) {
                                return;
                            }
                            bare.start(first + number % 4, 2, false);
                            if number % 40 == 39 && staying < 16 {
                                bare.start(first + 4 + staying, 3, true);
                                staying += 1;
                            }
                            if is_open.load(SeqCst) && number % 8 == 0 {
                                std::thread::yield_now();
                            }
                        }
                    })
                })
                .collect();
            let counters = SyscallGroup::open(&EVENTS[..1 + round % 2], Scope::Process)?;
            is_open.store(true, SeqCst);
            let mut last = 0;
            for _ in 0..20 {
                let [count, ..] = *counters.read()? else { panic!("no count") };
                assert!(count >= last, "{count} after {last}");
                last = count;
                std::thread::sleep(Duration::from_micros(200));
            }
            stop.store(true, SeqCst);
            starters.into_iter().for_each(|starter| starter.join().unwrap());
            // Those that were started while the counters were being opened count from the moment that they go on.
            let waiting = bare.waiting.load(SeqCst) as u64;
            // The short ones end first.
            while !bare.are_only_waiting() {
                std::thread::yield_now();
            }
            assert_eq!(faults(&counters, || bare.finish())?, waiting, "round {round}");
        }
        Ok(())
    });
}

/// What thousands of threads count that start after the counters were opened is the sum of what each did.
#[test]
fn thousands_of_threads_to_come() {
    alone("thousands_of_threads_to_come", || {
        let bare = Arc::new(Bare::new(8));
        let (send, go) = mpsc::channel::<()>();
        let starter = {
            let bare = Arc::clone(&bare);
            std::thread::spawn(move || {
                bare.start(0, 1, false);
                go.recv().unwrap();
                (0..2_000).for_each(|number| bare.start(number % 8, 2, false));
            })
        };
        let there = SyscallGroup::open(&EVENTS, Scope::Process)?;
        bare.finish();
        let from = (there.read()?[0], bare.touched.load(SeqCst));
        send.send(()).unwrap();
        // A group whose last event is the page faults: beside threads that end, none of its counts goes back.
        let other = SyscallGroup::open(&[EVENTS[1], EVENTS[0]], Scope::Process)?;
        let mut last = [0, 0];
        while !starter.is_finished() {
            there.read()?;
            let [time, faults] = *other.read()? else { panic!("two counts") };
            assert!(time >= last[0] && faults >= last[1], "{last:?}, then {time} and {faults}");
            last = [time, faults];
        }
        drop(other);
        bare.finish();
        let to = (there.read()?[0], bare.touched.load(SeqCst));
        // The starter's own: its channel and its end.
        let own = (to.0 - from.0).checked_sub((to.1 - from.1) as u64);
        assert!(own.is_some_and(|own| own < 50), "{from:?} {to:?}");
        assert_eq!(to.1 - from.1, 4_000);
        Ok(())
    });
}

#[test]
fn a_profiler_that_all_threads_use() {
    alone("a_profiler_that_all_threads_use", || {
        let (one, two) = (
            PerThread::new(Group::builder([Event::PAGE_FAULTS])),
            PerThread::new(Group::builder(EVENTS)),
        );
        std::thread::scope(|scope| {
            let (one, two) = (&one, &two);
            let threads = (1..=5_u64).map(|number| {
                scope.spawn(move || -> Result<(), Error> {
                    for _ in 0..3 {
                        touch_pages(1);
                        let ([before], [also, _]) = (one.read()?, two.read()?);
                        touch_pages(100 * number);
                        let (after, [then, _]) = (one.reading()?, two.read()?);
                        assert!(after[0].value - before >= 100 * number);
                        assert!(then - also >= 100 * number);
                        if after[0].value - before == 100 * number {
                            return Ok(());
                        }
                    }
                    panic!("{number}: the first reads cost page faults, and later ones must not");
                })
            });
            let threads: Vec<_> = threads.collect();
            threads.into_iter().try_for_each(|thread| thread.join().unwrap())
        })?;
        // With the group at hand, and another handle inside.
        let sum = one.with(|group| Ok::<_, Error>(group.read()?[0] + two.read()?[0]))?;
        assert!(sum.is_ok());
        Ok(())
    });
}

/// A span that ends in a destructor of a thread-local value has its counts, or an error, whatever was destroyed first.
#[test]
fn a_destructor_that_reads() {
    alone("a_destructor_that_reads", || {
        struct AtTheEnd(Arc<PerThread<1>>, mpsc::Sender<Result<[u64; 1], Error>>);
        impl Drop for AtTheEnd {
            fn drop(&mut self) {
                self.1.send(self.0.read()).unwrap();
            }
        }
        thread_local!(static LAST: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) });
        let counters = Arc::new(PerThread::new(Group::builder([Event::PAGE_FAULTS])));
        for reads_first in [true, false] {
            let (send, results) = mpsc::channel();
            let counters = Arc::clone(&counters);
            std::thread::spawn(move || {
                if reads_first {
                    counters.read().unwrap();
                }
                LAST.set(Some(AtTheEnd(Arc::clone(&counters), send)));
                if !reads_first {
                    counters.read().unwrap();
                }
            })
            .join()
            .unwrap();
            match results.recv().unwrap() {
                Ok(_) => {}
                Err(why) if why.kind() == ErrorKind::ThreadEnds => {}
                other => panic!("{other:?}"),
            }
        }
        Ok(())
    });
}

/// A thread that ends closes its counters, and so does one whose handle is gone.
#[test]
fn what_was_opened_for_threads_is_closed() {
    alone("what_was_opened_for_threads_is_closed", || {
        let open = || perf_descriptors().len();
        let counters = PerThread::new(Group::builder(EVENTS));
        assert_eq!(open(), 0);
        counters.read()?;
        assert_eq!(open(), 2);
        std::thread::scope(|scope| {
            let (counters, open) = (&counters, &open);
            let read = move || counters.read().map(|_| open()).unwrap();
            assert_eq!(scope.spawn(read).join().unwrap(), 4);
        });
        assert_eq!(open(), 2);
        drop(counters);
        PerThread::new(Group::builder([Event::PAGE_FAULTS])).read()?;
        assert_eq!(open(), 1);
        Ok(())
    });
}

#[test]
fn a_child_of_a_fork_and_closed_descriptors() {
    alone("a_child_of_a_fork_and_closed_descriptors", || {
        let mine = PerThread::new(Group::builder([Event::PAGE_FAULTS]));
        let all = SyscallGroup::open(&EVENTS, Scope::Process)?;
        mine.read()?;
        let child = wait(fork(|| {
            let is_forked = all.read() == Err(ReadError::Forked)
                && all.disable() == Err(ReadError::Forked)
                && mine.with(|group| group.read()) != Ok(Err(ReadError::Forked));
            i32::from(!is_forked)
        }));
        assert_eq!(child, 0);
        // The child's exit has not ended the parent's counters.
        assert!(faults(&all, || touch_pages(PAGES))? >= PAGES);
        all.disable()?;
        assert_eq!(faults(&all, || touch_pages(PAGES))?, 0);
        all.enable()?;
        for number in perf_descriptors() {
            // SAFETY: the number is a counter's, which is told.
            assert_eq!(unsafe { libc::close(number) }, 0);
        }
        assert_eq!(all.read(), Err(ReadError::Closed));
        assert_eq!(all.enable(), Err(ReadError::Closed));
        Ok(())
    });
}

/// Processes that a thread starts are not counted.
#[test]
fn child_processes_do_not_count() {
    alone("child_processes_do_not_count", || {
        for scope in [Scope::NewThreads, Scope::Process] {
            let counters = SyscallGroup::open(&EVENTS, scope)?;
            let child = || {
                assert_eq!(
                    wait(fork(|| {
                        touch_pages(PAGES);
                        0
                    })),
                    0
                )
            };
            child();
            let counted = faults(&counters, child)?;
            assert_eq!(counted >= PAGES, counters.counts_child_processes(), "{counted}");
        }
        Ok(())
    });
}

#[test]
fn any_thread_may_read() {
    fn goes_anywhere<T: Send + Sync + 'static>() {}
    goes_anywhere::<SyscallGroup>();
    goes_anywhere::<PerThread<2>>();
    alone("any_thread_may_read", || {
        let counters = SyscallGroup::open(&EVENTS[..1], Scope::Thread)?;
        let elsewhere = |counters: &SyscallGroup| {
            std::thread::scope(|scope| scope.spawn(|| counters.read()).join().unwrap())
        };
        elsewhere(&counters)?;
        let before = elsewhere(&counters)?;
        let again = elsewhere(&counters)?;
        touch_pages(PAGES);
        let after = elsewhere(&counters)?;
        assert!(after[0] - again[0] >= PAGES && again[0] - before[0] < 100);
        for events in [&[][..], &[Event::DUMMY; 9]] {
            let refusal = SyscallGroup::open(events, Scope::Process).err();
            let is_of_size = |why: &Error| why.kind() == ErrorKind::GroupSize;
            assert!(refusal.as_ref().is_some_and(is_of_size), "{refusal:?}");
        }
        Ok(())
    });
}

/// The main thread may end before the others. It stays in the list of threads until they have ended, too.
#[test]
fn a_main_thread_that_has_ended() {
    alone("a_main_thread_that_has_ended", || {
        let child = fork(|| {
            std::thread::spawn(|| {
                let main = format!("/proc/self/task/{}/stat", std::process::id());
                while !std::fs::read_to_string(&main).unwrap().contains(") Z ") {
                    std::thread::yield_now();
                }
                let counters = SyscallGroup::open(&EVENTS, Scope::Process).unwrap();
                let is_right = counters.threads() == 1
                    && faults(&counters, || touch_pages(PAGES)).is_ok_and(|faults| faults >= PAGES);
                // SAFETY: the call ends the process.
                unsafe { libc::_exit(i32::from(!is_right)) }
            });
            // SAFETY: the call ends this thread alone. Nothing of it is used afterwards.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
            unreachable!("the thread has ended");
        });
        assert_eq!(wait(child), 0);
        Ok(())
    });
}

/// From one event to as many as there can be.
#[test]
fn groups_of_every_size() {
    alone("groups_of_every_size", || {
        let there = Crew::new(2, touch_pages);
        for scope in [Scope::Thread, Scope::NewThreads, Scope::Process] {
            for size in 1..=8 {
                let mut events = vec![Event::PAGE_FAULTS; size];
                events[0] = Event::TASK_CLOCK;
                let counters = SyscallGroup::open(&events, scope)?;
                let before = counters.read()?;
                touch_pages(PAGES);
                there.run(PAGES);
                let after = counters.read()?;
                assert_eq!((before.len(), after.len()), (size, size));
                let expected = if scope == Scope::Process { 3 * PAGES } else { PAGES };
                for place in 1..size {
                    let counted = after[place] - before[place];
                    assert!((expected..expected + 50).contains(&counted), "{scope:?}: {counted}");
                }
            }
        }
        Ok(())
    });
}

#[test]
fn pinned_events_of_new_threads_are_refused() {
    alone("pinned_events_of_new_threads_are_refused", || {
        let pinned = |scope| SyscallGroup::builder(&EVENTS).pinned(true).open_scope(scope);
        pinned(Scope::Thread)?.read()?;
        let by_name: Event = "page-faults:D".parse()?;
        for scope in [Scope::NewThreads, Scope::Process] {
            assert_eq!(
                pinned(scope).err().map(|why| why.kind()),
                Some(ErrorKind::PinnedOnNewThreads)
            );
            let by_name = SyscallGroup::open(&[by_name], scope).err();
            assert_eq!(by_name.map(|why| why.kind()), Some(ErrorKind::PinnedOnNewThreads));
        }
        Ok(())
    });
}

/// A container may see the `/proc` of another PID namespace, in which its threads have other numbers.
#[test]
fn proc_of_another_namespace() {
    alone("proc_of_another_namespace", || {
        // SAFETY: the call takes an integer. Only children enter the new PID namespace.
        if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) } != 0 {
            skips::skip("proc_of_another_namespace", "no PID namespace can be made here");
            return Ok(());
        }
        let child = fork(|| {
            let refusal = SyscallGroup::open(&EVENTS, Scope::Process).err();
            i32::from(refusal.map(|why| why.kind()) != Some(ErrorKind::ProcOfAnotherNamespace))
        });
        assert_eq!(wait(child), 0);
        Ok(())
    });
}
