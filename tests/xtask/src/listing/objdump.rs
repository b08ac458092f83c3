//! The parts of objdump's output that stay the same from build to build: no addresses, hashes or distances to other
//! functions.

/// A function of the package `listing`.
pub(super) struct Listed<'a> {
    pub(super) function: &'a str,
}

/// Returns the function's instructions, none if the output does not have it.
pub(super) fn code(disassembly: &str, listed: &Listed<'_>) -> Vec<String> {
    let header = format!("<{}>:", listed.function);
    let lines = disassembly.lines().skip_while(|line| !line.ends_with(&header)).skip(1);
    let code = lines.take_while(|line| !line.is_empty());
    code.map(|line| listed.instruction(without_address(line).unwrap_or(line))).collect()
}

/// Returns the instructions of a section in an object file.
pub(super) fn table(disassembly: &str) -> Vec<String> {
    let instructions = disassembly.lines().filter_map(without_address);
    instructions.map(|line| spaced(line.split("//").next().unwrap_or(line))).collect()
}

/// Returns the address of a function in nm's output.
pub(super) fn address<'a>(symbols: &'a str, function: &str) -> Option<&'a str> {
    symbols.lines().find_map(|line| {
        let (address, symbol) = line.split_once(' ')?;
        let (kind, name) = symbol.split_once(' ')?;
        (matches!(kind, "T" | "t") && name == function).then_some(address)
    })
}

fn without_address(line: &str) -> Option<&str> {
    let (address, instruction) = line.split_once(":\t")?;
    is_hexadecimal(address.trim_start()).then_some(instruction)
}

fn is_hexadecimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns a line with a space after the mnemonic.
fn spaced(line: &str) -> String {
    line.replacen('\t', " ", 1).trim_end().to_owned()
}

/// Returns the line up to objdump's comment: `// ` and text, or `# ` and an address.
fn without_comment(line: &str) -> &str {
    let line = line.split("//").next().unwrap_or(line);
    match line.split_once("# ") {
        Some((code, comment)) if comment.starts_with(|first: char| first.is_ascii_hexdigit()) => {
            code
        }
        _ => line,
    }
}

impl Listed<'_> {
    /// Returns an instruction in the words of the listing.
    fn instruction(&self, line: &str) -> String {
        let line = spaced(without_comment(line));
        let line = self.with_target_by_name(&line).unwrap_or(line);
        self.with_slow_path_by_name(hide_address(&line))
    }

    /// Replaces `ADDRESS <NAME>` by the name, and `ADDRESS <NAME+DISTANCE>` by the distance.
    fn with_target_by_name(&self, line: &str) -> Option<String> {
        let (before, target) = line.strip_suffix('>')?.split_once(" <")?;
        let start = before.rfind([' ', ',', '\t']).map_or(0, |separator| separator + 1);
        let (before, address) = before.split_at(start);
        let name = self.name(target).filter(|_| is_hexadecimal(address))?;
        Some(format!("{before}{name}"))
    }

    fn name(&self, target: &str) -> Option<String> {
        let is_plain =
            |name: &str| name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        match target.split_once("+0x") {
            Some((name, distance)) if is_plain(name) => Some(format!("+0x{distance}")),
            None if is_plain(target) => Some(target.to_owned()),
            None if target.starts_with("_ZN5rdpmc") => {
                let (part, name) = self.slow_path()?;
                target.contains(part).then(|| name.to_owned())
            }
            _ => None,
        }
    }

    /// The one other function of the library that this one may continue in: a part of its symbol, and its name in the
    /// listing. The clock's slow path is its only jump. The count that is not in the group's pages is a read's only call.
    fn slow_path(&self) -> Option<(&'static str, &'static str)> {
        match self.function {
            "now" | "now_ordered" => Some(("now_slowly", "now_slowly")),
            "read_user" | "read_user_ordered" => Some(("15count_elsewhere", "count_elsewhere")),
            _ => None,
        }
    }

    /// Names the slow path also where its address is in memory, or in two parts.
    fn with_slow_path_by_name(&self, line: String) -> String {
        let Some((_, name)) = self.slow_path() else { return line };
        let line = line.replace("*FAR(%rip)", name);
        if name == "count_elsewhere" {
            return if has_distance(&line, "jalr ", "(ra)") {
                "jalr count_elsewhere".to_owned()
            } else {
                line
            };
        }
        if has_distance(&line, "jr ", "(t1)") {
            return format!("jr {name}");
        }
        // The only address in a clock's code is the slow path's.
        line.replace("FAR(%rip)", name).replace("FAR", name)
    }
}

/// Whether a line consists of `begin`, a distance and `end`.
fn has_distance(line: &str, begin: &str, end: &str) -> bool {
    let distance = line.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end));
    distance.is_some_and(|distance| {
        let digits = distance.trim_start_matches('-');
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Replaces an address that the linker chooses, or its parts, by `FAR`.
fn hide_address(line: &str) -> String {
    // x86-64: an address relative to the next instruction.
    let relative = line.split_once("(%rip)").and_then(|(before, after)| {
        let (kept, distance) = before.split_at(before.rfind("0x")?);
        is_hexadecimal(distance.strip_prefix("0x")?).then(|| format!("{kept}FAR(%rip){after}"))
    });
    if let Some(relative) = relative {
        return relative;
    }
    // arm64 and riscv64: the page or the upper part, then the rest.
    for (mnemonic, separator) in [("adrp ", ", "), ("auipc ", ",")] {
        let register = line.strip_prefix(mnemonic).and_then(|rest| rest.split_once(separator));
        if let Some((register, _)) = register {
            return format!("{mnemonic}{register}{separator}FAR");
        }
    }
    if line.starts_with("ldr x12, [x12, #") {
        return "ldr x12, [x12, FAR]".to_owned();
    }
    if has_distance(line, "ld t3,", "(a1)") {
        return "ld t3,FAR(a1)".to_owned();
    }
    line.to_owned()
}

#[cfg(test)]
#[path = "objdump_tests.rs"]
mod tests;
