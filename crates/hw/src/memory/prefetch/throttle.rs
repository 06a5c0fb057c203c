//! What comes of a prefetcher's lines: how many of the last ones were used before it had fetched as many again (after
//! feedback-directed prefetching, Srinath and others, HPCA 2007). Left out: lateness and pollution, by which that one goes, too.

/// Lines between two judgements, and lines that are remembered.
const INTERVAL: u32 = 64;

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
        Self { below, recent: vec![u64::MAX; INTERVAL as usize].into(), fetched: 0, used: 0, holds: false }
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
        self.recent[(line % u64::from(INTERVAL)) as usize] = line;
        self.fetched += 1;
    }

    /// A line is used: if it was this prefetcher's, that counts.
    pub fn used(&mut self, line: u64) {
        let there = &mut self.recent[(line % u64::from(INTERVAL)) as usize];
        if *there == line {
            *there = u64::MAX;
            self.used += 1;
        }
    }
}
