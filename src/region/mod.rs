//! Counts of the code between two points: regions, which count nothing else, and differences of snapshots.
#![allow(unsafe_code)]

// Floor 6. `snapshot` has the counts at one instant. Uses `asm`, `error` and `page`.

mod snapshot;

pub use crate::error::Disturbed;
pub use snapshot::{Delta, Snapshot};

use crate::asm::{self, Value};
use crate::page::reader::View;
use std::fmt;
use std::ptr;

/// A measurement of pieces of code with `N` counters at once, from [`Counter::region`](crate::Counter::region) or
/// [`Group::region`](crate::Group::region).
///
/// ```
/// use rdpmc::{Counter, Error, Event};
///
/// fn cycles_of(work: impl FnOnce()) -> Result<u64, Error> {
///     let counter = Counter::open(Event::CYCLES)?;
///     let region = counter.region()?;
///     let start = region.start()?;
///     work();
///     let [cycles] = region.stop(start)?;
///     Ok(cycles)
/// }
///
/// match cycles_of(|| drop(std::hint::black_box(vec![0; 100]))) {
///     Ok(cycles) => println!("{cycles} cycles"),
///     Err(why) => println!("{why}"), // for example, after a context switch: try again
/// }
/// ```
///
/// # What is measured
///
/// The read of the counter is the last operation of [`start`](Region::start) and the first of [`stop`](Region::stop),
/// so almost nothing but the code is between the two reads. An empty region counts 3 instructions on x86-64, 4 on arm64
/// (5 with 32-bit counters), 4 on riscv64 (`tests/vm/run TARGET cost`). Size-optimised and debug builds take more. To subtract
/// this overhead from counts of instructions, measure an empty region. For cycles, which overlap, measure loops with the crate
/// `rdpmc-bench`.
///
/// `stop` loads the control page only after both reads. If its `lock` word has not changed since the start, there was
/// no context switch, and the counter was neither taken away nor moved. The difference is then what this thread did
/// in the region (see [Interrupts](#interrupts)). Otherwise the sample is [`Disturbed`], and there is no count.
///
/// In a group, the first counter is read last at the start and first at the stop. It counts the code alone, like a
/// single counter. Each further counter also counts the reads of those before it.
///
/// # Interrupts
///
/// Context switches, and counters that are moved or taken away, are always detected. The following are not, because
/// `lock` does not change:
/// - An interrupt, a page fault or another exception that returns to this thread. On x86-64 silicon, it adds at most
///   one instruction to a user-mode count, and it touches the caches. If the kernel is counted too, the count includes
///   the kernel's work.
/// - A signal handler that ran on this thread in between. The count includes its work.
/// - Time stolen by the hypervisor (steal time).
///
/// A counter of kernel instructions in the group shows the machine's own interrupts: its count is 0 for a region
/// without any. In a virtual machine, nothing shows the hypervisor's interrupts.
///
/// ```
/// use rdpmc::{Error, Event, Group};
///
/// fn count_without_interrupts() -> Result<Option<u64>, Error> {
///     let group = Group::open([Event::INSTRUCTIONS, Event::INSTRUCTIONS.kernel()])?;
///     let (_, sample) = group.region()?.measure(|| std::hint::black_box(1 + 1));
///     let [instructions, of_the_kernel] = sample?;
///     Ok((of_the_kernel == 0).then_some(instructions))
/// }
///
/// match count_without_interrupts() {
///     Ok(Some(instructions)) => println!("exactly {instructions} instructions"),
///     Ok(None) => println!("an interrupt came, and may have added one instruction"),
///     Err(why) => println!("{why}"), // for example, kernel.perf_event_paranoid is 2
/// }
/// ```
///
/// Code that runs for longer than the scheduler's time slice, some milliseconds, is nearly always disturbed if other
/// threads want the CPU. For such code, take the difference of two [reads](crate::Group::read).
///
/// If a `fork` happens inside the region, `stop` faults in the child. If faults are [contained](crate::contain_faults),
/// it returns [`Disturbed`] there.
///
/// # Ordering
///
/// An out-of-order CPU may run surrounding instructions inside the region, and the region's own instructions outside
/// it. A [`fenced`](Region::fenced) region has a [`fence`](crate::fence) before and after its reads. The compiler may also move code into or out of the region, if that code does not access
/// memory. Pass inputs and results through [`black_box`](std::hint::black_box).
#[derive(Clone, Copy)]
pub struct Region<'a, const N: usize, const FENCED: bool = false> {
    view: &'a View,
}

impl<const N: usize, const FENCED: bool> fmt::Debug for Region<'_, N, FENCED> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").finish_non_exhaustive()
    }
}

/// The start of a region, from [`Region::start`]. A fenced region stops only a fenced start. Otherwise the sample would have
/// other fences than the empty region that it is compared with:
///
/// ```compile_fail,E0308
/// # fn mixed(region: rdpmc::Region<'_, 1>) -> Result<(), rdpmc::Error> {
/// region.fenced().stop(region.start()?)?; // mismatched types
/// # Ok(())
/// # }
/// ```
#[must_use = "a region that is not stopped measures nothing"]
#[derive(Clone, Copy)]
pub struct Start<'a, const N: usize, const FENCED: bool = false> {
    view: &'a View,
    locks: u64,
    values: [Value; N],
}

impl<const N: usize, const FENCED: bool> fmt::Debug for Start<'_, N, FENCED> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Start").field("values", &self.values).finish_non_exhaustive()
    }
}

impl<'a, const N: usize> Region<'a, N> {
    pub(crate) fn new(view: &'a View) -> Region<'a, N> {
        Region { view }
    }

    /// Returns this region with a [`fence`](crate::fence) before and after the reads of its start, and of its stop. The
    /// code in between begins after everything before it is complete, and is complete itself at the stop.
    ///
    /// Two of the fences are between the reads: two instructions more on x86-64 and arm64.
    #[must_use = "the region itself stays as it is"]
    pub fn fenced(self) -> Region<'a, N, true> {
        Region { view: self.view }
    }
}

impl<'a, const N: usize, const FENCED: bool> Region<'a, N, FENCED> {
    /// Starts the region. This method's last operation is the read of the first counter. No system call.
    ///
    /// # Errors
    /// [`Disturbed::NoCounter`] while an event has no counter, after a read of the handle has faulted, and in the
    /// child of a fork.
    #[inline(always)]
    pub fn start(&self) -> Result<Start<'a, N, FENCED>, Disturbed> {
        let view = self.view;
        let locks = asm::settled(view.locks::<N>()); // pairs with the locks in stop
        let registers = view.named::<N>().ok_or(Disturbed::NoCounter)?;
        let mut values = registers.map(Value::unread);
        if FENCED {
            asm::fence();
        }
        for value in values.iter_mut().rev() {
            // SAFETY: the page names the register, so this thread may read it. If that has changed since then,
            // the read may fault only where faults are contained: the function that made the region has checked this.
            *value = unsafe { asm::value(value.register()) };
        }
        if FENCED {
            asm::fence();
        }
        Ok(Start { view, locks, values })
    }

    /// Ends the region. This method's first operation is the read of the first counter. No system call.
    ///
    /// Returns what each counter counted since the start, modulo the range of its register (2^48 on x86-64). `start` can be
    /// reused: each `stop` measures from the same beginning.
    ///
    /// # Errors
    /// - [`Disturbed::Interrupted`] if the kernel updated a control page during the region, or if the first read of a
    ///   handle faulted in it. The next `start` then returns [`Disturbed::NoCounter`].
    /// - [`Disturbed::Faulted`] if a counter could not be read.
    /// - [`Disturbed::OtherCounters`] if the region was started with other counters.
    #[inline(always)]
    pub fn stop(&self, start: Start<'_, N, FENCED>) -> Result<[u64; N], Disturbed> {
        if FENCED {
            asm::fence();
        }
        let mut values = start.values;
        for value in &mut values {
            // SAFETY: the page named the register at the start, so this thread may read it. If that has changed
            // since then, the read may fault only where faults are contained: the function that made the region has
            // checked this.
            *value = unsafe { asm::value(value.register()) };
        }
        if FENCED {
            asm::fence();
        }
        let view = self.view;
        if !ptr::eq(view, start.view) {
            return Err(Disturbed::OtherCounters);
        }
        let lock_moved = view.locks::<N>().wrapping_sub(start.locks); // pairs with the locks in start
        if lock_moved != 0 {
            return Err(Disturbed::Interrupted { lock_moved });
        }
        if start.values.iter().chain(&values).any(|value| value.is_fault()) {
            return Err(Disturbed::Faulted);
        }
        // The widths have not changed either, because no lock has moved.
        let mut counts = [0; N];
        let each = counts.iter_mut().zip(view.widths::<N>());
        for ((count, width), (start, end)) in each.zip(start.values.iter().zip(&values)) {
            *count = distance(start.bits(), end.bits(), width).ok_or(Disturbed::NoCounter)?;
        }
        Ok(counts)
    }

    /// Runs `code` in the region. Returns its result and the counts. `code` runs even if it cannot be measured.
    #[inline(always)]
    pub fn measure<T>(&self, code: impl FnOnce() -> T) -> (T, Result<[u64; N], Disturbed>) {
        match self.start() {
            Ok(start) => {
                let value = code();
                (value, self.stop(start))
            }
            Err(disturbed) => (code(), Err(disturbed)),
        }
    }
}

/// Returns how far a counter of `width` bits moved from `start` to `end`, if it wrapped at most once. Ignores bits
/// above the width. None for a width that no counter has.
#[inline(always)]
pub(crate) fn distance(start: u64, end: u64, width: u16) -> Option<u64> {
    match width {
        1..=64 => {
            let shift = 64 - u32::from(width);
            Some(end.wrapping_sub(start) << shift >> shift)
        }
        _ => None,
    }
}
