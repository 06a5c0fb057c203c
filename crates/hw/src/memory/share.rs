//! The share of the LLC that devices may have, in lines: what they have brought, oldest first.
//!
//! Where machines limit the inbound lines that their system cache holds at a time, they do not say how; a count is what shows
//! from outside (facts: Grace's system-level cache behaves as if 0.75 to 5 MiB of 114 took write-allocated lines). A line
//! counts until it leaves the cache, used or not.

use crate::params::Beyond;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

pub struct Share {
    /// Lines at most; 0: no limit, and nothing is noted.
    most: usize,
    pub beyond: Beyond,
    /// Lines in the order of their coming, with when they came: those that have left since are passed over.
    order: VecDeque<(u64, u64)>,
    held: FxHashMap<u64, u64>,
    came: u64,
}

impl Share {
    pub fn new(most: u32, beyond: Beyond) -> Self {
        Self { most: most as usize, beyond, order: VecDeque::new(), held: FxHashMap::default(), came: 0 }
    }

    pub fn limited(&self) -> bool {
        self.most > 0
    }

    pub fn full(&self) -> bool {
        self.limited() && self.held.len() >= self.most
    }

    /// The line that came first, of those that are there; it leaves.
    pub fn take_oldest(&mut self) -> Option<u64> {
        while let Some((line, came)) = self.order.pop_front() {
            if self.held.get(&line) == Some(&came) {
                self.held.remove(&line);
                return Some(line);
            }
        }
        None
    }

    /// A device has brought the line.
    pub fn entered(&mut self, line: u64) {
        if !self.limited() {
            return;
        }
        self.came += 1;
        self.held.insert(line, self.came);
        self.order.push_back((line, self.came));
        if self.order.len() > 2 * self.most + 16 {
            let held = &self.held;
            self.order.retain(|(line, came)| held.get(line) == Some(came));
        }
    }

    /// The line has left the cache.
    pub fn left(&mut self, line: u64) {
        self.held.remove(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first_and_those_that_left_are_passed_over() {
        let mut s = Share::new(3, Beyond::Oldest);
        for line in [10, 11, 12] {
            assert!(!s.full());
            s.entered(line);
        }
        assert!(s.full());
        s.left(10);
        assert!(!s.full());
        s.entered(10);
        assert_eq!(
            [s.take_oldest(), s.take_oldest(), s.take_oldest(), s.take_oldest()],
            [Some(11), Some(12), Some(10), None]
        );
    }

    #[test]
    fn what_it_notes_is_bounded() {
        let mut s = Share::new(4, Beyond::Oldest);
        for line in 0..10_000 {
            s.entered(line);
            s.left(line);
        }
        assert!(s.order.len() <= 2 * 4 + 17 && s.held.is_empty());
        let mut without = Share::new(0, Beyond::Oldest);
        without.entered(5);
        assert!(!without.full() && without.order.is_empty());
    }
}
