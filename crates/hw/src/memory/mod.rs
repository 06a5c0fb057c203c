//! The memory system: private caches, the shared cache, DRAM, and the DMA that shares them.

mod cache;
mod dram;
mod hierarchy;

pub use dram::{Dram, DramStats};
pub use hierarchy::{MemoryStats, MemorySystem, PrivateStats, Requester};

/// Bytes of a cache line, everywhere.
pub const LINE: u64 = 64;

/// Guest memory as devices see it. Addresses outside are refused, never fatal.
pub trait GuestMemory {
    /// Copies from guest memory; false where any byte is outside it.
    fn read(&self, address: u64, data: &mut [u8]) -> bool;
    /// Copies into guest memory; false where any byte is outside it.
    fn write(&mut self, address: u64, data: &[u8]) -> bool;
}
