//! The ways to measure a piece of code.

use crate::plan::Entry;
use crate::sampling::code::{self, Loops, Mode};

/// A row to measure, from [`Bench::row`](crate::Bench::row).
///
/// # Latency and throughput
///
/// Throughput is the cost of one run among many: the CPU works on several runs at the same time. Latency is the time
/// from the beginning of a run to its result. It is the cost if the next run has to wait for this result. If the
/// program waits for the result, measure the latency, otherwise the throughput.
///
/// ```text
/// throughput   |--run 1--|              latency   |--run 1--|
///                 |--run 2--|                               |--run 2--|
///                    |--run 3--|                                      |--run 3--|
///               --->  ------- cost of a run                 ----------- cost of a run
/// ```
#[must_use = "nothing is measured before `throughput`, `latency` or `chain`"]
#[derive(Debug)]
pub struct RowBuilder<'b, 'a> {
    rows: &'b mut Vec<Entry<'a>>,
    name: String,
    operations: u64,
    against: Option<String>,
}

impl<'b, 'a> RowBuilder<'b, 'a> {
    pub(crate) fn new(rows: &'b mut Vec<Entry<'a>>, name: String) -> RowBuilder<'b, 'a> {
        RowBuilder { rows, name, operations: 1, against: None }
    }

    /// Compares this row with the one of that name. The table then says how much faster it is, or that there is no
    /// difference.
    ///
    /// The two are measured in turns, in random order, and each sample is compared with the other row's of the same pass. So
    /// what changes the speed of both cancels. See [`Results::comparisons`](crate::Results::comparisons).
    ///
    /// ```
    /// use rdpmc_bench::Bench;
    /// use std::hint::black_box;
    ///
    /// let mut bench = Bench::new()?;
    /// bench.row("shift").chain(1, |number: u64| number << 3);
    /// bench.row("multiply").against("shift").chain(1, |number: u64| number.wrapping_mul(number | 8));
    /// println!("{}", bench.run());
    /// # Ok::<(), rdpmc::Error>(())
    /// ```
    pub fn against(self, name: impl Into<String>) -> RowBuilder<'b, 'a> {
        RowBuilder { against: Some(name.into()), ..self }
    }

    /// Sets the number of operations in one run: 1 by default. All figures are for one operation.
    pub fn operations(self, operations: u64) -> RowBuilder<'b, 'a> {
        RowBuilder { operations, ..self }
    }

    /// Measures the throughput: the runs may overlap.
    ///
    /// The result of the closure is consumed opaquely, so the compiler cannot remove its computation. Pass inputs
    /// through [`black_box`](std::hint::black_box), or the compiler may compute with them in advance.
    pub fn throughput<T>(self, code: impl FnMut() -> T + 'a) {
        self.add(Some(code::plain(Mode::Throughput, code)));
    }

    /// Measures the latency: a [fence](rdpmc::fence) after each run keeps the next from overlapping. On riscv64,
    /// which has no such fence, use [`chain`](RowBuilder::chain).
    ///
    /// The cost of the fence after a chain of multiplications is subtracted from time and cycles. It depends on the
    /// code before it, so the result may be some cycles too high or too low. A note below the table says how many.
    /// `chain` has no such error.
    pub fn latency<T>(self, code: impl FnMut() -> T + 'a) {
        self.add(Some(code::plain(Mode::Latency, code)));
    }

    /// Measures the latency of code that takes its last result: each run waits for the one before, without a fence.
    ///
    /// A value of 4 or 8 bytes stays in a register. Other values go from run to run through memory, which takes some five
    /// cycles on most CPUs, and floating-point numbers through an integer register. Both are part of the result.
    pub fn chain<T: 'a>(self, first: T, code: impl FnMut(T) -> T + 'a) {
        self.add(Some(code::chain(first, code)));
    }

    /// Gives each run another input, in a new random order in each loop, so that the branch predictor cannot learn the
    /// order. Some hundreds of inputs are enough, and each loop runs all of them.
    pub fn inputs<I: 'a>(self, inputs: impl IntoIterator<Item = I>) -> InputRowBuilder<'b, 'a, I> {
        InputRowBuilder { row: self, inputs: inputs.into_iter().collect() }
    }

    fn add(self, code: Option<Box<dyn Loops + 'a>>) {
        let RowBuilder { rows, name, operations, against } = self;
        rows.push(Entry { name, operations, against, code });
    }
}

/// A row with inputs to measure, from [`RowBuilder::inputs`].
#[must_use = "nothing is measured before `throughput` or `latency`"]
#[derive(Debug)]
pub struct InputRowBuilder<'b, 'a, I> {
    row: RowBuilder<'b, 'a>,
    inputs: Vec<I>,
}

impl<'a, I: 'a> InputRowBuilder<'_, 'a, I> {
    /// Measures the throughput of one input: see [`RowBuilder::throughput`].
    pub fn throughput<T>(self, code: impl FnMut(&I) -> T + 'a) {
        self.add(Mode::Throughput, code);
    }

    /// Measures the latency of one input: see [`RowBuilder::latency`]. On riscv64, which has no fence, this is the
    /// throughput.
    pub fn latency<T>(self, code: impl FnMut(&I) -> T + 'a) {
        self.add(Mode::Latency, code);
    }

    fn add<T>(self, mode: Mode, code: impl FnMut(&I) -> T + 'a) {
        let InputRowBuilder { row, inputs } = self;
        let loops = (!inputs.is_empty()).then(|| code::inputs(mode, inputs, code));
        row.add(loops);
    }
}
