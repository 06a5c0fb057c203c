//! Cycles by instruction: each is charged to the oldest instruction that has not committed (time-proportional profiling:
//! Gottschall, Eeckhout and Jahre, MICRO 2021).
//!
//! Left out: the paper charges a refill to the mispredicted branch; here what commits first behind it pays, as it does in
//! profiles that hardware samples at retirement.

use wiretime_base::Cycles;

/// What instructions were charged since somebody last took it.
#[derive(Debug)]
pub struct Charges {
    /// All cycles before have been charged.
    charged: Cycles,
    /// Physical address and cycles, in program order.
    recent: Vec<(u64, Cycles)>,
}

impl Charges {
    /// From `now` on.
    #[must_use]
    pub(super) fn since(now: Cycles) -> Self {
        Self { charged: now, recent: Vec::with_capacity(1024) }
    }

    pub(super) fn note(&mut self, pc: u64, commit: Cycles) {
        let until = self.charged.max(commit);
        self.recent.push((pc, until - self.charged));
        self.charged = until;
    }

    /// Nobody is charged for sleep.
    pub(super) fn asleep(&mut self, until: Cycles) {
        self.charged = self.charged.max(until);
    }

    /// Takes what has been charged.
    pub fn take(&mut self) -> std::vec::Drain<'_, (u64, Cycles)> {
        self.recent.drain(..)
    }
}
