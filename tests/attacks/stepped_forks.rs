//! A signal handler forks after every instruction of the library, and returns in parent and child (x86-64, with the
//! trap flag).
//!
//! The child continues where it was forked. It may get a `Forked` error, or a counter of its own that counts, and
//! nothing else. It never reads what is the parent's.
//!
//! The caller must have only one thread. Between two of its instructions, the allocator is then in a state in which a
//! child with one thread can continue.

use super::{counts, group_counts, open, open_group, work};
use crate::process::in_child;
use rdpmc::error::{Error, ErrorKind, ReadError};
use rdpmc::{Clock, Counter, Event, Group};
use std::arch::asm;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::SeqCst};

/// The flag that makes the CPU trap after every instruction.
const TRAP: i64 = 0x100;

static STEPS: AtomicU32 = AtomicU32::new(0);
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Forks at every `EVERY`-th step, offset by `PHASE`.
static EVERY: AtomicU32 = AtomicU32::new(0);
static PHASE: AtomicU32 = AtomicU32::new(0);
static MOST_STEPS: AtomicU32 = AtomicU32::new(0);
static IN_CHILD: AtomicBool = AtomicBool::new(false);
/// The wait status of the first child that went wrong, and its step.
static WRONG: AtomicI32 = AtomicI32::new(0);
static WRONG_AT: AtomicU32 = AtomicU32::new(0);

/// The number of seconds that a child may take.
const PATIENCE: u32 = 20;

extern "C" fn step(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let step = STEPS.fetch_add(1, SeqCst);
    if step >= MOST_STEPS.load(SeqCst) || step % EVERY.load(SeqCst) != PHASE.load(SeqCst) {
        return;
    }
    // SAFETY: this thread is the only one, so fork takes no lock that it has interrupted. The context is the
    // kernel's.
    unsafe {
        match libc::fork() {
            0 => {
                IN_CHILD.store(true, SeqCst);
                libc::alarm(PATIENCE);
                let context = context.cast::<libc::ucontext_t>();
                (*context).uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP;
            }
            child => {
                FORKS.fetch_add(1, SeqCst);
                let mut status = -1;
                while libc::waitpid(child, &mut status, 0) < 0 {}
                if status != 0 && WRONG.load(SeqCst) == 0 {
                    WRONG_AT.store(step, SeqCst);
                    WRONG.store(status, SeqCst);
                }
            }
        }
    }
}

/// Traps from the next instruction on.
#[inline(always)]
fn set_trap() {
    // SAFETY: the handler is installed. The code changes the flags and the stack below its pointer, as asm! permits
    // by default.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
}

#[inline(always)]
fn clear_trap() {
    // SAFETY: clears the trap flag. The code changes the flags and the stack below its pointer, as asm! permits by
    // default.
    unsafe { asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq") };
}

/// Runs `stepped`, forking by plan, and has `judge` check the result in the parent and in each child. `judge` is told
/// where it runs. Returns the number of forks.
pub fn at_every<T>(
    plan: &Plan<'_>,
    mut before: impl FnMut() -> T,
    stepped: impl Fn(&mut T),
    judge: impl Fn(T, bool) -> Result<(), String>,
) -> Result<u32, String> {
    // SAFETY: the action is fully initialized. The handler keeps to atomics, fork and waitpid.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = step as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()), 0);
    }
    let forks = FORKS.load(SeqCst);
    EVERY.store(plan.every, SeqCst);
    MOST_STEPS.store(plan.most_steps, SeqCst);
    for phase in plan.phases {
        PHASE.store(*phase, SeqCst);
        STEPS.store(0, SeqCst);
        WRONG.store(0, SeqCst);
        let mut value = before();
        set_trap();
        stepped(&mut value);
        clear_trap();
        let in_child = IN_CHILD.load(SeqCst);
        let judged = judge(value, in_child);
        if in_child {
            if let Err(why) = &judged {
                eprintln!("in the child: {why}");
            }
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(judged.is_err())) };
        }
        judged.map_err(|why| format!("in the parent: {why}"))?;
        let wrong = WRONG.load(SeqCst);
        if wrong != 0 {
            let at = WRONG_AT.load(SeqCst);
            let steps = STEPS.load(SeqCst);
            return Err(format!(
                "a child forked after step {at} of {steps} has wait status {wrong:#x}"
            ));
        }
    }
    Ok(FORKS.load(SeqCst) - forks)
}

/// The instructions after which it forks.
pub struct Plan<'a> {
    pub every: u32,
    /// The offsets, out of `0..every`. Each takes one run.
    pub phases: &'a [u32],
    /// The number of steps after which there are no more forks. A clock re-reads its page until the kernel leaves the
    /// page alone for long enough, and each fork is a context switch.
    pub most_steps: u32,
}

/// Checks that a counter of this process counts, and that a child's copy of its parent's reports `Forked`.
fn judge_counter(opened: Option<Result<Counter, Error>>, in_child: bool) -> Result<(), String> {
    match opened.expect("it was opened") {
        Err(why) if why.kind() == ErrorKind::Forked && in_child => Ok(()),
        Err(error) => Err(format!("{error:?}")),
        Ok(counter) => counts(&counter),
    }?;
    one_more()
}

fn judge_group<const N: usize>(
    opened: Option<Result<Group<N>, Error>>,
    in_child: bool,
) -> Result<(), String> {
    match opened.expect("it was opened") {
        Err(why) if why.kind() == ErrorKind::Forked && in_child => Ok(()),
        Err(error) => Err(format!("{error:?}")),
        Ok(group) => group_counts(&group),
    }?;
    one_more()
}

/// Checks that the next counter works, whatever the result was.
fn one_more() -> Result<(), String> {
    counts(&open(Event::TASK_CLOCK).map_err(|why| format!("one more: {why:?}"))?)
}

fn judge_clock(opened: Option<Result<Clock, Error>>, _: bool) -> Result<(), String> {
    let clock = opened.expect("it was opened").map_err(|why| format!("{why:?}"))?;
    let before = clock.now();
    work();
    let kind = clock.kind();
    match clock.now() > before {
        true => one_more(),
        false => Err(format!("it stands still at {before}, {kind:?}")),
    }
}

/// Returns the number of forks in words, as an error if there were too few.
fn enough(what: &str, forks: u32) -> Result<String, String> {
    let said = format!("{what}: {forks} forks");
    if forks >= 20 { Ok(said) } else { Err(said) }
}

/// Opens, drops and reads what this machine has, stepped. Reports the number of forks of each.
pub fn all(plan: &Plan<'_>, say: impl Fn(&str)) -> Result<(), String> {
    let hardware = match open(Event::INSTRUCTIONS) {
        Ok(_) => true,
        Err(why) if matches!(why.kind(), ErrorKind::NoPmu { .. }) => false,
        Err(other) => return Err(format!("{other:?}")),
    };
    let event = if hardware { Event::INSTRUCTIONS } else { Event::TASK_CLOCK };
    let two = if hardware { [event, Event::CYCLES] } else { [event, Event::PAGE_FAULTS] };
    // It is open all the time. In every child, it is the parent's.
    let older = open(event).map_err(|why| format!("{why:?}"))?;
    let with_older = |in_child: bool| match (in_child, older.read(), older.read_user()) {
        (true, Err(ReadError::Forked), None) | (false, Ok(_), _) => Ok(()),
        (_, read, user) => Err(format!("the older one reads {read:?} and {user:?}")),
    };
    let forks = at_every(
        plan,
        || None,
        |opened| *opened = Some(open(event)),
        |opened, in_child| with_older(in_child).and_then(|()| judge_counter(opened, in_child)),
    );
    say(&enough("opening a counter", forks?)?);
    let forks = at_every(
        plan,
        || None,
        |opened| *opened = Some(open_group(two)),
        |opened, in_child| with_older(in_child).and_then(|()| judge_group(opened, in_child)),
    );
    say(&enough("opening a group", forks?)?);
    let forks = at_every(
        plan,
        || None,
        |opened| *opened = Some(Clock::open()),
        |opened, in_child| with_older(in_child).and_then(|()| judge_clock(opened, in_child)),
    );
    say(&enough("opening a clock", forks?)?);
    let forks = at_every(
        plan,
        || {
            let [older, newer] = [(); 2].map(|()| open(event).ok());
            (older, open_group(two).ok(), Clock::open().ok(), newer)
        },
        |(older, group, clock, _)| {
            drop(group.take());
            drop(older.take());
            drop(clock.take());
        },
        |(.., newer), in_child| {
            with_older(in_child)?;
            counts(&newer.ok_or("not opened")?)?;
            one_more()
        },
    );
    say(&enough("dropping them", forks?)?);
    Ok(())
}

/// Steps the first counter of a process, for which the library examines the machine, in a child for each phase.
pub fn first(plan: &Plan<'_>) -> Result<(), String> {
    for phase in plan.phases {
        let plan = Plan { phases: &[*phase], ..*plan };
        in_child(|| {
            let forks = at_every(
                &plan,
                || None,
                |opened| *opened = Some(open(Event::INSTRUCTIONS)),
                |opened, in_child| match opened {
                    Some(Err(why)) if matches!(why.kind(), ErrorKind::NoPmu { .. }) => one_more(),
                    opened => judge_counter(opened, in_child),
                },
            )?;
            if forks > 20 { Ok(()) } else { Err(format!("{forks} forks only")) }
        })?;
    }
    Ok(())
}
