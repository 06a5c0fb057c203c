//! What the ports of a server share: the ledger, journeys, latencies, and which transmit rings are full. Packets come in
//! by one port and leave by any.

use super::journeys::Journeys;
use super::ledger::{is_answer, Ledger, Which};
use crate::wire::{Latencies, Packet, Sink};
use wiretime_base::Ps;

/// Packets of each queue, on average, that come back one after the other before a program counts as running.
const RUN_A_QUEUE: u64 = 4;

/// A transmit queue, of whichever port.
type TxQueueId = (u8, u16);

/// What a frame is that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// It answers this packet of this port's load.
    Answer(usize, u64),
    /// The host says something by itself.
    Unasked,
    /// Neither.
    Other,
}

/// Flows that are told one by one; the last entry is all others.
pub const FLOWS_TOLD: usize = 4096;

/// The cohort's packets of a flow.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // names say it
pub struct FlowCounts {
    pub offered: u64,
    pub answered: u64,
    pub latency_sum: u64,
    pub latency_max: Ps,
}

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
    /// The cohort by port and flow.
    pub flows: Vec<Vec<FlowCounts>>,
    /// Latencies of the cohort by port and receive queue.
    pub queues: Vec<Vec<Latencies>>,
    /// Answers that came in by a port other than their packet's: port, packet, when.
    mail: Vec<(usize, u64, Ps)>,
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
            flows: vec![Vec::new(); ports],
            queues: vec![vec![Latencies::default(); queues]; ports],
            mail: Vec::new(),
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
        self.flows.iter_mut().for_each(Vec::clear);
        self.queues.iter_mut().flatten().for_each(|l| *l = Latencies::default());
    }

    fn flow(&mut self, port: usize, flow: u32) -> &mut FlowCounts {
        let at = (flow as usize).min(FLOWS_TOLD);
        let flows = &mut self.flows[port];
        if at >= flows.len() {
            flows.resize(at + 1, FlowCounts::default());
        }
        &mut flows[at]
    }

    /// A packet of a port's load arrives at the NIC.
    pub fn offered(&mut self, port: usize, packet: &Packet) {
        self.ledger.offered(packet.id);
        if !is_answer(packet.id) && self.cohort.contains(&packet.departed) {
            self.ledger.in_cohort(packet.id);
            self.cohort_bytes[port] += u64::from(packet.length);
            self.flow(port, packet.flow).offered += 1;
        }
    }

    /// That packet's bytes, where answers are told by them.
    pub fn shows(&mut self, id: u64, frame: &[u8]) {
        let ledger = &mut self.ledger;
        self.sink.leaves(id, frame, |old| ledger.over(old));
    }

    /// Answers to packets of a port that came in elsewhere.
    pub fn take_mail(&mut self, port: usize, mut each: impl FnMut(u64, Ps)) {
        if !self.mail.is_empty() {
            self.mail.iter().filter(|m| m.0 == port).for_each(|m| each(m.1, m.2));
            self.mail.retain(|m| m.0 != port);
        }
    }

    /// An answer to packet `id` of another port.
    pub fn post(&mut self, port: usize, id: u64, t: Ps) {
        self.mail.push((port, id, t));
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
    pub fn returns(&mut self, frame: &[u8], bytes: u64, carried: Option<u64>, t: Ps) -> Came {
        let probe = self.sink.probe(frame, t);
        let named = match probe {
            Some(p) => Some(p.id),
            // One that is not with the host cannot have been answered: the key was another's.
            None => self.sink.by_key(frame).filter(|&id| carried.is_some() || self.ledger.with_host(id)),
        };
        let Some(id) = carried.or(named) else { return Came::Unasked };
        // Bytes that carry no probe cannot contradict the buffer.
        let probed = self.sink.recognises_probes() && !is_answer(id);
        let (origin, journey) = (self.ledger.origin(id), self.journeys.origin(id));
        let Some(port) = self.ledger.returned(carried, if probed { named } else { Some(id) }) else {
            return Came::Other;
        };
        self.returned[port] += 1;
        let (last, run) = self.unbroken[port];
        self.unbroken[port] = (id, if id == last.wrapping_add(1) { run + 1 } else { 1 });
        let departed = probe.map(|p| p.departed).or(journey.map(|j| j.0));
        if let Some(departed) = departed.filter(|d| self.cohort.contains(d)) {
            let latency = t - departed;
            self.sink.latencies.record(latency);
            if let Some(queue) = origin.and_then(|(_, q)| self.queues[port].get_mut(usize::from(q))) {
                queue.record(latency);
            }
            if let Some((_, flow)) = journey {
                let f = self.flow(port, flow);
                f.answered += 1;
                f.latency_sum += latency;
                f.latency_max = f.latency_max.max(latency);
            }
            self.cohort_returned_bytes[port] += bytes;
            if carried.is_some() {
                self.journeys.ends(id, t);
            }
        }
        Came::Answer(port, id)
    }

    /// Counts of all ports' packets.
    #[must_use]
    pub fn counts(&self, which: Which) -> super::ledger::Counts {
        self.ledger.all(which)
    }
}
