//! The kernel takes the register or the CPU away in the middle of a read.

use super::{Entry, distance, fits_between, newest, open, words};
use crate::events::{self, INSTRUCTIONS, Options, read_event};
use crate::harness::{Facts, Outcome, Stop, equal, near, report, require, skip};
use crate::neighbour::Neighbour;
use rdpmc::{Counter, Event};
use rdpmc_testing::attacks::Share;
use rdpmc_testing::kernels::countdown;
use rdpmc_testing::process::{self, wait};
use std::hint::black_box;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

pub const ALL: &[Entry] = &[
    ("moved_after_every_instruction", moved_after_every_instruction),
    ("reset_by_a_signal_handler", reset_by_a_signal_handler),
    ("reads_without_end", reads_without_end),
];

/// A traced child reads its counter. Its parent lets it take some single steps, pins an event, which takes the
/// register of the child's event, and lets the child go on. So the move comes after every instruction in turn, up to
/// the loop that reads the counter. [`reset_by_a_signal_handler`] covers the rest of a reading.
fn moved_after_every_instruction(facts: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    if cfg!(target_arch = "riscv64") {
        return skip("Linux does not single-step riscv64");
    }
    let share = facts.share();
    moved_within("read_user", 110, share, |counter| {
        let value = counter.read_user().ok_or("no user read".to_owned())?;
        // Times that fit, because `read_user` has none.
        let [_, time_enabled, time_running] = read_event(newest());
        Ok([value, time_enabled, time_running])
    })?;
    if facts.say("clock") == Some("kernel") {
        return Ok(()); // then a reading is a system call
    }
    moved_within("reading", 175, share, |counter| Ok(words(&counter.reading()?)))
}

/// Single-stepped, each step is a context switch and moves `lock`, so the read retries, in a copy of its loop.
/// `most_steps` lead into that loop, and around it more than once, but not as often as it retries.
fn moved_within(
    what: &str,
    most_steps: u32,
    share: Share,
    read: fn(&Counter) -> Result<[u64; 3], Stop>,
) -> Outcome {
    // The last is made anyway, because it shows that the steps go far enough.
    let is_made = |steps: &u32| share.has(*steps as usize) || *steps == most_steps - 1;
    for steps in (0..most_steps).filter(is_made) {
        let child = process::fork(|| report(traced(read)).into());
        stopped(child, libc::SIGSTOP)?;
        let mut places = Vec::new();
        for _ in 0..steps {
            trace(libc::PTRACE_SINGLESTEP, child)?;
            stopped(child, libc::SIGTRAP)?;
            places.push(instruction_pointer(child));
        }
        if steps == most_steps - 1 {
            let times = places.iter().filter(|place| Some(*place) == places.last()).count();
            require(times > 2, || format!("{what}: {steps} steps do not go around its loop"))?;
        }
        let on_the_child = Options { pinned: true, process: Some(child), ..Options::default() };
        let pinned = events::open(INSTRUCTIONS, on_the_child).map_err(|error| error.to_string())?;
        trace(libc::PTRACE_CONT, child)?;
        let status = wait(child);
        require(status == 0, || {
            format!("{what}: wait status {status:#x}, moved after {steps} steps")
        })?;
        drop(pinned);
    }
    Ok(())
}

/// Waits until the child is stopped by this signal.
fn stopped(child: libc::pid_t, signal: i32) -> Outcome {
    let status = wait(child);
    require(libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == signal, || {
        format!("the child has wait status {status:#x}")
    })
}

/// Returns the address at which a stopped child is.
fn instruction_pointer(child: libc::pid_t) -> u64 {
    /// `NT_PRSTATUS`: the general registers, in the order of the architecture's user_regs.
    const GENERAL: u64 = 1;
    const PLACE: usize = if cfg!(target_arch = "aarch64") { 32 } else { 16 };
    let mut registers = [0u64; 64];
    let mut vector =
        libc::iovec { iov_base: registers.as_mut_ptr().cast(), iov_len: size_of_val(&registers) };
    // SAFETY: the kernel writes at most the length in the vector.
    let result = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, child, GENERAL, &raw mut vector) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    registers[PLACE]
}

fn trace(request: libc::c_uint, child: libc::pid_t) -> Outcome {
    // SAFETY: affects our own stopped child only, with no address and no signal.
    let result = unsafe { libc::ptrace(request as _, child, 0_u64, 0_u64) };
    if result == 0 {
        Ok(())
    } else {
        Err(Stop::Failed(std::io::Error::last_os_error().to_string()))
    }
}

/// Stops for the parent, then reads: value and times fit what the kernel reports.
#[inline(never)]
fn traced(read: fn(&Counter) -> Result<[u64; 3], Stop>) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    let descriptor = newest();
    let page = events::Published::of(descriptor);
    let index = page.index();
    // The count is far from that of a register that has just begun.
    countdown(black_box(1_000_000));
    let before = read_event(descriptor);
    // SAFETY: stops this process until its parent continues it.
    unsafe {
        libc::ptrace(libc::PTRACE_TRACEME, 0, 0_u64, 0_u64);
        libc::raise(libc::SIGSTOP);
    }
    let found = read(&counter)?;
    let after = read_event(descriptor);
    require(page.index() != index, || "the event has the register that it had".into())?;
    fits_between(found, before, after)
}

/// A signal handler resets the counter at any point of a read. The result is from before or from after. A register
/// from before with an `offset` from after would give a sum below 0.
fn reset_by_a_signal_handler(_: &Facts) -> Outcome {
    static COUNTER: AtomicPtr<Counter> = AtomicPtr::new(std::ptr::null_mut());
    static RESETS: AtomicU64 = AtomicU64::new(0);
    extern "C" fn reset(_: libc::c_int) {
        // SAFETY: the counter was there before the first signal, and is never freed.
        let done = unsafe { &*COUNTER.load(Relaxed) }.reset();
        RESETS.fetch_add(u64::from(done.is_ok()), Relaxed);
    }
    let counter: &Counter = Box::leak(Box::new(open(Event::INSTRUCTIONS)?));
    COUNTER.store(std::ptr::from_ref(counter).cast_mut(), Relaxed);
    signal_every(97_000, reset)?;
    let mut last = [0, 0];
    for _ in 0..10_000_000 {
        let count = counter.read_user().ok_or("no user read".to_owned())?;
        require(count < 10_000_000, || format!("{count}, {count:#x}"))?;
        let reading = counter.reading()?;
        require(reading.value < 10_000_000, || format!("{reading:?}"))?;
        // A reset leaves the times alone. The page's clock rounds.
        let times =
            [reading.time_enabled(), reading.time_running()].map(|time| time.as_nanos() as u64);
        let onward = last[0] <= times[0] + 2 && last[1] <= times[1] + 2;
        require(onward && times[1] <= times[0], || format!("{last:?}, then {reading:?}"))?;
        last = times;
        if RESETS.load(Relaxed) >= 2_000 {
            return Ok(());
        }
    }
    Err(Stop::Failed(format!("only {} resets", RESETS.load(Relaxed))))
}

/// Runs `handler` on this thread every `nanoseconds`.
pub(super) fn signal_every(nanoseconds: i64, handler: extern "C" fn(libc::c_int)) -> Outcome {
    let every = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds };
    let times = libc::itimerspec { it_interval: every, it_value: every };
    let mut timer = std::ptr::null_mut();
    // SAFETY: all arguments are numbers, or structures of numbers that live through the calls. The handlers only make
    // a few system calls.
    let set = unsafe {
        libc::signal(libc::SIGUSR1, handler as *const () as libc::sighandler_t);
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGUSR1;
        libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer)
            | libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut())
    };
    equal("the timer", set, 0)
}

/// Ten million reads, twenty on the main machine of an architecture, a hundred on that of x86-64, whose emulator is the
/// fastest. More where they are made so fast that few switches come in between. A neighbour on this CPU wakes up all the time,
/// which takes the CPU and the register from this thread.
fn reads_without_end(facts: &Facts) -> Outcome {
    // A thousand. A switch away and back advances the lock by at least 4.
    const SWITCHES: u32 = 4 * 1_000;
    let counter = open(Event::INSTRUCTIONS)?;
    let descriptor = newest();
    let page = events::Published::of(descriptor);
    let reads = facts.number("reads").expect("a fact of each machine with a PMU");
    let begin = distance(&counter, descriptor);
    let neighbour = Neighbour::start();
    let lock = page.lock();
    let mut last = counter.read()?;
    let mut zeros = 0;
    let few = || page.lock().wrapping_sub(lock) <= SWITCHES;
    let mut made = 0;
    while made < reads || made < 20 * reads && few() {
        made += 1;
        // The event has a register whenever this thread has the CPU. Just after an overflow, the register may be 0,
        // which is not read on x86-64. The next read succeeds.
        let now = match counter.read_user() {
            Some(now) => now,
            None => {
                zeros += 1;
                counter.read_user().ok_or("no user read".to_owned())?
            }
        };
        if now <= last {
            return Err(Stop::Failed(format!("{last}, then {now}")));
        }
        last = now;
    }
    let moved = page.lock().wrapping_sub(lock);
    drop(neighbour);
    // A register overflows after as many events as fit into its period: 2^31 - 1, for example. Then again after as many.
    let bits = facts.number("period_bits").expect("a fact of each machine with a PMU");
    let overflows = if cfg!(target_arch = "x86_64") { last / ((1 << bits) - 1) } else { 0 };
    println!("{zeros} reads met the register at 0, {overflows} overflows");
    require(zeros <= overflows, || {
        format!("no user read {zeros} times, with {overflows} overflows")
    })?;
    require(moved > SWITCHES, || format!("lock advanced by {moved}: few interruptions"))?;
    let end = distance(&counter, descriptor);
    if counter.counts_all_privilege_levels() {
        return require((0..1_000_000).contains(&end), || format!("{end} more by read(2)"));
    }
    near("what read(2) says more, in the end", end, begin)?;
    require((1..60).contains(&end), || format!("{end} more by read(2)"))
}
