//! Groups whose events are optional, with software events: every machine has these.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::skips::skip;
use crate::error::OpenError;
use crate::{AvailableGroup, DynGroup, Event, Group};

fn event(name: &str) -> Event {
    name.parse().unwrap()
}

/// Which of the events are counted, by their places.
fn counted<const N: usize>(group: &AvailableGroup<N>) -> [bool; N] {
    group.read().unwrap().map(|count| count.is_some())
}

#[test]
fn a_refused_event_is_left_out_and_no_other() {
    let test = "a_refused_event_is_left_out_and_no_other";
    if let Err(why) = Group::open([Event::TASK_CLOCK]) {
        return skip(test, &why.to_string());
    }
    // Of guests, software events count nothing. Both events have one number.
    let group = Group::open_available([event("page-faults"), event("page-faults:G")]).unwrap();
    assert_eq!(counted(&group), [true, false]);
    let group = Group::open_available([event("page-faults:G"), event("page-faults")]).unwrap();
    assert_eq!(counted(&group), [false, true]);

    let nothing = Event::of_pmu(u32::MAX - 1, 0); // there is no such PMU
    let events = [
        Event::TASK_CLOCK,
        nothing,
        Event::PAGE_FAULTS,
        event("page-faults:G"),
        Event::TASK_CLOCK,
        event("context-switches:u"),
        nothing,
    ];
    let group = Group::open_available(events).unwrap();
    assert_eq!(counted(&group), [true, false, true, false, true, false, false]);
    let missing: Vec<_> = group.missing().map(|error| error.event().unwrap().event()).collect();
    assert_eq!(missing, [events[1], events[3], events[5], events[6]]);
    let events: Vec<Event> = group.group().events().to_vec();
    assert_eq!(events, [Event::TASK_CLOCK, Event::PAGE_FAULTS, Event::TASK_CLOCK]);
    // The same of both, each in its place.
    let readings = group.reading().unwrap();
    assert!(readings[0].unwrap().value <= readings[4].unwrap().value + 1_000_000);
}

#[test]
fn if_none_can_be_counted_the_first_reason_is_the_error() {
    let events = [event("page-faults:G"), Event::of_pmu(u32::MAX - 1, 0)];
    let error = Group::open_available(events).unwrap_err();
    assert!(matches!(error, OpenError::CountsNothing { .. }), "{error:?}");
}

#[test]
fn a_group_of_any_size() {
    let test = "a_group_of_any_size";
    for events in 0..10 {
        let events = vec![Event::DUMMY; events];
        match DynGroup::open(&events) {
            Ok(group) => {
                assert!((1..=8).contains(&events.len()));
                assert_eq!(*group.events(), *events);
                assert_eq!(group.read().unwrap().len(), events.len());
                assert_eq!(group.reading().unwrap().len(), events.len());
                assert!(format!("{group:?}").starts_with("DynGroup"), "{group:?}");
            }
            Err(OpenError::GroupSize { events: asked }) => {
                assert!(asked == events.len() && !(1..=8).contains(&asked));
            }
            Err(why) => return skip(test, &why.to_string()),
        }
    }
}
