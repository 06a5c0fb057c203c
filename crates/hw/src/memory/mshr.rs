//! Misses in flight, and the cycles of a cache's data port.

/// A file of miss-status registers: when each is free again.
pub struct Mshrs(Vec<u64>);

impl Mshrs {
    pub fn new(entries: u32) -> Self {
        Self(vec![0; entries.max(1) as usize])
    }

    /// Takes the register that is free first; returns it and when the miss may start.
    #[inline]
    pub fn allocate(&self, t: u64) -> (usize, u64) {
        let mut best = (0, u64::MAX);
        for (i, &free) in self.0.iter().enumerate() {
            if free <= t {
                return (i, t);
            }
            if free < best.1 {
                best = (i, free);
            }
        }
        (best.0, t.max(best.1))
    }

    /// Takes a register only where one is free at `t`: prefetches do not wait.
    #[inline]
    pub fn try_allocate(&self, t: u64) -> Option<usize> {
        self.0.iter().position(|&free| free <= t)
    }

    /// Register `i` is taken until `t`.
    #[inline]
    pub fn hold(&mut self, i: usize, t: u64) {
        self.0[i] = t;
    }
}

const SLOTS: u64 = 512;

/// A data port that passes one line every `interval` cycles, to requests in any order of time.
pub struct Port {
    taken: Box<[u64; SLOTS as usize]>,
    interval: u64,
}

impl Port {
    pub fn new(interval: u64) -> Self {
        Self { taken: Box::new([u64::MAX; SLOTS as usize]), interval: interval.max(1) }
    }

    /// When a line that comes at `t` passes.
    #[inline]
    pub fn pass(&mut self, t: u64) -> u64 {
        let mut slot = t / self.interval;
        loop {
            let entry = &mut self.taken[(slot % SLOTS) as usize];
            if *entry != slot {
                *entry = slot;
                return t.max(slot * self.interval);
            }
            slot += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_waits_for_the_first_to_finish() {
        let mut m = Mshrs::new(2);
        for (t, done) in [(0, 100), (0, 50)] {
            let (i, start) = m.allocate(t);
            assert_eq!(start, t);
            m.hold(i, done);
        }
        assert_eq!(m.allocate(10).1, 50);
        assert_eq!((m.try_allocate(49), m.try_allocate(50)), (None, Some(1)));
    }

    #[test]
    fn one_line_an_interval() {
        let mut p = Port::new(3);
        assert_eq!([0; 4].map(|_| p.pass(7)), [7, 9, 12, 15]);
        assert_eq!(p.pass(0), 0);
    }
}
