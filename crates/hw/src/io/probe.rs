//! A device that only reads or writes: DMA latency and throughput of a platform, as pcie-bench measures them on hosts
//! (Neugebauer and others, SIGCOMM 2018).

use super::Io;
use crate::memory::MemorySystem;
use crate::params::Platform;
use crate::requester::{DmaRequester, Moves, Purpose, Side};
use wiretime_base::{Cycles, Ps};

/// What the device does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Both in turn.
    Both,
}

/// The device.
pub(super) const PROBE: DmaRequester =
    DmaRequester { device: 0, purpose: Purpose { side: Side::Receive, queue: 0, moves: Moves::Payload } };

/// Accesses of a throughput measurement.
const COUNT: u64 = 20_000;
/// A buffer that the caches hold: pcie-bench's host-warm window of 8 KiB.
const WINDOW: u64 = 8192;
/// Time for everything before to settle.
const QUIET: Ps = Ps::from_ms(1);

fn warm(p: &Platform) -> (MemorySystem, Io) {
    let mut memory = MemorySystem::new(p, 1);
    for line in 0..WINDOW / 64 {
        memory.load(0, line * 64, 0, Cycles::ZERO);
    }
    (memory, Io::new(p, &p.slot[0], 0..1))
}

/// Time of one read or write of `bytes`, the link idle and the data in a cache.
#[must_use]
pub fn latency(p: &Platform, access: Access, bytes: u64) -> Ps {
    let (mut memory, mut io) = warm(p);
    match access {
        Access::Read => io.read(QUIET, (0, bytes), PROBE, &mut memory) - QUIET,
        Access::Write => io.write(QUIET, (0, bytes), PROBE, &mut memory).1 - QUIET,
        Access::Both => {
            let written = io.write(QUIET, (0, bytes), PROBE, &mut memory).0;
            io.read(written, (0, bytes), PROBE, &mut memory) - QUIET
        }
    }
}

/// Bits a second of payload, each direction, when the device has as much under way as tags and credits allow.
#[must_use]
pub fn throughput(p: &Platform, access: Access, bytes: u64) -> f64 {
    let (mut memory, mut io) = warm(p);
    let bytes = bytes.max(1);
    let places = (WINDOW / bytes).max(1);
    let mut last = QUIET;
    for i in 0..COUNT {
        let address = i % places * bytes;
        if access != Access::Write {
            last = last.max(io.read(QUIET, (address, bytes), PROBE, &mut memory));
        }
        if access != Access::Read {
            last = last.max(io.write(QUIET, (address, bytes), PROBE, &mut memory).0);
        }
    }
    (COUNT * bytes * 8) as f64 * 1e12 / (last - QUIET).as_f64()
}
