//! Maps the control pages of open events, and decides whether user space can read them.
#![allow(unsafe_code)]

use super::events::Opened;
use crate::asm;
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::kernel::{self, Descriptor, Errno, machine};
use crate::page::Pages;
use crate::page::process::Process;
use crate::page::reader::View;

/// Returns the reason for which a control page could not be mapped.
pub(crate) fn why_not_mapped(errno: Errno) -> Error {
    if errno.0 == kernel::EPERM {
        let limit = machine::mlock_kilobytes()
            .map(|limit| format!(" (kernel.perf_event_mlock_kb is {limit} KiB per CPU)"));
        return Error::new(
            ErrorKind::MlockLimit,
            "the control page cannot be mapped, because the user's limit of locked memory is reached{0}",
            "Raise it or `ulimit -l`, give the program CAP_IPC_LOCK, or open fewer counters",
        )
        .with(&limit.unwrap_or_default());
    }
    let remedy = match errno.0 {
        kernel::ENOMEM => "Free memory or mappings, then open the counter again",
        kernel::EAGAIN => {
            "This process locks all its memory and may lock no more, so raise `ulimit -l`"
        }
        kernel::EEXIST => "Other threads took the chosen addresses, so open the counter again",
        _ => "Check the security module's log, or report it with the kernel's version",
    };
    let error =
        Error::new(ErrorKind::NotMapped, "the control page cannot be mapped ({errno})", remedy);
    error.errno_is(errno)
}

/// The pages of a group and the view of them, or the event that user space cannot read, and the reason.
pub(crate) type Mapped = Result<(Pages, View), (Event, Error)>;

/// Maps the pages of a group, and checks whether user space can read them.
///
/// # Errors
/// [`ErrorKind::Forked`] if this process is a fork of `process` by then.
pub(super) fn map_and_judge(
    events: &[Event],
    opened: &Opened,
    process: Process,
) -> Result<Mapped, Error> {
    let known = events.iter().find_map(|event| Some((*event, known_obstacle(*event)?)));
    if let Some(obstacle) = known {
        return Ok(Err(obstacle));
    }
    let at = |place: usize| events.get(place).copied().unwrap_or(Event::DUMMY);
    let descriptors: Vec<&Descriptor> = opened.each().collect();
    let pages = match Pages::map(&descriptors, process) {
        Ok(pages) => pages.ok_or_else(Error::forked_meanwhile)?,
        Err(errno) => return Ok(Err((at(0), why_not_mapped(errno)))),
    };
    // SAFETY: both callers keep the two in one `OpenGroup` of these events.
    Ok(match unsafe { View::of_pages(&pages) } {
        Ok(view) => Ok((pages, view)),
        Err((place, why)) => {
            let is_offered = why.kind() != ErrorKind::NotOffered;
            let forbidden = if is_offered { None } else { setting_that_forbids(at(place)) };
            Err((at(place), forbidden.unwrap_or(why)))
        }
    })
}

/// Returns why user space cannot read this event, as far as that is known without its page.
fn known_obstacle(event: Event) -> Option<Error> {
    if event.is_software() {
        let cause = "the kernel counts this event in software";
        Some(Error::new(ErrorKind::SoftwareEvent, cause, "No action needed"))
    } else if event.is_not_in_its_register() {
        Some(Error::not_in_its_register())
    } else if !asm::FIXED_WHEN_MAPPED {
        // The page does not show whether user access is allowed.
        setting_that_forbids(event)
    } else {
        None
    }
}

/// Returns the administrator's setting, if it forbids user access to this event.
pub(crate) fn setting_that_forbids(event: Event) -> Option<Error> {
    let (setting, value) = machine::user_access()?;
    // On riscv64, the value 2 lets all processes always read the registers of cycles and instructions, and no others.
    // The kernel still publishes an index for other events.
    let fixed = matches!(event.bare(), Event::CYCLES | Event::INSTRUCTIONS);
    let off = value == 0 || (cfg!(target_arch = "riscv64") && value == 2 && !fixed);
    let error = Error::new(
        ErrorKind::SwitchedOff,
        "user access is disabled ({0} is {1})",
        "Run `echo 1 > {0}` as root, then open the counter again",
    );
    off.then(|| error.with(&setting).with(&value))
}
