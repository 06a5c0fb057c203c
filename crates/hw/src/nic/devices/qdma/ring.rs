//! The device's side of a ring of descriptors: what is posted, what is on its way in, what is held.

use std::collections::VecDeque;

/// Descriptors of one read, that are on their way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// First entry.
    pub entry: u32,
    /// How many.
    pub count: u32,
    /// The life of the ring that they are for.
    pub epoch: u32,
}

/// A ring whose descriptors decode to `D`.
#[derive(Debug)]
pub struct DescriptorRing<D> {
    /// Whether its queue is on.
    pub on: bool,
    /// Address of the first entry.
    pub base: u64,
    /// Entries, the status entry behind them apart.
    pub entries: u32,
    /// Bytes of an entry.
    pub size: u32,
    /// One past the last that is posted.
    pub posted: u32,
    /// Next to fetch.
    next: u32,
    /// Next to finish.
    pub done: u32,
    /// Those that are here, in order.
    pub held: VecDeque<(u32, D)>,
    /// Those on their way in, and the reads that bring them, of which there may be so many.
    coming: u32,
    reads: u32,
    most_reads: u32,
    /// Counts lives.
    pub epoch: u32,
}

impl<D> Default for DescriptorRing<D> {
    fn default() -> Self {
        Self {
            on: false,
            base: 0,
            entries: 0,
            size: 8,
            posted: 0,
            next: 0,
            done: 0,
            held: VecDeque::new(),
            coming: 0,
            reads: 0,
            most_reads: 1,
            epoch: 0,
        }
    }
}

impl<D> DescriptorRing<D> {
    /// It is off, and forgets everything.
    pub fn stop(&mut self) {
        let epoch = self.epoch.wrapping_add(1);
        *self = Self { epoch, ..Self::default() };
    }

    /// It starts anew.
    pub fn start(&mut self, base: u64, (entries, size): (u32, u32), reads: u32) {
        self.stop();
        (self.on, self.base, self.entries, self.size) = (entries > 0, base, entries, size);
        self.most_reads = reads;
    }

    /// A doorbell: so many are new; `None` where the ring has no such entry: what it was told before holds.
    pub fn post(&mut self, index: u32) -> Option<u32> {
        if index >= self.entries {
            return None;
        }
        let new = self.distance(self.posted, index);
        self.posted = index;
        Some(new)
    }

    fn distance(&self, from: u32, to: u32) -> u32 {
        if self.entries == 0 {
            0
        } else {
            (to + self.entries - from) % self.entries
        }
    }

    /// Posted and not fetched.
    #[must_use]
    pub fn unfetched(&self) -> u32 {
        self.distance(self.next, self.posted)
    }

    /// Posted and not finished.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.distance(self.done, self.posted)
    }

    /// Here or on their way.
    #[must_use]
    pub fn ahead(&self) -> u32 {
        self.held.len() as u32 + self.coming
    }

    /// How many the next read is to bring, where `wanted` are to be here or on their way, at most `most` of them in one
    /// read.
    #[must_use]
    pub fn due(&self, wanted: u32, most: u32) -> u32 {
        if !self.on || self.reads >= self.most_reads {
            return 0;
        }
        self.unfetched().min(wanted.saturating_sub(self.ahead())).min(most).min(self.entries - self.next)
    }

    /// That read begins.
    pub fn fetch(&mut self, count: u32) -> (u64, Fetch) {
        let fetch = Fetch { entry: self.next, count, epoch: self.epoch };
        self.next = (self.next + count) % self.entries.max(1);
        self.coming += count;
        self.reads += 1;
        (self.at(fetch.entry), fetch)
    }

    /// Address of an entry.
    #[must_use]
    pub fn at(&self, entry: u32) -> u64 {
        self.base.wrapping_add(u64::from(entry) * u64::from(self.size))
    }

    /// What its status tells of, done and posted, and where the status is: behind the last entry.
    #[must_use]
    pub fn status(&self) -> (u32, u32, u64) {
        (self.done, self.posted, self.at(self.entries))
    }

    /// The read has ended; whether it is of this life.
    pub fn fetched(&mut self, fetch: Fetch) -> bool {
        let ours = fetch.epoch == self.epoch && self.reads > 0;
        if ours {
            self.coming -= fetch.count.min(self.coming);
            self.reads -= 1;
        }
        ours
    }

    /// The first of them is finished.
    pub fn finish(&mut self) {
        self.done = (self.done + 1) % self.entries.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each posted descriptor is fetched once and in order, whatever reads are under way.
        #[test]
        fn each_once_in_order(entries in 1u32..64, posts in prop::collection::vec(0u32..70, 1..60), reads in 1u32..4) {
            let mut r = DescriptorRing::<()>::default();
            r.start(0, (entries, 8), reads);
            let (mut next, mut posted, mut fetched) = (0, 0u64, 0u64);
            let mut under_way = VecDeque::new();
            for post in posts {
                let room = entries - 1 - r.outstanding().min(entries - 1);
                let index = (r.posted + post.min(room)) % entries;
                posted += u64::from(r.post(index).expect("an entry"));
                for _ in 0..100 {
                    let count = r.due(u32::MAX, 8);
                    if count == 0 {
                        let Some(f) = under_way.pop_front() else { break };
                        prop_assert!(r.fetched(f));
                        r.held.extend((0..f.count).map(|i| (f.entry + i, ())));
                        continue;
                    }
                    let (_, f) = r.fetch(count);
                    prop_assert_eq!(f.entry, next);
                    prop_assert!(f.count <= 8 && f.entry + f.count <= entries);
                    next = (next + f.count) % entries;
                    fetched += u64::from(f.count);
                    under_way.push_back(f);
                }
                while r.held.pop_front().is_some() {
                    r.finish();
                }
            }
            prop_assert_eq!(posted, fetched);
        }
    }

    #[test]
    fn what_comes_for_an_earlier_life_is_not_taken() {
        let mut r = DescriptorRing::<()>::default();
        assert_eq!((r.due(1, 8), r.post(3)), (0, None), "no ring");
        r.start(0, (8, 8), 1);
        assert_eq!((r.post(3), r.post(8), r.posted), (Some(3), None, 3), "beyond the ring");
        let (_, fetch) = r.fetch(r.due(8, 8));
        assert_eq!((fetch.count, r.due(8, 8)), (3, 0));
        r.start(0, (8, 8), 1);
        assert!(!r.fetched(fetch));
        assert_eq!((r.coming, r.ahead()), (0, 0));
    }
}
