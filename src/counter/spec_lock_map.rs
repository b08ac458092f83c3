//! Whether this CPU counts what it has rolled back behind atomic operations.
#![forbid(unsafe_code)]

use super::counter::Counter;
use crate::asm;
use crate::event::Event;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns whether SpecLockMap is in effect on this CPU (AMD Zen 1 to 3, Hygon). None on other CPUs, and if the event that shows it
/// cannot be counted here.
///
/// The CPU then executes code after an atomic operation speculatively. If it rolls that code back, it counts the instructions and
/// branches twice.
///
/// It is measured: while SpecLockMap is in effect, event 0x25 with mask 8 counts atomic operations. The remedy, bit 54 of MSR
/// 0xC0011020, switches it off. Opens and closes a counter, and runs a thousand atomic operations.
///
/// Source: [rr issue 2034](https://github.com/rr-debugger/rr/issues/2034).
pub fn spec_lock_map() -> Option<bool> {
    /// `SpecLockMapCommit`.
    const EVENT: Event = Event::raw(0x0825);
    let (vendor, family, model) = asm::processor()?;
    if !may_be_in_effect(&vendor, family, model) {
        return None;
    }
    let counter = Counter::builder(EVENT).pinned(true).open().ok()?;
    let place = AtomicU32::new(0);
    let before = counter.read().ok()?;
    for _ in 0..1_000 {
        black_box(&place).fetch_add(1, Ordering::SeqCst);
    }
    Some(counter.read().ok()? > before)
}

fn may_be_in_effect(vendor: &[u8; 12], family: u32, model: u32) -> bool {
    match (vendor, family) {
        (b"AuthenticAMD", 0x17) | (b"HygonGenuine", 0x17 | 0x18) => true,
        (b"AuthenticAMD", 0x19) => matches!(model, 0x00..=0x0f | 0x20..=0x5f),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_cpus_have_it() {
        let of = may_be_in_effect;
        assert!(of(b"AuthenticAMD", 0x17, 0x01)); // Zen 1
        assert!(of(b"AuthenticAMD", 0x17, 0x31)); // Rome
        assert!(of(b"AuthenticAMD", 0x19, 0x01)); // Milan
        assert!(of(b"AuthenticAMD", 0x19, 0x21)); // Vermeer
        assert!(of(b"HygonGenuine", 0x18, 0x00));
        assert!(!of(b"AuthenticAMD", 0x19, 0x11)); // Genoa: Zen 4
        assert!(!of(b"AuthenticAMD", 0x1a, 0x02)); // Zen 5
        assert!(!of(b"GenuineIntel", 6, 0x8f));
    }
}
