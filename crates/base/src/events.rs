//! The event queue: events are plain enums, ordered by (time, class, source, sequence).

use crate::Ps;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

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

/// A priority queue of events in simulated time. Reuses its storage: no allocation once it has grown.
pub struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
    sequence: u64,
}

impl<E: Event> Default for EventQueue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::with_capacity(1024), sequence: 0 }
    }
}

impl<E: Event> EventQueue<E> {
    /// Schedules `event` at `time`.
    pub fn push(&mut self, time: Ps, event: E) {
        // 40 bits of sequence behind class and source: a trillion events before simultaneous ones could swap.
        self.sequence = (self.sequence + 1) & 0xff_ffff_ffff;
        let rank = u64::from(event.class()) << 56 | u64::from(event.source()) << 40 | self.sequence;
        self.heap.push(Entry { time, rank, event });
    }

    /// Takes the earliest event if it is before `end`.
    pub fn pop_before(&mut self, end: Ps) -> Option<(Ps, E)> {
        if self.heap.peek()?.time >= end {
            return None;
        }
        self.heap.pop().map(|e| (e.time, e.event))
    }

    /// Time of the earliest event.
    #[must_use]
    pub fn next_time(&self) -> Option<Ps> {
        self.heap.peek().map(|e| e.time)
    }

    /// Number of pending events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            q.push(t, e);
        }
        let order: Vec<u32> = std::iter::from_fn(|| q.pop_before(6)).map(|(_, e)| e.2).collect();
        assert_eq!(order, [5, 3, 4, 2, 1]);
        q.push(7, E(0, 0, 0));
        assert!(q.pop_before(7).is_none(), "the end is exclusive");
    }
}
