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
    /// How long completions of received packets are held to share an entry with others while packets wait for the link
    /// (CQE compression, where the driver asks for it); 0: each has its own.
    pub compression_timeout: Duration,
    /// Packets in a row that another waited behind for the link, before completions share entries.
    #[schemars(range(min = 0, max = 1_000_000), extend("unit" = "packets"))]
    pub compression_after: u32,
    /// How long each read of payload takes the card's read engine, which both of its ports share.
    pub read_time: Duration,
    /// How long each line (64 B) that is read of requests and records takes it.
    pub request_line_time: Duration,
    /// From one packet of a send queue to its next.
    pub send_packet_time: Duration,
    /// To try a driver's recovery: at this time from power-on the firmware reports a fatal error, and the adapter stands still until
    /// its driver resets it or sets it up again; 0: never.
    pub fails_at: Duration,
    /// The same of queues: the first packet that is to be sent from this time on, and the first that is received, find that
    /// their request lies in no memory key, which puts their queues in the error state; 0: never.
    pub queues_fail_at: Duration,
}
