//! The system calls of Linux.
#![allow(unsafe_code)]

use super::{Attr, Control, ControlPage, Errno, STRIDE, ioctl, open_flag};
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use libc::{
    E2BIG, EACCES, EAGAIN, EBUSY, EEXIST, EFBIG, EINTR, EINVAL, EIO, EMFILE, ENFILE, ENODEV,
    ENOENT, ENOMEM, ENOSPC, ENOSYS, ENOTDIR, EOPNOTSUPP, EPERM,
};

/// Whether this target has `perf_event_open` at all.
pub(crate) const SUPPORTED: bool = true;

/// A perf event's descriptor.
pub(crate) type Descriptor = OwnedFd;

pub(crate) fn last_error() -> Errno {
    Errno(io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// `perf_event_open` for the calling thread on whatever processor it runs, in the group of
/// `leader` or as the leader of one of its own, closed on exec. On `E2BIG` the kernel has written
/// the size it knows into `attr.size`. The error is 0 where a filter answers 0 and opens nothing.
pub(crate) fn open(attr: &mut Attr, leader: Option<&Descriptor>) -> Result<Descriptor, Errno> {
    const THIS_THREAD: libc::pid_t = 0;
    const ANY_PROCESSOR: libc::c_int = -1;
    const OWN_GROUP: libc::c_int = -1;
    let group = leader.map_or(OWN_GROUP, |leader| leader.as_raw_fd());
    let mut retries = 0..INTERRUPTED_AT_MOST;
    let descriptor = loop {
        // SAFETY: attr is valid for reads and writes of the attr.size bytes (at most its own
        // size) that the kernel looks at, and the call keeps no pointer to it.
        let descriptor = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                ptr::from_mut(attr),
                THIS_THREAD,
                ANY_PROCESSOR,
                group,
                open_flag::FD_CLOEXEC as libc::c_ulong,
            )
        };
        if descriptor >= 0 {
            break descriptor as libc::c_int;
        }
        match last_error() {
            Errno(EINTR) if retries.next().is_some() => {}
            error => return Err(error),
        }
    };
    if descriptor == 0 && !is_event(descriptor) {
        return Err(Errno(0));
    }
    // SAFETY: the kernel has just returned this descriptor, and nobody else knows it. A seccomp filter
    // that answers in the kernel's place can make up errors and 0, which has been ruled out. A
    // supervisor that makes up another number (ptrace, user notification) is trusted like the kernel.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The kernel answers `EINTR` while another thread of the process is in `exec`, which ends this
/// thread or fails soon. A seccomp filter may answer it forever.
const INTERRUPTED_AT_MOST: u32 = 100;

/// Whether a descriptor is a perf event's, by a request that only events know. No on kernels before
/// 3.12, too.
fn is_event(descriptor: libc::c_int) -> bool {
    let mut id = 0_u64;
    // SAFETY: the request writes a u64, for which `id` is valid. What is no event refuses it: no
    // other kind of file has a request of this number.
    unsafe { libc::ioctl(descriptor, ioctl::ID as _, &raw mut id) == 0 }
}

/// `read(2)`: the bytes the kernel wrote, 0 for an event in error state.
pub(crate) fn read(event: &Descriptor, into: &mut [u64]) -> Result<usize, Errno> {
    // SAFETY: `into` is valid for writes of its size in bytes, and any bytes make a u64.
    let bytes =
        unsafe { libc::read(event.as_raw_fd(), into.as_mut_ptr().cast(), size_of_val(into)) };
    usize::try_from(bytes).map_err(|_| last_error())
}

/// `ioctl(2)` for the whole group that this event leads.
pub(crate) fn control(leader: &Descriptor, what: Control) -> Result<(), Errno> {
    let request = match what {
        Control::Enable => ioctl::ENABLE,
        Control::Disable => ioctl::DISABLE,
        Control::Reset => ioctl::RESET,
    };
    let argument = ioctl::FLAG_GROUP as libc::c_ulong;
    // SAFETY: these three requests take a plain number and touch no memory of ours.
    match unsafe { libc::ioctl(leader.as_raw_fd(), request as _, argument) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

/// CLOCK_MONOTONIC_RAW in nanoseconds, as the C library gets it: mostly without a system call. A
/// thread that has forbidden itself the tick counter would be killed there, and has to make one.
pub(crate) fn monotonic_raw(by_system_call: bool) -> Result<u64, Errno> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let clock = libc::CLOCK_MONOTONIC_RAW;
    // SAFETY: time is valid for the write. The system call writes the same structure as the
    // function, as it has one size on 64-bit targets, the only ones whose ticks are read here.
    let result = unsafe {
        match by_system_call {
            #[cfg(target_pointer_width = "64")]
            true => libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) as libc::c_int,
            _ => libc::clock_gettime(clock, &raw mut time),
        }
    };
    match result {
        0 => {
            let (seconds, nanoseconds) = (time.tv_sec as u64, time.tv_nsec as u64);
            Ok(seconds.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds))
        }
        _ => Err(last_error()),
    }
}

/// The numbers of the processors that this thread may run on (`sched_getaffinity`). None at all if
/// there are more than anybody has.
pub(crate) fn allowed_cpus() -> Vec<u32> {
    const THIS_THREAD: libc::pid_t = 0;
    let mut words = [0_u64; 256];
    // SAFETY: words is valid for writes of its size in bytes, and any bytes make u64s. It has the
    // layout that the kernel gives a set of processors on 64-bit and on little-endian targets;
    // there are no core types on others.
    let bytes = unsafe {
        libc::syscall(
            libc::SYS_sched_getaffinity,
            THIS_THREAD,
            size_of_val(&words),
            words.as_mut_ptr(),
        )
    };
    let bits = usize::try_from(bytes).unwrap_or(0).saturating_mul(8);
    let has = |bit: &u32| {
        let word = words.get(*bit as usize / 64).copied().unwrap_or(0);
        word >> (bit % 64) & 1 == 1
    };
    (0..u32::try_from(bits).unwrap_or(0)).filter(has).collect()
}

/// The number of the processor that this thread is on (`sched_getcpu`).
pub(crate) fn current_cpu() -> Option<u32> {
    // SAFETY: it takes nothing and touches no memory of ours.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Whether this thread may not read the tick counter (`PR_SET_TSC`; x86-64, and arm64 since Linux
/// 6.12).
pub(crate) fn ticks_are_forbidden() -> bool {
    let mut mode: libc::c_int = 0;
    // SAFETY: mode is valid for the write. Where the kernel does not know the request it writes
    // nothing.
    let result = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
    result == 0 && mode == libc::PR_TSC_SIGSEGV
}

/// The size of a page in bytes. Async-signal-safe once it has been called before.
fn page_size() -> usize {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    match SIZE.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: sysconf reads a constant of the process.
            let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
            // Linux always answers this one. Its smallest page is the fallback all the same.
            let size = usize::try_from(size).unwrap_or(4096);
            SIZE.store(size, Ordering::Relaxed); // everybody stores the same
            size
        }
        size => size,
    }
}

/// `mmap(2)` at an address of the kernel's choice or, if that is free, at `address`: nothing is
/// ever replaced.
fn map_new(
    address: *mut ControlPage,
    length: usize,
    access: libc::c_int,
    flags: libc::c_int,
    file: libc::c_int,
) -> Result<NonNull<ControlPage>, Errno> {
    // Linux before 4.17 does not know this flag, and treats the address as a hint.
    let place = if address.is_null() { 0 } else { libc::MAP_FIXED_NOREPLACE };
    // SAFETY: a new mapping, which replaces none, disturbs no memory in use.
    let mapped = unsafe { libc::mmap(address.cast(), length, access, flags | place, file, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(last_error());
    }
    let mapped = NonNull::new(mapped.cast()).ok_or(Errno(ENOMEM))?;
    if !address.is_null() && mapped.as_ptr() != address {
        // SAFETY: mapped just now, and nobody knows it.
        unsafe { unmap(mapped, length)? };
        return Err(Errno(EEXIST));
    }
    Ok(mapped)
}

/// Maps the control page of an event, exactly one page, read-only: at an address of the kernel's
/// choice, or at `place`. `EEXIST` if something is there.
pub(crate) fn map_at(
    event: &Descriptor,
    place: *mut ControlPage,
) -> Result<NonNull<ControlPage>, Errno> {
    map_new(place, page_size(), libc::PROT_READ, libc::MAP_SHARED, event.as_raw_fd())
}

/// An address at which `length` bytes were free a moment ago, if a control page fits into a
/// [`STRIDE`] here. Another thread's mapping may come there at any time.
pub(crate) fn free_place(length: usize) -> Result<*mut ControlPage, Errno> {
    if page_size() > STRIDE {
        return Err(Errno(EINVAL));
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let place = map_new(ptr::null_mut(), length, libc::PROT_NONE, flags, -1)?;
    // SAFETY: mapped just now, and nobody knows it.
    unsafe { unmap(place, length)? };
    Ok(place.as_ptr())
}

/// Unmaps `length` bytes, of whole pages.
///
/// # Safety
/// They were mapped here, are unmapped once only, and nobody reads them afterwards.
unsafe fn unmap(start: NonNull<ControlPage>, length: usize) -> Result<(), Errno> {
    // SAFETY: the caller's promise: this is ours and no longer used.
    match unsafe { libc::munmap(start.as_ptr().cast(), length) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

/// Unmaps the page at `page`.
///
/// # Safety
/// As for [`unmap`].
pub(crate) unsafe fn unmap_page(page: NonNull<ControlPage>) {
    // SAFETY: the caller promises that it is a whole page, mapped, that nobody reads any more. If
    // the kernel refuses, it stays mapped, and nothing else comes to harm.
    let _ = unsafe { unmap(page, page_size()) };
}

/// Puts a private page of zeros at `page`'s address if nothing is mapped there.
/// Async-signal-safe, as a page was mapped before.
pub(crate) fn cover(page: NonNull<ControlPage>) -> Result<(), Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    map_new(page.as_ptr(), page_size(), libc::PROT_READ, flags, -1).map(drop)
}

/// The signals that a thread has blocked.
pub(crate) type Mask = libc::sigset_t;

/// Blocks all signals of this thread, and gives those that were blocked before. None if that is
/// refused, by a seccomp filter, say; then nothing is blocked. Async-signal-safe.
pub(crate) fn block_signals() -> Option<Mask> {
    let (mut all, mut before) = (MaybeUninit::<Mask>::uninit(), MaybeUninit::<Mask>::uninit());
    // SAFETY: both are valid for the writes; the call reads `all`, which sigfillset has filled, and
    // has filled `before` if it succeeds.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        match libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) {
            0 => Some(before.assume_init()),
            _ => None,
        }
    }
}

/// Blocks what was blocked when [`block_signals`] gave this. Async-signal-safe.
pub(crate) fn restore_signals(before: &Mask) {
    // SAFETY: before is valid for the read.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
}

/// Opens a file to read it, without waiting for anybody to write it and without making it this
/// process's terminal.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// Has these called at every later `fork`, by the thread that forks: before it, and after it in the
/// parent and in the child.
///
/// # Safety
/// They keep to async-signal-safe calls.
pub(crate) unsafe fn at_fork(
    before: unsafe extern "C" fn(),
    in_parent: unsafe extern "C" fn(),
    in_child: unsafe extern "C" fn(),
) -> Result<(), Errno> {
    // SAFETY: the caller's promise about the handlers; the C library keeps only their addresses.
    match unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) } {
        0 => Ok(()),
        errno => Err(Errno(errno)),
    }
}
