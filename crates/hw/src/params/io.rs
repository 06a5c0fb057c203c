//! Parameters of the way between cores, memory and NIC, and of the NIC itself.

use super::{Mlx5, Qdma};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wiretime_base::{BitRate, Bytes, Duration, Frequency};

/// What is between root complex and card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IoPath {
    /// A PCI Express link: table `pcie`.
    Pcie,
    /// A plain bus: table `bus`.
    Bus,
}

/// Where a card is plugged in: its own way to the root complex, which nobody else uses.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CardSlot {
    /// PCIe or bus.
    pub path: IoPath,
    /// Generation of PCIe: 1 and 2 with 8b/10b, 3 to 5 with 128b/130b, 6 with 242/256 flits.
    #[schemars(range(min = 1, max = 6), extend("unit" = "generation"))]
    pub generation: u32,
    /// Lanes of PCIe; a power of two.
    #[schemars(range(min = 1, max = 16), extend("unit" = "lanes", "power_of_two" = true))]
    pub lanes: u32,
}

/// Cores' accesses to devices.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Io {
    /// From a core's store buffer to the root complex, which then accepts the write (doorbell).
    pub mmio_write_latency: Duration,
    /// Added to a register read beyond the path's two ways.
    pub mmio_read_latency: Duration,
    /// Whether device stores to one line that wait in the store buffer go as one write.
    pub write_combining: bool,
}

/// PCIe links as the machine configures them, and the root complex behind them.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pcie {
    /// Largest payload of a TLP (MPS); a power of two.
    #[schemars(range(min = 128, max = 4096), extend("unit" = "B", "power_of_two" = true))]
    pub max_payload: u32,
    /// Largest read request (MRRS); a power of two.
    #[schemars(range(min = 128, max = 4096), extend("unit" = "B", "power_of_two" = true))]
    pub max_read_request: u32,
    /// Read completion boundary (RCB): where completions may be cut; a power of two.
    #[schemars(range(min = 64, max = 512), extend("unit" = "B", "power_of_two" = true))]
    pub read_completion_boundary: u32,
    /// Framing, sequence number, LCRC and header of a memory write.
    #[schemars(range(min = 12, max = 40), extend("unit" = "B"))]
    pub write_overhead: u32,
    /// The same of a read request.
    #[schemars(range(min = 12, max = 40), extend("unit" = "B"))]
    pub read_overhead: u32,
    /// The same of a completion.
    #[schemars(range(min = 12, max = 40), extend("unit" = "B"))]
    pub completion_overhead: u32,
    /// A data-link packet: acknowledgement or credit update.
    #[schemars(range(min = 0, max = 64), extend("unit" = "B"))]
    pub dllp_size: u32,
    /// Symbol times (a byte of each lane) after which an acknowledgement, and a credit update, are sent.
    #[schemars(range(min = 1, max = 65_536), extend("unit" = "symbol times"))]
    pub dllp_interval: u32,
    /// Share of the rate that skip ordered sets and periodic data-link packets take, whatever the traffic.
    #[schemars(range(min = 0, max = 50), extend("unit" = "%"))]
    pub idle_percent: u32,
    /// One way through link, PHYs and root complex.
    pub latency: Duration,
    /// Read requests in flight (tags).
    #[schemars(range(min = 1, max = 1024), extend("unit" = "requests"))]
    pub tags: u32,
    /// Posted header credits of the root complex: writes that it takes before memory has them.
    #[schemars(range(min = 1, max = 4096), extend("unit" = "TLPs"))]
    pub posted_headers: u32,
    /// Posted data credits, in units of 16 B.
    #[schemars(range(min = 8, max = 65_536), extend("unit" = "16 B"))]
    pub posted_data: u32,
    /// Non-posted header credits of the root complex: read requests that it takes before memory has answered.
    #[schemars(range(min = 1, max = 4096), extend("unit" = "TLPs"))]
    pub non_posted_headers: u32,
}

/// A plain I/O bus, as gem5 has it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bus {
    /// Bytes a cycle.
    #[schemars(range(min = 1, max = 256), extend("unit" = "B"))]
    pub width: u32,
    /// Clock.
    pub frequency: Frequency,
    /// Cycles of a line's header.
    #[schemars(range(min = 0, max = 64), extend("unit" = "cycles"))]
    pub header_cycles: u32,
    /// Whether both directions share the wires.
    pub half_duplex: bool,
    /// Whether read requests take header cycles of the write direction.
    pub requests_share: bool,
    /// One way.
    pub latency: Duration,
    /// Lines in flight.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "lines"))]
    pub outstanding: u32,
}

/// What a walk of the IOMMU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Walks {
    /// It takes `walk_latency`, all included, as measured.
    Timed,
    /// It reads the entries of a table of four levels from memory, one after another, and takes `walk_latency` beside.
    Read,
}

/// The I/O memory management unit.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Iommu {
    /// Whether device addresses are translated (timing only: addresses stay the same).
    pub enabled: bool,
    /// Translations kept next to the device (IOTLB, an SMMU's micro TLB), fully associative.
    #[schemars(range(min = 1, max = 65_536), extend("unit" = "entries"))]
    pub iotlb_entries: u32,
    /// Translations kept in a second level behind it (an SMMU's main TLB), 8 ways; below 8 or a multiple of 8; 0: there is
    /// none.
    #[schemars(range(min = 0, max = 65_536), extend("unit" = "entries"))]
    pub second_iotlb_entries: u32,
    /// Time of a look into the second level.
    pub second_iotlb_latency: Duration,
    /// Bytes that one translation of packet data covers; a power of two, at least 256B. DPDK's are as large as its huge
    /// pages, the kernel's 4KiB.
    pub page_size: Bytes,
    /// The same of descriptors, completions and records. A driver maps each ring by itself, in pages that fit it.
    pub ring_page_size: Bytes,
    /// What a walk does.
    pub walks: Walks,
    /// Time of a walk; where it reads its table, what it takes beside that.
    pub walk_latency: Duration,
    /// Entries of a table's upper levels kept (walk cache), for walks that read.
    #[schemars(range(min = 0, max = 4096), extend("unit" = "entries"))]
    pub table_cache_entries: u32,
    /// Walks at the same time.
    #[schemars(range(min = 1, max = 256), extend("unit" = "walks"))]
    pub walkers: u32,
}

/// Register interface and descriptors: what the guest's driver sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Interface {
    /// Intel 82540EM: one queue a direction, INTx.
    #[serde(rename = "8254x")]
    I8254x,
    /// Intel 82599: many queues, RSS, MSI-X.
    #[serde(rename = "82599")]
    I82599,
    /// Xilinx QDMA: up to 2048 queues of streams, MSI-X; table `nic.qdma`.
    #[serde(rename = "qdma")]
    Qdma,
    /// NVIDIA ConnectX-6 Dx: mlx5's drivers, MSI-X; table `nic.mlx5`.
    #[serde(rename = "connectx-6dx")]
    Connectx6Dx,
    /// NVIDIA ConnectX-7: the same drivers.
    #[serde(rename = "connectx-7")]
    Connectx7,
}

impl Interface {
    /// Whether mlx5's drivers have it.
    #[must_use]
    pub fn is_mlx5(self) -> bool {
        matches!(self, Self::Connectx6Dx | Self::Connectx7)
    }
}

/// A NIC, a card of one or several ports: its register interface and its resources. The same resources may be had with either
/// interface. Ports of a card share its slot and its DMA engine; all else each has for itself.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// Register interface.
    pub interface: Interface,
    /// Which of the slots it is in, from 0 on.
    #[schemars(range(min = 0, max = 3), extend("unit" = "number"))]
    pub slot: u32,
    /// Ports, each with a link of its own.
    #[schemars(range(min = 1, max = 4), extend("unit" = "ports"))]
    pub ports: u32,
    /// Receive FIFO.
    pub rx_fifo: Bytes,
    /// Transmit FIFO.
    pub tx_fifo: Bytes,
    /// Descriptors that the NIC holds for a ring.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "descriptors"))]
    pub descriptor_cache: u32,
    /// Fetches more descriptors when it holds fewer than this, unless the driver's PTHRESH says otherwise.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "descriptors"))]
    pub descriptor_prefetch: u32,
    /// Received descriptors written back together while packets wait, unless the driver's WTHRESH says otherwise.
    #[schemars(range(min = 1, max = 64), extend("unit" = "descriptors"))]
    pub descriptor_write_back: u32,
    /// Longest time that received descriptors wait for company when no packet follows; 0: they are written back at once.
    pub descriptor_write_back_timer: Duration,
    /// DMA reads under way, of descriptors or payload.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "transfers"))]
    pub dma_reads: u32,
    /// DMA writes under way that the link has not taken.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "transfers"))]
    pub dma_writes: u32,
    /// Fixed processing time of a packet from the FIFO to its DMA, and from its DMA to the FIFO.
    pub packet_latency: Duration,
    /// Packets whose payload is being read, at most; of an 8254x or 82599, descriptors.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "packets"))]
    pub tx_packets_in_flight: u32,
    /// What a QDMA has beyond; in force where `interface` is `qdma`, and needed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qdma: Option<Qdma>,
    /// What a ConnectX has beyond; in force where `interface` is one, and needed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mlx5: Option<Mlx5>,
}

/// The Ethernet link of a port.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Line rate.
    pub rate: BitRate,
    /// Preamble, start-of-frame delimiter and inter-packet gap.
    #[schemars(range(min = 0, max = 64), extend("unit" = "B"))]
    pub gap_bytes: u32,
    /// Propagation from one end to the other.
    pub latency: Duration,
}
