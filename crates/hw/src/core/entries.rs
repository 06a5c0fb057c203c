//! Entries of a queue that are allocated in order: reorder buffer, load and store queue, physical registers.

/// Most entries that a ring may have.
const RING: usize = 1024;

/// When the entries of a queue are free again, in order of allocation.
pub struct Entries {
    next: usize,
    last: usize,
    free: [u64; RING],
}

impl Entries {
    pub fn new(entries: u32) -> Self {
        Self { next: 0, last: (entries.max(1) as usize).min(RING) - 1, free: [0; RING] }
    }
    #[inline(always)]
    pub fn available(&self) -> u64 {
        self.free[self.next % RING]
    }
    /// When `count` entries are free, where entries are freed in order.
    #[inline]
    pub fn ahead(&self, count: usize) -> u64 {
        if count == 0 {
            return 0;
        }
        if count > self.last {
            return u64::MAX;
        }
        let at = self.next + count - 1;
        self.free[(if at > self.last { at - self.last - 1 } else { at }) % RING]
    }
    #[inline(always)]
    pub fn take(&mut self, until: u64) {
        self.free[self.next % RING] = until;
        self.next = if self.next == self.last { 0 } else { self.next + 1 };
    }
}
