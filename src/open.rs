//! From an event to its descriptor: what is asked of the kernel, and what its refusal means here.

use crate::error::Error;
use crate::event::Event;
use crate::machine;
use crate::sys::{self, ATTR_SIZES, Attr, Descriptor, Errno, arm64_config1, flag, format};

/// How to open a counter: from [`Counter::builder`](crate::Counter::builder).
///
/// What cannot be chosen: the counter is of the calling thread, on whatever processor it runs, is
/// not inherited by its children and does not survive `exec`. For anything else a read from user
/// space could be silently wrong.
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
pub struct Builder {
    event: Event,
    flags: u64,
    allow_unfiltered: bool,
}

/// The privilege levels left out when nothing is said: all but user mode. Not idle: this thread
/// is not the idle one, and arm64 refuses the bit.
const USER_ONLY: u64 = flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV;
/// Everything that filters by privilege.
const FILTER: u64 = flag::EXCLUDE_USER | flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV;

impl Builder {
    pub(crate) fn new(event: Event) -> Builder {
        let flags = if event.happens_in_the_kernel() { 0 } else { USER_ONLY };
        Builder { event, flags, allow_unfiltered: false }
    }

    fn set(self, flag: u64, on: bool) -> Builder {
        let flags = if on { self.flags | flag } else { self.flags & !flag };
        Builder { flags, ..self }
    }

    /// Leaves out user mode (`exclude_user`). Default: false. With the kernel left out as well, as
    /// it is unless told otherwise, nothing is left to count.
    pub fn exclude_user(self, exclude: bool) -> Builder {
        self.set(flag::EXCLUDE_USER, exclude)
    }

    /// Leaves out the kernel (`exclude_kernel`). Default: true, but for the three events that happen
    /// in the kernel only, such as [`Event::CONTEXT_SWITCHES`]. Counting it needs
    /// `kernel.perf_event_paranoid` 1 or less, or `CAP_PERFMON`.
    pub fn exclude_kernel(self, exclude: bool) -> Builder {
        self.set(flag::EXCLUDE_KERNEL, exclude)
    }

    /// Leaves out the hypervisor (`exclude_hv`). Default: as for the kernel. x86-64 ignores it.
    pub fn exclude_hypervisor(self, exclude: bool) -> Builder {
        self.set(flag::EXCLUDE_HV, exclude)
    }

    /// Leaves out idle time (`exclude_idle`). Default: false: a thread's own counter sees none,
    /// and arm64 refuses to be asked.
    pub fn exclude_idle(self, exclude: bool) -> Builder {
        self.set(flag::EXCLUDE_IDLE, exclude)
    }

    /// Always on the PMU or not at all (`pinned`): the event takes no turns with others; if there
    /// is no counter for it, it goes into error state and reads are [`Error::ErrorState`].
    /// Default: false.
    pub fn pinned(self, pinned: bool) -> Builder {
        self.set(flag::PINNED, pinned)
    }

    /// Alone on the PMU when it is there (`exclusive`). Default: false.
    pub fn exclusive(self, exclusive: bool) -> Builder {
        self.set(flag::EXCLUSIVE, exclusive)
    }

    /// Counts from [`Counter::enable`](crate::Counter::enable) on rather than from the start
    /// (`disabled`). Default: false.
    pub fn disabled(self, disabled: bool) -> Builder {
        self.set(flag::DISABLED, disabled)
    }

    /// Where the PMU cannot tell privilege levels apart (riscv64 without the Sscofpmf extension),
    /// counts all of them rather than failing with [`Error::NoPrivilegeFilter`].
    /// [`Counter::is_unfiltered`](crate::Counter::is_unfiltered) says whether it came to that.
    /// Default: false.
    pub fn allow_unfiltered(self, allow: bool) -> Builder {
        Builder { allow_unfiltered: allow, ..self }
    }

    /// The event to be counted.
    pub(crate) fn event(&self) -> Event {
        self.event
    }

    /// Opens the event: one system call where the first thing asked is granted, a few otherwise.
    pub(crate) fn open_event(&self) -> Result<Opened, Error> {
        if !sys::SUPPORTED {
            return Err(Error::Unsupported);
        }
        let refusal = match self.ask(self.flags) {
            Ok(descriptor) => return Ok(Opened { descriptor, unfiltered: false }),
            Err(refusal) => refusal,
        };
        let filtered = self.flags & FILTER != 0 && !self.event.is_counted_by_the_kernel();
        if !(filtered && matches!(refusal.errno.0, sys::EINVAL | sys::EOPNOTSUPP)) {
            return Err(self.diagnose(refusal));
        }
        // Was it the filter? Only the same question without one tells.
        match self.ask(self.flags & !FILTER) {
            Ok(descriptor) if self.allow_unfiltered => Ok(Opened { descriptor, unfiltered: true }),
            Ok(_) => Err(Error::NoPrivilegeFilter { event: self.event }),
            // This process may not ask it. An event that every PMU has, with the same filter, tells.
            Err(forbidden @ Refusal { errno: Errno(sys::EACCES | sys::EPERM), .. })
                if self.event.is_of_the_core()
                    && perf_event_open(Event::CYCLES, 0, self.flags & FILTER)
                        .is_err_and(|cycles| cycles.errno == refusal.errno) =>
            {
                if self.allow_unfiltered {
                    let unfiltered = Builder { flags: self.flags & !FILTER, ..*self };
                    return Err(unfiltered.diagnose(forbidden));
                }
                Err(Error::NoPrivilegeFilter { event: self.event })
            }
            Err(_) => Err(self.diagnose(refusal)),
        }
    }

    /// Asks for the most useful form of the event that the kernel grants.
    fn ask(&self, flags: u64) -> Result<Descriptor, Refusal> {
        let mut refusal = None;
        for &config1 in self.forms() {
            match perf_event_open(self.event, self.event.config1 | config1, flags) {
                Err(again @ Refusal { errno: Errno(sys::EINVAL | sys::EOPNOTSUPP), .. }) => {
                    refusal = Some(again);
                }
                other => return other,
            }
        }
        // There is always a form, so there is an answer.
        Err(refusal.unwrap_or(Refusal { errno: Errno(sys::EINVAL), needed: 0, known: 0 }))
    }

    /// The values of `config1` to try in turn. On arm64 user access has to be asked for there,
    /// and a 64-bit counter, which not every event on every processor can have.
    fn forms(&self) -> &'static [u64] {
        const ARM64: &[u64] =
            &[arm64_config1::USER_ACCESS | arm64_config1::LONG, arm64_config1::USER_ACCESS, 0];
        let asks = cfg!(target_arch = "aarch64")
            && self.event.config1 == 0
            && !self.event.is_counted_by_the_kernel()
            // To another PMU these bits may mean anything.
            && (self.event.is_of_the_core() || machine::pmu_has_format(self.event.kind, "rdpmc"));
        if asks { ARM64 } else { &[0] }
    }

    /// What a refusal comes to on this machine.
    fn diagnose(&self, refusal: Refusal) -> Error {
        let event = self.event;
        let Errno(errno) = refusal.errno;
        match errno {
            sys::ENOENT | sys::ENODEV | sys::EOPNOTSUPP
                if event.is_of_the_core() && machine::has_core_pmu() == Some(false) =>
            {
                Error::NoPmu { event, is_virtual: machine::is_virtual() }
            }
            sys::EACCES | sys::EPERM | sys::ENOSYS => self.diagnose_permission(errno),
            sys::EMFILE => Error::TooManyDescriptors { of_the_machine: false },
            sys::ENFILE => Error::TooManyDescriptors { of_the_machine: true },
            sys::EBUSY => Error::Busy { event },
            sys::E2BIG => Error::TooNewForKernel { needed: refusal.needed, known: refusal.known },
            sys::ENOENT | sys::ENODEV | sys::EINVAL | sys::EOPNOTSUPP | sys::ENOSPC => {
                Error::EventNotSupported { event, errno }
            }
            errno => Error::System { call: "perf_event_open", errno },
        }
    }

    /// Who refused: the paranoid level (always by `EACCES`), a seccomp filter, or another.
    fn diagnose_permission(&self, errno: i32) -> Error {
        let allowed = if self.flags & flag::EXCLUDE_KERNEL != 0 { 2 } else { 1 };
        match machine::paranoid_level() {
            Some(level) if errno == sys::EACCES && level > allowed && !machine::is_privileged() => {
                Error::Paranoid { level, allowed }
            }
            _ if machine::has_seccomp_filter() => Error::Seccomp { errno },
            _ if errno == sys::ENOSYS => Error::NoSystemCall,
            _ => Error::Denied { errno },
        }
    }
}

/// An open event.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) descriptor: Descriptor,
    /// The filter asked for was dropped: all privilege levels count.
    pub(crate) unfiltered: bool,
}

/// The kernel's no.
struct Refusal {
    errno: Errno,
    /// The size of the attr that was passed.
    needed: u32,
    /// The size that the kernel wrote back.
    known: u32,
}

fn perf_event_open(event: Event, config1: u64, flags: u64) -> Result<Descriptor, Refusal> {
    let mut attr = Attr {
        type_: event.kind,
        config: event.config,
        config1,
        config2: event.config2,
        config3: event.config3,
        config4: event.config4,
        read_format: format::TOTAL_TIME_ENABLED | format::TOTAL_TIME_RUNNING,
        flags,
        ..Attr::default()
    };
    let needed = smallest_size(&attr);
    attr.size = needed;
    sys::open(&mut attr).map_err(|errno| Refusal { errno, needed, known: attr.size })
}

/// The first size of the ladder that carries what is set, so that older kernels accept it.
fn smallest_size(attr: &Attr) -> u32 {
    let [first, with_config2, .., with_config3, with_config4] = ATTR_SIZES;
    match attr {
        Attr { config4: 1.., .. } => with_config4,
        Attr { config3: 1.., .. } => with_config3,
        Attr { config2: 1.., .. } => with_config2,
        _ => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_the_smallest_that_carries_what_is_set() {
        let none = Attr::default();
        assert_eq!(smallest_size(&Attr { config: 1, config1: 1, ..none }), 64);
        assert_eq!(smallest_size(&Attr { config2: 1, ..none }), 72);
        assert_eq!(smallest_size(&Attr { config2: 1, config3: 1, ..none }), 136);
        assert_eq!(smallest_size(&Attr { config4: u64::MAX, ..none }), 144);
    }

    #[test]
    fn user_mode_alone_unless_told_otherwise() {
        let builder = Builder::new(Event::CYCLES);
        assert_eq!(builder.flags, flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV);
        let everything = builder.exclude_kernel(false).exclude_hypervisor(false);
        assert_eq!(everything.flags, 0);
        let all = builder.exclude_user(true).exclude_idle(true).pinned(true).exclusive(true);
        let others = flag::EXCLUDE_IDLE | flag::PINNED | flag::EXCLUSIVE | flag::DISABLED;
        assert_eq!(all.disabled(true).flags, FILTER | others);
        assert_eq!(Builder::new(Event::CONTEXT_SWITCHES).flags, 0);
    }
}
