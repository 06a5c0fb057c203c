//! Receiving: frames wait in the packet buffer, find their queue by steering and hash, take a request each (or strides of
//! one), are written, and are told of by a completion. Requests are read ahead, several a read; how many there are stands in
//! a record in memory, which is read when few are left. A packet whose queue has none is dropped (`out_of_buffer`); one that
//! finds the buffer full is discarded by the port (`rx_discards_phy`).
//!
//! Left out: copies of a packet to several queues (the first gets it), LRO.

use super::compress::Told;
use super::events::{packetless, ENTRY, RECEIVED, TOO_LONG};
use super::execute::END_KEY;
use super::fields::{half, place};
use super::objects::{
    count_of, Kind, Posted, Rq, Segment, State, Tir, DESTINATION, DESTINATION_PORT, SEGMENTS, SOURCE, SOURCE_PORT,
};
use super::registers::class_of;
use super::steering::headers;
use super::{Due, Mlx5};
use crate::memory::GuestMemory;
use crate::nic::blocks::checks::{self, L3, L4};
use crate::nic::blocks::vlan;
use crate::nic::device::{FramePart, Io};
use crate::nic::notice::{Notice, Refusal};
use crate::requester::{Moves, Purpose, Side, UNNAMED};
use crate::wire::{Packet, FCS};
use wiretime_base::Ps;

/// A frame in the packet buffer.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    packet: Packet,
    pub queue: u32,
    epoch: u32,
    tag: u32,
    hash: u32,
    hashed: u8,
    /// The VLAN tag in front.
    vlan: Option<u16>,
}

/// The input of a receive hash, and what of it there is, as a completion says it.
fn hash_input(tir: &Tir, f: &[u8], input: &mut [u8; 36]) -> (usize, u8) {
    let (l, s) = (checks::layout(f), tir.selector);
    let mut length = 0;
    // The halves of a pair that are hashed; of both, where it is symmetric, what either way is the same.
    let mut add = |pair: std::ops::Range<usize>, source: bool, destination: bool| {
        let (from, half) = (length, pair.len() / 2);
        let Some(bytes) = f.get(pair).filter(|b| length + b.len() <= input.len()) else { return };
        for (bytes, wanted) in bytes.chunks_exact(half.max(1)).zip([source, destination]) {
            if wanted {
                input[length..length + half].copy_from_slice(bytes);
                length += half;
            }
        }
        if tir.symmetric && source && destination {
            for i in from..from + half {
                (input[i], input[i + half]) = (input[i] | input[i + half], input[i] ^ input[i + half]);
            }
        }
    };
    let mut kind = 0;
    if l.l3 == L3::None {
        return (0, 0);
    }
    if s & (SOURCE | DESTINATION) != 0 {
        kind |= if l.l3 == L3::V4 { 1 << 2 } else { 2 << 2 };
    }
    add(l.addresses(), s & SOURCE != 0, s & DESTINATION != 0);
    let ports = match l.l4 {
        L4::Tcp => 1,
        L4::Udp => 2,
        L4::None => 0,
    };
    if ports != 0 && s & (SOURCE_PORT | DESTINATION_PORT) != 0 {
        kind |= ports << 6;
        add(l.transport..l.transport + 4, s & SOURCE_PORT != 0, s & DESTINATION_PORT != 0);
    }
    (length, kind)
}

/// What a completion says of a frame's protocols and checksums: bytes 0x1c and 0x1d.
fn found(f: &[u8]) -> [u8; 2] {
    let c = checks::check(f);
    let l3 = [0, 2, 1][c.l3 as usize];
    let l4 = [0, 2, 1][c.l4 as usize];
    let good3 = c.l3 != L3::None && !c.l3_bad;
    let good4 = c.l4_checked && !c.l4_bad;
    [1 | u8::from(good3) << 1 | u8::from(good4) << 2, l4 << 4 | l3 << 2]
}

impl Mlx5 {
    /// The queue that a frame goes to, with tag and hash.
    fn receiver(&mut self, packet: &Packet, f: &[u8]) -> Option<(Option<u32>, Stored)> {
        let mut place = None;
        self.steering.steer(&headers(f), u64::from(packet.length.saturating_sub(FCS)), |tir, tag| {
            place = place.or(Some((tir, tag)))
        });
        let (number, tag) = place?;
        let tir = self.objects.tirs.get(number)?;
        let (mut hash, mut hashed) = (0, 0);
        if tir.hashes {
            let mut input = [0; 36];
            let (length, kind) = hash_input(tir, f, &mut input);
            (hash, hashed) = (tir.hash_of(&input[..length]), kind);
        }
        let queue = match tir.table {
            Some(table) => {
                let list = self.objects.tables.get(table)?;
                *list.get(hash as usize % list.len().max(1))?
            }
            None => tir.queue,
        };
        let epoch = self.objects.rqs.get(queue).filter(|rq| rq.state == State::Ready)?.epoch;
        Some((tir.table, Stored { packet: *packet, queue, epoch, tag, hash, hashed, vlan: vlan::of(f) }))
    }

    /// A frame has come from the wire.
    pub(super) fn arrive<G: GuestMemory>(&mut self, packet: &Packet, io: &mut Io<'_, Due, G>) -> bool {
        let now = io.now;
        // Others wait in the buffer: their bytes are still wanted.
        let f = io.mac.headers(packet);
        let length = u64::from(packet.length);
        let class = class_of(f);
        self.port.counters.received.count(class, length);
        if length > self.port.mtu.into() {
            self.port.counters.oversize += 1;
            io.note(Notice::Filtered(*packet));
            return false;
        }
        let Some((table, stored)) = self.receiver(packet, f) else {
            self.steered_nowhere += 1;
            io.note(Notice::Filtered(*packet));
            return false;
        };
        if self.objects.rqs.get(stored.queue).is_some_and(|rq| rq.lane.is_none()) {
            self.receives_first(table, stored.queue, io);
        }
        let lane = self.lane_of(stored.queue);
        if !self.buffer.has_room(packet.length.into()) {
            self.buffer.refuse();
            self.port.counters.discarded += 1;
            let culprit = self.buffer.front().map_or(stored.queue, |s| s.queue);
            let ring = self.objects.rqs.get(culprit).map_or(0, Rq::buffers);
            let why = Refusal { culprit: self.lane_of(culprit), fifo: true, ring, ..Refusal::default() };
            io.note(Notice::Refused { packet: *packet, queue: lane, why });
            return false;
        }
        self.port.counters.taken.count(class, length);
        self.buffer.push(now, packet.length.into(), stored);
        io.note(Notice::Stored { packet: *packet, queue: lane, fifo: self.buffer.used() });
        self.receive(io);
        true
    }

    fn lane_of(&self, queue: u32) -> u16 {
        self.objects.rqs.get(queue).and_then(|rq| rq.lane).unwrap_or(0)
    }

    /// Packets leave the buffer, as far as they can.
    pub(super) fn receive<G: GuestMemory>(&mut self, io: &mut Io<'_, Due, G>) {
        let now = io.now;
        while !self.writing {
            let Some(&stored) = self.buffer.front() else { return };
            let number = stored.queue;
            let alive = |rq: &&mut super::objects::Rq| rq.state == State::Ready && rq.epoch == stored.epoch;
            let Some(rq) = self.objects.rqs.get_mut(number).filter(alive) else {
                self.buffer.pop();
                io.note(Notice::Lost { id: stored.packet.id });
                self.release(now, stored.packet.length, io);
                continue;
            };
            if !rq.held.is_empty() {
                self.deliver(stored, io);
                continue;
            }
            if rq.fetching > 0 || rq.fetched != rq.posted {
                self.fetch_requests(number, io);
                return;
            }
            // What it has told of is true for a while: a driver that fills up an empty ring rings no bell.
            if !rq.looked || now > rq.looked_at + FIRST_LOOKS {
                self.look_for_requests(number, io);
                return;
            }
            // The record has been read since there were requests, and tells of none: others need not wait for the next look.
            self.buffer.pop();
            self.drop_for_want(stored, io);
            self.look_for_requests(number, io);
        }
    }

    fn drop_for_want<G: GuestMemory>(&mut self, stored: Stored, io: &mut Io<'_, Due, G>) {
        let (queue, packet, now) = (self.lane_of(stored.queue), stored.packet, io.now);
        if let Some(rq) = self.objects.rqs.get(stored.queue) {
            *self.out_of_buffer.entry(rq.counter).or_default() += 1;
            let fifo = !self.buffer.has_room(packet.length.into());
            let why = Refusal { culprit: queue, fifo, starved: true, empty: true, ring: rq.buffers(), stored: true };
            io.note(Notice::Refused { packet, queue, why });
        }
        self.release(now, packet.length, io);
        self.buffer.refuse();
    }

    fn release<G>(&mut self, t: Ps, bytes: u32, io: &mut Io<'_, Due, G>) {
        if self.buffer.release(t, bytes.into()) {
            io.tell(t, Notice::Drained);
        }
    }

    /// The buffer is looked at again soon.
    pub(super) fn receive_later<G>(&mut self, io: &mut Io<'_, Due, G>) {
        let now = io.now;
        io.at(now, Due::Receive);
    }

    /// The record of a queue's requests is read.
    pub(super) fn look_for_requests<G: GuestMemory>(&mut self, number: u32, io: &mut Io<'_, Due, G>) {
        let now = io.now;
        let Some(rq) = self.objects.rqs.get_mut(number).filter(|rq| !rq.looking && rq.state != State::Reset) else {
            return;
        };
        rq.looking = true;
        let purpose = Purpose::new(Side::Receive, rq.lane.unwrap_or(UNNAMED), Moves::Descriptors);
        let (record, epoch) = (rq.ring.record, rq.epoch);
        let until = io.read(now, record, 4, purpose);
        io.at(until, Due::ReceiveRecord { queue: number, epoch });
    }

    /// It is here.
    pub(super) fn receive_record<G: GuestMemory>(&mut self, number: u32, epoch: u32, io: &mut Io<'_, Due, G>) {
        let now = io.now;
        let Some(rq) = self.objects.rqs.get_mut(number).filter(|rq| rq.epoch == epoch) else { return };
        let mut record = [0; 4];
        self.faults[0] += u64::from(!io.guest.read(rq.ring.record, &mut record));
        (rq.looking, rq.looked, rq.looked_at) = (false, true, now);
        let posted = count_of(&record);
        // More than the ring holds cannot be.
        let most = u32::from(posted.wrapping_sub(rq.taken)) <= rq.ring.entries();
        let new = if most { posted.wrapping_sub(rq.posted) } else { 0 };
        if new > 0 {
            rq.looked = false;
            let available = u32::from(rq.posted.wrapping_sub(rq.taken));
            rq.posted = posted;
            if let Some(queue) = rq.lane {
                io.tell(now, Notice::Replenished { queue, count: new.into(), available });
            }
        } else if rq.posted == 0 && rq.taken == 0 && rq.ring.log > 0 && rq.state == State::Ready {
            // Nothing has ever been posted: its driver is about to.
            io.at(now + FIRST_LOOKS, Due::LookAgain { queue: number, epoch });
        }
        self.fetch_requests(number, io);
        self.receive(io);
    }

    /// Requests are read ahead, where some are posted and few are here.
    pub(super) fn fetch_requests<G: GuestMemory>(&mut self, number: u32, io: &mut Io<'_, Due, G>) {
        let now = io.now;
        let ahead = self.requests_ahead;
        let Some(rq) = self.objects.rqs.get_mut(number).filter(|rq| rq.state != State::Reset) else { return };
        let here = rq.held.len() as u16 + rq.fetching;
        if here > ahead / 2 {
            return;
        }
        let posted = rq.posted.wrapping_sub(rq.fetched);
        if posted == 0 {
            // Few are left: have there been more?
            if !rq.looked {
                self.look_for_requests(number, io);
            }
            return;
        }
        let linked = matches!(rq.kind, Kind::Linked | Kind::Striding { linked: true, .. });
        let first = if linked { u32::from(rq.next) } else { u32::from(rq.fetched) };
        let first = first & (rq.ring.entries() - 1);
        let offset = u64::from(first) << rq.ring.stride;
        let to_end = rq.ring.entries() - first;
        let of_page = (rq.ring.pages.rest(offset) >> rq.ring.stride).max(1) as u32;
        let count = if linked { 1 } else { u32::from(posted.min(ahead - here)).min(to_end).min(of_page) };
        let Some(address) = rq.ring.entry(first) else {
            let next = rq.taken;
            if rq.state == State::Ready {
                // Those before it are good, and given up.
                rq.state = State::Error;
                self.flush_requests(number, io);
                let next = self.objects.rqs.get(number).map_or(next, |rq| rq.taken);
                self.receive_error(now, number, (next, next), io);
                self.receive_later(io);
            }
            return;
        };
        rq.fetching += count as u16;
        rq.fetched = rq.fetched.wrapping_add(count as u16);
        let (bytes, epoch) = (u64::from(count) << rq.ring.stride, rq.epoch);
        let purpose = Purpose::new(Side::Receive, rq.lane.unwrap_or(UNNAMED), Moves::Descriptors);
        if linked {
            let mut next = [0; 4];
            self.faults[0] += u64::from(!io.guest.read(address, &mut next));
            rq.next = half(&next, 2);
        }
        self.fetched[0].0 += 1;
        self.fetched[0].1 += u64::from(count);
        let until = io.read(now, address, bytes, purpose);
        // Whichever read is answered first: requests are used in the order in which they were posted.
        if let Some(rq) = self.objects.rqs.get_mut(number) {
            rq.here_by = rq.here_by.max(until);
            io.at(rq.here_by, Due::Requests { queue: number, epoch, first: first as u16, count: count as u16 });
        }
    }

    /// Requests are here.
    pub(super) fn take_requests<G: GuestMemory>(
        &mut self,
        number: u32,
        epoch: u32,
        (first, count): (u16, u16),
        io: &mut Io<'_, Due, G>,
    ) {
        let Some(rq) = self.objects.rqs.get_mut(number).filter(|rq| rq.epoch == epoch) else { return };
        rq.fetching -= count;
        for n in 0..count {
            let posted = self.request(number, first.wrapping_add(n), io);
            self.offers(number, &posted, io);
            if let Some(rq) = self.objects.rqs.get_mut(number) {
                rq.held.push_back(posted);
            }
        }
        if self.objects.rqs.get(number).is_some_and(|rq| rq.state == State::Error) {
            self.flush_requests(number, io);
        } else {
            self.fetch_requests(number, io);
        }
        self.receive(io);
    }

    /// The books hear of the buffers that a request offers: one, or one a stride.
    fn offers<G>(&self, number: u32, posted: &Posted, io: &mut Io<'_, Due, G>) {
        let Some(rq) = self.objects.rqs.get(number) else { return };
        let (count, stride, shift) = match rq.kind {
            Kind::Striding { strides, stride, shift, .. } => (strides, stride, shift),
            Kind::Cyclic | Kind::Linked => (1, 0, 0),
        };
        let first = posted.first;
        for n in 0..count {
            let address = first.address.wrapping_add(u64::from(n) * u64::from(stride) + u64::from(shift));
            self.objects.translate(Segment { length: 1, address, ..first }, &mut |buffer, _| {
                io.note(Notice::Offered { buffer });
            });
        }
    }

    /// A request as it stands in memory.
    fn request<G: GuestMemory>(&mut self, number: u32, index: u16, io: &Io<'_, Due, G>) -> Posted {
        let mut posted = Posted { index, ..Posted::default() };
        let Some(rq) = self.objects.rqs.get(number) else { return posted };
        // Those of striding queues, linked or not, begin as linked ones do.
        let skip = if rq.kind == Kind::Cyclic { 0 } else { 16 };
        let mut bytes = [0; 16 * SEGMENTS + 16];
        let size = (1usize << rq.ring.stride).min(bytes.len());
        let there = rq.ring.entry(index.into()).is_some_and(|at| io.guest.read(at, &mut bytes[..size]));
        self.faults[0] += u64::from(!there);
        let parts = bytes[skip.min(size)..size].chunks_exact(16).take(SEGMENTS).map(Segment::of);
        let mut pieces = parts.take_while(|s| s.key != END_KEY);
        posted.first = pieces.next().unwrap_or_default();
        posted.more.extend(pieces);
        posted
    }

    /// The packet at the front of the buffer is written, and told of.
    fn deliver<G: GuestMemory>(&mut self, stored: Stored, io: &mut Io<'_, Due, G>) {
        let (now, number) = (io.now, stored.queue);
        let Some(rq) = self.objects.rqs.get_mut(number) else { return };
        let Some(posted) = rq.held.front().cloned() else { return };
        let vlan = stored.vlan.filter(|_| rq.strips);
        let length = rq.in_memory(&stored.packet, vlan.is_some());
        let Some(spot) = rq.place(&posted, length) else {
            return self.does_not_fit(stored, length, posted.index, io);
        };
        let (lane, cq, free) = (rq.lane, rq.cq, u32::from(rq.posted.wrapping_sub(rq.taken)));
        let header = !matches!(rq.kind, Kind::Striding { .. });
        self.buffer.pop();
        let scattered = if self.fails(0, now) { Scattered::NoKey } else { self.scatter(&posted, spot.from, length) };
        if scattered != Scattered::Whole {
            let request = (posted.index, spot.counter);
            if scattered == Scattered::TooLong {
                self.request_fails(now, number, request, TOO_LONG, io);
            } else {
                // Strides that are left of it go with it.
                if let Some(rq) = self.objects.rqs.get_mut(number).filter(|rq| rq.used > 0) {
                    rq.finish();
                }
                self.receive_error(now, number, request, io);
            }
            io.note(Notice::Lost { id: stored.packet.id });
            self.release(now, stored.packet.length, io);
            return;
        }
        let purpose = |moves| Purpose::new(Side::Receive, lane.unwrap_or(UNNAMED), moves);
        io.note(Notice::Started { id: stored.packet.id });
        let begin = now + self.packet_latency;
        let (mut left, mut done) = (begin, 0);
        for &(address, bytes) in &self.pieces {
            let part = FramePart {
                packet: &stored.packet,
                bytes: done..done + bytes as usize,
                untagged: vlan.is_some(),
                header,
            };
            done = part.bytes.end;
            let (last, _) = io.write_frame(begin, address, part, purpose(Moves::Payload));
            left = left.max(last);
        }
        let buffer = self.pieces.first().map_or(0, |p| p.0);
        let queue = self.lane_of(number);
        io.note(Notice::Left { queue, free });
        io.tell(left, Notice::Delivered { id: stored.packet.id, queue, buffer });
        let mut entry = received(&stored, &spot, left, (io.mac.frame(&stored.packet), vlan));
        let told = Told { queue, id: stored.packet.id };
        self.tell_received(left, cq, (&mut entry, told), purpose(Moves::Completions), io);
        self.counted[0][usize::from(queue)] += 1;
        self.writing = true;
        // The next one enters the pipeline as this one's last bytes do: what it takes through it is no rate.
        let entered = left.saturating_sub(self.packet_latency).max(now);
        io.at(entered, Due::Written { bytes: stored.packet.length });
        self.fetch_requests(number, io);
    }

    /// The request at the front has too few strides left: what has been begun of it is given up, and software is told.
    fn does_not_fit<G: GuestMemory>(&mut self, stored: Stored, length: u32, index: u16, io: &mut Io<'_, Due, G>) {
        let number = stored.queue;
        let Some(rq) = self.objects.rqs.get_mut(number) else { return };
        let Kind::Striding { strides, stride, shift, .. } = rq.kind else { return };
        rq.looked = false;
        if rq.used > 0 {
            let (rest, used, cq, lane) = (strides.saturating_sub(rq.used), rq.used, rq.cq, rq.lane);
            let by = Purpose::new(Side::Receive, rq.lane.unwrap_or(UNNAMED), Moves::Completions);
            rq.finish();
            let mut entry = [0; ENTRY];
            place(&mut entry, 2, &index.to_be_bytes());
            place(&mut entry, 0x18, &number.to_be_bytes());
            place(&mut entry, 0x2c, &(1 << 31 | rest << 16).to_be_bytes());
            place(&mut entry, 0x3c, &(used as u16).to_be_bytes());
            entry[ENTRY - 1] = RECEIVED << 4;
            let told = self.complete(io.now, cq, &mut entry, by, io);
            packetless(told, lane, io);
        }
        // No request has room for it.
        if (length + shift).div_ceil(stride) > strides {
            self.buffer.pop();
            self.drop_for_want(stored, io);
        }
    }

    /// A packet has left for memory.
    pub(super) fn written<G: GuestMemory>(&mut self, bytes: u32, io: &mut Io<'_, Due, G>) {
        self.writing = false;
        self.release(io.now, bytes, io);
        io.note(Notice::Fifo { bytes: self.buffer.used() });
        self.receive(io);
    }

    /// Finds pieces of memory for so many bytes of a request, from a byte of it on.
    fn scatter(&mut self, posted: &Posted, mut from: u32, mut length: u32) -> Scattered {
        self.pieces.clear();
        let pieces = &mut self.pieces;
        for s in std::iter::once(&posted.first).chain(&posted.more) {
            if length == 0 {
                break;
            }
            if from >= s.length {
                from -= s.length;
                continue;
            }
            let part = (s.length - from).min(length);
            let s = Segment { length: part, address: s.address.wrapping_add(from.into()), ..*s };
            from = 0;
            length -= part;
            if !self.objects.translate(s, &mut |at, bytes| pieces.push((at, bytes))) {
                return Scattered::NoKey;
            }
        }
        if length == 0 {
            Scattered::Whole
        } else {
            Scattered::TooLong
        }
    }
}

/// What becomes of a packet's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scattered {
    Whole,
    /// The request has fewer.
    TooLong,
    /// Some lie in no memory key.
    NoKey,
}

/// Of what was found in a packet: its VLAN tag is in the completion.
const STRIPPED: u8 = 1;

/// Where a packet goes in its queue's requests.
struct Spot {
    /// Byte of the request from which on it is written.
    from: u32,
    /// Of a striding queue, the request's index: others leave the field empty.
    index: u16,
    /// Number of the request, or of the first stride in it.
    counter: u16,
    /// Bytes, and strides above them.
    count: u32,
    /// The queue's name in the program.
    user_index: u32,
}

impl Rq {
    /// Packets that its ring has room for: of a striding queue at most.
    fn buffers(&self) -> u32 {
        self.ring.entries().saturating_mul(if let Kind::Striding { strides, .. } = self.kind { strides } else { 1 })
    }

    /// Bytes of a packet that are written.
    fn in_memory(&self, packet: &Packet, untagged: bool) -> u32 {
        let left_out = if self.keeps_fcs { 0 } else { FCS } + vlan::bytes(untagged);
        packet.length.saturating_sub(left_out)
    }

    /// Takes room for a packet of so many bytes in the request at the front; none where it has too few strides left.
    fn place(&mut self, posted: &Posted, length: u32) -> Option<Spot> {
        let spot = match self.kind {
            Kind::Striding { strides, stride, shift, .. } => {
                let needs = (length + shift).div_ceil(stride);
                if self.used + needs > strides {
                    return None;
                }
                let (from, counter) = (self.used * stride + shift, self.used as u16);
                self.used += needs;
                if self.used >= strides {
                    self.finish();
                }
                Spot { from, index: posted.index, counter, count: needs << 16 | length, user_index: self.user_index }
            }
            Kind::Cyclic | Kind::Linked => {
                let counter = self.taken;
                self.finish();
                Spot { from: 0, index: 0, counter, count: length, user_index: self.user_index }
            }
        };
        // A packet that finds none of its queue's requests looks at the record once more.
        self.looked = false;
        Some(spot)
    }

    /// The request at the front is used up.
    pub(super) fn finish(&mut self) {
        (self.used, self.taken) = (0, self.taken.wrapping_add(1));
        self.held.pop_front();
    }
}

/// The completion of a packet whose last bytes leave at a time; with the tag that was taken off it.
fn received(stored: &Stored, spot: &Spot, left: Ps, (frame, vlan): (&[u8], Option<u16>)) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    // Of all behind the Ethernet header, tags that stay in the frame among it.
    let behind = checks::ETHERNET + vlan::bytes(vlan.is_some()) as usize;
    let sum = checks::sum(frame.get(behind..).unwrap_or_default(), 0);
    place(&mut entry, 2, &spot.index.to_be_bytes());
    place(&mut entry, 0x0c, &stored.hash.to_be_bytes());
    place(&mut entry, 0x20, &spot.user_index.to_be_bytes());
    entry[0x10] = stored.hashed;
    place(&mut entry, 0x14, &sum.to_be_bytes());
    place(&mut entry, 0x18, &stored.queue.to_be_bytes());
    entry[0x1c..0x1e].copy_from_slice(&found(frame));
    if let Some(vlan) = vlan {
        entry[0x1d] |= STRIPPED;
        place(&mut entry, 0x1e, &vlan.to_be_bytes());
    }
    place(&mut entry, 0x2c, &spot.count.to_be_bytes());
    place(&mut entry, 0x30, &(left.0 / 1000).to_be_bytes());
    place(&mut entry, 0x38, &(stored.tag & 0xff_ffff).to_be_bytes());
    place(&mut entry, 0x3c, &spot.counter.to_be_bytes());
    entry[ENTRY - 1] = RECEIVED << 4;
    entry
}

/// From one look at a queue that has never had a request, or has none left, to the next.
const FIRST_LOOKS: Ps = Ps::from_us(5);

#[cfg(test)]
mod tests {
    use super::super::objects::Cq;
    use super::*;

    /// A UDP datagram between these addresses and ports.
    fn udp(source: (u8, u16), destination: (u8, u16)) -> Vec<u8> {
        let mut f = vec![0; 60];
        f[12..15].copy_from_slice(&[8, 0, 0x45]);
        (f[17], f[23]) = (46, 17);
        f[26..34].copy_from_slice(&[10, 0, 0, source.0, 10, 0, 0, destination.0]);
        f[34..36].copy_from_slice(&source.1.to_be_bytes());
        f[36..38].copy_from_slice(&destination.1.to_be_bytes());
        f
    }

    /// A receiver that hashes addresses and ports so.
    fn tir(function: u8, symmetric: bool) -> Tir {
        let mut c = [0; 0x54];
        (0..40).for_each(|i| c[0x28 + i] = (i * 37 + 11) as u8);
        (c[0x20], c[0x24]) = (u8::from(symmetric) << 7, function << 4);
        c[0x50..].copy_from_slice(&(SOURCE | DESTINATION | SOURCE_PORT | DESTINATION_PORT).to_be_bytes());
        Tir::of(&c)
    }

    fn hash(tir: &Tir, f: &[u8]) -> (u32, u8) {
        let mut input = [0; 36];
        let (length, kind) = hash_input(tir, f, &mut input);
        (tir.hash_of(&input[..length]), kind)
    }

    #[test]
    fn a_symmetric_hash_is_of_or_and_exclusive_or() {
        let (there, back) = (udp((1, 1000), (6, 53)), udp((6, 53), (1, 1000)));
        let plain = tir(2, false);
        assert_ne!(hash(&plain, &there), hash(&plain, &back));
        let symmetric = tir(2, true);
        assert_eq!(hash(&symmetric, &there), hash(&symmetric, &back));
        let input = [10, 0, 0, 7, 0, 0, 0, 7, 3, 0xfd, 3, 0xdd];
        assert_eq!(hash(&symmetric, &there), (symmetric.hash.hash(&input), 1 << 2 | 2 << 6));
        let mut tagged = there.clone();
        drop(tagged.splice(12..12, [0x81, 0, 0, 5]));
        assert_eq!(hash(&plain, &tagged), hash(&plain, &there), "behind a tag the same");
    }

    #[test]
    fn the_other_function_is_an_inverted_exclusive_or_of_all_bytes() {
        let f = udp((1, 0x0102), (6, 0x0408));
        assert_eq!(hash(&tir(1, false), &f).0, u32::from(!8u8));
    }

    /// From the last event on, or from the last completion on.
    #[test]
    fn events_are_due_a_period_behind_one_or_the_other() {
        for (restarts, due) in [(false, 13), (true, 28)] {
            let mut cq = Cq { period: Ps::from_us(8), restarts, last_event: Ps::from_us(5), ..Cq::default() };
            cq.produce(Ps::from_us(20), 1);
            assert_eq!(cq.event_due(), Ps::from_us(due));
        }
    }

    /// The sum of a completion is of all behind the Ethernet header, a tag that stays among it, and not one that is taken off.
    #[test]
    fn sums_are_of_all_that_is_received() {
        let mut f = udp((1, 1), (2, 2));
        f.splice(12..12, [0x81, 0, 0, 5]);
        let packet = Packet { length: 68, ..Packet::default() };
        let stored = Stored { packet, queue: 5, epoch: 0, tag: 0, hash: 0, hashed: 0, vlan: None };
        let spot = Rq::default().place(&Posted::default(), 64).unwrap();
        for (vlan, from) in [(None, 14), (Some(5), 18)] {
            let e = received(&stored, &spot, Ps::ZERO, (&f, vlan));
            assert_eq!(half(&e, 0x14), checks::sum(&f[from..], 0));
        }
    }

    #[test]
    fn tags_are_told_of_and_what_is_left_out_is_not_counted() {
        let packet = Packet { length: 104, ..Packet::default() };
        let rq = |keeps_fcs| Rq { keeps_fcs, ..Rq::default() };
        let bytes = [(false, false), (false, true), (true, false), (true, true)];
        assert_eq!(bytes.map(|(keeps, untagged)| rq(keeps).in_memory(&packet, untagged)), [100, 96, 104, 100]);
        let stored = Stored { packet, queue: 5, epoch: 0, tag: 0, hash: 0, hashed: 0, vlan: None };
        let spot = Rq::default().place(&Posted::default(), 96);
        let plain = udp((1, 1), (2, 2));
        let of = |vlan| received(&stored, spot.as_ref().unwrap(), Ps(0), (&plain, vlan));
        let (with, without) = (of(Some(0x6005)), of(None));
        assert_eq!((with[0x1d], &with[0x1e..0x20]), (without[0x1d] | 1, &[0x60, 5][..]));
        assert_eq!((without[0x1d] & 1, &without[0x1e..0x20], &with[0x2c..0x30]), (0, &[0; 2][..], &[0, 0, 0, 96][..]));
    }
}
