//! Opens the counters of a thread.

use crate::counting::{
    Counted, Counters, Counting, Formula, Nothing, Request, Switches, TimeOnlyReason, Watched,
};
use rdpmc::{Access, DynGroup, Event, Fit, Group, WithGroup};

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
            let is_named = matches!(why, TimeOnlyReason::Topdown(_));
            counted.topdown = request.topdown.clone().filter(|it| it.is_err() && !is_named);
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

/// Opens the events: those of the slots with the others if they can be counted at the same time, or the others alone.
fn group(request: &Request) -> Result<Chosen, TimeOnlyReason> {
    let Some(Ok(formula)) = &request.topdown else {
        return readable(&request.events, request, request.topdown.clone());
    };
    if !formula.is_of_this_thread() {
        let why = "this thread is not restricted to the core type whose slots are counted";
        return readable(&request.events, request, Some(Err(why.into())));
    }
    let of_slots = formula.events();
    let all: Vec<Event> = of_slots.iter().chain(&request.events).copied().collect();
    let why = match readable(&all, request, request.topdown.clone()) {
        Ok(chosen) => {
            let counted = chosen.fit.events.iter().zip(of_slots).take_while(|(is, of)| is == of);
            let (counted, needed) = (counted.count(), of_slots.len());
            if counted == needed {
                return Ok(chosen);
            }
            let why = chosen.fit.missing.first().map(|(event, why)| format!(". Of {event}: {why}"));
            let why = why.unwrap_or_default();
            format!(
                "{needed} events are needed at the same time, and {counted} can be counted{why}"
            )
        }
        // Then the others cannot be counted either, or there are none.
        Err(why @ (TimeOnlyReason::NotRequested | TimeOnlyReason::Trapped { .. })) => {
            return Err(why);
        }
        Err(why) if request.events.is_empty() => return Err(why),
        Err(why) => why.to_string(),
    };
    readable(&request.events, request, Some(Err(why)))
}

/// Opens those of the events that can be counted together, and checks that user space reads them, and at what cost.
fn readable(
    events: &[Event],
    request: &Request,
    topdown: Topdown,
) -> Result<Chosen, TimeOnlyReason> {
    if request.counters == Counters::Never {
        return Err(TimeOnlyReason::NotRequested);
    }
    if events.is_empty() {
        return Err(match (request.unknown.first(), topdown) {
            (Some(unknown), _) => TimeOnlyReason::Name(unknown.clone()),
            (None, Some(Err(why))) => TimeOnlyReason::Topdown(why),
            (None, _) => TimeOnlyReason::NotRequested,
        });
    }
    // Pinned: never multiplexed, so that counts are complete.
    let builder = DynGroup::builder(events).pinned(true).allow_all_privilege_levels(true);
    let fit = builder.fit().map_err(TimeOnlyReason::Open)?;
    let group = builder.events(&fit.events).open().map_err(TimeOnlyReason::Open)?;
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
