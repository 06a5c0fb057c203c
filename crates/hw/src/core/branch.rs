//! Branch prediction: gshare directions, one direct-mapped table of targets, a return stack.
//!
//! Left out: the levels of real BTBs and their latencies, indirect predictors with history. Programs with many
//! indirect branches are charged too many mispredicts.

use super::uop::Branch;
use crate::params;

/// What the front end learns when a branch resolves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Predicted right.
    Right,
    /// Right direction, but the target had to come from decode.
    LateTarget,
    /// Wrong path fetched until the branch resolved.
    Mispredict,
}

/// The predictor of one core.
pub struct Predictor {
    counters: Vec<u8>,
    history: u64,
    history_mask: u64,
    targets: Vec<(u64, u64)>,
    returns: Vec<u64>,
    depth: usize,
}

impl Predictor {
    /// As the platform says; sizes are powers of two.
    #[must_use]
    pub fn new(p: &params::Predictor) -> Self {
        Self {
            counters: vec![1; p.entries as usize],
            history: 0,
            history_mask: (1u64 << p.history.min(63)) - 1,
            targets: vec![(0, 0); p.btb_entries as usize],
            returns: Vec::with_capacity(p.return_stack as usize),
            depth: p.return_stack as usize,
        }
    }

    fn direction(&mut self, pc: u64, taken: bool) -> bool {
        let mask = self.counters.len() as u64 - 1;
        let index = ((pc >> 2 ^ self.history) & mask) as usize;
        let counter = &mut self.counters[index];
        let predicted = *counter >= 2;
        *counter = if taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
        self.history = (self.history << 1 | u64::from(taken)) & self.history_mask;
        predicted
    }

    /// Looks up and learns the target of the branch at `pc`.
    fn target(&mut self, pc: u64, target: u64) -> bool {
        let mask = self.targets.len() as u64 - 1;
        let entry = &mut self.targets[((pc >> 2) & mask) as usize];
        let known = *entry == (pc, target);
        *entry = (pc, target);
        known
    }

    /// The branch at `pc`, whose next instruction in memory is `fall_through`, went to `next`.
    pub fn resolve(&mut self, kind: Branch, pc: u64, fall_through: u64, next: u64) -> Outcome {
        match kind {
            Branch::None => Outcome::Right,
            Branch::Conditional => {
                let taken = next != fall_through;
                let predicted = self.direction(pc, taken);
                let target_known = !taken || self.target(pc, next);
                match (predicted == taken, target_known) {
                    (false, _) => Outcome::Mispredict,
                    (true, false) => Outcome::LateTarget,
                    (true, true) => Outcome::Right,
                }
            }
            Branch::Direct | Branch::Call => {
                if kind == Branch::Call {
                    self.push(fall_through);
                }
                if self.target(pc, next) {
                    Outcome::Right
                } else {
                    Outcome::LateTarget
                }
            }
            Branch::Indirect | Branch::IndirectCall => {
                if kind == Branch::IndirectCall {
                    self.push(fall_through);
                }
                if self.target(pc, next) {
                    Outcome::Right
                } else {
                    Outcome::Mispredict
                }
            }
            Branch::Return => {
                if self.returns.pop() == Some(next) {
                    Outcome::Right
                } else {
                    Outcome::Mispredict
                }
            }
            Branch::Exception => Outcome::Mispredict,
        }
    }

    fn push(&mut self, address: u64) {
        if self.returns.len() == self.depth {
            self.returns.remove(0); // a full return stack loses its oldest entry
        }
        self.returns.push(address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictor() -> Predictor {
        Predictor::new(&params::Predictor {
            entries: 4096,
            history: 8,
            btb_entries: 256,
            btb_miss_penalty: 5,
            return_stack: 4,
        })
    }

    #[test]
    fn learns_a_loop_of_four() {
        let mut p = predictor();
        let mut wrong = 0;
        for i in 0..4000 {
            let next = if i % 4 == 3 { 0x104 } else { 0x80 };
            if p.resolve(Branch::Conditional, 0x100, 0x104, next) == Outcome::Mispredict && i > 400 {
                wrong += 1;
            }
        }
        assert_eq!(wrong, 0, "eight branches of history see a period of four");
    }

    #[test]
    fn returns_and_their_overflow() {
        let mut p = predictor();
        for depth in 0..6u64 {
            p.resolve(Branch::Call, depth * 16, depth * 16 + 4, 0x1000);
        }
        let right =
            (0..6u64).rev().filter(|d| p.resolve(Branch::Return, 0x2000, 0, d * 16 + 4) == Outcome::Right).count();
        assert_eq!(right, 4, "as many as the stack holds");
    }
}
