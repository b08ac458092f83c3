//! The game: a main thread, a worker for which it waits in every frame, and a loader.

use crate::planted::Kind;
use rdpmc_spans::span;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a planted frame is slow.
const SLOW: Duration = Duration::from_millis(8);
/// The bytes that are read cold: more than the last cache of most CPUs.
const COLD: usize = 96 << 20;
/// The bytes that are touched for the first time.
const NEW: usize = 24 << 20;
/// The threads that preempt the main thread.
const HOGS: usize = 3;

/// What the threads share.
struct Shared {
    /// The main thread.
    main: i32,
    is_over: AtomicBool,
    /// The lock that the worker needs for each job.
    assets: Mutex<u64>,
    /// Whether the loader has it.
    is_loading: AtomicBool,
    /// Has each of the hogs run for some time.
    hogs: Vec<Sender<Duration>>,
    /// How many of them run, and whether they are to stop.
    hogs_running: AtomicUsize,
    is_stopped: AtomicBool,
}

impl Shared {
    /// Has some hogs run on the main thread's CPU for at most some time.
    fn release_hogs(&self, hogs: usize, time: Duration) {
        self.is_stopped.store(false, Ordering::SeqCst);
        self.hogs.iter().take(hogs).for_each(|hog| hog.send(time).unwrap());
    }

    /// Returns when one of them runs.
    fn wait_for_hog(&self) {
        while self.hogs_running.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

/// A job of the worker: whether hogs are to run on the main thread's CPU when it is done.
struct Job {
    frame: u64,
    occupies: bool,
}

pub struct Engine {
    shared: Arc<Shared>,
    jobs: Sender<Job>,
    results: Receiver<u64>,
    loads: Sender<()>,
    threads: Vec<JoinHandle<()>>,
    cold: Vec<u64>,
}

fn pin(cpu: usize) {
    let cpus = core_affinity::get_core_ids().unwrap_or_default();
    // The first and the last one, which may be the same.
    let cpu = if cpu == 0 { cpus.first() } else { cpus.last() };
    cpu.into_iter().for_each(|cpu| assert!(core_affinity::set_for_current(*cpu)));
}

/// Works for some time on the CPU: not shorter if others have it meanwhile.
fn work(time: Duration) {
    let begun = on_cpu();
    while on_cpu().saturating_sub(begun) < time {
        black_box((0..200_u64).map(black_box).sum::<u64>());
    }
}

/// Returns how long this thread has been on a CPU.
fn on_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes a timespec.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Has a thread run only if no other one wants to, or as usual. 0 is this one. Returns whether the kernel allows it.
fn set_idle(thread: i32, is_idle: bool) -> bool {
    let policy = if is_idle { libc::SCHED_IDLE } else { libc::SCHED_OTHER };
    // SAFETY: zeros are valid parameters, and those of both policies.
    unsafe {
        let parameters: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(thread, policy, &parameters) == 0
    }
}

impl Engine {
    pub fn start() -> Engine {
        // SAFETY: no arguments.
        let main = unsafe { libc::gettid() };
        let (hogs, releases): (Vec<_>, Vec<_>) = (0..HOGS).map(|_| channel()).unzip();
        let shared = Arc::new(Shared {
            main,
            is_over: AtomicBool::new(false),
            assets: Mutex::new(0),
            is_loading: AtomicBool::new(false),
            hogs,
            hogs_running: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
        });
        let (jobs, inbox) = channel::<Job>();
        let (outbox, results) = channel();
        let (loads, requests) = channel();
        let named = |name: &str| std::thread::Builder::new().name(name.into());
        let of_worker = shared.clone();
        let worker = move || {
            pin(1);
            while let Ok(job) = inbox.recv() {
                let result = cull(&of_worker, &job);
                if outbox.send(result).is_err() {
                    return;
                }
                if job.occupies {
                    std::thread::sleep(SLOW);
                    set_idle(of_worker.main, false);
                }
            }
        };
        let of_loader = shared.clone();
        let loader = move || {
            pin(1);
            while let Ok(()) = requests.recv() {
                load(&of_loader);
            }
        };
        let mut threads =
            vec![named("worker").spawn(worker).unwrap(), named("loader").spawn(loader).unwrap()];
        for cpu in [0, 1] {
            let shared = shared.clone();
            threads.push(std::thread::spawn(move || be_load(&shared, cpu)));
        }
        for releases in releases {
            let shared = shared.clone();
            threads.push(std::thread::spawn(move || hog(&shared, &releases)));
        }
        pin(0);
        let cold = (0..COLD / 8).map(|n| n as u64).collect();
        Engine { shared, jobs, results, loads, threads, cold }
    }

    /// Whether this process may plant it.
    pub fn can_plant(&self, kind: Kind) -> bool {
        if kind != Kind::LateWakeUp {
            return true;
        }
        // To run as usual again needs the right to raise a priority.
        let can = std::thread::spawn(|| set_idle(0, true) && set_idle(0, false)).join().unwrap();
        if !can {
            println!("late wake-ups are not planted: this process may not leave SCHED_IDLE");
        }
        can
    }

    /// Runs a frame. Returns whether what is planted took effect: it took most of the frame, in the way that was planned.
    pub fn frame(&mut self, frame: u64, planted: Option<Kind>) -> bool {
        let is = |kind| planted == Some(kind);
        if is(Kind::Lock) {
            self.loads.send(()).unwrap();
            while !self.shared.is_loading.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        if is(Kind::ColdMemory) {
            flush(&self.cold);
        }
        let mut taken = Taken::default();
        let begun = Instant::now();
        let span = span!("frame", frame);
        {
            let _span = span!("input");
            work(Duration::from_micros(20));
        }
        {
            let _span = span!("simulate");
            let is_planted = is(Kind::Lock) || is(Kind::LateWakeUp);
            taken.measure(is_planted, || {
                self.jobs.send(Job { frame, occupies: is(Kind::LateWakeUp) }).unwrap();
                black_box(self.results.recv().unwrap());
            });
        }
        {
            let _span = span!("animate");
            taken.measure(is(Kind::Computing) || is(Kind::Preemption), || {
                if is(Kind::Preemption) {
                    self.shared.release_hogs(HOGS, 3 * SLOW);
                    work(SLOW / 2);
                }
                work(if is(Kind::Computing) { SLOW } else { Duration::from_micros(150) });
            });
        }
        {
            let _span = span!("render");
            work(Duration::from_micros(200));
            taken.measure(is(Kind::Faults), || {
                if is(Kind::Faults) {
                    touch_new_memory();
                }
            });
            taken.measure(is(Kind::ColdMemory), || {
                if is(Kind::ColdMemory) {
                    black_box(chase(&self.cold));
                }
            });
        }
        taken.measure(is(Kind::Own), || {
            if is(Kind::Own) {
                work(SLOW);
            }
        });
        drop(span);
        let frame = begun.elapsed();
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        planted.is_some_and(|kind| taken.is_most_of(frame, kind))
    }

    pub fn end(self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.shared.release_hogs(HOGS, Duration::ZERO);
        drop((self.jobs, self.loads));
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// What a planted part of a frame took, by the kernel's numbers.
#[derive(Default)]
struct Taken {
    time: Duration,
    on_cpu: Duration,
    /// Ready to run, without a CPU.
    runnable: Duration,
}

impl Taken {
    fn measure(&mut self, is_planted: bool, part: impl FnOnce()) {
        if !is_planted {
            return part();
        }
        let (begun, before) = (Instant::now(), (on_cpu(), runnable()));
        part();
        self.time = begun.elapsed();
        self.on_cpu = on_cpu() - before.0;
        self.runnable = runnable() - before.1;
    }

    /// Whether it was most of the frame, and mostly what this kind is to be.
    fn is_most_of(&self, frame: Duration, kind: Kind) -> bool {
        let is_most = |part: Duration, of: Duration| part * 10 > of * 6;
        let planned = match kind {
            Kind::Computing | Kind::ColdMemory | Kind::Faults | Kind::Own => self.on_cpu,
            Kind::Lock => self.time.saturating_sub(self.on_cpu + self.runnable),
            Kind::Preemption | Kind::LateWakeUp => self.runnable,
        };
        self.time >= SLOW / 2 && is_most(self.time, frame) && is_most(planned, self.time)
    }
}

/// Returns how long this thread has been ready to run without a CPU.
fn runnable() -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(statistics.split(' ').nth(1).unwrap().parse().unwrap())
}

/// The worker's job.
fn cull(shared: &Shared, job: &Job) -> u64 {
    let _span = span!("cull");
    work(Duration::from_micros(100));
    let asset = look_up(shared);
    if job.occupies {
        // The main thread waits by now.
        set_idle(shared.main, true);
        shared.release_hogs(1, 2 * SLOW);
        shared.wait_for_hog();
    }
    asset ^ job.frame
}

fn look_up(shared: &Shared) -> u64 {
    let _span = span!("look up");
    *shared.assets.lock().unwrap()
}

/// Holds the lock for a while.
fn load(shared: &Shared) {
    let _span = span!("load");
    let mut assets = shared.assets.lock().unwrap();
    shared.is_loading.store(true, Ordering::SeqCst);
    work(SLOW);
    *assets += 1;
    shared.is_loading.store(false, Ordering::SeqCst);
}

/// Runs on the main thread's CPU when it is told to.
fn hog(shared: &Shared, releases: &Receiver<Duration>) {
    pin(0);
    while let Ok(time) = releases.recv() {
        if shared.is_over.load(Ordering::SeqCst) {
            return;
        }
        shared.hogs_running.fetch_add(1, Ordering::SeqCst);
        let begun = Instant::now();
        while begun.elapsed() < time && !shared.is_stopped.load(Ordering::SeqCst) {
            std::hint::spin_loop();
        }
        shared.hogs_running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Works at the lowest priority on a CPU, all the time.
fn be_load(shared: &Shared, cpu: usize) {
    pin(cpu);
    // SAFETY: changes the priority of this thread alone.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
    while !shared.is_over.load(Ordering::Relaxed) {
        work(Duration::from_micros(500));
    }
}

/// Writes to memory that the process has never had.
fn touch_new_memory() {
    // SAFETY: memory of its own, which is written within its bounds and then unmapped.
    unsafe {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let memory = libc::mmap(std::ptr::null_mut(), NEW, protection, flags, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        // A fault for each page. Kernels without huge pages refuse this.
        libc::madvise(memory, NEW, libc::MADV_NOHUGEPAGE);
        for page in (0..NEW).step_by(4_096) {
            memory.cast::<u8>().add(page).write_volatile(1);
        }
        assert_eq!(libc::munmap(memory, NEW), 0);
    }
}

/// Has the memory leave the caches: others are read.
fn flush(memory: &[u64]) {
    let half = memory.len() / 2;
    black_box(memory.iter().skip(half).copied().map(black_box).fold(0, u64::wrapping_add));
}

/// Reads the first half of the memory, each line once, in an order that no prefetcher knows.
fn chase(memory: &[u64]) -> u64 {
    const LINE: usize = 8;
    let lines = memory.len() / 2 / LINE;
    let (mut at, mut sum) = (0, 0_u64);
    for _ in 0..lines / 8 {
        // Depends on what was read.
        sum = sum.wrapping_add(memory[at * LINE] & 1);
        at = (at * 5 + 7 + usize::from(sum == u64::MAX)) % lines;
    }
    sum
}
