//! Interrupts: a message (MSI-X) of a queue's own, or an entry in a ring that many queues share, whose message tells that there
//! are entries; then none until software says how far it has read (PG347, "Interrupt engine").
//!
//! Left out: interrupts of errors and of the user logic; rings beyond as many as there are queues. A ring that is full keeps what
//! comes until software has read.

use super::contexts::{InterruptRing, Interrupts};
use super::{Due, Qdma, Status};
use crate::memory::GuestMemory;
use crate::nic::blocks::messages::Messages;
use crate::nic::device::Io;
use crate::nic::notice::Notice;
use crate::nic::pages::SharedRegisters;
use crate::requester::{Moves, Purpose, Side, UNNAMED};
use std::collections::VecDeque;
use wiretime_base::Ps;

/// Bytes of an entry.
const ENTRY: u64 = 8;
/// Bits of an entry: which direction, which queue, this turn's color. Below are the status's.
const TO_HOST: u64 = 1 << 38;
const QUEUE: u32 = 39;
const COLOR: u64 = 1 << 63;

/// A ring and what software knows of it.
#[derive(Debug, Default)]
struct Aggregation {
    context: InterruptRing,
    produced: u32,
    consumed: u32,
    color: bool,
    /// A message has told of entries, and software has not answered.
    told: bool,
    /// What found no room.
    waiting: VecDeque<(Side, u16, u64)>,
}

impl Aggregation {
    fn is_full(&self) -> bool {
        (self.produced + 1) % self.context.entries == self.consumed
    }

    /// One that waits already says what is new.
    fn wait(&mut self, (side, queue, status): (Side, u16, u64)) {
        match self.waiting.iter_mut().find(|w| (w.0, w.1) == (side, queue)) {
            Some(waiting) => waiting.2 = status,
            None => self.waiting.push_back((side, queue, status)),
        }
    }

    /// Software has read up to an entry of those that are there; any other is an older word of another queue's doorbell.
    fn read_up_to(&mut self, index: u32) {
        let entries = self.context.entries;
        let [new, all] = [index, self.produced].map(|to| (to + entries - self.consumed) % entries);
        if index < entries && new <= all {
            self.consumed = index;
        }
    }

    /// Address and bytes of the next entry.
    fn put(&mut self, (side, queue, status): (Side, u16, u64)) -> (u64, u64) {
        let kind = if side == Side::Receive { TO_HOST } else { 0 };
        let color = if self.color { COLOR } else { 0 };
        let at = self.context.base.wrapping_add(u64::from(self.produced) * ENTRY);
        self.produced = (self.produced + 1) % self.context.entries;
        self.color ^= self.produced == 0;
        (at, status & (TO_HOST - 1) | kind | u64::from(queue) << QUEUE | color)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct InterruptEngine {
    rings: Vec<Aggregation>,
    /// Messages that have gone out.
    pub messages: Messages,
}

impl InterruptEngine {
    /// A ring begins as its context says, or ends.
    pub fn configure(&mut self, number: usize, context: InterruptRing) {
        if self.rings.len() <= number {
            self.rings.resize_with(number + 1, Aggregation::default);
        }
        let (produced, color) = (context.produced, context.color);
        self.rings[number] = Aggregation { context, produced, consumed: produced, color, ..Aggregation::default() };
    }

    /// What a queue has waiting is gone with it.
    pub fn forget(&mut self, side: Side, queue: u16) {
        self.rings.iter_mut().for_each(|r| r.waiting.retain(|w| (w.0, w.1) != (side, queue)));
    }

    /// All that there is is gone.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    fn ring(&mut self, number: usize) -> Option<&mut Aggregation> {
        self.rings.get_mut(number).filter(|r| r.context.valid)
    }
}

impl<S: SharedRegisters> Qdma<S> {
    /// A message is sent behind all that has been written, at `t` or later.
    fn send_message<G>(&mut self, t: Ps, vector: u16, io: &mut Io<'_, Due, G>) {
        io.at(self.written.max(t), Due::Message { vector });
    }

    /// A queue, whose status is `status`, interrupts.
    pub(super) fn interrupt<G>(
        &mut self,
        t: Ps,
        (side, queue, status): (Side, u16, u64),
        how: Interrupts,
        io: &mut Io<'_, Due, G>,
    ) {
        if !how.aggregated {
            self.send_message(t, how.vector, io);
            return;
        }
        match self.interrupts.ring(usize::from(how.vector)) {
            Some(ring) => {
                ring.wait((side, queue, status));
                self.statuses.push_back(Status::Interrupts(how.vector));
            }
            None => self.faults[0] += 1, // software has none there
        }
    }

    /// The next of what waits takes the interface from `t` on, into its ring; a message follows, unless one is out.
    pub(super) fn write_interrupt<G: GuestMemory>(&mut self, t: Ps, number: u16, io: &mut Io<'_, Due, G>) {
        let Some(ring) = self.interrupts.ring(usize::from(number)).filter(|r| !r.is_full()) else { return };
        let Some(entry) = ring.waiting.pop_front() else { return };
        let (at, bytes) = ring.put(entry);
        let told = std::mem::replace(&mut ring.told, true);
        let vector = ring.context.vector;
        // It is no queue's: whoever stops, those behind it in the ring are still read.
        let purpose = Purpose::new(Side::Receive, UNNAMED, Moves::Completions);
        self.write_through(t, (at, &bytes.to_le_bytes()), purpose, io);
        if !told {
            self.send_message(t, vector, io);
        }
    }

    /// Software has read a ring up to an entry, both in what it has stored.
    pub(super) fn interrupts_read<G: GuestMemory>(&mut self, t: Ps, value: u32, io: &mut Io<'_, Due, G>) {
        let number = value >> 16 & 0xff;
        let Some(ring) = self.interrupts.ring(number as usize) else { return };
        ring.read_up_to(value & 0xffff);
        ring.told = ring.produced != ring.consumed;
        let (told, vector, waiting) = (ring.told, ring.context.vector, ring.waiting.len());
        self.statuses.extend((0..waiting).map(|_| Status::Interrupts(number as u16)));
        if told {
            self.send_message(t, vector, io);
        }
    }

    /// A message arrives.
    pub(super) fn message<G>(&mut self, vector: u16, io: &mut Io<'_, Due, G>) {
        if vector >= super::registers::VECTORS {
            self.faults[0] += 1;
            return;
        }
        io.note(Notice::Interrupt { vector });
        self.interrupts.messages.push(io.now, vector);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_say_who_and_change_color_each_turn() {
        let context = InterruptRing { valid: true, vector: 3, color: true, base: 0x1000, entries: 512, produced: 511 };
        let mut e = InterruptEngine::default();
        e.configure(2, context);
        assert!(e.ring(1).is_none() && e.ring(3).is_none());
        let ring = e.ring(2).unwrap();
        assert_eq!(ring.put((Side::Receive, 9, 0x1_0005)), (0x1000 + 511 * 8, COLOR | TO_HOST | 9 << 39 | 0x1_0005));
        assert_eq!(ring.put((Side::Transmit, 1, 7)), (0x1000, 1 << 39 | 7), "the next turn's color");
        ring.consumed = 2;
        assert!(ring.is_full());
        let read = |ring: &mut Aggregation, index| {
            ring.read_up_to(index);
            ring.consumed
        };
        assert_eq!([(0, 0), (511, 0), (1, 1), (0, 1), (600, 1)].map(|(index, at)| read(ring, index) == at), [true; 5]);
        e.configure(2, InterruptRing::default());
        assert!(e.ring(2).is_none());
    }
}
