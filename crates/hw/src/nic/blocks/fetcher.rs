//! Descriptors into the device: what of a ring is posted, what has been fetched and is held, what is finished. Entries of any
//! size and format.

use super::RingView;
use crate::memory::GuestMemory;
use crate::nic::device::Io;
use crate::requester::Purpose;
use std::collections::VecDeque;
use wiretime_base::Ps;

/// A queue's thresholds as the driver has set them; 0 where it has not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thresholds {
    /// Fetch when the NIC holds fewer descriptors than this.
    pub prefetch: u32,
    /// And the host has posted at least this many.
    pub host: u32,
    /// Write back when this many are done.
    pub write_back: u32,
}

/// A fetch under way: first entry and number, and the life of the ring that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// First entry.
    pub entry: u32,
    /// How many.
    pub count: u32,
    epoch: u32,
}

/// Descriptors of the longest format.
const LONGEST: usize = 256;

/// The NIC's side of a ring whose descriptors decode to `D`.
pub struct Fetcher<D> {
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
    /// Counts resets, so that what comes of an earlier life is ignored.
    pub epoch: u32,
}

impl<D> Fetcher<D> {
    /// Holds `capacity` descriptors, and fetches when it has fewer than `prefetch_below`, unless its driver says otherwise.
    #[must_use]
    pub fn new(capacity: u32, prefetch_below: u32) -> Self {
        Self {
            held: VecDeque::with_capacity(capacity as usize),
            capacity: capacity as usize,
            prefetch_below,
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

    /// Reads descriptors where that is due; when they will be here.
    pub fn fetch<E, G: GuestMemory>(
        &mut self,
        t: Ps,
        ring: &RingView,
        (thresholds, needed): (Thresholds, u32),
        purpose: Purpose,
        io: &mut Io<'_, E, G>,
    ) -> Option<(Ps, Fetch)> {
        let (entry, count) = self.begin_fetch(ring.entries, thresholds, needed)?;
        let done = io.read(t, ring.at(entry), u64::from(count) * u64::from(ring.size), purpose);
        Some((done, Fetch { entry, count, epoch: self.epoch }))
    }

    /// They are here: each is decoded and held. Returns how many lie outside memory; `None` for a fetch of an earlier life.
    pub fn fetched<E, G: GuestMemory>(
        &mut self,
        fetch: Fetch,
        ring: &RingView,
        io: &mut Io<'_, E, G>,
        mut decode: impl FnMut(&[u8], &mut Io<'_, E, G>) -> D,
    ) -> Option<u64> {
        if fetch.epoch != self.epoch {
            return None;
        }
        self.fetching = 0;
        let (mut bytes, mut faults) = ([0; LONGEST], 0);
        let bytes = &mut bytes[..(ring.size as usize).min(LONGEST)];
        for entry in fetch.entry..fetch.entry + fetch.count {
            bytes.fill(0);
            faults += u64::from(!io.guest.read(ring.at(entry), bytes));
            self.held.push_back((entry, decode(bytes, io)));
        }
        Some(faults)
    }

    /// Begins a fetch where one is due: first index and number, in one read (the ring's end cuts it).
    ///
    /// The driver's prefetch threshold counts where it is set. Its host threshold holds a fetch back until so many are
    /// posted, unless the NIC has none left.
    ///
    /// `needed` descriptors are wanted at once, whatever the threshold.
    fn begin_fetch(&mut self, entries: u32, t: Thresholds, needed: u32) -> Option<(u32, u32)> {
        let below = if t.prefetch == 0 { self.prefetch_below } else { t.prefetch }.max(needed);
        if self.fetching > 0 || self.held.len() as u32 >= below || entries == 0 {
            return None;
        }
        let index = self.fetch % entries;
        // What a packet needs at once finds room, however little is kept otherwise.
        let room = self.capacity.max(needed as usize).saturating_sub(self.held.len()) as u32;
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

    fn ring(cache: u32, below: u32) -> Fetcher<()> {
        Fetcher::new(cache, below)
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
