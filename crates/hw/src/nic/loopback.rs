//! A bench without a guest: one 8254x port whose host takes and answers packets in no time, or looks every now and then.
//!
//! What remains is the NIC, the way to memory and memory itself, which closed forms describe. The host costs nothing: no
//! core, no cache but the last-level one that DMA goes through.

use super::books::{BookSettings, Books};
use super::devices::intel::e1000::{reg, Registers, SHARED};
use super::devices::intel::Intel;
use super::{DropClasses, LocalPages, Nic, Place, Polled, Port, Store, Which};
use crate::memory::{GuestMemory, MemorySystem};
use crate::params::Platform;
use crate::wire::{Generator, Load, Sink};
use serde::Serialize;
use wiretime_base::Ps;

/// Memory of the host.
pub struct Ram(pub Vec<u8>);

impl GuestMemory for Ram {
    fn read(&self, address: u64, data: &mut [u8]) -> bool {
        let at = address as usize;
        self.0.get(at..at.saturating_add(data.len())).map(|s| data.copy_from_slice(s)).is_some()
    }
    fn write(&mut self, address: u64, data: &[u8]) -> bool {
        let at = address as usize;
        self.0.get_mut(at..at.saturating_add(data.len())).map(|s| s.copy_from_slice(data)).is_some()
    }
}

const RX_RING: u64 = 0;
const TX_RING: u64 = 1 << 17;
const BUFFERS: u64 = 1 << 20;
/// As in a pool of DPDK's buffers; frames that need more get whole pages.
const BUFFER: u64 = 2304;
const LARGE_BUFFER: u64 = 4096;
const LARGE_FRAME: u32 = 2048;
const DESCRIPTOR: u64 = 16;
/// Before the first packet: the NIC fetches descriptors.
const QUIET: Ps = 10_000_000;
const MAC: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];

/// A tail register is written.
fn tail(offset: u64, value: u32) -> Store {
    Store { place: Place { bar: 0, offset }, value: value.into() }
}

/// The host and its port.
pub struct Host {
    /// The port.
    pub port: Box<dyn Nic<Ram> + Send>,
    /// The books.
    pub books: Books,
    /// Caches and DRAM that DMA goes through.
    pub memory: MemorySystem,
    ram: Ram,
    ring: u32,
    forwards: bool,
    next: u32,
    free: u32,
    buffer: u64,
}

impl Host {
    /// A host with rings of `ring` descriptors that forwards packets, or drops them.
    ///
    /// # Errors
    /// Where the load is refused.
    pub fn new(p: &Platform, load: &Load, ring: u32, forwards: bool) -> Result<Self, String> {
        let generator = Generator::new(load, 0, (p.link.rate, p.link.gap_bytes), MAC)?;
        let device = Intel::new(&p.nic, Registers::new(MAC, LocalPages::new(SHARED)));
        let mut port: Box<dyn Nic<Ram> + Send> = Box::new(Port::new(p, 0, device, generator));
        let buffer = if load.sizes.range().1 > LARGE_FRAME { LARGE_BUFFER } else { BUFFER };
        let mut ram = Ram(vec![0; (BUFFERS + u64::from(ring) * buffer) as usize]);
        for i in 0..u64::from(ring) {
            ram.write(RX_RING + i * DESCRIPTOR, &(BUFFERS + i * buffer).to_le_bytes());
        }
        for (offset, value) in [
            (reg::RDBAL, RX_RING as u32),
            (reg::RDLEN, ring * DESCRIPTOR as u32),
            (reg::TDBAL, TX_RING as u32),
            (reg::TDLEN, ring * DESCRIPTOR as u32),
            (
                reg::RCTL,
                1 << 1 | 1 << 3 | 1 << 5 | 1 << 15 | 1 << 26 | if buffer == BUFFER { 0 } else { 3 << 16 | 1 << 25 },
            ),
            (reg::TCTL, 1 << 1 | 1 << 3),
        ] {
            port.write(Place { bar: 0, offset }, &value.to_le_bytes());
        }
        port.store(0, tail(reg::RDT, ring - 1));
        let memory = MemorySystem::new(p, 1);
        let sink = Sink::new(load.recognition, load.timestamp_offset);
        let books = Books::new(1, 1, BookSettings { forwards, sink, classes: DropClasses::Wiretime });
        Ok(Self { port, books, memory, ram, ring, forwards, next: 0, free: ring - 1, buffer })
    }

    /// The host looks at its ring at `now` and takes `burst` packets at most; returns how many.
    pub fn poll(&mut self, now: Ps, burst: u32) -> u32 {
        let mut taken = 0;
        let size = DESCRIPTOR as u32;
        let polled = Polled { bytes: RX_RING..RX_RING + u64::from(self.ring) * DESCRIPTOR, entry: size, queue: 0 };
        while taken < burst {
            let at = RX_RING + u64::from(self.next) * DESCRIPTOR;
            let mut d = [0; 16];
            self.ram.read(at, &mut d);
            self.port.polls(0, &polled, at - RX_RING, now, &mut self.books);
            if d[12] & 1 == 0 {
                break;
            }
            self.ram.write(at + 12, &[0]);
            if self.forwards {
                let mut t = [0; 16];
                t[..10].copy_from_slice(&d[..10]);
                t[11] = 1 | 2 | 8;
                self.ram.write(TX_RING + u64::from(self.next) * DESCRIPTOR, &t);
            }
            self.next = (self.next + 1) % self.ring;
            taken += 1;
        }
        if taken > 0 {
            if self.forwards {
                self.port.store(now, tail(reg::TDT, self.next));
                self.books.bursts_end(0, now);
            }
            self.free = (self.free + taken) % self.ring;
            self.port.store(now, tail(reg::RDT, self.free));
        }
        taken
    }

    /// Devices up to `now`, and what they have written by then.
    pub fn advance(&mut self, now: Ps) {
        self.port.advance(now, &mut self.memory, &self.ram, &mut self.books);
        self.port.writes().apply(now, &mut self.ram);
        self.reached(now);
    }

    fn reached(&mut self, now: Ps) {
        self.memory.reached(now);
        self.port.reached(now);
    }

    /// A core touches the packet that is taken next.
    pub fn touch(&mut self, now: u64) {
        self.memory.load(0, BUFFERS + u64::from(self.next) * self.buffer, 0, now);
    }

    /// Runs until `end`, the host answering as soon as it can see something.
    pub fn run(&mut self, end: Ps) {
        loop {
            let event = self.port.next_time().unwrap_or(Ps::MAX);
            let write = self.port.writes().next_time();
            let t = event.min(write);
            if t >= end {
                return;
            }
            self.reached(t);
            if write <= event {
                self.port.writes().apply(write, &mut self.ram);
                self.poll(write, u32::MAX);
            } else {
                self.port.advance(event + 1, &mut self.memory, &self.ram, &mut self.books);
            }
        }
    }
}

/// What a run of the bench shows.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)] // names and units say it
pub struct Outcome {
    pub packets: u64,
    pub dma_drops: u64,
    pub core_drops: u64,
    pub forwarded: u64,
    pub seconds: f64,
    /// Mean time of a packet in the RX FIFO, its DMA included.
    pub fifo_sojourn_ns: f64,
    pub fifo_peak_bytes: u64,
    pub latency_mean_ns: f64,
    pub latency_max_ns: f64,
    pub hops: Vec<super::Hop>,
    pub violations: Vec<String>,
}

/// Sends `packets` packets of a load through the bench.
///
/// # Errors
/// Where the load is refused.
pub fn measure(p: &Platform, load: &Load, packets: u64, ring: u32, forwards: bool) -> Result<Outcome, String> {
    let mut host = Host::new(p, load, ring, forwards)?;
    let mean = load.sizes.mean();
    let duration = (packets as f64 * mean * 8e12 / load.rate.bits_per_second() as f64) as Ps;
    host.run(QUIET);
    host.books.cohort = QUIET..QUIET + duration;
    host.port.start_traffic(QUIET, &mut host.books);
    host.run(QUIET + duration);
    host.port.stop_traffic(QUIET + duration);
    host.run(Ps::MAX);
    let stats = host.port.stats(1, &host.books);
    let counts = host.books.counts(Which::Cohort);
    let accepted = (counts.offered - counts.dma_drop - counts.core_drop).max(1);
    let bytes = accepted as f64 * mean;
    let sink = &host.books.sink.latencies;
    let mut violations = host.port.audit(&host.books);
    violations.extend(host.books.ledger.violations());
    Ok(Outcome {
        packets: counts.offered,
        dma_drops: counts.dma_drop,
        core_drops: counts.core_drop,
        forwarded: counts.forwarded,
        seconds: duration as f64 / 1e12,
        fifo_sojourn_ns: stats.receive.fifo_level_ps as f64 / bytes / 1000.0,
        fifo_peak_bytes: stats.receive.fifo_peak,
        latency_mean_ns: sink.mean() / 1000.0,
        latency_max_ns: sink.max() as f64 / 1000.0,
        hops: host.books.journeys.hops(),
        violations,
    })
}
