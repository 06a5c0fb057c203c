//! Statistics registers of the 8254x (Software Developer's Manual, section 13.7).

use super::super::counters::{self, add, add64, GORC, GOTC, ROC, TOR};

/// Counters, by register offset.
pub struct Statistics {
    words: [u32; 64],
}

impl Default for Statistics {
    fn default() -> Self {
        Self { words: [0; 64] }
    }
}

const MPC: u64 = 0x4010;
const RNBC: u64 = 0x40a0;
const TOT: u64 = 0x40c8;

impl Statistics {
    /// A frame delivered to memory; `length` with FCS.
    pub fn received(&mut self, destination: &[u8; 6], length: u32) {
        counters::received(&mut self.words, destination, length, length);
    }
    /// A frame seen on the wire, taken or not.
    pub fn seen(&mut self, length: u32) {
        counters::seen(&mut self.words, length);
    }
    /// A frame refused because the FIFO was full; `no_buffer`: for want of descriptors.
    pub fn missed(&mut self, no_buffer: bool) {
        add(&mut self.words, MPC, 1);
        if no_buffer {
            add(&mut self.words, RNBC, 1);
        }
    }
    /// A frame longer than allowed.
    pub fn oversize(&mut self) {
        add(&mut self.words, ROC, 1);
    }
    /// A frame sent; `length` with FCS.
    pub fn sent(&mut self, length: u32) {
        counters::sent(&mut self.words, length);
        add64(&mut self.words, TOT, length.into());
    }

    /// Reads and clears.
    pub fn read(&mut self, offset: u64) -> u32 {
        counters::read(&mut self.words, offset, |at| matches!(at, GORC | GOTC | TOR | TOT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPRC: u64 = 0x4074;
    const RX_SIZES: u64 = 0x405c;

    #[test]
    fn clear_on_read_and_pairs() {
        let mut s = Statistics::default();
        for _ in 0..3 {
            s.received(&[2, 0, 0, 0, 0, 1], 64);
        }
        assert_eq!((s.read(GPRC), s.read(GPRC)), (3, 0));
        assert_eq!((s.read(GORC), s.read(GORC)), (192, 192));
        assert_eq!((s.read(GORC + 4), s.read(GORC)), (0, 0));
        assert_eq!(s.read(RX_SIZES), 3);
    }
}
