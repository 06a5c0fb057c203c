//! DMA writes on their way to memory: decided when the NIC sends them, applied when cores may see them.
//!
//! Posted writes stay in the order in which they leave the device, whatever order they were decided in, so a descriptor is
//! never visible before the payload that was sent ahead of it, and what leaves later holds up nothing. Left out: what was
//! decided first and leaves later is not held up by what is decided afterwards, leaves before it and takes longer (by a walk
//! of the IOMMU): when it is visible has been told, and messages may be on their way.

use crate::memory::GuestMemory;
use crate::requester::{Purpose, Side};
use std::collections::VecDeque;
use wiretime_base::Ps;

/// Whose write it is: a queue of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Its direction.
    pub side: Side,
    /// Its number.
    pub queue: u16,
}

impl From<Purpose> for Stream {
    fn from(p: Purpose) -> Self {
        Self { side: p.side, queue: p.queue }
    }
}

/// A write under way.
#[derive(Clone, Copy, Debug)]
struct Write {
    left: Ps,
    visible: Ps,
    address: u64,
    length: usize,
    /// Where its bytes are, counted from the first byte ever written.
    bytes: usize,
    purpose: Purpose,
    /// Written, or not to be written any more.
    done: bool,
}

/// Bytes of finished writes that wait to be forgotten together.
const KEPT: usize = 1 << 15;

/// Writes not yet visible, in order of visibility.
pub struct DmaWrites {
    queue: VecDeque<Write>,
    /// Bytes, in the order in which their writes were decided; so many that were before them are forgotten.
    bytes: Vec<u8>,
    forgotten: usize,
    /// How many there may be before it is looked which of them are still wanted.
    most: usize,
    /// Writes outside guest memory, ignored as a root complex would.
    pub refused: u64,
}

impl Default for DmaWrites {
    fn default() -> Self {
        Self {
            queue: VecDeque::with_capacity(4096),
            bytes: Vec::with_capacity(2 * KEPT),
            forgotten: 0,
            most: KEPT,
            refused: 0,
        }
    }
}

impl DmaWrites {
    /// Queues a write whose last byte leaves at `left` and that cores see from `visible` on, or later where one that left
    /// before it is; returns that time.
    pub fn push(&mut self, times: (Ps, Ps), address: u64, data: &[u8], purpose: Purpose) -> Ps {
        self.push_pieces(times, address, ([data, &[]], 0), purpose)
    }

    /// The same for data in two pieces, with so many zeros behind them.
    pub fn push_pieces(
        &mut self,
        (left, visible): (Ps, Ps),
        address: u64,
        (data, zeros): ([&[u8]; 2], usize),
        purpose: Purpose,
    ) -> Ps {
        if self.bytes.len() >= self.most {
            self.forget();
        }
        let from = self.bytes.len();
        data.into_iter().for_each(|piece| self.bytes.extend_from_slice(piece));
        if zeros > 0 {
            self.bytes.resize(self.bytes.len() + zeros, 0);
        }
        let (length, bytes) = (self.bytes.len() - from, self.forgotten + from);
        let write = |visible| Write { left, visible, address, length, bytes, purpose, done: false };
        // Nearly always it leaves last, and is visible last.
        if self.queue.back().is_none_or(|last| last.left <= left && last.visible <= visible) {
            self.queue.push_back(write(visible));
            return visible;
        }
        // Of those that leave before it the last one is the last to be visible.
        let before = self.queue.iter().rev().find(|w| w.left <= left);
        let visible = before.map_or(visible, |w| visible.max(w.visible));
        let later = self.queue.iter().rev().take_while(|w| w.visible > visible).count();
        self.queue.insert(self.queue.len() - later, write(visible));
        visible
    }

    /// Bytes that no write under way has are forgotten, up to the first that one has.
    #[cold]
    fn forget(&mut self) {
        let end = self.forgotten + self.bytes.len();
        let wanted = self.queue.iter().map(|w| w.bytes).min().unwrap_or(end);
        self.bytes.drain(..wanted - self.forgotten);
        self.forgotten = wanted;
        self.most = KEPT.max(2 * self.bytes.len());
    }

    /// When the next write becomes visible.
    #[inline]
    #[must_use]
    pub fn next_time(&self) -> Ps {
        self.queue.front().map_or(Ps::MAX, |w| w.visible)
    }

    /// When the next write of streams that `may` allows becomes visible.
    #[must_use]
    pub fn next_time_of(&self, may: impl Fn(Stream) -> bool) -> Ps {
        self.queue.iter().find(|w| !w.done && may(w.purpose.into())).map_or(Ps::MAX, |w| w.visible)
    }

    /// Applies every write that is visible at `t`; returns how many, and the sum of their lateness against `t`.
    pub fn apply(&mut self, t: Ps, memory: &mut impl GuestMemory) -> (u64, Ps) {
        self.apply_of(t, memory, |_| true, |_, _| {})
    }

    /// The same for streams that `may` allows: writes of a stream stay in order. `each` hears what each is for, and its place.
    pub fn apply_of(
        &mut self,
        t: Ps,
        memory: &mut impl GuestMemory,
        may: impl Fn(Stream) -> bool,
        mut each: impl FnMut(Purpose, (u64, u64)),
    ) -> (u64, Ps) {
        let (mut count, mut late) = (0, Ps::ZERO);
        for w in self.queue.iter_mut().take_while(|w| w.visible <= t) {
            if w.done || !may(w.purpose.into()) {
                continue;
            }
            w.done = true;
            each(w.purpose, (w.address, w.length as u64));
            let from = w.bytes - self.forgotten;
            self.refused += u64::from(!memory.write(w.address, &self.bytes[from..from + w.length]));
            count += 1;
            // At the end of time all is there, and late beyond counting.
            late = late.saturating_add(t - w.visible);
        }
        while self.queue.front().is_some_and(|w| w.done && w.visible <= t) {
            self.queue.pop_front();
        }
        (count, late)
    }

    /// What a stream has under way is not written any more: its queue went off.
    pub fn cancel(&mut self, stream: Stream) {
        self.queue.iter_mut().filter(|w| Stream::from(w.purpose) == stream).for_each(|w| w.done = true);
    }

    /// Forgets what is not yet visible (device reset).
    pub fn clear(&mut self) {
        self.queue.clear();
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::loopback::Ram;
    use crate::requester::Moves;

    fn purpose(queue: u16) -> Purpose {
        Purpose::new(Side::Receive, queue, Moves::Payload)
    }

    fn stream(queue: u16) -> Stream {
        purpose(queue).into()
    }

    /// A write of a queue that leaves at one time and is visible at another, if nothing before it is in its way.
    fn push(writes: &mut DmaWrites, times: (u64, u64), address: u64, data: &[u8], queue: u16) -> Ps {
        writes.push((Ps(times.0), Ps(times.1)), address, data, purpose(queue))
    }

    #[test]
    fn in_order_and_cancelled_by_stream() {
        let mut ram = Ram(vec![0; 8]);
        let mut writes = DmaWrites::default();
        assert_eq!(push(&mut writes, (5, 20), 0, &[1, 1], 0), Ps(20));
        assert_eq!(push(&mut writes, (6, 10), 2, &[2, 2], 1), Ps(20), "not before one that left before it");
        push(&mut writes, (7, 30), 4, &[3, 3], 0);
        push(&mut writes, (8, 30), u64::MAX, &[9], 2);
        writes.cancel(stream(0));
        assert_eq!(writes.apply(Ps(25), &mut ram), (1, Ps(5)));
        assert_eq!((writes.next_time(), ram.0.as_slice()), (Ps(30), &[0, 0, 2, 2, 0, 0, 0, 0][..]));
        writes.apply(Ps(30), &mut ram);
        assert_eq!((ram.0[4], writes.refused, writes.next_time()), (0, 1, Ps::MAX));
    }

    #[test]
    fn what_leaves_later_holds_up_nothing() {
        let mut ram = Ram(vec![0; 8]);
        let mut writes = DmaWrites::default();
        assert_eq!(push(&mut writes, (10, 20), 0, &[1], 0), Ps(20));
        assert_eq!(push(&mut writes, (500, 510), 1, &[2, 3], 0), Ps(510), "decided early");
        assert_eq!(push(&mut writes, (600, 610), 3, &[4], 0), Ps(610));
        assert_eq!(push(&mut writes, (15, 25), 4, &[5, 6], 1), Ps(25), "leaves before it");
        assert_eq!(push(&mut writes, (15, 25), 6, &[7], 2), Ps(25), "with that one, and behind it");
        assert_eq!(push(&mut writes, (499, 605), 7, &[8], 3), Ps(605), "what has been told stays");
        assert_eq!(writes.apply(Ps(30), &mut ram), (3, Ps(10 + 5 + 5)));
        assert_eq!((ram.0.as_slice(), writes.next_time()), (&[1, 0, 0, 0, 5, 6, 7, 0][..], Ps(510)));
        assert_eq!(push(&mut writes, (501, 502), 4, &[9], 4), Ps(605), "behind it and the first one");
        assert_eq!(writes.apply(Ps(510), &mut ram), (1, Ps(0)));
        assert_eq!(ram.0, [1, 2, 3, 0, 5, 6, 7, 0]);
        assert_eq!(writes.apply(Ps(605), &mut ram), (2, Ps(0)));
        assert_eq!(ram.0, [1, 2, 3, 0, 9, 6, 7, 8]);
        assert_eq!(writes.apply(Ps(610), &mut ram), (1, Ps(0)));
        assert_eq!(ram.0, [1, 2, 3, 4, 9, 6, 7, 8]);
    }

    #[test]
    fn whoever_takes_some_leaves_the_others_in_their_order() {
        let mut ram = Ram(vec![0; 8]);
        let mut writes = DmaWrites::default();
        for (t, address, queue) in [(10, 0, 1), (20, 1, 2), (30, 2, 1), (40, 3, 2), (50, 4, 1)] {
            push(&mut writes, (t, t), address, &[t as u8], queue);
        }
        assert_eq!(writes.apply_of(Ps(45), &mut ram, |s| s == stream(2), |_, _| {}), (2, Ps(30)));
        assert_eq!(ram.0, [0, 20, 0, 40, 0, 0, 0, 0]);
        assert_eq!((writes.next_time(), writes.next_time_of(|s| s == stream(2))), (Ps(10), Ps::MAX));
        assert_eq!(writes.apply_of(Ps(29), &mut ram, |s| s == stream(1), |_, _| {}), (1, Ps(19)));
        // Once only: what was there may have been overwritten since.
        ram.0[1] = 7;
        assert_eq!(writes.apply(Ps(60), &mut ram), (2, Ps(40)));
        assert_eq!((ram.0.as_slice(), writes.next_time()), (&[10, 7, 30, 40, 50, 0, 0, 0][..], Ps::MAX));
    }

    #[test]
    fn bytes_are_kept_as_long_as_a_write_wants_them_and_no_longer() {
        let mut ram = Ram(vec![0; 4096]);
        let mut writes = DmaWrites::default();
        let data: Vec<u8> = (0..1000).map(|i| (i % 251) as u8).collect();
        // The first is visible last: its bytes stay, and all behind them.
        push(&mut writes, (u64::MAX, u64::MAX), 3000, &data, 0);
        let mut held = 0;
        for n in 1..500u64 {
            push(&mut writes, (n, n + 3), n % 3 * 1000, &data, 1);
            writes.apply(Ps(n), &mut ram);
            held = held.max(writes.bytes.len());
        }
        assert!(held > 400_000, "{held}");
        writes.apply(Ps::MAX, &mut ram);
        assert!(ram.0[..4000].chunks(1000).all(|piece| piece == data));
        // From then on they take no more room than what is under way, and what waits to be forgotten.
        writes.clear();
        for n in 0..2000u64 {
            writes.push_pieces((Ps(n), Ps(n + 3)), 0, ([&data[..500], &data[500..]], 24), purpose(1));
            writes.apply(Ps(n), &mut ram);
            assert!(writes.bytes.len() <= KEPT + 1024, "{n}: {}", writes.bytes.len());
        }
        assert!(ram.0[..1000] == data && ram.0[1000..1024] == [0; 24]);
        assert_eq!((writes.apply(Ps::MAX, &mut ram).0, writes.refused, writes.next_time()), (3, 0, Ps::MAX));
    }
}
