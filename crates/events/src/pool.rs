//! The names and encodings of a vendor's events, packed.
//!
//! Events are ordered by name. An event has a number: its place. Several can have one name, with different encodings. The bytes
//! of an event are:
//! - the length of what its name shares with the name before, and the length of the rest, a byte each; the rest,
//! - which parts of the encoding follow (a bit each), the low byte of `event`, and those parts: `umask`, its high byte, `cmask`,
//!   flags, the high byte of `event`, and `config1` as a [number](varint).
//!
//! Each 16 events are a block, which begins with a whole name. `blocks` has the blocks' offsets, four bytes each.

use crate::encoding::Encoding;

const BLOCK: usize = 16;

/// The maximum length of a name.
pub(crate) const MAX_NAME: usize = 255;

/// A vendor's events.
pub(crate) struct Pool {
    pub(crate) events: &'static [u8],
    pub(crate) blocks: &'static [u8],
    /// The words of all descriptions, with a space between two.
    #[cfg(feature = "descriptions")]
    pub(crate) words: &'static [u8],
    /// The descriptions, in the order of the events: how many words, and their places.
    #[cfg(feature = "descriptions")]
    pub(crate) texts: &'static [u8],
}

impl Pool {
    /// Returns the encoding of the event of this name, in lower case, whose number fits. Does not allocate.
    pub(crate) fn find(&self, name: &[u8], fits: impl Fn(usize) -> bool) -> Option<Encoding> {
        let mut cursor = self.cursor_at(self.block_before(name));
        while let Some((number, encoding)) = cursor.next() {
            match cursor.name().cmp(name) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal if fits(number) => return Some(encoding),
                std::cmp::Ordering::Equal => {}
                std::cmp::Ordering::Greater => break,
            }
        }
        None
    }

    /// Returns a cursor before the first event.
    pub(crate) fn cursor(&self) -> Cursor {
        self.cursor_at(0)
    }

    /// Returns the last block whose first name is less than this one, or the first block.
    fn block_before(&self, name: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.blocks.len() / 4);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let mut cursor = self.cursor_at(middle);
            if cursor.next().is_some() && cursor.name() < name {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    fn cursor_at(&self, block: usize) -> Cursor {
        let offset =
            self.blocks.get(block * 4..block * 4 + 4).and_then(|bytes| bytes.try_into().ok());
        let offset = offset.map_or(usize::MAX, |bytes| u32::from_le_bytes(bytes) as usize);
        Cursor {
            bytes: self.events.get(offset..).unwrap_or_default(),
            number: block * BLOCK,
            name: [0; MAX_NAME],
            length: 0,
        }
    }
}

/// A place in the events. Keeps the name of the last event.
pub(crate) struct Cursor {
    bytes: &'static [u8],
    number: usize,
    name: [u8; MAX_NAME],
    length: usize,
}

impl Cursor {
    /// Returns the name of the event that `next` returned last.
    pub(crate) fn name(&self) -> &[u8] {
        self.name.get(..self.length).unwrap_or_default()
    }

    /// Returns the number and the encoding of the next event.
    pub(crate) fn next(&mut self) -> Option<(usize, Encoding)> {
        let ([shared, rest], bytes) = self.bytes.split_first_chunk()?;
        let (shared, rest) = (usize::from(*shared), usize::from(*rest));
        let (name, mut bytes) = bytes.split_at_checked(rest)?;
        self.name.get_mut(shared..shared + rest)?.copy_from_slice(name);
        self.length = shared + rest;
        let encoding = encoding(&mut bytes)?;
        self.bytes = bytes;
        self.number += 1;
        Some((self.number - 1, encoding))
    }
}

fn encoding(bytes: &mut &[u8]) -> Option<Encoding> {
    let [present, event] = *take_chunk(bytes)?;
    let mut part = |bit: u32| match present >> bit & 1 {
        0 => Some(0),
        _ => take_chunk(bytes).map(|[byte]| *byte),
    };
    let (umask, umask_high, cmask, flags, event_high) =
        (part(0)?, part(1)?, part(2)?, part(3)?, part(4)?);
    let config1 = if present >> 5 & 1 == 1 { varint(bytes)? } else { 0 };
    Some(Encoding {
        event: u16::from_le_bytes([event, event_high]),
        umask: u16::from_le_bytes([umask, umask_high]),
        cmask,
        flags,
        config1,
    })
}

fn take_chunk<'b, const N: usize>(bytes: &mut &'b [u8]) -> Option<&'b [u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(first)
}

/// Takes a number: seven bits in a byte, the lowest first. The highest bit tells that more follow.
pub(crate) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = *take_chunk(bytes)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// The descriptions of a pool.
#[cfg(feature = "descriptions")]
pub(crate) struct Descriptions {
    words: Vec<&'static str>,
    texts: &'static [u8],
}

#[cfg(feature = "descriptions")]
impl Descriptions {
    pub(crate) fn from_pool(pool: &Pool) -> Descriptions {
        let words = std::str::from_utf8(pool.words).unwrap_or_default();
        Descriptions { words: words.split(' ').collect(), texts: pool.texts }
    }

    /// Returns the description of the next event.
    pub(crate) fn next(&mut self) -> Option<String> {
        let mut text = String::new();
        for place in 0..varint(&mut self.texts)? {
            let word = usize::try_from(varint(&mut self.texts)?).ok()?;
            if place > 0 {
                text.push(' ');
            }
            text.push_str(self.words.get(word)?);
        }
        Some(text)
    }
}
