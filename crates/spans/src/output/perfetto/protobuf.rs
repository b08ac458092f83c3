//! Fields of protobuf messages.

/// The types of fields on the wire.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;

fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn tag(to: &mut Vec<u8>, field: u32, of: u32) {
    varint(to, u64::from(field << 3 | of));
}

/// Adds a field of type `uint32`, `uint64`, `bool` or enum.
pub(super) fn uint(to: &mut Vec<u8>, field: u32, value: u64) {
    tag(to, field, VARINT);
    varint(to, value);
}

/// Adds a field of type `fixed64`.
pub(super) fn fixed64(to: &mut Vec<u8>, field: u32, value: u64) {
    tag(to, field, FIXED64);
    to.extend(value.to_le_bytes());
}

/// Adds a field of type `double`.
pub(super) fn double(to: &mut Vec<u8>, field: u32, value: f64) {
    fixed64(to, field, value.to_bits());
}

/// Adds a field of type `string` or `bytes`.
pub(super) fn bytes(to: &mut Vec<u8>, field: u32, value: &[u8]) {
    tag(to, field, BYTES);
    varint(to, value.len() as u64);
    to.extend(value);
}

/// Adds a message, whose fields `fill` adds.
pub(super) fn message(to: &mut Vec<u8>, field: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    tag(to, field, BYTES);
    let before = to.len();
    // Most messages are shorter than 128 bytes, so that their length is one byte.
    to.push(0);
    fill(to);
    let length = to.len() - before - 1;
    match to.get_mut(before) {
        Some(place) if length < 0x80 => *place = length as u8,
        _ => {
            let mut longer = Vec::new();
            varint(&mut longer, length as u64);
            to.splice(before..=before, longer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of protobuf's documentation, and a message whose length has two bytes.
    #[test]
    fn encodings() {
        let mut of = Vec::new();
        uint(&mut of, 1, 150);
        assert_eq!(of, [0x08, 0x96, 0x01]);
        let mut of = Vec::new();
        bytes(&mut of, 2, b"testing");
        assert_eq!(of, *b"\x12\x07testing");
        let mut of = Vec::new();
        message(&mut of, 3, |to| uint(to, 1, 150));
        assert_eq!(of, [0x1a, 0x03, 0x08, 0x96, 0x01]);
        let mut of = Vec::new();
        message(&mut of, 1, |to| bytes(to, 16, &[7; 200]));
        assert_eq!(of.get(..6), Some(&[0x0a, 0xcc, 0x01, 0x82, 0x01, 0xc8][..]));
        assert_eq!(of.len(), 3 + 204);
        let mut of = Vec::new();
        double(&mut of, 1, 1.0);
        uint(&mut of, 1, u64::MAX);
        assert_eq!(
            of,
            [9, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]
        );
    }
}
