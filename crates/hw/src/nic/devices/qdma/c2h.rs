//! Streams to the host: packets wait in a buffer, take descriptors in order of arrival, and are written in requests that cross
//! no boundary; then a completion entry tells of each (PG347, "C2H stream engine").
//!
//! Without descriptors the stream stalls, as the reference design has it, or the packet is dropped, a parameter.
//!
//! Left out: cut-through (a packet is written once it is whole), user-defined completion data, markers.

use super::completions::{Entry, Follows};
use super::ring::Fetch;
use super::{Due, Qdma, Status};
use crate::memory::GuestMemory;
use crate::nic::device::{FramePart, Io};
use crate::nic::notice::{Notice, Refusal};
use crate::nic::pages::SharedRegisters;
use crate::requester::{Moves, Purpose, Side};
use crate::wire::Packet;
use std::collections::VecDeque;
use wiretime_base::Ps;

/// A packet in the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    pub packet: Packet,
    pub queue: u16,
    /// Descriptors that it takes, each with a buffer of so many bytes.
    pub needs: u32,
    pub size: u32,
    /// The life of the ring that it came for.
    pub epoch: u32,
}

/// The packet that is being written.
#[derive(Debug)]
pub struct Writing {
    stored: Stored,
    /// Its buffers, as far as they are not written.
    buffers: VecDeque<u64>,
    first: u64,
    /// Bytes written, of the packet and of the buffer at the front.
    done: u32,
    filled: u32,
}

/// Buffers of a packet (PG302, C2H stream engine: data of at most 31 times the buffer's size).
const BUFFERS_MOST: u32 = 31;

fn purpose(queue: u16, moves: Moves) -> Purpose {
    Purpose::new(Side::Receive, queue, moves)
}

impl Writing {
    /// Whether it is of a queue.
    pub fn is_of(&self, queue: u16) -> bool {
        self.stored.queue == queue
    }

    /// The packet.
    pub fn packet(&self) -> &Packet {
        &self.stored.packet
    }
}

impl<S: SharedRegisters> Qdma<S> {
    /// Descriptors for a packet of so many bytes; none, where its queue takes none, or not one so long.
    pub(super) fn needs(&self, queue: u16, bytes: u32) -> Option<u32> {
        let size = self.c2h.get(usize::from(queue))?.buffer;
        (size > 0).then(|| bytes.div_ceil(size).max(1)).filter(|&needs| needs <= BUFFERS_MOST)
    }

    /// A packet comes for a queue; whether it is taken.
    pub(super) fn store<G: GuestMemory>(&mut self, packet: &Packet, queue: u16, io: &mut Io<'_, Due, G>) -> bool {
        let t = io.now;
        self.lose(t, io);
        let needs = self.needs(queue, packet.length).filter(|_| self.c2h[usize::from(queue)].ring.on);
        let Some(needs) = needs else {
            io.tell(t, Notice::Filtered(*packet));
            return false;
        };
        if !self.buffer.has_room(packet.length.into()) {
            let culprit = self.buffer.front().map_or(queue, |s| s.queue);
            let q = &self.c2h[usize::from(culprit)];
            let empty = q.ring.outstanding() == 0;
            let starved = empty || q.starved == Some(self.buffer.drains());
            let why = Refusal { culprit, fifo: true, starved, empty, ring: q.ring.entries, stored: false };
            self.buffer.refuse();
            io.tell(t, Notice::Refused { packet: *packet, queue, why });
            return false;
        }
        let q = &self.c2h[usize::from(queue)];
        let stored = Stored { packet: *packet, queue, needs, size: q.buffer, epoch: q.ring.epoch };
        self.buffer.push(t, packet.length.into(), stored);
        self.c2h[usize::from(queue)].wanted += needs;
        io.tell(t, Notice::Stored { packet: *packet, queue, fifo: self.buffer.used() });
        self.want_descriptors(Side::Receive, queue);
        self.pump(t, io);
        true
    }

    /// Descriptors to the host are here.
    pub(super) fn take_c2h_descriptors<G: GuestMemory>(&mut self, queue: u16, fetch: Fetch, io: &mut Io<'_, Due, G>) {
        let Some(q) = self.c2h.get_mut(usize::from(queue)) else { return };
        if !q.ring.fetched(fetch) {
            return;
        }
        for entry in fetch.entry..fetch.entry + fetch.count {
            let mut bytes = [0; 8];
            self.faults[0] += u64::from(!io.guest.read(q.ring.at(entry), &mut bytes));
            let buffer = u64::from_le_bytes(bytes);
            io.note(Notice::Offered { buffer });
            q.ring.held.push_back((entry, buffer));
        }
        self.want_descriptors(Side::Receive, queue);
    }

    /// Packets at the head of the buffer whose queue went off, or began anew, are lost.
    fn lose<G>(&mut self, t: Ps, io: &mut Io<'_, Due, G>) {
        while let Some(s) = self.buffer.front().copied() {
            let ring = &self.c2h[usize::from(s.queue)].ring;
            if ring.on && ring.epoch == s.epoch {
                return;
            }
            self.buffer.pop();
            io.tell(t, Notice::Lost { id: s.packet.id });
            self.leaves_buffer(t, s.packet.length, io);
        }
    }

    /// So many bytes of the buffer are free.
    fn leaves_buffer<G>(&mut self, t: Ps, bytes: u32, io: &mut Io<'_, Due, G>) {
        if self.buffer.release(t, bytes.into()) {
            io.tell(t, Notice::Drained);
        }
        if std::mem::take(&mut self.blocked) {
            io.at(t, Due::Generate);
        }
    }

    /// The packet at the head of the buffer takes its descriptors, where they are here.
    fn begin_write<G>(&mut self, t: Ps, io: &mut Io<'_, Due, G>) -> bool {
        let stored = loop {
            let Some(&stored) = self.buffer.front() else { return false };
            let q = &mut self.c2h[usize::from(stored.queue)];
            if q.ring.held.len() >= stored.needs as usize && self.rings[usize::from(stored.queue)].has_room() {
                break stored;
            }
            if q.ring.outstanding() >= stored.needs {
                return false;
            }
            q.starved = Some(self.buffer.drains());
            if !self.drops {
                return false;
            }
            self.drop_head(t, stored, io);
            self.lose(t, io);
        };
        let q = &mut self.c2h[usize::from(stored.queue)];
        self.buffer.pop();
        let mut buffers = std::mem::take(&mut self.spare_buffers);
        buffers.clear();
        buffers.extend(q.ring.held.drain(..stored.needs as usize).map(|(_, buffer)| buffer));
        for _ in 0..stored.needs {
            q.ring.finish();
        }
        q.wanted = q.wanted.saturating_sub(stored.needs);
        let first = buffers.front().copied().unwrap_or_default();
        self.writing = Some(Writing { stored, buffers, first, done: 0, filled: 0 });
        self.want_descriptors(Side::Receive, stored.queue);
        true
    }

    /// The packet at the head of the buffer has no descriptors and does not wait for them.
    fn drop_head<G>(&mut self, t: Ps, stored: Stored, io: &mut Io<'_, Due, G>) {
        let Stored { packet, queue, needs, .. } = stored;
        self.buffer.pop();
        let q = &mut self.c2h[usize::from(queue)];
        q.wanted = q.wanted.saturating_sub(needs);
        let (empty, ring) = (q.ring.outstanding() == 0, q.ring.entries);
        let fifo = !self.buffer.has_room(packet.length.into());
        let why = Refusal { culprit: queue, fifo, starved: true, empty, ring, stored: true };
        io.tell(t, Notice::Refused { packet, queue, why });
        self.leaves_buffer(t, packet.length, io);
        self.buffer.refuse();
    }

    /// The next request of the packet that is being written, if there is one, takes the interface from `t` on.
    pub(super) fn write_payload<G: GuestMemory>(&mut self, t: Ps, io: &mut Io<'_, Due, G>) -> bool {
        if self.writing.is_none() {
            self.lose(t, io);
            if !self.begin_write(t, io) {
                return false;
            }
        }
        let Some(mut w) = self.writing.take() else { return false };
        let Stored { packet, queue, size, .. } = w.stored;
        let address = w.buffers.front().copied().unwrap_or_default().wrapping_add(w.filled.into());
        let rest = (packet.length - w.done).min(size - w.filled.min(size));
        let piece = self.requester.piece(address, rest.into(), self.max_payload) as u32;
        if w.done == 0 {
            io.tell(t, Notice::Started { id: packet.id });
        }
        let through = self.requester.take(t, piece.into());
        let bytes = w.done as usize..(w.done + piece) as usize;
        let part = FramePart { packet: &packet, header: bytes.start == 0, bytes, untagged: false };
        let (left, _) = io.write_frame(through, address, part, purpose(queue, Moves::Payload));
        self.requester.leaves(left);
        w.done += piece;
        w.filled += piece;
        if w.done < packet.length {
            if w.filled >= size {
                w.buffers.pop_front();
                w.filled = 0;
            }
            self.writing = Some(w);
            return true;
        }
        self.spare_buffers = w.buffers;
        self.received.delivered += 1;
        io.tell(through, Notice::Delivered { id: packet.id, queue, buffer: w.first });
        self.c2h[usize::from(queue)].delivered += 1;
        self.leaves_buffer(through, packet.length, io);
        io.tell(through, Notice::Fifo { bytes: self.buffer.used() });
        let entry = Entry { packet: packet.id, length: packet.length };
        self.coalescing.push(through, queue, &mut self.rings[usize::from(queue)], entry);
        true
    }

    /// When completions, or a status, want to leave.
    pub(super) fn completions_due(&self, t: Ps) -> Option<Ps> {
        if !self.statuses.is_empty() {
            return Some(t);
        }
        let how = self.registers.coalesce();
        self.coalescing.due(t, how.most, self.user_clock.at(wiretime_base::Cycles(how.cycles)))
    }

    /// A status, or completions, take the interface from `t` on.
    pub(super) fn write_completion<G: GuestMemory>(&mut self, t: Ps, io: &mut Io<'_, Due, G>) -> bool {
        if let Some(status) = self.statuses.pop_front() {
            match status {
                Status::Completions(queue) => self.write_status(t, queue, io),
                Status::Ring(side, queue) => self.write_report(t, side, queue, io),
                Status::Interrupts(number) => self.write_interrupt(t, number, io),
            }
            return true;
        }
        let Some((queue, entries)) = self.coalescing.take() else { return false };
        let ring = &mut self.rings[usize::from(queue)];
        let (at, untold) = (ring.at(ring.produced), ring.context.status);
        self.scratch.clear();
        for entry in &entries {
            let index = ring.format(entry, &mut self.scratch);
            ring.untold.push_back((index, entry.packet));
        }
        let bytes = std::mem::take(&mut self.scratch);
        let (through, visible) = self.write_through(t, (at, &bytes), purpose(queue, Moves::Completions), io);
        self.scratch = bytes;
        self.received.write_backs += 1;
        let ring = &mut self.rings[usize::from(queue)];
        if !untold || ring.context.trigger.never() || ring.untold.len() > ring.entries as usize {
            // Software looks at colors.
            while let Some((entry, id)) = ring.untold.pop_front() {
                io.tell(visible, Notice::Completed { queue, entry, packet: Some(id) });
            }
        }
        self.coalescing.recycle(entries);
        let count = self.registers.count(self.rings[usize::from(queue)].context.count);
        let follows = self.rings[usize::from(queue)].written(count);
        self.follow(through, queue, follows, io);
        true
    }

    fn write_status<G: GuestMemory>(&mut self, t: Ps, queue: u16, io: &mut Io<'_, Due, G>) {
        let ring = &mut self.rings[usize::from(queue)];
        if ring.entries == 0 || !ring.due {
            return; // it has begun anew since
        }
        let mut visible = self.written.max(t);
        let (at, status) = (ring.at(ring.entries), ring.status());
        if ring.context.status {
            (_, visible) = self.write_through(t, (at, &status), purpose(queue, Moves::Completions), io);
            self.received.write_backs += 1;
        }
        let ring = &mut self.rings[usize::from(queue)];
        while let Some((entry, id)) = ring.untold.pop_front() {
            io.tell(visible, Notice::Completed { queue, entry, packet: Some(id) });
        }
        let how = ring.context.interrupts;
        if ring.tells() {
            let source = (Side::Receive, queue, u64::from_le_bytes(status));
            self.interrupt(t, source, how, io);
        }
    }

    /// What an event of a completion ring asks for.
    pub(super) fn follow<G>(&mut self, t: Ps, queue: u16, follows: Follows, io: &mut Io<'_, Due, G>) {
        match follows {
            Follows::Nothing => {}
            Follows::Status => self.statuses.push_back(Status::Completions(queue)),
            Follows::Timer => {
                let ring = &self.rings[usize::from(queue)];
                let cycles = self.registers.timer(ring.context.timer);
                let ends = t + self.user_clock.at(wiretime_base::Cycles(cycles));
                io.at(ends, Due::Timer { queue, epoch: ring.epoch, number: ring.timer });
            }
        }
    }
}
