//! Statistics registers, kept in the register file itself: saturating counters, cleared by reading (64-bit ones by reading
//! the upper half). Data sheet, section 8.2.3.23.

const MPC: u64 = 0x3fa0;
const PRC: u64 = 0x405c;
const GPRC: u64 = 0x4074;
const BPRC: u64 = 0x4078;
const MPRC: u64 = 0x407c;
const GPTC: u64 = 0x4080;
const GORC: u64 = 0x4088;
const GOTC: u64 = 0x4090;
const ROC: u64 = 0x40ac;
const TOR: u64 = 0x40c0;
const TPR: u64 = 0x40d0;
const TPT: u64 = 0x40d4;
const PTC: u64 = 0x40d8;
const QPRC: u64 = 0x1030;
const QBRC: u64 = 0x1034;
const QPRDC: u64 = 0x1430;
const QBTC: u64 = 0x8700;
const RQSMR: u64 = 0x2300;
const TQSM: u64 = 0x8600;
/// Sets of counters that queues are mapped to.
const SETS: u64 = 16;
const STRIDE: u64 = 0x40;

/// 64-bit counters, by their lower half.
fn is_pair(offset: u64) -> bool {
    matches!(offset, GORC | GOTC | TOR)
        || offset >= QBRC && (offset - QBRC) % STRIDE == 0 && (offset - QBRC) / STRIDE < SETS
        || (QBTC..QBTC + 8 * SETS).contains(&offset) && offset % 8 == 0
}

fn per_set(offset: u64, first: u64) -> bool {
    offset >= first && (offset - first) % STRIDE == 0 && (offset - first) / STRIDE < SETS
}

/// Whether a register is a statistic.
pub fn clears(offset: u64) -> bool {
    (0x3f00..0x3fc4).contains(&offset)
        || (0x4000..0x4180).contains(&offset)
        || is_pair(offset)
        || offset >= 4 && is_pair(offset - 4)
        || per_set(offset, QPRC)
        || per_set(offset, QPRDC)
}

fn at(words: &mut [u32], offset: u64) -> &mut u32 {
    &mut words[(offset / 4) as usize]
}

fn add(words: &mut [u32], offset: u64, n: u32) {
    let slot = at(words, offset);
    *slot = slot.saturating_add(n);
}

fn add64(words: &mut [u32], offset: u64, n: u64) {
    let old = u64::from(*at(words, offset)) | u64::from(*at(words, offset + 4)) << 32;
    let new = old.saturating_add(n);
    *at(words, offset) = new as u32;
    *at(words, offset + 4) = (new >> 32) as u32;
}

/// Which set of counters a queue has.
fn set(words: &mut [u32], map: u64, queue: u16) -> u64 {
    let queue = u64::from(queue);
    u64::from(*at(words, map + queue / 4 * 4) >> (8 * (queue % 4)) & 0xf)
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

/// A frame on the wire.
pub fn seen(words: &mut [u32], length: u32) {
    add(words, TPR, 1);
    add64(words, TOR, length.into());
}

/// A frame delivered; `length` with FCS, and as memory has it.
pub fn received(words: &mut [u32], queue: u16, destination: &[u8; 6], (length, in_memory): (u32, u32)) {
    add(words, GPRC, 1);
    add64(words, GORC, in_memory.into());
    if *destination == [0xff; 6] {
        add(words, BPRC, 1);
    } else if destination[0] & 1 != 0 {
        add(words, MPRC, 1);
    }
    size_bin(words, PRC, length);
    let set = set(words, RQSMR, queue);
    add(words, QPRC + set * STRIDE, 1);
    add64(words, QBRC + set * STRIDE, in_memory.into());
}

/// A frame refused.
pub fn missed(words: &mut [u32]) {
    add(words, MPC, 1);
}

/// A frame dropped by its queue.
pub fn queue_drop(words: &mut [u32], queue: u16) {
    let set = set(words, RQSMR, queue);
    add(words, QPRDC + set * STRIDE, 1);
}

/// A frame longer than allowed.
pub fn oversize(words: &mut [u32]) {
    add(words, ROC, 1);
}

/// A frame sent; `length` with FCS.
pub fn sent(words: &mut [u32], queue: u16, length: u32) {
    add(words, GPTC, 1);
    add64(words, GOTC, length.into());
    add(words, TPT, 1);
    size_bin(words, PTC, length);
    let set = set(words, TQSM, queue);
    add64(words, QBTC + 8 * set, u64::from(length.saturating_sub(4)));
}

/// Reads and clears.
pub fn read(words: &mut [u32], offset: u64) -> u32 {
    if is_pair(offset) {
        return *at(words, offset); // stays until the upper half is read
    }
    if offset >= 4 && is_pair(offset - 4) {
        *at(words, offset - 4) = 0;
    }
    std::mem::take(at(words, offset))
}
