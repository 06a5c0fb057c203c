//! The books: what became of every packet, why, when, and what software did, by code that shares nothing with the paths.
//! They hear what devices and wires tell ([`Notice`]) and know no device; a new one gets all of them for nothing.
//!
//! - `ledger`: what must balance, `fates` of packets in it; `drops`: why a packet was refused; `journeys`: latency by hop.
//! - `driver`: polls, bursts, replenishment; `timeline`: what happens in a window of time.
//! - `port`: the books of one port. [`Books`]: what the ports share: packets come in by one and leave by any.

mod driver;
mod drops;
mod fates;
mod journeys;
mod ledger;
mod port;
mod timeline;

pub use driver::DriverStats;
pub use drops::{DropClasses, State as DropState, STATES};
pub use fates::{Counts, Fate};
pub use journeys::Hop;
pub use ledger::{Ledger, ModelCounters, Which};
pub use port::{Buckets, PortBook, QueueBook};
pub use timeline::Record;

use super::notice::{Notice, Refusal};
use crate::wire::{Latencies, Packet, Passage, Sink};
use driver::Seen;
use drops::{DropClass, State};
use journeys::{Journeys, Point};
use ledger::is_answer;
use timeline::What;
use wiretime_base::Ps;

/// Packets of each queue, on average, that come back one after the other before a program counts as running.
const RUN_A_QUEUE: u64 = 4;
/// More than come while a program empties its rings, twice with a pause between.
const THROWN: u64 = 100;

/// The bytes that a notice is about, for captures.
pub trait Bytes {
    /// Of a packet from the wire that has just arrived.
    fn of(&mut self, packet: &Packet) -> &[u8];
    /// Of the frame that is told of next.
    fn leaving(&mut self) -> &[u8];
}

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
    /// Of these, those with a latency.
    pub timed: u64,
    pub latency_sum: Ps,
    pub latency_max: Ps,
}

/// What a run says of its books.
pub struct BookSettings {
    /// Whether the program sends packets back.
    pub forwards: bool,
    /// Whether packets may go on in other buffers than they came in, as a kernel's socket buffers do.
    pub copies: bool,
    /// What recognises answers.
    pub sink: Sink,
    /// Who names drops.
    pub classes: DropClasses,
}

/// See the module.
pub struct Books {
    /// Of each port.
    pub ports: Vec<PortBook>,
    /// What became of every packet.
    pub ledger: Ledger,
    /// Latencies of the cohort.
    pub sink: Sink,
    /// Latencies of the cohort by hop.
    pub journeys: Journeys,
    /// The cohort: packets that leave in this time.
    pub cohort: std::ops::Range<Ps>,
    /// Whether the time at which packets come back means something.
    timed: bool,
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
    /// What the program had thrown away when that was seen first.
    first_thrown: Option<u64>,
    /// By receive port and queue: where its packets are sent.
    feeds: Vec<Vec<Option<TxQueueId>>>,
}

fn fate(class: DropClass) -> Fate {
    match class {
        DropClass::Dma => Fate::DmaDrop,
        DropClass::Core => Fate::CoreDrop,
        DropClass::Tx => Fate::TxDrop,
    }
}

impl Books {
    /// For so many ports of so many queues.
    #[must_use]
    pub fn new(ports: usize, queues: usize, settings: BookSettings) -> Self {
        let BookSettings { forwards, copies, sink, classes } = settings;
        let mut ledger = Ledger::new((ports, queues), forwards);
        if copies {
            ledger.drivers_copy();
        }
        Self {
            ports: (0..ports).map(|_| PortBook::new(queues, classes)).collect(),
            ledger,
            sink,
            journeys: Journeys::default(),
            cohort: Ps::ZERO..Ps::ZERO,
            timed: true,
            returned: vec![0; ports],
            cohort_bytes: vec![0; ports],
            cohort_returned_bytes: vec![0; ports],
            flows: vec![Vec::new(); ports],
            queues: vec![vec![Latencies::default(); queues]; ports],
            mail: Vec::new(),
            unbroken: vec![(0, 0); ports],
            first_thrown: None,
            feeds: vec![vec![None; queues]; ports],
        }
    }

    /// Whether a ring that software polls has started anew since this was asked last.
    pub fn rings_restarted(&mut self) -> bool {
        self.ports.iter_mut().fold(false, |any, port| any | std::mem::take(&mut port.restarted))
    }

    /// Whether the program takes packets from all of `queues` that each port has: of one, a packet that it has taken tells, and
    /// packets that it goes on to throw away, since a forwarder may empty its rings before it begins; of several, a run of
    /// packets that came back with none missing, which were spread over them; where none come back, as many that it has taken.
    #[must_use]
    pub fn host_takes_packets(&mut self, queues: u64) -> bool {
        let ports = self.unbroken.len();
        if queues <= 1 && ports <= 1 {
            let thrown = self.ledger.thrown();
            if thrown > 0 {
                self.first_thrown.get_or_insert(thrown);
            }
            let goes_on = self.first_thrown.is_some_and(|first| thrown > first + THROWN);
            return self.returned[0] > 0 || self.ledger.taken() > 0 || goes_on;
        }
        let enough = RUN_A_QUEUE * queues;
        let consumes = !self.ledger.forwards() && self.returned.iter().all(|&n| n == 0);
        self.unbroken.iter().all(|&(_, run)| run >= enough) || consumes && self.ledger.taken() >= enough * ports as u64
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

    /// A packet of a port's wire arrives at the NIC at `t`.
    pub(super) fn offered(&mut self, port: usize, packet: &Packet, t: Ps) {
        self.ports[port].arrives((packet.id, packet.length), packet.departed, t);
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

    /// Whether there are such.
    pub fn has_mail(&self) -> bool {
        !self.mail.is_empty()
    }

    /// An answer to packet `id` of another port.
    pub fn post(&mut self, port: usize, id: u64, t: Ps) {
        self.mail.push((port, id, t));
    }

    /// Whether the transmit ring is full that packets of this receive queue go to.
    fn tx_full_behind(&self, port: usize, queue: u16) -> bool {
        let to = self.feeds.get(port).and_then(|p| p.get(usize::from(queue)).copied()).flatten();
        to.is_some_and(|(port, queue)| {
            let queue = self.ports.get(usize::from(port)).and_then(|p| p.queues.get(usize::from(queue)));
            queue.is_some_and(|q| q.transmit.full)
        })
    }

    /// What a port tells, of time `t`. `frame`: the bytes of a packet from the wire, or of the frame that leaves next.
    #[inline]
    pub(super) fn hear(&mut self, port: usize, t: Ps, notice: &Notice, frame: &mut impl Bytes) {
        match *notice {
            Notice::Pulled(packet) => self.offered(port, &packet, t),
            Notice::Filtered(packet) => {
                self.ports[port].filtered += 1;
                self.ledger.moves(packet.id, Fate::Offered, Fate::Filtered);
                self.ports[port].taps(packet.departed, Passage::In, (packet.id, 0), || frame.of(&packet));
            }
            Notice::Stored { packet, queue, fifo } => {
                self.ledger.steered(packet.id, queue);
                self.ports[port].taps(packet.departed, Passage::In, (packet.id, queue), || frame.of(&packet));
                self.ledger.moves(packet.id, Fate::Offered, Fate::InFifo);
                if !is_answer(packet.id) {
                    self.journeys.begins((packet.id, packet.flow), packet.departed, t);
                }
                self.ports[port].timeline.note(t, What::Fifo { bytes: fifo });
            }
            Notice::Refused { packet, queue, why } => {
                let class = self.refused(port, t, (&packet, queue, why), frame);
                let from = if why.stored { Fate::InFifo } else { Fate::Offered };
                self.ledger.moves(packet.id, from, fate(class));
            }
            Notice::Lost { id } => self.ledger.lost(id),
            Notice::Restarted { queue, .. } => {
                // What it was still writing is not written: nobody sees those packets.
                let ledger = &mut self.ledger;
                self.ports[port].queue(queue).driver.unseen(t, |id| ledger.lost(id));
                self.ports[port].hear(t, notice);
            }
            Notice::Stopped { queue } => {
                if let Some(id) = self.ports[port].queue(queue).transmit.gathering.take() {
                    self.ledger.lost(id);
                }
                self.ports[port].hear(t, notice);
            }
            Notice::Started { id } => self.journeys.passes(id, Point::Started, t),
            Notice::Delivered { id, queue, buffer } => {
                self.ledger.delivered(id, buffer);
                self.ports[port].queue(queue).delivered += 1;
            }
            Notice::Completed { queue, entry, packet } => {
                self.ports[port].queue(queue).driver.written(entry, t, packet);
                if let Some(id) = packet {
                    self.journeys.passes(id, Point::Visible, t);
                }
            }
            Notice::Offered { buffer } => self.ledger.posted(buffer),
            Notice::Read { queue, first } => self.read(port, queue, first),
            Notice::Gathered { queue } => {
                let q = self.ports[port].queue(queue);
                q.packets += 1;
                let transmit = &mut q.transmit;
                (transmit.leaving, transmit.gathering) = (transmit.gathering, None);
                match transmit.leaving {
                    Some(id) => self.journeys.passes(id, Point::Gathered, t),
                    None => self.ledger.gathered_nameless(),
                }
            }
            Notice::Senseless { queue } => {
                self.ports[port].senseless += 1;
                if let Some(id) = self.ports[port].queue(queue).transmit.leaving.take() {
                    self.ledger.moves(id, Fate::InTx, Fate::HostDrop);
                }
            }
            Notice::Frame { queue, end, length } => self.ports[port].leaves(t, queue, (end, length), frame),
            Notice::Deaf => self.ledger.reset(port, None),
            Notice::Reset => self.ledger.reset(port, Some(&self.ports[port].outgoing)),
            _ => self.ports[port].hear(t, notice),
        }
    }

    /// A packet is refused: why.
    fn refused(
        &mut self,
        port: usize,
        t: Ps,
        (packet, queue, why): (&Packet, u16, Refusal),
        frame: &mut impl Bytes,
    ) -> DropClass {
        if !why.stored {
            self.ports[port].refused += 1;
            self.ledger.steered(packet.id, queue);
            self.ports[port].taps(packet.departed, Passage::In, (packet.id, queue), || frame.of(packet));
        }
        let tx_ring = self.tx_full_behind(port, why.culprit);
        let book = &mut self.ports[port];
        let now = State { fifo: why.fifo, rx_ring: why.starved, tx_ring };
        // The published machine asks for as many descriptors outstanding as the ring has, which cannot be.
        let sampled = State { fifo: why.fifo, rx_ring: why.empty, tx_ring: false };
        let class = book.drops.refuse(now, sampled, &why);
        book.out_of_buffer += u64::from(why.stored || why.starved);
        let name = book.queue(queue).dropped(class);
        book.last_drop = t;
        book.taps(t, Passage::Dropped(name), (packet.id, queue), || frame.of(packet));
        book.timeline.note(t, What::Drop { id: packet.id, queue, class: name });
        class
    }

    /// What a transmit descriptor points to has been read; where it is the first buffer of a packet, its packet goes on.
    fn read(&mut self, port: usize, queue: u16, first: Option<u64>) {
        let (posted, begun) = self.ports[port].queue(queue).transmit.read();
        let Some(buffer) = first else { return };
        let carried = self.ledger.transmitted(buffer, port);
        self.ports[port].queue(queue).transmit.gathering = carried;
        let Some(id) = carried else { return };
        self.journeys.passes(id, Point::Posted, posted.unwrap_or(begun));
        self.journeys.passes(id, Point::Read, begun);
        if let Some((from, by)) = self.ledger.origin(id) {
            if let Some(feed) = self.feeds.get_mut(from).and_then(|p| p.get_mut(usize::from(by))) {
                *feed = Some((port as u8, queue));
            }
        }
    }

    /// Core `core` reads an entry of a ring of `entries` that tells of a queue's packets, at `t`.
    pub fn polled(&mut self, port: usize, core: u16, (queue, entry, entries): (u16, u32, u32), t: Ps) {
        let book = &mut self.ports[port];
        let Some(q) = book.queues.get_mut(usize::from(queue)).filter(|_| entries > 0) else { return };
        q.driver.core = core;
        match q.driver.reads(entry, entries, t, &mut self.journeys) {
            Seen::Nothing => {}
            Seen::Empty => book.timeline.note(t, What::Poll { core, queue, packets: 0 }),
            Seen::Burst(packets) => book.timeline.note(t, What::Poll { core, queue, packets }),
        }
    }

    /// The same entry has been read so many times more, and nothing was new.
    pub fn polled_again(&mut self, port: usize, (queue, entry, entries): (u16, u32, u32), count: u64) {
        if let Some(q) = self.ports[port].queues.get_mut(usize::from(queue)).filter(|_| entries > 0) {
            q.driver.reads_again(entry, entries, count);
        }
    }

    /// Core `core` hands packets over to be sent, at `t`: its bursts are over.
    pub fn bursts_end(&mut self, core: u16, t: Ps) {
        self.ports.iter_mut().for_each(|p| p.bursts_end(core, t));
    }

    /// A measurement begins: what fills anew is emptied.
    pub fn begin_measurement(&mut self) {
        self.ports.iter_mut().for_each(PortBook::begin_measurement);
    }

    /// The measurement is over.
    pub fn end_measurement(&mut self) {
        self.ports.iter_mut().for_each(PortBook::end_measurement);
    }

    /// A frame of `bytes` (FCS included) arrives back at `t`; `carried` is the packet that its buffer says it is.
    pub fn returns(&mut self, frame: &[u8], bytes: u64, carried: Option<u64>, t: Ps) -> Came {
        let probe = self.sink.probe(frame, t);
        let named = match probe {
            Some(p) => Some(p.id),
            // One that is not with the host cannot have been answered: the key was another's.
            None => self.sink.by_key(frame).filter(|&id| carried.is_some() || self.ledger.with_host(id)),
        };
        let probes = self.sink.recognises_probes();
        let carried = carried.filter(|&id| !(probes && self.ledger.mistaken(id, named)));
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
            self.cohort_returned_bytes[port] += bytes;
            if let Some((_, flow)) = journey {
                self.flow(port, flow).answered += 1;
            }
            if self.timed {
                self.took(port, t - departed, origin.map(|o| o.1), journey.map(|j| j.1));
                if carried.is_some() {
                    self.journeys.ends(id, t);
                }
            }
        }
        Came::Answer(port, id)
    }

    /// A packet of the cohort has come back: of this queue, if it is known, and of this flow.
    fn took(&mut self, port: usize, latency: Ps, queue: Option<u16>, flow: Option<u32>) {
        self.sink.latencies.record(latency);
        if let Some(queue) = queue.and_then(|q| self.queues[port].get_mut(usize::from(q))) {
            queue.record(latency);
        }
        if let Some(flow) = flow {
            let f = self.flow(port, flow);
            f.timed += 1;
            f.latency_sum += latency;
            f.latency_max = f.latency_max.max(latency);
        }
    }

    /// From here on times mean nothing: software is not timed, or windows are longer than the lookahead. What comes back is counted.
    pub fn end_of_timing(&mut self) {
        self.timed = false;
    }

    /// Counts of all ports' packets.
    #[must_use]
    pub fn counts(&self, which: Which) -> Counts {
        self.ledger.all(which)
    }
}
