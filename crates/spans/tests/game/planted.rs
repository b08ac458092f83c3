//! What makes a frame slow, and what is to be said of it.

use rdpmc_spans::{Cause, Reason};

/// What makes a frame slow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// More work in an inner span.
    Computing,
    /// An inner span that reads memory which is not in the caches.
    ColdMemory,
    /// An inner span that touches new memory.
    Faults,
    /// A loader holds a lock that a worker needs, for which the main thread waits.
    Lock,
    /// Other threads run on the main thread's CPU while it works in an inner span.
    Preemption,
    /// The worker is done, and another thread is on the main thread's CPU.
    LateWakeUp,
    /// More work in the frame, outside of the spans inside.
    Own,
}

pub const KINDS: [Kind; 7] = [
    Kind::Computing,
    Kind::ColdMemory,
    Kind::Faults,
    Kind::Lock,
    Kind::Preemption,
    Kind::LateWakeUp,
    Kind::Own,
];

/// How many of the planted frames have the right cause.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    pub kind: Kind,
    pub frames: u64,
    pub place: u64,
    pub reason: u64,
    pub holder: u64,
}

impl Verdict {
    pub fn new(kind: Kind) -> Verdict {
        Verdict { kind, frames: 0, place: 0, reason: 0, holder: 0 }
    }

    pub fn add(&mut self, frame: u64, cause: Option<Cause>) {
        let kind = self.kind;
        self.frames += 1;
        let Some(cause) = cause else { return println!("{kind:?}, frame {frame}: not kept") };
        let rights = [has_place(kind, &cause), has_reason(kind, &cause), has_holder(kind, &cause)];
        if rights != [true; 3] {
            println!("{kind:?}, frame {frame}, right {rights:?}: {cause}");
        } else if self.frames == 1 {
            println!("{kind:?}, frame {frame}: {cause}");
        }
        let [place, reason, holder] = rights.map(u64::from);
        self.place += place;
        self.reason += reason;
        self.holder += holder;
    }
}

fn has_place(kind: Kind, cause: &Cause) -> bool {
    let Some(place) = &cause.place else { return false };
    match kind {
        Kind::Computing | Kind::Preemption => place.name == "animate",
        Kind::ColdMemory | Kind::Faults => place.name == "render",
        Kind::Lock | Kind::LateWakeUp => place.name == "simulate",
        Kind::Own => place.is_root && place.is_own,
    }
}

/// Whether the planted reason is the first one.
fn has_reason(kind: Kind, cause: &Cause) -> bool {
    let Some(first) = cause.reasons.first() else { return false };
    let has_faults = cause.reasons.iter().any(|it| matches!(it, Reason::PageFaults { .. }));
    match kind {
        Kind::Computing | Kind::ColdMemory | Kind::Own => {
            matches!(first, Reason::Ran { .. }) && !has_faults
        }
        Kind::Faults => matches!(first, Reason::Ran { .. }) && has_faults,
        Kind::Lock => matches!(first, Reason::Waited { time: Some(_), .. }),
        Kind::Preemption => {
            matches!(first, Reason::Preempted { time: Some(_), .. } | Reason::WithoutCpu { .. })
        }
        Kind::LateWakeUp => matches!(first, Reason::WokenLate { .. }),
    }
}

/// Whether the span that held the frame up is named, and no other one where none did.
fn has_holder(kind: Kind, cause: &Cause) -> bool {
    let named: Vec<(&str, &str)> =
        cause.waited_for.iter().map(|it| (it.place.name, it.place.thread.as_str())).collect();
    match kind {
        Kind::Lock => named == [("look up", "worker"), ("load", "loader")],
        // It waits for the worker in each frame, for a short time.
        _ => named.iter().all(|(_, thread)| *thread == "worker"),
    }
}
