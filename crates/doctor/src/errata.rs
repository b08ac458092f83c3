//! Processors whose counters are known to be wrong in ways that a program would meet.

use crate::facts;
use rdpmc::machine;
use rdpmc_events::Processor;

/// A known error of a family of processors, or of a setting of theirs. [`Report::errata`](crate::Report::errata) has
/// those of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Erratum {
    /// Its name.
    pub name: &'static str,
    /// The vendor, families and models.
    pub processors: &'static str,
    /// The effect on counts.
    pub effect: &'static str,
    /// How [`test_counters`](crate::test_counters) shows it.
    pub shown_by: &'static str,
    /// What to do. None if nothing helps.
    pub remedy: Option<&'static str>,
    /// Where this is described.
    pub source: &'static str,
}

/// All known errata.
pub const ERRATA: &[Erratum] =
    &[SPEC_LOCK_MAP, RETIRED_OVERCOUNT, UPPER_COUNTERS, FORCED_ABORTS, COUNTED_SMIS];

const SPEC_LOCK_MAP: Erratum = Erratum {
    name: "SpecLockMap",
    processors: "AMD Zen 1 to 3 and Hygon (families 17h and 18h; family 19h, models 00h-0Fh, 20h-5Fh)",
    effect: "instructions and branches behind an atomic operation count twice if the CPU rolls them back",
    shown_by: "not by known work, but measured: event 0x25 with mask 8 counts atomic operations unless bit 54 is set",
    remedy: Some(
        "Set bit 54 of MSR 0xC0011020 on each CPU of the machine or of a virtual machine's host as root, as rr's \
         zen_workaround.py does, or count work without atomic operations",
    ),
    source: "github.com/rr-debugger/rr/issues/2034, github.com/jlgreathouse/AMD_IBS_Toolkit/issues/5",
};

const RETIRED_OVERCOUNT: Erratum = Erratum {
    name: "erratum 1291",
    processors: "AMD Zen 2 (family 17h, models 30h-3Fh)",
    effect: "retired instructions may be overcounted, by a factor of 16 in one report",
    shown_by: "`off`, if it happens during the test",
    remedy: None,
    source: "AMD, Revision Guide for Family 17h Models 30h-3Fh; github.com/icl-utk-edu/papi/issues/160",
};

const UPPER_COUNTERS: Erratum = Erratum {
    name: "counters 4 to 7",
    processors: "Intel Broadwell (family 6, models 3Dh, 47h, 4Fh, 56h) with hyper-threading off",
    effect: "the upper four of eight counters count nothing in user mode",
    shown_by: "`counts nothing` on four counters",
    remedy: Some("Enable hyper-threading in the firmware, or open at most four events"),
    source: "github.com/RRZE-HPC/likwid/issues/59 and 517",
};

const FORCED_ABORTS: Erratum = Erratum {
    name: "TSX and counter 3",
    processors: "Intel Skylake to Comet Lake with TSX (family 6, models 4Eh, 55h, 5Eh, 8Eh, 9Eh)",
    effect: "while a thread uses its fourth counter, the CPU aborts all memory transactions of that thread",
    shown_by: "not shown: the known work has no transaction",
    remedy: Some(
        "Open at most three events in programs that use TSX, or write 0 to \
         /sys/bus/event_source/devices/cpu/allow_tsx_force_abort as root",
    ),
    source: "Intel, document 604224, Performance Monitoring Impact of TSX Memory Ordering Issue",
};

const COUNTED_SMIS: Erratum = Erratum {
    name: "SMIs are counted",
    processors: "Intel, with freeze_on_smi 0",
    effect: "cycles and instructions of the firmware's interrupts (SMIs) are in the counts",
    shown_by: "`too noisy`, if many happen during the test",
    remedy: Some("Run `echo 1 > /sys/bus/event_source/devices/cpu/freeze_on_smi` as root"),
    source: "perf-stat(1), --smi-cost",
};

/// What decides whether an erratum applies.
#[derive(Clone, Copy, Debug)]
struct Machine<'a> {
    vendor: &'a str,
    family: u32,
    model: u32,
    is_virtual: bool,
    smt: Option<bool>,
    forces_aborts: bool,
    freezes_on_smi: Option<bool>,
    /// Whether it is in effect. None if that could not be measured.
    spec_lock_map: Option<bool>,
}

/// Returns the errata of this machine.
pub(crate) fn of_this_machine() -> Vec<Erratum> {
    let Some(Processor { vendor, family, model }) = Processor::of_this_machine() else {
        return Vec::new();
    };
    errata_of(Machine {
        vendor: &vendor,
        family,
        model,
        is_virtual: machine::is_virtual(),
        smt: facts::smt(),
        forces_aborts: facts::allows_tsx_force_abort(),
        freezes_on_smi: facts::freezes_on_smi(),
        spec_lock_map: rdpmc::machine::spec_lock_map(),
    })
}

fn has_spec_lock_map(vendor: &str, family: u32, model: u32) -> bool {
    let zen_3 = family == 0x19 && matches!(model, 0x00..=0x0f | 0x20..=0x5f);
    matches!(vendor, "AuthenticAMD" | "HygonGenuine") && (matches!(family, 0x17 | 0x18) || zen_3)
}

fn errata_of(machine: Machine<'_>) -> Vec<Erratum> {
    let Machine { vendor, family, model, is_virtual, smt, forces_aborts, .. } = machine;
    let intel = vendor == "GenuineIntel";
    let applies = |erratum: &&Erratum| match **erratum {
        // Unless somebody has applied the remedy.
        SPEC_LOCK_MAP => {
            has_spec_lock_map(vendor, family, model) && machine.spec_lock_map != Some(false)
        }
        RETIRED_OVERCOUNT => {
            vendor == "AuthenticAMD" && family == 0x17 && matches!(model, 0x30..=0x3f)
        }
        UPPER_COUNTERS => {
            let is_broadwell = family == 6 && matches!(model, 0x3d | 0x47 | 0x4f | 0x56);
            // A guest does not know its host's hyper-threading.
            intel && is_broadwell && smt == Some(false) && !is_virtual
        }
        FORCED_ABORTS => intel && forces_aborts,
        COUNTED_SMIS => intel && machine.freezes_on_smi == Some(false) && !is_virtual,
        _ => false,
    };
    ERRATA.iter().filter(applies).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_applies_to_its_processors_only() {
        let in_a_guest = |is_virtual, vendor, family, model, smt, forces_aborts, freezes_on_smi| {
            let machine = Machine {
                vendor,
                family,
                model,
                is_virtual,
                smt,
                forces_aborts,
                freezes_on_smi,
                spec_lock_map: None,
            };
            errata_of(machine).iter().map(|erratum| erratum.name).collect::<Vec<_>>()
        };
        let names = |vendor, family, model, smt, aborts, freezes| {
            in_a_guest(false, vendor, family, model, smt, aborts, freezes)
        };
        let amd = |family, model| names("AuthenticAMD", family, model, Some(true), false, None);
        assert_eq!(amd(0x17, 0x01), ["SpecLockMap"]); // Zen 1
        assert_eq!(amd(0x17, 0x31), ["SpecLockMap", "erratum 1291"]); // Rome
        assert_eq!(amd(0x19, 0x01), ["SpecLockMap"]); // Milan
        assert_eq!(amd(0x19, 0x21), ["SpecLockMap"]); // Vermeer
        assert!(amd(0x19, 0x11).is_empty()); // Genoa: Zen 4
        assert!(amd(0x19, 0x61).is_empty()); // Raphael: Zen 4
        assert!(amd(0x1a, 0x02).is_empty()); // Zen 5
        let zen_3 = |spec_lock_map| {
            let machine = Machine {
                vendor: "AuthenticAMD",
                family: 0x19,
                model: 1,
                is_virtual: true,
                smt: None,
                forces_aborts: false,
                freezes_on_smi: None,
                spec_lock_map,
            };
            errata_of(machine).len()
        };
        // What was measured decides, in a virtual machine as well.
        assert_eq!([None, Some(true), Some(false)].map(zen_3), [1, 1, 0]);
        let intel =
            |model, smt, aborts, freezes| names("GenuineIntel", 6, model, smt, aborts, freezes);
        assert_eq!(intel(0x4f, Some(false), false, None), ["counters 4 to 7"]);
        assert!(intel(0x4f, Some(true), false, None).is_empty());
        assert!(intel(0x4f, None, false, None).is_empty());
        assert_eq!(intel(0x5e, Some(true), true, Some(true)), ["TSX and counter 3"]);
        assert_eq!(intel(0x8f, Some(true), false, Some(false)), ["SMIs are counted"]);
        assert!(names("", 0, 0, None, false, None).is_empty());
        let broadwell = in_a_guest(true, "GenuineIntel", 6, 0x4f, Some(false), false, Some(false));
        assert!(broadwell.is_empty());
    }
}
