//! A bench without a guest: a machine with one 8254x port whose host takes and answers packets in no time, or looks every now
//! and then, or as a program on a core of the machine does.
//!
//! In no time, what remains is the NIC, the way to memory and memory itself, which closed forms describe: the host costs
//! nothing, no core, no cache but the last-level one that DMA goes through.

use super::books::{BookSettings, Books};
use super::devices::intel::e1000::{reg, Registers, SHARED};
use super::devices::intel::Intel;
use super::{DmaEngine, DropClasses, LocalPages, Place, Port, Store, Which};
use crate::machine::{Machine, Nics, Slot};
use crate::memory::GuestMemory;
use crate::params::{Interface, Platform};
use crate::wire::{Cable, Load, Sink};
use serde::Serialize;
use std::cell::{RefCell, RefMut};
use wiretime_base::{Cycles, Invalid, Ps};

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

/// Where the registers are, beyond all memory.
pub const BAR: u64 = 3 << 30;
const RX_RING: u64 = 0;
const TX_RING: u64 = 1 << 17;
const BUFFERS: u64 = 1 << 20;
/// As in a pool of DPDK's buffers; frames that need more get whole pages.
const BUFFER: u64 = 2304;
const LARGE_BUFFER: u64 = 4096;
const LARGE_FRAME: u32 = 2048;
const DESCRIPTOR: u64 = 16;
/// Before the first packet: the NIC fetches descriptors.
const QUIET: Ps = Ps::from_us(10);
const MAC: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];

/// A tail register is written.
fn tail(offset: u64, value: u32) -> Store {
    Store { place: Place { bar: 0, offset }, value: value.into() }
}

/// The host and its port.
pub struct Host {
    /// Cores, caches and DRAM, the port.
    pub machine: Machine<RefCell<Nics<Ram>>>,
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
    pub fn new(p: &Platform, load: &Load, ring: u32, forwards: bool) -> Result<Self, Invalid> {
        let cable = Cable::new(load, 0, (p.link[0].rate, p.link[0].gap_bytes), MAC)?;
        let device = Intel::new(&p.nic[0], Registers::new(MAC, LocalPages::new(SHARED)));
        let port = Box::new(Port::new(p, 0, device, cable));
        let buffer = if load.sizes.range().1 > LARGE_FRAME { LARGE_BUFFER } else { BUFFER };
        let ram = Ram(vec![0; (BUFFERS + u64::from(ring) * buffer) as usize]);
        let mut as_it_is = p.clone();
        as_it_is.nic[0].interface = Interface::I8254x;
        let mut slot = Slot::new(&as_it_is, &as_it_is.port(0), port, ram);
        for i in 0..u64::from(ring) {
            slot.guest.write(RX_RING + i * DESCRIPTOR, &(BUFFERS + i * buffer).to_le_bytes());
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
            slot.write(Place { bar: 0, offset }, &value.to_le_bytes());
        }
        slot.config.write(0x10, &(BAR as u32).to_le_bytes());
        slot.config.write(4, &[2]);
        let mut cards = vec![DmaEngine::new(p, 0, 0..1)];
        slot.nic.store(Ps::ZERO, tail(reg::RDT, ring - 1), &mut cards[0]);
        let sink = Sink::new(load.recognition, load.timestamp_offset);
        let books = Books::new(1, 1, BookSettings { forwards, copies: false, sink, classes: DropClasses::Wiretime });
        let mut machine = Machine::new(p, 1, RefCell::new(Nics { slots: vec![slot], cards, books }));
        machine.find_places(true);
        Ok(Self { machine, ring, forwards, next: 0, free: ring - 1, buffer })
    }

    /// The port.
    pub fn port(&self) -> RefMut<'_, Slot<Ram>> {
        RefMut::map(self.machine.nics.borrow_mut(), |nics| &mut nics.slots[0])
    }

    /// The books.
    pub fn books(&self) -> RefMut<'_, Books> {
        RefMut::map(self.machine.nics.borrow_mut(), |nics| &mut nics.books)
    }

    /// Packets leave from `start` to `end`; those are the cohort.
    pub fn offer(&mut self, start: Ps, end: Ps) {
        let Nics { slots, books, .. } = &mut *self.machine.nics.borrow_mut();
        books.cohort = start..end;
        slots[0].nic.start_traffic(start, books);
        slots[0].nic.stop_traffic(end);
    }

    /// Where the descriptor is that comes next.
    #[must_use]
    pub fn next_descriptor(&self) -> u64 {
        RX_RING + u64::from(self.next) * DESCRIPTOR
    }

    /// The bytes of `burst` packets at most that are there change hands, and go where they are sent from; where their
    /// descriptors are, and their buffers. It takes no time.
    pub fn take(&mut self, burst: u32) -> Vec<(u64, u64)> {
        let mut taken = Vec::new();
        while (taken.len() as u32) < burst {
            let at = self.next_descriptor();
            let ram = &mut self.machine.nics.get_mut().slots[0].guest;
            let mut d = [0; 16];
            ram.read(at, &mut d);
            if d[12] & 1 == 0 {
                break;
            }
            ram.write(at + 12, &[0]);
            if self.forwards {
                let mut t = [0; 16];
                t[..10].copy_from_slice(&d[..10]);
                t[11] = 1 | 2 | 8;
                ram.write(at - RX_RING + TX_RING, &t);
            }
            taken.push((at, u64::from_le_bytes(std::array::from_fn(|i| d[i]))));
            self.next = (self.next + 1) % self.ring;
        }
        self.free = (self.free + taken.len() as u32) % self.ring;
        taken
    }

    /// The stores that hand over what has been taken: to be sent, and buffers back.
    #[must_use]
    pub fn tails(&self) -> Vec<Store> {
        let sent = self.forwards.then(|| tail(reg::TDT, self.next));
        sent.into_iter().chain([tail(reg::RDT, self.free)]).collect()
    }

    /// The host looks at its ring at `now` and takes `burst` packets at most; returns how many.
    pub fn poll(&mut self, now: Ps, burst: u32) -> u32 {
        let from = self.next_descriptor();
        let taken = self.take(burst).len() as u32;
        // It looks once more, unless it has enough.
        let nics = &mut *self.machine.nics.borrow_mut();
        let polled = nics.slots[0].nic.polled();
        let size = u64::from(self.ring) * DESCRIPTOR;
        for look in 0..taken + u32::from(taken < burst) {
            let offset = (from - RX_RING + u64::from(look) * DESCRIPTOR) % size;
            for ring in &polled {
                nics.polls(&mut self.machine.memory, (0, 0), ring, offset, now);
            }
        }
        let Nics { slots, cards, books } = nics;
        if taken > 0 {
            self.tails().into_iter().for_each(|store| {
                slots[0].nic.store(now, store, &mut cards[0]);
            });
            if self.forwards {
                books.bursts_end(0, now);
            }
        }
        taken
    }

    /// Devices up to `now`, and what they have written by then.
    pub fn advance(&mut self, now: Ps) {
        self.machine.advance(now, false);
        self.machine.apply_writes(now);
        self.machine.reached(now);
    }

    /// A core touches the packet that is taken next.
    pub fn touch(&mut self, now: Cycles) {
        self.machine.memory.load(0, BUFFERS + u64::from(self.next) * self.buffer, 0, now);
    }

    /// Runs until `end`, the host answering as soon as it can see something.
    pub fn run(&mut self, end: Ps) {
        loop {
            let (event, write) = (self.machine.next_event().unwrap_or(Ps::MAX), self.machine.next_write());
            let t = event.min(write);
            if t >= end {
                return;
            }
            self.machine.reached(t);
            if write <= event {
                self.machine.apply_writes(write);
                self.poll(write, u32::MAX);
            } else {
                self.machine.advance(event + Ps(1), false);
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
pub fn measure(p: &Platform, load: &Load, packets: u64, ring: u32, forwards: bool) -> Result<Outcome, Invalid> {
    Ok(measure_with(Host::new(p, load, ring, forwards)?, load, packets))
}

/// The same with this host, which nothing has been sent to.
#[must_use]
pub fn measure_with(mut host: Host, load: &Load, packets: u64) -> Outcome {
    let mean = load.sizes.mean();
    let duration = Ps((packets as f64 * mean * 8e12 / load.rate.bits_per_second() as f64) as u64);
    host.run(QUIET);
    host.offer(QUIET, QUIET + duration);
    host.run(Ps::MAX);
    let nics = host.machine.nics.borrow();
    let (port, books) = (&nics.slots[0].nic, &nics.books);
    let (stats, mut violations) = (nics.stats(0, 1), port.audit(books));
    let counts = books.counts(Which::Cohort);
    let accepted = (counts.offered - counts.dma_drop - counts.core_drop).max(1);
    let bytes = accepted as f64 * mean;
    let sink = &books.sink.latencies;
    violations.extend(books.ledger.violations());
    Outcome {
        packets: counts.offered,
        dma_drops: counts.dma_drop,
        core_drops: counts.core_drop,
        forwarded: counts.forwarded,
        seconds: duration.seconds(),
        fifo_sojourn_ns: stats.receive.fifo_level_ps as f64 / bytes / 1000.0,
        fifo_peak_bytes: stats.receive.fifo_peak,
        latency_mean_ns: sink.mean() / 1000.0,
        latency_max_ns: sink.max().as_f64() / 1000.0,
        hops: books.journeys.hops(),
        violations,
    }
}
