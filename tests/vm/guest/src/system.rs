//! The emulated machine as its process 1 and its scenarios see it.

use std::ffi::CString;
use std::fs;
use std::io::{self, Write};

/// What lets user space read counters: an attribute of the PMU on x86-64, a setting elsewhere.
pub const USER_ACCESS: &str = if cfg!(target_arch = "x86_64") {
    "/sys/bus/event_source/devices/cpu/rdpmc"
} else {
    "/proc/sys/kernel/perf_user_access"
};
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
    // SAFETY: plain calls; this is process 1, and nothing is left to lose.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    unreachable!("process 1 may power off");
}
