//! NVIDIA ConnectX-6 Dx and -7 (mlx5): a function that is set up by commands in memory, not by registers, as its drivers use it
//! (Linux's `mlx5_core` and `mlx5_ib`, DPDK's `net_mlx5`; layouts: Linux's `mlx5_ifc.h`).
//!
//! - `command`, `execute`, `caps`, `registers`: the command interface; `objects`: what it makes; `fields`: layouts.
//! - `steering`: which queue a frame goes to; `receive`, `send`: the data path; `events`: completions, events, messages;
//!   `compress`: completions that share an entry.
//!
//! What NVIDIA does not publish, the timing inside the adapter, is parameters (`nic.mlx5`), estimates unless they say otherwise.
//!
//! Left out: e-switch, RoCE, LRO, tunnels, queue pairs with a data path, time that commands take; segments of packets whose
//! IPv4 header says no length (BIG TCP). What all of a port's queues send is read in one order.

mod caps;
mod command;
mod compress;
mod events;
mod execute;
mod fields;
mod objects;
mod opcodes;
mod receive;
mod registers;
mod send;
mod steering;

use super::super::blocks::fifo::ByteFifo;
use super::super::blocks::messages::Messages;
use super::super::device::{Device, Effects, Io, Place, Polled, Rung, Store};
use super::super::notice::Notice;
use super::super::pages::DevicePages;
use super::super::stats::{ReceiveStats, RxQueueStats, TransmitStats, TxQueueStats};
use crate::memory::GuestMemory;
use crate::params::{self, Platform};
use crate::pci::{Bar, Identity, Msix};
use crate::wire::{Packet, FCS};
use fields::word;
use objects::{Objects, State};
use receive::Stored;
use registers::PortRegisters;
use send::Work;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use steering::Steering;
use wiretime_base::events::Event as Ordered;
use wiretime_base::Ps;

/// Queue pairs that the books can tell apart.
pub const QUEUES: usize = 64;

const BAR_SIZE: u64 = 32 << 20;
/// Doorbell pages begin behind the initialization segment and the messages.
const DOORBELLS: u64 = 16 << 12;
const SEGMENT_SIZE: u64 = 0x2000;
/// Bytes at the end of a completion that drivers read to see whether it has come; the rest they read whether or not.
const TELLS: u32 = 16;

/// The pages that guest and device share as memory: the doorbell pages that are given out first.
#[must_use]
pub fn shared_pages() -> DevicePages {
    const PAGES: u64 = 512;
    DevicePages { bar: 0, range: DOORBELLS..DOORBELLS + (PAGES << 12), each_store: true }
}

/// Interrupts that it has.
const VECTORS: u16 = 64;

/// How the function looks on the bus.
#[must_use]
pub fn identity(seven: bool, (generation, lanes): (u32, u32)) -> Identity {
    Identity {
        vendor: 0x15b3,
        device: if seven { 0x1021 } else { 0x101d },
        class: 0x02_0000,
        bars: vec![Bar::wide(0, BAR_SIZE)],
        msix: Some(Msix { vectors: VECTORS, bar: 0, table: 0x2000, pending: 0x3000 }),
        express: true,
        link: Some((generation.min(6) as u8, lanes.min(16) as u8)),
        ..Identity::default()
    }
}

/// What it waits for.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the fields: names say it
pub enum Due {
    /// Commands are handed over.
    Command {
        entries: u32,
    },
    /// A doorbell of a page arrives: its place in the page.
    Doorbell {
        place: u16,
        value: u64,
    },
    /// The record of a receive queue is here; is to be read again.
    ReceiveRecord {
        queue: u32,
        epoch: u32,
    },
    LookAgain {
        queue: u32,
        epoch: u32,
    },
    /// Receive requests are here.
    Requests {
        queue: u32,
        epoch: u32,
        first: u16,
        count: u16,
    },
    /// A packet has left for memory; the buffer is to be looked at.
    Written {
        bytes: u32,
    },
    Receive,
    /// The record of a send queue is here.
    SendRecord {
        queue: u32,
        epoch: u32,
    },
    /// Blocks of send requests are here.
    Blocks {
        queue: u32,
        epoch: u32,
        count: u16,
    },
    /// The payload of a packet is here; another can be asked for.
    Payload,
    Ask,
    /// A session of compressed completions has been open for long.
    Session {
        cq: u32,
        session: u32,
    },
    /// A completion queue's time is over.
    Period {
        cq: u32,
        timer: u32,
    },
    /// A message is due.
    Message {
        vector: u16,
    },
    /// The firmware fails.
    Fails,
}

impl Ordered for Due {
    fn class(&self) -> u8 {
        match self {
            Due::Command { .. } => 0,
            Due::Doorbell { .. } => 1,
            Due::ReceiveRecord { .. } | Due::LookAgain { .. } | Due::SendRecord { .. } => 2,
            Due::Requests { .. } | Due::Blocks { .. } => 3,
            Due::Written { .. } | Due::Payload => 4,
            Due::Receive | Due::Ask => 5,
            Due::Session { .. } | Due::Period { .. } => 6,
            Due::Message { .. } => 7,
            Due::Fails => 8,
        }
    }
    fn source(&self) -> u16 {
        match self {
            Due::ReceiveRecord { queue, .. }
            | Due::LookAgain { queue, .. }
            | Due::Requests { queue, .. }
            | Due::SendRecord { queue, .. }
            | Due::Blocks { queue, .. } => *queue as u16,
            Due::Session { cq, .. } | Due::Period { cq, .. } => *cq as u16,
            Due::Message { vector } => *vector,
            Due::Doorbell { place, .. } => *place,
            _ => 0,
        }
    }
}

/// The initialization segment: what is there before any command.
#[derive(Debug, Default)]
struct Segment {
    /// Where the command queue is.
    queue: u64,
    high: u32,
    /// How far the driver lets the device go: 0 all, 1 nothing, 7 reset.
    interface: u32,
    /// Counts looks at the health of the device.
    health: u32,
    /// The firmware has failed: nothing works but this segment.
    failed: bool,
    /// Its failure is waited for.
    fails: bool,
}

/// What the driver tells the device by the low word of the command queue's address, or reads there.
const DISABLED: u32 = 1;
const SOFTWARE_RESET: u32 = 7;

/// See the module.
pub struct Mlx5 {
    segment: Segment,
    objects: Objects,
    steering: Steering,
    port: PortRegisters,
    mac: [u8; 6],
    vport_mtu: u16,
    gigabits: u64,
    /// Parameters.
    blue_flame: bool,
    record_first: bool,
    requests_ahead: u16,
    blocks_a_read: u16,
    blocks_ahead: u16,
    packet_time: Ps,
    packet_latency: Ps,
    /// When the firmware fails; 0: never.
    fails_at: Ps,
    /// When the next packet received, and sent, finds no memory.
    queues_fail: [Ps; 2],
    /// How long a session of compressed completions may be open; 0: none is opened.
    compression_timeout: Ps,
    /// Packets in a row that left another waiting for the link, and from how many on completions share entries.
    pressed: u32,
    compression_after: u32,
    in_flight_most: usize,
    tx_fifo: u64,
    /// The packet buffer; one packet is on its way to memory.
    buffer: ByteFifo<Stored>,
    writing: bool,
    /// Which queues the books know by which number: of receiving, of sending.
    lanes: [Vec<Option<u32>>; 2],
    /// Packets received and sent by their numbers: of a queue that is reset or goes they stay, as the books have them.
    counted: [Vec<u64>; 2],
    /// Send queues with packets, in turn; packets whose payload is being read, in order.
    sending: VecDeque<u32>,
    in_flight: VecDeque<Work>,
    spare: Vec<Work>,
    asks: Ps,
    /// Bytes that wait for the wire.
    waiting: u64,
    waiting_most: u64,
    /// Requests read, and reads: of receiving, of sending.
    fetched: [(u64, u64); 2],
    messages: Messages,
    out_of_buffer: BTreeMap<u32, u64>,
    steered_nowhere: u64,
    /// By side: of receiving and of commands, and of sending.
    faults: [u64; 2],
    epochs: u32,
    now: Ps,
    /// Completion queues with an open session.
    open_sessions: Vec<u32>,
    pieces: Vec<(u64, u32)>,
    frame: Vec<u8>,
    scratch: Vec<u8>,
}

impl Mlx5 {
    /// At power-on, of port `index` of this platform.
    #[must_use]
    pub fn new(p: &Platform, index: usize, m: &params::Mlx5, mac: [u8; 6]) -> Self {
        let (nic, link) = (p.port(index).nic, p.port(index).link);
        let gigabits = link.rate.bits_per_second() / 1_000_000_000;
        Self {
            segment: Segment::default(),
            objects: Objects::default(),
            steering: Steering::default(),
            port: PortRegisters::new(gigabits),
            mac,
            vport_mtu: 1500,
            gigabits,
            blue_flame: m.write_combining,
            record_first: m.record_before_requests,
            requests_ahead: m.receive_requests_ahead as u16,
            blocks_a_read: m.send_blocks_a_read as u16,
            blocks_ahead: m.send_blocks_ahead as u16,
            packet_time: m.send_packet_time.ps(),
            packet_latency: nic.packet_latency.ps(),
            fails_at: m.fails_at.ps(),
            queues_fail: [if m.queues_fail_at.ps() > Ps::ZERO { m.queues_fail_at.ps() } else { Ps::MAX }; 2],
            compression_timeout: m.compression_timeout.ps(),
            pressed: 0,
            compression_after: m.compression_after,
            in_flight_most: nic.tx_packets_in_flight as usize,
            tx_fifo: nic.tx_fifo.bytes(),
            buffer: ByteFifo::new(nic.rx_fifo.bytes()),
            writing: false,
            lanes: [vec![None; QUEUES], vec![None; QUEUES]],
            counted: [vec![0; QUEUES], vec![0; QUEUES]],
            sending: VecDeque::with_capacity(QUEUES),
            in_flight: VecDeque::with_capacity(1024),
            spare: Vec::with_capacity(1024),
            asks: Ps::MAX,
            waiting: 0,
            waiting_most: 0,
            fetched: [(0, 0); 2],
            messages: Messages::default(),
            out_of_buffer: BTreeMap::new(),
            steered_nowhere: 0,
            faults: [0; 2],
            epochs: 0,
            now: Ps::ZERO,
            open_sessions: Vec::with_capacity(QUEUES),
            pieces: Vec::with_capacity(64),
            frame: Vec::with_capacity(1 << 16),
            scratch: Vec::with_capacity(1 << 16),
        }
    }

    /// Lives of queues are told apart by numbers that never come again soon.
    fn next_epoch(&mut self) -> u32 {
        self.epochs = self.epochs.wrapping_add(1 << 8);
        self.epochs
    }

    /// The books get to know receive queues: those of a table together, in its order.
    fn receives_first<G>(&mut self, table: Option<u32>, queue: u32, io: &mut Io<'_, Due, G>) {
        let all = table.and_then(|number| self.objects.tables.get(number)).cloned().unwrap_or_else(|| vec![queue]);
        self.name_receivers(&all, &mut io.effects);
    }

    fn name_receivers(&mut self, all: &[u32], fx: &mut Effects<'_, Due>) {
        let beside = self.objects.rqs.iter().any(|(_, rq)| rq.of_program());
        for &number in all {
            let Some(rq) = self.objects.rqs.get_mut(number).filter(|rq| rq.lane.is_none()) else { continue };
            let Some(lane) = free_lane(&self.lanes[0], !rq.user && beside) else { return };
            self.lanes[0][lane] = Some(number);
            rq.lane = Some(lane as u16);
            self.tells_from_here(number, fx);
        }
    }

    /// A receive queue that is new, or has been reset, goes on where its completions are.
    fn tells_from_here(&self, number: u32, fx: &mut Effects<'_, Due>) {
        let Some((rq, queue)) = self.objects.rqs.get(number).and_then(|rq| Some((rq, rq.lane?))) else { return };
        let entry = self.objects.cqs.get(rq.cq).map_or(0, |cq| cq.produced & (cq.ring.entries() - 1));
        fx.note(Notice::Restarted { queue, entry });
    }

    /// The same of send queues: those of user contexts together.
    fn sends_first(&mut self, queue: u32, fx: &mut Effects<'_, Due>) {
        let user = self.objects.sqs.get(queue).is_some_and(|sq| sq.user);
        let ready = |sq: &objects::Sq| sq.user && sq.state == State::Ready && sq.lane.is_none();
        let mut all: Vec<u32> = self.objects.sqs.iter().filter(|(_, sq)| user && ready(sq)).map(|(n, _)| n).collect();
        if !user {
            all.push(queue);
        }
        let beside = !user && self.objects.sqs.iter().any(|(_, sq)| sq.user && sq.state == State::Ready);
        for number in all {
            if user {
                self.make_way(fx);
            }
            let Some(lane) = free_lane(&self.lanes[1], beside) else { return };
            self.sends_as(number, lane);
        }
    }

    fn sends_as(&mut self, number: u32, lane: usize) {
        if let Some(sq) = self.objects.sqs.get_mut(number) {
            self.lanes[1][lane] = Some(number);
            sq.lane = Some(lane as u16);
        }
    }

    /// The first number that no program has is free: a queue of the kernel, which may have sent a packet when its port went
    /// up, gets another.
    fn make_way(&mut self, fx: &mut Effects<'_, Due>) {
        let kernels = |number: u32| self.objects.sqs.get(number).is_some_and(|sq| !sq.user);
        let Some(lane) = self.lanes[1].iter().position(|l| l.is_none_or(kernels)) else { return };
        let (Some(number), Some(other)) = (self.lanes[1][lane], free_lane(&self.lanes[1], true)) else { return };
        self.lanes[1][lane] = None;
        // What it has counted stays with the number: no count falls. What is on its way of it is nobody's.
        fx.note(Notice::Stopped { queue: lane as u16 });
        self.sends_as(number, other);
    }

    /// A word of the initialization segment.
    fn segment_word(&mut self, at: u64) -> u32 {
        const FIRMWARE: [u32; 3] = [22, 41, 1000];
        let [major, minor, sub] = FIRMWARE;
        let nanoseconds = self.now.0 / 1000;
        match at {
            0 => minor << 16 | major,
            4 => 5 << 16 | sub,
            0x10 => self.segment.high,
            0x14 => {
                let size = command::LOG_ENTRIES << 4 | command::LOG_ENTRY;
                self.segment.queue as u32 & !0xfff | self.segment.interface << 8 | size
            }
            // Fast reset is supported: what a driver looks for when the firmware has failed.
            0x1fc => u32::from(self.segment.failed) << 30,
            0x230 => major << 24 | minor << 16 | sub,
            // Critical, to be recovered by a reset; an internal error of the firmware.
            0x238 if self.segment.failed => 0x82 << 24,
            0x23c if self.segment.failed => 1 << 16,
            0x1000 => (nanoseconds >> 32) as u32,
            0x1004 => nanoseconds as u32,
            0x1010 => {
                self.segment.health = self.segment.health.wrapping_add(1);
                self.segment.health
            }
            _ => 0,
        }
    }

    fn doorbell_page<G: GuestMemory>(&mut self, place: u16, value: u64, io: &mut Io<'_, Due, G>) {
        let bytes = value.to_le_bytes();
        match place {
            0x20 => self.arm(word(&bytes, 0), word(&bytes, 4), io),
            0x40 | 0x48 => self.event_doorbell(word(&bytes, 0), place == 0x40, io),
            _ => self.send_doorbell(value, io),
        }
    }

    /// Everything that commands have made is gone; the driver will see why.
    fn fail(&mut self, fx: &mut Effects<'_, Due>) {
        let Segment { queue, high, interface, health, .. } = self.segment;
        self.clear(fx);
        self.segment = Segment { queue, high, interface, health, failed: true, fails: true };
    }

    fn clear(&mut self, fx: &mut Effects<'_, Due>) {
        (self.segment, self.objects, self.steering) = (Segment::default(), Objects::default(), Steering::default());
        let counters = self.port.counters;
        self.port = PortRegisters::new(self.gigabits);
        self.port.counters = counters;
        if self.buffer.clear(fx.now) {
            fx.note(Notice::Drained);
        }
        for (queue, _) in (0..).zip(&self.lanes[1]).filter(|(_, sends)| sends.is_some()) {
            fx.note(Notice::Stopped { queue });
        }
        self.lanes.iter_mut().for_each(|lanes| lanes.fill(None));
        self.sending.clear();
        self.in_flight.clear();
        self.messages.clear();
        self.out_of_buffer.clear();
        (self.writing, self.waiting, self.asks) = (false, 0, Ps::MAX);
        fx.forget();
        fx.note(Notice::Reset);
    }
}

/// A number in the books that is free: from the end, of the kernel's queues beside a program's, whose are the first.
fn free_lane(lanes: &[Option<u32>], from_the_end: bool) -> Option<usize> {
    let free = |lane: &Option<u32>| lane.is_none();
    if from_the_end {
        lanes.iter().rposition(free)
    } else {
        lanes.iter().position(free)
    }
}

impl Device for Mlx5 {
    type Event = Due;

    fn queues(&self) -> usize {
        QUEUES
    }

    fn ready(&self) -> bool {
        // Of programs in user space: the kernel's driver is up before them, and beside them.
        let takes = |rq: &objects::Rq| rq.of_program() && rq.state == State::Ready && rq.posted != rq.taken;
        self.objects.rqs.iter().any(|(_, rq)| takes(rq))
    }

    fn program_sends(&self) -> bool {
        // The kernel's driver is there before it, and may have sent.
        self.objects.sqs.iter().any(|(_, sq)| sq.user && sq.lane.is_some())
    }

    fn read(&mut self, place: Place, data: &mut [u8], now: Ps) {
        // Its clock goes on while nothing happens.
        self.now = self.now.max(now);
        data.fill(0);
        if place.bar != 0 || place.offset >= SEGMENT_SIZE {
            return;
        }
        // Of any width: drivers read the syndrome of a failure as a byte.
        let (mut at, mut word) = (u64::MAX, [0; 4]);
        for (offset, byte) in (place.offset..).zip(data) {
            if offset & !3 != at {
                at = offset & !3;
                word = self.segment_word(at).to_be_bytes();
            }
            *byte = word[(offset & 3) as usize];
        }
    }

    fn write(&mut self, place: Place, data: &[u8], fx: &mut Effects<'_, Due>) {
        if place.bar != 0 || place.offset % 4 != 0 || data.len() % 4 != 0 || data.len() > 8 {
            return;
        }
        if place.offset >= DOORBELLS {
            let value = data.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
            fx.defer(Store { place, value });
            return;
        }
        for (i, part) in data.chunks_exact(4).enumerate() {
            let value = word(part, 0);
            match place.offset + 4 * i as u64 {
                0x10 => self.segment.high = value,
                0x14 => {
                    self.segment.interface = value >> 8 & 7;
                    self.segment.queue = u64::from(self.segment.high) << 32 | u64::from(value & !0xfff);
                    self.segment.failed &= !matches!(self.segment.interface, 0 | SOFTWARE_RESET);
                    if self.segment.interface == SOFTWARE_RESET {
                        self.clear(fx);
                        self.segment.interface = DISABLED;
                    }
                }
                0x18 if self.segment.failed => {}
                0x18 => fx.at(fx.now, Due::Command { entries: value }),
                _ => {}
            }
        }
    }

    fn reset(&mut self, fx: &mut Effects<'_, Due>) {
        self.clear(fx);
    }

    fn doorbell(&mut self, store: Store, _: &mut Effects<'_, Due>) -> Option<Rung<Due>> {
        let place = (store.place.offset & 0xfff) as u16;
        let rings = store.place.bar == 0 && store.place.offset >= DOORBELLS;
        // Of a request that is copied here only the first word counts.
        let sends = (0x800..0x1000).contains(&place) && place % 0x100 == 0;
        if !rings || !sends && !matches!(place, 0x20 | 0x40 | 0x48) {
            return None;
        }
        let sends = sends.then(|| self.lane_of_doorbell(store.value));
        Some(Rung { event: Due::Doorbell { place, value: store.value }, sends })
    }

    fn traffic_starts(&mut self, fx: &mut Effects<'_, Due>) {
        // Queues of programs, those of a table in its order. The kernel's are known by their first packet.
        let waits = |rq: &objects::Rq| rq.of_program() && rq.state == State::Ready;
        let of_tables = self.objects.tables.iter().flat_map(|(_, queues)| queues.iter().copied());
        let others = self.objects.rqs.iter().map(|(number, _)| number);
        let all: Vec<u32> = of_tables.chain(others).filter(|&n| self.objects.rqs.get(n).is_some_and(waits)).collect();
        self.name_receivers(&all, fx);
    }

    fn frame<G: GuestMemory>(&mut self, packet: &Packet, io: &mut Io<'_, Due, G>) -> bool {
        self.now = io.now;
        self.arrive(packet, io)
    }

    fn sent<G: GuestMemory>(&mut self, _: u16, length: u32, io: &mut Io<'_, Due, G>) {
        self.waiting -= u64::from(length - FCS);
        self.ask_payload(io);
    }

    fn event<G: GuestMemory>(&mut self, event: Due, io: &mut Io<'_, Due, G>) {
        self.now = io.now;
        match event {
            Due::Command { entries } => {
                // What they take away may have some.
                self.close_sessions(io.now, io);
                if !self.segment.fails && self.fails_at > io.now {
                    self.segment.fails = true;
                    io.effects.at(self.fails_at, Due::Fails);
                }
                self.commands(entries, io);
            }
            Due::Doorbell { place, value } => self.doorbell_page(place, value, io),
            Due::ReceiveRecord { queue, epoch } => self.receive_record(queue, epoch, io),
            Due::LookAgain { queue, epoch } if self.objects.rqs.get(queue).is_some_and(|rq| rq.epoch == epoch) => {
                self.look_for_requests(queue, io);
            }
            Due::Requests { queue, epoch, first, count } => self.take_requests(queue, epoch, (first, count), io),
            Due::Written { bytes } => self.written(bytes, io),
            Due::Receive => self.receive(io),
            Due::SendRecord { queue, epoch } => self.send_record(queue, epoch, io),
            Due::Blocks { queue, epoch, count } => self.take_blocks(queue, epoch, count, io),
            Due::Payload => self.payload(io),
            Due::Ask => self.ask_again(io),
            Due::Session { cq, session } => self.session_over(cq, session, io),
            Due::Period { cq, timer } => self.period_ends(io.now, cq, timer, io),
            Due::Message { vector } => self.message(vector, io),
            Due::Fails => self.fail(&mut io.effects),
            Due::LookAgain { .. } => {} // of an earlier life of its queue
        }
    }

    fn interrupts_at(&mut self, _level: bool) -> Option<Ps> {
        self.messages.next()
    }

    fn take_message(&mut self, t: Ps) -> Option<u16> {
        self.messages.take(t)
    }

    fn polled(&self) -> Vec<Polled> {
        let mut found = Vec::new();
        for (_, rq) in self.objects.rqs.iter().filter(|(_, rq)| rq.state == State::Ready) {
            let (Some(queue), Some(cq)) = (rq.lane, self.objects.cqs.get(rq.cq)) else { continue };
            let (ring, entry) = (&cq.ring, 1 << cq.ring.stride);
            // The kernel's driver has them in single pages.
            let piece = |(at, bytes): (u64, Range<u64>)| {
                let first = (at >> ring.stride) as u32;
                Polled { bytes, entry, entries: ring.entries(), first, tells: entry - TELLS, queue }
            };
            found.extend(ring.pages.pieces(u64::from(ring.entries()) << ring.stride).into_iter().map(piece));
        }
        found
    }

    fn stats(&self, (r, t): (ReceiveStats, TransmitStats)) -> (ReceiveStats, TransmitStats) {
        let [received, sent] = self.fetched;
        (
            ReceiveStats {
                descriptor_fetches: received.0,
                descriptors_fetched: received.1,
                fifo_peak: self.buffer.peak,
                fifo_level: self.buffer.level,
                fifo_level_ps: self.buffer.level_ps,
                buffer_faults: self.faults[0],
                ..r
            },
            TransmitStats {
                descriptor_fetches: sent.0,
                descriptors_fetched: sent.1,
                fifo_peak: self.waiting_most,
                buffer_faults: self.faults[1],
                ..t
            },
        )
    }

    fn queue_stats(&self, queue: u16, (r, t): (RxQueueStats, TxQueueStats)) -> (RxQueueStats, TxQueueStats) {
        let at = usize::from(queue);
        let rq = self.lanes[0].get(at).copied().flatten().and_then(|n| self.objects.rqs.get(n));
        let sq = self.lanes[1].get(at).copied().flatten().and_then(|n| self.objects.sqs.get(n));
        let free = rq.map_or(0, |rq| rq.posted.wrapping_sub(rq.taken).into());
        let level = sq.map_or(0, |sq| sq.level().posted.into());
        let [delivered, packets] = [0, 1].map(|side: usize| self.counted[side].get(at).copied().unwrap_or(0));
        (RxQueueStats { free, delivered, ..r }, TxQueueStats { level, packets, ..t })
    }

    fn is_on(&self, queue: u16) -> bool {
        self.lanes.iter().any(|lanes| lanes.get(usize::from(queue)).is_some_and(Option::is_some))
    }

    fn fifo(&self) -> (u64, u64) {
        (self.buffer.used(), self.buffer.frames() as u64)
    }
}
