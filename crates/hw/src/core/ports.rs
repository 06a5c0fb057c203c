//! Issue: ports by cycle, and issue queues by occupancy.
//!
//! Instructions are timed in program order but start in any order, so a port is a calendar of cycles: a ring of busy
//! masks. A cycle more than [`WINDOW`] ahead of another that is still looked at may take its place: a port is then
//! booked twice, in runs of misses where ports do not matter.

use super::timing::PortMask;
use wiretime_base::Cycles;

/// Cycles that the rings remember.
const WINDOW: u64 = 1024;

/// Bits of an entry that hold ports; above them is the cycle that they are of.
const PORTS: u32 = PortMask::BITS;

/// A cycle's place in a ring.
#[inline(always)]
fn slot(t: Cycles) -> usize {
    (t.0 % WINDOW) as usize
}

/// Busy ports by cycle. An entry of another cycle is free.
pub struct Ports {
    ring: [u64; WINDOW as usize],
    /// Cycles known to be full for one set of ports: a search goes on behind them.
    full: (PortMask, Cycles, Cycles),
    /// Cycles at which no operation of one set of ports and one interval can start.
    barred: (PortMask, u8, Cycles, Cycles),
}

impl Default for Ports {
    fn default() -> Self {
        let none = (Cycles::ZERO, Cycles::ZERO);
        Self { ring: [u64::MAX; WINDOW as usize], full: (0, none.0, none.1), barred: (0, 0, none.0, none.1) }
    }
}

impl Ports {
    /// Takes one of `ports` in the first cycle from `t` on that has one free, for `interval` cycles. An empty mask needs
    /// no port.
    #[inline(always)]
    pub fn reserve(&mut self, t: Cycles, ports: PortMask, interval: u8) -> Cycles {
        let free = self.free(t, ports);
        if free != 0 && interval == 1 {
            self.take(t, free);
            return t;
        }
        self.search(t, ports, interval)
    }

    #[inline(always)]
    fn busy(&self, t: Cycles) -> PortMask {
        let entry = self.ring[slot(t)];
        if entry >> PORTS == t.0 {
            entry as PortMask
        } else {
            0
        }
    }

    #[inline(always)]
    fn free(&self, t: Cycles, ports: PortMask) -> PortMask {
        ports & !self.busy(t)
    }

    #[inline(always)]
    fn book(&mut self, t: Cycles, port: PortMask) {
        self.ring[slot(t)] = t.0 << PORTS | u64::from(self.busy(t) | port);
    }

    /// Takes the lowest of the free ports.
    #[inline(always)]
    fn take(&mut self, t: Cycles, free: PortMask) {
        self.book(t, free & free.wrapping_neg());
    }

    #[inline(never)]
    fn search(&mut self, from: Cycles, ports: PortMask, interval: u8) -> Cycles {
        if ports == 0 {
            return from;
        }
        if interval > 1 {
            return self.search_long(from, ports, interval);
        }
        let mut t = from;
        let (of, first, end) = self.full;
        if of == ports && (first..end).contains(&t) {
            t = end;
        }
        let mut free = self.free(t, ports);
        while free == 0 {
            t += Cycles(1);
            free = self.free(t, ports);
        }
        let joins = of == ports && (first..=end).contains(&from);
        self.full = if joins { (ports, first, t) } else { (ports, from, t) };
        self.take(t, free);
        t
    }

    /// An unpipelined operation keeps its port: one that is free for all of that time.
    #[cold]
    #[inline(never)]
    fn search_long(&mut self, from: Cycles, ports: PortMask, interval: u8) -> Cycles {
        let cycles = |t: Cycles| (0..u64::from(interval)).map(move |later| t + Cycles(later));
        let (of, long, first, end) = self.barred;
        let known = of == ports && long == interval;
        let mut t = if known && (first..end).contains(&from) { end } else { from };
        loop {
            let free = cycles(t).fold(ports, |free, t| free & !self.busy(t));
            if free != 0 {
                let pick = free & free.wrapping_neg();
                cycles(t).for_each(|t| self.book(t, pick));
                let first = if known && (first..=end).contains(&from) { first } else { from };
                self.barred = (ports, interval, first, t);
                return t;
            }
            t += Cycles(1);
        }
    }

    /// What is taken after `now`, as how far ahead and by what, in order of slots.
    fn ahead(&self, now: Cycles) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        let first = slot(now);
        let slots = (first..WINDOW as usize).chain(0..first);
        slots.filter_map(move |i| {
            let entry = self.ring[i];
            let ahead = (entry >> PORTS).wrapping_sub(now.0);
            (entry != u64::MAX && entry >> PORTS > now.0).then_some((i, ahead, entry & u64::from(PortMask::MAX)))
        })
    }

    /// Ports taken after `now`.
    pub fn stand(&self, now: Cycles, words: &mut Vec<u64>) {
        words.extend(self.ahead(now).flat_map(|(_, ahead, busy)| [ahead, busy]));
        let (of, first, end) = self.full;
        if end > now {
            words.extend([of.into(), first.saturating_sub(now).0, (end - now).0]);
        }
        let (of, long, first, end) = self.barred;
        if end > now {
            words.extend([of.into(), long.into(), first.saturating_sub(now).0, (end - now).0]);
        }
    }

    /// What is taken after `now` is taken so much later.
    pub fn shift(&mut self, now: Cycles, by: Cycles) {
        let taken: Vec<_> = self.ahead(now).collect();
        for &(i, ..) in &taken {
            self.ring[i] = u64::MAX;
        }
        for (_, ahead, busy) in taken {
            let t = now + by + Cycles(ahead);
            self.ring[slot(t)] = t.0 << PORTS | busy;
        }
        self.full.1 += by;
        self.full.2 += by;
        self.barred.2 += by;
        self.barred.3 += by;
    }
}

/// An issue queue: entries are taken at dispatch and freed at issue, in any order.
pub struct IssueQueue {
    /// How many leave in each cycle from `base` on.
    leaving: [u8; WINDOW as usize],
    base: Cycles,
    used: u32,
    size: u32,
}

impl IssueQueue {
    pub fn new(size: u32) -> Self {
        Self { leaving: [0; WINDOW as usize], base: Cycles::ZERO, used: 0, size }
    }

    /// Whether it may be full: entries that have left since it was last looked at still count.
    #[inline(always)]
    pub fn full(&self) -> bool {
        self.used >= self.size
    }

    /// When an instruction that comes at `t` finds room.
    #[inline]
    pub fn room(&mut self, t: Cycles) -> Cycles {
        if self.used < self.size {
            return t;
        }
        self.drain(t);
        let mut t = t;
        while self.used >= self.size {
            t += Cycles(1);
            self.drain(t);
        }
        t
    }

    /// An instruction stays until `t`, when it issues. More than a window ahead it leaves early.
    #[inline]
    pub fn enter(&mut self, dispatched: Cycles, issued: Cycles) {
        let mut at = issued;
        if at >= self.base + Cycles(WINDOW) {
            self.drain(dispatched);
            at = at.min(self.base + Cycles(WINDOW - 1));
        }
        let count = &mut self.leaving[slot(at.max(self.base))];
        if *count < u8::MAX {
            *count += 1;
            self.used += 1;
        }
    }

    /// How many leave in which cycle after `now`.
    pub fn stand(&mut self, now: Cycles, words: &mut Vec<u64>) {
        self.drain(now);
        words.push(self.used.into());
        let mut seen = 0;
        for ahead in 0..WINDOW {
            if seen == self.used {
                break;
            }
            let count = self.leaving[slot(self.base + Cycles(ahead))];
            if count != 0 {
                words.extend([ahead, count.into()]);
                seen += u32::from(count);
            }
        }
    }

    /// Who is in it at `now` leaves so much later.
    pub fn shift(&mut self, now: Cycles, by: Cycles) {
        self.drain(now);
        self.leaving.rotate_right((by.0 % WINDOW) as usize);
        self.base += by;
    }

    fn drain(&mut self, t: Cycles) {
        if t >= self.base + Cycles(WINDOW) {
            self.leaving.fill(0);
            self.used = 0;
            self.base = t + Cycles(1);
            return;
        }
        while self.base <= t {
            let count = &mut self.leaving[slot(self.base)];
            self.used -= u32::from(std::mem::take(count));
            self.base += Cycles(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_ports_two_a_cycle_and_gaps_are_used() {
        let mut p = Ports::default();
        assert_eq!([0; 5].map(|_| p.reserve(Cycles(10), 0b11, 1).0), [10, 10, 11, 11, 12]);
        assert_eq!(p.reserve(Cycles(5), 0b11, 1), Cycles(5));
        assert_eq!(p.reserve(Cycles(10), 0, 1), Cycles(10), "no port wanted");
    }

    #[test]
    fn an_unpipelined_unit_is_taken() {
        let mut p = Ports::default();
        assert_eq!([0; 3].map(|_| p.reserve(Cycles::ZERO, 1, 7).0), [0, 7, 14]);
    }

    #[test]
    fn what_is_taken_moves_along() {
        let (mut moved, mut there) = (Ports::default(), Ports::default());
        for t in [5, 6, 6, 900] {
            moved.reserve(Cycles(t), 0b11, 3);
            there.reserve(Cycles(t + 3000), 0b11, 3);
        }
        moved.shift(Cycles(4), Cycles(3000));
        let (mut a, mut b) = (Vec::new(), Vec::new());
        moved.stand(Cycles(3004), &mut a);
        there.stand(Cycles(3004), &mut b);
        assert_eq!(a, b);
        let after = |p: &mut Ports| [3005, 3006, 3008, 3901].map(|t| p.reserve(Cycles(t), 0b11, 1).0);
        assert_eq!(after(&mut moved), after(&mut there));
    }

    #[test]
    fn who_waits_in_a_queue_moves_along() {
        let (mut moved, mut there) = (IssueQueue::new(4), IssueQueue::new(4));
        for t in [12, 15, 15, 40] {
            moved.enter(Cycles(10), Cycles(t));
            there.enter(Cycles(5010), Cycles(t + 5000));
        }
        moved.shift(Cycles(10), Cycles(5000));
        let (mut a, mut b) = (Vec::new(), Vec::new());
        moved.stand(Cycles(5010), &mut a);
        there.stand(Cycles(5010), &mut b);
        assert_eq!(a, b);
        assert_eq!(moved.room(Cycles(5011)), Cycles(5012), "the first has left");
    }

    #[test]
    fn an_unpipelined_operation_takes_no_cycle_that_is_booked() {
        let mut p = Ports::default();
        assert_eq!(p.reserve(Cycles(5), 1, 1), Cycles(5), "one of a cycle, booked first");
        assert_eq!(p.reserve(Cycles(4), 1, 3), Cycles(6), "not over it");
        assert_eq!(p.reserve(Cycles(1), 1, 3), Cycles(1), "where there is room");
        assert_eq!([0; 2].map(|_| p.reserve(Cycles(1), 1, 1).0), [4, 9]);
    }

    /// Whoever waits longer than the ring is does not find the cycles free that have been overwritten in it.
    #[test]
    fn a_long_queue_of_unpipelined_operations_waits() {
        let mut p = Ports::default();
        for n in 0..300 {
            assert_eq!(p.reserve(Cycles(n / 4), 1, 12), Cycles(12 * n));
        }
    }

    proptest! {
        /// With operations that keep their ports: each port has one at a time, and no start would have been possible earlier.
        #[test]
        fn a_port_has_one_operation_at_a_time(arrivals in prop::collection::vec((0u64..300, 1u8..6, 1 as PortMask..8), 1..300)) {
            let mut p = Ports::default();
            let mut busy: Vec<PortMask> = vec![0; 4096];
            for &(t, interval, ports) in &arrivals {
                let free = |busy: &[PortMask], at: u64| (at..at + u64::from(interval)).fold(ports, |f, c| f & !busy[c as usize]);
                let at = p.reserve(Cycles(t), ports, interval).0;
                let expected = (t..).find(|&at| free(&busy, at) != 0);
                prop_assert_eq!(Some(at), expected);
                let pick = free(&busy, at) & free(&busy, at).wrapping_neg();
                (at..at + u64::from(interval)).for_each(|c| busy[c as usize] |= pick);
            }
        }

        #[test]
        fn never_more_a_cycle_than_ports(arrivals in prop::collection::vec(0u64..300, 1..600)) {
            let mut p = Ports::default();
            let mut counts = vec![0u32; 1024];
            for &t in &arrivals {
                let at = p.reserve(Cycles(t), 0b111, 1).0;
                prop_assert!(at >= t);
                counts[at as usize] += 1;
                prop_assert!(counts[at as usize] <= 3);
                prop_assert!((t..at).all(|c| counts[c as usize] == 3), "an earlier cycle had room");
            }
        }

        /// Against a list of when each entry leaves.
        #[test]
        fn a_queue_is_never_overfull(lengths in prop::collection::vec((0u64..3, 1u64..400), 1..300)) {
            let mut q = IssueQueue::new(8);
            let mut inside: Vec<u64> = Vec::new();
            let mut t = 0;
            for &(gap, stay) in &lengths {
                let room = q.room(Cycles(t + gap)).0;
                t += gap;
                while inside.iter().filter(|&&leaves| leaves > t).count() >= 8 {
                    t += 1;
                }
                prop_assert_eq!(room, t);
                q.enter(Cycles(t), Cycles(t + stay));
                inside.push(t + stay);
            }
        }
    }
}
