//! DMA into and out of the caches: direct cache access (DDIO, cache stashing to the LLC) or past them.

use super::cache::{DIRTY, DMA};
use super::{Level, MemorySystem, Requester, LINE};
use wiretime_base::Ps;

/// No core: a device.
const DEVICE: usize = u32::MAX as usize;

impl MemorySystem {
    /// A device writes `length` bytes at `address`, arriving at `t`; returns when all are visible to cores.
    pub fn dma_write(&mut self, address: u64, length: u64, t: Ps) -> Ps {
        let mut visible = t;
        for line in lines(address, length) {
            self.shared.stats.dma_writes += 1;
            self.take_from_others(DEVICE, line, true, t);
            let at_bank = self.shared.bank(line, t);
            // Visible once the point of coherence has it.
            visible = visible.max(at_bank + self.shared.latency);
            if self.shared.dca_ways == 0 {
                self.shared.drop_line(line);
                self.shared.dram.write(line, at_bank + self.shared.latency, true);
            } else if let Some(at) = self.shared.llc.touch(line) {
                self.shared.stats.dma_write_updates += 1;
                self.shared.llc.set_state(at, DIRTY | DMA);
            } else {
                self.shared.stats.dma_write_allocations += 1;
                let ways = self.shared.dca_ways;
                self.llc_insert(line, at_bank, Level::Llc, DIRTY | DMA, ways, t);
            }
        }
        visible
    }

    /// A device reads `length` bytes at `address`, its request arriving at `t`; returns when the last is there.
    pub fn dma_read(&mut self, address: u64, length: u64, t: Ps) -> Ps {
        let mut done = t;
        for line in lines(address, length) {
            self.shared.stats.dma_reads += 1;
            let at_bank = self.shared.bank(line, t);
            let looked = at_bank + self.shared.latency;
            if let Some(at) = self.shared.llc.touch(line) {
                self.shared.stats.dma_read_hits += 1;
                done = done.max(looked.max(self.shared.llc.ready(at)));
            } else if self.take_from_others(DEVICE, line, false, t) {
                self.shared.stats.dma_read_hits += 1;
                done = done.max(looked + self.shared.snoop_latency);
            } else {
                done = done.max(self.shared.dram.read(line, looked, Requester::Dma));
            }
        }
        done
    }
}

fn lines(address: u64, length: u64) -> std::ops::RangeInclusive<u64> {
    let last = address.saturating_add(length.max(1) - 1) / LINE;
    address / LINE..=last
}
