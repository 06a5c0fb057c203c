//! The DMA engine: so many reads and writes under way at a time, whoever wants them, in the order in which they are
//! asked for; where a card's engine takes a time for a read, one after the other: payload by the read, requests and records by
//! the line. What it moves queues on the I/O path.
//!
//! Left out: separate engines for descriptors and data, priorities between them.

use crate::io::{Io as IoPath, IoStats};
use crate::memory::{lines, MemorySystem, Object};
use crate::nic::notice::{Notice, Notices};
use crate::params::{self, Platform};
use crate::requester::{DmaRequester, Moves, Purpose};
use std::ops::Range;
use wiretime_base::{Calendar, Ps, Return, Window};

/// The engine of one card.
pub struct DmaEngine {
    io: IoPath,
    reads: Window<Ps>,
    writes: Window<Ps>,
    /// How long a read of payload, and a line of anything else, takes the engine, and when it is taken.
    read_time: Ps,
    line_time: Ps,
    begins: Calendar<Ps>,
}

impl DmaEngine {
    /// Of the platform's card of this number, whose ports are these devices.
    #[must_use]
    pub fn new(p: &Platform, card: usize, devices: Range<u16>) -> Self {
        let nic = &p.nic[card];
        let (read_time, line_time) =
            nic.mlx5.as_ref().map_or((Ps::ZERO, Ps::ZERO), |m| (m.read_time.ps(), m.request_line_time.ps()));
        Self {
            io: IoPath::new(p, &p.slot[nic.slot as usize], devices),
            reads: Window::new(nic.dma_reads.into(), Return::InOrder),
            writes: Window::new(nic.dma_writes.into(), Return::InOrder),
            read_time,
            line_time,
            begins: Calendar::default(),
        }
    }

    /// Those of all cards of a platform.
    #[must_use]
    pub fn of_cards(p: &Platform) -> Vec<Self> {
        let mut first = 0;
        let card = |(i, nic): (usize, &params::Nic)| {
            let devices = first..first + nic.ports as u16;
            first = devices.end;
            Self::new(p, i, devices)
        };
        p.nic.iter().enumerate().map(card).collect()
    }

    /// A device writes; returns when the last byte has left the card and when all is visible to cores.
    pub fn write(
        &mut self,
        t: Ps,
        (address, bytes): (u64, u64),
        by: DmaRequester,
        memory: &mut MemorySystem,
        told: &mut Notices,
    ) -> (Ps, Ps) {
        match by.purpose.moves {
            Moves::Payload => memory.objects.mark(address, bytes, Object::Payload),
            Moves::Completions => memory.objects.mark(address, bytes, Object::Descriptor),
            Moves::Descriptors | Moves::WriteBack => {}
        }
        let begin = self.writes.ready(t, 1);
        let (sent, visible) = self.io.write(begin, (address, bytes), by, memory);
        // Posted: the engine is done when the link has taken it.
        self.writes.hold(t, sent, 1);
        told.transfer(t, transfer(true, by.purpose, bytes, visible));
        (sent, visible)
    }

    /// A device reads; returns when the last byte is there.
    pub fn read(
        &mut self,
        t: Ps,
        (address, bytes): (u64, u64),
        by: DmaRequester,
        memory: &mut MemorySystem,
        told: &mut Notices,
    ) -> Ps {
        if by.purpose.moves == Moves::Descriptors {
            memory.objects.mark(address, bytes, Object::Descriptor);
        }
        let mut begin = self.reads.ready(t, 1);
        let takes = match by.purpose.moves {
            Moves::Payload => self.read_time,
            _ => self.line_time * lines(address, bytes).count() as u64,
        };
        if takes > Ps::ZERO {
            begin = self.begins.reserve(begin, takes);
        }
        let done = self.io.read(begin, (address, bytes), by, memory);
        self.reads.hold(t, done, 1);
        told.transfer(t, transfer(false, by.purpose, bytes, done));
        done
    }

    /// A core's posted write of a device's register; returns when the card has it.
    pub fn register_write(&mut self, t: Ps, device: u16) -> Ps {
        self.io.register_write(t, device)
    }

    /// Nobody asks for a time before `t` any more.
    pub fn reached(&mut self, t: Ps) {
        self.reads.reached(t);
        self.begins.reached(t);
        self.writes.reached(t);
        self.io.reached(t);
    }

    /// What crossed the I/O path for a device.
    #[must_use]
    pub fn stats(&self, device: u16) -> IoStats {
        self.io.stats(device)
    }
}

fn transfer(write: bool, p: Purpose, bytes: u64, until: Ps) -> Notice {
    Notice::Transfer { write, descriptors: p.moves != Moves::Payload, queue: p.queue, bytes, until }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requester::Side;
    use crate::testing::platform;

    /// When each of two hundred reads at once of so many bytes is there, by an engine that takes longer than link and caches do.
    fn reads(moves: Moves, address: u64, bytes: u64) -> Vec<Ps> {
        let card: toml::Table = include_str!("../../../../../platforms/cards/connectx-6dx.toml").parse().unwrap();
        let mut p = platform();
        let mut timing: params::Mlx5 = card["nic"]["mlx5"].clone().try_into().unwrap();
        (timing.read_time, timing.request_line_time) = ("50ns".parse().unwrap(), "20ns".parse().unwrap());
        (p.nic[0].mlx5, p.nic[0].dma_reads) = (Some(timing), 1024);
        let (mut engine, mut memory) = (DmaEngine::new(&p, 0, 0..1), MemorySystem::new(&p, 1));
        let by = DmaRequester { device: 0, purpose: Purpose::new(Side::Transmit, 0, moves) };
        let mut told = Notices::default();
        // The same place: all but the first are alike.
        (0..200).map(|_| engine.read(Ps::ZERO, (address, bytes), by, &mut memory, &mut told)).collect()
    }

    #[test]
    fn payload_takes_the_engine_by_the_read_and_requests_by_the_line() {
        for (moves, address, bytes, each) in [
            (Moves::Payload, 0x4000, 60, 50_000),
            (Moves::Payload, 0x4000, 512, 50_000),
            (Moves::Descriptors, 0x4000, 64, 20_000),
            (Moves::Descriptors, 0x4020, 64, 40_000),
            (Moves::Descriptors, 0x4000, 256, 80_000),
            (Moves::Descriptors, 0x403c, 4, 20_000),
        ] {
            let there = reads(moves, address, bytes);
            // What the last of them waits for memory differs a little.
            let took = (there[199] - there[99]).0;
            assert!(took.abs_diff(100 * each) < each * 3, "{moves:?} of {bytes} B: {took}");
        }
    }
}
