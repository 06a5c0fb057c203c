//! What the driver does with a receive ring, seen from outside: polls, bursts, replenishment.
//!
//! The engine tells which descriptor a core reads; the NIC tells which are written back and from when on cores see them.
//! A read of the next descriptor that finds nothing ends a burst, or is an empty poll where none had begun; so does the
//! doorbell of the transmit ring. Left out: programs that look at descriptors without taking them (`rte_eth_rx_queue_count`).

use super::journeys::{Journeys, Point};
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use wiretime_base::{stats, Ps};

stats! {
    /// What the driver does with a receive queue and its transmit queue of the same number.
    pub struct DriverStats {
        polls: "polls", "looks at the receive ring";
        empty_polls: "polls", "of these, without a packet";
        bursts: "bursts", "looks that took packets";
        burst_packets: "packets", "packets taken";
        rx_doorbells: "writes", "writes of the receive tail";
        replenished: "descriptors", "receive descriptors posted by them";
        tx_doorbells: "writes", "writes of the transmit tail";
        posted: "descriptors", "transmit descriptors posted by them";
        rx_doorbell_interval_ps: "ps", "time between writes of the receive tail, added up";
        tx_doorbell_interval_ps: "ps", "time between writes of the transmit tail, added up";
    }
}

/// A descriptor written back: its index, from when on cores see it, and the packet that it completes.
#[derive(Clone, Copy, Debug)]
struct Written {
    index: u32,
    visible: Ps,
    packet: Option<u64>,
}

/// So many descriptors may be unread: more than rings have, where somebody reads them at all.
const UNREAD_MOST: usize = 1 << 17;

/// Largest burst and number of descriptors told apart exactly.
const LARGEST: u64 = 1 << 16;
const DIGITS: u8 = 4;

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LARGEST, DIGITS).expect("bounds are constants")
}

/// The driver of one queue pair.
pub struct Driver {
    written: VecDeque<Written>,
    /// Descriptors written back and not posted again.
    unposted: usize,
    /// The descriptor that software looks at next.
    next: u32,
    burst: u64,
    /// When a look ended the last one.
    ended_at: Option<Ps>,
    /// Which core polls.
    pub core: u16,
    last_rx_doorbell: Option<Ps>,
    last_tx_doorbell: Option<Ps>,
    /// Sizes of bursts, where there were any: of many queues most do nothing.
    pub bursts: Option<Histogram<u64>>,
    /// Descriptors that the NIC had left at each replenishment, the same.
    pub available: Option<Histogram<u64>>,
    /// Whether histograms are being filled.
    pub recording: bool,
    pub stats: DriverStats,
}

/// What a read of a descriptor amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Part of a burst, or a look elsewhere in the ring.
    Nothing,
    /// The end of a burst of so many packets.
    Burst(u64),
    /// Nothing was there.
    Empty,
}

impl Driver {
    pub fn new() -> Self {
        Self {
            written: VecDeque::with_capacity(1024),
            unposted: 0,
            next: 0,
            burst: 0,
            ended_at: None,
            core: 0,
            last_rx_doorbell: None,
            last_tx_doorbell: None,
            bursts: None,
            available: None,
            recording: false,
            stats: DriverStats::default(),
        }
    }

    /// The ring starts anew, at descriptor `next`.
    pub fn reset(&mut self, next: u32) {
        self.written.clear();
        (self.next, self.burst, self.ended_at, self.unposted) = (next, 0, None, 0);
        (self.last_rx_doorbell, self.last_tx_doorbell) = (None, None);
    }

    /// From now on reads are told. Nobody has told of those before; whose places have been posted again have been taken.
    pub fn watched(&mut self) {
        while let Some(w) = self.written.front().filter(|_| self.written.len() > self.unposted) {
            self.next = w.index + 1;
            self.written.pop_front();
        }
        self.burst = 0;
    }

    /// Histograms are filled, from the start, or no longer.
    pub fn record(&mut self, on: bool) {
        self.recording = on;
        if on {
            (self.bursts, self.available) = (None, None);
        }
    }

    /// Descriptor `index` is written back.
    pub fn written(&mut self, index: u32, visible: Ps, packet: Option<u64>) {
        self.unposted += 1;
        if self.written.len() == UNREAD_MOST {
            self.written.pop_front();
        }
        self.written.push_back(Written { index, visible, packet });
    }

    /// Tells the packets of descriptors that no core sees at `t` yet.
    pub fn unseen(&self, t: Ps, each: impl FnMut(u64)) {
        self.written.iter().filter(|w| w.visible > t).filter_map(|w| w.packet).for_each(each);
    }

    /// Descriptors written back that no core has read.
    pub fn waiting(&self) -> usize {
        self.written.len()
    }

    /// A core reads descriptor `index` of a ring of `entries` at `t`; behind them is what tells how far they have come.
    pub fn reads(&mut self, index: u32, entries: u32, t: Ps, journeys: &mut Journeys) -> Seen {
        if index >= entries {
            return self.looks(t);
        }
        self.next %= entries.max(1);
        let ahead = (index + entries - self.next) % entries.max(1);
        // So far behind a ring that is full it cannot be: it has taken all before, while nobody watched.
        let there = || self.written.get(ahead as usize).is_some_and(|w| w.index == index && w.visible <= t);
        if ahead * 2 > entries && !there() {
            return Seen::Nothing; // behind: already taken
        }
        let at_next = ahead == 0;
        let mut taken = 0;
        while let Some(w) = self.written.front().filter(|w| w.visible <= t && taken <= ahead) {
            if w.index != self.next {
                break; // written before somebody moved the ring: nothing to count
            }
            self.next = (self.next + 1) % entries;
            taken += 1;
            if let Some(id) = w.packet {
                self.burst += 1;
                journeys.passes(id, Point::Picked, t);
            }
            self.written.pop_front();
        }
        if taken > 0 || !at_next {
            return Seen::Nothing;
        }
        self.ends(true, t)
    }

    /// A core looks how far the ring has come, and takes nothing yet.
    fn looks(&mut self, t: Ps) -> Seen {
        let finds = self.written.front().is_some_and(|w| w.visible <= t);
        self.ends(!finds, t)
    }

    /// A burst ends, if one had begun; else, where there was nothing, that is an empty poll.
    /// Another read of it at the same time is the same look.
    fn ends(&mut self, nothing: bool, t: Ps) -> Seen {
        let again = self.ended_at == Some(t);
        match self.end_burst() {
            0 if nothing && !again => {
                self.stats.polls += 1;
                self.stats.empty_polls += 1;
                Seen::Empty
            }
            0 => Seen::Nothing,
            n => {
                self.ended_at = Some(t);
                Seen::Burst(n)
            }
        }
    }

    /// A core has read descriptor `index` so many times more, and found what it had found before: nothing.
    pub fn reads_again(&mut self, index: u32, entries: u32, count: u64) {
        if index >= entries || index == self.next % entries {
            self.stats.polls += count;
            self.stats.empty_polls += count;
        }
    }

    /// A burst is over, if one had begun; returns its size.
    pub fn end_burst(&mut self) -> u64 {
        let n = std::mem::take(&mut self.burst);
        if n > 0 {
            self.stats.polls += 1;
            self.stats.bursts += 1;
            self.stats.burst_packets += n;
            if self.recording {
                self.bursts.get_or_insert_with(histogram).saturating_record(n);
            }
        }
        n
    }

    /// The receive tail was written: `count` descriptors more, beside `available` that the NIC had.
    pub fn replenishes(&mut self, t: Ps, count: u32, available: u32) {
        // What hands nothing over to be sent has done with a burst when it gives buffers back.
        if self.stats.posted == 0 {
            self.end_burst();
        }
        self.stats.rx_doorbells += 1;
        self.stats.replenished += u64::from(count);
        // What fills the ring at first replaces nothing.
        self.unposted = self.unposted.saturating_sub(count as usize);
        if let Some(last) = self.last_rx_doorbell.replace(t) {
            self.stats.rx_doorbell_interval_ps += t.saturating_sub(last).0;
        }
        if self.recording {
            self.available.get_or_insert_with(histogram).saturating_record(available.into());
        }
    }

    /// The transmit tail was written.
    pub fn posts(&mut self, t: Ps, count: u32) {
        self.stats.posted += u64::from(count);
        if self.last_tx_doorbell != Some(t) {
            self.rings(t);
        }
    }

    /// The same, and what it tells of is not yet known.
    pub fn rings(&mut self, t: Ps) {
        self.stats.tx_doorbells += 1;
        if let Some(last) = self.last_tx_doorbell.replace(t) {
            self.stats.tx_doorbell_interval_ps += t.saturating_sub(last).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What takes packets and sends none gives buffers back behind each burst: full polls after each other are told apart.
    #[test]
    fn a_burst_ends_where_buffers_come_back_and_nothing_is_sent() {
        for sends in [false, true] {
            let (mut d, mut j) = (Driver::new(), Journeys::default());
            if sends {
                d.posts(Ps(1), 1);
            }
            for burst in 0..4 {
                let first = burst * 2;
                (first..first + 2).for_each(|i| d.written(i, Ps(10), Some(i.into())));
                (first..first + 2).for_each(|i| _ = d.reads(i, 64, Ps(20 + u64::from(burst)), &mut j));
                d.replenishes(Ps(25 + u64::from(burst)), 2, 60);
            }
            let s = &d.stats;
            assert_eq!((s.polls, s.bursts, s.burst_packets), if sends { (0, 0, 0) } else { (4, 4, 8) });
        }
    }

    #[test]
    fn scalar_loops() {
        let (mut d, mut j) = (Driver::new(), Journeys::default());
        let mut read = |d: &mut Driver, i, t| d.reads(i, 8, t, &mut j);
        assert_eq!(read(&mut d, 0, Ps(10)), Seen::Empty);
        (0..3).for_each(|i| d.written(i, Ps(20), Some(u64::from(i))));
        assert_eq!(read(&mut d, 0, Ps(15)), Seen::Empty, "not yet visible");
        assert_eq!([0, 1, 2].map(|i| read(&mut d, i, Ps(25))), [Seen::Nothing; 3]);
        assert_eq!(read(&mut d, 3, Ps(26)), Seen::Burst(3));
        assert_eq!(read(&mut d, 3, Ps(27)), Seen::Empty);
        (3..11).for_each(|i| d.written(i % 8, Ps(30), Some(i.into())));
        (3..7).for_each(|i| assert_eq!(read(&mut d, i, Ps(40)), Seen::Nothing));
        assert_eq!(d.end_burst(), 4, "by the doorbell of what it sends");
        assert_eq!((d.stats.polls, d.stats.empty_polls, d.stats.bursts, d.stats.burst_packets), (5, 3, 2, 7));
    }

    /// What came while nobody told of reads: more than half a ring, in which software may be anywhere. Whose places were posted
    /// again it has taken; of the others it may have taken some, or none.
    #[test]
    fn what_was_posted_again_before_anybody_watched_has_been_taken() {
        let (mut d, mut j) = (Driver::new(), Journeys::default());
        d.replenishes(Ps(0), 7, 0);
        (0..21).for_each(|i| d.written(i % 8, Ps(i.into()), Some(i.into())));
        d.replenishes(Ps(20), 20, 0);
        d.watched();
        assert_eq!(d.waiting(), 1);
        d.reads(4, 8, Ps(25), &mut j);
        assert_eq!(d.reads(5, 8, Ps(26), &mut j), Seen::Burst(1));
        (5..8).for_each(|i| d.written(i, Ps(5), None));
        d.replenishes(Ps(30), 4, 0);
        d.watched();
        assert_eq!(d.reads(0, 8, Ps(31), &mut j), Seen::Empty, "over the end");
    }

    /// Places that are posted again all at once, when few are left: where software is shows when it reads what is there.
    #[test]
    fn where_software_is_shows_when_it_reads_what_is_there() {
        let (mut d, mut j) = (Driver::new(), Journeys::default());
        (0..40).for_each(|i| d.written(i, Ps(5), Some(i.into())));
        d.watched();
        let mut four = |d: &mut Driver, from: u32, t| (0..4).rev().map(|i| d.reads(from + i, 64, t, &mut j)).last();
        assert_eq!((four(&mut d, 40, Ps(10)), d.waiting()), (Some(Seen::Nothing), 40), "it may be anywhere");
        d.written(40, Ps(15), Some(40));
        four(&mut d, 40, Ps(20));
        assert_eq!(d.waiting(), 0);
        assert_eq!(four(&mut d, 41, Ps(30)), Some(Seen::Burst(41)));
    }

    /// A driver that reads an entry in several pieces, which tell of it each.
    #[test]
    fn a_second_read_is_the_same_look() {
        let (mut d, mut j) = (Driver::new(), Journeys::default());
        d.written(0, Ps(5), Some(0));
        let seen: Vec<_> = [0, 1, 1].into_iter().map(|i| d.reads(i, 8, Ps(10), &mut j)).collect();
        assert_eq!(seen, [Seen::Nothing, Seen::Burst(1), Seen::Nothing]);
        assert_eq!(d.reads(1, 8, Ps(20), &mut j), Seen::Empty);
    }

    /// Several posts at the time of one doorbell are told by it.
    #[test]
    fn a_doorbell_tells_of_several() {
        let mut d = Driver::new();
        d.rings(Ps(5));
        (0..3).for_each(|_| d.posts(Ps(5), 1));
        d.posts(Ps(9), 2);
        assert_eq!((d.stats.tx_doorbells, d.stats.posted, d.stats.tx_doorbell_interval_ps), (2, 5, 4));
    }

    /// Four descriptors at a time, the last first, as vector drivers do.
    #[test]
    fn vector_loops() {
        let (mut d, mut j) = (Driver::new(), Journeys::default());
        let mut four = |d: &mut Driver, from: u32, t| (0..4).rev().map(|i| d.reads(from + i, 64, t, &mut j)).last();
        assert_eq!(four(&mut d, 0, Ps(5)), Some(Seen::Empty));
        (0..6).for_each(|i| d.written(i, Ps(10), Some(i.into())));
        four(&mut d, 0, Ps(20));
        four(&mut d, 4, Ps(20));
        assert_eq!((d.stats.bursts, d.burst), (1, 0), "two of four were there: the burst is over");
        assert_eq!(d.stats.burst_packets, 6);
        assert_eq!(four(&mut d, 6, Ps(30)), Some(Seen::Empty));
        assert_eq!(d.stats.polls, 3);
        let (next, empty) = (d.next, d.stats.empty_polls);
        d.reads_again(next, 64, 10);
        d.reads_again((next + 1) % 64, 64, 10);
        assert_eq!((d.stats.polls, d.stats.empty_polls), (13, empty + 10), "of four one counts");
    }

    /// A driver that looks first at what tells how far the ring has come: the entry behind the last.
    #[test]
    fn a_status_is_looked_at_first() {
        let (mut d, mut j) = (Driver::new(), Journeys::default());
        assert_eq!(d.reads(64, 64, Ps(5), &mut j), Seen::Empty);
        (0..3).for_each(|i| d.written(i, Ps(10), Some(i.into())));
        assert_eq!((d.reads(64, 64, Ps(20), &mut j), d.waiting()), (Seen::Nothing, 3), "nothing is taken yet");
        (0..3).for_each(|i| assert_eq!(d.reads(i, 64, Ps(20), &mut j), Seen::Nothing));
        assert_eq!(d.reads(64, 64, Ps(30), &mut j), Seen::Burst(3));
        assert_eq!(d.reads(64, 64, Ps(40), &mut j), Seen::Empty);
        d.reads_again(64, 64, 10);
        assert_eq!((d.stats.polls, d.stats.empty_polls, d.stats.burst_packets), (13, 12, 3));
    }

    #[test]
    fn replenishment() {
        let mut d = Driver::new();
        d.recording = true;
        d.replenishes(Ps(100), 32, 900);
        d.replenishes(Ps(350), 32, 10);
        assert_eq!((d.stats.rx_doorbell_interval_ps, d.stats.replenished), (250, 64));
        assert_eq!(d.available.map(|a| (a.min(), a.max())), Some((10, 900)));
    }
}
