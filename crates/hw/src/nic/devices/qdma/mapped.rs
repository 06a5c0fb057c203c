//! Between memories: descriptors that say from where to where, in the host or on the card; a channel a direction moves what
//! queues in turn have, one request after the other (PG347, "AXI memory mapped engine").
//!
//! The card's memory is as fast as the link: it answers after a time, and any number of requests at once. Left out: that a
//! direction may have two channels at work (one serves the queues of both), keyhole addresses, completion
//! rings of such queues, registers of the engine's state and errors.

use super::contexts::Software;
use super::report::Report;
use super::requests::Requests;
use super::ring::{DescriptorRing, Fetch};
use super::{id, side_of, Due, Qdma, Status};
use crate::memory::GuestMemory;
use crate::nic::blocks::round_robin::RoundRobin;
use crate::nic::device::Io;
use crate::nic::pages::SharedRegisters;
use crate::params;
use crate::requester::{Moves, Purpose, Side};
use std::collections::BTreeMap;
use wiretime_base::Ps;

/// Bytes that the card's memory keeps together.
const PAGE: u64 = 4096;
/// Of a descriptor's length: its bits, and that it moves anything.
const LENGTH: u32 = (1 << 28) - 1;
const VALID: u32 = 1 << 28;

/// A descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    pub from: u64,
    pub to: u64,
    pub length: u32,
}

impl Copy {
    /// As software writes it, 32 bytes.
    #[must_use]
    pub fn of(bytes: &[u8; 32]) -> Self {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let flags = word(8) as u32;
        Self { from: word(0), to: word(16), length: if flags & VALID == 0 { 0 } else { flags & LENGTH } }
    }

    /// Its first so many bytes; the rest is left.
    fn split(&mut self, bytes: u32) -> Self {
        let part = Self { length: bytes, ..*self };
        self.from = self.from.wrapping_add(bytes.into());
        self.to = self.to.wrapping_add(bytes.into());
        self.length -= bytes;
        part
    }
}

/// The card's memory, of which pages that were never written hold zeros.
#[derive(Debug)]
struct CardMemory {
    size: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE as usize]>>,
}

impl CardMemory {
    /// Its part at `address` in one page: page, place, length; `None` where there is no memory.
    fn part(&self, address: u64, bytes: usize) -> Option<(u64, usize, usize)> {
        let place = (address % PAGE) as usize;
        let within = self.size.checked_sub(address).filter(|&left| left >= bytes as u64).is_some();
        within.then_some((address / PAGE, place, bytes.min(PAGE as usize - place)))
    }

    /// Whether it is all there.
    fn read(&self, mut address: u64, mut into: &mut [u8]) -> bool {
        while !into.is_empty() {
            let Some((page, place, count)) = self.part(address, into.len()) else {
                into.fill(0);
                return false;
            };
            let (now, rest) = into.split_at_mut(count);
            match self.pages.get(&page) {
                Some(bytes) => now.copy_from_slice(&bytes[place..place + count]),
                None => now.fill(0),
            }
            (address, into) = (address + count as u64, rest);
        }
        true
    }

    fn write(&mut self, mut address: u64, mut from: &[u8]) -> bool {
        while !from.is_empty() {
            let Some((page, place, count)) = self.part(address, from.len()) else { return false };
            let bytes = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE as usize]));
            bytes[place..place + count].copy_from_slice(&from[..count]);
            (address, from) = (address + count as u64, &from[count..]);
        }
        true
    }
}

/// A queue.
#[derive(Debug, Default)]
pub struct MappedQueue {
    /// Descriptors, and from when on the card's memory has what they ask for.
    pub ring: DescriptorRing<(Copy, Ps)>,
    pub report: Report,
    /// No descriptor comes before an earlier one.
    pub last: Ps,
    channel: usize,
}

/// What is being moved.
#[derive(Clone, Copy, Debug)]
struct Moving {
    queue: u16,
    epoch: u32,
    /// What is left of it.
    copy: Copy,
    /// Not before.
    ready: Ps,
}

/// A read of the host's memory: where it goes, and whether it is the descriptor's last.
#[derive(Clone, Copy, Debug)]
struct Arriving {
    queue: u16,
    epoch: u32,
    part: Copy,
    ends: bool,
}

/// See the module.
#[derive(Debug)]
pub struct MappedEngine {
    memory: CardMemory,
    latency: Ps,
    /// By [`id`].
    pub queues: Vec<MappedQueue>,
    /// Queues that have descriptors, and what is being moved, by direction; whose turn it is.
    having: [RoundRobin; 2],
    moving: [Option<Moving>; 2],
    turn: usize,
    arriving: Requests<Arriving>,
    bytes: Vec<u8>,
}

impl MappedEngine {
    /// At power-on.
    #[must_use]
    pub fn new(q: &params::Qdma) -> Self {
        let queues = q.queues as usize;
        Self {
            memory: CardMemory { size: q.card_memory.bytes(), pages: BTreeMap::new() },
            latency: q.card_memory_latency.ps(),
            queues: (0..2 * queues).map(|_| MappedQueue::default()).collect(),
            having: [RoundRobin::new(queues), RoundRobin::new(queues)],
            moving: [None; 2],
            turn: 0,
            arriving: Requests::default(),
            bytes: Vec::new(),
        }
    }

    /// A queue starts as its context says, with so many entries, or stops.
    pub fn configure(&mut self, side: Side, queue: u16, context: Software, entries: u32) {
        let q = &mut self.queues[usize::from(id(side, queue))];
        if context.enabled && context.memory_mapped {
            q.ring.start(context.base, (entries, context.size), context.fetches);
        } else {
            q.ring.stop();
        }
        (q.report, q.last, q.channel) = (Report::of(context), Ps::ZERO, context.channel);
        self.having[side as usize].set(queue, false);
        let moving = &mut self.moving[side as usize];
        *moving = moving.filter(|m| m.queue != queue);
    }

    /// Nothing moves; what the card's memory holds stays.
    pub fn reset(&mut self) {
        for q in &mut self.queues {
            q.ring.stop();
        }
        self.having.iter_mut().for_each(RoundRobin::clear);
        self.moving = [None; 2];
        self.arriving.clear();
    }

    /// The queue's ring, where it is between memories.
    pub fn ring(&mut self, side: Side, queue: u16) -> Option<&mut MappedQueue> {
        self.queues.get_mut(usize::from(id(side, queue))).filter(|q| q.ring.on)
    }
}

fn purpose(side: Side, queue: u16) -> Purpose {
    Purpose::new(side, queue, Moves::Payload)
}

impl<S: SharedRegisters> Qdma<S> {
    /// A doorbell of a queue between memories.
    pub(super) fn post_mapped(&mut self, side: Side, queue: u16, value: u32) {
        let Some(q) = self.mapped.ring(side, queue) else { return };
        if q.ring.post(value & 0xffff).is_none() {
            self.faults[side as usize] += 1;
            return;
        }
        let at_once = q.report.arms(value >> 16 & 1 != 0);
        self.want_descriptors(side, queue);
        if at_once {
            self.statuses.push_back(Status::Ring(side, queue));
        }
    }

    /// Its descriptors are here.
    pub(super) fn take_mapped<G: GuestMemory>(
        &mut self,
        side: Side,
        queue: u16,
        fetch: Fetch,
        io: &mut Io<'_, Due, G>,
    ) {
        let ready = io.now + self.mapped.latency;
        let Some(q) = self.mapped.ring(side, queue) else { return };
        if !q.ring.fetched(fetch) {
            return;
        }
        for entry in fetch.entry..fetch.entry + fetch.count {
            let mut bytes = [0; 32];
            self.faults[side as usize] += u64::from(!io.guest.read(q.ring.at(entry), &mut bytes));
            q.ring.held.push_back((entry, (Copy::of(&bytes), ready)));
        }
        self.mapped.having[side as usize].set(queue, true);
        self.want_descriptors(side, queue);
    }

    /// The next descriptor of a direction, if its channel runs.
    fn next_mapped(&mut self, side: Side) -> Option<Moving> {
        let m = &mut self.mapped;
        let having = &mut m.having[side as usize];
        for _ in 0..having.count() {
            let Some(queue) = having.next() else { break };
            having.turn_to(queue, true);
            let q = &mut m.queues[usize::from(id(side, queue))];
            if !self.registers.runs(side, q.channel) {
                continue;
            }
            let next = q.ring.held.pop_front();
            having.set(queue, !q.ring.held.is_empty());
            if let Some((_, (copy, ready))) = next {
                let epoch = q.ring.epoch;
                self.want_descriptors(side, queue);
                return Some(Moving { queue, epoch, copy, ready });
            }
        }
        None
    }

    /// When a request of a direction wants to leave.
    fn mapped_due_of(&mut self, side: Side, t: Ps) -> Option<Ps> {
        if self.mapped.moving[side as usize].is_none() {
            self.mapped.moving[side as usize] = self.next_mapped(side);
        }
        let moving = self.mapped.moving[side as usize]?;
        Some(match side {
            Side::Receive => moving.ready.max(t),
            Side::Transmit => {
                let (requests, bytes) = self.registers.mapped_throttle();
                let limits = (requests.min(self.tags), bytes);
                self.mapped.arriving.throttled(t, limits, self.max_read).unwrap_or(t).max(t)
            }
        })
    }

    /// When any does.
    pub(super) fn mapped_due(&mut self, t: Ps) -> Option<Ps> {
        let both = [Side::Receive, Side::Transmit].map(|side| self.mapped_due_of(side, t));
        both.into_iter().flatten().min()
    }

    /// It takes the interface from `t` on.
    pub(super) fn move_mapped<G: GuestMemory>(&mut self, t: Ps, io: &mut Io<'_, Due, G>) -> bool {
        for n in 0..2 {
            let side = side_of(((self.mapped.turn + n) % 2) as u16);
            if self.mapped_due_of(side, t).is_none_or(|due| due > t) {
                continue;
            }
            let Some(moving) = self.mapped.moving[side as usize].take() else { continue };
            self.mapped.turn = (side as usize + 1) % 2;
            match side {
                Side::Receive => self.write_mapped(t, moving, io),
                Side::Transmit => self.read_mapped(t, moving, io),
            }
            return true;
        }
        false
    }

    fn write_mapped<G: GuestMemory>(&mut self, t: Ps, mut m: Moving, io: &mut Io<'_, Due, G>) {
        let part = m.copy.split(self.requester.piece(m.copy.to, m.copy.length.into(), self.max_payload) as u32);
        if part.length > 0 {
            let mut bytes = std::mem::take(&mut self.mapped.bytes);
            bytes.resize(part.length as usize, 0);
            self.faults[0] += u64::from(!self.mapped.memory.read(part.from, &mut bytes));
            self.write_through(t, (part.to, &bytes), purpose(Side::Receive, m.queue), io);
            self.mapped.bytes = bytes;
        } else {
            self.requester.take(t, 0);
        }
        if m.copy.length == 0 {
            self.mapped_done(Side::Receive, m.queue, m.epoch);
        } else {
            self.mapped.moving[Side::Receive as usize] = Some(m);
        }
    }

    fn read_mapped<G: GuestMemory>(&mut self, t: Ps, mut m: Moving, io: &mut Io<'_, Due, G>) {
        let part = m.copy.split(self.requester.piece(m.copy.from, m.copy.length.into(), self.max_read) as u32);
        let through = self.requester.take(t, 0);
        let mut until = through;
        if part.length > 0 {
            until = io.read(through, part.from, part.length.into(), purpose(Side::Transmit, m.queue));
        }
        self.requester.leaves(through);
        let ends = m.copy.length == 0;
        let then = Arriving { queue: m.queue, epoch: m.epoch, part, ends };
        let until = self.mapped.arriving.push(until + self.mapped.latency, part.length.into(), Some(then));
        io.at(until, Due::Arrived);
        if !ends {
            self.mapped.moving[Side::Transmit as usize] = Some(m);
        }
    }

    /// What has been read of the host's memory is in the card's.
    pub(super) fn arrived<G: GuestMemory>(&mut self, io: &mut Io<'_, Due, G>) {
        let Some(Arriving { queue, epoch, part, ends }) = self.mapped.arriving.pop(io.now) else { return };
        if self.mapped.ring(Side::Transmit, queue).is_none_or(|q| q.ring.epoch != epoch) {
            return;
        }
        let bytes = &mut self.mapped.bytes;
        bytes.resize(part.length as usize, 0);
        let moved = io.guest.read(part.from, bytes) && self.mapped.memory.write(part.to, bytes);
        self.faults[1] += u64::from(!moved && part.length > 0);
        if ends {
            self.mapped_done(Side::Transmit, queue, epoch);
        }
    }

    /// A descriptor is done.
    fn mapped_done(&mut self, side: Side, queue: u16, epoch: u32) {
        let interval = self.registers.report_interval();
        let Some(q) = self.mapped.ring(side, queue).filter(|q| q.ring.epoch == epoch) else { return };
        q.ring.finish();
        let (_, sent) = q.report.done(q.ring.outstanding() == 0, interval);
        if sent {
            self.statuses.push_back(Status::Ring(side, queue));
        }
        self.want_descriptors(side, queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_as_the_driver_writes_them() {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&0x1234_5678_9abcu64.to_le_bytes());
        bytes[8..12].copy_from_slice(&(7 << 28 | 70000u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&0x8000u64.to_le_bytes());
        assert_eq!(Copy::of(&bytes), Copy { from: 0x1234_5678_9abc, to: 0x8000, length: 70000 });
        bytes[11] = 0;
        assert_eq!(Copy::of(&bytes).length, 0, "not valid: it moves nothing");
    }

    #[test]
    fn the_cards_memory_ends_somewhere() {
        let mut m = CardMemory { size: 10_000, pages: BTreeMap::new() };
        let bytes: Vec<u8> = (0..6000).map(|i| i as u8).collect();
        assert!(m.write(4000, &bytes) && !m.write(4001, &bytes) && !m.write(u64::MAX, &[1]));
        let mut read = vec![9; 6001];
        assert!(m.read(3999, &mut read));
        assert_eq!((read[0], &read[1..]), (0, &bytes[..]));
        assert!(!m.read(4000, &mut read));
    }
}
