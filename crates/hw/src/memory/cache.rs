//! One set-associative cache: tags, states and the time each line's data is there. LRU replacement.

/// Line states.
pub const DIRTY: u8 = 1;
/// No other private cache has it: may be written at once.
pub const EXCLUSIVE: u8 = 2;
/// Brought by DMA and not yet used by a core.
pub const DMA: u8 = 4;

/// What a lookup does not need.
#[derive(Clone, Copy, Default)]
struct Line {
    /// When its data arrives, in the cache's own time unit.
    ready: u64,
    /// Last use.
    used: u32,
    state: u8,
}

/// A line that had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    pub line: u64,
    pub state: u8,
}

/// A cache. `ready` is in the owner's time unit (cycles for private caches, ps for the shared one).
pub struct Cache {
    /// Line number plus one; 0 is invalid. Apart from the rest, so that a lookup touches one host line.
    tags: Vec<u64>,
    lines: Vec<Line>,
    set_mask: u64,
    ways: usize,
    clock: u32,
}

impl Cache {
    /// `size` bytes in `ways` ways; the caller has checked the geometry.
    pub fn new(size: u64, ways: u32) -> Self {
        let sets = (size / (super::LINE * u64::from(ways))).max(1).next_power_of_two();
        let ways = ways as usize;
        let total = sets as usize * ways;
        Self { tags: vec![0; total], lines: vec![Line::default(); total], set_mask: sets - 1, ways, clock: 0 }
    }

    #[inline]
    fn base(&self, line: u64) -> usize {
        (line & self.set_mask) as usize * self.ways
    }

    /// Where `line` is. Counts as a use.
    #[inline]
    pub fn touch(&mut self, line: u64) -> Option<usize> {
        let at = self.find(line)?;
        // 32 bits of use order wrap after 4e9 touches: one wrong victim a set then, deterministic.
        self.clock = self.clock.wrapping_add(1);
        self.lines[at].used = self.clock;
        Some(at)
    }

    /// Where `line` is, without using it.
    #[inline]
    pub fn find(&self, line: u64) -> Option<usize> {
        let base = self.base(line);
        self.tags[base..base + self.ways].iter().position(|&tag| tag == line + 1).map(|w| base + w)
    }

    #[inline]
    pub fn ready(&self, at: usize) -> u64 {
        self.lines[at].ready
    }
    #[inline]
    pub fn state(&self, at: usize) -> u8 {
        self.lines[at].state
    }
    #[inline]
    pub fn set_state(&mut self, at: usize, state: u8) {
        self.lines[at].state = state;
    }

    /// Puts `line` in one of the first `ways` ways (all where 0), in place of the least recently used.
    pub fn insert(&mut self, line: u64, ready: u64, state: u8, ways: usize) -> Option<Victim> {
        let base = self.base(line);
        let limit = if ways == 0 { self.ways } else { ways.min(self.ways) };
        self.clock = self.clock.wrapping_add(1);
        let clock = self.clock;
        let age = |way: usize| match self.tags[base + way] {
            0 => u64::MAX,
            _ => u64::from(clock.wrapping_sub(self.lines[base + way].used)),
        };
        // The oldest; the first of the free ones.
        let way = (0..limit).rev().max_by_key(|&way| age(way)).unwrap_or(0);
        let (tag, old) = (self.tags[base + way], self.lines[base + way]);
        self.tags[base + way] = line + 1;
        self.lines[base + way] = Line { ready, used: clock, state };
        (tag != 0).then(|| Victim { line: tag - 1, state: old.state })
    }

    /// Removes `line`; returns its state.
    pub fn remove(&mut self, line: u64) -> Option<u8> {
        let at = self.find(line)?;
        let state = self.lines[at].state;
        self.tags[at] = 0;
        self.lines[at] = Line::default();
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lru_and_way_limit() {
        let mut c = Cache::new(4 * 64, 4); // one set
        for line in 0..4 {
            assert_eq!(c.insert(line, 0, 0, 0), None);
        }
        c.touch(0);
        assert_eq!(c.insert(9, 0, DIRTY, 0), Some(Victim { line: 1, state: 0 }));
        for line in 20..30 {
            c.insert(line, 0, DMA, 2);
        }
        assert!(c.find(2).is_some() && c.find(3).is_some(), "ways 2 and 3 are out of reach of a two-way allocation");
    }

    proptest! {
        /// Against a reference model: a list of most recently used lines per set.
        #[test]
        fn behaves_like_lru_lists(accesses in prop::collection::vec(0u64..64, 1..400)) {
            let (ways, sets) = (4usize, 4u64);
            let mut c = Cache::new(64 * 4 * sets, 4);
            let mut lists: Vec<Vec<u64>> = vec![Vec::new(); sets as usize];
            for &line in &accesses {
                let list = &mut lists[(line % sets) as usize];
                let hit = list.iter().position(|&l| l == line);
                prop_assert_eq!(c.touch(line).is_some(), hit.is_some());
                if let Some(i) = hit {
                    list.remove(i);
                } else {
                    let victim = c.insert(line, 0, 0, 0).map(|v| v.line);
                    let expected = if list.len() == ways { list.pop() } else { None };
                    prop_assert_eq!(victim, expected);
                }
                list.insert(0, line);
            }
        }
    }
}
