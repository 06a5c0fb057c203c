//! A FIFO limited by bytes: entries leave in order, their bytes when all of a frame has gone.
//!
//! It notes its fill over time, and when it falls below its low-water mark, half of it: whoever waited since has waited no
//! more.

use std::collections::VecDeque;
use wiretime_base::Ps;

/// See the module.
#[derive(Debug)]
pub struct ByteFifo<T> {
    entries: VecDeque<T>,
    used: u64,
    size: u64,
    since: Ps,
    /// How often it was found below the mark.
    drains: u32,
    /// A frame was refused since it last was.
    refused: bool,
    /// Highest fill, fill when last looked at, and fill added up over time, in byte picoseconds.
    pub peak: u64,
    /// Fill when last looked at.
    pub level: u64,
    /// Fill added up over time, in byte picoseconds.
    pub level_ps: u64,
}

impl<T> ByteFifo<T> {
    /// Of `size` bytes.
    #[must_use]
    pub fn new(size: u64) -> Self {
        let entries = VecDeque::with_capacity(1 << 14);
        Self { entries, used: 0, size, since: Ps::ZERO, drains: 0, refused: false, peak: 0, level: 0, level_ps: 0 }
    }

    /// Bytes in it.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Frames in it.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.entries.len()
    }

    /// Whether `bytes` more fit.
    #[must_use]
    pub fn has_room(&self, bytes: u64) -> bool {
        self.used + bytes <= self.size
    }

    fn look(&mut self, t: Ps) {
        self.level_ps = self.level_ps.wrapping_add(self.used.wrapping_mul(t.saturating_sub(self.since).0));
        self.since = self.since.max(t);
        self.level = self.used;
    }

    /// A frame of so many bytes comes in.
    pub fn push(&mut self, t: Ps, bytes: u64, entry: T) {
        self.look(t);
        self.used += bytes;
        self.peak = self.peak.max(self.used);
        self.entries.push_back(entry);
    }

    /// The frame at its head.
    #[must_use]
    pub fn front(&self) -> Option<&T> {
        self.entries.front()
    }

    /// Takes it; its bytes stay until [`ByteFifo::release`].
    pub fn pop(&mut self) -> Option<T> {
        self.entries.pop_front()
    }

    /// So many bytes have gone; whether that ends a time of refusals.
    pub fn release(&mut self, t: Ps, bytes: u64) -> bool {
        self.look(t);
        self.used = self.used.saturating_sub(bytes);
        let low = self.used * 2 <= self.size;
        self.drains = self.drains.wrapping_add(u32::from(low));
        low && std::mem::take(&mut self.refused)
    }

    /// A frame is refused.
    pub fn refuse(&mut self) {
        self.refused = true;
    }

    /// How often it was found below its low-water mark: what was noted under another number is over.
    #[must_use]
    pub fn drains(&self) -> u32 {
        self.drains
    }

    /// All is gone (reset); whether that ends a time of refusals.
    pub fn clear(&mut self, t: Ps) -> bool {
        self.look(t);
        self.entries.clear();
        self.used = 0;
        self.drains = self.drains.wrapping_add(1);
        std::mem::take(&mut self.refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_after_their_frame() {
        let mut f = ByteFifo::new(100);
        f.push(Ps::ZERO, 60, 'a');
        assert!(f.has_room(40) && !f.has_room(41));
        f.push(Ps(10), 40, 'b');
        f.refuse();
        assert_eq!((f.pop(), f.used(), f.frames(), f.front()), (Some('a'), 100, 1, Some(&'b')));
        assert_eq!((f.release(Ps(30), 60), f.drains()), (true, 1), "below half, after a refusal");
        assert_eq!((f.release(Ps(40), 40), f.drains()), (false, 2));
        assert_eq!((f.peak, f.level_ps), (100, 60 * 10 + 100 * 20 + 40 * 10));
        f.push(Ps(50), 100, 'c');
        f.refuse();
        assert!(f.clear(Ps(50)) && f.used() == 0 && f.pop().is_none() && !f.clear(Ps(60)));
    }
}
