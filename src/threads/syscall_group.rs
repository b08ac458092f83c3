//! Counters of several threads, read by system call.
#![forbid(unsafe_code)]

use super::process;
use super::scope::Scope;
use crate::counter::{PerEvent, Reading};
use crate::error::{Error, ErrorKind, ReadError};
use crate::event::Event;
use crate::kernel::{self, Control, Errno, flag};
use crate::open::builder::Builder;
use crate::open::{Opened, Options, by_either_name, open_unmapped};
use crate::page::MAX_EVENTS;
use crate::page::fork;
use crate::page::process::Process;
use crate::pmu::core_types;
use std::fmt;

/// Counters of 1 to 8 events over several threads, read by system call.
///
/// [`Scope`] says whose work is counted. Any thread may read: the handle is `Send` and `Sync`, and there is no read in user space.
/// For this thread alone, a [`Group`](crate::Group) is faster by some hundred nanoseconds a read.
///
/// ```
/// use rdpmc::{Event, Scope, SyscallGroup};
///
/// # fn main() -> Result<(), rdpmc::Error> {
/// # if SyscallGroup::open(&[Event::PAGE_FAULTS], Scope::Process).is_err() { return Ok(()) }
/// let counters = SyscallGroup::open(&[Event::PAGE_FAULTS, Event::TASK_CLOCK], Scope::Process)?;
/// let before = counters.read()?;
/// std::thread::spawn(|| drop(std::hint::black_box(vec![1; 1_000_000]))).join().unwrap();
/// let after = counters.read()?;
/// println!("{} page faults in {} ns of all threads", after[0] - before[0], after[1] - before[1]);
/// # Ok(())
/// # }
/// ```
///
/// # What is counted
///
/// - Counts start when the handle is opened. Use differences, as above: there is no reset. The kernel's reset would keep what ended
///   threads have counted.
/// - With [`Scope::Process`], the events are opened on each thread that is there, and new threads inherit them. No thread is lost
///   or counted twice. If threads keep starting, opening retries for up to two seconds, and
///   50 milliseconds more for each thread. Then it returns an error.
/// - Processes that the threads start are not counted. Before Linux 5.13, the kernel counts them, too:
///   [`counts_child_processes`](SyscallGroup::counts_child_processes).
/// - Threads are read one after the other. While they run, their counts are of slightly different instants.
/// - On CPUs with several core types, the events are opened on each type, and the counts are sums.
///
/// # Cost
///
/// A read is one `read(2)` for each thread that was there when the handle was opened, and for each core type: some 600
/// nanoseconds, and an interrupt of the other CPU if the thread runs there. Each takes a descriptor for
/// each event, and one more for a group that new threads inherit.
/// Threads that start later take none. While events can be inherited, starting a thread takes some microseconds more.
///
/// # Kernels
///
/// Several events of which threads inherit need Linux 4.13. The notes on [forks](crate::Counter#fork) and
/// [closed descriptors](crate::Counter#closed-descriptors) of `Counter` apply here, too. A thread with descriptors of its own
/// (`CLONE_FILES`) must not read a handle that others read: a read there may take bytes of the file that has the number.
pub struct SyscallGroup {
    /// One for each thread and core type, those of a thread side by side.
    parts: Vec<Opened>,
    /// The number of core types that the events are opened on.
    types: usize,
    events: PerEvent<Event>,
    scope: Scope,
    counts_child_processes: bool,
    process: Process,
}

/// How often a read is repeated if a thread that ends meanwhile makes it fail.
const RETRIES: u32 = 10_000;

impl SyscallGroup {
    /// Opens counters of `events`, all counting from now, in user mode alone.
    ///
    /// # Errors
    /// As [`Group::open`](crate::Group::open), and:
    /// - [`ErrorKind::GroupSize`] if there are no events or more than 8;
    /// - [`ErrorKind::PinnedOnNewThreads`] if an event is pinned and [`Scope`] has new threads;
    /// - [`ErrorKind::ThreadsKeepStarting`] or [`ErrorKind::ProcOfAnotherNamespace`] with [`Scope::Process`];
    /// - [`ErrorKind::Unreadable`] if `/proc/self/task` cannot be read, with [`Scope::Process`].
    pub fn open(events: &[Event], scope: Scope) -> Result<SyscallGroup, Error> {
        Builder::new(events).open_scope(scope)
    }

    /// Returns a builder, to choose privilege levels, pinning and more before [opening](Builder::open_scope) the counters.
    pub fn builder(events: &[Event]) -> Builder<&[Event]> {
        Builder::new(events)
    }

    /// Returns the counts of all threads together.
    ///
    /// A multiplexed group counts only during its turns. [`reading`](SyscallGroup::reading) reports that.
    ///
    /// # Errors
    /// [`ReadError::ErrorState`] for a pinned group that has no counters on one of the threads, [`ReadError::Forked`] in the child
    /// of a fork, [`ReadError::Closed`] if other code has [closed a descriptor](crate::Counter#closed-descriptors),
    /// [`ReadError::System`] for any other kernel error; no such error is known.
    pub fn read(&self) -> Result<PerEvent<u64>, ReadError> {
        let readings = self.reading()?;
        Ok(readings.map(|reading| reading.value))
    }

    /// Returns the counts of all threads together, each with the sum of the times that the threads ran with the events enabled,
    /// and that the events had counters.
    ///
    /// # Errors
    /// As [`read`](SyscallGroup::read).
    pub fn reading(&self) -> Result<PerEvent<Reading>, ReadError> {
        if self.process.is_past() {
            return Err(ReadError::Forked);
        }
        let has_more = self.scope != Scope::Thread && self.events.len() > 1;
        let mut sums = self.events.map(|_| Reading::default());
        for thread in self.parts.chunks(self.types.max(1)) {
            for (core_type, part) in thread.iter().enumerate() {
                let counts = read_whole(part, has_more)?;
                // A software event counts while its group is on the PMU of this type.
                for (sum, value) in sums.iter_mut().zip(counts.values) {
                    sum.value = sum.value.wrapping_add(value);
                    if core_type == 0 {
                        sum.time_enabled = sum.time_enabled.saturating_add(counts.time_enabled);
                    }
                    sum.time_running = sum.time_running.saturating_add(counts.time_running);
                }
            }
        }
        Ok(sums)
    }

    /// Continues counting, on one thread after the other. A thread that is started at this moment may miss it, and the threads that
    /// it starts with it.
    ///
    /// # Errors
    /// [`ReadError::Forked`] in the child of a fork, [`ReadError::Closed`] if other code has
    /// [closed a descriptor](crate::Counter#closed-descriptors), [`ReadError::System`] for any other kernel error; no such error is
    /// known. The other threads are enabled all the same.
    pub fn enable(&self) -> Result<(), ReadError> {
        self.control(Control::Enable)
    }

    /// Stops counting, on one thread after the other. The counts stay. A thread that is started at this moment may miss it, as in
    /// [`enable`](SyscallGroup::enable).
    ///
    /// # Errors
    /// As [`enable`](SyscallGroup::enable).
    pub fn disable(&self) -> Result<(), ReadError> {
        self.control(Control::Disable)
    }

    fn control(&self, request: Control) -> Result<(), ReadError> {
        if self.process.is_past() {
            return Err(ReadError::Forked);
        }
        let each = self.parts.iter().map(|part| part.leader.control(request));
        let result = each.fold(Ok(()), Result::and);
        result.map_err(|errno| ReadError::of_call("ioctl", errno))
    }

    /// Returns the events, in the order of the counts.
    pub fn events(&self) -> PerEvent<Event> {
        self.events
    }

    /// Returns whose work is counted.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns on how many threads the events were opened: those that were there. Threads that start later inherit them, and are
    /// not in this number.
    pub fn threads(&self) -> usize {
        self.parts.len() / self.types.max(1)
    }

    /// Whether processes that the threads start are counted, too: before Linux 5.13, unless the scope is [`Scope::Thread`].
    pub fn counts_child_processes(&self) -> bool {
        self.counts_child_processes
    }

    /// Whether all privilege levels are counted, because the PMU cannot exclude any. Always false unless
    /// [`allow_all_privilege_levels`](Builder::allow_all_privilege_levels) was set.
    pub fn counts_all_privilege_levels(&self) -> bool {
        self.parts.iter().any(|part| part.counts_all_levels)
    }
}

/// Reads the counts of a thread, and of those that have inherited its events.
///
/// If one of these ends meanwhile, its events leave their group one by one, and the kernel refuses the read (`ECHILD`).
fn read_whole(part: &Opened, has_more: bool) -> Result<crate::open::Counts, ReadError> {
    let mut retries = 0..RETRIES;
    loop {
        match if has_more { part.read_but_last() } else { part.read() } {
            Err(Errno(kernel::ECHILD)) if retries.next().is_some() => std::thread::yield_now(),
            Err(errno) => return Err(ReadError::of_call("read", errno)),
            Ok(counts) => return counts.ok_or(ReadError::ErrorState),
        }
    }
}

impl fmt::Debug for SyscallGroup {
    /// Writes its events, its scope and the number of threads. No system call.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyscallGroup")
            .field("events", &self.events)
            .field("scope", &self.scope)
            .field("threads", &self.threads())
            .finish()
    }
}

impl Builder<&[Event]> {
    /// Opens counters of several threads, which are read by system call: see [`SyscallGroup::open`].
    ///
    /// # Errors
    /// As [`SyscallGroup::open`].
    pub fn open_scope(self, scope: Scope) -> Result<SyscallGroup, Error> {
        if !(1..=MAX_EVENTS).contains(&self.events.len()) {
            return Err(Error::of_group_size(self.events.len()));
        }
        if scope != Scope::Thread && self.events.iter().any(|event| self.options.is_pinned(event)) {
            return Err(Error::new(
                ErrorKind::PinnedOnNewThreads,
                "a pinned event stands still on a new thread where it has no counter, and no read would show that",
                "Open it without `pinned` (`:D`): `SyscallGroup::reading` shows whether it had a counter all the time",
            ));
        }
        let process = fork::process().map_err(Error::of_call("pthread_atfork"))?;
        let inherited = flag::INHERIT | flag::INHERIT_THREAD;
        let options = match scope {
            Scope::Thread => self.options,
            Scope::NewThreads | Scope::Process => self.options.with(inherited, true),
        };
        let (mut result, mut counts_child_processes) =
            (open(self.events, options, scope, process), false);
        let is_refused =
            result.as_ref().is_err_and(|why| why.kind() == ErrorKind::EventNotSupported);
        if is_refused && scope != Scope::Thread {
            // Before Linux 5.13, there is no second flag.
            let options = options.with(flag::INHERIT_THREAD, false);
            if let Ok(opened) = open(self.events, options, scope, process) {
                (result, counts_child_processes) = (Ok(opened), true);
            }
        }
        let (parts, types) = result?;
        if process.is_past() {
            return Err(Error::forked_meanwhile());
        }
        let events = PerEvent::of_slice(self.events, Event::DUMMY);
        Ok(SyscallGroup { parts, types, events, scope, counts_child_processes, process })
    }
}

/// Opens the events on each thread of the scope and on each core type. Returns the parts and the number of types.
fn open(
    events: &[Event],
    options: Options,
    scope: Scope,
    process: Process,
) -> Result<(Vec<Opened>, usize), Error> {
    let pmus = core_types::of_threads(events)?;
    let mut events = events.to_vec();
    // If a thread ends, its events leave their group one by one, and a read may meanwhile count the last one twice. One more event takes
    // that place.
    if scope != Scope::Thread && (2..=MAX_EVENTS).contains(&events.len()) {
        events.push(Event::DUMMY);
    }
    let on_thread = |thread| -> Result<Vec<Opened>, Error> {
        let options = options.on_thread(thread);
        let open =
            |events| by_either_name(events, |events| open_unmapped(&events, &options, process));
        match pmus.as_slice() {
            [] => Ok(vec![open(events.clone())?]),
            pmus => {
                let on_one = |pmu: &u32| {
                    let mut events = events.clone();
                    core_types::put_on_pmu(&mut events, *pmu)?;
                    open(events)
                };
                pmus.iter().map(on_one).collect()
            }
        }
    };
    let parts = match scope {
        Scope::Thread | Scope::NewThreads => on_thread(0)?,
        Scope::Process => process::on_each(on_thread)?.into_iter().flatten().collect(),
    };
    Ok((parts, pmus.len().max(1)))
}
