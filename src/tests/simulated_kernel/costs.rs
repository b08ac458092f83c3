//! Reads that cost more than a system call, as with a hypervisor that traps them.

use super::Reader;
use super::kernel::Kernel;
use super::stepper::{time_stamps, with};
use crate::counter::{Counter, Group};
use crate::error::access::Access;
use crate::error::{Error, ErrorKind};
use crate::event::Event as What;
use crate::open::cost::ReadCost;
use crate::open::{OpenGroup, Options, open_events};
use crate::page::fork;
use crate::page::reader::View;
use crate::tests::skips;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Returns a group whose reads in user space fault, as a hypervisor's traps do, and whose system calls read software
/// events. `choice` decides how it is read. The costs of `event` are kept in this process.
fn trapped<const N: usize>(
    reader: Reader<N>,
    event: What,
    choice: impl FnOnce(&ReadCost) -> Option<Error>,
) -> Option<(Group<N>, ReadCost)> {
    let options = Options::default();
    let opened = open_events(&options, &[What::TASK_CLOCK; N]).ok()?;
    let process = fork::process().unwrap();
    let mapped = Ok((reader.pages, reader.view));
    let repeat = View::repeat::<N>;
    let mut open = OpenGroup::new(vec![event; N], opened, mapped, 0, process, repeat);
    let cost = open.read_cost();
    if let Some(reason) = choice(&cost) {
        open.choose_system_call(reason);
    }
    Some((Group { open }, cost))
}

/// Measures both ways of a group of N, and reads by the cheaper one. Prints a row.
fn priced<const N: usize>(test: &str) {
    let kernel = Kernel::with_events(70 + N as u64, N);
    with(test, &kernel, |reader: Reader<N>| {
        time_stamps(libc::PR_TSC_ENABLE); // these are not trapped here
        let Some((group, cost)) = trapped(reader, What::raw(0x7ead), ReadCost::reason) else {
            return skips::skip(test, "no software event can be opened");
        };
        let ns = |median: Option<Duration>| median.map_or(0, |median| median.as_nanos());
        let [user, system_call, tick] = [cost.user, cost.system_call, cost.tick].map(ns);
        let trapped = if cost.is_trapped { "yes" } else { "no" };
        let access = group.access();
        let used = if access == Access::UserSpace { "user space" } else { "read(2)" };
        skips::say(&format!(
            "| {N} | {user} ns | {system_call} ns | {tick} ns | {trapped} | {used} |"
        ));
        assert!(cost.is_trapped, "{cost:?}");
        assert!(user > system_call && system_call > tick, "{cost:?}");
        assert_eq!(access.why_system_call(), Some(ErrorKind::Slower), "{access}");
        // What is known is not measured again.
        let faults = || kernel.faults.load(SeqCst);
        let before = faults();
        assert_eq!(group.read_cost(), cost);
        // No user read but where the name says so.
        let first = group.read().unwrap()[0];
        assert!(first < group.reading().unwrap()[0].value);
        assert!(first < group.read().unwrap()[0]);
        assert_eq!(faults(), before);
        assert!(group.read_user().is_some());
        assert_eq!(faults(), before + N as u64);
    });
}

#[test]
fn a_trapped_read_is_priced_and_avoided() {
    let test = "a_trapped_read_is_priced_and_avoided";
    skips::say("| counters | user space | read(2) | tick | trapped | used |");
    priced::<1>(test);
    priced::<2>(test);
    priced::<4>(test);
    priced::<8>(test);
}

/// A handle can be told to read in user space, whatever that costs.
#[test]
fn a_trapped_read_that_was_requested() {
    let test = "a_trapped_read_that_was_requested";
    let kernel = Kernel::with_events(80, 1);
    with(test, &kernel, |reader: Reader<1>| {
        let Some((group, _)) = trapped(reader, What::raw(0xbead), |_| None) else {
            return skips::skip(test, "no software event can be opened");
        };
        let counter = Counter::of_group(group);
        kernel.count(7);
        let before = kernel.faults.load(SeqCst);
        assert_eq!((counter.read(), counter.read_user()), (Ok(7), Some(7)));
        assert_eq!(kernel.faults.load(SeqCst), before + 2);
        assert_eq!(counter.access(), Access::UserSpace);
    });
    with(test, &kernel, |reader: Reader<1>| {
        let Some((group, _)) = trapped(reader, What::raw(0xbead), |_| {
            Some(Error::of_name("requested", "No action needed"))
        }) else {
            return;
        };
        let counter = Counter::of_group(group);
        let before = kernel.faults.load(SeqCst);
        assert!(counter.read().is_ok());
        assert!(counter.reading().is_ok());
        assert_eq!(kernel.faults.load(SeqCst), before);
        assert_eq!(counter.read_user(), Some(7));
        assert_eq!(counter.access().why_system_call(), Some(ErrorKind::UnknownName));
    });
}
