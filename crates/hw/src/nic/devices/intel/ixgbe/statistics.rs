//! Statistics registers of the 82599, kept in the register file itself (data sheet, section 8.2.3.23).

pub use super::super::counters::seen;
use super::super::counters::{self, add, add64, GORC, GOTC, GPRC, ROC, TOR};

const MPC: u64 = 0x3fa0;
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

/// Which set of counters a queue has.
fn set(words: &[u32], map: u64, queue: u16) -> u64 {
    let queue = u64::from(queue);
    u64::from(words[((map + queue / 4 * 4) / 4) as usize] >> (8 * (queue % 4)) & 0xf)
}

/// A frame delivered; `length` with FCS, and as memory has it.
pub fn received(words: &mut [u32], queue: u16, destination: &[u8; 6], (length, in_memory): (u32, u32)) {
    counters::received(words, destination, length, in_memory);
    let set = set(words, RQSMR, queue);
    add(words, QPRC + set * STRIDE, 1);
    add64(words, QBRC + set * STRIDE, in_memory.into());
}

/// A frame refused. It counts as a good one, too: drivers take the missed ones from these.
pub fn missed(words: &mut [u32]) {
    add(words, MPC, 1);
    add(words, GPRC, 1);
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
    counters::sent(words, length);
    let set = set(words, TQSM, queue);
    add64(words, QBTC + 8 * set, u64::from(length.saturating_sub(4)));
}

/// Reads and clears.
pub fn read(words: &mut [u32], offset: u64) -> u32 {
    counters::read(words, offset, is_pair)
}
