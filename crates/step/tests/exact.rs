//! Code of known size is counted exactly, whatever happens meanwhile.
#![allow(missing_docs)]
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64"))]
#![allow(clippy::unwrap_used)]

use rdpmc_step::{StepError, count};
use std::arch::asm;

fn of(rounds: u64, code: impl Fn(u64)) -> i64 {
    count(1_000_000, || code(rounds)).unwrap() as i64
}

/// Instructions of a round, by the difference of 10 and 20.
fn per_round(code: impl Fn(u64)) -> i64 {
    of(1, &code);
    let (few, many) = (of(10, &code), of(20, &code));
    assert_eq!((many - few) % 10, 0);
    (many - few) / 10
}

#[test]
fn all() {
    let loops = |rounds: u64| unsafe {
        asm!("2: dec {0}", "jnz 2b", inout(reg) rounds => _, options(nomem, nostack));
    };
    assert_eq!(per_round(loops), 2);
    let calls = |rounds: u64| unsafe {
        asm!("2: mov eax, 39", "syscall", "dec {0}", "jnz 2b", inout(reg) rounds => _, out("rax") _, out("rcx") _, out("r11") _, options(nostack));
    };
    assert_eq!(per_round(calls), 4, "a system call");
    let twice = |rounds: u64| unsafe {
        asm!("2: mov eax, 39", "syscall", "mov eax, 39", "syscall", "syscall", "dec {0}", "jnz 2b", inout(reg) rounds => _, out("rax") _, out("rcx") _, out("r11") _, options(nostack));
    };
    assert_eq!(per_round(twice), 7, "two system calls in a row");
    let (from, mut to) = ([1_u8; 100], [0_u8; 100]);
    let place = to.as_mut_ptr() as usize;
    let copies = |rounds: u64| unsafe {
        asm!("2: mov rsi, {from}", "mov rdi, {to}", "mov ecx, 100", "rep movsb", "dec {0}", "jnz 2b",
            inout(reg) rounds => _, from = in(reg) from.as_ptr(), to = in(reg) place, out("rsi") _, out("rdi") _, out("rcx") _, options(nostack));
    };
    assert_eq!(per_round(copies), 6, "rep movsb");
    let none = |rounds: u64| unsafe {
        asm!("2: mov ecx, 0", "rep movsb", "rep movsw", "dec {0}", "jnz 2b",
            inout(reg) rounds => _, out("rcx") _, in("rsi") from.as_ptr(), in("rdi") place, options(nostack));
    };
    assert_eq!(per_round(none), 5, "rep movsb of nothing");
    let pushes = |rounds: u64| unsafe {
        asm!("2: pushfq", "popfq", "dec {0}", "jnz 2b", inout(reg) rounds => _);
    };
    assert_eq!(per_round(pushes), 4, "pushfq");
    assert!(matches!(count(100, || loops(1_000)), Err(StepError::TooLong { limit: 100, .. })));
}
