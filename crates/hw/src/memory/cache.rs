//! One set-associative cache: tags, states, when each line's data is there, and replacement.
//!
//! RRIP and tree pseudo-LRU keep their state in the same word as LRU keeps its clock. Random takes a seeded sequence.

use super::{spread, Level, PAGE_LINES};
use crate::params::Replacement;
use wiretime_base::Time;

/// Line states.
pub const DIRTY: u8 = 1;
/// No other private cache has it: may be written at once.
pub const EXCLUSIVE: u8 = 2;
/// Brought by DMA and not yet used by a core.
pub const DMA: u8 = 4;
/// Brought by a hardware prefetcher and not yet used.
pub const PREFETCHED: u8 = 8;
/// Other cores use it at the same time.
pub const CONTENDED: u8 = 16;
/// Counts towards the devices' share.
pub const SHARE: u8 = 32;

/// Bits of a line's number that are in front of what chooses its set otherwise.
const ELSEWHERE: u32 = 48;

/// The bits of a line's number that a virtual index takes from the virtual address: those that choose a set and are not the
/// same in both, as those within a page are.
pub fn virtual_bits(size: u64, ways: u32) -> u64 {
    (sets_of(size, ways).next_power_of_two() - 1) & !(PAGE_LINES - 1) & ((1 << (u64::BITS - ELSEWHERE)) - 1)
}

/// A line in the set that its virtual address chooses, by those bits. All functions of a cache that take a line take such a
/// place; they give lines.
#[inline]
pub fn place(line: u64, virtual_line: u64, bits: u64) -> u64 {
    line | ((line ^ virtual_line) & bits) << ELSEWHERE
}

/// Another line of the page of `place`, in the set that it is in.
#[inline]
pub fn beside(place: u64, line: u64) -> u64 {
    line | place & !(u64::MAX >> (u64::BITS - ELSEWHERE))
}

/// The line at a place.
#[inline]
pub fn line_at(place: u64) -> u64 {
    place & (u64::MAX >> (u64::BITS - ELSEWHERE))
}

/// Everywhere that a line may be.
#[inline]
pub fn places(line: u64, bits: u64) -> impl Iterator<Item = u64> {
    // The subsets of the bits, none first.
    let mut next = Some(0u64);
    std::iter::from_fn(move || {
        let subset = next?;
        let following = subset.wrapping_sub(bits) & bits;
        next = (following != 0).then_some(following);
        Some(line | subset << ELSEWHERE)
    })
}

/// What a lookup does not need.
#[derive(Clone, Copy, Default)]
struct Line<T> {
    /// When its data arrives, in the cache's own unit of time, and how long behind the access that asked for it.
    ready: T,
    took: u16,
    /// Replacement: last use (LRU), re-reference prediction (RRIP).
    used: u32,
    state: u8,
    /// Where its data came from.
    level: u8,
}

/// A line that had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    pub line: u64,
    pub state: u8,
}

/// Two-bit re-reference predictions: an inserted line is expected late, a hit one soon.
const RRIP_LONG: u32 = 2;
const RRIP_DISTANT: u32 = 3;

/// Marks of ways that one word holds.
const MARKS: usize = 8;
/// A word of the same mark, and the top bit of each.
const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = 0x8080_8080_8080_8080;

/// A line's mark, never 0: among the ways of a set it nearly always tells it from others.
#[inline]
fn mark(line: u64) -> u8 {
    // Where sets are hashed the first bits of the product are the set's.
    spread(line, 40) as u8 | 1
}

/// What using the way of a leaf does to its set's tree: the bits on the path to it turn away, others stay. A set bit points
/// right.
fn points_away(leaf: usize) -> (u64, u64) {
    let (mut stay, mut point, mut node) = (u64::MAX, 0, leaf);
    while node > 1 {
        let left = node & 1 == 0;
        node >>= 1;
        stay &= !(1 << node);
        point |= u64::from(left) << node;
    }
    (stay, point)
}

fn sets_of(size: u64, ways: u32) -> u64 {
    (size / (super::LINE * u64::from(ways))).max(1)
}

/// Which set a line is in.
#[derive(Clone, Copy)]
enum Sets {
    /// By the low bits of its number.
    Masked(u64),
    /// By a hash of it, of so many.
    Hashed(u64),
}

/// A cache whose lines arrive in the owner's unit of time: cycles for private ones, ps for the shared one.
pub struct Cache<T> {
    /// Line number plus one; 0 is invalid. Apart from the rest, so that a lookup touches one host line.
    tags: Vec<u64>,
    /// A mark for each way, 0 where it holds nothing, a few words a set: what a lookup compares first.
    marks: Vec<u64>,
    /// Words of marks a set.
    words: usize,
    lines: Vec<Line<T>>,
    /// Tree pseudo-LRU: one bit a node, by set; by way, the bits that stay when it is used, and those that are set.
    trees: Vec<u64>,
    away: Vec<(u64, u64)>,
    sets: Sets,
    ways: usize,
    policy: Replacement,
    clock: u32,
    random: u64,
}

impl<T: Time> Cache<T> {
    /// `size` bytes in `ways` ways; the caller has checked the geometry.
    pub fn new(size: u64, ways: u32, policy: Replacement) -> Self {
        let sets = sets_of(size, ways).next_power_of_two();
        Self::of(Sets::Masked(sets - 1), sets, ways, policy)
    }

    /// The same with sets chosen by a hash of a line's number, as many as there are.
    pub fn hashed(size: u64, ways: u32, policy: Replacement) -> Self {
        let sets = sets_of(size, ways);
        Self::of(Sets::Hashed(sets), sets, ways, policy)
    }

    fn of(which: Sets, sets: u64, ways: u32, policy: Replacement) -> Self {
        let ways = ways as usize;
        let total = sets as usize * ways;
        let words = ways.div_ceil(MARKS);
        let (trees, leaves) = match policy {
            Replacement::PseudoLru => (sets as usize, ways.next_power_of_two()),
            _ => (0, 0),
        };
        Self {
            tags: vec![0; total],
            marks: vec![0; sets as usize * words],
            words,
            lines: vec![Line::default(); total],
            trees: vec![0; trees],
            away: (leaves..leaves + ways).filter(|_| trees > 0).map(points_away).collect(),
            sets: which,
            ways,
            policy,
            clock: 0,
            random: 0x2545_f491_4f6c_dd1d,
        }
    }

    #[inline]
    fn set(&self, line: u64) -> usize {
        match self.sets {
            Sets::Masked(mask) => ((line ^ line >> ELSEWHERE) & mask) as usize,
            // The high half of a product is a fair share of any number of sets (Lemire 2016).
            Sets::Hashed(sets) => ((u128::from(spread(line, u64::BITS)) * u128::from(sets)) >> u64::BITS) as usize,
        }
    }

    /// Where `line` is. Counts as a use.
    #[inline]
    pub fn touch(&mut self, line: u64) -> Option<usize> {
        let set = self.set(line);
        let at = self.find_in(set, line)?;
        self.used(set, at, false);
        Some(at)
    }

    #[inline]
    fn used(&mut self, set: usize, at: usize, inserted: bool) {
        match self.policy {
            Replacement::Lru => {
                // 32 bits of use order wrap after 4e9 touches: one wrong victim a set then, deterministic.
                self.clock = self.clock.wrapping_add(1);
                self.lines[at].used = self.clock;
            }
            Replacement::Random => {}
            Replacement::Rrip => self.lines[at].used = if inserted { RRIP_LONG } else { 0 },
            Replacement::PseudoLru => {
                let (stay, point) = self.away[at - set * self.ways];
                self.trees[set] = self.trees[set] & stay | point;
            }
        }
    }

    /// Uses so far, as the order of uses counts them.
    pub fn uses(&self) -> u32 {
        self.clock
    }

    /// So many uses more, which leave the order as it is: all lines grow older by as much.
    pub fn pass(&mut self, uses: u32) {
        self.clock = self.clock.wrapping_add(uses);
    }

    /// Where `line` is, without using it.
    #[inline]
    pub fn find(&self, line: u64) -> Option<usize> {
        self.find_in(self.set(line), line)
    }

    #[inline]
    fn find_in(&self, set: usize, line: u64) -> Option<usize> {
        let line = line_at(line);
        let (base, wanted) = (set * self.ways, u64::from(mark(line)) * ONES);
        for (i, word) in self.marks[set * self.words..][..self.words].iter().enumerate() {
            let differs = word ^ wanted;
            // The top bits of bytes that are 0; of a byte above one, too, now and then.
            let mut same = differs.wrapping_sub(ONES) & !differs & TOPS;
            while same != 0 {
                let at = base + i * MARKS + same.trailing_zeros() as usize / 8;
                if self.tags.get(at) == Some(&(line + 1)) {
                    return Some(at);
                }
                same &= same - 1;
            }
        }
        None
    }

    /// What a way of the set of `line` holds from now on: the line, or nothing.
    #[inline]
    fn put(&mut self, line: u64, at: usize, taken: bool) {
        let (set, line) = (self.set(line), line_at(line));
        let way = at - set * self.ways;
        let (word, shift) = (&mut self.marks[set * self.words + way / MARKS], way % MARKS * 8);
        *word = *word & !(0xff << shift) | u64::from(if taken { mark(line) } else { 0 }) << shift;
        self.tags[at] = if taken { line + 1 } else { 0 };
    }

    /// When an access at `t` finds the data of a line: whoever comes before the access that has brought it waits no longer than
    /// that did, and has brought it from then on.
    #[inline]
    pub fn ready(&mut self, at: usize, t: T) -> T {
        let line = &mut self.lines[at];
        if line.ready > t {
            line.ready = line.ready.min(t.later(line.took));
        }
        line.ready
    }
    #[inline]
    pub fn level(&self, at: usize) -> Level {
        Level::of(self.lines[at].level)
    }
    #[inline]
    pub fn state(&self, at: usize) -> u8 {
        self.lines[at].state
    }
    #[inline]
    pub fn set_state(&mut self, at: usize, state: u8) {
        self.lines[at].state = state;
    }

    /// Puts `line` in one of the first `ways` ways (all where 0), in place of a victim of the policy's choice.
    /// It was asked for at a time and is there at another.
    pub fn insert(
        &mut self,
        line: u64,
        (asked, ready): (T, T),
        level: Level,
        state: u8,
        ways: usize,
    ) -> Option<Victim> {
        let set = self.set(line);
        let limit = if ways == 0 { self.ways } else { ways.min(self.ways) };
        let free = self.free(set).filter(|&way| way < limit);
        let at = set * self.ways + free.unwrap_or_else(|| self.victim(set, limit));
        let (tag, old) = (self.tags[at], self.lines[at]);
        self.put(line, at, true);
        let took = if ready > asked { (ready - asked).short() } else { 0 };
        self.lines[at] = Line { ready, took, used: 0, state, level: level as u8 };
        self.used(set, at, true);
        (tag != 0).then(|| Victim { line: tag - 1, state: old.state })
    }

    /// The first way of a set that holds nothing, or one beyond its ways.
    fn free(&self, set: usize) -> Option<usize> {
        self.marks[set * self.words..][..self.words].iter().enumerate().find_map(|(i, word)| {
            // The lowest of these bits is that of the first byte that is 0.
            let none = word.wrapping_sub(ONES) & !word & TOPS;
            (none != 0).then(|| i * MARKS + none.trailing_zeros() as usize / 8)
        })
    }

    /// The way that has to go, among the first `limit` of a set, all taken.
    fn victim(&mut self, set: usize, limit: usize) -> usize {
        let lines = &mut self.lines[set * self.ways..][..limit];
        match self.policy {
            Replacement::Lru => {
                let clock = self.clock;
                // The first of the oldest.
                (0..limit).rev().max_by_key(|&way| clock.wrapping_sub(lines[way].used)).unwrap_or(0)
            }
            Replacement::Random => {
                // xorshift64 (Marsaglia 2003)
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                (self.random % limit as u64) as usize
            }
            Replacement::Rrip => {
                let oldest = lines.iter().map(|l| l.used).max().unwrap_or(0);
                lines.iter_mut().for_each(|l| l.used += RRIP_DISTANT.saturating_sub(oldest));
                lines.iter().position(|l| l.used >= RRIP_DISTANT).unwrap_or(0)
            }
            Replacement::PseudoLru => {
                let tree = self.trees[set];
                let (mut node, mut way, mut half) = (1, 0, self.ways.next_power_of_two() / 2);
                while half > 0 {
                    // Never to where there are no ways, or none that may be used: their bits would not turn.
                    let right = tree >> node & 1 != 0 && way + half < limit;
                    node = node << 1 | usize::from(right);
                    way += if right { half } else { 0 };
                    half /= 2;
                }
                way
            }
        }
    }

    /// Removes `line`; returns its state.
    pub fn remove(&mut self, line: u64) -> Option<u8> {
        let at = self.find(line)?;
        let state = self.lines[at].state;
        self.put(line, at, false);
        self.lines[at] = Line::default();
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wiretime_base::Cycles;
    use Replacement::{Lru, PseudoLru, Random, Rrip};

    #[test]
    fn lines_of_one_mark_are_not_taken_for_each_other() {
        let sets = 16;
        let mut c = Cache::new(sets * 20 * 64, 20, Lru);
        let alike: Vec<u64> = (0..).map(|n| 5 + n * sets).filter(|&line| mark(line) == mark(5)).take(20).collect();
        for (n, &line) in alike.iter().enumerate() {
            assert_eq!(c.find(line), None);
            c.insert(line, (Cycles::ZERO, Cycles(n as u64)), Level::Llc, 0, 0);
        }
        for (n, &line) in alike.iter().enumerate() {
            let at = c.find(line).expect("a line");
            assert_eq!(c.ready(at, Cycles(n as u64)), Cycles(n as u64));
        }
        assert_eq!((c.remove(alike[7]), c.find(alike[7])), (Some(0), None));
        assert!(c.find(alike[8]).is_some());
    }

    fn insert(c: &mut Cache<Cycles>, line: u64) -> Option<u64> {
        c.insert(line, Default::default(), Level::L2, 0, 0).map(|v| v.line)
    }

    /// What has been entered for later does not delay what is earlier.
    #[test]
    fn who_comes_before_a_fill_waits_no_longer_than_it_took() {
        let mut c = Cache::new(8 * 64, 8, Lru);
        let (asked, there) = (Cycles(1000), Cycles(1200));
        c.insert(1, (asked, there), Level::Dram, 0, 0);
        let at = c.find(1).expect("a line");
        // Each that comes before the others has brought the line for them.
        for (t, ready) in [(1100, 1200), (1000, 1200), (999, 1199), (10, 210), (150, 210)] {
            assert_eq!(c.ready(at, Cycles(t)), Cycles(ready));
        }
        for later in [300, 600, 1201] {
            assert!(c.ready(at, Cycles(later)) <= Cycles(later));
        }
        c.insert(2, (asked, Cycles(100_000)), Level::Dram, 0, 0);
        let at = c.find(2).expect("a line");
        assert_eq!(c.ready(at, asked), Cycles(100_000), "however long it took");
    }

    #[test]
    fn lru_and_way_limit() {
        let mut c = Cache::new(4 * 64, 4, Lru); // one set
        for line in 0..4 {
            assert_eq!(insert(&mut c, line), None);
        }
        c.touch(0);
        assert_eq!(c.insert(9, Default::default(), Level::L2, DIRTY, 0), Some(Victim { line: 1, state: 0 }));
        for line in 20..30 {
            c.insert(line, Default::default(), Level::L2, DMA, 2);
        }
        assert!(c.find(2).is_some() && c.find(3).is_some(), "ways 2 and 3 are out of reach of a two-way allocation");
    }

    #[test]
    fn rrip_keeps_what_is_used_again_through_a_scan() {
        let hits = |policy| {
            let mut c = Cache::new(8 * 64, 8, policy);
            let mut hits = 0;
            for turn in 0..100u64 {
                for line in 0..4 {
                    for _ in 0..2 {
                        hits += u32::from(c.touch(line).is_some());
                        if c.find(line).is_none() {
                            insert(&mut c, line);
                        }
                    }
                }
                for scan in 0..8 {
                    insert(&mut c, 1000 + turn * 8 + scan);
                }
            }
            hits
        };
        assert!(hits(Rrip) > 700 && hits(Lru) < 500, "{} against {}", hits(Rrip), hits(Lru));
    }

    #[test]
    fn tree_plru_never_takes_the_last_used() {
        let mut c = Cache::new(8 * 64, 8, PseudoLru);
        for line in 0..8 {
            insert(&mut c, line);
        }
        for line in 8..200u64 {
            let used = line - 1;
            c.touch(used);
            assert_ne!(insert(&mut c, line), Some(used));
        }
    }

    /// Where only some ways may be taken each of these goes in turn; of no power of two of them none goes at once.
    #[test]
    fn tree_plru_goes_through_the_ways_that_there_are() {
        for (ways, limit) in [(16, 3), (6, 0), (12, 0), (20, 5)] {
            let mut c = Cache::<Cycles>::new(ways * 64, ways as u32, PseudoLru);
            for line in 0..1000 {
                let victim = c.insert(line, Default::default(), Level::L2, 0, limit).map(|v| v.line);
                assert!(victim.is_none_or(|v| v + 1 < line), "{limit} of {ways} ways: {line}");
            }
        }
        for (ways, limit) in [(8, 2), (8, 4), (16, 8), (16, 0)] {
            let mut c = Cache::new(ways * 64, ways as u32, PseudoLru);
            for line in 0..ways {
                insert(&mut c, line);
            }
            let turn = if limit == 0 { ways } else { limit };
            let mut victims: Vec<u64> = (0..turn)
                .filter_map(|n| c.insert(100 + n, Default::default(), Level::L2, 0, limit as usize).map(|v| v.line))
                .collect();
            victims.sort_unstable();
            assert_eq!(victims, (0..turn).collect::<Vec<_>>(), "{limit} of {ways} ways");
        }
    }

    #[test]
    fn hashed_sets_may_be_any_number_and_spread_what_lies_at_one_distance() {
        let size = 19 * 12 * 64;
        let mut c = Cache::hashed(size, 12, Lru);
        // Three quarters of what it holds, at a distance that is a multiple of any power of two of sets.
        let lines: Vec<u64> = (0..19 * 9).map(|n| n * 64).collect();
        for &line in &lines {
            insert(&mut c, line);
        }
        let there = lines.iter().filter(|&&line| c.find(line).is_some()).count();
        assert!(there > lines.len() * 9 / 10, "{there} of {}", lines.len());
        let sets: std::collections::BTreeSet<usize> = lines.iter().map(|&line| c.set(line)).collect();
        assert_eq!((sets.len(), sets.last()), (19, Some(&18)));
    }

    proptest! {
        /// Against a reference model: a list of most recently used lines per set.
        #[test]
        fn behaves_like_lru_lists(accesses in prop::collection::vec(0u64..64, 1..400)) {
            let (ways, sets) = (4usize, 4u64);
            let mut c = Cache::new(64 * 4 * sets, 4, Lru);
            let mut lists: Vec<Vec<u64>> = vec![Vec::new(); sets as usize];
            for &line in &accesses {
                let list = &mut lists[(line % sets) as usize];
                let hit = list.iter().position(|&l| l == line);
                prop_assert_eq!(c.touch(line).is_some(), hit.is_some());
                if let Some(i) = hit {
                    list.remove(i);
                } else {
                    let victim = insert(&mut c, line);
                    let expected = if list.len() == ways { list.pop() } else { None };
                    prop_assert_eq!(victim, expected);
                }
                list.insert(0, line);
            }
        }

        /// Whatever the policy: no line twice, no more lines than ways, and what went in and did not leave is there.
        #[test]
        fn holds_what_it_took(accesses in prop::collection::vec(0u64..64, 1..400), policy in 0usize..4) {
            let mut c = Cache::new(64 * 4 * 4, 4, [Lru, Random, PseudoLru, Rrip][policy]);
            let mut held = std::collections::BTreeSet::new();
            for &line in &accesses {
                prop_assert_eq!(c.touch(line).is_some(), held.contains(&line));
                if held.insert(line) {
                    if let Some(victim) = insert(&mut c, line) {
                        prop_assert_eq!(victim % 4, line % 4);
                        prop_assert!(held.remove(&victim));
                    }
                }
                prop_assert!(held.iter().filter(|&&l| l % 4 == line % 4).count() <= 4);
            }
        }
    }
}
