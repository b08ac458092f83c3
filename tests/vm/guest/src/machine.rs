//! The emulated machine as its process 1 and its scenarios see it.

use crate::harness::{Outcome, Stop};
use std::ffi::CString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;

/// What lets user space read counters on arm64 and riscv64.
pub const USER_ACCESS: &str = "/proc/sys/kernel/perf_user_access";
pub const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";
pub const MLOCK_KB: &str = "/proc/sys/kernel/perf_event_mlock_kb";
/// A user without rights.
pub const NOBODY: libc::uid_t = 65534;

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

/// Becomes [`NOBODY`], without capabilities.
pub fn drop_rights() {
    // SAFETY: plain numbers; the C library changes every thread.
    assert_eq!(unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) }, 0);
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

/// The events this process holds: its descriptors whose link says so, oldest first.
pub fn perf_descriptors() -> Vec<RawFd> {
    let mut found: Vec<RawFd> = fs::read_dir("/proc/self/fd")
        .expect("/proc is mounted")
        .flatten()
        .filter(|entry| {
            fs::read_link(entry.path())
                .is_ok_and(|link| link.as_os_str() == "anon_inode:[perf_event]")
        })
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    found.sort_unstable();
    found
}

/// `read(2)` of an event, past the library: value, enabled, running.
pub fn read_event(descriptor: RawFd) -> [u64; 3] {
    let mut words = [0u64; 3];
    // SAFETY: words is as long as said.
    let bytes = unsafe { libc::read(descriptor, words.as_mut_ptr().cast(), size_of_val(&words)) };
    assert_eq!(bytes, 24, "read(2) of an event");
    words
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

/// Runs `body` in a forked child and gives its outcome; a child that dies is a failure.
pub fn in_child(body: impl FnOnce() -> Outcome) -> Outcome {
    let (mut reader, mut writer) = UnixStream::pair().expect("a pair of sockets");
    // SAFETY: scenarios fork with one thread, so the child may do what it likes.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", io::Error::last_os_error());
    if child == 0 {
        drop(reader);
        let said = match body() {
            Ok(()) => "ok".into(),
            Err(Stop::Failed(why)) => format!("in the child: {why}"),
            Err(Stop::Skipped(why)) => format!("skipped in the child: {why}"),
        };
        let _ = writer.write_all(said.as_bytes());
        // SAFETY: ends the process; its parent has all it needs.
        unsafe { libc::_exit(0) };
    }
    drop(writer);
    let mut said = String::new();
    reader.read_to_string(&mut said).expect("the child writes text");
    let mut status = 0;
    // SAFETY: status is valid for the write.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    match said.as_str() {
        "ok" if status == 0 => Ok(()),
        "ok" | "" => Err(Stop::Failed(format!("the child ended with wait status {status:#x}"))),
        _ => Err(Stop::Failed(said)),
    }
}

/// From now on this process is killed for any system call but `call`.
pub fn allow_only(call: libc::c_long) {
    filter(call, libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_KILL_PROCESS);
}

/// From now on `call` answers `errno`.
pub fn refuse(call: libc::c_long, errno: i32) {
    filter(call, libc::SECCOMP_RET_ERRNO | errno as u32, libc::SECCOMP_RET_ALLOW);
}

/// A seccomp filter: one action for one system call, another for all others.
fn filter(call: libc::c_long, action: u32, otherwise: u32) {
    let statement = |code: u32, k: u32, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        // The number of the system call is the first word of seccomp_data.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32, 0, 1),
        statement(libc::BPF_RET | libc::BPF_K, action, 0, 0),
        statement(libc::BPF_RET | libc::BPF_K, otherwise, 0, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program and its statements live through the calls, which copy them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
            0,
            "{}",
            io::Error::last_os_error()
        );
    }
}
