//! Events opened without the library's builder: groups, periods, other processes, and an independent view of what the
//! kernel publishes.

use rdpmc::internals::Reader;
use rdpmc::internals::abi::{
    Attr, ControlPage, arm64_config1, capability, flag, format, ioctl, kind, open_flag,
};
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The type and the config of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numbers(u32, u64);

pub const CYCLES: Numbers = Numbers(kind::HARDWARE, 0);
pub const INSTRUCTIONS: Numbers = Numbers(kind::HARDWARE, 1);
pub const REFERENCE_CYCLES: Numbers = Numbers(kind::HARDWARE, 9);
pub const BRANCHES: Numbers = Numbers(kind::HARDWARE, 4);
pub const TASK_CLOCK: Numbers = Numbers(kind::SOFTWARE, 1);

/// How an event differs from the default.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Overflows every `period` events.
    pub period: u64,
    pub pinned: bool,
    /// The leader of its group.
    pub leader: Option<&'a RawEvent>,
    /// Read with `PERF_FORMAT_GROUP`.
    pub read_as_group: bool,
    /// The process to count instead of this one.
    pub process: Option<libc::pid_t>,
}

/// An event opened by its type and config, and read by the library's own reader.
pub struct RawEvent {
    // Unmapped before the descriptor closes.
    reader: Reader<1>,
    descriptor: OwnedFd,
}

impl RawEvent {
    /// Opens `numbers` in user mode. All modes count if the PMU cannot tell them apart, and for software events,
    /// which mostly happen in the kernel.
    pub fn open(numbers: Numbers, options: Options<'_>) -> io::Result<RawEvent> {
        let descriptor = open(numbers, options)?;
        let descriptors = [descriptor];
        let reader = match Reader::map(&descriptors) {
            Ok(reader) => reader,
            Err(_) if numbers.0 == kind::SOFTWARE => Reader::none(),
            Err(why) => panic!("{numbers:?}: {why}"),
        };
        let [descriptor] = descriptors;
        Ok(RawEvent { reader, descriptor })
    }

    /// Returns the count that user space reads.
    pub fn count(&self) -> Option<u64> {
        self.reader.counts().map(|[count]| count)
    }

    /// Returns value, enabled and running time, by `read(2)`.
    pub fn read(&self) -> [u64; 3] {
        read_event(self.descriptor.as_raw_fd())
    }

    /// Returns the values of the group whose leader this is, by `read(2)`.
    pub fn read_group(&self, members: usize) -> Vec<u64> {
        let mut words = vec![0; 3 + members]; // their number, enabled, running, values
        assert_eq!(read_words(self.descriptor.as_raw_fd(), &mut words), words.len());
        assert_eq!(words[0], members as u64, "events in the group");
        words.split_off(3)
    }

    /// Returns what the kernel publishes.
    pub fn published(&self) -> Published {
        Published::of(self.descriptor.as_raw_fd())
    }

    pub fn enable(&self, whole_group: bool) {
        self.control(ioctl::ENABLE, whole_group);
    }

    pub fn disable(&self, whole_group: bool) {
        self.control(ioctl::DISABLE, whole_group);
    }

    fn control(&self, request: u64, whole_group: bool) {
        // SAFETY: the request takes a number: PERF_IOC_FLAG_GROUP is 1.
        let result = unsafe {
            libc::ioctl(self.descriptor.as_raw_fd(), request as _, libc::c_ulong::from(whole_group))
        };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }
}

/// Opens an event without mapping it.
pub fn open(numbers: Numbers, options: Options<'_>) -> io::Result<OwnedFd> {
    let Numbers(type_, config) = numbers;
    let times = format::TOTAL_TIME_ENABLED | format::TOTAL_TIME_RUNNING;
    let user_only = if cfg!(target_arch = "riscv64") || type_ == kind::SOFTWARE {
        0
    } else {
        flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV
    };
    // Only the thread that it counts can read it. The kernel refuses user access for other processes.
    let asks_arm64 = cfg!(target_arch = "aarch64") && type_ == kind::HARDWARE;
    let mut attr = Attr {
        type_,
        size: 64,
        config,
        sample_period: options.period,
        read_format: if options.read_as_group { times | format::GROUP } else { times },
        flags: user_only | if options.pinned { flag::PINNED } else { 0 },
        config1: if asks_arm64 && options.process.is_none() {
            arm64_config1::USER_ACCESS
        } else {
            0
        },
        ..Attr::default()
    };
    let group = options.leader.map_or(-1, |leader| leader.descriptor.as_raw_fd());
    // SAFETY: `attr` has the 64 bytes that its size field declares.
    let event = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw mut attr,
            options.process.unwrap_or(0),
            -1,
            group,
            open_flag::FD_CLOEXEC as libc::c_ulong,
        )
    };
    if event < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(event as RawFd) })
}

/// Returns value, enabled and running time, by `read(2)`. The library's events have their identifier behind these.
pub fn read_event(descriptor: RawFd) -> [u64; 3] {
    let mut words = [0; 4];
    match (read_words(descriptor, &mut words), words) {
        (3 | 4, [value, enabled, running, _]) => [value, enabled, running],
        other => panic!("read(2) of an event (0: error state): {other:?}"),
    }
}

/// Reads into `words`, and returns the number of words.
fn read_words(descriptor: RawFd, words: &mut [u64]) -> usize {
    // SAFETY: `words` is valid for the write of its size.
    let bytes = unsafe { libc::read(descriptor, words.as_mut_ptr().cast(), size_of_val(words)) };
    assert!(bytes >= 0, "read(2) of an event: {}", io::Error::last_os_error());
    bytes as usize / size_of::<u64>()
}

/// A second mapping of an event's control page, to see what the library sees. It keeps the event open, and its
/// register taken.
pub struct Published(*mut u8);

impl Published {
    pub fn of(descriptor: RawFd) -> Published {
        // SAFETY: the mapping is new.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page_size(),
                libc::PROT_READ,
                libc::MAP_SHARED,
                descriptor,
                0,
            )
        };
        assert_ne!(page, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        Published(page.cast())
    }

    fn load<T: Copy>(&self, offset: usize) -> T {
        // SAFETY: the offsets below are those of aligned fields within the page.
        unsafe { self.0.add(offset).cast::<T>().read_volatile() }
    }
    pub fn lock(&self) -> u32 {
        self.load(offset_of!(ControlPage, lock))
    }
    pub fn index(&self) -> u32 {
        self.load(offset_of!(ControlPage, index))
    }
    pub fn offset(&self) -> i64 {
        self.load(offset_of!(ControlPage, offset))
    }
    /// Returns whether the page converts ticks to nanoseconds (`cap_user_time`).
    pub fn has_clock(&self) -> bool {
        self.load::<u64>(offset_of!(ControlPage, capabilities)) & capability::USER_TIME != 0
    }
    pub fn width(&self) -> u16 {
        self.load(offset_of!(ControlPage, pmc_width))
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // SAFETY: `of` mapped the page, and nothing else uses it.
        unsafe { libc::munmap(self.0.cast(), page_size()) };
    }
}

fn page_size() -> usize {
    // SAFETY: sysconf takes a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// The kernel's own timestamps: an event whose every occurrence is sampled, with the time, into a ring buffer.
pub struct Timestamps {
    _descriptor: OwnedFd,
    /// The control page, and one more for the records.
    pages: *mut u8,
    /// A page of memory that faults each time it is touched.
    fresh: *mut u8,
}

/// `PERF_SAMPLE_TIME`.
const SAMPLE_TIME: u64 = 1 << 2;
/// `PERF_RECORD_SAMPLE`.
const RECORD_SAMPLE: u32 = 9;

impl Timestamps {
    /// Opens timestamps of this thread's page faults.
    pub fn new() -> io::Result<Timestamps> {
        let mut attr = Attr {
            type_: kind::SOFTWARE,
            size: 64,
            config: 2,
            sample_period: 1,
            sample_type: SAMPLE_TIME,
            ..Attr::default()
        };
        // SAFETY: `attr` has the 64 bytes that its size field declares.
        let event =
            unsafe { libc::syscall(libc::SYS_perf_event_open, &raw mut attr, 0, -1, -1, 0) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned this descriptor.
        let descriptor = unsafe { OwnedFd::from_raw_fd(event as RawFd) };
        let map = |pages: usize, flags: libc::c_int, file: RawFd| {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: the mapping is new.
            let address = unsafe {
                libc::mmap(std::ptr::null_mut(), pages * page_size(), access, flags, file, 0)
            };
            assert_ne!(address, libc::MAP_FAILED, "{}", io::Error::last_os_error());
            address.cast::<u8>()
        };
        let pages = map(2, libc::MAP_SHARED, descriptor.as_raw_fd());
        let fresh = map(1, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
        Ok(Timestamps { _descriptor: descriptor, pages, fresh })
    }

    /// Makes the kernel take one.
    #[inline(always)]
    pub fn take(&self) {
        // SAFETY: the page belongs to this value.
        unsafe { self.fresh.write_volatile(1) };
    }

    /// Returns those taken since the last call.
    pub fn taken(&self) -> Vec<u64> {
        // Without memory, the page faults again.
        // SAFETY: the page belongs to this value, and its contents are not used.
        let result = unsafe { libc::madvise(self.fresh.cast(), page_size(), libc::MADV_DONTNEED) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        let mut taken = Vec::new();
        // SAFETY: the offsets are within the two pages. The kernel writes them on this CPU.
        unsafe {
            let head = self.pages.add(offset_of!(ControlPage, data_head)).cast::<u64>();
            let tail = self.pages.add(offset_of!(ControlPage, data_tail)).cast::<u64>();
            let (end, mut next) = (head.read_volatile(), tail.read_volatile());
            while next < end {
                // A header of 8 bytes, with the type first and the size last, and the time. All records here have 16
                // bytes, so none crosses the end of the buffer.
                let record =
                    self.pages.add(page_size() + next as usize % page_size()).cast::<u64>();
                let (header, time) = (record.read_volatile(), record.add(1).read_volatile());
                assert_eq!((header as u32, header >> 48), (RECORD_SAMPLE, 16), "a record");
                taken.push(time);
                next += 16;
            }
            tail.write_volatile(next);
        }
        taken
    }
}

impl Drop for Timestamps {
    fn drop(&mut self) {
        // SAFETY: `new` mapped both, and nothing else uses them.
        unsafe {
            libc::munmap(self.pages.cast(), 2 * page_size());
            libc::munmap(self.fresh.cast(), page_size());
        }
    }
}
