//! Branch prediction by named parts: `direction`, `target`, and a return stack; `table` is what they are made of.
//!
//! Left out: predictions of branches that are on no right path, and late updates.

mod direction;
mod table;
mod target;

use super::uop::Branch;
use crate::params;
use direction::Direction;
use target::Targets;
use wiretime_base::Cycles;

/// What the front end learns when a branch resolves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Predicted, not taken.
    Through,
    /// Predicted, taken: cycles until its target is fetched.
    Taken(Cycles),
    /// Right direction, but the target had to come from decode.
    LateTarget(Cycles),
    /// Wrong path fetched until the branch resolved.
    Mispredict,
}

/// The predictor of one core.
pub struct Predictor {
    direction: Direction,
    targets: Targets,
    returns: Vec<u64>,
    top: usize,
    depth: usize,
}

impl Predictor {
    /// As the platform says; sizes are powers of two.
    #[must_use]
    pub fn new(p: &params::Predictor) -> Self {
        Self {
            direction: Direction::new(p),
            targets: Targets::new(p),
            returns: vec![u64::MAX; p.return_stack as usize],
            top: 0,
            depth: p.return_stack as usize,
        }
    }

    fn taken(&mut self, pc: u64) -> Outcome {
        match self.targets.taken(pc) {
            (cycles, true) => Outcome::Taken(cycles),
            (cycles, false) => Outcome::LateTarget(cycles),
        }
    }

    fn indirect(&mut self, pc: u64, next: u64) -> Outcome {
        let cycles = self.targets.taken(pc).0;
        if self.targets.indirect(pc, next) {
            Outcome::Taken(cycles)
        } else {
            Outcome::Mispredict
        }
    }

    /// The branch at `pc`, whose next instruction in memory is `fall_through`, went to `next`.
    #[inline]
    pub fn resolve(&mut self, kind: Branch, pc: u64, fall_through: u64, next: u64) -> Outcome {
        match kind {
            Branch::None => Outcome::Through,
            Branch::Conditional => {
                let taken = next != fall_through;
                let right = self.direction.predict(pc, taken);
                let target = if taken { self.taken(pc) } else { Outcome::Through };
                if right {
                    target
                } else {
                    Outcome::Mispredict
                }
            }
            Branch::Direct => self.taken(pc),
            Branch::Call => {
                self.push(fall_through);
                self.taken(pc)
            }
            Branch::Indirect => self.indirect(pc, next),
            Branch::IndirectCall => {
                self.push(fall_through);
                self.indirect(pc, next)
            }
            Branch::Return => {
                let target = self.taken(pc);
                if self.pop() == next {
                    target
                } else {
                    Outcome::Mispredict
                }
            }
            Branch::Exception => Outcome::Mispredict,
        }
    }

    /// What it will do, by words that change with it.
    pub fn stand(&self, words: &mut Vec<u64>) {
        self.direction.stand(words);
        self.targets.stand(words);
        words.push(self.top as u64);
        words.extend(&self.returns);
    }

    fn push(&mut self, address: u64) {
        self.top = if self.top + 1 == self.depth { 0 } else { self.top + 1 };
        self.returns[self.top] = address;
    }

    fn pop(&mut self) -> u64 {
        let address = std::mem::replace(&mut self.returns[self.top], u64::MAX);
        self.top = if self.top == 0 { self.depth - 1 } else { self.top - 1 };
        address
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use params::Direction as D;

    fn parameters(direction: D) -> params::Predictor {
        params::Predictor {
            direction,
            entries: 4096,
            history: 8,
            nano_btb_entries: 16,
            micro_btb_entries: 64,
            btb_entries: 6144,
            btb_ways: 6,
            btb_index_bit: 5,
            nano_btb_latency: 1,
            micro_btb_latency: 2,
            btb_latency: 3,
            btb_miss_latency: 5,
            return_stack: 4,
            indirect_entries: 512,
            indirect_history: 4,
        }
    }

    fn mispredicts(direction: D, outcomes: impl Iterator<Item = bool>) -> usize {
        let mut p = Predictor::new(&parameters(direction));
        let resolved = outcomes.map(|taken| {
            let next = if taken { 0x80 } else { 0x104 };
            p.resolve(Branch::Conditional, 0x100, 0x104, next) == Outcome::Mispredict
        });
        resolved.skip(1000).filter(|&wrong| wrong).count()
    }

    /// Index and tag hang on all of the history, however long.
    #[test]
    fn a_long_history_sees_where_a_long_loop_ends() {
        for (trips, history) in [(8, 40), (40, 40), (50, 63), (62, 63)] {
            let mut p = Predictor::new(&params::Predictor { entries: 8192, history, ..parameters(D::Tage) });
            let wrong = |i: usize| {
                let next = if i % trips == trips - 1 { 0x104 } else { 0x80 };
                p.resolve(Branch::Conditional, 0x100, 0x104, next) == Outcome::Mispredict
            };
            let wrong = (0..trips * 500).map(wrong).skip(trips * 400).filter(|&w| w).count();
            assert_eq!(wrong, 0, "{trips} trips with a history of {history}");
        }
    }

    #[test]
    fn history_learns_a_loop_of_four_and_counters_do_not() {
        let pattern = || (0..5000).map(|i| i % 4 != 3);
        for d in [D::Gshare, D::BiMode, D::Tage] {
            assert_eq!(mispredicts(d, pattern()), 0, "{d:?}: eight branches of history see a period of four");
        }
        assert_eq!(mispredicts(D::Bimodal, pattern()), 1000, "one in four: the exit of each turn");
    }

    #[test]
    fn random_branches_are_a_coin() {
        let coin = |n: u64| {
            let mut state = 88_172_645_463_325_252u64;
            (0..n).map(move |_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state >> 63 != 0
            })
        };
        for d in [D::Bimodal, D::Gshare, D::BiMode, D::Tage] {
            let wrong = mispredicts(d, coin(21_000));
            assert!((8_500..11_500).contains(&wrong), "{d:?}: {wrong} of 20000");
        }
    }

    #[test]
    fn returns_and_their_overflow() {
        let mut p = Predictor::new(&parameters(D::Gshare));
        for depth in 0..6u64 {
            p.resolve(Branch::Call, depth * 16, depth * 16 + 4, 0x1000);
        }
        let right =
            (0..6u64).rev().filter(|d| p.resolve(Branch::Return, 0x2000, 0, d * 16 + 4) != Outcome::Mispredict).count();
        assert_eq!(right, 4, "as many as the stack holds");
    }

    /// Cycles of a branch in a chain of `count`, `stride` bytes apart.
    fn chain(count: u64, stride: u64) -> u64 {
        let mut p = Predictor::new(&parameters(D::Tage));
        let mut last = 0;
        for turn in 0..4 {
            for i in 0..count {
                let pc = 0x10000 + i * stride;
                let (Outcome::Taken(c) | Outcome::LateTarget(c)) = p.resolve(Branch::Direct, pc, pc + 4, pc + stride)
                else {
                    panic!("a direct branch is never mispredicted");
                };
                if turn == 3 {
                    last += c.0;
                }
            }
        }
        last / count
    }

    #[test]
    fn levels_of_targets() {
        assert_eq!([chain(16, 64), chain(64, 64), chain(1024, 64), chain(3072, 64)], [1, 2, 3, 3]);
        assert_eq!(chain(6144, 64), 5, "half the sets stay empty at twice the block");
        assert_eq!(chain(1024, 4), 5, "eight branches share a set of six");
    }

    #[test]
    fn indirect_targets_by_history() {
        let mut p = Predictor::new(&parameters(D::Tage));
        let mut wrong = 0;
        for i in 0..4000u64 {
            let target = 0x4000 + (i % 3) * 0x40;
            wrong += usize::from(p.resolve(Branch::Indirect, 0x100, 0x104, target) == Outcome::Mispredict && i > 1000);
        }
        assert_eq!(wrong, 0, "three targets in turn");
    }
}
