//! Whether any of some lines may be a given one: how many of them have its mark. Most lines that are asked for have a mark
//! that none of them has, and need no search.

use super::spread;

/// Counts of marks of so many bits: some more than the lines that are held at a time have.
pub struct Marks<const BITS: u32>(Box<[u16]>);

impl<const BITS: u32> Default for Marks<BITS> {
    fn default() -> Self {
        Self(vec![0; 1 << BITS].into())
    }
}

impl<const BITS: u32> Marks<BITS> {
    #[inline]
    fn of(&mut self, line: u64) -> &mut u16 {
        &mut self.0[spread(line, BITS) as usize]
    }

    /// A line comes.
    #[inline]
    pub fn add(&mut self, line: u64) {
        *self.of(line) += 1;
    }

    /// One that came leaves.
    #[inline]
    pub fn remove(&mut self, line: u64) {
        *self.of(line) -= 1;
    }

    /// Whether `line` may be there: usually not.
    #[inline]
    pub fn may_have(&self, line: u64) -> bool {
        self.0[spread(line, BITS) as usize] > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is there is always found; when all have left, nothing is.
        #[test]
        fn nothing_that_is_there_is_missed(lines in proptest::collection::vec(0u64..64, 0..100)) {
            let mut marks = Marks::<5>::default();
            lines.iter().for_each(|&l| marks.add(l));
            prop_assert!(lines.iter().all(|&l| marks.may_have(l)));
            lines.iter().for_each(|&l| marks.remove(l));
            prop_assert!((0..64).all(|l| !marks.may_have(l)));
        }
    }

    #[test]
    fn most_others_are_told_apart() {
        let mut marks = Marks::<12>::default();
        (0..1024).for_each(|l| marks.add(l * 7));
        let mistaken = (0..4096u64).filter(|l| marks.may_have(1 << 30 | l)).count();
        assert!(mistaken < 1300, "{mistaken} of 4096");
    }
}
