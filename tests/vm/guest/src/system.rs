//! The emulated machine as its process 1 and its scenarios see it.

use crate::faults::Fault;
use std::ffi::CString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The setting that lets user space read counters: an attribute of the PMU on x86-64, a sysctl elsewhere.
pub const USER_ACCESS: &str = if cfg!(target_arch = "x86_64") {
    "/sys/bus/event_source/devices/cpu/rdpmc"
} else {
    "/proc/sys/kernel/perf_user_access"
};
pub const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";
pub const MLOCK_KB: &str = "/proc/sys/kernel/perf_event_mlock_kb";

/// Mounts what programs expect, and permits user access if the kernel has the setting.
pub fn set_up() {
    for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        mount(kind, place).unwrap_or_else(|error| panic!("mounting {place}: {error}"));
    }
    if fs::exists(USER_ACCESS).unwrap_or(false) {
        set(USER_ACCESS, "1");
    }
}

/// Runs the doctor under each setting that it distinguishes: user access on and off, if there is the setting, and as
/// a user without rights, with and without a paranoid level that prevents counting. If the machine has faults to choose
/// from, with each of them. Returns the worst exit status.
pub fn consult(doctor: &str, has_faults: bool) -> i32 {
    let user_access = fs::exists(USER_ACCESS).unwrap_or(false);
    let mut worst = 0;
    let mut run = |said: String, command: &mut Command| {
        println!("\n# {said}");
        worst = worst.max(crate::run(command));
    };
    run("as root".into(), &mut Command::new(doctor));
    if has_faults {
        for fault in Fault::ALL {
            fault.of_counter(3);
            run(format!("as root, the last counter: {fault:?}"), &mut Command::new(doctor));
        }
        Fault::None.of_counter(0);
        return worst;
    }
    if user_access {
        let _off = Changed::to(USER_ACCESS, "0");
        run(format!("as root, {USER_ACCESS} is 0"), &mut Command::new(doctor));
    }
    for level in ["2", "3"] {
        let _level = Changed::to(PARANOID, level);
        let mut command = Command::new(doctor);
        run(
            format!("as a user without rights, {PARANOID} is {level}"),
            command.uid(65534).gid(65534),
        );
    }
    worst
}

/// Keeps this thread on one CPU, or permits it all CPUs (at most 64).
pub fn keep_on(processor: Option<u32>) {
    let mask: u64 = processor.map_or(u64::MAX, |processor| 1 << processor);
    // SAFETY: `mask` is valid for the read of its size.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&mask), &raw const mask)
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

pub fn mount(kind: &str, place: &str) -> io::Result<()> {
    fs::create_dir_all(place)?;
    let (kind, place) = (CString::new(kind)?, CString::new(place)?);
    // SAFETY: the three strings live through the call, and there is no data.
    match unsafe { libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) }
    {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

pub fn unmount(place: &str) {
    let place = CString::new(place).expect("no zero in it");
    // SAFETY: the string lives through the call.
    assert_eq!(unsafe { libc::umount(place.as_ptr()) }, 0, "{}", io::Error::last_os_error());
}

/// Writes a setting.
pub fn set(setting: &str, value: &str) {
    fs::write(setting, value).unwrap_or_else(|error| panic!("{setting} = {value}: {error}"));
}

/// A setting that is changed while this lives.
pub struct Changed {
    setting: &'static str,
    before: String,
}

impl Changed {
    pub fn to(setting: &'static str, value: &str) -> Changed {
        let before = fs::read_to_string(setting);
        let before = before.unwrap_or_else(|error| panic!("{setting}: {error}")).trim().into();
        set(setting, value);
        Changed { setting, before }
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        set(self.setting, &self.before);
    }
}

pub fn power_off() -> ! {
    let _ = io::stdout().flush();
    // SAFETY: the calls take numbers. This is process 1, and nothing is left to lose.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    unreachable!("process 1 may power off");
}

/// Returns the first two numbers of the kernel's release.
pub fn kernel() -> [u32; 2] {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("/proc is mounted");
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    [(); 2].map(|()| numbers.next().expect("a release begins with two numbers"))
}
