//! Streams from the host: descriptors of queues in turn are read in requests that cross no boundary, so many at a time;
//! packets are whole when what was asked for has come, in order; a status tells software what is done (PG347, "H2C stream
//! engine").
//!
//! Left out: zero-length descriptors carry nothing; user-defined fields of descriptors.

use super::ring::Fetch;
use super::{Due, Qdma, Status, WIDTH};
use crate::memory::GuestMemory;
use crate::nic::device::Io;
use crate::nic::notice::{Level, Notice};
use crate::nic::pages::SharedRegisters;
use crate::requester::{Moves, Purpose, Side};
use crate::wire::FCS;
use wiretime_base::{Cycles, Ps};

/// Bytes of the longest frame.
const FRAME_MAX: usize = 16384;

/// A descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub address: u64,
    pub length: u32,
    /// The packet begins, ends with it.
    pub first: bool,
    pub last: bool,
}

impl Descriptor {
    /// As software writes it, 16 bytes.
    #[must_use]
    pub fn of(bytes: &[u8; 16]) -> Self {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let flags = word(0) >> 48;
        Self { address: word(8), length: (word(0) >> 32 & 0xffff) as u32, first: flags & 1 != 0, last: flags & 2 != 0 }
    }
}

/// The descriptor whose data is being asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    queue: u16,
    descriptor: Descriptor,
    done: u32,
}

impl Asking {
    /// Whether it is a queue's.
    pub fn is_of(&self, queue: u16) -> bool {
        self.queue == queue
    }
}

fn purpose(queue: u16, moves: Moves) -> Purpose {
    Purpose::new(Side::Transmit, queue, moves)
}

impl<S: SharedRegisters> Qdma<S> {
    fn level(&self, queue: u16) -> Level {
        let ring = &self.h2c[usize::from(queue)].ring;
        Level { posted: ring.outstanding(), entries: ring.entries }
    }

    /// A doorbell.
    pub(super) fn post_h2c<G: GuestMemory>(&mut self, queue: u16, value: u32, io: &mut Io<'_, Due, G>) {
        let Some(q) = self.h2c.get_mut(usize::from(queue)).filter(|q| q.ring.on) else { return };
        let Some(count) = q.ring.post(value & 0xffff) else {
            self.faults[1] += 1;
            return;
        };
        if q.report.arms(value >> 16 & 1 != 0) {
            self.statuses.push_back(Status::Ring(Side::Transmit, queue));
        }
        io.note(Notice::Posted { queue, count, level: self.level(queue) });
        self.want_descriptors(Side::Transmit, queue);
    }

    /// Descriptors from the host are here.
    pub(super) fn take_h2c_descriptors<G: GuestMemory>(&mut self, queue: u16, fetch: Fetch, io: &mut Io<'_, Due, G>) {
        let Some(q) = self.h2c.get_mut(usize::from(queue)) else { return };
        if !q.ring.fetched(fetch) {
            return;
        }
        for entry in fetch.entry..fetch.entry + fetch.count {
            let mut bytes = [0; 16];
            self.faults[1] += u64::from(!io.guest.read(q.ring.at(entry), &mut bytes));
            q.ring.held.push_back((entry, Descriptor::of(&bytes)));
        }
        self.sending.set(queue, true);
        self.want_descriptors(Side::Transmit, queue);
    }

    /// Whether one more request may be under way at `t`; else from when on.
    fn throttled(&mut self, t: Ps) -> Option<Ps> {
        // More than the link has tags for would keep requests for descriptors waiting behind them.
        let (requests, bytes) = self.registers.h2c_throttle();
        self.requests.throttled(t, (requests.min(self.tags), bytes), self.max_read)
    }

    /// When data from the host can be asked for.
    pub(super) fn reads_due(&mut self, t: Ps) -> Option<Ps> {
        if self.asking.is_none() && self.sending.count() == 0 || self.waiting >= self.tx_fifo {
            return None; // until something is there, or has been sent
        }
        Some(self.throttled(t).unwrap_or(t).max(t))
    }

    /// The next request takes the interface from `t` on.
    pub(super) fn read_payload<G: GuestMemory>(&mut self, t: Ps, io: &mut Io<'_, Due, G>) -> bool {
        if self.throttled(t).is_some() {
            return false;
        }
        if self.asking.is_none() {
            let Some(queue) = self.sending.next() else { return false };
            let held = &mut self.h2c[usize::from(queue)].ring.held;
            let Some((_, descriptor)) = held.pop_front() else {
                self.sending.set(queue, false);
                return false;
            };
            if held.is_empty() {
                self.sending.set(queue, false);
            }
            // A packet of several descriptors keeps its turn.
            self.sending.turn_to(queue, descriptor.last);
            io.tell(t, Notice::Begun { queue });
            self.asking = Some(Asking { queue, descriptor, done: 0 });
            self.want_descriptors(Side::Transmit, queue);
        }
        let Some(mut a) = self.asking.take() else { return false };
        let address = a.descriptor.address.wrapping_add(a.done.into());
        let rest = u64::from(a.descriptor.length - a.done);
        let piece = self.requester.piece(address, rest, self.max_read);
        let through = self.requester.take(t, 0);
        let mut until = through;
        if piece > 0 {
            until = io.read(through, address, piece, purpose(a.queue, Moves::Payload));
            // The data path to the user logic takes a beat a cycle, as they come.
            until = until.max(self.h2c_free + self.user_clock.at(Cycles(piece.div_ceil(WIDTH.into()))));
            self.h2c_free = until;
        }
        self.requester.leaves(through);
        a.done += piece as u32;
        let ended = a.done >= a.descriptor.length;
        let epoch = self.h2c[usize::from(a.queue)].epoch;
        // Packets stay in order.
        let until = self.requests.push(until, piece, ended.then_some((a.queue, epoch, a.descriptor)));
        if ended {
            io.at(until, Due::Answered);
        } else {
            self.asking = Some(a);
        }
        true
    }

    /// All that a descriptor points to is here.
    pub(super) fn answer<G: GuestMemory>(&mut self, io: &mut Io<'_, Due, G>) {
        let t = io.now;
        if let Some((queue, epoch, descriptor)) = self.requests.pop(t) {
            if self.h2c[usize::from(queue)].epoch == epoch {
                self.descriptor_done(t, queue, descriptor, io);
            }
        }
    }

    fn descriptor_done<G: GuestMemory>(&mut self, t: Ps, queue: u16, d: Descriptor, io: &mut Io<'_, Due, G>) {
        let q = &mut self.h2c[usize::from(queue)];
        io.tell(t, Notice::Read { queue, first: d.first.then_some(d.address) });
        if d.first {
            q.packet.clear();
        }
        let at = q.packet.len();
        // No frame is longer: what is beyond goes nowhere.
        let end = (at + d.length as usize).min(FRAME_MAX);
        q.packet.resize(end, 0);
        self.faults[1] += u64::from(end > at && !io.guest.read(d.address, &mut q.packet[at..end]));
        q.ring.finish();
        let (reported, sent) = q.report.done(q.ring.outstanding() == 0, self.registers.report_interval());
        if sent {
            self.statuses.push_back(Status::Ring(Side::Transmit, queue));
        }
        if d.last {
            let packet = std::mem::take(&mut q.packet);
            io.tell(t, Notice::Gathered { queue });
            // The last bytes are the check sequence's, whose value is not modelled.
            let frame = &packet[..packet.len().saturating_sub(FCS as usize)];
            self.waiting += io.send(t + self.packet_latency, queue, frame, 0) as u64 + u64::from(FCS);
            self.waiting_most = self.waiting_most.max(self.waiting);
            let q = &mut self.h2c[usize::from(queue)];
            (q.packet, q.sent) = (packet, q.sent + 1);
            q.packet.clear();
        }
        io.tell(t, Notice::Finished { queue, entries: 1, reported, level: self.level(queue) });
    }

    /// A ring's report: what is done, up to now.
    pub(super) fn write_report<G: GuestMemory>(&mut self, t: Ps, side: Side, queue: u16, io: &mut Io<'_, Due, G>) {
        let (report, (done, posted, at)) = match self.mapped.ring(side, queue) {
            Some(q) => (&mut q.report, q.ring.status()),
            // One between memories has stopped since.
            None if side == Side::Receive => return,
            None => {
                let Some(q) = self.h2c.get_mut(usize::from(queue)).filter(|q| q.ring.on) else { return };
                (&mut q.report, q.ring.status())
            }
        };
        let (writes, interrupts) = report.leaves();
        let how = report.context().interrupts;
        if writes {
            let word = u64::from(done) << 16 | u64::from(posted) << 32;
            self.write_through(t, (at, &word.to_le_bytes()), Purpose::new(side, queue, Moves::WriteBack), io);
            self.reports += 1;
        }
        if interrupts {
            let status = u64::from(posted) | u64::from(done) << 16;
            self.interrupt(t, (side, queue, status), how, io);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_as_the_driver_writes_them() {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(3u64 << 48 | 1514 << 32 | 1514 << 16).to_le_bytes());
        bytes[8..].copy_from_slice(&0x1234_5678_9abcu64.to_le_bytes());
        let d = Descriptor::of(&bytes);
        assert_eq!(d, Descriptor { address: 0x1234_5678_9abc, length: 1514, first: true, last: true });
    }
}
