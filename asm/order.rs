//! Whether reads are ordered against the instructions around them: a type parameter of the handles.

use std::fmt::Debug;

/// The order of a handle's reads: [`Unordered`] or [`Ordered`].
///
/// Handles and regions have it as a type parameter: `Counter` is `Counter<Unordered>`, and
/// [`Counter::ordered`](crate::Counter::ordered) returns the same counter as a `Counter<Ordered>`.
pub trait Order: sealed::Sealed + Copy + Debug + Eq + Send + Sync + 'static {
    /// Whether reads have fences.
    #[doc(hidden)]
    const FENCED: bool;
}

/// Reads without fences: the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unordered {}

/// Reads with a fence before and after.
///
/// A counter is read by an ordinary instruction. An out-of-order CPU may run it before earlier instructions are complete
/// and after later ones have begun. With the fences, the read waits for the earlier instructions, and the later ones
/// wait for the read. (Stores may still be on their way to other CPUs. On arm64, the read waits for a load only if a
/// branch depends on it.)
///
/// The fences are `lfence` on x86-64 and `isb` on arm64: two more instructions, and the wait for instructions in
/// flight, which no instruction count shows. On riscv64, counters need none: a hart reads its own CSRs in program order
/// (Zicsr). Clocks have fences there too, because threads that share memory compare times: `fence rw, i` before and
/// `fence i, rw` after.
///
/// ```
/// use rdpmc::{Counter, Event};
///
/// if let Ok(cycles) = Counter::open(Event::CYCLES) {
///     println!("{:?}", cycles.ordered().read());
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordered {}

impl Order for Unordered {
    const FENCED: bool = false;
}

impl Order for Ordered {
    const FENCED: bool = true;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Unordered {}
    impl Sealed for super::Ordered {}
}
