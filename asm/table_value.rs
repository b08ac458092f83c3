//! The value of a register on architectures that read it through a table of instructions.

use super::Register;

/// The value of a register, from [`value`](super::value).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    bits: u64,
    register: Register,
}

impl Value {
    #[inline(always)]
    pub(super) fn new(bits: u64, register: Register) -> Value {
        Value { bits, register }
    }

    /// A placeholder until the register is read.
    #[inline(always)]
    pub(crate) fn unread(register: Register) -> Value {
        Value { bits: 0, register }
    }

    /// Returns the register that it is read from.
    #[inline(always)]
    pub(crate) fn register(self) -> Register {
        self.register
    }

    /// Whether the read faulted. A register with all bits set looks the same: a lost sample, never a wrong one.
    #[inline(always)]
    pub(crate) fn is_fault(self) -> bool {
        self.bits == u64::MAX
    }

    /// Returns the register's bits. Those above its width are undefined.
    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        self.bits
    }
}
