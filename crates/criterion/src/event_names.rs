//! What the user calls each event.

use rdpmc::Event;
use rdpmc::pmu::Pmus;
use rdpmc_report::gate::event_name;

/// The names that the user has written, where an event does not have them by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(Vec<(Event, String)>);

impl Names {
    pub(crate) fn add(&mut self, event: Event, written: String) {
        let of_perf = event.to_string();
        if event_name(of_perf.clone(), written.clone()) != of_perf {
            self.0.push((event, written));
        }
    }

    /// Returns the name of an event.
    pub(crate) fn name_of(&self, event: Event) -> String {
        let known = self.0.iter().find(|(known, _)| *known == event);
        known.map_or_else(|| Pmus::local().name_of(event), |(_, name)| name.clone())
    }

    /// Returns the reason why an event is not counted, with the user's name of it. A reason begins with the event.
    pub(crate) fn in_reason(&self, why: String) -> String {
        let named = |(event, name): &(Event, String)| {
            let rest = why.strip_prefix(&event.to_string())?;
            rest.starts_with(' ').then(|| format!("{name}{rest}"))
        };
        self.0.iter().find_map(named).unwrap_or(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_the_name_that_the_user_wrote() {
        let mut names = Names::default();
        let event = Event::raw(0x243);
        names.add(event, "ls_dmnd_fills_from_sys.local_ccx".into());
        names.add(Event::CYCLES, "cycles".into());
        assert_eq!(names.name_of(event), "ls_dmnd_fills_from_sys.local_ccx");
        assert_eq!(names.name_of(Event::CYCLES), "cycles");
        let why = |why: &str| names.in_reason(why.to_owned());
        assert_eq!(
            why(&format!("{event} needs a counter")),
            "ls_dmnd_fills_from_sys.local_ccx needs a counter"
        );
        assert_eq!(why("cycles needs a counter"), "cycles needs a counter");
    }
}
