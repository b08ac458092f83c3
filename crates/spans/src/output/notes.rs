//! The sentences below the table.

use crate::output::{NOTHING, Report, ThreadInfo};
use crate::record::MAX_DEPTH;
use crate::units;
use std::time::Duration;

impl Report {
    /// Returns what the table leaves out: the cost of the recording, why events are not counted, what was dropped, and the
    /// clock. A line each.
    pub fn notes(&self) -> Vec<String> {
        notes_of(self)
    }
}

fn notes_of(report: &Report) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(why) = NOTHING {
        all.push(why.into());
        return all;
    }
    all.extend(cost(report));
    // The threads often have the same notes.
    let mut notes: Vec<(String, Vec<String>)> = Vec::new();
    for thread in &report.threads {
        let name = units::cell(&thread.name);
        for note in of_thread(thread) {
            match notes.iter_mut().find(|(known, _)| *known == note) {
                Some((_, threads)) => threads.push(name.clone()),
                None => notes.push((note, vec![name.clone()])),
            }
        }
    }
    for (note, mut threads) in notes {
        threads.dedup();
        all.push(match threads.len() == 1 && report.threads.len() == 1 {
            true => note,
            false => format!("{}: {note}", threads.join(", ")),
        });
    }
    if report.lost > 0 {
        let lost = units::number_of(report.lost, "span");
        all.push(format!("Lost: {lost}. See `Report::lost`."));
    }
    if report.slow_not_kept > 0 {
        let more = units::number_of(report.slow_not_kept, "more slow span");
        all.push(format!("Not kept: {more}. See `Report::slow_not_kept`."));
    }
    for name in &report.unknown_names {
        let name = units::cell(name);
        all.push(format!(
            "No span is named `{name}`, which `Settings::slow` or `Settings::faults` names."
        ));
    }
    if let Some(why) = &report.not_contained {
        all.push(format!("A counter read that faults would end the process: {why}."));
    }
    let error = report.clock_error.filter(|error| !error.is_zero());
    let error = error.map(|error| format!(", with an error of at most {}", units::duration(error)));
    all.push(format!("The time comes from {}{}.", report.clock, error.unwrap_or_default()));
    if report.clock_step > Duration::from_nanos(2) {
        let step = units::duration(report.clock_step);
        all.push(format!(
            "The clock advances in steps of {step}. A single time is a multiple of it."
        ));
    }
    all
}

/// Returns the sentence about the cost of spans and laps.
fn cost(report: &Report) -> Option<String> {
    let range = |of: fn(&ThreadInfo) -> Duration| {
        let times = report.threads.iter().map(|thread| of(thread).as_nanos());
        let (least, most) = (times.clone().min()?, times.max()?);
        Some(if least == most { least.to_string() } else { format!("{least} to {most}") })
    };
    let [span, own] = [range(|thread| thread.span_cost)?, range(|thread| thread.empty_span)?];
    let lap = range(|thread| thread.empty_lap)?;
    Some(format!(
        "A span costs {span} ns, of which {own} ns are in its own time. A lap costs {lap} ns, which are in its own time."
    ))
}

/// Returns what is to be known of a thread's figures, one sentence or two each.
fn of_thread(thread: &ThreadInfo) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = &thread.time_only {
        notes.push(format!("Time only: {why}."));
        if !thread.wants_causes {
            let note = "Disturbed spans are not known (-). Set `Settings::causes` to find them.";
            notes.push(note.into());
        }
    }
    if thread.wants_causes && !thread.knows_causes {
        notes.push("Causes are not known: the kernel and the C library show no context switch. Use glibc 2.35 or later, and a kernel before 6.19.".into());
    }
    let empty = &thread.empty_span_counts;
    let steady = empty.iter().filter_map(|(event, count)| Some(format!("{} {event}", (*count)?)));
    let steady = steady.collect::<Vec<_>>().join(", ");
    let varying = empty.iter().filter(|(_, count)| count.is_none());
    let varying = varying.map(|(event, _)| event.to_string()).collect::<Vec<_>>().join(", ");
    if !steady.is_empty() {
        notes.push(format!("The counts of an empty span are subtracted: {steady}."));
    }
    if !varying.is_empty() {
        notes
            .push(format!("The cost of an empty span in {varying} varies, and is not subtracted."));
    }
    if thread.counts_slots {
        notes.push("The pipeline slots of an empty span are subtracted: where they vary, their lower quartile.".into());
    }
    notes.extend(thread.missing.iter().map(|(event, why)| format!("Without {event}: {why}.")));
    if thread.time_only.is_none() {
        notes.extend(thread.unknown.iter().map(|why| format!("Not counted: {why}.")));
    }
    notes.extend(thread.no_slots.iter().map(|why| format!("Without top-down: {why}.")));
    if thread.counts_all_privilege_levels {
        notes.push("The counts include the kernel's.".into());
    }
    if thread.dropped > 0 {
        let dropped = units::number_of(thread.dropped, "span");
        notes.push(format!(
            "Dropped: {dropped}. The ring was full: collect more often, or use a larger ring. Or more than {MAX_DEPTH} spans were open: look for guards that are never dropped."
        ));
    }
    notes
}
