//! One NIC on its link, with its wire: the event loop.
//!
//! Simultaneous events go in the order of their classes: what frees or fills rings first, new frames last, so that a frame
//! finds the room that was made at the same instant. Among equals, queues go in order.

mod observe;

pub use observe::{PortStats, QueueStats};

use super::blocks::dma_engine::DmaEngine;
use super::books::{Books, Bytes, Came};
use super::device::{Device, Effects, Io, Place, Polled, Store};
use super::mac::Mac;
use super::notice::{Notice, Notices};
use crate::dma::DmaWrites;
use crate::memory::{GuestMemory, MemorySystem};
use crate::params::Platform;
use crate::wire::{Cable, Kind, Packet, Timed, ANSWER, FCS, ID_BITS};
use wiretime_base::events::Event as Ordered;
use wiretime_base::{EventQueue, Ps};

/// What a port waits for.
#[derive(Clone, Copy, Debug)]
pub enum Event<E> {
    /// The device's.
    Device(E),
    /// The last bit of a frame has left.
    Sent,
    /// The last bit of a frame has come.
    Arrive,
    /// Whoever is at the far end wants to be woken.
    Wake,
    /// Packets can be pulled from now on.
    Source,
}

impl<E: Ordered> Ordered for Event<E> {
    fn class(&self) -> u8 {
        match self {
            Event::Device(e) => e.class(),
            Event::Sent => super::device::AFTER_SENT - 1,
            Event::Source => u8::MAX - 2,
            Event::Arrive => u8::MAX - 1,
            Event::Wake => u8::MAX,
        }
    }
    fn source(&self) -> u16 {
        match self {
            Event::Device(e) => e.source(),
            _ => 0,
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

/// How late something was seen.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // counts and picoseconds
pub struct Lateness {
    pub count: u64,
    pub total: Ps,
    pub max: Ps,
}

impl Lateness {
    /// So many more were late by `total` together, the worst of them by `max`.
    pub fn note(&mut self, count: u64, total: Ps, max: Ps) {
        *self = self.and(Self { count, total, max });
    }

    /// Of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { count: self.count + other.count, total: self.total + other.total, max: self.max.max(other.max) }
    }
}

/// A port as whoever drives the machine sees it, whatever its device.
pub trait Nic<G> {
    /// Writes that cores do not see yet.
    fn writes(&mut self) -> &mut DmaWrites;
    /// Writes outside guest memory, ignored as a root complex would.
    fn refused_writes(&self) -> u64;
    /// How late doorbells were seen since the measurement has begun.
    fn late(&self) -> Lateness;
    /// A measurement begins.
    fn begin_measurement(&mut self);

    /// The guest reads a BAR.
    fn read(&mut self, place: Place, data: &mut [u8]);
    /// The guest writes a BAR, trapped, now.
    fn write(&mut self, place: Place, data: &[u8]);
    /// Function-level reset.
    fn reset(&mut self);
    /// Trapped doorbells that wait for their time, to be handed on by [`Nic::store`].
    fn deferred(&mut self) -> &mut Vec<Store>;
    /// A core's store to a device page, leaving its store buffer at `t`; the transmit queue whose packets it hands over to be
    /// sent, as in [`Rung`].
    fn store(&mut self, t: Ps, store: Store, engine: &mut DmaEngine) -> Option<u16>;
    /// While nobody watches device pages: what has changed there since they were last seen, at `t`.
    fn look_at_pages(&mut self, t: Ps, engine: &mut DmaEngine);
    /// The rings that software polls now.
    fn polled(&self) -> Vec<Polled>;
    /// Level of the interrupt pin at `t`, which may be before what has been simulated.
    fn pin(&self, t: Ps) -> bool;
    /// When a message (MSI-X) is there, or the pin has another level than this one.
    fn interrupts_at(&mut self, level: bool) -> Option<Ps>;
    /// Takes a message that is there at `t`: its vector.
    fn take_message(&mut self, t: Ps) -> Option<u16>;

    /// Whether the driver has switched the device on and given it room for packets.
    fn ready(&self) -> bool;
    /// Whether what has been sent is, in part, of a program that drives the device itself.
    fn program_sends(&self) -> bool;
    /// A packet every `interval` from `t` on, to find out when the host takes packets.
    fn trickle(&mut self, t: Ps, interval: Ps);
    /// Traffic starts at `t`.
    fn start_traffic(&mut self, t: Ps, books: &mut Books);
    /// No packet leaves from `t` on.
    fn stop_traffic(&mut self, t: Ps);
    /// What the traffic is doing.
    fn phase(&self) -> Phase;
    /// The cable, and who is at its far end.
    fn cable(&self) -> &Cable;
    /// The same, to be told of another load or a trace, or asked for what has left.
    fn cable_mut(&mut self) -> &mut Cable;
    /// Frames leave the far end, where another host is: in order of time, none of them in this port's past.
    fn far_brings(&mut self, frames: Vec<Timed>);
    /// A frame to the far end is known at least so long before its first bit leaves.
    fn foresight(&self) -> Ps;

    /// Time of the next event.
    fn next_time(&self) -> Option<Ps>;
    /// Simulates up to, not including, `end`.
    fn advance(&mut self, end: Ps, host: (&mut MemorySystem, &G), engine: &mut DmaEngine, books: &mut Books);
    /// Whether nothing is under way in the NIC.
    fn idle(&self) -> bool;
    /// No core and no device asks for a time before `t` any more.
    fn reached(&mut self, t: Ps);

    /// Core `core` reads the entry at `offset` bytes from the start of a ring that is polled, at `t`.
    fn polls(&mut self, core: u16, ring: &Polled, offset: u64, t: Ps, books: &mut Books);
    /// Timeline and transfers of this time are wanted.
    fn start_timeline(&mut self, window: std::ops::Range<Ps>, books: &mut Books);
    /// Queues to tell apart: those that were asked for, and those behind them that are on (a kernel takes one a core).
    fn queues_on(&self, asked: usize) -> usize;
    /// Counters; `queues` of them by queue, or as many as are on.
    fn stats(&self, queues: usize, engine: &DmaEngine, books: &Books) -> PortStats;
    /// Bytes in the RX FIFO; descriptors left, filled and unread, and posted for transmission, over all queues.
    fn occupancy(&self, books: &Books) -> [u64; 4];
    /// Everything of this port that does not balance.
    fn audit(&self, books: &Books) -> Vec<String>;
}

/// A device with its wire. Its card's engine, which other ports may share, is lent to it.
pub struct Port<D: Device> {
    /// The device.
    pub device: D,
    index: usize,
    mac: Mac,
    writes: DmaWrites,
    events: EventQueue<Event<D::Event>>,
    told: Notices,
    deferred: Vec<Store>,
    /// Resets of the device.
    life: u32,
    rung: Vec<D::Event>,
    late: Lateness,
    packet_latency: Ps,
    now: Ps,
    phase: Phase,
    stop_at: Ps,
    /// When the packet that leaves next arrives: other arrivals are void.
    armed: Ps,
    /// When whoever is at the far end wants to be woken: other wake-ups are void.
    wake_at: Ps,
    /// Arrivals and wake-ups among the events, void ones included.
    arrivals: usize,
}

/// What a device may do at a register access: borrows of a port's parts.
macro_rules! effects {
    ($port:ident) => {
        Effects {
            now: $port.now,
            events: &mut $port.events,
            writes: &mut $port.writes,
            told: &mut $port.told,
            deferred: &mut $port.deferred,
            life: &mut $port.life,
        }
    };
}

/// What it may do at an event.
macro_rules! io {
    ($port:ident, $engine:ident, $memory:ident, $guest:ident) => {
        &mut Io {
            effects: effects!($port),
            device: $port.index as u16,
            engine: $engine,
            memory: $memory,
            guest: $guest,
            mac: &mut $port.mac,
        }
    };
}

impl Bytes for Mac {
    fn of(&mut self, packet: &Packet) -> &[u8] {
        self.cable.peek(packet)
    }
    fn leaving(&mut self) -> &[u8] {
        self.told()
    }
}

impl<D: Device> Port<D> {
    /// Port number `index` of this platform.
    #[must_use]
    pub fn new(p: &Platform, index: usize, device: D, cable: Cable) -> Self {
        Self {
            index,
            mac: Mac::new(p.port(index).link, cable),
            writes: DmaWrites::default(),
            events: EventQueue::default(),
            told: Notices::default(),
            deferred: Vec::new(),
            life: 0,
            rung: Vec::new(),
            late: Lateness::default(),
            packet_latency: p.port(index).nic.packet_latency.ps(),
            now: Ps::ZERO,
            phase: Phase::Quiet,
            stop_at: Ps::MAX,
            armed: Ps::MAX,
            wake_at: Ps::MAX,
            arrivals: 0,
            device,
        }
    }

    fn begin(&mut self) {
        self.phase = Phase::Running;
        self.schedule();
    }

    /// The packet that leaves next arrives when its last bit does.
    fn schedule(&mut self) {
        let wake = self.mac.cable.wakes();
        if wake != self.wake_at {
            self.wake_at = wake;
            if wake != Ps::MAX {
                self.arrivals += 1;
                self.events.push(wake.max(self.now), Event::Wake);
            }
        }
        let next = self.mac.cable.next();
        if next.departed == Ps::MAX {
            self.armed = Ps::MAX;
            return;
        }
        let arrives = self.mac.arrival(next.departed, next.length).max(self.now);
        if self.armed == arrives {
            return; // it is waiting
        }
        self.armed = arrives;
        self.arrivals += 1;
        self.events.push(self.armed, Event::Arrive);
    }

    /// What has been told goes into the books.
    #[inline]
    fn hear(&mut self, books: &mut Books) {
        if !self.told.list.is_empty() {
            self.hear_all(books);
        }
    }

    fn hear_all(&mut self, books: &mut Books) {
        for (t, notice) in &self.told.list {
            books.hear(self.index, *t, notice, &mut self.mac);
            match notice {
                // The books may have looked at it.
                Notice::Refused { packet, why, .. } if why.stored => self.mac.cable.refused(packet),
                _ => {}
            }
        }
        self.told.list.clear();
    }

    fn arrive<G: GuestMemory>(
        &mut self,
        t: Ps,
        (memory, guest): (&mut MemorySystem, &G),
        engine: &mut DmaEngine,
        books: &mut Books,
    ) {
        let packet = self.mac.cable.next();
        if packet.departed >= self.stop_at && packet.kind != Kind::Answer {
            return;
        }
        self.mac.cable.advance(t);
        self.schedule();
        debug_assert!((packet.id >> ID_BITS & !ANSWER) as usize == self.index, "the port's number is in its packets'");
        books.offered(self.index, &packet, t);
        if books.sink.wants_packets() && packet.kind != Kind::Answer {
            books.shows(packet.id, self.mac.cable.peek(&packet));
        }
        let kept = self.device.frame(&packet, io!(self, engine, memory, guest));
        self.hear(books);
        if !kept {
            self.mac.cable.refused(&packet);
        }
    }

    fn sent<G: GuestMemory>(
        &mut self,
        t: Ps,
        (memory, guest): (&mut MemorySystem, &G),
        engine: &mut DmaEngine,
        books: &mut Books,
    ) {
        let Some(frame) = self.mac.sent() else { return };
        let on_wire = frame.bytes.len() as u64 + u64::from(FCS);
        let at = t + self.mac.latency;
        let cable = &mut self.mac.cable;
        let heard = cable.heard(&frame.bytes, at);
        let carried = books.ports[self.index].left();
        let changed = match books.returns(&frame.bytes, on_wire, carried, at) {
            Came::Answer(port, id) if port == self.index => cable.returned(id, at),
            Came::Answer(port, id) => {
                books.post(port, id, at);
                false
            }
            Came::Other => false,
            Came::Unasked => cable.asked(&frame.bytes, at),
        };
        if changed || heard {
            self.schedule();
        }
        let of = frame.of;
        self.mac.recycle(frame);
        if of.life == self.life {
            self.device.sent(of.queue, on_wire as u32, io!(self, engine, memory, guest));
        }
        self.hear(books);
    }

    /// What was stored at `t` comes over the link.
    fn post(&mut self, t: Ps, event: D::Event, engine: &mut DmaEngine) {
        let due = engine.register_write(t, self.index as u16);
        let arrives = due.max(self.now);
        // The device has been simulated past it: only where windows are longer than the lookahead.
        if arrives > due {
            self.late.note(1, arrives - due, arrives - due);
        }
        self.events.push(arrives, Event::Device(event));
    }
}

impl<D: Device, G: GuestMemory> Nic<G> for Port<D> {
    fn writes(&mut self) -> &mut DmaWrites {
        &mut self.writes
    }
    fn refused_writes(&self) -> u64 {
        self.writes.refused
    }
    fn late(&self) -> Lateness {
        self.late
    }
    fn begin_measurement(&mut self) {
        self.late = Lateness::default();
    }

    fn read(&mut self, place: Place, data: &mut [u8]) {
        self.device.read(place, data, self.now);
    }
    fn write(&mut self, place: Place, data: &[u8]) {
        self.device.write(place, data, &mut effects!(self));
    }
    fn reset(&mut self) {
        self.device.reset(&mut effects!(self));
    }
    fn deferred(&mut self) -> &mut Vec<Store> {
        &mut self.deferred
    }
    fn store(&mut self, t: Ps, store: Store, engine: &mut DmaEngine) -> Option<u16> {
        let rung = self.device.doorbell(store, &mut effects!(self))?;
        self.post(t, rung.event, engine);
        rung.sends
    }
    fn look_at_pages(&mut self, t: Ps, engine: &mut DmaEngine) {
        let mut rung = std::mem::take(&mut self.rung);
        self.device.look_at_pages(&mut effects!(self), &mut rung);
        rung.drain(..).for_each(|event| self.post(t, event, engine));
        self.rung = rung;
    }
    fn polled(&self) -> Vec<Polled> {
        self.device.polled()
    }
    fn pin(&self, t: Ps) -> bool {
        self.device.pin(t)
    }
    fn interrupts_at(&mut self, level: bool) -> Option<Ps> {
        self.device.interrupts_at(level)
    }
    fn take_message(&mut self, t: Ps) -> Option<u16> {
        self.device.take_message(t)
    }

    fn ready(&self) -> bool {
        self.device.ready()
    }
    fn program_sends(&self) -> bool {
        self.device.program_sends()
    }
    fn trickle(&mut self, t: Ps, interval: Ps) {
        self.mac.cable.trickle_at(t, interval);
        self.begin();
    }
    fn start_traffic(&mut self, t: Ps, books: &mut Books) {
        self.device.traffic_starts(&mut effects!(self));
        self.hear(books);
        books.ports[self.index].watched();
        self.mac.cable.start_at(t);
        books.ledger.load_begins(self.mac.cable.next_id());
        if self.mac.cable.pulled {
            self.events.push(t.max(self.now), Event::Source);
        }
        self.begin();
    }
    fn stop_traffic(&mut self, t: Ps) {
        self.stop_at = t;
        self.phase = Phase::Stopped;
        self.mac.cable.finish(t);
        self.schedule();
    }
    fn phase(&self) -> Phase {
        self.phase
    }
    fn cable(&self) -> &Cable {
        &self.mac.cable
    }
    fn cable_mut(&mut self) -> &mut Cable {
        &mut self.mac.cable
    }
    fn far_brings(&mut self, frames: Vec<Timed>) {
        self.mac.cable.far_brings(frames);
        self.schedule();
    }
    fn foresight(&self) -> Ps {
        self.packet_latency
    }

    fn next_time(&self) -> Option<Ps> {
        self.events.next_time()
    }

    fn advance(
        &mut self,
        end: Ps,
        (memory, guest): (&mut MemorySystem, &G),
        engine: &mut DmaEngine,
        books: &mut Books,
    ) {
        self.hear(books);
        let (cable, mut changed) = (&mut self.mac.cable, false);
        books.take_mail(self.index, |id, t| changed |= cable.returned(id, t));
        if changed {
            self.schedule();
        }
        while let Some((t, event)) = self.events.pop_before(end) {
            self.now = t;
            match event {
                Event::Device(event) => {
                    self.device.event(event, io!(self, engine, memory, guest));
                    self.hear(books);
                }
                Event::Sent => self.sent(t, (memory, guest), engine, books),
                Event::Arrive if t == self.armed => {
                    self.arrivals -= 1;
                    self.armed = Ps::MAX;
                    self.arrive(t, (memory, guest), engine, books);
                }
                Event::Arrive => self.arrivals -= 1,
                Event::Source => {
                    self.device.source(io!(self, engine, memory, guest));
                    self.hear(books);
                }
                Event::Wake => {
                    self.arrivals -= 1;
                    if t >= self.wake_at {
                        self.wake_at = Ps::MAX;
                        self.mac.cable.work(t);
                        self.schedule();
                    }
                }
            }
        }
        self.now = self.now.max(end);
    }

    fn idle(&self) -> bool {
        self.events.len() == self.arrivals && !self.mac.cable.busy()
    }

    fn reached(&mut self, t: Ps) {
        self.mac.reached(t);
    }

    fn polls(&mut self, core: u16, ring: &Polled, offset: u64, t: Ps, books: &mut Books) {
        self.hear(books);
        books.polled(self.index, core, ring.entry_at(offset), t);
    }

    fn start_timeline(&mut self, window: std::ops::Range<Ps>, books: &mut Books) {
        books.ports[self.index].timeline.start(window.clone());
        self.told.transfers = window;
    }

    fn queues_on(&self, asked: usize) -> usize {
        self.on(asked)
    }
    fn stats(&self, queues: usize, engine: &DmaEngine, books: &Books) -> PortStats {
        self.counters(queues, engine, books)
    }
    fn occupancy(&self, books: &Books) -> [u64; 4] {
        self.fill(books)
    }
    fn audit(&self, books: &Books) -> Vec<String> {
        self.balance(books)
    }
}
