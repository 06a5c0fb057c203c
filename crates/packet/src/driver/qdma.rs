//! What Xilinx's poll-mode driver does with a QDMA (dma_ip_drivers 2023.1.2): three doorbells a turn of the loop, no register
//! is read.

use super::{touch, Arena, Buffer, PollDriver, Work};
use crate::cost::CostModel;
use crate::cpu::{Cpu, Host};
use std::collections::VecDeque;
use wiretime_base::Invalid;
use wiretime_hw::nic::{Place, Polled};

const DOORBELLS: u64 = 0x18000;
const H2C: u64 = 16;
const C2H: u64 = 8;
/// "User timer and count".
const TRIGGER: u32 = 5;
const TICK: u32 = 50;
/// Sizes, counts and times are entries of tables: the first of each, the second for sizes of rings from the host.
const FIRST: u32 = 0;
const SECOND: u32 = 1;

/// Descriptors to the device, from it, completions.
fn rings(arena: Arena) -> [u64; 3] {
    [arena.ring(0), arena.ring(1), arena.ring(2)]
}

/// Buffers that a packet may take (PG302, C2H stream engine).
const BUFFERS_MOST: u32 = 31;

/// Entries of the ring to the host that hold nothing: one tells full from empty, and one less than the others is posted.
const UNUSED: u32 = 2;

/// Programs the device: tables, engines, contexts of queues.
///
/// # Errors
/// Where the model does not say how.
pub fn set_up(
    host: &Host,
    port: usize,
    queues: &[(u16, Arena)],
    (model, longest): (&CostModel, u32),
) -> Result<(), Invalid> {
    let d = model.qdma_driver()?;
    if longest > BUFFERS_MOST * model.policy.buffer {
        let why = format!("a packet of {longest} B takes more than the {BUFFERS_MOST} buffers that it may");
        return Err(Invalid::new("policy.buffer", model.policy.buffer, why));
    }
    let ring = model.policy.receive_ring.min(model.policy.transmit_ring);
    // Fewer than are posted together may be held back.
    let held = ring.saturating_sub(UNUSED + model.policy.refill.saturating_sub(1));
    if longest.div_ceil(model.policy.buffer) > held {
        let why = format!("a packet of {longest} B takes more than the {held} buffers that a ring of {ring} holds");
        return Err(Invalid::new("policy.buffer", model.policy.buffer, why));
    }
    let mut nics = host.nics.borrow_mut();
    let slot = &mut nics.slots[port];
    let mut write = |offset: u64, value: u32| slot.write(Place { bar: 0, offset }, &value.to_le_bytes());
    for i in 0..16 {
        let entries = if i == 1 { model.policy.transmit_ring } else { model.policy.receive_ring };
        write(0x204 + 4 * i, entries + 1);
        write(0xa00 + 4 * i, d.timer);
        write(0xa40 + 4 * i, d.count);
        write(0xab0 + 4 * i, model.policy.buffer);
    }
    write(0xb0c, TICK);
    // Most descriptors of a fetch, status intervals of 64; prefetch; throttles of 192 requests and 56 KiB; coalescing.
    write(0x250, (d.fetch / 8).trailing_zeros() << 3 | 5);
    write(0xa84, d.prefetch);
    write(0xe24, 1 << 31 | 192 << 19 | 1 << 18 | 57344);
    write(0xb50, d.coalesce << 26 | d.coalesce_cycles << 14 | 5 << 2);
    let mut context = |selector: u32, queue: u16, data: [u32; 8]| {
        for (i, word) in (0..).zip(data) {
            write(0x804 + 4 * i, word);
            write(0x824 + 4 * i, u32::MAX);
        }
        write(0x844, selector << 1 | 1 << 5 | u32::from(queue) << 7);
    };
    let entry = (d.completion / 8).trailing_zeros();
    for &(queue, arena) in queues {
        let [c2h, h2c, completions] = rings(arena);
        let base = completions >> 6;
        context(7, queue, [FIRST << 1 | 1 << 27, 1 << 13, 0, 0, 0, 0, 0, 0]);
        let status = 1 | TRIGGER << 2 | FIRST << 17 | FIRST << 21 | 1 << 27 | FIRST << 28;
        context(6, queue, [status, base as u32, (base >> 32) as u32 | entry << 26, 1 << 28, 0, 0, 0, 0]);
        // Descriptors of 8 bytes, and of 16 with status when empty and at intervals.
        context(0, queue, [0, 1 | 1 << 1 | FIRST << 12, c2h as u32, (c2h >> 32) as u32, 0, 0, 0, 0]);
        let word = 1 | 1 << 2 | 1 << 3 | SECOND << 12 | 1 << 16 | 1 << 20;
        context(1, queue, [0, word, h2c as u32, (h2c >> 32) as u32, 0, 0, 0, 0]);
    }
    Ok(())
}

/// A queue pair.
pub struct Pair {
    port: usize,
    queue: u16,
    /// Entries of the rings to the host, and from it.
    entries: [u32; 2],
    rings: [u64; 3],
    polled: Polled,
    /// Buffers in the ring to the host, in order; where the next one goes; which completion is next.
    filled: VecDeque<u32>,
    next_fill: u32,
    next_completion: u32,
    /// Lengths of the packets that have come, as far as they are taken in this turn; buffers to replace.
    lengths: VecDeque<u32>,
    taken: u32,
    /// Buffers in the ring from the host; where the next one goes; which is done.
    sent: VecDeque<u32>,
    next_send: u32,
    done: u32,
}

impl Pair {
    /// Of a port.
    ///
    /// # Errors
    /// Where the model does not say how a QDMA is programmed.
    pub fn new(port: usize, queue: u16, arena: Arena, model: &CostModel) -> Result<Self, Invalid> {
        let (entries, rings) = ([model.policy.receive_ring, model.policy.transmit_ring], rings(arena));
        let entry = model.qdma_driver()?.completion;
        let bytes = rings[2]..rings[2] + u64::from(entries[0] + 1) * u64::from(entry);
        Ok(Self {
            port,
            queue,
            entries,
            rings,
            polled: Polled { bytes, entry, entries: entries[0], first: 0, tells: 0, queue },
            filled: VecDeque::with_capacity(entries[0] as usize),
            next_fill: 0,
            next_completion: 0,
            lengths: VecDeque::new(),
            taken: 0,
            sent: VecDeque::with_capacity(entries[1] as usize),
            next_send: 0,
            done: 0,
        })
    }

    /// Address of an entry of the completion ring; behind the last is its status.
    fn completion(&self, entry: u32) -> u64 {
        self.polled.bytes.start + u64::from(entry) * u64::from(self.polled.entry)
    }

    fn bell(&self, number: u64) -> u64 {
        DOORBELLS + 16 * u64::from(self.queue) + 4 * number
    }

    /// Posts so many buffers, as far as there are some; returns how many.
    fn fill(&mut self, w: &mut Work<'_>, count: u32, costs: bool) -> u32 {
        let mut posted = 0;
        while posted < count {
            let Some(buffer) = w.pool.take() else { break };
            posted += 1;
            let at = self.rings[0] + u64::from(self.next_fill) * C2H;
            w.memory.put(at, &w.pool.data(buffer).to_le_bytes());
            if costs {
                w.read_record(buffer, w.model.touches.posted_lines);
                w.cpu.store(w.host, at);
            }
            self.filled.push_back(buffer);
            self.next_fill = (self.next_fill + 1) % self.entries[0];
        }
        w.cpu.doorbell(w.host, self.port, self.bell(2), self.next_fill | 1 << 16);
        posted
    }

    fn tell_completions(&self, w: &mut Work<'_>) {
        let how = FIRST << 16 | FIRST << 20 | TRIGGER << 24 | 1 << 27;
        w.cpu.doorbell(w.host, self.port, self.bell(3), self.next_completion | how);
    }
}

impl PollDriver for Pair {
    fn start(&mut self, w: &mut Work<'_>) {
        self.tell_completions(w);
        // One less than the usable entries, which are one less than the ring's.
        self.fill(w, self.entries[0] - UNUSED, false);
    }

    fn begin_receive(&mut self, w: &mut Work<'_>) {
        w.look();
        let status = self.completion(self.entries[0]);
        w.cpu.load(w.host, touch::ENTRY, status, true);
        let produced = u32::from(u16::from_le_bytes(w.memory.bytes(status))) % self.entries[0];
        let available = (produced + self.entries[0] - self.next_completion) % self.entries[0];
        w.cpu.polls(w.host, self.port, &self.polled, self.entries[0], w.cpu.time());
        let most = w.model.policy.burst.min(w.model.policy.receive_most);
        // The device may use the entries again as soon as they have been read.
        for _ in 0..available.min(most) {
            let at = self.completion(self.next_completion);
            w.cpu.load(w.host, touch::ENTRY, at, false);
            w.cpu.polls(w.host, self.port, &self.polled, self.next_completion, w.cpu.time());
            let length = u64::from_le_bytes(w.memory.bytes(at)) >> 4 & 0xffff;
            self.lengths.push_back(length as u32);
            self.next_completion = (self.next_completion + 1) % self.entries[0];
        }
        if !self.lengths.is_empty() {
            self.tell_completions(w);
        }
    }

    fn receive(&mut self, w: &mut Work<'_>, burst: &mut Vec<Buffer>) -> bool {
        let Some(mut rest) = self.lengths.pop_front() else { return false };
        w.cpu.spend(w.model.cycles.receive);
        while let Some(number) = self.filled.pop_front() {
            let length = rest.min(w.model.policy.buffer);
            rest -= length;
            self.taken += 1;
            w.write_record(number, w.model.touches.received_lines);
            burst.push(Buffer { number, length, more: rest > 0 });
            if rest == 0 {
                break;
            }
            w.cpu.spend(w.model.cycles.segment);
        }
        true
    }

    fn end_receive(&mut self, w: &mut Work<'_>, packets: u32) {
        if packets > 0 && self.taken >= w.model.policy.refill {
            // What there is no buffer for is posted later.
            self.taken -= self.fill(w, self.taken, true);
        }
    }

    fn polled_again(&self, cpu: &Cpu, host: &Host, count: u64) {
        cpu.polled_again(host, self.port, &self.polled, self.entries[0], count);
    }

    fn begin_transmit(&mut self, w: &mut Work<'_>) {
        // What has been sent is taken back.
        w.look();
        let status = self.rings[1] + u64::from(self.entries[1]) * H2C;
        w.cpu.load(w.host, touch::ENTRY, status, true);
        let done = u32::from(u16::from_le_bytes(w.memory.bytes(status + 2))) % self.entries[1];
        while self.done != done {
            let Some(buffer) = self.sent.pop_front() else { break };
            self.done = (self.done + 1) % self.entries[1];
            w.release(buffer);
        }
    }

    fn send(&mut self, w: &mut Work<'_>, packet: &[Buffer]) -> bool {
        if self.sent.len() + packet.len() > (self.entries[1] - 1) as usize {
            return false;
        }
        w.cpu.spend(w.model.cycles.send);
        let mut first = true;
        for b in packet {
            let at = self.rings[1] + u64::from(self.next_send) * H2C;
            let flags = u64::from(first) | u64::from(!b.more) << 1;
            let word = flags << 48 | u64::from(b.length) << 32 | u64::from(b.length) << 16;
            w.memory.put(at, &word.to_le_bytes());
            w.memory.put(at + 8, &w.pool.data(b.number).to_le_bytes());
            w.cpu.store(w.host, at);
            self.sent.push_back(b.number);
            self.next_send = (self.next_send + 1) % self.entries[1];
            first = false;
        }
        true
    }

    fn end_transmit(&mut self, w: &mut Work<'_>, packets: u32) {
        if packets > 0 {
            w.cpu.doorbell(w.host, self.port, self.bell(1), self.next_send);
        }
    }
}
