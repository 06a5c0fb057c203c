//! Misses in flight of a private cache, and the cycles of a cache's data port. Requests come in any order of time.

use wiretime_base::{Calendar, Cycles, Time};

/// A file of miss-status registers: when each is free again, in the owner's unit.
///
/// Taken in the order in which misses are timed, which for one core is that of the program: a miss that comes earlier than
/// one timed before it can wait for its register. What counts only earlier misses gives out more registers than there are.
pub struct Mshrs<T>(Vec<T>);

impl<T: Time> Mshrs<T> {
    pub fn new(entries: u32) -> Self {
        Self(vec![T::ZERO; entries.max(1) as usize])
    }

    /// A register that is free at `t`, or the one that is free first.
    #[inline]
    fn pick(&self, t: T) -> usize {
        let free = self.0.iter().position(|&free| free <= t);
        free.unwrap_or_else(|| (0..self.0.len()).min_by_key(|&i| self.0[i]).unwrap_or(0))
    }

    /// When a miss that wants a register at `t` may start.
    #[inline]
    pub fn ready(&self, t: T) -> T {
        t.max(self.0[self.pick(t)])
    }

    /// Whether one is free at `t`: prefetches do not wait.
    #[inline]
    pub fn free(&self, t: T) -> bool {
        self.0.iter().any(|&free| free <= t)
    }

    /// A miss that wanted a register at `asked` has one until `until`.
    #[inline]
    pub fn hold(&mut self, asked: T, until: T) {
        let i = self.pick(asked);
        self.0[i] = until;
    }
}

/// A data port that passes one line every `interval` cycles.
pub struct LinePort {
    /// In intervals.
    slots: Calendar<Cycles>,
    interval: Cycles,
}

impl LinePort {
    pub fn new(interval: Cycles) -> Self {
        Self { slots: Calendar::default(), interval: interval.max(Cycles(1)) }
    }

    /// When a line that comes at `t` passes.
    #[inline]
    pub fn pass(&mut self, t: Cycles) -> Cycles {
        t.max(self.slots.reserve(Cycles(t / self.interval), Cycles(1)).0 * self.interval)
    }

    /// Nobody asks for a time before `t` any more.
    pub fn reached(&mut self, t: Cycles) {
        self.slots.reached(Cycles(t / self.interval));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_waits_for_the_first_to_finish() {
        let mut m = Mshrs::new(2);
        for (t, done) in [(0, 100), (0, 50)] {
            assert_eq!(m.ready(Cycles(t)), Cycles(t));
            m.hold(Cycles(t), Cycles(done));
        }
        assert_eq!(m.ready(Cycles(10)), Cycles(50));
        assert_eq!((m.free(Cycles(49)), m.free(Cycles(50))), (false, true));
    }

    #[test]
    fn one_line_an_interval() {
        let mut p = LinePort::new(Cycles(3));
        assert_eq!([0; 4].map(|_| p.pass(Cycles(7)).0), [7, 9, 12, 15]);
        assert_eq!(p.pass(Cycles::ZERO), Cycles::ZERO);
        p.pass(Cycles(6_000_000));
        assert_eq!(p.pass(Cycles(6)), Cycles(18), "however far ahead another one is");
    }
}
