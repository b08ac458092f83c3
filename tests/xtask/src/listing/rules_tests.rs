use super::*;

fn faults_of(architecture: Architecture, function: &str, code: &[&str]) -> Vec<String> {
    let code: Vec<String> = code.iter().map(|&line| line.to_owned()).collect();
    faults(architecture, function, &code)
}

#[test]
fn limits_and_order() {
    assert!(faults_of(X86_64, "read_user", &["ds cs rdpmc", "ret"]).is_empty());
    let long = ["nop"; 22];
    let faults = faults_of(X86_64, "read_user", &[&["rdpmc"][..], &long].concat());
    assert_eq!(faults, ["read_user has 23 instructions, more than 22"]);
    let faults = faults_of(X86_64, "read_user_ordered", &["rdpmc", "lfence"]);
    assert_eq!(faults, ["read_user_ordered has its reads and fences in the order rf, not frff"]);
    let faults = faults_of(Riscv64, "now_ordered", &["fence rw,i", "rdtime a2", "fence i,rw"]);
    assert!(faults.is_empty(), "{faults:?}");
    let faults = faults_of(Aarch64, "now_ordered", &["isb", "mrs x9, cntvct_el0", "isb"]);
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn forbidden_instructions() {
    for (architecture, forbidden, allowed) in [
        (
            X86_64,
            &[
                "call   memcpy",
                "idivq  %rcx",
                "syscall",
                "push   %r12",
                "mov    0x8(%rsp),%rax",
                "jmp    memcpy",
            ][..],
            &[
                "push   %rbx",
                "pop    %rbx",
                "call   count_elsewhere",
                "add    $0x8,%rsp",
                "jmp    now_slowly",
                "jmp    +0x30",
                "imul   %rcx",
            ][..],
        ),
        (
            Aarch64,
            &[
                "bl memcpy",
                "b memcpy",
                "udiv x0, x1, x2",
                "svc #0x0",
                "mov x29, x0",
                "ldr x0, [sp]",
                "sub sp, sp, #16",
            ],
            &[
                "str x30, [sp, #-16]!",
                "ldr x30, [sp], #16",
                "bl count_elsewhere",
                "b now_slowly",
                "b +0x50",
                "blr x15",
            ],
        ),
        (
            Riscv64,
            &[
                "jal 10f62 <memcpy>",
                "jalr ra,t1",
                "jalr -1234(ra)",
                "divu a0,a0,a1",
                "remw a0,a0,a1",
                "ecall",
                "j 10f62",
                "sd s0,0(sp)",
            ],
            &[
                "addi sp,sp,-16",
                "addi sp,sp,16",
                "sd ra,8(sp)",
                "ld ra,8(sp)",
                "jalr count_elsewhere",
                "jalr t0,t1",
                "j +0x56",
            ],
        ),
    ] {
        for instruction in forbidden {
            let found =
                is_forbidden(architecture, instruction) && !is_allowed(architecture, instruction);
            assert!(found, "{instruction}");
        }
        for instruction in allowed {
            let found =
                is_forbidden(architecture, instruction) && !is_allowed(architecture, instruction);
            assert!(!found, "{instruction}");
        }
    }
}
