//! Parameters of a QDMA: what it has beyond other NICs. What its driver programs (buffer sizes, moderation, fetch sizes,
//! throttles) is in its registers and not here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wiretime_base::{Bytes, Duration, Frequency};

/// What is behind the streams of a QDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UserLogic {
    /// An Ethernet port: packets come from the wire, and leave by it.
    Wire,
    /// The generator and checker of the reference design: packets of one size to queues in turn, as descriptors are posted.
    Generator,
}

/// A QDMA: queues, clocks, and the interface by which it asks for memory.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Qdma {
    /// What is behind its streams.
    pub user_logic: UserLogic,
    /// A packet whose queue has no descriptors posted is dropped (drop enable); else the stream waits, and all queues with it.
    pub drops_without_descriptors: bool,
    /// Queues of a direction that its function has.
    #[schemars(range(min = 1, max = 2048), extend("unit" = "queues"))]
    pub queues: u32,
    /// Clock of the user logic, of completion coalescing, and of the moderation's timers.
    pub user_clock: Frequency,
    /// Clock of the requester interface: one beat of 64 B a cycle.
    pub requester_clock: Frequency,
    /// Cycles of the user clock that the generator takes for a packet of a queue, beside one for each 64 B.
    #[schemars(range(min = 0, max = 1000), extend("unit" = "cycles"))]
    pub generator_cycles: u32,
    /// Cycles of the user clock from one read of descriptors to the next: the engine serves one queue at a time.
    #[schemars(range(min = 0, max = 1000), extend("unit" = "cycles"))]
    pub fetch_cycles: u32,
    /// Reads of descriptors of a queue to the host that may be under way at a time, where its context allows no more.
    #[schemars(range(min = 1, max = 16), extend("unit" = "requests"))]
    pub prefetch_reads: u32,
    /// Memory on the card, for queues between memories.
    pub card_memory: Bytes,
    /// What it takes from its asking to its answer.
    pub card_memory_latency: Duration,
    /// Header of a request on the requester interface.
    #[schemars(range(min = 0, max = 64), extend("unit" = "B"))]
    pub request_header: u32,
    /// Requests share beats in units of so many bytes; a power of two.
    #[schemars(range(min = 16, max = 64), extend("unit" = "B", "power_of_two" = true))]
    pub request_unit: u32,
    /// Multiples that no request crosses; a power of two.
    #[schemars(range(min = 64, max = 4096), extend("unit" = "B", "power_of_two" = true))]
    pub request_boundary: u32,
    /// Requests that wait for the link while the interface goes on.
    #[schemars(range(min = 1, max = 256), extend("unit" = "requests"))]
    pub request_lookahead: u32,
}
