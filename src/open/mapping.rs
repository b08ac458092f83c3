//! Maps the control pages of open events, and decides whether user space can read them.

use super::events::Opened;
use crate::asm;
use crate::error::{OpenError, SyscallReason};
use crate::event::Event;
use crate::kernel::{self, Errno, machine};
use crate::page::Pages;
use crate::page::monitor::Monitor;
use crate::page::process::Process;
use crate::page::reader::Reader;

/// Returns the reason for which a control page could not be mapped.
pub(crate) fn why_not_mapped(errno: Errno) -> SyscallReason {
    match errno.0 {
        kernel::EPERM => SyscallReason::MlockLimit { kilobytes: machine::mlock_kilobytes() },
        _ => SyscallReason::NotMapped { errno },
    }
}

/// Maps the pages of a group, and checks whether user space can read them. The inner error is the event that it
/// cannot read, and the reason.
///
/// # Errors
/// [`OpenError::Forked`] if this process is a fork of `process` by then.
pub(super) fn map_and_judge<const N: usize>(
    events: &[Event; N],
    opened: &Opened,
    process: Process,
    monitor: Monitor,
) -> Result<Result<Reader<N>, (Event, SyscallReason)>, OpenError> {
    let [first, ..] = events.as_slice() else {
        return Ok(Err((Event::DUMMY, SyscallReason::NotOffered)));
    };
    if let Some(obstacle) = events.iter().find_map(|event| Some((*event, known_obstacle(*event)?)))
    {
        return Ok(Err(obstacle));
    }
    let pages = match Pages::map(opened.each(), process, monitor) {
        Ok(pages) => pages.ok_or(OpenError::Forked)?,
        Err(errno) => return Ok(Err((*first, why_not_mapped(errno)))),
    };
    Ok(Reader::new(pages).map_err(|(place, obstacle)| {
        let event = events.get(place).copied().unwrap_or(*first);
        match obstacle {
            SyscallReason::NotOffered => (event, setting_that_forbids(event).unwrap_or(obstacle)),
            obstacle => (event, obstacle),
        }
    }))
}

/// Returns why user space cannot read this event, as far as that is known without its page.
fn known_obstacle(event: Event) -> Option<SyscallReason> {
    if event.is_software() {
        Some(SyscallReason::SoftwareEvent)
    } else if event.is_not_in_its_register() {
        Some(SyscallReason::NotInItsRegister)
    } else if !asm::FIXED_WHEN_MAPPED {
        // The page does not show whether user access is allowed.
        setting_that_forbids(event)
    } else {
        None
    }
}

/// Returns the administrator's setting, if it forbids user access to this event.
pub(crate) fn setting_that_forbids(event: Event) -> Option<SyscallReason> {
    let (setting, value) = machine::user_access()?;
    // On riscv64, the value 2 lets all processes always read the registers of cycles and instructions, and no others.
    // The kernel still publishes an index for other events.
    let fixed = matches!(event.bare(), Event::CYCLES | Event::INSTRUCTIONS);
    let off = value == 0 || (cfg!(target_arch = "riscv64") && value == 2 && !fixed);
    off.then_some(SyscallReason::SwitchedOff { setting, value })
}
