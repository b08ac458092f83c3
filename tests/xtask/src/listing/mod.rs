//! The machine code of the hot path, for review: `asm/listing` has a file per architecture.

mod objdump;
mod rules;

use crate::lock::Lock;
use crate::{Outcome, USAGE, commands};
use objdump::Listed;
use rules::Architecture;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const HELP: &str = "\
Usage: tests/vm/list          writes the files
       tests/vm/list check    fails if the code differs from the files, exceeds a limit, or has a forbidden instruction";

const FUNCTIONS: [&str; 8] = [
    "read_user",
    "read_user_ordered",
    "group_of_four",
    "group_of_four_ordered",
    "region",
    "region_ordered",
    "now",
    "now_ordered",
];

pub(crate) fn list(arguments: &[&str]) -> Outcome {
    let check = match arguments {
        [] => false,
        ["check"] => true,
        _ => {
            eprintln!("{HELP}");
            return Ok(USAGE);
        }
    };
    commands::enter_root()?;
    let mut failed = false;
    commands::succeed(&mut commands::script("prepare"), "the Debian cannot be prepared")?;
    for architecture in Architecture::ALL {
        // Another clone may build with the same Debian. What is listed is what this one has built.
        let lock = format!("{}.lock", architecture.triple());
        let _builds = Lock::take(&commands::machines_directory().join(lock), || {})?;
        commands::succeed(
            commands::script("cargo")
                .args(["build", "--release", "--package", "listing"])
                .args(["--target", architecture.triple()]),
            "the functions to list do not build",
        )?;
        let (text, faults) = describe(architecture)?;
        for fault in &faults {
            eprintln!("{}: {fault}", architecture.name());
        }
        failed |= !faults.is_empty();
        let name = format!("asm/listing/{}.txt", architecture.name());
        let file = Path::new(&name);
        if check {
            let difference = commands::difference(file, &text)?;
            if !difference.is_empty() {
                print!("{difference}");
                eprintln!(
                    "{}: the code has changed: look at it, and run tests/vm/list",
                    architecture.name()
                );
                failed = true;
            }
        } else {
            fs::create_dir_all("asm/listing")
                .and_then(|()| fs::write(file, text))
                .map_err(|error| format!("{name}: {error}"))?;
        }
    }
    Ok(failed.into())
}

/// Returns the text for an architecture's file, and which rules the code breaks.
fn describe(architecture: Architecture) -> Result<(String, Vec<String>), String> {
    let compiler = commands::text(commands::in_debian("rustc").arg("--version"))?;
    let compiler: Vec<&str> = compiler.split_whitespace().take(2).collect();
    let mut text = format!("Written by tests/vm/list, with {}.\n", compiler.join(" "));
    let mut faults = Vec::new();
    let binary = format!("/build/{}/release/listing", architecture.triple());
    let symbols = commands::text(binutil(architecture, "nm").arg(&binary))?;
    for function in FUNCTIONS {
        let disassembly = commands::text(
            binutil(architecture, "objdump")
                .args(["-d", "--no-show-raw-insn"])
                .arg(format!("--disassemble={function}"))
                .arg(&binary),
        )?;
        let code = objdump::code(&disassembly, &Listed { function });
        if code.is_empty() {
            // Without fences, the linker merges the ordered function with the unordered one, at one address.
            let plain = function.trim_end_matches("_ordered");
            let address = objdump::address(&symbols, function);
            let is_merged = architecture == Architecture::Riscv64
                && function != plain
                && address.is_some()
                && address == objdump::address(&symbols, plain);
            if is_merged {
                text += &format!("\n{function}: the same as {plain}\n");
            } else {
                faults.push(format!("there is no function {function}"));
            }
            continue;
        }
        text += &format!("\n{function}: {} instructions\n\n", code.len());
        text += &indented(code.iter());
        faults.extend(rules::faults(architecture, function, &code));
    }
    if architecture != Architecture::X86_64 {
        // The entries that the reads branch to: those for no counter and for the first two counters.
        text += "\nthe table of counters, its beginning\n\n";
        let table = objdump::table(&table_of_counters(architecture)?);
        text += &indented(table.iter().take(12));
    }
    Ok((text, faults))
}

fn indented<'a>(code: impl Iterator<Item = &'a String>) -> String {
    code.map(|instruction| format!("    {instruction}\n")).collect()
}

fn binutil(architecture: Architecture, name: &str) -> Command {
    commands::in_debian(&format!("{}-linux-gnu-{name}", architecture.name()))
}

/// Returns the disassembly of the section in the newest build of the library.
fn table_of_counters(architecture: Architecture) -> Result<String, String> {
    let libraries = format!("/build/{}/release/deps/librdpmc-*.rlib", architecture.triple());
    let newest = commands::text(
        commands::in_debian("sh").arg("-c").arg(format!("ls -t {libraries} | head -n 1")),
    )?;
    // objdump complains about the members of the library that are not machine code.
    let output = binutil(architecture, "objdump")
        .args(["-d", "-z", "--no-show-raw-insn", "-j", ".text.rdpmc_counters", newest.trim()])
        .stderr(Stdio::null())
        .output()
        .map_err(|error| format!("objdump: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
