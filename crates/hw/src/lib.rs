//! Hardware models: cores, caches, DRAM, PCIe, NIC, wire and load generator.
//!
//! No model knows which engine drives it, nor QEMU, files or threads. Each module says what it leaves out.
#![forbid(unsafe_code)]

pub mod core;
pub mod dma;
pub mod io;
pub mod machine;
pub mod memory;
pub mod nic;
pub mod params;
pub mod pci;
pub mod requester;
pub mod wire;

#[cfg(test)]
mod testing {
    //! What unit tests share.

    /// Main memory of that platform, of every grade.
    pub fn dram_grades() -> Vec<crate::params::Dram> {
        let base: toml::Table = include_str!("../../../platforms/neoverse-n1.toml").parse().unwrap();
        [
            include_str!("../../../platforms/dram/ddr4-2400.toml"),
            include_str!("../../../platforms/dram/ddr4-3200.toml"),
            include_str!("../../../platforms/dram/ddr5-4800.toml"),
            include_str!("../../../platforms/dram/lpddr5-6400.toml"),
        ]
        .map(|text| {
            let mut dram = base["dram"].as_table().unwrap().clone();
            dram.extend(text.parse::<toml::Table>().unwrap());
            dram.try_into().unwrap()
        })
        .into()
    }

    /// The core's own platform.
    pub fn platform() -> crate::params::Platform {
        let text = include_str!("../../../platforms/neoverse-n1.toml");
        let mut platform: crate::params::Platform = toml::from_str(text).unwrap();
        // Every slice of the cache as far as the others: times are exact.
        (platform.llc.mesh_columns, platform.llc.mesh_rows) = (0, 0);
        platform
    }
}
