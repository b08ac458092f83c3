//! Facts about this machine and this process, from `/proc` and `/sys`. If a file is missing, unreadable or malformed,
//! the answer is None or false, unless it is an error by its type.

use super::{EIO, EMFILE, ENFILE, Unreadable, read_file, seccomp_mode};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A limit above the size of any of these files, in bytes. `/proc/cpuinfo` has 2 KiB for each CPU.
const FILE_LIMIT: u64 = 1 << 26;

/// Returns the trimmed text. None if the file is missing, not regular, not UTF-8 or too long.
fn text(path: impl AsRef<Path>) -> Option<String> {
    let bytes = read_file(path.as_ref(), FILE_LIMIT).ok()??;
    let is_whole = (bytes.len() as u64) < FILE_LIMIT;
    Some(String::from_utf8(bytes).ok().filter(|_| is_whole)?.trim().to_owned())
}

fn number<N: std::str::FromStr>(path: impl AsRef<Path>) -> Option<N> {
    text(path)?.parse().ok()
}

pub(crate) const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// Returns `kernel.perf_event_paranoid`.
pub fn paranoid_level() -> Option<i32> {
    number(PARANOID)
}

/// Returns the error for which `kernel.perf_event_paranoid` cannot be read: no descriptor is left. None if there is another
/// reason.
pub(crate) fn no_descriptor_for_the_level() -> Option<Unreadable> {
    let error = read_file(Path::new(PARANOID), FILE_LIMIT).err()?;
    let is_used_up = matches!(error.raw_os_error(), Some(EMFILE | ENFILE));
    is_used_up.then(|| Unreadable::new(Path::new(PARANOID), &error))
}

/// Returns `kernel.perf_event_mlock_kb`: the KiB per CPU that a user may map without the right to lock memory.
pub fn mlock_kilobytes() -> Option<u64> {
    number("/proc/sys/kernel/perf_event_mlock_kb")
}

/// Returns a field of this thread's status.
fn status(field: &str) -> Option<String> {
    let status = text("/proc/thread-self/status").or_else(|| text("/proc/self/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// Whether a seccomp filter checks this thread's system calls. Asks the kernel only if there is no file, because a filter may
/// kill for the call. None if neither tells.
pub(crate) fn has_seccomp_filter() -> Option<bool> {
    const FILTER: i32 = 2;
    let mode = status("Seccomp").and_then(|mode| mode.parse().ok()).or_else(seccomp_mode);
    mode.map(|mode| mode == FILTER)
}

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;

/// Returns the capability that exempts this process from `perf_event_paranoid`: CAP_PERFMON or CAP_SYS_ADMIN. None outside the
/// initial user namespace, or if it has none.
pub fn capability() -> Option<&'static str> {
    let effective = u64::from_str_radix(&status("CapEff")?, 16).ok()?;
    let held = [(CAP_PERFMON, "CAP_PERFMON"), (CAP_SYS_ADMIN, "CAP_SYS_ADMIN")];
    let (_, capability) = held.into_iter().find(|(number, _)| effective >> number & 1 == 1)?;
    // A kernel without this link has no user namespaces, and this process is in the only one.
    let initial = std::fs::read_link("/proc/thread-self/ns/user")
        .map_or(true, |namespace| namespace.as_os_str() == "user:[4026531837]");
    initial.then_some(capability)
}

/// Returns the administrator's setting for user access: its path and its value. 0 forbids it, 1 allows it to processes with an
/// open event, 2 to every process. On x86-64, only root sees it. None if the kernel has no such setting.
pub fn user_access() -> Option<(&'static str, i32)> {
    let settings: &[&str] = if cfg!(target_arch = "x86_64") {
        &["/sys/bus/event_source/devices/cpu/rdpmc", "/sys/bus/event_source/devices/cpu_core/rdpmc"]
    } else {
        &["/proc/sys/kernel/perf_user_access"]
    };
    settings.iter().find_map(|path| Some((*path, number::<i32>(path)?)))
}

/// Whether the kernel lacks that setting, although it has perf's other settings.
pub(crate) fn lacks_user_access() -> bool {
    user_access().is_none() && paranoid_level().is_some()
}

const CLOCK_SOURCES: &str = "/sys/devices/system/clocksource/clocksource0";

/// Whether the kernel was last seen to trust the tick counter.
static WAS_TRUSTED: AtomicBool = AtomicBool::new(false);

/// Remembers whether the kernel trusts the tick counter, for a time when the list cannot be read.
pub(crate) fn remember_trust(is_trusted: bool) {
    WAS_TRUSTED.store(is_trusted, Ordering::Relaxed);
}

/// Whether this tick counter is among the kernel's available clock sources. The kernel removes a counter from the list
/// when it finds that it cannot use it.
///
/// # Errors
/// The list cannot be read, and the kernel was not last seen to trust the counter.
pub(crate) fn trusts_clock_source(name: &str) -> Result<bool, Unreadable> {
    let path = Path::new(CLOCK_SOURCES).join("available_clocksource");
    // The kernel always lists one. A sandbox may show an empty file, or a device.
    let list = read_file(&path, FILE_LIMIT).and_then(|bytes| {
        let bytes = bytes.filter(|bytes| !bytes.is_empty());
        bytes.ok_or_else(|| io::Error::from_raw_os_error(EIO))
    });
    match list {
        Ok(names) => {
            let is_listed =
                names.split(u8::is_ascii_whitespace).any(|listed| listed == name.as_bytes());
            remember_trust(is_listed);
            Ok(is_listed)
        }
        Err(_) if WAS_TRUSTED.load(Ordering::Relaxed) => Ok(true),
        Err(error) => Err(Unreadable::new(&path, &error)),
    }
}

/// Whether this counter is the kernel's current clock source.
pub(crate) fn keeps_time_by(name: &str) -> bool {
    text(Path::new(CLOCK_SOURCES).join("current_clocksource")).as_deref() == Some(name)
}

/// Whether files show that this is a virtual machine.
pub(crate) fn is_virtual() -> bool {
    Path::new("/proc/device-tree/hypervisor").exists()
        || Path::new("/sys/hypervisor/type").exists()
        || (!cfg!(target_arch = "x86_64") && hypervisor_product().is_some()) // the CPU shows it there
}

/// Whether this is the virtual machine of WSL2, by the name of its kernel.
pub(crate) fn is_wsl() -> bool {
    text("/proc/sys/kernel/osrelease").is_some_and(|release| is_wsl_release(&release))
}

fn is_wsl_release(release: &str) -> bool {
    let release = release.to_ascii_lowercase();
    release.contains("microsoft") && release.contains("wsl2")
}

/// Returns the hypervisor's product name from the firmware (SMBIOS) or from Xen. None if this is not known to be a
/// virtual machine.
pub(crate) fn hypervisor_product() -> Option<String> {
    let xen = text("/sys/hypervisor/type");
    let product = || {
        let [vendor, product] = ["sys_vendor", "product_name"]
            .map(|name| text(Path::new("/sys/class/dmi/id").join(name)).unwrap_or_default());
        let is_virtual = match vendor.as_str() {
            "QEMU" | "VMware, Inc." | "innotek GmbH" | "Xen" | "DigitalOcean" => true,
            "Google" => product == "Google Compute Engine", // others are laptops
            "Microsoft Corporation" => product == "Virtual Machine",
            "Amazon EC2" => !product.ends_with(".metal"),
            _ => product.contains("Virtual") || product.contains("KVM"),
        };
        is_virtual.then(|| format!("{vendor} {product}").trim().to_owned())
    };
    xen.or_else(product)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_of_wsl2() {
        for release in ["5.15.167.4-microsoft-standard-WSL2", "6.6.87.2-microsoft-standard-WSL2+"] {
            assert!(is_wsl_release(release), "{release}");
        }
        // The first WSL has no kernel of Linux.
        for release in ["4.4.0-19041-Microsoft", "6.8.0-1021-azure", "6.12.1-wsl2mine", ""] {
            assert!(!is_wsl_release(release), "{release}");
        }
    }
}
