//! Facts about this machine and this process, from `/proc` and `/sys`. If a file is missing, unreadable or malformed,
//! the answer is None or false.

use super::read_file;
use std::fs;
use std::path::Path;

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

/// Returns `kernel.perf_event_paranoid`.
pub(crate) fn paranoid_level() -> Option<i32> {
    number("/proc/sys/kernel/perf_event_paranoid")
}

/// Returns `kernel.perf_event_mlock_kb`: the KiB that a user may map without the right to lock memory.
pub(crate) fn mlock_kilobytes() -> Option<u64> {
    number("/proc/sys/kernel/perf_event_mlock_kb")
}

/// Returns a field of this thread's status.
fn status(field: &str) -> Option<String> {
    let status = text("/proc/thread-self/status").or_else(|| text("/proc/self/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// Whether a seccomp filter checks this thread's system calls.
pub(crate) fn has_seccomp_filter() -> bool {
    seccomp_mode() == Some(2)
}

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;

fn has_capability(number: u32) -> bool {
    let effective = status("CapEff").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    effective.unwrap_or(0) >> number & 1 == 1
}

/// Whether `perf_event_paranoid` does not apply: the process has CAP_PERFMON or CAP_SYS_ADMIN in the initial user
/// namespace.
pub(crate) fn is_privileged() -> bool {
    let capable = has_capability(CAP_SYS_ADMIN) || has_capability(CAP_PERFMON);
    // A kernel without this file has no user namespaces, and this process is in the only one.
    let initial = text("/proc/self/uid_map")
        .is_none_or(|map| map.split_ascii_whitespace().eq(["0", "0", "4294967295"]));
    capable && initial
}

/// Returns the setting by which the administrator allows or forbids user access: its path and its value.
pub(crate) fn user_access() -> Option<(&'static str, i32)> {
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

/// Whether this counter is among the kernel's available clock sources. The kernel removes a counter from the list
/// when it finds that it cannot use it.
pub(crate) fn trusts_clock_source(name: &str) -> bool {
    text(Path::new(CLOCK_SOURCES).join("available_clocksource"))
        .is_some_and(|names| names.split_ascii_whitespace().any(|available| available == name))
}

/// Whether this counter is the kernel's current clock source.
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
        || (!cfg!(target_arch = "x86_64") && hypervisor_product().is_some()) // x86-64 has the flag
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

/// Vendor, family and model of an x86 CPU.
#[derive(Debug)]
pub(crate) struct Processor {
    pub(crate) vendor: String,
    pub(crate) family: u32,
    pub(crate) model: u32,
}

/// Returns vendor, family and model of the first CPU. None on other architectures.
pub(crate) fn processor_model() -> Option<Processor> {
    processor_model_in(&text("/proc/cpuinfo")?)
}

fn processor_model_in(cpuinfo: &str) -> Option<Processor> {
    Some(Processor {
        vendor: field(cpuinfo, "vendor_id")?.to_owned(),
        family: field(cpuinfo, "cpu family")?.parse().ok()?,
        model: field(cpuinfo, "model")?.parse().ok()?,
    })
}

/// Returns a field of the first processor in `/proc/cpuinfo`, or in a part of it.
fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    Some(fields.find(|(known, _)| known.trim() == name)?.1.trim())
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

/// Whether the CPU is an Intel model with several core types. In a guest, only its family and model show that.
pub(crate) fn is_hybrid() -> bool {
    text("/proc/cpuinfo").is_some_and(|cpuinfo| is_hybrid_in(&cpuinfo))
}

fn is_hybrid_in(cpuinfo: &str) -> bool {
    // Lakefield; Alder, Raptor, Meteor, Arrow, Lunar, Panther, Wildcat Lake.
    const MODELS: [u32; 14] =
        [0x8a, 0x97, 0x9a, 0xb7, 0xba, 0xbf, 0xaa, 0xac, 0xb5, 0xc5, 0xc6, 0xbd, 0xcc, 0xd5];
    processor_model_in(cpuinfo).is_some_and(|Processor { vendor, family, model }| {
        vendor == "GenuineIntel" && family == 6 && MODELS.contains(&model)
    })
}

/// Returns the kernel's name and release, e.g. `Linux 6.12.43`.
pub(crate) fn kernel() -> Option<String> {
    let name = text("/proc/sys/kernel/ostype")?;
    Some(format!("{name} {}", text("/proc/sys/kernel/osrelease")?))
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
        let name = field("model name").map(str::to_owned).or_else(arm);
        let name = name.or_else(|| Some(field("uarch").or_else(|| field("isa"))?.to_owned()));
        names.extend(name.filter(|name| !names.contains(name)));
    }
    if names.is_empty() { None } else { Some(names.join("; ")) }
}

/// Returns what tells CPU models apart: the architecture, the name and the numbers of each model in this machine.
pub(crate) fn processor_identity() -> Option<String> {
    identity_in(&text("/proc/cpuinfo")?)
}

fn identity_in(cpuinfo: &str) -> Option<String> {
    // x86-64, arm64 and riscv64. A hypervisor may give all its CPUs one name.
    const FIELDS: [&str; 12] = [
        "model name",
        "cpu family",
        "model",
        "stepping",
        "CPU implementer",
        "CPU variant",
        "CPU part",
        "CPU revision",
        "mvendorid",
        "marchid",
        "mimpid",
        "isa",
    ];
    let mut models: Vec<String> = Vec::new();
    for processor in cpuinfo.split("\n\n") {
        let model =
            FIELDS.iter().filter_map(|name| field(processor, name)).collect::<Vec<_>>().join(" ");
        if !model.is_empty() && !models.contains(&model) {
            models.push(model);
        }
    }
    (!models.is_empty()).then(|| format!("{} {}", std::env::consts::ARCH, models.join("; ")))
}

/// Returns the capability that exempts this process from `perf_event_paranoid`. None outside the initial user
/// namespace, or if it has none.
pub(crate) fn capability() -> Option<&'static str> {
    is_privileged()
        .then(|| if has_capability(CAP_PERFMON) { "CAP_PERFMON" } else { "CAP_SYS_ADMIN" })
}

/// Returns the seccomp mode (`Seccomp` in the thread's status): 0 none, 1 strict, 2 filter.
pub(crate) fn seccomp_mode() -> Option<u32> {
    status("Seccomp")?.parse().ok()
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
    fn hybrid_processors_by_family_and_model() {
        let cpuinfo = |vendor: &str, family: u32, model: u32| {
            format!(
                "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n\
                 model name\t: 12th Gen\nflags\t\t: fpu hypervisor\n\nprocessor\t: 1\n"
            )
        };
        assert!(is_hybrid_in(&cpuinfo("GenuineIntel", 6, 0x97)));
        assert!(is_hybrid_in(&cpuinfo("GenuineIntel", 6, 0xcc)));
        for other in [
            cpuinfo("GenuineIntel", 6, 0x8f),  // Sapphire Rapids
            cpuinfo("GenuineIntel", 6, 0xbe),  // Alder Lake-N: efficient cores alone
            cpuinfo("GenuineIntel", 18, 0x97), // another family
            cpuinfo("AuthenticAMD", 6, 0x97),
            "vendor_id : GenuineIntel\ncpu family : 6\nmodel : many\n".to_owned(),
            String::new(),
        ] {
            assert!(!is_hybrid_in(&other), "{other}");
        }
    }

    #[test]
    fn models_are_told_apart() {
        let of = |cpuinfo: &str| Some(identity_in(cpuinfo)?.split_once(' ')?.1.to_owned());
        let intel = "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 167\nmodel name\t: Xeon\nstepping\t: 1\ncpu MHz\t: 2.6\n";
        assert_eq!(of(&format!("{intel}\n{intel}\n")).as_deref(), Some("Xeon 6 167 1"));
        let arm = |part, variant| {
            format!(
                "processor\t: 0\nBogoMIPS\t: 1\nCPU implementer\t: 0x41\nCPU variant\t: {variant}\nCPU part\t: {part}\nCPU revision\t: 1\n\n"
            )
        };
        let two = format!("{}{}{}", arm("0xd0c", "0x3"), arm("0xd05", "0x1"), arm("0xd0c", "0x3"));
        assert_eq!(of(&two).as_deref(), Some("0x41 0x3 0xd0c 1; 0x41 0x1 0xd05 1"));
        assert_eq!(
            of("processor\t: 0\nisa\t: rv64\nmvendorid\t: 0x1\n").as_deref(),
            Some("0x1 rv64")
        );
        assert_eq!((identity_in(""), identity_in("processor\t: 0\n")), (None, None));
    }
}
