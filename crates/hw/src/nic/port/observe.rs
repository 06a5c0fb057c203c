//! What is seen of a port from outside: statistics, what cores do with its rings, the account for the ledger.

use super::Port;
use crate::io::IoStats;
use crate::nic::controller::{Controller, Side, DESCRIPTOR};
use crate::nic::driver::{DriverStats, Seen};
use crate::nic::drops::STATES;
use crate::nic::ledger::ModelCounters;
use crate::nic::receive::{ReceiveStats, RxQueue, RxQueueStats};
use crate::nic::shared::Shared;
use crate::nic::trace::{Record, What};
use crate::nic::transmit::{TransmitStats, TxQueueStats};
use crate::wire::{FarStats, IperfReport, StoreStats};
use wiretime_base::Ps;

/// Counters of a queue pair.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // the parts'
pub struct QueueStats {
    pub receive: RxQueueStats,
    pub transmit: TxQueueStats,
    pub driver: DriverStats,
}

/// Counters of the port, by part.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // the parts'
pub struct PortStats {
    pub receive: ReceiveStats,
    pub transmit: TransmitStats,
    pub io: IoStats,
    pub far: FarStats,
    pub queues: Vec<QueueStats>,
}

/// Filled buckets of a histogram: value, count.
type Buckets = Vec<(u64, u64)>;

/// A receive ring in memory: first byte, one past the last, queue.
pub type RingPlace = (u64, u64, u16);

impl<C: Controller> Port<C> {
    /// Counters; `queues` of them by queue.
    #[must_use]
    pub fn stats(&self, queues: usize) -> PortStats {
        let queue = |i: usize| {
            let (rx, tx) = (&self.receive.queues[i], &self.transmit.queues[i]);
            let (rx_ring, tx_ring) =
                (self.registers.ring(Side::Receive, i as u16), self.registers.ring(Side::Transmit, i as u16));
            QueueStats {
                receive: RxQueueStats {
                    free: rx.ring.available(rx_ring.entries).into(),
                    waiting: rx.driver.waiting() as u64,
                    ..rx.stats.clone()
                },
                transmit: TxQueueStats { level: tx.ring.outstanding(tx_ring.entries).into(), ..tx.stats.clone() },
                driver: rx.driver.stats.clone(),
            }
        };
        PortStats {
            receive: self.receive.stats.clone(),
            transmit: self.transmit.stats.clone(),
            io: self.engine.stats(),
            far: self.far_stats(),
            queues: (0..queues.min(self.receive.queues.len())).map(queue).collect(),
        }
    }

    /// Where the receive rings are that are on.
    #[must_use]
    pub fn receive_rings(&self) -> Vec<RingPlace> {
        (0..self.registers.queues() as u16)
            .filter_map(|queue| {
                let r = self.registers.ring(Side::Receive, queue);
                let end = r.base.checked_add(u64::from(r.entries) * DESCRIPTOR)?;
                (r.enabled && r.entries > 0).then_some((r.base, end, queue))
            })
            .collect()
    }

    /// Core `core` reads the descriptor at `offset` bytes from the start of a receive ring, at `t`.
    pub fn descriptor_read(&mut self, core: u16, queue: u16, offset: u64, t: Ps, shared: &mut Shared) {
        let entries = self.registers.ring(Side::Receive, queue).entries;
        let Some(q) = self.receive.queues.get_mut(usize::from(queue)).filter(|_| entries > 0) else { return };
        q.driver.core = core;
        match q.driver.reads((offset / DESCRIPTOR) as u32, entries, t, &mut shared.journeys) {
            Seen::Nothing => {}
            Seen::Empty => self.trace.note(t, What::Poll { core, queue, packets: 0 }),
            Seen::Burst(packets) => self.trace.note(t, What::Poll { core, queue, packets }),
        }
    }

    /// Core `core` writes the tail of a transmit queue at `t`: its bursts are over.
    pub fn bursts_end(&mut self, core: u16, t: Ps) {
        for (queue, q) in self.receive.queues.iter_mut().enumerate() {
            if q.driver.core == core {
                let packets = q.driver.end_burst();
                if packets > 0 {
                    self.trace.note(t, What::Poll { core, queue: queue as u16, packets });
                }
            }
        }
    }

    /// A measurement begins: histograms of bursts and replenishments are filled anew, transitions at drops counted anew.
    pub fn begin_measurement(&mut self) {
        self.receive.drops.transitions = Default::default();
        self.last_drop = 0;
        self.receive.queues.iter_mut().for_each(|q| q.driver.record(true));
    }

    /// The measurement is over.
    pub fn end_measurement(&mut self) {
        self.receive.queues.iter_mut().for_each(|q| q.driver.record(false));
    }

    /// Sizes of bursts, and descriptors left at replenishments, of a queue.
    #[must_use]
    pub fn driver_histograms(&self, queue: usize) -> (Buckets, Buckets) {
        let buckets = |h: &hdrhistogram::Histogram<u64>| {
            h.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect()
        };
        self.receive
            .queues
            .get(queue)
            .map_or_else(Default::default, |q| (buckets(&q.driver.bursts), buckets(&q.driver.available)))
    }

    /// Refusals by what was full before, and at them.
    #[must_use]
    pub fn drop_transitions(&self) -> [[u64; STATES]; STATES] {
        self.receive.drops.transitions
    }

    /// Bytes in the RX FIFO; descriptors left, filled and unread, and posted for transmission, over all queues.
    #[must_use]
    pub fn occupancy(&self) -> [u64; 4] {
        let mut sum = [self.receive.fifo_used, 0, 0, 0];
        for (i, (rx, tx)) in self.receive.queues.iter().zip(&self.transmit.queues).enumerate() {
            if (self.enabled[0] | self.enabled[1]) >> i & 1 == 0 {
                continue;
            }
            let rx_entries = self.registers.ring(Side::Receive, i as u16).entries;
            let tx_entries = self.registers.ring(Side::Transmit, i as u16).entries;
            sum[1] += u64::from(rx.ring.available(rx_entries));
            sum[2] += rx.driver.waiting() as u64;
            sum[3] += u64::from(tx.ring.outstanding(tx_entries));
        }
        sum
    }

    /// The window of the timeline.
    pub fn start_trace(&mut self, window: std::ops::Range<Ps>) {
        self.trace.start(window.clone());
        self.engine.trace.start(window);
    }

    /// The timeline, in order of time, and how many records were lost.
    #[must_use]
    pub fn take_trace(&mut self) -> (Vec<Record>, u64) {
        let mut records = std::mem::take(&mut self.trace.records);
        records.append(&mut self.engine.trace.records);
        records.sort_by_key(|r| r.at);
        (records, self.trace.lost + self.engine.trace.lost)
    }

    /// Everything of this port that does not balance.
    #[must_use]
    pub fn audit(&self, shared: &Shared) -> Vec<String> {
        let model = ModelCounters {
            arrived: self.arrived,
            filtered: self.receive.stats.filtered,
            fifo_packets: (self.receive.fifo.len() + self.receive.in_flight.len()) as u64,
            returned: shared.returned.get(self.index).copied().unwrap_or(0),
            queues: self.receive.queues.iter().map(RxQueue::counters).collect(),
        };
        shared.ledger.audit(self.index, &model)
    }

    /// When the NIC last refused a packet, where it has since the measurement began.
    #[must_use]
    pub fn last_drop(&self) -> Option<Ps> {
        (self.last_drop > 0).then_some(self.last_drop)
    }

    /// Requests that clients gave up.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.generator.given_up()
    }

    /// What became of requests to a key-value store.
    #[must_use]
    pub fn store_stats(&self) -> Option<StoreStats> {
        self.generator.store_stats()
    }

    /// What an iperf3 client counted.
    #[must_use]
    pub fn iperf_report(&self) -> Option<IperfReport> {
        self.generator.iperf_report()
    }

    /// What passed between here and the far end of the wire.
    #[must_use]
    pub fn far_stats(&self) -> FarStats {
        self.generator.far_stats()
    }

    /// Whether the rate wanted is above what the line carries at this size.
    #[must_use]
    pub fn line_limited(&self) -> bool {
        self.generator.line_limited
    }
}
