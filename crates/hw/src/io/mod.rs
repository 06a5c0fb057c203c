//! The way between root complex and NIC: a PCIe link or a plain bus, with an IOMMU before memory.
//!
//! - `pcie`: TLPs, credits, tags; `bus`: gem5's kind of I/O bus.
//! - `order`: what keeps its order. `iommu`: translation of device addresses, timing only.
//! - `probe`: latency and throughput of a platform's DMA.

mod bus;
mod iommu;
mod order;
mod pcie;
pub mod probe;

use crate::memory::MemorySystem;
use crate::params::{CardSlot, IoPath, Platform};
use crate::requester::DmaRequester;
use bus::Bus;
use iommu::Iommu;
use order::InOrder;
use pcie::Pcie;
use std::ops::Range;
use wiretime_base::{stats, Ps};

stats! {
    /// What crossed the path.
    pub struct IoStats {
        upstream_bytes: "B", "bytes from NIC to host, headers included";
        downstream_bytes: "B", "bytes from host to NIC, headers included";
        upstream_payload: "B", "of these, data that devices wrote";
        downstream_payload: "B", "of these, data that devices read";
        dllp_bytes: "B", "data-link packets for what was received, both directions";
        memory_writes: "TLPs", "posted writes by the NIC";
        memory_reads: "TLPs", "read requests by the NIC";
        completions: "TLPs", "completions with data to the NIC";
        register_writes: "TLPs", "posted writes by cores";
        upstream_busy_ps: "ps", "time that the upstream direction was taken";
        downstream_busy_ps: "ps", "time that the downstream direction was taken";
        credit_wait_ps: "ps", "time that writes waited for posted credits";
        tag_wait_ps: "ps", "time that read requests waited for a tag or a non-posted credit";
        iotlb_hits: "accesses", "device addresses that the IOTLB held";
        iotlb_second_hits: "accesses", "device addresses that its second level held alone";
        iotlb_misses: "accesses", "device addresses that the IOMMU had to walk for";
        iommu_table_reads: "accesses", "table entries that these walks read from memory";
    }
}

/// What is behind the path: the IOMMU, then memory.
struct Host<'a> {
    memory: &'a mut MemorySystem,
    iommu: &'a mut Iommu,
    stats: &'a mut IoStats,
    /// For whom.
    by: DmaRequester,
}

impl Host<'_> {
    /// A write that comes at `t`; returns when it is visible to cores.
    fn write(&mut self, t: Ps, address: u64, length: u64) -> Ps {
        let translated = self.iommu.translate(address, t, self.by, self.memory, self.stats);
        self.memory.dma_write((address, length), translated, self.by)
    }

    /// A read that comes at `t`; returns when its data are there.
    fn read(&mut self, t: Ps, address: u64, length: u64) -> Ps {
        let translated = self.iommu.translate(address, t, self.by, self.memory, self.stats);
        self.memory.dma_read((address, length), translated, self.by)
    }
}

/// Cuts `length` bytes at `address` into pieces of at most `limit` that cross no multiple of `boundary`.
fn cut(address: u64, length: u64, limit: u64, boundary: u64) -> impl Iterator<Item = (u64, u64)> {
    let (mut at, mut rest) = (address, length);
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let piece = rest.min(limit).min(boundary - at % boundary);
        let this = (at, piece);
        at = at.wrapping_add(piece);
        rest -= piece;
        Some(this)
    })
}

/// A link or a bus.
enum Path {
    Pcie(Box<Pcie>),
    Bus(Box<Bus>),
}

/// The I/O path of one card.
pub struct Io {
    path: Path,
    iommu: Iommu,
    /// Of cores that run ahead of each other, by when their writes were accepted.
    registers: InOrder,
    /// Of each of its ports, from this device number on.
    stats: Vec<IoStats>,
    first: u16,
}

impl Io {
    /// In this slot of the platform, of a card whose ports are these devices.
    #[must_use]
    pub fn new(p: &Platform, slot: &CardSlot, devices: Range<u16>) -> Self {
        let path = match slot.path {
            IoPath::Pcie => Path::Pcie(Box::new(Pcie::new(&p.pcie, (slot.generation, slot.lanes)))),
            IoPath::Bus => Path::Bus(Box::new(Bus::new(&p.bus))),
        };
        Self {
            path,
            iommu: Iommu::new(&p.iommu),
            registers: InOrder::default(),
            stats: vec![IoStats::default(); devices.len().max(1)],
            first: devices.start,
        }
    }

    /// Time that each direction has been taken, up and down.
    #[inline]
    fn busy(&self) -> (Ps, Ps) {
        match &self.path {
            Path::Pcie(p) => p.busy(),
            Path::Bus(b) => b.busy(),
        }
    }

    /// What has been taken since is a device's.
    #[inline]
    fn charge(&mut self, device: usize, before: (Ps, Ps)) {
        let (up, down) = self.busy();
        let stats = &mut self.stats[device];
        stats.upstream_busy_ps += (up - before.0).0;
        stats.downstream_busy_ps += (down - before.1).0;
    }

    /// The place of a device's counters.
    #[inline]
    fn counted(&self, device: u16) -> usize {
        usize::from(device.saturating_sub(self.first)).min(self.stats.len() - 1)
    }

    /// Counters of a device.
    #[must_use]
    pub fn stats(&self, device: u16) -> IoStats {
        self.stats[self.counted(device)].clone()
    }

    /// The NIC writes; returns when the last byte has left the NIC and when all is visible to cores.
    pub fn write(
        &mut self,
        t: Ps,
        (address, length): (u64, u64),
        by: DmaRequester,
        memory: &mut MemorySystem,
    ) -> (Ps, Ps) {
        let (at, before) = (self.counted(by.device), self.busy());
        let stats = &mut self.stats[at];
        stats.upstream_payload += length;
        let mut host = Host { memory, iommu: &mut self.iommu, stats, by };
        let times = match &mut self.path {
            Path::Pcie(p) => p.write(t, address, length, &mut host),
            Path::Bus(b) => b.write(t, address, length, &mut host),
        };
        self.charge(at, before);
        times
    }

    /// The NIC reads; returns when the last byte is there.
    pub fn read(&mut self, t: Ps, (address, length): (u64, u64), by: DmaRequester, memory: &mut MemorySystem) -> Ps {
        let (at, before) = (self.counted(by.device), self.busy());
        let stats = &mut self.stats[at];
        stats.downstream_payload += length;
        let mut host = Host { memory, iommu: &mut self.iommu, stats, by };
        let done = match &mut self.path {
            Path::Pcie(p) => p.read(t, address, length, &mut host),
            Path::Bus(b) => b.read(t, address, length, &mut host),
        };
        self.charge(at, before);
        done
    }

    /// A core's posted write of a device's register, accepted by the root complex at `t`; returns when the card has it.
    pub fn register_write(&mut self, t: Ps, device: u16) -> Ps {
        let (device, before) = (self.counted(device), self.busy());
        let stats = &mut self.stats[device];
        stats.register_writes += 1;
        let arrives = match &mut self.path {
            Path::Pcie(p) => p.register_write(t, stats),
            Path::Bus(b) => b.register_write(t, stats),
        };
        self.charge(device, before);
        self.registers.follow(t, arrives)
    }

    /// Nobody asks for a time before `t` any more.
    pub fn reached(&mut self, t: Ps) {
        self.registers.reached(t);
        self.iommu.reached(t);
        match &mut self.path {
            Path::Pcie(p) => p.reached(t),
            Path::Bus(b) => b.reached(t),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::probe::PROBE;
    use super::*;
    use crate::testing::platform;

    /// A doorbell that carries many data-link packets finds no gap where the next one, which carries none, does.
    #[test]
    fn doorbells_never_overtake_each_other() {
        let mut p = platform();
        (p.slot[0].generation, p.slot[0].lanes, p.pcie.dllp_size) = (1, 1, 64);
        let mut memory = MemorySystem::new(&p, 1);
        let mut io = Io::new(&p, &p.slot[0], 0..1);
        let mut last = 0;
        for i in 0..2000u64 {
            let t = i * 130_000;
            io.read(Ps(t), (i % 64 * 4096, 256), PROBE, &mut memory);
            io.write(Ps(t), (i % 64 * 4096, 256 * (i % 3)), PROBE, &mut memory);
            for k in 0..3 {
                let arrives = io.register_write(Ps(t + k * 1000), 0);
                assert!(arrives >= Ps(last), "doorbell {i}.{k}");
                last = arrives.0;
            }
        }
    }
}
