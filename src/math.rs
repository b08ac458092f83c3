//! Pure arithmetic: no panic, no overflow, no unsafe code.
#![forbid(unsafe_code)]

/// The value of a counter of `width` bits read as two's complement; bits above the width are
/// ignored. A width of 0 or over 64 is no counter's.
#[allow(dead_code, reason = "the model that the assembly's sign extension is tested against")]
pub(crate) fn sign_extend(register: u64, width: u16) -> Option<i64> {
    match width {
        1..=64 => {
            let shift = 64 - u32::from(width);
            Some((register << shift) as i64 >> shift)
        }
        _ => None,
    }
}

/// How far a counter of `width` bits went from `start` to `end`, if it wrapped at most once; bits
/// above the width are ignored. None for a width that is no counter's.
#[inline(always)]
pub(crate) fn distance(start: u64, end: u64, width: u16) -> Option<u64> {
    match width {
        1..=64 => {
            let shift = 64 - u32::from(width);
            Some(end.wrapping_sub(start) << shift >> shift)
        }
        _ => None,
    }
}

/// How ticks become nanoseconds: the clock fields of the control page, from one seqlock round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conversion {
    /// `time_shift`.
    pub(crate) shift: u16,
    /// `time_mult`.
    pub(crate) mult: u32,
    /// `time_offset`: what makes the result count from the page's last update. Negative values
    /// wrap.
    pub(crate) offset: u64,
    /// `time_cycles` and `time_mask`, where the tick counter is narrower than 64 bits.
    pub(crate) short: Option<Short>,
}

/// What a tick counter narrower than 64 bits needs to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Short {
    /// `time_cycles`: the full count at some recent moment.
    pub(crate) cycles: u64,
    /// `time_mask`: the bits that the counter has.
    pub(crate) mask: u64,
}

impl Conversion {
    /// Nanoseconds from the page's last update to `ticks`; None for a shift no kernel means.
    pub(crate) fn elapsed(&self, ticks: u64) -> Option<u64> {
        let ticks = match self.short {
            Some(Short { cycles, mask }) => cycles.wrapping_add(ticks.wrapping_sub(cycles) & mask),
            None => ticks,
        };
        if self.shift > 63 {
            return None;
        }
        // 64 by 32 bits fit in 128, so the header's way by quotient and remainder, which keeps
        // them in 64, is not needed to be exact.
        let nanoseconds = (u128::from(ticks) * u128::from(self.mult)) >> self.shift;
        Some(self.offset.wrapping_add(nanoseconds as u64))
    }
}

/// What `value`, counted during `running` of `enabled` nanoseconds, comes to for all of them,
/// rounded down. None if the event never ran, or if the estimate does not fit in 64 bits.
pub(crate) fn scale(value: u64, enabled: u64, running: u64) -> Option<u64> {
    let estimate = (u128::from(value) * u128::from(enabled)).checked_div(u128::from(running))?;
    u64::try_from(estimate).ok()
}
