//! The IOMMU: translations kept in one or two levels before memory, and walkers. Addresses stay what they are; only time
//! is added.
//!
//! A walk either takes a measured time (`iommu.walks = "timed"`), or reads the entries of a table of four levels, one
//! after another, from where they are in memory, those left out whose table a cache of upper levels has (`"read"`): an
//! SMMU's with pages of 4 KiB, larger ones ending a walk sooner. Tables stand beside the guest's memory, an address each.
//!
//! Left out: faults, page requests, stage 2, invalidation (mappings are made once), tables in the LLC (a walk's reads are a
//! device's, which allocate nothing). A driver that maps and unmaps each buffer pays more than here.

use super::IoStats;
use crate::memory::MemorySystem;
use crate::params::{self, Walks};
use crate::requester::{DmaRequester, Moves};
use wiretime_base::{Bytes, Ps, Return, Window};

/// Levels of a table, the root's first, and the address bits that an entry of each covers.
const LEVELS: [u32; 4] = [39, 30, 21, 12];
/// Where tables are: above all memory that a guest has.
const TABLES: u64 = 1 << 50;
/// Between tables of a level.
const LEVEL: u64 = 1 << 46;
const ENTRY: u64 = 8;
/// Bits of a number, in front of which a tag has what kind it is.
const KIND: u32 = 56;
/// Ways of the second level.
const WAYS: usize = 8;

/// A translation, or a table's address.
#[derive(Clone, Copy)]
struct Entry {
    tag: u64,
    used: u64,
    /// When it was asked for, and when it was there.
    since: Ps,
    ready: Ps,
}

/// So many of them, in sets, least recently used first out.
struct Kept {
    entries: Vec<Entry>,
    ways: usize,
    clock: u64,
}

impl Kept {
    fn new(entries: u32, ways: usize) -> Self {
        let none = Entry { tag: u64::MAX, used: 0, since: Ps::ZERO, ready: Ps::ZERO };
        let ways = ways.clamp(1, (entries as usize).max(1));
        Self { entries: vec![none; entries as usize / ways * ways], ways, clock: 0 }
    }

    fn set(&mut self, tag: u64) -> &mut [Entry] {
        let sets = (self.entries.len() / self.ways).max(1) as u64;
        let first = (tag % sets) as usize * self.ways;
        self.entries.get_mut(first..first + self.ways).unwrap_or_default()
    }

    /// When a request at `t` has it, if it is kept. What was asked for later than `t` is never waited for.
    fn look(&mut self, tag: u64, t: Ps) -> Option<Ps> {
        self.clock += 1;
        let clock = self.clock;
        let entry = self.set(tag).iter_mut().find(|e| e.tag == tag)?;
        entry.used = clock;
        Some(if entry.since <= t { t.max(entry.ready) } else { t })
    }

    fn keep(&mut self, tag: u64, since: Ps, ready: Ps) {
        let used = self.clock;
        if let Some(oldest) = self.set(tag).iter_mut().min_by_key(|e| e.used) {
            *oldest = Entry { tag, used, since, ready };
        }
    }
}

/// The IOMMU of one card.
pub struct Iommu {
    enabled: bool,
    page_bits: u32,
    ring_page_bits: u32,
    first: Kept,
    second: Kept,
    second_latency: Ps,
    tables: Kept,
    walks: Walks,
    walk: Ps,
    walkers: Window<Ps>,
}

impl Iommu {
    pub fn new(p: &params::Iommu) -> Self {
        let bits = |size: Bytes| size.bytes().max(1).trailing_zeros();
        Self {
            enabled: p.enabled,
            page_bits: bits(p.page_size),
            ring_page_bits: bits(p.ring_page_size),
            first: Kept::new(p.iotlb_entries, p.iotlb_entries as usize),
            second: Kept::new(p.second_iotlb_entries, WAYS),
            second_latency: p.second_iotlb_latency.ps(),
            tables: Kept::new(p.table_cache_entries, p.table_cache_entries as usize),
            walks: p.walks,
            walk: p.walk_latency.ps(),
            walkers: Window::new(p.walkers.into(), Return::AnyOrder),
        }
    }

    /// When the address of a request that comes at `t` is translated.
    #[inline]
    pub fn translate(
        &mut self,
        address: u64,
        t: Ps,
        by: DmaRequester,
        memory: &mut MemorySystem,
        stats: &mut IoStats,
    ) -> Ps {
        if !self.enabled {
            return t;
        }
        let bits = if by.purpose.moves == Moves::Payload { self.page_bits } else { self.ring_page_bits };
        let page = address >> bits << bits;
        // Pages of two sizes may have the same number.
        let tag = address >> bits | u64::from(bits) << KIND;
        if let Some(there) = self.first.look(tag, t) {
            stats.iotlb_hits += 1;
            return there;
        }
        let at = if self.second.entries.is_empty() { t } else { t + self.second_latency };
        let done = match self.second.look(tag, at) {
            Some(there) => {
                stats.iotlb_second_hits += 1;
                there
            }
            None => {
                stats.iotlb_misses += 1;
                let begin = self.walkers.ready(at, 1);
                let done = self.walked(begin, (page, bits), by, memory, stats) + self.walk;
                self.walkers.hold(at, done, 1);
                self.second.keep(tag, at, done);
                done
            }
        };
        self.first.keep(tag, t, done);
        done
    }

    /// When a walk that begins at `t` has read what it has to.
    fn walked(
        &mut self,
        t: Ps,
        (page, bits): (u64, u32),
        by: DmaRequester,
        memory: &mut MemorySystem,
        stats: &mut IoStats,
    ) -> Ps {
        if self.walks == Walks::Timed {
            return t;
        }
        // The level that maps such a page, and the lowest above it whose entry is known.
        let leaf = LEVELS.iter().position(|&covers| covers <= bits).unwrap_or(LEVELS.len() - 1);
        let tag = |level: usize| page >> LEVELS[level] | (level as u64) << KIND;
        let known = (0..leaf).rev().find_map(|level| Some((level + 1, self.tables.look(tag(level), t)?)));
        let (next, mut t) = known.unwrap_or((0, t));
        for (level, covers) in LEVELS.iter().enumerate().take(leaf + 1).skip(next) {
            let asked = t;
            stats.iommu_table_reads += 1;
            let entry = TABLES + level as u64 * LEVEL + (page >> covers) * ENTRY;
            t = memory.dma_read((entry, ENTRY), t, by);
            if level < leaf {
                self.tables.keep(tag(level), asked, t);
            }
        }
        t
    }

    pub fn reached(&mut self, t: Ps) {
        self.walkers.reached(t);
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe::PROBE;
    use super::*;
    use crate::testing::platform;

    /// An IOMMU of one level, whose walks take their time alone, and what its requests meet.
    struct Bench {
        iommu: Iommu,
        memory: MemorySystem,
        stats: IoStats,
        p: params::Iommu,
    }

    fn bench(change: impl FnOnce(&mut params::Iommu)) -> Bench {
        let mut p = platform();
        p.iommu.enabled = true;
        p.iommu.walks = Walks::Timed;
        p.iommu.second_iotlb_entries = 0;
        p.iommu.second_iotlb_latency = "0ns".parse().unwrap();
        change(&mut p.iommu);
        Bench { iommu: Iommu::new(&p.iommu), memory: MemorySystem::new(&p, 1), stats: IoStats::default(), p: p.iommu }
    }

    impl Bench {
        /// What translation adds.
        fn takes(&mut self, address: u64, t: Ps, by: DmaRequester) -> Ps {
            self.iommu.translate(address, t, by, &mut self.memory, &mut self.stats) - t
        }
    }

    const FAR: Ps = Ps::from_s(1);

    #[test]
    fn reach_and_walk() {
        let mut b = bench(|_| ());
        let (page, walk, entries) = (b.p.page_size.bytes(), b.p.walk_latency.ps(), u64::from(b.p.iotlb_entries));
        for turn in 0..2 {
            for i in 0..entries {
                let took = b.takes(i * page, Ps::from_us(turn * 1000 + i + 1), PROBE);
                assert_eq!(took, if turn == 0 { walk } else { Ps::ZERO });
            }
        }
        assert_eq!((b.stats.iotlb_misses, b.stats.iotlb_hits), (entries, entries));
        for i in 0..2 * entries {
            b.takes(i * page, FAR, PROBE);
        }
        let before = b.stats.iotlb_misses;
        b.takes(0, FAR, PROBE);
        assert_eq!(b.stats.iotlb_misses, before + 1, "twice its reach turns it over");
    }

    #[test]
    fn who_comes_while_it_is_walked_for_waits_and_who_came_before_does_not() {
        let mut b = bench(|_| ());
        let walk = b.p.walk_latency.ps();
        let half = Ps(walk.0 / 2);
        assert_eq!(b.takes(0, FAR, PROBE), walk);
        assert_eq!(b.takes(0, FAR + half, PROBE), walk - half);
        assert_eq!(b.takes(0, FAR + walk, PROBE), Ps::ZERO);
        assert_eq!(b.takes(0, FAR - half, PROBE), Ps::ZERO, "what is asked for later delays nobody");
    }

    #[test]
    fn the_second_level_is_larger_and_further() {
        let mut b = bench(|p| {
            p.iotlb_entries = 4;
            p.second_iotlb_entries = 64;
            p.second_iotlb_latency = "40ns".parse().unwrap();
        });
        let (page, walk) = (b.p.page_size.bytes(), b.p.walk_latency.ps());
        for i in 0..64 {
            assert_eq!(b.takes(i * page, FAR + Ps::from_us(i), PROBE), Ps::from_ns(40) + walk);
        }
        let later = FAR + FAR;
        for i in 0..60 {
            assert_eq!(b.takes(i * page, later + Ps::from_us(i), PROBE), Ps::from_ns(40));
        }
        assert_eq!(b.takes(59 * page, later + later, PROBE), Ps::ZERO, "now in the first");
        assert_eq!((b.stats.iotlb_second_hits, b.stats.iotlb_misses, b.stats.iotlb_hits), (60, 64, 1));
    }

    #[test]
    fn a_walk_reads_a_level_after_another_and_only_what_no_cache_has() {
        let walks_of = |page_size: &str, tables: u32| {
            let mut b = bench(|p| {
                p.walks = Walks::Read;
                p.page_size = page_size.parse().unwrap();
                p.table_cache_entries = tables;
            });
            let read = |b: &Bench| b.stats.iommu_table_reads;
            let first = b.takes(0, FAR, PROBE);
            let once = read(&b);
            let second = b.takes(b.p.page_size.bytes(), FAR + FAR, PROBE);
            assert!(first > second || tables == 0, "{first:?} {second:?}");
            assert_eq!(b.memory.stats().dma_reads, read(&b), "from memory");
            (once, read(&b) - once)
        };
        assert_eq!(walks_of("4KiB", 16), (4, 1));
        assert_eq!(walks_of("64KiB", 16), (4, 1));
        assert_eq!(walks_of("2MiB", 16), (3, 1));
        assert_eq!(walks_of("1GiB", 16), (2, 1));
        assert_eq!(walks_of("4KiB", 0), (4, 4));
    }

    #[test]
    fn rings_are_in_pages_of_their_own_size() {
        let mut b = bench(|p| {
            p.page_size = "1GiB".parse().unwrap();
            p.ring_page_size = "4KiB".parse().unwrap();
        });
        let mut ring = PROBE;
        ring.purpose.moves = Moves::Descriptors;
        let walk = b.p.walk_latency.ps();
        assert_eq!(b.takes(0, FAR, PROBE), walk);
        assert_eq!(b.takes(0, FAR + FAR, ring), walk, "another page, though it begins at the same address");
        let later = FAR + FAR + FAR;
        assert_eq!(b.takes(1 << 20, later, PROBE), Ps::ZERO);
        assert_eq!(b.takes(1 << 20, later, ring), walk);
    }
}
