//! What tells the CPUs of two machines apart.

use std::fs::{self, File};
use std::io::Read as _;

/// Returns the architecture, and the name and the numbers of each CPU model in this machine (`/proc/cpuinfo`). Counts of two
/// runs are comparable only if this is equal.
///
/// None if the kernel does not show it. Reads one file.
pub fn cpu_identity() -> Option<String> {
    // `/proc/cpuinfo` has 2 KiB for each CPU.
    const LIMIT: u64 = 1 << 26;
    let path = "/proc/cpuinfo";
    // Opening a pipe waits.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(LIMIT).read_to_string(&mut text).ok()?;
    identity_in(&text)
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

/// Returns a field of a processor.
fn field<'a>(processor: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = processor.lines().filter_map(|line| line.split_once(':'));
    Some(fields.find(|(known, _)| known.trim() == name)?.1.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

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
