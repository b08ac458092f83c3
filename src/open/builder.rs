//! What can be chosen of a counter before it is opened.

use super::options::Options;
use crate::kernel::flag;

/// How to open a counter or a group of them: from
/// [`Counter::builder`](crate::Counter::builder), where `E` is the [`Event`](crate::Event), or
/// [`Group::builder`](crate::Group::builder), where it is an array of events.
///
/// What cannot be chosen: the counter is of the calling thread, on whatever processor it runs, is
/// not inherited by its children and does not survive `exec`. For anything else a read from user
/// space could be silently wrong. What an event's own [modifiers](crate::Event#names)
/// say takes precedence over what is said here.
///
/// ```
/// use rdpmc::{Counter, Event};
///
/// match Counter::builder(Event::PAGE_FAULTS).disabled(true).open() {
///     Ok(faults) => assert_eq!(faults.read(), Ok(0)),
///     Err(why) => println!("{why}"), // e.g. a container's seccomp filter
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

    /// The same of something else.
    pub(crate) fn of<F>(self, events: F) -> Builder<F> {
        Builder { events, options: self.options }
    }

    fn set(self, flag: u64, on: bool) -> Builder<E> {
        Builder { options: self.options.with(flag, on), ..self }
    }

    /// Leaves out user mode (`exclude_user`). Default: false. Include the kernel at the same time, with
    /// [`exclude_kernel(false)`](Builder::exclude_kernel). Otherwise nothing is left to count, and opening
    /// fails with [`OpenError::CountsNothing`](crate::error::OpenError::CountsNothing).
    pub fn exclude_user(self, exclude: bool) -> Builder<E> {
        self.set(flag::EXCLUDE_USER, exclude)
    }

    /// Leaves out the kernel (`exclude_kernel`). Default: true, but for the three events that happen in the
    /// kernel only, such as [`Event::CONTEXT_SWITCHES`](crate::Event::CONTEXT_SWITCHES), and for tracepoints,
    /// most of which do as well. Counting it needs
    /// `kernel.perf_event_paranoid` 1 or less, or `CAP_PERFMON`.
    pub fn exclude_kernel(self, exclude: bool) -> Builder<E> {
        self.set(flag::EXCLUDE_KERNEL, exclude)
    }

    /// Leaves out the hypervisor (`exclude_hv`). Default: as for the kernel. x86-64 ignores it.
    pub fn exclude_hypervisor(self, exclude: bool) -> Builder<E> {
        self.set(flag::EXCLUDE_HV, exclude)
    }

    /// Leaves out virtual machines that this thread runs (`exclude_guest`). Default: true for hardware
    /// events, on PMUs that have the flag. Include guests only if this thread is a VM's virtual CPU: since
    /// Linux 7.0 such an event keeps VMs with a mediated PMU from starting, and opening it fails with
    /// [`Error::IncludesGuests`](crate::Error::IncludesGuests) while one runs.
    pub fn exclude_guest(self, exclude: bool) -> Builder<E> {
        self.set(flag::EXCLUDE_GUEST, exclude)
    }

    /// Leaves out this machine itself (`exclude_host`). Default: false. Include guests at the same time, with
    /// [`exclude_guest(false)`](Builder::exclude_guest), as a name with `:G` does. Otherwise nothing is left to
    /// count.
    pub fn exclude_host(self, exclude: bool) -> Builder<E> {
        self.set(flag::EXCLUDE_HOST, exclude)
    }

    /// Leaves out idle time (`exclude_idle`). Default: false: a thread's own counter sees none,
    /// and arm64 refuses to be asked.
    pub fn exclude_idle(self, exclude: bool) -> Builder<E> {
        self.set(flag::EXCLUDE_IDLE, exclude)
    }

    /// Always on the PMU or not at all (`pinned`): the event or group takes no turns with others; if there
    /// is no counter for it, it goes into error state and reads are
    /// [`Error::ErrorState`](crate::Error::ErrorState). Default: false.
    pub fn pinned(self, pinned: bool) -> Builder<E> {
        self.set(flag::PINNED, pinned)
    }

    /// Alone on the PMU when it is there (`exclusive`). Default: false.
    pub fn exclusive(self, exclusive: bool) -> Builder<E> {
        self.set(flag::EXCLUSIVE, exclusive)
    }

    /// Counts from [`Counter::enable`](crate::Counter::enable) on rather than from the start
    /// (`disabled`). Default: false.
    pub fn disabled(self, disabled: bool) -> Builder<E> {
        self.set(flag::DISABLED, disabled)
    }

    /// Where the PMU cannot tell privilege levels apart (riscv64 without the Sscofpmf extension), counts
    /// all of them rather than failing with [`Error::NoPrivilegeFilter`](crate::Error::NoPrivilegeFilter).
    /// [`Counter::is_unfiltered`](crate::Counter::is_unfiltered) says whether it came to that. Default:
    /// false.
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
            (none.exclude_idle(true), flag::EXCLUDE_IDLE),
            (none.pinned(true), flag::PINNED),
            (none.exclusive(true), flag::EXCLUSIVE),
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
