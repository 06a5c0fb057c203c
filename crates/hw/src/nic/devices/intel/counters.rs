//! Statistics registers that the 8254x and the 82599 have in the same places: saturating counters in a register file,
//! cleared by reading (64-bit ones by reading the upper half). Left out: multicast and broadcast frames sent (MPTC, BPTC).

pub const ROC: u64 = 0x40ac;
pub const GORC: u64 = 0x4088;
pub const GOTC: u64 = 0x4090;
pub const TOR: u64 = 0x40c0;
const RX_SIZES: u64 = 0x405c;
pub const GPRC: u64 = 0x4074;
const BPRC: u64 = 0x4078;
const MPRC: u64 = 0x407c;
const GPTC: u64 = 0x4080;
const TPR: u64 = 0x40d0;
const TPT: u64 = 0x40d4;
const TX_SIZES: u64 = 0x40d8;

/// The word of a register. A file has a power of two of words; one smaller than the BAR holds a part of it.
fn slot(words: &mut [u32], offset: u64) -> &mut u32 {
    let at = (offset / 4) as usize & (words.len() - 1);
    &mut words[at]
}

/// Counts in a register.
pub fn add(words: &mut [u32], offset: u64, n: u32) {
    let slot = slot(words, offset);
    *slot = slot.saturating_add(n);
}

/// Counts in a 64-bit register, by its lower half.
pub fn add64(words: &mut [u32], offset: u64, n: u64) {
    let old = u64::from(*slot(words, offset)) | u64::from(*slot(words, offset + 4)) << 32;
    let new = old.saturating_add(n);
    *slot(words, offset) = new as u32;
    *slot(words, offset + 4) = (new >> 32) as u32;
}

fn size_bin(words: &mut [u32], first: u64, length: u32) {
    let bin = match length {
        0..=64 => 0,
        65..=127 => 1,
        128..=255 => 2,
        256..=511 => 3,
        512..=1023 => 4,
        _ => 5,
    };
    add(words, first + 4 * bin, 1);
}

/// A frame on the wire, taken or not.
pub fn seen(words: &mut [u32], length: u32) {
    add(words, TPR, 1);
    add64(words, TOR, length.into());
}

/// A frame delivered to memory: its length with FCS, and the bytes that count.
pub fn received(words: &mut [u32], destination: &[u8; 6], length: u32, bytes: u32) {
    add(words, GPRC, 1);
    add64(words, GORC, bytes.into());
    if *destination == [0xff; 6] {
        add(words, BPRC, 1);
    } else if destination[0] & 1 != 0 {
        add(words, MPRC, 1);
    }
    size_bin(words, RX_SIZES, length);
}

/// A frame sent; `length` with FCS.
pub fn sent(words: &mut [u32], length: u32) {
    add(words, GPTC, 1);
    add64(words, GOTC, length.into());
    add(words, TPT, 1);
    size_bin(words, TX_SIZES, length);
}

/// Reads and clears; `is_pair` tells the lower half of a 64-bit counter, which stays until the upper is read.
pub fn read(words: &mut [u32], offset: u64, is_pair: impl Fn(u64) -> bool) -> u32 {
    if is_pair(offset) {
        return *slot(words, offset);
    }
    if offset >= 4 && is_pair(offset - 4) {
        *slot(words, offset - 4) = 0;
    }
    std::mem::take(slot(words, offset))
}
