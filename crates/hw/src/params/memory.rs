//! Parameters of caches and DRAM.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wiretime_base::{Bytes, Duration, Ps};

/// Which line has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The least recently used.
    Lru,
    /// A pseudo-random one (seeded, deterministic).
    Random,
    /// Tree pseudo-LRU.
    PseudoLru,
    /// Re-reference interval prediction with two bits (Jaleel and others, 2010).
    Rrip,
}

/// What a cache holds of what the caches above it hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Inclusion {
    /// All: what leaves here leaves them.
    Inclusive,
    /// Filled on the way up, without obligation.
    NonInclusive,
    /// Filled by their victims; a hit by a core moves the line up.
    Exclusive,
    /// As gem5's classic caches with `mostly_excl`: a load takes a shared copy and leaves a dirty line here, clean victims
    /// are dropped, and clean copies elsewhere do not answer for memory. For the shared cache.
    MostlyExclusive,
}

/// Hardware prefetchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PrefetcherKind {
    /// None.
    Off,
    /// The lines behind a missed one.
    NextLine,
    /// Constant strides by instruction address.
    Stride,
    /// Ascending or descending streams inside 4 KiB pages.
    Stream,
    /// One offset for all accesses: the one by which most would have been in time lately (Michaud, HPCA 2016).
    BestOffset,
    /// The lines of a region that the same instruction's last visit to such a region touched (spatial memory streaming,
    /// Somogyi et al., ISCA 2006).
    Spatial,
}

/// A hardware prefetcher, trained by the misses of its cache and the first use of what was prefetched.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prefetcher {
    /// Kind.
    pub kind: PrefetcherKind,
    /// Lines fetched for one trigger.
    #[schemars(range(min = 1, max = 64), extend("unit" = "lines"))]
    pub degree: u32,
    /// How far ahead of the trigger the last of them may be; of a best offset the largest that is tried; of a spatial one the
    /// size of a region, rounded up to a power of two, at most a page.
    #[schemars(range(min = 1, max = 256), extend("unit" = "lines"))]
    pub distance: u32,
    /// What it remembers: at most 256 streams, or instructions' strides, requests that have been served, instructions' patterns;
    /// 0: as many as is usual of its kind (16 streams, 256 strides or requests, 4096 patterns).
    #[schemars(range(min = 0, max = 65536), extend("unit" = "entries"))]
    pub entries: u32,
    /// Repetitions before a stream or a stride is believed.
    #[schemars(range(min = 1, max = 15), extend("unit" = "repetitions"))]
    pub confidence: u32,
    /// It fetches one line at a time, the nearest, while less than this share of what it fetched before has been used; 0: never.
    /// One that fetches a line at a time anyway goes on.
    #[schemars(range(min = 0, max = 100), extend("unit" = "percent"))]
    pub throttle_below: u32,
}

/// Which address chooses the set of a first-level cache. Tags are physical; what differs is only which lines of pages of
/// 4 KiB fall into one set, where a way is larger than such a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheIndex {
    /// The virtual one: the look-up need not wait for the translation.
    Virtual,
    /// The physical one.
    Physical,
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
    /// Which address chooses the set.
    pub index: CacheIndex,
    /// Load-to-use latency of a hit. For the L1I: cycles beyond pipelined fetch.
    #[schemars(range(min = 0, max = 1000), extend("unit" = "cycles"))]
    pub latency: u32,
    /// Misses in flight.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "misses"))]
    pub mshrs: u32,
    /// Replacement policy.
    pub replacement: Replacement,
    /// Hardware prefetchers: each sees the same misses.
    pub prefetcher: Vec<Prefetcher>,
}

/// The level-2 cache of one core.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Level2 {
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
    /// Replacement policy.
    pub replacement: Replacement,
    /// Hardware prefetchers: each sees the same misses.
    pub prefetcher: Vec<Prefetcher>,
    /// What it holds of the L1D: inclusive, or non-inclusive.
    pub inclusion: Inclusion,
    /// Banks, interleaved by line; a power of two.
    #[schemars(range(min = 1, max = 16), extend("unit" = "banks", "power_of_two" = true))]
    pub banks: u32,
    /// Cycles that a bank is taken by one line.
    #[schemars(range(min = 1, max = 100), extend("unit" = "cycles"))]
    pub interval: u32,
}

/// Write streaming (Arm's name): stores that go on overwriting whole lines which the L1D does not have no longer read them.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteStreaming {
    /// Bytes in a row after which lines are written to the L2; 0: never.
    pub after: Bytes,
    /// The same where instructions zero whole lines.
    pub zeroes_after: Bytes,
    /// Bytes after which they go to the last-level cache, past the L2; 0: never.
    pub llc_after: Bytes,
    /// Bytes after which they go to memory, past all caches; 0: never.
    pub memory_after: Bytes,
    /// Stores between two lines of a stream that may find theirs in the L1D; with more, the stream has ended.
    #[schemars(range(min = 0, max = 65_536), extend("unit" = "stores"))]
    pub patience: u32,
}

/// What a DMA write does that finds its share of the cache taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Beyond {
    /// It takes the place of the oldest line that a device has brought.
    Oldest,
    /// It goes to memory.
    Memory,
}

/// What of a device's writes is stashed: also put into the L2 of the core that polls its queue (CHI's stash hints).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stash {
    /// Nothing.
    None,
    /// Descriptors written back, and completions.
    Completions,
    /// Packets, too.
    All,
}

/// What a device's read does to a line that a core has for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceReads {
    /// The core keeps it shared, its data go to the shared cache: the next store asks for it again.
    Share,
    /// The core keeps it as it is, the device gets a snapshot (CHI's ReadOnce).
    Snapshot,
}

/// The shared cache.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedCache {
    /// Capacity: a number of sets of 64-byte lines, a power of two unless they are hashed.
    pub size: Bytes,
    /// Associativity.
    #[schemars(range(min = 1, max = 64), extend("unit" = "ways"))]
    pub ways: u32,
    /// Sets are chosen by a hash of the address; their number then need not be a power of two.
    pub hashed: bool,
    /// From an L2 miss to the line's arrival in the core, on a hit; with a mesh, the mean.
    pub latency: Duration,
    /// From a device's access, the I/O path behind it, to this cache's answer.
    pub device_latency: Duration,
    /// The same to the memory controller, of an access that no cache allocates or answers (see `dca_ways`).
    pub device_past_latency: Duration,
    /// Columns of the mesh that its banks and the cores are spread over; 0: all are as far from each other.
    #[schemars(range(min = 0, max = 32), extend("unit" = "tiles"))]
    pub mesh_columns: u32,
    /// Rows of it.
    #[schemars(range(min = 0, max = 32), extend("unit" = "tiles"))]
    pub mesh_rows: u32,
    /// One way from a tile to the next.
    pub mesh_hop: Duration,
    /// Banks, interleaved by line; a power of two.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "banks", "power_of_two" = true))]
    pub banks: u32,
    /// Time that a bank is taken by one line.
    pub bank_time: Duration,
    /// Time that a core's port to the interconnect is taken by one line.
    pub port_time: Duration,
    /// Time that the one crossbar into this cache, which all cores and devices share, is taken by a request without
    /// data; 0: it is never short.
    pub crossbar_request: Duration,
    /// The same by a line that is written or written back.
    pub crossbar_line: Duration,
    /// Devices reach this cache through one of a few lines, gem5's I/O cache: a write asks for its line first and brings
    /// it later; what is read from an exclusive cache is taken along and brought back. Costs the crossbar's time.
    pub io_cache: bool,
    /// Misses in flight, all banks together.
    #[schemars(range(min = 1, max = 4096), extend("unit" = "misses"))]
    pub mshrs: u32,
    /// Replacement policy.
    pub replacement: Replacement,
    /// What it holds of the cores' caches.
    pub inclusion: Inclusion,
    /// Ways in which inbound DMA writes allocate (direct cache access); 0 sends them to memory.
    #[schemars(range(min = 0, max = 64), extend("unit" = "ways"))]
    pub dca_ways: u32,
    /// Lines that inbound DMA writes may have in this cache at a time; 0: as many as their ways hold.
    #[schemars(range(min = 0, max = 16_777_216), extend("unit" = "lines"))]
    pub dca_lines: u32,
    /// What a DMA write does when they are all taken.
    pub dca_beyond: Beyond,
    /// What of their writes is put into the L2 of the core that polls the device's queue, too.
    pub stash: Stash,
    /// What a device's read does to a line that a core may write.
    pub device_reads: DeviceReads,
    /// Added when another core's private cache must supply or give up the line.
    pub snoop_latency: Duration,
}

/// What happens to a row after an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PagePolicy {
    /// It stays open until another row of its bank is wanted.
    Open,
    /// It is closed at once.
    Closed,
    /// It stays open for what follows soon (`page_timeout`).
    Timed,
}

/// What is refreshed at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Refresh {
    /// All banks of a rank.
    Rank,
    /// One bank, the others go on (LPDDR's per-bank refresh).
    Bank,
}

/// Where lines are that follow each other in one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// In different bank groups, so that streams keep the bus busy; rows choose banks and channels by a hash.
    GroupInterleaved,
    /// In one row of one bank until it ends; no hash (gem5's RoRaBaCoCh).
    RowContiguous,
}

/// Main memory. Timings by the names of JEDEC's standards.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dram {
    /// Channels; a power of two.
    #[schemars(range(min = 1, max = 64), extend("unit" = "channels", "power_of_two" = true))]
    pub channels: u32,
    /// Bytes before the next channel; a power of two.
    #[schemars(range(min = 64, max = 4096), extend("unit" = "B", "power_of_two" = true))]
    pub interleave: u32,
    /// Ranks of a channel; a power of two.
    #[schemars(range(min = 1, max = 8), extend("unit" = "ranks", "power_of_two" = true))]
    pub ranks: u32,
    /// Banks of a rank, all groups together; a power of two.
    #[schemars(range(min = 1, max = 128), extend("unit" = "banks", "power_of_two" = true))]
    pub banks: u32,
    /// Bank groups of a rank; a power of two.
    #[schemars(range(min = 1, max = 16), extend("unit" = "groups", "power_of_two" = true))]
    pub bank_groups: u32,
    /// Row of a bank over all chips of a rank.
    pub row_size: Bytes,
    /// Data bus of a channel.
    #[schemars(range(min = 8, max = 512), extend("unit" = "bits"))]
    pub bus_width: u32,
    /// Transfers on each wire of the data bus.
    #[schemars(range(min = 100, max = 20_000), extend("unit" = "MT/s"))]
    pub transfer_rate: u32,
    /// Read to its first data.
    pub t_cl: Duration,
    /// Write to its first data.
    pub t_cwl: Duration,
    /// Row to column.
    pub t_rcd: Duration,
    /// Precharge.
    pub t_rp: Duration,
    /// Row open at least.
    pub t_ras: Duration,
    /// Bursts of different groups of a rank; at least the burst itself.
    pub t_ccd_s: Duration,
    /// Reads of banks of one group.
    pub t_ccd_l: Duration,
    /// Writes to banks of one group.
    pub t_ccd_l_wr: Duration,
    /// Rows opened in different groups of a rank.
    pub t_rrd_s: Duration,
    /// Rows opened in one group.
    pub t_rrd_l: Duration,
    /// Read to precharge.
    pub t_rtp: Duration,
    /// Four rows opened in a rank: the fifth comes no earlier.
    pub t_faw: Duration,
    /// End of write data to precharge.
    pub t_wr: Duration,
    /// End of write data to a read in another group of the rank.
    pub t_wtr_s: Duration,
    /// End of write data to a read in the group.
    pub t_wtr_l: Duration,
    /// Data bus idle between a read's data and a write's.
    pub t_rtw: Duration,
    /// Data bus idle between data of two ranks.
    pub t_rtrs: Duration,
    /// What is refreshed at a time.
    pub refresh: Refresh,
    /// One refresh.
    pub t_rfc: Duration,
    /// Between refreshes of the same rank or bank.
    pub t_refi: Duration,
    /// Controller, interconnect and PHY, both ways.
    pub controller_latency: Duration,
    /// Writes that a channel's controller gathers before it drains them.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "lines"))]
    pub write_queue_entries: u32,
    /// Row policy.
    pub page_policy: PagePolicy,
    /// How long after its last access a row is closed, of a policy that is timed.
    pub page_timeout: Duration,
    /// Which bits of an address choose channel, bank and row.
    pub mapping: Mapping,
}

impl Dram {
    /// Time of a cache line on the data bus.
    #[must_use]
    pub fn burst(&self) -> wiretime_base::Ps {
        // 64 bytes in transfers of the bus width; MT/s are transfers a microsecond.
        let transfers = (crate::memory::LINE * 8).div_ceil(u64::from(self.bus_width));
        Ps((transfers * 1_000_000).div_ceil(u64::from(self.transfer_rate)))
    }
}
