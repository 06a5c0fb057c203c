//! Poll-mode drivers: what they do with a device's rings, in memory and time.

pub mod intel;
pub mod mlx5;
pub mod qdma;

use crate::cost::CostModel;
use crate::cpu::{Cpu, Host};
use crate::memory::HostMemory;
use crate::pool::Pool;
use wiretime_base::{Invalid, Ps};
use wiretime_hw::params::Interface;

/// A buffer of a packet in software's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Its number in the pool.
    pub number: u32,
    /// Bytes in it.
    pub length: u32,
    /// The packet goes on in the next one.
    pub more: bool,
}

/// What a queue pair's driver works with.
pub struct Work<'a> {
    pub cpu: &'a mut Cpu,
    pub host: &'a mut Host,
    pub memory: &'a HostMemory,
    pub pool: &'a mut Pool,
    pub model: &'a CostModel,
}

impl Work<'_> {
    /// What devices have written for the core by its time is there.
    pub fn look(&mut self) {
        self.host.apply_writes_of(self.cpu.index, self.cpu.time());
    }

    /// The first lines of a buffer's record are read.
    pub fn read_record(&mut self, buffer: u32, lines: u32) {
        for line in 0..u64::from(lines) {
            self.cpu.load(self.host, touch::RECORD, self.pool.record(buffer) + 64 * line, false);
        }
    }

    /// The first lines of a buffer's record are written.
    pub fn write_record(&mut self, buffer: u32, lines: u32) {
        for line in 0..u64::from(lines) {
            self.cpu.store(self.host, self.pool.record(buffer) + 64 * line);
        }
    }

    /// A buffer goes back to its pool.
    pub fn release(&mut self, buffer: u32) {
        self.read_record(buffer, self.model.touches.released_lines);
        self.cpu.spend(self.model.cycles.release);
        self.pool.give(buffer);
    }

    /// Software's own note of an entry, eight to a line.
    pub fn note(&mut self, notes: u64, entry: u32) {
        if entry % 8 == 0 {
            self.cpu.store(self.host, notes + 8 * u64::from(entry));
        }
    }
}

/// Where accesses come from, for prefetchers that go by it.
pub mod touch {
    /// An entry of a ring, a status.
    pub const ENTRY: u64 = 0x100;
    /// The last entry of several that are looked at together.
    pub const LAST: u64 = 0x140;
    /// An entry that reports what has been sent.
    pub const REPORT: u64 = 0x180;
    /// A buffer's record.
    pub const RECORD: u64 = 0x200;
    /// Bytes of a packet.
    pub const PAYLOAD: u64 = 0x300;
}

/// The driver of one queue pair. Packets are taken and sent one by one, between a beginning and an end.
pub trait PollDriver {
    /// Fills the ring with buffers, before anything else.
    fn start(&mut self, w: &mut Work<'_>);
    /// It is about to look for packets.
    fn begin_receive(&mut self, w: &mut Work<'_>);
    /// Takes the next packet that has come, its buffers; whether there was one.
    fn receive(&mut self, w: &mut Work<'_>, burst: &mut Vec<Buffer>) -> bool;
    /// It has taken so many packets and looks for no more.
    fn end_receive(&mut self, w: &mut Work<'_>, packets: u32);
    /// It has looked and found nothing so many times more.
    fn polled_again(&self, cpu: &Cpu, host: &Host, count: u64);
    /// It is about to send packets.
    fn begin_transmit(&mut self, w: &mut Work<'_>);
    /// A packet's buffers go into the ring; whether there was room.
    fn send(&mut self, w: &mut Work<'_>, packet: &[Buffer]) -> bool;
    /// So many packets are in the ring.
    fn end_transmit(&mut self, w: &mut Work<'_>, packets: u32);
}

/// Where a queue pair's memory is, and its pool.
#[derive(Clone, Copy, Debug)]
pub struct Arena {
    /// From here on are its rings, and software's notes of their entries.
    pub rings: u64,
    /// Buffers of its pool.
    pub buffers: u64,
}

/// Bytes that a ring takes at most.
pub const RING_BYTES: u64 = 1 << 20;
/// Rings and notes of a queue pair.
pub const RINGS: u64 = 5;

impl Arena {
    /// Where one of them is. Each begins some lines on: were all aligned alike, they would meet in the same sets.
    #[must_use]
    pub fn ring(&self, n: u64) -> u64 {
        self.rings + n * RING_BYTES + n * 64 * 128
    }
}

/// Any of them.
pub enum Driver {
    /// Families with descriptors that are written back in place.
    Intel(intel::Pair),
    /// Three rings a queue pair.
    Qdma(qdma::Pair),
    /// Requests and completions.
    Mlx5(Box<mlx5::Pair>),
}

impl Driver {
    /// For a queue pair of a NIC of this interface.
    ///
    /// # Errors
    /// Where there is no driver for it here.
    pub fn new(
        interface: Interface,
        port: usize,
        queue: u16,
        arena: Arena,
        model: &CostModel,
    ) -> Result<Self, Invalid> {
        let intel = |family| Ok(Self::Intel(intel::Pair::new(family, port, queue, arena, model)));
        match interface {
            Interface::I8254x => intel(intel::Family::I8254x),
            Interface::I82599 => intel(intel::Family::I82599),
            Interface::Qdma => Ok(Self::Qdma(qdma::Pair::new(port, queue, arena, model)?)),
            Interface::Connectx6Dx | Interface::Connectx7 => {
                Ok(Self::Mlx5(Box::new(mlx5::Pair::new(port, queue, arena, model)?)))
            }
        }
    }
}

macro_rules! each {
    ($self:ident, $pair:ident => $then:expr) => {
        match $self {
            Driver::Intel($pair) => $then,
            Driver::Qdma($pair) => $then,
            Driver::Mlx5($pair) => $then,
        }
    };
}

impl PollDriver for Driver {
    fn start(&mut self, w: &mut Work<'_>) {
        each!(self, pair => pair.start(w));
    }
    #[inline]
    fn begin_receive(&mut self, w: &mut Work<'_>) {
        each!(self, pair => pair.begin_receive(w));
    }
    #[inline]
    fn receive(&mut self, w: &mut Work<'_>, burst: &mut Vec<Buffer>) -> bool {
        each!(self, pair => pair.receive(w, burst))
    }
    #[inline]
    fn end_receive(&mut self, w: &mut Work<'_>, packets: u32) {
        each!(self, pair => pair.end_receive(w, packets));
    }
    fn polled_again(&self, cpu: &Cpu, host: &Host, count: u64) {
        each!(self, pair => pair.polled_again(cpu, host, count));
    }
    #[inline]
    fn begin_transmit(&mut self, w: &mut Work<'_>) {
        each!(self, pair => pair.begin_transmit(w));
    }
    #[inline]
    fn send(&mut self, w: &mut Work<'_>, packet: &[Buffer]) -> bool {
        each!(self, pair => pair.send(w, packet))
    }
    #[inline]
    fn end_transmit(&mut self, w: &mut Work<'_>, packets: u32) {
        each!(self, pair => pair.end_transmit(w, packets));
    }
}

/// The name under which models have the driver of an interface: its own, or that of a family.
#[must_use]
pub fn name(interface: Interface) -> String {
    let its = if interface == Interface::Connectx7 { Interface::Connectx6Dx } else { interface };
    serde_json::to_value(its).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// What a driver does once for its device, which gets frames of so many bytes at most; `now` moves on as it does.
///
/// # Errors
/// Where the device cannot be what the model asks for.
pub fn set_up(
    (interface, port): (Interface, usize),
    (host, memory, now): (&mut Host, &HostMemory, &mut Ps),
    queues: &[(u16, Arena)],
    model: &CostModel,
    longest: u32,
) -> Result<(), Invalid> {
    match interface {
        Interface::I8254x => intel::set_up(intel::Family::I8254x, host, port, queues, model),
        Interface::I82599 => intel::set_up(intel::Family::I82599, host, port, queues, model),
        Interface::Qdma => qdma::set_up(host, port, queues, (model, longest)),
        Interface::Connectx6Dx | Interface::Connectx7 => {
            mlx5::set_up((host, memory, now), port, queues, (model, longest))
        }
    }
}
