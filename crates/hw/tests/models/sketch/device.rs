//! A NIC that exists nowhere, added as a device is: one file. 130 queues; each has one ring of 32-byte descriptors that hand
//! buffers over, to be sent first where they have a length; a ring of 16-byte completions; a doorbell record in memory, read
//! when the doorbell rings.

use std::collections::VecDeque;
use wiretime_hw::nic::{
    device::{FramePart, Io as Acts},
    prelude::*,
};

type Io<'a, G> = Acts<'a, Due, G>; // over the prelude's
pub const QUEUES: u16 = 130;
pub const ENTRIES: u32 = 64;

/// Of a queue: its descriptors, its completions, its doorbell record.
pub fn ring(queue: u16) -> RingView {
    RingView { enabled: true, base: u64::from(queue) << 13, entries: ENTRIES, size: 32 }
}
pub fn completions(queue: u16) -> RingView {
    RingView { base: ring(queue).base + 4096, size: 16, ..ring(queue) }
}
pub fn record(queue: u16) -> u64 {
    ring(queue).base + 2048
}

#[derive(Clone, Copy, Debug)]
pub enum Due {
    Rung(u16),
    Record(u16),
    Descriptors(u16, Fetch),
    Received(u16, u64),
    Read(u16),
}

#[rustfmt::skip]
impl Ordered for Due { fn class(&self) -> u8 { 0 } }

struct Queue {
    ring: Fetcher<(u64, u32)>,
    buffers: VecDeque<u64>,
    done: Completions<(u64, u32, u64)>,
    written: u32,
    starved: Option<u32>,
    sending: bool,
}

/// See the module.
pub struct Sketch {
    queues: Vec<Queue>,
    fifo: ByteFifo<(Packet, u16)>,
    receiving: Option<Packet>,
}

impl Default for Sketch {
    fn default() -> Self {
        let (ring, buffers, done) = (|| Fetcher::new(16, 8), VecDeque::new, Completions::default);
        let (written, starved, sending) = (0, None, false);
        let queue = |_| Queue { ring: ring(), buffers: buffers(), done: done(), written, starved, sending };
        Self { queues: (0..QUEUES).map(queue).collect(), fifo: ByteFifo::new(16 << 10), receiving: None }
    }
}

impl Sketch {
    /// Descriptors without a length are buffers for packets; others are sent, one after the other.
    fn work<G: GuestMemory>(&mut self, queue: u16, io: &mut Io<'_, G>) {
        let (q, now) = (&mut self.queues[usize::from(queue)], io.now);
        while let Some(&(_, (buffer, 0))) = q.ring.held.front() {
            q.ring.held.pop_front();
            q.ring.head = (q.ring.head + 1) % ENTRIES;
            q.buffers.push_back(buffer);
            io.note(Notice::Offered { buffer });
        }
        let by = Purpose::new(Side::Receive, queue, Moves::Descriptors);
        if let Some((done, fetch)) = q.ring.fetch(now, &ring(queue), (Thresholds::default(), 1), by, io) {
            io.at(done, Due::Descriptors(queue, fetch));
        }
        if let Some(&(_, (buffer, length))) = q.ring.held.front().filter(|_| !q.sending) {
            q.sending = true;
            io.note(Notice::Begun { queue });
            let done = io.read(now, buffer, length.into(), Purpose::new(Side::Transmit, queue, Moves::Payload));
            io.at(done, Due::Read(queue));
        }
        self.receive(io);
    }

    /// What a descriptor points to is here: it is sent, and its buffer takes packets.
    fn read<G: GuestMemory>(&mut self, queue: u16, io: &mut Io<'_, G>) {
        let q = &mut self.queues[usize::from(queue)];
        q.sending = false;
        let Some((_, (buffer, length))) = q.ring.held.front_mut() else { return };
        let (mut frame, buffer, now) = (vec![0; std::mem::take(length) as usize], *buffer, io.now);
        io.guest.read(buffer, &mut frame);
        io.note(Notice::Read { queue, first: Some(buffer) });
        io.note(Notice::Gathered { queue });
        io.send(now, queue, &frame, 60);
        let level = Level { posted: q.ring.held.len() as u32 - 1, entries: ENTRIES };
        io.note(Notice::Finished { queue, entries: 1, reported: true, level });
        self.work(queue, io);
    }

    fn receive<G: GuestMemory>(&mut self, io: &mut Io<'_, G>) {
        let Some(&(packet, queue)) = self.fifo.front().filter(|_| self.receiving.is_none()) else { return };
        let q = &mut self.queues[usize::from(queue)];
        let Some(buffer) = q.buffers.pop_front() else { return q.starved = Some(self.fifo.drains()) };
        self.receiving = self.fifo.pop().map(|f| f.0);
        io.note(Notice::Started { id: packet.id });
        let (now, bytes) = (io.now, 0..(packet.length - FCS) as usize);
        let part = FramePart { packet: &packet, bytes, untagged: false, header: true };
        let by = Purpose::new(Side::Receive, queue, Moves::Payload);
        let (left, _) = io.write_frame(now, buffer, part, by);
        io.at(left, Due::Received(queue, buffer));
    }

    /// All of a packet has left for memory: its completion follows.
    fn received<G: GuestMemory>(&mut self, queue: u16, buffer: u64, io: &mut Io<'_, G>) {
        let (Some(packet), now) = (self.receiving.take(), io.now) else { return };
        if self.fifo.release(now, packet.length.into()) {
            io.note(Notice::Drained);
        }
        io.note(Notice::Delivered { id: packet.id, queue, buffer });
        let q = &mut self.queues[usize::from(queue)];
        q.done.push((buffer, packet.length - FCS, packet.id));
        let (to, by) = (completions(queue), Purpose::new(Side::Receive, queue, Moves::Completions));
        let bytes = |_, d: &(u64, u32, u64), into: &mut Vec<u8>| {
            into.extend([d.0, d.1.into()].iter().flat_map(|word| word.to_le_bytes()));
        };
        (q.written, _, _) = q.done.write(now, (&to, q.written), by, io, bytes, |entry, d, visible, io| {
            io.tell(visible, Notice::Completed { queue, entry, packet: Some(d.2) });
        });
        self.receive(io);
    }
}

impl Device for Sketch {
    type Event = Due;
    fn queues(&self) -> usize {
        QUEUES.into()
    }
    fn write(&mut self, place: Place, data: &[u8], fx: &mut Effects<'_, Due>) {
        fx.defer(Store { place, value: data.first().map_or(0, |&queue| queue.into()) });
    }
    fn reset(&mut self, fx: &mut Effects<'_, Due>) {
        *self = Self::default();
        fx.forget();
        fx.note(Notice::Reset);
    }
    fn doorbell(&mut self, store: Store, _: &mut Effects<'_, Due>) -> Option<Rung<Due>> {
        (store.value < QUEUES.into())
            .then_some(Rung { event: Due::Rung(store.value as u16), sends: Some(store.value as u16) })
    }
    fn frame<G: GuestMemory>(&mut self, packet: &Packet, io: &mut Io<'_, G>) -> bool {
        let (queue, bytes) = ((packet.flow % u32::from(QUEUES)) as u16, u64::from(packet.length));
        let kept = self.fifo.has_room(bytes);
        if kept {
            self.fifo.push(io.now, bytes, (*packet, queue));
            io.note(Notice::Stored { packet: *packet, queue, fifo: self.fifo.used() });
            self.receive(io);
        } else {
            let culprit = self.fifo.front().map_or(queue, |f| f.1);
            let q = &self.queues[usize::from(culprit)];
            let (starved, empty) = (q.starved == Some(self.fifo.drains()), q.buffers.is_empty());
            let why = Refusal { culprit, fifo: true, starved, empty, ring: ENTRIES, stored: false };
            self.fifo.refuse();
            io.note(Notice::Refused { packet: *packet, queue, why });
        }
        kept
    }
    fn event<G: GuestMemory>(&mut self, event: Due, io: &mut Io<'_, G>) {
        let now = io.now;
        match event {
            Due::Rung(queue) => {
                let by = Purpose::new(Side::Receive, queue, Moves::Descriptors);
                let done = io.read(now, record(queue), 4, by);
                io.at(done, Due::Record(queue));
            }
            Due::Record(queue) => {
                let mut tail = [0; 4];
                io.guest.read(record(queue), &mut tail);
                self.queues[usize::from(queue)].ring.tail = u32::from_le_bytes(tail);
                self.work(queue, io);
            }
            Due::Descriptors(queue, fetch) => {
                let (q, mut count) = (&mut self.queues[usize::from(queue)], 0);
                let word = |d: &[u8], at| u64::from_le_bytes(std::array::from_fn(|i| d[at + i]));
                q.ring.fetched(fetch, &ring(queue), io, |d, _| {
                    count += u32::from(word(d, 8) > 0);
                    (word(d, 0), word(d, 8) as u32)
                });
                let level = Level { posted: q.ring.held.len() as u32, entries: ENTRIES };
                io.note(Notice::Posted { queue, count, level });
                self.work(queue, io);
            }
            Due::Received(queue, buffer) => self.received(queue, buffer, io),
            Due::Read(queue) => self.read(queue, io),
        }
    }
    fn polled(&self) -> Vec<Polled> {
        let polled = |queue| Some(Polled::whole(completions(queue).base..completions(queue).end()?, 16, queue));
        (0..QUEUES).filter_map(polled).collect()
    }
    fn fifo(&self) -> (u64, u64) {
        (self.fifo.used(), self.fifo.frames() as u64 + u64::from(self.receiving.is_some()))
    }
}
