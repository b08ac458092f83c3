//! The sentences of a cause.

use super::{Cause, Holder, Place, Reason};
use crate::units;
use std::fmt;
use std::time::Duration;

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{}.", of_place(place, self.not_kept))?,
            None => f.write_str("It took less than a tenth longer than usual.")?,
        }
        for reason in &self.reasons {
            match reason {
                Reason::PageFaults { of, .. } => write!(f, " {} {reason}", units::cell(of))?,
                _ => write!(f, " It {reason}")?,
            }
            if matches!(reason, Reason::Waited { .. }) {
                f.write_str(&self.of_holders())?;
            }
            f.write_str(".")?;
        }
        match (&self.place, self.reasons.is_empty(), self.knows_causes) {
            (Some(_), true, true) => f.write_str(" What happened there is not known.")?,
            (Some(_), true, false) => {
                f.write_str(" What happened there is not known: set `Settings::causes`.")?;
            }
            _ => {}
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
            return ", and no span that is kept of another thread explains it".into();
        };
        let mut text = format!(": for {}", of_holder(first));
        let nexts = self.waited_for.iter().skip(1).map(Some).chain([None]);
        for (holder, next) in self.waited_for.iter().zip(nexts) {
            if let Some(after) = holder.began_after {
                text += &format!(", which began only {} later", time(after));
                break;
            }
            let reasons: Vec<String> =
                holder.reasons.iter().take(2).map(|reason| reason.to_string()).collect();
            if !reasons.is_empty() {
                text += &format!(", which {}", reasons.join(" and "));
            }
            if let Some(next) = next {
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

fn of_place(place: &Place, not_kept: u64) -> String {
    let usual = match place.usual {
        Some(usual) if place.usual_spans == 0 && usual.is_zero() => {
            ", and usually is not there".into()
        }
        Some(usual) => format!(", usually {}", time(usual)),
        None => String::new(),
    };
    let took = time(place.time);
    let kept = if not_kept > 0 { " that are kept" } else { "" };
    match (place.is_own, place.spans) {
        (_, 2..) => {
            let (spans, name) = (place.spans, units::cell(place.name));
            let usual = match place.usual {
                Some(usual) => format!(", usually {} and {}", place.usual_spans, time(usual)),
                None => String::new(),
            };
            format!("{spans} spans of {name} took {took} together{usual}")
        }
        (true, _) => {
            format!("{took} of {} were outside of its inner spans{kept}{usual}", name(place))
        }
        (false, _) if place.is_root => format!("It took {took}{usual}"),
        (false, _) => format!("{} took {took}{usual}", name(place)),
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
            Reason::Polled { .. } => "polled",
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
            Reason::Polled { polls, busy, idle } => {
                let (polls, busy) = (units::number_of(*polls, "poll"), time(*busy));
                write!(f, "was idle for {}, beside {polls} that took {busy}", time(*idle))
            }
            Reason::PageFaults { count: it, major, usual, .. } => {
                write!(f, "had {} page faults", count(*it))?;
                if *major > 0 {
                    write!(f, ", {major} of them from a disk")?;
                }
                write!(f, ", usually {}", count(*usual))
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
