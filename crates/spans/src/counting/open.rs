//! Opens the counters of a thread.

use crate::counting::{
    Counted, Counters, Counting, Nothing, Request, Switches, TimeOnlyReason, Watched,
};
use rdpmc::{Access, DynGroup, Fit, Group, WithGroup};

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
        Ok((group, Fit { events, missing, .. })) => {
            counted.counts_all_privilege_levels = group.counts_all_privilege_levels();
            (counted.events, counted.missing) = (events, missing);
            (group.with(maker), counted)
        }
        Err(why) => {
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

/// Opens those of the events that can be counted together, and checks that user space reads them, and at what cost.
fn group(request: &Request) -> Result<(DynGroup, Fit), TimeOnlyReason> {
    if request.counters == Counters::Never {
        return Err(TimeOnlyReason::NotRequested);
    }
    if request.events.is_empty() {
        let unknown = request.unknown.first().cloned();
        return Err(unknown.map_or(TimeOnlyReason::NotRequested, TimeOnlyReason::Name));
    }
    // Pinned: never multiplexed, so that counts are complete.
    let builder = DynGroup::builder(&request.events).pinned(true).allow_all_privilege_levels(true);
    let fit = builder.fit().map_err(TimeOnlyReason::Open)?;
    let group = builder.events(&fit.events).open().map_err(TimeOnlyReason::Open)?;
    let cost = group.read_cost();
    // `read` may prefer the system call. Spans never make one.
    match (cost.user, group.access()) {
        (None, Access::SystemCall(reason)) => Err(TimeOnlyReason::NotReadable(reason)),
        (Some(user), _) if cost.is_trapped && request.counters == Counters::IfCheap => {
            Err(TimeOnlyReason::Trapped { read: user })
        }
        _ => Ok((group, fit)),
    }
}
