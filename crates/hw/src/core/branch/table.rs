//! A predictor's table that knows by one word whether it is what it was.
//!
//! The word is a sum over all entries, each mixed with its place: it follows each change at once, and a change back. Two tables
//! that differ have the same sum once in 2^64, if at all.

/// An entry, by a word that no other value has.
pub trait Entry: Copy + PartialEq {
    /// The word.
    fn word(self) -> u64;
}

impl Entry for u8 {
    fn word(self) -> u64 {
        self.into()
    }
}

impl Entry for u64 {
    fn word(self) -> u64 {
        self
    }
}

/// See the module.
pub struct Table<T> {
    entries: Vec<T>,
    sum: u64,
}

impl<T: Entry> Table<T> {
    pub fn new(entry: T, count: usize) -> Self {
        Self { entries: vec![entry; count], sum: 0 }
    }

    /// Compared with what it was earlier in the same run.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub fn get(&self, i: usize) -> T {
        self.entries[i]
    }

    #[inline]
    pub fn set(&mut self, i: usize, entry: T) {
        let old = std::mem::replace(&mut self.entries[i], entry);
        if old != entry {
            self.sum = self.sum.wrapping_add(mixed(i, entry.word())).wrapping_sub(mixed(i, old.word()));
        }
    }
}

/// Place and value, so that sums tell them apart (the finaliser of SplitMix64, Steele, Lea and Flood 2014).
fn mixed(i: usize, value: u64) -> u64 {
    let mut x = value ^ (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_follows_every_change_and_comes_back() {
        let mut table = Table::new(1u8, 64);
        let start = table.sum();
        table.set(3, 1);
        assert_eq!(table.sum(), start, "no change");
        table.set(3, 2);
        let changed = table.sum();
        table.set(4, 2);
        table.set(3, 1);
        assert!(changed != start && table.sum() != changed && table.sum() != start, "the same value elsewhere");
        table.set(4, 1);
        assert_eq!(table.sum(), start);
    }
}
