//! The error where there is no PMU, and what kind of machine that is.

use super::is_virtual;
use crate::asm;
use crate::error::{Error, ErrorKind};
use crate::kernel::machine;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Returns the error of an event or a name that needs a hardware counter, on a machine without a PMU. What the machine is does not
/// change, and is found out once: programs open counters often and drop the error.
pub(crate) fn no_pmu() -> Error {
    const KNOWN: u8 = 1;
    const VIRTUAL: u8 = 2;
    const GUEST_OF_HYBRID: u8 = 4;
    const WSL: u8 = 8;
    static MACHINE: AtomicU8 = AtomicU8::new(0);
    let mut machine = MACHINE.load(Relaxed);
    if machine & KNOWN == 0 {
        // KVM gives no PMU to guests on Intel CPUs with several core types.
        let is_kvm = asm::hypervisor().is_some_and(|name| name.starts_with(b"KVMKVMKVM"));
        let facts = [
            (is_virtual(), VIRTUAL),
            (is_kvm && asm::processor().is_some_and(is_hybrid), GUEST_OF_HYBRID),
            (machine::is_wsl(), WSL),
        ];
        let are_true = facts.into_iter().filter(|(is_true, _)| *is_true);
        machine = are_true.fold(KNOWN, |machine, (_, bit)| machine | bit);
        MACHINE.store(machine, Relaxed); // every thread stores an equal value
    }
    let is = |bit| machine & bit != 0;
    no_pmu_on(is(VIRTUAL), is(GUEST_OF_HYBRID), is(WSL))
}

/// Whether this is an Intel model with several core types. In a guest, only its family and model show that.
fn is_hybrid((vendor, family, model): ([u8; 12], u32, u32)) -> bool {
    // Lakefield; Alder, Raptor, Meteor, Arrow, Lunar, Panther, Wildcat Lake.
    const MODELS: [u32; 14] =
        [0x8a, 0x97, 0x9a, 0xb7, 0xba, 0xbf, 0xaa, 0xac, 0xb5, 0xc5, 0xc6, 0xbd, 0xcc, 0xd5];
    vendor == *b"GenuineIntel" && family == 6 && MODELS.contains(&model)
}

/// Returns the error of such a machine.
pub(crate) fn no_pmu_on(is_virtual: bool, is_guest_of_hybrid: bool, is_wsl: bool) -> Error {
    let (cause, remedy) = if is_guest_of_hybrid {
        (
            "{event} needs a hardware counter, and this virtual machine has none: KVM gives no PMU to guests on hybrid \
             Intel CPUs, as this model usually is",
            "Run on the host, or use software events",
        )
    } else if is_wsl {
        (
            "{event} needs a hardware counter, and Windows gives this machine of WSL2 none (no core PMU in \
             /sys/bus/event_source/devices)",
            "Remove `hardwarePerformanceCounters=false` from .wslconfig if it is there, and run `wsl --shutdown`. If no \
             PMU appears, use software events, or Linux without Windows",
        )
    } else if is_virtual {
        (
            "{event} needs a hardware counter, and this virtual machine has none (no core PMU in \
             /sys/bus/event_source/devices)",
            "Enable the virtual PMU in the hypervisor, run on the host, or use software events",
        )
    } else {
        (
            "{event} needs a hardware counter, and the kernel offers none (no core PMU in \
             /sys/bus/event_source/devices): the driver may be missing, or the firmware may have disabled the PMU",
            "Use software events, or another machine",
        )
    };
    Error::new(ErrorKind::NoPmu { is_virtual, is_guest_of_hybrid, is_wsl }, cause, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hybrid_processors_by_family_and_model() {
        let (intel, amd) = (*b"GenuineIntel", *b"AuthenticAMD");
        assert!(is_hybrid((intel, 6, 0x97)) && is_hybrid((intel, 6, 0xcc)));
        // Sapphire Rapids; Alder Lake-N, which has efficient cores alone; another family; another vendor.
        for other in [(intel, 6, 0x8f), (intel, 6, 0xbe), (intel, 18, 0x97), (amd, 6, 0x97)] {
            assert!(!is_hybrid(other), "{other:?}");
        }
    }
}
