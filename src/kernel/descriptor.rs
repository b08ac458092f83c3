//! The descriptor of a perf event, and the check that its number is still that event's.
//!
//! Other code of the process may close descriptors that are not its own (`close_range`, `closefrom`, `dup2`). The number
//! then belongs to nothing, or to another file. An event has an identifier that the kernel never gives to another one
//! (`PERF_EVENT_IOC_ID`). Each request compares it first, and is `EBADF` if the number has become another file's.
#![allow(unsafe_code)]

use super::{
    AtomicU64, Control, Errno, coarse_time, ioctl, keeping_errno, last_error, seccomp_mode,
};
use libc::EBADF;
use std::io::Write;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::Relaxed;

/// Numbers from here up are used if they are free. A new file gets the lowest free number. So after other code has closed
/// all descriptors, files that the program opens next do not get those of its events. The kernel's table of descriptors has
/// as many entries as a word has bits before it grows.
const FIRST: libc::c_int = libc::c_ulong::BITS as libc::c_int / 2;

/// The file descriptor of a perf event.
#[derive(Debug)]
pub(crate) struct Descriptor {
    number: RawFd,
    id: Id,
    /// The coarse time of the latest comparison by a read. 0 before the first, and for reads without one. [`SUSPECT`] after a
    /// failed one. Atomic, because a signal handler of this thread may read.
    compared: AtomicU64,
}

/// No coarse time: the number was another file's.
const SUSPECT: u64 = u64::MAX;

/// The identifier of an event.
#[derive(Debug)]
enum Id {
    Known(u64),
    /// A seccomp filter refuses both the request and a read, or the event is in error state. Then nothing is compared.
    Unknown,
    /// A test's file in place of an event.
    #[cfg(any(test, rdpmc_internals))]
    Imitated,
}

/// The file of a number.
enum File {
    /// An event of this identifier.
    Event(u64),
    /// No event, or nothing.
    Other,
    /// Something else answers for the kernel, such as a seccomp filter.
    Unknown,
}

impl Descriptor {
    /// Takes ownership of an event that was just opened, and moves it to a higher number.
    ///
    /// # Errors
    /// 0 if a seccomp filter has answered 0 for the kernel, which opens no event. `EBADF` if other code has already closed the
    /// number.
    pub(super) fn new(number: RawFd) -> Result<Descriptor, Errno> {
        let id = match file_of(number) {
            File::Event(id) => Id::Known(id),
            File::Other if number == 0 => return Err(Errno(0)),
            File::Unknown if number == 0 && is_event(0) != Some(true) => return Err(Errno(0)),
            File::Other => return Err(Errno(EBADF)),
            File::Unknown => Read::from_descriptor(number).newest().map_or(Id::Unknown, Id::Known),
        };
        let number = if number < FIRST { moved(number).unwrap_or(number) } else { number };
        Ok(Descriptor { number, id, compared: AtomicU64::new(0) })
    }

    /// A file that imitates an event, and is never compared.
    #[cfg(any(test, rdpmc_internals))]
    pub(crate) fn imitated_by(file: std::os::fd::OwnedFd) -> Descriptor {
        use std::os::fd::IntoRawFd;
        Descriptor { number: file.into_raw_fd(), id: Id::Imitated, compared: AtomicU64::new(0) }
    }

    /// Returns the number.
    pub(crate) fn number(&self) -> RawFd {
        self.number
    }

    /// Compares the event's identifier. `EBADF` if the number is no longer its own. Keeps the C library's error number.
    pub(crate) fn is_own(&self) -> Result<(), Errno> {
        let Id::Known(id) = self.id else { return Ok(()) };
        let mut is_own = true;
        keeping_errno(|| {
            is_own = match file_of(self.number) {
                File::Event(found) => found == id,
                File::Other => false,
                File::Unknown => {
                    let read = is_event(self.number) == Some(true);
                    let shown =
                        if read { Read::from_descriptor(self.number).has(id) } else { None };
                    // A number that was another file's has to be proven.
                    shown.unwrap_or_else(|| self.compared.load(Relaxed) != SUSPECT)
                }
            };
        });
        if is_own {
            return Ok(());
        }
        self.compared.store(SUSPECT, Relaxed);
        Err(Errno(EBADF))
    }

    /// Whether an identifier in the kernel's answer is this event's. True if this event's is not known.
    pub(crate) fn has_id(&self, id: u64) -> bool {
        !matches!(self.id, Id::Known(own) if own != id)
    }

    /// Reads the event by `read(2)`. Returns the number of bytes that the kernel wrote, 0 for an event in error state.
    ///
    /// The identifier is compared first if `each_period` is set and the coarse clock has advanced since it was (every 1 to
    /// 10 ms): the request takes half the time of a read. The caller compares the identifier in the kernel's answer, and
    /// calls [`put_back`](Descriptor::put_back) if that is none of this event's.
    pub(crate) fn read(&self, into: &mut [u64], each_period: bool) -> Result<usize, Errno> {
        let now = if each_period { coarse_time() } else { 0 };
        if self.compared.load(Relaxed) != now {
            self.is_own()?;
            self.compared.store(now, Relaxed);
        }
        // SAFETY: `into` is valid for writes of its size in bytes, and any bytes are a valid u64.
        let bytes = unsafe { libc::read(self.number, into.as_mut_ptr().cast(), size_of_val(into)) };
        usize::try_from(bytes).map_err(|_| self.or_closed(last_error()))
    }

    /// Undoes a read of another file: its position is as before, if it has one. Has no effect on an event. The next read
    /// compares first.
    #[cold]
    pub(crate) fn put_back(&self, bytes: usize) {
        self.compared.store(SUSPECT, Relaxed);
        let back = libc::off_t::try_from(bytes).unwrap_or(0);
        // SAFETY: the call takes integers.
        keeping_errno(|| unsafe { _ = libc::lseek(self.number, -back, libc::SEEK_CUR) });
    }

    /// Makes a system call that does nothing: an event refuses a buffer that is too small before it looks at its counter.
    pub(crate) fn empty_call(&self) {
        // SAFETY: the kernel writes no byte.
        unsafe { libc::read(self.number, std::ptr::null_mut(), 0) };
    }

    /// Returns the error of a call, or `EBADF` if it is that of another file.
    #[cold]
    fn or_closed(&self, error: Errno) -> Errno {
        self.is_own().err().unwrap_or(error)
    }

    /// Sends a request to the whole group that this event leads, by `ioctl(2)`.
    pub(crate) fn control(&self, what: Control) -> Result<(), Errno> {
        let request = match what {
            Control::Enable => ioctl::ENABLE,
            Control::Disable => ioctl::DISABLE,
            Control::Reset => ioctl::RESET,
        };
        self.is_own()?;
        let argument = ioctl::FLAG_GROUP as libc::c_ulong;
        // SAFETY: these three requests take an integer and access no memory of this process.
        match unsafe { libc::ioctl(self.number, request as _, argument) } {
            0 => Ok(()),
            _ => Err(self.or_closed(last_error())),
        }
    }
}

impl Drop for Descriptor {
    /// Closes the event, unless the number is another file's by now.
    fn drop(&mut self) {
        let is_own = match self.id {
            Id::Known(_) => self.is_own().is_ok(),
            Id::Unknown => is_event(self.number) != Some(false),
            #[cfg(any(test, rdpmc_internals))]
            Id::Imitated => true,
        };
        if is_own {
            // SAFETY: the call takes an integer. The number is this event's, as far as the kernel and `/proc` tell.
            unsafe { libc::close(self.number) };
        }
    }
}

/// Moves a descriptor to the first free number from [`FIRST`] up. None if that is refused.
fn moved(number: RawFd) -> Option<RawFd> {
    // SAFETY: the call takes integers, and the new descriptor is this function's.
    let higher = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, FIRST) };
    // A filter may answer for the kernel.
    if higher < FIRST {
        return None;
    }
    // SAFETY: the kernel has just opened this number for the caller.
    unsafe { libc::close(number) };
    Some(higher)
}

/// Finds out what a number is now. Before Linux 3.12, an event is [`File::Unknown`].
fn file_of(number: RawFd) -> File {
    let mut id = 0_u64;
    // SAFETY: an event writes a u64, and `id` is valid for that. Files of other kinds refuse the request, because
    // none has one of this number.
    match unsafe { libc::ioctl(number, ioctl::ID as _, &raw mut id) } {
        0 if id != 0 => File::Event(id),
        // A driver may answer 0 to any request (btrfs-control does).
        0 if is_event(number) == Some(false) => File::Other,
        0 => File::Unknown,
        _ => match is_event(number) {
            Some(true) => File::Unknown,
            Some(false) => File::Other,
            // Without a filter, only another file refuses the request.
            None if seccomp_mode() == Some(0) => File::Other,
            None => File::Unknown,
        },
    }
}

/// The answer to a read of an event, where no request tells its identifier.
struct Read {
    words: [u64; 64], // more than any group has
    length: usize,
}

impl Read {
    #[cold]
    fn from_descriptor(number: RawFd) -> Read {
        let mut words = [0; 64];
        // SAFETY: `words` is valid for writes of its size, and any bytes are a valid u64.
        let bytes = unsafe { libc::read(number, words.as_mut_ptr().cast(), size_of_val(&words)) };
        Read { words, length: usize::try_from(bytes).unwrap_or(0) / size_of::<u64>() }
    }

    /// The identifiers of the group's events: after count and times of a single one, and after each count of a group.
    fn ids(&self) -> impl Iterator<Item = u64> {
        let words = self.words.get(..self.length).unwrap_or(&self.words);
        let first = if self.length == 4 { 3 } else { 4 };
        words.iter().skip(first).step_by(2).copied()
    }

    /// Whether the event of this identifier is among them. None if nothing was read, as in error state.
    fn has(&self, id: u64) -> Option<bool> {
        if self.length == 0 {
            return None;
        }
        // An event that other code has opened may tell no identifier.
        Some(self.ids().any(|of_one| of_one == id))
    }

    /// That of the event that was opened last. None in error state.
    fn newest(&self) -> Option<u64> {
        self.ids().last().filter(|id| *id != 0)
    }
}

/// What `/proc` shows for the descriptor of an event.
const LINK: &[u8] = b"anon_inode:[perf_event]";

/// Whether a number is an event's, as far as `/proc` tells. None without `/proc`. Async-signal-safe.
///
/// Asks for the calling thread, which may have a table of descriptors of its own (`CLONE_FILES`).
fn is_event(number: RawFd) -> Option<bool> {
    let (mut path, mut link) = ([0; 40], [0; LINK.len() + 1]);
    write!(&mut path[..], "/proc/thread-self/fd/{number}\0").ok()?;
    // SAFETY: the path ends with a zero, and `link` is valid for the write of its length.
    let length =
        unsafe { libc::readlink(path.as_ptr().cast(), link.as_mut_ptr().cast(), link.len()) };
    let length = usize::try_from(length).ok()?;
    Some(link.get(..length)? == LINK)
}
