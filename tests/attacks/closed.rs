//! Other code closes all descriptors of the process, and their numbers become those of other files.
//!
//! No file is read, moved, controlled or closed by a handle that has lost its descriptor. Each trial runs in a process of its
//! own.

use super::work;
use crate::process::supervised::{Answer, supervised};
use crate::process::{close_all, fork, perf_descriptors, wait};
use rdpmc::error::{ErrorKind, ReadError};
use rdpmc::{Access, Counter, Event, Group, ReadBy};
use std::fmt::Debug;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How a number becomes another file's.
#[derive(Clone, Copy, Debug)]
enum By {
    /// `close_range` closes everything, and the file takes the lowest free number.
    CloseRange,
    /// `dup2` closes the event's number, and the file takes it.
    Dup2,
}

type Trial = fn([Event; 2], By) -> Result<(), String>;

const TRIALS: [(&str, Trial); 11] = [
    ("nothing", nothing),
    ("an event", an_event),
    ("files", files),
    ("files that refuse", files_that_refuse),
    ("a connection", a_connection),
    ("a group's leader", a_leader),
    ("a group's sibling", a_sibling),
    ("a dropped handle", a_dropped_handle),
    ("the child of a fork", the_child_of_a_fork),
    ("a thread with a table of its own", a_thread_with_its_own_table),
    ("a filter that refuses the comparison", a_refused_comparison),
];

/// Runs all trials with two events that advance with [`work`]. Returns what went wrong.
pub fn each(events: [Event; 2]) -> Result<(), String> {
    let mut wrong = Vec::new();
    for (name, trial) in TRIALS {
        for by in [By::CloseRange, By::Dup2] {
            let status = wait(fork(|| {
                // SAFETY: alarm takes a number. A child that waits for a file is killed.
                unsafe { libc::alarm(120) };
                match trial(events, by) {
                    Ok(()) => 0,
                    Err(why) => {
                        eprintln!("{name} by {by:?}: {why}");
                        1
                    }
                }
            }));
            if status != 0 {
                wrong.push(format!("{name} by {by:?}: wait status {status:#x}"));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

/// An open handle, and the numbers of its descriptors.
struct Opened<T> {
    handle: T,
    numbers: Vec<RawFd>,
}

fn opened<T, E: Debug>(open: impl FnOnce() -> Result<T, E>) -> Result<Opened<T>, String> {
    let before = perf_descriptors();
    let handle = open().map_err(|why| format!("opening: {why:?}"))?;
    let numbers = perf_descriptors();
    let numbers = numbers.into_iter().filter(|number| !before.contains(number)).collect();
    Ok(Opened { handle, numbers })
}

/// A counter that is always read by system call.
fn counter(event: Event) -> Result<Opened<Counter>, String> {
    let builder = Counter::builder(event).allow_all_privilege_levels(true);
    opened(|| builder.read_by(ReadBy::SystemCall).open())
}

fn group(events: [Event; 2]) -> Result<Opened<Group<2>>, String> {
    let builder = Group::builder(events).allow_all_privilege_levels(true);
    opened(|| builder.read_by(ReadBy::SystemCall).open())
}

/// Makes `number` that of the file `of`, too.
fn take(number: RawFd, of: RawFd) {
    // SAFETY: the call takes integers. What had the number before expects to lose it.
    assert_eq!(unsafe { libc::dup2(of, number) }, number);
}

/// Makes a number that of the file `open` returns. Returns the file as it is then open.
fn replace<T: AsRawFd>(
    number: RawFd,
    by: By,
    open: impl FnOnce() -> T,
    from: impl FnOnce(RawFd) -> T,
) -> T {
    match by {
        By::CloseRange => {
            close_all();
            open()
        }
        By::Dup2 => {
            let file = open();
            take(number, file.as_raw_fd());
            let replaced = from(number);
            // A read compares once in each period of the coarse clock.
            std::thread::sleep(Duration::from_millis(30));
            replaced
        }
    }
}

fn file_of(number: RawFd) -> File {
    // SAFETY: the caller has just made this number, and owns it.
    unsafe { File::from_raw_fd(number) }
}

fn same<T: PartialEq + Debug>(what: &str, is: T, should: T) -> Result<(), String> {
    if is == should { Ok(()) } else { Err(format!("{what}: {is:?} in place of {should:?}")) }
}

/// Every call that needs the descriptor says that it was closed.
fn is_closed(counter: &Counter) -> Result<(), String> {
    let closed = Err(ReadError::Closed);
    same("read", counter.read().map(drop), closed)?;
    same("reading", counter.reading().map(drop), closed)?;
    same("reading_by_system_call", counter.reading_by_system_call().map(drop), closed)?;
    same("reset", counter.reset(), closed)?;
    same("disable", counter.disable(), closed)?;
    same("enable", counter.enable(), closed)?;
    same("read", counter.read().map(drop), closed)
}

fn group_is_closed(group: &Group<2>) -> Result<(), String> {
    let closed = Err(ReadError::Closed);
    same("read", group.read().map(drop), closed)?;
    same("reset", group.reset(), closed)?;
    same("disable", group.disable(), closed)?;
    same("enable", group.enable(), closed)?;
    same("read_cost", group.read_cost().system_call, None)
}

/// Nothing has reset or stopped the counter of `read`: it goes on from `least`. It may have to wait for its turn on the PMU.
fn goes_on(read: impl Fn() -> Result<u64, ReadError>, least: u64) -> Result<(), String> {
    for _ in 0..1_000 {
        work();
        match read().map_err(|why| format!("the other's read: {why:?}"))? {
            count if count > least => return Ok(()),
            count if count == least => std::thread::sleep(Duration::from_millis(1)),
            count => return Err(format!("the other's count went from {least} to {count}")),
        }
    }
    Err(format!("the other's count stays {least}"))
}

fn nothing([event, _]: [Event; 2], by: By) -> Result<(), String> {
    let Opened { handle, numbers } = counter(event)?;
    handle.read().map_err(|why| why.to_string())?;
    match by {
        By::CloseRange => close_all(),
        // SAFETY: the number is the counter's, which is told.
        By::Dup2 => assert_eq!(unsafe { libc::close(numbers[0]) }, 0),
    }
    is_closed(&handle)?;
    // User space can read it, in spite of the request.
    let is_user = handle.read_user().is_some();
    let reason = if is_user { ErrorKind::Requested } else { ErrorKind::Closed };
    same("access", handle.access().why_system_call(), Some(reason))
}

fn an_event([event, other]: [Event; 2], by: By) -> Result<(), String> {
    let Opened { handle, numbers } = counter(event)?;
    handle.read().map_err(|why| why.to_string())?;
    let other = match by {
        By::CloseRange => {
            close_all();
            counter(other)?.handle
        }
        By::Dup2 => {
            let other = counter(other)?;
            take(numbers[0], other.numbers[0]);
            other.handle
        }
    };
    work();
    let least = other.read().map_err(|why| why.to_string())?;
    is_closed(&handle)?;
    goes_on(|| other.read(), least)?;
    drop(handle);
    goes_on(|| other.read(), least)
}

fn files([event, _]: [Event; 2], by: By) -> Result<(), String> {
    // One count has 32 bytes, one without its identifier 24.
    for length in [0, 1, 24, 32, 88, 4096] {
        let Opened { handle, numbers } = counter(event)?;
        handle.read().map_err(|why| why.to_string())?;
        let mut file = replace(numbers[0], by, || file_of_sevens(length), file_of);
        is_closed(&handle)?;
        drop(handle);
        same("the position", file.stream_position().ok(), Some(0))?;
        let mut contents = Vec::new();
        file.read_to_end(&mut contents).map_err(|why| format!("the file: {why}"))?;
        same("the file's length", contents.len(), length)?;
    }
    Ok(())
}

/// A read of these fails, for reasons of their own. They are none of the counter's.
fn files_that_refuse([event, _]: [Event; 2], by: By) -> Result<(), String> {
    let opens: [fn() -> RawFd; 4] = [
        // SAFETY: the calls take integers, and a string that ends with a zero.
        || unsafe { libc::open(c"/".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY) },
        // SAFETY: as above.
        || unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) },
        // SAFETY: as above.
        || unsafe { libc::epoll_create1(0) },
        // SAFETY: as above.
        || unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK) },
    ];
    for open in opens {
        let Opened { handle, numbers } = counter(event)?;
        handle.read().map_err(|why| why.to_string())?;
        match by {
            By::CloseRange => {
                close_all();
                assert!(open() >= 0);
            }
            By::Dup2 => take(numbers[0], open()), // without a pause, so that the read finds the file out
        }
        is_closed(&handle)?;
    }
    Ok(())
}

/// A file in memory, at its start.
fn file_of_sevens(length: usize) -> File {
    // SAFETY: the name is a string.
    let number = unsafe { libc::memfd_create(c"sevens".as_ptr(), 0) };
    assert!(number >= 0);
    let mut file = file_of(number);
    file.write_all(&vec![7; length]).and_then(|()| file.rewind()).expect("memory");
    file
}

fn a_connection([event, _]: [Event; 2], by: By) -> Result<(), String> {
    let Opened { handle, numbers } = counter(event)?;
    handle.read().map_err(|why| why.to_string())?;
    let mut peer = None;
    let open = || {
        let (one, other) = UnixStream::pair().expect("a connection");
        peer = Some(other);
        one
    };
    // SAFETY: `replace` has just made this number, for the caller.
    let from = |number| unsafe { UnixStream::from_raw_fd(number) };
    let is_compared = is_software(&handle.access()) || matches!(by, By::CloseRange);
    let mut connection = replace(numbers[0], by, open, from);
    let mut peer = peer.ok_or("no peer")?;
    let request = [7; 100];
    let mut send = || peer.write_all(&request).map_err(|why| why.to_string());
    if is_compared {
        is_closed(&handle)?; // an idle connection: a read of it waits for ever
        send()?;
        is_closed(&handle)?;
    } else {
        // The one read that the documentation leaves open: it takes 32 bytes, and no later one does.
        send()?;
        is_closed(&handle)?;
        is_closed(&handle)?;
    }
    drop(handle);
    drop(peer);
    let mut left = Vec::new();
    connection.read_to_end(&mut left).map_err(|why| format!("the connection: {why}"))?;
    same("what is left of 100 bytes", left.len(), if is_compared { 100 } else { 68 })
}

fn a_leader(events: [Event; 2], by: By) -> Result<(), String> {
    let Opened { handle, numbers } = group(events)?;
    handle.read().map_err(|why| why.to_string())?;
    let other = match by {
        By::CloseRange => {
            close_all();
            group([events[1], events[0]])?.handle
        }
        By::Dup2 => {
            let other = group([events[1], events[0]])?;
            for (number, file) in numbers.iter().zip(&other.numbers) {
                take(*number, *file);
            }
            other.handle
        }
    };
    work();
    let least = other.read().map_err(|why| why.to_string())?;
    group_is_closed(&handle)?;
    drop(handle);
    goes_on(|| Ok(other.read()?[0]), least[0])
}

/// A sibling that is mapped stays in its group, which then counts as before. Otherwise the group is incomplete.
fn a_sibling(events: [Event; 2], by: By) -> Result<(), String> {
    let Opened { handle, numbers } = group(events)?;
    let before = handle.read().map_err(|why| why.to_string())?;
    let other = counter(events[1])?;
    let sibling = numbers[1];
    let is_mapped = matches!(
        handle.access().why_system_call(),
        Some(ErrorKind::Requested | ErrorKind::NotScheduled)
    );
    match by {
        // SAFETY: the number is the group's, which is told.
        By::CloseRange => assert_eq!(unsafe { libc::close(sibling) }, 0),
        By::Dup2 => take(sibling, other.numbers[0]),
    }
    work();
    let least = other.handle.read().map_err(|why| why.to_string())?;
    match (is_mapped, handle.read()) {
        (false, Err(ReadError::Closed)) => {}
        (true, Ok(_)) => {
            goes_on(|| Ok(handle.read()?[0]), before[0])?;
            goes_on(|| Ok(handle.read()?[1]), before[1])?;
        }
        unexpected => return Err(format!("{unexpected:?}")),
    }
    drop(handle);
    goes_on(|| other.handle.read(), least)
}

fn is_software(access: &Access) -> bool {
    access.why_system_call() == Some(ErrorKind::SoftwareEvent)
}

fn a_dropped_handle([event, _]: [Event; 2], by: By) -> Result<(), String> {
    let Opened { handle, numbers } = counter(event)?;
    let open = || File::open("/dev/zero").expect("zeros");
    let mut file = replace(numbers[0], by, open, file_of);
    handle.read_cost(); // which neither reads it nor waits
    drop(handle);
    let mut byte = [1];
    file.read_exact(&mut byte).map_err(|why| format!("after the drop: {why}"))?;
    same("the file", byte, [0])
}

fn the_child_of_a_fork([event, _]: [Event; 2], by: By) -> Result<(), String> {
    let Opened { handle, numbers } = counter(event)?;
    let before = handle.read().map_err(|why| why.to_string())?;
    let mut handle = Some(handle);
    let status = wait(fork(|| {
        let Some(handle) = handle.take() else { return 1 };
        let open = || File::open("/dev/zero").expect("zeros");
        let mut file = replace(numbers[0], by, open, file_of);
        let forked = Err(ReadError::Forked);
        let is_forked = handle.read().map(drop) == forked && handle.reset() == forked;
        drop(handle);
        let mut byte = [1];
        if is_forked && file.read_exact(&mut byte).is_ok() { i32::from(byte[0]) } else { 2 }
    }));
    same("the child's status", status, 0)?;
    let handle = handle.ok_or("the parent's handle")?;
    goes_on(|| handle.read(), before)
}

/// In the table of the process, the number is still the event's.
fn a_thread_with_its_own_table([event, _]: [Event; 2], by: By) -> Result<(), String> {
    let trial = move || {
        let Opened { handle, numbers } = counter(event)?;
        handle.read().map_err(|why| why.to_string())?;
        // SAFETY: the call takes an integer.
        if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
            return Err("unshare".to_owned());
        }
        let mut file = replace(numbers[0], by, || file_of_sevens(4096), file_of);
        is_closed(&handle)?;
        drop(handle);
        same("the position", file.stream_position().ok(), Some(0))
    };
    std::thread::spawn(trial).join().map_err(|_| "it panicked".to_owned())?
}

/// If a filter refuses the request for the identifier, that comes from a read. A filter or a driver may also answer 0, and write
/// none.
fn a_refused_comparison(events: [Event; 2], by: By) -> Result<(), String> {
    /// `PERF_EVENT_IOC_ID`, without what differs between architectures.
    const ID: u64 = 0x2407;
    let trials: &[Trial] = match by {
        By::CloseRange => &[nothing, a_dropped_handle],
        By::Dup2 => &[an_event, a_dropped_handle, an_event_without_an_identifier],
    };
    for answer in [Answer::Refuse(libc::EPERM), Answer::Return(0)] {
        let status = supervised(
            &[libc::SYS_ioctl],
            |call| if call.arguments[1] & 0xffff == ID { answer } else { Answer::Pass },
            |switch| {
                switch.set(true);
                let result = trials.iter().try_for_each(|trial| trial(events, by));
                switch.set(false);
                match result {
                    Ok(()) => 0,
                    Err(why) => {
                        eprintln!("{answer:?}: {why}");
                        1
                    }
                }
            },
        );
        let Some(status) = status else {
            eprintln!(
                "a refused comparison was not tried: no other process may answer system calls here"
            );
            return Ok(());
        };
        same("the child's status", status, 0)?;
    }
    Ok(())
}

/// Other code's event, the answer of which may be too short for an identifier.
fn an_event_without_an_identifier([event, _]: [Event; 2], _: By) -> Result<(), String> {
    for read_format in [0_u64, 1, 3, 8] {
        let Opened { handle, numbers } = counter(event)?;
        // A software event of this thread, in the smallest form that the kernel knows.
        let mut attr = [0_u64; 8];
        attr[0] = 1 | 64 << 32; // type and size
        attr[1] = 2; // page faults
        attr[4] = read_format;
        attr[5] = 0b110_0000; // without kernel and hypervisor
        // SAFETY: the kernel reads 64 bytes there, as the second word says.
        let other =
            unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, 0, -1, -1, 0) };
        let other = RawFd::try_from(other).map_err(|why| why.to_string())?;
        assert!(other >= 0, "a software event can be opened");
        take(numbers[0], other);
        drop(handle);
        // SAFETY: the call takes integers.
        let is_open = unsafe { libc::fcntl(numbers[0], libc::F_GETFD) } >= 0;
        // SAFETY: both are this trial's.
        unsafe { (libc::close(numbers[0]), libc::close(other)) };
        same(&format!("the other event is open, format {read_format}"), is_open, true)?;
    }
    Ok(())
}
