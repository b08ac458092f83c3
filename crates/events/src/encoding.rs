//! The parts of an event's encoding, and where a vendor's PMU has them in its configuration words.

/// What a vendor's PMU calls the parts of an encoding, and their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Intel,
    Amd,
    Arm,
    RiscV,
}

/// perf's modifiers.
pub(crate) const MODIFIERS: &str = "ukhGHIDeSWpP";

/// `config` and `config1`.
pub(crate) type Words = [u64; 2];

/// A part of the words: its name, the word, and the first bits and numbers of bits of its ranges, the lowest first.
type Field = (&'static str, usize, &'static [(u32, u32)]);

const INTEL: [Field; 13] = [
    ("event", 0, &[(0, 8)]),
    ("umask", 0, &[(8, 8), (40, 8)]),
    ("edge", 0, &[(18, 1)]),
    ("pc", 0, &[(19, 1)]),
    ("any", 0, &[(21, 1)]),
    ("inv", 0, &[(23, 1)]),
    ("cmask", 0, &[(24, 8)]),
    ("in_tx", 0, &[(32, 1)]),
    ("in_tx_cp", 0, &[(33, 1)]),
    ("eq", 0, &[(36, 1)]),
    ("offcore_rsp", 1, &[(0, 64)]),
    ("ldlat", 1, &[(0, 16)]),
    ("frontend", 1, &[(0, 24)]),
];

const AMD: [Field; 5] = [
    ("event", 0, &[(0, 8), (32, 4)]),
    ("umask", 0, &[(8, 8)]),
    ("edge", 0, &[(18, 1)]),
    ("inv", 0, &[(23, 1)]),
    ("cmask", 0, &[(24, 8)]),
];

const ARM: [Field; 1] = [("event", 0, &[(0, 16)])];

/// `firmware` is 2 for an event that the firmware counts.
const RISCV: [Field; 2] = [("event", 0, &[(0, 56)]), ("firmware", 0, &[(62, 2)])];

impl Layout {
    fn fields(self) -> &'static [Field] {
        match self {
            Layout::Intel => &INTEL,
            Layout::Amd => &AMD,
            Layout::Arm => &ARM,
            Layout::RiscV => &RISCV,
        }
    }

    /// Returns the names of all terms.
    pub(crate) fn terms(self) -> impl Iterator<Item = &'static str> {
        self.fields().iter().map(|(name, ..)| *name)
    }

    /// Returns how many bits a term has: one for a flag, which needs no value. None if there is no such term.
    pub(crate) fn bits(self, term: &str) -> Option<u32> {
        let (.., ranges) = self.fields().iter().find(|(name, ..)| *name == term)?;
        Some(ranges.iter().map(|(_, bits)| bits).sum())
    }

    /// Sets a term. Returns whether there is one of that name with enough bits.
    pub(crate) fn set(self, words: &mut Words, term: &str, value: u64) -> bool {
        let field = self.fields().iter().find(|(name, ..)| *name == term);
        let Some((_, word, ranges)) = field else { return false };
        let Some(word) = words.get_mut(*word) else { return false };
        let (mut result, mut left) = (*word, value);
        for (first, bits) in *ranges {
            let mask = u64::MAX >> (64 - bits);
            result = result & !(mask << first) | (left & mask) << first;
            left = left.checked_shr(*bits).unwrap_or(0);
        }
        if left == 0 {
            *word = result;
        }
        left == 0
    }
}

/// The encoding of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoding {
    pub(crate) event: u16,
    pub(crate) umask: u16,
    pub(crate) cmask: u8,
    /// A bit for each of [`FLAGS`].
    pub(crate) flags: u8,
    pub(crate) config1: u64,
}

const FLAGS: [&str; 4] = ["edge", "any", "inv", "eq"];

impl Encoding {
    /// Returns the event of the core's PMU with this encoding.
    pub(crate) fn event(self, layout: Layout) -> rdpmc::Event {
        let [config, config1] = self.words(layout);
        rdpmc::Event::raw(config).with_config1(config1)
    }

    pub(crate) fn words(self, layout: Layout) -> Words {
        let mut words = [0, self.config1];
        if layout == Layout::RiscV {
            // One number, of which `umask` has the upper half, and a flag.
            let event = u64::from(self.event) | u64::from(self.umask) << 16;
            layout.set(&mut words, "event", event);
            layout.set(&mut words, "firmware", if self.flags == 0 { 0 } else { 2 });
            return words;
        }
        let values = [("event", self.event), ("umask", self.umask), ("cmask", self.cmask.into())];
        let flags =
            FLAGS.iter().enumerate().map(|(bit, name)| (*name, u16::from(self.flags >> bit & 1)));
        for (name, value) in values.into_iter().chain(flags).filter(|(_, value)| *value != 0) {
            layout.set(&mut words, name, value.into());
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_vendors() {
        let encoding = Encoding { event: 0x1c1, umask: 0x203, cmask: 4, flags: 0b1111, config1: 7 };
        let intel = Encoding { event: 0xc1, ..encoding };
        assert_eq!(intel.words(Layout::Intel), [0x0210_04a4_03c1, 7]);
        let amd = Encoding { umask: 3, flags: 0b101, config1: 0, ..encoding };
        assert_eq!(amd.words(Layout::Amd), [0x1_0484_03c1, 0]);
        let arm = Encoding { event: 0x8005, umask: 0, cmask: 0, flags: 0, config1: 0 };
        assert_eq!(arm.words(Layout::Arm), [0x8005, 0]);
        let riscv = Encoding { event: 0x3f02, umask: 0x1, ..arm };
        assert_eq!(riscv.words(Layout::RiscV), [0x1_3f02, 0]);
        let firmware = Encoding { event: 5, flags: 0b10, ..arm };
        assert_eq!(firmware.words(Layout::RiscV), [0x8000_0000_0000_0005, 0]);
    }

    #[test]
    fn terms_are_set_again() {
        let mut words = [0x0102_03c0, 0];
        assert!(
            Layout::Intel.set(&mut words, "cmask", 0xff)
                && Layout::Intel.set(&mut words, "umask", 0x101)
        );
        assert_eq!(words, [0x100_ff02_01c0, 0]);
        assert!(Layout::Intel.set(&mut words, "offcore_rsp", u64::MAX));
        assert_eq!(words, [0x100_ff02_01c0, u64::MAX]);
        for (term, value) in [("cmask", 0x100), ("inv", 2), ("nothing", 0), ("umask", 0x1_0000)] {
            assert!(!Layout::Intel.set(&mut words, term, value), "{term}");
        }
        assert_eq!(words, [0x100_ff02_01c0, u64::MAX]);
    }
}
