//! Compares `src/kernel/abi.rs` with the installed `linux/perf_event.h`, or with the one in the directory
//! `RDPMC_KERNEL_HEADERS`.
//!
//! A C program prints every offset, size and constant that the header has, and each must equal ours. What the header
//! lacks is printed, and must be newer than the header.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use super::skips;

#[cfg(not(target_os = "linux"))]
#[test]
fn the_header_agrees() {
    skips::skip("the_header_agrees", "no linux/perf_event.h here");
}

#[cfg(target_os = "linux")]
mod header {
    use super::skips;
    use crate::kernel;
    use crate::kernel::{Attr, ControlPage};
    use std::collections::HashMap;
    use std::fmt::Write as _;
    use std::fs;
    use std::mem::{offset_of, size_of};
    use std::path::Path;
    use std::process::Command;

    /// An item that the header should have: a C expression, its value here, and the Linux version that added it, if
    /// that is after 4.0.
    struct Item {
        expression: String,
        value: u64,
        since: (u32, u32),
    }

    const LONG_AGO: (u32, u32) = (4, 0);

    fn items() -> Vec<Item> {
        let mut items = Vec::new();
        let mut add = |expression: String, value: u64, since| {
            items.push(Item { expression, value, since });
        };

        // Structures: the offset and the size of each field, by its name in C.
        macro_rules! fields {
            ($rust:ty, $c:literal: $($field:ident = $name:literal $(since $since:expr)?),* $(,)?) => {$(
                #[allow(unused_mut, unused_assignments)]
                let mut since = LONG_AGO;
                $(since = $since;)?
                let size = {
                    fn size<T, F>(_: fn(&T) -> &F) -> usize { size_of::<F>() }
                    size(|whole: &$rust| &whole.$field)
                };
                add(format!("offsetof(struct {}, {})", $c, $name), offset_of!($rust, $field) as u64, since);
                add(format!("sizeof(((struct {} *)0)->{})", $c, $name), size as u64, since);
            )*};
        }
        fields!(Attr, "perf_event_attr":
            type_ = "type", size = "size", config = "config", sample_period = "sample_period",
            sample_period = "sample_freq", sample_type = "sample_type", read_format = "read_format",
            wakeup_events = "wakeup_events", wakeup_events = "wakeup_watermark", bp_type = "bp_type",
            config1 = "config1", config1 = "bp_addr", config1 = "kprobe_func" since (4, 17),
            config1 = "uprobe_path" since (4, 17), config2 = "config2", config2 = "bp_len",
            config2 = "kprobe_addr" since (4, 17), config2 = "probe_offset" since (4, 17),
            branch_sample_type = "branch_sample_type", sample_regs_user = "sample_regs_user",
            sample_stack_user = "sample_stack_user", clockid = "clockid" since (4, 1),
            sample_regs_intr = "sample_regs_intr", aux_watermark = "aux_watermark" since (4, 1),
            sample_max_stack = "sample_max_stack" since (4, 8), reserved_2 = "__reserved_2" since (4, 8),
            aux_sample_size = "aux_sample_size" since (5, 5), aux_action = "aux_action" since (6, 13),
            sig_data = "sig_data" since (5, 13), config3 = "config3" since (6, 3),
            config4 = "config4" since (6, 19),
        );
        fields!(ControlPage, "perf_event_mmap_page":
            version = "version", compat_version = "compat_version", lock = "lock", index = "index",
            offset = "offset", time_enabled = "time_enabled", time_running = "time_running",
            capabilities = "capabilities", pmc_width = "pmc_width", time_shift = "time_shift",
            time_mult = "time_mult", time_offset = "time_offset", time_zero = "time_zero",
            size = "size", reserved_1 = "__reserved_1" since (5, 12),
            time_cycles = "time_cycles" since (5, 9), time_mask = "time_mask" since (5, 9),
            data_head = "data_head", data_tail = "data_tail", data_offset = "data_offset" since (4, 1),
            data_size = "data_size" since (4, 1), aux_head = "aux_head" since (4, 1),
            aux_tail = "aux_tail" since (4, 1), aux_offset = "aux_offset" since (4, 1),
            aux_size = "aux_size" since (4, 1),
        );
        add("sizeof(struct perf_event_mmap_page)".into(), size_of::<ControlPage>() as u64, (4, 1));

        // Bit fields: 64 bits of a zeroed structure in which every bit of the field is set.
        let bits = |structure: &str, word: &str, field: &str| {
            format!("BITS(struct {structure}, {word}, {field})")
        };
        macro_rules! flags {
            ($($flag:ident = $name:literal $(since $since:expr)?),* $(,)?) => {$(
                #[allow(unused_mut, unused_assignments)]
                let mut since = LONG_AGO;
                $(since = $since;)?
                add(bits("perf_event_attr", "40", $name), kernel::flag::$flag, since);
            )*};
        }
        flags!(
            DISABLED = "disabled",
            INHERIT = "inherit",
            INHERIT_THREAD = "inherit_thread",
            PINNED = "pinned",
            EXCLUSIVE = "exclusive",
            EXCLUDE_USER = "exclude_user",
            EXCLUDE_KERNEL = "exclude_kernel",
            EXCLUDE_HV = "exclude_hv",
            EXCLUDE_IDLE = "exclude_idle",
            ENABLE_ON_EXEC = "enable_on_exec",
            EXCLUDE_HOST = "exclude_host",
            EXCLUDE_GUEST = "exclude_guest",
        );
        macro_rules! capabilities {
            ($($bit:ident = $name:literal $(since $since:expr)?),* $(,)?) => {$(
                #[allow(unused_mut, unused_assignments)]
                let mut since = LONG_AGO;
                $(since = $since;)?
                add(bits("perf_event_mmap_page", "40", $name), kernel::capability::$bit, since);
            )*};
        }
        capabilities!(
            BIT0 = "cap_bit0", BIT0_IS_DEPRECATED = "cap_bit0_is_deprecated",
            USER_RDPMC = "cap_user_rdpmc", USER_TIME = "cap_user_time",
            USER_TIME_ZERO = "cap_user_time_zero", USER_TIME_SHORT = "cap_user_time_short" since (5, 9),
        );

        // Constants: ours by path, the header's by prefix and name.
        macro_rules! constants {
            ($module:ident, $prefix:literal: $($name:ident $(since $since:expr)?),* $(,)?) => {$(
                #[allow(unused_mut, unused_assignments)]
                let mut since = LONG_AGO;
                $(since = $since;)?
                add(format!("{}{}", $prefix, stringify!($name)), u64::from(kernel::$module::$name), since);
            )*};
        }
        constants!(kind, "PERF_TYPE_":
            HARDWARE, SOFTWARE, TRACEPOINT, HW_CACHE, RAW, BREAKPOINT);
        constants!(hardware, "PERF_COUNT_HW_":
            CPU_CYCLES, INSTRUCTIONS, CACHE_REFERENCES, CACHE_MISSES, BRANCH_INSTRUCTIONS,
            BRANCH_MISSES, BUS_CYCLES, STALLED_CYCLES_FRONTEND, STALLED_CYCLES_BACKEND,
            REF_CPU_CYCLES);
        constants!(cache, "PERF_COUNT_HW_CACHE_":
            L1D, L1I, LL, DTLB, ITLB, BPU, NODE, OP_READ, OP_WRITE, OP_PREFETCH, RESULT_ACCESS,
            RESULT_MISS);
        constants!(software, "PERF_COUNT_SW_":
            CPU_CLOCK, TASK_CLOCK, PAGE_FAULTS, CONTEXT_SWITCHES, CPU_MIGRATIONS, PAGE_FAULTS_MIN,
            PAGE_FAULTS_MAJ, ALIGNMENT_FAULTS, EMULATION_FAULTS, DUMMY, BPF_OUTPUT since (4, 4),
            CGROUP_SWITCHES since (5, 13));
        constants!(format, "PERF_FORMAT_":
            TOTAL_TIME_ENABLED, TOTAL_TIME_RUNNING, ID, GROUP);
        constants!(open_flag, "PERF_FLAG_": FD_CLOEXEC);
        constants!(ioctl, "PERF_EVENT_IOC_":
            ENABLE, DISABLE, RESET, ID);
        constants!(ioctl, "PERF_IOC_": FLAG_GROUP);
        add("PERF_PMU_TYPE_SHIFT".into(), kernel::PMU_TYPE_SHIFT.into(), (5, 15));
        add("PERF_HW_EVENT_MASK".into(), kernel::HW_EVENT_MASK, (5, 15));
        let since = [
            LONG_AGO,
            LONG_AGO,
            LONG_AGO,
            LONG_AGO,
            LONG_AGO,
            (4, 1),
            (5, 5),
            (5, 13),
            (6, 3),
            (6, 19),
        ];
        for (version, (size, since)) in kernel::ATTR_SIZES.into_iter().zip(since).enumerate() {
            add(format!("PERF_ATTR_SIZE_VER{version}"), size.into(), since);
        }
        items
    }

    /// Puts each item on a line of its own, so that the line of a compiler error identifies the item.
    fn program(items: &[Option<&Item>]) -> String {
        let mut text = String::from(
            "#include <linux/perf_event.h>\n#include <linux/version.h>\n#include <stddef.h>\n\
             #include <stdio.h>\n#include <string.h>\n\
             #define BITS(type, word, field) ({ type whole; unsigned long long bits; \
             memset(&whole, 0, sizeof whole); whole.field = ~0ull; \
             memcpy(&bits, (char *)&whole + word, 8); bits; })\n\
             int main(void) { printf(\"version %u\\n\", LINUX_VERSION_CODE >> 8);\n",
        );
        for (number, item) in items.iter().enumerate() {
            if let Some(item) = item {
                write!(
                    text,
                    "printf(\"{number} %llu\\n\", (unsigned long long)({}));",
                    item.expression
                )
                .unwrap();
            }
            text.push('\n');
        }
        text + "}\n"
    }

    /// The number of lines before the first item.
    const HEAD: usize = 7;

    #[test]
    fn the_header_agrees() {
        let headers = std::env::var("RDPMC_KERNEL_HEADERS").unwrap_or("/usr/include".into());
        if !Path::new(&headers).join("linux/perf_event.h").exists()
            || Command::new("cc").arg("--version").output().is_err()
        {
            let why = "it takes a C compiler and linux/perf_event.h (linux-libc-dev)";
            return skips::skip("the_header_agrees", why);
        }
        let folder = std::env::temp_dir().join(format!("rdpmc-header-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (source, binary) = (folder.join("header.c"), folder.join("header"));
        let compile = |text: &str| {
            fs::write(&source, text).unwrap();
            Command::new("cc")
                .args(["-std=gnu11", "-w", "-ftrack-macro-expansion=0", "-fmax-errors=0"])
                .args(["-isystem", &headers, "-o"])
                .args([&binary, &source])
                .env("LC_ALL", "C")
                .output()
                .unwrap()
        };

        // The compiler reports the items that the header lacks, by line.
        let items = items();
        let complaints = compile(&program(&items.iter().map(Some).collect::<Vec<_>>()));
        let mut missing = vec![false; items.len()];
        for line in String::from_utf8_lossy(&complaints.stderr).lines() {
            let mut parts = line.split(':');
            let number = parts.nth(1).and_then(|number| number.parse::<usize>().ok());
            if let Some(number) = number.filter(|_| line.contains("error")) {
                let place = number.checked_sub(1 + HEAD).expect(line);
                missing[place] = true;
            }
        }
        let known: Vec<Option<&Item>> =
            items.iter().zip(&missing).map(|(item, missing)| (!missing).then_some(item)).collect();
        let built = compile(&program(&known));
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let output = Command::new(&binary).output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        fs::remove_dir_all(&folder).unwrap();

        let values: HashMap<&str, u64> = output
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(name, value)| (name, value.parse().unwrap()))
            .collect();
        let version = values["version"] as u32;
        let version = (version >> 8, version & 0xff);
        let (mut compared, mut newer) = (0, Vec::new());
        for (number, item) in items.iter().enumerate() {
            let Item { expression, value, since } = item;
            if missing[number] {
                assert!(*since > version, "{expression}: not in the header of Linux {version:?}");
                newer.push(format!("{expression} ({}.{})", since.0, since.1));
            } else {
                assert_eq!(values[number.to_string().as_str()], *value, "{expression}");
                compared += 1;
            }
        }
        skips::say(&format!(
            "{compared} facts compared with the header of Linux {}.{}; not compared, being newer: {}",
            version.0,
            version.1,
            newer.join(", ")
        ));
        assert!(compared > 100);
    }
}
