//! How a thread joins a session, and leaves it.
#![allow(unsafe_code)]

use crate::collect::{Meta, OfThread};
use crate::counting::{Counted, Counting, WithCounters, open};
use crate::session::measure_cost::{self, Probe};
use crate::session::seats::Seat;
use crate::session::{Session, Storage, get, thread_name};
use crate::sink::{Published, Reader, Recorder, Ring, Shape, Sink, TREE_RECORDS, Trees};
use crate::thread::{self, Header, State};
use rdpmc::Clock;
use rdpmc::clock::Conversion;
use std::cell::RefCell;
use std::ptr;
use std::sync::atomic::Ordering;

thread_local! {
    static OWNER: RefCell<Owner> = const { RefCell::new(Owner { joined: None, refused: 0 }) };
}

/// What a thread has of its session.
struct Owner {
    joined: Option<Joined>,
    /// The session that this thread could not join.
    refused: u32,
}

struct Joined {
    /// None while the thread joins or leaves.
    state: Option<State>,
    session: &'static Session,
    seat: &'static Seat,
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.state = None; // first, because it records in what follows
        if let Some(thread) = self.seat.leave() {
            // SAFETY: this thread records no more there.
            unsafe { self.session.bequeath(thread) };
            self.seat.free();
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        thread::end();
    }
}

/// Whether this thread has the seat.
pub(super) fn has(seat: &Seat) -> bool {
    let is_this = |owner: &RefCell<Owner>| {
        let owner = owner.try_borrow().ok()?;
        owner.joined.as_ref().map(|joined| ptr::eq(joined.seat, seat))
    };
    OWNER.try_with(is_this).ok().flatten().unwrap_or(false)
}

/// Prepares this thread for its first span of a session. None if the session has ended, or the thread has no clock.
pub(super) fn join(session: u32) -> Option<*const Header> {
    if thread::is_busy() {
        return None; // a span in the allocator, while this thread's state is in use
    }
    let session = get(session)?;
    OWNER
        .try_with(|owner| {
            // A span that begins while this registers, in an allocator, say, is not recorded.
            let mut owner = owner.try_borrow_mut().ok()?;
            if owner.refused == session.number {
                return None;
            }
            thread::forget();
            // First, so that its counters are free.
            owner.joined = None;
            let Some(joined) = Joined::in_session(session) else {
                owner.refused = session.number;
                return None;
            };
            let header = joined.state.as_ref()?.header();
            owner.joined = Some(joined);
            Some(header)
        })
        .ok()
        .flatten()
}

/// Makes the state of a thread.
struct Maker {
    session: &'static Session,
    clock: Clock,
}

/// A state that records where `probe` reads, to be measured.
struct Made {
    state: State,
    probe: Probe,
}

impl WithCounters for Maker {
    type Made = Box<dyn FnOnce(&Counted) -> Made>;

    fn with<C: Counting<N> + 'static, const N: usize>(self, counting: C) -> Self::Made {
        Box::new(move |counted| {
            let (sink, probe) = match self.session.plan.storage {
                Storage::Ring { .. } => {
                    let (writer, reader) = Ring::pair(measure_cost::RECORDS, N);
                    (Sink::ring(writer), Probe::Ring(reader))
                }
                Storage::Histograms => {
                    let (recorder, published) = Recorder::new(shape(self.session, counted, false));
                    let trees = match self.session.plan.slow.is_empty() {
                        true => None,
                        false => Some(Trees::idle(self.session.interval.clone(), N)),
                    };
                    (Sink::histograms(recorder, trees).0, Probe::Histograms(published))
                }
            };
            let Session { number, plan, .. } = self.session;
            Made { state: State::new(counting, *number, self.clock, sink, &plan.faults), probe }
        })
    }
}

/// Returns what a thread's histograms are of.
fn shape(session: &'static Session, counted: &Counted, has_tick_counter: bool) -> Shape {
    Shape {
        faults: &session.plan.faults,
        events: counted.events.len(),
        knows_disturbances: counted.knows_disturbances(),
        // The calls of the kernel's clock are not subtracted there.
        kernel_instructions: counted.index_of_interrupts().filter(|_| has_tick_counter),
    }
}

/// Returns a thread's sink, and what reads it.
fn storage(
    session: &Session,
    shape: Shape,
    conversion: &Conversion,
) -> (Sink, Reader, Option<Published>) {
    match session.plan.storage {
        Storage::Ring { records } => {
            let (writer, reader) = Ring::pair(records, shape.events);
            (Sink::ring(writer), reader, None)
        }
        Storage::Histograms => {
            let events = shape.events;
            let (recorder, published) = Recorder::new(shape);
            let Some(limits) = session.plan.slow.limits(conversion) else {
                let (sink, reader) = Sink::histograms(recorder, None);
                return (sink, reader, Some(published));
            };
            let (writer, reader) = Ring::pair(TREE_RECORDS, events);
            let trees = Trees::new(limits, session.interval.clone(), writer, events);
            (Sink::histograms(recorder, Some(trees)).0, reader, Some(published))
        }
    }
}

impl Joined {
    /// Opens the clock and the counters of this thread, and measures what spans cost. None if there is no clock.
    fn in_session(session: &'static Session) -> Option<Joined> {
        let clock = Clock::open().ok()?;
        let (kind, conversion) = (clock.kind(), clock.conversion());
        let has_tick_counter = clock.tick_counter().is_some();
        let (make, counted) = open(&session.plan.request, Maker { session, clock });
        let Made { mut state, mut probe } = make(&counted);
        let (sink, reader, histograms) =
            storage(session, shape(session, &counted, has_tick_counter), &conversion);
        // SAFETY: the state is this thread's, and is there until `forget`.
        unsafe { thread::set(state.header()) };
        let cost = measure_cost::measure(&mut probe, session.number, &counted);
        thread::forget();
        measure_cost::end(probe);
        sink.set_costs(cost.subtracted);
        // SAFETY: this thread has the state and does not record. Both sinks have the counts of its events.
        let measured = unsafe { state.replace_sink(sink) };
        drop(measured);
        let number = session.threads.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let name = thread_name::of_this_thread();
        let meta = Meta {
            number,
            kernel_ids: [std::process::id(), thread_name::kernel_id().unwrap_or(number)],
            is_named: name.is_some(),
            name: name.unwrap_or_else(|| format!("thread {number}")),
            counted,
            unknown: session.plan.request.unknown.clone(),
            clock: kind,
            conversion,
            cost,
            is_in_histograms: histograms.is_some(),
        };
        let seat = session.seats.sit(OfThread::new(meta, reader, histograms));
        let joined = Joined { state: Some(state), session, seat };
        // SAFETY: OWNER has it until it calls `forget` or `end`.
        unsafe { thread::set(joined.state.as_ref()?.header()) };
        Some(joined)
    }
}
