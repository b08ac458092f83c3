//! The emulated machine as its process 1 and its scenarios see it.

use std::ffi::CString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// What lets user space read counters on arm64 and riscv64.
pub const USER_ACCESS: &str = "/proc/sys/kernel/perf_user_access";
pub const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";
pub const MLOCK_KB: &str = "/proc/sys/kernel/perf_event_mlock_kb";

/// Mounts what a program expects, and allows user access where the kernel knows the setting.
pub fn set_up() {
    for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        mount(kind, place).unwrap_or_else(|error| panic!("mounting {place}: {error}"));
    }
    if fs::exists(USER_ACCESS).unwrap_or(false) {
        set(USER_ACCESS, "1");
    }
}

pub fn mount(kind: &str, place: &str) -> io::Result<()> {
    fs::create_dir_all(place)?;
    let (kind, place) = (CString::new(kind)?, CString::new(place)?);
    // SAFETY: three strings that live through the call, and no data.
    match unsafe { libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) }
    {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

pub fn unmount(place: &str) {
    let place = CString::new(place).expect("no zero in it");
    // SAFETY: a string that lives through the call.
    assert_eq!(unsafe { libc::umount(place.as_ptr()) }, 0, "{}", io::Error::last_os_error());
}

/// Writes a setting.
pub fn set(setting: &str, value: &str) {
    fs::write(setting, value).unwrap_or_else(|error| panic!("{setting} = {value}: {error}"));
}

/// Reads a setting.
pub fn get(setting: &str) -> String {
    fs::read_to_string(setting).unwrap_or_else(|error| panic!("{setting}: {error}")).trim().into()
}

pub fn power_off() -> ! {
    let _ = io::stdout().flush();
    // SAFETY: plain calls; this is process 1, and nothing is left to lose.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    unreachable!("process 1 may power off");
}

/// `read(2)` of an event, past the library: value, enabled, running.
pub fn read_event(descriptor: RawFd) -> [u64; 3] {
    let mut words = [0u64; 3];
    // SAFETY: words is as long as said.
    let bytes = unsafe { libc::read(descriptor, words.as_mut_ptr().cast(), size_of_val(&words)) };
    assert_eq!(bytes, 24, "read(2) of an event");
    words
}

/// Opens a pinned instruction counter on another process, past the library, which would not.
pub fn pin_an_event_on(process: libc::pid_t) -> OwnedFd {
    const PINNED: u64 = 1 << 2;
    const USER_ONLY: u64 = 1 << 5 | 1 << 6;
    // type 0 (hardware) and size 64 in one word, config 1 (instructions), the flags at byte 40.
    let attr: [u64; 8] = [64 << 32, 1, 0, 0, 0, PINNED | USER_ONLY, 0, 0];
    // SAFETY: attr has the 64 bytes that it says, and the kernel only reads them.
    let event =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, process, -1, -1, 0) };
    assert!(event >= 0, "{}", io::Error::last_os_error());
    // SAFETY: the kernel has just returned this descriptor.
    unsafe { OwnedFd::from_raw_fd(event as RawFd) }
}

/// A second mapping of an event's control page, to see what the library sees.
pub struct Page(*const u8);

impl Page {
    pub fn of(descriptor: RawFd) -> Page {
        // SAFETY: a new mapping disturbs nothing; it stays for the life of the process.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                libc::sysconf(libc::_SC_PAGESIZE) as usize,
                libc::PROT_READ,
                libc::MAP_SHARED,
                descriptor,
                0,
            )
        };
        assert_ne!(page, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        Page(page.cast_const().cast())
    }

    fn load<T: Copy>(&self, offset: usize) -> T {
        // SAFETY: the offsets below are of aligned fields within the page.
        unsafe { self.0.add(offset).cast::<T>().read_volatile() }
    }
    pub fn lock(&self) -> u32 {
        self.load(8)
    }
    pub fn index(&self) -> u32 {
        self.load(12)
    }
    pub fn offset(&self) -> i64 {
        self.load(16)
    }
    pub fn width(&self) -> u16 {
        self.load(48)
    }
}
