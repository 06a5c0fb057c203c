//! What the guest switches: registers written by trapped accesses, resets, queues going on and off.

use super::{stream, Event, Port};
use crate::nic::controller::{Action, Controller, Side};

impl<C: Controller> Port<C> {
    /// The guest writes a register, trapped, now.
    pub fn write_register(&mut self, offset: u64, value: u32) {
        match self.registers.write(offset, value) {
            Action::None => {}
            Action::Tail(offset, value) => self.trapped_tails.push((offset, value)),
            Action::Reset => self.reset(),
            Action::Switched(side) => self.switched(side),
            Action::Head(queue) => self.head_written(queue),
        }
    }

    /// The guest writes any number of bytes. Hardware takes whole words only; others are counted and ignored.
    pub fn write_bytes(&mut self, offset: u64, data: &[u8]) {
        if self.registers.note_odd(offset, data.len()) {
            return;
        }
        for (i, word) in data.chunks_exact(4).enumerate() {
            let value = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            self.write_register(offset.wrapping_add(4 * i as u64), value);
        }
    }

    fn reset(&mut self) {
        self.moderation.reset();
        self.life = self.life.wrapping_add(1);
        self.receive.reset(self.now);
        self.transmit.reset();
        self.transmit.reading.clear();
        self.lost = true;
        self.writes.clear();
        self.trapped_tails.clear();
        self.seen_tails.iter_mut().for_each(|tails| tails.fill(0));
        self.enabled = [0; 2];
    }

    /// Queues of a side may have gone on or off.
    pub fn switched(&mut self, side: Side) {
        let before = self.enabled[side as usize];
        let mut after = 0;
        for queue in 0..self.registers.queues() as u16 {
            after |= u64::from(self.registers.ring(side, queue).enabled) << queue;
        }
        self.enabled[side as usize] = after;
        let mut changed = before ^ after;
        while changed != 0 {
            let queue = changed.trailing_zeros() as u16;
            changed &= changed - 1;
            if after >> queue & 1 != 0 {
                self.goes_on(side, queue);
            } else {
                self.goes_off(side, queue);
            }
        }
        if side == Side::Receive && before != 0 && after == 0 {
            // The whole unit: what is under way is lost, now: drivers free their buffers right after.
            self.receive.reset(self.now);
            self.lost = true;
        }
    }

    fn goes_on(&mut self, side: Side, queue: u16) {
        let view = self.registers.ring(side, queue);
        let head = if view.entries == 0 { 0 } else { self.registers.head(side, queue) % view.entries };
        let q = usize::from(queue);
        match side {
            Side::Receive => {
                self.receive.queues[q].ring.start_at(head);
                self.receive.queues[q].driver.reset(head);
            }
            Side::Transmit => {
                self.transmit.queues[q].ring.start_at(head);
            }
        }
        let value = self.registers.tail(side, queue);
        self.seen_tails[side as usize][q] = value;
        self.events.push(self.now, Event::Doorbell { side, queue, value });
    }

    fn goes_off(&mut self, side: Side, queue: u16) {
        let q = usize::from(queue);
        // Drivers free their buffers right after.
        self.writes.cancel(stream(side, queue));
        match side {
            Side::Receive => self.receive.queues[q].disable(),
            Side::Transmit => {
                let occupied = self.transmit.queues[q].occupied;
                self.transmit.fifo_used = self.transmit.fifo_used.saturating_sub(occupied);
                self.transmit.queues[q].disable();
                self.transmit.active &= !(1 << queue);
            }
        }
    }

    /// A receive queue's head register was written: it counts as long as nothing has been fetched.
    fn head_written(&mut self, queue: u16) {
        let entries = self.registers.ring(Side::Receive, queue).entries;
        let head = self.registers.head(Side::Receive, queue) % entries.max(1);
        let q = &mut self.receive.queues[usize::from(queue)];
        if q.ring.start_at(head) {
            q.driver.reset(head);
        }
    }

    /// While nobody watches the shared pages: what has changed there since they were last seen.
    pub fn poll_shared(&mut self, t: wiretime_base::Ps) {
        for side in [Side::Receive, Side::Transmit] {
            self.switched(side);
            for queue in 0..self.registers.queues() as u16 {
                let tail = self.registers.tail(side, queue);
                if tail != self.seen_tails[side as usize][usize::from(queue)] {
                    self.post(t, side, queue, tail);
                }
            }
        }
    }
}
