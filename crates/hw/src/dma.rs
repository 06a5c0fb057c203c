//! DMA writes on their way to memory: decided when the NIC sends them, applied when cores may see them.
//!
//! Posted writes stay in order, so a descriptor is never visible before the payload that was sent ahead of it.

use crate::memory::GuestMemory;
use std::collections::VecDeque;
use wiretime_base::Ps;

/// Whose write it is: a queue of a NIC, by a number of its choice.
pub type Stream = u32;

/// A write under way.
#[derive(Clone, Copy, Debug)]
struct Write {
    visible: Ps,
    address: u64,
    length: usize,
    stream: Stream,
    cancelled: bool,
}

/// Writes not yet visible, in order of visibility.
pub struct DmaWrites {
    queue: VecDeque<Write>,
    bytes: VecDeque<u8>,
    last: Ps,
    /// Writes outside guest memory, ignored as a root complex would.
    pub refused: u64,
}

impl Default for DmaWrites {
    fn default() -> Self {
        Self {
            queue: VecDeque::with_capacity(4096),
            bytes: VecDeque::with_capacity(1 << 20),
            last: Ps::ZERO,
            refused: 0,
        }
    }
}

impl DmaWrites {
    /// Queues a write that cores see from `visible` on, or later where an earlier write is; returns that time.
    pub fn push(&mut self, visible: Ps, address: u64, data: &[u8], stream: Stream) -> Ps {
        self.push_padded(visible, address, (data, 0), stream)
    }

    /// The same, with so many zeros behind the data.
    pub fn push_padded(&mut self, visible: Ps, address: u64, (data, zeros): (&[u8], usize), stream: Stream) -> Ps {
        self.last = self.last.max(visible);
        let write = Write { visible: self.last, address, length: data.len() + zeros, stream, cancelled: false };
        self.queue.push_back(write);
        self.bytes.extend(data);
        self.bytes.resize(self.bytes.len() + zeros, 0);
        self.last
    }

    /// When the next write becomes visible.
    #[inline]
    #[must_use]
    pub fn next_time(&self) -> Ps {
        self.queue.front().map_or(Ps::MAX, |w| w.visible)
    }

    /// Applies every write that is visible at `t`; returns how many, and the sum of their lateness against `t`.
    pub fn apply(&mut self, t: Ps, memory: &mut impl GuestMemory) -> (u64, Ps) {
        let (mut count, mut late) = (0, Ps::ZERO);
        while let Some(&Write { visible, address, length, cancelled, .. }) = self.queue.front() {
            if visible > t {
                break;
            }
            self.queue.pop_front();
            if cancelled {
                self.bytes.drain(..length);
                continue;
            }
            let (a, b) = self.bytes.as_slices();
            let first = length.min(a.len());
            let mut ok = memory.write(address, &a[..first]);
            if first < length {
                ok &= memory.write(address.wrapping_add(first as u64), &b[..length - first]);
            }
            self.bytes.drain(..length);
            self.refused += u64::from(!ok);
            count += 1;
            late += t - visible;
        }
        (count, late)
    }

    /// What a stream has under way is not written any more: its queue went off.
    pub fn cancel(&mut self, stream: Stream) {
        self.queue.iter_mut().filter(|w| w.stream == stream).for_each(|w| w.cancelled = true);
    }

    /// Forgets what is not yet visible (device reset).
    pub fn clear(&mut self) {
        self.queue.clear();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::loopback::Ram;

    #[test]
    fn in_order_and_cancelled_by_stream() {
        let mut ram = Ram(vec![0; 8]);
        let mut writes = DmaWrites::default();
        assert_eq!(writes.push(Ps(20), 0, &[1, 1], 0), Ps(20));
        assert_eq!(writes.push(Ps(10), 2, &[2, 2], 1), Ps(20), "not before the earlier one");
        writes.push(Ps(30), 4, &[3, 3], 0);
        writes.push(Ps(30), u64::MAX, &[9], 2);
        writes.cancel(0);
        assert_eq!(writes.apply(Ps(25), &mut ram), (1, Ps(5)));
        assert_eq!((writes.next_time(), ram.0.as_slice()), (Ps(30), &[0, 0, 2, 2, 0, 0, 0, 0][..]));
        writes.apply(Ps(30), &mut ram);
        assert_eq!((ram.0[4], writes.refused, writes.next_time()), (0, 1, Ps::MAX));
    }
}
