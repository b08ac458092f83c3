//! Traces in Perfetto's own format.
//!
//! `protobuf` has the encoding, and `fields` the numbers. A `thread` has a `sequence` of packets, to which its records are written in
//! the `order` of time. `chunks` compresses them.

mod chunks;
mod fields;
mod order;
mod protobuf;
mod sequence;
mod thread;

use crate::batch::{Batch, Timeline, Tree};
use crate::cause::{Cause, Usual};
use crate::collect::Kept;
use crate::output::{NOTHING, process_name};
use chunks::Chunks;
use fields::{BOOTTIME, annotation, clock, event, packet, trace, track};
use order::Timed;
use protobuf::{bytes, message, uint};
use sequence::Slow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, Write};
use std::time::{Duration, Instant};
use thread::{PROCESS, Thread};

/// The time after which a call writes what does not fill a chunk.
pub(crate) const PERIOD: Duration = Duration::from_millis(50);

/// The sequence of what belongs to the process.
const SEQUENCE: u64 = 1;

/// A trace in Perfetto's own format, which is written while the program runs: for <https://ui.perfetto.dev>.
///
/// - Each thread has a track with its spans. They have their counts, numbers and flags as arguments, and their source locations.
/// - Counter tracks show instructions per cycle, other events per 1,000 instructions, and pipeline slots if counted. They cover only the
///   outermost spans of a track. Between these they are 0.
/// - A slow span that is kept has its cause as an argument. Flows connect it with up to 64 outermost spans of
///   other threads that overlap it. A span written by an earlier call has no flow.
/// - Events on the track of the process have the number of records that were not kept, dropped or lost, and of those that overlap others
///   on all 64 extra tracks of a thread.
///
/// Times are those of CLOCK_BOOTTIME, and processes and threads have the kernel's IDs, as in a system trace. So a trace of the scheduler, by
/// `perfetto` or `trace-cmd record -C boot -e sched`, has the same times and IDs. In a container, a thread has another ID than on the host.
///
/// Names are written once, and packets are compressed. The trace buffers what it writes, so the writer need not. A call writes what it got if the last one wrote 50 ms before or earlier, and
/// dropping the trace writes the rest: so a program that ends by `exit` or a signal lacks at most what calls of the last 50 ms got, and
/// spans that wait. With a call every 100 ms, a record of a game takes about 10 bytes without counts, and 20 with two. Calls that are
/// closer together fill chunks of 64 KiB, which take a tenth less. After an error of writing, all further calls fail, because a part is
/// missing.
///
/// Records wait until the outermost span around them has ended. At most 16,384 records of a thread wait, of some 170 bytes each. Some spans
/// are written to extra tracks below the thread's track, at most 64:
///
/// - [times](macro@crate::record) that the program recorded, on a track of their name
/// - spans around more than 16,384 records
/// - spans that end out of order
/// - a thread's first lap, if it lasts longer than the time between two calls
/// - an outer loop's lap, if a call occurs between laps of the inner loop
///
/// ```
/// use rdpmc_spans::{PerfettoTrace, Settings, span};
///
/// let mut spans = Settings::new().start()?;
/// let mut trace = PerfettoTrace::new(Vec::new()); // or a file, or a socket
/// for second in 0..3 {
///     drop(span!("work"));
///     spans.write_perfetto(&mut trace)?; // what was recorded since the last call
/// }
/// let bytes = trace.finish()?;
/// println!("{} bytes", bytes.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "what is written to it is the trace"]
pub struct PerfettoTrace<W: Write> {
    /// None once it is finished.
    to: Option<W>,
    state: State,
    /// The process that began it.
    process: u32,
    /// When packets were last written.
    written_at: Instant,
    /// Whether a packet may have been written in part.
    has_failed: bool,
}

/// What does not depend on where the trace is written to.
struct State {
    chunks: Chunks,
    threads: HashMap<u32, Thread>,
    next_sequence: u64,
    next_flow: u64,
    /// What is known of spans whose records wait.
    slow: HashMap<Key, Slow>,
    /// The beginning of the recording. None before the first call.
    begun: Option<u64>,
    /// The records of this call that no track had a place for.
    left_out: u64,
}

/// The numbers of records missing from a call of [`PerfettoTrace::add`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Missing {
    pub(crate) not_kept: u64,
    pub(crate) dropped: u64,
    pub(crate) lost: u64,
}

/// Identifies a span: its thread, its number on the thread, its ticks, whether it is a lap, its site, and the program's number. Siblings may have
/// one number and begin in one tick. Recorded times have none of the thread.
type Key = (u32, u64, [u64; 2], bool, usize, Option<u64>);

fn key(kept: &Kept) -> Key {
    let site = std::ptr::from_ref(kept.raw.site).addr();
    let Kept { thread, raw, .. } = kept;
    (thread.number, raw.span, raw.ticks, raw.is_lap(), site, kept.number())
}

impl<W: Write> PerfettoTrace<W> {
    /// Begins a trace. Nothing is written until the first records are.
    pub fn new(to: W) -> PerfettoTrace<W> {
        let state = State {
            chunks: Chunks::new(),
            threads: HashMap::new(),
            next_sequence: SEQUENCE + 1,
            next_flow: 1,
            slow: HashMap::new(),
            begun: None,
            left_out: 0,
        };
        PerfettoTrace {
            to: Some(to),
            state,
            process: std::process::id(),
            written_at: Instant::now(),
            has_failed: false,
        }
    }

    /// Fails if records of this recording cannot be added.
    pub(crate) fn may_add(&self, time: &Timeline) -> io::Result<()> {
        if self.has_failed {
            return Err(failed());
        }
        match self.state.begun {
            Some(begun) if begun != time.zero() => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the trace has the spans of another recording. Begin another trace",
            )),
            _ => Ok(()),
        }
    }

    /// Adds records, in the order in which those of each thread ended.
    pub(crate) fn add<'a>(
        &mut self,
        batch: &'a Batch,
        records: impl Iterator<Item = &'a Kept> + Clone,
        missing: Missing,
    ) -> io::Result<()> {
        self.may_add(&batch.time)?;
        let state = &mut self.state;
        if state.begun.is_none() {
            state.begin(batch);
        }
        state.find_slow(batch, records.clone());
        let mut last = 0;
        // Records of a thread that has ended come in one call.
        let mut live: HashSet<u32> =
            batch.threads.iter().filter(|it| it.ended == 0).map(|it| it.meta.number).collect();
        for kept in records {
            live.insert(kept.thread.number);
            let [_, end] = self.state.add(&batch.time, kept);
            last = end.max(last);
            self.write_full_chunk()?;
        }
        self.write_threads(|number| !live.contains(&number))?;
        self.state.threads.retain(|number, _| live.contains(number));
        self.state.end_call(missing, last);
        match self.written_at.elapsed() >= PERIOD {
            true => self.flush(),
            false => self.write_full_chunk(),
        }
    }

    /// Writes what is complete of each thread, or all if it has ended.
    fn write_threads(&mut self, has_ended: impl Fn(u32) -> bool) -> io::Result<()> {
        let numbers: Vec<u32> = self.state.threads.keys().copied().collect();
        for number in numbers {
            self.state.write_thread(number, has_ended(number));
            self.write_full_chunk()?;
        }
        Ok(())
    }

    fn write_full_chunk(&mut self) -> io::Result<()> {
        if self.state.chunks.is_full() { self.write_chunk(|_| Ok(())) } else { Ok(()) }
    }

    /// Writes the packets that wait to be compressed. After an error, nothing waits any more.
    fn write_chunk(&mut self, then: fn(&mut W) -> io::Result<()>) -> io::Result<()> {
        let Some(to) = &mut self.to else { return Ok(()) };
        self.written_at = Instant::now();
        // Also if the writer panics: then `drop` does not call it again.
        self.has_failed = true;
        let written = to.write_all(&self.state.chunks.take()).and_then(|()| then(to));
        self.has_failed = written.is_err();
        if written.is_err() {
            self.state.threads = HashMap::new();
            self.state.slow = HashMap::new();
        }
        written
    }

    /// Returns the number of records that wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.state.threads.values().map(|thread| thread.order.waiting().count()).sum()
    }

    /// Returns the writer.
    #[cfg(test)]
    pub(crate) fn written(&self) -> Option<&W> {
        self.to.as_ref()
    }

    /// Writes what has not filled a chunk yet, and flushes the writer. Waiting records still wait.
    ///
    /// # Errors
    /// As [`Interval::append_perfetto`](crate::Interval::append_perfetto).
    pub fn flush(&mut self) -> io::Result<()> {
        if self.has_failed {
            return Err(failed());
        }
        self.write_chunk(W::flush)
    }

    /// Writes all that waits, and returns the writer. Dropping the trace writes as much, and tells no error.
    ///
    /// # Errors
    /// As [`flush`](PerfettoTrace::flush).
    pub fn finish(mut self) -> io::Result<W> {
        self.write_all()?;
        self.to.take().ok_or_else(failed)
    }

    /// Writes all that waits.
    fn write_all(&mut self) -> io::Result<()> {
        self.write_threads(|_| true)?;
        self.flush()
    }
}

impl<W: Write> Drop for PerfettoTrace<W> {
    fn drop(&mut self) {
        // The child of a fork has a copy of a trace that the parent goes on to write.
        if self.to.is_some() && !self.has_failed && std::process::id() == self.process {
            // Nobody is there to hear of an error.
            let _ = self.write_all();
        }
    }
}

/// The error of a trace that lacks a part.
fn failed() -> io::Error {
    io::Error::other("the trace lacks a part, because writing it has failed. Begin another trace")
}

impl State {
    /// Describes the process and the recording.
    fn begin(&mut self, batch: &Batch) {
        self.begun = Some(batch.time.zero());
        let wall = batch.time.wall(0).duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let wall = u64::try_from(wall.as_nanos()).unwrap_or(0);
        let to = &mut self.chunks.packets;
        packet(to, |to| {
            message(to, packet::CLOCK_SNAPSHOT, |to| {
                const REALTIME: u64 = 1;
                for (id, time) in [(BOOTTIME, batch.time.boot(0)), (REALTIME, wall)] {
                    message(to, clock::CLOCKS, |to| {
                        uint(to, clock::ID, id);
                        uint(to, clock::TIMESTAMP, time);
                    });
                }
            });
        });
        packet(to, |to| {
            message(to, packet::TRACK_DESCRIPTOR, |to| {
                uint(to, track::UUID, PROCESS);
                message(to, track::PROCESS, |to| {
                    uint(to, track::PID, std::process::id().into());
                    bytes(to, track::PROCESS_NAME, process_name().as_bytes());
                });
            });
        });
        let error = batch.time.error.map(|error| error.as_nanos().to_string());
        let clock = batch.time.kind.to_string();
        let facts = [
            ("clock", Some(clock)),
            ("clock_error_ns", error),
            ("note", NOTHING.map(str::to_owned)),
        ];
        let facts = facts.into_iter().filter_map(|(name, value)| Some((name, value?)));
        self.instant(batch.time.boot(0), "the recording begins", facts);
    }

    /// Adds an event of the process.
    fn instant(
        &mut self,
        ns: u64,
        name: &str,
        facts: impl Iterator<Item = (&'static str, String)>,
    ) {
        packet(&mut self.chunks.packets, |to| {
            uint(to, packet::TIMESTAMP, ns);
            message(to, packet::TRACK_EVENT, |to| {
                uint(to, event::TYPE, event::INSTANT);
                uint(to, event::TRACK, PROCESS);
                bytes(to, event::NAME, name.as_bytes());
                for (name, value) in facts {
                    message(to, event::ANNOTATIONS, |to| {
                        bytes(to, annotation::NAME, name.as_bytes());
                        bytes(to, annotation::STRING, value.as_bytes());
                    });
                }
            });
        });
    }

    /// Finds the slow spans of this call, and the unwritten spans of other threads that overlap them.
    fn find_slow<'a>(&mut self, batch: &Batch, records: impl Iterator<Item = &'a Kept> + Clone) {
        let mut trees: HashMap<Key, &Tree> =
            batch.slow.iter().map(|tree| (key(&tree.root), &**tree)).collect();
        if trees.is_empty() {
            return;
        }
        let found: Vec<&Tree> =
            records.clone().filter_map(|kept| trees.remove(&key(kept))).collect();
        let beside: HashSet<Key> = found.iter().flat_map(|tree| &tree.beside).map(key).collect();
        let waiting = self.threads.values().flat_map(|thread| thread.order.waiting());
        let all = records.map(key).chain(waiting.map(|timed| key(&timed.kept)));
        let unwritten: HashSet<Key> = all.filter(|key| beside.contains(key)).collect();
        let usual = Usual::new(batch);
        for tree in found {
            let root = key(&tree.root);
            self.slow.entry(root).or_default().cause = Some(Cause::find(&usual, tree).to_string());
            for other in tree.beside.iter().map(key).filter(|key| unwritten.contains(key)) {
                for end in [root, other] {
                    self.slow.entry(end).or_default().flows.push(self.next_flow);
                }
                self.next_flow += 1;
            }
        }
    }

    /// Adds a record. Returns its beginning and its end.
    fn add(&mut self, time: &Timeline, kept: &Kept) -> [u64; 2] {
        let State { chunks, threads, next_sequence, slow, left_out, .. } = self;
        let to = &mut chunks.packets;
        let thread = threads
            .entry(kept.thread.number)
            .or_insert_with(|| Thread::new(to, &kept.thread, next_sequence));
        let ns = time.nanoseconds(kept).map(|ns| time.boot(ns));
        let timed = Timed { ns, kept: kept.clone() };
        let apart = match kept.raw.is_recorded_time() {
            true => Some(timed),
            false => thread.order.push(timed),
        };
        if let Some(timed) = apart {
            let slow = slow.remove(&key(&timed.kept)).unwrap_or_default();
            *left_out += u64::from(!thread.write_apart(to, &timed, &slow));
        }
        if thread.order.is_full() {
            thread.write(to, false, |timed| slow.remove(&key(&timed.kept)).unwrap_or_default());
        }
        ns
    }

    /// Writes what is complete of a thread, or all.
    fn write_thread(&mut self, number: u32, all: bool) {
        let State { chunks, threads, slow, .. } = self;
        if let Some(thread) = threads.get_mut(&number) {
            thread.write(&mut chunks.packets, all, |timed| {
                slow.remove(&key(&timed.kept)).unwrap_or_default()
            });
        }
    }

    /// Forgets slow spans that no longer wait, and tells what is missing. `last` is the end of the last record.
    fn end_call(&mut self, missing: Missing, last: u64) {
        if !self.slow.is_empty() {
            let waiting = self.threads.values().flat_map(|thread| thread.order.waiting());
            let waiting: HashSet<Key> = waiting.map(|timed| key(&timed.kept)).collect();
            self.slow.retain(|key, _| waiting.contains(key));
        }
        let left_out = std::mem::take(&mut self.left_out);
        let Missing { not_kept, dropped, lost } = missing;
        let facts = [
            ("not_kept", not_kept),
            ("dropped", dropped),
            ("lost", lost),
            ("overlapping", left_out),
        ];
        let facts = facts.into_iter().filter(|(_, records)| *records > 0);
        let facts: Vec<_> = facts.map(|(name, records)| (name, records.to_string())).collect();
        if !facts.is_empty() {
            self.instant(last, "records are missing", facts.into_iter());
        }
    }
}

impl Missing {
    /// Returns those of an interval.
    pub(crate) fn in_batch(batch: &Batch) -> Missing {
        let dropped = batch.threads.iter().map(|thread| thread.dropped).sum();
        Missing { not_kept: batch.not_kept, dropped, lost: batch.lost }
    }

    /// Returns those since an earlier call in the same interval.
    pub(crate) fn since(self, before: Missing) -> Missing {
        Missing {
            not_kept: self.not_kept.saturating_sub(before.not_kept),
            dropped: self.dropped.saturating_sub(before.dropped),
            lost: self.lost.saturating_sub(before.lost),
        }
    }
}

/// Adds a packet of the process.
fn packet(to: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    message(to, trace::PACKET, |to| {
        uint(to, packet::SEQUENCE, SEQUENCE);
        fill(to);
    });
}

impl<W: Write> fmt::Debug for PerfettoTrace<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerfettoTrace")
            .field("threads", &self.state.threads.len())
            .finish_non_exhaustive()
    }
}
