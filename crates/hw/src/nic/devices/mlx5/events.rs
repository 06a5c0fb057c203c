//! Completions and events: entries with an owner bit that flips each turn, arming, moderation, messages.
//!
//! Left out: overrun of a queue whose software is too slow (entries are overwritten), solicited events.

use super::fields::place;
use super::objects::{Kind, State};
use super::{Due, Mlx5};
use crate::memory::GuestMemory;
use crate::nic::device::Io;
use crate::nic::notice::Notice;
use crate::requester::{Moves, Purpose, Side, UNNAMED};
use wiretime_base::Ps;

/// Bytes of an entry that are written.
pub const ENTRY: usize = 64;

/// Codes of a completion, in the high half of its last byte.
pub const SENT: u8 = 0;
pub const RECEIVED: u8 = 2;
pub const SEND_ERROR: u8 = 13;
pub const RECEIVE_ERROR: u8 = 14;
/// Where the syndrome of an error is.
const SYNDROME: usize = 0x37;
/// Syndromes of errors: a packet is longer than its request, which its queue survives; a request makes no sense; a segment lies
/// in no key; the queue is in the error state.
pub const TOO_LONG: u8 = 0x01;
pub const BAD_REQUEST: u8 = 0x02;
pub const LOCAL_PROTECTION: u8 = 0x04;
pub const FLUSHED: u8 = 0x05;

/// Types of events.
pub const COMPLETION_EVENT: u8 = 0;
pub const COMMAND_EVENT: u8 = 0x0a;
const CQ_ERROR_EVENT: u8 = 0x04;

/// What the device writes for itself: of no queue.
pub fn own(moves: Moves) -> Purpose {
    Purpose::new(Side::Receive, UNNAMED, moves)
}

impl Mlx5 {
    /// A completion is written at `t`; when software sees it, and its entry.
    pub(super) fn complete<G: GuestMemory>(
        &mut self,
        t: Ps,
        number: u32,
        entry: &mut [u8; ENTRY],
        purpose: Purpose,
        io: &mut Io<'_, Due, G>,
    ) -> Option<(Ps, u32)> {
        if self.objects.cqs.get(number)?.session.as_ref().is_some_and(|s| s.is_open()) {
            self.close_session(t, number, io); // it came before
        }
        let cq = self.objects.cqs.get_mut(number)?;
        let at = cq.produced;
        entry[ENTRY - 1] = entry[ENTRY - 1] & 0xfe | cq.turn(at);
        cq.produce(t, 1);
        let (index, address) = cq.slot(at);
        let (_, visible) = io.write(t, address?, entry, purpose);
        self.report(t, number, io);
        Some((visible, index))
    }

    /// Software is told of completions, where it wants to be and moderation lets it.
    pub(super) fn report<G: GuestMemory>(&mut self, t: Ps, number: u32, io: &mut Io<'_, Due, G>) {
        let Some(cq) = self.objects.cqs.get_mut(number) else { return };
        let Some(armed) = cq.armed else { return };
        let waits = cq.produced.wrapping_sub(armed) & 0xff_ffff;
        if waits == 0 || waits > 0x7f_ffff {
            return;
        }
        let due = cq.event_due();
        if cq.period == Ps::ZERO || cq.count != 0 && cq.unreported >= cq.count || due <= t {
            self.raise(t, number, io);
        } else if cq.due != Some(due) {
            cq.due = Some(due);
            cq.timer = cq.timer.wrapping_add(1);
            io.at(due, Due::Period { cq: number, timer: cq.timer });
        }
    }

    /// A completion queue's time is over.
    pub(super) fn period_ends<G: GuestMemory>(&mut self, t: Ps, number: u32, timer: u32, io: &mut Io<'_, Due, G>) {
        let Some(cq) = self.objects.cqs.get_mut(number).filter(|cq| cq.timer == timer && cq.due.is_some()) else {
            return;
        };
        cq.due = None;
        let waits = cq.armed.is_some_and(|armed| cq.produced != armed);
        if waits {
            self.raise(t, number, io);
        }
    }

    fn raise<G: GuestMemory>(&mut self, t: Ps, number: u32, io: &mut Io<'_, Due, G>) {
        let Some(cq) = self.objects.cqs.get_mut(number) else { return };
        // Not before the completions that it tells of.
        let t = t.max(cq.last_completion);
        (cq.armed, cq.unreported, cq.due, cq.last_event) = (None, 0, None, t);
        let eq = cq.eq;
        let mut data = [0; 28];
        place(&mut data, 24, &number.to_be_bytes());
        self.event_entry(t, eq, COMPLETION_EVENT, data, io);
    }

    /// An event is written at `t`; a message follows it, where the queue is armed.
    pub(super) fn event_entry<G: GuestMemory>(
        &mut self,
        t: Ps,
        number: u32,
        kind: u8,
        data: [u8; 28],
        io: &mut Io<'_, Due, G>,
    ) {
        let Some(eq) = self.objects.eqs.get_mut(number) else { return };
        let at = eq.produced;
        eq.produced = at.wrapping_add(1);
        let mut entry = [0; ENTRY];
        entry[1] = kind;
        place(&mut entry, 0x20, &data);
        entry[ENTRY - 1] = (at >> eq.ring.log & 1) as u8;
        let Some(address) = eq.ring.entry(at) else { return };
        let (_, visible) = io.write(t, address, &entry, own(Moves::Completions));
        eq.visible = eq.visible.max(visible);
        let armed = std::mem::take(&mut eq.armed);
        if armed {
            let vector = eq.vector;
            io.at(visible, Due::Message { vector });
        }
    }

    /// Software has read events up to `consumed`, and wants to hear of the next, or not.
    pub(super) fn event_doorbell<G: GuestMemory>(&mut self, value: u32, arms: bool, io: &mut Io<'_, Due, G>) {
        let Some(eq) = self.objects.eqs.get_mut(value >> 24) else { return };
        if !arms {
            return;
        }
        if (eq.produced ^ value) & 0xff_ffff != 0 {
            // Not before the event that it tells of.
            let (vector, at) = (eq.vector, io.now.max(eq.visible));
            io.at(at, Due::Message { vector });
        } else {
            eq.armed = true;
        }
    }

    /// Software wants to hear of completions behind an index.
    pub(super) fn arm<G: GuestMemory>(&mut self, index: u32, number: u32, io: &mut Io<'_, Due, G>) {
        let now = io.now;
        if let Some(cq) = self.objects.cqs.get_mut(number & 0xff_ffff) {
            cq.armed = Some(index & 0xff_ffff);
            self.report(now, number & 0xff_ffff, io);
        }
    }

    /// A message is due.
    pub(super) fn message<G>(&mut self, vector: u16, io: &mut Io<'_, Due, G>) {
        io.note(Notice::Interrupt { vector });
        self.messages.push(io.now, vector);
    }

    /// Whether a queue is to fail now, of those that receive (0) or send (1): once.
    pub(super) fn fails(&mut self, side: usize, now: Ps) -> bool {
        let fails = self.queues_fail[side] <= now;
        if fails {
            self.queues_fail[side] = Ps::MAX;
        }
        fails
    }

    /// A request of a send queue has failed, or has been given up: software hears of it.
    pub(super) fn send_error<G: GuestMemory>(
        &mut self,
        t: Ps,
        number: u32,
        (counter, opcode): (u16, u8),
        syndrome: u8,
        io: &mut Io<'_, Due, G>,
    ) {
        let Some(sq) = self.objects.sqs.get(number) else { return };
        let (cq, of) = (sq.cq, (u32::from(opcode) << 24 | number, sq.user_index));
        self.error(t, cq, failed(SEND_ERROR, of, counter, syndrome), io);
    }

    /// A request of a receive queue has failed, or has been given up: its place, and its number where requests go by their order.
    pub(super) fn request_fails<G: GuestMemory>(
        &mut self,
        t: Ps,
        number: u32,
        (index, counter): (u16, u16),
        syndrome: u8,
        io: &mut Io<'_, Due, G>,
    ) {
        let Some(rq) = self.objects.rqs.get(number) else { return };
        let (cq, lane, striding) = (rq.cq, rq.lane, matches!(rq.kind, Kind::Striding { .. }));
        let mut entry =
            failed(RECEIVE_ERROR, (number, rq.user_index), if striding { index } else { counter }, syndrome);
        if striding {
            place(&mut entry, 2, &index.to_be_bytes());
        }
        let told = self.error(t, cq, entry, io);
        packetless(told, lane, io);
    }

    /// Faults are what queues meet; that others behind one are given up follows from it.
    fn error<G: GuestMemory>(
        &mut self,
        t: Ps,
        cq: u32,
        mut entry: [u8; ENTRY],
        io: &mut Io<'_, Due, G>,
    ) -> Option<(Ps, u32)> {
        let sending = usize::from(entry[ENTRY - 1] >> 4 == SEND_ERROR);
        self.faults[sending] += u64::from(entry[SYNDROME] != FLUSHED);
        self.complete(t, cq, &mut entry, own(Moves::Completions), io)
    }

    /// A receive queue has met an error: software hears of it and of each request that is outstanding, and nothing is received
    /// any more.
    pub(super) fn receive_error<G: GuestMemory>(
        &mut self,
        t: Ps,
        number: u32,
        request: (u16, u16),
        io: &mut Io<'_, Due, G>,
    ) {
        let Some(rq) = self.objects.rqs.get_mut(number) else { return };
        (rq.state, rq.looked) = (State::Error, false);
        self.request_fails(t, number, request, LOCAL_PROTECTION, io);
        self.flush_requests(number, io);
    }

    /// Requests of a receive queue in error that are here complete, given up; the rest of them is read.
    pub(super) fn flush_requests<G: GuestMemory>(&mut self, number: u32, io: &mut Io<'_, Due, G>) {
        let now = io.now;
        while let Some(rq) = self.objects.rqs.get_mut(number).filter(|rq| rq.state == State::Error) {
            let Some(request) = rq.held.front().map(|front| (front.index, rq.taken)) else { break };
            rq.finish();
            self.request_fails(now, number, request, FLUSHED, io);
        }
        self.fetch_requests(number, io);
    }

    /// A completion queue is gone while something still completes to it.
    pub(super) fn lost_completion<G: GuestMemory>(&mut self, t: Ps, number: u32, io: &mut Io<'_, Due, G>) {
        self.faults[0] += 1;
        let told = self.objects.eqs.iter().find(|(_, eq)| eq.mask >> CQ_ERROR_EVENT & 1 != 0).map(|(n, _)| n);
        if let Some(eq) = told {
            let mut data = [0; 28];
            place(&mut data, 0, &number.to_be_bytes());
            self.event_entry(t, eq, CQ_ERROR_EVENT, data, io);
        }
    }
}

/// The books hear of a receive queue's completion that is of no packet: when it is visible, and its entry.
pub fn packetless<G>(told: Option<(Ps, u32)>, lane: Option<u16>, io: &mut Io<'_, Due, G>) {
    if let Some(((visible, entry), queue)) = told.zip(lane) {
        io.tell(visible, Notice::Completed { queue, entry, packet: None });
    }
}

/// The completion of a request that has failed.
fn failed(code: u8, (number, user_index): (u32, u32), counter: u16, syndrome: u8) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    place(&mut entry, 0x20, &user_index.to_be_bytes());
    entry[SYNDROME] = syndrome;
    place(&mut entry, 0x38, &number.to_be_bytes());
    place(&mut entry, 0x3c, &counter.to_be_bytes());
    entry[ENTRY - 1] = code << 4;
    entry
}
