//! The first lines of the report: whether counters work here, what a read costs, and whether the counts are right.

use crate::report::{EventCost, Report};
use crate::text::nanoseconds;
use rdpmc::Access;
use std::time::Duration;

/// The instruction that reads a counter.
pub(crate) const INSTRUCTION: &str = if cfg!(target_arch = "x86_64") {
    "rdpmc"
} else if cfg!(target_arch = "aarch64") {
    "mrs"
} else {
    "csrr"
};

impl Report {
    /// Returns the report's first lines: whether counters work here, what a read costs, and whether they count right.
    pub fn summary(&self) -> String {
        let work = match self.costs.first() {
            Some(cost) => cost.summary(self.hypervisor.as_deref()),
            None => match self.events.iter().find_map(|event| event.access.as_ref().err()) {
                Some(error) if !self.counts_hardware() => {
                    return format!("Hardware counters do not work here: {}.", error.cause());
                }
                _ => "Counters work here.".to_owned(),
            },
        };
        let mut tests = self.core_pmus.iter().filter_map(|pmu| pmu.trust.as_ref()).peekable();
        match (tests.peek().is_some(), tests.find(|trust| !trust.is_right())) {
            (false, _) => work,
            (true, None) => format!("{work}\nKnown work is counted right."),
            (true, Some(trust)) if trust.is_wrong() => {
                format!("{work}\nKnown work is counted wrong: {trust}.")
            }
            (true, Some(_)) => {
                format!(
                    "{work}\nThis machine is too busy to tell whether known work is counted right."
                )
            }
        }
    }

    /// The least time of work that counters should frame here, if a read is slow.
    pub(crate) fn shortest_work(&self) -> Option<Duration> {
        let slow = self.costs.iter().filter(|cost| cost.cost.is_trapped);
        slow.filter_map(|cost| cost.cost.shortest_work()).min()
    }
}

impl EventCost {
    fn summary(&self, hypervisor: Option<&str>) -> String {
        let used = |used: bool| if used { " (used)" } else { "" };
        let in_user_space = self.access == Access::UserSpace;
        match (self.cost.user.map(nanoseconds), self.cost.system_call.map(nanoseconds)) {
            (Some(user), Some(system_call)) if self.cost.is_trapped => format!(
                "Counters work here, but {} traps {INSTRUCTION}: {user} per read from user space{}, {system_call} by \
                 system call{}.",
                hypervisor.unwrap_or("something"),
                used(in_user_space),
                used(!in_user_space),
            ),
            (Some(user), Some(system_call)) if in_user_space => format!(
                "Counters work here, from user space: {user} per read (system call: {system_call})."
            ),
            (Some(user), Some(system_call)) => format!(
                "Counters work here, by system call: {system_call} per read (from user space: {user})."
            ),
            (_, Some(system_call)) => {
                format!("Counters work here, by system call: {system_call} per read.")
            }
            (_, None) => "Counters work here.".to_owned(),
        }
    }

    /// The report's line: the events, and the cost of each way.
    pub(crate) fn line(&self) -> String {
        let events: Vec<String> = self.events.iter().map(ToString::to_string).collect();
        let mut line = events.join(" + ");
        let ways = [("from user space", self.cost.user), ("by system call", self.cost.system_call)];
        for (place, (way, median)) in
            ways.iter().filter_map(|(way, median)| Some((way, (*median)?))).enumerate()
        {
            let separator = if place == 0 { ": " } else { ", " };
            line += &format!("{separator}{} {way}", nanoseconds(median));
        }
        line
    }
}
