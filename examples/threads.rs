//! Programs with threads: who counts what.
//!
//! Page faults are counted, because each machine has them and the work is known: each thread touches new pages.
//!
//! `cargo run --release --example threads`

use rdpmc::{Counter, Error, Event, Group, PerThread, Scope, SyscallGroup};
use std::hint::black_box;
use std::sync::mpsc;
use std::thread;

const FAULTS: Event = Event::PAGE_FAULTS;

/// Causes this many page faults: an allocation of this size is new memory each time.
fn touch(pages: usize) {
    let mut memory = vec![0_u8; 64 << 20];
    memory.iter_mut().step_by(4096).take(pages).for_each(|byte| *byte = 1);
    black_box(memory);
}

fn main() {
    if let Err(why) = run() {
        println!("{why}");
    }
}

fn run() -> Result<(), Error> {
    // A pool that is there before anything is counted, as in a program that has begun.
    let (send, jobs) = mpsc::channel::<usize>();
    let (done, wait) = mpsc::channel();
    let pool = thread::spawn(move || {
        for pages in jobs {
            touch(pages);
            let _ = done.send(());
        }
    });

    // This thread: the fast path.
    let counter = Counter::open(FAULTS)?;
    let before = counter.read()?;
    touch(1000);
    println!("{:6} page faults of this thread", counter.read()? - before);

    // This thread and those that it starts from now on.
    let new = SyscallGroup::open(&[FAULTS], Scope::NewThreads)?;
    let before = new.read()?.first().copied();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| touch(1000));
        }
    });
    if let (Some(before), Some(after)) = (before, new.read()?.first()) {
        println!("{:6} of this thread and four new ones", after - before);
    }

    // All threads of the process, those of the pool as well.
    let all = SyscallGroup::open(&[FAULTS, Event::TASK_CLOCK], Scope::Process)?;
    let before = all.reading()?;
    let _ = send.send(2000);
    let _ = wait.recv();
    let after = all.reading()?;
    let during = |place: usize| after.get(place)?.since(before.get(place)?);
    if let (Some(faults), Some(clock)) = (during(0), during(1)) {
        let (faults, milliseconds) = (faults.value, clock.value as f64 / 1e6);
        println!(
            "{faults:6} of all threads ({} were there), in {milliseconds:.1} ms of CPU time",
            all.threads()
        );
    }

    // A profiler that all threads use: each reads its own counters, by the fast path.
    let profiler = PerThread::new(Group::builder([FAULTS]));
    let of_each = thread::scope(|scope| {
        let threads = [1, 2, 3, 4, 5].map(|number| {
            let profiler = &profiler;
            scope.spawn(move || -> Result<u64, Error> {
                let [before] = profiler.read()?;
                touch(number * 100);
                let [after] = profiler.read()?;
                Ok(after - before)
            })
        });
        threads.map(|thread| thread.join().unwrap_or(Ok(0)))
    });
    for faults in of_each {
        println!("{:6} of one of five threads, by itself", faults?);
    }

    drop(send);
    let _ = pool.join();
    Ok(())
}
