//! What happens on the receive path: arrival, DMA of the payload, write-back of descriptors.

use super::{Event, Port};
use crate::memory::{GuestMemory, MemorySystem};
use crate::nic::e1000::descriptors::{rx_buffer, SIZE};
use crate::nic::e1000::{cause, reg, SharedRegisters};
use crate::nic::ledger::Fate;
use crate::nic::moderation::Side;
use crate::nic::receive::{Cause, Stored};
use crate::wire::FCS;
use wiretime_base::Ps;

impl<S: SharedRegisters> Port<S> {
    pub(super) fn arrive(&mut self, t: Ps, id: u64, memory: &mut MemorySystem) {
        if id >= self.stop_at {
            return;
        }
        self.schedule(id + 1);
        let length = self.generator.length();
        let destination = self.generator.destination();
        self.arrived += 1;
        self.receive.stats.frames += 1;
        self.ledger.offered(id);
        self.registers.statistics.seen(length);
        if !self.registers.receive_enabled() || !self.registers.accepts(&destination, length) {
            self.receive.stats.filtered += 1;
            self.registers.statistics.oversize();
            self.ledger.moves(id, Fate::Offered, Fate::Filtered);
            return;
        }
        if self.receive.has_room(length) {
            self.ledger.moves(id, Fate::Offered, Fate::InFifo);
            self.receive.store(Stored { id, length });
            self.receive_pump(t, memory);
            return;
        }
        let (_, tx_entries, _) = self.registers.ring(true);
        let ring_full = self.receive.starved;
        let cause = self.receive.refuse(ring_full, self.transmit.is_full(tx_entries));
        self.registers.statistics.missed(ring_full);
        self.registers.raise(cause::RXO);
        let fate = match cause {
            Cause::Dma => Fate::DmaDrop,
            Cause::Core => Fate::CoreDrop,
            Cause::Tx => Fate::TxDrop,
        };
        self.ledger.moves(id, Fate::Offered, fate);
    }

    pub(super) fn receive_pump(&mut self, t: Ps, memory: &mut MemorySystem) {
        if !self.registers.receive_enabled() {
            return;
        }
        let (base, entries, _) = self.registers.ring(false);
        if let Some((index, count)) = self.receive.ring.begin_fetch(entries) {
            self.receive.stats.descriptor_fetches += 1;
            self.receive.stats.descriptors_fetched += u64::from(count);
            let done = self.fetch(t, base, index, count, memory);
            let epoch = self.receive.ring.epoch;
            self.events.push(done, Event::RxDescriptors { index, count, epoch });
        }
        self.start_payload(t, memory);
    }

    pub(super) fn start_payload(&mut self, t: Ps, memory: &mut MemorySystem) {
        if self.receive.sending {
            return;
        }
        let Some(&frame) = self.receive.fifo.front() else { return };
        let buffer_size = self.registers.receive_buffer();
        let in_memory = frame.length - if self.registers.strips_crc() { FCS } else { 0 };
        let needed = in_memory.div_ceil(buffer_size) as usize;
        if self.receive.ring.held.len() < needed {
            let (_, entries, _) = self.registers.ring(false);
            self.receive.starved |= self.receive.ring.fetching == 0 && self.receive.ring.unfetched(entries) == 0;
            return;
        }
        self.receive.fifo.pop_front();
        self.receive.sending = true;
        self.scratch.clear();
        self.scratch.extend_from_slice(self.generator.frame(frame.id));
        self.scratch.resize(in_memory as usize, 0); // the FCS, where it is kept: its value is not modelled
        let begin = t + self.packet_latency;
        let mut sent = begin;
        for part in self.scratch.chunks(buffer_size as usize) {
            let Some((_, buffer)) = self.receive.ring.held.pop_front() else { break };
            let length = part.len() as u64;
            memory.objects.mark_buffer(buffer, length);
            let (left, visible) = self.io.write(begin, buffer, length, memory);
            self.writes.push(visible, buffer, part);
            self.receive.parts.push_back((buffer, length as u32));
            sent = sent.max(left);
        }
        self.receive.in_flight.push_back((frame, needed));
        let epoch = self.receive.ring.epoch;
        // The pipeline delays a packet, it does not occupy the link.
        self.events.push(sent - self.packet_latency, Event::RxNext { epoch });
        self.events.push(sent, Event::RxSent { epoch });
    }

    pub(super) fn receive_sent(&mut self, t: Ps, memory: &mut MemorySystem) {
        let Some((frame, parts)) = self.receive.in_flight.pop_front() else { return };
        self.receive.release(frame.length);
        self.receive.stats.delivered += 1;
        self.registers.statistics.received(&self.generator.destination(), frame.length);
        let buffer = self.receive.parts.front().map_or(0, |p| p.0);
        self.ledger.delivered(frame.id, buffer);
        for i in (0..parts).rev() {
            if let Some((buffer, length)) = self.receive.parts.pop_front() {
                self.receive.complete(buffer, length, i == 0);
            }
        }
        if self.receive.should_write_back() {
            self.write_back(t, memory);
        }
    }

    pub(super) fn write_back(&mut self, t: Ps, memory: &mut MemorySystem) {
        let (base, entries, _) = self.registers.ring(false);
        let mut pending = std::mem::take(&mut self.receive.pending);
        let mut visible = t;
        let mut rest = &pending[..];
        while !rest.is_empty() && entries > 0 {
            let head = self.receive.ring.head % entries;
            let n = rest.len().min((entries - head) as usize);
            let address = base.wrapping_add(u64::from(head) * SIZE);
            let length = n as u64 * SIZE;
            let (_, when) = self.io.write(t, address, length, memory);
            self.scratch.clear();
            for d in &rest[..n] {
                self.scratch.extend_from_slice(&d.bytes());
            }
            visible = self.writes.push(when, address, &self.scratch);
            self.receive.ring.head = (head + n as u32) % entries;
            self.receive.stats.write_backs += 1;
            rest = &rest[n..];
        }
        pending.clear();
        self.receive.pending = pending;
        self.registers.shared.store(reg::RDH, self.receive.ring.head);
        let free = self.receive.ring.unfetched(entries) + self.receive.ring.held.len() as u32;
        let low = if free * 2 <= entries { cause::RXDMT0 } else { 0 };
        if low != 0 {
            self.events.push(visible, Event::Interrupt { causes: low });
        }
        self.completed(visible, Side::Receive, cause::RXT0, true);
    }

    pub(super) fn take_receive_descriptors(&mut self, index: u32, count: u32, guest: &impl GuestMemory) {
        let (base, _, _) = self.registers.ring(false);
        self.receive.ring.fetching = 0;
        for i in index..index + count {
            let mut d = [0; SIZE as usize];
            if !guest.read(base.wrapping_add(u64::from(i) * SIZE), &mut d) {
                self.receive.stats.buffer_faults += 1;
            }
            let buffer = rx_buffer(&d);
            self.receive.ring.held.push_back((i, buffer));
            self.ledger.posted(buffer);
        }
    }
}
