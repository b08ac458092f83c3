//! What recording a span takes, also in the allocator and in signal handlers.

use crate::recording::turn;
use rdpmc::Event;
use rdpmc_spans::{Counters, Fiber, Laps, Settings, Spans, Storage, span, stages};
use rdpmc_testing::{process, skips};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::mem::ManuallyDrop;
use std::sync::Mutex;

stages!(
    enum Stage {
        First = "first",
        Second = "second",
    }
);

/// Spans in the allocator: each is recorded or counted.
#[test]
fn spans_in_the_allocator() {
    let _turn = turn();
    for storage in [Storage::Histograms, Storage::Ring { records: 4 }] {
        let mut spans = Settings::new().storage(storage).start().unwrap();
        let begun = std::thread::spawn(|| {
            IN_THE_ALLOCATOR.set(Some(0));
            for _ in 0..100 {
                drop(span!("a span"));
                drop(black_box(Box::new(1)));
                // Two stays, in which the fiber's list of spans grows.
                let mut fiber = Fiber::new();
                let entered = fiber.enter();
                let of_fiber = span!("of a fiber");
                drop(entered);
                let entered = fiber.enter();
                drop(of_fiber);
                drop(entered);
            }
            let begun = IN_THE_ALLOCATOR.take().unwrap_or(0) + 300;
            assert_eq!(written_after_they_were_freed(), 0, "bytes");
            begun
        });
        let begun: u64 = begun.join().unwrap();
        let report = spans.report();
        let recorded: u64 = report.rows.iter().map(|row| row.count).sum();
        let dropped: u64 = report.threads.iter().map(|thread| thread.dropped).sum();
        assert!(begun > 200 && recorded > 0, "{begun} begun");
        assert_eq!(recorded + dropped + report.lost, begun, "{report}");
    }
}

/// The recording that another thread has begun while this one allocated.
static OTHER: Mutex<Option<Spans>> = Mutex::new(None);

/// Begins another recording, and records a span in it on this thread, whose state is replaced then.
fn begin_another_recording() {
    let begin = || {
        let mut other = OTHER.lock().unwrap();
        *other = None;
        *other = Some(Settings::new().start().unwrap());
    };
    std::thread::spawn(begin).join().unwrap();
    drop(span!("in the allocator"));
}

/// A fiber enters and leaves while its allocations begin another recording: nothing is used after it was freed.
#[test]
fn another_recording_begins_while_a_fiber_allocates() {
    const SPANS: usize = 50;
    let _turn = turn();
    for allocation in 0..6 {
        for is_entering in [false, true] {
            *OTHER.lock().unwrap() = Some(Settings::new().start().unwrap());
            let mut fiber = Fiber::new();
            let mut guards = Vec::with_capacity(SPANS);
            let entered = fiber.enter();
            guards.extend((0..SPANS).map(|_| span!("of a fiber")));
            if is_entering {
                drop(entered);
                // A thread that has no memory for a fiber yet.
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        drop(span!("first"));
                        HOOK.set(Some((allocation, begin_another_recording)));
                        drop(fiber.enter());
                        HOOK.set(None);
                    });
                });
            } else {
                HOOK.set(Some((allocation, begin_another_recording)));
                drop(entered);
                HOOK.set(None);
            }
            let entered = fiber.enter();
            drop(guards);
            drop(entered);
            drop(span!("after"));
            let mut other = OTHER.lock().unwrap().take().unwrap();
            let report = other.report();
            let after = report.rows.iter().find(|row| row.name == "after").unwrap();
            assert_eq!(after.count, 1, "{report}");
            drop(other);
        }
    }
}

/// After a thread's first spans: no system call, no allocation, no page fault.
#[test]
fn nothing_on_the_hot_path() {
    let clock = rdpmc::Clock::open().unwrap();
    if let rdpmc::clock::ClockKind::Kernel(why) = clock.kind() {
        let why = format!("a tick is a call of the kernel's clock here: {why}");
        return skips::skip("nothing_on_the_hot_path", &why);
    }
    let _turn = turn();
    for storage in [Storage::Ring { records: 100 }, Storage::Histograms] {
        let events = [Event::CYCLES, Event::INSTRUCTIONS];
        let ends = |obedient: bool| {
            process::wait(process::fork(|| {
                let settings = Settings::new().events(&events).storage(storage);
                let spans = settings.counters(Counters::Always).start().unwrap();
                let mut spans = ManuallyDrop::new(spans);
                work(100);
                spans.take(); // histograms change sides
                let (allocations, faults) = (ALLOCATIONS.get(), minor_faults());
                work(10_000);
                let before = minor_faults();
                if (ALLOCATIONS.get(), before) != (allocations, faults) {
                    return 2;
                }
                process::allow_only(libc::SYS_exit_group);
                work(10_000);
                if !obedient {
                    process::monotonic_raw(); // a system call
                }
                0
            }))
        };
        assert_eq!(ends(true), 0, "the wait status with {storage:?}");
        assert_eq!(libc::WTERMSIG(ends(false)), libc::SIGSYS, "what ends the control");
    }
}

fn work(times: u32) {
    for _ in 0..times {
        let _outer = span!("outer");
        let mut laps = Laps::start();
        drop(span!("inner"));
        laps.next(Stage::First);
        laps.next(Stage::Second);
    }
}

fn minor_faults() -> i64 {
    // SAFETY: a structure of integers, for which 0 is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: a valid pointer.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_minflt
}

/// Returns how many bytes were written after they were freed.
fn written_after_they_were_freed() -> usize {
    KEPT.with(|all| {
        let freed = all[NEXT_KEPT.get()..].iter().map(Cell::get);
        // SAFETY: not freed in fact.
        let bytes = freed.map(|(memory, size)| unsafe { std::slice::from_raw_parts(memory, size) });
        bytes.flatten().filter(|byte| **byte != FREED).count()
    })
}

#[test]
fn the_control_of_the_allocator() {
    let before = ALLOCATIONS.get();
    drop(black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.get(), before + 1);
}

/// The system's allocator, with the number of each thread's allocations.
struct Counting;

/// How many allocations come before, and what runs then.
type Hook = Option<(u32, fn())>;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    /// The number of spans that began in this thread's allocations. None: they have no spans.
    static IN_THE_ALLOCATOR: Cell<Option<u64>> = const { Cell::new(None) };
    /// What runs in an allocation of this thread, and after how many others.
    static HOOK: Cell<Hook> = const { Cell::new(None) };
    /// Memory that such a thread has freed, and the place after the next one.
    static KEPT: [Cell<(*mut u8, usize)>; MAX_KEPT] =
        const { [const { Cell::new((std::ptr::null_mut(), 0)) }; MAX_KEPT] };
    static NEXT_KEPT: Cell<usize> = const { Cell::new(MAX_KEPT) };
}

const MAX_KEPT: usize = 1_000;
const FREED: u8 = 0xaa;

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        match HOOK.take() {
            Some((0, hook)) => hook(),
            Some((allocations, hook)) => HOOK.set(Some((allocations - 1, hook))),
            None => {}
        }
        if let Some(begun) = IN_THE_ALLOCATOR.get() {
            IN_THE_ALLOCATOR.set(Some(begun + 1));
            drop(span!("in the allocator"));
        }
        // SAFETY: the caller's promise is the condition of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if let Some(begun) = IN_THE_ALLOCATOR.get() {
            IN_THE_ALLOCATOR.set(Some(begun + 1));
            drop(span!("in the deallocator"));
        }
        if let (Some(_), Some(kept)) = (IN_THE_ALLOCATOR.get(), NEXT_KEPT.get().checked_sub(1)) {
            // Not freed, so that what is written afterwards is found.
            // SAFETY: the memory is that of the layout, and nobody uses it any more.
            unsafe { memory.write_bytes(FREED, layout.size()) };
            KEPT.with(|all| all[kept].set((memory, layout.size())));
            return NEXT_KEPT.set(kept);
        }
        // SAFETY: the caller's promise is the condition of the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
