//! Handles whose reads fault for real. The control page is simulated, and this process may not execute `rdpmc`.
//!
//! Each test runs in processes of its own, in which faults are contained.
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use super::process::{self, in_child};
use super::reader::{Reader, map};
use super::skips;
use crate::counter::{Counter, Group};
use crate::error::access::Access;
use crate::error::{Disturbed, ErrorKind, ReadError};
use crate::event::Event;
use crate::kernel::{ControlPage, Descriptor, capability};
use crate::open::{OpenGroup, Opened, Options, open_events};
use crate::page::fork;
use crate::page::reader::View;
use crate::pmu::core_types;
use std::arch::asm;
use std::cell::Cell;
use std::fs::File;
use std::mem::offset_of;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr;

/// A file with a page of this index.
fn page_of(index: u32) -> Descriptor {
    // SAFETY: the descriptor and the mapping are new, and the writes are within it.
    unsafe {
        let memory = libc::memfd_create(c"page".as_ptr(), libc::MFD_CLOEXEC);
        assert!(memory >= 0);
        assert_eq!(libc::ftruncate(memory, 4096), 0);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let page = libc::mmap(ptr::null_mut(), 4096, access, libc::MAP_SHARED, memory, 0);
        assert_ne!(page, libc::MAP_FAILED);
        let page = page.cast::<ControlPage>();
        (*page).capabilities = capability::BIT0_IS_DEPRECATED | capability::USER_RDPMC;
        (*page).pmc_width = 48;
        (*page).index = index;
        (*page).lock = 2;
        Descriptor::imitated_by(OwnedFd::from_raw_fd(memory))
    }
}

fn reader_of(index: u32) -> Reader<1> {
    Reader::new(map(&[&page_of(index)]))
}

/// Returns a handle whose user reads fault, and whose system calls read the thread's time.
fn group_of(index: u32) -> Group<1> {
    let opened = open_events(&Options::default(), &[Event::TASK_CLOCK]).unwrap();
    group(reader_of(index), opened)
}

fn group(reader: Reader<1>, opened: Opened) -> Group<1> {
    let mapped = Ok((reader.pages, reader.view));
    let (events, process) = (vec![Event::raw(1)], fork::process().unwrap());
    Group { open: OpenGroup::new(events, opened, mapped, 0, process, View::repeat::<1>) }
}

/// Returns whether this can be tried. If not, skips the test with the reason.
fn can_fault(test: &str) -> bool {
    if core_types::may_be_several() != Ok(false) {
        skips::skip(test, "there are several core types, or they are unknown");
        return false;
    }
    let is_open = std::fs::read_to_string("/sys/bus/event_source/devices/cpu/rdpmc");
    if is_open.is_ok_and(|setting| setting.trim() == "2") {
        skips::skip(test, "the setting rdpmc is 2 here, so rdpmc does not fault");
        return false;
    }
    match Counter::open(Event::TASK_CLOCK) {
        Ok(_) => true,
        Err(why) => {
            skips::skip(test, &why.to_string());
            false
        }
    }
}

/// Contains faults, and finds out that there is one core type, as opening a hardware event does. Then the first fault is
/// certain.
fn contain_faults() {
    crate::contain_faults().unwrap();
    core_types::may_be_several().unwrap();
}

fn why(retried: &Result<Access, ReadError>) -> Option<ErrorKind> {
    retried.as_ref().ok()?.why_system_call()
}

fn check(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

const REFUSED: Option<ErrorKind> = Some(ErrorKind::Refused);

#[test]
fn a_fault_is_noticed_whoever_meets_it_first() {
    if !can_fault("a_fault_is_noticed_whoever_meets_it_first") {
        return;
    }
    in_child(|| {
        contain_faults();
        let faults = crate::contained_faults;
        let is_refused = |group: &Group<1>| {
            let access = group.access().why_system_call();
            let region = group.region().err();
            let kind = region.as_ref().map(|why| why.kind());
            let is_unavailable = kind == Some(ErrorKind::UserReadUnavailable);
            check(access == REFUSED && is_unavailable, || format!("{access:?}, {region:?}"))
        };
        // The question itself.
        is_refused(&group_of(1))?;
        // A region that is made first.
        let group = group_of(2);
        check(group.region().is_err(), || "a region of what cannot be read".into())?;
        is_refused(&group)?;
        // A read.
        let counter = Counter::of_group(group_of(3));
        let before = faults();
        for _ in 0..100 {
            let (user, read) = (counter.read_user(), counter.read());
            check(user.is_none() && read.is_ok(), || format!("{user:?}, {read:?}"))?;
        }
        check(faults() == before + 1, || format!("{} faults", faults() - before))?;
        check(counter.access().why_system_call() == REFUSED, || format!("{:?}", counter.access()))?;
        // A region over the revocation.
        let reader = reader_of(4);
        let region: crate::Region<'_, 1> = crate::Region::new(&reader.view);
        let samples = [(); 3].map(|()| region.measure(|| ()).1);
        let is_told = matches!(samples[0], Err(Disturbed::Interrupted { .. }));
        check(is_told && samples[1..] == [Err(Disturbed::NoCounter); 2], || format!("{samples:?}"))
    })
    .unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn a_handle_that_gave_up_is_controlled_as_before() {
    if !can_fault("a_handle_that_gave_up_is_controlled_as_before") {
        return;
    }
    in_child(|| {
        contain_faults();
        let group = group_of(1);
        check(group.read_user().is_none(), || "a count".into())?;
        group.disable().unwrap();
        group.reset().unwrap();
        let spin = || {
            for n in 0..1_000_000 {
                std::hint::black_box(n);
            }
        };
        let first = group.read().unwrap();
        spin();
        check(group.read() == Ok(first), || "reset has started a stopped counter".into())?;
        group.enable().unwrap();
        spin();
        check(group.read().unwrap() > first, || "it stands still".into())
    })
    .unwrap_or_else(|why| panic!("{why}"));
}

/// A retry that the kernel refuses is not the last one.
#[test]
fn a_retry_may_fail() {
    if !can_fault("a_retry_may_fail") {
        return;
    }
    in_child(|| {
        contain_faults();
        let mut group = group_of(1);
        check(group.read_user().is_none(), || "a count".into())?;
        let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limits` is valid for the calls.
        unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limits) };
        let low = libc::rlimit { rlim_cur: 4096, ..limits };
        // SAFETY: as above.
        unsafe { libc::setrlimit(libc::RLIMIT_AS, &low) };
        let refused = group.retry_user();
        // SAFETY: as above.
        unsafe { libc::setrlimit(libc::RLIMIT_AS, &limits) };
        let is_told = why(&refused) == Some(ErrorKind::NotMapped);
        check(is_told, || format!("{refused:?}"))?;
        // The descriptor is a software event's, whose page offers nothing.
        let offered = group.retry_user();
        let is_told = why(&offered) == Some(ErrorKind::NotOffered);
        check(is_told, || format!("{offered:?}"))?;
        check(group.read().is_ok(), || "no count".into())
    })
    .unwrap_or_else(|why| panic!("{why}"));
}

/// A filter refuses what the handler needs: each read faults, and nothing else happens.
#[test]
fn a_handler_that_may_not_map() {
    if !can_fault("a_handler_that_may_not_map") {
        return;
    }
    in_child(|| {
        contain_faults();
        let reader = reader_of(1);
        process::refuse(libc::SYS_mmap, libc::EACCES);
        let before = crate::contained_faults();
        // SAFETY: the C library returns the address of this thread's error number.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: valid, as above.
        unsafe { errno.write(99) };
        let counts = [(); 5].map(|()| reader.counts());
        // SAFETY: valid, as above.
        let errno = unsafe { errno.read() };
        let faults = crate::contained_faults() - before;
        check(counts == [None; 5] && faults == 5 && errno == 99, || {
            format!("{counts:?}, {faults} faults, errno {errno}")
        })
    })
    .unwrap_or_else(|why| panic!("{why}"));
}

/// A child in which no fork handlers run has its parent's list, and holes in place of the pages.
#[test]
fn a_counter_of_a_child_without_fork_handlers() {
    if !can_fault("a_counter_of_a_child_without_fork_handlers") {
        return;
    }
    in_child(|| {
        contain_faults();
        let options = Options::default();
        let opened = open_events(&options, &[Event::TASK_CLOCK]).unwrap();
        let parents = map(&[&opened.leader]);
        let reader = reader_of(1);
        // SAFETY: the child only reads and ends.
        let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } as i32;
        if child == 0 {
            let is_none = reader.counts().is_none();
            // SAFETY: ends this child, and runs nothing of the parent's.
            unsafe { libc::_exit(i32::from(!is_none)) };
        }
        let status = process::wait(child);
        drop(parents);
        check(status == 0, || format!("the child ended with wait status {status:#x}"))
    })
    .unwrap_or_else(|why| panic!("{why}"));
}

thread_local! {
    /// The steps so far, and the one at which the handler reads.
    static STEPS: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
    static OTHER: Cell<*const Reader<1>> = const { Cell::new(ptr::null()) };
}

extern "C" fn on_trap(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let (step, last) = STEPS.get();
    STEPS.set((step + 1, last));
    if step == last {
        // SAFETY: the context is the interrupted thread's, and only this handler uses it now. The reader is alive
        // until the child ends.
        unsafe {
            let context = &mut *context.cast::<libc::ucontext_t>();
            context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !0x100;
            assert!((*OTHER.get()).counts().is_none());
        }
    }
}

/// A signal handler reads another handle, and faults, after every single instruction of a drop.
#[test]
fn a_fault_after_every_single_instruction_of_a_drop() {
    if !can_fault("a_fault_after_every_single_instruction_of_a_drop") {
        return;
    }
    const IS_OVER: i32 = 7;
    let mut steps = 0;
    loop {
        let child = process::fork(|| {
            contain_faults();
            // SAFETY: the action is fully initialized.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_trap as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO;
                assert_eq!(libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()), 0);
            }
            let (dropped, other) = (reader_of(1), reader_of(2));
            OTHER.set(&other);
            STEPS.set((0, steps));
            // SAFETY: sets the trap flag and nothing else. Its handler is installed.
            unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
            drop(dropped);
            // SAFETY: clears the trap flag and nothing else.
            unsafe { asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq") };
            let (step, last) = STEPS.get();
            if step <= last { IS_OVER } else { 0 }
        });
        match process::wait(child) {
            0 => steps += 1,
            status if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == IS_OVER => break,
            status => panic!("step {steps}: the child ended with wait status {status:#x}"),
        }
    }
    assert!(steps > 50, "{steps} steps");
}

/// A handle whose pages are mapped again reads the new ones.
#[test]
fn a_retry_maps_the_pages_again() {
    if !can_fault("a_retry_maps_the_pages_again") {
        return;
    }
    in_child(|| {
        contain_faults();
        // The leader is the file of the page, so that it can be mapped again.
        let memory = page_of(1);
        let reader: Reader<1> = Reader::new(map(&[&memory]));
        // SAFETY: the number is that of the page's file.
        let file = unsafe { BorrowedFd::borrow_raw(memory.number()) };
        let file = File::from(file.try_clone_to_owned().unwrap());
        let mut opened = open_events(&Options::default(), &[Event::TASK_CLOCK]).unwrap();
        opened.leader = memory;
        let mut group = group(reader, opened);
        check(group.read_user().is_none() && group.access().why_system_call() == REFUSED, || {
            "a count".into()
        })?;
        let index = offset_of!(ControlPage, index) as u64;
        file.write_all_at(&0_u32.to_ne_bytes(), index).unwrap(); // no counter now, so that nothing is stopped
        let retried = group.retry_user();
        let is_mapped = why(&retried) == Some(ErrorKind::NotScheduled);
        check(is_mapped && !group.open.is_scheduled(), || format!("{retried:?}"))?;
        let faults = crate::contained_faults();
        file.write_all_at(&1_u32.to_ne_bytes(), index).unwrap();
        check(group.open.is_scheduled() && group.read_user().is_none(), || "a count".into())?;
        check(crate::contained_faults() == faults + 1, || "the new page is not read".into())
    })
    .unwrap_or_else(|why| panic!("{why}"));
}
