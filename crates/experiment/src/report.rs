//! What a run leaves, as types: `result.json`, made from them, and its JSON Schema.
//!
//! The engine fills in [`RunResult`]; whoever started it adds what else the file holds ([`Report`]): the command line's
//! package has its models made from the schema of these types, and writes nothing else.

use crate::settings::{Role, RunSettings};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use wiretime_base::{Duration, Ps};
use wiretime_hw::core::{CoreStats, StallStats, TlbStats};
use wiretime_hw::io::IoStats;
use wiretime_hw::memory::{DramStats, MemoryStats, ObjectStats, PrivateStats};
use wiretime_hw::nic::{Counts, DriverStats, Hop, ReceiveStats, RxQueueStats, TransmitStats, TxQueueStats};
use wiretime_hw::params::Platform;
use wiretime_hw::wire::{FarStats, IperfReport, StoreStats};

/// A value and how often it came.
pub type Bucket = (u64, u64);

/// What `wiretime run --out DIR` writes to DIR/result.json: the same bytes for the same configuration, seed and versions, on
/// any host.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct Report {
    /// Version of this layout.
    #[schemars(extend("const" = 1))]
    pub schema_version: u32,
    /// What ran in the guest.
    pub app: Application,
    /// All that was set.
    pub configuration: Configuration,
    /// What everything was made of.
    pub versions: Versions,
    /// What the engine says.
    #[serde(flatten)]
    pub result: RunResult,
    /// What the program itself counted, where it says so.
    pub program: Option<BTreeMap<String, u64>>,
    /// Of an iperf3 run: rates of the payload in the measurement and in the steady state, counts of both sides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "IperfSummary")]
    pub iperf: Option<IperfSummary>,
    /// What the trace that was played holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TraceSummary")]
    pub trace: Option<TraceSummary>,
}

/// What ran in the guest.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// By its name here.
    pub name: String,
    /// As run in the guest.
    pub command: String,
    /// What the program does with packets.
    pub role: Role,
    /// What the guest's kernel was told beside what all are told.
    pub kernel_arguments: Vec<String>,
    /// Of software that is a model: what it does, as in the model's file, with what was asked for.
    pub policy: Vec<String>,
}

/// All that was set.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Every parameter of the machine, resolved.
    pub platform: Platform,
    /// Traffic, phases, seed.
    pub run: RunSettings,
}

/// What everything was made of.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Versions {
    /// This simulator.
    pub wiretime: String,
    /// QEMU.
    pub qemu: String,
    /// The guest's kernel.
    pub guest_kernel: String,
    /// Debian's packages, by what they are for.
    pub packages: BTreeMap<String, Vec<Package>>,
}

/// A package of Debian's.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Of the file.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    pub sha256: String,
}

/// The engine's part.
#[derive(Serialize, JsonSchema)]
pub struct RunResult {
    /// Frame bytes (destination MAC to FCS) of the cohort by the measurement's length.
    #[schemars(extend("unit" = "Gb/s"))]
    pub offered_gbps: f64,
    /// Of these, what came back; in a short overload more than what is sustained, since what FIFO and rings hold at the end is
    /// counted.
    #[schemars(extend("unit" = "Gb/s"))]
    pub forwarded_gbps: f64,
    /// The same in packets.
    #[schemars(extend("unit" = "Mpps"))]
    pub offered_mpps: f64,
    /// Of these, what came back.
    #[schemars(extend("unit" = "Mpps"))]
    pub forwarded_mpps: f64,
    /// Of the cohort.
    #[schemars(range(min = 0, max = 100), extend("unit" = "%"))]
    pub loss_percent: f64,
    /// Latency of the cohort, first bit out of the generator to last bit of the answer back; null where nothing came back.
    pub latency_ns: Option<Latency>,
    /// Filled buckets: highest latency in ns, packets.
    pub latency_histogram_ns: Vec<(f64, u64)>,
    /// The latencies in ps as HdrHistogram's compressed V2 format in base64.
    pub latency_hdr_ps: Option<String>,
    /// Latency of the cohort by hop, in order; the means add up to the mean latency.
    pub latency_hops_ns: Vec<Hop>,
    /// Packets told by hop, and packets that were not seen at every point.
    pub latency_hops_packets: [u64; 2],
    /// Packets that left the generator inside the measurement, followed to their end.
    pub cohort: Counts,
    /// All packets from the start of the load on.
    pub load: Counts,
    /// All packets, those included that found out whether the program polls.
    pub total: Counts,
    /// Empty in a sound run; a run with any fails.
    pub ledger_violations: Vec<String>,
    /// By port whose generator sent the packets.
    pub ports: Vec<PortResult>,
    /// Fill of FIFO and rings over the measurement.
    pub occupancy: Occupancy,
    /// Counters over the measurement.
    pub statistics: Option<Statistics>,
    /// With --interval: what the counters counted in each step.
    pub series: Option<Series>,
    /// What was executed.
    pub execution: Execution,
    /// How late cores saw DMA writes since the measurement began: up to a block or a window.
    pub poll_lateness_ns: Late,
    /// How late devices saw doorbells since then: zero unless system.quantum is beyond the lookahead.
    pub doorbell_lateness_ns: Late,
    /// What the guest reported.
    pub guest: GuestReport,
    /// What to know before these figures are used.
    pub warnings: Vec<String>,
}

/// Moments and quantiles of latencies; quantiles to three digits.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Exact.
    #[schemars(extend("unit" = "ns"))]
    pub mean: f64,
    /// Standard deviation.
    #[schemars(extend("unit" = "ns"))]
    pub deviation: f64,
    /// Half of the packets take no longer.
    #[schemars(extend("unit" = "ns"))]
    pub median: f64,
    /// 90 % of them.
    #[schemars(extend("unit" = "ns"))]
    pub p90: f64,
    /// 99 % of them.
    #[schemars(extend("unit" = "ns"))]
    pub p99: f64,
    /// 99.9 % of them.
    #[schemars(extend("unit" = "ns"))]
    pub p999: f64,
    /// 99.99 % of them.
    #[schemars(extend("unit" = "ns"))]
    pub p9999: f64,
    /// Exact.
    #[schemars(extend("unit" = "ns"))]
    pub max: f64,
}

/// What became of the packets of a port's generator.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortResult {
    /// As of the whole run.
    #[schemars(extend("unit" = "Gb/s"))]
    pub offered_gbps: f64,
    /// As of the whole run.
    #[schemars(extend("unit" = "Gb/s"))]
    pub forwarded_gbps: f64,
    /// As of the whole run.
    pub cohort: Counts,
    /// By receive queue that the program was asked to use.
    pub queues: Vec<QueueResult>,
    /// Refusals in the measurement by what was full at the one before and at this one: of RX FIFO, RX ring, TX ring.
    pub drop_transitions: Vec<DropTransition>,
    /// When the NIC last refused a packet, from the begin of the measurement; also behind its end, while its packets are followed.
    pub last_drop_ns: Option<f64>,
    /// Requests of a closed loop whose answer did not come in time, since the load began.
    pub given_up: u64,
    /// Requests to a key-value store since the load began.
    pub store: Option<StoreStats>,
    /// What the iperf3 client counted.
    pub iperf: Option<IperfReport>,
    /// The cohort by flow, where there are several.
    pub flows: Option<Vec<FlowRow>>,
}

/// Number of the flow, packets offered and answered, mean and longest latency in ns.
#[derive(Serialize, JsonSchema)]
pub struct FlowRow(pub FlowName, pub u64, pub u64, pub f64, pub f64);

/// Which flow.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub enum FlowName {
    /// Its number.
    Number(usize),
    /// All that are not told one by one: `others`.
    Others(&'static str),
}

/// What became of a queue's packets.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueResult {
    /// As of the whole run.
    pub cohort: Counts,
    /// Packets of a burst that the driver took, and how often.
    pub burst_sizes: Vec<Bucket>,
    /// Descriptors that the NIC had left when the driver posted more, and how often.
    pub available_at_replenish: Vec<Bucket>,
    /// As of the whole run.
    pub latency_ns: Option<Latency>,
}

/// What was full when packets were refused.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DropTransition {
    /// At the refusal before.
    pub before: String,
    /// At this one.
    pub at: String,
    /// How many.
    pub drops: u64,
}

/// Fill of FIFO and rings: a table a port, a row a point.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Occupancy {
    /// Between points.
    #[schemars(extend("unit" = "ns"))]
    pub interval_ns: f64,
    /// Names of the columns.
    pub columns: [&'static str; 4],
    /// By port.
    pub ports: Vec<Vec<[u64; 4]>>,
}

/// Counters over the measurement, or a step of it.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Statistics {
    /// How long.
    #[schemars(extend("unit" = "ps"))]
    pub time_ps: Ps,
    /// By core.
    pub cores: Vec<CoreStatistics>,
    /// LLC, directory and what devices move.
    pub memory: MemoryStats,
    /// What lines hold.
    pub objects: ObjectStats,
    /// DRAM.
    pub dram: DramStats,
    /// All ports together.
    pub receive: ReceiveStats,
    /// All ports together.
    pub transmit: TransmitStats,
    /// All ports together.
    pub io: IoStats,
    /// What passed between the guest and the far end of the wire, where that is another host or a TAP.
    pub far: FarStats,
    /// By port.
    pub ports: Vec<PortStatistics>,
}

/// A core's counters.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreStatistics {
    /// The pipeline's.
    pub core: CoreStats,
    /// Cycles by cause.
    pub stalls: StallStats,
    /// Address translation's.
    pub tlb: TlbStats,
    /// Its private caches'.
    pub caches: PrivateStats,
    /// What its time went to, as mpstat names it; told for programs on the kernel's network stack.
    pub processor_time: ProcessorTime,
}

/// Time of a core by kind.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // mpstat's names
pub struct ProcessorTime {
    pub user_ps: Ps,
    pub system_ps: Ps,
    pub softirq_ps: Ps,
    pub irq_ps: Ps,
    /// The rest.
    pub idle_ps: Ps,
}

/// A port's counters.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortStatistics {
    /// Receive path.
    pub receive: ReceiveStats,
    /// Transmit path.
    pub transmit: TransmitStats,
    /// Its part of what crossed its card's way to the host.
    pub io: IoStats,
    /// By queue.
    pub queues: Vec<QueueStatistics>,
}

/// A queue's counters.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueStatistics {
    /// Receive path.
    pub receive: RxQueueStats,
    /// Transmit path.
    pub transmit: TxQueueStats,
    /// What the driver did.
    pub driver: DriverStats,
}

/// What counters counted in each step of the measurement.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Length of a step.
    pub interval: Duration,
    /// Paths in `statistics`; counters that never moved are left out.
    pub columns: Vec<String>,
    /// A step each, in the order of the columns.
    pub rows: Vec<Vec<u64>>,
}

/// What was executed.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Execution {
    /// By core, from power-on.
    pub instructions: Vec<u64>,
    /// Of these, under full timing.
    pub timed_instructions: u64,
    /// Interrupts of the NICs.
    pub interrupts: u64,
    /// Over what ran where, from power-on.
    pub hash: String,
    /// Simulated time from power-on.
    #[schemars(extend("unit" = "ns"))]
    pub simulated_ns: u64,
    /// The same at the start and the end of the measurement.
    pub at: Vec<ExecutionPoint>,
}

/// What had been executed by a point of the run.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionPoint {
    /// `start` or `end`.
    pub point: &'static str,
    /// From power-on.
    #[schemars(extend("unit" = "ns"))]
    pub simulated_ns: u64,
    /// By core, from power-on.
    pub instructions: Vec<u64>,
    /// Over what ran where.
    pub hash: String,
}

/// How late something was seen.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Late {
    /// On average.
    #[schemars(extend("unit" = "ns"))]
    pub mean: f64,
    /// At most.
    #[schemars(extend("unit" = "ns"))]
    pub max: f64,
}

/// What the guest reported.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestReport {
    /// The program's exit status.
    pub status: u32,
    /// Figures of guest programs.
    pub figures: Vec<u32>,
}

/// Rates and counts of both sides of an iperf3 run, of all ports.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IperfSummary {
    /// `done`, `running`, or why it failed.
    pub state: String,
    /// Payload a second of the measurement, as it is sent.
    #[schemars(extend("unit" = "Gb/s"))]
    pub gbps: f64,
    /// Of these, the share that arrives over the whole run; null where the guest's server does not say.
    #[schemars(extend("unit" = "Gb/s"))]
    pub received_gbps: Option<f64>,
    /// Null where the rate never stays within 2 % over ten round trips, and 2 ms.
    #[schemars(extend("unit" = "Gb/s"))]
    pub steady_gbps: Option<f64>,
    /// When it begins to be steady.
    #[schemars(extend("unit" = "ns"))]
    pub steady_after_ns: Option<f64>,
    /// TCP segments seen twice on the wire: of the client, of the guest.
    pub retransmissions: [u64; 2],
    /// Of these, before the rate is steady.
    pub retransmissions_before_steady: Option<u64>,
    /// Bytes that the client counts.
    pub client_bytes: u64,
    /// Bytes that the server counts.
    pub server_bytes: Option<u64>,
    /// Sent and received.
    pub datagrams: [u64; 2],
    /// From a byte to its acknowledgement, on average.
    #[schemars(extend("unit" = "ns"))]
    pub round_trip_ns: Option<f64>,
}

/// What a trace holds.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceSummary {
    /// Packets that can be sent.
    pub packets: u64,
    /// Their bytes, FCS included.
    pub bytes: u64,
    /// The shortest, FCS included.
    pub shortest: u64,
    /// The longest, FCS included.
    pub longest: u64,
    /// From the first packet to the last.
    #[schemars(extend("unit" = "ps"))]
    pub span_ps: Ps,
    /// Packets that were captured before one in front of them.
    pub out_of_order: u64,
    /// Packets of which the file does not hold all.
    pub cut: u64,
    /// Packets that cannot be sent.
    pub skipped: u64,
    /// The first thing that was wrong with the file.
    pub problem: Option<String>,
}
