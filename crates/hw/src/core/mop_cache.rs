//! A cache of decoded instructions (Arm's MOP cache): what is in it comes as wide as fetch, the rest as wide as decode, and later.
//!
//! A line is one of fetch's aligned groups, by physical address; it is put in when the group is decoded.
//! Not-recently-used replacement, ways chosen by different hashes (skewed), as in the Cortex-A78 and the Neoverse V2. Left
//! out: that it is filled only with what branch prediction believes in, that an entry holds fused pairs as one, and what it
//! loses to instruction cache maintenance and to its page's translation.

use crate::memory::spread;
use crate::params;
use wiretime_base::Cycles;

/// See the module.
pub struct MopCache {
    /// A group and whether it was used of late, by set and way; empty without the cache. Group 0 is no group.
    lines: Vec<(u64, bool)>,
    ways: usize,
    sets: u64,
    /// Bits of an address within a group.
    within: u32,
    /// What comes of a group a cycle, and what decode takes of it.
    width: u32,
    decode: u32,
    latency: Cycles,
    /// Instructions of whole groups that decode still owes a cycle for.
    owed: u32,
}

/// What fetch found of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is no such cache.
    None,
    /// It was there.
    Hit,
    /// It had to be decoded, which took so much longer.
    Miss(Cycles),
}

impl MopCache {
    pub fn new(p: &params::Core) -> Self {
        let group = p.fetch_width;
        let lines = p.mop_cache_entries / group;
        let ways = p.mop_cache_ways.max(1);
        Self {
            lines: vec![(0, false); lines as usize],
            ways: ways as usize,
            sets: u64::from(lines / ways),
            within: (4 * group).trailing_zeros(),
            width: p.fetch_width,
            decode: p.decode_width,
            latency: p.decode_latency.into(),
            owed: 0,
        }
    }

    /// The group at `pc` is fetched; `first` after a redirection.
    #[inline]
    pub fn fetch(&mut self, pc: u64, first: bool) -> Found {
        if self.sets == 0 {
            return Found::None;
        }
        self.look(pc, first)
    }

    fn look(&mut self, pc: u64, first: bool) -> Found {
        let group = (pc >> self.within) + 1;
        let (sets, ways) = (self.sets, self.ways);
        let places = || (0..ways).map(|way| place(group, sets, way) * ways + way);
        if let Some(at) = places().find(|&at| self.lines[at].0 == group) {
            self.lines[at].1 = true;
            return Found::Hit;
        }
        let victim = places().find(|&at| !self.lines[at].1);
        let at = victim.unwrap_or_else(|| {
            places().for_each(|at| self.lines[at].1 = false);
            place(group, sets, 0) * ways
        });
        self.lines[at] = (group, true);
        self.owed += self.width.saturating_sub(self.decode);
        let more = self.owed / self.decode;
        self.owed %= self.decode;
        Found::Miss(Cycles::from(more) + if first { self.latency } else { Cycles::ZERO })
    }

    /// What decides how long a group takes that is not there.
    pub fn stand(&self, words: &mut Vec<u64>) {
        words.push(self.owed.into());
    }
}

/// The set that a group is in, another one in each way.
#[inline]
fn place(group: u64, sets: u64, way: usize) -> usize {
    ((spread(group.rotate_left(13 * way as u32), 32) * sets) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::platform;

    fn cache() -> MopCache {
        let mut p = platform().core;
        (p.fetch_width, p.mop_cache_entries, p.mop_cache_ways) = (8, 1536, 4);
        (p.decode_width, p.decode_latency) = (6, 1);
        MopCache::new(&p)
    }

    /// Groups found, and cycles that the others take more, of `groups` one after the other.
    fn round(c: &mut MopCache, groups: u64) -> (u64, u64) {
        let found: Vec<_> = (0..groups).map(|n| c.fetch(n * 32, false)).collect();
        let more = found.iter().map(|f| if let Found::Miss(more) = f { more.0 } else { 0 });
        (found.iter().filter(|&&f| f == Found::Hit).count() as u64, more.sum())
    }

    #[test]
    fn what_fits_comes_eight_a_cycle_and_the_rest_six() {
        let mut c = cache();
        assert_eq!(round(&mut c, 150), (0, 50), "8 for 6: a cycle more for three groups");
        round(&mut c, 150);
        assert_eq!(round(&mut c, 150), (150, 0));
        let mut c = cache();
        round(&mut c, 3000);
        let (hits, more) = round(&mut c, 3000);
        assert_eq!(more, (3000 - hits) / 3, "sixteen times as many as it holds");
        assert!(hits < 30, "{hits}");
    }

    #[test]
    fn a_redirection_to_what_is_not_there_is_decoded_first() {
        let mut c = cache();
        assert_eq!(c.fetch(0x4000, true), Found::Miss(Cycles(1)));
        assert_eq!(c.fetch(0x4000, true), Found::Hit);
    }

    #[test]
    fn most_of_what_just_fits_is_there() {
        let mut c = cache();
        (0..4).for_each(|_| _ = round(&mut c, 180));
        let (hits, _) = round(&mut c, 180);
        assert!(hits > 160, "{hits}");
    }

    #[test]
    fn without_one_nothing_is_found() {
        let mut p = platform().core;
        p.mop_cache_entries = 0;
        assert_eq!(MopCache::new(&p).fetch(0x4000, true), Found::None);
    }
}
