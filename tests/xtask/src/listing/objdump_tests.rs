use super::*;
use crate::listing::rules::Architecture::{Aarch64, Riscv64, X86_64};

#[test]
fn only_the_functions_own_lines() {
    let disassembly = "
/build/listing:     file format elf64-x86-64


Disassembly of section .text:

000000000001af80 <read_user_ordered>:
   1af80:\tnop

000000000001af90 <read_user>:
   1af90:\trdpmc
   1af92:\tor     %rax,%rsi
   1afa5:\tjb     1afb1 <read_user+0x31>
   1afa7:\tret

Disassembly of section .fini:
";
    let listed = Listed { function: "read_user" };
    let expected = ["rdpmc", "or     %rax,%rsi", "jb     +0x31", "ret"];
    assert_eq!(code(disassembly, &listed), expected);
    let missing = Listed { function: "now" };
    assert!(code(disassembly, &missing).is_empty());
}

#[test]
fn instructions_without_what_varies() {
    let elsewhere = "_ZN5rdpmc7counter7counter11Counter15count_elsewhere17hf8e6f7cc8884cc84E";
    let slowly = "_ZN5rdpmc5clock6source6Source10now_slowly17h76005cfb1dba46c4E";
    for (architecture, function, line, expected) in [
        // Calls and jumps to the slow paths.
        (X86_64, "read_user", format!("call   102e0 <{elsewhere}>"), "call   count_elsewhere"),
        (
            X86_64,
            "read_user",
            "call   *0x16e9(%rip)        # 189d18 <_GLOBAL+0xa10>".into(),
            "call   count_elsewhere",
        ),
        (
            X86_64,
            "now",
            "jmp    *0x16e986(%rip)        # 189d18 <_GLOBAL+0xa10>".into(),
            "jmp    now_slowly",
        ),
        (Aarch64, "read_user", format!("bl\t4003a8 <{elsewhere}>"), "bl count_elsewhere"),
        (Aarch64, "now", format!("b\t400490 <{slowly}>"), "b now_slowly"),
        (
            Riscv64,
            "read_user",
            format!("jalr\t-1234(ra) # 10f62 <{elsewhere}>"),
            "jalr count_elsewhere",
        ),
        (Riscv64, "now", "auipc\tt1,0xfffff".into(), "auipc t1,now_slowly"),
        (Riscv64, "now", format!("jr\t-1234(t1) # 10f62 <{slowly}>"), "jr now_slowly"),
        // A function that may not call them.
        (
            Aarch64,
            "region",
            "bl\t4003a8 <_ZN5rdpmc15count_elsewhere17hE>".into(),
            "bl 4003a8 <_ZN5rdpmc15count_elsewhere17hE>",
        ),
        (Aarch64, "region", "bl\t4003a8 <memcpy>".into(), "bl memcpy"),
        // Comments.
        (Aarch64, "region", "mov\tw0, #0x1                   \t// #1".into(), "mov w0, #0x1"),
        (Aarch64, "region", "b.eq\t404768 <region+0x30>  // b.none".into(), "b.eq +0x30"),
        (Aarch64, "region", "cbz\tx30, 40477c <region+0x44>".into(), "cbz x30, +0x44"),
        // The address of a constant.
        (
            X86_64,
            "region",
            "lea    0x16e986(%rip),%rax        # 189d18".into(),
            "lea    FAR(%rip),%rax",
        ),
        (Aarch64, "region", "adrp\tx12, 4a0000 <_DYNAMIC+0x10>".into(), "adrp x12, FAR"),
        (Aarch64, "region", "ldr\tx12, [x12, #3720]".into(), "ldr x12, [x12, FAR]"),
        (Aarch64, "region", "ldr\tx12, [x13, #3720]".into(), "ldr x12, [x13, #3720]"),
        (Riscv64, "region", "auipc\ta1,0x5f".into(), "auipc a1,FAR"),
        (Riscv64, "region", "ld\tt3,-1608(a1) # 70a88".into(), "ld t3,FAR(a1)"),
        (Riscv64, "region", "beqz\tt2,10d3a <region+0x3a>".into(), "beqz t2,+0x3a"),
    ] {
        let listed = Listed { function };
        assert_eq!(listed.instruction(&line), expected, "{architecture:?} {function}: {line}");
    }
}

#[test]
fn addresses_of_functions() {
    let symbols = "000000000001af80 T read_user\n000000000001af80 t read_user_ordered\n                 U now\n";
    assert_eq!(address(symbols, "read_user"), Some("000000000001af80"));
    assert_eq!(address(symbols, "read_user_ordered"), Some("000000000001af80"));
    assert_eq!(address(symbols, "read"), None);
    assert_eq!(address(symbols, "now"), None);
}
