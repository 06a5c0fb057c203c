//! Hardware models: cores, caches, DRAM, PCIe, NIC, wire and load generator.
//!
//! No model knows which engine drives it, nor QEMU, files or threads. Each module says what it leaves out.
#![forbid(unsafe_code)]

pub mod core;
pub mod dma;
pub mod memory;
pub mod nic;
pub mod params;
pub mod pci;
pub mod pcie;
pub mod wire;
