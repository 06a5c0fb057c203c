//! What happens on the receive path: arrival, steering, DMA of the payload, write-back of descriptors.

use super::controller::{Acceptance, Completion, Controller, InterruptCause, DESCRIPTOR};
use super::receive::{Filled, Stored};
use super::{Due, Intel};
use crate::memory::GuestMemory;
use crate::nic::blocks::checks::{self, Checks};
use crate::nic::blocks::completion;
use crate::nic::blocks::fetcher::Fetch;
use crate::nic::blocks::vlan;
use crate::nic::device::{FramePart, Io};
use crate::nic::notice::{Notice, Refusal};
use crate::requester::{Moves, Purpose, Side};
use crate::wire::{Packet, FCS};
use wiretime_base::Ps;

const DESCRIPTORS_A_LINE: u32 = 64 / DESCRIPTOR;

fn purpose(queue: u16, moves: Moves) -> Purpose {
    Purpose::new(Side::Receive, queue, moves)
}

impl<C: Controller> Intel<C> {
    pub(super) fn arrive<G: GuestMemory>(&mut self, packet: &Packet, io: &mut Io<'_, Due, G>) -> bool {
        let (t, length) = (io.now, packet.length);
        self.receive.counted.frames += 1;
        let (headers, mut destination) = (io.mac.headers(packet), [0; 6]);
        destination.copy_from_slice(headers.get(..6).unwrap_or(&[0; 6]));
        let vlan = vlan::of(headers);
        self.registers.count_seen(length);
        let on = self.registers.receive_enabled();
        let verdict =
            if on { self.registers.accepts(&destination, length, vlan.is_some()) } else { Acceptance::NotOurs };
        if verdict != Acceptance::Taken {
            self.receive.counted.filtered += 1;
            if verdict == Acceptance::TooLong {
                self.registers.count_oversize();
            }
            io.tell(t, Notice::Filtered(*packet));
            return false;
        }
        let mut steering = self.registers.steer(io.mac.headers(packet));
        steering.queue = steering.queue.min(self.receive.queues.len() as u16 - 1);
        let queue = steering.queue;
        if self.receive.fifo.has_room(length.into()) {
            self.receive.queues[usize::from(queue)].queued += 1;
            let vlan = vlan.filter(|_| self.registers.strips_tags(queue));
            self.receive.fifo.push(t, length.into(), Stored { packet: *packet, steering, destination, vlan });
            io.tell(t, Notice::Stored { packet: *packet, queue, fifo: self.receive.fifo.used() });
            self.receive_pump(t, io);
            return true;
        }
        // What holds up the FIFO is the queue at its head.
        let culprit = self.receive.fifo.front().map_or(queue, |s| s.steering.queue);
        let starved = self.receive.starved(culprit);
        self.refuse(t, packet, queue, Refusal { culprit, fifo: true, starved, ..Refusal::default() }, io);
        self.receive.counted.refused += 1;
        self.receive.counted.out_of_buffer += u64::from(starved);
        self.registers.count_missed(queue, starved);
        let (vector, causes) = self.registers.vector(InterruptCause::Overrun);
        if causes != 0 {
            io.at(t, Due::Interrupt { vector, causes });
        }
        false
    }

    fn refuse<G>(&mut self, t: Ps, packet: &Packet, queue: u16, why: Refusal, io: &mut Io<'_, Due, G>) {
        let ring = self.registers.ring(Side::Receive, why.culprit).entries;
        let empty = self.receive.queues[usize::from(why.culprit)].ring.available(ring) == 0;
        self.receive.fifo.refuse();
        io.tell(t, Notice::Refused { packet: *packet, queue, why: Refusal { empty, ring, ..why } });
    }

    pub(super) fn receive_doorbell<G: GuestMemory>(&mut self, t: Ps, queue: u16, value: u32, io: &mut Io<'_, Due, G>) {
        let entries = self.registers.ring(Side::Receive, queue).entries;
        let q = &mut self.receive.queues[usize::from(queue)];
        let available = q.ring.outstanding(entries);
        q.ring.tail = value & 0xffff;
        let count = q.ring.outstanding(entries).saturating_sub(available);
        io.tell(t, Notice::Replenished { queue, count, available });
        self.fetch_receive_descriptors(t, queue, 1, io);
    }

    /// Fetches where that is due; `needed` are wanted at once.
    fn fetch_receive_descriptors<G: GuestMemory>(&mut self, t: Ps, queue: u16, needed: u32, io: &mut Io<'_, Due, G>) {
        let ring = self.registers.ring(Side::Receive, queue);
        if !ring.enabled {
            return;
        }
        let thresholds = self.registers.thresholds(Side::Receive, queue);
        let q = &mut self.receive.queues[usize::from(queue)];
        let by = purpose(queue, Moves::Descriptors);
        let Some((done, fetch)) = q.ring.fetch(t, &ring, (thresholds, needed), by, io) else { return };
        self.receive.counted.descriptor_fetches += 1;
        self.receive.counted.descriptors_fetched += u64::from(fetch.count);
        io.at(done, Due::RxDescriptors { queue, fetch });
    }

    /// Puts the next payload on the link, where there is one and its queue can take it.
    pub(super) fn receive_pump<G: GuestMemory>(&mut self, t: Ps, io: &mut Io<'_, Due, G>) {
        while let Some(&Stored { packet, steering, vlan, .. }) = self.receive.fifo.front() {
            if self.receive.sending {
                return;
            }
            let queue = steering.queue;
            let ring = self.registers.ring(Side::Receive, queue);
            let buffer_size = self.registers.buffer_size(queue).max(1);
            let fcs = if self.registers.strips_crc() { FCS } else { 0 };
            let in_memory = packet.length.saturating_sub(fcs + vlan::bytes(vlan.is_some()));
            let needed = in_memory.div_ceil(buffer_size) as usize;
            self.fetch_receive_descriptors(t, queue, needed as u32, io);
            let q = &mut self.receive.queues[usize::from(queue)];
            if ring.enabled && q.ring.held.len() >= needed {
                self.send_payload(t, in_memory as usize, buffer_size as usize, io);
                self.fetch_receive_descriptors(t, queue, 1, io);
                continue;
            }
            let none = q.ring.fetching == 0 && q.ring.unfetched(ring.entries) == 0;
            if none {
                q.starved = Some(self.receive.fifo.drains());
            }
            if ring.enabled && !(none && self.registers.drops_when_empty(queue)) {
                break;
            }
            self.drop_head(t, ring.enabled, io);
        }
        if !self.receive.sending {
            self.flush_write_backs(t, io);
        }
    }

    /// A frame of so many bytes has left the FIFO.
    fn release<G>(&mut self, t: Ps, length: u32, io: &mut Io<'_, Due, G>) {
        if self.receive.fifo.release(t, length.into()) {
            io.tell(t, Notice::Drained);
        }
    }

    /// The frame at the head goes: its queue has no descriptors and drops, or is off.
    fn drop_head<G>(&mut self, t: Ps, enabled: bool, io: &mut Io<'_, Due, G>) {
        let Some(Stored { packet, steering, .. }) = self.receive.fifo.pop() else { return };
        let queue = steering.queue;
        let q = &mut self.receive.queues[usize::from(queue)];
        q.queued = q.queued.saturating_sub(1);
        let full = !self.receive.fifo.has_room(packet.length.into());
        self.release(t, packet.length, io);
        if !enabled {
            io.tell(t, Notice::Lost { id: packet.id });
            return;
        }
        self.receive.queues[usize::from(queue)].stats.no_descriptor += 1;
        self.receive.counted.out_of_buffer += 1;
        self.registers.count_queue_drop(queue);
        let why = Refusal { culprit: queue, fifo: full, starved: true, stored: true, ..Refusal::default() };
        self.refuse(t, &packet, queue, why, io);
    }

    fn send_payload<G: GuestMemory>(&mut self, t: Ps, in_memory: usize, buffer_size: usize, io: &mut Io<'_, Due, G>) {
        let Some(frame) = self.receive.fifo.pop() else { return };
        let Stored { packet, steering, vlan, .. } = frame;
        io.tell(t, Notice::Started { id: packet.id });
        let q = &mut self.receive.queues[usize::from(steering.queue)];
        q.queued = q.queued.saturating_sub(1);
        q.in_flight += 1;
        self.receive.sending = true;
        let bytes = io.mac.frame(&packet);
        let checks = if self.registers.wants_checks() { checks::check(bytes) } else { Checks::default() };
        let begin = t + self.packet_latency;
        let mut sent = begin;
        let mut from = 0;
        while from < in_memory {
            let Some((_, buffer)) = q.ring.held.pop_front() else { break };
            let bytes = from..in_memory.min(from + buffer_size);
            from = bytes.end;
            let (length, last) = (bytes.len() as u16, bytes.end == in_memory);
            let part = FramePart { packet: &packet, bytes, untagged: vlan.is_some(), header: true };
            let by = purpose(steering.queue, Moves::Payload);
            let (left, _) = io.write_frame(begin, buffer, part, by);
            let completion = Completion { buffer, length, last, steering, checks, vlan };
            self.receive.parts.push_back(Filled { completion, packet: packet.id });
            sent = sent.max(left);
        }
        let epoch = self.receive.queues[usize::from(steering.queue)].ring.epoch;
        self.receive.in_flight.push_back((frame, epoch));
        let life = self.receive.life;
        // The pipeline delays a packet, it does not occupy the link.
        io.at(sent - self.packet_latency, Due::RxNext { life });
        io.at(sent, Due::RxSent { life });
    }

    pub(super) fn receive_sent<G: GuestMemory>(&mut self, t: Ps, io: &mut Io<'_, Due, G>) {
        let Some((stored, epoch)) = self.receive.in_flight.pop_front() else { return };
        let Stored { packet, steering, destination, .. } = stored;
        let queue = steering.queue;
        self.release(t, packet.length, io);
        io.tell(t, Notice::Fifo { bytes: self.receive.fifo.used() });
        self.receive.counted.delivered += 1;
        self.registers.count_received(queue, &destination, packet.length);
        let buffer = self.receive.parts.front().map_or(0, |p| p.completion.buffer);
        let q = &mut self.receive.queues[usize::from(queue)];
        // A queue that has gone off meanwhile has forgotten the frame, and what was written of it.
        let forgotten = q.ring.epoch != epoch;
        if forgotten {
            io.tell(t, Notice::Lost { id: packet.id });
        } else {
            io.tell(t, Notice::Delivered { id: packet.id, queue, buffer });
            q.stats.delivered += 1;
            q.in_flight = q.in_flight.saturating_sub(1);
        }
        while let Some(part) = self.receive.parts.pop_front() {
            let last = part.completion.last;
            if !forgotten {
                q.completions.push(part);
            }
            if last {
                break;
            }
        }
        self.consider_write_back(t, queue, io);
    }

    fn consider_write_back<G: GuestMemory>(&mut self, t: Ps, queue: u16, io: &mut Io<'_, Due, G>) {
        let set = self.registers.thresholds(Side::Receive, queue).write_back;
        let (idle, timer) = (self.receive.idle(queue), self.receive.write_back_timer);
        let q = &mut self.receive.queues[usize::from(queue)];
        // After a part of a line, up to the line's end: alignment is recovered (82598 data sheet 3.5.2.7). What the driver
        // sets is a number.
        let part = q.ring.head % DESCRIPTORS_A_LINE;
        let at = match (set, self.receive.write_back_at) {
            (0, at) if at > part => at - part,
            (0, at) => at,
            (set, _) => set,
        };
        match q.completions.due(at, idle, timer) {
            completion::Due::Now => self.write_back(t, queue, io),
            completion::Due::Later(after) => {
                let timer = q.completions.timer();
                io.at(t + after, Due::WriteBack { queue, timer, life: self.receive.life });
            }
            completion::Due::Waits => {}
        }
    }

    /// The link has nothing to carry: what waits for company goes.
    fn flush_write_backs<G: GuestMemory>(&mut self, t: Ps, io: &mut Io<'_, Due, G>) {
        let mut on = self.enabled[Side::Receive as usize];
        while on != 0 {
            let queue = on.trailing_zeros() as u16;
            on &= on - 1;
            if !self.receive.queues[usize::from(queue)].completions.is_empty() {
                self.consider_write_back(t, queue, io);
            }
        }
    }

    pub(super) fn write_back<G: GuestMemory>(&mut self, t: Ps, queue: u16, io: &mut Io<'_, Due, G>) {
        let ring = self.registers.ring(Side::Receive, queue);
        let q = &mut self.receive.queues[usize::from(queue)];
        if q.completions.is_empty() {
            return;
        }
        let registers = &self.registers;
        let (head, visible, writes) = q.completions.write(
            t,
            (&ring, q.ring.head),
            purpose(queue, Moves::WriteBack),
            io,
            |_, d, bytes| bytes.extend_from_slice(&registers.write_back(&d.completion)),
            |entry, d, visible, io| {
                let packet = d.completion.last.then_some(d.packet);
                io.tell(visible, Notice::Completed { queue, entry, packet });
            },
        );
        q.ring.head = head;
        q.stats.write_backs += writes;
        self.receive.counted.write_backs += writes;
        let free = q.ring.available(ring.entries);
        // A cause when so few are left, not as long as they are.
        let few = free <= self.registers.few(ring.entries);
        let were_few = std::mem::replace(&mut q.few, few);
        self.registers.set_head(Side::Receive, queue, head);
        io.tell(visible, Notice::Left { queue, free });
        if few && !were_few {
            self.completed(visible, Side::Receive, (InterruptCause::FewDescriptors(queue), false), io);
        }
        self.completed(visible, Side::Receive, (InterruptCause::Received(queue), true), io);
    }

    pub(super) fn take_receive_descriptors<G: GuestMemory>(
        &mut self,
        t: Ps,
        queue: u16,
        fetch: Fetch,
        io: &mut Io<'_, Due, G>,
    ) {
        let ring = self.registers.ring(Side::Receive, queue);
        let registers = &self.registers;
        let q = &mut self.receive.queues[usize::from(queue)];
        let faults = q.ring.fetched(fetch, &ring, io, |d, io| {
            let buffer = registers.receive_buffer(d);
            io.tell(t, Notice::Offered { buffer });
            buffer
        });
        self.receive.counted.buffer_faults += faults.unwrap_or(0);
    }
}
