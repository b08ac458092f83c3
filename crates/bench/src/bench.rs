//! What to measure: the events, the settings, and a piece of code for each row.

use crate::events::sets::{self, Missing};
use crate::output::results::Results;
use crate::plan::Plan;
use crate::plan::row_builder::RowBuilder;
use crate::running::start;
use rdpmc::Error;
use rdpmc::{Clock, Event, IntoEvent, Scope};
use std::time::Duration;

/// In how many processes instructions are stepped. If half of all processes count one number, and half another one, the probability that all
/// of a run's count the first, and all of a later run's the second, is 2^-16.
const PROCESSES: u32 = 8;

/// The relative error up to which a figure is stable.
pub(crate) const TARGET: f64 = 0.01;

/// Measures pieces of code, and compares them in a table.
///
/// ```
/// use rdpmc_bench::Bench;
/// use std::hint::black_box;
///
/// let mut bench = Bench::new()?;
/// bench.row("parse ten digits").latency(|| black_box("4294967295").parse::<u32>());
/// bench.row("parse three digits").latency(|| black_box("429").parse::<u32>());
/// println!("{}", bench.run());
/// # Ok::<(), rdpmc::Error>(())
/// ```
///
/// [`row`](Bench::row) keeps the code, and [`run`](Bench::run) measures all rows in turns, so that what disturbs the machine
/// disturbs all of them. It counts [`Bench::EVENTS`] unless [`with_events`](Bench::with_events) names others. What
/// cannot be counted on this machine is left out, and listed with the reason. The time is always measured.
///
/// A `Bench` belongs to the thread that made it. Data that the code borrows has to be declared before it, because the `Bench` keeps the
/// code.
#[derive(Debug)]
pub struct Bench<'a> {
    plan: Plan<'a>,
}

impl<'a> Bench<'a> {
    /// The events that are counted by default.
    pub const EVENTS: &'static [Event] = &[
        Event::CYCLES,
        Event::INSTRUCTIONS,
        Event::BRANCH_MISSES,
        Event::CACHE_MISSES,
        Event::PAGE_FAULTS,
    ];

    /// Finds out what can be counted here, by opening and closing each event.
    ///
    /// Installs the handler of [`rdpmc::contain_faults`]: if user access is revoked during the measurement, it goes on
    /// by system calls.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rdpmc::error::ErrorKind) if the target is not Linux, `System` for an error of the kernel that is not
    /// known to occur. An event that cannot be counted is not an error.
    pub fn new() -> Result<Bench<'a>, Error> {
        Bench::with_events(Bench::EVENTS)
    }

    /// Counts these events, or the events of these names. If there are more than the CPU has counters, they are measured in
    /// rounds, without multiplexing.
    ///
    /// ```
    /// let bench = rdpmc_bench::Bench::with_events(&["instructions", "cpu/event=0xc0,umask=0x1/"])?;
    /// for missing in bench.missing() {
    ///     println!("{}: {}", missing.name, missing.why);
    /// }
    /// # Ok::<(), rdpmc::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Bench::new).
    pub fn with_events<E>(events: &[E]) -> Result<Bench<'a>, Error>
    where
        for<'b> &'b E: IntoEvent,
    {
        rdpmc::contain_faults()?;
        let (mut distinct, mut unknown): (Vec<Event>, Vec<Missing>) = (Vec::new(), Vec::new());
        for event in events {
            let name = event.to_string();
            match event.into_event() {
                Ok(event) if distinct.contains(&event) => {
                    // Its column is that of the other name.
                    if name != event.to_string() {
                        let same = Error::of_name(
                            format!("{name} is the same event as {event}"),
                            "One column has both".to_owned(),
                        );
                        unknown.push(Missing::by_name(name, same));
                    }
                }
                Ok(event) => distinct.push(event),
                Err(why) => {
                    let missing = Missing::by_name(event.to_string(), why);
                    if unknown.iter().all(|other| other.name != missing.name) {
                        unknown.push(missing);
                    }
                }
            }
        }
        let (sets, mut missing) = sets::fit(&distinct);
        missing.append(&mut unknown);
        let plan = Plan {
            clock: Clock::open()?,
            sets,
            events: distinct,
            missing,
            topdown: None,
            entries: Vec::new(),
            baseline: None,
            time_per_row: Duration::from_millis(50),
            time_to_step: rdpmc_step::time(),
            processes: PROCESSES,
            target: TARGET,
            shows_functions: false,
            reads_arguments: true,
            scope: Scope::Thread,
        };
        Ok(Bench { plan })
    }

    /// Sets the time that a row may take: 50 ms by default. The time for stepping comes on top of it: see
    /// [`time_to_step`](Bench::time_to_step).
    ///
    /// - A row takes more if a run takes longer than about a fiftieth of it, because each set of events needs eight samples of
    ///   several runs. With [`inputs`](RowBuilder::inputs), that is one run of each input.
    /// - It takes up to eight times as long while other programs have the CPU.
    /// - It takes at most 32,768 samples, which is some five seconds for each set of events.
    /// - [`latency`](RowBuilder::latency) measures seven more pieces of code for the cost of the fence, of 20 ms at most each.
    pub fn time_per_row(&mut self, time: Duration) -> &mut Bench<'a> {
        self.plan.time_per_row = time;
        self
    }

    /// Sets the time that counting instructions by single-stepping may take for each row: a second by default, or the number of
    /// seconds in the environment variable `RDPMC_STEP_SECONDS`. Zero switches it off.
    ///
    /// - It is the CPU time of the thread, so it takes longer while other programs use the CPU: usually up to eight times as long. On arm64,
    ///   and if the code sleeps, it is the elapsed time.
    /// - Waiting for another thread that steps does not count. A row waits for 20 seconds at most before each of its counts, of which
    ///   there are some fourteen.
    ///
    /// Where instructions are among the events and cannot be counted, for example because a virtual machine has no PMU, the
    /// CPU steps through a few runs of each row, after the times are measured. A step takes 3 to 30 microseconds, so a second is
    /// enough for runs of some 30,000 to 300,000 instructions. The figure is
    /// [`Quantity::SteppedInstructions`](crate::Quantity::SteppedInstructions). On x86-64 and arm64 Linux only: see [`rdpmc_step`].
    ///
    /// If the time is too short for a row, or its code cannot be stepped, that is not an error. The row has no such figure, and a
    /// line below the table says why.
    pub fn time_to_step(&mut self, time: Duration) -> &mut Bench<'a> {
        self.plan.time_to_step = time;
        self
    }

    /// Sets the number of processes in which instructions are stepped: this one, and seven others by default. 1 starts no other process.
    ///
    /// A count can be the same in all runs of one process and differ between processes: it may depend on the addresses of the stack and the
    /// heap, on the environment, or on random numbers, such as the seed of a `HashMap`. So [`run`](Bench::run) starts this program again,
    /// with the same arguments, and each process counts for itself:
    ///
    /// - The figure is exact if all of them agree. If not, its interval has the counts of all, and half of their range more at each end:
    ///   [`Verdict::Range`](crate::Verdict::Range).
    /// - A process runs `main` up to the same call of `run`, and ends there. Its standard input is empty, and its output is discarded. Two
    ///   of them may run at a time, or as many as there are CPUs. What `main` does before `run` should not harm then: if it takes a lock or
    ///   a port, set 1.
    /// - The other processes end in `run`: what `main` would do after it, such as removing a temporary directory or ending a helper process, is
    ///   not done there.
    /// - If fewer than five other processes come to `run`, the figure is unstable, and a line below the table says why. With 1, a figure is exact
    ///   if this process's runs agree.
    /// - A row takes a quarter of [`time_to_step`](Bench::time_to_step) in each process, or one run. Where a counter counts instructions, it takes
    ///   a tenth of [`time_per_row`](Bench::time_per_row) there: instructions and branches that differ have such an interval, too.
    /// - There are 64 processes at most.
    ///
    /// `rdpmc-bench compare` has processes of its own, so none are started there.
    pub fn processes(&mut self, processes: u32) -> &mut Bench<'a> {
        self.plan.processes = processes.min(64);
        self
    }

    /// Shows where each row's instructions went, by functions: below the table, and on the [page](Results::save_html). The argument `--where`
    /// of the program does so, too.
    ///
    /// The instructions are those that were stepped. Where a counter counts them, a row is stepped as well, for this alone: see
    /// [`time_to_step`](Bench::time_to_step). The functions of rows that were stepped are saved in any case, and compared by
    /// [`check`](Results::check) and `rdpmc-gate`.
    ///
    /// - The names are those of the program's symbols, which cargo keeps in release builds. "The benchmark's own code" is the row's closure and
    ///   the loop around it, with all that was inlined there. With `debug = 1` in the profile, inlined functions have lines of their own. Those
    ///   of the standard library belong to the function that they were inlined into.
    /// - An instruction of a library without a symbol for it is said to be so: `libc.so.6, no symbol`.
    ///
    /// Needs the feature `functions`.
    #[cfg(feature = "functions")]
    pub fn show_functions(&mut self) -> &mut Bench<'a> {
        self.plan.shows_functions = true;
        self
    }

    /// Sets the relative error up to which a figure is [stable](crate::Verdict::Stable): 0.01 by default, for 1 % or half a
    /// count, whichever is more. The half count scales with it. Values outside of 0.000001 to 1 are clamped, and NaN is
    /// ignored.
    pub fn target(&mut self, target: f64) -> &mut Bench<'a> {
        if !target.is_nan() {
            self.plan.target = target.clamp(1e-6, 1.0);
        }
        self
    }

    /// Sets whose work is counted: that of this thread by default, or that of all threads of the process.
    ///
    /// ```
    /// use rdpmc_bench::{Bench, Scope};
    ///
    /// let mut bench = Bench::new()?;
    /// bench.scope(Scope::Process);
    /// bench.row("a thread").throughput(|| std::thread::spawn(|| vec![1; 100_000]).join().is_ok());
    /// println!("{}", bench.run());
    /// # Ok::<(), rdpmc::Error>(())
    /// ```
    ///
    /// - Counts of this thread alone are unstable if other threads had more than a thousandth of the row's CPU time: see
    ///   [`Cause::OtherThreads`](crate::Cause::OtherThreads).
    /// - The counters of several threads are read by system call: see [`SyscallGroup`](rdpmc::SyscallGroup). Page faults and the CPU time
    ///   (`task-clock`) of all threads are counted without a PMU, too.
    /// - Threads that only wait for work, but do not sleep, are counted. So are those that work for another row or another part of the program.
    ///   They make counts of one thread unstable, too.
    /// - Single-stepping counts this thread alone.
    /// - The gate does not compare counts of different scopes.
    /// - [`Scope::NewThreads`] is taken for [`Scope::Process`]: the counters are opened by [`run`](Bench::run), when threads of the rows may
    ///   have started.
    pub fn scope(&mut self, scope: Scope) -> &mut Bench<'a> {
        self.plan.scope = match scope {
            Scope::Thread => Scope::Thread,
            _ => Scope::Process,
        };
        self
    }

    /// Adds columns with the first level of the top-down method: the percent of pipeline slots that retired, went to bad speculation, or
    /// were lost at the front end or the back end, and how many of the latter waited for memory. See [`rdpmc_events::topdown`].
    ///
    /// If the CPU has too few counters for them and the other events, they are counted in more rounds, these first. A figure's interval is
    /// the range of eight slices of the measurement. It is stable up to an error of 100 times the [`target`](Bench::target) in percent
    /// points: one by default. The slots are those of the loop: the code, the loop's own two or three instructions, and what takes
    /// the [inputs](RowBuilder::inputs). Rows of [`latency`](RowBuilder::latency) have no parts, because most slots are the fence's.
    ///
    /// `rdpmc-bench compare` and the gate do not compare them.
    ///
    /// If this CPU has no such events, the table says so, and which CPUs have them. Needs the feature `topdown`.
    #[cfg(feature = "topdown")]
    pub fn topdown(&mut self) -> &mut Bench<'a> {
        let plan = &mut self.plan;
        let is_known = plan.missing.iter().any(|missing| missing.name == "top-down");
        if plan.topdown.is_some() || is_known {
            return self;
        }
        match crate::judging::topdown::Topdown::of_this_cpu() {
            Ok(topdown) => {
                // First, so that they are in one round if they fit in one.
                let mut events = topdown.events.clone();
                events.extend(&plan.events);
                plan.sets = sets::fit(&events).0;
                plan.topdown = Some(topdown);
            }
            Err(why) => {
                plan.missing.push(Missing { name: "top-down".into(), event: None, why });
            }
        }
        self
    }

    /// Begins a row. What follows says what to measure.
    pub fn row(&mut self, name: impl Into<String>) -> RowBuilder<'_, 'a> {
        RowBuilder::new(&mut self.plan.entries, name.into())
    }

    /// Compares all rows with the row of this name, except for those that are compared with [another
    /// one](RowBuilder::against).
    pub fn baseline(&mut self, name: impl Into<String>) -> &mut Bench<'a> {
        self.plan.baseline = Some(name.into());
        self
    }

    /// Makes [`run`](Bench::run) leave the program's arguments alone: they are the program's own.
    pub fn ignore_arguments(&mut self) -> &mut Bench<'a> {
        self.plan.reads_arguments = false;
        self
    }

    /// Returns the events that cannot be counted here, and why.
    pub fn missing(&self) -> &[Missing] {
        &self.plan.missing
    }

    /// Measures all rows, in turns and in random order.
    ///
    /// It takes about [`time_per_row`](Bench::time_per_row) for each row. Where instructions are stepped, it takes
    /// longer: see [`time_to_step`](Bench::time_to_step).
    ///
    /// After a second, it shows its progress if the standard error is a terminal. If the code of a row panics, that row has no figures and a
    /// note, and the others are measured: see [`Row::panicked`](crate::Row::panicked). The program goes on, and ends with the status that it
    /// chooses.
    ///
    /// # Arguments of the program
    ///
    /// `run` reads them as libtest, criterion and divan do, so that cargo, nextest and editors can choose rows: `--list`, `--exact`,
    /// `--skip`, `--test`, a filter, `--save FILE`, `--format csv`, and `--help`, which prints all.
    ///
    /// - A program with arguments should call `run` once: `--list` ends the program in the first call, and `--save` is refused in the second.
    /// - `--list` and `--help` print, and end the program with status 0. Arguments that are wrong end it with status 2, and a message.
    /// - `--test` runs each row once. The results have no figures, are not saved, and pass each [`check`](Results::check). If a row panics,
    ///   the others are run, and the program ends with status 101. `cargo test` and nextest run a benchmark in this way.
    /// - Nothing is read outside of the main thread or in a test of libtest, whose arguments are for libtest, or after
    ///   [`ignore_arguments`](Bench::ignore_arguments).
    pub fn run(self) -> Results {
        start::run(self.plan)
    }
}
