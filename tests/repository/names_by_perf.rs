//! A name means what perf takes it for: on this machine, and with other machines' directories, which the emulated
//! machines do not have.

use crate::machines::Machine;
use crate::perf;
use crate::skips;
use rdpmc::Event;

use std::process::Command;

/// Names of several terms for x86-64's core PMU, whether perf accepts them or not.
const COMPOSED: [&str; 31] = [
    "event=0xc0,umask=0x01,inv,cmask=2",
    "cmask=2,inv=1,umask=1,event=192",
    "event=0xc0",
    "event=192,umask=010",
    "umask=2,config=0xc0",
    "config=0xc0,umask=2",
    "umask=2,rc0",
    "rc0",
    "r1ff",
    "config=0x1c0,config1=7,config2=8",
    "event=0xc0,period=0x1e8483,umask=0x1",
    "event=0xc0,name=x,umask=1",
    "event=0xff,umask=0xff,edge,inv,cmask=0xff",
    "edge=0,event=1",
    "event=0x3c,umask=0,cmask=1,edge=1",
    "event=0x100",
    "event=0x1000",
    "event=",
    "=1",
    "event=1,",
    "evnt=1",
    "inv=2",
    "umask=256",
    "cmask=0x1ff",
    "event=0xc0,config=0x100",
    "cpu-cycles",
    "cpu-cycles,inv",
    "instructions,cmask=1",
    "mem-loads,ldlat=3",
    "mem-stores,edge",
    "branch-misses,cmask=0x10,inv",
];

#[test]
fn names_of_other_machines() {
    let test = "names_of_other_machines";
    if let Err(why) = Command::new("perf").arg("--version").output() {
        return skips::skip(test, &format!("perf is not installed: {why}"));
    }
    let (mut same, mut both_refuse) = (0, 0);
    for (name, pmus) in [
        ("intel-server", &["cpu", "uncore_imc_0", "uncore_cha_0", "power", "cstate_core"][..]),
        ("intel-hybrid", &["cpu_core", "cpu_atom", "power"]),
        ("amd-zen", &["cpu", "amd_l3", "amd_df", "ibs_op", "ibs_fetch", "power"]),
    ] {
        let machine = Machine::new(env!("CARGO_TARGET_TMPDIR"), name, test);
        let perf = || {
            let mut perf = Command::new("perf");
            perf.env("SYSFS_PATH", machine.sys());
            perf
        };
        let mut names = Vec::new();
        for pmu in pmus {
            let pmu = machine.pmus().get(pmu).unwrap().unwrap_or_else(|| panic!("{pmu} of {name}"));
            let of = |terms: &str| format!("{}/{terms}/", pmu.name());
            names.extend(pmu.events().iter().map(|event| of(&event.name)));
            names.extend(
                pmu.terms()
                    .map(|(term, bits)| of(&format!("{term}={:#x}", u64::MAX >> (64 - bits)))),
            );
            if pmu.is_core() {
                names.extend(COMPOSED.map(of));
            }
        }
        for name in names {
            let ours = machine.pmus().event(&name);
            match (perf::by_perf(perf(), "true", &name), ours) {
                (Ok((kind, [config, config1, config2])), Ok(ours)) => {
                    let theirs =
                        Event::of_pmu(kind, config).with_config1(config1).with_config2(config2);
                    assert_eq!(ours, theirs, "{name} of {}", machine.name);
                    same += 1;
                }
                (Err(_), Err(_)) => both_refuse += 1,
                // Terms that perf merges.
                (Ok(_), Err(why)) if why.to_string().contains("another term sets") => {
                    both_refuse += 1
                }
                (theirs, ours) => {
                    panic!("{name} of {}: perf {theirs:?}, here {ours:?}", machine.name)
                }
            }
        }
    }
    skips::say(&format!(
        "{same} names of other machines are what perf takes them for, {both_refuse} none at all"
    ));
    assert!(same > 150 && both_refuse >= 10, "{same} {both_refuse}");
}

#[test]
fn names_are_what_perf_takes_them_for() {
    if let Err(why) = Command::new("perf").arg("--version").output() {
        let why = format!("perf is not installed: {why}");
        return skips::skip("names_are_what_perf_takes_them_for", &why);
    }
    let (same, refused) = perf::compare("perf", "true").unwrap();
    skips::say(&format!("{same} names are what perf takes them for; it does not take {refused:?}"));
    assert!(same >= 60 && refused.len() <= 10, "{same} {refused:?}");
}
