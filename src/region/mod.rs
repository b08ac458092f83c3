//! A region: what the counters of a group say of the code between two points, and of nothing else.
#![allow(unsafe_code)]

mod overhead;

pub use crate::error::Disturbed;
pub use overhead::Overhead;

use crate::asm::order::{Order, Unordered};
use crate::asm::{self, Value};
use crate::event::Event;
use crate::page::reader::Reader;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;

/// Measures pieces of code: from [`Counter::region`](crate::Counter::region) or
/// [`Group::region`](crate::Group::region), `N` counters at once.
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
///     Err(why) => println!("{why}"), // e.g. that the thread was switched out meanwhile: try again
/// }
/// ```
///
/// # What is measured
///
/// Reading the counter is the last thing that [`start`](Region::start) does and the first that
/// [`stop`](Region::stop) does, so what lies between is the code, and between two calls back to
/// back, as the counter itself counts, 3 instructions on x86-64, 4 on arm64 (5 with 32-bit
/// counters), 4 on riscv64 (`tests/vm/run TARGET cost`); [`Overhead::of`](crate::Overhead::of) tells, and
/// [`corrected`](Region::corrected) takes it off. Builds for size and debug builds take more, see README. Only when both
/// counts are taken does `stop` look at the control page: if its `lock` word is what it was at the
/// start, the thread was not switched out, nor the counter taken away or moved meanwhile, and the
/// difference is what this thread did in the region (see [Interrupts](#interrupts)). If not, the sample is [`Disturbed`],
/// and there is no number.
///
/// Of a group, the first counter is read last at the start and first at the stop: what it counts is
/// the code alone, as if it were the only one; each further one also sees the reads of those before
/// it.
///
/// # Interrupts
///
/// A context switch, and a counter that was moved or taken away, never go unnoticed. These do, as `lock`
/// does not change:
/// - an interrupt that returns to this thread. On x86-64 silicon it adds at most one instruction to a count
///   of user mode, and it touches the caches. Where the kernel is counted as well, its work is counted too;
/// - a signal handler that ran on this thread in between, whose work is counted;
/// - time that a hypervisor took away.
///
/// A counter of the kernel's instructions in the same group shows the machine's own interrupts: its count is
/// 0 for a region without any. In a virtual machine nothing shows the hypervisor's.
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
///     Ok(None) => println!("an interrupt came: one instruction more, perhaps"),
///     Err(why) => println!("{why}"), // for example that kernel.perf_event_paranoid is 2
/// }
/// ```
///
/// Code that takes longer than the scheduler lets a thread run, some milliseconds, is nearly always
/// disturbed where others want the processor: for that, take the difference of two
/// [reads](crate::Group::read).
///
/// In the child of a `fork` that happens inside the region, only the parent may stop it, unless
/// faults are [contained](crate::contain_faults): the child may not read counters, and its sample is
/// disturbed.
///
/// # Ordering
///
/// An out-of-order processor may run instructions from before the region inside it and the other
/// way round. [`ordered`](Region::ordered) regions have fences around their reads. The compiler may
/// move what touches no memory in or out, too: pass inputs and results through
/// [`black_box`](std::hint::black_box).
pub struct Region<'a, const N: usize, O: Order = Unordered> {
    pub(crate) reader: &'a Reader<N>,
    pub(crate) events: &'a [Event; N],
    /// What to take off, if anything.
    pub(crate) overhead: Option<[u64; N]>,
    order: PhantomData<O>,
}

impl<const N: usize, O: Order> fmt::Debug for Region<'_, N, O> {
    /// Its events and its overhead. No system call.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("events", self.events)
            .field("overhead", &self.overhead)
            .finish_non_exhaustive()
    }
}

impl<const N: usize, O: Order> Clone for Region<'_, N, O> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<const N: usize, O: Order> Copy for Region<'_, N, O> {}

/// Where a region starts, from [`Region::start`].
#[must_use = "a region that is not stopped measures nothing"]
pub struct Start<'a, const N: usize, O: Order = Unordered> {
    reader: &'a Reader<N>,
    locks: u64,
    values: [Value; N],
    order: PhantomData<O>,
}

impl<const N: usize, O: Order> Clone for Start<'_, N, O> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<const N: usize, O: Order> Copy for Start<'_, N, O> {}

impl<const N: usize, O: Order> fmt::Debug for Start<'_, N, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Start").field("values", &self.values).finish_non_exhaustive()
    }
}

impl<'a, const N: usize, O: Order> Region<'a, N, O> {
    pub(crate) fn new(reader: &'a Reader<N>, events: &'a [Event; N]) -> Region<'a, N, O> {
        Region { reader, events, overhead: None, order: PhantomData }
    }

    /// Starts the region: the last thing it does is to read the first counter. No system call.
    ///
    /// # Errors
    /// [`Disturbed::NoCounter`] while an event has no counter.
    #[inline(always)]
    pub fn start(&self) -> Result<Start<'a, N, O>, Disturbed> {
        let reader = self.reader;
        let locks = asm::settled(reader.locks()); // pairs with those in stop
        let registers = reader.named().ok_or(Disturbed::NoCounter)?;
        let mut values = registers.map(Value::unread);
        if O::FENCED {
            asm::fence();
        }
        for value in values.iter_mut().rev() {
            // SAFETY: the page names the register, so this thread may read it; if that has changed
            // since, the read may fault only where faults are contained: whoever made the region has
            // seen to that.
            *value = unsafe { asm::value(value.register()) };
        }
        if O::FENCED {
            asm::fence();
        }
        Ok(Start { reader, locks, values, order: PhantomData })
    }

    /// Ends the region: the first thing it does is to read the first counter. No system call.
    ///
    /// Gives what each counter counted since the start, modulo the range of its register (2^48 on
    /// x86-64), less the overhead if the region is [`corrected`](Region::corrected). It may be called
    /// again for a later end of the same region.
    ///
    /// # Errors
    /// The kernel [had to do](Disturbed::Interrupted) with a counter meanwhile, or it could not be
    /// [read](Disturbed::Faulted); or [other counters](Disturbed::OtherCounters) were started.
    #[inline(always)]
    pub fn stop(&self, start: Start<'_, N, O>) -> Result<[u64; N], Disturbed> {
        if O::FENCED {
            asm::fence();
        }
        let mut values = start.values;
        for value in &mut values {
            // SAFETY: as in start.
            *value = unsafe { asm::value(value.register()) };
        }
        if O::FENCED {
            asm::fence();
        }
        // What was read are the counters that were started, and this region's overhead is not theirs.
        let reader = self.reader;
        if !ptr::eq(reader, start.reader) {
            return Err(Disturbed::OtherCounters);
        }
        let lock_moved = reader.locks().wrapping_sub(start.locks); // pairs with that in start
        if lock_moved != 0 {
            return Err(Disturbed::Interrupted { lock_moved });
        }
        if start.values.iter().chain(&values).any(|value| value.is_fault()) {
            return Err(Disturbed::Faulted);
        }
        // Unchanged as well, since no lock has moved.
        let widths = reader.widths();
        let mut counts = self.overhead.unwrap_or([0; N]);
        for ((count, width), (start, end)) in
            counts.iter_mut().zip(widths).zip(start.values.iter().zip(&values))
        {
            let all = distance(start.bits(), end.bits(), width).ok_or(Disturbed::NoCounter)?;
            *count = all.saturating_sub(*count);
        }
        Ok(counts)
    }

    /// Runs `code` in the region: what it returns, and what the counters counted. It runs whether it
    /// can be measured or not.
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

/// How far a counter of `width` bits went from `start` to `end`, if it wrapped at most once; bits
/// above the width are ignored. None for a width that is no counter's.
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
