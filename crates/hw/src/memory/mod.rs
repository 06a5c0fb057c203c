//! The memory system: private caches, the shared cache, DRAM, and the DMA that shares them.
//!
//! - `cache`, `mshr`, `prefetch`: parts of a cache; `dram`: main memory.
//! - `private`: L1I, L1D, L2 of each core; `shared`: LLC, coherence; `contention`: lines that cores fight for.
//! - `device`: DMA; `share`: how much of the LLC it may have; `users`: whose L2 it is stashed in.
//! - `object`: what lines hold; `probe`: loaded latency, measured.

mod cache;
mod contention;
mod crossbar;
mod device;
mod dram;
mod marks;
mod mesh;
mod mshr;
mod object;
mod prefetch;
mod private;
pub mod probe;
mod share;
mod shared;
mod streaming;
mod users;

pub use dram::{Dram, DramStats};
pub use object::{Object, ObjectStats, Objects};
pub use private::PrivateStats;
pub use shared::MemoryStats;
pub use users::QueueUsers;

use crate::params::{Platform, Stash};
use crate::requester::DmaRequester;
use private::Private;
use shared::LastLevel;
use wiretime_base::stats::StatGroup;
use wiretime_base::{Clock, Cycles, Ps};

/// Bytes of a cache line, everywhere.
pub const LINE: u64 = 64;

/// The lines that so many bytes lie in; of none, that where they would be.
pub(crate) fn lines(address: u64, bytes: u64) -> std::ops::RangeInclusive<u64> {
    address / LINE..=address.saturating_add(bytes.max(1) - 1) / LINE
}

/// Lines of the smallest page.
const PAGE_LINES: u64 = 64;

/// Where an access of a core goes.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// Where the data are.
    pub physical: u64,
    /// Where the program says that they are: caches may choose a set by it.
    pub virtual_: u64,
}

impl From<u64> for Address {
    /// The same in both.
    fn from(address: u64) -> Self {
        Self { physical: address, virtual_: address }
    }
}

impl Address {
    #[inline]
    fn line(self) -> u64 {
        self.physical / LINE
    }

    /// In a first-level cache that takes these bits of the virtual address.
    #[inline]
    fn place(self, bits: u64) -> u64 {
        cache::place(self.line(), self.virtual_ / LINE, bits)
    }
}

/// How far a request can lie behind its core's time: fetch runs ahead of dispatch by a queue.
pub(crate) const BEHIND: Ps = Ps::from_us(1);

/// Into how many ways of the LLC a device's write is put, of those that the platform gives to devices; 0: past the caches.
pub type DcaPolicy = fn(DmaRequester, usize) -> usize;

/// Where data came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Level {
    /// The L1.
    L1,
    /// The L2.
    L2,
    /// The LLC.
    Llc,
    /// Another core's cache.
    Snoop,
    /// DRAM.
    Dram,
}

impl Level {
    #[inline]
    fn of(n: u8) -> Self {
        match n {
            0 => Self::L1,
            1 => Self::L2,
            2 => Self::Llc,
            3 => Self::Snoop,
            _ => Self::Dram,
        }
    }
}

/// So many bits of a line's number that nearly always tell it from others: Fibonacci hashing (Knuth, The Art of Computer
/// Programming 3, section 6.4).
#[inline]
pub(crate) fn spread(line: u64, bits: u32) -> u64 {
    line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - bits)
}

/// All caches and DRAM of a machine.
///
/// Private caches work in core cycles, the LLC and DRAM in picoseconds. A miss puts the line's tag in place at once and
/// notes when its data arrives: later accesses wait for it, which is what an MSHR merge does. A full MSHR file delays
/// the miss.
pub struct MemorySystem {
    private: Vec<Private>,
    shared: LastLevel,
    clock: Clock,
    l1d_latency: Cycles,
    l2_latency: Cycles,
    l2_inclusive: bool,
    dca_policy: DcaPolicy,
    stash: Stash,
    /// Which core uses which queue of a device.
    pub users: QueueUsers,
    /// What lines hold.
    pub objects: Objects,
}

impl MemorySystem {
    /// As the platform says, for `cores` cores.
    #[must_use]
    pub fn new(p: &Platform, cores: usize) -> Self {
        Self {
            private: (0..cores).map(|_| Private::new(p)).collect(),
            shared: LastLevel::new(p, cores),
            clock: Clock::of(p.core.frequency),
            l1d_latency: p.l1d.latency.into(),
            l2_latency: p.l2.latency.into(),
            l2_inclusive: p.l2.inclusion == crate::params::Inclusion::Inclusive,
            dca_policy: |_, ways| ways,
            stash: p.llc.stash,
            users: QueueUsers::default(),
            objects: Objects::default(),
        }
    }

    /// Whose writes go to how many of the LLC's ways: all of them to the platform's, unless said otherwise here.
    pub fn set_dca_policy(&mut self, policy: DcaPolicy) {
        self.dca_policy = policy;
    }

    /// All cores and devices have reached `t`: bookings that none of them can reach any more are forgotten.
    pub fn reached(&mut self, t: Ps) {
        let t = t.saturating_sub(BEHIND);
        let cycle = self.clock.cycle_at_or_after(t);
        self.private.iter_mut().for_each(|p| p.reached(cycle, t));
        self.shared.reached(t);
    }

    /// Counters of core `i`'s caches.
    #[must_use]
    pub fn private_stats(&self, i: usize) -> &PrivateStats {
        &self.private[i].stats
    }

    /// See [`Private::disturbances`].
    #[inline]
    pub(crate) fn disturbances(&self, i: usize) -> u64 {
        self.private[i].disturbances()
    }

    /// What others do to these lines disturbs core `i`.
    pub(crate) fn watch(&mut self, i: usize, lines: &[u64]) {
        self.private[i].watch(lines);
    }

    /// Whether a core watches the line.
    pub(crate) fn is_watched(&self, line: u64) -> bool {
        self.private.iter().any(|p| p.watches(line))
    }

    /// Uses of core `i`'s first level.
    pub(crate) fn uses(&self, i: usize) -> [u32; 2] {
        self.private[i].uses()
    }

    /// Core `i` has used lines that rest in its first level, counted so; `uses`: of its L1I and its L1D.
    pub fn repeat(&mut self, i: usize, counted: &PrivateStats, uses: [u32; 2]) {
        let p = &mut self.private[i];
        p.stats = p.stats.plus(counted);
        p.repeat(uses, counted.l1_dcache_stores);
    }

    /// Counters of what is shared.
    #[must_use]
    pub fn stats(&self) -> &MemoryStats {
        &self.shared.stats
    }

    /// Counters of DRAM.
    #[must_use]
    pub fn dram_stats(&self) -> &DramStats {
        &self.shared.dram.stats
    }
}

/// Guest memory as devices see it. Addresses outside are refused, never fatal.
pub trait GuestMemory {
    /// Copies from guest memory; false where any byte is outside it.
    fn read(&self, address: u64, data: &mut [u8]) -> bool;
    /// Copies into guest memory; false where any byte is outside it.
    fn write(&mut self, address: u64, data: &[u8]) -> bool;
}
