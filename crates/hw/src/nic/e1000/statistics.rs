//! Statistics registers: saturating counters, cleared by reading (64-bit ones by reading the upper half).

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
const GPRC: u64 = 0x4074;
const BPRC: u64 = 0x4078;
const MPRC: u64 = 0x407c;
const GPTC: u64 = 0x4080;
const GORC: u64 = 0x4088;
const GOTC: u64 = 0x4090;
const RNBC: u64 = 0x40a0;
const ROC: u64 = 0x40ac;
const TOR: u64 = 0x40c0;
const TOT: u64 = 0x40c8;
const TPR: u64 = 0x40d0;
const TPT: u64 = 0x40d4;
const RX_SIZES: u64 = 0x405c;
const TX_SIZES: u64 = 0x40d8;

impl Statistics {
    fn slot(&mut self, offset: u64) -> &mut u32 {
        &mut self.words[(offset as usize / 4) % 64]
    }
    fn add(&mut self, offset: u64, n: u32) {
        let slot = self.slot(offset);
        *slot = slot.saturating_add(n);
    }
    fn add64(&mut self, offset: u64, n: u64) {
        let old = u64::from(*self.slot(offset)) | u64::from(*self.slot(offset + 4)) << 32;
        let new = old.saturating_add(n);
        *self.slot(offset) = new as u32;
        *self.slot(offset + 4) = (new >> 32) as u32;
    }
    fn size_bin(&mut self, first: u64, length: u32) {
        let bin = match length {
            0..=64 => 0,
            65..=127 => 1,
            128..=255 => 2,
            256..=511 => 3,
            512..=1023 => 4,
            _ => 5,
        };
        self.add(first + 4 * bin, 1);
    }

    /// A frame delivered to memory; `length` with FCS.
    pub fn received(&mut self, destination: &[u8; 6], length: u32) {
        self.add(GPRC, 1);
        self.add64(GORC, length.into());
        if *destination == [0xff; 6] {
            self.add(BPRC, 1);
        } else if destination[0] & 1 != 0 {
            self.add(MPRC, 1);
        }
        self.size_bin(RX_SIZES, length);
    }
    /// A frame seen on the wire, taken or not.
    pub fn seen(&mut self, length: u32) {
        self.add(TPR, 1);
        self.add64(TOR, length.into());
    }
    /// A frame refused because the FIFO was full; `no_buffer`: for want of descriptors.
    pub fn missed(&mut self, no_buffer: bool) {
        self.add(MPC, 1);
        if no_buffer {
            self.add(RNBC, 1);
        }
    }
    /// A frame longer than allowed.
    pub fn oversize(&mut self) {
        self.add(ROC, 1);
    }
    /// A frame sent; `length` with FCS.
    pub fn sent(&mut self, length: u32) {
        self.add(GPTC, 1);
        self.add64(GOTC, length.into());
        self.add(TPT, 1);
        self.add64(TOT, length.into());
        self.size_bin(TX_SIZES, length);
    }

    /// Reads and clears. The lower half of a 64-bit counter stays until the upper is read.
    pub fn read(&mut self, offset: u64) -> u32 {
        match offset {
            GORC | GOTC | TOR | TOT => *self.slot(offset),
            _ => {
                let value = std::mem::take(self.slot(offset));
                if matches!(offset - 4, GORC | GOTC | TOR | TOT) {
                    *self.slot(offset - 4) = 0;
                }
                value
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
