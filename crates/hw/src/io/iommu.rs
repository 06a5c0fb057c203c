//! The IOMMU: an IOTLB before memory, and walkers. Addresses stay what they are; only time is added.
//!
//! Left out: page-table reads in the cache hierarchy (a walk has a fixed time), faults, page requests.

use super::IoStats;
use crate::params;
use wiretime_base::{Ps, Return, Window};

/// The IOMMU of one device.
pub struct Iommu {
    enabled: bool,
    page_bits: u32,
    /// Page and last use.
    entries: Vec<(u64, u64)>,
    clock: u64,
    walk: Ps,
    walkers: Window<Ps>,
}

impl Iommu {
    pub fn new(p: &params::Iommu) -> Self {
        Self {
            enabled: p.enabled,
            page_bits: p.page_size.bytes().max(1).trailing_zeros(),
            entries: vec![(u64::MAX, 0); p.iotlb_entries as usize],
            clock: 0,
            walk: p.walk_latency.ps(),
            walkers: Window::new(p.walkers.into(), Return::AnyOrder),
        }
    }

    /// When the address of a request that comes at `t` is translated.
    #[inline]
    pub fn translate(&mut self, address: u64, t: Ps, stats: &mut IoStats) -> Ps {
        if !self.enabled {
            return t;
        }
        self.clock += 1;
        let page = address >> self.page_bits;
        if let Some(entry) = self.entries.iter_mut().find(|e| e.0 == page) {
            entry.1 = self.clock;
            stats.iotlb_hits += 1;
            return t;
        }
        stats.iotlb_misses += 1;
        let begin = self.walkers.ready(t, 1);
        let done = begin + self.walk;
        self.walkers.hold(t, done, 1);
        if let Some(oldest) = self.entries.iter_mut().min_by_key(|e| e.1) {
            *oldest = (page, self.clock);
        }
        done
    }

    pub fn reached(&mut self, t: Ps) {
        self.walkers.reached(t);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::platform;

    #[test]
    fn reach_and_walk() {
        let mut p = platform().iommu;
        p.enabled = true;
        let mut stats = IoStats::default();
        let mut m = Iommu::new(&p);
        let page = p.page_size.bytes();
        let walk = p.walk_latency.ps();
        for turn in 0..2 {
            for i in 0..u64::from(p.iotlb_entries) {
                let t = m.translate(i * page, Ps(1_000_000 * (i + 1)), &mut stats) - Ps(1_000_000 * (i + 1));
                assert_eq!(t, if turn == 0 { walk } else { Ps::ZERO });
            }
        }
        assert_eq!((stats.iotlb_misses, stats.iotlb_hits), (p.iotlb_entries.into(), p.iotlb_entries.into()));
        for i in 0..2 * u64::from(p.iotlb_entries) {
            m.translate(i * page, Ps(u64::MAX / 2), &mut stats);
        }
        let before = stats.iotlb_misses;
        m.translate(0, Ps(u64::MAX / 2), &mut stats);
        assert_eq!(stats.iotlb_misses, before + 1, "twice its reach turns it over");
    }
}
