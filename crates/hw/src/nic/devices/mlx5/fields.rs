//! Fields of structures that firmware and driver exchange: big-endian, by their first bit and their width. What lies outside
//! a structure reads as zero and is not written: a driver may send too little.

/// First bit, width in bits, value.
pub type Field = (u32, u32, u64);

/// The value of a field.
#[must_use]
pub fn get(bytes: &[u8], bit: u32, width: u32) -> u64 {
    (bit..bit + width).fold(0, |value, at| {
        let byte = bytes.get((at / 8) as usize).copied().unwrap_or(0);
        value << 1 | u64::from(byte >> (7 - at % 8) & 1)
    })
}

/// Sets a field.
pub fn put(bytes: &mut [u8], (bit, width, value): Field) {
    for i in 0..width {
        let at = bit + i;
        if let Some(byte) = bytes.get_mut((at / 8) as usize) {
            let mask = 1 << (7 - at % 8);
            let one = value.checked_shr(width - 1 - i).unwrap_or(0) & 1 != 0;
            *byte = if one { *byte | mask } else { *byte & !mask };
        }
    }
}

/// A half word at a byte.
#[inline]
#[must_use]
pub fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
}

/// A word at a byte.
#[inline]
#[must_use]
pub fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
}

/// The low 24 bits of it, where numbers of objects are.
#[must_use]
pub fn number(bytes: &[u8], at: usize) -> u32 {
    word(bytes, at) & 0xff_ffff
}

/// A double word at a byte.
#[inline]
#[must_use]
pub fn double(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) << 32 | u64::from(word(bytes, at + 4))
}

/// Bytes at a place, where they fit.
pub fn place(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(there) = bytes.get_mut(at..at + value.len()) {
        there.copy_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_from_the_left() {
        let mut b = [0; 8];
        put(&mut b, (3, 5, 17));
        put(&mut b, (12, 20, 0xabcde));
        assert_eq!(b[..4], [17, 0x0a, 0xbc, 0xde]);
        assert_eq!((get(&b, 3, 5), get(&b, 12, 20), get(&b, 60, 8)), (17, 0xabcde, 0), "beyond the end: zeros");
        put(&mut b, (62, 8, 0xff));
        assert_eq!((b[7], double(&b, 0), word(&b, 6)), (3, 0x110a_bcde_0000_0003, 0));
    }
}
