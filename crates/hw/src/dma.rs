//! DMA writes on their way to memory: decided when the NIC sends them, applied when cores may see them.
//!
//! Posted writes stay in order, so a descriptor is never visible before the payload that was sent ahead of it.

use crate::memory::GuestMemory;
use std::collections::VecDeque;
use wiretime_base::Ps;

/// Writes not yet visible, in order of visibility.
pub struct DmaWrites {
    queue: VecDeque<(Ps, u64, usize)>,
    bytes: VecDeque<u8>,
    last: Ps,
    /// Writes outside guest memory, ignored as a root complex would.
    pub refused: u64,
}

impl Default for DmaWrites {
    fn default() -> Self {
        Self { queue: VecDeque::with_capacity(4096), bytes: VecDeque::with_capacity(1 << 20), last: 0, refused: 0 }
    }
}

impl DmaWrites {
    /// Queues a write that cores see from `visible` on, or later where an earlier write is; returns that time.
    pub fn push(&mut self, visible: Ps, address: u64, data: &[u8]) -> Ps {
        self.last = self.last.max(visible);
        self.queue.push_back((self.last, address, data.len()));
        self.bytes.extend(data);
        self.last
    }

    /// When the next write becomes visible.
    #[inline]
    #[must_use]
    pub fn next_time(&self) -> Ps {
        self.queue.front().map_or(Ps::MAX, |w| w.0)
    }

    /// Applies every write that is visible at `t`; returns how many, and the sum of their lateness against `t`.
    pub fn apply(&mut self, t: Ps, memory: &mut impl GuestMemory) -> (u64, Ps) {
        let (mut count, mut late) = (0, 0);
        while let Some(&(visible, address, length)) = self.queue.front() {
            if visible > t {
                break;
            }
            self.queue.pop_front();
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

    /// Forgets what is not yet visible (device reset).
    pub fn clear(&mut self) {
        self.queue.clear();
        self.bytes.clear();
    }
}
