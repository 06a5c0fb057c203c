//! Parameters of a ConnectX: the timing inside the adapter, of which its maker publishes nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wiretime_base::Duration;

/// A ConnectX: how far it reads ahead, and how fast a queue sends.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mlx5 {
    /// The driver's test of write-combining passes: doorbells of user space then are stores to write-combining memory, each
    /// with a barrier behind it.
    pub write_combining: bool,
    /// The doorbell record is read before send requests are; else both come at once.
    pub record_before_requests: bool,
    /// Receive requests of a queue that are held ahead.
    #[schemars(range(min = 2, max = 1024), extend("unit" = "requests"))]
    pub receive_requests_ahead: u32,
    /// Blocks of 64 B of send requests that one read brings.
    #[schemars(range(min = 1, max = 64), extend("unit" = "blocks"))]
    pub send_blocks_a_read: u32,
    /// Blocks of send requests of a queue that are read or held ahead.
    #[schemars(range(min = 16, max = 1024), extend("unit" = "blocks"))]
    pub send_blocks_ahead: u32,
    /// From one packet of a send queue to its next.
    pub send_packet_time: Duration,
}
