//! Sending: a doorbell says how far a queue has been filled; requests are read in blocks of 64 bytes, several a read; what
//! they point to is read, packets in flight being limited by card and packet rate by queue; frames are completed (checksums,
//! segments) and go to the wire; where a request wants it a completion follows. A request that cannot be done completes with an
//! error, and puts its queue in the error state: all behind it that want a completion get one, with an error, in order, until
//! the driver resets the queue.
//!
//! Left out: requests written whole to the doorbell page (BlueFlame), rate limits, inner headers, copies back to
//! the host.

use super::events::{BAD_REQUEST, ENTRY, FLUSHED, LOCAL_PROTECTION, SENT};
use super::fields::{double, half, place, word};
use super::objects::{count_of, Mkey, Segment, Sq, State, Translation, PAGE_LEAST, PAGE_MOST, PIECE_LEAST};
use super::registers::class_of;
use super::{Due, Mlx5};
use crate::memory::GuestMemory;
use crate::nic::blocks::checks::{self, L3, L4};
use crate::nic::blocks::offload::{self, Context, Offload, Wants, PACKET_MAX};
use crate::nic::blocks::vlan;
use crate::nic::device::Io;
use crate::nic::notice::Notice;
use crate::requester::{Moves, Purpose, Side, UNNAMED};
use crate::wire::FCS;
use wiretime_base::Ps;

/// Bytes of a block, and the most that a request has of them.
const BLOCK: u32 = 64;
const BLOCKS_MOST: u16 = 16;

/// What requests ask for.
const NOP: u8 = 0;
const SEND: u8 = 0x0a;
const SEND_SEGMENTS: u8 = 0x0e;
const MODIFY_KEY: u8 = 0x25;
const SEND_PACKETS: u8 = 0x29;

/// In a request's Ethernet segment, where the length of inline headers else stands: a VLAN tag is put in.
const INSERTS_TAG: u16 = 1 << 15;
/// Checksums to insert.
const SUM_L3: u8 = 0x40;
const SUM_L4: u8 = 0x80;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Outcome {
    #[default]
    Sent,
    /// There is nothing to send: only its completion waits for those before it.
    Nothing,
    /// It completes with this syndrome.
    Fails(u8),
}

/// A packet on its way: what is known of it before its payload is here.
#[derive(Debug, Default)]
pub struct Work {
    queue: u32,
    epoch: u32,
    segments: Vec<Segment>,
    /// The memory that they are, once it has been asked for.
    pieces: Vec<(u64, u32)>,
    /// Bytes that stood in the request, before all others; others of them, and where in the frame they go.
    inline: Vec<u8>,
    between: Vec<(usize, Box<[u8]>)>,
    /// Bytes of the transmit FIFO that it has taken while it is being read.
    claimed: u64,
    sums: u8,
    segment_size: u16,
    /// Put in behind the addresses.
    tag: Option<u16>,
    /// Number of its request and what that asked for; whether it ends with this packet, and software then wants to know.
    request: (u16, u8),
    /// How many blocks there are up to its request's end.
    behind: u16,
    ends: bool,
    signals: bool,
    outcome: Outcome,
    until: Ps,
    rung: Ps,
}

fn purpose(sq: &Sq, moves: Moves) -> Purpose {
    Purpose::new(Side::Transmit, sq.lane.unwrap_or(UNNAMED), moves)
}

impl Mlx5 {
    /// The number by which the queue of a doorbell is told apart.
    pub(super) fn lane_of_doorbell(&self, value: u64) -> u16 {
        let queue = word(&value.to_le_bytes(), 4) >> 8;
        self.objects.sqs.get(queue).and_then(|sq| sq.lane).unwrap_or(UNNAMED)
    }

    /// A doorbell: of which queue, and the number of the last request and its size.
    pub(super) fn send_doorbell<G: GuestMemory>(&mut self, value: u64, io: &mut Io<'_, Due, G>) {
        let bytes = value.to_le_bytes();
        let queue = word(&bytes, 4) >> 8;
        let now = io.now;
        let Some(sq) = self.objects.sqs.get_mut(queue).filter(|sq| sq.state != State::Reset) else { return };
        sq.rung = now;
        let (record, epoch, lane) = (sq.ring.record.wrapping_add(4), sq.epoch, sq.lane);
        let purpose = purpose(sq, Moves::Descriptors);
        if let Some(queue) = lane {
            io.note(Notice::Rung { queue });
        }
        // What is posted stands in a record in memory, and, for the last request, in the doorbell itself.
        let until = if self.record_first { io.read(now, record, 4, purpose) } else { now };
        io.at(until, Due::SendRecord { queue, epoch });
    }

    /// The record of a queue is here.
    pub(super) fn send_record<G: GuestMemory>(&mut self, queue: u32, epoch: u32, io: &mut Io<'_, Due, G>) {
        let Some(sq) = self.objects.sqs.get_mut(queue).filter(|sq| sq.epoch == epoch) else { return };
        let mut record = [0; 4];
        self.faults[1] += u64::from(!io.guest.read(sq.ring.record.wrapping_add(4), &mut record));
        let posted = count_of(&record);
        if u32::from(posted.wrapping_sub(sq.parsed)) <= sq.ring.entries() {
            sq.posted = posted;
        }
        self.fetch_work(queue, io);
    }

    /// Blocks of requests are read, as far as they are posted.
    pub(super) fn fetch_work<G: GuestMemory>(&mut self, queue: u32, io: &mut Io<'_, Due, G>) {
        let now = io.now;
        let most = self.blocks_a_read;
        let ahead = self.blocks_ahead;
        loop {
            let Some(sq) = self.objects.sqs.get_mut(queue).filter(|sq| sq.state != State::Reset) else { return };
            let waits = sq.posted.wrapping_sub(sq.fetched);
            let under_way = sq.fetched.wrapping_sub(sq.parsed);
            if waits == 0 || under_way >= ahead || sq.work.len() >= PACKETS_AHEAD {
                return;
            }
            let first = u32::from(sq.fetched) & (sq.ring.entries() - 1);
            let to_end = sq.ring.entries() - first;
            let of_page = (sq.ring.pages.rest(u64::from(first * BLOCK)) / u64::from(BLOCK)).max(1) as u32;
            let count = u32::from(waits.min(most).min(ahead - under_way)).min(to_end).min(of_page);
            let Some(address) = sq.ring.entry(first) else {
                self.faults[1] += 1;
                return;
            };
            sq.fetched = sq.fetched.wrapping_add(count as u16);
            let (epoch, purpose) = (sq.epoch, purpose(sq, Moves::Descriptors));
            self.fetched[1].0 += 1;
            self.fetched[1].1 += u64::from(count);
            let until = io.read(now, address, u64::from(count * BLOCK), purpose);
            // Whichever read is answered first: blocks are taken apart in order.
            let Some(sq) = self.objects.sqs.get_mut(queue) else { return };
            sq.here_by = sq.here_by.max(until);
            io.at(sq.here_by, Due::Blocks { queue, epoch, count: count as u16 });
        }
    }

    /// Blocks are here: requests that are whole are taken apart.
    pub(super) fn take_blocks<G: GuestMemory>(&mut self, queue: u32, epoch: u32, count: u16, io: &mut Io<'_, Due, G>) {
        let Some(sq) = self.objects.sqs.get_mut(queue).filter(|sq| sq.epoch == epoch) else { return };
        sq.here = sq.here.wrapping_add(count);
        let mut request = [0; BLOCK as usize * BLOCKS_MOST as usize];
        loop {
            let Some(sq) = self.objects.sqs.get(queue).filter(|sq| sq.epoch == epoch) else { return };
            let here = sq.here.wrapping_sub(sq.parsed).min(BLOCKS_MOST);
            if here == 0 {
                break;
            }
            let mut control = [0; 16];
            let block = |i: u16| sq.ring.entry(u32::from(sq.parsed.wrapping_add(i)));
            self.faults[1] += u64::from(!block(0).is_some_and(|at| io.guest.read(at, &mut control)));
            let units = (word(&control, 4) & 0x3f).max(1);
            let blocks = (units * 16).div_ceil(BLOCK) as u16;
            if blocks > here {
                break;
            }
            for i in 0..blocks {
                let at = usize::from(i) * BLOCK as usize;
                let there = block(i).is_some_and(|a| io.guest.read(a, &mut request[at..at + BLOCK as usize]));
                self.faults[1] += u64::from(!there);
            }
            if let Some(sq) = self.objects.sqs.get_mut(queue) {
                sq.parsed = sq.parsed.wrapping_add(blocks);
            }
            self.request_of(queue, &request[..units as usize * 16], io);
        }
        self.fetch_work(queue, io);
        self.ask_payload(io);
    }

    /// A request is taken apart into packets.
    fn request_of<G: GuestMemory>(&mut self, queue: u32, w: &[u8], io: &mut Io<'_, Due, G>) {
        let now = io.now;
        let (opcode, counter) = (w[3], half(w, 1));
        let Some(sq) = self.objects.sqs.get(queue) else { return };
        let (cq, epoch, rung, behind) = (sq.cq, sq.epoch, sq.rung, sq.parsed);
        let signals = w[11] & 0xc >= 8;
        let tag = (half(w, 28) & INSERTS_TAG != 0).then(|| half(w, 30));
        let request = (counter, opcode);
        let whole = |work: Work| Work { queue, epoch, rung, request, behind, ends: true, signals, ..work };
        match opcode {
            _ if sq.state == State::Error => {
                let work = whole(self.spare.pop().unwrap_or_default());
                self.queue_work(Work { outcome: Outcome::Fails(FLUSHED), ..work }, io);
            }
            SEND | SEND_SEGMENTS => {
                let mut work = whole(self.spare.pop().unwrap_or_default());
                (work.sums, work.tag) = (w.get(20).copied().unwrap_or(0), tag);
                work.segment_size = if opcode == SEND_SEGMENTS { half(w, 22) & 0x3fff } else { 0 };
                let header = usize::from(half(w, 28));
                let mut at = 32;
                if header != 0 && tag.is_none() {
                    work.inline.extend_from_slice(w.get(30..30 + header).unwrap_or_default());
                    at = 16 + (14 + header).next_multiple_of(16);
                }
                gather_list(&mut work, w.get(at..).unwrap_or_default());
                self.queue_work(work, io);
            }
            SEND_PACKETS => {
                let sums = w.get(20).copied().unwrap_or(0);
                let mut at = 32;
                let before = sq.work.len();
                while let Some(part) = w.get(at..at + 16) {
                    let mut work = Work { ends: false, sums, tag, ..whole(self.spare.pop().unwrap_or_default()) };
                    let size = word(part, 0);
                    if size & 1 << 31 != 0 {
                        let bytes = (size & 0x3ff) as usize;
                        work.inline.extend_from_slice(w.get(at + 4..at + 4 + bytes).unwrap_or_default());
                        at += (4 + bytes).next_multiple_of(16);
                    } else {
                        if size == 0 {
                            self.spare.push(work);
                            break;
                        }
                        work.segments.push(Segment::of(part));
                        at += 16;
                    }
                    self.queue_work(work, io);
                }
                let Some(sq) = self.objects.sqs.get_mut(queue) else { return };
                let more = sq.work.len() > before;
                match sq.work.back_mut().filter(|_| more) {
                    Some(last) => last.ends = true,
                    None => {
                        let work = Work { outcome: Outcome::Nothing, ..whole(Work::default()) };
                        self.in_turn(work, cq, io);
                    }
                }
            }
            MODIFY_KEY => {
                self.modify_key(w, io);
                if signals {
                    self.sent_completion(now, queue, cq, request, io);
                }
            }
            NOP => {
                // The driver's test of write-combining: a copy in the doorbell page alone asks for a completion.
                // It comes by a queue that has no transport to the wire.
                let signals = signals || self.blue_flame && !sq.transport;
                self.in_turn(Work { outcome: Outcome::Nothing, signals, ..whole(Work::default()) }, cq, io);
            }
            _ => {
                let work = whole(self.spare.pop().unwrap_or_default());
                self.queue_work(Work { outcome: Outcome::Fails(BAD_REQUEST), ..work }, io);
            }
        }
    }

    /// A request that sends nothing completes behind those before it: at once where there are none.
    fn in_turn<G: GuestMemory>(&mut self, work: Work, cq: u32, io: &mut Io<'_, Due, G>) {
        let (now, queue) = (io.now, work.queue);
        if !work.signals {
            return;
        }
        let waits = self.objects.sqs.get(queue).is_some_and(|sq| !sq.work.is_empty());
        if waits || self.in_flight.iter().any(|w| (w.queue, w.epoch) == (queue, work.epoch)) {
            self.queue_work(work, io);
        } else {
            self.sent_completion(now, queue, cq, work.request, io);
        }
    }

    fn queue_work<G: GuestMemory>(&mut self, work: Work, io: &mut Io<'_, Due, G>) {
        let queue = work.queue;
        if self.objects.sqs.get(queue).is_some_and(|sq| sq.lane.is_none() && sq.state == State::Ready) {
            self.sends_first(queue, &mut io.effects);
        }
        if let Some((sq, lane)) = self.objects.sqs.get(queue).and_then(|sq| Some((sq, sq.lane?))) {
            io.tell(work.rung, Notice::Posted { queue: lane, count: 1, level: sq.level() });
        }
        if let Some(sq) = self.objects.sqs.get_mut(queue) {
            if sq.work.is_empty() {
                self.sending.push_back(queue);
            }
            sq.work.push_back(work);
        }
    }

    /// What the next packets point to is read, queues in turn, as far as the card takes more.
    pub(super) fn ask_payload<G: GuestMemory>(&mut self, io: &mut Io<'_, Due, G>) {
        let now = io.now;
        let (mut passed, mut later) = (0, Ps::MAX);
        while passed < self.sending.len() && self.in_flight.len() < self.in_flight_most && self.waiting < self.tx_fifo {
            let Some(queue) = self.sending.pop_front() else { return };
            let Some(sq) = self.objects.sqs.get_mut(queue) else { continue };
            if sq.ready > now {
                later = later.min(sq.ready);
                passed += 1;
                self.sending.push_back(queue);
                continue;
            }
            let Some(work) = sq.work.pop_front() else { continue };
            sq.ready = now + self.packet_time;
            if !sq.work.is_empty() {
                self.sending.push_back(queue);
            }
            passed = 0;
            self.ask_packet(queue, work, io);
        }
        if later < self.asks {
            self.asks = later;
            io.at(later, Due::Ask);
        }
    }

    /// A queue's time has come.
    pub(super) fn ask_again<G: GuestMemory>(&mut self, io: &mut Io<'_, Due, G>) {
        if io.now != self.asks {
            return; // another time has been set since
        }
        self.asks = Ps::MAX;
        self.ask_payload(io);
    }

    fn ask_packet<G: GuestMemory>(&mut self, queue: u32, mut work: Work, io: &mut Io<'_, Due, G>) {
        let now = io.now;
        let ready = self.objects.sqs.get(queue).is_some_and(|sq| sq.state == State::Ready);
        if work.outcome == Outcome::Sent && ready {
            let (pieces, objects) = (&mut work.pieces, &self.objects);
            let total: u64 = work.segments.iter().map(|s| u64::from(s.length)).sum();
            let fits = total <= PACKET_MAX as u64;
            let good = fits && work.segments.iter().all(|s| objects.translate(*s, &mut |at, n| pieces.push((at, n))));
            let between: usize = work.between.iter().map(|(_, bytes)| bytes.len()).sum();
            work.claimed = total + (work.inline.len() + between) as u64;
            if self.fails(1, now) || !good {
                work.outcome = Outcome::Fails(LOCAL_PROTECTION);
            }
        }
        let Some(sq) = self.objects.sqs.get_mut(queue) else { return };
        if sq.state == State::Error {
            work.outcome = Outcome::Fails(FLUSHED);
            // The rest of the request that has failed: one error is enough.
            if sq.failing {
                (sq.failing, work.ends) = (!work.ends, false);
            }
        } else if matches!(work.outcome, Outcome::Fails(_)) {
            (sq.state, sq.failing) = (State::Error, !work.ends);
        }
        if work.outcome != Outcome::Sent {
            work.pieces.clear();
            work.claimed = 0;
        }
        self.waiting += work.claimed;
        self.waiting_most = self.waiting_most.max(self.waiting);
        let purpose = purpose(sq, Moves::Payload);
        if let Some(queue) = sq.lane {
            io.note(Notice::Begun { queue });
        }
        let mut until = now;
        for &(address, bytes) in &work.pieces {
            until = until.max(io.read(now, address, bytes.into(), purpose));
        }
        // Packets stay in order.
        work.until = until.max(self.in_flight.back().map_or(Ps::ZERO, |w| w.until));
        io.at(work.until, Due::Payload);
        self.in_flight.push_back(work);
        self.fetch_work(queue, io);
    }

    fn recycle(&mut self, mut work: Work) {
        work.segments.clear();
        work.pieces.clear();
        work.inline.clear();
        work.between.clear();
        (work.segment_size, work.sums, work.tag, work.outcome) = (0, 0, None, Outcome::Sent);
        if self.spare.len() < SPARE {
            self.spare.push(work);
        }
    }

    /// The first packet in flight is here.
    pub(super) fn payload<G: GuestMemory>(&mut self, io: &mut Io<'_, Due, G>) {
        let Some(mut work) = self.in_flight.pop_front() else { return };
        let now = io.now;
        // Its place in the FIFO becomes its frames'.
        self.waiting -= std::mem::take(&mut work.claimed);
        let alive = self.objects.sqs.get(work.queue).filter(|sq| sq.epoch == work.epoch);
        let Some((lane, cq)) = alive.map(|sq| (sq.lane, sq.cq)) else {
            self.recycle(work);
            self.ask_payload(io);
            return;
        };
        if work.outcome != Outcome::Sent {
            self.ends_without_a_frame(work, (lane, cq), io);
            self.ask_payload(io);
            return;
        }
        let lane = lane.unwrap_or(0);
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        frame.extend_from_slice(&work.inline);
        for &(at, bytes) in &work.pieces {
            let end = frame.len();
            frame.resize(end + bytes as usize, 0);
            self.faults[1] += u64::from(!io.guest.read(at, &mut frame[end..]));
        }
        for (at, bytes) in &work.between {
            let at = (*at).min(frame.len());
            frame.splice(at..at, bytes.iter().copied());
        }
        io.note(Notice::Read { queue: lane, first: Some(work.pieces.first().map_or(0, |p| p.0)) });
        io.note(Notice::Gathered { queue: lane });
        if let Some(tag) = work.tag {
            vlan::insert(&mut frame, tag);
        }
        let offload = offload_of(&mut frame, work.sums, work.segment_size);
        let mut scratch = std::mem::take(&mut self.scratch);
        let begin = now + self.packet_latency;
        let counters = &mut self.port.counters;
        let waiting = &mut self.waiting;
        let good = offload::frames(&mut frame, &offload, &mut scratch, |f| {
            let length = io.send(begin, lane, f, LEAST) as u64;
            *waiting += length;
            counters.sent.count(class_of(f), length + u64::from(FCS));
        });
        self.waiting_most = self.waiting_most.max(self.waiting);
        if !good {
            io.note(Notice::Senseless { queue: lane });
        }
        (self.frame, self.scratch) = (frame, scratch);
        self.counted[1][usize::from(lane)] += 1;
        let reported = work.ends && work.signals;
        if reported {
            self.sent_completion(now, work.queue, cq, work.request, io);
        }
        self.finished(&work, lane, reported, io);
        self.recycle(work);
        self.ask_payload(io);
    }

    /// The turn of a packet has come that is not sent.
    fn ends_without_a_frame<G: GuestMemory>(
        &mut self,
        work: Work,
        (lane, cq): (Option<u16>, u32),
        io: &mut Io<'_, Due, G>,
    ) {
        let (now, queue) = (io.now, work.queue);
        let wanted = work.ends && work.signals;
        let told = match work.outcome {
            Outcome::Fails(syndrome) if wanted || syndrome != FLUSHED => {
                self.send_error(now, queue, work.request, syndrome, io);
                true
            }
            Outcome::Nothing => {
                self.sent_completion(now, queue, cq, work.request, io);
                true
            }
            _ => false,
        };
        if let Some(lane) = lane {
            io.note(Notice::Read { queue: lane, first: None });
            self.finished(&work, lane, told, io);
        }
        self.recycle(work);
    }

    /// A packet is finished, and the request that ends with it: requests before it that sent nothing as well.
    fn finished<G>(&mut self, work: &Work, lane: u16, reported: bool, io: &mut Io<'_, Due, G>) {
        let Some(sq) = self.objects.sqs.get_mut(work.queue) else { return };
        let mut entries = 0;
        if work.ends {
            entries = work.behind.wrapping_sub(sq.done).into();
            sq.done = work.behind;
        }
        io.note(Notice::Finished { queue: lane, entries, reported, level: sq.level() });
    }

    fn sent_completion<G: GuestMemory>(
        &mut self,
        t: Ps,
        queue: u32,
        cq: u32,
        (counter, opcode): (u16, u8),
        io: &mut Io<'_, Due, G>,
    ) {
        let mut entry = [0; ENTRY];
        place(&mut entry, 0x30, &(t.0 / 1000).to_be_bytes());
        place(&mut entry, 0x38, &(u32::from(opcode) << 24 | queue).to_be_bytes());
        place(&mut entry, 0x3c, &counter.to_be_bytes());
        entry[ENTRY - 1] = SENT << 4;
        let Some(sq) = self.objects.sqs.get(queue) else { return };
        place(&mut entry, 0x20, &sq.user_index.to_be_bytes());
        let purpose = purpose(sq, Moves::Completions);
        if self.complete(t, cq, &mut entry, purpose, io).is_none() {
            self.lost_completion(t, cq, io);
        }
    }

    /// A request changes what a memory key translates.
    fn modify_key<G: GuestMemory>(&mut self, w: &[u8], io: &Io<'_, Due, G>) {
        let flags = w.get(16).copied().unwrap_or(0);
        let (count, offset, mask) = (half(w, 20), half(w, 22), double(w, 24));
        let segment = w.get(64..128).unwrap_or_default();
        let mut list = Vec::new();
        if flags & 0x80 != 0 {
            list.extend_from_slice(w.get(128..).unwrap_or_default());
        } else if count > 0 {
            let s = Segment::of(w.get(128..144).unwrap_or(&[0; 16]));
            let guest = io.guest;
            self.objects.translate(Segment { length: s.length.min(1 << 20), ..s }, &mut |at, bytes| {
                let end = list.len();
                list.resize(end + bytes as usize, 0);
                guest.read(at, &mut list[end..]);
            });
        }
        let key = word(w, 12);
        let Some(m) = self.objects.keys.get_mut(key >> 8) else {
            self.faults[1] += 1;
            return;
        };
        m.low = key as u8;
        change_key(m, (mask, segment), (if flags & 0x10 != 0 { offset } else { 0 }, &list));
    }
}

/// What changes of a key: fields by their bits, and its translation from a place on (in units of 16 bytes).
fn change_key(m: &mut Mkey, (mask, c): (u64, &[u8]), (offset, list): (u16, &[u8])) {
    if mask & 1 != 0 {
        m.length = double(c, 0x18);
    }
    if mask & 1 << 6 != 0 {
        m.start = double(c, 0x10);
    }
    if mask & 1 << 29 != 0 {
        m.free = c.first().is_some_and(|b| b & 0x40 != 0);
    }
    let page = (mask & 2 != 0).then(|| u32::from(c.get(0x3b).map_or(12, |b| b & 0x3f)));
    let at = usize::from(offset);
    match &mut m.translation {
        Translation::Physical => {}
        Translation::Pages { log, list: pages } => {
            *log = page.map_or(*log, |page| page.clamp(PAGE_LEAST, PAGE_MOST));
            // What the key was not made for is not there.
            for (to, from) in pages.iter_mut().skip(2 * at).zip(list.chunks_exact(8)) {
                *to = double(from, 0) & !0xfff;
            }
        }
        Translation::Keys { log, list: keys } => {
            *log = page.map_or(*log, |page| page.clamp(PIECE_LEAST, PAGE_MOST));
            for (to, from) in keys.iter_mut().skip(at).zip(list.chunks_exact(16)) {
                *to = (word(from, 4), double(from, 8));
            }
        }
        Translation::Lengths(parts) => parts.change(at, list.chunks_exact(16).map(Segment::of)),
    }
}

/// Segments of a request: pointers, and bytes that stand in it.
fn gather_list(work: &mut Work, list: &[u8]) {
    let (mut at, mut length) = (0, work.inline.len());
    while let Some(part) = list.get(at..at + 16) {
        let size = word(part, 0);
        if size & 1 << 31 != 0 {
            let bytes = (size & 0x3ff) as usize;
            let found = list.get(at + 4..at + 4 + bytes).unwrap_or_default();
            // Of a packet of several buffers net_mlx5 puts those of up to 12 bytes into the request, also the last one.
            if work.segments.is_empty() {
                work.inline.extend_from_slice(found);
            } else {
                work.between.push((length, found.into()));
            }
            length += found.len();
            at += (4 + bytes).next_multiple_of(16);
        } else {
            if size > 0 {
                work.segments.push(Segment::of(part));
                length += size as usize;
            }
            at += 16;
        }
    }
}

/// What is to be done to a frame. Seeds of transport checksums are put in: the device sums all of it, whatever stood there.
fn offload_of(frame: &mut [u8], sums: u8, segment_size: u16) -> Offload {
    let l = checks::layout(frame);
    let tcp = l.l4 == L4::Tcp;
    let field = l.transport + if tcp { 16 } else { 6 };
    let segments = segment_size != 0 && l.l4 != L4::None;
    let wants = Wants {
        segments,
        ip: sums & SUM_L3 != 0 && l.l3 == L3::V4,
        l4: sums & SUM_L4 != 0 && l.l4 != L4::None,
        ..Wants::default()
    };
    if wants.l4 || segments {
        let length = if segments { 0 } else { l.end.saturating_sub(l.transport) as u32 };
        let seed = checks::pseudo(frame, &l, length);
        if let Some(there) = frame.get_mut(field..field + 2) {
            there.copy_from_slice(&seed.to_be_bytes());
        }
    }
    if wants.ip {
        if let Some(there) = frame.get_mut(l.network + 10..l.network + 12) {
            there.fill(0);
        }
    }
    let header = if tcp { usize::from(frame.get(l.transport + 12).map_or(0, |b| b >> 4)) * 4 } else { 8 };
    let context = Context {
        ip: [l.network as u16, (l.network + 10) as u16, (l.transport.max(l.network + 1) - 1) as u16],
        // What lies behind the packet in its frame is in no sum.
        l4: [l.transport as u16, field as u16, if segments { 0 } else { l.end.saturating_sub(1) as u16 }],
        payload: 0,
        mss: segment_size,
        header: (l.transport + header) as u16,
        tcp,
        other_l4: l.l4 == L4::None,
        ipv4: l.l3 == L3::V4,
        vlan: 0,
    };
    Offload { wants, context }
}

/// Shortest frame, without FCS.
const LEAST: usize = 60;
/// Packets of a queue that are taken apart ahead: no more requests are read meanwhile.
const PACKETS_AHEAD: usize = 256;
/// Packets of the past that are kept to be used again.
const SPARE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::blocks::offload;

    /// What a sender has left behind its datagram, as a forwarder passes it on, is in no checksum.
    #[test]
    fn sums_end_with_the_datagram() {
        for trailer in [0, 7] {
            let mut f = vec![trailer; 60];
            f[..46].fill(0);
            f[12..15].copy_from_slice(&[8, 0, 0x45]);
            (f[17], f[23]) = (32, 17);
            f[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
            f[34..40].copy_from_slice(&[0, 5, 0, 6, 0, 12]);
            f[42..46].copy_from_slice(&[1, 2, 3, 4]);
            let (asked, mut sent) = (offload_of(&mut f, SUM_L3 | SUM_L4, 0), Vec::new());
            assert!(offload::frames(&mut f, &asked, &mut Vec::new(), |frame| sent = frame.to_vec()));
            let found = checks::check(&sent);
            assert!(found.l4_checked && !found.l4_bad && !found.l3_bad, "trailer {trailer}: {found:?}");
        }
    }

    /// As net_mlx5 writes a packet of several buffers, the last one of a few bytes.
    #[test]
    fn bytes_behind_pointers_stay_behind_them() {
        let inline = |bytes: &[u8]| {
            let mut part = (1u32 << 31 | bytes.len() as u32).to_be_bytes().to_vec();
            part.extend_from_slice(bytes);
            part.resize(part.len().next_multiple_of(16), 0);
            part
        };
        let pointer = |length: u32| [length.to_be_bytes().to_vec(), vec![0; 12]].concat();
        let list = [inline(&[1; 20]), pointer(400), inline(&[2; 8]), pointer(5), inline(&[3; 2])].concat();
        let mut work = Work { inline: vec![9; 18], ..Work::default() };
        gather_list(&mut work, &list);
        assert_eq!((work.inline.len(), work.segments.iter().map(|s| s.length).collect::<Vec<_>>()), (38, vec![400, 5]));
        let between: Vec<(usize, &[u8])> = work.between.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
        assert_eq!(between, [(438, &[2u8; 8][..]), (451, &[3; 2])]);
    }
}
