//! Xilinx QDMA: queues of streams between host and user logic, by descriptor rings each way and completion rings (PG302,
//! PG347; `CPM5` in a Versal, and the soft IP).
//!
//! - `registers`, `contexts`: what a driver sees; `ring`: descriptors into the device; `completions`: entries back.
//! - `c2h`: streams to the host; `h2c`: streams from the host; `generator`: the reference design's user logic.
//! - `mapped`: between memories; `report`: what is told of descriptors; `requests`: reads under way; `interrupts`.
//!
//! Everything that it asks of memory goes through one requester interface, where data, reads, descriptors and completions have
//! turns: on a fast link that interface is what binds.
//!
//! Left out: virtual functions, bypass; that the card holds a few hundred descriptors of all queues together (512 prefetched of at
//! most 64 queues, PG302): each queue here holds as many as are asked for, so that beyond 64 queues it is better than the card.
//! A queue is one between memories as its context says; it carries no packets.

mod c2h;
mod completions;
mod configure;
mod contexts;
mod generator;
mod h2c;
mod interrupts;
mod mapped;
mod registers;
mod report;
mod requests;
mod ring;

use super::super::blocks::fifo::ByteFifo;
use super::super::blocks::requester::{Form, RequesterInterface};
use super::super::blocks::round_robin::RoundRobin;
use super::super::device::{Device, Effects, Io, Place, Polled, Rung, Store, AFTER_SENT};
use super::super::notice::Notice;
use super::super::pages::{DevicePages, SharedRegisters};
use super::super::stats::{ReceiveStats, RxQueueStats, TransmitStats, TxQueueStats};
use crate::memory::GuestMemory;
use crate::params::{self, Platform, UserLogic};
use crate::pci::{Bar, Identity, Msix};
use crate::requester::{Moves, Purpose, Side};
use crate::wire::Packet;
use c2h::{Stored, Writing};
use completions::{Coalescing, CompletionRing, Follows};
use contexts::Completion;
use generator::Generator;
use h2c::{Asking, Descriptor};
use interrupts::InterruptEngine;
use mapped::MappedEngine;
use registers::{bell, Bell, Registers};
use report::Report;
use requests::Requests;
use ring::{DescriptorRing, Fetch};
use std::collections::VecDeque;
use wiretime_base::events::Event as Ordered;
use wiretime_base::{Clock, Cycles, Ps};

/// The pages that guest and device share as memory.
#[must_use]
pub fn shared_pages() -> DevicePages {
    DevicePages::of_words(0, registers::SHARED)
}

/// How physical function 0 of a Versal's looks on the bus: digits of its device number are the function, the link's
/// generation, and its lanes (Xilinx's drivers: Gen3 x16 is 0xb03f, Gen5 x8 is 0xb058). Of Gen4 on
/// they know none with sixteen lanes, so that a design with them has the number of eight.
#[must_use]
pub fn identity((generation, lanes): (u32, u32)) -> Identity {
    let known = if generation <= 3 { 15 } else { 8 };
    let device = 0xb000 | generation.min(5) << 4 | lanes.min(known);
    Identity {
        vendor: 0x10ee,
        device: device as u16,
        class: 0x02_0000,
        bars: vec![Bar::wide(0, registers::CONFIG_SIZE), Bar::wide(2, registers::USER_SIZE)],
        msix: Some(Msix {
            vectors: registers::VECTORS,
            bar: 0,
            table: registers::MSIX_TABLE,
            pending: registers::MSIX_PENDING,
        }),
        express: true,
        ..Identity::default()
    }
}

/// What it waits for.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the fields: names say it
pub enum Due {
    /// A doorbell arrives.
    Doorbell {
        bell: Bell,
        queue: u16,
        value: u32,
    },
    /// Descriptors are here, of a queue of streams or of one between memories.
    Descriptors {
        side: Side,
        queue: u16,
        fetch: Fetch,
        mapped: bool,
    },
    /// What a descriptor from the host points to is here; the same between memories.
    Answered,
    Arrived,
    /// A packet of the generator is whole.
    Generated,
    /// The generator can begin another.
    Generate,
    /// A completion ring's timer ends.
    Timer {
        queue: u16,
        epoch: u32,
        number: u32,
    },
    /// An interrupt's message is to be sent.
    Message {
        vector: u16,
    },
    /// The requester interface can take a request.
    Request,
}

impl Ordered for Due {
    fn class(&self) -> u8 {
        match self {
            Due::Doorbell { .. } => 0,
            Due::Descriptors { .. } => 1,
            Due::Answered => 2,
            Due::Generated => 3,
            Due::Generate => 4,
            Due::Timer { .. } => 5,
            Due::Arrived => 6,
            Due::Message { .. } => 7,
            // Last: it chooses among all that is there.
            Due::Request => AFTER_SENT,
        }
    }
    fn source(&self) -> u16 {
        match self {
            Due::Doorbell { queue, .. } | Due::Descriptors { queue, .. } | Due::Timer { queue, .. } => *queue,
            _ => 0,
        }
    }
}

/// A queue to the host.
#[derive(Debug, Default)]
struct C2hQueue {
    ring: DescriptorRing<u64>,
    /// Bytes of a buffer; 0: it takes none.
    buffer: u32,
    prefetches: bool,
    /// Its packet at the buffer's head found no descriptors posted, while the buffer had been drained so often.
    starved: Option<u32>,
    /// Descriptors that packets in the buffer are going to take.
    wanted: u32,
    delivered: u64,
    /// No descriptor comes before an earlier one.
    last: Ps,
}

/// A queue from the host.
#[derive(Debug, Default)]
struct H2cQueue {
    ring: DescriptorRing<Descriptor>,
    report: Report,
    /// The packet that is being gathered.
    packet: Vec<u8>,
    sent: u64,
    epoch: u32,
    last: Ps,
}

/// Who wants the requester interface: turns go round.
const SOURCES: [Source; 5] = [Source::Payload, Source::Reads, Source::Descriptors, Source::Completions, Source::Mapped];

#[derive(Clone, Copy, Debug)]
enum Source {
    Payload,
    Reads,
    Descriptors,
    Completions,
    Mapped,
}

/// A status that is to be written.
#[derive(Clone, Copy, Debug)]
enum Status {
    /// Of a queue's completion ring.
    Completions(u16),
    /// Of a ring of descriptors.
    Ring(Side, u16),
    /// The next entry of an interrupt ring.
    Interrupts(u16),
}

/// See the module.
pub struct Qdma<S> {
    registers: Registers<S>,
    user_logic: UserLogic,
    drops: bool,
    user_clock: Clock,
    packet_latency: Ps,
    max_payload: u32,
    max_read: u32,
    tags: u32,
    descriptors: u32,
    /// Reads of descriptors of a queue to the host that are under way at a time; from when on the engine can ask for more.
    prefetch_reads: u32,
    fetch_time: Ps,
    fetches: Ps,
    requester: RequesterInterface,
    /// Whose turn it is; when the interface is looked at next.
    turn: usize,
    looks: Ps,
    c2h: Vec<C2hQueue>,
    h2c: Vec<H2cQueue>,
    rings: Vec<CompletionRing>,
    /// Queues and directions that want descriptors; queues that have data to ask for.
    wanting: RoundRobin,
    sending: RoundRobin,
    buffer: ByteFifo<Stored>,
    writing: Option<Writing>,
    /// What the last one had its buffers in.
    spare_buffers: VecDeque<u64>,
    asking: Option<Asking>,
    /// Those that end a descriptor say which, of which queue, in which of its lives.
    requests: Requests<(u16, u32, Descriptor)>,
    /// When the last of what has been read is through the data path to the user logic.
    h2c_free: Ps,
    coalescing: Coalescing,
    statuses: VecDeque<Status>,
    interrupts: InterruptEngine,
    /// When all is visible that has been written so far: messages come behind it.
    written: Ps,
    mapped: MappedEngine,
    generator: Generator,
    generated: Option<(Packet, u16)>,
    generates: Ps,
    /// It waits for room in the buffer.
    blocked: bool,
    /// Queues to the host that are on, in order.
    on: Vec<u16>,
    /// Bytes that wait for the wire, of the FIFO's; by packet, in order.
    waiting: u64,
    waiting_most: u64,
    tx_fifo: u64,
    received: ReceiveStats,
    reports: u64,
    fetched: [[u64; 2]; 2],
    /// By side: receiving and sending.
    faults: [u64; 2],
    scratch: Vec<u8>,
}

fn id(side: Side, queue: u16) -> u16 {
    queue * 2 + side as u16
}

fn side_of(id: u16) -> Side {
    if id % 2 == 0 {
        Side::Receive
    } else {
        Side::Transmit
    }
}

impl<S: SharedRegisters> Qdma<S> {
    /// At power-on, of a NIC of this platform.
    #[must_use]
    pub fn new(p: &Platform, nic: &params::Nic, q: &params::Qdma, bells: S) -> Self {
        let queues = q.queues as usize;
        let user_clock = Clock::of(q.user_clock);
        let form = Form {
            clock: q.requester_clock,
            width: WIDTH,
            unit: q.request_unit,
            header: q.request_header,
            boundary: q.request_boundary,
            lookahead: q.request_lookahead,
        };
        Self {
            registers: Registers::new(queues, bells),
            user_logic: q.user_logic,
            drops: q.drops_without_descriptors,
            user_clock,
            packet_latency: nic.packet_latency.ps(),
            max_payload: p.pcie.max_payload,
            max_read: p.pcie.max_read_request,
            tags: p.pcie.tags,
            descriptors: nic.descriptor_cache,
            prefetch_reads: q.prefetch_reads,
            fetch_time: user_clock.at(Cycles(q.fetch_cycles.into())),
            fetches: Ps::ZERO,
            requester: RequesterInterface::new(form),
            turn: 0,
            looks: Ps::MAX,
            c2h: (0..queues).map(|_| C2hQueue::default()).collect(),
            h2c: (0..queues).map(|_| H2cQueue::default()).collect(),
            rings: (0..queues).map(|_| CompletionRing::default()).collect(),
            wanting: RoundRobin::new(2 * queues),
            sending: RoundRobin::new(queues),
            buffer: ByteFifo::new(nic.rx_fifo.bytes()),
            writing: None,
            spare_buffers: VecDeque::new(),
            asking: None,
            requests: Requests::default(),
            h2c_free: Ps::ZERO,
            coalescing: Coalescing::default(),
            statuses: VecDeque::with_capacity(64),
            interrupts: InterruptEngine::default(),
            written: Ps::ZERO,
            mapped: MappedEngine::new(q),
            generator: Generator::new(user_clock, q.generator_cycles, queues),
            generated: None,
            generates: Ps::MAX,
            blocked: false,
            on: Vec::with_capacity(queues),
            waiting: 0,
            waiting_most: 0,
            tx_fifo: nic.tx_fifo.bytes(),
            received: ReceiveStats::default(),
            reports: 0,
            fetched: [[0; 2]; 2],
            faults: [0; 2],
            scratch: Vec::with_capacity(256),
        }
    }

    /// The requester interface is granted, where somebody wants it.
    fn pump<G: GuestMemory>(&mut self, t: Ps, io: &mut Io<'_, Due, G>) {
        if self.looks <= t {
            return;
        }
        let begin = self.requester.ready(t);
        if begin > t {
            self.look_at(begin, io);
            return;
        }
        let mut later = Ps::MAX;
        for n in 0..SOURCES.len() {
            let at = (self.turn + n) % SOURCES.len();
            let due = match SOURCES[at] {
                Source::Payload => Some(t),
                Source::Descriptors => (self.wanting.count() > 0).then(|| self.fetches.max(t)),
                Source::Reads => self.reads_due(t),
                Source::Completions => self.completions_due(t),
                Source::Mapped => self.mapped_due(t),
            };
            let granted = match (due, SOURCES[at]) {
                (Some(due), _) if due > t => {
                    later = later.min(due);
                    false
                }
                (None, _) => false,
                (_, Source::Payload) => self.write_payload(t, io),
                (_, Source::Reads) => self.read_payload(t, io),
                (_, Source::Descriptors) => self.read_descriptors(t, io),
                (_, Source::Completions) => self.write_completion(t, io),
                (_, Source::Mapped) => self.move_mapped(t, io),
            };
            if granted {
                self.turn = (at + 1) % SOURCES.len();
                later = self.requester.ready(t);
                break;
            }
        }
        if later < Ps::MAX {
            self.look_at(later, io);
        }
    }

    fn look_at<G>(&mut self, t: Ps, io: &mut Io<'_, Due, G>) {
        if t < self.looks {
            self.looks = t;
            io.at(t, Due::Request);
        }
    }

    /// Descriptors that the next read of a queue is to bring.
    fn due(&self, side: Side, queue: u16) -> u32 {
        let most = self.registers.fetch_max();
        let mapped = &self.mapped.queues[usize::from(id(side, queue))].ring;
        if mapped.on {
            return mapped.due(self.descriptors, most);
        }
        match side {
            Side::Receive => {
                let q = &self.c2h[usize::from(queue)];
                let ahead = if q.prefetches { self.registers.prefetch() } else { 0 };
                q.ring.due(q.wanted.saturating_add(ahead), most)
            }
            Side::Transmit => self.h2c[usize::from(queue)].ring.due(self.descriptors, most),
        }
    }

    fn want_descriptors(&mut self, side: Side, queue: u16) {
        let wants = self.due(side, queue) > 0;
        self.wanting.set(id(side, queue), wants);
    }

    /// The next read of descriptors takes the interface from `t` on.
    fn read_descriptors<G: GuestMemory>(&mut self, t: Ps, io: &mut Io<'_, Due, G>) -> bool {
        // What has changed since it was wanted is not.
        while let Some(next) = self.wanting.next().filter(|&id| self.due(side_of(id), id / 2) == 0) {
            self.wanting.set(next, false);
        }
        let Some(next) = self.wanting.next() else { return false };
        self.fetches = t + self.fetch_time;
        self.wanting.turn_to(next, true);
        let (queue, side) = (next / 2, side_of(next));
        let count = self.due(side, queue);
        let mapped = self.mapped.ring(side, queue).map(|q| (q.ring.size, q.ring.fetch(count)));
        let (size, (address, fetch)) = match (mapped, side) {
            (Some(fetch), _) => fetch,
            (None, Side::Receive) => {
                let ring = &mut self.c2h[usize::from(queue)].ring;
                (ring.size, ring.fetch(count))
            }
            (None, Side::Transmit) => {
                let ring = &mut self.h2c[usize::from(queue)].ring;
                (ring.size, ring.fetch(count))
            }
        };
        let [fetches, descriptors] = &mut self.fetched[side as usize];
        *fetches += 1;
        *descriptors += u64::from(count);
        let (mut at, mut rest, mut begin, mut until) = (address, u64::from(count) * u64::from(size), t, t);
        while rest > 0 {
            let piece = self.requester.piece(at, rest, self.max_read);
            let through = self.requester.take(begin, 0);
            let answered = io.read(through, at, piece, Purpose::new(side, queue, Moves::Descriptors));
            self.requester.leaves(through);
            until = until.max(answered);
            (at, rest, begin) = (at.wrapping_add(piece), rest - piece, through);
        }
        let last = match (self.mapped.ring(side, queue), side) {
            (Some(q), _) => &mut q.last,
            (None, Side::Receive) => &mut self.c2h[usize::from(queue)].last,
            (None, Side::Transmit) => &mut self.h2c[usize::from(queue)].last,
        };
        until = until.max(*last);
        *last = until;
        io.at(until, Due::Descriptors { side, queue, fetch, mapped: mapped.is_some() });
        self.want_descriptors(side, queue);
        true
    }

    /// A write takes the interface from `t` on; when it is through, and when cores see it.
    fn write_through<G: GuestMemory>(
        &mut self,
        t: Ps,
        (address, data): (u64, &[u8]),
        purpose: Purpose,
        io: &mut Io<'_, Due, G>,
    ) -> (Ps, Ps) {
        let through = self.requester.take(t, data.len() as u64);
        let (left, visible) = io.write(through, address, data, purpose);
        self.requester.leaves(left);
        self.written = self.written.max(visible);
        (through, visible)
    }

    /// The generator sends on, where it can.
    fn generate<G: GuestMemory>(&mut self, t: Ps, io: &mut Io<'_, Due, G>) {
        while self.user_logic == UserLogic::Generator && self.generated.is_none() {
            let Some((begin, queue)) = self.generator.next() else { return };
            if begin > t {
                if begin < self.generates {
                    self.generates = begin;
                    io.at(begin, Due::Generate);
                }
                return;
            }
            let Some(length) = io.pulls() else { return };
            let needs = self.needs(queue, length).unwrap_or(u32::MAX);
            if self.generator.parks(needs) {
                continue;
            }
            if !self.buffer.has_room(length.into()) {
                self.blocked = true;
                return;
            }
            let packet = io.pull();
            let end = self.generator.sends(t, length.into(), needs);
            self.generated = Some((packet, queue));
            io.at(end, Due::Generated);
        }
    }

    fn rung<G: GuestMemory>(&mut self, bell: Bell, queue: u16, value: u32, io: &mut Io<'_, Due, G>) {
        let t = io.now;
        let at = usize::from(queue);
        if at >= self.c2h.len() {
            return;
        }
        let index = value & 0xffff;
        match bell {
            Bell::Interrupt => self.interrupts_read(t, value, io),
            Bell::H2c if self.mapped.ring(Side::Transmit, queue).is_some() => {
                self.post_mapped(Side::Transmit, queue, value);
            }
            Bell::C2h if self.mapped.ring(Side::Receive, queue).is_some() => {
                self.post_mapped(Side::Receive, queue, value);
            }
            Bell::H2c => self.post_h2c(queue, value, io),
            Bell::C2h => {
                let ring = &mut self.c2h[at].ring;
                if ring.on {
                    let available = ring.outstanding();
                    let Some(count) = ring.post(index) else {
                        self.faults[0] += 1;
                        return;
                    };
                    io.tell(t, Notice::Replenished { queue, count, available });
                    if self.user_logic == UserLogic::Generator {
                        self.generator.credit(t, queue, count);
                    }
                    self.want_descriptors(Side::Receive, queue);
                    self.generate(t, io);
                }
            }
            Bell::Completion => {
                let ring = &mut self.rings[at];
                let before = ring.context;
                let c = &mut ring.context;
                if c.full_update {
                    (c.count, c.timer) = ((value >> 16 & 0xf) as usize, (value >> 20 & 0xf) as usize);
                    (c.trigger, c.status) = (contexts::Trigger::of((value >> 24 & 7).into()), value >> 27 & 1 != 0);
                }
                let count = self.registers.count(c.count);
                let follows = ring.read_up_to(index, count, value >> 28 & 1 != 0);
                if follows.is_none() {
                    // Nothing of a doorbell holds that says what cannot be.
                    ring.context = before;
                    self.faults[0] += u64::from(ring.entries > 0);
                }
                self.follow(t, queue, follows.unwrap_or(Follows::Nothing), io);
            }
        }
        self.pump(t, io);
    }
}

/// Bytes of a beat.
const WIDTH: u32 = 64;

impl<S: SharedRegisters> Device for Qdma<S> {
    type Event = Due;

    fn queues(&self) -> usize {
        self.c2h.len()
    }

    fn ready(&self) -> bool {
        self.c2h.iter().zip(&self.rings).any(|(q, r)| q.ring.on && r.entries > 0 && q.ring.outstanding() > 0)
    }

    fn read(&mut self, place: Place, data: &mut [u8], _now: Ps) {
        for (i, part) in data.chunks_mut(4).enumerate() {
            let at = place.offset.wrapping_add(4 * i as u64);
            let word = match place.bar {
                0 => self.registers.read(at),
                2 => self.registers.read_user(at),
                _ => 0,
            };
            part.copy_from_slice(&word.to_le_bytes()[..part.len()]);
        }
    }

    fn write(&mut self, place: Place, data: &[u8], fx: &mut Effects<'_, Due>) {
        // Registers are written by whole words; anything else does nothing.
        if place.offset % 4 != 0 || data.len() % 4 != 0 {
            return;
        }
        for (i, part) in data.chunks_exact(4).enumerate() {
            let at = place.offset.wrapping_add(4 * i as u64);
            let value = u32::from_le_bytes(std::array::from_fn(|k| part[k]));
            match place.bar {
                0 if bell(at).is_some() => {
                    fx.defer(Store { place: Place { bar: 0, offset: at }, value: value.into() });
                }
                0 => {
                    if let Some(changed) = self.registers.write(at, value) {
                        self.configure(changed, fx);
                    }
                    if Registers::<S>::is_channel(at) {
                        self.looks = fx.now;
                        fx.at(fx.now, Due::Request);
                    }
                }
                2 => self.registers.write_user(at, value),
                _ => {}
            }
        }
    }

    fn reset(&mut self, fx: &mut Effects<'_, Due>) {
        self.registers.reset();
        for q in &mut self.c2h {
            *q = C2hQueue { delivered: q.delivered, ring: std::mem::take(&mut q.ring), ..C2hQueue::default() };
            q.ring.stop();
        }
        for q in &mut self.h2c {
            let epoch = q.epoch.wrapping_add(1);
            *q = H2cQueue { sent: q.sent, epoch, ring: std::mem::take(&mut q.ring), ..H2cQueue::default() };
            q.ring.stop();
        }
        self.rings.iter_mut().for_each(|r| r.configure(Completion::default(), 0));
        for all in [&mut self.wanting, &mut self.sending] {
            all.clear();
        }
        self.on.clear();
        self.waiting = 0;
        (0..self.c2h.len() as u16).for_each(|queue| self.generator.forget(queue));
        if self.buffer.clear(fx.now) {
            fx.note(Notice::Drained);
        }
        if let Some((packet, _)) = self.generated.take() {
            fx.note(Notice::Filtered(packet));
        }
        (self.writing, self.asking) = (None, None);
        self.requests.clear();
        self.coalescing = Coalescing::default();
        self.statuses.clear();
        self.interrupts.reset();
        self.mapped.reset();
        (self.looks, self.generates, self.fetches, self.blocked) = (Ps::MAX, Ps::MAX, Ps::ZERO, false);
        fx.forget();
        fx.note(Notice::Reset);
    }

    fn doorbell(&mut self, store: Store, _: &mut Effects<'_, Due>) -> Option<Rung<Due>> {
        let (bell, queue) = bell(store.place.offset).filter(|_| store.place.bar == 0)?;
        let value = store.value as u32;
        self.registers.sees(bell, queue, value);
        let event = Due::Doorbell { bell, queue, value };
        Some(Rung { event, sends: (bell == Bell::H2c).then_some(queue) })
    }

    fn look_at_pages(&mut self, _: &mut Effects<'_, Due>, rung: &mut Vec<Due>) {
        for queue in 0..self.c2h.len() as u16 {
            if !self.is_on(queue) {
                continue;
            }
            for bell in Bell::ALL {
                if let Some(value) = self.registers.changed(bell, queue) {
                    rung.push(Due::Doorbell { bell, queue, value });
                }
            }
        }
    }

    fn frame<G: GuestMemory>(&mut self, packet: &Packet, io: &mut Io<'_, Due, G>) -> bool {
        // The user logic spreads flows over the queues that are on.
        let at = packet.flow.checked_rem(self.on.len() as u32).unwrap_or(0);
        match self.on.get(at as usize).copied() {
            Some(queue) => self.store(packet, queue, io),
            None => {
                io.note(Notice::Filtered(*packet));
                false
            }
        }
    }

    fn sent<G: GuestMemory>(&mut self, _: u16, length: u32, io: &mut Io<'_, Due, G>) {
        self.waiting -= u64::from(length);
        self.pump(io.now, io);
    }

    fn source<G: GuestMemory>(&mut self, io: &mut Io<'_, Due, G>) {
        self.generate(io.now, io);
    }

    fn event<G: GuestMemory>(&mut self, event: Due, io: &mut Io<'_, Due, G>) {
        let t = io.now;
        match event {
            Due::Doorbell { bell, queue, value } => self.rung(bell, queue, value, io),
            Due::Descriptors { side, queue, fetch, mapped: true } => {
                self.take_mapped(side, queue, fetch, io);
                self.pump(t, io);
            }
            Due::Descriptors { side: Side::Receive, queue, fetch, .. } => {
                self.take_c2h_descriptors(queue, fetch, io);
                self.pump(t, io);
            }
            Due::Descriptors { queue, fetch, .. } => {
                self.take_h2c_descriptors(queue, fetch, io);
                self.pump(t, io);
            }
            Due::Answered => {
                self.answer(io);
                self.pump(t, io);
            }
            Due::Arrived => {
                self.arrived(io);
                self.pump(t, io);
            }
            Due::Message { vector } => self.message(vector, io),
            Due::Generated => {
                if let Some((packet, queue)) = self.generated.take() {
                    self.store(&packet, queue, io);
                }
                self.generate(t, io);
            }
            Due::Generate => {
                self.generates = Ps::MAX;
                self.generate(t, io);
            }
            Due::Timer { queue, epoch, number } => {
                let ring = self.rings.get_mut(usize::from(queue)).filter(|r| (r.epoch, r.timer) == (epoch, number));
                if let Some(follows) = ring.map(CompletionRing::expired) {
                    self.follow(t, queue, follows, io);
                    self.pump(t, io);
                }
            }
            Due::Request if t == self.looks => {
                self.looks = Ps::MAX;
                self.pump(t, io);
            }
            Due::Request => {} // there has been an earlier look
        }
    }

    fn interrupts_at(&mut self, _level: bool) -> Option<Ps> {
        self.interrupts.messages.next()
    }

    fn take_message(&mut self, t: Ps) -> Option<u16> {
        self.interrupts.messages.take(t)
    }

    fn polled(&self) -> Vec<Polled> {
        let ring = |(queue, (q, r)): (u16, (&C2hQueue, &CompletionRing))| {
            let bytes = r.at(0)..r.at(r.entries + 1);
            let is_on = q.ring.on && r.entries > 0;
            is_on.then_some(Polled { bytes, entry: r.context.size, entries: r.entries, first: 0, tells: 0, queue })
        };
        (0..).zip(self.c2h.iter().zip(&self.rings)).filter_map(ring).collect()
    }

    fn stats(&self, (r, t): (ReceiveStats, TransmitStats)) -> (ReceiveStats, TransmitStats) {
        let [[fetches, descriptors], [tx_fetches, tx_descriptors]] = self.fetched;
        (
            ReceiveStats {
                descriptor_fetches: fetches,
                descriptors_fetched: descriptors,
                write_backs: self.received.write_backs,
                fifo_peak: self.buffer.peak,
                fifo_level: self.buffer.level,
                fifo_level_ps: self.buffer.level_ps,
                buffer_faults: self.faults[0],
                ..r
            },
            TransmitStats {
                descriptor_fetches: tx_fetches,
                descriptors_fetched: tx_descriptors,
                write_backs: self.reports,
                fifo_peak: self.waiting_most,
                buffer_faults: self.faults[1],
                ..t
            },
        )
    }

    fn queue_stats(&self, queue: u16, (r, t): (RxQueueStats, TxQueueStats)) -> (RxQueueStats, TxQueueStats) {
        let (rx, tx) = (&self.c2h[usize::from(queue)], &self.h2c[usize::from(queue)]);
        (
            RxQueueStats { delivered: rx.delivered, free: rx.ring.outstanding().into(), ..r },
            TxQueueStats { packets: tx.sent, level: tx.ring.outstanding().into(), ..t },
        )
    }

    fn is_on(&self, queue: u16) -> bool {
        let mapped = |side| self.mapped.queues[usize::from(id(side, queue))].ring.on;
        self.c2h[usize::from(queue)].ring.on
            || self.h2c[usize::from(queue)].ring.on
            || mapped(Side::Receive)
            || mapped(Side::Transmit)
    }

    fn fifo(&self) -> (u64, u64) {
        (self.buffer.used(), (self.buffer.frames() + usize::from(self.writing.is_some())) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::identity;

    #[test]
    fn the_device_number_says_which_link_it_has() {
        let device = |link| identity(link).device;
        assert_eq!(
            [device((3, 16)), device((4, 16)), device((5, 16)), device((5, 8)), device((4, 1))],
            [0xb03f, 0xb048, 0xb058, 0xb058, 0xb041]
        );
        assert_eq!(identity((3, 16)).vendor, 0x10ee);
    }
}
