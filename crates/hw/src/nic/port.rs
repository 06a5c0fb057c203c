//! One NIC on its link, with the generator and the sink at the other end of the wire: the event loop.
//!
//! Simultaneous events go in the order of [`Event`]'s variants: what frees or fills rings first, new frames last, so
//! that a frame finds the room that was made at the same instant.

use super::e1000::descriptors::{rx_buffer, Tx, TxDescriptor, SIZE};
use super::e1000::offload::{self, Offload};
use super::e1000::{cause, reg, Action, Registers, SharedRegisters};
use super::ledger::{Counts, Fate, Ledger, ModelCounters};
use super::receive::{self, Cause, Receive, ReceiveStats, Stored};
use super::transmit::{Outgoing, Transmit, TransmitStats};
use crate::dma::DmaWrites;
use crate::memory::{GuestMemory, MemorySystem};
use crate::params::Platform;
use crate::pcie::{Pcie, PcieStats};
use crate::wire::{Generator, Sink, FCS};
use wiretime_base::events::Event as Ordered;
use wiretime_base::{BitRate, Calendar, EventQueue, Ps};

const WIRE_WINDOW: Ps = 20_000_000;
/// Shortest frame without FCS, to which TCTL.PSP pads.
const FRAME_MIN: usize = 60;

#[derive(Clone, Copy, Debug)]
enum Event {
    Doorbell { offset: u64, value: u32 },
    RxDescriptors { index: u32, count: u32, epoch: u32 },
    RxNext { epoch: u32 },
    RxSent { epoch: u32 },
    TxDescriptors { index: u32, count: u32, epoch: u32 },
    TxPayload { epoch: u32 },
    TxSent,
    Interrupt { causes: u32 },
    Arrive { id: u64, start: Ps },
}

impl Ordered for Event {
    fn class(&self) -> u8 {
        match self {
            Event::Doorbell { .. } => 0,
            Event::RxDescriptors { .. } => 1,
            Event::RxNext { .. } => 2,
            Event::RxSent { .. } => 3,
            Event::TxDescriptors { .. } => 4,
            Event::TxPayload { .. } => 5,
            Event::TxSent => 6,
            Event::Interrupt { .. } => 7,
            Event::Arrive { .. } => 8,
        }
    }
}

/// What the traffic is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No traffic yet.
    Quiet,
    /// Packets leave.
    Running,
    /// Packets no longer leave; those under way still do their way.
    Stopped,
}

/// Counters of the port, by part.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // the parts'
pub struct PortStats {
    pub receive: ReceiveStats,
    pub transmit: TransmitStats,
    pub pcie: PcieStats,
}

/// A NIC port with its peer.
pub struct Port<S> {
    /// The register file.
    pub registers: Registers<S>,
    /// DMA writes that cores do not see yet.
    pub writes: DmaWrites,
    /// What became of every packet.
    pub ledger: Ledger,
    /// Latencies of the cohort.
    pub sink: Sink,
    /// Tail registers written by trapped accesses, to be handed on by [`Port::doorbell`].
    pub trapped_tails: Vec<(u64, u32)>,
    generator: Generator,
    receive: Receive,
    transmit: Transmit,
    pcie: Pcie,
    events: EventQueue<Event>,
    wire_out: Calendar,
    line: BitRate,
    gap: u64,
    link_latency: Ps,
    packet_latency: Ps,
    now: Ps,
    phase: Phase,
    stop_at: u64,
    /// When the traffic in force started: arrivals of an earlier one are void.
    traffic_start: Ps,
    cohort: std::ops::Range<u64>,
    last_payload: Ps,
    seen_tails: (u32, u32),
    arrived: u64,
    returned: u64,
    scratch: Vec<u8>,
    cohort_returned_bytes: u64,
}

impl<S: SharedRegisters> Port<S> {
    /// A port of this platform. `forwards`: whether the program sends packets back.
    #[must_use]
    pub fn new(p: &Platform, registers: Registers<S>, generator: Generator, sink: Sink, forwards: bool) -> Self {
        Self {
            registers,
            writes: DmaWrites::default(),
            ledger: Ledger::new(forwards),
            sink,
            trapped_tails: Vec::new(),
            generator,
            receive: Receive::new(&p.nic),
            transmit: Transmit::new(&p.nic, p.pcie.tags),
            pcie: Pcie::new(&p.pcie),
            events: EventQueue::default(),
            wire_out: Calendar::new(WIRE_WINDOW),
            line: p.link.rate,
            gap: p.link.gap_bytes.into(),
            link_latency: p.link.latency.ps(),
            packet_latency: p.nic.packet_latency.ps(),
            now: 0,
            phase: Phase::Quiet,
            stop_at: u64::MAX,
            traffic_start: 0,
            cohort: 0..0,
            last_payload: 0,
            seen_tails: (0, 0),
            arrived: 0,
            returned: 0,
            scratch: Vec::with_capacity(1 << 14),
            cohort_returned_bytes: 0,
        }
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> PortStats {
        PortStats {
            receive: self.receive.stats.clone(),
            transmit: self.transmit.stats.clone(),
            pcie: self.pcie.stats.clone(),
        }
    }

    /// Bytes of cohort packets that came back.
    #[must_use]
    pub fn cohort_returned_bytes(&self) -> u64 {
        self.cohort_returned_bytes
    }

    /// Whether the driver has switched the receive unit on and filled its ring.
    #[must_use]
    pub fn ready(&self) -> bool {
        let (_, entries, tail) = self.registers.ring(false);
        self.registers.receive_enabled() && entries > 0 && tail % entries != self.receive.ring.head % entries
    }

    /// A packet every `interval` from `t` on, to find out when the host takes packets.
    pub fn trickle(&mut self, t: Ps, interval: Ps) {
        self.generator.trickle_at(t, self.arrived, interval);
        self.phase = Phase::Running;
        self.traffic_start = t;
        self.schedule(self.arrived);
    }

    /// Whether the program has taken packets: a forwarder has sent one back, another has given a buffer back.
    #[must_use]
    pub fn host_takes_packets(&self) -> bool {
        self.returned > 0 || self.ledger.total().consumed > 0
    }

    fn schedule(&mut self, id: u64) {
        self.events.push(self.arrival(id), Event::Arrive { id, start: self.traffic_start });
    }

    /// Traffic starts at `t`; the cohort leaves between `t + warm_up` and `t + warm_up + duration`.
    pub fn start_traffic(&mut self, t: Ps, warm_up: Ps, duration: Ps) {
        self.generator.start_at(t, self.arrived);
        self.cohort =
            self.generator.first_at_or_after(t + warm_up)..self.generator.first_at_or_after(t + warm_up + duration);
        self.ledger.set_cohort(self.arrived, self.cohort.clone());
        self.phase = Phase::Running;
        self.traffic_start = t;
        self.schedule(self.arrived);
    }

    /// No packet leaves from `t` on.
    pub fn stop_traffic(&mut self, t: Ps) {
        self.stop_at = self.generator.first_at_or_after(t);
        self.phase = Phase::Stopped;
    }

    /// What the traffic is doing.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Frame bytes of the cohort.
    #[must_use]
    pub fn cohort_bytes(&self) -> u64 {
        (self.cohort.end - self.cohort.start) * u64::from(self.generator.length())
    }

    fn arrival(&self, id: u64) -> Ps {
        self.generator.departure(id) + self.line.time_of(self.generator.length().into()) + self.link_latency
    }

    /// Time of the next event.
    #[must_use]
    pub fn next_time(&self) -> Option<Ps> {
        self.events.next_time()
    }

    /// A core's store to a tail register, leaving its store buffer at `t`.
    pub fn doorbell(&mut self, t: Ps, offset: u64, value: u32) {
        self.note_tail(offset, value);
        self.registers.shared.store(offset, value);
        let arrives = self.pcie.register_write(t).max(self.now);
        self.events.push(arrives, Event::Doorbell { offset, value });
    }

    fn note_tail(&mut self, offset: u64, value: u32) {
        match offset {
            reg::RDT => self.seen_tails.0 = value,
            reg::TDT => self.seen_tails.1 = value,
            _ => {}
        }
    }

    /// While nobody watches the shared pages: tails that have changed since they were last seen.
    pub fn poll_tails(&mut self, t: Ps) {
        let (receive, transmit) = (self.registers.shared.load(reg::RDT), self.registers.shared.load(reg::TDT));
        if receive != self.seen_tails.0 {
            self.doorbell(t, reg::RDT, receive);
        }
        if transmit != self.seen_tails.1 {
            self.doorbell(t, reg::TDT, transmit);
        }
    }

    /// The guest writes a register, trapped, now.
    pub fn write_register(&mut self, offset: u64, value: u32) {
        match self.registers.write(offset, value) {
            Action::None => {}
            Action::Tail(offset, value) => self.trapped_tails.push((offset, value)),
            Action::Reset => {
                self.receive.reset();
                self.transmit.reset();
                self.ledger.reset();
                self.writes.clear();
                self.trapped_tails.clear();
                self.seen_tails = (0, 0);
            }
            Action::Enable => self.switched(),
        }
    }

    /// The guest writes any number of bytes. Hardware takes whole words only; others are counted and ignored.
    pub fn write_bytes(&mut self, offset: u64, data: &[u8]) {
        if self.registers.note_odd(offset, data.len()) {
            return;
        }
        for (i, word) in data.chunks_exact(4).enumerate() {
            let value = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            self.write_register(offset.wrapping_add(4 * i as u64), value);
        }
    }

    fn switched(&mut self) {
        let at = self.now;
        if self.registers.receive_enabled() {
            let (_, entries, tail) = self.registers.ring(false);
            if self.receive.ring.tail != tail && entries > 0 {
                self.receive.ring.start_at(self.registers.shared.load(reg::RDH) % entries);
            }
            self.seen_tails.0 = tail;
            self.events.push(at, Event::Doorbell { offset: reg::RDT, value: tail });
        } else {
            // Stopping is synchronous: drivers free their buffers right after.
            self.receive.disable();
            self.receive.fifo.clear();
            self.receive.fifo_used = 0;
            self.ledger.reset();
            self.writes.clear();
        }
        if self.registers.transmit_enabled() {
            let (_, _, tail) = self.registers.ring(true);
            self.seen_tails.1 = tail;
            self.events.push(at, Event::Doorbell { offset: reg::TDT, value: tail });
        }
    }

    /// Simulates up to, not including, `end`.
    pub fn advance(&mut self, end: Ps, memory: &mut MemorySystem, guest: &impl GuestMemory) {
        while let Some((t, event)) = self.events.pop_before(end) {
            self.now = t;
            match event {
                Event::Doorbell { offset: reg::RDT, value } => {
                    self.receive.ring.tail = value & 0xffff;
                    self.receive_pump(t, memory);
                }
                Event::Doorbell { value, .. } => {
                    self.transmit.ring.tail = value & 0xffff;
                    self.transmit_pump(t, memory);
                }
                Event::RxDescriptors { index, count, epoch } if epoch == self.receive.ring.epoch => {
                    self.take_receive_descriptors(index, count, guest);
                    self.receive_pump(t, memory);
                }
                Event::RxNext { epoch } if epoch == self.receive.ring.epoch => {
                    self.receive.sending = false;
                    self.receive_pump(t, memory);
                }
                Event::RxSent { epoch } if epoch == self.receive.ring.epoch => self.receive_sent(t, memory),
                Event::TxDescriptors { index, count, epoch } if epoch == self.transmit.ring.epoch => {
                    self.take_transmit_descriptors(index, count, guest);
                    self.transmit_pump(t, memory);
                }
                Event::TxPayload { epoch } if epoch == self.transmit.ring.epoch => {
                    self.payload_read(t, memory, guest);
                    self.transmit_pump(t, memory);
                }
                Event::TxSent => {
                    self.sent(t);
                    self.transmit_pump(t, memory);
                }
                Event::Interrupt { causes } => self.registers.raise(causes),
                Event::Arrive { id, start } if start == self.traffic_start => self.arrive(t, id, memory),
                _ => {} // of an earlier life of the device
            }
        }
        self.now = self.now.max(end);
    }

    fn arrive(&mut self, t: Ps, id: u64, memory: &mut MemorySystem) {
        if id >= self.stop_at {
            return;
        }
        self.schedule(id + 1);
        let length = self.generator.length();
        let destination = self.generator.destination();
        self.arrived += 1;
        self.receive.stats.frames += 1;
        self.ledger.offered(id);
        self.registers.statistics.seen(length);
        if !self.registers.receive_enabled() || !self.registers.accepts(&destination, length) {
            self.receive.stats.filtered += 1;
            self.registers.statistics.oversize();
            self.ledger.moves(id, Fate::Offered, Fate::Filtered);
            return;
        }
        if self.receive.has_room(length) {
            self.ledger.moves(id, Fate::Offered, Fate::InFifo);
            self.receive.store(Stored { id, length });
            self.receive_pump(t, memory);
            return;
        }
        let (_, tx_entries, _) = self.registers.ring(true);
        let ring_full = self.receive.starved;
        let cause = self.receive.refuse(ring_full, self.transmit.is_full(tx_entries));
        self.registers.statistics.missed(ring_full);
        self.registers.raise(cause::RXO);
        let fate = match cause {
            Cause::Dma => Fate::DmaDrop,
            Cause::Core => Fate::CoreDrop,
            Cause::Tx => Fate::TxDrop,
        };
        self.ledger.moves(id, Fate::Offered, fate);
    }

    fn receive_pump(&mut self, t: Ps, memory: &mut MemorySystem) {
        if !self.registers.receive_enabled() {
            return;
        }
        let (base, entries, _) = self.registers.ring(false);
        if let Some((index, count)) = self.receive.ring.begin_fetch(entries) {
            self.receive.stats.descriptor_fetches += 1;
            self.receive.stats.descriptors_fetched += u64::from(count);
            let done = self.fetch(t, base, index, count, memory);
            let epoch = self.receive.ring.epoch;
            self.events.push(done, Event::RxDescriptors { index, count, epoch });
        }
        self.start_payload(t, memory);
    }

    /// Reads descriptors; returns when they are here.
    fn fetch(&mut self, t: Ps, base: u64, index: u32, count: u32, memory: &mut MemorySystem) -> Ps {
        let address = base.wrapping_add(u64::from(index) * SIZE);
        self.pcie.read(t, address, u64::from(count) * SIZE, memory)
    }

    fn start_payload(&mut self, t: Ps, memory: &mut MemorySystem) {
        if self.receive.sending {
            return;
        }
        let Some(&frame) = self.receive.fifo.front() else { return };
        let buffer_size = self.registers.receive_buffer();
        let in_memory = frame.length - if self.registers.strips_crc() { FCS } else { 0 };
        let needed = in_memory.div_ceil(buffer_size) as usize;
        if self.receive.ring.held.len() < needed {
            let (_, entries, _) = self.registers.ring(false);
            self.receive.starved |= self.receive.ring.fetching == 0 && self.receive.ring.unfetched(entries) == 0;
            return;
        }
        self.receive.fifo.pop_front();
        self.receive.sending = true;
        self.scratch.clear();
        self.scratch.extend_from_slice(self.generator.frame(frame.id));
        self.scratch.resize(in_memory as usize, 0); // the FCS, where it is kept: its value is not modelled
        let begin = receive::start(t, self.packet_latency);
        let mut sent = begin;
        for part in self.scratch.chunks(buffer_size as usize) {
            let Some((_, buffer)) = self.receive.ring.held.pop_front() else { break };
            let length = part.len() as u64;
            let (left, at_host) = self.pcie.write(begin, buffer, length);
            let visible = memory.dma_write(buffer, length, at_host);
            self.writes.push(visible, buffer, part);
            self.receive.parts.push_back((buffer, length as u32));
            sent = sent.max(left);
        }
        self.receive.in_flight.push_back((frame, needed));
        let epoch = self.receive.ring.epoch;
        // The pipeline delays a packet, it does not occupy the link.
        self.events.push(sent - self.packet_latency, Event::RxNext { epoch });
        self.events.push(sent, Event::RxSent { epoch });
    }

    fn receive_sent(&mut self, t: Ps, memory: &mut MemorySystem) {
        let Some((frame, parts)) = self.receive.in_flight.pop_front() else { return };
        self.receive.release(frame.length);
        self.receive.stats.delivered += 1;
        self.registers.statistics.received(&self.generator.destination(), frame.length);
        let buffer = self.receive.parts.front().map_or(0, |p| p.0);
        self.ledger.delivered(frame.id, buffer);
        for i in (0..parts).rev() {
            if let Some((buffer, length)) = self.receive.parts.pop_front() {
                self.receive.complete(buffer, length, i == 0);
            }
        }
        if self.receive.should_write_back() {
            self.write_back(t, memory);
        }
    }

    fn write_back(&mut self, t: Ps, memory: &mut MemorySystem) {
        let (base, entries, _) = self.registers.ring(false);
        let mut pending = std::mem::take(&mut self.receive.pending);
        let mut visible = t;
        let mut rest = &pending[..];
        while !rest.is_empty() && entries > 0 {
            let head = self.receive.ring.head % entries;
            let n = rest.len().min((entries - head) as usize);
            let address = base.wrapping_add(u64::from(head) * SIZE);
            let length = n as u64 * SIZE;
            let (_, at_host) = self.pcie.write(t, address, length);
            let when = memory.dma_write(address, length, at_host);
            self.scratch.clear();
            for d in &rest[..n] {
                self.scratch.extend_from_slice(&d.bytes());
            }
            visible = self.writes.push(when, address, &self.scratch);
            self.receive.ring.head = (head + n as u32) % entries;
            self.receive.stats.write_backs += 1;
            rest = &rest[n..];
        }
        pending.clear();
        self.receive.pending = pending;
        self.registers.shared.store(reg::RDH, self.receive.ring.head);
        let free = self.receive.ring.unfetched(entries) + self.receive.ring.held.len() as u32;
        let low = if free * 2 <= entries { cause::RXDMT0 } else { 0 };
        self.events.push(visible, Event::Interrupt { causes: cause::RXT0 | low });
    }

    fn take_receive_descriptors(&mut self, index: u32, count: u32, guest: &impl GuestMemory) {
        let (base, _, _) = self.registers.ring(false);
        self.receive.ring.fetching = 0;
        for i in index..index + count {
            let mut d = [0; SIZE as usize];
            if !guest.read(base.wrapping_add(u64::from(i) * SIZE), &mut d) {
                self.receive.stats.buffer_faults += 1;
            }
            let buffer = rx_buffer(&d);
            self.receive.ring.held.push_back((i, buffer));
            self.ledger.posted(buffer);
        }
    }

    fn transmit_pump(&mut self, t: Ps, memory: &mut MemorySystem) {
        if !self.registers.transmit_enabled() {
            return;
        }
        let (base, entries, _) = self.registers.ring(true);
        if let Some((index, count)) = self.transmit.ring.begin_fetch(entries) {
            self.transmit.stats.descriptor_fetches += 1;
            self.transmit.stats.descriptors_fetched += u64::from(count);
            let done = self.fetch(t, base, index, count, memory);
            let epoch = self.transmit.ring.epoch;
            self.events.push(done, Event::TxDescriptors { index, count, epoch });
        }
        while let Some(&(index, d)) = self.transmit.ring.held.front() {
            if self.transmit.reading.len() >= self.transmit.tags {
                break;
            }
            let mut done = t.max(self.last_payload);
            if let Tx::Data(data) = d.kind {
                let length = u64::from(data.length);
                if !self.transmit.has_room(length) {
                    break;
                }
                self.transmit.occupy(length);
                if length > 0 {
                    done = done.max(self.pcie.read(t, data.buffer, length, memory));
                }
            }
            self.transmit.ring.held.pop_front();
            self.last_payload = done;
            self.transmit.reading.push_back((index, d));
            let epoch = self.transmit.ring.epoch;
            self.events.push(done, Event::TxPayload { epoch });
        }
    }

    fn take_transmit_descriptors(&mut self, index: u32, count: u32, guest: &impl GuestMemory) {
        let (base, _, _) = self.registers.ring(true);
        self.transmit.ring.fetching = 0;
        for i in index..index + count {
            let mut d = [0; SIZE as usize];
            if !guest.read(base.wrapping_add(u64::from(i) * SIZE), &mut d) {
                self.transmit.stats.buffer_faults += 1;
            }
            self.transmit.ring.held.push_back((i, TxDescriptor::parse(&d)));
        }
    }

    fn payload_read(&mut self, t: Ps, memory: &mut MemorySystem, guest: &impl GuestMemory) {
        let Some((index, d)) = self.transmit.reading.pop_front() else { return };
        match d.kind {
            Tx::Context(c) => self.transmit.contexts[usize::from(c.tse)] = c,
            Tx::Data(data) => {
                if self.transmit.offload.is_none() {
                    let context = self.transmit.contexts[usize::from(data.tse)];
                    self.transmit.offload = Some(Offload { first: data, context });
                    self.transmit.carries = self.ledger.transmitted(data.buffer);
                }
                self.gather(data.buffer, data.length as usize, guest);
                if data.eop {
                    self.packet_gathered(t);
                }
            }
        }
        self.descriptor_done(t, index, &d, memory);
    }

    fn gather(&mut self, buffer: u64, length: usize, guest: &impl GuestMemory) {
        let tx = &mut self.transmit;
        let at = tx.packet.len();
        let length = length.min(offload::PACKET_MAX.saturating_sub(at));
        tx.packet.resize(at + length, 0);
        if length > 0 && !guest.read(buffer, &mut tx.packet[at..]) {
            tx.stats.buffer_faults += 1;
        }
    }

    fn packet_gathered(&mut self, t: Ps) {
        let Some(o) = self.transmit.offload.take() else { return };
        let tx = &mut self.transmit;
        let mut packet = std::mem::take(&mut tx.packet);
        let mut carries = tx.carries.take();
        // The payload's FIFO space becomes its frames'.
        tx.fifo_used = tx.fifo_used.saturating_sub(packet.len() as u64);
        let (pads, begin) = (self.registers.pads(), t + self.packet_latency);
        let (wire, line, gap) = (&mut self.wire_out, self.line, self.gap);
        let (spare, outgoing, events) = (&mut tx.spare, &mut tx.outgoing, &mut self.events);
        let mut occupied = 0;
        let sound = offload::frames(&mut packet, &o, &mut self.scratch, |frame| {
            let mut bytes = spare.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(frame);
            if pads && bytes.len() < FRAME_MIN {
                bytes.resize(FRAME_MIN, 0);
            }
            let length = bytes.len() as u64 + u64::from(FCS);
            let start = wire.reserve(begin, line.time_of(length + gap));
            events.push(start + line.time_of(length), Event::TxSent);
            occupied += bytes.len() as u64;
            outgoing.push_back(Outgoing { bytes, carries: carries.take() });
        });
        if !sound {
            tx.stats.bad_packets += 1;
            if let Some(id) = carries {
                self.ledger.moves(id, Fate::InTx, Fate::HostDrop);
            }
        }
        self.transmit.occupy(occupied);
        packet.clear();
        self.transmit.packet = packet;
    }

    fn descriptor_done(&mut self, t: Ps, index: u32, d: &TxDescriptor, memory: &mut MemorySystem) {
        let (base, entries, _) = self.registers.ring(true);
        if entries == 0 {
            return;
        }
        self.transmit.ring.head = (index + 1) % entries;
        self.registers.shared.store(reg::TDH, self.transmit.ring.head);
        self.transmit.since_report += 1;
        if !d.report {
            return;
        }
        self.transmit.report_interval = self.transmit.since_report;
        self.transmit.since_report = 0;
        self.transmit.stats.write_backs += 1;
        let address = base.wrapping_add(u64::from(index) * SIZE + 8);
        let (_, at_host) = self.pcie.write(t, address, 8);
        let when = memory.dma_write(address, 8, at_host);
        let visible = self.writes.push(when, address, &d.done());
        let empty = if self.transmit.ring.unfetched(entries) == 0 { cause::TXQE } else { 0 };
        self.events.push(visible, Event::Interrupt { causes: cause::TXDW | empty });
    }

    fn sent(&mut self, t: Ps) {
        let Some(frame) = self.transmit.outgoing.pop_front() else { return };
        let length = frame.bytes.len() as u64;
        self.transmit.fifo_used = self.transmit.fifo_used.saturating_sub(length);
        self.transmit.stats.frames += 1;
        self.transmit.stats.bytes += length + u64::from(FCS);
        self.registers.statistics.sent((length + u64::from(FCS)) as u32);
        let answer = self.sink.recognise(&frame.bytes, t + self.link_latency);
        self.ledger.returned(frame.carries, answer.map(|a| a.id));
        if frame.carries.is_some() || answer.is_some() {
            self.returned += 1;
        }
        if let Some(a) = answer {
            if self.cohort.contains(&a.id) {
                self.sink.record(a.latency);
                self.cohort_returned_bytes += length + u64::from(FCS);
            }
        }
        self.transmit.spare.push(frame.bytes);
    }

    /// What became of the cohort, of the load, and of all packets; and everything that does not balance.
    #[must_use]
    pub fn account(&self) -> (Counts, Counts, Counts, Vec<String>) {
        let s = &self.receive.stats;
        let in_flight = (self.receive.fifo.len() + self.receive.in_flight.len()) as u64;
        let model = ModelCounters {
            arrived: self.arrived,
            filtered: s.filtered,
            refused: s.refused,
            fifo_packets: in_flight,
            delivered: s.delivered,
            returned: self.returned,
        };
        (self.ledger.cohort(), self.ledger.load(), self.ledger.total(), self.ledger.audit(&model))
    }

    /// Whether the rate wanted is above what the line carries at this size.
    #[must_use]
    pub fn line_limited(&self) -> bool {
        self.generator.line_limited
    }
}
