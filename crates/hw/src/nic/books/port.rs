//! The books of one port: drops, what software does with its rings, the timeline, the capture.

use super::driver::Driver;
use super::drops::{DropClass, DropClasses, Drops, STATES};
use super::ledger::QueueCounters;
use super::timeline::{Record, Tracer, What};
use super::Bytes;
use crate::nic::notice::{Level, Notice};
use crate::nic::stats::{ReceiveStats, RxQueueStats, TransmitStats, TxQueueStats};
use crate::wire::{Passage, Tap};
use std::collections::VecDeque;
use wiretime_base::Ps;

/// Filled buckets of a histogram: value, count.
pub type Buckets = Vec<(u64, u64)>;

/// Reports whose descriptors are free before a full ring counts as full no more.
const REPORTS_FREE: u32 = 4;

/// A transmit queue.
#[derive(Debug, Default)]
pub struct TransmitBook {
    /// As full as its driver can make it.
    pub full: bool,
    /// Descriptors between the last two status reports: how many at once become free.
    interval: u32,
    since_report: u32,
    /// When descriptors were posted: their count since the start, and the time. And how many have been begun.
    posted: VecDeque<(u64, Ps)>,
    posted_count: u64,
    begun_count: u64,
    /// Descriptors whose read is under way: when they were posted, and when it began.
    begun: VecDeque<(Option<Ps>, Ps)>,
    /// The packet whose buffers are being read, and the one whose frames are leaving.
    pub gathering: Option<u64>,
    pub leaving: Option<u64>,
}

impl TransmitBook {
    /// Forgets what was under way.
    fn stop(&mut self) {
        *self = Self { interval: 1, ..Self::default() };
    }

    /// The ring is full where its driver, which learns of free descriptors one report at a time, can post no more; it stays
    /// so until a few reports' worth are free.
    fn level(&mut self, Level { posted, entries }: Level) {
        let margin = self.interval * if self.full { REPORTS_FREE } else { 1 };
        self.full = entries > 0 && posted + margin >= entries;
    }

    fn posted(&mut self, t: Ps, count: u32) {
        self.posted_count += u64::from(count);
        self.posted.push_back((self.posted_count, t));
    }

    fn begun(&mut self, t: Ps) {
        self.begun_count += 1;
        while self.posted.front().is_some_and(|p| p.0 < self.begun_count) {
            self.posted.pop_front();
        }
        self.begun.push_back((self.posted.front().map(|p| p.1), t));
    }

    /// The next read is over: when its descriptor was posted, and when it began.
    pub fn read(&mut self) -> (Option<Ps>, Ps) {
        self.begun.pop_front().unwrap_or_default()
    }

    fn finished(&mut self, entries: u32, reported: bool) {
        self.since_report += entries;
        if reported {
            self.interval = std::mem::take(&mut self.since_report).max(1);
        }
    }
}

/// A queue pair.
pub struct QueueBook {
    /// What software does.
    pub driver: Driver,
    pub(super) transmit: TransmitBook,
    pub(super) delivered: u64,
    pub(super) packets: u64,
    reports: u64,
    level: u32,
    /// Drops by class.
    pub dma_drops: u64,
    /// See above.
    pub core_drops: u64,
    /// See above.
    pub tx_drops: u64,
}

impl QueueBook {
    fn new() -> Self {
        let mut transmit = TransmitBook::default();
        transmit.stop();
        Self {
            driver: Driver::new(),
            transmit,
            delivered: 0,
            packets: 0,
            reports: 0,
            level: 0,
            dma_drops: 0,
            core_drops: 0,
            tx_drops: 0,
        }
    }

    /// Counts a drop; the name of its class.
    pub(super) fn dropped(&mut self, class: DropClass) -> &'static str {
        let (count, name) = match class {
            DropClass::Dma => (&mut self.dma_drops, "DmaDrop"),
            DropClass::Core => (&mut self.core_drops, "CoreDrop"),
            DropClass::Tx => (&mut self.tx_drops, "TxDrop"),
        };
        *count += 1;
        name
    }

    /// What has been told of the queues.
    pub(in crate::nic) fn stats(&self) -> (RxQueueStats, TxQueueStats) {
        (
            RxQueueStats { delivered: self.delivered, ..RxQueueStats::default() },
            TxQueueStats { packets: self.packets, write_backs: self.reports, level: self.level.into() },
        )
    }

    /// What the ledger balances against.
    pub(in crate::nic) fn counters(&self) -> QueueCounters {
        QueueCounters {
            dma_drops: self.dma_drops,
            core_drops: self.core_drops,
            tx_drops: self.tx_drops,
            delivered: self.delivered,
        }
    }
}

/// See the module.
pub struct PortBook {
    /// By number.
    pub queues: Vec<QueueBook>,
    /// The timeline, where one is wanted.
    pub timeline: Tracer,
    /// What passes on the wire, where a capture is wanted.
    pub tap: Tap,
    pub(super) drops: Drops,
    /// When the NIC last refused a packet.
    pub(super) last_drop: Ps,
    /// Refusals by what was full, once the measurement is over.
    transitions: Option<[[u64; STATES]; STATES]>,
    /// Frames on the wire: the packet that each carries.
    pub(super) outgoing: VecDeque<Option<u64>>,
    /// Frames that came from the wire.
    pub(in crate::nic) arrived: u64,
    /// Of these, those that were not taken, and those that were refused at once.
    pub(super) filtered: u64,
    pub(super) refused: u64,
    /// Packets that were refused or dropped for want of descriptors or requests.
    pub(super) out_of_buffer: u64,
    pub(super) senseless: u64,
    /// Frames that left, and their bytes.
    sent: [u64; 2],
    /// A ring that software polls has started anew.
    pub(super) restarted: bool,
}

impl PortBook {
    pub(super) fn new(queues: usize, classes: DropClasses) -> Self {
        Self {
            queues: (0..queues).map(|_| QueueBook::new()).collect(),
            timeline: Tracer::default(),
            restarted: false,
            tap: Tap::default(),
            drops: Drops::new(classes, queues),
            out_of_buffer: 0,
            senseless: 0,
            last_drop: Ps::ZERO,
            transitions: None,
            outgoing: VecDeque::with_capacity(256),
            arrived: 0,
            filtered: 0,
            refused: 0,
            sent: [0; 2],
        }
    }

    /// A queue; those that the port does not have share the last.
    pub(super) fn queue(&mut self, queue: u16) -> &mut QueueBook {
        let last = self.queues.len() - 1;
        &mut self.queues[usize::from(queue).min(last)]
    }

    /// A frame has arrived from the wire, which it left at `departed`.
    pub(in crate::nic) fn arrives(&mut self, (id, bytes): (u64, u32), departed: Ps, t: Ps) {
        self.arrived += 1;
        self.timeline.note(departed, What::Frame { id, until: t, bytes, out: false });
    }

    #[inline]
    pub(super) fn taps<'a>(&mut self, at: Ps, what: Passage, who: (u64, u16), frame: impl FnOnce() -> &'a [u8]) {
        if self.tap.window.contains(&at) {
            self.tap.record(at, what, who, frame());
        }
    }

    /// A frame leaves at `t`.
    pub(super) fn leaves(&mut self, t: Ps, queue: u16, (until, bytes): (Ps, u32), frame: &mut impl Bytes) {
        let carried = self.queue(queue).transmit.leaving.take();
        let id = carried.unwrap_or(u64::MAX);
        let frame = frame.leaving();
        self.taps(t, Passage::Out, (id, queue), || frame);
        self.timeline.note(t, What::Frame { id, until, bytes, out: true });
        self.outgoing.push_back(carried);
        self.sent[0] += 1;
        self.sent[1] += u64::from(bytes);
    }

    /// What has been told of the paths.
    pub(in crate::nic) fn stats(&self) -> (ReceiveStats, TransmitStats) {
        let sum = |count: fn(&QueueBook) -> u64| self.queues.iter().map(count).sum();
        let receive = ReceiveStats {
            frames: self.arrived,
            filtered: self.filtered,
            refused: self.refused,
            out_of_buffer: self.out_of_buffer,
            delivered: sum(|q| q.delivered),
            ..ReceiveStats::default()
        };
        let [frames, bytes] = self.sent;
        let bad_packets = self.senseless;
        (
            receive,
            TransmitStats { frames, bytes, write_backs: sum(|q| q.reports), bad_packets, ..TransmitStats::default() },
        )
    }

    /// The next frame has left: the packet that it carries.
    pub(in crate::nic) fn left(&mut self) -> Option<u64> {
        self.outgoing.pop_front().flatten()
    }

    /// What concerns this port alone.
    pub(super) fn hear(&mut self, t: Ps, notice: &Notice) {
        match *notice {
            Notice::Fifo { bytes } => self.timeline.note(t, What::Fifo { bytes }),
            Notice::Drained => self.drops.drained(),
            Notice::Left { queue, free } => {
                let waiting = self.queue(queue).driver.waiting() as u32;
                self.timeline.note(t, What::RxRing { queue, free, waiting });
            }
            Notice::Restarted { queue, entry } => {
                self.queue(queue).driver.reset(entry);
                self.restarted = true;
            }
            Notice::Replenished { queue, count, available } => {
                self.queue(queue).driver.replenishes(t, count, available);
                self.timeline.note(t, What::Doorbell { queue, transmit: false });
            }
            Notice::Posted { queue, count, level } => {
                let q = self.queue(queue);
                q.transmit.posted(t, count);
                q.driver.posts(t, count);
                q.transmit.level(level);
                q.level = level.posted;
                self.timeline.note(t, What::Doorbell { queue, transmit: true });
                self.timeline.note(t, What::TxRing { queue, posted: level.posted });
            }
            Notice::Rung { queue } => self.queue(queue).driver.rings(t),
            Notice::Begun { queue } => self.queue(queue).transmit.begun(t),
            Notice::Finished { queue, entries, reported, level } => {
                let q = self.queue(queue);
                q.transmit.finished(entries, reported);
                q.transmit.level(level);
                q.level = level.posted;
                q.reports += u64::from(reported);
                self.timeline.note(t, What::TxRing { queue, posted: level.posted });
            }
            Notice::Stopped { queue } => self.queue(queue).transmit.stop(),
            Notice::Interrupt { vector } => self.timeline.note(t, What::Interrupt { vector }),
            Notice::Transfer { write, descriptors, queue, bytes, until } => {
                self.timeline.note(t, What::Dma { write, descriptors, queue, bytes, until });
            }
            _ => {} // of packets: heard by all ports' books
        }
    }

    pub(super) fn bursts_end(&mut self, core: u16, t: Ps) {
        for (queue, q) in (0..).zip(&mut self.queues) {
            if q.driver.core == core {
                let packets = q.driver.end_burst();
                if packets > 0 {
                    self.timeline.note(t, What::Poll { core, queue, packets });
                }
            }
        }
    }

    /// From now on it is told what software reads of receive rings.
    pub(in crate::nic) fn watched(&mut self) {
        self.queues.iter_mut().for_each(|q| q.driver.watched());
    }

    pub(super) fn begin_measurement(&mut self) {
        self.drops.transitions = Default::default();
        self.transitions = None;
        self.last_drop = Ps::ZERO;
        self.queues.iter_mut().for_each(|q| q.driver.record(true));
    }

    pub(super) fn end_measurement(&mut self) {
        self.transitions = Some(self.drops.transitions);
        self.queues.iter_mut().for_each(|q| q.driver.record(false));
    }

    /// Sizes of bursts, and descriptors left at replenishments, of a queue.
    #[must_use]
    pub fn driver_histograms(&self, queue: usize) -> (Buckets, Buckets) {
        let buckets = |h: &Option<hdrhistogram::Histogram<u64>>| {
            let filled = h.iter().flat_map(|h| h.iter_recorded());
            filled.map(|v| (v.value_iterated_to(), v.count_at_value())).collect()
        };
        self.queues
            .get(queue)
            .map_or_else(Default::default, |q| (buckets(&q.driver.bursts), buckets(&q.driver.available)))
    }

    /// Refusals by what was full before, and at them, in the measurement.
    #[must_use]
    pub fn drop_transitions(&self) -> [[u64; STATES]; STATES] {
        self.transitions.unwrap_or(self.drops.transitions)
    }

    /// When the NIC last refused a packet, where it has since the measurement began.
    #[must_use]
    pub fn last_drop(&self) -> Option<Ps> {
        (self.last_drop > Ps::ZERO).then_some(self.last_drop)
    }

    /// The timeline, in order of time (at one time, transfers last), and how many records were lost.
    #[must_use]
    pub fn take_timeline(&mut self) -> (Vec<Record>, u64) {
        let mut records = std::mem::take(&mut self.timeline.records);
        records.sort_by_key(|r| (r.at, matches!(r.what, What::Dma { .. })));
        (records, self.timeline.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_full_by_reports() {
        let mut b = QueueBook::new().transmit;
        let level = |posted| Level { posted, entries: 64 };
        b.level(level(62));
        assert!(!b.full);
        b.level(level(63));
        assert!(b.full, "one more and it would be empty");
        (0..32).for_each(|i| b.finished(1, i == 31));
        assert_eq!(b.interval, 32);
        b.level(level(1));
        assert!(b.full, "four reports of 32 are not free in a ring of 64");
        b.stop();
        b.level(level(40));
        assert!(!b.full);
    }

    #[test]
    fn reads_know_when_they_were_posted() {
        let mut b = TransmitBook::default();
        b.posted(Ps(10), 2);
        b.posted(Ps(20), 1);
        [100, 110, 120, 130].into_iter().for_each(|t| b.begun(Ps(t)));
        assert_eq!(
            [b.read(), b.read(), b.read()],
            [(10, 100), (10, 110), (20, 120)].map(|(posted, t)| (Some(Ps(posted)), Ps(t)))
        );
        assert_eq!((b.read(), b.read()), ((None, Ps(130)), (None, Ps::ZERO)));
    }
}
