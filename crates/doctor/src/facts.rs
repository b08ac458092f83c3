//! Facts about this machine and this process, from `/proc` and `/sys`. If a file is missing, unreadable or malformed, the
//! answer is None or false.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

/// A limit above the size of any of these files, in bytes. `/proc/cpuinfo` has 2 KiB for each CPU.
const FILE_LIMIT: u64 = 1 << 26;

/// Returns the file's bytes. None if it is missing, not regular or too long.
fn bytes(path: impl AsRef<Path>) -> Option<Vec<u8>> {
    // Opening a pipe waits, and opening a device has effects.
    if !fs::metadata(&path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_LIMIT).read_to_end(&mut bytes).ok()?;
    ((bytes.len() as u64) < FILE_LIMIT).then_some(bytes)
}

/// Returns the file's trimmed text. None if it is not UTF-8, or as [`bytes`].
fn text(path: impl AsRef<Path>) -> Option<String> {
    Some(String::from_utf8(bytes(path)?).ok()?.trim().to_owned())
}

fn number<N: std::str::FromStr>(path: impl AsRef<Path>) -> Option<N> {
    text(path)?.parse().ok()
}

/// Returns the CPU that this thread is on.
pub(crate) fn current_cpu() -> Option<u32> {
    cpu_in(&bytes("/proc/thread-self/stat")?)
}

/// Returns a field of a thread's `stat`, behind the name in parentheses: any bytes, with parentheses too.
fn cpu_in(stat: &[u8]) -> Option<u32> {
    const FIELD: usize = 39;
    const AFTER_NAME: usize = 3;
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(FIELD - AFTER_NAME)?.parse().ok()
}

/// Returns a field of the first processor in `/proc/cpuinfo`, or in a part of it.
fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    Some(fields.find(|(known, _)| known.trim() == name)?.1.trim())
}

/// Returns the name of the CPU, or of each of its core types. A CPU without a name is identified by its numbers.
pub(crate) fn processor() -> Option<String> {
    let cpuinfo = text("/proc/cpuinfo")?;
    let mut names: Vec<String> = Vec::new();
    for processor in cpuinfo.split("\n\n") {
        let field = |name: &str| field(processor, name);
        let arm = || {
            let (implementer, part) = (field("CPU implementer")?, field("CPU part")?);
            let revision = field("CPU revision")?;
            Some(format!("implementer {implementer}, part {part}, revision {revision}"))
        };
        // Several models have one name.
        let x86 = || {
            let (name, family) = (field("model name")?, field("cpu family")?);
            let (model, stepping) = (field("model")?.parse::<u32>().ok()?, field("stepping")?);
            Some(format!("{name} (family {family}, model {model:#x}, stepping {stepping})"))
        };
        let name = x86().or_else(|| Some(field("model name")?.to_owned())).or_else(arm);
        let name = name.or_else(|| Some(field("uarch").or_else(|| field("isa"))?.to_owned()));
        names.extend(name.filter(|name| !names.contains(name)));
    }
    if names.is_empty() { None } else { Some(names.join("; ")) }
}

/// Returns the kernel's name and release, e.g. `Linux 6.12.43`.
pub(crate) fn kernel() -> Option<String> {
    let name = text("/proc/sys/kernel/ostype")?;
    Some(format!("{name} {}", text("/proc/sys/kernel/osrelease")?))
}

const CPUS: &str = "/sys/devices/system/cpu";

/// Returns the frequency governor of the first CPU.
pub(crate) fn governor() -> Option<String> {
    text(Path::new(CPUS).join("cpu0/cpufreq/scaling_governor"))
}

/// Whether CPUs may exceed their base frequency (turbo, boost).
pub(crate) fn turbo() -> Option<bool> {
    let setting = |name: &str| number::<i32>(Path::new(CPUS).join(name));
    let no_turbo = setting("intel_pstate/no_turbo").map(|no| no == 0);
    no_turbo.or_else(|| setting("cpufreq/boost").map(|boost| boost == 1))
}

/// Whether simultaneous multithreading (hyper-threading) is active.
pub(crate) fn smt() -> Option<bool> {
    number::<i32>(Path::new(CPUS).join("smt/active")).map(|active| active == 1)
}

/// Returns the CPUs that share the core of this one, with itself.
pub(crate) fn siblings(cpu: u32) -> Option<String> {
    text(Path::new(CPUS).join(format!("cpu{cpu}/topology/thread_siblings_list")))
}

/// Whether the counters stop during system management interrupts. None except on Intel's CPUs.
pub(crate) fn freezes_on_smi() -> Option<bool> {
    let setting = |pmu: &str| {
        number::<i32>(Path::new("/sys/bus/event_source/devices").join(pmu).join("freeze_on_smi"))
    };
    setting("cpu").or_else(|| setting("cpu_core")).map(|freezes| freezes == 1)
}

/// Whether using the fourth counter aborts memory transactions.
pub(crate) fn allows_tsx_force_abort() -> bool {
    number("/sys/bus/event_source/devices/cpu/allow_tsx_force_abort") == Some(1)
}

/// Returns the seccomp mode (`Seccomp` in the thread's status): 0 none, 1 strict, 2 filter.
pub(crate) fn seccomp_mode() -> Option<u32> {
    let status = text("/proc/thread-self/status").or_else(|| text("/proc/self/status"))?;
    field(&status, "Seccomp")?.parse().ok()
}

/// Returns `kernel.nmi_watchdog`. If it is 1, the kernel watches for hung CPUs with one counter of each.
pub(crate) fn nmi_watchdog() -> Option<i32> {
    number("/proc/sys/kernel/nmi_watchdog")
}

/// Returns the number of descriptors that this process has open, and its limit.
pub(crate) fn descriptors() -> Option<(u64, u64)> {
    let open = fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1); // without the directory's own
    Some((open.try_into().ok()?, limit("Max open files")?))
}

/// Returns the KiB that this process may lock, `u64::MAX` if unlimited.
pub(crate) fn locked_kilobytes() -> Option<u64> {
    let bytes = limit("Max locked memory")?;
    Some(if bytes == u64::MAX { bytes } else { bytes / 1024 })
}

/// Returns a soft limit of this process, `u64::MAX` if unlimited.
fn limit(name: &str) -> Option<u64> {
    let limits = text("/proc/self/limits")?;
    let soft =
        limits.lines().find_map(|line| line.strip_prefix(name)?.split_ascii_whitespace().next())?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_behind_any_name() {
        let rest = " R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 17 0 0";
        for name in [&b"a"[..], b"a) R 1 (b", b"caf\xc3", b""] {
            let stat = [b"4711 (", name, b")", rest.as_bytes()].concat();
            assert_eq!(cpu_in(&stat), Some(17), "{name:?}");
        }
        assert_eq!((cpu_in(b""), cpu_in(b"1 (a) R 1 2"), cpu_in(b"1 (a")), (None, None, None));
    }
}
