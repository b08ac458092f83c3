//! The settings of an event, and their flags.

use crate::event::Event;
use crate::kernel::flag;

/// The privilege levels that are excluded by default: all but user mode. Idle is not excluded, because this thread is
/// not the idle thread, and arm64 refuses the flag.
const USER_ONLY: u64 = flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV;
/// The default that excludes guests from hardware events. Since Linux 7.0, an event that includes guests prevents
/// virtual machines with a mediated PMU from starting, and is refused while one runs. riscv64 has no use for the
/// flag, and refuses it where it refuses every filter.
pub(super) const NO_GUESTS: u64 =
    if cfg!(target_arch = "riscv64") { 0 } else { flag::EXCLUDE_GUEST };
/// All filters by privilege level.
pub(super) const FILTER: u64 = flag::EXCLUDE_USER | flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV;
/// Flags of a whole group, which the kernel takes from its leader only.
pub(super) const OF_THE_LEADER: u64 = flag::PINNED | flag::EXCLUSIVE | flag::DISABLED;

/// Which way `read`, and what is built on it, reads the counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadBy {
    /// The cheaper way. In a virtual machine, `open` measures both ways while the events have counters, once per
    /// process and set of events. Results are kept for 64 sets. Elsewhere, user space is used, and nothing is measured.
    ///
    /// Measuring reads the counters, which may fault as any read does: see
    /// [`Counter`](crate::Counter#faults).
    #[default]
    Cheaper,
    /// User space whenever the counts can be read there.
    UserSpace,
    /// A system call each time.
    SystemCall,
}

/// The settings besides the events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// The flags that were set. `cleared` has those that were cleared.
    pub(super) set: u64,
    cleared: u64,
    pub(crate) allow_all_levels: bool,
    pub(crate) read_by: ReadBy,
    /// The thread whose work is counted. 0 is the one that opens.
    pub(crate) thread: u32,
}

impl Options {
    pub(crate) fn with(self, flag: u64, on: bool) -> Options {
        let (set, cleared) = (self.set & !flag, self.cleared & !flag);
        match on {
            true => Options { set: set | flag, cleared, ..self },
            false => Options { set, cleared: cleared | flag, ..self },
        }
    }

    /// Returns these settings for another thread.
    pub(crate) fn on_thread(self, thread: u32) -> Options {
        Options { thread, ..self }
    }

    /// The flags to open an event with.
    pub(crate) fn flags(&self, event: Event) -> u64 {
        let is_the_kernels = event.happens_in_the_kernel() || event.is_tracepoint();
        let levels = if is_the_kernels { 0 } else { USER_ONLY };
        let guests = if event.is_software() { 0 } else { NO_GUESTS };
        event.modifiers.flags((levels | guests) & !self.cleared | self.set)
    }

    /// Whether these flags leave nothing to count.
    pub(super) fn leave_nothing(event: &Event, flags: u64) -> bool {
        let left_out = |which: u64| flags & which == which;
        // x86-64 has no privilege level for a hypervisor, and neither have software events.
        let levels = match event.is_software() || cfg!(target_arch = "x86_64") {
            true => flag::EXCLUDE_USER | flag::EXCLUDE_KERNEL,
            false => FILTER,
        };
        if event.is_software() {
            if left_out(flag::EXCLUDE_HOST) {
                return true; // software events have no guests
            }
            let is_filtered =
                left_out(levels) || event.happens_in_the_kernel() && left_out(flag::EXCLUDE_KERNEL);
            return is_filtered && !event.has_no_privilege_level();
        }
        left_out(levels) || left_out(flag::EXCLUDE_HOST | flag::EXCLUDE_GUEST)
    }

    /// The settings that influence the cost of a read.
    pub(super) fn flags_of_cost(&self) -> u64 {
        (self.set & !OF_THE_LEADER) | (self.cleared & !OF_THE_LEADER) << 32
    }

    /// Whether user mode on this machine is counted.
    pub(super) fn counts_user(&self, event: Event) -> bool {
        self.flags(event) & (flag::EXCLUDE_USER | flag::EXCLUDE_HOST) == 0
    }

    /// Whether the counter or group is opened without starting it.
    pub(crate) fn is_disabled(&self) -> bool {
        self.set & flag::DISABLED != 0
    }

    /// Whether the event is pinned: always on the PMU, or in error state.
    pub(crate) fn is_pinned(&self, event: &Event) -> bool {
        event.modifiers.flags(self.set) & flag::PINNED != 0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn user_mode_alone_unless_told_otherwise() {
        let (cycles, switches) = (Event::CYCLES, Event::CONTEXT_SWITCHES);
        let options = Options::default();
        assert_eq!(options.flags(cycles), USER_ONLY | NO_GUESTS);
        assert_eq!(options.flags(switches), 0);
        assert_eq!(options.flags(Event::of_pmu(2, 300)), 0, "a tracepoint");
        let everything = options.with(flag::EXCLUDE_KERNEL, false).with(flag::EXCLUDE_HV, false);
        assert_eq!(everything.flags(cycles), NO_GUESTS);
        assert_eq!(everything.with(flag::EXCLUDE_GUEST, false).flags(cycles), 0);
        let again = everything.with(flag::EXCLUDE_KERNEL, true);
        assert_eq!(again.flags(cycles), flag::EXCLUDE_KERNEL | NO_GUESTS);
        assert_eq!(again.flags(switches), flag::EXCLUDE_KERNEL);
        assert_eq!(
            options.flags(cycles.kernel()),
            flag::EXCLUDE_USER | flag::EXCLUDE_HV | NO_GUESTS
        );
    }

    #[test]
    fn settings_that_leave_nothing_to_count() {
        let nothing = |event: &str, options: Options| {
            let event: Event = event.parse().unwrap();
            Options::leave_nothing(&event, options.flags(event))
        };
        let options = Options::default();
        let no_user = options.with(flag::EXCLUDE_USER, true);
        let kernel = no_user.with(flag::EXCLUDE_KERNEL, false);
        let host = options.with(flag::EXCLUDE_HOST, true);
        for (event, options, expected) in [
            ("cycles", options, false),
            ("cycles", no_user, true),
            ("cycles:u", no_user, false),
            ("page-faults", no_user, true),
            ("page-faults", host, true),
            ("page-faults:G", options, true),
            ("page-faults:GH", options, false),
            ("task-clock", no_user, false),
            ("cycles", kernel, false),
            ("cycles:k", options, false),
            ("cycles:h", options, cfg!(target_arch = "x86_64")),
            ("cycles:G", options, false),
            ("cycles:GH", options, false),
            ("cycles", host, !cfg!(target_arch = "riscv64")),
            ("cycles", host.with(flag::EXCLUDE_GUEST, false), false),
            ("context-switches", options, false),
            ("context-switches:u", options, true),
            ("context-switches:k", options, false),
        ] {
            assert_eq!(nothing(event, options), expected, "{event}, {options:?}");
        }
    }
}
