//! Kernel ABI: what `linux/perf_event.h` declares for counting, and the raw system calls.
//!
//! The tables are whole for counting (sampling records and their formats are left out: this
//! library counts) and are compared with the installed header by `tests/kernel_header.rs`.
#![allow(unsafe_code)]
#![allow(
    dead_code,
    reason = "the interface is written down whole, so that it can be compared with the header whole"
)]

use std::mem::{offset_of, size_of};

/// Bit `n` of a C bit field of 64 bits: compilers allot them from the least significant bit on
/// little-endian targets, from the most significant on big-endian ones.
const fn bit(n: u32) -> u64 {
    if cfg!(target_endian = "big") { 1 << (63 - n) } else { 1 << n }
}

/// Where the kernel lists its PMUs, a folder each.
pub(crate) const PMU_FOLDER: &str = "/sys/bus/event_source/devices";

/// `struct perf_event_attr`, as of `PERF_ATTR_SIZE_VER9`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attr {
    pub(crate) type_: u32,
    pub(crate) size: u32,
    pub(crate) config: u64,
    /// Or `sample_freq`.
    pub(crate) sample_period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    /// The bit field from `disabled` on: constants in [`flag`].
    pub(crate) flags: u64,
    /// Or `wakeup_watermark`.
    pub(crate) wakeup_events: u32,
    pub(crate) bp_type: u32,
    /// Or `bp_addr`, `kprobe_func`, `uprobe_path`.
    pub(crate) config1: u64,
    /// Or `bp_len`, `kprobe_addr`, `probe_offset`.
    pub(crate) config2: u64,
    pub(crate) branch_sample_type: u64,
    pub(crate) sample_regs_user: u64,
    pub(crate) sample_stack_user: u32,
    pub(crate) clockid: i32,
    pub(crate) sample_regs_intr: u64,
    pub(crate) aux_watermark: u32,
    pub(crate) sample_max_stack: u16,
    pub(crate) reserved_2: u16,
    pub(crate) aux_sample_size: u32,
    /// Or the bits `aux_start_paused`, `aux_pause`, `aux_resume`.
    pub(crate) aux_action: u32,
    pub(crate) sig_data: u64,
    pub(crate) config3: u64,
    pub(crate) config4: u64,
}

/// `PERF_ATTR_SIZE_VER0` to `VER9`: the sizes of `Attr` that kernels have known, oldest first.
pub(crate) const ATTR_SIZES: [u32; 10] = [64, 72, 80, 96, 104, 112, 120, 128, 136, 144];

/// Bits of [`Attr::flags`].
pub(crate) mod flag {
    use super::bit;
    pub(crate) const DISABLED: u64 = bit(0);
    pub(crate) const INHERIT: u64 = bit(1);
    pub(crate) const PINNED: u64 = bit(2);
    pub(crate) const EXCLUSIVE: u64 = bit(3);
    pub(crate) const EXCLUDE_USER: u64 = bit(4);
    pub(crate) const EXCLUDE_KERNEL: u64 = bit(5);
    pub(crate) const EXCLUDE_HV: u64 = bit(6);
    pub(crate) const EXCLUDE_IDLE: u64 = bit(7);
    pub(crate) const MMAP: u64 = bit(8);
    pub(crate) const COMM: u64 = bit(9);
    pub(crate) const FREQ: u64 = bit(10);
    pub(crate) const INHERIT_STAT: u64 = bit(11);
    pub(crate) const ENABLE_ON_EXEC: u64 = bit(12);
    pub(crate) const TASK: u64 = bit(13);
    pub(crate) const WATERMARK: u64 = bit(14);
    /// Two bits wide: the skid allowed, 0 (any) to 3 (none).
    pub(crate) const PRECISE_IP: u64 = bit(15) | bit(16);
    pub(crate) const MMAP_DATA: u64 = bit(17);
    pub(crate) const SAMPLE_ID_ALL: u64 = bit(18);
    pub(crate) const EXCLUDE_HOST: u64 = bit(19);
    pub(crate) const EXCLUDE_GUEST: u64 = bit(20);
    pub(crate) const EXCLUDE_CALLCHAIN_KERNEL: u64 = bit(21);
    pub(crate) const EXCLUDE_CALLCHAIN_USER: u64 = bit(22);
    pub(crate) const MMAP2: u64 = bit(23);
    pub(crate) const COMM_EXEC: u64 = bit(24);
    pub(crate) const USE_CLOCKID: u64 = bit(25);
    pub(crate) const CONTEXT_SWITCH: u64 = bit(26);
    pub(crate) const WRITE_BACKWARD: u64 = bit(27);
    pub(crate) const NAMESPACES: u64 = bit(28);
    pub(crate) const KSYMBOL: u64 = bit(29);
    pub(crate) const BPF_EVENT: u64 = bit(30);
    pub(crate) const AUX_OUTPUT: u64 = bit(31);
    pub(crate) const CGROUP: u64 = bit(32);
    pub(crate) const TEXT_POKE: u64 = bit(33);
    pub(crate) const BUILD_ID: u64 = bit(34);
    pub(crate) const INHERIT_THREAD: u64 = bit(35);
    pub(crate) const REMOVE_ON_EXEC: u64 = bit(36);
    pub(crate) const SIGTRAP: u64 = bit(37);
    pub(crate) const DEFER_CALLCHAIN: u64 = bit(38);
    pub(crate) const DEFER_OUTPUT: u64 = bit(39);
}

/// `enum perf_type_id`: values of [`Attr::type_`] that need no look into sysfs.
pub(crate) mod kind {
    pub(crate) const HARDWARE: u32 = 0;
    pub(crate) const SOFTWARE: u32 = 1;
    pub(crate) const TRACEPOINT: u32 = 2;
    pub(crate) const HW_CACHE: u32 = 3;
    pub(crate) const RAW: u32 = 4;
    pub(crate) const BREAKPOINT: u32 = 5;
}

/// `PERF_PMU_TYPE_SHIFT`: where a PMU's type goes in the config of a generic event.
pub(crate) const PMU_TYPE_SHIFT: u32 = 32;
/// `PERF_HW_EVENT_MASK`: what is left of the config for the event.
pub(crate) const HW_EVENT_MASK: u64 = 0xffff_ffff;

/// `enum perf_hw_id`: configs of [`kind::HARDWARE`].
pub(crate) mod hardware {
    pub(crate) const CPU_CYCLES: u64 = 0;
    pub(crate) const INSTRUCTIONS: u64 = 1;
    pub(crate) const CACHE_REFERENCES: u64 = 2;
    pub(crate) const CACHE_MISSES: u64 = 3;
    pub(crate) const BRANCH_INSTRUCTIONS: u64 = 4;
    pub(crate) const BRANCH_MISSES: u64 = 5;
    pub(crate) const BUS_CYCLES: u64 = 6;
    pub(crate) const STALLED_CYCLES_FRONTEND: u64 = 7;
    pub(crate) const STALLED_CYCLES_BACKEND: u64 = 8;
    pub(crate) const REF_CPU_CYCLES: u64 = 9;
}

/// `enum perf_hw_cache_id`, `..._op_id` and `..._op_result_id`: the three bytes of the config of
/// [`kind::HW_CACHE`], lowest first.
pub(crate) mod cache {
    /// The `config` of a cache event.
    pub(crate) const fn config(cache: u64, access: u64, outcome: u64) -> u64 {
        cache | access << 8 | outcome << 16
    }

    pub(crate) const L1D: u64 = 0;
    pub(crate) const L1I: u64 = 1;
    pub(crate) const LL: u64 = 2;
    pub(crate) const DTLB: u64 = 3;
    pub(crate) const ITLB: u64 = 4;
    pub(crate) const BPU: u64 = 5;
    pub(crate) const NODE: u64 = 6;

    pub(crate) const OP_READ: u64 = 0;
    pub(crate) const OP_WRITE: u64 = 1;
    pub(crate) const OP_PREFETCH: u64 = 2;

    pub(crate) const RESULT_ACCESS: u64 = 0;
    pub(crate) const RESULT_MISS: u64 = 1;
}

/// `enum perf_sw_ids`: configs of [`kind::SOFTWARE`].
pub(crate) mod software {
    pub(crate) const CPU_CLOCK: u64 = 0;
    pub(crate) const TASK_CLOCK: u64 = 1;
    pub(crate) const PAGE_FAULTS: u64 = 2;
    pub(crate) const CONTEXT_SWITCHES: u64 = 3;
    pub(crate) const CPU_MIGRATIONS: u64 = 4;
    pub(crate) const PAGE_FAULTS_MIN: u64 = 5;
    pub(crate) const PAGE_FAULTS_MAJ: u64 = 6;
    pub(crate) const ALIGNMENT_FAULTS: u64 = 7;
    pub(crate) const EMULATION_FAULTS: u64 = 8;
    pub(crate) const DUMMY: u64 = 9;
    pub(crate) const BPF_OUTPUT: u64 = 10;
    pub(crate) const CGROUP_SWITCHES: u64 = 11;
}

/// `enum perf_event_read_format`: bits of [`Attr::read_format`].
pub(crate) mod format {
    pub(crate) const TOTAL_TIME_ENABLED: u64 = 1 << 0;
    pub(crate) const TOTAL_TIME_RUNNING: u64 = 1 << 1;
    pub(crate) const ID: u64 = 1 << 2;
    pub(crate) const GROUP: u64 = 1 << 3;
    pub(crate) const LOST: u64 = 1 << 4;
}

/// Flags of `perf_event_open` itself.
pub(crate) mod open_flag {
    pub(crate) const FD_NO_GROUP: u64 = 1 << 0;
    pub(crate) const FD_OUTPUT: u64 = 1 << 1;
    pub(crate) const PID_CGROUP: u64 = 1 << 2;
    pub(crate) const FD_CLOEXEC: u64 = 1 << 3;
}

/// What a PMU driver of one architecture gives a meaning in [`Attr::config1`].
pub(crate) mod arm64_config1 {
    /// `attr.config1:0`, "long": count in 64 bits.
    pub(crate) const LONG: u64 = 1 << 0;
    /// `attr.config1:1`, "rdpmc": let user space read the counter.
    pub(crate) const USER_ACCESS: u64 = 1 << 1;
}

/// `struct perf_event_mmap_page`: the first page of an event's mapping.
///
/// The kernel writes it while it is mapped: its fields are read through volatile loads or the
/// assembly in `asm/`, never through a reference.
///
/// Linux before 3.12 laid it out the same but for `capabilities`: both bits it had then,
/// `cap_usr_time` and `cap_usr_rdpmc`, lay on bit 0, so that one set bit does not say which;
/// `time_zero` and what follows it were reserved and read 0. [`capability::BIT0_IS_DEPRECATED`]
/// tells the two apart.
#[repr(C)]
pub(crate) struct ControlPage {
    pub(crate) version: u32,
    pub(crate) compat_version: u32,
    pub(crate) lock: u32,
    pub(crate) index: u32,
    pub(crate) offset: i64,
    pub(crate) time_enabled: u64,
    pub(crate) time_running: u64,
    /// A bit field: constants in [`capability`].
    pub(crate) capabilities: u64,
    pub(crate) pmc_width: u16,
    pub(crate) time_shift: u16,
    pub(crate) time_mult: u32,
    pub(crate) time_offset: u64,
    pub(crate) time_zero: u64,
    pub(crate) size: u32,
    pub(crate) reserved_1: u32,
    pub(crate) time_cycles: u64,
    pub(crate) time_mask: u64,
    pub(crate) reserved: [u8; 116 * 8],
    pub(crate) data_head: u64,
    pub(crate) data_tail: u64,
    pub(crate) data_offset: u64,
    pub(crate) data_size: u64,
    pub(crate) aux_head: u64,
    pub(crate) aux_tail: u64,
    pub(crate) aux_offset: u64,
    pub(crate) aux_size: u64,
}

/// How far apart the control pages of a group are mapped, in bytes: as large as any page is where
/// user space reads counters (arm64 has them of 4, 16 and 64 KiB, the others of 4).
pub(crate) const STRIDE: usize = 1 << 16;

/// Bits of [`ControlPage::capabilities`].
pub(crate) mod capability {
    use super::bit;
    /// Before Linux 3.12 `cap_usr_time` and `cap_usr_rdpmc` at once; always 0 since.
    pub(crate) const BIT0: u64 = bit(0);
    /// Set since Linux 3.12: the bits below mean what they say.
    pub(crate) const BIT0_IS_DEPRECATED: u64 = bit(1);
    pub(crate) const USER_RDPMC: u64 = bit(2);
    pub(crate) const USER_TIME: u64 = bit(3);
    pub(crate) const USER_TIME_ZERO: u64 = bit(4);
    pub(crate) const USER_TIME_SHORT: u64 = bit(5);
}

// The layout is the kernel's or nothing compiles.
const _: () = {
    assert!(size_of::<Attr>() == 144);
    assert!(offset_of!(Attr, type_) == 0);
    assert!(offset_of!(Attr, size) == 4);
    assert!(offset_of!(Attr, config) == 8);
    assert!(offset_of!(Attr, sample_period) == 16);
    assert!(offset_of!(Attr, sample_type) == 24);
    assert!(offset_of!(Attr, read_format) == 32);
    assert!(offset_of!(Attr, flags) == 40);
    assert!(offset_of!(Attr, wakeup_events) == 48);
    assert!(offset_of!(Attr, bp_type) == 52);
    assert!(offset_of!(Attr, config1) == 56);
    assert!(offset_of!(Attr, config2) == 64);
    assert!(offset_of!(Attr, branch_sample_type) == 72);
    assert!(offset_of!(Attr, sample_regs_user) == 80);
    assert!(offset_of!(Attr, sample_stack_user) == 88);
    assert!(offset_of!(Attr, clockid) == 92);
    assert!(offset_of!(Attr, sample_regs_intr) == 96);
    assert!(offset_of!(Attr, aux_watermark) == 104);
    assert!(offset_of!(Attr, sample_max_stack) == 108);
    assert!(offset_of!(Attr, reserved_2) == 110);
    assert!(offset_of!(Attr, aux_sample_size) == 112);
    assert!(offset_of!(Attr, aux_action) == 116);
    assert!(offset_of!(Attr, sig_data) == 120);
    assert!(offset_of!(Attr, config3) == 128);
    assert!(offset_of!(Attr, config4) == 136);

    assert!(size_of::<ControlPage>() == 1024 + 64);
    assert!(offset_of!(ControlPage, version) == 0);
    assert!(offset_of!(ControlPage, compat_version) == 4);
    assert!(offset_of!(ControlPage, lock) == 8);
    assert!(offset_of!(ControlPage, index) == 12);
    assert!(offset_of!(ControlPage, offset) == 16);
    assert!(offset_of!(ControlPage, time_enabled) == 24);
    assert!(offset_of!(ControlPage, time_running) == 32);
    assert!(offset_of!(ControlPage, capabilities) == 40);
    assert!(offset_of!(ControlPage, pmc_width) == 48);
    assert!(offset_of!(ControlPage, time_shift) == 50);
    assert!(offset_of!(ControlPage, time_mult) == 52);
    assert!(offset_of!(ControlPage, time_offset) == 56);
    assert!(offset_of!(ControlPage, time_zero) == 64);
    assert!(offset_of!(ControlPage, size) == 72);
    assert!(offset_of!(ControlPage, reserved_1) == 76);
    assert!(offset_of!(ControlPage, time_cycles) == 80);
    assert!(offset_of!(ControlPage, time_mask) == 88);
    assert!(offset_of!(ControlPage, data_head) == 1024);
    assert!(offset_of!(ControlPage, data_tail) == 1032);
    assert!(offset_of!(ControlPage, data_offset) == 1040);
    assert!(offset_of!(ControlPage, data_size) == 1048);
    assert!(offset_of!(ControlPage, aux_head) == 1056);
    assert!(offset_of!(ControlPage, aux_tail) == 1064);
    assert!(offset_of!(ControlPage, aux_offset) == 1072);
    assert!(offset_of!(ControlPage, aux_size) == 1080);
};

/// An error number as the kernel returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

/// What [`control`] asks of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    Enable,
    Disable,
    Reset,
}

pub(crate) use calls::*;

/// The system calls of Linux.
#[cfg(target_os = "linux")]
mod calls {
    use super::{Attr, Control, ControlPage, Errno, STRIDE, open_flag};
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;
    use std::ptr::{self, NonNull};
    use std::sync::atomic::{AtomicUsize, Ordering};

    pub(crate) use libc::{
        E2BIG, EACCES, EAGAIN, EBUSY, EEXIST, EFBIG, EINTR, EINVAL, EIO, EMFILE, ENFILE, ENODEV,
        ENOENT, ENOMEM, ENOSPC, ENOSYS, ENOTDIR, EOPNOTSUPP, EPERM,
    };

    /// Whether this target has `perf_event_open` at all.
    pub(crate) const SUPPORTED: bool = true;

    /// A perf event's descriptor.
    pub(crate) type Descriptor = OwnedFd;

    /// The numbers of `_IO`, `_IOR` and `_IOW` requests in the header, by name.
    pub(crate) mod ioctl {
        use super::Attr;
        use std::ffi::{c_char, c_void};

        const TYPE: u32 = b'$' as u32;
        pub(crate) const ENABLE: u64 = libc::_IO(TYPE, 0) as u64;
        pub(crate) const DISABLE: u64 = libc::_IO(TYPE, 1) as u64;
        pub(crate) const REFRESH: u64 = libc::_IO(TYPE, 2) as u64;
        pub(crate) const RESET: u64 = libc::_IO(TYPE, 3) as u64;
        pub(crate) const PERIOD: u64 = libc::_IOW::<u64>(TYPE, 4) as u64;
        pub(crate) const SET_OUTPUT: u64 = libc::_IO(TYPE, 5) as u64;
        pub(crate) const SET_FILTER: u64 = libc::_IOW::<*mut c_char>(TYPE, 6) as u64;
        pub(crate) const ID: u64 = libc::_IOR::<*mut u64>(TYPE, 7) as u64;
        pub(crate) const SET_BPF: u64 = libc::_IOW::<u32>(TYPE, 8) as u64;
        pub(crate) const PAUSE_OUTPUT: u64 = libc::_IOW::<u32>(TYPE, 9) as u64;
        pub(crate) const QUERY_BPF: u64 = libc::_IOWR::<*mut c_void>(TYPE, 10) as u64;
        pub(crate) const MODIFY_ATTRIBUTES: u64 = libc::_IOW::<*mut Attr>(TYPE, 11) as u64;
        /// Argument: apply the request to the whole group.
        pub(crate) const FLAG_GROUP: u64 = 1;
    }

    pub(crate) fn last_error() -> Errno {
        Errno(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    /// `perf_event_open` for the calling thread on whatever processor it runs, in the group of
    /// `leader` or as the leader of one of its own, closed on exec. On `E2BIG` the kernel has written
    /// the size it knows into `attr.size`. The error is 0 where a filter answers 0 and opens nothing.
    pub(crate) fn open(attr: &mut Attr, leader: Option<&Descriptor>) -> Result<Descriptor, Errno> {
        const THIS_THREAD: libc::pid_t = 0;
        const ANY_PROCESSOR: libc::c_int = -1;
        const OWN_GROUP: libc::c_int = -1;
        let group = leader.map_or(OWN_GROUP, |leader| leader.as_raw_fd());
        let mut retries = 0..INTERRUPTED_AT_MOST;
        let descriptor = loop {
            // SAFETY: attr is valid for reads and writes of the attr.size bytes (at most its own
            // size) that the kernel looks at, and the call keeps no pointer to it.
            let descriptor = unsafe {
                libc::syscall(
                    libc::SYS_perf_event_open,
                    ptr::from_mut(attr),
                    THIS_THREAD,
                    ANY_PROCESSOR,
                    group,
                    open_flag::FD_CLOEXEC as libc::c_ulong,
                )
            };
            if descriptor >= 0 {
                break descriptor as libc::c_int;
            }
            match last_error() {
                Errno(EINTR) if retries.next().is_some() => {}
                error => return Err(error),
            }
        };
        if descriptor == 0 && !is_event(descriptor) {
            return Err(Errno(0));
        }
        // SAFETY: the kernel has just returned this descriptor, and nobody else knows it. A seccomp filter
        // that answers in the kernel's place can make up errors and 0, which has been ruled out. A
        // supervisor that makes up another number (ptrace, user notification) is trusted like the kernel.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// The kernel answers `EINTR` while another thread of the process is in `exec`, which ends this
    /// thread or fails soon. A seccomp filter may answer it forever.
    const INTERRUPTED_AT_MOST: u32 = 100;

    /// Whether a descriptor is a perf event's, by a request that only events know. No on kernels before
    /// 3.12, too.
    fn is_event(descriptor: libc::c_int) -> bool {
        let mut id = 0_u64;
        // SAFETY: the request writes a u64, for which `id` is valid. What is no event refuses it: no
        // other kind of file has a request of this number.
        unsafe { libc::ioctl(descriptor, ioctl::ID as _, &raw mut id) == 0 }
    }

    /// `read(2)`: the bytes the kernel wrote, 0 for an event in error state.
    pub(crate) fn read(event: &Descriptor, into: &mut [u64]) -> Result<usize, Errno> {
        // SAFETY: `into` is valid for writes of its size in bytes, and any bytes make a u64.
        let bytes =
            unsafe { libc::read(event.as_raw_fd(), into.as_mut_ptr().cast(), size_of_val(into)) };
        usize::try_from(bytes).map_err(|_| last_error())
    }

    /// `ioctl(2)` for the whole group that this event leads.
    pub(crate) fn control(leader: &Descriptor, what: Control) -> Result<(), Errno> {
        let request = match what {
            Control::Enable => ioctl::ENABLE,
            Control::Disable => ioctl::DISABLE,
            Control::Reset => ioctl::RESET,
        };
        let argument = ioctl::FLAG_GROUP as libc::c_ulong;
        // SAFETY: these three requests take a plain number and touch no memory of ours.
        match unsafe { libc::ioctl(leader.as_raw_fd(), request as _, argument) } {
            0 => Ok(()),
            _ => Err(last_error()),
        }
    }

    /// CLOCK_MONOTONIC_RAW in nanoseconds, as the C library gets it: mostly without a system call. A
    /// thread that has forbidden itself the tick counter would be killed there, and has to make one.
    pub(crate) fn monotonic_raw(by_system_call: bool) -> Result<u64, Errno> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let clock = libc::CLOCK_MONOTONIC_RAW;
        // SAFETY: time is valid for the write. The system call writes the same structure as the
        // function, as it has one size on 64-bit targets, the only ones whose ticks are read here.
        let result = unsafe {
            match by_system_call {
                #[cfg(target_pointer_width = "64")]
                true => libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) as libc::c_int,
                _ => libc::clock_gettime(clock, &raw mut time),
            }
        };
        match result {
            0 => {
                let (seconds, nanoseconds) = (time.tv_sec as u64, time.tv_nsec as u64);
                Ok(seconds.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds))
            }
            _ => Err(last_error()),
        }
    }

    /// The numbers of the processors that this thread may run on (`sched_getaffinity`). None at all if
    /// there are more than anybody has.
    pub(crate) fn allowed_processors() -> Vec<u32> {
        const THIS_THREAD: libc::pid_t = 0;
        let mut words = [0_u64; 256];
        // SAFETY: words is valid for writes of its size in bytes, and any bytes make u64s. It has the
        // layout that the kernel gives a set of processors on 64-bit and on little-endian targets;
        // there are no core types on others.
        let bytes = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                THIS_THREAD,
                size_of_val(&words),
                words.as_mut_ptr(),
            )
        };
        let bits = usize::try_from(bytes).unwrap_or(0).saturating_mul(8);
        let has = |bit: &u32| {
            let word = words.get(*bit as usize / 64).copied().unwrap_or(0);
            word >> (bit % 64) & 1 == 1
        };
        (0..u32::try_from(bits).unwrap_or(0)).filter(has).collect()
    }

    /// The number of the processor that this thread is on (`sched_getcpu`).
    pub(crate) fn current_processor() -> Option<u32> {
        // SAFETY: it takes nothing and touches no memory of ours.
        u32::try_from(unsafe { libc::sched_getcpu() }).ok()
    }

    /// Whether this thread may not read the tick counter (`PR_SET_TSC`; x86-64, and arm64 since Linux
    /// 6.12).
    pub(crate) fn ticks_are_forbidden() -> bool {
        let mut mode: libc::c_int = 0;
        // SAFETY: mode is valid for the write. Where the kernel does not know the request it writes
        // nothing.
        let result = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
        result == 0 && mode == libc::PR_TSC_SIGSEGV
    }

    /// The size of a page in bytes. Async-signal-safe once it has been called before.
    fn page_size() -> usize {
        static SIZE: AtomicUsize = AtomicUsize::new(0);
        match SIZE.load(Ordering::Relaxed) {
            0 => {
                // SAFETY: sysconf reads a constant of the process.
                let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
                // Linux always answers this one. Its smallest page is the fallback all the same.
                let size = usize::try_from(size).unwrap_or(4096);
                SIZE.store(size, Ordering::Relaxed); // everybody stores the same
                size
            }
            size => size,
        }
    }

    /// `mmap(2)` at an address of the kernel's choice or, if that is free, at `address`: nothing is
    /// ever replaced.
    fn map_new(
        address: *mut ControlPage,
        length: usize,
        access: libc::c_int,
        flags: libc::c_int,
        file: libc::c_int,
    ) -> Result<NonNull<ControlPage>, Errno> {
        // Linux before 4.17 does not know this flag, and treats the address as a hint.
        let place = if address.is_null() { 0 } else { libc::MAP_FIXED_NOREPLACE };
        // SAFETY: a new mapping, which replaces none, disturbs no memory in use.
        let mapped = unsafe { libc::mmap(address.cast(), length, access, flags | place, file, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(last_error());
        }
        let mapped = NonNull::new(mapped.cast()).ok_or(Errno(ENOMEM))?;
        if !address.is_null() && mapped.as_ptr() != address {
            // SAFETY: mapped just now, and nobody knows it.
            unsafe { unmap(mapped, length)? };
            return Err(Errno(EEXIST));
        }
        Ok(mapped)
    }

    /// Maps the control page of an event, exactly one page, read-only: at an address of the kernel's
    /// choice, or at `place`. `EEXIST` if something is there.
    pub(crate) fn map_at(
        event: &Descriptor,
        place: *mut ControlPage,
    ) -> Result<NonNull<ControlPage>, Errno> {
        map_new(place, page_size(), libc::PROT_READ, libc::MAP_SHARED, event.as_raw_fd())
    }

    /// An address at which `length` bytes were free a moment ago, if a control page fits into a
    /// [`STRIDE`] here. Another thread's mapping may come there at any time.
    pub(crate) fn free_place(length: usize) -> Result<*mut ControlPage, Errno> {
        if page_size() > STRIDE {
            return Err(Errno(EINVAL));
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let place = map_new(ptr::null_mut(), length, libc::PROT_NONE, flags, -1)?;
        // SAFETY: mapped just now, and nobody knows it.
        unsafe { unmap(place, length)? };
        Ok(place.as_ptr())
    }

    /// Unmaps `length` bytes, of whole pages.
    ///
    /// # Safety
    /// They were mapped here, are unmapped once only, and nobody reads them afterwards.
    unsafe fn unmap(start: NonNull<ControlPage>, length: usize) -> Result<(), Errno> {
        // SAFETY: the caller's promise: this is ours and no longer used.
        match unsafe { libc::munmap(start.as_ptr().cast(), length) } {
            0 => Ok(()),
            _ => Err(last_error()),
        }
    }

    /// Unmaps the page at `page`.
    ///
    /// # Safety
    /// As for [`unmap`].
    pub(crate) unsafe fn unmap_page(page: NonNull<ControlPage>) {
        // SAFETY: the caller promises that it is a whole page, mapped, that nobody reads any more. If
        // the kernel refuses, it stays mapped, and nothing else comes to harm.
        let _ = unsafe { unmap(page, page_size()) };
    }

    /// Puts a private page of zeros at `page`'s address if nothing is mapped there.
    /// Async-signal-safe, as a page was mapped before.
    pub(crate) fn cover(page: NonNull<ControlPage>) -> Result<(), Errno> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        map_new(page.as_ptr(), page_size(), libc::PROT_READ, flags, -1).map(drop)
    }

    /// The signals that a thread has blocked.
    pub(crate) type Mask = libc::sigset_t;

    /// Blocks all signals of this thread, and gives those that were blocked before. None if that is
    /// refused, by a seccomp filter, say; then nothing is blocked. Async-signal-safe.
    pub(crate) fn block_signals() -> Option<Mask> {
        let (mut all, mut before) = (MaybeUninit::<Mask>::uninit(), MaybeUninit::<Mask>::uninit());
        // SAFETY: both are valid for the writes; the call reads `all`, which sigfillset has filled, and
        // has filled `before` if it succeeds.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            match libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) {
                0 => Some(before.assume_init()),
                _ => None,
            }
        }
    }

    /// Blocks what was blocked when [`block_signals`] gave this. Async-signal-safe.
    pub(crate) fn restore_signals(before: &Mask) {
        // SAFETY: before is valid for the read.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
    }

    /// Opens a file to read it, without waiting for anybody to write it and without making it this
    /// process's terminal.
    pub(crate) fn open_file(path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
    }

    /// Has these called at every later `fork`, by the thread that forks: before it, and after it in the
    /// parent and in the child.
    ///
    /// # Safety
    /// They keep to async-signal-safe calls.
    pub(crate) unsafe fn at_fork(
        before: unsafe extern "C" fn(),
        in_parent: unsafe extern "C" fn(),
        in_child: unsafe extern "C" fn(),
    ) -> Result<(), Errno> {
        // SAFETY: the caller's promise about the handlers; the C library keeps only their addresses.
        match unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) } {
            0 => Ok(()),
            errno => Err(Errno(errno)),
        }
    }
}

/// The same names where there is no `perf_event_open`: nothing can be opened, and what would
/// need an open event cannot be called.
#[cfg(not(target_os = "linux"))]
mod calls {
    use super::{Attr, Control, ControlPage, Errno};
    use std::fs::File;
    use std::io;
    use std::path::Path;
    use std::ptr::NonNull;

    pub(crate) const EPERM: i32 = 1;
    pub(crate) const ENOENT: i32 = 2;
    pub(crate) const EINTR: i32 = 4;
    pub(crate) const EIO: i32 = 5;
    pub(crate) const E2BIG: i32 = 7;
    pub(crate) const EAGAIN: i32 = 11;
    pub(crate) const ENOMEM: i32 = 12;
    pub(crate) const EACCES: i32 = 13;
    pub(crate) const EBUSY: i32 = 16;
    pub(crate) const EEXIST: i32 = 17;
    pub(crate) const ENODEV: i32 = 19;
    pub(crate) const ENOTDIR: i32 = 20;
    pub(crate) const EINVAL: i32 = 22;
    pub(crate) const ENFILE: i32 = 23;
    pub(crate) const EMFILE: i32 = 24;
    pub(crate) const EFBIG: i32 = 27;
    pub(crate) const ENOSPC: i32 = 28;
    pub(crate) const ENOSYS: i32 = 38;
    pub(crate) const EOPNOTSUPP: i32 = 95;

    pub(crate) const SUPPORTED: bool = false;

    #[derive(Debug)]
    pub(crate) enum Descriptor {}

    pub(crate) fn open(_: &mut Attr, _: Option<&Descriptor>) -> Result<Descriptor, Errno> {
        Err(Errno(ENOSYS))
    }
    pub(crate) fn read(event: &Descriptor, _: &mut [u64]) -> Result<usize, Errno> {
        match *event {}
    }
    pub(crate) fn control(leader: &Descriptor, _: Control) -> Result<(), Errno> {
        match *leader {}
    }
    pub(crate) fn monotonic_raw(_: bool) -> Result<u64, Errno> {
        Err(Errno(ENOSYS))
    }
    pub(crate) fn allowed_processors() -> Vec<u32> {
        Vec::new()
    }
    pub(crate) fn current_processor() -> Option<u32> {
        None
    }
    pub(crate) fn ticks_are_forbidden() -> bool {
        true
    }
    pub(crate) fn map_at(
        event: &Descriptor,
        _: *mut ControlPage,
    ) -> Result<NonNull<ControlPage>, Errno> {
        match *event {}
    }
    pub(crate) fn free_place(_: usize) -> Result<*mut ControlPage, Errno> {
        Err(Errno(ENOSYS))
    }
    /// # Safety
    /// Nothing can be mapped here, so nothing can be passed to this.
    pub(crate) unsafe fn unmap_page(_: NonNull<ControlPage>) {}
    pub(crate) fn open_file(path: &Path) -> io::Result<File> {
        File::open(path)
    }
    pub(crate) fn cover(_: NonNull<ControlPage>) -> Result<(), Errno> {
        Ok(())
    }
    /// # Safety
    /// The handlers are never called.
    pub(crate) unsafe fn at_fork(
        _: unsafe extern "C" fn(),
        _: unsafe extern "C" fn(),
        _: unsafe extern "C" fn(),
    ) -> Result<(), Errno> {
        Ok(())
    }
    /// The signals that a thread has blocked: there are none here.
    pub(crate) type Mask = ();
    pub(crate) fn block_signals() -> Option<Mask> {
        None
    }
    pub(crate) fn restore_signals(_: &Mask) {}
}
