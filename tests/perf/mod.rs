//! Names of events, and what perf itself requests from the kernel for them. The guest program of the emulated
//! machines uses this, too.
#![allow(dead_code, unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use rdpmc::Event;
use rdpmc::pmu::Pmus;
use std::process::Command;

/// Returns the type and the config words of the first event that perf opens for this name, or perf's message.
pub fn by_perf(mut perf: Command, program: &str, name: &str) -> Result<(u32, [u64; 3]), String> {
    let output = perf.args(["stat", "-vv", "-e", name, program]).output();
    let output = output.map_err(|why| why.to_string())?;
    let text = String::from_utf8_lossy(&output.stderr);
    let Some((_, attr)) = text.split_once("perf_event_attr:") else {
        return Err(text.into_owned());
    };
    // On some CPUs, perf prints other lines in between, which are not indented.
    let lines = attr.lines().take_while(|line| !line.starts_with("----"));
    let attr: Vec<&str> = lines.filter(|line| line.starts_with("  ")).collect();
    // perf omits fields that are 0. Later versions print names for types.
    let field = |name: &str| {
        // Some fields have two names: `{ bp_addr, config1 }`. The meaning may follow the value.
        let is_it = |line: &&str| line.split(['{', '}', ',', ' ']).any(|word| word == name);
        let line = attr.iter().find(|line| is_it(line))?;
        let value = line.rsplit('}').next()?;
        let value = value.split_whitespace().find(|word| *word != name)?;
        match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => value.parse().ok(),
        }
    };
    let word = |name| field(name).unwrap_or(0);
    let words = [word("config"), word("config1"), word("config2")];
    Ok((u32::try_from(word("type")).unwrap(), words))
}

/// Returns every name of the kernel's own events, in all spellings that perf accepts.
fn names() -> Vec<String> {
    let mut names: Vec<String> = [
        "cycles",
        "cpu-cycles",
        "instructions",
        "cache-references",
        "cache-misses",
        "branches",
        "branch-instructions",
        "branch-misses",
        "bus-cycles",
        "stalled-cycles-frontend",
        "idle-cycles-frontend",
        "stalled-cycles-backend",
        "idle-cycles-backend",
        "ref-cycles",
        "cpu-clock",
        "task-clock",
        "page-faults",
        "faults",
        "minor-faults",
        "major-faults",
        "context-switches",
        "cs",
        "cpu-migrations",
        "migrations",
        "alignment-faults",
        "emulation-faults",
        "dummy",
        "bpf-output",
        "cgroup-switches",
        "cycles:u",
        "instructions:uk",
        "branch-misses:k",
        "page-faults:u",
        "cycles:D",
        "cycles:H",
        "r01c2",
        "r1a",
        "r1ffffffff:u",
        "rc0",
        "LLC",
        "branch",
        "node",
        "dTLB",
        "l1d-read",
        "L1-data-write-miss",
        "L2",
        "L2-misses",
        "l1-i-speculative-read-misses",
        "btb-Reference",
        "d-tlb-access",
    ]
    .map(str::to_owned)
    .to_vec();
    for cache in ["L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"] {
        for access in ["load", "store", "prefetch"] {
            let all = if access == "prefetch" { "prefetches".into() } else { format!("{access}s") };
            names.push(format!("{cache}-{all}"));
            names.push(format!("{cache}-{access}-misses"));
        }
    }
    // The events and terms of this machine's PMUs.
    for pmu in Pmus::local().all().unwrap() {
        names.extend(pmu.events().iter().map(|event| format!("{}/{}/", pmu.name(), event.name)));
        for (term, bits) in pmu.terms() {
            let most = u64::MAX >> (64 - bits.clamp(1, 64));
            names.push(format!("{}/{term}={most:#x}/", pmu.name()));
        }
    }
    names
}

/// Compares all names by this perf, which has to run a program that ends. Returns how many are equal, and the names
/// that perf rejects. A difference is an error.
pub fn compare(perf: &str, program: &str) -> Result<(usize, Vec<String>), String> {
    let (mut same, mut refused) = (0, Vec::new());
    for name in names() {
        let ours: Event = match name.parse() {
            Ok(event) => event,
            // A term that needs a value is not a name by itself.
            Err(why) if why.to_string().contains("needs a value") => continue,
            Err(why) => return Err(format!("{name}: {why}")),
        };
        match by_perf(Command::new(perf), program, &name) {
            Ok((kind, [config, config1, config2])) => {
                let theirs =
                    Event::of_pmu(kind, config).with_config1(config1).with_config2(config2);
                // Without the modifiers, because perf has other default privilege levels.
                let plain: Event = name.split(':').next().unwrap().parse().unwrap();
                if plain != theirs {
                    return Err(format!("{name} is {ours:?}, by perf {theirs:?}"));
                }
                same += 1;
            }
            // Events that no CPU has, such as stores through the instruction cache. The kernel refuses them, too.
            Err(why) => {
                let of = |cache: &&str| name.starts_with(cache);
                if !["L1-icache", "iTLB", "branch"].iter().any(of) {
                    return Err(format!("{name}: {why}"));
                }
                refused.push(name);
            }
        }
    }
    Ok((same, refused))
}
