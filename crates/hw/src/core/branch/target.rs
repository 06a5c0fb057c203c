//! Branch targets: two small levels, the main buffer, and a table for indirect branches.
//!
//! A direct branch's target follows from its address, so the buffers hold addresses only. The small levels replace in
//! order of arrival; what real ones do is not published.

use super::table::{Entry, Table};
use crate::params;
use wiretime_base::Cycles;

/// A branch and where it went.
impl Entry for (u64, u64) {
    fn word(self) -> u64 {
        self.0 ^ self.1.rotate_left(32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// A fully associative level.
struct Small {
    entries: Vec<u32>,
    next: usize,
}

/// Enough of an address to tell branches apart.
#[inline]
fn tag(pc: u64) -> u32 {
    (pc >> 2) as u32
}

impl Small {
    fn new(entries: u32) -> Self {
        Self { entries: vec![u32::MAX; entries as usize], next: 0 }
    }
    #[inline]
    fn holds(&self, pc: u64) -> bool {
        // No early exit: the compiler makes vectors of it.
        self.entries.iter().fold(false, |found, &e| found | (e == tag(pc)))
    }
    /// The oldest first: where it stands in the table makes no difference.
    fn stand(&self, words: &mut Vec<u64>) {
        let (young, old) = self.entries.split_at(self.next);
        words.extend(old.iter().chain(young).map(|&e| u64::from(e)));
    }
    fn insert(&mut self, pc: u64) {
        if let Some(slot) = self.entries.get_mut(self.next) {
            *slot = tag(pc);
            self.next = (self.next + 1) % self.entries.len();
        }
    }
}

/// All levels.
pub struct Targets {
    nano: Small,
    micro: Small,
    main: Table<u64>,
    ways: usize,
    sets_mask: u64,
    index_bit: u32,
    latencies: [Cycles; 4],
    indirect: Table<(u64, u64)>,
    path: u64,
    path_mask: u64,
}

impl Targets {
    pub fn new(p: &params::Predictor) -> Self {
        Self {
            nano: Small::new(p.nano_btb_entries),
            micro: Small::new(p.micro_btb_entries),
            main: Table::new(u64::MAX, p.btb_entries as usize),
            ways: p.btb_ways as usize,
            sets_mask: u64::from(p.btb_entries / p.btb_ways) - 1,
            index_bit: p.btb_index_bit,
            latencies: [p.nano_btb_latency, p.micro_btb_latency, p.btb_latency, p.btb_miss_latency].map(Cycles::from),
            indirect: Table::new((u64::MAX, 0), p.indirect_entries as usize),
            path: 0,
            path_mask: (1u64 << (4 * p.indirect_history).min(63)) - 1,
        }
    }

    /// What it holds, by words that change with it.
    pub fn stand(&self, words: &mut Vec<u64>) {
        self.nano.stand(words);
        self.micro.stand(words);
        words.extend([self.main.sum(), self.indirect.sum(), self.path]);
    }

    /// The branch at `pc` was taken: cycles until its target is fetched, and whether any level held it.
    #[inline]
    pub fn taken(&mut self, pc: u64) -> (Cycles, bool) {
        if self.nano.holds(pc) {
            return (self.latencies[0], true);
        }
        if self.micro.holds(pc) {
            self.nano.insert(pc);
            return (self.latencies[1], true);
        }
        let base = (pc >> self.index_bit & self.sets_mask) as usize * self.ways;
        let found = (0..self.ways).find(|way| self.main.get(base + way) == pc);
        // Most recently used first.
        for way in (1..=found.unwrap_or(self.ways - 1)).rev() {
            self.main.set(base + way, self.main.get(base + way - 1));
        }
        self.main.set(base, pc);
        self.micro.insert(pc);
        self.nano.insert(pc);
        match found {
            Some(_) => (self.latencies[2], true),
            None => (self.latencies[3], false),
        }
    }

    /// The indirect branch at `pc` went to `target`: whether that was predicted.
    pub fn indirect(&mut self, pc: u64, target: u64) -> bool {
        let mask = self.indirect.len() as u64 - 1;
        let at = ((pc >> 2 ^ self.path ^ self.path >> 9) & mask) as usize;
        let right = self.indirect.get(at) == (pc, target);
        self.indirect.set(at, (pc, target));
        self.path = (self.path << 4 ^ (target >> 2 & 0xf) ^ (target >> 6 & 0xf)) & self.path_mask;
        right
    }
}
