//! A device that only reads or writes: DMA latency and throughput of a platform, as pcie-bench measures them on hosts
//! (Neugebauer and others, SIGCOMM 2018).

use super::Io;
use crate::memory::{MemorySystem, LINE};
use crate::params::Platform;
use crate::requester::{DmaRequester, Moves, Purpose, Side};
use rand_pcg::rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;
use wiretime_base::{Clock, Cycles, Ps};

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
pub(crate) const PROBE: DmaRequester =
    DmaRequester { device: 0, purpose: Purpose { side: Side::Receive, queue: 0, moves: Moves::Payload } };

/// Where the device's accesses go: a window, of which it takes places as large as an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Bytes.
    pub bytes: u64,
    /// A core has read all of it before (pcie-bench: host-warm); else no cache has any of it (thrashed).
    pub warm: bool,
}

impl Window {
    /// pcie-bench's usual one: 8 KiB, which any cache holds.
    pub const USUAL: Self = Self { bytes: 8192, warm: true };
}

/// Accesses of a throughput measurement.
const COUNT: u64 = 20_000;
/// Accesses whose median is a latency, in places drawn with this seed.
const DRAWN: usize = 2001;
const SEED: u64 = 1;
/// Time for everything before to settle.
const QUIET: Ps = Ps::from_ms(1);

/// The machine with the window in its caches or not, and when it has come to rest.
fn prepared(p: &Platform, window: Window) -> (MemorySystem, Io, Ps) {
    let mut memory = MemorySystem::new(p, 1);
    let mut t = Cycles::ZERO;
    if window.warm {
        for line in 0..window.bytes / LINE {
            t = memory.load(0, line * LINE, 0, t).0;
        }
    }
    let rest = Clock::of(p.core.frequency).at(t) + QUIET;
    (memory, Io::new(p, &p.slot[0], 0..1), rest)
}

/// A write that caches see when it is there, as a machine makes them; when it has left, and when it is there.
fn write(io: &mut Io, memory: &mut MemorySystem, t: Ps, place: (u64, u64)) -> (Ps, Ps) {
    let (left, visible) = io.write(t, place, PROBE, memory);
    memory.dma_visible(place, visible, PROBE);
    (left, visible)
}

/// Time of one read or write of `bytes`, or of a write and a read of the same place behind it, with nothing else on the
/// link: the median over places of the window.
#[must_use]
pub fn latency(p: &Platform, access: Access, bytes: u64, window: Window) -> Ps {
    let (mut memory, mut io, mut t) = prepared(p, window);
    let places = (window.bytes / bytes.max(1)).max(1);
    let mut random = Pcg64::seed_from_u64(SEED);
    let mut taken: Vec<Ps> = (0..DRAWN)
        .map(|_| {
            let place = (random.next_u64() % places * bytes, bytes);
            let done = match access {
                Access::Read => io.read(t, place, PROBE, &mut memory),
                Access::Write => write(&mut io, &mut memory, t, place).1,
                Access::Both => {
                    let written = write(&mut io, &mut memory, t, place).0;
                    io.read(written, place, PROBE, &mut memory)
                }
            };
            let began = t;
            t = done + QUIET;
            done - began
        })
        .collect();
    *taken.select_nth_unstable(DRAWN / 2).1
}

/// Bits a second of payload, each direction, when the device has as much under way as tags and credits allow.
#[must_use]
pub fn throughput(p: &Platform, access: Access, bytes: u64) -> f64 {
    let (mut memory, mut io, begin) = prepared(p, Window::USUAL);
    let bytes = bytes.max(1);
    let places = (Window::USUAL.bytes / bytes).max(1);
    let mut last = begin;
    for i in 0..COUNT {
        let address = i % places * bytes;
        if access != Access::Write {
            last = last.max(io.read(begin, (address, bytes), PROBE, &mut memory));
        }
        if access != Access::Read {
            last = last.max(write(&mut io, &mut memory, begin, (address, bytes)).0);
        }
    }
    (COUNT * bytes * 8) as f64 * 1e12 / (last - begin).as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Walks;
    use crate::testing::platform;

    fn read(p: &Platform, bytes: u64, warm: bool) -> Ps {
        latency(p, Access::Read, 64, Window { bytes, warm })
    }

    #[test]
    fn memory_is_further_than_caches_and_a_walk_further_yet() {
        let mut p = platform();
        let warm = read(&p, 8192, true);
        assert!(read(&p, 8192, false) > warm + Ps::from_ns(20), "from DRAM");
        let both = latency(&p, Access::Both, 64, Window::USUAL);
        assert!(both > warm, "the read waits behind the write");
        let reach = u64::from(p.iommu.iotlb_entries) * p.iommu.page_size.bytes();
        let without = [reach, 4 * reach].map(|bytes| read(&p, bytes, true));
        p.iommu.enabled = true;
        p.iommu.walks = Walks::Timed;
        p.iommu.second_iotlb_entries = 0;
        assert_eq!(read(&p, reach, true), without[0], "all pages are in the IOTLB");
        assert_eq!(read(&p, 4 * reach, true), without[1] + p.iommu.walk_latency.ps(), "one page in four is");
    }
}
