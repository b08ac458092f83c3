//! The bits of the configuration words that hold a term's value, as the PMU's `format` directory lists them.

use crate::event::{WORDS, Words};

/// The bits of one term, e.g. `config:0-7,32-35`.
///
/// The value fills the bits from the lowest up: first those of `config`, then those of `config1` and so on, whatever
/// the order of the ranges. perf does so too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field(Words);

impl Field {
    /// Parses the text of a file in `format`. None if it is malformed.
    pub(crate) fn parse(text: &str) -> Option<Field> {
        let mut bits = Words::default();
        let mut word = None;
        for part in text.trim().split(',') {
            let range = match part.split_once(':') {
                Some((name, range)) => {
                    word = WORDS.iter().position(|word| *word == name.trim());
                    range
                }
                None => part,
            };
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (bit(first)?, bit(last)?);
            let (low, high) = (first.min(last), first.max(last));
            *bits.get_mut(word?)? |= u64::MAX >> (63 - (high - low)) << low;
        }
        Some(Field(bits))
    }

    /// Returns the number of bits. A field of more than 64 bits holds values of at most 64.
    pub(crate) fn width(&self) -> u32 {
        self.0.iter().map(|bits| bits.count_ones()).sum()
    }

    /// Returns the bits in each word.
    pub(crate) fn bits(&self) -> &Words {
        &self.0
    }

    /// Returns the words with the field set to `value`. None if `value` has more bits than the field.
    pub(crate) fn put(&self, value: u64, words: Words) -> Option<Words> {
        let mut left = value;
        let mut result = words;
        for (word, bits) in result.iter_mut().zip(self.0) {
            let mut rest = bits;
            while rest != 0 {
                let lowest = rest & rest.wrapping_neg();
                *word = *word & !lowest | if left & 1 == 1 { lowest } else { 0 };
                left >>= 1;
                rest &= rest - 1;
            }
        }
        (left == 0).then_some(result)
    }

    /// Returns the field's value in these words. None if the value needs more than 64 bits.
    pub(crate) fn take(&self, words: &Words) -> Option<u64> {
        let (mut value, mut place) = (0_u64, 0);
        for (word, bits) in words.iter().zip(self.0) {
            let mut rest = bits;
            while rest != 0 {
                if word & rest & rest.wrapping_neg() != 0 {
                    value |= 1_u64.checked_shl(place)?;
                }
                place += 1;
                rest &= rest - 1;
            }
        }
        Some(value)
    }
}

/// Parses the number of a bit of a word. None if it is not a decimal number below 64.
fn bit(text: &str) -> Option<u32> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number < 64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn ranges_in_any_order_and_over_words() {
        let all = |value, text| Field::parse(text).and_then(|f| f.put(value, Words::default()));
        assert_eq!(all(0xabc, "config:0-7,32-35"), Some([0xa_0000_00bc, 0, 0, 0, 0]));
        assert_eq!(all(0xabc, "config:35-32,7-0\n"), Some([0xa_0000_00bc, 0, 0, 0, 0]));
        assert_eq!(
            all(0x1ff, "config2:0-3,config:60-63,config2:8"),
            Some([15 << 60, 0, 0x10f, 0, 0])
        );
        assert_eq!(all(1, "config4:63"), Some([0, 0, 0, 0, 1 << 63]));
        assert_eq!(all(2, "config:63"), None);
        assert_eq!(all(u64::MAX, "config:0-63"), Some([u64::MAX, 0, 0, 0, 0]));
        assert_eq!(all(u64::MAX, "config:0-63,config3:0-63"), Some([u64::MAX, 0, 0, 0, 0]));
    }

    #[test]
    fn what_is_put_is_taken() {
        let field = Field::parse("config1:1,6-10,44,config:5").unwrap();
        assert_eq!(field.width(), 8);
        let before = [u64::MAX; 5];
        let words = field.put(0xa5, before).unwrap();
        assert_eq!(field.take(&words), Some(0xa5));
        assert_eq!(field.put(0xff, words), Some(before));
        let wide = Field::parse("config:0-63,config1:0").unwrap();
        assert_eq!((wide.take(&[7, 0, 0, 0, 0]), wide.take(&[7, 1, 0, 0, 0])), (Some(7), None));
    }

    #[test]
    fn what_is_not_understood() {
        for text in [
            "",
            "config",
            "config:",
            "config:64",
            "config:0-64",
            "config5:1",
            "0-7",
            "config:-1",
            "config:1-",
            "config:+1",
            "config:0x1",
            "config:0-7,",
            "conf:0",
            "config:1:2",
        ] {
            assert_eq!(Field::parse(text), None, "{text}");
        }
    }
}
