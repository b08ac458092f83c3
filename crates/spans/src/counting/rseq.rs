//! The area of a thread that the C library registers with the kernel for restartable sequences (rseq).
#![allow(unsafe_code)]

pub(super) use area::{section, unused};

#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    target_endian = "little",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
mod area {
    use std::arch::asm;
    use std::ptr;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The kernel's `struct rseq_cs`.
    #[repr(C, align(32))]
    struct Section {
        version_and_flags: u64,
        start: AtomicU64,
        length: AtomicU64,
        abort: AtomicU64,
    }

    /// The addresses of a section that is no code. The kernel checks the signature before that of `abort`, the one with
    /// which the C library registers its areas.
    #[repr(C)]
    struct Nowhere {
        signature: u32,
        abort: u32,
    }

    #[cfg(target_arch = "x86_64")]
    const SIGNATURE: u32 = 0x5305_3053;
    #[cfg(target_arch = "aarch64")]
    const SIGNATURE: u32 = 0xd428_bc00;
    #[cfg(target_arch = "riscv64")]
    const SIGNATURE: u32 = 0xf140_1073;

    static NOWHERE: Nowhere = Nowhere { signature: SIGNATURE, abort: 0 };
    static SECTION: Section = Section {
        version_and_flags: 0,
        start: AtomicU64::new(0),
        length: AtomicU64::new(0),
        abort: AtomicU64::new(0),
    };

    /// Returns the address of the section.
    #[inline(always)]
    pub(in crate::counting) fn unused() -> u64 {
        (&raw const SECTION).expose_provenance() as u64
    }

    /// Returns the place of a section's address in this thread's area. None if the C library has registered none.
    pub(in crate::counting) fn section() -> Option<*mut u64> {
        let (offset, size) = offset_and_size()?;
        if size == 0 {
            return None;
        }
        let start = (&raw const NOWHERE).expose_provenance() as u64;
        let abort = (&raw const NOWHERE.abort).expose_provenance() as u64;
        // The kernel reads the section whenever it switches this thread, and another object could be at its place.
        if SECTION.start.load(Ordering::Relaxed) == 0 {
            rdpmc::keep_loaded((&raw const SECTION).cast()).ok()?;
        }
        // The same values from every thread.
        SECTION.start.store(start, Ordering::Relaxed);
        SECTION.length.store(1, Ordering::Relaxed);
        SECTION.abort.store(abort, Ordering::Relaxed);
        debug_assert_eq!(NOWHERE.signature, SIGNATURE);
        debug_assert_eq!(SECTION.version_and_flags, 0);
        // After the two CPU numbers of 32 bits.
        let address = thread_pointer().wrapping_add_signed(offset).wrapping_add(8);
        Some(ptr::with_exposed_provenance_mut(address))
    }

    /// Returns the C library's `__rseq_offset` and `__rseq_size`. None if it has not these.
    fn offset_and_size() -> Option<(isize, u32)> {
        let (offset, size) = addresses();
        // SAFETY: null, or the C library's constants, which it sets before the program starts.
        unsafe { Some((*offset.as_ref()?, *size.as_ref()?)) }
    }

    // Weak symbols, which are null if nothing defines them.
    #[cfg(target_arch = "x86_64")]
    fn addresses() -> (*const isize, *const u32) {
        let (offset, size);
        // SAFETY: loads two addresses.
        unsafe {
            asm!(
                ".weak __rseq_offset",
                ".weak __rseq_size",
                "mov {}, qword ptr [rip + __rseq_offset@GOTPCREL]",
                "mov {}, qword ptr [rip + __rseq_size@GOTPCREL]",
                out(reg) offset,
                out(reg) size,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        (offset, size)
    }

    #[cfg(target_arch = "x86_64")]
    fn thread_pointer() -> usize {
        let pointer;
        // SAFETY: the first word of a thread's control block is its own address.
        unsafe {
            asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(pure, readonly, nostack, preserves_flags));
        }
        pointer
    }

    #[cfg(target_arch = "aarch64")]
    fn addresses() -> (*const isize, *const u32) {
        let (offset, size);
        // SAFETY: loads two addresses.
        unsafe {
            asm!(
                ".weak __rseq_offset",
                ".weak __rseq_size",
                "adrp {0}, :got:__rseq_offset",
                "ldr {0}, [{0}, :got_lo12:__rseq_offset]",
                "adrp {1}, :got:__rseq_size",
                "ldr {1}, [{1}, :got_lo12:__rseq_size]",
                out(reg) offset,
                out(reg) size,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        (offset, size)
    }

    #[cfg(target_arch = "aarch64")]
    fn thread_pointer() -> usize {
        let pointer;
        // SAFETY: reads a register.
        unsafe {
            asm!("mrs {}, tpidr_el0", out(reg) pointer, options(pure, nomem, nostack, preserves_flags))
        };
        pointer
    }

    #[cfg(target_arch = "riscv64")]
    fn addresses() -> (*const isize, *const u32) {
        let (offset, size);
        // SAFETY: loads two addresses.
        unsafe {
            asm!(
                ".weak __rseq_offset",
                ".weak __rseq_size",
                "2: auipc {0}, %got_pcrel_hi(__rseq_offset)",
                "ld {0}, %pcrel_lo(2b)({0})",
                "3: auipc {1}, %got_pcrel_hi(__rseq_size)",
                "ld {1}, %pcrel_lo(3b)({1})",
                out(reg) offset,
                out(reg) size,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        (offset, size)
    }

    #[cfg(target_arch = "riscv64")]
    fn thread_pointer() -> usize {
        let pointer;
        // SAFETY: reads a register.
        unsafe {
            asm!("mv {}, tp", out(reg) pointer, options(pure, nomem, nostack, preserves_flags))
        };
        pointer
    }
}

#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    target_endian = "little",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
)))]
mod area {
    pub(in crate::counting) fn unused() -> u64 {
        0
    }

    pub(in crate::counting) fn section() -> Option<*mut u64> {
        None
    }
}
