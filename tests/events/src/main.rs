//! Makes the data of `rdpmc-events`. See README.md.

mod compare;
mod generate;
mod import;
mod libpfm;
mod metrics;
mod perf;
mod source;

use source::Source;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

const CRATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/events");
/// The limit of names, encodings and tables, without the descriptions.
const MAX_BYTES: usize = 300_000;
const VENDORS: [&str; 4] = ["intel", "amd", "arm", "riscv"];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result =
        match arguments[..] {
            ["import", "intel", directory, list] => text(Path::new(list))
            .and_then(|list| import::intel::read(Path::new(directory), &libpfm::parse(&list)?))
            .and_then(|source| write_source("intel", &source)),
        ["import", "arm", directory, list, linux] => text(Path::new(list))
            .and_then(|list| {
                let lines = libpfm::parse(&list)?;
                import::arm::read(Path::new(directory), &lines, Path::new(linux))
            })
            .and_then(|source| write_source("arm", &source)),
        ["import", "amd", list, room, ref perf @ ..] => text(Path::new(list))
            .and_then(|list| import::amd::read(&libpfm::parse(&list)?, Path::new(room), perf))
            .and_then(|source| write_source("amd", &source)),
        ["import", "riscv", linux] => import::riscv::read(Path::new(linux))
            .and_then(|source| write_source("riscv", &source)),
        ["libpfm4", list] => text(Path::new(list))
                .and_then(|list| compare::with_libpfm4(&libpfm::parse(&list)?))
                .map(|comparison| comparison.print("libpfm4")),
            ["perf", vendor, room, ref perf @ ..] => source(vendor)
                .and_then(|source| compare::with_perf(vendor, &source, Path::new(room), perf))
                .map(|comparison| comparison.print("perf")),
            ["metrics", vendor, room, ref perf @ ..] => source(vendor)
                .and_then(|source| metrics::compare(vendor, &source, Path::new(room), perf)),
            ["metrics-of-arm", linux] => metrics::compare_arm(Path::new(linux)),
        ["generate", directory] => generate_all(Path::new(directory)),
            _ => Err("usage: import intel DIRECTORY LIST | import arm DIRECTORY LIST LINUX | import amd LIST DIRECTORY COMMAND... | import riscv LINUX | generate DIRECTORY | libpfm4 LIST | perf intel|amd DIRECTORY COMMAND... | metrics intel|amd DIRECTORY COMMAND... | metrics-of-arm LINUX"
                .to_owned()),
        };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))
}

fn source(vendor: &str) -> Result<Source, String> {
    Source::parse(&text(&Path::new(CRATE).join(format!("sources/{vendor}.txt")))?)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|why| format!("{}: {why}", path.display()))
}

fn write_source(vendor: &str, source: &Source) -> Result<(), String> {
    let names: usize = source.events.values().map(|entry| entry.tables.len()).sum();
    println!(
        "{vendor}: {} tables, {names} names, {} different",
        source.cpus.len(),
        source.events.len()
    );
    write(&Path::new(CRATE).join(format!("sources/{vendor}.txt")), source.to_string().as_bytes())
}

/// Writes the data of each vendor into the directory, which has the crate's layout.
fn generate_all(directory: &Path) -> Result<(), String> {
    let (mut bytes, mut tables, mut names) = (0, 0, 0);
    for vendor in VENDORS {
        let source =
            Source::parse(&text(&Path::new(CRATE).join(format!("sources/{vendor}.txt")))?)?;
        let generated = generate::generate(vendor, &source)?;
        for (file, content) in &generated.files {
            write(&directory.join(file), content)?;
        }
        println!(
            "{vendor}: {} tables, {} names, {} bytes of names and {} of tables, {} of descriptions",
            source.cpus.len(),
            generated.names,
            generated.pool_bytes,
            generated.table_bytes,
            generated.description_bytes
        );
        bytes += generated.pool_bytes + generated.table_bytes;
        tables += source.cpus.len();
        names += generated.names;
    }
    println!("all: {tables} tables, {names} names, {bytes} bytes");
    if bytes > MAX_BYTES {
        return Err(format!("the tables of all vendors may have {MAX_BYTES} bytes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdpmc::Event;
    use rdpmc_events::Table;

    /// What the crate unpacks is what the sources say: names, encodings and descriptions, of every table.
    #[test]
    fn the_data_is_that_of_the_sources() {
        let mut compared = 0;
        for vendor in VENDORS {
            let source = source(vendor).unwrap_or_else(|why| panic!("{why}"));
            for cpu in &source.cpus {
                let table =
                    Table::named(&cpu.name).unwrap_or_else(|| panic!("no table {}", cpu.name));
                for alias in &cpu.aliases {
                    assert_eq!(Table::named(alias), Some(table), "{alias}");
                }
                let own =
                    source.events.iter().filter(|(_, entry)| entry.tables.contains(&cpu.name));
                let expected: Vec<_> = own
                    .map(|((name, terms), entry)| {
                        let event = Event::raw(config(vendor, terms)).with_config1(terms.config1);
                        let text = Some(entry.description.clone()).filter(|text| !text.is_empty());
                        (name.clone(), event, text)
                    })
                    .collect();
                let found: Vec<_> = table
                    .events()
                    .into_iter()
                    .map(|known| (known.name, known.event, known.description))
                    .collect();
                assert_eq!(found, expected, "{}", cpu.name);
                compared += found.len();
            }
        }
        assert!(compared > 24_000, "{compared}");
    }

    /// The kernel's `config`, written out for each vendor.
    fn config(vendor: &str, terms: &source::Terms) -> u64 {
        let (event, umask) = (terms.event, u64::from(terms.umask));
        let bit = |is_set: bool, bit: u32| u64::from(is_set) << bit;
        let flags = bit(terms.edge, 18)
            | bit(terms.any, 21)
            | bit(terms.inv, 23)
            | bit(terms.eq, 36)
            | u64::from(terms.cmask) << 24;
        match vendor {
            "intel" => event | (umask & 0xff) << 8 | (umask >> 8) << 40 | flags,
            "amd" => event & 0xff | (event >> 8) << 32 | umask << 8 | flags,
            _ => event,
        }
    }
}
