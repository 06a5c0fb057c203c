//! A whole machine as data: every parameter with its unit and range, declared once.
//!
//! The JSON Schema generated from these types is what the command line checks `--set` and platform files against.
//! Values and their sources are in `platforms/*.toml`.

mod check;
mod core;
mod io;
mod memory;
mod mlx5;
mod qdma;

pub use self::core::{ClassTiming, Core, CoreKind, Direction, DispatchLimits, Predictor, Timing, Tlb, Unit, Units};
pub use io::{Bus, CardSlot, Interface, Io, IoPath, Iommu, Link, Nic, Pcie, Walks};
pub use memory::{
    Beyond, CacheIndex, DeviceReads, Dram, Inclusion, Level2, Mapping, PagePolicy, Prefetcher, PrefetcherKind,
    PrivateCache, Refresh, Replacement, SharedCache, Stash, WriteStreaming,
};
pub use mlx5::Mlx5;
pub use qdma::{Qdma, UserLogic};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wiretime_base::{Bytes, Duration, Frequency, Ps};

/// Most ports of a machine.
pub const PORTS_MAX: usize = 4;

/// A machine: server, NIC and link.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// Name that `--platform` takes.
    pub name: String,
    /// What machine this is, in one line.
    pub description: String,
    /// The processor cores.
    pub core: Core,
    /// Level-1 instruction cache of each core.
    pub l1i: PrivateCache,
    /// Level-1 data cache of each core.
    pub l1d: PrivateCache,
    /// Level-2 cache of each core.
    pub l2: Level2,
    /// What long runs of stores do.
    pub write_streaming: WriteStreaming,
    /// Last-level (system-level) cache, shared by all cores and by DMA.
    pub llc: SharedCache,
    /// Main memory.
    pub dram: Dram,
    /// Cores' accesses to devices.
    pub io: Io,
    /// PCIe; in force in slots whose `path` is `pcie`.
    pub pcie: Pcie,
    /// The I/O bus; in force in slots whose `path` is `bus`.
    pub bus: Bus,
    /// Translation of device addresses.
    pub iommu: Iommu,
    /// Where cards can be plugged in.
    pub slot: Vec<CardSlot>,
    /// The NICs: cards.
    pub nic: Vec<Nic>,
    /// The Ethernet links, one a port, in the order of cards and their ports.
    pub link: Vec<Link>,
    /// What belongs to no component.
    pub system: System,
}

/// CPUs that QEMU can be, by its names. All have the instructions that the decoder knows: none has SVE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GuestCpu {
    /// Neoverse N1 (v8.2).
    NeoverseN1,
    /// Cortex-A76 (v8.2).
    CortexA76,
}

/// What belongs to no component.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// What the guest takes its cores for: which instructions there are, not how long they take.
    pub cpu: GuestCpu,
    /// Cores of the guest.
    #[schemars(range(min = 1, max = 64), extend("unit" = "cores"))]
    pub cores: u32,
    /// Guest memory.
    pub memory: Bytes,
    /// The guest's counter.
    pub counter_frequency: Frequency,
    /// Time of one instruction while the guest boots without timing.
    pub boot_instruction_time: Duration,
    /// Window in which cores take turns under full timing; 0: the lookahead. A longer one is faster with many cores, and
    /// the result says how late devices then saw what cores did.
    pub quantum: Duration,
}

/// A port of the machine: the card that it is of, and the link that is plugged into it.
#[derive(Clone, Copy, Debug)]
pub struct PortOf<'a> {
    /// Among all ports.
    pub index: usize,
    /// Number of the card.
    pub card: usize,
    /// The card.
    pub nic: &'a Nic,
    /// The link.
    pub link: &'a Link,
}

impl Platform {
    /// All ports, in order.
    pub fn ports(&self) -> impl Iterator<Item = PortOf<'_>> {
        let cards = self.nic.iter().enumerate();
        let ports = cards.flat_map(|(card, nic)| (0..nic.ports).map(move |_| (card, nic)));
        ports.zip(&self.link).enumerate().map(|(index, ((card, nic), link))| PortOf { index, card, nic, link })
    }

    /// Port `index`.
    ///
    /// # Panics
    /// Where there is none: a machine that has been checked has as many links as ports.
    #[must_use]
    pub fn port(&self, index: usize) -> PortOf<'_> {
        self.ports().nth(index).expect("one of the machine's ports")
    }

    /// One way through a slot.
    #[must_use]
    pub fn path_latency(&self, slot: &CardSlot) -> Ps {
        match slot.path {
            IoPath::Pcie => self.pcie.latency.ps(),
            IoPath::Bus => self.bus.latency.ps(),
        }
    }

    /// One way between a core's store leaving and the NIC: nothing that a core does reaches the NIC sooner.
    #[must_use]
    pub fn lookahead(&self) -> Ps {
        let nearest = self.slot.iter().map(|slot| self.path_latency(slot)).min().unwrap_or_default();
        self.io.mmio_write_latency.ps() + nearest
    }

    /// The window in force.
    #[must_use]
    pub fn quantum(&self) -> Ps {
        match self.system.quantum.ps() {
            Ps::ZERO => self.lookahead(),
            ps => ps,
        }
    }
}
