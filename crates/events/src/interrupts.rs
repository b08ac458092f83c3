//! Instructions without those that hardware interrupts add.

use crate::cpu_model::Processor;
use rdpmc::Error;
use rdpmc::error::ReadError;
use rdpmc::{Event, Group};

/// Returns the event of hardware interrupts that came while this CPU ran user code: `HW_INTERRUPTS.RECEIVED` (Intel) or
/// `LsIntTaken` (AMD since Zen 2). None if the vendor's table of this CPU lists no such event, and if `/proc/cpuinfo` cannot be read.
///
/// It needs no more permission than other events of user mode.
pub fn hardware_interrupts() -> Option<Event> {
    of_cpu(&Processor::of_this_machine()?)
}

fn of_cpu(cpu: &Processor) -> Option<Event> {
    // Skylake to Comet Lake, Goldmont, Tremont, and the servers from Skylake-SP to Granite Rapids without Ice Lake.
    const INTEL: [u32; 17] = [
        0x4e, 0x55, 0x5c, 0x5e, 0x5f, 0x7a, 0x86, 0x8e, 0x8f, 0x96, 0x9c, 0x9e, 0xa5, 0xa6, 0xad,
        0xae, 0xcf,
    ];
    match (cpu.vendor.as_str(), cpu.family, cpu.model) {
        ("GenuineIntel", 6, model) if INTEL.contains(&model) => Some(Event::raw(0x01cb)),
        ("AuthenticAMD", 0x17, 0x30..) | ("AuthenticAMD", 0x19 | 0x1a, _) => {
            Some(Event::raw(0x002c))
        }
        _ => None,
    }
}

/// Instructions of this thread in user mode, with the number of hardware interrupts that came meanwhile.
///
/// On x86-64, the return from an interrupt is counted as an instruction of the code that was interrupted. If an interrupt hits a short
/// region, measure it again. Code that runs for milliseconds is always interrupted: this type tells how many of its instructions are
/// such returns.
///
/// ```no_run
/// use rdpmc_events::{CorrectedInstructions, hardware_interrupts};
///
/// let interrupts = hardware_interrupts().ok_or("this CPU has no event of hardware interrupts")?;
/// let instructions = CorrectedInstructions::open(interrupts)?;
/// let before = instructions.read()?;
/// // the code
/// let spent = instructions.read()?.since(&before);
/// println!("{} instructions, {} counted, {} interrupts", spent.corrected(), spent.counted, spent.interrupts);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Page faults and other exceptions of the code add an instruction as well, on the same CPUs. They are not corrected, because they
/// are the code's own: the same in each run, as far as its memory is. An interrupt that a hypervisor handles adds an instruction
/// that the guest's event does not show.
///
/// # Cost
///
/// A read is that of a [`Group`] of two.
#[derive(Debug)]
pub struct CorrectedInstructions {
    group: Group<2>,
}

impl CorrectedInstructions {
    /// Opens instructions and this event of interrupts, that of [`hardware_interrupts`], as a group for this thread.
    ///
    /// # Errors
    /// As [`Group::open`].
    pub fn open(interrupts: Event) -> Result<CorrectedInstructions, Error> {
        Ok(CorrectedInstructions { group: Group::open([Event::INSTRUCTIONS, interrupts])? })
    }

    /// Returns what was counted since the counters were opened.
    ///
    /// # Errors
    /// As [`Group::read`].
    pub fn read(&self) -> Result<InstructionCount, ReadError> {
        let [counted, interrupts] = self.group.read()?;
        Ok(InstructionCount { counted, interrupts })
    }

    /// Returns the group, for its other kinds of reads.
    pub fn group(&self) -> &Group<2> {
        &self.group
    }
}

/// A count of instructions, and of the hardware interrupts that are among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstructionCount {
    /// The instructions as the CPU counts them.
    pub counted: u64,
    /// The hardware interrupts.
    pub interrupts: u64,
}

impl InstructionCount {
    /// Returns what was counted since an earlier read of the same counters.
    pub fn since(&self, earlier: &InstructionCount) -> InstructionCount {
        InstructionCount {
            counted: self.counted.wrapping_sub(earlier.counted),
            interrupts: self.interrupts.wrapping_sub(earlier.interrupts),
        }
    }

    /// Returns the instructions less one for each interrupt. 0 if there are more interrupts than instructions.
    pub fn corrected(&self) -> u64 {
        self.counted.saturating_sub(self.interrupts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_cpus_have_the_event() {
        let of = |vendor: &str, family, model| {
            of_cpu(&Processor { vendor: vendor.into(), family, model })
        };
        let (intel, amd) = (Some(Event::raw(0x01cb)), Some(Event::raw(0x002c)));
        assert_eq!(of("GenuineIntel", 6, 0x5e), intel); // Skylake
        assert_eq!(of("GenuineIntel", 6, 0xcf), intel); // Emerald Rapids
        assert_eq!(of("GenuineIntel", 6, 0x2a), None); // Sandy Bridge
        assert_eq!(of("GenuineIntel", 6, 0x2c), None); // Westmere: a cache event
        assert_eq!(of("GenuineIntel", 6, 0x6a), None); // Ice Lake
        assert_eq!(of("GenuineIntel", 15, 4), None); // Pentium 4
        assert_eq!(of("AuthenticAMD", 0x17, 0x31), amd); // Zen 2
        assert_eq!(of("AuthenticAMD", 0x1a, 2), amd);
        assert_eq!(of("AuthenticAMD", 0x17, 1), None); // Zen 1
        assert_eq!(of("AuthenticAMD", 0x15, 2), None); // Piledriver
        assert_eq!(of("VendorOfNone", 6, 0x5e), None);
    }

    /// The same encodings as the vendors' tables have.
    #[test]
    #[cfg(all(feature = "intel", feature = "amd"))]
    fn the_tables_agree() -> Result<(), crate::EventError> {
        for (name, event) in [
            ("skylakex::hw_interrupts.received", 0x01cb),
            ("sapphirerapids::hw_interrupts.received", 0x01cb),
            ("zen2::ls_int_taken", 0x002c),
            ("zen5::ls_int_taken", 0x002c),
        ] {
            assert_eq!(crate::event(name)?, Event::raw(event), "{name}");
        }
        Ok(())
    }

    #[test]
    fn both_parts_are_differences() {
        let [before, after] = [(1_000, 3), (51_007, 10)]
            .map(|(counted, interrupts)| InstructionCount { counted, interrupts });
        let spent = after.since(&before);
        assert_eq!((spent.counted, spent.interrupts, spent.corrected()), (50_007, 7, 50_000));
        assert_eq!(InstructionCount { counted: 1, interrupts: 2 }.corrected(), 0);
    }
}
