//! Branch targets: two small levels, the main buffer, and a table for indirect branches.
//!
//! A direct branch's target follows from its address, so the buffers hold addresses only. The small levels replace in
//! order of arrival; what real ones do is not published.

use crate::params;
use wiretime_base::Cycles;

/// A fully associative level.
#[derive(Clone)]
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
    fn insert(&mut self, pc: u64) {
        if let Some(slot) = self.entries.get_mut(self.next) {
            *slot = tag(pc);
            self.next = (self.next + 1) % self.entries.len();
        }
    }
}

/// First in first out: where the next one goes makes no difference, but which is the oldest.
impl PartialEq for Small {
    fn eq(&self, other: &Self) -> bool {
        let by_age = |s: &Self| {
            let (young, old) = s.entries.split_at(s.next);
            [old, young].concat()
        };
        by_age(self) == by_age(other)
    }
}

/// All levels.
#[derive(Clone, PartialEq)]
pub struct Targets {
    nano: Small,
    micro: Small,
    main: Vec<u64>,
    ways: usize,
    sets_mask: u64,
    index_bit: u32,
    latencies: [Cycles; 4],
    indirect: Vec<(u64, u64)>,
    path: u64,
    path_mask: u64,
}

impl Targets {
    pub fn new(p: &params::Predictor) -> Self {
        Self {
            nano: Small::new(p.nano_btb_entries),
            micro: Small::new(p.micro_btb_entries),
            main: vec![u64::MAX; p.btb_entries as usize],
            ways: p.btb_ways as usize,
            sets_mask: u64::from(p.btb_entries / p.btb_ways) - 1,
            index_bit: p.btb_index_bit,
            latencies: [p.nano_btb_latency, p.micro_btb_latency, p.btb_latency, p.btb_miss_latency].map(Cycles::from),
            indirect: vec![(u64::MAX, 0); p.indirect_entries as usize],
            path: 0,
            path_mask: (1u64 << (4 * p.indirect_history).min(63)) - 1,
        }
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
        let set = &mut self.main[base..base + self.ways];
        let found = set.iter().position(|&e| e == pc);
        // Most recently used first.
        set[..=found.unwrap_or(self.ways - 1)].rotate_right(1);
        set[0] = pc;
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
        let entry = &mut self.indirect[((pc >> 2 ^ self.path ^ self.path >> 9) & mask) as usize];
        let right = *entry == (pc, target);
        *entry = (pc, target);
        self.path = (self.path << 4 ^ (target >> 2 & 0xf) ^ (target >> 6 & 0xf)) & self.path_mask;
        right
    }
}
