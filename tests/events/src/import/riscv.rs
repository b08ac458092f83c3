//! The RISC-V CPUs of Linux's JSON files.

use super::linux;
use crate::source::{Cpu, Source, Terms};
use std::path::Path;

const ORIGIN: &str = "# RISC-V's events: names and encodings of Linux 7.3.4, tools/perf/pmu-events/arch/riscv. No descriptions.
# The fields are explained in tests/events/src/source.rs.
";

/// The table's name, its other names, the directory, and the CPUs: the beginning of `mvendorid-marchid-mimpid`, hexadecimal, with
/// classes of digits. `$` is the end.
const CPUS: [(&str, &[&str], &str, &[&str]); 9] = [
    ("andes_ax45", &["ax45"], "andes/ax45", &["31e-8000000000008a45-"]),
    ("openhwgroup_cva6", &["cva6"], "openhwgroup/cva6", &["602-3-0$"]),
    ("sifive_bullet", &["sifive_u74", "u74"], "sifive/bullet", &["489-8000000000000007-"]),
    ("sifive_bullet_07", &[], "sifive/bullet-07", &["489-8000000000000[1-9a-e]07-[78ac]"]),
    ("sifive_bullet_0d", &[], "sifive/bullet-0d", &["489-8000000000000[1-9a-e]07-d"]),
    ("sifive_p550", &["p550"], "sifive/p550", &["489-8000000000000008-"]),
    ("sifive_p650", &["p650"], "sifive/p650", &["489-8000000000000[1-6]08-[9b]"]),
    ("starfive_dubhe_80", &["dubhe_80"], "starfive/dubhe-80", &["67e-80000000db0000[89]0-"]),
    (
        "thead_c900_legacy",
        &["thead_c906", "thead_c910"],
        "thead/c900-legacy",
        &["5b7-0-0$", "5b7-80000000090c0d00-2047000$"],
    ),
];

/// Reads Linux's directory `tools/perf/pmu-events/arch`.
pub(crate) fn read(directory: &Path) -> Result<Source, String> {
    let directory = directory.join("riscv");
    let shared = linux::shared(&[&directory.join("riscv-sbi-firmware.json")])?;
    let mut source = Source { origin: ORIGIN.to_owned(), ..Source::default() };
    for (name, aliases, files, matches) in CPUS {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        source.cpus.push(Cpu {
            name: name.to_owned(),
            aliases: owned(aliases),
            matches: owned(matches),
        });
        for (event, code) in linux::events(&directory.join(files), &shared)? {
            source.add(name, &event, Terms { event: code, ..Terms::default() }, "");
        }
    }
    Ok(source)
}
