//! What DPDK's driver for ConnectX (`net_mlx5`, vector path) does with its queues.
//!
//! - Receiving: a call prefetches the first completions, posts buffers anew where so many are missing (data segments, then a record
//!   in memory; no doorbell), looks at several completions together, and takes packets in the order of its requests until some of
//!   those together have not come; it is called again until nothing has. Completions that share an entry are taken apart, and
//!   their places marked as read.
//! - Sending: packets of a burst share a request (enhanced multi-packet send), a pointer each. The last request of a burst asks for a
//!   completion, where so many packets have been sent since one did; of those at most two are looked at before each burst. A record,
//!   then a doorbell.
//!
//! Left out: packets in requests (inline), packets in several buffers (longer ones than a buffer are refused), offloads.

mod setup;

pub use setup::set_up;

use super::{touch, Arena, Buffer, PollDriver, Work};
use crate::cost::CostModel;
use crate::cpu::{Cpu, Host};
use crate::memory::HostMemory;
use std::collections::VecDeque;
use wiretime_base::Invalid;
use wiretime_hw::nic::Polled;

/// Bytes of a receive request, of a block of send requests, of a segment of one.
const REQUEST: u64 = 16;
const BLOCK: u64 = 64;
const SEGMENT: u64 = 16;
/// The entry that a device writes stands at the end of its slot.
const ENTRY: u64 = 64;
/// Of an entry: the count of bytes, or packets of a title; the last byte: what it is, of which turn.
const COUNT: u64 = 0x2c;
const LAST: u64 = ENTRY - 1;
/// What software writes there: nobody's.
const READ: u8 = 0xf1;
/// Codes of entries, and the format of a title.
const SENT: u8 = 0;
const RECEIVED: u8 = 2;
const COMPRESSED: u8 = 3;
/// What requests ask for: packets to be sent.
const SEND_PACKETS: u32 = 0x29;
/// A completion is wanted.
const SIGNALS: u32 = 8;
/// Where the send doorbell of the first page is that is given out.
const DOORBELL: u64 = 16 * 4096 + 0x800;
/// Segments of a request before its packets.
const HEAD: u32 = 2;
/// Completions of sending that are looked at before a burst, and places for them beyond one for each report.
const LOOKS_MOST: u32 = 2;
const SPARE: u32 = 9;
/// Missing receive requests are posted anew from a quarter of the ring on, where that is less than the model says.
const QUARTER: u32 = 4;

/// Requests to receive and to send, completions of each.
fn rings(arena: Arena) -> [u64; 4] {
    [arena.ring(0), arena.ring(1), arena.ring(2), arena.ring(3)]
}

/// Records that device and software share, a line each.
struct Counts {
    /// How many requests to receive there are; to send, in the second word.
    receives: u64,
    sends: u64,
    receive_completions: u64,
    send_completions: u64,
}

fn counts(arena: Arena) -> Counts {
    let at = arena.ring(4);
    Counts { receives: at, sends: at + 64, receive_completions: at + 128, send_completions: at + 192 }
}

/// Software's own notes of buffers in rings.
fn notes(arena: Arena, entries: u32) -> [u64; 2] {
    let at = arena.ring(4) + 4096;
    [at, at + 8 * u64::from(entries)]
}

/// Places for completions of sending.
fn send_completions(model: &CostModel) -> u32 {
    (model.policy.transmit_ring / model.policy.report + SPARE).next_power_of_two()
}

/// What a driver keeps of a queue pair beside its rings: the number of the send queue, and the key of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Keeps {
    send: u32,
    key: u32,
}

impl Keeps {
    fn at(arena: Arena) -> u64 {
        arena.ring(4) + 256
    }
    fn put(self, memory: &HostMemory, arena: Arena) {
        memory.put(Self::at(arena), &self.send.to_le_bytes());
        memory.put(Self::at(arena) + 4, &self.key.to_le_bytes());
    }
    fn get(memory: &HostMemory, arena: Arena) -> Self {
        let word = |at| u32::from_le_bytes(memory.bytes(Self::at(arena) + at));
        Self { send: word(0), key: word(4) }
    }
}

/// A ring of completions as software reads it.
struct Completions {
    ring: u64,
    slot: u64,
    entries: u32,
    /// Read so far.
    next: u32,
    /// Where software says how many; those that it has not said.
    record: u64,
    unsaid: u32,
}

impl Completions {
    fn new(ring: u64, slot: u32, entries: u32, record: u64) -> Self {
        Self { ring, slot: slot.into(), entries, next: 0, record, unsaid: 0 }
    }

    /// Where the place of entry `n` begins, counted over all turns.
    fn place(&self, n: u32) -> u64 {
        self.ring + u64::from(n % self.entries) * self.slot
    }

    /// Where entry `n` is.
    fn entry(&self, n: u32) -> u64 {
        self.place(n) + self.slot - ENTRY
    }

    /// Nobody has written any.
    fn clear(&self, memory: &HostMemory) {
        (0..self.entries).for_each(|n| memory.put(self.entry(n) + LAST, &[READ]));
    }

    /// Code and format of entry `n`, if it has been written.
    fn found(&self, memory: &HostMemory, n: u32) -> Option<(u8, u8)> {
        let [last] = memory.bytes(self.entry(n) + LAST);
        let turn = (n / self.entries % 2) as u8;
        (last >> 4 != READ >> 4 && last & 1 == turn).then_some((last >> 4, last >> 2 & 3))
    }

    fn word(&self, memory: &HostMemory, n: u32, at: u64) -> u32 {
        u32::from_be_bytes(memory.bytes(self.entry(n) + at))
    }

    fn passed(&mut self, count: u32) {
        self.next = self.next.wrapping_add(count);
        self.unsaid += count;
    }

    /// The device is told how far software has read.
    fn say(&mut self, w: &mut Work<'_>) {
        if std::mem::take(&mut self.unsaid) > 0 {
            w.memory.put(self.record, &(self.next & 0xff_ffff).to_be_bytes());
            w.cpu.store(w.host, self.record);
        }
    }
}

/// A request to send that packets are added to.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Its first block, and segments.
    block: u16,
    segments: u32,
}

/// A queue pair.
pub struct Pair {
    port: usize,
    arena: Arena,
    keeps: Keeps,
    /// Receive requests, blocks of send requests.
    rings: [u64; 2],
    entries: [u32; 2],
    notes: [u64; 2],
    records: [u64; 2],
    polled: Polled,
    received: Completions,
    sent: Completions,
    /// Completions looked at together, packets of a request; requests are posted where so many are missing.
    looks: u32,
    further_call: f64,
    packets: u32,
    refill: u32,
    /// Buffers by request; requests posted and taken, over all turns.
    filled: Vec<u32>,
    posted: u32,
    taken: u32,
    /// Lengths of packets whose completions shared an entry.
    shared: VecDeque<u32>,
    /// Packets that the last look found and that are not taken; it found nothing; the next one is of another call.
    here: u32,
    over: bool,
    fresh: bool,
    /// It has looked in this turn.
    looked: bool,
    /// Buffers under way, and how many there have been; blocks used and free again; reports asked for: buffers and blocks up to each.
    under_way: VecDeque<u32>,
    noted: u32,
    block: u16,
    freed: u16,
    reports: VecDeque<(u32, u16)>,
    unreported: u32,
    open: Option<Open>,
    last: Option<Open>,
}

impl Pair {
    /// Of a port.
    ///
    /// # Errors
    /// Where the model does not say how a ConnectX is driven.
    pub fn new(port: usize, queue: u16, arena: Arena, model: &CostModel) -> Result<Self, Invalid> {
        let d = model.connectx_driver()?;
        let entries = [model.policy.receive_ring, model.policy.transmit_ring];
        let (r, c) = (rings(arena), counts(arena));
        let bytes = r[2]..r[2] + u64::from(entries[0]) * u64::from(d.completion);
        Ok(Self {
            port,
            arena,
            keeps: Keeps::default(),
            rings: [r[0], r[1]],
            entries,
            notes: notes(arena, entries[0]),
            records: [c.receives, c.sends],
            polled: Polled::whole(bytes, d.completion, queue),
            received: Completions::new(r[2], d.completion, entries[0], c.receive_completions),
            sent: Completions::new(r[3], d.completion, send_completions(model), c.send_completions),
            looks: d.looks,
            further_call: d.further_call,
            packets: d.packets,
            refill: model.policy.refill.min(entries[0] / QUARTER),
            filled: vec![0; entries[0] as usize],
            posted: 0,
            taken: 0,
            shared: VecDeque::with_capacity(64),
            here: 0,
            over: false,
            fresh: false,
            looked: false,
            under_way: VecDeque::with_capacity(entries[1] as usize),
            noted: 0,
            block: 0,
            freed: 0,
            reports: VecDeque::with_capacity((entries[1] / model.policy.report + 1) as usize),
            unreported: 0,
            open: None,
            last: None,
        })
    }

    fn post(&mut self, w: &mut Work<'_>, buffer: u32) -> u64 {
        let index = self.posted % self.entries[0];
        let at = self.rings[0] + u64::from(index) * REQUEST;
        w.memory.put(at, &segment(w.model.policy.buffer, self.keeps.key, w.pool.data(buffer)));
        self.filled[index as usize] = buffer;
        self.posted = self.posted.wrapping_add(1);
        at
    }

    fn tell_posted(&self, w: &mut Work<'_>) {
        w.memory.put(self.records[0], &(self.posted & 0xffff).to_be_bytes());
    }

    /// Buffers are posted where many are missing: all but as many as are looked at together, up to the end of the ring.
    fn replenish(&mut self, w: &mut Work<'_>) {
        let missing = self.entries[0] - self.posted.wrapping_sub(self.taken);
        if missing < self.refill {
            return;
        }
        let count = missing.saturating_sub(self.looks).min(self.entries[0] - self.posted % self.entries[0]);
        for _ in 0..count {
            let Some(buffer) = w.pool.take() else { break };
            w.read_record(buffer, w.model.touches.posted_lines);
            w.note(self.notes[0], self.posted % self.entries[0]);
            let at = self.post(w, buffer);
            w.cpu.store(w.host, at);
        }
        self.tell_posted(w);
        w.cpu.store(w.host, self.records[0]);
    }

    /// The next completions are prefetched, where their places begin: of places of two lines not the one that is written.
    fn prefetch(&self, w: &mut Work<'_>, from: u32) {
        (0..self.looks).for_each(|n| w.cpu.prefetch(w.host, self.received.place(from.wrapping_add(n))));
    }

    /// The next completions are looked at, the last of them first: how many have come, of as many as are looked at together.
    /// `rest`: so many more packets are wanted.
    fn look_ahead(&mut self, w: &mut Work<'_>, rest: u32) {
        let next = self.received.next;
        if std::mem::take(&mut self.fresh) {
            self.received.say(w);
            self.prefetch(w, next);
            self.replenish(w);
        }
        // What is there when it looks, however long that takes.
        w.look();
        let began = w.cpu.time();
        for ahead in (0..self.looks).rev() {
            let pc = touch::ENTRY + 4 * u64::from(ahead);
            w.cpu.load(w.host, pc, self.received.entry(next.wrapping_add(ahead)), false);
        }
        // A barrier: nothing is loaded before they are here.
        w.cpu.settle();
        if rest >= 2 * self.looks {
            self.prefetch(w, next.wrapping_add(self.looks));
        }
        let whole = |n: &u32| matches!(self.received.found(w.memory, next.wrapping_add(*n)), Some((RECEIVED, format)) if format != COMPRESSED);
        self.here = (0..self.looks).take_while(whole).count() as u32;
        for ahead in 0..(self.here + 1).min(self.looks) {
            let entry = next.wrapping_add(ahead) % self.entries[0];
            w.cpu.polls(w.host, self.port, &self.polled, entry, began);
        }
    }

    /// A packet that has been told of is taken.
    fn take(&mut self, w: &mut Work<'_>, length: u32, burst: &mut Vec<Buffer>) {
        let number = self.filled[(self.taken % self.entries[0]) as usize];
        self.taken = self.taken.wrapping_add(1);
        w.write_record(number, w.model.touches.received_lines);
        if w.model.prefetches_received() {
            w.cpu.prefetch(w.host, w.pool.data(number));
        }
        w.cpu.spend(w.model.cycles.receive);
        burst.push(Buffer { number, length, more: false });
    }

    /// It looks again, until there is nothing.
    fn look(&mut self, w: &mut Work<'_>, rest: u32) {
        if std::mem::replace(&mut self.looked, true) && self.fresh {
            w.cpu.spend(self.further_call);
        }
        self.look_ahead(w, rest);
        // Where not all have come that are looked at together, a call ends.
        self.fresh = self.here < self.looks;
        if self.here == 0 && self.received.found(w.memory, self.received.next) == Some((RECEIVED, COMPRESSED)) {
            self.take_apart(w);
            return;
        }
        self.over = self.here == 0;
    }

    /// Completions that share an entry are taken apart.
    fn take_apart(&mut self, w: &mut Work<'_>) {
        let first = self.received.next;
        let count = self.received.word(w.memory, first, COUNT).min(self.entries[0]);
        let list = first.wrapping_add(1);
        // Eight bytes of each: what differs, its length.
        self.shared.extend((0..count).map(|i| self.received.word(w.memory, list, 8 * u64::from(i % 8) + 4) & 0xffff));
        for n in 0..count {
            let at = self.received.entry(first.wrapping_add(n)) + LAST;
            w.memory.put(at, &[READ]);
            w.cpu.store(w.host, at);
            w.cpu.polls(w.host, self.port, &self.polled, first.wrapping_add(n) % self.entries[0], w.cpu.time());
        }
        self.received.passed(count);
    }

    /// Completions of sending that have come, as far as they are looked at; buffers go back.
    fn clean(&mut self, w: &mut Work<'_>) {
        w.look();
        for _ in 0..LOOKS_MOST {
            // What is in it is guessed.
            w.cpu.load(w.host, touch::REPORT, self.sent.entry(self.sent.next), false);
            if self.sent.found(w.memory, self.sent.next).is_none_or(|(code, _)| code != SENT) {
                break;
            }
            self.sent.passed(1);
            let Some((buffers, block)) = self.reports.pop_front() else { break };
            self.freed = block;
            for _ in 0..buffers {
                if let Some(buffer) = self.under_way.pop_front() {
                    w.release(buffer);
                }
            }
        }
        self.sent.say(w);
    }

    fn blocks_free(&self) -> u32 {
        self.entries[1] - u32::from(self.block.wrapping_sub(self.freed))
    }

    fn at_segment(&self, o: Open, segment: u32) -> u64 {
        let bytes = u64::from(self.entries[1]) * BLOCK;
        self.rings[1] + (u64::from(o.block) * BLOCK + u64::from(segment) * SEGMENT) % bytes
    }

    /// A request begins: its control segment comes when it is whole.
    fn begin(&mut self, w: &mut Work<'_>) -> Open {
        let o = Open { block: self.block, segments: HEAD };
        w.memory.put(self.at_segment(o, 1), &[0; SEGMENT as usize]);
        w.cpu.store(w.host, self.at_segment(o, 0));
        self.block = self.block.wrapping_add(1);
        o
    }

    /// A buffer is added to a request.
    fn add(&mut self, w: &mut Work<'_>, o: &mut Open, b: &Buffer) {
        let at = self.at_segment(*o, o.segments);
        w.memory.put(at, &segment(b.length, self.keeps.key, w.pool.data(b.number)));
        if o.segments % 4 == 0 {
            // Its first block was counted as it began.
            w.cpu.store(w.host, at);
            self.block = self.block.wrapping_add(1);
        }
        o.segments += 1;
        w.note(self.notes[1], self.noted % self.entries[1]);
        self.noted = self.noted.wrapping_add(1);
        self.under_way.push_back(b.number);
        self.unreported += 1;
    }

    /// A request is whole, and the last so far.
    fn close(&mut self, w: &mut Work<'_>) {
        let Some(o) = self.open.take() else { return };
        w.memory.put(self.at_segment(o, 0), &(u32::from(o.block) << 8 | SEND_PACKETS).to_be_bytes());
        w.memory.put(self.at_segment(o, 0) + 4, &(self.keeps.send << 8 | o.segments).to_be_bytes());
        w.memory.put(self.at_segment(o, 0) + 8, &[0; 8]);
        self.last = Some(o);
    }
}

/// A piece of memory as requests name it.
fn segment(length: u32, key: u32, address: u64) -> [u8; SEGMENT as usize] {
    let mut s = [0; SEGMENT as usize];
    s[..4].copy_from_slice(&length.to_be_bytes());
    s[4..8].copy_from_slice(&key.to_be_bytes());
    s[8..].copy_from_slice(&address.to_be_bytes());
    s
}

impl PollDriver for Pair {
    fn start(&mut self, w: &mut Work<'_>) {
        self.keeps = Keeps::get(w.memory, self.arena);
        self.received.clear(w.memory);
        self.sent.clear(w.memory);
        for _ in 0..self.entries[0] {
            let Some(buffer) = w.pool.take() else { break };
            self.post(w, buffer);
        }
        self.tell_posted(w);
    }

    fn begin_receive(&mut self, _: &mut Work<'_>) {
        (self.over, self.fresh, self.looked) = (false, true, false);
    }

    fn receive(&mut self, w: &mut Work<'_>, burst: &mut Vec<Buffer>) -> bool {
        loop {
            if let Some(length) = self.shared.pop_front() {
                self.take(w, length, burst);
                return true;
            }
            if self.here > 0 {
                let length = self.received.word(w.memory, self.received.next, COUNT) & 0xffff;
                self.here -= 1;
                self.received.passed(1);
                self.take(w, length, burst);
                return true;
            }
            if self.over {
                return false;
            }
            self.look(w, w.model.policy.burst.saturating_sub(burst.len() as u32));
        }
    }

    fn end_receive(&mut self, w: &mut Work<'_>, _: u32) {
        self.received.say(w);
    }

    fn polled_again(&self, cpu: &Cpu, host: &Host, count: u64) {
        cpu.polled_again(host, self.port, &self.polled, self.received.next % self.entries[0], count);
    }

    fn begin_transmit(&mut self, w: &mut Work<'_>) {
        self.clean(w);
    }

    fn send(&mut self, w: &mut Work<'_>, packet: &[Buffer]) -> bool {
        // At worst it begins a request, of a block.
        let [b] = packet else { return false };
        if self.under_way.len() as u32 == self.entries[1] || self.blocks_free() == 0 {
            return false;
        }
        w.cpu.spend(w.model.cycles.send);
        if self.open.is_some_and(|o| o.segments == HEAD + self.packets) {
            self.close(w);
        }
        let mut o = self.open.take().unwrap_or_else(|| self.begin(w));
        self.add(w, &mut o, b);
        self.open = Some(o);
        true
    }

    fn end_transmit(&mut self, w: &mut Work<'_>, packets: u32) {
        self.close(w);
        let Some(last) = self.last.filter(|_| packets > 0) else { return };
        if self.unreported >= w.model.policy.report {
            w.memory.put(self.at_segment(last, 0) + 8, &SIGNALS.to_be_bytes());
            self.reports.push_back((std::mem::take(&mut self.unreported), self.block));
        }
        w.memory.put(self.records[1] + 4, &u32::from(self.block).to_be_bytes());
        w.cpu.store(w.host, self.records[1]);
        // The first words of the last request.
        let value = u64::from_le_bytes(w.memory.bytes(self.at_segment(last, 0)));
        w.cpu.doorbell(w.host, self.port, DOORBELL, value);
    }
}
