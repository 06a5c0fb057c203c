//! One NIC on its link, with the generator and the sink at the other end of the wire: the event loop.
//!
//! Simultaneous events go in the order of [`Event`]'s variants: what frees or fills rings first, new frames last, so
//! that a frame finds the room that was made at the same instant.

mod receiving;
mod transmitting;

use super::e1000::descriptors::SIZE;
use super::e1000::{reg, Action, Registers, SharedRegisters};
use super::ledger::{Counts, Ledger, ModelCounters};
use super::moderation::{Moderation, Side, Verdict};
use super::receive::{Receive, ReceiveStats};
use super::transmit::{Transmit, TransmitStats};
use crate::dma::DmaWrites;
use crate::io::{Io, IoStats};
use crate::memory::{GuestMemory, MemorySystem, Object};
use crate::params::Platform;
use crate::wire::{Generator, Sink};
use wiretime_base::events::Event as Ordered;
use wiretime_base::{BitRate, Calendar, EventQueue, Ps};

const WIRE_WINDOW: Ps = 20_000_000;

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
    Timer { side: Side, epoch: u32 },
    Throttle { epoch: u32 },
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
            Event::Timer { .. } => 8,
            Event::Throttle { .. } => 9,
            Event::Arrive { .. } => 10,
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
    pub io: IoStats,
}

/// How late something was seen.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // counts and picoseconds
pub struct Lateness {
    pub count: u64,
    pub total: Ps,
    pub max: Ps,
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
    /// How late doorbells were seen.
    pub late: Lateness,
    /// Tail registers written by trapped accesses, to be handed on by [`Port::doorbell`].
    pub trapped_tails: Vec<(u64, u32)>,
    generator: Generator,
    receive: Receive,
    transmit: Transmit,
    io: Io,
    events: EventQueue<Event>,
    moderation: Moderation,
    /// Resets so far: timers of an earlier life are void.
    life: u32,
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
            late: Lateness::default(),
            trapped_tails: Vec::new(),
            generator,
            receive: Receive::new(&p.nic),
            transmit: Transmit::new(&p.nic),
            io: Io::new(p),
            events: EventQueue::default(),
            moderation: Moderation::default(),
            life: 0,
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
        PortStats { receive: self.receive.stats.clone(), transmit: self.transmit.stats.clone(), io: self.io.stats() }
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
        let due = self.io.register_write(t);
        let arrives = due.max(self.now);
        // The device has been simulated past it: only where windows are longer than the lookahead.
        self.late.count += 1;
        self.late.total += arrives - due;
        self.late.max = self.late.max.max(arrives - due);
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
                self.moderation.reset();
                self.life = self.life.wrapping_add(1);
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
                Event::Interrupt { causes } => self.interrupt(t, causes),
                Event::Timer { side, epoch } if epoch == self.life => {
                    let causes = self.moderation.expired(side, t);
                    self.interrupt(t, causes);
                }
                Event::Throttle { epoch } if epoch == self.life => self.interrupt(t, 0),
                Event::Arrive { id, start } if start == self.traffic_start => self.arrive(t, id, memory),
                _ => {} // of an earlier life of the device
            }
        }
        self.now = self.now.max(end);
    }

    /// A completed packet's causes: at once, or by its side's timers.
    fn completed(&mut self, t: Ps, side: Side, causes: u32, delayed: bool) {
        let delays = self.registers.delays(side == Side::Transmit);
        if !delayed || delays.packet & 0xffff == 0 {
            self.events.push(t, Event::Interrupt { causes });
            return;
        }
        let due = self.moderation.packet(side, t, causes, delays);
        self.events.push(due, Event::Timer { side, epoch: self.life });
    }

    /// Causes become an interrupt now, or when the throttle lets them.
    fn interrupt(&mut self, t: Ps, causes: u32) {
        match self.moderation.raise(t, causes, self.registers.throttle()) {
            Verdict::Raise(causes) => self.registers.raise(causes),
            Verdict::Wait(until) => self.events.push(until, Event::Throttle { epoch: self.life }),
            Verdict::Nothing => {}
        }
    }

    /// Reads descriptors; returns when they are here.
    fn fetch(&mut self, t: Ps, base: u64, index: u32, count: u32, memory: &mut MemorySystem) -> Ps {
        let address = base.wrapping_add(u64::from(index) * SIZE);
        let length = u64::from(count) * SIZE;
        memory.objects.mark(address, length, Object::Descriptor);
        self.io.read(t, address, length, memory)
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
