//! What happens on the transmit path: descriptors, payload reads, frames onto the wire and to the sink.

use super::{stream, Event, Port};
use crate::memory::{GuestMemory, MemorySystem};
use crate::nic::controller::{Controller, InterruptCause, Side, DESCRIPTOR};
use crate::nic::descriptors::Tx;
use crate::nic::engine::Purpose;
use crate::nic::journeys::Point;
use crate::nic::ledger::Fate;
use crate::nic::offload::{self, Offload};
use crate::nic::shared::{Came, Shared};
use crate::nic::trace::What;
use crate::nic::transmit::{Outgoing, Reading};
use crate::wire::{Passage, FCS};
use wiretime_base::Ps;

/// Shortest frame without FCS, to which short ones are padded.
const FRAME_MIN: usize = 60;

impl<C: Controller> Port<C> {
    pub(super) fn transmit_doorbell(
        &mut self,
        t: Ps,
        queue: u16,
        value: u32,
        memory: &mut MemorySystem,
        shared: &mut Shared,
    ) {
        let entries = self.registers.ring(Side::Transmit, queue).entries;
        let q = &mut self.transmit.queues[usize::from(queue)];
        let before = q.ring.outstanding(entries);
        q.ring.tail = value & 0xffff;
        let count = q.ring.outstanding(entries).saturating_sub(before);
        q.note_posted(t, count);
        self.transmit.active |= 1 << queue;
        self.receive.queues[usize::from(queue)].driver.posts(t, count);
        self.trace.note(t, What::Doorbell { queue, transmit: true });
        self.note_tx_level(t, queue, shared);
        self.transmit_pump(t, memory);
    }

    fn note_tx_level(&mut self, t: Ps, queue: u16, shared: &mut Shared) {
        let entries = self.registers.ring(Side::Transmit, queue).entries;
        let q = &mut self.transmit.queues[usize::from(queue)];
        shared.set_tx_full((self.index as u8, queue), q.is_full(entries));
        self.trace.note(t, What::TxRing { queue, posted: q.ring.outstanding(entries) });
    }

    pub(super) fn transmit_pump(&mut self, t: Ps, memory: &mut MemorySystem) {
        let mut rest = self.transmit.active;
        while rest != 0 {
            let queue = rest.trailing_zeros() as u16;
            rest &= rest - 1;
            self.fetch_transmit_descriptors(t, queue, memory);
        }
        // The queues take turns, packet by packet; one that waits for descriptors loses its turn.
        let mut idle = 0;
        while self.transmit.reading.len() < self.transmit.readers {
            let Some(queue) = self.transmit.next_queue() else { break };
            let Some(&(index, descriptor)) = self.transmit.queues[usize::from(queue)].ring.held.front() else {
                idle += 1;
                if idle > self.transmit.active.count_ones() {
                    break;
                }
                self.transmit.turn = (queue + 1) & 63;
                continue;
            };
            idle = 0;
            if !self.begin_payload(t, queue, index, descriptor, memory) {
                break;
            }
        }
    }

    fn fetch_transmit_descriptors(&mut self, t: Ps, queue: u16, memory: &mut MemorySystem) {
        let ring = self.registers.ring(Side::Transmit, queue);
        if !ring.enabled {
            return;
        }
        let thresholds = self.registers.thresholds(Side::Transmit, queue);
        let q = &mut self.transmit.queues[usize::from(queue)];
        if let Some((index, count)) = q.ring.begin_fetch(ring.entries, thresholds, 1) {
            let epoch = q.ring.epoch;
            self.transmit.stats.descriptor_fetches += 1;
            self.transmit.stats.descriptors_fetched += u64::from(count);
            let done = self.fetch(t, queue, ring.base, (index, count), memory);
            self.events.push(done, Event::TxDescriptors { queue, index, count, epoch });
        } else if q.ring.held.is_empty() && q.ring.fetching == 0 {
            self.transmit.active &= !(1 << queue);
        }
    }

    /// Starts to read what a descriptor points to; false where the FIFO has no room.
    fn begin_payload(
        &mut self,
        t: Ps,
        queue: u16,
        index: u32,
        descriptor: crate::nic::descriptors::TxDescriptor,
        memory: &mut MemorySystem,
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
            ends = data.eop;
            if length > 0 {
                let purpose = Purpose { queue, descriptors: false };
                done = done.max(self.engine.read(t, data.buffer, length, purpose, memory));
            }
        }
        let q = &mut self.transmit.queues[usize::from(queue)];
        q.ring.held.pop_front();
        let (posted, epoch) = (q.note_begun(), q.ring.epoch);
        // Inside a packet the turn stays.
        self.transmit.turn = if ends { (queue + 1) & 63 } else { queue };
        self.last_payload = done;
        self.transmit.reading.push_back(Reading { queue, epoch, index, descriptor, posted, begun: t });
        self.events.push(done, Event::TxPayload { life: self.life });
        true
    }

    pub(super) fn take_transmit_descriptors(
        &mut self,
        queue: u16,
        (index, count): (u32, u32),
        epoch: u32,
        guest: &impl GuestMemory,
    ) {
        let base = self.registers.ring(Side::Transmit, queue).base;
        let q = &mut self.transmit.queues[usize::from(queue)];
        if epoch != q.ring.epoch {
            return;
        }
        q.ring.fetching = 0;
        for i in index..index + count {
            let mut d = [0; DESCRIPTOR as usize];
            if !guest.read(base.wrapping_add(u64::from(i) * DESCRIPTOR), &mut d) {
                self.transmit.stats.buffer_faults += 1;
            }
            q.ring.held.push_back((i, self.registers.transmit_descriptor(&d)));
        }
    }

    pub(super) fn payload_read(
        &mut self,
        t: Ps,
        memory: &mut MemorySystem,
        guest: &impl GuestMemory,
        shared: &mut Shared,
    ) {
        let Some(r) = self.transmit.reading.pop_front() else { return };
        let q = &mut self.transmit.queues[usize::from(r.queue)];
        let stale = r.epoch != q.ring.epoch;
        match r.descriptor.kind {
            Tx::Context(c) if !stale => q.contexts[usize::from(c.slot & 1)] = c,
            Tx::Data(data) if !stale => {
                q.gathered_bytes += u64::from(data.length);
                if q.offload.is_none() {
                    q.offload = Some(Offload { first: data, context: q.contexts[usize::from(data.slot & 1)] });
                    q.carries = shared.ledger.transmitted(data.buffer);
                    if let Some(id) = q.carries {
                        shared.journeys.passes(id, Point::Posted, r.posted.unwrap_or(r.begun));
                        shared.journeys.passes(id, Point::Read, r.begun);
                        if let Some((port, from)) = shared.ledger.origin(id) {
                            shared.fed(port, from, (self.index as u8, r.queue));
                        }
                    }
                }
                self.gather(r.queue, data.buffer, data.length as usize, guest);
                if data.eop {
                    self.packet_gathered(t, r.queue, shared);
                }
            }
            _ => {} // the queue has gone off meanwhile, and given its space back
        }
        if !stale {
            self.descriptor_done(t, &r, memory, shared);
        }
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

    fn packet_gathered(&mut self, t: Ps, queue: u16, shared: &mut Shared) {
        let q = &mut self.transmit.queues[usize::from(queue)];
        let Some(o) = q.offload.take() else { return };
        q.stats.packets += 1;
        let bytes = std::mem::take(&mut q.gathered_bytes);
        q.occupied = q.occupied.saturating_sub(bytes);
        let mut packet = std::mem::take(&mut q.packet);
        let mut carries = q.carries.take();
        if let Some(id) = carries {
            shared.journeys.passes(id, Point::Gathered, t);
        }
        let tx = &mut self.transmit;
        // The payload's FIFO space becomes its frames'.
        tx.fifo_used = tx.fifo_used.saturating_sub(bytes);
        let (pads, begin) = (self.registers.pads(), t + self.packet_latency);
        let (wire, line, gap) = (&mut self.wire_out, self.line, self.gap);
        let (spare, outgoing, events) = (&mut tx.spare, &mut tx.outgoing, &mut self.events);
        let (trace, tap, generator) = (&mut self.trace, &mut self.tap, &mut self.generator);
        let mut occupied = 0;
        let sound = offload::frames(&mut packet, &o, &mut self.scratch, |frame| {
            let mut bytes = spare.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(frame);
            if pads && bytes.len() < FRAME_MIN {
                bytes.resize(FRAME_MIN, 0);
            }
            let length = bytes.len() as u64 + u64::from(FCS);
            let start = wire.reserve(begin, line.time_of(length + gap));
            let end = start + line.time_of(length);
            events.push(end, Event::TxSent);
            let id = carries.unwrap_or(u64::MAX);
            if tap.window.contains(&start) {
                tap.record(start, Passage::Out, (id, queue), &bytes);
            }
            // Told as soon as it is known: a far end simulates ahead by so much.
            generator.far_takes(start, &bytes);
            trace.note(start, What::Frame { id, until: end, bytes: length as u32, out: true });
            occupied += bytes.len() as u64;
            outgoing.push_back(Outgoing { bytes, queue, carries: carries.take() });
        });
        if !sound {
            tx.stats.bad_packets += 1;
            if let Some(id) = carries {
                shared.ledger.moves(id, Fate::InTx, Fate::HostDrop);
            }
        }
        self.transmit.occupy(occupied);
        packet.clear();
        self.transmit.queues[usize::from(queue)].packet = packet;
    }

    fn descriptor_done(&mut self, t: Ps, r: &Reading, memory: &mut MemorySystem, shared: &mut Shared) {
        let ring = self.registers.ring(Side::Transmit, r.queue);
        if ring.entries == 0 {
            return;
        }
        let q = &mut self.transmit.queues[usize::from(r.queue)];
        q.ring.head = (r.index + 1) % ring.entries;
        self.registers.set_head(Side::Transmit, r.queue, q.ring.head);
        q.since_report += 1;
        if r.descriptor.report {
            q.report_interval = q.since_report;
            q.since_report = 0;
            q.stats.write_backs += 1;
            self.transmit.stats.write_backs += 1;
            let empty = q.ring.unfetched(ring.entries) == 0;
            let address = ring.base.wrapping_add(u64::from(r.index) * DESCRIPTOR + 8);
            let purpose = Purpose { queue: r.queue, descriptors: true };
            let (_, when) = self.engine.write(t, address, 8, purpose, memory);
            let visible = self.writes.push(when, address, &r.descriptor.done(), stream(Side::Transmit, r.queue));
            self.completed(visible, Side::Transmit, InterruptCause::Transmitted(r.queue, empty), r.descriptor.delay);
        }
        self.note_tx_level(t, r.queue, shared);
    }

    pub(super) fn sent(&mut self, t: Ps, shared: &mut Shared) {
        let Some(frame) = self.transmit.outgoing.pop_front() else { return };
        let length = frame.bytes.len() as u64;
        let on_wire = length + u64::from(FCS);
        self.transmit.fifo_used = self.transmit.fifo_used.saturating_sub(length);
        self.transmit.stats.frames += 1;
        self.transmit.stats.bytes += on_wire;
        self.registers.count_sent(frame.queue, on_wire as u32);
        let at = t + self.link_latency;
        let heard = self.generator.heard(&frame.bytes, at);
        let changed = match shared.returns(&frame.bytes, on_wire, frame.carries, at) {
            Came::Answer(port, id) if port == self.index => self.generator.returned(id, at),
            Came::Answer(port, id) => {
                shared.post(port, id, at);
                false
            }
            Came::Other => false,
            Came::Unasked => self.generator.asked(&frame.bytes, at),
        };
        if changed || heard {
            self.schedule();
        }
        self.transmit.spare.push(frame.bytes);
    }
}
