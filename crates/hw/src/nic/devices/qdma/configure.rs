//! What a change of a queue's contexts does: it starts, or it stops, and what is on its way for it is lost.

use super::contexts::{Completion, InterruptRing, Prefetch, Selector, Software};
use super::registers::{Bell, Changed};
use super::report::Report;
use super::{id, Due, H2cQueue, Qdma};
use crate::nic::device::Effects;
use crate::nic::notice::Notice;
use crate::nic::pages::SharedRegisters;
use crate::requester::Side;
use wiretime_base::Ps;

impl<S: SharedRegisters> Qdma<S> {
    /// A queue's context has changed: it starts, or it stops.
    pub(super) fn configure(&mut self, changed: Changed, fx: &mut Effects<'_, Due>) {
        let (queue, at) = (changed.queue, usize::from(changed.queue));
        if at >= self.c2h.len() {
            return;
        }
        if matches!(changed.selector, Selector::SoftwareC2h | Selector::Completion) {
            // A packet that is on its way there does not arrive.
            if let Some(w) = self.writing.take_if(|w| w.is_of(queue)) {
                fx.cancel_writes(Side::Receive, queue);
                fx.note(Notice::Lost { id: w.packet().id });
                if self.buffer.release(fx.now, w.packet().length.into()) {
                    fx.note(Notice::Drained);
                }
                self.blocked = false;
                fx.at(fx.now, Due::Generate);
            }
        }
        // Others may go on.
        self.looks = fx.now;
        fx.at(fx.now, Due::Request);
        match changed.selector {
            Selector::SoftwareC2h => self.configure_c2h(queue, fx),
            Selector::SoftwareH2c => self.configure_h2c(queue, fx),
            Selector::Completion => {
                self.registers.forget(Bell::Completion, queue);
                let c = Completion::of(&self.registers.context(6, queue));
                self.coalescing.forget(queue);
                self.interrupts.forget(Side::Receive, queue);
                self.rings[at].configure(c, self.registers.ring_entries(c.ring_size));
                // It is this ring that software polls.
                fx.note(Notice::Restarted { queue, entry: 0 });
            }
            Selector::Prefetch => {
                let p = Prefetch::of(&self.registers.context(7, queue));
                let q = &mut self.c2h[at];
                q.buffer = if p.valid { self.registers.buffer_size(p.buffer_size) } else { 0 };
                q.prefetches = p.enabled;
                self.want_descriptors(Side::Receive, queue);
            }
            Selector::Interrupt => {
                self.interrupts.configure(at, InterruptRing::of(&self.registers.context(8, queue)));
            }
            Selector::FunctionMap | Selector::Other(_) => {}
        }
    }

    fn configure_c2h(&mut self, queue: u16, fx: &mut Effects<'_, Due>) {
        self.interrupts.forget(Side::Receive, queue);
        let s = Software::of(&self.registers.context(0, queue));
        let entries = self.registers.ring_entries(s.ring_size);
        self.registers.forget(Bell::C2h, queue);
        self.mapped.configure(Side::Receive, queue, s, entries);
        let q = &mut self.c2h[usize::from(queue)];
        (q.wanted, q.last, q.starved) = (0, Ps::ZERO, None);
        if s.enabled && !s.memory_mapped {
            let reads = s.fetches.max(self.prefetch_reads);
            q.ring.start(s.base, (entries, s.size), reads);
        } else {
            q.ring.stop();
            fx.cancel_writes(Side::Receive, queue);
        }
        let is_on = q.ring.on;
        match self.on.binary_search(&queue) {
            Ok(at) if !is_on => drop(self.on.remove(at)),
            Err(at) if is_on => self.on.insert(at, queue),
            _ => {}
        }
        self.generator.forget(queue);
        self.wanting.set(id(Side::Receive, queue), false);
        fx.note(Notice::Restarted { queue, entry: 0 });
    }

    fn configure_h2c(&mut self, queue: u16, fx: &mut Effects<'_, Due>) {
        self.registers.forget(Bell::H2c, queue);
        self.interrupts.forget(Side::Transmit, queue);
        let s = Software::of(&self.registers.context(1, queue));
        let entries = self.registers.ring_entries(s.ring_size);
        let q = &mut self.h2c[usize::from(queue)];
        let (epoch, sent) = (q.epoch.wrapping_add(1), q.sent);
        let ring = std::mem::take(&mut q.ring);
        *q = H2cQueue { report: Report::of(s), epoch, sent, ring, ..H2cQueue::default() };
        self.mapped.configure(Side::Transmit, queue, s, entries);
        if s.enabled && !s.memory_mapped {
            q.ring.start(s.base, (entries, s.size), s.fetches);
        } else {
            q.ring.stop();
            fx.cancel_writes(Side::Transmit, queue);
        }
        self.sending.set(queue, false);
        self.wanting.set(id(Side::Transmit, queue), false);
        if self.asking.is_some_and(|a| a.is_of(queue)) {
            self.asking = None;
        }
        fx.note(Notice::Stopped { queue });
    }
}
