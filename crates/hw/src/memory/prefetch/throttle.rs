//! What comes of a prefetcher's lines: how many of the last ones were used before it had fetched as many again (after
//! feedback-directed prefetching, Srinath and others, HPCA 2007). Left out: lateness and pollution, by which that one goes, too.

use crate::memory::spread;

/// Lines between two judgements.
const INTERVAL: u32 = 64;
/// Bits of the number of lines that are remembered.
const REMEMBERED: u32 = 10;

/// Lines in the same place of different pages are apart.
fn place(line: u64) -> usize {
    spread(line, REMEMBERED) as usize
}

/// Of one prefetcher.
pub struct Throttle {
    /// Percent used, below which it is held back.
    below: u32,
    recent: Box<[u64]>,
    fetched: u32,
    used: u32,
    holds: bool,
}

impl Throttle {
    pub fn new(below: u32) -> Self {
        Self { below, recent: vec![u64::MAX; 1 << REMEMBERED].into(), fetched: 0, used: 0, holds: false }
    }

    /// Whether it is held back.
    pub fn holds(&self) -> bool {
        self.holds
    }

    pub fn fetched(&mut self, line: u64) {
        if self.fetched == INTERVAL {
            self.holds = self.used * 100 < self.below * INTERVAL;
            (self.fetched, self.used) = (0, 0);
        }
        self.recent[place(line)] = line;
        self.fetched += 1;
    }

    /// A line is used: if it was this prefetcher's, that counts.
    pub fn used(&mut self, line: u64) {
        let there = &mut self.recent[place(line)];
        if *there == line {
            *there = u64::MAX;
            self.used += 1;
        }
    }
}
