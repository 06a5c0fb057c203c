//! A whole machine as data: every parameter with its unit and range, declared once.
//!
//! The JSON Schema generated from these types is what the command line checks `--set` and platform files against.
//! Values and their sources are in `platforms/*.toml`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wiretime_base::{BitRate, Bytes, Duration, Frequency};

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
    /// Level-2 cache of each core; includes its L1D.
    pub l2: PrivateCache,
    /// Last-level (system-level) cache, shared by all cores and by DMA.
    pub llc: SharedCache,
    /// Main memory.
    pub dram: Dram,
    /// The link between root complex and NIC.
    pub pcie: Pcie,
    /// The network interface.
    pub nic: Nic,
    /// The Ethernet link.
    pub link: Link,
    /// What belongs to no component.
    pub system: System,
}

/// An out-of-order core.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Clock of core, L1 and L2.
    pub frequency: Frequency,
    /// Instructions renamed and dispatched a cycle.
    #[schemars(range(min = 1, max = 16), extend("unit" = "instructions/cycle"))]
    pub dispatch_width: u32,
    /// Instructions committed a cycle.
    #[schemars(range(min = 1, max = 16), extend("unit" = "instructions/cycle"))]
    pub commit_width: u32,
    /// Reorder buffer.
    #[schemars(range(min = 4, max = 4096), extend("unit" = "instructions"))]
    pub rob_entries: u32,
    /// Loads in flight.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "loads"))]
    pub load_queue_entries: u32,
    /// Stores in flight, those waiting to leave the store buffer included.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "stores"))]
    pub store_queue_entries: u32,
    /// From the resolution of a mispredicted branch to the dispatch of the right path.
    #[schemars(range(min = 0, max = 100), extend("unit" = "cycles"))]
    pub mispredict_penalty: u32,
    /// From a store's data to a load that it forwards to.
    #[schemars(range(min = 1, max = 100), extend("unit" = "cycles"))]
    pub store_forward_latency: u32,
    /// Exception entry or return: what a pipeline flush costs beyond the drain.
    #[schemars(range(min = 0, max = 1000), extend("unit" = "cycles"))]
    pub exception_penalty: u32,
    /// Result latencies by class of instruction.
    pub latency: Latency,
    /// Branch prediction.
    pub predictor: Predictor,
}

macro_rules! latency {
    ($($(#[$doc:meta])* $field:ident),+ $(,)?) => {
        /// Cycles from issue to result. Loads take the caches' latencies.
        #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct Latency {
            $($(#[$doc])* #[schemars(range(min = 0, max = 200), extend("unit" = "cycles"))] pub $field: u32,)+
        }
    };
}
latency! {
    /// Integer add, logic, move, select; branches.
    alu,
    /// With a shifted or extended operand.
    alu_shift,
    /// 32-bit multiply.
    mul,
    /// 64-bit, long or high multiply.
    mul_wide,
    /// 32-bit divide.
    div,
    /// 64-bit divide.
    div_wide,
    /// CRC32.
    crc,
    /// Floating-point move, compare, convert.
    fp_move,
    /// Floating-point add.
    fp_add,
    /// Floating-point multiply.
    fp_mul,
    /// Floating-point multiply-add.
    fp_fma,
    /// Floating-point divide, square root.
    fp_div,
    /// Vector integer and logic.
    simd,
    /// Vector multiply.
    simd_mul,
    /// Vector permute, reduce, complex shifts.
    simd_permute,
    /// Integer to vector register or back.
    simd_transfer,
    /// AES, SHA, polynomial multiply.
    crypto,
    /// Added to a vector load beyond the cache's latency.
    load_vector_extra,
    /// Added to an atomic beyond getting the line.
    atomic,
    /// Pointer authentication.
    auth,
    /// System register read.
    system_read,
    /// System register write, after everything before it.
    system_write,
    /// Cache and TLB maintenance.
    maintenance,
}

/// Branch predictor: gshare for directions, one table of targets, a return stack.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Predictor {
    /// Two-bit counters; a power of two.
    #[schemars(range(min = 16, max = 16_777_216), extend("unit" = "entries", "power_of_two" = true))]
    pub entries: u32,
    /// Global history.
    #[schemars(range(min = 0, max = 32), extend("unit" = "branches"))]
    pub history: u32,
    /// Targets of taken branches; a power of two.
    #[schemars(range(min = 16, max = 16_777_216), extend("unit" = "entries", "power_of_two" = true))]
    pub btb_entries: u32,
    /// A taken direct branch whose target is not in the BTB: redirect at decode.
    #[schemars(range(min = 0, max = 100), extend("unit" = "cycles"))]
    pub btb_miss_penalty: u32,
    /// Return stack.
    #[schemars(range(min = 1, max = 256), extend("unit" = "entries"))]
    pub return_stack: u32,
}

/// A cache of one core.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrivateCache {
    /// Capacity: a power-of-two number of sets of 64-byte lines.
    pub size: Bytes,
    /// Associativity.
    #[schemars(range(min = 1, max = 64), extend("unit" = "ways"))]
    pub ways: u32,
    /// Load-to-use latency of a hit.
    #[schemars(range(min = 1, max = 1000), extend("unit" = "cycles"))]
    pub latency: u32,
    /// Misses in flight.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "misses"))]
    pub mshrs: u32,
}

/// The shared cache.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedCache {
    /// Capacity: a power-of-two number of sets of 64-byte lines.
    pub size: Bytes,
    /// Associativity.
    #[schemars(range(min = 1, max = 64), extend("unit" = "ways"))]
    pub ways: u32,
    /// From an L2 miss to the line's arrival in the core, on a hit.
    pub latency: Duration,
    /// Ways in which inbound DMA writes allocate (direct cache access); 0 sends them to memory.
    #[schemars(range(min = 0, max = 64), extend("unit" = "ways"))]
    pub dca_ways: u32,
    /// Added when another core's private cache must supply or give up the line.
    pub snoop_latency: Duration,
}

/// Main memory: channels with a fixed latency and a bus each.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dram {
    /// Channels, interleaved by line; a power of two.
    #[schemars(range(min = 1, max = 64), extend("unit" = "channels", "power_of_two" = true))]
    pub channels: u32,
    /// From an LLC miss to the line, on an idle channel.
    pub latency: Duration,
    /// Peak rate of one channel's data bus.
    pub bandwidth: BitRate,
}

/// The PCIe link and the root complex behind it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pcie {
    /// Rate of one direction after line coding.
    pub rate: BitRate,
    /// Largest payload of a TLP (MPS); a power of two.
    #[schemars(range(min = 128, max = 4096), extend("unit" = "B", "power_of_two" = true))]
    pub max_payload: u32,
    /// Largest read request (MRRS); a power of two.
    #[schemars(range(min = 128, max = 4096), extend("unit" = "B", "power_of_two" = true))]
    pub max_read_request: u32,
    /// Header, sequence number, LCRC and framing of a TLP.
    #[schemars(range(min = 12, max = 40), extend("unit" = "B"))]
    pub tlp_overhead: u32,
    /// Share of the rate that data-link packets take.
    #[schemars(range(min = 0, max = 50), extend("unit" = "%"))]
    pub dllp_percent: u32,
    /// One way through link, switch logic and root complex.
    pub latency: Duration,
    /// Read requests in flight (tags).
    #[schemars(range(min = 1, max = 1024), extend("unit" = "requests"))]
    pub tags: u32,
}

/// The NIC's resources; its function is that of an Intel 82540EM.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// Receive FIFO.
    pub rx_fifo: Bytes,
    /// Transmit FIFO.
    pub tx_fifo: Bytes,
    /// Descriptors that the NIC holds for a ring.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "descriptors"))]
    pub descriptor_cache: u32,
    /// Fetches more descriptors when it holds fewer than this.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "descriptors"))]
    pub descriptor_prefetch: u32,
    /// Received descriptors written back together while packets wait; at once when none does.
    #[schemars(range(min = 1, max = 64), extend("unit" = "descriptors"))]
    pub descriptor_write_back: u32,
    /// Fixed processing time of a packet from the FIFO to its DMA, and from its DMA to the FIFO.
    pub packet_latency: Duration,
}

/// The Ethernet link.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Line rate.
    pub rate: BitRate,
    /// Preamble, start-of-frame delimiter and inter-packet gap.
    #[schemars(range(min = 0, max = 64), extend("unit" = "B"))]
    pub gap_bytes: u32,
    /// Propagation from generator to NIC, and back.
    pub latency: Duration,
}

/// What belongs to no component.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Cores of the guest.
    #[schemars(range(min = 1, max = 64), extend("unit" = "cores"))]
    pub cores: u32,
    /// Guest memory.
    pub memory: Bytes,
    /// The guest's counter (CNTFRQ_EL0).
    pub counter_frequency: Frequency,
    /// Time of one instruction while the guest boots without timing.
    pub boot_instruction_time: Duration,
    /// Window in which cores take turns under full timing; at most the latency of a posted write to the NIC.
    pub quantum: Duration,
}

impl Platform {
    /// Checks what a schema cannot say.
    ///
    /// # Errors
    /// Key, value and rule.
    pub fn check(&self) -> Result<(), String> {
        for (name, c) in [("l1i", &self.l1i), ("l1d", &self.l1d), ("l2", &self.l2)] {
            geometry(name, c.size, c.ways)?;
        }
        geometry("llc", self.llc.size, self.llc.ways)?;
        let rule = |ok: bool, text: String| if ok { Ok(()) } else { Err(text) };
        rule(
            self.llc.dca_ways <= self.llc.ways,
            format!("llc.dca_ways is {}: at most llc.ways, {}", self.llc.dca_ways, self.llc.ways),
        )?;
        rule(
            self.l2.size >= self.l1d.size,
            format!("l2.size is {}: it includes the L1D, so at least l1d.size, {}", self.l2.size, self.l1d.size),
        )?;
        for (name, value) in [
            ("core.predictor.entries", self.core.predictor.entries),
            ("core.predictor.btb_entries", self.core.predictor.btb_entries),
            ("dram.channels", self.dram.channels),
            ("pcie.max_payload", self.pcie.max_payload),
            ("pcie.max_read_request", self.pcie.max_read_request),
        ] {
            rule(value.is_power_of_two(), format!("{name} is {value}: must be a power of two"))?;
        }
        rule(
            self.nic.descriptor_prefetch <= self.nic.descriptor_cache,
            format!(
                "nic.descriptor_prefetch is {}: at most nic.descriptor_cache, {}",
                self.nic.descriptor_prefetch, self.nic.descriptor_cache
            ),
        )?;
        for (name, size, least) in
            [("nic.rx_fifo", self.nic.rx_fifo, 16 << 10), ("nic.tx_fifo", self.nic.tx_fifo, 16 << 10)]
        {
            rule(size.bytes() >= least, format!("{name} is {size}: at least 16KiB, the longest frame"))?;
        }
        let lookahead = self.pcie.latency;
        rule(
            self.system.quantum.ps() > 0 && self.system.quantum <= lookahead,
            format!("system.quantum is {}: above 0 and at most pcie.latency, {lookahead}", self.system.quantum),
        )?;
        let ns = self.system.boot_instruction_time.ps();
        rule(
            ns >= 10,
            format!("system.boot_instruction_time is {}: at least 10ps", self.system.boot_instruction_time),
        )?;
        rule(
            self.system.memory.bytes() >= 128 << 20 && self.system.memory.bytes() % (2 << 20) == 0,
            format!("system.memory is {}: at least 128MiB, in steps of 2MiB", self.system.memory),
        )
    }
}

fn geometry(name: &str, size: Bytes, ways: u32) -> Result<(), String> {
    let sets = size.bytes() / (64 * u64::from(ways.max(1)));
    if ways == 0 || sets == 0 || !sets.is_power_of_two() || sets * 64 * u64::from(ways) != size.bytes() {
        return Err(format!(
            "{name}.size is {size} with {name}.ways = {ways}: needs a power-of-two number of sets of 64-byte lines"
        ));
    }
    Ok(())
}
