//! Reads that keep their place among the instructions around them.

/// A [`Counter`](crate::Counter), a [`Group`](crate::Group) or a [`Clock`](crate::Clock) whose reads have
/// fences around them: from [`Counter::ordered`](crate::Counter::ordered),
/// [`Group::ordered`](crate::Group::ordered) or [`Clock::ordered`](crate::Clock::ordered).
///
/// A counter is read by an instruction like any other, which an out-of-order processor may run before
/// earlier ones are done and after later ones have begun. With the fences, it waits for the earlier ones,
/// and the later ones wait for it. (What was stored may still be on its way to other processors; and on
/// arm64 it waits for a load only if something was decided by what was loaded, as whoever receives a
/// message does.)
///
/// They are `lfence` on x86-64 and `isb` on arm64: two instructions more, and the wait for what is
/// under way, of which the instruction counts here say nothing. On riscv64 there is none, and reads of
/// counters are the plain ones: by the architecture's manual (Zicsr), a hart sees its own reads of
/// CSRs in program order, after all that modifies them. (`fence` would order them against memory and
/// devices, not among instructions. `cpuid` is not used anywhere: in a virtual machine it is a trap to
/// the hypervisor.)
///
/// ```
/// use rdpmc::{Counter, Event};
///
/// if let Ok(cycles) = Counter::open(Event::CYCLES) {
///     println!("{:?}", cycles.ordered().read());
/// }
/// ```
#[derive(Debug)]
pub struct Ordered<'a, H>(pub(crate) &'a H);

impl<H> Clone for Ordered<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<H> Copy for Ordered<'_, H> {}
