//! One NIC on its link, with the generator and the sink at the other end of the wire: the event loop.
//!
//! Simultaneous events go in the order of [`Event`]'s variants: what frees or fills rings first, new frames last, so
//! that a frame finds the room that was made at the same instant. Among equals, queues go in order.

mod observe;
mod receiving;
mod switching;
mod transmitting;

use super::controller::{Controller, InterruptCause, Side, DESCRIPTOR, QUEUES_MAX};
use super::drops::DropClasses;
use super::engine::{DmaEngine, Purpose};
use super::moderation::{InterruptAction, Moderation};
use super::receive::Receive;
use super::shared::Shared;
use super::trace::{Tracer, What};
use super::transmit::Transmit;
use crate::dma::{DmaWrites, Stream};
use crate::memory::{GuestMemory, MemorySystem, Object};
use crate::params::Platform;
use crate::wire::{Generator, Load, Source, Tap, Timed, ANSWER, ID_BITS};
use wiretime_base::events::Event as Ordered;
use wiretime_base::{BitRate, Calendar, EventQueue, Ps};

pub use observe::{PortStats, QueueStats};

/// How often what is over is forgotten.
const FORGET_EVERY: Ps = 1_000_000;

#[derive(Clone, Copy, Debug)]
enum Event {
    Doorbell { side: Side, queue: u16, value: u32 },
    RxDescriptors { queue: u16, index: u32, count: u32, epoch: u32 },
    RxNext { life: u32 },
    RxSent { life: u32 },
    WriteBack { queue: u16, life: u32 },
    TxDescriptors { queue: u16, index: u32, count: u32, epoch: u32 },
    TxPayload { life: u32 },
    TxSent,
    Interrupt { vector: u8, causes: u32 },
    Timer { side: Side, life: u32 },
    Throttle { vector: u8, life: u32 },
    Arrive,
    Wake,
}

impl Ordered for Event {
    fn class(&self) -> u8 {
        match self {
            Event::Doorbell { .. } => 0,
            Event::RxDescriptors { .. } => 1,
            Event::RxNext { .. } => 2,
            Event::RxSent { .. } => 3,
            Event::WriteBack { .. } => 4,
            Event::TxDescriptors { .. } => 5,
            Event::TxPayload { .. } => 6,
            Event::TxSent => 7,
            Event::Interrupt { .. } => 8,
            Event::Timer { .. } => 9,
            Event::Throttle { .. } => 10,
            Event::Arrive => 11,
            Event::Wake => 12,
        }
    }
    fn source(&self) -> u16 {
        match self {
            Event::Doorbell { queue, .. }
            | Event::RxDescriptors { queue, .. }
            | Event::WriteBack { queue, .. }
            | Event::TxDescriptors { queue, .. } => *queue,
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

/// The stream of a queue's DMA writes.
fn stream(side: Side, queue: u16) -> Stream {
    side as u8 * QUEUES_MAX as u8 + queue as u8
}

/// A NIC port with its peer.
pub struct Port<C> {
    /// The register interface.
    pub registers: C,
    /// DMA writes that cores do not see yet.
    pub writes: DmaWrites,
    /// How late doorbells were seen.
    pub late: Lateness,
    /// Tail registers written by trapped accesses, to be handed on by [`Port::doorbell`].
    pub trapped_tails: Vec<(u64, u32)>,
    /// The timeline, where one is wanted.
    pub trace: Tracer,
    /// What passes on the wire, where a capture is wanted.
    pub tap: Tap,
    index: usize,
    generator: Generator,
    receive: Receive,
    transmit: Transmit,
    engine: DmaEngine,
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
    forgotten: Ps,
    phase: Phase,
    stop_at: Ps,
    last_payload: Ps,
    /// When the packet that leaves next arrives: other arrivals are void.
    armed: Ps,
    /// When the generator's client wants to be woken: other wake-ups are void.
    wake_at: Ps,
    /// Arrivals and wake-ups among the events, void ones included.
    arrivals: usize,
    /// When the NIC last refused a packet.
    last_drop: Ps,
    /// Tails as last seen, and queues that are on, a bit each, by side.
    seen_tails: [Vec<u32>; 2],
    enabled: [u64; 2],
    /// The device has lost packets by a reset that the ledger does not know of yet.
    lost: bool,
    arrived: u64,
    scratch: Vec<u8>,
}

impl<C: Controller> Port<C> {
    /// Port number `index` of this platform.
    #[must_use]
    pub fn new(p: &Platform, index: usize, registers: C, mut generator: Generator, classes: DropClasses) -> Self {
        generator.set_cable(p.link.latency.ps());
        let queues = registers.queues();
        Self {
            writes: DmaWrites::default(),
            late: Lateness::default(),
            trapped_tails: Vec::new(),
            trace: Tracer::default(),
            tap: Tap::default(),
            index,
            generator,
            receive: Receive::new(&p.nic, queues, classes),
            transmit: Transmit::new(&p.nic, queues),
            engine: DmaEngine::new(p),
            events: EventQueue::default(),
            moderation: Moderation::default(),
            life: 0,
            wire_out: Calendar::default(),
            line: p.link.rate,
            gap: p.link.gap_bytes.into(),
            link_latency: p.link.latency.ps(),
            packet_latency: p.nic.packet_latency.ps(),
            now: 0,
            forgotten: 0,
            phase: Phase::Quiet,
            stop_at: Ps::MAX,
            last_payload: 0,
            armed: Ps::MAX,
            wake_at: Ps::MAX,
            arrivals: 0,
            last_drop: 0,
            seen_tails: [vec![0; queues], vec![0; queues]],
            enabled: [0; 2],
            lost: false,
            arrived: 0,
            scratch: Vec::with_capacity(1 << 14),
            registers,
        }
    }

    /// Whether the driver has switched the receive unit on and filled a ring.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.registers.receive_enabled()
            && (0..self.registers.queues() as u16).any(|q| {
                let r = self.registers.ring(Side::Receive, q);
                let tail = self.registers.tail(Side::Receive, q);
                let head = self.receive.queues[usize::from(q)].ring.head;
                r.enabled && r.entries > 0 && tail % r.entries != head % r.entries
            })
    }

    /// A packet every `interval` from `t` on, to find out when the host takes packets.
    pub fn trickle(&mut self, t: Ps, interval: Ps) {
        self.generator.trickle_at(t, interval);
        self.begin();
    }

    /// Traffic starts at `t`.
    pub fn start_traffic(&mut self, t: Ps, shared: &mut Shared) {
        self.generator.start_at(t);
        shared.ledger.load_begins(self.generator.next_id());
        self.begin();
    }

    /// Another load, from the next start of traffic on.
    ///
    /// # Errors
    /// Where it is refused; the load in force then stays.
    pub fn change_load(&mut self, load: &Load) -> Result<(), String> {
        self.generator.change(load)
    }

    /// Where a trace comes from, for loads that play one.
    pub fn set_source(&mut self, source: Box<dyn Source>) {
        self.generator.set_source(source);
    }

    /// Frames leave the far end of the wire, where there is one: in order of time, none of them in this port's past.
    pub fn far_brings(&mut self, frames: impl Iterator<Item = Timed>) {
        self.generator.far_brings(frames);
        self.schedule();
    }

    /// Frames on their way to the far end.
    pub fn to_far(&mut self) -> impl Iterator<Item = Timed> + '_ {
        self.generator.to_far()
    }

    /// A frame to the far end is known at least so long before its first bit leaves.
    #[must_use]
    pub fn foresight(&self) -> Ps {
        self.packet_latency
    }

    /// Whether the load has nothing left to send.
    #[must_use]
    pub fn exhausted(&self) -> bool {
        self.generator.exhausted()
    }

    fn begin(&mut self) {
        self.phase = Phase::Running;
        self.schedule();
    }

    /// The packet that leaves next arrives when its last bit does.
    fn schedule(&mut self) {
        let wake = self.generator.wakes();
        if wake != self.wake_at {
            self.wake_at = wake;
            if wake != Ps::MAX {
                self.arrivals += 1;
                self.events.push(wake.max(self.now), Event::Wake);
            }
        }
        let next = self.generator.next();
        if next.departed == Ps::MAX {
            self.armed = Ps::MAX;
            return;
        }
        let arrives = next.departed.saturating_add(self.line.time_of(next.length.into()) + self.link_latency);
        let arrives = arrives.max(self.now);
        if self.armed == arrives {
            return; // it is waiting
        }
        self.armed = arrives;
        self.arrivals += 1;
        self.events.push(self.armed, Event::Arrive);
    }

    /// No packet leaves from `t` on.
    pub fn stop_traffic(&mut self, t: Ps) {
        self.stop_at = t;
        self.phase = Phase::Stopped;
        self.generator.finish(t);
        self.schedule();
    }

    /// What the traffic is doing.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether nothing is under way in the NIC.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.events.len() == self.arrivals && !self.generator.busy()
    }

    /// Time of the next event.
    #[must_use]
    pub fn next_time(&self) -> Option<Ps> {
        self.events.next_time()
    }

    /// Simulates up to, not including, `end`.
    pub fn advance(&mut self, end: Ps, memory: &mut MemorySystem, guest: &impl GuestMemory, shared: &mut Shared) {
        if std::mem::take(&mut self.lost) {
            shared.ledger.reset(self.index);
        }
        let (generator, mut changed) = (&mut self.generator, false);
        shared.take_mail(self.index, |id, t| changed |= generator.returned(id, t));
        if changed {
            self.schedule();
        }
        while let Some((t, event)) = self.events.pop_before(end) {
            self.now = t;
            match event {
                Event::Doorbell { side: Side::Receive, queue, value } => self.receive_doorbell(t, queue, value, memory),
                Event::Doorbell { queue, value, .. } => self.transmit_doorbell(t, queue, value, memory, shared),
                Event::RxDescriptors { queue, index, count, epoch } => {
                    self.take_receive_descriptors(queue, (index, count), epoch, guest, shared);
                    self.receive_pump(t, memory, shared);
                }
                Event::RxNext { life } if life == self.receive.life => {
                    self.receive.sending = false;
                    self.receive_pump(t, memory, shared);
                }
                Event::RxSent { life } if life == self.receive.life => self.receive_sent(t, memory, shared),
                Event::WriteBack { queue, life } if life == self.receive.life => {
                    self.receive.queues[usize::from(queue)].timer = false;
                    self.write_back(t, queue, memory, shared);
                }
                Event::TxDescriptors { queue, index, count, epoch } => {
                    self.take_transmit_descriptors(queue, (index, count), epoch, guest);
                    self.transmit_pump(t, memory);
                }
                Event::TxPayload { life } if life == self.life => {
                    self.payload_read(t, memory, guest, shared);
                    self.transmit_pump(t, memory);
                }
                Event::TxSent => {
                    self.sent(t, shared);
                    self.transmit_pump(t, memory);
                }
                Event::Interrupt { vector, causes } => self.interrupt(t, vector, causes),
                Event::Timer { side, life } if life == self.life => {
                    let causes = self.moderation.expired(side, t);
                    self.interrupt(t, 0, causes);
                }
                Event::Throttle { vector, life } if life == self.life => self.interrupt(t, vector, 0),
                Event::Arrive if t == self.armed => {
                    self.arrivals -= 1;
                    self.armed = Ps::MAX;
                    self.arrive(t, memory, shared);
                }
                Event::Arrive => self.arrivals -= 1,
                Event::Wake => {
                    self.arrivals -= 1;
                    if t >= self.wake_at {
                        self.wake_at = Ps::MAX;
                        self.generator.work(t);
                        self.schedule();
                    }
                }
                _ => {} // of an earlier life of the device
            }
        }
        self.now = self.now.max(end);
    }

    /// No core and no device asks for a time before `t` any more.
    pub fn reached(&mut self, t: Ps) {
        if t >= self.forgotten + FORGET_EVERY {
            self.forgotten = t;
            self.wire_out.reached(t);
            self.engine.reached(t);
        }
    }

    /// A core's store to a tail register, leaving its store buffer at `t`.
    pub fn doorbell(&mut self, t: Ps, offset: u64, value: u32) {
        if let Some((side, queue)) = self.registers.tail_at(offset) {
            self.post(t, side, queue, value);
        }
    }

    fn post(&mut self, t: Ps, side: Side, queue: u16, value: u32) {
        self.seen_tails[side as usize][usize::from(queue)] = value;
        self.registers.set_tail(side, queue, value);
        let due = self.engine.register_write(t);
        let arrives = due.max(self.now);
        // The device has been simulated past it: only where windows are longer than the lookahead.
        self.late.count += 1;
        self.late.total += arrives - due;
        self.late.max = self.late.max.max(arrives - due);
        self.events.push(arrives, Event::Doorbell { side, queue, value });
    }

    /// A completed packet's cause: at once, or by its direction's timers.
    fn completed(&mut self, t: Ps, side: Side, cause: InterruptCause, delayed: bool) {
        let (vector, causes) = self.registers.vector(cause);
        if causes == 0 {
            return;
        }
        let delays = self.registers.delays(side);
        if !delayed || delays.packet & 0xffff == 0 {
            self.events.push(t, Event::Interrupt { vector, causes });
            return;
        }
        let due = self.moderation.packet(side, t, causes, delays);
        self.events.push(due, Event::Timer { side, life: self.life });
    }

    /// Causes become an interrupt now, or when the throttle lets them.
    fn interrupt(&mut self, t: Ps, vector: u8, causes: u32) {
        match self.moderation.raise(t, vector, causes, self.registers.throttle(vector)) {
            InterruptAction::Raise(causes) => {
                self.trace.note(t, What::Interrupt { vector });
                self.registers.raise(vector, causes);
            }
            InterruptAction::Wait(until) => self.events.push(until, Event::Throttle { vector, life: self.life }),
            InterruptAction::Nothing => {}
        }
    }

    /// Reads descriptors; returns when they are here.
    fn fetch(&mut self, t: Ps, queue: u16, base: u64, (index, count): (u32, u32), memory: &mut MemorySystem) -> Ps {
        let address = base.wrapping_add(u64::from(index) * DESCRIPTOR);
        let length = u64::from(count) * DESCRIPTOR;
        memory.objects.mark(address, length, Object::Descriptor);
        self.engine.read(t, address, length, Purpose { queue, descriptors: true }, memory)
    }

    /// The generator's number in a packet's.
    fn is_ours(&self, id: u64) -> bool {
        (id >> ID_BITS & !ANSWER) as usize == self.index
    }
}
