//! The sentences of a cause.

use super::{Cause, Holder, Place, Reason};
use crate::units;
use std::fmt;
use std::time::Duration;

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{}.", of_place(place))?,
            None => f.write_str("It took no longer than usual.")?,
        }
        for reason in &self.reasons {
            write!(f, " It {reason}")?;
            if matches!(reason, Reason::Waited { .. }) {
                f.write_str(&self.of_holders())?;
            }
            f.write_str(".")?;
        }
        if self.place.is_some() && self.reasons.is_empty() {
            f.write_str(" What happened there is not known.")?;
        }
        if let Some(slots) = &self.slots {
            write!(f, " {slots}")?;
        }
        if self.not_kept > 0 {
            write!(f, " Not kept: {}.", units::number_of(self.not_kept, "span"))?;
        }
        Ok(())
    }
}

impl Cause {
    fn of_holders(&self) -> String {
        let Some(first) = self.waited_for.first() else {
            return ": for something without a span".into();
        };
        let mut text = format!(": for {}", of_holder(first));
        for (holder, next) in
            self.waited_for.iter().zip(self.waited_for.iter().skip(1).map(Some).chain([None]))
        {
            let Some(reason) = holder.reasons.first() else { continue };
            text += &format!(", which {reason}");
            if let (Reason::Waited { .. }, Some(next)) = (reason, next) {
                text += &format!(": for {}", of_holder(next));
            }
        }
        text
    }
}

fn time(time: Duration) -> String {
    units::duration(time)
}

fn name(place: &Place) -> String {
    let name = units::cell(place.name);
    place.number.map_or(name.clone(), |number| format!("{name} {number}"))
}

fn of_place(place: &Place) -> String {
    let usual = place.usual.map_or_else(String::new, |usual| format!(", usually {}", time(usual)));
    let took = time(place.time);
    match (place.is_root, place.is_own, place.spans) {
        (_, _, 2..) => {
            format!("{} spans {} took {took}{usual}", place.spans, units::cell(place.name))
        }
        (true, true, _) => format!("Outside of the spans inside, it took {took}{usual}"),
        (true, false, _) => format!("It took {took}{usual}"),
        (false, true, _) => {
            format!("{} took {took} outside of the spans inside it{usual}", name(place))
        }
        (false, false, _) => format!("{} took {took}{usual}", name(place)),
    }
}

fn of_holder(holder: &Holder) -> String {
    let Place { thread, usual, .. } = &holder.place;
    let usual = usual.map_or_else(String::new, |usual| format!(", usually {}", time(usual)));
    let took = time(holder.place.time);
    format!("{} on {} ({took}{usual})", name(&holder.place), units::cell(thread))
}

impl Reason {
    /// Returns what happened, in one word of JSON.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Reason::Waited { .. } => "waited",
            Reason::Preempted { .. } => "preempted",
            Reason::WokenLate { .. } => "woken late",
            Reason::WithoutCpu { .. } => "without cpu",
            Reason::Disturbed => "disturbed",
            Reason::Ran { .. } => "ran",
            Reason::PageFaults { .. } => "page faults",
            Reason::Kernel { .. } => "kernel",
            Reason::Instructions { .. } => "instructions",
            Reason::Event { .. } => "event",
            Reason::SlowInstructions { .. } => "slow instructions",
        }
    }
}

impl fmt::Display for Reason {
    /// Writes it without a subject: `waited for 3.00 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = units::count;
        match self {
            Reason::Waited { time: Some(it) } => write!(f, "waited for {}", time(*it)),
            Reason::Waited { time: None } => f.write_str("waited"),
            Reason::Preempted { time: Some(it) } => write!(f, "was preempted for {}", time(*it)),
            Reason::Preempted { time: None } => f.write_str("was preempted"),
            Reason::WokenLate { time: it } => {
                write!(f, "was woken, and then got no CPU for {}", time(*it))
            }
            Reason::WithoutCpu { time: it } => {
                write!(f, "was ready to run, and had no CPU for {}", time(*it))
            }
            Reason::Disturbed => f.write_str("was switched out, or a counter was moved"),
            Reason::Ran { time: it } => write!(f, "ran on a CPU for {}", time(*it)),
            Reason::PageFaults { of, count: it, major, usual } => {
                let of = units::cell(of);
                write!(f, "had {} page faults in {of}, usually {}", count(*it), count(*usual))?;
                match major {
                    0 => Ok(()),
                    major => write!(f, ", {major} of them from a disk"),
                }
            }
            Reason::Kernel { count: it, usual } => write!(
                f,
                "was interrupted: the kernel executed {} instructions, usually {}, for interrupts, faults or system calls",
                count(*it),
                count(*usual)
            ),
            Reason::Instructions { count: it, usual } => {
                let factor = *it as f64 / (*usual).max(1) as f64;
                write!(f, "executed {factor:.1} x the usual instructions, {}", count(*it))
            }
            Reason::Event { event, count: it, usual } => {
                write!(f, "had {} {event}, usually {}", count(*it), count(*usual))
            }
            Reason::SlowInstructions { ipc, usual } => {
                write!(f, "executed {ipc:.2} instructions per cycle, usually {usual:.2}")
            }
        }
    }
}
