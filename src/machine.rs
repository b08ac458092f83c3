//! What `/proc` and `/sys` say about this machine and this process, for errors that name the
//! cause. Everything here may be missing, unreadable or strange: then the answer is None or no.

use crate::sys::kind;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// The folder with an entry for each PMU.
pub(crate) const PMUS: &str = "/sys/bus/event_source/devices";

fn text(path: impl AsRef<Path>) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number<N: std::str::FromStr>(path: impl AsRef<Path>) -> Option<N> {
    text(path)?.parse().ok()
}

/// `kernel.perf_event_paranoid`.
pub(crate) fn paranoid_level() -> Option<i32> {
    number("/proc/sys/kernel/perf_event_paranoid")
}

/// `kernel.perf_event_mlock_kb`: what a user may map without the right to lock memory.
pub(crate) fn mlock_kilobytes() -> Option<u64> {
    number("/proc/sys/kernel/perf_event_mlock_kb")
}

/// A field of this thread's status.
fn status(field: &str) -> Option<String> {
    let status = text("/proc/thread-self/status").or_else(|| text("/proc/self/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// Whether a seccomp filter watches this thread's system calls.
pub(crate) fn has_seccomp_filter() -> bool {
    status("Seccomp").as_deref() == Some("2")
}

/// Whether `perf_event_paranoid` does not apply: CAP_PERFMON or CAP_SYS_ADMIN, of the initial
/// user namespace.
pub(crate) fn is_privileged() -> bool {
    const CAP_SYS_ADMIN: u32 = 21;
    const CAP_PERFMON: u32 = 38;
    let effective = status("CapEff").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    let capable = effective.unwrap_or(0) & (1 << CAP_SYS_ADMIN | 1 << CAP_PERFMON) != 0;
    // Without such a file there are no user namespaces, and this is the only one.
    let initial = text("/proc/self/uid_map")
        .is_none_or(|map| map.split_ascii_whitespace().eq(["0", "0", "4294967295"]));
    capable && initial
}

/// The setting by which the administrator allows or forbids user access, and its value.
pub(crate) fn user_access() -> Option<(&'static str, i32)> {
    let settings: &[&str] = if cfg!(target_arch = "x86_64") {
        &["/sys/bus/event_source/devices/cpu/rdpmc", "/sys/bus/event_source/devices/cpu_core/rdpmc"]
    } else {
        &["/proc/sys/kernel/perf_user_access"]
    };
    settings.iter().find_map(|path| Some((*path, number::<i32>(path)?)))
}

/// Whether the kernel does not know that setting: others of perf are there, and it is not.
pub(crate) fn lacks_user_access() -> bool {
    user_access().is_none() && paranoid_level().is_some()
}

/// Whether the kernel has a driver for this processor's own PMU: it is called `cpu`, or it has
/// the number of raw events, or (hybrid x86-64, arm64) it says which processors it is of. None if
/// the kernel's list of PMUs cannot be seen.
pub(crate) fn has_core_pmu() -> Option<bool> {
    Some(fs::read_dir(PMUS).ok()?.flatten().any(|pmu| {
        pmu.file_name() == "cpu"
            || pmu.path().join("cpus").exists()
            || number::<u32>(pmu.path().join("type")) == Some(kind::RAW)
    }))
}

/// Whether the processor may have cores of several types, each with a PMU that says which they are;
/// so too if the kernel's list of PMUs cannot be seen. Looks once in the process.
pub(crate) fn may_have_several_core_types() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let Ok(pmus) = fs::read_dir(PMUS) else { return true };
        pmus.flatten().filter(|pmu| pmu.path().join("cpus").exists()).count() > 1
    })
}

/// Whether the PMU of this number takes a word called `word` among its settings.
pub(crate) fn pmu_has_format(pmu: u32, word: &str) -> bool {
    let Ok(pmus) = fs::read_dir(PMUS) else { return false };
    pmus.flatten().any(|entry| {
        number::<u32>(entry.path().join("type")) == Some(pmu)
            && entry.path().join("format").join(word).exists()
    })
}

const CLOCK_SOURCES: &str = "/sys/devices/system/clocksource/clocksource0";

/// Whether the kernel could keep the time by this counter. It takes it off the list when it finds that
/// it cannot.
pub(crate) fn trusts_clock_source(name: &str) -> bool {
    text(Path::new(CLOCK_SOURCES).join("available_clocksource"))
        .is_some_and(|names| names.split_ascii_whitespace().any(|available| available == name))
}

/// Whether the kernel keeps the time by this counter.
pub(crate) fn keeps_time_by(name: &str) -> bool {
    text(Path::new(CLOCK_SOURCES).join("current_clocksource")).as_deref() == Some(name)
}

/// Whether this is known to be a virtual machine.
pub(crate) fn is_virtual() -> bool {
    let flagged = |cpuinfo: String| {
        cpuinfo.lines().any(|line| {
            line.starts_with("flags")
                && line.split_ascii_whitespace().any(|flag| flag == "hypervisor")
        })
    };
    text("/proc/cpuinfo").is_some_and(flagged)
        || Path::new("/proc/device-tree/hypervisor").exists()
        || Path::new("/sys/hypervisor/type").exists()
}
