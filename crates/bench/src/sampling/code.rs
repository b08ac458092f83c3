//! Loops around the code to measure, and the same loops around nothing.
#![allow(unsafe_code)]

use rdpmc::fence;
use std::hint::black_box;

/// What a loop contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// One run of the code in each turn.
    Work,
    /// Two copies of the code, so two runs in each turn.
    Twice,
    Nothing,
}

/// Code to measure: loops that run it.
///
/// All are called from one place, so the cost of the call cancels.
pub(crate) trait Loops {
    /// Runs the code once in each turn.
    fn work(&mut self, turns: u64);
    /// Runs two copies of the code in each turn.
    fn twice(&mut self, turns: u64);
    /// Does the same without the code.
    fn nothing(&mut self, turns: u64);
    /// Comes before each loop, outside of the measurement.
    fn prepare(&mut self) {}
    /// Loops are of a multiple of this number of turns, so that all do the same work.
    fn multiple(&self) -> u64 {
        1
    }
    /// Whether a fence follows each run.
    fn has_fence(&self) -> bool {
        false
    }
}

/// Returns the same number, which the compiler must have in a register now and knows nothing about. So it cannot unroll
/// or remove a loop that counts with it.
#[inline(always)]
pub(crate) fn opaque(number: u64) -> u64 {
    #[cfg(target_pointer_width = "64")]
    {
        let mut number = number;
        // SAFETY: emits no instruction.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) number, options(nomem, nostack, preserves_flags));
        }
        number
    }
    #[cfg(not(target_pointer_width = "64"))]
    black_box(number)
}

/// Returns the same value. Like [`black_box`], but a value of 4 or 8 bytes stays in a register. `black_box` would send it
/// through memory, which is part of a chain's latency on most CPUs.
#[inline(always)]
fn opaque_value<T>(value: T) -> T {
    // The comments name the register by its width, as the compiler asks.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
    {
        use std::mem::{ManuallyDrop, MaybeUninit, size_of, transmute_copy};
        macro_rules! in_register {
            ($bits:ty, $comment:literal) => {{
                let value = ManuallyDrop::new(value);
                // SAFETY: the sizes are equal, and MaybeUninit takes any bits, also those of padding.
                let mut bits: MaybeUninit<$bits> = unsafe { transmute_copy(&value) };
                // SAFETY: emits no instruction, so the bits stay the same.
                unsafe { std::arch::asm!($comment, inout(reg) bits, options(nostack, preserves_flags)) };
                // SAFETY: these are the bits of `value`, which is not dropped.
                unsafe { transmute_copy(&bits) }
            }};
        }
        #[cfg(target_arch = "x86_64")]
        match size_of::<T>() {
            8 => in_register!(u64, "/* {0:r} */"),
            4 => in_register!(u32, "/* {0:e} */"),
            _ => black_box(value),
        }
        #[cfg(target_arch = "aarch64")]
        match size_of::<T>() {
            8 => in_register!(u64, "/* {0:x} */"),
            4 => in_register!(u32, "/* {0:w} */"),
            _ => black_box(value),
        }
        #[cfg(target_arch = "riscv64")]
        match size_of::<T>() {
            8 => in_register!(u64, "/* {0} */"),
            4 => in_register!(u32, "/* {0} */"),
            _ => black_box(value),
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    black_box(value)
}

/// Calls `once` in each turn.
#[inline(always)]
fn repeat(turns: u64, mut once: impl FnMut()) {
    let mut left = opaque(turns);
    while left != 0 {
        once();
        left = opaque(left - 1);
    }
}

/// How runs follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Throughput,
    Latency,
}

#[inline(always)]
fn after_a_run<const FENCE: bool>() {
    if FENCE {
        fence();
    }
}

/// Returns the loops around code that takes nothing.
pub(crate) fn plain<'a, T>(mode: Mode, code: impl FnMut() -> T + 'a) -> Box<dyn Loops + 'a> {
    match mode {
        Mode::Throughput => Box::new(Plain::<_, false>(code)),
        Mode::Latency => Box::new(Plain::<_, true>(code)),
    }
}

struct Plain<F, const FENCE: bool>(F);

impl<T, F: FnMut() -> T, const FENCE: bool> Loops for Plain<F, FENCE> {
    fn work(&mut self, turns: u64) {
        repeat(turns, || {
            black_box((self.0)());
            after_a_run::<FENCE>();
        });
    }

    fn twice(&mut self, turns: u64) {
        repeat(turns, || {
            black_box((self.0)());
            after_a_run::<FENCE>();
            black_box((self.0)());
            after_a_run::<FENCE>();
        });
    }

    fn nothing(&mut self, turns: u64) {
        repeat(turns, || {
            black_box(());
            after_a_run::<FENCE>();
        });
    }

    fn has_fence(&self) -> bool {
        FENCE && cfg!(not(target_arch = "riscv64"))
    }
}

/// Returns the loops around code that takes the last run's result.
pub(crate) fn chain<'a, T: 'a>(first: T, code: impl FnMut(T) -> T + 'a) -> Box<dyn Loops + 'a> {
    Box::new(Chain { last: Some(first), code })
}

struct Chain<T, F> {
    /// None after the code has panicked.
    last: Option<T>,
    code: F,
}

impl<T, F> Chain<T, F> {
    #[inline(always)]
    fn repeat(&mut self, turns: u64, mut once: impl FnMut(&mut F, T) -> T) {
        if let Some(mut value) = self.last.take() {
            let mut left = opaque(turns);
            while left != 0 {
                value = once(&mut self.code, value);
                left = opaque(left - 1);
            }
            self.last = Some(value);
        }
    }
}

impl<T, F: FnMut(T) -> T> Loops for Chain<T, F> {
    fn work(&mut self, turns: u64) {
        self.repeat(turns, |code, value| opaque_value(code(value)));
    }

    fn twice(&mut self, turns: u64) {
        self.repeat(turns, |code, value| {
            let value = opaque_value(code(value));
            opaque_value(code(value))
        });
    }

    fn nothing(&mut self, turns: u64) {
        self.repeat(turns, |_, value| opaque_value(value));
    }
}

/// Returns the loops around code that takes an input. Each run takes the next input. The inputs are in a new order in
/// each loop, so that the branch predictor does not learn it.
pub(crate) fn inputs<'a, I: 'a, T>(
    mode: Mode,
    inputs: Vec<I>,
    code: impl FnMut(&I) -> T + 'a,
) -> Box<dyn Loops + 'a> {
    let random = Random::new();
    match mode {
        Mode::Throughput => Box::new(Inputs::<_, _, false> { inputs, random, code }),
        Mode::Latency => Box::new(Inputs::<_, _, true> { inputs, random, code }),
    }
}

struct Inputs<I, F, const FENCE: bool> {
    inputs: Vec<I>,
    random: Random,
    code: F,
}

impl<I, T, F: FnMut(&I) -> T, const FENCE: bool> Loops for Inputs<I, F, FENCE> {
    fn work(&mut self, turns: u64) {
        passes(turns, &self.inputs, |input| {
            black_box((self.code)(black_box(input)));
            after_a_run::<FENCE>();
        });
    }

    fn twice(&mut self, turns: u64) {
        let runs = turns.saturating_mul(2);
        let once = |input: &I| {
            black_box((self.code)(black_box(input)));
            after_a_run::<FENCE>();
        };
        passes_of_two(runs, &self.inputs, once);
    }

    fn nothing(&mut self, turns: u64) {
        passes(turns, &self.inputs, |input| {
            black_box(input);
            after_a_run::<FENCE>();
        });
    }

    fn prepare(&mut self) {
        self.random.shuffle(&mut self.inputs);
    }

    fn multiple(&self) -> u64 {
        self.inputs.len().max(1) as u64
    }

    fn has_fence(&self) -> bool {
        FENCE && cfg!(not(target_arch = "riscv64"))
    }
}

/// Calls `once` with the next input in each turn.
#[inline(always)]
fn passes<I>(runs: u64, inputs: &[I], mut once: impl FnMut(&I)) {
    let mut left = runs;
    while left >= inputs.len() as u64 && !inputs.is_empty() {
        for input in inputs {
            once(input);
        }
        left = opaque(left - inputs.len() as u64);
    }
    for input in inputs.iter().take(left as usize) {
        once(input);
    }
}

/// Calls `once` with the next two inputs in each turn.
#[inline(always)]
fn passes_of_two<I>(runs: u64, inputs: &[I], mut once: impl FnMut(&I)) {
    let mut left = runs;
    while left >= inputs.len() as u64 && !inputs.is_empty() {
        let pairs = inputs.chunks_exact(2);
        let last = pairs.remainder().first();
        for pair in pairs {
            if let [first, second] = pair {
                once(first);
                once(second);
            }
        }
        last.map(&mut once);
        left = opaque(left - inputs.len() as u64);
    }
    for input in inputs.iter().take(left as usize) {
        once(input);
    }
}

/// A generator of random numbers (xorshift64).
pub(crate) struct Random(u64);

impl Random {
    /// Other numbers in each call.
    pub(crate) fn new() -> Random {
        use std::hash::{BuildHasher, RandomState};
        Random::of_seed(RandomState::new().hash_one(0))
    }

    /// Other numbers for each seed.
    pub(crate) fn of_seed(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (0..8).for_each(|_| {
            random.below(1);
        });
        random
    }

    /// Returns a number below `end`, which is below 2^32. 0 if `end` is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) as usize).checked_rem(end).unwrap_or(0)
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    /// The calls of the code by `turns` turns of one copy, of two, and of nothing.
    fn calls(mut code: Box<dyn Loops + '_>, count: &Cell<u64>, turns: u64) -> [u64; 3] {
        code.prepare();
        code.work(turns);
        let work = count.take();
        code.twice(turns);
        let twice = count.take();
        code.nothing(turns);
        [work, twice, count.take()]
    }

    #[test]
    fn code_runs_as_often_as_asked() {
        let count = Cell::new(0);
        let one_more = || count.set(count.get() + 1);
        for turns in [0, 1, 2, 3, 1_000] {
            let expected = [turns, 2 * turns, 0];
            for mode in [Mode::Throughput, Mode::Latency] {
                assert_eq!(calls(plain(mode, one_more), &count, turns), expected);
                for all in [vec![1], vec![1, 2], vec![1, 2, 3]] {
                    let of = |_: &u32| one_more();
                    assert_eq!(calls(inputs(mode, all, of), &count, turns), expected);
                }
                let of = |_: &u32| one_more();
                assert_eq!(calls(inputs(mode, vec![], of), &count, turns), [0; 3]);
            }
            let next = |number: u64| {
                one_more();
                number + 1
            };
            assert_eq!(calls(chain(0, next), &count, turns), expected);
        }
    }

    /// Values of all sizes, in registers or in memory, and with destructors.
    #[test]
    fn a_chain_goes_on_where_it_ended() {
        fn ends_with<T: PartialEq + std::fmt::Debug + Clone>(first: T, next: fn(&T) -> T) {
            let (mut expected, last) = (first.clone(), RefCell::new(None));
            (0..40).for_each(|_| expected = next(&expected));
            let mut loops = chain(first, |value: T| {
                let value = next(&value);
                *last.borrow_mut() = Some(value.clone());
                value
            });
            loops.work(10);
            loops.nothing(10);
            loops.twice(10);
            loops.work(10);
            drop(loops);
            assert_eq!(last.into_inner().unwrap(), expected);
        }
        ends_with(0u8, |n| n + 1);
        ends_with(0u16, |n| n + 1);
        ends_with(0u32, |n| n + 1);
        ends_with(0u64, |n| n + 1);
        ends_with(0u128, |n| n + 1);
        ends_with(0.0f32, |n| n + 1.0);
        ends_with(0.0f64, |n| n + 1.0);
        ends_with('a', |c| char::from_u32(u32::from(*c) + 1).unwrap());
        ends_with((0u32, 0u8), |(a, b)| (a + 1, b + 2)); // with padding
        ends_with(Some(0u32), |n| n.map(|n| n + 1));
        ends_with(Box::new(0), |n| Box::new(**n + 1));
        ends_with(Rc::new(0), |n| Rc::new(**n + 1));
        ends_with(String::new(), |text| format!("{text}."));
        ends_with((), |()| ());
    }

    #[test]
    fn inputs_all_come_in_each_pass_and_in_another_order() {
        let seen = RefCell::new(Vec::new());
        let all: Vec<u32> = (0..101).collect();
        let mut loops =
            inputs(Mode::Throughput, all.clone(), |input| seen.borrow_mut().push(*input));
        assert_eq!(loops.multiple(), 101);
        loops.prepare();
        loops.work(101);
        loops.prepare();
        loops.twice(101);
        let mut seen = seen.take();
        assert_eq!(seen.len(), 303);
        let (first, second) = seen.split_at_mut(101);
        assert_ne!(first, &second[..101]);
        for pass in [first].into_iter().chain(second.chunks_mut(101)) {
            pass.sort_unstable();
            assert_eq!(pass, all);
        }
    }
}
