//! What happens on the transmit path: descriptors, payload reads, frames onto the wire and to the sink.

use super::{Event, Port};
use crate::memory::{GuestMemory, MemorySystem};
use crate::nic::e1000::descriptors::{Tx, TxDescriptor, SIZE};
use crate::nic::e1000::offload::{self, Offload};
use crate::nic::e1000::{cause, reg, SharedRegisters};
use crate::nic::ledger::Fate;
use crate::nic::moderation::Side;
use crate::nic::transmit::Outgoing;
use crate::wire::FCS;
use wiretime_base::Ps;

/// Shortest frame without FCS, to which TCTL.PSP pads.
const FRAME_MIN: usize = 60;

impl<S: SharedRegisters> Port<S> {
    pub(super) fn transmit_pump(&mut self, t: Ps, memory: &mut MemorySystem) {
        if !self.registers.transmit_enabled() {
            return;
        }
        let (base, entries, _) = self.registers.ring(true);
        if let Some((index, count)) = self.transmit.ring.begin_fetch(entries) {
            self.transmit.stats.descriptor_fetches += 1;
            self.transmit.stats.descriptors_fetched += u64::from(count);
            let done = self.fetch(t, base, index, count, memory);
            let epoch = self.transmit.ring.epoch;
            self.events.push(done, Event::TxDescriptors { index, count, epoch });
        }
        while let Some(&(index, d)) = self.transmit.ring.held.front() {
            if self.transmit.reading.len() >= self.transmit.readers {
                break;
            }
            let mut done = t.max(self.last_payload);
            if let Tx::Data(data) = d.kind {
                let length = u64::from(data.length);
                if !self.transmit.has_room(length) {
                    break;
                }
                self.transmit.occupy(length);
                if length > 0 {
                    done = done.max(self.io.read(t, data.buffer, length, memory));
                }
            }
            self.transmit.ring.held.pop_front();
            self.last_payload = done;
            self.transmit.reading.push_back((index, d));
            let epoch = self.transmit.ring.epoch;
            self.events.push(done, Event::TxPayload { epoch });
        }
    }

    pub(super) fn take_transmit_descriptors(&mut self, index: u32, count: u32, guest: &impl GuestMemory) {
        let (base, _, _) = self.registers.ring(true);
        self.transmit.ring.fetching = 0;
        for i in index..index + count {
            let mut d = [0; SIZE as usize];
            if !guest.read(base.wrapping_add(u64::from(i) * SIZE), &mut d) {
                self.transmit.stats.buffer_faults += 1;
            }
            self.transmit.ring.held.push_back((i, TxDescriptor::parse(&d)));
        }
    }

    pub(super) fn payload_read(&mut self, t: Ps, memory: &mut MemorySystem, guest: &impl GuestMemory) {
        let Some((index, d)) = self.transmit.reading.pop_front() else { return };
        match d.kind {
            Tx::Context(c) => self.transmit.contexts[usize::from(c.tse)] = c,
            Tx::Data(data) => {
                if self.transmit.offload.is_none() {
                    let context = self.transmit.contexts[usize::from(data.tse)];
                    self.transmit.offload = Some(Offload { first: data, context });
                    self.transmit.carries = self.ledger.transmitted(data.buffer);
                }
                self.gather(data.buffer, data.length as usize, guest);
                if data.eop {
                    self.packet_gathered(t);
                }
            }
        }
        self.descriptor_done(t, index, &d, memory);
    }

    pub(super) fn gather(&mut self, buffer: u64, length: usize, guest: &impl GuestMemory) {
        let tx = &mut self.transmit;
        let at = tx.packet.len();
        let length = length.min(offload::PACKET_MAX.saturating_sub(at));
        tx.packet.resize(at + length, 0);
        if length > 0 && !guest.read(buffer, &mut tx.packet[at..]) {
            tx.stats.buffer_faults += 1;
        }
    }

    pub(super) fn packet_gathered(&mut self, t: Ps) {
        let Some(o) = self.transmit.offload.take() else { return };
        let tx = &mut self.transmit;
        let mut packet = std::mem::take(&mut tx.packet);
        let mut carries = tx.carries.take();
        // The payload's FIFO space becomes its frames'.
        tx.fifo_used = tx.fifo_used.saturating_sub(packet.len() as u64);
        let (pads, begin) = (self.registers.pads(), t + self.packet_latency);
        let (wire, line, gap) = (&mut self.wire_out, self.line, self.gap);
        let (spare, outgoing, events) = (&mut tx.spare, &mut tx.outgoing, &mut self.events);
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
            events.push(start + line.time_of(length), Event::TxSent);
            occupied += bytes.len() as u64;
            outgoing.push_back(Outgoing { bytes, carries: carries.take() });
        });
        if !sound {
            tx.stats.bad_packets += 1;
            if let Some(id) = carries {
                self.ledger.moves(id, Fate::InTx, Fate::HostDrop);
            }
        }
        self.transmit.occupy(occupied);
        packet.clear();
        self.transmit.packet = packet;
    }

    pub(super) fn descriptor_done(&mut self, t: Ps, index: u32, d: &TxDescriptor, memory: &mut MemorySystem) {
        let (base, entries, _) = self.registers.ring(true);
        if entries == 0 {
            return;
        }
        self.transmit.ring.head = (index + 1) % entries;
        self.registers.shared.store(reg::TDH, self.transmit.ring.head);
        self.transmit.since_report += 1;
        if !d.report {
            return;
        }
        self.transmit.report_interval = self.transmit.since_report;
        self.transmit.since_report = 0;
        self.transmit.stats.write_backs += 1;
        let address = base.wrapping_add(u64::from(index) * SIZE + 8);
        let (_, when) = self.io.write(t, address, 8, memory);
        let visible = self.writes.push(when, address, &d.done());
        let empty = if self.transmit.ring.unfetched(entries) == 0 { cause::TXQE } else { 0 };
        self.completed(visible, Side::Transmit, cause::TXDW | empty, d.delay);
    }

    pub(super) fn sent(&mut self, t: Ps) {
        let Some(frame) = self.transmit.outgoing.pop_front() else { return };
        let length = frame.bytes.len() as u64;
        self.transmit.fifo_used = self.transmit.fifo_used.saturating_sub(length);
        self.transmit.stats.frames += 1;
        self.transmit.stats.bytes += length + u64::from(FCS);
        self.registers.statistics.sent((length + u64::from(FCS)) as u32);
        let answer = self.sink.recognise(&frame.bytes, t + self.link_latency);
        self.ledger.returned(frame.carries, answer.map(|a| a.id));
        if frame.carries.is_some() || answer.is_some() {
            self.returned += 1;
        }
        if let Some(a) = answer {
            if self.cohort.contains(&a.id) {
                self.sink.record(a.latency);
                self.cohort_returned_bytes += length + u64::from(FCS);
            }
        }
        self.transmit.spare.push(frame.bytes);
    }
}
