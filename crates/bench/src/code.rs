//! Loops around the code to measure, and the same loops around nothing.
#![allow(unsafe_code)]

use rdpmc::order::fence;
use std::cell::{Cell, RefCell};
use std::hint::black_box;

/// Code to measure: loops that run it, and nothing, a number of times.
///
/// Both are called from one place, with the same numbers of runs, so what the loop and the call cost cancels.
pub(crate) struct Code<'a> {
    pub(crate) work: &'a mut dyn FnMut(u64),
    pub(crate) empty: &'a mut dyn FnMut(u64),
    /// Runs before each loop, outside of the measurement.
    pub(crate) prepare: &'a mut dyn FnMut(),
    /// Loops are of a multiple of this number of runs, so that all do the same work.
    pub(crate) multiple: u64,
}

/// Returns the same number, which the compiler must have in a register now and knows nothing about. So it cannot unroll
/// or remove a loop that counts with it.
#[inline(always)]
fn opaque(number: u64) -> u64 {
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

#[inline(always)]
fn repeat(runs: u64, mut once: impl FnMut()) {
    let mut left = opaque(runs);
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
fn after_a_run<const LATENCY: bool>() {
    if LATENCY {
        fence();
    }
}

/// Passes the loops around `code` to `measure`.
pub(crate) fn plain<T, R>(
    mode: Mode,
    code: impl FnMut() -> T,
    measure: impl FnOnce(Code<'_>) -> R,
) -> R {
    match mode {
        Mode::Throughput => plain_in::<false, T, R>(code, measure),
        Mode::Latency => plain_in::<true, T, R>(code, measure),
    }
}

fn plain_in<const LATENCY: bool, T, R>(
    mut code: impl FnMut() -> T,
    measure: impl FnOnce(Code<'_>) -> R,
) -> R {
    let mut work = |runs| {
        repeat(runs, || {
            black_box(code());
            after_a_run::<LATENCY>();
        });
    };
    let mut empty = |runs| {
        repeat(runs, || {
            black_box(());
            after_a_run::<LATENCY>();
        });
    };
    measure(Code { work: &mut work, empty: &mut empty, prepare: &mut || (), multiple: 1 })
}

/// Passes the loops around `code` to `measure`. Each run takes the last run's result.
pub(crate) fn chain<T, R>(
    first: T,
    mut code: impl FnMut(T) -> T,
    measure: impl FnOnce(Code<'_>) -> R,
) -> R {
    let last = Cell::new(Some(first));
    let mut work = |runs| {
        if let Some(mut value) = last.take() {
            let mut left = opaque(runs);
            while left != 0 {
                value = black_box(code(value));
                left = opaque(left - 1);
            }
            last.set(Some(value));
        }
    };
    let mut empty = |runs| {
        if let Some(mut value) = last.take() {
            let mut left = opaque(runs);
            while left != 0 {
                value = black_box(value);
                left = opaque(left - 1);
            }
            last.set(Some(value));
        }
    };
    measure(Code { work: &mut work, empty: &mut empty, prepare: &mut || (), multiple: 1 })
}

/// Passes the loops around `code` to `measure`. A run takes the next input. The inputs are in a new order in each loop,
/// so that the branch predictor does not learn it.
pub(crate) fn inputs<I, T, R>(
    mode: Mode,
    inputs: &[I],
    code: impl FnMut(&I) -> T,
    measure: impl FnOnce(Code<'_>) -> R,
) -> R {
    match mode {
        Mode::Throughput => inputs_in::<false, I, T, R>(inputs, code, measure),
        Mode::Latency => inputs_in::<true, I, T, R>(inputs, code, measure),
    }
}

fn inputs_in<const LATENCY: bool, I, T, R>(
    inputs: &[I],
    mut code: impl FnMut(&I) -> T,
    measure: impl FnOnce(Code<'_>) -> R,
) -> R {
    let order: RefCell<Vec<&I>> = RefCell::new(inputs.iter().collect());
    let mut random = Random::new();
    let mut prepare = || random.shuffle(&mut order.borrow_mut());
    let mut work = |runs| {
        passes(runs, &order.borrow(), |input| {
            black_box(code(black_box(input)));
            after_a_run::<LATENCY>();
        });
    };
    let mut empty = |runs| {
        passes(runs, &order.borrow(), |input| {
            black_box(input);
            after_a_run::<LATENCY>();
        });
    };
    measure(Code {
        work: &mut work,
        empty: &mut empty,
        prepare: &mut prepare,
        multiple: inputs.len() as u64,
    })
}

#[inline(always)]
fn passes<I>(runs: u64, order: &[&I], mut once: impl FnMut(&I)) {
    let mut left = runs;
    while left >= order.len() as u64 && !order.is_empty() {
        for input in order {
            once(input);
        }
        left = opaque(left - order.len() as u64);
    }
    for input in order.iter().take(left as usize) {
        once(input);
    }
}

/// A generator of random numbers (xorshift64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Random {
        Random(0x9e37_79b9_7f4a_7c15)
    }

    /// Returns a number below `end`, which is small.
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
mod tests {
    use super::*;

    /// The calls of the code by `runs` runs of the work, and by as many of nothing.
    fn calls(code: Code<'_>, count: &Cell<u64>, runs: u64) -> [u64; 2] {
        (code.prepare)();
        (code.work)(runs);
        let work = count.take();
        (code.empty)(runs);
        [work, count.take()]
    }

    #[test]
    fn work_runs_as_often_as_asked_and_nothing_never() {
        let count = Cell::new(0);
        let one_more = || count.set(count.get() + 1);
        for runs in [0, 1, 2, 1_000] {
            for mode in [Mode::Throughput, Mode::Latency] {
                assert_eq!(plain(mode, one_more, |code| calls(code, &count, runs)), [runs, 0]);
                let of = |_: &u32| one_more();
                let found = inputs(mode, &[1, 2, 3], of, |code| calls(code, &count, runs));
                assert_eq!(found, [runs, 0]);
                assert_eq!(inputs(mode, &[], of, |code| calls(code, &count, runs)), [0, 0]);
            }
            let next = |number: u64| {
                one_more();
                number + 1
            };
            assert_eq!(chain(0, next, |code| calls(code, &count, runs)), [runs, 0]);
        }
    }

    #[test]
    fn a_chain_goes_on_where_it_ended() {
        let last = Cell::new(0);
        let next = |number: u64| {
            last.set(number + 1);
            number + 1
        };
        chain(0, next, |code| {
            (code.work)(10);
            (code.empty)(10);
            (code.work)(10);
        });
        assert_eq!(last.get(), 20);
    }

    #[test]
    fn inputs_all_come_in_each_pass_and_in_another_order() {
        let seen = RefCell::new(Vec::new());
        let all: Vec<u32> = (0..100).collect();
        inputs(
            Mode::Throughput,
            &all,
            |input| seen.borrow_mut().push(*input),
            |code| {
                assert_eq!(code.multiple, 100);
                for _ in 0..2 {
                    (code.prepare)();
                    (code.work)(100);
                }
            },
        );
        let mut seen = seen.into_inner();
        assert_eq!(seen.len(), 200);
        let (first, second) = seen.split_at_mut(100);
        assert_ne!(first, second);
        first.sort_unstable();
        second.sort_unstable();
        assert!(first == all && second == all);
    }
}
