//! Turns of a loop that a core need not take.
//!
//! Whoever drives the machine knows what executes: that registers and memory are at the end of a turn what they were at its
//! beginning. What a turn takes and counts is known here. Where a core is back where it stood, and nothing has disturbed it
//! since, so many turns more are one step: exactly what they would have been one by one, as long as no device acts and no
//! other core touches what it has in its caches.

use super::{look, Hold, Machine, Nics};
use crate::core::{Standing, Turn as CoreTurn};
use crate::memory::PrivateStats;
use crate::requester::Side;
use wiretime_base::stats::StatGroup;
use wiretime_base::Ps;

/// Where a core and its caches stand.
pub struct Stand {
    core: Standing,
    caches: PrivateStats,
    uses: [u32; 2],
}

/// A turn of a loop: what it takes and counts.
pub struct Turn {
    core: CoreTurn,
    caches: PrivateStats,
    uses: [u32; 2],
}

impl Stand {
    /// Whether a core goes on from here as from `other`.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.core.is_like(&other.core)
    }

    /// The turn from `earlier` to here.
    #[must_use]
    pub fn turn_since(&self, earlier: &Self) -> Turn {
        Turn {
            core: self.core.turn_since(&earlier.core),
            // What others have asked of the caches meanwhile is not the loop's.
            caches: PrivateStats { snooped_lines: 0, ..self.caches.since(&earlier.caches) },
            uses: [0, 1].map(|i| self.uses[i].wrapping_sub(earlier.uses[i])),
        }
    }
}

impl<H: Hold> Machine<H> {
    /// What happens to core `i`, its caches and the lines that it watches that a loop which repeats does not do by itself: a
    /// sum that grows with each.
    #[inline]
    #[must_use]
    pub fn disturbances(&self, i: usize) -> u64 {
        self.cores[i].disturbances() + self.memory.disturbances(i) + self.intrusions
    }

    /// From now on what others do to these lines disturbs core `i`, and to no others.
    pub fn watch(&mut self, i: usize, lines: &[u64]) {
        self.memory.watch(i, lines);
    }

    /// Where core `i` stands.
    #[must_use]
    pub fn stand(&mut self, i: usize) -> Stand {
        Stand {
            core: self.cores[i].standing(),
            caches: self.memory.private_stats(i).clone(),
            uses: self.memory.uses(i),
        }
    }

    /// Whether somebody polls what is at this address.
    #[inline]
    #[must_use]
    pub fn is_polled(&self, paddr: u64) -> bool {
        self.span.contains(&paddr)
    }

    /// How many turns of core `i` end before `t`.
    #[must_use]
    pub fn turns_before(&self, i: usize, t: Ps, turn: &Turn) -> u64 {
        self.cores[i].turns_before(t, turn.core.length)
    }

    /// Core `i` takes `count` turns more, in each of which it reads what is polled at `polled`.
    pub fn repeat(&mut self, i: usize, turn: &Turn, count: u64, polled: &[u64]) {
        self.cores[i].repeat(&turn.core, count);
        self.memory.repeat(i, &turn.caches.times(count), turn.uses.map(|n| n.wrapping_mul(count as u32)));
        let mut nics = self.nics.nics();
        let Nics { books, .. } = &mut *nics;
        for &paddr in polled {
            if let Some((slot, ring, offset)) = look(&self.rings, paddr) {
                self.memory.users.uses(i, slot, (Side::Receive, ring.queue));
                books.polled_again(slot, ring.entry_at(offset), count);
            }
        }
    }

    /// Up to when devices do nothing.
    #[must_use]
    pub fn quiet_until(&self) -> Ps {
        let nics = self.nics.nics();
        if nics.books.has_mail() {
            return Ps::ZERO;
        }
        nics.slots.iter().filter_map(|s| s.nic.next_time()).min().unwrap_or(Ps::MAX)
    }
}
