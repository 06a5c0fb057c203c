//! How many instructions of a kind dispatch sends off a cycle: counters of one cycle, packed into a word, so that a core
//! without limits only looks.

use crate::params::{DispatchLimits, Unit};
use wiretime_base::Cycles;

/// Set where a counter has passed its limit.
const OVER: u64 = 0x80_8080_8080;

/// Counters of one cycle, a byte each.
pub struct Limits {
    cycle: Cycles,
    counts: u64,
    none: u64,
}

/// The counters' limits, from the lowest byte on.
fn limits(p: &DispatchLimits) -> [u32; 5] {
    [p.integer, p.multiply, p.vector_first, p.vector_last, p.memory]
}

/// What an instruction for `unit` adds to the counters.
pub fn kind(p: &DispatchLimits, unit: Unit) -> u64 {
    let counter = match unit {
        Unit::Branch | Unit::Integer => 0,
        Unit::Multiply => 1,
        Unit::VectorFirst => 2,
        Unit::VectorLast => 3,
        Unit::Load | Unit::Store => 4,
        Unit::None | Unit::Vector => return 0,
    };
    u64::from(limits(p)[counter] > 0) << (8 * counter)
}

impl Limits {
    pub fn new(p: &DispatchLimits) -> Self {
        let none = limits(p).iter().rev().fold(0, |word, &limit| word << 8 | (0x7f - u64::from(limit.min(0x7f))));
        Self { cycle: Cycles::ZERO, counts: none, none }
    }

    /// One more of a kind is dispatched at `t`: whether that is one too many.
    #[inline(always)]
    pub fn take(&mut self, t: Cycles, kind: u64) -> bool {
        if t != self.cycle {
            (self.cycle, self.counts) = (t, self.none);
        }
        self.counts += kind;
        self.counts & OVER != 0
    }

    /// What has been dispatched in cycle `now`.
    pub fn stand(&self, now: Cycles) -> u64 {
        if self.cycle == now {
            self.counts - self.none
        } else {
            0
        }
    }

    /// All of it is so much later.
    pub fn shift(&mut self, by: Cycles) {
        self.cycle += by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: DispatchLimits = DispatchLimits { integer: 4, multiply: 0, vector_first: 2, vector_last: 0, memory: 1 };

    #[test]
    fn each_kind_has_its_own_limit_in_each_cycle() {
        let mut l = Limits::new(&P);
        let [branch, integer, first, load, store, any, multiply] =
            [Unit::Branch, Unit::Integer, Unit::VectorFirst, Unit::Load, Unit::Store, Unit::Vector, Unit::Multiply]
                .map(|unit| kind(&P, unit));
        assert_eq!([branch, integer, integer, branch, first, first, load].map(|k| l.take(Cycles(7), k)), [false; 7]);
        assert_eq!([any, multiply], [0, 0], "no limit");
        assert!(l.take(Cycles(7), store), "one load or store a cycle");
        assert!(!l.take(Cycles(8), store));
        assert!([integer; 4].iter().all(|&k| !l.take(Cycles(8), k)) && l.take(Cycles(8), branch));
        assert!(!l.take(Cycles(9), first));
    }

    #[test]
    fn what_a_cycle_holds_moves_along() {
        let mut l = Limits::new(&P);
        l.take(Cycles(3), kind(&P, Unit::Load));
        assert_eq!((l.stand(Cycles(4)), l.stand(Cycles(3)) != 0), (0, true));
        l.shift(Cycles(10));
        assert!(l.take(Cycles(13), kind(&P, Unit::Load)));
    }
}
