//! What the code of the hot path must not exceed or have.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Architecture {
    X86_64,
    Aarch64,
    Riscv64,
}

use Architecture::{Aarch64, Riscv64, X86_64};

impl Architecture {
    pub(super) const ALL: [Architecture; 3] = [X86_64, Aarch64, Riscv64];

    /// The name in file names and in those of the compilers.
    pub(super) fn name(self) -> &'static str {
        match self {
            X86_64 => "x86_64",
            Aarch64 => "aarch64",
            Riscv64 => "riscv64",
        }
    }

    pub(super) fn triple(self) -> &'static str {
        match self {
            X86_64 => "x86_64-unknown-linux-gnu",
            Aarch64 => "aarch64-unknown-linux-gnu",
            Riscv64 => "riscv64gc-unknown-linux-gnu",
        }
    }
}

/// The maximum number of instructions, including the exit without a count and the return. Then the order of the reads (r)
/// of a counter or of the ticks, and of the fences (f).
///
/// `read_user_ordered` has two last fences: one is on the path of a counter on several core types.
fn limits(architecture: Architecture, function: &str) -> (usize, &'static str) {
    match (architecture, function) {
        (X86_64, "read_user") => (22, "r"),
        (X86_64, "read_user_ordered") => (28, "frff"),
        (X86_64, "group_of_four") => (54, "rrrr"),
        (X86_64, "group_of_four_ordered") => (58, "frrrrf"),
        (X86_64, "region") => (52, "rr"),
        (X86_64, "region_ordered") => (56, "frffrf"),
        (X86_64, "now") => (21, "r"),
        (X86_64, "now_ordered") => (23, "frf"),
        (Aarch64, "read_user") => (20, "r"),
        (Aarch64, "read_user_ordered") => (23, "frff"),
        (Aarch64, "group_of_four") => (56, "rrrr"),
        (Aarch64, "group_of_four_ordered") => (63, "frrrrf"),
        (Aarch64, "region") => (39, "rr"),
        (Aarch64, "region_ordered") => (43, "frffrf"),
        (Aarch64, "now") => (25, "r"),
        (Aarch64, "now_ordered") => (27, "frf"),
        (Riscv64, "read_user" | "read_user_ordered") => (30, "r"),
        (Riscv64, "group_of_four" | "group_of_four_ordered") => (69, "rrrr"),
        (Riscv64, "region" | "region_ordered") => (53, "rr"),
        (Riscv64, "now") => (25, "r"),
        (Riscv64, "now_ordered") => (27, "frf"),
        // A function that is missing above fails.
        _ => (0, ""),
    }
}

/// Returns which rules a function breaks.
pub(super) fn faults(architecture: Architecture, function: &str, code: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    let (limit, order) = limits(architecture, function);
    if code.len() > limit {
        faults.push(format!("{function} has {} instructions, more than {limit}", code.len()));
    }
    let found: String = code.iter().filter_map(|instruction| read_or_fence(instruction)).collect();
    if found != order {
        faults
            .push(format!("{function} has its reads and fences in the order {found}, not {order}"));
    }
    let forbidden: Vec<&str> = code
        .iter()
        .filter(|line| is_forbidden(architecture, line) && !is_allowed(architecture, line))
        .map(String::as_str)
        .collect();
    if !forbidden.is_empty() {
        let listed = forbidden.join("\n    ");
        faults.push(format!("{function} has these forbidden instructions:\n    {listed}"));
    }
    faults
}

fn read_or_fence(instruction: &str) -> Option<char> {
    // The prefixes by which the handler of faults knows a read.
    let (mnemonic, operands) = parts(instruction.strip_prefix("ds cs ").unwrap_or(instruction));
    match mnemonic {
        "rdpmc" | "rdtsc" | "blr" | "rdtime" => Some('r'),
        "jalr" if operands.starts_with("t0") => Some('r'),
        "mrs" if operands.ends_with(", cntvct_el0") => Some('r'),
        "lfence" | "isb" | "fence" => Some('f'),
        _ => None,
    }
}

/// Returns the mnemonic and the operands.
fn parts(instruction: &str) -> (&str, &str) {
    let (mnemonic, operands) = instruction.split_once(' ').unwrap_or((instruction, ""));
    (mnemonic, operands.trim_start())
}

/// Whether an instruction is a call, a jump to another function (except the branch to the counter's instruction: arm64's
/// blr, riscv64's jalr t0), a division, a system call, or uses the stack.
fn is_forbidden(architecture: Architecture, instruction: &str) -> bool {
    let (mnemonic, operands) = parts(instruction);
    // Also with a suffix, for the size of the operands for example.
    let is_one_of = |mnemonics: &[&str]| mnemonics.iter().any(|one| mnemonic.starts_with(one));
    let leaves = !operands.starts_with('+');
    match architecture {
        X86_64 => {
            is_one_of(&["call", "idiv", "div", "syscall", "sysenter", "int", "push", "pop"])
                || is_one_of(&["jmp"]) && leaves
                || instruction.contains("%rsp")
                || instruction.contains("%rbp")
        }
        Aarch64 => {
            matches!(mnemonic, "bl" | "udiv" | "sdiv" | "svc")
                || mnemonic == "b" && leaves
                || instruction.contains("x29")
                || instruction.contains("sp]")
                || instruction.contains("sp,")
        }
        Riscv64 => {
            is_one_of(&["call", "tail", "div", "rem", "ecall"])
                || mnemonic == "jal"
                || mnemonic == "jalr" && !operands.starts_with("t0")
                || mnemonic == "j" && leaves
                || instruction.contains("sp)")
                || instruction.contains("sp,")
        }
    }
}

/// Whether an instruction saves or restores a register that belongs to the caller, leads to the clock's slow path, or calls
/// `count_elsewhere` for counters on several core types and for mocks.
fn is_allowed(architecture: Architecture, instruction: &str) -> bool {
    let allowed: &[(&str, &str)] = match architecture {
        X86_64 => &[
            ("push", "%rbx"),
            ("pop", "%rbx"),
            ("push", "%rax"),
            ("pop", "%rcx"),
            ("add", "$0x8,%rsp"),
            ("call", "count_elsewhere"),
            ("jmp", "now_slowly"),
        ],
        Aarch64 => &[
            ("str", "x30, [sp, #-16]!"),
            ("ldr", "x30, [sp], #16"),
            ("bl", "count_elsewhere"),
            ("b", "now_slowly"),
        ],
        Riscv64 => &[
            ("addi", "sp,sp,-16"),
            ("addi", "sp,sp,16"),
            ("sd", "ra,8(sp)"),
            ("ld", "ra,8(sp)"),
            ("jalr", "count_elsewhere"),
        ],
    };
    allowed.contains(&parts(instruction))
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
