//! The event queue: events are plain enums, ordered by (time, class, source, sequence).

use crate::Ps;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// What an event must say of itself so that simultaneous events have one fixed order.
pub trait Event {
    /// Rank among events at the same time: lower first. Fixed and documented by each event enum.
    fn class(&self) -> u8;
    /// Which instance it concerns (queue, port); lower first among equals.
    fn source(&self) -> u16 {
        0
    }
}

struct Entry<E> {
    time: Ps,
    rank: u64,
    event: E,
}

impl<E> Entry<E> {
    #[inline]
    fn key(&self) -> (Ps, u64) {
        (self.time, self.rank)
    }
}
impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<E> Eq for Entry<E> {}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key()) // BinaryHeap is a max-heap: earliest on top
    }
}

/// Classes that have a lane of their own.
const LANES: usize = 16;

/// A priority queue of events in simulated time. Reuses its storage: no allocation once it has grown.
///
/// Events of one class mostly come in order of time (what a link sends, what a ring completes): each class has a lane, a
/// plain queue. What comes out of order goes to a heap.
pub struct EventQueue<E> {
    lanes: [VecDeque<Entry<E>>; LANES],
    /// The time at the front of each lane, and of the heap behind them.
    heads: [Ps; LANES + 1],
    heap: BinaryHeap<Entry<E>>,
    /// Those that hold anything, by bit.
    taken: u32,
    /// Which of them is the earliest.
    first: usize,
    sequence: u64,
    count: usize,
}

impl<E: Event> Default for EventQueue<E> {
    fn default() -> Self {
        Self {
            lanes: std::array::from_fn(|_| VecDeque::with_capacity(64)),
            heads: [Ps::MAX; LANES + 1],
            heap: BinaryHeap::with_capacity(64),
            taken: 0,
            first: 0,
            sequence: 0,
            count: 0,
        }
    }
}

impl<E: Event> EventQueue<E> {
    /// Schedules `event` at `time`.
    #[inline]
    pub fn push(&mut self, time: Ps, event: E) {
        // 40 bits of sequence behind class and source: a trillion events before simultaneous ones could swap.
        self.sequence = (self.sequence + 1) & 0xff_ffff_ffff;
        let class = event.class();
        let rank = u64::from(class) << 56 | u64::from(event.source()) << 40 | self.sequence;
        let entry = Entry { time, rank, event };
        self.count += 1;
        if let Some(lane) = self.lanes.get_mut(usize::from(class)) {
            if lane.back().is_none_or(|last| last.key() < entry.key()) {
                let empty = lane.is_empty();
                lane.push_back(entry);
                if empty {
                    self.new_head(usize::from(class), time);
                }
                return;
            }
        }
        self.heap.push(entry);
        let head = self.heap.peek().map_or(Ps::MAX, |e| e.time);
        self.new_head(LANES, head);
    }

    /// What simultaneous events at the fronts of two lanes, or of the heap, are ordered by.
    #[inline]
    fn rank(&self, at: usize) -> u64 {
        let front = self.lanes.get(at).map_or(self.heap.peek(), VecDeque::front);
        front.map_or(u64::MAX, |e| e.rank)
    }

    /// An earlier event, or the first one, is at the front of a lane.
    #[inline]
    fn new_head(&mut self, at: usize, time: Ps) {
        self.heads[at] = time;
        self.taken |= 1 << at;
        let first = self.heads[self.first];
        if time < first || time == first && self.rank(at) < self.rank(self.first) {
            self.first = at;
        }
    }

    /// Finds out which lane, or the heap, has the earliest event.
    #[inline]
    fn find_first(&mut self) {
        let (mut rest, mut best, mut first) = (self.taken & ((1 << LANES) - 1), Ps::MAX, self.first);
        // A lane is one class, so that the lower one goes first among equals.
        while rest != 0 {
            let at = rest.trailing_zeros() as usize % LANES;
            rest &= rest - 1;
            let earlier = self.heads[at] < best;
            best = if earlier { self.heads[at] } else { best };
            first = if earlier { at } else { first };
        }
        let heap = self.heads[LANES];
        if heap < best || heap == best && self.rank(LANES) < self.rank(first) {
            first = LANES;
        }
        self.first = first;
    }

    /// Takes the earliest event if it is before `end`.
    #[inline]
    pub fn pop_before(&mut self, end: Ps) -> Option<(Ps, E)> {
        let from = self.first;
        if self.next_time()? >= end {
            return None;
        }
        let (entry, next) = if from < LANES {
            let lane = &mut self.lanes[from];
            (lane.pop_front(), lane.front().map(|e| e.time))
        } else {
            (self.heap.pop(), self.heap.peek().map(|e| e.time))
        };
        let entry = entry?;
        self.heads[from] = next.unwrap_or(Ps::MAX);
        self.taken &= !(u32::from(next.is_none()) << from);
        self.find_first();
        self.count -= 1;
        Some((entry.time, entry.event))
    }

    /// Forgets those that `keeps` does not want. Takes the time of all that are pending.
    pub fn retain(&mut self, keeps: impl Fn(&E) -> bool) {
        for (lane, head) in self.lanes.iter_mut().zip(&mut self.heads) {
            lane.retain(|entry| keeps(&entry.event));
            *head = lane.front().map_or(Ps::MAX, |e| e.time);
        }
        self.heap.retain(|entry| keeps(&entry.event));
        self.heads[LANES] = self.heap.peek().map_or(Ps::MAX, |e| e.time);
        let filled = self.lanes.iter().map(|lane| !lane.is_empty()).chain([!self.heap.is_empty()]);
        self.taken = (0..).zip(filled).map(|(at, filled)| u32::from(filled) << at).sum();
        self.find_first();
        self.count = self.lanes.iter().map(VecDeque::len).sum::<usize>() + self.heap.len();
    }

    /// Time of the earliest event.
    #[inline]
    #[must_use]
    pub fn next_time(&self) -> Option<Ps> {
        (self.count > 0).then(|| self.heads[self.first])
    }

    /// Number of pending events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether nothing is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, PartialEq)]
    struct E(u8, u16, u32);
    impl Event for E {
        fn class(&self) -> u8 {
            self.0
        }
        fn source(&self) -> u16 {
            self.1
        }
    }

    #[test]
    fn order_is_time_class_source_sequence() {
        let mut q = EventQueue::default();
        for (t, e) in [(5, E(1, 0, 1)), (5, E(0, 9, 2)), (5, E(0, 1, 3)), (5, E(0, 1, 4)), (4, E(9, 9, 5))] {
            q.push(Ps(t), e);
        }
        let order: Vec<u32> = std::iter::from_fn(|| q.pop_before(Ps(6))).map(|(_, e)| e.2).collect();
        assert_eq!(order, [5, 3, 4, 2, 1]);
        q.push(Ps(7), E(0, 0, 0));
        assert!(q.pop_before(Ps(7)).is_none(), "the end is exclusive");
    }

    proptest! {
        /// Whatever goes in comes out sorted, also beyond the classes that have lanes, while more goes in and some are forgotten.
        #[test]
        fn sorts(events in prop::collection::vec((0u64..50, 0u8..20, 0u16..3), 1..200), pops in prop::collection::vec(0u64..60, 1..20)) {
            let mut q = EventQueue::default();
            let mut pending = Vec::new();
            let mut now = 0;
            for (i, chunk) in events.chunks(10).enumerate() {
                for (k, &(t, class, source)) in chunk.iter().enumerate() {
                    let number = (i * 10 + k) as u32;
                    q.push(Ps(now + t), E(class, source, number));
                    pending.push((now + t, class, source, number));
                }
                pending.sort_unstable();
                if i % 3 == 2 {
                    q.retain(|e| e.2 % 4 != 0);
                    pending.retain(|p| p.3 % 4 != 0);
                }
                let end = now + pops[i % pops.len()];
                while let Some((t, e)) = q.pop_before(Ps(end)) {
                    prop_assert_eq!((t.0, e.0, e.1, e.2), pending.remove(0));
                }
                prop_assert!(pending.first().is_none_or(|p| p.0 >= end));
                prop_assert_eq!(q.len(), pending.len());
                prop_assert_eq!(q.next_time(), pending.first().map(|p| Ps(p.0)));
                now = end;
            }
        }
    }
}
