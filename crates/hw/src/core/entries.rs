//! Entries of a queue that are allocated in order: reorder buffer, load and store queue, physical registers.

use wiretime_base::Cycles;

/// Most entries that a ring may have.
const RING: usize = 1024;

/// When the entries of a queue are free again, in order of allocation.
pub struct Entries {
    next: usize,
    last: usize,
    free: [Cycles; RING],
}

impl Entries {
    pub fn new(entries: u32) -> Self {
        Self { next: 0, last: (entries.max(1) as usize).min(RING) - 1, free: [Cycles::ZERO; RING] }
    }
    #[inline(always)]
    pub fn available(&self) -> Cycles {
        self.free[self.next % RING]
    }
    /// The most that [`Self::ahead`] can be asked for.
    pub fn most(&self) -> usize {
        self.last
    }
    /// When `count` entries are free, where entries are freed in order.
    #[inline]
    pub fn ahead(&self, count: usize) -> Cycles {
        if count == 0 {
            return Cycles::ZERO;
        }
        if count > self.last {
            return Cycles::MAX;
        }
        let at = self.next + count - 1;
        self.free[(if at > self.last { at - self.last - 1 } else { at }) % RING]
    }
    /// When entries are free after `now`, in order of allocation.
    pub fn stand(&self, now: Cycles, words: &mut Vec<u64>) {
        let (before, from) = self.free[..=self.last].split_at(self.next);
        words.extend(from.iter().chain(before).map(|t| t.saturating_sub(now).0));
    }

    /// All of it is so much later.
    pub fn shift(&mut self, by: Cycles) {
        self.free[..=self.last].iter_mut().for_each(|t| *t += by);
    }

    #[inline(always)]
    pub fn take(&mut self, until: Cycles) {
        self.free[self.next % RING] = until;
        self.next = if self.next == self.last { 0 } else { self.next + 1 };
    }
}
