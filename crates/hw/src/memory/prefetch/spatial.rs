//! Spatial memory streaming (Somogyi and others, ISCA 2006): which lines of a region are touched while it is visited goes by the
//! instruction and the place in the region of the first access; the next visit of that instruction fetches the same.
//!
//! A visit ends when its region makes room for another, the oldest first, not when one of its lines leaves the cache, and one of a
//! single line takes as much room as others: the paper filters them. Accesses whose instruction is not known (prefetches of
//! another cache, stores, fetches) belong to a visit and begin none.

use super::{Reach, Wanted, NOTHING};
use crate::memory::PAGE_LINES;

/// Visits that are followed at a time (the paper's accumulation table).
const VISITS: usize = 64;

#[derive(Clone, Copy)]
struct Visit {
    region: u64,
    /// What began it.
    cause: u64,
    lines: u64,
}

/// Of one cache.
pub struct Spatial {
    /// Lines of a region, a power of two.
    region: u64,
    /// In the order in which they began.
    visits: Vec<Visit>,
    /// Patterns by what began them.
    patterns: Box<[(u64, u64)]>,
}

impl Spatial {
    pub fn new(entries: usize, distance: u64) -> Self {
        Self {
            region: distance.next_power_of_two().min(PAGE_LINES),
            visits: Vec::with_capacity(VISITS),
            patterns: vec![(u64::MAX, 0); entries].into(),
        }
    }

    pub fn train(&mut self, pc: u64, line: u64, reach: Reach) -> Wanted {
        let (region, offset) = (line / self.region, line % self.region);
        if let Some(visit) = self.visits.iter_mut().find(|v| v.region == region) {
            visit.lines |= 1 << offset;
            return NOTHING;
        }
        if pc == 0 {
            return NOTHING;
        }
        if self.visits.len() == VISITS {
            let over = self.visits.remove(0);
            // One line alone is no pattern.
            if over.lines.count_ones() > 1 {
                *self.pattern(over.cause) = (over.cause, over.lines);
            }
        }
        let cause = pc << 6 | offset;
        self.visits.push(Visit { region, cause, lines: 1 << offset });
        let (of, lines) = *self.pattern(cause);
        if of != cause {
            return NOTHING;
        }
        // At most so many: those nearest to the first one.
        let mut which = lines & !(1 << offset);
        while u64::from(which.count_ones()) > reach.degree {
            let (low, high) = (u64::from(which.trailing_zeros()), u64::from(63 - which.leading_zeros()));
            which &= !(1 << if offset.abs_diff(low) > offset.abs_diff(high) { low } else { high });
        }
        Wanted { first: region * self.region, step: 1, count: self.region, which }
    }

    fn pattern(&mut self, cause: u64) -> &mut (u64, u64) {
        let count = self.patterns.len();
        &mut self.patterns[(cause ^ cause >> 12) as usize % count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REACH: Reach = Reach { degree: 8, distance: 32 };

    #[test]
    fn a_visit_fetches_what_the_last_one_touched() {
        let mut p = Spatial::new(1024, REACH.distance);
        let mut asked = Vec::new();
        // Lines 3, 5 and 20 of each region, and one line of regions between, by another instruction.
        for region in 0..200u64 {
            asked = p.train(0x400, 32 * region + 3, REACH).lines().map(|line| line - 32 * region).collect();
            for line in [5, 20, 5] {
                assert_eq!(p.train(0x404, 32 * region + line, REACH), NOTHING);
            }
            assert_eq!(p.train(0x408, 32 * (10_000 + region), REACH), NOTHING, "one line is no pattern");
        }
        assert_eq!(asked, [5, 20]);
        // From another place of the region on it is another pattern.
        assert_eq!(p.train(0x400, 32 * 300 + 4, REACH), NOTHING);
        // As many as are wanted.
        let few: Vec<u64> = p.train(0x400, 32 * 301 + 3, Reach { degree: 1, ..REACH }).lines().collect();
        assert_eq!(few, [32 * 301 + 5]);
    }
}
