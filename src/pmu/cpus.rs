//! Sets of CPUs.

use std::fmt;
use std::ops::RangeInclusive;

/// A set of CPUs. `Display` writes it as the kernel does: `0-3,8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuSet(Vec<RangeInclusive<u32>>);

impl CpuSet {
    /// Parses the kernel's format. None if the text has another format.
    pub(crate) fn parse(text: &str) -> Option<CpuSet> {
        let number = |text: &str| -> Option<u32> {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| digits)
        };
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(first..=last)
        };
        let text = text.trim();
        if text.is_empty() {
            return Some(CpuSet(Vec::new()));
        }
        Some(CpuSet(text.split(',').map(range).collect::<Option<_>>()?))
    }

    /// Whether the set contains this CPU.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.iter().any(|range| range.contains(&cpu))
    }

    /// Iterates over the CPUs, in the kernel's order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().cloned().flatten()
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, range) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match (range.start(), range.end()) {
                (first, last) if first == last => write!(f, "{comma}{first}")?,
                (first, last) => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lists_of_processors() {
        for text in ["0", "0-3", "0-3,8,10-11", ""] {
            assert_eq!(CpuSet::parse(&format!("{text}\n")).unwrap().to_string(), text);
        }
        let some = CpuSet::parse("0-3,8").unwrap();
        assert!(some.contains(3) && some.contains(8) && !some.contains(4));
        for wrong in ["a", "1-", "1,,2", "-1", "1-2-3", "+5", "7-3"] {
            assert_eq!(CpuSet::parse(wrong), None, "{wrong}");
        }
    }
}
