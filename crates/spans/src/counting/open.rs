//! Opens the counters of a thread.

use crate::counting::{
    Counted, Counters, Counting, Formula, Nothing, Request, Switches, TimeOnlyReason, Watched,
};
use rdpmc::{Access, Builder, DynGroup, Event, Fit, Group, WithGroup};

/// Makes something of the counters, whatever their number.
pub(crate) trait WithCounters {
    type Made;

    fn with<C: Counting<N> + 'static, const N: usize>(self, counting: C) -> Self::Made;
}

/// Opens the counters of this thread, and makes `maker`'s of them.
pub(crate) fn open<M: WithCounters>(request: &Request, maker: M) -> (M::Made, Counted) {
    let switches = if request.causes { Switches::of_this_thread() } else { None };
    let mut counted = Counted {
        wants_causes: request.causes,
        knows_causes: switches.is_some(),
        ..Counted::default()
    };
    let maker = Maker { maker, switches };
    match group(request) {
        Ok(Chosen { group, fit: Fit { events, missing, .. }, topdown }) => {
            counted.counts_all_privilege_levels = group.counts_all_privilege_levels();
            (counted.events, counted.missing) = (events, missing);
            counted.topdown = topdown;
            (group.with(maker), counted)
        }
        Err(why) => {
            // The reason is that of the slots, too, unless they have one of their own.
            counted.topdown = request.topdown.clone().filter(Result::is_err);
            counted.time_only = Some(why);
            (maker.of(Nothing), counted)
        }
    }
}

/// Makes with or without the context switches.
struct Maker<M> {
    maker: M,
    switches: Option<Switches>,
}

impl<M: WithCounters> WithGroup for Maker<M> {
    type Output = M::Made;

    fn with<const N: usize>(self, group: Group<N>) -> M::Made {
        self.of(group)
    }
}

impl<M: WithCounters> Maker<M> {
    fn of<C: Counting<N> + 'static, const N: usize>(self, counting: C) -> M::Made {
        match self.switches {
            Some(switches) => self.maker.with(Watched { counting, switches }),
            None => self.maker.with(counting),
        }
    }
}

/// The events that a thread counts.
struct Chosen {
    group: DynGroup,
    fit: Fit,
    topdown: Topdown,
}

/// How the slots are counted, or why they are not. None if nobody asked.
type Topdown = Option<Result<Formula, String>>;

/// Opens those of the events that can be counted together, and checks that user space reads them, and at what cost.
fn group(request: &Request) -> Result<Chosen, TimeOnlyReason> {
    if request.counters == Counters::Never {
        return Err(TimeOnlyReason::NotRequested);
    }
    let (fit, topdown) = fit(request)?;
    let group = builder(&fit.events).open().map_err(TimeOnlyReason::Open)?;
    let cost = group.read_cost();
    // `read` may prefer the system call. Spans never make one.
    match (cost.user, group.access()) {
        (None, Access::SystemCall(reason)) => Err(TimeOnlyReason::NotReadable(reason)),
        (Some(user), _) if cost.is_trapped && request.counters == Counters::IfCheap => {
            Err(TimeOnlyReason::Trapped { read: user })
        }
        _ => Ok(Chosen { group, fit, topdown }),
    }
}

/// Pinned: never multiplexed, so that counts are complete.
fn builder(events: &[Event]) -> Builder<&[Event]> {
    DynGroup::builder(events).pinned(true).allow_all_privilege_levels(true)
}

/// Returns the events that fit, and how slots are counted: not at all if not all of their events fit.
fn fit(request: &Request) -> Result<(Fit, Topdown), TimeOnlyReason> {
    let mut topdown = request.topdown.clone();
    if let Some(Ok(formula)) = &request.topdown {
        let of_slots = formula.events();
        let events: Vec<Event> = of_slots.iter().chain(&request.events).copied().collect();
        let fit = builder(&events).fit().map_err(TimeOnlyReason::Open)?;
        let Some((event, why)) = fit.missing.iter().find(|(event, _)| of_slots.contains(event))
        else {
            return Ok((fit, topdown));
        };
        let counted = fit.events.iter().filter(|event| of_slots.contains(event)).count();
        topdown = Some(Err(format!(
            "{} events are needed at the same time, and {counted} can be counted. Of {event}: {why}",
            of_slots.len()
        )));
    }
    if request.events.is_empty() {
        let unknown = request.unknown.first().cloned();
        return Err(unknown.map_or(TimeOnlyReason::NotRequested, TimeOnlyReason::Name));
    }
    let fit = builder(&request.events).fit().map_err(TimeOnlyReason::Open)?;
    Ok((fit, topdown))
}
