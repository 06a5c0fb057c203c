//! What DPDK's drivers for the 8254x (`net_e1000_em`) and the 82599 (`net_ixgbe`, vector path) do with rings whose descriptors
//! are written back in place.
//!
//! - `net_e1000_em` replaces the buffer of each packet that it takes and tells the device when it holds more than so many; it
//!   gives a sent buffer back when its entry is used again.
//! - `net_ixgbe` takes packets, posts so many buffers at once where that many entries are empty, and gives so many back at once; of many
//!   packets that are sent at once it looks for room before each so many.
//!
//! Left out: offloads, packets that are chained on sending over several bursts.

use super::{touch, Arena, Buffer, PollDriver, Work};
use crate::cost::CostModel;
use crate::cpu::{Cpu, Host};
use std::collections::VecDeque;
use wiretime_base::{Cycles, Invalid};
use wiretime_hw::nic::{Place, Polled};

const DESCRIPTOR: u64 = 16;
/// Descriptors that the vector path looks at together: a line of them.
const GROUP: u32 = 4;
/// Registers of the 8254x's rings, and of the 82599's first queue; the others' are so far apart.
const STRIDE: u64 = 0x40;
/// The key that DPDK gives to receive-side scaling unless it is told another (`rss_intel_key`).
const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b,
    0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac,
    0x01, 0xfa,
];

/// Which driver, and whose registers and formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `net_e1000_em`.
    I8254x,
    /// `net_ixgbe`.
    I82599,
}

/// What a received descriptor says.
struct Received {
    length: u32,
    last: bool,
}

impl Family {
    fn ring(self, transmits: bool, queue: u16) -> u64 {
        match (self, transmits) {
            (Self::I8254x, false) => 0x2800,
            (Self::I8254x, true) => 0x3800,
            (Self::I82599, false) => 0x1000 + STRIDE * u64::from(queue),
            (Self::I82599, true) => 0x6000 + STRIDE * u64::from(queue),
        }
    }

    fn received(self, d: [u8; 16]) -> Option<Received> {
        let (status, length) = match self {
            Self::I8254x => (d[12], [d[8], d[9]]),
            Self::I82599 => (d[8], [d[12], d[13]]),
        };
        let length = u16::from_le_bytes(length).into();
        (status & 1 != 0).then_some(Received { length, last: status & 2 != 0 })
    }

    /// A data descriptor: extended, check sequence inserted.
    fn sends(self, address: u64, b: &Buffer, (first, whole): (bool, u32), reports: bool) -> [u8; 16] {
        let kind = match self {
            Self::I8254x => 1,
            Self::I82599 => 3,
        };
        let command = kind << 20 | 1 << 29 | 1 << 25 | u32::from(!b.more) << 24 | u32::from(reports) << 27;
        let upper = if self == Self::I82599 && first { whole << 14 } else { 0 };
        let mut d = [0; 16];
        d[..8].copy_from_slice(&address.to_le_bytes());
        d[8..12].copy_from_slice(&(command | b.length).to_le_bytes());
        d[12..].copy_from_slice(&upper.to_le_bytes());
        d
    }

    /// Whether buffers are posted and given back so many at a time, and not one by one.
    fn in_bulk(self) -> bool {
        self == Self::I82599
    }
}

/// Notes of software, of a ring's buffers.
fn notes(arena: Arena) -> [u64; 2] {
    [arena.ring(2), arena.ring(3)]
}

/// Programs the device as its driver does.
///
/// # Errors
/// Where it has no such buffers.
pub fn set_up(
    family: Family,
    host: &Host,
    port: usize,
    queues: &[(u16, Arena)],
    model: &CostModel,
) -> Result<(), Invalid> {
    let buffer = model.policy.buffer;
    let sizes: &[u32] = match family {
        Family::I8254x => &[2048, 4096, 8192, 16384],
        Family::I82599 => &[1024, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 9216, 10240],
    };
    if !sizes.contains(&buffer) {
        let allowed = sizes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        return Err(Invalid::new("policy.buffer", buffer, format!("this device takes buffers of {allowed} B")));
    }
    let p = &model.policy;
    for (name, entries) in [("policy.receive_ring", p.receive_ring), ("policy.transmit_ring", p.transmit_ring)] {
        if entries % 8 != 0 {
            return Err(Invalid::new(name, entries, "this device takes multiples of 8 descriptors"));
        }
    }
    if family.in_bulk() && (p.transmit_ring % p.report != 0 || p.release == 0) {
        let found = format!("{}, policy.release {}", p.report, p.release);
        return Err(Invalid::new("policy.report", found, "the ring must be a multiple of it, and some be released"));
    }
    let mut nics = host.nics.borrow_mut();
    let slot = &mut nics.slots[port];
    let mut write = |offset: u64, value: u32| slot.write(Place { bar: 0, offset }, &value.to_le_bytes());
    let mut place = |ring: u64, base: u64, entries: u32| {
        write(ring, base as u32);
        write(ring + 4, (base >> 32) as u32);
        write(ring + 8, entries * DESCRIPTOR as u32);
    };
    for &(queue, arena) in queues {
        place(family.ring(false, queue), arena.ring(0), model.policy.receive_ring);
        place(family.ring(true, queue), arena.ring(1), model.policy.transmit_ring);
    }
    match family {
        Family::I8254x => {
            let size = match buffer {
                2048 => 0,
                larger => 1 << 25 | (4 - larger.trailing_zeros().saturating_sub(11).min(3)) << 16,
            };
            // On: unicast of any address, long frames, broadcast, check sequence stripped.
            write(0x100, 1 << 1 | 1 << 3 | 1 << 5 | 1 << 15 | 1 << 26 | size);
            write(0x400, 1 << 1 | 1 << 3);
        }
        Family::I82599 => {
            // Frames of up to 15.5 KiB, check sequence stripped; all addresses.
            write(0x4268, 0x3e00 << 16);
            write(0x4240, 0x1_0c03 | 1 << 1 | 1 << 2);
            write(0x5080, 7 << 8);
            for (i, word) in (0..).zip(KEY.chunks(4)) {
                write(0x5c80 + 4 * i, u32::from_le_bytes(std::array::from_fn(|k| word[k])));
            }
            for entry in 0..32u64 {
                let queue = |k: u64| queues[(4 * entry + k) as usize % queues.len()].0;
                write(0x5c00 + 4 * entry, u32::from_le_bytes(std::array::from_fn(|k| queue(k as u64) as u8)));
            }
            // Addresses and ports of IPv4 and IPv6, where there are queues to spread over.
            write(0x5818, if queues.len() > 1 { 1 | 0b1111_0011 << 16 } else { 0 });
            write(0x4a80, 0x8100_0001);
            for &(queue, _) in queues {
                write(family.ring(true, queue) + 0x28, 1 << 25 | 32);
                write(family.ring(false, queue) + 0x14, (buffer / 1024) | 1 << 25);
                write(family.ring(false, queue) + 0x28, 1 << 25);
            }
            write(0x3000, 1);
        }
    }
    Ok(())
}

/// A queue pair.
pub struct Pair {
    family: Family,
    port: usize,
    /// Tail registers, of receiving and sending.
    tails: [u64; 2],
    rings: [u64; 2],
    notes: [u64; 2],
    entries: [u32; 2],
    polled: Polled,
    /// Buffers by entry.
    filled: Vec<u32>,
    sent: Vec<Option<u32>>,
    /// The entry that is looked at next; buffers replaced and not told; entries that are empty, from where on.
    next: u32,
    /// Packets taken since it began to look; when the entries come that were looked at last.
    burst: u32,
    come: Cycles,
    held: u32,
    empty: u32,
    refill: u32,
    /// Buffers of a packet whose end has not come.
    partial: Vec<Buffer>,
    /// The entry that is used next; how many are free; those that report, with how many since the one before; descriptors
    /// since the last of them.
    next_send: u32,
    free: u32,
    reports: VecDeque<(u32, u32)>,
    unreported: u32,
    /// Sent since it was looked whether there is room.
    looked: u32,
}

impl Pair {
    /// Of a port.
    #[must_use]
    pub fn new(family: Family, port: usize, queue: u16, arena: Arena, model: &CostModel) -> Self {
        let rings = [arena.ring(0), arena.ring(1)];
        let entries = [model.policy.receive_ring, model.policy.transmit_ring];
        let bytes = rings[0]..rings[0] + u64::from(entries[0]) * DESCRIPTOR;
        Self {
            family,
            port,
            tails: [false, true].map(|transmits| family.ring(transmits, queue) + 0x18),
            rings,
            notes: notes(arena),
            entries,
            polled: Polled::whole(bytes, DESCRIPTOR as u32, queue),
            filled: vec![0; entries[0] as usize],
            sent: vec![None; entries[1] as usize],
            next: 0,
            burst: 0,
            come: Cycles::ZERO,
            held: 0,
            empty: 0,
            refill: 0,
            next_send: 0,
            free: entries[1] - 1,
            reports: VecDeque::with_capacity((entries[1] / model.policy.report.max(1) + 1) as usize),
            unreported: 0,
            looked: 0,
            partial: Vec::with_capacity(16),
        }
    }

    /// Where an entry of the receive ring is, counted on beyond its end.
    fn received_at(&self, entry: u32) -> u64 {
        self.rings[0] + u64::from(entry % self.entries[0]) * DESCRIPTOR
    }

    fn post(&mut self, w: &mut Work<'_>, entry: u32, buffer: u32) {
        let mut d = [0; 16];
        d[..8].copy_from_slice(&w.pool.data(buffer).to_le_bytes());
        w.memory.put(self.received_at(entry), &d);
        self.filled[entry as usize] = buffer;
    }

    fn post_and_pay(&mut self, w: &mut Work<'_>, entry: u32, buffer: u32) {
        w.read_record(buffer, w.model.touches.posted_lines);
        w.note(self.notes[0], entry);
        w.cpu.store(w.host, self.received_at(entry));
        self.post(w, entry, buffer);
    }

    /// The entry that is looked at last before this one is told.
    fn tell(&self, w: &mut Work<'_>, next: u32) {
        let tail = (next + self.entries[0] - 1) % self.entries[0];
        w.cpu.doorbell(w.host, self.port, self.tails[0], tail);
    }

    /// The vector path loads the entries of a group, also where they are in two lines and the second has not been written, and
    /// prefetches the group behind it.
    fn look_at_group(&mut self, w: &mut Work<'_>) {
        // Most of a group's instructions wait for its entries and fill the issue queues: the next group is looked at when
        // they have come.
        w.cpu.wait_for(self.come);
        for (pc, entry) in [(touch::ENTRY, self.next), (touch::LAST, self.next + GROUP - 1)] {
            let come = w.cpu.load(w.host, pc, self.received_at(entry), false);
            self.come = self.come.max(come);
        }
        w.cpu.prefetch(w.host, self.received_at(self.next + GROUP));
    }

    /// Looks whether the oldest descriptor that reports is done, and takes back those up to it; whether it is.
    fn clean(&mut self, w: &mut Work<'_>) -> bool {
        let Some(&(entry, count)) = self.reports.front() else { return false };
        w.look();
        let at = self.rings[1] + u64::from(entry) * DESCRIPTOR;
        // What is in it is guessed: it is done nearly always.
        w.cpu.load(w.host, touch::REPORT, at, false);
        if w.memory.bytes::<1>(at + 12)[0] & 1 == 0 {
            return false;
        }
        self.reports.pop_front();
        self.free += count;
        if self.family.in_bulk() {
            let first = entry + self.entries[1] + 1 - count;
            for entry in first..first + count {
                if let Some(buffer) = self.sent[(entry % self.entries[1]) as usize].take() {
                    w.release(buffer);
                }
            }
        }
        true
    }
}

impl PollDriver for Pair {
    fn start(&mut self, w: &mut Work<'_>) {
        for entry in 0..self.entries[0] {
            let Some(buffer) = w.pool.take() else { break };
            self.post(w, entry, buffer);
        }
        self.tell(w, 0);
    }

    fn begin_receive(&mut self, w: &mut Work<'_>) {
        self.burst = 0;
        let batch = w.model.policy.refill;
        if self.family.in_bulk() && self.empty > batch {
            for _ in 0..batch {
                let Some(buffer) = w.pool.take() else { return };
                self.post_and_pay(w, self.refill, buffer);
                self.refill = (self.refill + 1) % self.entries[0];
                self.empty -= 1;
            }
            self.tell(w, self.refill);
        }
    }

    fn receive(&mut self, w: &mut Work<'_>, burst: &mut Vec<Buffer>) -> bool {
        loop {
            // The vector path counts descriptors.
            if self.family.in_bulk() && self.burst >= w.model.policy.burst {
                return false;
            }
            w.look();
            let at = self.received_at(self.next);
            w.cpu.polls(w.host, self.port, &self.polled, self.next, w.cpu.time());
            let found = self.family.received(w.memory.bytes(at));
            // Four at a time, once there is one.
            let group = self.family.in_bulk() && self.burst % GROUP == 0;
            if !self.family.in_bulk() || self.burst == 0 {
                w.cpu.load(w.host, touch::ENTRY, at, false);
            }
            if group && (self.burst > 0 || found.is_some()) {
                self.look_at_group(w);
            }
            let Some(found) = found else {
                // That nothing is there is known when the entry is.
                w.cpu.settle();
                return false;
            };
            let number = self.filled[self.next as usize];
            if self.family.in_bulk() {
                self.empty += 1;
                self.burst += 1;
            } else {
                let Some(fresh) = w.pool.take() else { return false };
                self.post_and_pay(w, self.next, fresh);
                self.held += 1;
            }
            w.write_record(number, w.model.touches.received_lines);
            if w.model.prefetches_received() {
                w.cpu.prefetch(w.host, w.pool.data(number));
            }
            let whole = self.partial.is_empty();
            w.cpu.spend(if whole { w.model.cycles.receive } else { w.model.cycles.segment });
            self.next = (self.next + 1) % self.entries[0];
            if !self.family.in_bulk() && self.next % GROUP == 0 {
                // At the end of a line of entries, the next.
                w.cpu.prefetch(w.host, self.received_at(self.next));
            }
            self.partial.push(Buffer { number, length: found.length, more: !found.last });
            if found.last {
                burst.append(&mut self.partial);
                return true;
            }
        }
    }

    fn end_receive(&mut self, w: &mut Work<'_>, _: u32) {
        if !self.family.in_bulk() && self.held > w.model.policy.refill {
            self.held = 0;
            self.tell(w, self.next);
        }
    }

    fn polled_again(&self, cpu: &Cpu, host: &Host, count: u64) {
        cpu.polled_again(host, self.port, &self.polled, self.next, count);
    }

    fn begin_transmit(&mut self, w: &mut Work<'_>) {
        self.looked = 0;
        if self.free < w.model.policy.release {
            self.clean(w);
        }
    }

    fn send(&mut self, w: &mut Work<'_>, packet: &[Buffer]) -> bool {
        let needs = packet.len() as u32;
        if self.family.in_bulk() && self.looked >= w.model.policy.report {
            self.begin_transmit(w);
        }
        self.looked += needs;
        while needs > self.free {
            // In bulk it has been looked at before, unless there was as much as a model asks for; the path for packets of
            // several buffers goes on as long as any are done.
            let looked = self.family.in_bulk() && packet.len() == 1 && self.free < w.model.policy.release;
            if looked || !self.clean(w) {
                return false;
            }
        }
        w.cpu.spend(w.model.cycles.send);
        let whole = packet.iter().map(|b| b.length).sum();
        self.unreported += needs;
        for (k, b) in packet.iter().enumerate() {
            let entry = self.next_send;
            if let Some(old) = self.sent[entry as usize].replace(b.number) {
                w.release(old);
            }
            // The family that cleans in bulk asks at fixed entries; the other at the end of the packet that makes so many.
            let reports = if self.family.in_bulk() {
                (entry + 1) % w.model.policy.report == 0
            } else {
                k + 1 == packet.len() && self.unreported >= w.model.policy.report
            };
            let d = self.family.sends(w.pool.data(b.number), b, (k == 0, whole), reports);
            let at = self.rings[1] + u64::from(entry) * DESCRIPTOR;
            w.memory.put(at, &d);
            w.note(self.notes[1], entry);
            w.cpu.store(w.host, at);
            if reports {
                let count = if self.family.in_bulk() { w.model.policy.report } else { self.unreported };
                self.reports.push_back((entry, count));
                self.unreported = 0;
            }
            self.next_send = (entry + 1) % self.entries[1];
        }
        self.free -= needs;
        true
    }

    fn end_transmit(&mut self, w: &mut Work<'_>, packets: u32) {
        if packets > 0 {
            w.cpu.doorbell(w.host, self.port, self.tails[1], self.next_send);
        }
    }
}
