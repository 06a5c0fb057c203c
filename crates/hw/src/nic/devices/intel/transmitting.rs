//! What happens on the transmit path: descriptors, payload reads, frames to the MAC.

use super::controller::{Controller, InterruptCause};
use super::descriptors::{Tx, TxDescriptor};
use super::transmit::Reading;
use super::{Due, Intel};
use crate::memory::GuestMemory;
use crate::nic::blocks::fetcher::Fetch;
use crate::nic::blocks::offload::{self, Offload};
use crate::nic::blocks::vlan;
use crate::nic::device::Io;
use crate::nic::notice::{Level, Notice};
use crate::requester::{Moves, Purpose, Side};
use wiretime_base::Ps;

/// Shortest frame without FCS, to which short ones are padded.
const FRAME_MIN: usize = 60;

fn purpose(queue: u16, moves: Moves) -> Purpose {
    Purpose::new(Side::Transmit, queue, moves)
}

impl<C: Controller> Intel<C> {
    pub(super) fn transmit_doorbell<G: GuestMemory>(&mut self, t: Ps, queue: u16, value: u32, io: &mut Io<'_, Due, G>) {
        let entries = self.registers.ring(Side::Transmit, queue).entries;
        let q = &mut self.transmit.queues[usize::from(queue)];
        let before = q.ring.outstanding(entries);
        q.ring.tail = value & 0xffff;
        let count = q.ring.outstanding(entries).saturating_sub(before);
        self.transmit.turns.set(queue, true);
        io.tell(t, Notice::Posted { queue, count, level: self.level(queue) });
        self.transmit_pump(t, io);
    }

    fn level(&self, queue: u16) -> Level {
        let entries = self.registers.ring(Side::Transmit, queue).entries;
        Level { posted: self.transmit.queues[usize::from(queue)].ring.outstanding(entries), entries }
    }

    pub(super) fn transmit_pump<G: GuestMemory>(&mut self, t: Ps, io: &mut Io<'_, Due, G>) {
        let mut from = 0;
        while let Some(queue) = self.transmit.turns.at_or_after(from) {
            self.fetch_transmit_descriptors(t, queue, io);
            from = queue + 1;
        }
        // The queues take turns, packet by packet; one that waits for descriptors loses its turn, but not inside a packet:
        // parts of several would fill the FIFO, and none could end.
        let mut idle = 0;
        while self.transmit.reading.len() < self.transmit.readers {
            let Some(queue) = self.transmit.turns.next() else { break };
            let q = &self.transmit.queues[usize::from(queue)];
            let Some(&(index, descriptor)) = q.ring.held.front() else {
                idle += 1;
                if q.open || idle > self.transmit.turns.count() {
                    break;
                }
                self.transmit.turns.turn_to(queue, true);
                continue;
            };
            idle = 0;
            if !self.begin_payload(t, queue, (index, descriptor), io) {
                break;
            }
        }
    }

    fn fetch_transmit_descriptors<G: GuestMemory>(&mut self, t: Ps, queue: u16, io: &mut Io<'_, Due, G>) {
        let ring = self.registers.ring(Side::Transmit, queue);
        if !ring.enabled {
            return;
        }
        let thresholds = self.registers.thresholds(Side::Transmit, queue);
        let q = &mut self.transmit.queues[usize::from(queue)];
        if let Some((done, fetch)) = q.ring.fetch(t, &ring, (thresholds, 1), purpose(queue, Moves::Descriptors), io) {
            self.transmit.stats.descriptor_fetches += 1;
            self.transmit.stats.descriptors_fetched += u64::from(fetch.count);
            io.at(done, Due::TxDescriptors { queue, fetch });
        } else if q.ring.held.is_empty() && q.ring.fetching == 0 {
            self.transmit.turns.set(queue, false);
        }
    }

    /// Starts to read what a descriptor points to; false where the FIFO has no room.
    fn begin_payload<G: GuestMemory>(
        &mut self,
        t: Ps,
        queue: u16,
        (index, descriptor): (u32, TxDescriptor),
        io: &mut Io<'_, Due, G>,
    ) -> bool {
        let mut done = t.max(self.last_payload);
        let mut ends = false;
        if let Tx::Data(data) = descriptor.kind {
            let length = u64::from(data.length);
            if !self.transmit.has_room(queue, length) {
                return false;
            }
            self.transmit.occupy(length);
            let q = &mut self.transmit.queues[usize::from(queue)];
            q.occupied += length;
            q.begun_bytes = if data.eop { 0 } else { q.begun_bytes + length };
            q.open = !data.eop;
            ends = data.eop;
            if length > 0 {
                done = done.max(io.read(t, data.buffer, length, purpose(queue, Moves::Payload)));
            }
        }
        let q = &mut self.transmit.queues[usize::from(queue)];
        q.ring.held.pop_front();
        let epoch = q.ring.epoch;
        io.tell(t, Notice::Begun { queue });
        // Inside a packet the turn stays.
        self.transmit.turns.turn_to(queue, ends);
        self.last_payload = done;
        self.transmit.reading.push_back(Reading { queue, epoch, index, descriptor });
        io.at(done, Due::TxPayload);
        true
    }

    pub(super) fn take_transmit_descriptors<G: GuestMemory>(
        &mut self,
        queue: u16,
        fetch: Fetch,
        io: &mut Io<'_, Due, G>,
    ) {
        let ring = self.registers.ring(Side::Transmit, queue);
        let registers = &self.registers;
        let q = &mut self.transmit.queues[usize::from(queue)];
        let faults = q.ring.fetched(fetch, &ring, io, |d, _| registers.transmit_descriptor(d));
        self.transmit.stats.buffer_faults += faults.unwrap_or(0);
    }

    pub(super) fn payload_read<G: GuestMemory>(&mut self, t: Ps, io: &mut Io<'_, Due, G>) {
        let Some(r) = self.transmit.reading.pop_front() else { return };
        let q = &mut self.transmit.queues[usize::from(r.queue)];
        if r.epoch != q.ring.epoch {
            return; // the queue has gone off meanwhile, and given its space back
        }
        match r.descriptor.kind {
            Tx::Context(context, slot) => {
                q.contexts[usize::from(slot & 1)] = context;
                io.tell(t, Notice::Read { queue: r.queue, first: None });
            }
            Tx::Data(data) => {
                q.gathered_bytes += u64::from(data.length);
                let first = q.offload.is_none().then_some(data.buffer);
                if first.is_some() {
                    q.offload = Some(Offload { wants: data.wants, context: q.contexts[usize::from(data.slot & 1)] });
                }
                io.tell(t, Notice::Read { queue: r.queue, first });
                self.gather(r.queue, data.buffer, data.length as usize, io.guest);
                if data.eop {
                    self.packet_gathered(t, r.queue, io);
                }
            }
        }
        self.descriptor_done(t, &r, io);
    }

    fn gather(&mut self, queue: u16, buffer: u64, length: usize, guest: &impl GuestMemory) {
        let packet = &mut self.transmit.queues[usize::from(queue)].packet;
        let at = packet.len();
        let length = length.min(offload::PACKET_MAX.saturating_sub(at));
        packet.resize(at + length, 0);
        if length > 0 && !guest.read(buffer, &mut packet[at..]) {
            self.transmit.stats.buffer_faults += 1;
        }
    }

    fn packet_gathered<G: GuestMemory>(&mut self, t: Ps, queue: u16, io: &mut Io<'_, Due, G>) {
        let q = &mut self.transmit.queues[usize::from(queue)];
        let Some(o) = q.offload.take() else { return };
        q.stats.packets += 1;
        let bytes = std::mem::take(&mut q.gathered_bytes);
        q.occupied = q.occupied.saturating_sub(bytes);
        io.tell(t, Notice::Gathered { queue });
        // The payload's FIFO space becomes its frames'.
        self.transmit.fifo_used = self.transmit.fifo_used.saturating_sub(bytes);
        let (begin, least) = (t + self.packet_latency, if self.registers.pads() { FRAME_MIN } else { 0 });
        let (mut occupied, tagged) = (0, &mut self.tagged);
        let sound = offload::frames(&mut q.packet, &o, &mut self.scratch, |frame| {
            let frame = match o.tag() {
                Some(tag) => {
                    tagged.clear();
                    tagged.extend_from_slice(frame);
                    vlan::insert(tagged, tag);
                    &tagged[..]
                }
                None => frame,
            };
            occupied += io.send(begin, queue, frame, least) as u64;
        });
        q.packet.clear();
        if !sound {
            self.transmit.stats.bad_packets += 1;
            io.tell(t, Notice::Senseless { queue });
        }
        self.transmit.occupy(occupied);
    }

    fn descriptor_done<G: GuestMemory>(&mut self, t: Ps, r: &Reading, io: &mut Io<'_, Due, G>) {
        let ring = self.registers.ring(Side::Transmit, r.queue);
        if ring.entries == 0 {
            return;
        }
        let q = &mut self.transmit.queues[usize::from(r.queue)];
        q.ring.head = (r.index + 1) % ring.entries;
        self.registers.set_head(Side::Transmit, r.queue, q.ring.head);
        let reported = r.descriptor.report;
        if reported {
            q.stats.write_backs += 1;
            self.transmit.stats.write_backs += 1;
            let empty = q.ring.outstanding(ring.entries) == 0;
            let status = ring.at(r.index).wrapping_add(8);
            let by = purpose(r.queue, Moves::WriteBack);
            let (_, visible) = io.write(t, status, &r.descriptor.done(), by);
            let cause = (InterruptCause::Transmitted(r.queue, empty), r.descriptor.delay);
            self.completed(visible, Side::Transmit, cause, io);
        }
        io.tell(t, Notice::Finished { queue: r.queue, entries: 1, reported, level: self.level(r.queue) });
    }
}
