//! A descriptor ring as the NIC sees it: what is posted, what it has fetched and holds, what it has finished.

use super::controller::Thresholds;
use crate::params;
use std::collections::VecDeque;

/// The NIC's side of a ring whose descriptors decode to `D`.
pub struct DescriptorRing<D> {
    /// Descriptors held: index and content.
    pub held: VecDeque<(u32, D)>,
    capacity: usize,
    prefetch_below: u32,
    /// Next descriptor to fetch.
    fetch: u32,
    /// Next descriptor to finish.
    pub head: u32,
    /// One past the last descriptor that the host has posted.
    pub tail: u32,
    /// Descriptors on their way in.
    pub fetching: u32,
    /// Counts resets, so that events of an earlier life are ignored.
    pub epoch: u32,
}

impl<D> DescriptorRing<D> {
    pub fn new(p: &params::Nic) -> Self {
        Self {
            held: VecDeque::with_capacity(p.descriptor_cache as usize),
            capacity: p.descriptor_cache as usize,
            prefetch_below: p.descriptor_prefetch,
            fetch: 0,
            head: 0,
            tail: 0,
            fetching: 0,
            epoch: 0,
        }
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.held.clear();
        (self.fetch, self.head, self.tail, self.fetching) = (0, 0, 0, 0);
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Starts at descriptor `head`, where nothing has been fetched yet; returns whether it does.
    pub fn start_at(&mut self, head: u32) -> bool {
        let fresh = self.fetch == self.head && self.held.is_empty() && self.fetching == 0;
        if fresh {
            (self.head, self.fetch) = (head, head);
        }
        fresh
    }

    /// Descriptors that the host has posted and the NIC has not fetched; a ring without entries has none.
    pub fn unfetched(&self, entries: u32) -> u32 {
        distance(self.fetch, self.tail, entries)
    }

    /// Descriptors that the host has posted and the NIC has not finished.
    pub fn outstanding(&self, entries: u32) -> u32 {
        distance(self.head, self.tail, entries)
    }

    /// Descriptors that the host has posted and the NIC has not begun to use.
    pub fn available(&self, entries: u32) -> u32 {
        self.unfetched(entries) + self.fetching + self.held.len() as u32
    }

    /// Begins a fetch where one is due: first index and number, in one read (the ring's end cuts it).
    ///
    /// The driver's prefetch threshold counts where it is set. Its host threshold holds a fetch back until so many are
    /// posted, unless the NIC has none left.
    ///
    /// `needed` descriptors are wanted at once, whatever the threshold.
    pub fn begin_fetch(&mut self, entries: u32, t: Thresholds, needed: u32) -> Option<(u32, u32)> {
        let below = if t.prefetch == 0 { self.prefetch_below } else { t.prefetch }.max(needed);
        if self.fetching > 0 || self.held.len() as u32 >= below || entries == 0 {
            return None;
        }
        let index = self.fetch % entries;
        let room = self.capacity.saturating_sub(self.held.len()) as u32;
        let posted = self.unfetched(entries);
        let count = posted.min(room).min(entries - index);
        if count == 0 || posted < t.host && self.held.len() as u32 >= needed.max(1) {
            return None;
        }
        self.fetch = (index + count) % entries;
        self.fetching = count;
        Some((index, count))
    }
}

fn distance(from: u32, to: u32, entries: u32) -> u32 {
    if entries == 0 {
        0
    } else {
        (to % entries + entries - from % entries) % entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ring(cache: u32, below: u32) -> DescriptorRing<()> {
        let mut p: params::Platform = toml::from_str(include_str!("../../../../platforms/ampere-altra.toml")).unwrap();
        (p.nic.descriptor_cache, p.nic.descriptor_prefetch) = (cache, below);
        DescriptorRing::new(&p.nic)
    }

    proptest! {
        /// Every posted descriptor is fetched once, in order, and never more than fit are held.
        #[test]
        fn fetches_each_once_in_order(entries in 1u32..64, posts in prop::collection::vec(0u32..32, 1..100)) {
            let mut r = ring(16, 8);
            let (mut next, mut posted, mut fetched) = (0u32, 0u64, 0u64);
            for post in posts {
                let post = post.min(entries - 1 - r.outstanding(entries).min(entries - 1));
                r.tail = (r.tail + post) % entries;
                posted += u64::from(post);
                while let Some((index, count)) = r.begin_fetch(entries, Thresholds::default(), 0) {
                    prop_assert_eq!(index, next % entries);
                    next = (index + count) % entries;
                    fetched += u64::from(count);
                    r.held.extend((0..count).map(|i| (index + i, ())));
                    prop_assert!(r.held.len() <= 16);
                    r.fetching = 0;
                }
                while r.held.pop_front().is_some() {
                    r.head = (r.head + 1) % entries;
                }
            }
            while let Some((_, count)) = r.begin_fetch(entries, Thresholds::default(), 0) {
                fetched += u64::from(count);
                r.fetching = 0;
            }
            prop_assert_eq!(posted, fetched);
        }
    }
}
