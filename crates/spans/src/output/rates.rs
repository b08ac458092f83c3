//! What counter tracks show.

use crate::collect::Kept;
use rdpmc::Event;

/// Returns the rates of a span that have a track.
pub(super) fn rates(kept: &Kept) -> Vec<(String, f64)> {
    let slots = kept.level1().map(|level1| level1.parts());
    let slots = slots.into_iter().flatten();
    let mut rates: Vec<(String, f64)> =
        slots.map(|(category, part)| (format!("slots, {category}"), part.fraction)).collect();
    let count = |event: Event| kept.count(event).map(|count| count as f64);
    let Some(instructions) = count(Event::INSTRUCTIONS).filter(|count| *count > 0.0) else {
        return rates;
    };
    let rate = |event: &Event| match *event {
        Event::INSTRUCTIONS => None,
        Event::CYCLES => Some(("IPC".to_string(), kept.ipc()?)),
        event => {
            Some((format!("{event} per 1,000 instructions"), count(event)? * 1000.0 / instructions))
        }
    };
    let counted = &kept.thread.counted;
    rates.extend(counted.events.iter().skip(counted.events_of_slots()).filter_map(rate));
    rates
}
