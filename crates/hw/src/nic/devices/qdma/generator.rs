//! The user logic of the reference design on the side of the host: a generator that sends packets to queues in turn, each as
//! soon as descriptors for it are posted. A queue takes part again when its last packet has gone through a loop of some cycles.
//!
//! Left out: later versions send several packets a turn; the FIFO before the device (the device's own stands for both).

use std::collections::VecDeque;
use wiretime_base::{Clock, Cycles, Ps};

/// Bytes of a cycle.
const WIDTH: u64 = 64;

/// See the module.
#[derive(Debug)]
pub struct Generator {
    clock: Clock,
    /// Cycles of its loop beside those of the packet.
    cycles: u64,
    /// Descriptors that it may use, by queue.
    credits: Vec<u32>,
    /// Queues whose turn it is, in order: from when on.
    turns: VecDeque<(Ps, u16)>,
    /// Which take part.
    waiting: Vec<bool>,
    /// From when on it is free.
    free: Ps,
}

impl Generator {
    /// For so many queues.
    #[must_use]
    pub fn new(clock: Clock, cycles: u32, queues: usize) -> Self {
        Self {
            clock,
            cycles: cycles.into(),
            credits: vec![0; queues],
            turns: VecDeque::with_capacity(queues),
            waiting: vec![true; queues],
            free: Ps::ZERO,
        }
    }

    /// So many descriptors more.
    pub fn credit(&mut self, t: Ps, queue: u16, count: u32) {
        let at = usize::from(queue);
        let Some(credits) = self.credits.get_mut(at) else { return };
        *credits = credits.saturating_add(count);
        if std::mem::take(&mut self.waiting[at]) {
            self.enter(t, queue);
        }
    }

    /// A queue stands in line from `t` on.
    fn enter(&mut self, t: Ps, queue: u16) {
        let behind = self.turns.iter().rposition(|turn| turn.0 <= t).map_or(0, |at| at + 1);
        self.turns.insert(behind, (t, queue));
    }

    /// A queue has none any more.
    pub fn forget(&mut self, queue: u16) {
        let at = usize::from(queue);
        if let Some(credits) = self.credits.get_mut(at) {
            *credits = 0;
        }
    }

    /// When a packet can begin, to which queue.
    #[must_use]
    pub fn next(&self) -> Option<(Ps, u16)> {
        self.turns.front().map(|&(t, queue)| (t.max(self.free), queue))
    }

    /// The queue at the front has too few descriptors for a packet: it takes part again when more come.
    pub fn parks(&mut self, needed: u32) -> bool {
        let Some(&(_, queue)) = self.turns.front() else { return false };
        let poor = self.credits[usize::from(queue)] < needed;
        if poor {
            self.turns.pop_front();
            self.waiting[usize::from(queue)] = true;
        }
        poor
    }

    /// A packet of so many bytes begins at `t`, to the queue at the front; when its last beat is through.
    pub fn sends(&mut self, t: Ps, bytes: u64, needed: u32) -> Ps {
        let Some((_, queue)) = self.turns.pop_front() else { return t };
        let credits = &mut self.credits[usize::from(queue)];
        *credits = credits.saturating_sub(needed);
        let begin = self.clock.cycle_at_or_after(t);
        let beats = bytes.div_ceil(WIDTH);
        self.free = self.clock.at(begin + Cycles(beats));
        let back = self.clock.at(begin + Cycles(beats + self.cycles));
        self.enter(back, queue);
        self.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of `cells` x 64 B in so many cycles of 4 ns.
    fn packets(queues: u16, cells: u64, cycles: u64) -> u64 {
        let clock = Clock::of("250MHz".parse().unwrap());
        let mut g = Generator::new(clock, 6, usize::from(queues));
        (0..queues).for_each(|q| g.credit(Ps::ZERO, q, u32::MAX));
        let mut sent = 0;
        while let Some((t, _)) = g.next().filter(|n| n.0 < clock.at(Cycles(cycles))) {
            g.sends(t, 64 * cells, 1);
            sent += 1;
        }
        sent
    }

    #[test]
    fn a_queue_sends_every_n_plus_six_cycles_and_queues_overlap() {
        for n in [1, 2, 16, 64] {
            assert_eq!(packets(1, n, 1000 * (n + 6)), 1000);
        }
        assert_eq!(packets(4, 1, 7000), 4000);
        assert_eq!(packets(8, 4, 4000), 1000, "no faster than a beat a cycle");
    }

    #[test]
    fn nothing_without_descriptors() {
        let mut g = Generator::new(Clock::of("250MHz".parse().unwrap()), 6, 2);
        assert_eq!(g.next(), None);
        g.credit(Ps(10), 1, 1);
        assert_eq!(g.next(), Some((Ps(10), 1)));
        assert!(g.parks(2));
        assert_eq!(g.next(), None);
        g.credit(Ps(20), 1, 1);
        assert!(!g.parks(2));
        g.sends(Ps(20), 64, 2);
        assert!(g.parks(1));
        g.credit(Ps(0), 9, 1);
        assert_eq!(g.next(), None, "no such queue");
    }
}
