//! Hardware models: cores, caches, DRAM, PCIe, NIC, wire and load generator.
//!
//! No model knows which engine drives it, nor QEMU, files or threads. Each module says what it leaves out.
#![forbid(unsafe_code)]

pub mod catalogue;
pub mod core;
pub mod dma;
pub mod io;
pub mod memory;
pub mod nic;
pub mod params;
pub mod pci;
pub mod wire;

#[cfg(test)]
mod testing {
    //! What unit tests share.

    /// The core's own platform.
    pub fn platform() -> crate::params::Platform {
        toml::from_str(include_str!("../../../platforms/neoverse-n1.toml")).unwrap()
    }
}
