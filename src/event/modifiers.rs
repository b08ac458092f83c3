//! The modifiers of an event: the letters after the colon of its name, as in `cycles:uk`.

use crate::kernel::flag;
use std::fmt;

/// A set of perf's modifier letters: those for counting, and those for sampling that are harmless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Modifiers(u16);

const USER: u16 = 1 << 0;
const KERNEL: u16 = 1 << 1;
const HYPERVISOR: u16 = 1 << 2;
const GUEST: u16 = 1 << 3;
const HOST: u16 = 1 << 4;
const NOT_IDLE: u16 = 1 << 5;
const MAX_PRECISE: u16 = 1 << 6;
const PINNED: u16 = 1 << 7;
const EXCLUSIVE: u16 = 1 << 8;
const GROUP_SAMPLES: u16 = 1 << 12;
const WEAK_GROUP: u16 = 1 << 13;
/// Three bits. The number of set bits is the number of `p` letters.
const PRECISE: [u16; 3] = [1 << 9, 1 << 10, 1 << 11];

/// The letters in the order in which they are printed.
const LETTERS: [(char, u16); 14] = [
    ('u', USER),
    ('k', KERNEL),
    ('h', HYPERVISOR),
    ('G', GUEST),
    ('H', HOST),
    ('I', NOT_IDLE),
    ('p', PRECISE[0]),
    ('p', PRECISE[1]),
    ('p', PRECISE[2]),
    ('P', MAX_PRECISE),
    ('D', PINNED),
    ('e', EXCLUSIVE),
    ('S', GROUP_SAMPLES),
    ('W', WEAK_GROUP),
];

impl Modifiers {
    pub(crate) const NONE: Modifiers = Modifiers(0);

    /// Parses letters. None if one is unknown, or repeated too often.
    pub(crate) fn parse(letters: &str) -> Option<Modifiers> {
        letters.chars().try_fold(Modifiers::NONE, |Modifiers(set), letter| {
            let (_, bit) =
                LETTERS.iter().find(|(known, bit)| *known == letter && set & bit == 0)?;
            Some(Modifiers(set | bit))
        })
    }

    /// Returns these modifiers with kernel mode as the only privilege level.
    pub(crate) const fn kernel(self) -> Modifiers {
        Modifiers(self.0 & !(USER | HYPERVISOR) | KERNEL)
    }

    /// Returns the attr's flags for an event with these modifiers. Without modifiers, they are `unless_said`.
    pub(crate) fn flags(self, unless_said: u64) -> u64 {
        let has = |bit| self.0 & bit != 0;
        let mut flags = unless_said;
        let mut exclude = |flag: u64, exclude: bool| match exclude {
            true => flags |= flag,
            false => flags &= !flag,
        };
        if has(USER | KERNEL | HYPERVISOR) {
            exclude(flag::EXCLUDE_USER, !has(USER));
            exclude(flag::EXCLUDE_KERNEL, !has(KERNEL));
            exclude(flag::EXCLUDE_HV, !has(HYPERVISOR));
        }
        if has(GUEST | HOST) {
            exclude(flag::EXCLUDE_GUEST, !has(GUEST));
            exclude(flag::EXCLUDE_HOST, !has(HOST));
        }
        for (bit, flag) in
            [(NOT_IDLE, flag::EXCLUDE_IDLE), (PINNED, flag::PINNED), (EXCLUSIVE, flag::EXCLUSIVE)]
        {
            if has(bit) {
                flags |= flag;
            }
        }
        flags
    }
}

impl Modifiers {
    /// Whether they request precise samples (`p`, `P`), which no counter takes.
    pub(crate) fn are_precise(self) -> bool {
        self.0 & (PRECISE.into_iter().fold(MAX_PRECISE, |bits, bit| bits | bit)) != 0
    }

    /// Returns the letters without a colon, as they follow a slash.
    pub(crate) fn letters(self) -> String {
        LETTERS.iter().filter(|(_, bit)| self.0 & bit != 0).map(|(letter, _)| *letter).collect()
    }
}

impl fmt::Display for Modifiers {
    /// Writes a colon and the letters, or nothing if there are none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if *self == Modifiers::NONE { "" } else { ":" };
        write!(f, "{colon}{}", self.letters())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn letters_there_and_back() {
        for (text, back) in [
            ("", ""),
            ("u", ":u"),
            ("ku", ":uk"),
            ("DPpuhkHpGp", ":ukhGHpppPD"),
            ("eI", ":Ie"),
            ("WSu", ":uSW"),
        ] {
            assert_eq!(Modifiers::parse(text).unwrap().to_string(), back);
        }
        for wrong in ["uu", "pppp", "x", "u k", "U", "é", "PP"] {
            assert_eq!(Modifiers::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn flags_of_letters() {
        let flags = |letters, unless_said| Modifiers::parse(letters).unwrap().flags(unless_said);
        let user_only = flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV;
        assert_eq!(flags("", user_only), user_only);
        assert_eq!(flags("u", 0), user_only);
        assert_eq!(flags("uk", user_only), flag::EXCLUDE_HV);
        assert_eq!(flags("ukh", user_only), 0);
        assert_eq!(flags("k", user_only), flag::EXCLUDE_USER | flag::EXCLUDE_HV);
        assert_eq!(flags("G", user_only), user_only | flag::EXCLUDE_HOST);
        assert_eq!(flags("GH", 0), 0);
        assert_eq!(flags("ppPSW", 0), 0, "nothing is sampled");
        assert_eq!(flags("H", 0), flag::EXCLUDE_GUEST);
        assert_eq!(flags("DeI", 0), flag::PINNED | flag::EXCLUSIVE | flag::EXCLUDE_IDLE);
    }
}
