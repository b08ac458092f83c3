//! The tables of this machine's CPU: by `/proc/cpuinfo`, and by its core PMUs if it has several types of core.

use crate::encoding::Layout;
use crate::error::EventError;
use crate::table::Table;
use rdpmc::pmu::{CpuSet, Pmu, Pmus};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

/// A type of core of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Core {
    pub(crate) table: Table,
    /// The type of its PMU. None if the machine has none.
    pub(crate) pmu: Option<(String, u32)>,
}

impl Core {
    /// Whether a name's PMU is this one's: by its name or its type.
    pub(crate) fn is_called(&self, pmu: &str) -> bool {
        match &self.pmu {
            Some((name, type_id)) => name.eq_ignore_ascii_case(pmu) || pmu.parse() == Ok(*type_id),
            None => self.table.has_pmu(pmu),
        }
    }
}

/// Returns this machine's types of core that have a table.
pub(crate) fn cores() -> Result<Vec<Core>, EventError> {
    let cpuinfo = text(Path::new("/proc/cpuinfo")).unwrap_or_default();
    let pmus = Pmus::local().all().map_err(EventError::Name)?;
    let core: Vec<PmuOfCores> =
        pmus.iter().filter(|pmu| pmu.is_core()).map(PmuOfCores::from_pmu).collect();
    let processors = processors(&cpuinfo);
    let cores = cores_of(&processors, &core);
    match processors.first() {
        _ if !cores.is_empty() => Ok(cores),
        first => Err(EventError::UnknownCpu { cpu: first.map(|(_, id)| id.to_string()) }),
    }
}

/// Returns the text of a file. None if it is none.
pub(crate) fn text(path: &Path) -> Option<String> {
    // `/proc/cpuinfo` has 2 KiB for each CPU.
    const LIMIT: u64 = 1 << 26;
    // Opening a pipe waits.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(LIMIT).read_to_string(&mut text).ok()?;
    Some(text)
}

/// What is needed of a core PMU.
#[derive(Clone, Debug)]
struct PmuOfCores {
    name: String,
    type_id: u32,
    cpus: Option<CpuSet>,
}

impl PmuOfCores {
    fn from_pmu(pmu: &Pmu) -> PmuOfCores {
        PmuOfCores {
            name: pmu.name().to_owned(),
            type_id: pmu.type_id(),
            cpus: pmu.cpus().cloned(),
        }
    }
}

/// A CPU model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Id {
    X86 { layout: Layout, family: u32, model: u32, stepping: u32 },
    Arm { part: u32, variant: u32 },
    RiscV { vendor: u64, architecture: u64, implementation: u64 },
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Id::X86 { layout, family, model, .. } => {
                let vendor = if *layout == Layout::Intel { "Intel" } else { "AMD" };
                write!(f, "{vendor} family {family}, model {model:#x}")
            }
            Id::Arm { part, .. } => {
                write!(f, "arm64 implementer {:#x}, part {:#x}", part >> 12, part & 0xfff)
            }
            Id::RiscV { vendor, architecture, implementation } => write!(
                f,
                "riscv64 mvendorid {vendor:#x}, marchid {architecture:#x}, mimpid {implementation:#x}"
            ),
        }
    }
}

/// Returns the processors' numbers and models.
fn processors(cpuinfo: &str) -> Vec<(u32, Id)> {
    cpuinfo.split("\n\n").filter_map(processor).collect()
}

fn processor(text: &str) -> Option<(u32, Id)> {
    let field = |wanted: &str| {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        fields
            .map(|(name, value)| (name.trim(), value.trim()))
            .find(|(name, _)| *name == wanted)
            .map(|(_, value)| value)
    };
    let long = |name: &str| {
        let value = field(name)?;
        match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => value.parse().ok(),
        }
    };
    let number = |name: &str| long(name).and_then(|number| u32::try_from(number).ok());
    let id = if let Some(vendor) = field("vendor_id") {
        let layout = match vendor {
            "GenuineIntel" => Layout::Intel,
            "AuthenticAMD" | "HygonGenuine" => Layout::Amd,
            _ => return None,
        };
        let stepping = number("stepping").unwrap_or(0);
        Id::X86 { layout, family: number("cpu family")?, model: number("model")?, stepping }
    } else if let Some(vendor) = long("mvendorid") {
        Id::RiscV { vendor, architecture: long("marchid")?, implementation: long("mimpid")? }
    } else {
        let implementer = number("CPU implementer").filter(|implementer| *implementer < 0x100)?;
        Id::Arm {
            part: implementer << 12 | number("CPU part")? & 0xfff,
            variant: number("CPU variant").unwrap_or(0),
        }
    };
    Some((number("processor")?, id))
}

/// Returns the types of core of these processors and core PMUs.
fn cores_of(processors: &[(u32, Id)], pmus: &[PmuOfCores]) -> Vec<Core> {
    let Some((_, first)) = processors.first() else { return Vec::new() };
    let core = |pmu: &PmuOfCores, table| Core { table, pmu: Some((pmu.name.clone(), pmu.type_id)) };
    let mut cores: Vec<Core> = match first {
        Id::X86 { .. } | Id::RiscV { .. } => {
            let tables = tables(*first);
            let fits = |pmu: &str, table: &&(Table, &str)| {
                table.1.is_empty() || table.1 == pmu || pmu == "cpu"
            };
            match pmus {
                // All types: an event is refused when it is opened.
                [] => tables.iter().map(|(table, _)| Core { table: *table, pmu: None }).collect(),
                pmus => pmus
                    .iter()
                    .filter_map(|pmu| {
                        Some(core(pmu, tables.iter().find(|table| fits(&pmu.name, table))?.0))
                    })
                    .collect(),
            }
        }
        Id::Arm { .. } => {
            let table = |id: Id| {
                let own = tables(id).first().map(|(table, _)| *table);
                own.or_else(|| Table::named("armv8"))
            };
            let of_pmu = |pmu: &PmuOfCores| {
                let by_name = pmu.name.split_once('_').and_then(|(_, name)| Table::named(name));
                let is_its = |(cpu, _): &&(u32, Id)| {
                    pmu.cpus.as_ref().is_none_or(|cpus| cpus.contains(*cpu))
                };
                let own =
                    || tables(processors.iter().find(is_its)?.1).first().map(|(table, _)| *table);
                // Only PMUs of the architecture have its numbers. Apple's have others.
                let common = || Table::named("armv8").filter(|_| pmu.name.starts_with("armv"));
                by_name.or_else(own).or_else(common)
            };
            match pmus {
                [] => processors
                    .iter()
                    .filter_map(|(_, id)| Some(Core { table: table(*id)?, pmu: None }))
                    .collect(),
                pmus => pmus.iter().filter_map(|pmu| Some(core(pmu, of_pmu(pmu)?))).collect(),
            }
        }
    };
    let mut seen: Vec<Core> = Vec::new();
    cores.retain(|core| {
        let is_new = !seen.contains(core);
        seen.push(core.clone());
        is_new
    });
    cores
}

/// Returns the tables of a model, with the PMU of the core type.
fn tables(id: Id) -> Vec<(Table, &'static str)> {
    let fits = |table: Table| {
        let models = table.row.models.iter();
        let mut fitting = models.filter(|known| match id {
            Id::X86 { layout, family, model, stepping } => {
                layout == table.layout() && known.has(family, model, stepping)
            }
            Id::Arm { part, variant } => {
                table.layout() == Layout::Arm && known.has(part, 0, variant)
            }
            Id::RiscV { vendor, architecture, implementation } => {
                let numbers = format!("{vendor:x}-{architecture:x}-{implementation:x}");
                known.has_numbers(&numbers)
            }
        });
        fitting.next().map(|known| (table, known.pmu))
    };
    let mut tables: Vec<_> = Table::all().filter_map(fits).collect();
    // Where only one type can be meant, it is the fast one.
    tables.sort_by_key(|(_, pmu)| *pmu != "cpu_core");
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn x86(vendor: &str, family: u32, model: u32, stepping: u32) -> String {
        let one = |number| {
            format!(
                "processor\t: {number}\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n\
                 model name\t: model\t: 1\nstepping\t: {stepping}\n\n"
            )
        };
        one(0) + &one(1)
    }

    fn arm(parts: &[(u32, u32)]) -> String {
        let one = |(number, (implementer, part)): (usize, &(u32, u32))| {
            format!(
                "processor\t: {number}\nBogoMIPS\t: 50.00\nCPU implementer\t: {implementer:#x}\nCPU part\t: {part:#x}\n\n"
            )
        };
        parts.iter().enumerate().map(one).collect()
    }

    fn pmu(name: &str, type_id: u32, cpus: Option<&str>) -> PmuOfCores {
        // Tests run at the same time.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("rdpmc-events-{}-{number}", std::process::id()));
        let of_pmu = directory.join(name);
        let written = fs::create_dir_all(&of_pmu)
            .and_then(|()| fs::write(of_pmu.join("type"), format!("{type_id}\n")))
            .and_then(|()| cpus.map_or(Ok(()), |cpus| fs::write(of_pmu.join("cpus"), cpus)));
        let read = Pmus::from_dir(&directory).get(name);
        let _ = fs::remove_dir_all(&directory);
        assert!(written.is_ok());
        PmuOfCores::from_pmu(&read.ok().flatten().unwrap_or_else(|| panic!("{name}")))
    }

    /// The tables and PMUs that are found.
    fn found(cpuinfo: &str, pmus: &[PmuOfCores]) -> Vec<String> {
        let cores = cores_of(&processors(cpuinfo), pmus);
        let text = |core: Core| match core.pmu {
            Some((pmu, type_id)) => format!("{} {pmu} {type_id}", core.table),
            None => core.table.name().to_owned(),
        };
        cores.into_iter().map(text).collect()
    }

    #[cfg(feature = "intel")]
    #[test]
    fn intel() {
        let cpu = [pmu("cpu", 4, None)];
        let skylake = x86("GenuineIntel", 6, 0x5e, 3);
        assert_eq!(found(&skylake, &cpu), ["skylake cpu 4"]);
        assert_eq!(found(&skylake, &[]), ["skylake"]);
        assert_eq!(found(&x86("GenuineIntel", 6, 0x55, 4), &cpu), ["skylakex cpu 4"]);
        assert_eq!(found(&x86("GenuineIntel", 6, 0x55, 7), &cpu), ["cascadelakex cpu 4"]);
        let hybrid = x86("GenuineIntel", 6, 0x97, 2);
        let both = [pmu("cpu_atom", 10, Some("16-23")), pmu("cpu_core", 4, Some("0-15"))];
        let tables = ["alderlake_gracemont cpu_atom 10", "alderlake_goldencove cpu_core 4"];
        assert_eq!(found(&hybrid, &both), tables);
        // In a virtual machine, which shows one type.
        assert_eq!(found(&hybrid, &cpu), ["alderlake_goldencove cpu 4"]);
        assert_eq!(found(&hybrid, &[]), ["alderlake_goldencove", "alderlake_gracemont"]);
        assert_eq!(found(&x86("GenuineIntel", 6, 0xff, 0), &cpu), [""; 0]);
    }

    #[cfg(feature = "amd")]
    #[test]
    fn amd() {
        let cpu = [pmu("cpu", 4, None)];
        for (family, model, table) in [
            (23, 1, "zen1"),
            (23, 0x31, "zen2"),
            (25, 1, "zen3"),
            (25, 0x11, "zen4"),
            (26, 2, "zen5"),
        ] {
            let cpuinfo = x86("AuthenticAMD", family, model, 0);
            assert_eq!(found(&cpuinfo, &cpu), [format!("{table} cpu 4")], "{family} {model}");
        }
        assert_eq!(found(&x86("HygonGenuine", 24, 0, 1), &cpu), ["zen1 cpu 4"]);
    }

    #[cfg(feature = "arm")]
    #[test]
    fn arm64() {
        let one = [pmu("armv8_pmuv3_0", 8, Some("0-3"))];
        let neoverse = arm(&[(0x41, 0xd0c); 2]);
        assert_eq!(found(&neoverse, &one), ["neoverse_n1 armv8_pmuv3_0 8"]);
        assert_eq!(found(&neoverse, &[]), ["neoverse_n1"]);
        // Without a table: the events of the architecture, if the PMU is one of it.
        assert_eq!(found(&arm(&[(0x61, 0x22)]), &one), ["armv8 armv8_pmuv3_0 8"]);
        let of_variant = |variant: u32| {
            format!(
                "processor : 0\nCPU implementer : 0x50\nCPU variant : {variant:#x}\nCPU part : 0x000\n"
            )
        };
        assert_eq!(found(&of_variant(0), &[]), ["xgene"]);
        assert_eq!(found(&of_variant(3), &[]), ["emag"]);
        let apple = [pmu("apple_firestorm_pmu", 10, Some("0-3"))];
        assert_eq!(found(&arm(&[(0x61, 0x22)]), &apple), [""; 0]);
        let types = [(0x41, 0xd03), (0x41, 0xd08)];
        let by_name =
            [pmu("armv8_cortex_a53", 8, Some("0")), pmu("armv8_cortex_a72", 9, Some("1"))];
        let tables = ["cortex_a53 armv8_cortex_a53 8", "cortex_a72 armv8_cortex_a72 9"];
        assert_eq!(found(&arm(&types), &by_name), tables);
        let by_cpu = [pmu("armv8_pmuv3_0", 8, Some("0")), pmu("armv8_pmuv3_1", 9, Some("1"))];
        let tables = ["cortex_a53 armv8_pmuv3_0 8", "cortex_a72 armv8_pmuv3_1 9"];
        assert_eq!(found(&arm(&types), &by_cpu), tables);
    }

    /// A pipe in place of `/proc/cpuinfo`, which nobody writes to, is not waited for.
    #[test]
    fn a_pipe_in_place_of_the_file() {
        let path = std::env::temp_dir().join(format!("rdpmc-events-{}-pipe", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        let found = text(&path);
        let is_pipe = fs::metadata(&path).is_ok_and(|about| !about.is_file());
        let _ = fs::remove_file(&path);
        assert!(made.is_ok_and(|status| status.success()) && is_pipe);
        assert_eq!(found, None);
        assert_eq!(text(Path::new("/nonexistent")), None);
    }

    #[cfg(feature = "riscv")]
    #[test]
    fn riscv64() {
        let cpu = [pmu("cpu", 4, None)];
        let cpuinfo = |vendor: &str, architecture: &str, implementation: &str| {
            format!(
                "processor\t: 0\nhart\t\t: 1\nisa\t\t: rv64imafdc\nmvendorid\t: {vendor}\n\
                 marchid\t\t: {architecture}\nmimpid\t\t: {implementation}\n\n"
            )
        };
        let u74 = cpuinfo("0x489", "0x8000000000000007", "0x4210427");
        assert_eq!(found(&u74, &cpu), ["sifive_bullet cpu 4"]);
        assert_eq!(found(&cpuinfo("0x5b7", "0x0", "0x0"), &[]), ["thead_c900_legacy"]);
        let p650 = cpuinfo("0x489", "0x8000000000000308", "0x9000000");
        assert_eq!(found(&p650, &cpu), ["sifive_p650 cpu 4"]);
        // Emulated machines.
        assert_eq!(found(&cpuinfo("0x0", "0x0", "0x0"), &cpu), [""; 0]);
    }

    #[test]
    fn what_is_not_understood() {
        for cpuinfo in [
            "",
            "\n\n\n",
            "processor : 0\nvendor_id : Unknown\n",
            "processor: x\nCPU implementer: 0x41\nCPU part: 0xd0c",
        ] {
            assert_eq!(found(cpuinfo, &[]), [""; 0], "{cpuinfo:?}");
        }
        assert_eq!(processors(&arm(&[(0x1_0041, 0xd0c)])), []);
    }
}
