//! The settings of a counter or a group before it is opened.

use super::options::{Options, ReadBy};
use crate::event::Event;
use crate::kernel::flag;

/// The settings with which a counter or a group is opened.
///
/// [`Counter::builder`](crate::Counter::builder) returns one whose `E` is the [`Event`](crate::Event). For
/// [`Group::builder`](crate::Group::builder), `E` is an array of events.
///
/// Some things are fixed, because a read from user space could otherwise be silently wrong. The counter belongs to
/// the calling thread, on any CPU. The thread's children do not inherit the counter, and it does not survive `exec`. For counts
/// of several threads, see [`SyscallGroup`](crate::SyscallGroup).
///
/// An event's own [modifiers](crate::Event#names) take precedence over these settings.
///
/// ```
/// use rdpmc::{Counter, Event};
///
/// match Counter::builder(Event::PAGE_FAULTS).disabled(true).open() {
///     Ok(faults) => assert_eq!(faults.read(), Ok(0)),
///     Err(why) => println!("{why}"), // for example, a container's seccomp filter
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Builder<E> {
    pub(crate) events: E,
    pub(crate) options: Options,
}

impl<E> Builder<E> {
    pub(crate) fn new(events: E) -> Builder<E> {
        Builder { events, options: Options::default() }
    }

    /// Returns a builder of other events with these settings: of those that [`fit`](Builder::fit), say.
    pub fn events(self, events: &[Event]) -> Builder<&[Event]> {
        self.with_events(events)
    }

    pub(crate) fn with_events<F>(self, events: F) -> Builder<F> {
        Builder { events, options: self.options }
    }

    fn set(self, flag: u64, on: bool) -> Builder<E> {
        Builder { options: self.options.with(flag, on), ..self }
    }

    /// Excludes user mode (`exclude_user`). Default: false.
    ///
    /// The kernel is excluded by default, so this alone leaves nothing to count, and opening fails with
    /// [`ErrorKind::CountsNothing`](crate::error::ErrorKind::CountsNothing). Include the kernel with
    /// [`exclude_kernel(false)`](Builder::exclude_kernel).
    pub fn exclude_user(self, exclude: bool) -> Builder<E> {
        self.set(flag::EXCLUDE_USER, exclude)
    }

    /// Excludes the kernel (`exclude_kernel`). Default: true, with two exceptions.
    ///
    /// - The three events that happen in the kernel only, such as
    ///   [`Event::CONTEXT_SWITCHES`](crate::Event::CONTEXT_SWITCHES).
    /// - Tracepoints, most of which also happen in the kernel only.
    ///
    /// Counting the kernel needs `kernel.perf_event_paranoid` 1 or less, or `CAP_PERFMON`.
    pub fn exclude_kernel(self, exclude: bool) -> Builder<E> {
        self.set(flag::EXCLUDE_KERNEL, exclude)
    }

    /// Excludes the hypervisor (`exclude_hv`). Default: as for the kernel. x86-64 ignores it.
    pub fn exclude_hypervisor(self, exclude: bool) -> Builder<E> {
        self.set(flag::EXCLUDE_HV, exclude)
    }

    /// Excludes virtual machines that this thread runs (`exclude_guest`). Default: true for hardware events, on PMUs
    /// that have the flag.
    ///
    /// Include guests only if this thread is a VM's virtual CPU. Since Linux 7.0, an event that includes guests
    /// prevents VMs with a mediated PMU (passed through by the host) from starting. While such a VM runs, opening the
    /// event fails with [`ErrorKind::IncludesGuests`](crate::error::ErrorKind::IncludesGuests).
    pub fn exclude_guest(self, exclude: bool) -> Builder<E> {
        self.set(flag::EXCLUDE_GUEST, exclude)
    }

    /// Excludes the host, which is this machine itself (`exclude_host`). Default: false.
    ///
    /// Also include guests with [`exclude_guest(false)`](Builder::exclude_guest), or nothing is left to count. The
    /// modifier `:G` does both.
    pub fn exclude_host(self, exclude: bool) -> Builder<E> {
        self.set(flag::EXCLUDE_HOST, exclude)
    }

    /// Keeps the event or group on the PMU at all times, without multiplexing (`pinned`). Default: false.
    ///
    /// If it does not get its counters, it goes into error state, and reads fail with
    /// [`ReadError::ErrorState`](crate::error::ReadError::ErrorState).
    pub fn pinned(self, pinned: bool) -> Builder<E> {
        self.set(flag::PINNED, pinned)
    }

    /// Opens the event or group without starting it (`disabled`). It counts from
    /// [`Counter::enable`](crate::Counter::enable) on. Default: false.
    pub fn disabled(self, disabled: bool) -> Builder<E> {
        self.set(flag::DISABLED, disabled)
    }

    /// Chooses how `read`, `reading` and what is built on them get the counts. Default: [`ReadBy::Cheaper`].
    ///
    /// `read_user`, `reading_user` and regions read in user space in any case.
    ///
    /// ```
    /// use rdpmc::{Counter, Event, ReadBy};
    ///
    /// match Counter::builder(Event::INSTRUCTIONS).read_by(ReadBy::UserSpace).open() {
    ///     Ok(counter) => println!("{:?}: {}", counter.read(), counter.access()),
    ///     Err(why) => println!("{why}"),
    /// }
    /// ```
    pub fn read_by(mut self, way: ReadBy) -> Builder<E> {
        self.options.read_by = way;
        self
    }

    /// Counts all privilege levels if the PMU cannot exclude any (riscv64 without the Sscofpmf extension). Default:
    /// false, so that opening fails with
    /// [`ErrorKind::NoPrivilegeFilter`](crate::error::ErrorKind::NoPrivilegeFilter).
    ///
    /// [`Counter::counts_all_privilege_levels`](crate::Counter::counts_all_privilege_levels) reports whether all are
    /// counted.
    pub fn allow_all_privilege_levels(mut self, allow: bool) -> Builder<E> {
        self.options.allow_all_levels = allow;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;

    #[test]
    fn each_setting_is_the_flag_of_its_name() {
        let none = Builder::new(());
        let flags = |builder: Builder<()>| builder.options.flags(Event::CYCLES);
        let unless_said = flags(none);
        for (set, flag) in [
            (none.exclude_user(true), flag::EXCLUDE_USER),
            (none.exclude_host(true), flag::EXCLUDE_HOST),
            (none.pinned(true), flag::PINNED),
            (none.disabled(true), flag::DISABLED),
        ] {
            assert_eq!(flags(set), unless_said | flag);
        }
        assert_eq!(flags(none.exclude_kernel(false)), unless_said & !flag::EXCLUDE_KERNEL);
        assert_eq!(flags(none.exclude_hypervisor(false)), unless_said & !flag::EXCLUDE_HV);
        assert_eq!(flags(none.exclude_guest(false)), unless_said & !flag::EXCLUDE_GUEST);
        assert_eq!(flags(none.exclude_guest(true)), unless_said | flag::EXCLUDE_GUEST);
    }
}
