//! Compressed completions: while received packets wait for the link, those of a queue that are alike share one entry (the
//! title), behind which eight bytes tell of each. A session takes as many slots as packets; the title stands in the first, the
//! list in the second. None goes over the ring's end: DPDK's vector path reads on without a look at it.
//!
//! When a device opens and closes sessions is not published. Here sessions are opened under pressure of the link (what NVIDIA's
//! firmware calls balanced): once so many packets in a row (`compression_after`, more than one replenishment lets through) left
//! another behind them in the buffer that had its request and only waited for its turn. A session ends when it is full, when a
//! packet differs, when nothing waits any more, or after `compression_timeout`. Left out: the enhanced layout; lists of flow tags.

use super::events::ENTRY;
use super::fields::place;
use super::{Due, Mlx5};
use crate::memory::GuestMemory;
use crate::nic::device::Io;
use crate::nic::notice::Notice;
use crate::requester::Purpose;
use std::ops::Range;
use wiretime_base::Ps;

/// Packets of a session: one list.
pub const PACKETS: usize = 8;
/// An entry's hash, checksum, byte count and counter.
const HASH: usize = 0x0c;
const SUM: usize = 0x14;
const COUNT: usize = 0x2c;
const COUNTER: usize = 0x3c;
/// What is the same in all entries of a session: between these, which are a packet's own or the title's for all, and the time.
const SAME: [Range<usize>; 5] = [0..HASH, HASH + 4..SUM, SUM + 2..COUNT, 0x38..COUNTER, COUNTER + 2..ENTRY];
/// Bits of an entry's last byte that say it is a title.
const TITLE: u8 = 3 << 2;

/// What a queue's list tells of a packet beside its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    /// Its hash.
    Hash,
    /// Its checksum, and its stride.
    Sum,
}

impl Tells {
    /// By the number in a queue's context; others are not known.
    pub fn of(format: u64) -> Option<Self> {
        match format {
            0 => Some(Tells::Hash),
            1 | 3 => Some(Tells::Sum),
            _ => None,
        }
    }
}

/// A received packet whose completion is due.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    pub queue: u16,
    pub id: u64,
}

/// A queue's session.
#[derive(Debug)]
pub struct Session {
    tells: Tells,
    title: [u8; ENTRY],
    list: [u8; ENTRY],
    packets: [Told; PACKETS],
    count: usize,
    /// Packets that there is room for.
    most: usize,
    purpose: Purpose,
    /// When the payload of all its packets has left.
    left: Ps,
    /// Counts sessions: the time-out of one that is over means nothing.
    number: u32,
}

impl Session {
    pub fn new(tells: Tells, purpose: Purpose) -> Self {
        let nobody = Told { queue: 0, id: 0 };
        Self {
            tells,
            title: [0; ENTRY],
            list: [0; ENTRY],
            packets: [nobody; PACKETS],
            count: 0,
            most: 0,
            purpose,
            left: Ps::ZERO,
            number: 0,
        }
    }

    /// Whether a packet may share the title.
    fn alike(&self, entry: &[u8; ENTRY]) -> bool {
        SAME.into_iter().all(|part| self.title[part.clone()] == entry[part])
    }

    /// Whether packets wait in it.
    pub fn is_open(&self) -> bool {
        self.count > 0
    }

    fn add(&mut self, t: Ps, entry: &[u8; ENTRY], told: Told) {
        self.left = self.left.max(t);
        let mut part = [0; 8];
        match self.tells {
            Tells::Hash => part[..4].copy_from_slice(&entry[HASH..HASH + 4]),
            Tells::Sum => {
                part[..2].copy_from_slice(&entry[SUM..SUM + 2]);
                part[2..4].copy_from_slice(&entry[COUNTER..COUNTER + 2]);
            }
        }
        part[4..].copy_from_slice(&entry[COUNT..COUNT + 4]);
        place(&mut self.list, self.count * 8, &part);
        self.packets[self.count] = told;
        self.count += 1;
    }
}

impl Mlx5 {
    /// A packet that was received is told of, alone or with others: at `t` its payload has left.
    pub(super) fn tell_received<G: GuestMemory>(
        &mut self,
        t: Ps,
        number: u32,
        (entry, told): (&mut [u8; ENTRY], Told),
        purpose: Purpose,
        io: &mut Io<'_, Due, G>,
    ) {
        // The next packet is ready, and only the link is in its way.
        let ready = |queue| self.objects.rqs.get(queue).is_some_and(|rq| !rq.held.is_empty());
        let next = self.buffer.front().is_some_and(|next| ready(next.queue));
        self.pressed = if next { self.pressed.saturating_add(1) } else { 0 };
        let pressed = self.pressed > self.compression_after;
        let timeout = self.compression_timeout;
        let session = self.objects.cqs.get_mut(number).and_then(|cq| cq.session.as_mut());
        let Some(session) = session.filter(|s| timeout > Ps::ZERO && (pressed || s.count > 0)) else {
            self.tell_alone(t, number, entry, told, purpose, io);
            return;
        };
        if session.count > 0 && !session.alike(entry) {
            self.close_session(t, number, io);
        }
        let Some(cq) = self.objects.cqs.get_mut(number) else { return };
        let to_end = cq.ring.entries() - cq.slot(cq.produced).0;
        let Some(session) = cq.session.as_mut().filter(|s| s.count > 0 || to_end > 1) else {
            self.tell_alone(t, number, entry, told, purpose, io);
            return;
        };
        if session.count == 0 {
            (session.title, session.purpose, session.most) = (*entry, purpose, PACKETS.min(to_end as usize));
            session.number = session.number.wrapping_add(1);
            let due = Due::Session { cq: number, session: session.number };
            self.open_sessions.push(number);
            io.at(t + timeout, due);
        }
        session.add(t, entry, told);
        if session.count == session.most {
            self.close_session(t, number, io);
        }
        if !pressed {
            self.close_sessions(t, io);
        }
    }

    fn tell_alone<G: GuestMemory>(
        &mut self,
        t: Ps,
        number: u32,
        entry: &mut [u8; ENTRY],
        told: Told,
        purpose: Purpose,
        io: &mut Io<'_, Due, G>,
    ) {
        match self.complete(t, number, entry, purpose, io) {
            Some((visible, entry)) => {
                io.tell(visible, Notice::Completed { queue: told.queue, entry, packet: Some(told.id) });
            }
            None => self.lost_completion(t, number, io),
        }
    }

    /// A session that has been open for long ends.
    pub(super) fn session_over<G: GuestMemory>(&mut self, number: u32, session: u32, io: &mut Io<'_, Due, G>) {
        let now = io.now;
        let cq = self.objects.cqs.get(number);
        if cq.and_then(|cq| cq.session.as_ref()).is_some_and(|s| s.number == session) {
            self.close_session(now, number, io);
        }
    }

    /// All that are open end.
    pub(super) fn close_sessions<G: GuestMemory>(&mut self, t: Ps, io: &mut Io<'_, Due, G>) {
        while let Some(&number) = self.open_sessions.last() {
            self.close_session(t, number, io);
        }
    }

    /// What a queue's session holds is written.
    pub(super) fn close_session<G: GuestMemory>(&mut self, t: Ps, number: u32, io: &mut Io<'_, Due, G>) {
        self.open_sessions.retain(|&open| open != number);
        let Some(cq) = self.objects.cqs.get_mut(number) else { return };
        let Some(session) = cq.session.as_mut().filter(|s| s.count > 0) else { return };
        let (count, packets, purpose) = (std::mem::take(&mut session.count), session.packets, session.purpose);
        // Nobody is told of a packet before its bytes are on their way.
        let t = t.max(session.left);
        let (mut title, list) = (session.title, session.list);
        if count == 1 {
            self.tell_alone(t, number, &mut title, packets[0], purpose, io);
            return;
        }
        let first = cq.produced;
        let (entry, title_at) = cq.slot(first);
        let (Some(title_at), Some(list_at)) = (title_at, cq.slot(first.wrapping_add(1)).1) else {
            self.lost_completion(t, number, io);
            return;
        };
        place(&mut title, COUNT, &(count as u32).to_be_bytes());
        title[ENTRY - 1] = title[ENTRY - 1] & 0xf2 | TITLE | cq.turn(first);
        cq.produce(t, count as u32);
        // Neither is there without the other: DPDK looks at four entries at once, and the last byte of a list, the length of
        // a packet, can say what a title's does.
        let (_, visible) = io.write_both(t, [(list_at, &list[..count * 8]), (title_at, &title)], purpose);
        // It does not go over the ring's end.
        for (entry, told) in (entry..).zip(&packets[..count]) {
            io.tell(visible, Notice::Completed { queue: told.queue, entry, packet: Some(told.id) });
        }
        self.report(t, number, io);
    }
}
