//! What the ports of a server share: the ledger, journeys, latencies, and which transmit rings are full. Packets come in
//! by one port and leave by any.

use super::journeys::Journeys;
use super::ledger::{Ledger, Which};
use crate::wire::Sink;
use wiretime_base::Ps;

/// Packets of each queue, on average, that come back one after the other before a program counts as running.
const RUN_A_QUEUE: u64 = 4;

/// A transmit queue, of whichever port.
type TxQueueId = (u8, u16);

/// See the module.
pub struct Shared {
    /// What became of every packet.
    pub ledger: Ledger,
    /// Latencies of the cohort.
    pub sink: Sink,
    /// Latencies of the cohort by hop.
    pub journeys: Journeys,
    /// The cohort: packets that leave in this time.
    pub cohort: std::ops::Range<Ps>,
    /// Frames that came back, by the port whose generator sent them, whatever became of the cohort.
    pub returned: Vec<u64>,
    /// Bytes of the cohort, and of those that came back, by that port.
    pub cohort_bytes: Vec<u64>,
    /// Bytes of cohort packets that came back.
    pub cohort_returned_bytes: Vec<u64>,
    /// By port: the last packet of its generator that came back, and how many have with none missing.
    unbroken: Vec<(u64, u64)>,
    /// By receive port and queue: where its packets are sent.
    feeds: Vec<Vec<Option<TxQueueId>>>,
    /// By transmit port: queues that are as full as their driver can make them, a bit each.
    tx_full: Vec<u64>,
}

impl Shared {
    /// For so many ports of so many queues. `forwards`: whether the program sends packets back.
    #[must_use]
    pub fn new(ports: usize, queues: usize, forwards: bool, sink: Sink) -> Self {
        Self {
            ledger: Ledger::new(ports, forwards),
            sink,
            journeys: Journeys::default(),
            cohort: 0..0,
            returned: vec![0; ports],
            cohort_bytes: vec![0; ports],
            cohort_returned_bytes: vec![0; ports],
            unbroken: vec![(0, 0); ports],
            feeds: vec![vec![None; queues]; ports],
            tx_full: vec![0; ports],
        }
    }

    /// Whether the program takes packets from all of `queues` that each port has: of one, a packet that it has taken tells;
    /// of several, a run of packets that came back with none missing, which were spread over them.
    #[must_use]
    pub fn host_takes_packets(&self, queues: u64) -> bool {
        let ports = self.unbroken.len();
        if queues <= 1 && ports <= 1 {
            return self.returned[0] > 0 || self.ledger.taken() > 0;
        }
        self.unbroken.iter().all(|&(_, run)| run >= RUN_A_QUEUE * queues)
    }

    /// Another measurement: the cohort leaves in this time. Packets under way keep their identity.
    pub fn measure(&mut self, cohort: std::ops::Range<Ps>) {
        self.cohort = cohort;
        self.ledger.new_cohort();
        self.sink.forget();
        self.journeys.forget();
        self.cohort_bytes.fill(0);
        self.cohort_returned_bytes.fill(0);
    }

    /// Packets that came in by queue `from` of port `port` leave by `to`.
    pub fn fed(&mut self, port: usize, from: u16, to: TxQueueId) {
        if let Some(entry) = self.feeds.get_mut(port).and_then(|p| p.get_mut(usize::from(from))) {
            *entry = Some(to);
        }
    }

    /// A transmit queue is full, or no longer.
    pub fn set_tx_full(&mut self, (port, queue): TxQueueId, full: bool) {
        if let Some(mask) = self.tx_full.get_mut(usize::from(port)) {
            *mask = *mask & !(1 << (queue & 63)) | u64::from(full) << (queue & 63);
        }
    }

    /// Whether the transmit ring is full that packets of this receive queue go to.
    #[must_use]
    pub fn tx_full_behind(&self, port: usize, queue: u16) -> bool {
        let to = self.feeds.get(port).and_then(|p| p.get(usize::from(queue)).copied()).flatten();
        to.is_some_and(|(port, queue)| self.tx_full.get(usize::from(port)).is_some_and(|m| m >> (queue & 63) & 1 != 0))
    }

    /// A frame of `bytes` (FCS included) arrives back at `t`; `carried` is the packet that its buffer says it is.
    pub fn returns(&mut self, frame: &[u8], bytes: u64, carried: Option<u64>, t: Ps) {
        let answer = self.sink.recognise(frame, t);
        let Some(port) = self.ledger.returned(carried, answer.map(|a| a.id)) else { return };
        self.returned[port] += 1;
        if let Some(a) = answer {
            let (last, run) = self.unbroken[port];
            self.unbroken[port] = (a.id, if a.id == last.wrapping_add(1) { run + 1 } else { 1 });
        }
        if let Some(a) = answer.filter(|a| self.cohort.contains(&(t - a.latency))) {
            self.sink.record(a.latency);
            self.cohort_returned_bytes[port] += bytes;
            if carried.is_some() {
                self.journeys.ends(a.id, t);
            }
        }
    }

    /// Counts of all ports' packets.
    #[must_use]
    pub fn counts(&self, which: Which) -> super::ledger::Counts {
        self.ledger.all(which)
    }
}
