//! The kernel moves the event to another register in the middle of a read.

use super::{Entry, open};
use crate::harness::{Facts, Outcome, Stop, require, skip};
use crate::kernels::countdown;
use crate::machine::{pin_an_event_on, read_event};
use crate::process::{perf_descriptors, wait};
use rdpmc::Event;
use std::hint::black_box;

pub const ALL: &[Entry] = &[("moved_after_every_instruction", moved_after_every_instruction)];

/// A traced child reads its counter. Its parent lets it take some single steps, pins an event on it,
/// which takes the register that the child's event had, and lets it go. So the move comes after
/// every instruction of the read in turn.
fn moved_after_every_instruction(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    if cfg!(target_arch = "riscv64") {
        return skip("Linux does not single-step riscv64");
    }
    // From the stop to the end of the read it is less than a hundred; where the steps end within
    // the read it never ends by itself, as each of them is a switch and moves `lock`.
    for steps in 0..STEPS {
        // SAFETY: this process has one thread.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let status = i32::from(!traced_read().unwrap_or(false));
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(status) };
        }
        require(libc::WIFSTOPPED(wait(child)), || "the child did not stop".into())?;
        for _ in 0..steps {
            step(child)?;
        }
        if steps == STEPS - 1 {
            // So many steps lead into the loop of the read.
            let mut places = Vec::new();
            for _ in 0..100 {
                step(child)?;
                places.push(instruction_pointer(child));
            }
            places.sort_unstable();
            places.dedup();
            require(places.len() < 30, || format!("{} places in 100 steps", places.len()))?;
        }
        let pinned = pin_an_event_on(child);
        trace(libc::PTRACE_CONT, child)?;
        let status = wait(child);
        require(status == 0, || format!("wait status {status:#x}, moved after {steps} steps"))?;
        drop(pinned);
    }
    Ok(())
}

const STEPS: u32 = 200;

fn step(child: libc::pid_t) -> Outcome {
    trace(libc::PTRACE_SINGLESTEP, child)?;
    require(libc::WIFSTOPPED(wait(child)), || "the child came to its end".into())
}

/// Where a stopped child is.
fn instruction_pointer(child: libc::pid_t) -> u64 {
    /// `NT_PRSTATUS`: the general registers, in the order of the architecture's user_regs.
    const GENERAL: u64 = 1;
    const PLACE: usize = if cfg!(target_arch = "aarch64") { 32 } else { 16 };
    let mut registers = [0u64; 64];
    let mut vector =
        libc::iovec { iov_base: registers.as_mut_ptr().cast(), iov_len: size_of_val(&registers) };
    // SAFETY: the kernel writes at most the length that the vector says.
    let result = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, child, GENERAL, &raw mut vector) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    registers[PLACE]
}

fn trace(request: libc::c_uint, child: libc::pid_t) -> Outcome {
    // SAFETY: concerns our own stopped child; no address, no signal.
    let result = unsafe { libc::ptrace(request as _, child, 0_u64, 0_u64) };
    if result == 0 {
        Ok(())
    } else {
        Err(Stop::Failed(std::io::Error::last_os_error().to_string()))
    }
}

/// Stops for the parent, then reads; whether the count fits in with what the kernel says.
#[inline(never)]
fn traced_read() -> Result<bool, rdpmc::Error> {
    let counter = open(Event::INSTRUCTIONS)?;
    let descriptor = *perf_descriptors().last().expect("one is open");
    // A count that is far from that of a register which has just begun.
    countdown(black_box(1_000_000));
    let [before, ..] = read_event(descriptor);
    // SAFETY: stops this process until its parent lets it go on.
    unsafe {
        libc::ptrace(libc::PTRACE_TRACEME, 0, 0_u64, 0_u64);
        libc::raise(libc::SIGSTOP);
    }
    let count = counter.read_user();
    let [after, ..] = read_event(descriptor);
    Ok(count.is_some_and(|count| before <= count && count <= after))
}
