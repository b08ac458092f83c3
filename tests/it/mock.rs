//! A counter whose counts a test sets behaves as one of the kernel's does. Needs no permission and no PMU.

use rdpmc::error::{Disturbed, ErrorKind, ReadError};
use rdpmc::{Access, Counter, Event, Reading};
use std::time::Duration;

/// No machine has this event.
const EVENT: Event = Event::of_pmu(u32::MAX, 0x1234);

#[test]
fn counts_what_the_test_says() {
    let (counter, mock) = Counter::mock(EVENT);
    assert_eq!((counter.read_user(), counter.read()), (Some(0), Ok(0)));
    mock.set(5);
    let before = counter.snapshot().unwrap();
    mock.clone().add(37);
    assert_eq!((counter.read_user(), counter.read()), (Some(42), Ok(42)));
    let delta = counter.snapshot().unwrap() - before;
    assert_eq!((delta.counts(), delta.disturbed()), ([37], None));
    assert_eq!(counter.access(), Access::UserSpace);
    assert_eq!(counter.event(), EVENT);
    let (other, _) = Counter::mock(EVENT);
    let delta = other.snapshot().unwrap() - before;
    assert_eq!(delta.disturbed(), Some(Disturbed::OtherCounters));
    mock.set(u64::MAX);
    mock.add(3);
    assert_eq!(counter.read_user(), Some(2));
}

#[test]
fn obeys_its_handle() {
    let (counter, mock) = Counter::mock(EVENT);
    mock.add(1);
    counter.disable().unwrap();
    mock.add(10);
    assert_eq!((counter.read_user(), counter.read()), (None, Ok(1)));
    assert_eq!(counter.access().why_system_call(), Some(ErrorKind::NotScheduled));
    counter.enable().unwrap();
    mock.add(100);
    assert_eq!(counter.read_user(), Some(101));
    counter.reset().unwrap();
    assert_eq!(counter.read_user(), Some(0));
    drop(counter);
    mock.add(1); // of a handle that is gone
}

#[test]
fn has_the_times_of_multiplexing() {
    let (counter, mock) = Counter::mock(EVENT);
    mock.set(10);
    let [enabled, running] = [4, 1].map(Duration::from_micros);
    mock.set_times(enabled, running);
    assert_eq!(counter.reading(), Ok(Reading::new(10, enabled, running)));
    assert_eq!(counter.reading().unwrap().scaled(), Some(40));
    assert_eq!(counter.reading_user(), None);
    mock.set_times(Duration::MAX, Duration::MAX);
    assert_eq!(counter.reading().unwrap().time_enabled(), Duration::from_nanos(u64::MAX));
}

#[test]
fn loses_its_counter() {
    let (mut counter, mock) = Counter::mock(EVENT);
    mock.set(7);
    mock.set_scheduled(false);
    assert_eq!((counter.read_user(), counter.read()), (None, Ok(7)));
    assert!(counter.snapshot().is_none());
    assert_eq!(counter.access().why_system_call(), Some(ErrorKind::NotScheduled));
    let retried = counter.retry_user().unwrap();
    assert_eq!(retried.why_system_call(), Some(ErrorKind::NotScheduled));
    mock.add(1);
    assert_eq!(counter.read(), Ok(7));
    mock.set_scheduled(true);
    mock.set_error_state(true);
    assert_eq!((counter.read_user(), counter.read()), (None, Err(ReadError::ErrorState)));
    assert_eq!(counter.access().why_system_call(), Some(ErrorKind::ErrorState));
    assert!(format!("{counter:?}").contains("ErrorState"), "{counter:?}");
    mock.set_error_state(false);
    assert_eq!(counter.read_user(), Some(7));
    mock.set_error_state(true);
    counter.enable().unwrap();
    assert_eq!(counter.read_user(), Some(7));
}

#[test]
fn what_updates_a_page_disturbs() {
    let (counter, mock) = Counter::mock(EVENT);
    let is_disturbed = |what: &dyn Fn()| {
        let before = counter.snapshot().unwrap();
        what();
        (counter.snapshot().unwrap() - before).disturbed().is_some()
    };
    assert!(!is_disturbed(&|| mock.add(5)));
    assert!(is_disturbed(&|| counter.reset().unwrap()));
    assert!(is_disturbed(&|| {
        counter.disable().unwrap();
        counter.enable().unwrap();
    }));
    assert!(is_disturbed(&|| {
        mock.set_scheduled(false);
        mock.set_scheduled(true);
    }));
}

/// A handle can be moved into `catch_unwind`.
#[test]
fn handles_are_unwind_safe() {
    fn moves<T: std::panic::UnwindSafe>() {}
    moves::<Counter>();
    fn is_safe<T: std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    is_safe::<rdpmc::Group<2>>();
    is_safe::<rdpmc::DynGroup>();
    is_safe::<rdpmc::Mock>();
}

#[test]
fn has_no_registers() {
    let (counter, mock) = Counter::mock(EVENT);
    mock.set(7);
    match counter.region() {
        Err(why) => {
            assert_eq!((why.kind(), why.event()), (ErrorKind::UserReadUnavailable, Some(EVENT)));
            assert!(why.cause().ends_with("no register holds this event's count"), "{why}");
        }
        other => panic!("{:?}", other.map(drop)),
    }
    assert_eq!((counter.width(), counter.known_reads(1)), (None, false));
    assert_eq!((counter.read_cost().user, counter.read_cost().system_call), (None, None));
}

/// The mock's counts are in the memory of the process, and so would be those of its child.
#[cfg(target_os = "linux")]
#[test]
fn belongs_to_its_process() {
    let (counter, mock) = Counter::mock(EVENT);
    mock.set(7);
    // SAFETY: the child makes no call but those of the mock, which allocate nothing, and `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_useless = counter.read_user().is_none()
            && counter.read() == Err(ReadError::Forked)
            && counter.access() == Access::Forked;
        // SAFETY: ends this process.
        unsafe { libc::_exit(if is_useless { 0 } else { 1 }) }
    }
    let mut status = -1;
    // SAFETY: waits for the child, and `status` is valid for the write.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(counter.read_user(), Some(7));
}
