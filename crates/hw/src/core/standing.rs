//! Where a core stands: all of it that decides how it goes on, relative to the cycle that it is in. A loop that comes back to
//! where it stood, while caches and TLBs only answered and the predictor is what it was, goes the same way again; so turns of
//! it need not be taken: times move on, and counters count.
//!
//! What is over makes no difference any more, so it is not told apart: when something was that is behind dispatch, and by more
//! than a front end runs ahead or refills in where that may still be added to it. Left out, since they follow from the accesses alone: orders of
//! use in caches and TLBs, which a turn leaves as it found them (but for the wrap of their 32-bit clocks).

use super::pipeline::{Core, CoreStats};
use super::position::Position;
use super::stall::Stalls;
use wiretime_base::stats::StatGroup;
use wiretime_base::{Cycles, Ps};

/// See the module.
#[derive(Clone)]
pub struct Standing {
    words: Vec<u64>,
    at: Cycles,
    counted: Counted,
}

/// What goes on in a loop.
#[derive(Clone)]
struct Counted {
    stats: CoreStats,
    stalls: Stalls,
    /// Uses of the first-level TLBs.
    uses: [u32; 2],
}

/// A turn of a loop: its length, and what it counts.
#[derive(Clone)]
pub struct Turn {
    /// Its length.
    pub length: Cycles,
    counted: Counted,
}

impl Standing {
    /// Whether a core that stands so goes on as one that stands like `other`.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.words == other.words
    }

    /// The turn from `earlier` to here.
    #[must_use]
    pub fn turn_since(&self, earlier: &Self) -> Turn {
        let (now, then) = (&self.counted, &earlier.counted);
        Turn {
            length: self.at - earlier.at,
            counted: Counted {
                stats: now.stats.since(&then.stats),
                stalls: now.stalls.since(&then.stalls),
                uses: [0, 1].map(|i| now.uses[i].wrapping_sub(then.uses[i])),
            },
        }
    }
}

impl Core {
    /// What happens to a core that a loop on its own does not do: a sum that grows with each.
    #[inline]
    #[must_use]
    pub fn disturbances(&self) -> u64 {
        let s = &self.stats;
        let once = s.exceptions + s.mop_cache_misses + s.order_violations;
        self.idle.0 + s.mmio_reads + s.mmio_writes + once + self.tlb.misses()
    }

    /// Where the core stands.
    pub fn standing(&mut self) -> Standing {
        let now = self.cycle();
        let past = now.saturating_sub(self.fetch_ahead + self.exception + self.mispredict + Cycles(1));
        let mut words = Vec::with_capacity(1024);
        words.push((self.dispatch - Position::of(now)).raw());
        words.push((self.commit.max(Position::of(past)) - Position::of(past)).raw());
        let after = |t: Cycles| (t.max(past) - past).0;
        words.extend([self.fetch, self.last_load, self.last_store, self.device.0, self.device.1].map(after));
        words.extend(
            [self.load_fence, self.store_fence, self.released, self.pending.0].map(|t| t.saturating_sub(now).0),
        );
        words.extend([self.fetch_cause, self.commit_cause, self.pending.1, self.store_cause].map(|c| c as u64));
        words.extend([self.new_group, self.restarted, self.turned].map(u64::from));
        words.extend([self.fetched_line, self.device.2, self.limits.stand(now)]);
        self.mops.stand(&mut words);
        words.extend(self.ready.iter().map(|t| t.saturating_sub(now).0));
        for entries in self.all_entries() {
            entries.stand(now, &mut words);
        }
        self.ports.stand(now, &mut words);
        self.ahead.stand(now.saturating_sub(self.ahead_most), &mut words);
        for queue in &mut self.queues {
            queue.stand(now, &mut words);
        }
        self.forward.stand(now, &mut words);
        self.predictor.stand(&mut words);
        let counted = Counted { stats: self.stats.clone(), stalls: self.stalls.clone(), uses: self.tlb.uses() };
        Standing { words, at: now, counted }
    }

    /// How many turns of this length end before `t`.
    #[must_use]
    pub fn turns_before(&self, t: Ps, length: Cycles) -> u64 {
        let redirect = if self.new_group { self.fetch } else { Cycles::ZERO };
        let (now, end) = (self.cycle().max(redirect), self.clock.cycle_at_or_after(t));
        end.0.saturating_sub(now.0 + 1) / length.0.max(1)
    }

    /// The core has taken `count` more turns, back to where it stands now.
    pub fn repeat(&mut self, turn: &Turn, count: u64) {
        let by = turn.length * count;
        let now = self.cycle();
        self.ports.shift(now, by);
        self.ahead.shift(by);
        for queue in &mut self.queues {
            queue.shift(now, by);
        }
        for entries in self.all_entries() {
            entries.shift(by);
        }
        self.dispatch += Position::of(by);
        self.commit += Position::of(by);
        self.ready.iter_mut().for_each(|t| *t += by);
        self.forward.shift(by);
        self.limits.shift(by);
        for t in [&mut self.fetch, &mut self.load_fence, &mut self.store_fence, &mut self.last_load] {
            *t += by;
        }
        let released = &mut self.released;
        for t in [released, &mut self.last_store, &mut self.device.0, &mut self.device.1, &mut self.pending.0] {
            *t += by;
        }
        let counted = &turn.counted;
        self.stats = self.stats.plus(&counted.stats.times(count));
        self.stalls.repeat(&counted.stalls, count);
        self.tlb.repeat(counted.uses.map(|uses| uses.wrapping_mul(count as u32)));
    }

    fn all_entries(&mut self) -> [&mut super::entries::Entries; 5] {
        [&mut self.rob, &mut self.integer_registers, &mut self.vector_registers, &mut self.loads, &mut self.stores]
    }
}
