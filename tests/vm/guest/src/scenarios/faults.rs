//! Faults of counter reads are contained, and all others are passed on.

use super::{Entry, newest, open, work};
use crate::cost::FOUR;
use crate::events::read_event;
use crate::harness::{Facts, Outcome, Stop, by_system_call, equal, report, require, says};
use crate::system::{self, Changed, USER_ACCESS, set};
use rdpmc::error::ErrorKind;
use rdpmc::region::Disturbed;
use rdpmc::{Access, Event, Group};
use rdpmc_testing::kernels::countdown;
use rdpmc_testing::process::{self, perf_mappings, wait};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

pub const ALL: &[Entry] = &[
    ("revoked_without_containment", revoked_without_containment),
    ("revoked_while_running", revoked_while_running),
    ("revoked_and_given_back", revoked_and_given_back),
    ("a_handle_gives_up_after_a_fault", a_handle_gives_up_after_a_fault),
    ("foreign_faults_reach_the_programs_handler", foreign_faults_reach_the_programs_handler),
    ("a_null_dereference_still_kills", a_null_dereference_still_kills),
    ("sent_signals_are_passed_on", sent_signals_are_passed_on),
];

/// The signal of a refused read.
const REFUSAL: i32 = if cfg!(target_arch = "x86_64") { libc::SIGSEGV } else { libc::SIGILL };

/// The control: without the handler, the read ends the process. If the kernel switches the thread in between, the page says that
/// there is no counter before a read can fault, so the trial is made again.
fn revoked_without_containment(_: &Facts) -> Outcome {
    const TRIALS: u32 = 20;
    drop(open(Event::INSTRUCTIONS)?);
    for _ in 0..TRIALS {
        let (said, status) = read_after_revocation()?;
        if said == "off, switched" && status == 0 {
            continue;
        }
        equal("what the child said before it ended", said.as_str(), "off")?;
        return require(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == REFUSAL, || {
            format!("the child ended with wait status {status:#x}")
        });
    }
    require(false, || format!("the child was switched in each of {TRIALS} trials"))
}

/// Returns what a child said that revokes user access and reads on, and its wait status.
fn read_after_revocation() -> Result<(String, i32), Stop> {
    let (mut parent, mut child) = UnixStream::pair().map_err(|error| error.to_string())?;
    let on = Changed::to(USER_ACCESS, "1");
    let reading = process::fork(|| {
        report((|| {
            let counter = open(Event::INSTRUCTIONS)?;
            let mut say = |what: &[u8]| child.write_all(what).map_err(|error| error.to_string());
            let before = switches_of_this_thread();
            counter.read()?;
            set(USER_ACCESS, "0");
            say(b"off")?;
            for _ in 0..10_000 {
                counter.read()?;
            }
            if switches_of_this_thread() != before {
                say(b", switched")?;
            }
            Ok(())
        })())
        .into()
    });
    drop(child);
    let status = wait(reading);
    drop(on);
    let mut said = String::new();
    parent.read_to_string(&mut said).map_err(|error| error.to_string())?;
    Ok((said, status))
}

/// How often the kernel has switched from this thread to another.
fn switches_of_this_thread() -> i64 {
    // SAFETY: `rusage` consists of integers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: getrusage writes one `rusage`.
    let status = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    assert_eq!(status, 0, "getrusage failed");
    usage.ru_nvcsw + usage.ru_nivcsw
}

/// User access is revoked and given back, with and without a context switch in between. Every count lies between the
/// kernel's own before and after it.
fn revoked_and_given_back(facts: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    rdpmc::contain_faults()?;
    let on = Changed::to(USER_ACCESS, "1");
    let mut counter = open(Event::INSTRUCTIONS)?;
    let descriptor = newest();
    let mut group =
        Group::builder([Event::INSTRUCTIONS; 2]).allow_all_privilege_levels(true).open().ok();
    // Indexed by whether the thread was switched out while access was closed: reads with a count from user space, and
    // without.
    let (mut some, mut none) = ([0; 2], [0; 2]);
    for round in 0.. {
        let done = [some[0] + none[0], some[1] + none[1]];
        if done == [50; 2] {
            break;
        }
        require(round < 1_000, || format!("of 1,000 rounds, {done:?} went as planned"))?;
        let is_switched = usize::from(done[0] > done[1]);
        let region = counter.region()?;
        let switches = switches_of_this_thread();
        set(USER_ACCESS, "0");
        if is_switched == 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
        set(USER_ACCESS, "1");
        let [before, ..] = read_event(descriptor);
        let (user, read) = (counter.read_user(), counter.read()?);
        let access = counter.access();
        let sample = region.measure(|| countdown(1_000)).1;
        let another = counter.region().err();
        // The kernel may have switched threads of its own accord, which hides the counter or restores it.
        let as_planned = switches_of_this_thread() - switches == is_switched as i64;
        let both = group.as_ref().map(|group| (group.read_user(), group.read()));
        let [after, ..] = read_event(descriptor);
        require(user.is_none_or(|user| before <= user && user <= read) && read <= after, || {
            format!("round {round}: {before}, {user:?} by user space, {read}, {after}")
        })?;
        let is_right = match sample {
            Ok([count]) => (2_000..3_000).contains(&count) || counter.counts_all_privilege_levels(),
            Err(Disturbed::Interrupted { .. } | Disturbed::Faulted | Disturbed::NoCounter) => true,
            Err(_) => false,
        };
        require(is_right, || format!("round {round}: the region says {sample:?}"))?;
        if let Some((user, read)) = both {
            let [first, second] = read?;
            require(first.max(second) <= after && user != Some([0; 2]), || {
                format!("round {round}: {user:?}, {first} and {second} of {after}")
            })?;
        }
        match user {
            _ if !as_planned => {}
            Some(_) => some[is_switched] += 1,
            None => {
                none[is_switched] += 1;
                // The setting is 1, and the page offers what cannot be read.
                if cfg!(target_arch = "x86_64") {
                    equal("access", access.why_system_call(), Some(ErrorKind::Refused))?;
                    equal("the region", sample, Err(Disturbed::Faulted))?;
                    let another = another.expect("a region of what is refused");
                    let words = "the CPU refused to read a counter";
                    says("another region", &another, ErrorKind::UserReadUnavailable, words)?;
                }
            }
        }
        // A switch with access open restores the counter, and a handle that has given up has to be asked.
        std::thread::sleep(Duration::from_millis(1));
        counter.retry_user()?;
        if let Some(group) = &mut group {
            group.retry_user()?;
        }
        let there = counter.read_user().is_some() || cfg!(target_arch = "riscv64");
        require(there, || format!("round {round}: no user read after a switch"))?;
    }
    drop(on);
    if cfg!(target_arch = "x86_64") {
        // If counters can be hidden from user mode, a switch while access is closed hides this one, up to Linux 7.1:
        // then `rdpmc` returns 0. Since Linux 7.2, this is decided when an event is opened.
        let may_be_hidden = facts.say("user_disable") == Some("yes");
        let is_hidden = may_be_hidden && system::kernel() < [7, 2];
        if may_be_hidden && !is_hidden {
            println!("this kernel hides no open counter: nothing was hidden");
        }
        let after_a_switch = if is_hidden { [0, 50] } else { [50, 0] };
        let expected = ([50, after_a_switch[0]], [0, after_a_switch[1]]);
        equal("rounds that user space read, and did not", (some, none), expected)?;
    }
    Ok(())
}

/// A handle whose read faults does not fault again until it is asked to try again. Other threads can see that.
fn a_handle_gives_up_after_a_fault(facts: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    rdpmc::contain_faults()?;
    // There, the kernel gives access back at the event's next turn, or a forbidden counter reads 0 without a fault.
    let is_certain = !cfg!(target_arch = "riscv64") && facts.say("user_disable") != Some("yes");
    let all = if cfg!(target_arch = "aarch64") { 3 } else { 2 };
    let on = Changed::to(USER_ACCESS, "1");
    let mut counter = open(Event::INSTRUCTIONS)?;
    let mut group = Group::builder([Event::INSTRUCTIONS; 2]);
    if cfg!(target_arch = "riscv64") {
        group = Group::builder([Event::INSTRUCTIONS, Event::CYCLES]);
    }
    let mut group = group.allow_all_privilege_levels(true).open()?;
    let (first, [first_of_group, _]) = (counter.read()?, group.read()?);
    set(USER_ACCESS, "0");
    let before = rdpmc::contained_faults();
    for _ in 0..1_000 {
        let none = counter.read_user().is_none() && group.read_user().is_none();
        require(none || !is_certain, || "an answer".into())?;
        let region = counter.region().map(|region| region.measure(|| ()).1);
        require(region.is_err() || !is_certain, || format!("{region:?}"))?;
    }
    let faults = rdpmc::contained_faults() - before;
    println!("{faults} faults for two handles");
    if is_certain {
        // One for each event: arm64 reads all of a group even if the first has no counter.
        equal("faults", faults, all)?;
        by_system_call("access", &counter.access(), ErrorKind::SwitchedOff, USER_ACCESS)?;
    }
    if is_certain && cfg!(target_arch = "x86_64") {
        // A retry while access is revoked finds that out, at one more fault. (arm64's page then names no register.)
        by_system_call("a retry", &counter.retry_user()?, ErrorKind::SwitchedOff, USER_ACCESS)?;
        equal("faults after a retry", rdpmc::contained_faults() - before, all + 1)?;
    }
    // The kernel goes on counting, and resets to 0.
    // On riscv64, a group may have to wait for the registers of an event that was dropped: until its next turn.
    let stands_still = || -> Result<bool, Stop> {
        Ok(counter.read()? <= first || group.read()?[0] <= first_of_group)
    };
    for wait in 0.. {
        if !stands_still()? {
            break;
        }
        require(wait < 1_000 && !is_certain, || "it stands still".into())?;
        std::thread::sleep(Duration::from_millis(1));
    }
    counter.reset()?;
    let read = counter.read()?;
    require(read < first + 100_000, || format!("{read} after a reset"))?;
    let all = rdpmc::contained_faults() - before;
    // With access, it still does not try, until it is asked to.
    set(USER_ACCESS, "1");
    std::thread::sleep(Duration::from_millis(20));
    if is_certain {
        equal("a read", counter.read_user(), None)?;
        let access = [counter.access(), group.access()].map(|access| access.why_system_call());
        equal("access", access, [Some(ErrorKind::Refused); 2])?;
        equal("faults", rdpmc::contained_faults() - before, all)?;
    }
    let access = [counter.retry_user()?, group.retry_user()?];
    if is_certain {
        equal("access", access, [const { Access::UserSpace }; 2])?;
        let kernel = counter.reading_by_system_call()?.value;
        let (user, after) = (counter.read()?, counter.read()?);
        require(kernel < user && user < after && user < read + 1_000_000, || {
            format!("{kernel}, {user}, {after}")
        })?;
        require(counter.read_user().is_some() && group.read_user().is_some(), || "none".into())?;
        counter.region()?.measure(|| ()).1?;
        equal("faults", rdpmc::contained_faults() - before, all)?;
    }
    equal("mapped pages", perf_mappings(), if is_certain { 3 } else { perf_mappings() })?;
    drop((counter, group));
    equal("mapped pages", perf_mappings(), 0)?;
    drop(on);
    Ok(())
}

/// The administrator revokes user access and gives it back: every read has an answer, and the right one.
fn revoked_while_running(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    rdpmc::contain_faults()?;
    rdpmc::contain_faults()?; // the second call does nothing
    let on = Changed::to(USER_ACCESS, "1");
    one_by_one()?;
    a_refused_region()?;
    set(USER_ACCESS, "1");
    all_of_a_group()?;
    set(USER_ACCESS, "1");
    // In a thread, too, with the handler of the process.
    let thread = std::thread::spawn(|| one_by_one().map_err(|why| why.to_string()));
    thread.join().map_err(|_| "the thread panicked".to_owned())??;
    drop(on);
    // Nothing of it is left.
    let counted = work(&open(Event::INSTRUCTIONS)?, 1_000)?;
    require(counted >= 2_000, || format!("{counted} for 2,000 instructions"))
}

fn one_by_one() -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    let region = counter.region()?;
    let mut last = counter.read()?;
    let mut reads = || -> Outcome {
        for _ in 0..2_000 {
            let (read, reading) = (counter.read()?, counter.reading()?);
            require(last < read && read < reading.value, || {
                format!("{last}, then {read}, then {reading:?}")
            })?;
            last = reading.value;
        }
        Ok(())
    };
    reads()?;
    // It starts with access and ends without.
    let (_, sample) = region.measure(|| set(USER_ACCESS, "0"));
    require(matches!(sample, Err(Disturbed::Faulted | Disturbed::Interrupted { .. })), || {
        format!("a region over the revocation: {sample:?}")
    })?;
    // access() then names the setting as the cause.
    match counter.access() {
        Access::SystemCall(why) => says("access", &why, ErrorKind::SwitchedOff, USER_ACCESS)?,
        other => refused(&format!("access, {other:?},"), false)?,
    }
    refused("read_user", counter.read_user().is_none())?;
    for _ in 0..100 {
        empty(region.measure(|| ()).1)?;
    }
    reads()?;
    set(USER_ACCESS, "1");
    reads()
}

/// A refused region is distinguished from one that was moved: the page of a counter opened just before still names
/// its register.
fn a_refused_region() -> Outcome {
    for _ in 0..50 {
        set(USER_ACCESS, "1");
        let counter = open(Event::INSTRUCTIONS)?;
        let region = counter.region()?;
        set(USER_ACCESS, "0");
        // A read that faults has the page replaced by zeros, which looks like an update of the page.
        let samples = [region.measure(|| ()).1, region.measure(|| ()).1];
        let is_given_up = counter.access() != Access::UserSpace;
        if samples.contains(&Err(Disturbed::Faulted)) || is_given_up {
            return Ok(());
        }
        samples.into_iter().try_for_each(empty)?;
    }
    Err(crate::harness::Stop::Failed("no region has faulted".into()))
}

/// On riscv64, the kernel gives access back at the event's next turn, so there it may have done so.
fn refused(what: &str, is_none: bool) -> Outcome {
    require(is_none || cfg!(target_arch = "riscv64"), || format!("{what} is answered"))
}

/// Checks a region around nothing that may or may not be refused: never a wrong number.
fn empty<const N: usize>(sample: Result<[u64; N], Disturbed>) -> Outcome {
    match sample {
        Ok(counts) => {
            refused("a region", false)?;
            require(counts[0] < 8, || format!("an empty region counts {counts:?}"))
        }
        Err(_) => Ok(()),
    }
}

fn all_of_a_group() -> Outcome {
    let group = Group::builder(FOUR).allow_all_privilege_levels(true).open()?;
    let region = group.region()?;
    let mut last = group.read()?;
    let mut reads = || -> Outcome {
        for _ in 0..2_000 {
            let now = group.read()?;
            // Instructions are first everywhere. The other events may stand still.
            let grown = last[0] < now[0] && last.iter().zip(&now).all(|(last, now)| last <= now);
            require(grown, || format!("{last:?}, then {now:?}"))?;
            last = now;
        }
        Ok(())
    };
    reads()?;
    set(USER_ACCESS, "0");
    refused("read_user of a group", group.read_user().is_none())?;
    empty(region.measure(|| ()).1)?;
    reads()?;
    set(USER_ACCESS, "1");
    reads()
}

static CALLS: AtomicUsize = AtomicUsize::new(0);
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static ADDRESS: AtomicUsize = AtomicUsize::new(0);
static BLOCKED: AtomicI32 = AtomicI32::new(0);
static STACK: AtomicUsize = AtomicUsize::new(0);
/// The page that the handler makes readable and writable, so that the faulting access can continue.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// The program's own handler.
extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    CALLS.fetch_add(1, SeqCst);
    SIGNAL.store(signal, SeqCst);
    // SAFETY: the information is the kernel's, the mask is valid for the write, and the page is this program's.
    unsafe {
        ADDRESS.store((*info).si_addr() as usize, SeqCst);
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_BLOCK, ptr::null(), &mut blocked);
        BLOCKED.store(libc::sigismember(&blocked, libc::SIGUSR2), SeqCst);
        let page = PAGE.load(SeqCst);
        if page != 0 {
            libc::mprotect(page as *mut _, 4096, libc::PROT_READ | libc::PROT_WRITE);
        }
    }
    STACK.store(&raw const signal as usize, SeqCst);
}

/// Installs the handler for both signals, with `flags` and with SIGUSR2 blocked.
fn install(flags: i32) {
    // SAFETY: the action is fully initialized, and the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | flags;
        libc::sigaddset(&mut action.sa_mask, libc::SIGUSR2);
        for signal in [libc::SIGSEGV, libc::SIGILL] {
            assert_eq!(libc::sigaction(signal, &action, ptr::null_mut()), 0);
        }
    }
}

/// Returns a page that may not be touched yet.
fn forbidden_page() -> usize {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the mapping is new.
    let page = unsafe { libc::mmap(ptr::null_mut(), 4096, libc::PROT_NONE, kind, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    page as usize
}

fn foreign_faults_reach_the_programs_handler(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    const SIZE: usize = 1 << 16;
    let stack = Box::leak(vec![0u8; SIZE].into_boxed_slice()).as_mut_ptr();
    let other = libc::stack_t { ss_sp: stack.cast(), ss_flags: 0, ss_size: SIZE };
    // SAFETY: the stack is never freed.
    assert_eq!(unsafe { libc::sigaltstack(&other, ptr::null_mut()) }, 0);
    install(libc::SA_ONSTACK);
    rdpmc::contain_faults()?;
    let access = Changed::to(USER_ACCESS, "1");
    let counter = open(Event::INSTRUCTIONS)?;
    for round in 1..=3 {
        let page = forbidden_page();
        PAGE.store(page, SeqCst);
        // SAFETY: the write faults, and after that the page is ordinary memory.
        unsafe { (page as *mut u32).add(round).write_volatile(42) };
        equal("calls", CALLS.load(SeqCst), round)?;
        equal("signal", SIGNAL.load(SeqCst), libc::SIGSEGV)?;
        equal("address", ADDRESS.load(SeqCst), page + 4 * round)?;
        equal("SIGUSR2 is blocked", BLOCKED.load(SeqCst), 1)?;
        let on_it = (stack as usize..stack as usize + SIZE).contains(&STACK.load(SeqCst));
        require(on_it, || "not on the other stack".into())?;
        // Our own faults in between do not reach it.
        set(USER_ACCESS, "0");
        equal("read_user", counter.read_user(), None)?;
        counter.read()?;
        set(USER_ACCESS, "1");
        equal("calls", CALLS.load(SeqCst), round)?;
    }
    drop(access);
    Ok(())
}

/// Runs `before`, contains faults, and runs `after`, in a child. Returns its wait status.
fn ends(before: fn(), after: fn()) -> i32 {
    wait(process::fork(|| {
        before();
        rdpmc::contain_faults().expect("signals can be handled");
        after();
        0
    }))
}

fn nothing() {}

fn dereference_null() {
    let null = std::hint::black_box(ptr::null::<u8>());
    // SAFETY: the address is not readable. The read ends this child.
    unsafe { null.read_volatile() };
}

fn illegal() {
    // SAFETY: ends this child.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("ud2");
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("udf #0");
        #[cfg(target_arch = "riscv64")]
        std::arch::asm!("unimp");
    }
}

fn set_all(to: libc::sighandler_t) {
    for signal in [libc::SIGSEGV, libc::SIGILL] {
        // SAFETY: `to` is the default action, or to ignore the signal.
        unsafe { libc::signal(signal, to) };
    }
}

fn a_null_dereference_still_kills(_: &Facts) -> Outcome {
    let default = || set_all(libc::SIG_DFL);
    let ignore = || set_all(libc::SIG_IGN);
    let one_shot = || install(libc::SA_RESETHAND);
    let killed_by = |status: i32| libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
    equal("a null dereference", killed_by(ends(default, dereference_null)), Some(libc::SIGSEGV))?;
    equal("an illegal instruction", killed_by(ends(default, illegal)), Some(libc::SIGILL))?;
    // Rust's own handler, which detects stack overflows, is there before.
    equal("Rust's", killed_by(ends(nothing, dereference_null)), Some(libc::SIGSEGV))?;
    // Faults cannot be ignored.
    equal("ignored", killed_by(ends(ignore, dereference_null)), Some(libc::SIGSEGV))?;
    // A one-shot handler that repairs nothing: the second fault ends the process.
    equal("one-shot", killed_by(ends(one_shot, dereference_null)), Some(libc::SIGSEGV))
}

fn sent_signals_are_passed_on(_: &Facts) -> Outcome {
    fn send() {
        // SAFETY: raise takes a number.
        unsafe { libc::raise(libc::SIGSEGV) };
    }
    let killed = ends(|| set_all(libc::SIG_DFL), send);
    require(libc::WIFSIGNALED(killed) && libc::WTERMSIG(killed) == libc::SIGSEGV, || {
        format!("by default: wait status {killed:#x}")
    })?;
    equal("ignored", ends(|| set_all(libc::SIG_IGN), send), 0)?;
    let handled = ends(
        || install(0),
        || {
            send();
            assert_eq!((CALLS.load(SeqCst), SIGNAL.load(SeqCst)), (1, libc::SIGSEGV));
        },
    );
    equal("handled", handled, 0)?;
    // Without SA_SIGINFO, the handler takes one number.
    extern "C" fn simple(signal: i32) {
        CALLS.fetch_add(signal as usize, SeqCst);
    }
    let handled = ends(
        || set_all(simple as *const () as usize),
        || {
            send();
            assert_eq!(CALLS.load(SeqCst), libc::SIGSEGV as usize);
        },
    );
    equal("handled simply", handled, 0)
}
