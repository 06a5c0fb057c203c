//! The interface by which a device asks for memory, where that is a resource of its own: so many bytes a cycle of a clock,
//! headers included, in the order in which its owner grants it. Requests that it has let go wait for the link, a few of them;
//! then it stops. Whose turn it is when several want it is the owner's.
//!
//! Left out: a request is let go as a whole.

use std::collections::VecDeque;
use wiretime_base::{Clock, Cycles, Frequency, Ps};

/// Picoseconds of a second.
const SECOND: u64 = Ps::from_s(1).0;

/// What one is made of.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Its clock; bytes of a cycle.
    pub clock: Frequency,
    /// See above.
    pub width: u32,
    /// A request takes whole units of so many bytes.
    pub unit: u32,
    /// Bytes of its header.
    pub header: u32,
    /// Multiples that none crosses.
    pub boundary: u32,
    /// Requests that may wait for the link.
    pub lookahead: u32,
}

/// See the module.
#[derive(Debug)]
pub struct RequesterInterface {
    form: Form,
    /// Of units.
    clock: Clock,
    /// From when on it is free.
    free: Cycles,
    /// When requests leave that wait for the link, the last ones.
    leaving: VecDeque<Ps>,
    /// Units taken so far.
    pub units: u64,
}

impl RequesterInterface {
    /// One that is free.
    #[must_use]
    pub fn new(form: Form) -> Self {
        let units = u64::from(form.width / form.unit.max(1)).max(1);
        let clock = Clock::new(SECOND, form.clock.hz() * units).expect("a frequency is never zero");
        Self { form, clock, free: Cycles::ZERO, leaving: VecDeque::with_capacity(64), units: 0 }
    }

    /// When a request can begin, at `t` or later.
    pub fn ready(&mut self, t: Ps) -> Ps {
        while self.leaving.len() > self.form.lookahead as usize {
            self.leaving.pop_front();
        }
        let full = self.leaving.len() == self.form.lookahead as usize;
        let room = self.leaving.front().copied().filter(|_| full).unwrap_or_default();
        self.clock.at(self.clock.cycle_at_or_after(t.max(room)).max(self.free))
    }

    /// A request with so many bytes of data takes it, from `begin` on; when it is through.
    pub fn take(&mut self, begin: Ps, bytes: u64) -> Ps {
        let units = (bytes + u64::from(self.form.header)).div_ceil(self.form.unit.max(1).into()).max(1);
        self.units += units;
        self.free = self.clock.cycle_at_or_after(begin) + Cycles(units);
        self.clock.at(self.free)
    }

    /// What has gone through last leaves on the link at `t`.
    pub fn leaves(&mut self, t: Ps) {
        self.leaving.push_back(t);
    }

    /// How many of `bytes` at `address` one request can be about, at most `limit`.
    #[must_use]
    pub fn piece(&self, address: u64, bytes: u64, limit: u32) -> u64 {
        let boundary = u64::from(self.form.boundary.max(1));
        bytes.min(limit.into()).min(boundary - address % boundary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(lookahead: u32) -> RequesterInterface {
        RequesterInterface::new(Form {
            clock: "250MHz".parse().unwrap(),
            width: 64,
            unit: 32,
            header: 16,
            boundary: 256,
            lookahead,
        })
    }

    #[test]
    fn data_and_headers_share_beats() {
        let mut i = interface(8);
        // 256 B and a header: 4.5 beats of 4 ns; a read request: half a beat; a completion of 16 B the same.
        assert_eq!(i.take(Ps::ZERO, 256), Ps::from_ns(18));
        let begin = i.ready(Ps::ZERO);
        assert_eq!((begin, i.take(begin, 0)), (Ps::from_ns(18), Ps::from_ns(20)));
        let begin = i.ready(Ps::from_ns(21));
        assert_eq!((begin, i.take(begin, 16), i.units), (Ps::from_ns(22), Ps::from_ns(24), 11));
    }

    #[test]
    fn none_crosses_a_boundary() {
        let i = interface(8);
        assert_eq!([i.piece(0, 1000, 512), i.piece(192, 1000, 512), i.piece(256, 10, 512)], [256, 64, 10]);
        assert_eq!(i.piece(0, 1000, 128), 128);
    }

    #[test]
    fn so_many_wait_for_the_link() {
        let mut i = interface(2);
        i.leaves(Ps::from_ns(100));
        assert_eq!(i.ready(Ps::ZERO), Ps::ZERO);
        i.leaves(Ps::from_ns(200));
        assert_eq!(i.ready(Ps::ZERO), Ps::from_ns(100));
        i.leaves(Ps::from_ns(300));
        assert_eq!(i.ready(Ps::ZERO), Ps::from_ns(200));
        assert_eq!(i.ready(Ps::from_ns(251)), Ps::from_ns(252), "on its clock");
    }
}
