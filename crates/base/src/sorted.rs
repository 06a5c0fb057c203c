//! A sorted list that is nearly always asked about its end, added to there, and forgotten from its front.

use std::ops::{Deref, DerefMut};

/// Entries looked at from the end before all are searched.
const NEAR: usize = 8;
/// Forgotten entries that wait for the others to be moved over them.
const GONE: usize = 64;

/// Entries in order; the owner says of what.
#[derive(Clone, Debug)]
pub struct Sorted<T> {
    entries: Vec<T>,
    /// So many at the front have been forgotten.
    gone: usize,
}

impl<T> Default for Sorted<T> {
    /// An empty list with room for what is usual.
    fn default() -> Self {
        Self { entries: Vec::with_capacity(2 * GONE), gone: 0 }
    }
}

impl<T> Deref for Sorted<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        &self.entries[self.gone..]
    }
}

impl<T> DerefMut for Sorted<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.entries[self.gone..]
    }
}

impl<T: Copy> Sorted<T> {
    /// How many entries, from the front, `is_before` holds for; it holds for none behind them.
    #[inline]
    pub fn count(&self, is_before: impl Fn(&T) -> bool) -> usize {
        let list: &[T] = self;
        match list.last() {
            Some(last) if !is_before(last) => search(list, is_before),
            _ => list.len(),
        }
    }

    /// Adds one at the end.
    #[inline]
    pub fn push(&mut self, entry: T) {
        self.entries.push(entry);
    }

    /// Adds one behind the first `at`.
    #[inline]
    pub fn insert(&mut self, at: usize, entry: T) {
        self.entries.insert(self.gone + at, entry);
    }

    /// Takes number `at` out.
    pub fn remove(&mut self, at: usize) -> T {
        self.entries.remove(self.gone + at)
    }

    /// Forgets entries from the front, as long as `is_over` holds for them with those behind.
    #[inline]
    pub fn forget(&mut self, is_over: impl Fn(&[T]) -> bool) {
        while self.gone < self.entries.len() && is_over(self) {
            self.gone += 1;
        }
        if self.gone >= GONE.max(self.entries.len() / 2) {
            let left = self.entries.len() - self.gone;
            self.entries.copy_within(self.gone.., 0);
            self.entries.truncate(left);
            self.gone = 0;
        }
    }
}

fn search<T>(list: &[T], is_before: impl Fn(&T) -> bool) -> usize {
    let near = list.len().saturating_sub(NEAR);
    match list[near..].iter().rposition(&is_before) {
        Some(at) => near + at + 1,
        None => list[..near].partition_point(is_before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_from_either_end() {
        let mut list = Sorted::default();
        (0..40).for_each(|e| list.push(e));
        for n in 0..=40 {
            assert_eq!(list.count(|&e| e < n), n as usize);
        }
        assert_eq!(Sorted::<u32>::default().count(|_| true), 0);
    }

    #[test]
    fn forgets_from_the_front_and_keeps_the_rest() {
        let mut list = Sorted::default();
        for n in 0..1000u32 {
            list.push(n);
            list.forget(|rest| rest.get(1).is_some_and(|&next| next + 10 <= n));
            assert_eq!(list.first(), Some(&n.saturating_sub(10)));
            assert_eq!(list.len() as u32, n.min(10) + 1);
        }
        assert!(list.entries.len() < 3 * GONE, "what is forgotten is overwritten");
        list.insert(1, 7);
        assert_eq!((list.remove(0), list[0]), (989, 7));
        list.forget(|_| true);
        assert!(list.is_empty());
    }
}
