//! What the guest switches: registers written by trapped accesses, resets, queues going on and off.

use super::controller::{Action, Controller};
use super::{Due, Intel};
use crate::nic::device::{Effects, Place, Store};
use crate::nic::notice::Notice;
use crate::requester::Side;

impl<C: Controller> Intel<C> {
    /// The guest writes any number of bytes. Hardware takes whole words only; others are ignored.
    pub(super) fn write_bytes(&mut self, offset: u64, data: &[u8], fx: &mut Effects<'_, Due>) {
        if offset % 4 != 0 || data.len() % 4 != 0 {
            return;
        }
        for (i, word) in data.chunks_exact(4).enumerate() {
            let value = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            let action = self.registers.write(offset.wrapping_add(4 * i as u64), value);
            self.act(action, fx);
        }
    }

    /// What a register write asks for.
    pub(super) fn act(&mut self, action: Action, fx: &mut Effects<'_, Due>) {
        match action {
            Action::None => {}
            Action::Tail(offset, value) => {
                fx.defer(Store { place: Place { bar: 0, offset }, value: value.into() });
            }
            Action::Reset => self.start_over(fx),
            Action::Switched(side) => self.switched(side, fx),
            Action::Head(queue) => self.head_written(queue, fx),
        }
    }

    /// A tail is known; what happens when it arrives.
    pub(super) fn rung(&mut self, side: Side, queue: u16, value: u32) -> Due {
        self.seen_tails[side as usize][usize::from(queue)] = value;
        self.registers.set_tail(side, queue, value);
        Due::Doorbell { side, queue, value }
    }

    fn start_over(&mut self, fx: &mut Effects<'_, Due>) {
        self.moderation.reset();
        self.messages.clear();
        self.held = 0;
        (self.asserted, self.pin_held) = (None, false);
        self.receive.reset(fx);
        self.transmit.reset();
        for queue in 0..self.transmit.queues.len() as u16 {
            fx.tell(fx.now, Notice::Stopped { queue });
        }
        fx.tell(fx.now, Notice::Reset);
        fx.forget();
        self.seen_tails.iter_mut().for_each(|tails| tails.fill(0));
        (self.enabled, self.drops) = ([0; 2], 0);
    }

    /// Queues of a side may have gone on or off.
    pub(super) fn switched(&mut self, side: Side, fx: &mut Effects<'_, Due>) {
        let before = self.enabled[side as usize];
        let (mut after, mut drops) = (0, 0);
        for queue in 0..self.registers.queues() as u16 {
            after |= u64::from(self.registers.ring(side, queue).enabled) << queue;
            drops |= u64::from(side == Side::Receive && self.registers.drops_when_empty(queue)) << queue;
        }
        if side == Side::Receive {
            // Frames at the head of the FIFO hold up the others no longer: their queue is off, or drops from now on.
            let drops_anew = drops & !std::mem::replace(&mut self.drops, drops);
            if before & !after | drops_anew & after != 0 {
                fx.at(fx.now, Due::Pump);
            }
        }
        self.enabled[side as usize] = after;
        let mut changed = before ^ after;
        while changed != 0 {
            let queue = changed.trailing_zeros() as u16;
            changed &= changed - 1;
            if after >> queue & 1 != 0 {
                self.goes_on(side, queue, fx);
            } else {
                self.goes_off(side, queue, fx);
            }
        }
        if side == Side::Receive && before != 0 && after == 0 {
            // The whole unit: what is under way is lost, now: drivers free their buffers right after.
            self.receive.reset(fx);
            fx.tell(fx.now, Notice::Deaf);
        }
    }

    fn goes_on(&mut self, side: Side, queue: u16, fx: &mut Effects<'_, Due>) {
        let view = self.registers.ring(side, queue);
        let head = if view.entries == 0 { 0 } else { self.registers.head(side, queue) % view.entries };
        let q = usize::from(queue);
        match side {
            Side::Receive => {
                self.receive.queues[q].ring.start_at(head);
                fx.tell(fx.now, Notice::Restarted { queue, entry: head });
            }
            Side::Transmit => {
                self.transmit.queues[q].ring.start_at(head);
            }
        }
        let value = self.registers.tail(side, queue);
        self.seen_tails[side as usize][q] = value;
        fx.at(fx.now, Due::Doorbell { side, queue, value });
    }

    fn goes_off(&mut self, side: Side, queue: u16, fx: &mut Effects<'_, Due>) {
        let q = usize::from(queue);
        // Drivers free their buffers right after.
        fx.cancel_writes(side, queue);
        if self.registers.forgets_rings() {
            // A driver that starts it again writes both behind the switch.
            self.registers.set_head(side, queue, 0);
            self.registers.set_tail(side, queue, 0);
            self.seen_tails[side as usize][q] = 0;
        }
        match side {
            Side::Receive => {
                // Frames of which nobody has been told go with it.
                for done in self.receive.queues[q].completions.iter().filter(|done| done.completion.last) {
                    fx.tell(fx.now, Notice::Lost { id: done.packet });
                }
                self.receive.queues[q].disable();
                fx.tell(fx.now, Notice::Restarted { queue, entry: 0 });
            }
            Side::Transmit => {
                let occupied = self.transmit.queues[q].occupied;
                self.transmit.fifo_used = self.transmit.fifo_used.saturating_sub(occupied);
                self.transmit.queues[q].disable();
                self.transmit.turns.set(queue, false);
                fx.tell(fx.now, Notice::Stopped { queue });
            }
        }
    }

    /// A receive queue's head register was written: it counts as long as nothing has been fetched.
    fn head_written(&mut self, queue: u16, fx: &mut Effects<'_, Due>) {
        let entries = self.registers.ring(Side::Receive, queue).entries;
        let head = self.registers.head(Side::Receive, queue) % entries.max(1);
        if self.receive.queues[usize::from(queue)].ring.start_at(head) {
            fx.tell(fx.now, Notice::Restarted { queue, entry: head });
        }
    }
}
