//! Address translation: first-level TLBs, a second level, and a walker whose reads go to the L2 cache.
//!
//! Entries cover pages of any size (huge pages are one entry). An address carries its address space in its upper bits,
//! as the engine tags it. A page that is being walked for is waited for. Left out: dirty and access bits; stage 2; behind the
//! first level, pages of another granule than 4 KiB, which are walked for each time.

use crate::memory::MemorySystem;
use crate::params;
use wiretime_base::{stats, Cycles, Return, Window};

/// What a page walk reads and finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Physical addresses of the table entries read, from the root on.
    pub reads: [u64; 4],
    /// How many of them.
    pub count: u8,
    /// Page size as a power of two.
    pub page_bits: u8,
}

/// Who knows the page tables.
pub trait Walker {
    /// Walks the tables for `address`; nothing is read where translation is off.
    fn walk(&mut self, address: u64) -> Walk;
}

/// Translation is off: every address is its own, in one page.
pub struct Flat;
impl Walker for Flat {
    fn walk(&mut self, _: u64) -> Walk {
        Walk { page_bits: 48, ..Walk::default() }
    }
}

stats! {
    /// What translation cost.
    pub struct TlbStats {
        itlb_misses: "misses", "first-level misses of instruction fetch";
        dtlb_misses: "misses", "first-level misses of loads and stores";
        l2_tlb_misses: "misses", "second-level misses: walks of the page tables";
        walk_reads: "reads", "table entries read by walks";
        walk_cycles: "cycles", "duration of all walks";
    }
}

const FILTER: usize = 256;
/// Bits of a virtual address; above them is its address space.
const ADDRESS: u64 = (1 << 48) - 1;

/// A fully associative level, least recently used first out. A table by page guesses the entry, so that a hit costs no
/// search.
struct Full {
    base: Vec<u64>,
    mask: Vec<u64>,
    used: Vec<u32>,
    /// When an entry's translation is there, and how long it took.
    ready: Vec<(Cycles, Cycles)>,
    /// When all are.
    settled: Cycles,
    guess: Box<[u8; FILTER]>,
    clock: u32,
}

impl Full {
    fn new(entries: u32) -> Self {
        let n = entries.min(255) as usize;
        Self {
            base: vec![u64::MAX; n],
            mask: vec![u64::MAX; n],
            used: vec![0; n],
            ready: vec![(Cycles::ZERO, Cycles::ZERO); n],
            settled: Cycles::ZERO,
            guess: Box::new([0; FILTER]),
            clock: 0,
        }
    }

    #[inline]
    fn hit(&mut self, address: u64) -> Option<usize> {
        let slot = Self::slot(address);
        let i = usize::from(self.guess[slot]);
        if address & self.mask[i] == self.base[i] {
            self.touch(i);
            return Some(i);
        }
        let i = self.base.iter().zip(&self.mask).position(|(&b, &m)| address & m == b)?;
        self.guess[slot] = i as u8;
        self.touch(i);
        Some(i)
    }

    /// What an access at `t` waits for entry `i`: whoever comes before the walk that is under way began, for no longer than it
    /// would have walked itself.
    #[inline]
    fn wait(&self, i: usize, t: Cycles) -> Cycles {
        if self.settled <= t {
            return Cycles::ZERO;
        }
        let (ready, took) = self.ready[i];
        ready.saturating_sub(t).min(took)
    }

    /// Where the guess for an address stands.
    #[inline]
    fn slot(address: u64) -> usize {
        ((address >> 12 ^ address >> 20) % FILTER as u64) as usize
    }

    #[inline]
    fn touch(&mut self, i: usize) {
        self.clock = self.clock.wrapping_add(1);
        self.used[i] = self.clock;
    }

    fn insert(&mut self, address: u64, page_bits: u8, t: Cycles, took: Cycles) {
        // The order of uses goes on behind the wrap of their clock.
        let since = |used: u32| used.wrapping_sub(self.clock.wrapping_add(1));
        let i = self.used.iter().enumerate().min_by_key(|(_, &u)| since(u)).map_or(0, |(i, _)| i);
        self.mask[i] = page_mask(page_bits);
        self.base[i] = address & self.mask[i];
        self.touch(i);
        self.ready[i] = (t + took, took);
        self.settled = self.settled.max(t + took);
        self.guess[Self::slot(address)] = i as u8;
    }

    /// Whether there is an entry for exactly so many bits.
    fn holds(&mut self, address: u64, bits: u8) -> bool {
        let mask = page_mask(bits);
        let found = self.base.iter().zip(&self.mask).position(|(&b, &m)| m == mask && address & m == b);
        found.inspect(|&i| self.touch(i)).is_some()
    }

    fn forget(&mut self, page: u64) {
        for (base, mask) in self.base.iter_mut().zip(&mut self.mask) {
            if (page ^ *base) & *mask & ADDRESS == 0 {
                (*base, *mask) = (u64::MAX, u64::MAX);
            }
        }
    }

    fn clear(&mut self) {
        self.base.fill(u64::MAX);
        self.mask.fill(u64::MAX);
        self.used.fill(0);
    }
}

fn page_mask(bits: u8) -> u64 {
    u64::MAX << bits.min(63)
}

/// The second level: set-associative, indexed by the page's own number.
struct Second {
    /// Page base and size, most recently used first in each set.
    entries: Vec<(u64, u8)>,
    ways: usize,
    sets_mask: u64,
}

/// Page sizes that the second level looks for.
const SIZES: [u8; 5] = [12, 16, 21, 30, 48];
const NO_ENTRY: (u64, u8) = (u64::MAX, 0);

impl Second {
    fn set(&mut self, address: u64, bits: u8) -> &mut [(u64, u8)] {
        let base = (address >> bits & self.sets_mask) as usize * self.ways;
        &mut self.entries[base..base + self.ways]
    }

    fn lookup(&mut self, address: u64) -> Option<u8> {
        if self.entries.is_empty() {
            return None;
        }
        SIZES.into_iter().find(|&bits| {
            let wanted = (address & page_mask(bits), bits);
            let set = self.set(address, bits);
            let found = set.iter().position(|&e| e == wanted);
            if let Some(i) = found {
                set[..=i].rotate_right(1);
            }
            found.is_some()
        })
    }

    fn insert(&mut self, address: u64, bits: u8) {
        if self.entries.is_empty() {
            return;
        }
        let set = self.set(address, bits);
        set.rotate_right(1);
        set[0] = (address & page_mask(bits), bits);
    }
}

/// Translation of one core.
pub struct Tlb {
    instruction: Full,
    data: Full,
    second: Second,
    /// Last-level tables that the walker knows, by the region that they map.
    tables: Full,
    second_latency: Cycles,
    walk_latency: Cycles,
    walk_cached: bool,
    /// One walk at a time, in cycles.
    walkers: Window<Cycles>,
    pub stats: TlbStats,
}

impl Tlb {
    pub fn new(p: &params::Tlb) -> Self {
        Self {
            instruction: Full::new(p.l1i_entries),
            data: Full::new(p.l1d_entries),
            second: Second {
                entries: vec![NO_ENTRY; p.l2_entries as usize],
                ways: p.l2_ways as usize,
                sets_mask: u64::from((p.l2_entries / p.l2_ways.max(1)).max(1)) - 1,
            },
            tables: Full::new(p.walk_cache_entries.max(1)),
            second_latency: p.l2_latency.into(),
            walk_latency: p.walk_latency.into(),
            walk_cached: p.walk_cache_entries > 0,
            walkers: Window::new(1, Return::AnyOrder),
            stats: TlbStats::default(),
        }
    }

    /// Cycles that the translation of a load's or store's address adds at cycle `t`.
    #[inline]
    pub fn data(
        &mut self,
        i: usize,
        address: u64,
        t: Cycles,
        memory: &mut MemorySystem,
        walker: &mut impl Walker,
    ) -> Cycles {
        if let Some(i) = self.data.hit(address) {
            return self.data.wait(i, t);
        }
        self.stats.dtlb_misses += 1;
        let (bits, cycles) = self.miss(i, address, t, memory, walker);
        self.data.insert(address, bits, t, cycles);
        cycles
    }

    /// The same for instruction fetch.
    #[inline]
    pub fn instruction(
        &mut self,
        i: usize,
        address: u64,
        t: Cycles,
        memory: &mut MemorySystem,
        walker: &mut impl Walker,
    ) -> Cycles {
        if let Some(i) = self.instruction.hit(address) {
            return self.instruction.wait(i, t);
        }
        self.stats.itlb_misses += 1;
        let (bits, cycles) = self.miss(i, address, t, memory, walker);
        self.instruction.insert(address, bits, t, cycles);
        cycles
    }

    #[cold]
    fn miss(
        &mut self,
        i: usize,
        address: u64,
        t: Cycles,
        memory: &mut MemorySystem,
        walker: &mut impl Walker,
    ) -> (u8, Cycles) {
        if let Some(bits) = self.second.lookup(address) {
            return (bits, self.second_latency);
        }
        let walk = walker.walk(address);
        let bits = walk.page_bits;
        if walk.count == 0 {
            return (bits, Cycles::ZERO);
        }
        self.stats.l2_tlb_misses += 1;
        let asked = t + self.second_latency;
        let begin = self.walkers.ready(asked, 1);
        let mut at = begin + self.walk_latency;
        let reads = &walk.reads[..usize::from(walk.count).min(walk.reads.len())];
        // A cached pointer to the last table leaves one read.
        let known = self.walk_cached && self.tables.holds(address, bits + 9);
        let skipped = if known { reads.len() - 1 } else { 0 };
        for &read in &reads[skipped..] {
            self.stats.walk_reads += 1;
            at = memory.walk(i, read, at);
        }
        if self.walk_cached && !known {
            self.tables.insert(address, bits + 9, t, Cycles::ZERO);
        }
        self.stats.walk_cycles += (at - begin).0;
        self.walkers.hold(asked, at, 1);
        self.second.insert(address, bits);
        (bits, at - t)
    }

    /// First-level misses so far.
    #[inline]
    pub fn misses(&self) -> u64 {
        self.stats.itlb_misses + self.stats.dtlb_misses
    }

    /// Uses of the first levels so far, as their clocks count them.
    pub fn uses(&self) -> [u32; 2] {
        [self.instruction.clock, self.data.clock]
    }

    /// The same entries were used, in the same order, so many times more.
    pub fn repeat(&mut self, uses: [u32; 2]) {
        for (level, uses) in [&mut self.instruction, &mut self.data].into_iter().zip(uses) {
            level.clock = level.clock.wrapping_add(uses);
        }
    }

    /// No walk is asked for before cycle `t` any more.
    pub fn reached(&mut self, t: Cycles) {
        self.walkers.reached(t);
    }

    /// One page in any address space is forgotten, or everything.
    pub fn invalidate(&mut self, page: Option<u64>) {
        let Some(page) = page else {
            self.instruction.clear();
            self.data.clear();
            self.tables.clear();
            self.second.entries.fill(NO_ENTRY);
            return;
        };
        self.instruction.forget(page);
        self.data.forget(page);
        self.tables.forget(page);
        let sizes = if self.second.entries.is_empty() { &[] } else { &SIZES[..] };
        for &bits in sizes {
            // Any address space: its tag is above the index.
            for entry in self.second.set(page, bits) {
                if (entry.0 ^ page) & page_mask(entry.1) & ADDRESS == 0 {
                    *entry = NO_ENTRY;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::platform;

    /// Pages of one size, tables somewhere high.
    struct Pages(u8);
    impl Walker for Pages {
        fn walk(&mut self, address: u64) -> Walk {
            let leaf = (1 << 30) + (address >> self.0) * 8;
            let count = if self.0 == 12 { 4 } else { 3 };
            let mut reads = [0x100, 0x1000, 0x2000, 0x3000];
            reads[count - 1] = leaf;
            Walk { reads, count: count as u8, page_bits: self.0 }
        }
    }

    /// Walks and second-level hits of `turns` over `pages` pages of 4 KiB.
    fn sweep(pages: u64, bits: u8) -> (u64, u64) {
        let p = platform();
        let mut memory = MemorySystem::new(&p, 1);
        let mut tlb = Tlb::new(&p.core.tlb);
        let turn = |tlb: &mut Tlb, memory: &mut MemorySystem| {
            for page in 0..pages {
                tlb.data(0, page << 12, Cycles::ZERO, memory, &mut Pages(bits));
            }
        };
        turn(&mut tlb, &mut memory);
        let before = tlb.stats.clone();
        turn(&mut tlb, &mut memory);
        (tlb.stats.dtlb_misses - before.dtlb_misses, tlb.stats.l2_tlb_misses - before.l2_tlb_misses)
    }

    #[test]
    fn one_walk_at_a_time_and_none_waits_for_a_later_one() {
        let p = platform();
        let mut memory = MemorySystem::new(&p, 1);
        let mut tlb = Tlb::new(&p.core.tlb);
        let mut walk = |page: u64, t| tlb.data(0, page << 21, t, &mut memory, &mut Pages(21));
        walk(1000, Cycles(10_000));
        let warm = walk(1001, Cycles(20_000));
        walk(1002, Cycles(100_000));
        assert_eq!(walk(1003, Cycles(30_000)), warm, "a walk that was entered for later is not in the way");
        let looked = u64::from(p.core.tlb.l2_latency);
        assert_eq!(
            walk(1004, Cycles(30_001)),
            2 * warm - Cycles(1) - Cycles(looked),
            "one that was asked for before is"
        );
    }

    #[test]
    fn a_page_that_is_walked_for_is_waited_for() {
        let p = platform();
        let mut memory = MemorySystem::new(&p, 1);
        let mut tlb = Tlb::new(&p.core.tlb);
        let mut data = |address: u64, t| tlb.data(0, address, Cycles(t), &mut memory, &mut Pages(12));
        let walk = data(0x5000, 10_000);
        assert!(walk > Cycles(20));
        assert_eq!([0, 10, walk.0].map(|later| data(0x5008, 10_000 + later).0), [walk.0, walk.0 - 10, 0]);
        assert_eq!(data(0x5010, 2_000), walk, "who comes before the walk began does not wait for its end");
    }

    /// A table whose entries are blocks of 2 MiB, and one of pages below another of its entries: both map the same GiB.
    #[test]
    fn a_table_of_blocks_is_not_taken_for_one_of_pages() {
        let p = platform();
        assert!(p.core.tlb.walk_cache_entries > 0);
        let mut memory = MemorySystem::new(&p, 1);
        let mut tlb = Tlb::new(&p.core.tlb);
        let mut reads = |address: u64, bits| {
            let before = tlb.stats.walk_reads;
            tlb.data(0, address, Cycles::ZERO, &mut memory, &mut Pages(bits));
            tlb.stats.walk_reads - before
        };
        assert_eq!([reads(0x4000_0000, 21), reads(0x4020_0000, 21)], [3, 1], "the last table is known");
        assert_eq!([reads(0x4080_0000, 12), reads(0x4080_1000, 12)], [4, 1], "another is not");
        assert_eq!(reads(0x40a0_0000, 21), 1, "nor forgotten for it");
    }

    #[test]
    fn the_oldest_leaves_also_behind_the_wrap_of_the_clock() {
        let mut level = Full::new(4);
        let now = Cycles::ZERO;
        (0..4).for_each(|page| level.insert(page << 12, 12, now, now));
        level.clock = u32::MAX - 1;
        assert!((0..4).all(|page| level.hit(page << 12).is_some()) && level.clock == 2, "it wraps among them");
        level.insert(4 << 12, 12, now, now);
        let there: Vec<bool> = (0..5).map(|page| level.hit(page << 12).is_some()).collect();
        assert_eq!(there, [false, true, true, true, true]);
    }

    #[test]
    fn reach_of_each_level() {
        let p = platform().core.tlb;
        assert_eq!(sweep(u64::from(p.l1d_entries), 12), (0, 0));
        assert_eq!(sweep(u64::from(p.l1d_entries) + 1, 12).1, 0, "the second level holds the rest");
        assert_eq!(sweep(u64::from(p.l2_entries), 12).1, 0);
        assert!(sweep(u64::from(p.l2_entries) * 2, 12).1 > 0);
        assert_eq!(sweep(u64::from(p.l2_entries) * 2, 21), (0, 0), "huge pages: a few entries reach it all");
    }
}
