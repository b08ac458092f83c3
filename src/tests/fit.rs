//! Which events can be counted together, and groups of any size, with software events: every machine has these.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use super::skips::skip;
use crate::error::{Error, ErrorKind};
use crate::{DynGroup, Event, Group, WithGroup};

fn event(name: &str) -> Event {
    name.parse().unwrap()
}

#[test]
fn a_refused_event_is_left_out_and_no_other() {
    let test = "a_refused_event_is_left_out_and_no_other";
    if let Err(why) = Group::open([Event::TASK_CLOCK]) {
        return skip(test, &why.to_string());
    }
    // Of guests, software events count nothing. Both events have one number.
    for names in [["page-faults", "page-faults:G"], ["page-faults:G", "page-faults"]] {
        let fit = DynGroup::builder(&names.map(event)).fit().unwrap();
        assert_eq!(fit.events, [event("page-faults")]);
        assert_eq!(fit.missing.len(), 1);
        assert_eq!(fit.missing[0].0, event("page-faults:G"));
    }
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
    let fit = DynGroup::builder(&events).fit().unwrap();
    assert_eq!(fit.events, [Event::TASK_CLOCK, Event::PAGE_FAULTS, Event::TASK_CLOCK]);
    let missing: Vec<Event> = fit.missing.iter().map(|(event, _)| *event).collect();
    assert_eq!(missing, [events[1], events[3], events[5], events[6]]);
    for (event, why) in &fit.missing {
        assert_eq!(why.event(), Some(*event));
    }
    let group = DynGroup::open(&fit.events).unwrap();
    assert_eq!(*group.events(), *fit.events);
    // The same of both, each in its place.
    let readings = group.reading().unwrap();
    assert!(readings[0].value <= readings[2].value + 1_000_000);
}

#[test]
fn if_none_can_be_counted_the_first_reason_is_the_error() {
    let events = [event("page-faults:G"), Event::of_pmu(u32::MAX - 1, 0)];
    let error = DynGroup::builder(&events).fit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CountsNothing, "{error:?}");
    let none = DynGroup::builder(&[]).fit();
    assert_eq!(none.unwrap_err(), Error::of_group_size(0));
}

#[test]
fn more_events_than_a_group_has() {
    let test = "more_events_than_a_group_has";
    match DynGroup::builder(&[Event::DUMMY; 10]).fit() {
        Ok(fit) => {
            assert_eq!(fit.events.len(), 8);
            let too_many = (Event::DUMMY, Error::of_group_size(9));
            assert_eq!(fit.missing, vec![too_many; 2]);
        }
        Err(why) => skip(test, &why.to_string()),
    }
}

#[test]
fn a_group_of_any_size() {
    struct Size;
    impl WithGroup for Size {
        type Output = usize;
        fn with<const N: usize>(self, group: Group<N>) -> usize {
            assert_eq!(group.events().len(), N);
            N
        }
    }
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
                assert_eq!(group.with(Size), events.len());
            }
            Err(why) if why.kind() == ErrorKind::GroupSize => {
                assert_eq!(why, Error::of_group_size(events.len()));
                assert!(!(1..=8).contains(&events.len()));
            }
            Err(why) => return skip(test, &why.to_string()),
        }
    }
}
