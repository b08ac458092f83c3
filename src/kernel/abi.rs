//! The kernel's interface for counting, as `linux/perf_event.h` declares it.
//!
//! What this library and its tests use of it. The two structures are complete. `src/tests/kernel_header.rs` compares all with
//! the installed header.
#![allow(unsafe_code)]
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "tests in packages of their own use some of it"
)]

use std::mem::{offset_of, size_of};

/// Returns bit `n` of a 64-bit C bit field. Compilers allocate bits from the least significant one on little-endian
/// targets, and from the most significant one on big-endian targets.
const fn bit(n: u32) -> u64 {
    if cfg!(target_endian = "big") { 1 << (63 - n) } else { 1 << n }
}

/// The directory in which the kernel lists its PMUs, one subdirectory each.
pub const PMU_DIRECTORY: &str = "/sys/bus/event_source/devices";

/// `struct perf_event_attr`, as of `PERF_ATTR_SIZE_VER9`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    pub type_: u32,
    pub size: u32,
    pub config: u64,
    /// Or `sample_freq`.
    pub sample_period: u64,
    pub sample_type: u64,
    pub read_format: u64,
    /// The bit field that starts with `disabled`: constants in [`flag`].
    pub flags: u64,
    /// Or `wakeup_watermark`.
    pub wakeup_events: u32,
    pub bp_type: u32,
    /// Or `bp_addr`, `kprobe_func`, `uprobe_path`.
    pub config1: u64,
    /// Or `bp_len`, `kprobe_addr`, `probe_offset`.
    pub config2: u64,
    pub branch_sample_type: u64,
    pub sample_regs_user: u64,
    pub sample_stack_user: u32,
    pub clockid: i32,
    pub sample_regs_intr: u64,
    pub aux_watermark: u32,
    pub sample_max_stack: u16,
    pub reserved_2: u16,
    pub aux_sample_size: u32,
    /// Or the bits `aux_start_paused`, `aux_pause`, `aux_resume`.
    pub aux_action: u32,
    pub sig_data: u64,
    pub config3: u64,
    pub config4: u64,
}

/// `PERF_ATTR_SIZE_VER0` to `VER9`: the sizes of `Attr` in successive kernel versions, oldest first.
pub const ATTR_SIZES: [u32; 10] = [64, 72, 80, 96, 104, 112, 120, 128, 136, 144];

/// Bits of [`Attr::flags`].
pub mod flag {
    use super::bit;
    pub const DISABLED: u64 = bit(0);
    pub const INHERIT: u64 = bit(1);
    pub const PINNED: u64 = bit(2);
    pub const EXCLUSIVE: u64 = bit(3);
    pub const EXCLUDE_USER: u64 = bit(4);
    pub const EXCLUDE_KERNEL: u64 = bit(5);
    pub const EXCLUDE_HV: u64 = bit(6);
    pub const EXCLUDE_IDLE: u64 = bit(7);
    pub const ENABLE_ON_EXEC: u64 = bit(12);
    pub const EXCLUDE_HOST: u64 = bit(19);
    pub const EXCLUDE_GUEST: u64 = bit(20);
    pub const INHERIT_THREAD: u64 = bit(35);
}

/// `enum perf_type_id`: the values of [`Attr::type_`] that do not come from sysfs.
pub mod kind {
    pub const HARDWARE: u32 = 0;
    pub const SOFTWARE: u32 = 1;
    pub const TRACEPOINT: u32 = 2;
    pub const HW_CACHE: u32 = 3;
    pub const RAW: u32 = 4;
    pub const BREAKPOINT: u32 = 5;
}

/// `PERF_PMU_TYPE_SHIFT`: the position of a PMU's type in the config of a generic event.
pub const PMU_TYPE_SHIFT: u32 = 32;
/// `PERF_HW_EVENT_MASK`: the bits of that config that hold the event.
pub const HW_EVENT_MASK: u64 = 0xffff_ffff;

/// `enum perf_hw_id`: configs of [`kind::HARDWARE`].
pub mod hardware {
    pub const CPU_CYCLES: u64 = 0;
    pub const INSTRUCTIONS: u64 = 1;
    pub const CACHE_REFERENCES: u64 = 2;
    pub const CACHE_MISSES: u64 = 3;
    pub const BRANCH_INSTRUCTIONS: u64 = 4;
    pub const BRANCH_MISSES: u64 = 5;
    pub const BUS_CYCLES: u64 = 6;
    pub const STALLED_CYCLES_FRONTEND: u64 = 7;
    pub const STALLED_CYCLES_BACKEND: u64 = 8;
    pub const REF_CPU_CYCLES: u64 = 9;
}

/// `enum perf_hw_cache_id`, `..._op_id` and `..._op_result_id`: the three bytes of the config of [`kind::HW_CACHE`],
/// lowest first.
pub mod cache {
    /// Returns the `config` of a cache event.
    pub const fn config(cache: u64, access: u64, outcome: u64) -> u64 {
        cache | access << 8 | outcome << 16
    }

    pub const L1D: u64 = 0;
    pub const L1I: u64 = 1;
    pub const LL: u64 = 2;
    pub const DTLB: u64 = 3;
    pub const ITLB: u64 = 4;
    pub const BPU: u64 = 5;
    pub const NODE: u64 = 6;

    pub const OP_READ: u64 = 0;
    pub const OP_WRITE: u64 = 1;
    pub const OP_PREFETCH: u64 = 2;

    pub const RESULT_ACCESS: u64 = 0;
    pub const RESULT_MISS: u64 = 1;
}

/// `enum perf_sw_ids`: configs of [`kind::SOFTWARE`].
pub mod software {
    pub const CPU_CLOCK: u64 = 0;
    pub const TASK_CLOCK: u64 = 1;
    pub const PAGE_FAULTS: u64 = 2;
    pub const CONTEXT_SWITCHES: u64 = 3;
    pub const CPU_MIGRATIONS: u64 = 4;
    pub const PAGE_FAULTS_MIN: u64 = 5;
    pub const PAGE_FAULTS_MAJ: u64 = 6;
    pub const ALIGNMENT_FAULTS: u64 = 7;
    pub const EMULATION_FAULTS: u64 = 8;
    pub const DUMMY: u64 = 9;
    pub const BPF_OUTPUT: u64 = 10;
    pub const CGROUP_SWITCHES: u64 = 11;
}

/// `enum perf_event_read_format`: bits of [`Attr::read_format`].
pub mod format {
    pub const TOTAL_TIME_ENABLED: u64 = 1 << 0;
    pub const TOTAL_TIME_RUNNING: u64 = 1 << 1;
    pub const ID: u64 = 1 << 2;
    pub const GROUP: u64 = 1 << 3;
}

/// Flags of `perf_event_open` itself.
pub mod open_flag {
    pub const FD_CLOEXEC: u64 = 1 << 3;
}

/// The numbers of the header's `_IO`, `_IOR`, `_IOW` and `_IOWR` requests.
#[cfg(target_os = "linux")]
pub mod ioctl {
    const TYPE: u32 = b'$' as u32;
    pub const ENABLE: u64 = libc::_IO(TYPE, 0) as u64;
    pub const DISABLE: u64 = libc::_IO(TYPE, 1) as u64;
    pub const RESET: u64 = libc::_IO(TYPE, 3) as u64;
    pub const ID: u64 = libc::_IOR::<*mut u64>(TYPE, 7) as u64;
    /// The argument that applies a request to the whole group.
    pub const FLAG_GROUP: u64 = 1;
}

/// Bits of [`Attr::config1`] that arm64's PMU driver defines.
pub mod arm64_config1 {
    /// `attr.config1:0`, "long": count in 64 bits.
    pub const LONG: u64 = 1 << 0;
    /// `attr.config1:1`, "rdpmc": let user space read the counter.
    pub const USER_ACCESS: u64 = 1 << 1;
}

/// `struct perf_event_mmap_page`: the first page of an event's mapping.
///
/// The kernel writes to it while it is mapped. Its fields are therefore read by volatile loads or the assembly in
/// `asm/`, never through a reference.
///
/// Linux before 3.12 has another `capabilities`: both of its bits, `cap_usr_time` and `cap_usr_rdpmc`, are bit 0, so
/// a set bit does not identify one. `time_zero` and the fields after it were reserved and read 0.
/// [`capability::BIT0_IS_DEPRECATED`] distinguishes the two layouts.
#[repr(C)]
pub struct ControlPage {
    pub version: u32,
    pub compat_version: u32,
    pub lock: u32,
    pub index: u32,
    pub offset: i64,
    pub time_enabled: u64,
    pub time_running: u64,
    /// A bit field: constants in [`capability`].
    pub capabilities: u64,
    pub pmc_width: u16,
    pub time_shift: u16,
    pub time_mult: u32,
    pub time_offset: u64,
    pub time_zero: u64,
    pub size: u32,
    pub reserved_1: u32,
    pub time_cycles: u64,
    pub time_mask: u64,
    pub reserved: [u8; 116 * 8],
    pub data_head: u64,
    pub data_tail: u64,
    pub data_offset: u64,
    pub data_size: u64,
    pub aux_head: u64,
    pub aux_tail: u64,
    pub aux_offset: u64,
    pub aux_size: u64,
}

/// The distance between the control pages of a group, in bytes: the largest page size of this architecture's kernels. arm64 has
/// pages of 4, 16 and 64 KiB, x86-64 and riscv64 of 4 KiB.
pub const STRIDE: usize =
    if cfg!(any(target_arch = "x86_64", target_arch = "riscv64")) { 1 << 12 } else { 1 << 16 };

/// Bits of [`ControlPage::capabilities`].
pub mod capability {
    use super::bit;
    /// Before Linux 3.12, both `cap_usr_time` and `cap_usr_rdpmc`. Always 0 since.
    pub const BIT0: u64 = bit(0);
    /// Set since Linux 3.12: the bits below are valid.
    pub const BIT0_IS_DEPRECATED: u64 = bit(1);
    pub const USER_RDPMC: u64 = bit(2);
    pub const USER_TIME: u64 = bit(3);
    pub const USER_TIME_ZERO: u64 = bit(4);
    pub const USER_TIME_SHORT: u64 = bit(5);
}

/// A layout other than the kernel's does not compile: the size of the structure, and each field with its offset.
macro_rules! layout {
    ($structure:ident, $size:literal: $($field:ident $offset:literal),* $(,)?) => {
        const _: () = {
            assert!(size_of::<$structure>() == $size);
            $(assert!(offset_of!($structure, $field) == $offset);)*
        };
    };
}
layout!(Attr, 144:
    type_ 0, size 4, config 8, sample_period 16, sample_type 24, read_format 32, flags 40, wakeup_events 48,
    bp_type 52, config1 56, config2 64, branch_sample_type 72, sample_regs_user 80, sample_stack_user 88,
    clockid 92, sample_regs_intr 96, aux_watermark 104, sample_max_stack 108, reserved_2 110, aux_sample_size
    112, aux_action 116, sig_data 120, config3 128, config4 136,
);
layout!(ControlPage, 1088:
    version 0, compat_version 4, lock 8, index 12, offset 16, time_enabled 24, time_running 32, capabilities 40,
    pmc_width 48, time_shift 50, time_mult 52, time_offset 56, time_zero 64, size 72, reserved_1 76, time_cycles
    80, time_mask 88, data_head 1024, data_tail 1032, data_offset 1040, data_size 1048, aux_head 1056, aux_tail
    1064, aux_offset 1072, aux_size 1080,
);
