//! A session: the settings of a recording, and how threads join it.
#![allow(unsafe_code)]

// Nothing here waits for another thread: a child of a fork would wait for ever. Threads hand over what they record in a
// list that the collector takes as a whole.

use crate::cost::Cost;
use crate::counting::TimeOnly;
use crate::histogram::{Published, Recorder};
use crate::local::{self, RECORDING, State, state};
use crate::ring::{Reader, Ring, Writer};
use crate::settings::{Counters, Settings, Storage};
use crate::time_only::TimeOnlyReason;
use rdpmc::clock::{ClockKind, Conversion};
use rdpmc::error::{NameError, OpenError};
use rdpmc::{Access, Clock, DynGroup, Event, Group};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// A session. Never freed, because threads may look at it at any time.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) number: u32,
    settings: Settings,
    /// The threads that the collector does not know yet.
    joined: AtomicPtr<Joined>,
    /// The number of threads that have joined.
    threads: AtomicU32,
}

/// The current session, or the last one.
static CURRENT: AtomicPtr<Session> = AtomicPtr::new(ptr::null_mut());

/// Spans that could not be recorded because their thread was ending, or their session had ended.
static LOST: AtomicU64 = AtomicU64::new(0);

pub(crate) fn count_lost() {
    LOST.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Begins a session, and turns spans on. None if there is one.
pub(crate) fn begin(settings: Settings) -> Option<&'static Session> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
    let session = Box::into_raw(Box::new(Session {
        number,
        settings,
        joined: AtomicPtr::new(ptr::null_mut()),
        threads: AtomicU32::new(0),
    }));
    let is_free = CURRENT.compare_exchange(
        ptr::null_mut(),
        session,
        Ordering::SeqCst, // its fields first; pairs with `get`
        Ordering::Relaxed,
    );
    if is_free.is_err() {
        // SAFETY: from Box::into_raw above, and nobody else has seen it.
        drop(unsafe { Box::from_raw(session) });
        return None;
    }
    RECORDING.store(number, Ordering::SeqCst);
    // SAFETY: never freed.
    Some(unsafe { &*session })
}

/// Returns the session of this number, unless it has ended.
pub(crate) fn get(number: u32) -> Option<&'static Session> {
    // SAFETY: null or a session, none of which is freed. Pairs with `begin`.
    let session = unsafe { CURRENT.load(Ordering::Acquire).as_ref() };
    session.filter(|session| session.number == number)
}

/// Returns the session, unless it has ended.
pub(crate) fn current() -> Option<&'static Session> {
    // SAFETY: as in `get`.
    unsafe { CURRENT.load(Ordering::SeqCst).as_ref() }
}

/// A thread that has joined, for the collector.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) reader: Reader,
    pub(crate) histograms: Option<Arc<Published>>,
    pub(crate) events: Vec<Event>,
    /// Why events are not counted: those that cannot be, or all.
    pub(crate) missing: Vec<(Event, OpenError)>,
    pub(crate) unknown: Vec<NameError>,
    pub(crate) time_only: Option<TimeOnlyReason>,
    pub(crate) counts_all_privilege_levels: bool,
    /// The index of the event that shows interrupts.
    pub(crate) kernel_instructions: Option<usize>,
    pub(crate) clock: ClockKind,
    pub(crate) conversion: Conversion,
    pub(crate) cost: Cost,
    next: *mut Joined,
}

// SAFETY: `next` is touched only while the list that it is in has one owner.
unsafe impl Send for Joined {}

/// What a thread that joins gets.
pub(crate) struct Joining {
    pub(crate) state: State,
    /// The other end of the state's first ring, to measure the cost of spans.
    pub(crate) scratch: Reader,
    pub(crate) ring: Writer,
    pub(crate) thread: Publishing,
}

/// A thread that the collector does not know yet.
pub(crate) struct Publishing {
    session: &'static Session,
    joined: Box<Joined>,
}

impl Publishing {
    /// Hands the thread's records to the collector.
    pub(crate) fn publish(mut self, cost: Cost) {
        self.joined.cost = cost;
        let joined = Box::into_raw(self.joined);
        let list = &self.session.joined;
        let mut newest = list.load(Ordering::Relaxed);
        loop {
            // SAFETY: from Box::into_raw, and not in the list yet.
            unsafe { (*joined).next = newest };
            // Its fields first; pairs with `take_joined`.
            match list.compare_exchange_weak(newest, joined, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => newest = now,
            }
        }
        // The recording has ended, and nobody collects this. Pairs with `end`.
        if current().is_none_or(|session| session.number != self.session.number) {
            drop(self.session.take_joined());
        }
    }
}

/// The records of a thread's first spans, to measure their cost: enough that none of them wraps around.
const SCRATCH: usize = 512;

impl Session {
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Ends the session: no thread joins or records any more. Drops the records that were not collected.
    pub(crate) fn end(&self) {
        let this = ptr::from_ref(self).cast_mut();
        // In this order, so that `set_enabled` sees that it has turned on a session that has ended.
        let _ = CURRENT.compare_exchange(this, ptr::null_mut(), Ordering::SeqCst, Ordering::SeqCst);
        let _ = RECORDING.compare_exchange(self.number, 0, Ordering::SeqCst, Ordering::SeqCst);
        drop(self.take_joined());
    }

    /// Returns the threads that have joined since the last call, the oldest first.
    pub(crate) fn take_joined(&self) -> Vec<Joined> {
        let mut next = self.joined.swap(ptr::null_mut(), Ordering::SeqCst); // pairs with `publish`
        let mut all = Vec::new();
        while !next.is_null() {
            // SAFETY: from Box::into_raw in `publish`, and taken from the list by this thread alone.
            let joined = *unsafe { Box::from_raw(next) };
            next = joined.next;
            all.push(joined);
        }
        all.reverse();
        all
    }

    /// Opens the clock and the counters of this thread. None if there is no clock.
    pub(crate) fn join(&'static self) -> Option<Joining> {
        let clock = Clock::open().ok()?;
        let (kind, conversion) = (clock.kind(), clock.conversion());
        let opened = Opened::of(&self.settings);
        let events = opened.events.len();
        let kernel_instructions = opened.index_of_interrupts();
        let (scratch, scratch_reader) = Ring::pair(SCRATCH, events);
        let (records, histograms) = match self.settings.storage {
            Storage::Ring { records } => (records, None),
            Storage::Histograms => {
                // The calls of the kernel's clock are not subtracted there.
                let is_clock_apart = !matches!(kind, ClockKind::Kernel(_));
                let kernel_instructions = kernel_instructions.filter(|_| is_clock_apart);
                (1, Some(Recorder::new(events, kernel_instructions)))
            }
        };
        let (mut ring, reader) = Ring::pair(records, events);
        let mut published = None;
        if let Some((recorder, shared)) = histograms {
            ring = ring.into_histograms(recorder);
            published = Some(shared);
        }
        let inlined = if events == 0 { self.number } else { 0 };
        let state = (opened.make)(self.number, inlined, clock, scratch);
        let number = self.threads.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let name = match std::thread::current().name() {
            Some(name) => name.to_string(),
            None => format!("thread {number}"),
        };
        Some(Joining {
            state,
            scratch: scratch_reader,
            ring,
            thread: Publishing {
                session: self,
                joined: Box::new(Joined {
                    number,
                    name,
                    reader,
                    histograms: published,
                    events: opened.events,
                    missing: opened.missing,
                    unknown: self.settings.unknown.clone(),
                    time_only: opened.time_only,
                    counts_all_privilege_levels: opened.counts_all_privilege_levels,
                    kernel_instructions,
                    clock: kind,
                    conversion,
                    cost: Cost::default(),
                    next: ptr::null_mut(),
                }),
            },
        })
    }
}

/// Makes a thread's state of the session, the session if it is on the inlined path, the clock and the ring.
type Make = Box<dyn FnOnce(u32, u32, Clock, Writer) -> State>;

/// The counters that a thread could open.
struct Opened {
    /// Makes the state that counts with them.
    make: Make,
    events: Vec<Event>,
    missing: Vec<(Event, OpenError)>,
    time_only: Option<TimeOnlyReason>,
    counts_all_privilege_levels: bool,
}

impl Opened {
    /// Returns the index of the kernel's instructions, unless they are counted together with the program's.
    fn index_of_interrupts(&self) -> Option<usize> {
        let of_the_kernel = |event: &Event| *event == Event::INSTRUCTIONS.kernel();
        let index = self.events.iter().position(of_the_kernel);
        index.filter(|_| !self.counts_all_privilege_levels)
    }

    fn of(settings: &Settings) -> Opened {
        let mut missing = Vec::new();
        match Opened::counters(settings, &mut missing) {
            Ok((make, events, all_levels)) => Opened {
                make,
                events,
                missing,
                time_only: None,
                counts_all_privilege_levels: all_levels,
            },
            Err(why) => Opened {
                make: Box::new(|session, inlined, clock, ring| {
                    state(TimeOnly, session, inlined, clock, ring)
                }),
                events: Vec::new(),
                missing: Vec::new(),
                time_only: Some(why),
                counts_all_privilege_levels: false,
            },
        }
    }

    fn counters(
        settings: &Settings,
        missing: &mut Vec<(Event, OpenError)>,
    ) -> Result<(Make, Vec<Event>, bool), TimeOnlyReason> {
        if settings.counters == Counters::Never {
            return Err(TimeOnlyReason::NotRequested);
        }
        if settings.events.is_empty() {
            let unknown = settings.unknown.first();
            return Err(unknown
                .cloned()
                .map_or(TimeOnlyReason::NotRequested, TimeOnlyReason::Name));
        }
        let events = available(&settings.events, missing)?;
        let (make, all_levels) = open_counted(&events, settings.counters)?;
        Ok((make, events, all_levels))
    }
}

/// Returns the events that can be counted together. The others are added to `missing`.
fn available(
    events: &[Event],
    missing: &mut Vec<(Event, OpenError)>,
) -> Result<Vec<Event>, TimeOnlyReason> {
    let open = |events: &[Event]| {
        DynGroup::builder(events).pinned(true).allow_all_privilege_levels(true).open()
    };
    if open(events).is_ok() {
        return Ok(events.to_vec());
    }
    let mut counted = Vec::new();
    for event in events {
        counted.push(*event);
        if let Err(why) = open(&counted) {
            counted.pop();
            missing.push((*event, why));
        }
    }
    match (counted.is_empty(), missing.first()) {
        (true, Some((_, why))) => Err(TimeOnlyReason::Open(why.clone())),
        _ => Ok(counted),
    }
}

fn open_counted(events: &[Event], policy: Counters) -> Result<(Make, bool), TimeOnlyReason> {
    match *events {
        [a] => counted([a], policy),
        [a, b] => counted([a, b], policy),
        [a, b, c] => counted([a, b, c], policy),
        [a, b, c, d] => counted([a, b, c, d], policy),
        [a, b, c, d, e] => counted([a, b, c, d, e], policy),
        [a, b, c, d, e, f] => counted([a, b, c, d, e, f], policy),
        [a, b, c, d, e, f, g] => counted([a, b, c, d, e, f, g], policy),
        [a, b, c, d, e, f, g, h] => counted([a, b, c, d, e, f, g, h], policy),
        _ => Err(TimeOnlyReason::NotRequested), // `start` has checked their number
    }
}

/// Opens the group, and checks that user space reads it, and at what cost.
fn counted<const N: usize>(
    events: [Event; N],
    policy: Counters,
) -> Result<(Make, bool), TimeOnlyReason> {
    // Pinned: never multiplexed, so that counts are complete.
    let group = Group::builder(events).pinned(true).allow_all_privilege_levels(true).open();
    let group = group.map_err(TimeOnlyReason::Open)?;
    let cost = group.read_cost();
    // `read` may prefer the system call. Spans never make one.
    if cost.user.is_none() {
        if let Access::SystemCall(reason) = group.access() {
            return Err(TimeOnlyReason::NotReadable(reason));
        }
    }
    match (policy, cost.user) {
        (Counters::IfCheap, Some(user)) if cost.is_trapped => {
            Err(TimeOnlyReason::Trapped { read: user.median })
        }
        _ => {
            let all_levels = group.counts_all_privilege_levels();
            let make = |session, inlined, clock, ring| state(group, session, inlined, clock, ring);
            Ok((Box::new(make), all_levels))
        }
    }
}

/// Turns spans off or on while a recording runs. Off, a span costs one load and one branch. A span that is open goes on
/// and is recorded. A lap is lost if spans are off at the boundary that ends it.
pub fn set_enabled(on: bool) {
    if !on {
        return RECORDING.store(0, Ordering::SeqCst);
    }
    // Another thread may end the recording, or begin another, at any time.
    while let Some(session) = current() {
        RECORDING.store(session.number, Ordering::SeqCst); // before the second look; pairs with `end`
        if current().is_some_and(|now| now.number == session.number) {
            return;
        }
        let _ = RECORDING.compare_exchange(session.number, 0, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// Whether spans are recorded: a recording runs, and is not turned off.
pub fn is_enabled() -> bool {
    RECORDING.load(Ordering::Relaxed) != 0
}

/// Prepares this thread for its first span: opens its clock and counters, in some system calls and half a millisecond. A
/// thread that does not call this is prepared by its first span.
///
/// Returns true if this thread is ready to record, also while spans are off. Returns false if no recording runs.
pub fn register_thread() -> bool {
    current().is_some_and(|session| local::join(session.number).is_some())
}
