//! The faults that the emulated PMU has on request: see `tests/vm/qemu-x86-pmu/pmu.c`.

/// What is wrong with a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    None,
    StandsStill,
    CountsHalf,
    CountsInterrupts,
    IsTrapped,
    Jumps,
    ReadsZero,
}

impl Fault {
    pub const ALL: [Fault; 7] = [
        Fault::None,
        Fault::StandsStill,
        Fault::CountsHalf,
        Fault::CountsInterrupts,
        Fault::IsTrapped,
        Fault::Jumps,
        Fault::ReadsZero,
    ];

    /// Gives a counter this fault, and no other counter any.
    pub fn of_counter(self, counter: u32) {
        set(self as u32 | counter << 8);
    }
}

#[cfg(target_arch = "x86_64")]
fn set(fault: u32) {
    const FAULTS: u32 = 0x5000_0000;
    #[allow(unused_unsafe, reason = "newer Rust has it safe")]
    // SAFETY: every x86-64 CPU has `cpuid`.
    let answer = unsafe { std::arch::x86_64::__cpuid_count(FAULTS, fault) };
    assert_eq!(answer.eax, 1, "this machine has no faults to choose from");
}

#[cfg(not(target_arch = "x86_64"))]
fn set(_: u32) {
    panic!("this machine has no faults to choose from");
}
