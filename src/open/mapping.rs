//! Maps the control pages of open events, and decides whether user space can read them.
#![allow(unsafe_code)]

use super::events::Opened;
use crate::asm;
use crate::error::{OpenError, SyscallReason};
use crate::event::Event;
use crate::kernel::{self, Descriptor, Errno, machine};
use crate::page::Pages;
use crate::page::process::Process;
use crate::page::reader::View;

/// Returns the reason for which a control page could not be mapped.
pub(crate) fn why_not_mapped(errno: Errno) -> SyscallReason {
    match errno.0 {
        kernel::EPERM => SyscallReason::MlockLimit { kilobytes: machine::mlock_kilobytes() },
        _ => SyscallReason::NotMapped { errno },
    }
}

/// The pages of a group and the view of them, or the event that user space cannot read, and the reason.
pub(crate) type Mapped = Result<(Pages, View), (Event, SyscallReason)>;

/// Maps the pages of a group, and checks whether user space can read them.
///
/// # Errors
/// [`OpenError::Forked`] if this process is a fork of `process` by then.
pub(super) fn map_and_judge(
    events: &[Event],
    opened: &Opened,
    process: Process,
) -> Result<Mapped, OpenError> {
    let known = events.iter().find_map(|event| Some((*event, known_obstacle(*event)?)));
    if let Some(obstacle) = known {
        return Ok(Err(obstacle));
    }
    let at = |place: usize| events.get(place).copied().unwrap_or(Event::DUMMY);
    let descriptors: Vec<&Descriptor> = opened.each().collect();
    let pages = match Pages::map(&descriptors, process) {
        Ok(pages) => pages.ok_or(OpenError::Forked)?,
        Err(errno) => return Ok(Err((at(0), why_not_mapped(errno)))),
    };
    // SAFETY: the caller keeps the view beside the pages.
    Ok(match unsafe { View::of(&pages) } {
        Ok(view) => Ok((pages, view)),
        Err((place, SyscallReason::NotOffered)) => {
            let forbidden = setting_that_forbids(at(place));
            Err((at(place), forbidden.unwrap_or(SyscallReason::NotOffered)))
        }
        Err((place, obstacle)) => Err((at(place), obstacle)),
    })
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
