//! The system calls of Linux.
#![allow(unsafe_code)]

use super::{Attr, ControlPage, Descriptor, Errno, STRIDE, open_flag};
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use libc::{
    E2BIG, EACCES, EAGAIN, EBADF, EBUSY, ECHILD, EEXIST, EFBIG, EINTR, EINVAL, EIO, EMFILE, ENFILE,
    ENODEV, ENOENT, ENOMEM, ENOSPC, ENOSYS, ENOTDIR, EOPNOTSUPP, EPERM, ESRCH,
};

/// Whether this target has `perf_event_open`.
pub(crate) const SUPPORTED: bool = true;

pub(crate) fn last_error() -> Errno {
    Errno(io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// Calls `perf_event_open` for a thread of this process, on any CPU. 0 is the calling thread. The event joins the group of
/// `leader`, or leads a new one. The descriptor is close-on-exec.
///
/// On `E2BIG`, the kernel has written the size that it knows into `attr.size`. The error number is 0 if a seccomp
/// filter returns 0 without opening an event.
pub(crate) fn open(
    attr: &mut Attr,
    thread: u32,
    leader: Option<&Descriptor>,
) -> Result<Descriptor, Errno> {
    const ANY_PROCESSOR: libc::c_int = -1;
    const OWN_GROUP: libc::c_int = -1;
    let group = leader.map_or(OWN_GROUP, Descriptor::number);
    let mut retries = 0..INTERRUPTED_AT_MOST;
    let descriptor = loop {
        // SAFETY: the kernel accesses attr.size bytes, at most the size of attr, and attr is valid for reads and
        // writes of them. The call keeps no pointer to attr.
        let descriptor = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                ptr::from_mut(attr),
                thread as libc::pid_t,
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
    // The kernel has just returned this number, and no other code owns it. A seccomp filter can forge errors and 0.
    Descriptor::new(descriptor)
}

/// The maximum number of retries after `EINTR`. The kernel returns it while another thread of the process is in
/// `exec`, which ends this thread or fails soon. A seccomp filter may return it forever.
const INTERRUPTED_AT_MOST: u32 = 100;

/// Returns CLOCK_MONOTONIC_RAW in nanoseconds. The C library mostly reads it without a system call. A thread that has
/// forbidden itself the tick counter would be killed there, and must set `by_system_call`.
pub(crate) fn monotonic_raw(by_system_call: bool) -> Result<u64, Errno> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let clock = libc::CLOCK_MONOTONIC_RAW;
    // SAFETY: time is valid for the write. The system call is made on 64-bit targets only, where the kernel and the C
    // library have one timespec. Ticks are read on no other targets.
    let result = unsafe {
        match by_system_call {
            #[cfg(target_pointer_width = "64")]
            true => libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) as libc::c_int,
            _ => libc::clock_gettime(clock, &raw mut time),
        }
    };
    match result {
        0 => Ok(nanoseconds(time)),
        _ => Err(last_error()),
    }
}

fn nanoseconds(time: libc::timespec) -> u64 {
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Returns the number of this process's time namespace (`CLONE_NEWTIME`). None before Linux 5.6 and without `/proc`.
/// Async-signal-safe.
pub(crate) fn time_namespace() -> Option<u64> {
    let mut status = MaybeUninit::<libc::stat64>::uninit();
    let mut found = None;
    // SAFETY: the path ends with a zero, and `status` is valid for the write. The call has filled it if it succeeds.
    keeping_errno(|| unsafe {
        if libc::stat64(c"/proc/thread-self/ns/time".as_ptr(), status.as_mut_ptr()) == 0 {
            found = Some(status.assume_init().st_ino);
        }
    });
    found
}

/// Returns a clock's time in nanoseconds. 0 if the call fails.
fn clock(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: time is valid for the write.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    nanoseconds(time)
}

/// Returns CLOCK_REALTIME in nanoseconds. No time namespace changes it, but the administrator can.
pub(crate) fn realtime() -> u64 {
    clock(libc::CLOCK_REALTIME)
}

/// Returns CLOCK_MONOTONIC_COARSE in nanoseconds, which does not read the tick counter.
pub(crate) fn coarse_time() -> u64 {
    clock(libc::CLOCK_MONOTONIC_COARSE)
}

/// Returns the CPUs in this thread's affinity mask (`sched_getaffinity`). Empty if the call fails, which it does on
/// machines with more CPUs than `words` has bits.
pub(crate) fn allowed_cpus() -> Vec<u32> {
    const THIS_THREAD: libc::pid_t = 0;
    let mut words = [0_u64; 256];
    // SAFETY: words is valid for writes of its size in bytes, and any bytes are valid u64s. Its layout is the
    // kernel's CPU mask on 64-bit and on little-endian targets. Other targets have no core types.
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

/// Returns the CPU that this thread is on (`sched_getcpu`). None if the call fails.
pub(crate) fn current_cpu() -> Option<u32> {
    // SAFETY: the call takes no argument and accesses no memory of this library.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Returns this thread's seccomp mode: 0 none, 2 a filter. None if the request is refused.
pub(crate) fn seccomp_mode() -> Option<i32> {
    // SAFETY: the call takes an integer. A thread in mode 1 would be killed for it, and could not have come here.
    let mode = unsafe { libc::prctl(libc::PR_GET_SECCOMP) };
    (mode >= 0).then_some(mode)
}

/// Whether this thread may not read the tick counter (`PR_SET_TSC`; x86-64, and arm64 since Linux 6.12).
pub(crate) fn ticks_are_forbidden() -> bool {
    let mut mode: libc::c_int = 0;
    // SAFETY: mode is valid for the write. A kernel that does not know the request writes nothing.
    let result = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
    result == 0 && mode == libc::PR_TSC_SIGSEGV
}

/// Returns the page size in bytes. Async-signal-safe after the first call.
fn page_size() -> usize {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    match SIZE.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: sysconf reads a constant of the process.
            let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
            // Linux always returns a size. The fallback is its smallest page.
            let size = usize::try_from(size).unwrap_or(4096);
            SIZE.store(size, Ordering::Relaxed); // every thread stores an equal value
            size
        }
        size => size,
    }
}

/// Maps new memory by `mmap(2)`: at `address`, or if that is null, at an address of the kernel's choice. Never
/// replaces a mapping: `EEXIST` if something is mapped at `address`.
fn map_new(
    address: *mut ControlPage,
    length: usize,
    access: libc::c_int,
    flags: libc::c_int,
    file: libc::c_int,
) -> Result<NonNull<ControlPage>, Errno> {
    // Linux before 4.17 ignores this flag and treats the address as a hint.
    let place = if address.is_null() { 0 } else { libc::MAP_FIXED_NOREPLACE };
    // SAFETY: a new mapping that replaces none does not affect memory in use.
    let mapped = unsafe { libc::mmap(address.cast(), length, access, flags | place, file, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(last_error());
    }
    let mapped = NonNull::new(mapped.cast()).ok_or(Errno(ENOMEM))?;
    if !address.is_null() && mapped.as_ptr() != address {
        // SAFETY: this function has just mapped these bytes, and no other code has their address.
        unsafe { unmap(mapped, length)? };
        return Err(Errno(EEXIST));
    }
    Ok(mapped)
}

/// Maps the control page of an event, exactly one page, read-only: at `place`, or if that is null, at an address of
/// the kernel's choice. `EEXIST` if something is mapped at `place`.
pub(crate) fn map_at(
    event: &Descriptor,
    place: *mut ControlPage,
) -> Result<NonNull<ControlPage>, Errno> {
    map_new(place, page_size(), libc::PROT_READ, libc::MAP_SHARED, event.number())
}

/// Returns an address at which `length` bytes were free just now. Another thread may map memory there at any time.
/// `EINVAL` if a control page does not fit into a [`STRIDE`] here.
pub(crate) fn free_place(length: usize) -> Result<*mut ControlPage, Errno> {
    if page_size() > STRIDE {
        return Err(Errno(EINVAL));
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let place = map_new(ptr::null_mut(), length, libc::PROT_NONE, flags, -1)?;
    // SAFETY: this function has just mapped these bytes, and no other code has their address.
    unsafe { unmap(place, length)? };
    Ok(place.as_ptr())
}

/// Unmaps `length` bytes of whole pages.
///
/// # Safety
/// This module mapped the pages, they are unmapped only once, and no code reads them afterwards.
unsafe fn unmap(start: NonNull<ControlPage>, length: usize) -> Result<(), Errno> {
    // SAFETY: the caller promises that this module mapped the pages and that no code reads them any more.
    match unsafe { libc::munmap(start.as_ptr().cast(), length) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

/// Unmaps the page at `page`.
///
/// # Safety
/// This module mapped the page, it is unmapped only once, and no code reads it afterwards.
pub(crate) unsafe fn unmap_page(page: NonNull<ControlPage>) {
    // SAFETY: the caller promises that this is a whole mapped page that no code reads any more. If the kernel
    // refuses, the page stays mapped, which is harmless.
    let _ = unsafe { unmap(page, page_size()) };
}

/// Maps a private page of zeros at `page` if nothing is mapped there, else returns `EEXIST`. Async-signal-safe,
/// because a page was mapped before, which called `page_size`.
pub(crate) fn cover(page: NonNull<ControlPage>) -> Result<(), Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    map_new(page.as_ptr(), page_size(), libc::PROT_READ, flags, -1).map(drop)
}

/// Maps a private page of zeros in place of the page at `page`, in one step, so that no other thread can get its
/// address in between. Its `lock` gets one more than `lock`, so that each lock only ever advances. The memory stays writable.
/// Async-signal-safe, because a page was mapped before, which called `page_size`.
///
/// The kernel checks the request before it removes the old page. After that, it only needs memory for a structure of its
/// own. If there is none, nothing is mapped at `page`.
///
/// # Safety
/// This module mapped the page, and its owner expects zeros there.
pub(crate) unsafe fn replace_by_zeros(page: NonNull<ControlPage>, lock: u32) -> Result<(), Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the caller promises that the page is its own, and that zeros may be in its place.
    let mapped = unsafe { libc::mmap(page.as_ptr().cast(), page_size(), access, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(last_error());
    }
    // SAFETY: the page was just mapped, writable.
    unsafe { (&raw mut (*page.as_ptr()).lock).write_volatile(lock.wrapping_add(1)) };
    Ok(())
}

/// Returns the process's number. Async-signal-safe.
pub(crate) fn process_id() -> u32 {
    // SAFETY: the call takes no argument.
    unsafe { libc::getpid() as u32 }
}

/// Returns the number of the calling thread.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: the call takes no argument.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Whether a thread of this process exists. One that has ended and is not yet gone does.
pub(crate) fn thread_exists(thread: u32) -> bool {
    const NO_SIGNAL: libc::c_int = 0;
    // SAFETY: the call takes integers, and sends nothing.
    unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), thread as libc::pid_t, NO_SIGNAL) == 0
    }
}

/// Returns the CPU time of a thread of this process in nanoseconds. 0 if there is none.
pub(crate) fn thread_time(thread: u32) -> u64 {
    /// The kernel's number for the scheduler's clock of a thread.
    const PER_THREAD: libc::clockid_t = 4;
    const SCHEDULER: libc::clockid_t = 2;
    clock(!(thread as libc::clockid_t) << 3 | PER_THREAD | SCHEDULER)
}

/// Runs `body`, and restores the error number of the C library afterwards, for signal handlers.
pub(crate) fn keeping_errno(body: impl FnOnce()) {
    // SAFETY: the C library returns the address of this thread's error number, which is valid while the thread runs.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: valid, as above, and used by this thread alone.
    let before = unsafe { errno.read() };
    body();
    // SAFETY: valid, as above, and used by this thread alone.
    unsafe { errno.write(before) };
}

/// The set of signals that a thread has blocked.
pub(crate) type Mask = libc::sigset_t;

/// Blocks all signals of this thread, and returns the mask from before. None, with nothing blocked, if the call is
/// refused, for example by a seccomp filter. Async-signal-safe.
pub(crate) fn block_signals() -> Option<Mask> {
    let (mut all, mut before) = (MaybeUninit::<Mask>::uninit(), MaybeUninit::<Mask>::uninit());
    // SAFETY: both are valid for the writes. sigfillset fills `all` before the second call reads it. That call has
    // filled `before` if it succeeds.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        match libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) {
            0 => Some(before.assume_init()),
            _ => None,
        }
    }
}

/// Restores the mask that [`block_signals`] returned. Async-signal-safe.
pub(crate) fn restore_signals(before: &Mask) {
    // SAFETY: before is valid for the read.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
}

/// Opens a file for reading. Does not wait for a writer, and does not make a terminal the controlling terminal of
/// this process.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// Registers handlers that every later `fork` calls in the forking thread: before the fork, and after it in the
/// parent and in the child.
///
/// # Safety
/// The handlers make only async-signal-safe calls.
pub(crate) unsafe fn at_fork(
    before: unsafe extern "C" fn(),
    in_parent: unsafe extern "C" fn(),
    in_child: unsafe extern "C" fn(),
) -> Result<(), Errno> {
    // SAFETY: the caller promises that the handlers make only async-signal-safe calls. The C library keeps only their
    // addresses.
    match unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) } {
        0 => Ok(()),
        errno => Err(Errno(errno)),
    }
}
