//! What happens on the receive path: arrival, steering, DMA of the payload, write-back of descriptors.

use super::{stream, Event, Port};
use crate::memory::{GuestMemory, MemorySystem};
use crate::nic::checks::{self, Checks};
use crate::nic::controller::{Acceptance, Completion, Controller, InterruptCause, Side, DESCRIPTOR};
use crate::nic::drops::{DropClass, State};
use crate::nic::engine::Purpose;
use crate::nic::journeys::Point;
use crate::nic::ledger::Fate;
use crate::nic::receive::{Filled, Stored};
use crate::nic::shared::Shared;
use crate::nic::trace::What;
use crate::wire::{Kind, Packet, Passage, FCS};
use wiretime_base::Ps;

impl<C: Controller> Port<C> {
    pub(super) fn arrive(&mut self, t: Ps, memory: &mut MemorySystem, shared: &mut Shared) {
        let packet = self.generator.next();
        if packet.departed >= self.stop_at && packet.kind != Kind::Answer {
            return;
        }
        self.generator.advance(t);
        self.schedule();
        debug_assert!(self.is_ours(packet.id));
        let Packet { id, departed, length, .. } = packet;
        self.arrived += 1;
        self.receive.stats.frames += 1;
        shared.offered(self.index, &packet);
        if shared.sink.wants_packets() && packet.kind != Kind::Answer {
            shared.shows(id, self.generator.peek(&packet));
        }
        let mut destination = [0; 6];
        destination.copy_from_slice(&self.generator.headers(&packet)[..6]);
        self.trace.note(departed, What::Frame { id, until: t, bytes: length, out: false });
        self.registers.count_seen(length);
        let on = self.registers.receive_enabled();
        let verdict = if on { self.registers.accepts(&destination, length) } else { Acceptance::NotOurs };
        if verdict != Acceptance::Taken {
            self.receive.stats.filtered += 1;
            if verdict == Acceptance::TooLong {
                self.registers.count_oversize();
            }
            shared.ledger.moves(id, Fate::Offered, Fate::Filtered);
            self.tap_arrival(&packet, 0);
            self.generator.refused(&packet);
            return;
        }
        let mut steering = self.registers.steer(self.generator.headers(&packet));
        steering.queue = steering.queue.min(self.receive.queues.len() as u16 - 1);
        shared.ledger.steered(id, steering.queue);
        self.tap_arrival(&packet, steering.queue);
        if self.receive.has_room(length) {
            shared.ledger.moves(id, Fate::Offered, Fate::InFifo);
            if packet.kind != Kind::Answer {
                shared.journeys.begins((id, packet.flow), departed, t);
            }
            self.receive.store(t, Stored { packet, steering, destination });
            self.trace.note(t, What::Fifo { bytes: self.receive.fifo_used });
            self.receive_pump(t, memory, shared);
            return;
        }
        // What holds up the FIFO is the queue at its head.
        let head = self.receive.fifo.front().map_or(steering.queue, |s| s.steering.queue);
        let starved = self.receive.queues[usize::from(head)].starved;
        let class = self.refuse(t, &packet, steering.queue, (head, starved, true), shared);
        self.generator.refused(&packet);
        self.receive.stats.refused += 1;
        self.receive.stats.out_of_buffer += u64::from(starved);
        self.registers.count_missed(steering.queue, starved);
        shared.ledger.moves(id, Fate::Offered, fate(class));
        let (vector, causes) = self.registers.vector(InterruptCause::Overrun);
        if causes != 0 {
            self.registers.raise(vector, causes);
        }
    }

    fn tap_arrival(&mut self, packet: &Packet, queue: u16) {
        if self.tap.window.contains(&packet.departed) {
            self.tap.record(packet.departed, Passage::In, (packet.id, queue), self.generator.peek(packet));
        }
    }

    /// A packet of `queue` is refused because of queue `culprit`, which is out of descriptors or not; `fifo`: is it full.
    fn refuse(
        &mut self,
        t: Ps,
        packet: &Packet,
        queue: u16,
        (culprit, starved, fifo): (u16, bool, bool),
        shared: &mut Shared,
    ) -> DropClass {
        let ring = self.registers.ring(Side::Receive, culprit);
        let empty = self.receive.queues[usize::from(culprit)].ring.available(ring.entries) == 0;
        let now = State { fifo, rx_ring: starved, tx_ring: shared.tx_full_behind(self.index, culprit) };
        // The published machine asks for as many descriptors outstanding as the ring has, which cannot be.
        let sampled = State { fifo, rx_ring: empty, tx_ring: false };
        let class = self.receive.drops.refuse(now, sampled, ring.entries);
        let stats = &mut self.receive.queues[usize::from(queue)].stats;
        let name = match class {
            DropClass::Dma => {
                stats.dma_drops += 1;
                "DmaDrop"
            }
            DropClass::Core => {
                stats.core_drops += 1;
                "CoreDrop"
            }
            DropClass::Tx => {
                stats.tx_drops += 1;
                "TxDrop"
            }
        };
        self.last_drop = t;
        if self.tap.window.contains(&t) {
            self.tap.record(t, Passage::Dropped(name), (packet.id, queue), self.generator.peek(packet));
        }
        self.trace.note(t, What::Drop { id: packet.id, queue, class: name });
        class
    }

    pub(super) fn receive_doorbell(&mut self, t: Ps, queue: u16, value: u32, memory: &mut MemorySystem) {
        let entries = self.registers.ring(Side::Receive, queue).entries;
        let q = &mut self.receive.queues[usize::from(queue)];
        let before = q.ring.outstanding(entries);
        q.ring.tail = value & 0xffff;
        let count = q.ring.outstanding(entries).saturating_sub(before);
        q.driver.replenishes(t, count, before);
        self.trace.note(t, What::Doorbell { queue, transmit: false });
        self.fetch_receive_descriptors(t, queue, 1, memory);
    }

    /// Fetches where that is due; `needed` are wanted at once.
    fn fetch_receive_descriptors(&mut self, t: Ps, queue: u16, needed: u32, memory: &mut MemorySystem) {
        let ring = self.registers.ring(Side::Receive, queue);
        if !ring.enabled {
            return;
        }
        let thresholds = self.registers.thresholds(Side::Receive, queue);
        let q = &mut self.receive.queues[usize::from(queue)];
        let Some((index, count)) = q.ring.begin_fetch(ring.entries, thresholds, needed) else { return };
        let epoch = q.ring.epoch;
        self.receive.stats.descriptor_fetches += 1;
        self.receive.stats.descriptors_fetched += u64::from(count);
        let done = self.fetch(t, queue, ring.base, (index, count), memory);
        self.events.push(done, Event::RxDescriptors { queue, index, count, epoch });
    }

    /// Puts the next payload on the link, where there is one and its queue can take it.
    pub(super) fn receive_pump(&mut self, t: Ps, memory: &mut MemorySystem, shared: &mut Shared) {
        while let Some(&Stored { packet, steering, .. }) = self.receive.fifo.front() {
            if self.receive.sending {
                return;
            }
            let queue = steering.queue;
            let ring = self.registers.ring(Side::Receive, queue);
            let buffer_size = self.registers.buffer_size(queue).max(1);
            let in_memory = packet.length - if self.registers.strips_crc() { FCS } else { 0 };
            let needed = in_memory.div_ceil(buffer_size) as usize;
            self.fetch_receive_descriptors(t, queue, needed as u32, memory);
            let q = &mut self.receive.queues[usize::from(queue)];
            if ring.enabled && q.ring.held.len() >= needed {
                self.send_payload(t, needed, in_memory, buffer_size, memory, shared);
                self.fetch_receive_descriptors(t, queue, 1, memory);
                continue;
            }
            let none = q.ring.fetching == 0 && q.ring.unfetched(ring.entries) == 0;
            q.starved |= none;
            if ring.enabled && !(none && self.registers.drops_when_empty(queue)) {
                break;
            }
            self.drop_head(t, ring.enabled, shared);
        }
        if !self.receive.sending {
            self.flush_write_backs(t, memory, shared);
        }
    }

    /// The frame at the head goes: its queue has no descriptors and drops, or is off.
    fn drop_head(&mut self, t: Ps, enabled: bool, shared: &mut Shared) {
        let Some(Stored { packet, steering, .. }) = self.receive.fifo.pop_front() else { return };
        let q = &mut self.receive.queues[usize::from(steering.queue)];
        q.queued = q.queued.saturating_sub(1);
        let full = !self.receive.has_room(packet.length);
        self.receive.release(t, packet.length);
        if !enabled {
            shared.ledger.moves(packet.id, Fate::InFifo, Fate::Reset);
            return;
        }
        self.receive.queues[usize::from(steering.queue)].stats.no_descriptor += 1;
        self.receive.stats.out_of_buffer += 1;
        self.registers.count_queue_drop(steering.queue);
        let class = self.refuse(t, &packet, steering.queue, (steering.queue, true, full), shared);
        shared.ledger.moves(packet.id, Fate::InFifo, fate(class));
    }

    fn send_payload(
        &mut self,
        t: Ps,
        needed: usize,
        in_memory: u32,
        buffer_size: u32,
        memory: &mut MemorySystem,
        shared: &mut Shared,
    ) {
        let Some(frame) = self.receive.fifo.pop_front() else { return };
        let Stored { packet, steering, .. } = frame;
        shared.journeys.passes(packet.id, Point::Started, t);
        let q = &mut self.receive.queues[usize::from(steering.queue)];
        q.queued = q.queued.saturating_sub(1);
        q.in_flight += 1;
        self.receive.sending = true;
        self.scratch.clear();
        self.scratch.extend_from_slice(self.generator.frame(&packet));
        let checks = if self.registers.wants_checks() { checks::check(&self.scratch) } else { Checks::default() };
        self.scratch.resize(in_memory as usize, 0); // the FCS, where it is kept: its value is not modelled
        let begin = t + self.packet_latency;
        let mut sent = begin;
        let purpose = Purpose { queue: steering.queue, descriptors: false };
        for (i, part) in self.scratch.chunks(buffer_size as usize).enumerate() {
            let Some((_, buffer)) = self.receive.queues[usize::from(steering.queue)].ring.held.pop_front() else {
                break;
            };
            let length = part.len() as u64;
            memory.objects.mark_buffer(buffer, length);
            let (left, visible) = self.engine.write(begin, buffer, length, purpose, memory);
            self.writes.push(visible, buffer, part, stream(Side::Receive, steering.queue));
            let last = i + 1 == needed;
            let completion = Completion { buffer, length: length as u16, last, steering, checks };
            self.receive.parts.push_back(Filled { completion, packet: packet.id });
            sent = sent.max(left);
        }
        self.receive.in_flight.push_back(frame);
        let life = self.receive.life;
        // The pipeline delays a packet, it does not occupy the link.
        self.events.push(sent - self.packet_latency, Event::RxNext { life });
        self.events.push(sent, Event::RxSent { life });
    }

    pub(super) fn receive_sent(&mut self, t: Ps, memory: &mut MemorySystem, shared: &mut Shared) {
        let Some(Stored { packet, steering, destination }) = self.receive.in_flight.pop_front() else { return };
        self.receive.release(t, packet.length);
        self.trace.note(t, What::Fifo { bytes: self.receive.fifo_used });
        self.receive.stats.delivered += 1;
        self.registers.count_received(steering.queue, &destination, packet.length);
        let buffer = self.receive.parts.front().map_or(0, |p| p.completion.buffer);
        shared.ledger.delivered(packet.id, buffer);
        let q = &mut self.receive.queues[usize::from(steering.queue)];
        q.stats.delivered += 1;
        // A queue that has gone off meanwhile has forgotten the frame.
        let forgotten = q.in_flight == 0;
        q.in_flight = q.in_flight.saturating_sub(1);
        while let Some(part) = self.receive.parts.pop_front() {
            let last = part.completion.last;
            if !forgotten {
                q.pending.push(part);
            }
            if last {
                break;
            }
        }
        self.consider_write_back(t, steering.queue, memory, shared);
    }

    fn consider_write_back(&mut self, t: Ps, queue: u16, memory: &mut MemorySystem, shared: &mut Shared) {
        let set = self.registers.thresholds(Side::Receive, queue).write_back;
        let at = if set == 0 { self.receive.write_back_at } else { set };
        let (enough, idle) = self.receive.should_write_back(queue, at);
        let timer = self.receive.write_back_timer;
        let q = &mut self.receive.queues[usize::from(queue)];
        if enough || idle && timer == 0 {
            self.write_back(t, queue, memory, shared);
        } else if idle && !q.timer && !q.pending.is_empty() {
            q.timer = true;
            self.events.push(t + timer, Event::WriteBack { queue, life: self.receive.life });
        }
    }

    /// The link has nothing to carry: what waits for company goes.
    fn flush_write_backs(&mut self, t: Ps, memory: &mut MemorySystem, shared: &mut Shared) {
        let mut on = self.enabled[Side::Receive as usize];
        while on != 0 {
            let queue = on.trailing_zeros() as u16;
            on &= on - 1;
            if !self.receive.queues[usize::from(queue)].pending.is_empty() {
                self.consider_write_back(t, queue, memory, shared);
            }
        }
    }

    pub(super) fn write_back(&mut self, t: Ps, queue: u16, memory: &mut MemorySystem, shared: &mut Shared) {
        let ring = self.registers.ring(Side::Receive, queue);
        let q = usize::from(queue);
        let mut pending = std::mem::take(&mut self.receive.queues[q].pending);
        let mut visible = t;
        let mut rest = &pending[..];
        let purpose = Purpose { queue, descriptors: true };
        while !rest.is_empty() && ring.entries > 0 {
            let head = self.receive.queues[q].ring.head % ring.entries;
            let n = rest.len().min((ring.entries - head) as usize);
            let address = ring.base.wrapping_add(u64::from(head) * DESCRIPTOR);
            let length = n as u64 * DESCRIPTOR;
            let (_, when) = self.engine.write(t, address, length, purpose, memory);
            self.scratch.clear();
            for d in &rest[..n] {
                self.scratch.extend_from_slice(&self.registers.write_back(&d.completion));
            }
            visible = self.writes.push(when, address, &self.scratch, stream(Side::Receive, queue));
            let driver = &mut self.receive.queues[q].driver;
            for (i, d) in rest[..n].iter().enumerate() {
                let last = d.completion.last;
                driver.written(head + i as u32, visible, last.then_some(d.packet));
                if last {
                    shared.journeys.passes(d.packet, Point::Visible, visible);
                }
            }
            self.receive.queues[q].ring.head = (head + n as u32) % ring.entries;
            self.receive.queues[q].stats.write_backs += 1;
            self.receive.stats.write_backs += 1;
            rest = &rest[n..];
        }
        let none = pending.is_empty();
        pending.clear();
        let rx = &mut self.receive.queues[q];
        rx.pending = pending;
        if none {
            return;
        }
        self.registers.set_head(Side::Receive, queue, rx.ring.head);
        let free = rx.ring.unfetched(ring.entries) + rx.ring.held.len() as u32;
        self.trace.note(visible, What::RxRing { queue, free, waiting: rx.driver.waiting() as u32 });
        if free * 2 <= ring.entries {
            self.completed(visible, Side::Receive, InterruptCause::FewDescriptors(queue), false);
        }
        self.completed(visible, Side::Receive, InterruptCause::Received(queue), true);
    }

    pub(super) fn take_receive_descriptors(
        &mut self,
        queue: u16,
        (index, count): (u32, u32),
        epoch: u32,
        guest: &impl GuestMemory,
        shared: &mut Shared,
    ) {
        let base = self.registers.ring(Side::Receive, queue).base;
        let q = &mut self.receive.queues[usize::from(queue)];
        if epoch != q.ring.epoch {
            return;
        }
        q.ring.fetching = 0;
        for i in index..index + count {
            let mut d = [0; DESCRIPTOR as usize];
            if !guest.read(base.wrapping_add(u64::from(i) * DESCRIPTOR), &mut d) {
                self.receive.stats.buffer_faults += 1;
            }
            let buffer = self.registers.receive_buffer(&d);
            q.ring.held.push_back((i, buffer));
            shared.ledger.posted(buffer);
        }
    }
}

fn fate(class: DropClass) -> Fate {
    match class {
        DropClass::Dma => Fate::DmaDrop,
        DropClass::Core => Fate::CoreDrop,
        DropClass::Tx => Fate::TxDrop,
    }
}
