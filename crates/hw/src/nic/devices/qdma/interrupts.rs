//! Interrupts: a message (MSI-X) of a queue's own, or an entry in a ring that many queues share, whose message tells that there
//! are entries; then none until software says how far it has read (PG347, "Interrupt engine").
//!
//! Left out: interrupts of errors and of the user logic. A ring that is full keeps what comes until software has read.

use super::contexts::{InterruptRing, Interrupts};
use super::{Due, Qdma};
use crate::memory::GuestMemory;
use crate::nic::device::Io;
use crate::nic::notice::Notice;
use crate::nic::pages::SharedRegisters;
use crate::requester::{Moves, Purpose, Side};
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
struct Ring {
    context: InterruptRing,
    produced: u32,
    consumed: u32,
    color: bool,
    /// A message has told of entries, and software has not answered.
    told: bool,
    /// What found no room.
    waiting: VecDeque<(Side, u16, u64)>,
}

impl Ring {
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
    rings: Vec<Ring>,
    /// Vectors of messages that are due.
    messages: VecDeque<u16>,
}

impl InterruptEngine {
    /// A ring begins as its context says, or ends.
    pub fn configure(&mut self, number: usize, context: InterruptRing) {
        if self.rings.len() <= number {
            self.rings.resize_with(number + 1, Ring::default);
        }
        let (produced, color) = (context.produced, context.color);
        self.rings[number] = Ring { context, produced, consumed: produced, color, ..Ring::default() };
    }

    /// All that there is is gone.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// A message is due.
    pub fn message(&mut self, vector: u16) {
        if !self.messages.contains(&vector) {
            self.messages.push_back(vector);
        }
    }

    /// Whether any is.
    #[must_use]
    pub fn has_message(&self) -> bool {
        !self.messages.is_empty()
    }

    /// Takes one.
    pub fn take_message(&mut self) -> Option<u16> {
        self.messages.pop_front()
    }

    fn ring(&mut self, number: usize) -> Option<&mut Ring> {
        self.rings.get_mut(number).filter(|r| r.context.valid)
    }
}

impl<S: SharedRegisters> Qdma<S> {
    /// A queue, whose status is `status`, interrupts: an entry may leave, and a message arrives, no earlier than these times.
    pub(super) fn interrupt<G: GuestMemory>(
        &mut self,
        (t, visible): (Ps, Ps),
        (side, queue, status): (Side, u16, u64),
        how: Interrupts,
        io: &mut Io<'_, Due, G>,
    ) {
        if !how.gathered {
            io.at(visible, Due::Message { vector: how.vector });
            return;
        }
        let number = usize::from(how.vector);
        match self.interrupts.ring(number) {
            Some(ring) => ring.wait((side, queue, status)),
            None => self.faults += 1, // software has none there
        }
        self.gather(t, number, io);
    }

    /// What waits goes into its ring, as far as there is room; a message follows, unless one is out.
    fn gather<G: GuestMemory>(&mut self, t: Ps, number: usize, io: &mut Io<'_, Due, G>) {
        let Some(ring) = self.interrupts.ring(number) else { return };
        let mut visible = t;
        while !ring.is_full() {
            let Some(entry) = ring.waiting.pop_front() else { break };
            let (at, bytes) = ring.put(entry);
            let through = self.requester.take(t, ENTRY);
            let purpose = Purpose::new(entry.0, entry.1, Moves::Completions);
            let (left, seen) = io.write(through, at, &bytes.to_le_bytes(), purpose);
            self.requester.leaves(left);
            visible = visible.max(seen);
        }
        if ring.produced != ring.consumed && !std::mem::replace(&mut ring.told, true) {
            io.at(visible, Due::Message { vector: ring.context.vector });
        }
    }

    /// Software has read a ring up to an entry, both in what it has stored.
    pub(super) fn interrupts_read<G: GuestMemory>(&mut self, t: Ps, value: u32, io: &mut Io<'_, Due, G>) {
        let number = (value >> 16 & 0xff) as usize;
        let Some(ring) = self.interrupts.ring(number) else { return };
        ring.consumed = (value & 0xffff) % ring.context.entries;
        ring.told = false;
        self.gather(t, number, io);
    }

    /// A message arrives.
    pub(super) fn message<G>(&mut self, vector: u16, io: &mut Io<'_, Due, G>) {
        if vector >= super::registers::VECTORS {
            self.faults += 1;
            return;
        }
        io.note(Notice::Interrupt { vector });
        self.interrupts.message(vector);
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
        e.configure(2, InterruptRing::default());
        assert!(e.ring(2).is_none());
    }

    #[test]
    fn a_message_that_is_due_is_due_once() {
        let mut e = InterruptEngine::default();
        [3, 3, 5].into_iter().for_each(|vector| e.message(vector));
        assert_eq!([e.take_message(), e.take_message(), e.take_message()], [Some(3), Some(5), None]);
    }
}
