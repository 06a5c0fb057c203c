//! A pool of packet buffers as DPDK lays them out, one a core: what was given back last is taken first.
//!
//! Left out: the common ring behind cores' caches (a core takes back what it has sent); headers of pools.

/// Bytes before a buffer's data: the pool's own header, the record of two lines, head room (DPDK: 64, 128, 128).
pub const BEFORE: u64 = 64 + 128 + 128;
/// Where the record is.
pub const RECORD: u64 = 64;

/// See the module.
pub struct Pool {
    base: u64,
    stride: u64,
    free: Vec<u32>,
}

impl Pool {
    /// `count` buffers of so many bytes, from `base` on.
    #[must_use]
    pub fn new(base: u64, count: u32, bytes: u32) -> Self {
        Self { base, stride: Self::stride(bytes), free: (0..count).rev().collect() }
    }

    /// From one buffer to the next: whole lines, an odd number of them, so that buffers spread over channels.
    #[must_use]
    pub fn stride(bytes: u32) -> u64 {
        let lines = (BEFORE + u64::from(bytes)).div_ceil(64);
        64 * (lines | 1)
    }

    /// One that is free.
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// It is free again.
    pub fn give(&mut self, buffer: u32) {
        self.free.push(buffer);
    }

    /// Where its data begin.
    #[must_use]
    pub fn data(&self, buffer: u32) -> u64 {
        self.base + u64::from(buffer) * self.stride + BEFORE
    }

    /// Where its record is.
    #[must_use]
    pub fn record(&self, buffer: u32) -> u64 {
        self.base + u64::from(buffer) * self.stride + RECORD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laid_out_as_dpdk_does() {
        assert_eq!(Pool::stride(2048), 2368, "37 lines");
        let mut p = Pool::new(0x1000, 2, 2048);
        assert_eq!((p.take(), p.take(), p.take()), (Some(0), Some(1), None));
        p.give(1);
        p.give(0);
        assert_eq!((p.take(), p.data(1), p.record(1)), (Some(0), 0x1000 + 2368 + 320, 0x1000 + 2368 + 64));
    }
}
