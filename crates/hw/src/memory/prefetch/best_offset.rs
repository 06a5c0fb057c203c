//! Best offset (Michaud, HPCA 2016; the second data prefetching championship's winner): one offset for all accesses. Each offset of a
//! list is tried in turn: it scores where the line by so much before the one that is wanted now was asked for early enough
//! for a prefetch to be here by now. The best of a phase is used during the next.
//!
//! Left out: its second bank of requests that are delayed by a fixed time instead of until they are served, and offsets of a page and
//! more, which cannot be used.

use super::{Reach, Trigger, Wanted, NOTHING};
use crate::memory::PAGE_LINES;
use std::collections::VecDeque;
use wiretime_base::Cycles;

/// A phase of learning ends at this score, or after so many rounds (the paper's table 2).
const SCORE_MOST: u32 = 31;
const ROUNDS: u32 = 100;
/// At most this score, nothing is prefetched during the next phase (the same).
const SCORE_BAD: u32 = 1;
/// Requests under way that are remembered.
const PENDING: usize = 256;

/// Of one cache.
pub struct BestOffset {
    /// Offsets, and how often each would have been in time during this phase.
    offsets: Box<[(u64, u32)]>,
    next: usize,
    round: u32,
    /// The one in force, and the line that has been wanted last.
    best: Option<u64>,
    trigger: u64,
    /// Lines whose prefetch by the offset in force, or themselves where there is none, have been served: by their last bits.
    served: Box<[u64]>,
    /// The same, under way: when they will have been.
    pending: VecDeque<(Cycles, u64)>,
}

/// Numbers without a prime factor above five.
fn smooth(mut n: u64) -> bool {
    for factor in [2, 3, 5] {
        while n % factor == 0 {
            n /= factor;
        }
    }
    n == 1
}

impl BestOffset {
    pub fn new(entries: usize, distance: u64) -> Self {
        let most = distance.min(PAGE_LINES - 1);
        Self {
            offsets: (1..=most).filter(|&n| smooth(n)).map(|n| (n, 0)).collect(),
            next: 0,
            round: 0,
            best: Some(1),
            trigger: u64::MAX,
            served: vec![u64::MAX; entries].into(),
            pending: VecDeque::with_capacity(PENDING),
        }
    }

    pub fn train(&mut self, Trigger { line, t, ready, .. }: Trigger, reach: Reach) -> Wanted {
        self.serve(t);
        self.learn(line);
        self.trigger = line;
        let Some(offset) = self.best else {
            self.wait(ready, line);
            return NOTHING;
        };
        Wanted::run(line + offset, offset as i64, reach.degree).within_page(line)
    }

    /// A line by the offset in force has been asked for.
    pub fn fetched(&mut self, line: u64, ready: Cycles) {
        // Of several the first tells whether it would have been in time.
        if self.best.is_some_and(|offset| line == self.trigger.wrapping_add(offset)) {
            self.wait(ready, self.trigger);
        }
    }

    fn wait(&mut self, ready: Cycles, line: u64) {
        if self.pending.len() == PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back((ready, line));
    }

    fn serve(&mut self, t: Cycles) {
        let (served, pending) = (&mut self.served, &mut self.pending);
        pending.retain(|&(ready, line)| {
            let waits = ready > t;
            if !waits {
                served[(line % served.len() as u64) as usize] = line;
            }
            waits
        });
    }

    /// The next offset of the list is tried on a line.
    fn learn(&mut self, line: u64) {
        let (offset, score) = &mut self.offsets[self.next];
        let base = line.wrapping_sub(*offset);
        if base / PAGE_LINES == line / PAGE_LINES && self.served[(base % self.served.len() as u64) as usize] == base {
            *score += 1;
        }
        let done = *score >= SCORE_MOST;
        self.next += 1;
        if self.next == self.offsets.len() {
            (self.next, self.round) = (0, self.round + 1);
        }
        if done || self.round == ROUNDS {
            // Of equal ones the smallest.
            let best = self.offsets.iter().rev().max_by_key(|(_, score)| *score);
            self.best = best.filter(|(_, score)| *score > SCORE_BAD).map(|(offset, _)| *offset);
            (self.next, self.round) = (0, 0);
            self.offsets.iter_mut().for_each(|(_, score)| *score = 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REACH: Reach = Reach { degree: 1, distance: 63 };

    /// Every `stride`th line, one each `interval` cycles, memory being `latency` away; the offset that is found.
    fn found(stride: u64, interval: u64, latency: u64) -> Option<u64> {
        let one = found_by(REACH, stride, interval, latency);
        assert_eq!(found_by(Reach { degree: 4, ..REACH }, stride, interval, latency), one, "however many it fetches");
        one
    }

    fn found_by(reach: Reach, stride: u64, interval: u64, latency: u64) -> Option<u64> {
        let mut p = BestOffset::new(256, REACH.distance);
        for k in 0..20_000 {
            let t = Cycles(k * interval);
            let line = k * stride;
            let wanted = p.train(Trigger { pc: 0, line, used: false, t, ready: t + Cycles(latency) }, reach);
            wanted.lines().for_each(|line| p.fetched(line, t + Cycles(latency)));
        }
        p.best
    }

    #[test]
    fn the_offset_is_as_large_as_the_latency_asks_for() {
        // A prefetch must be four accesses ahead, as far as offsets of the list go, and is a multiple of the stride.
        assert_eq!(found(1, 10, 35), Some(4));
        assert_eq!(found(3, 10, 15), Some(6));
        assert_eq!(found(1, 10, 5), Some(1));
    }

    #[test]
    fn lines_without_an_order_are_left_alone() {
        let mut p = BestOffset::new(256, REACH.distance);
        let mut line = 1u64;
        for k in 0..20_000 {
            line = line.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            p.train(
                Trigger { pc: 0, line: line >> 20, used: false, t: Cycles(10 * k), ready: Cycles(10 * k + 35) },
                REACH,
            );
        }
        assert_eq!(p.best, None);
    }

    #[test]
    fn offsets_have_no_prime_factor_above_five_and_stay_in_a_page() {
        let p = BestOffset::new(16, 256);
        let offsets: Vec<u64> = p.offsets.iter().map(|o| o.0).collect();
        assert_eq!(offsets[..13], [1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 16, 18]);
        assert_eq!(offsets.last(), Some(&60));
    }
}
