//! DRAM: a fixed access latency behind one data bus a channel, lines interleaved over channels.
//!
//! Left out: banks, row buffers, refresh, read-write turnaround. Latency under load is too even, and peak bandwidth
//! is reached more easily than on hardware.

use crate::params;
use wiretime_base::{stats, Calendar, Ps};

/// Remembered bookings behind the latest one: several quanta and the longest latency.
const WINDOW: Ps = 4_000_000;

stats! {
    /// What DRAM did.
    pub struct DramStats {
        reads_core: "lines", "lines read for cores";
        reads_dma: "lines", "lines read for device DMA";
        writes_core: "lines", "dirty lines written back from caches";
        writes_dma: "lines", "lines written by device DMA past the caches";
    }
}

/// Main memory.
pub struct Dram {
    channels: Vec<Calendar>,
    latency: Ps,
    transfer: Ps,
    /// Counters.
    pub stats: DramStats,
}

impl Dram {
    /// As the platform says.
    #[must_use]
    pub fn new(p: &params::Dram) -> Self {
        Self {
            channels: (0..p.channels).map(|_| Calendar::new(WINDOW)).collect(),
            latency: p.latency.ps(),
            transfer: p.bandwidth.time_of(super::LINE),
            stats: DramStats::default(),
        }
    }

    fn book(&mut self, line: u64, t: Ps) -> Ps {
        let n = self.channels.len() as u64;
        // Fold higher bits in, as memory controllers do, so that power-of-two strides spread.
        let channel = (line ^ line >> 7 ^ line >> 13) % n;
        self.channels[channel as usize].reserve(t, self.transfer)
    }

    /// Reads a line that misses in the LLC at `t`; returns when it arrives.
    pub fn read(&mut self, line: u64, t: Ps) -> Ps {
        self.book(line, t) + self.latency
    }

    /// Writes a line; nobody waits for it.
    pub fn write(&mut self, line: u64, t: Ps) {
        self.book(line, t);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_latency_and_peak_bandwidth() {
        let p = params::Dram { channels: 2, latency: "80ns".parse().unwrap(), bandwidth: "200Gbps".parse().unwrap() };
        let mut d = Dram::new(&p);
        assert_eq!(d.read(1, 1_000), 81_000);
        // 64 B at 200 Gb/s are 2.56 ns on one of two buses.
        let n = 100_000u64;
        let last = (0..n).map(|l| d.read(l, 1_000_000)).max().unwrap();
        let took = last - 1_000_000 - 80_000;
        let ideal = n * 2_560 / 2;
        assert!(took >= ideal - 2_560 && took < ideal + ideal / 50, "{took} against {ideal}");
    }
}
