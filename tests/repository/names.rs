//! Names of events on machines that are not at hand (`tests/machines`).
//!
//! The names are parsed with copies of those machines' `/sys/bus/event_source/devices`. A naive reading of these
//! files gives the expected events, and each event is written back as a name.
#![allow(clippy::disallowed_types, reason = "no child of a fork comes here")]

use crate::machines::{Machine, NAMES};
use crate::skips;
use std::sync::LazyLock;

use rdpmc::Event;
use rdpmc::error::ErrorKind;

/// The directory in which the machines are unpacked.
const TEMPORARY: &str = env!("CARGO_TARGET_TMPDIR");

const WORDS: [&str; 5] = ["config", "config1", "config2", "config3", "config4"];

fn event_of_words(pmu: u32, words: [u64; 5]) -> Event {
    Event::of_pmu(pmu, words[0])
        .with_config1(words[1])
        .with_config2(words[2])
        .with_config3(words[3])
        .with_config4(words[4])
}

/// Computes the words of `terms`, one bit of a `format` file after the other. None if a term needs a value from the
/// user.
fn naive(machine: &Machine, pmu: &str, terms: &str) -> Option<[u64; 5]> {
    let mut words = [0; 5];
    for term in terms.split(',') {
        let (name, value) = term.split_once('=').unwrap_or((term, "1"));
        if value == "?" {
            return None;
        }
        let value = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
            None => value.parse().unwrap(),
        };
        if let Some(word) = WORDS.iter().position(|word| *word == name) {
            words[word] = value;
            continue;
        }
        let format = machine.file(&format!("{pmu}/format/{name}")).expect(name);
        let (word, ranges) = format.split_once(':').unwrap();
        let word = WORDS.iter().position(|known| *known == word).unwrap();
        let mut bits = Vec::new();
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            bits.extend(first.parse::<u32>().unwrap()..=last.parse().unwrap());
        }
        for (place, bit) in bits.iter().enumerate() {
            words[word] |= (value >> place & 1) << bit;
        }
    }
    Some(words)
}

#[test]
fn every_machine_of_the_folder_is_tested() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    let files = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != "mod.rs");
    names.sort();
    assert_eq!(names, NAMES);
}

#[test]
fn every_event_of_every_machine() {
    let (mut events_seen, mut terms_seen, mut scaled) = (0, 0, 0);
    for machine in NAMES.map(|name| Machine::new(TEMPORARY, name, "every_event")) {
        let pmus = machine.pmus();
        let all = pmus.all().unwrap();
        let is_type = |path: &str| path.split('/').skip(1).eq(["type"]);
        let types = machine.files.iter().filter(|(path, _)| is_type(path)).count();
        assert_eq!(all.len(), types, "{}", machine.name);
        for pmu in &all {
            let name = pmu.name();
            assert_eq!(
                Some(pmu.type_id().to_string().as_str()),
                machine.file(&format!("{name}/type"))
            );
            let counts_for_cpus = machine.file(&format!("{name}/cpumask")).is_some();
            assert_eq!(pmu.counts_for_cpus(), counts_for_cpus, "{name}");
            let processors =
                machine.file(&format!("{name}/cpus")).or(machine.file(&format!("{name}/cpumask")));
            assert_eq!(pmu.cpus().map(ToString::to_string).as_deref(), processors, "{name}");

            // Each term alone, with all its bits set.
            let format = machine.of(name, "format");
            assert_eq!(pmu.terms().count(), format.len(), "{name}");
            for (term, bits) in pmu.terms() {
                let most = u64::MAX >> (64 - bits);
                let text = format!("{term}={most:#x}");
                let event = pmus.event(&format!("{name}/{text}/")).unwrap();
                let words = naive(&machine, name, &text).unwrap();
                assert_eq!(event, event_of_words(pmu.type_id(), words), "{name}/{text}/");
                assert_eq!(words.iter().map(|word| word.count_ones()).sum::<u32>(), bits);
                assert_eq!(pmus.event(&pmus.name_of(event)), Ok(event), "{name}/{text}/");
                if bits < 64 {
                    let error = pmus.event(&format!("{name}/{term}={:#x}/", most + 1)).unwrap_err();
                    assert!(error.to_string().contains(&format!("does not fit into {bits} bit")));
                }
                terms_seen += 1;
            }

            // Each event by its name.
            let files = machine.of(name, "events");
            let about = |file: &str| {
                [".scale", ".unit", ".per-pkg", ".snapshot"].iter().any(|end| file.ends_with(end))
            };
            let named: Vec<_> = files.iter().filter(|(file, _)| !about(file)).collect();
            assert_eq!(pmu.events().len(), named.len(), "{name}");
            for (event, terms) in named {
                let written = format!("{name}/{event}/");
                let known = pmu.events().iter().find(|known| known.name == *event).unwrap();
                assert_eq!(known.terms, *terms);
                let scale = machine.file(&format!("{name}/events/{event}.scale"));
                assert_eq!(known.scale(), scale.map(|scale| scale.parse().unwrap()), "{written}");
                assert_eq!(
                    known.unit.as_deref(),
                    machine.file(&format!("{name}/events/{event}.unit"))
                );
                scaled += usize::from(scale.is_some());
                match naive(&machine, name, terms) {
                    None => {
                        assert!(
                            pmus.event(&written)
                                .is_err_and(|why| why.cause().contains("needs a value"))
                        )
                    }
                    Some(words) => {
                        let is = pmus.event(&written).unwrap();
                        assert_eq!(is, event_of_words(pmu.type_id(), words), "{written}");
                        assert_eq!(pmus.event(&pmus.name_of(is)), Ok(is), "{written}");
                        // Additional terms and modifiers do not displace the event's own.
                        let more = format!("{name}/{event},config4=5/u");
                        let marked = pmus.event(&more).unwrap();
                        assert_eq!(pmus.event(&pmus.name_of(marked)), Ok(marked), "{more}");
                    }
                }
                events_seen += 1;
            }
        }
    }
    println!("{events_seen} events, {scaled} of them with a scale, and {terms_seen} terms");
    assert!(
        events_seen > 450 && terms_seen > 150 && scaled > 20,
        "{events_seen} {terms_seen} {scaled}"
    );
}

/// Checks that these names give these events on a machine, and that the events are written back as given.
fn check(machine: &str, names: &[(&str, u32, [u64; 5], &str)]) {
    let name = NAMES.iter().find(|name| **name == machine).unwrap();
    let machine = Machine::new(TEMPORARY, name, "check");
    let pmus = machine.pmus();
    for (name, kind, words, back) in names {
        let event = pmus.event(name).unwrap_or_else(|why| panic!("{name}: {why}"));
        let plain = pmus.event(name.trim_end_matches(['u', 'k', ':'])).unwrap_or(event);
        assert_eq!(plain, event_of_words(*kind, *words), "{name} on {}", machine.name);
        assert_eq!(pmus.name_of(event), *back, "{name}");
        assert_eq!(pmus.event(back), Ok(event), "{back}");
    }
}

#[test]
fn on_an_intel_server() {
    check(
        "intel-server",
        &[
            ("cycles", 0, [0; 5], "cycles"),
            ("r01c2", 4, [0x1c2, 0, 0, 0, 0], "cpu/event=0xc2,umask=0x1/"),
            (
                "cpu/event=0xc0,umask=0x01,inv,cmask=2/",
                4,
                [0x0280_01c0, 0, 0, 0, 0],
                "cpu/event=0xc0,umask=0x1,inv,cmask=0x2/",
            ),
            (
                "cpu/cmask=2,inv=1,umask=1,event=192/u",
                4,
                [0x0280_01c0, 0, 0, 0, 0],
                "cpu/event=0xc0,umask=0x1,inv,cmask=0x2/u",
            ),
            ("cpu/mem-loads/", 4, [0x1cd, 3, 0, 0, 0], "cpu/mem-loads/"),
            ("mem-loads", 4, [0x1cd, 3, 0, 0, 0], "cpu/mem-loads/"),
            // An explicit term overrides what the name stands for.
            (
                "cpu/ldlat=30,mem-loads/",
                4,
                [0x1cd, 30, 0, 0, 0],
                "cpu/event=0xcd,umask=0x1,ldlat=0x1e/",
            ),
            // Whole words apply first, in any order of the terms.
            ("cpu/umask=2,config=0xc0/", 4, [0x2c0, 0, 0, 0, 0], "cpu/event=0xc0,umask=0x2/"),
            ("cpu/umask=2,rc0/", 4, [0x2c0, 0, 0, 0, 0], "cpu/event=0xc0,umask=0x2/"),
            // Written as perf prints the events of its own tables.
            (
                "cpu/event=0xc0,period=0x1e8483,umask=0x1/",
                4,
                [0x1c0, 0, 0, 0, 0],
                "cpu/event=0xc0,umask=0x1/",
            ),
            ("cpu/event=0xc0,name=x,umask=1/", 4, [0x1c0, 0, 0, 0, 0], "cpu/event=0xc0,umask=0x1/"),
            ("cpu/cycles/", 0, [0; 5], "cycles"),
            ("cpu/L1-dcache-load-misses/", 3, [0x10000, 0, 0, 0, 0], "L1-dcache-load-misses"),
            ("cpu/cpu-cycles/", 4, [0x3c, 0, 0, 0, 0], "cpu/cpu-cycles/"),
            ("cpu/rc0/", 4, [0xc0, 0, 0, 0, 0], "cpu/instructions/"),
            (
                "cpu/config=0xc0,config1=7,config2=8/",
                4,
                [0xc0, 7, 8, 0, 0],
                "cpu/config=0xc0,config1=0x7,config2=0x8/",
            ),
            ("cpu//", 4, [0; 5], "cpu/config=0x0/"),
            (
                "4/config=0x100000000000000/",
                4,
                [1 << 56, 0, 0, 0, 0],
                "cpu/config=0x100000000000000/",
            ),
            ("99/config=5/", 99, [5, 0, 0, 0, 0], "99/config=0x5/"),
        ],
    );
}

#[test]
fn on_an_intel_hybrid() {
    let atom = 10 << 32;
    let machine = Machine::new(TEMPORARY, "intel-hybrid", "hybrid");
    let number = machine.pmus().get("cpu_atom").unwrap().unwrap().type_id();
    let words = |config| [config, 0, 0, 0, 0];
    assert_eq!(number, 10);
    check(
        "intel-hybrid",
        &[
            ("cycles", 0, words(0), "cycles"),
            ("cpu_core/cycles/", 0, words(4 << 32), "cpu_core/cycles/"),
            ("cpu_atom/cycles/u", 0, words(atom), "cpu_atom/cycles/u"),
            ("cpu_atom/LLC-load-misses/", 3, words(atom | 0x1_00_02), "cpu_atom/LLC-load-misses/"),
            ("cpu_atom/event=0xc0/", 10, words(0xc0), "cpu_atom/instructions/"),
            ("cpu_core/event=0xc0,umask=2/", 4, words(0x2c0), "cpu_core/event=0xc0,umask=0x2/"),
            ("cpu_atom/rc5/", 10, words(0xc5), "cpu_atom/branch-misses/"),
        ],
    );
    let pmus = machine.pmus();
    let both = pmus.event("mem-loads").unwrap_err();
    let choices = ["cpu_atom/mem-loads/".to_owned(), "cpu_core/mem-loads/".to_owned()];
    assert_eq!(both.cause(), "several PMUs have an event `mem-loads`");
    assert_eq!(both.remedy(), format!("Choose one of {}", choices.join(", ")));
    let unknown = pmus.event("cpu/cycles/").unwrap_err();
    assert!(unknown.cause().starts_with("there is no PMU"), "{unknown}");
    assert!(
        pmus.all()
            .unwrap()
            .iter()
            .filter(|pmu| pmu.is_core())
            .map(|pmu| pmu.name())
            .eq(["cpu_atom", "cpu_core"])
    );
}

#[test]
fn on_the_others() {
    let words = |config, config1| [config, config1, 0, 0, 0];
    let pmu = |machine, name: &str| {
        Machine::new(TEMPORARY, machine, "number").pmus().get(name).unwrap().unwrap().type_id()
    };
    let (l3, df) = (pmu("amd-zen", "amd_l3"), pmu("amd-zen", "amd_df"));
    check(
        "amd-zen",
        &[
            // Twelve bits, of which the upper four are in another location.
            (
                "cpu/event=0x1c0,umask=0x7f/",
                4,
                words(0x1_0000_7fc0, 0),
                "cpu/event=0x1c0,umask=0x7f/",
            ),
        ],
    );
    let machine = Machine::new(TEMPORARY, "amd-zen", "others");
    let pmus = machine.pmus();
    let event = pmus.event("amd_df/event=0x3fff,umask=0xfff/").unwrap();
    assert_eq!(event, Event::of_pmu(df, 0x3f_0f00_ffff), "14 bits in two ranges, 12 in two others");
    assert!(
        pmus.get("amd_l3").unwrap().is_some_and(|pmu| pmu.type_id() == l3 && pmu.counts_for_cpus())
    );

    let little = pmu("arm64-big-little", "armv8_cortex_a53");
    let big = pmu("arm64-big-little", "armv8_cortex_a72");
    check(
        "arm64-big-little",
        &[
            (
                "armv8_cortex_a53/cycles/",
                0,
                words(u64::from(little) << 32, 0),
                "armv8_cortex_a53/cycles/",
            ),
            ("armv8_cortex_a72/cpu_cycles/", big, words(0x11, 0), "armv8_cortex_a72/cpu_cycles/"),
            (
                "armv8_cortex_a72/event=0x11,rdpmc/",
                big,
                words(0x11, 2),
                "armv8_cortex_a72/event=0x11,rdpmc/",
            ),
            ("armv8_cortex_a72/r11/", big, words(0x11, 0), "armv8_cortex_a72/cpu_cycles/"),
            // No PMU has this type: the kernel finds one that accepts the event.
            ("r11", 4, words(0x11, 0), "r11"),
        ],
    );
    let pmuv3 = pmu("arm64-server", "armv8_pmuv3_0");
    check(
        "arm64-server",
        &[
            ("armv8_pmuv3_0/cycles/", 0, words(0, 0), "cycles"),
            ("armv8_pmuv3_0/inst_retired/", pmuv3, words(8, 0), "armv8_pmuv3_0/inst_retired/"),
        ],
    );
    check(
        "riscv64",
        &[
            ("instructions", 0, words(1, 0), "instructions"),
            ("cpu/event=0x8/", 4, words(8, 0), "cpu/event=0x8/"),
            ("r8", 4, words(8, 0), "cpu/event=0x8/"),
        ],
    );
    let msr = pmu("virtual-machine", "msr");
    check(
        "virtual-machine",
        &[
            ("msr/tsc/", msr, words(0, 0), "msr/tsc/"),
            ("tsc", msr, words(0, 0), "msr/tsc/"),
            ("rc0", 4, words(0xc0, 0), "rc0"),
            ("page-faults:u", 1, words(2, 0), "page-faults:u"),
            ("page-faults:k", 1, words(2, 0), "page-faults:k"),
            ("page-faults:ku", 1, words(2, 0), "page-faults:uk"),
        ],
    );
}

/// Page faults of this thread's own instructions, and of the kernel as it writes to this thread's memory.
#[cfg(target_os = "linux")]
#[test]
fn modifiers_say_whose_faults_are_counted() {
    use std::io::Read;
    const BYTES: usize = 300 * 4096;
    let events =
        ["page-faults:u", "page-faults:k", "page-faults:uk"].map(|name| name.parse().unwrap());
    let group = match rdpmc::Group::open(events) {
        Ok(group) => group,
        Err(why) => return skips::skip("modifiers_say_whose_faults_are_counted", &why.to_string()),
    };
    let faults_of = |touch: &dyn Fn(&mut [u8])| {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // An allocator could return memory that was touched before.
        // SAFETY: the mapping is new, at an address that the kernel chooses.
        let mapping = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, access, kind, -1, 0) };
        assert_ne!(mapping, libc::MAP_FAILED);
        // SAFETY: the mapping is that long, zeroed, and has no other user.
        let memory = unsafe { std::slice::from_raw_parts_mut(mapping.cast::<u8>(), BYTES) };
        let before = group.read().unwrap();
        touch(memory);
        let after = group.read().unwrap();
        // SAFETY: the memory is not used after this.
        assert_eq!(unsafe { libc::munmap(mapping, BYTES) }, 0);
        [0, 1, 2].map(|event| after[event] - before[event])
    };
    let [user, kernel, both] = faults_of(&|memory| memory.fill(1));
    assert!(user > 0 && kernel == 0 && both == user, "{user} {kernel} {both}");
    let zeros = std::fs::File::open("/dev/zero").unwrap();
    let [user, kernel, both] = faults_of(&|memory| (&zeros).read_exact(memory).unwrap());
    assert!(kernel > user && both == user + kernel, "{user} {kernel} {both}");
}

#[test]
fn what_is_wrong_and_what_is_near() {
    let machine = Machine::new(TEMPORARY, "intel-server", "wrong");
    let pmus = machine.pmus();
    for (name, says) in [
        ("cylces", "there is no event `cylces` on this machine. Did you mean cycles?"),
        ("mem_loads", "cpu/mem-loads/"),
        ("inst_retired.any", "perf stat -vv"),
        ("", "the event name is empty"),
        ("cycles,instructions", "Parse one event at a time, and open a group"),
        ("cpv/cycles/", "there is no PMU `cpv` on this machine. Did you mean cpu?"),
        ("../event=1/", "there is no PMU `..`"),
        ("cpu/evnt=1/", "the PMU cpu has no term and no event `evnt`. Did you mean event?"),
        ("cpu/mem-lods/", "Did you mean mem-loads"),
        ("cpu/umask=256/", "of `umask` (PMU cpu) does not fit into 8 bits"),
        ("cpu/inv=2/", "of `inv` (PMU cpu) does not fit into 1 bit."),
        ("cpu/umask=0x/", "`0x` is not a valid value for `umask`"),
        ("cpu/umask=-1/", "`-1` is not a valid value"), // perf 6.12 takes it for 1, 6.1 does not
        ("cpu/umask=99999999999999999999/", "at most 64 bits"),
        ("cpu/config/", "`config` (PMU cpu) needs a value"),
        ("cpu/event/", "`event` (PMU cpu) needs a value"),
        ("cpu/event=1,event=2/", "`event` (PMU cpu) sets bits that another"),
        ("cpu/offcore_rsp=0x3,ldlat=0x10/", "`ldlat` (PMU cpu) sets bits that another"),
        ("cpu/config=1,event=1/", "`event` (PMU cpu) sets bits that another"),
        ("cpu/rc0,config=0xc0/", "sets bits that another"),
        ("cpu/mem-loads,mem-stores/", "`mem-stores` (PMU cpu) sets bits that another"),
        ("cpu/mem-loads=5/", "no term and no event `mem-loads`"),
        ("branches-misses", "Did you mean branch-misses"),
        ("cycles//", "Did you mean cycles?"),
        ("+4/config=1/", "there is no PMU `+4`"),
        ("cpu/event=1", "no second slash"),
        ("cpu/event=1,/", "no term and no event ``"),
        ("cycles:x", "`x` is not a set of event modifiers"),
        ("cycles:uu", "Use any of"),
        ("cycles:pppp", "`pppp` is not a set of event modifiers"),
        ("cycles:p", "`:p` requests precise samples, and a counter takes no samples. Remove it"),
        ("cycles:uppp", "`:uppp` requests precise samples"),
        ("cpu/event=0xc0/P", "`:P` requests precise samples"),
        ("cpu/event=0xc0,percore/", "`percore` counts all threads of a core"),
        ("IPC", "there is no event `IPC` on this machine"),
        ("syscalls:sys_enter_write", "`syscalls:sys_enter_write` is neither an event"),
        ("mem:0x1000:rw", "breakpoints with a colon"),
        ("cylces:x", "there is no event `cylces` on this machine. Did you mean cycles"),
        ("skl::INST_RETIRED:ANY", "use the crate rdpmc-events"),
        ("mem-loads:xy", "`xy` is not a set"),
        ("cpu/event=1/x", "`x` is not"),
        ("sched:sched_switch", "Count tracepoints with perf"),
        ("r12345678123456781", "r and at most 16 hexadecimal digits"),
        ("r01zz", "`r01zz` is not a raw event"),
        ("rdpmc", "there is no event `rdpmc`"),
    ] {
        let error = pmus.event(name).expect_err(name);
        assert!(error.to_string().contains(says), "{name}: {error}");
    }
    let long = "x".repeat(2000);
    assert!(pmus.event(&long).is_err_and(|why| why.cause().contains("longer than 1024 bytes")));
    let unknown = pmus.event(&"c".repeat(1024));
    assert!(unknown.is_err_and(|why| why.kind() == ErrorKind::UnknownName));

    let arm = Machine::new(TEMPORARY, "arm64-server", "wrong");
    let pmus = arm.pmus();
    let error = pmus.event("arm_cmn_0/watchpoint_up,wp_val=1/").unwrap_err();
    assert!(error.to_string().contains("`wp_dev_sel` (PMU arm_cmn_0) needs a value"), "{error}");
    let whole = "arm_cmn_0/watchpoint_up,wp_val=1,wp_dev_sel=0,wp_chn_sel=0,wp_grp=0,wp_mask=2/";
    let event = pmus.event(whole).unwrap();
    assert_eq!(pmus.event(&pmus.name_of(event)), Ok(event));
}

#[test]
fn a_strange_folder_is_no_trouble() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("strange");
    let _ = std::fs::remove_dir_all(&folder);
    let write = |path: &str, bytes: &[u8]| {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let pmus = rdpmc::pmu::Pmus::from_dir(folder.join("devices"));
    assert!(pmus.all().unwrap().is_empty(), "there is no such folder");
    // Beside the directory, not in it.
    write("type", b"3");
    write("beside/type", b"3");
    let long = |start: &str| format!("{start}{}", "\n".repeat(1 << 17)).into_bytes();
    let write = |path: &str, bytes: &[u8]| write(&format!("devices/{path}"), bytes);
    write("no_type/format/event", b"config:0-7");
    write("bad_type/type", b"many");
    write("binary/type", b"\xff\xfe");
    write("long/type", &long("1"));
    write("odd/type", b"7\n\n");
    write("odd/format/good", b"config:0-7\n");
    write("odd/format/bad", b"config9:0-7");
    write("odd/format/long", &long("config:0-7"));
    write("odd/format/config1", b"config:0-7");
    write("odd/format/flag", b"config:9");
    write("odd/events/flag", b"good=7");
    write("odd/events/period", b"good=9");
    write("odd/format/node", b"config:10");
    write("odd/events/circle", b"circle");
    write("odd/events/empty", b"");
    write("odd/events/scaled", b"good=1");
    write("odd/events/scaled.scale", b"nan");
    write("odd/cpus", b"0-"); // still a PMU of cores
    std::fs::create_dir_all(folder.join("devices/odd/events/folder")).unwrap();
    // A program that opens or reads one of these without care waits forever.
    let fifo = |path: &str| {
        let path = std::ffi::CString::new(folder.join(path).to_str().unwrap()).unwrap();
        // SAFETY: the string lives through the call.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    };
    let link = |to: &str, path: &str| {
        std::os::unix::fs::symlink(to, folder.join("devices").join(path)).unwrap();
    };
    for name in ["fifo", "terminal", "endless", "nothing", "circle"] {
        std::fs::create_dir_all(folder.join("devices").join(name)).unwrap();
    }
    fifo("devices/fifo/type");
    fifo("devices/odd/events/fifo");
    link("/dev/ptmx", "terminal/type");
    link("/dev/zero", "endless/type");
    link("/nonexistent", "nothing/type");
    link("/dev/zero", "odd/format/endless");
    link("/dev/ptmx", "odd/events/terminal");
    let all = pmus.all().unwrap();
    let [odd] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(odd.terms().collect::<Vec<_>>(), [("flag", 1), ("good", 8), ("node", 1)]);
    let names: Vec<&str> = odd.events().iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["circle", "empty", "flag", "period", "scaled"], "and no folder");
    assert_eq!(pmus.event("odd/period/"), Ok(Event::of_pmu(7, 9)), "here it is no setting");
    let unknown_pmu =
        |name: &str| pmus.event(name).is_err_and(|why| why.cause().contains("no PMU `"));
    assert!(unknown_pmu("../good=1/") && unknown_pmu("./good=1/") && unknown_pmu(".../good=1/"));
    // A term takes precedence over an event of that name, and over the kernel's names.
    assert_eq!(pmus.event("odd/flag/"), Ok(Event::of_pmu(7, 1 << 9)));
    assert_eq!(pmus.event("odd/good=1,node=1/"), Ok(Event::of_pmu(7, 1 << 10 | 1)));
    for config in [1 << 9, 1 << 10, 7, 7 | 1 << 10] {
        let event = Event::of_pmu(7, config);
        assert_eq!(pmus.event(&pmus.name_of(event)), Ok(event), "{config:#x}");
    }
    assert_eq!(odd.cpus(), None);
    assert_eq!(odd.events()[4].scale(), None);
    let unknown =
        |name: &str| pmus.event(name).is_err_and(|why| why.cause().contains("has no term"));
    assert!(unknown("odd/circle/") && unknown("odd/empty/"));
    assert!(pmus.event("odd/good=3/").is_ok());
    assert_eq!(pmus.name_of(Event::of_pmu(7, 3)), "odd/good=0x3/");
    std::fs::remove_dir_all(folder).unwrap();
}

/// All files of a directory share one limit. The error says where it was reached.
#[test]
fn a_huge_folder_is_an_error() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("huge");
    let _ = std::fs::remove_dir_all(&folder);
    let events = folder.join("pmu/events");
    std::fs::create_dir_all(&events).unwrap();
    std::fs::write(folder.join("pmu/type"), "7\n").unwrap();
    std::fs::write(events.join("first"), "e".repeat((1 << 16) - 1)).unwrap();
    for n in 0..300 {
        std::fs::hard_link(events.join("first"), events.join(format!("event_{n}"))).unwrap();
    }
    let pmus = rdpmc::pmu::Pmus::from_dir(&folder);
    let error = pmus.all().unwrap_err();
    assert_eq!(error.errno().unwrap().raw(), libc::EFBIG);
    assert!(error.cause().starts_with(events.to_str().unwrap()), "{error}");
    assert_eq!(pmus.get("pmu").unwrap_err().errno().unwrap().raw(), libc::EFBIG);
    let unreadable = pmus.event("pmu/event_1/");
    assert!(unreadable.is_err_and(|why| why.kind() == ErrorKind::Unreadable));
    std::fs::remove_dir_all(folder).unwrap();
}

/// Characters that a terminal would obey are escaped, in names and in texts from files.
#[test]
fn messages_are_printable() {
    let machine = Machine::new(TEMPORARY, "intel-hybrid", "printable");
    let devices = machine.pmus();
    let escape = "\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\r\n";
    for name in [
        escape.to_owned(),
        format!("cycles:{escape}"),
        format!("{escape}/event=1/"),
        format!("cpu_core/{escape}/"),
        format!("cpu_core/event={escape}/"),
        format!("cpu_core/{escape}=1/"),
        format!("cpu_core/{escape}"),
        format!("{escape},cycles"),
    ] {
        // White space at the ends of a name is not part of it.
        let name = format!("x{name}x");
        let said = devices.event(&name).unwrap_err().to_string();
        assert!(!said.chars().any(char::is_control), "{said:?}");
        assert!(!said.contains('\u{202e}'), "{said:?}");
    }
    let error = devices.event(&format!("x{escape}x")).unwrap_err().to_string();
    let shown = "`x\\u{1b}]0;title\\u{7}\\u{9b}31m\\u{202e}\\u{d}\\u{a}x`";
    assert!(error.contains(shown), "{error}");
    let plain = devices.event("énorme").unwrap_err().to_string();
    assert!(plain.contains("`énorme`"), "{plain}");
}

#[test]
fn constants_are_their_names() {
    for (event, name) in [
        (Event::CYCLES, "cpu-cycles"),
        (Event::BRANCHES, "branch-instructions"),
        (Event::STALLED_CYCLES_BACKEND, "idle-cycles-backend"),
        (Event::PAGE_FAULTS, "faults"),
        (Event::CONTEXT_SWITCHES, "cs"),
        (Event::CPU_MIGRATIONS, "migrations"),
        (Event::DUMMY, "dummy"),
        (Event::DTLB_STORE_MISSES, "dTLB-store-misses"),
        (Event::L1D_LOADS, "L1-dcache-loads"),
        (Event::L1D_LOAD_MISSES, "L1-dcache-load-misses"),
        (Event::LLC_LOAD_MISSES, "LLC-load-misses"),
        (Event::DTLB_LOAD_MISSES, "dTLB-load-misses"),
        (Event::ITLB_LOAD_MISSES, "iTLB-load-misses"),
        (Event::raw(0x1c2), "r01c2"),
        (Event::raw(u64::MAX), "rffffffffffffffff"),
    ] {
        assert_eq!(name.parse(), Ok(event), "{name}");
        assert_eq!(event.to_string().parse(), Ok(event), "{event}");
    }
    assert_ne!("cycles:u".parse(), Ok(Event::CYCLES));
    assert_eq!("cycles:ku".parse::<Event>().unwrap().to_string(), "cycles:uk");
}

static ALL: LazyLock<Vec<Machine>> =
    LazyLock::new(|| NAMES.iter().map(|name| Machine::new(TEMPORARY, name, "any")).collect());

#[test]
fn any_event_is_written_so_that_it_is_found() {
    // splitmix64
    let mut state = 7_u64;
    let mut random = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let is_found = |event: Event| {
        for machine in &*ALL {
            let pmus = machine.pmus();
            assert_eq!(pmus.event(&pmus.name_of(event)), Ok(event), "on {}", machine.name);
        }
        assert_eq!(event.to_string().parse(), Ok(event));
    };
    // An earlier generator found this one.
    is_found(event_of_words(0, [0, 0, 0, 1, 0]));
    for _ in 0..300 {
        let kind = (random() % 20) as u32;
        let mut words = [(); 5].map(|()| random());
        words[(random() % 6).min(5) as usize..].fill(0);
        words[0] >>= random() % 64;
        is_found(event_of_words(kind, words));
    }
}
