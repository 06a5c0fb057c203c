//! What is sent over a cable: the load of a run or a trial, as data.

use super::arrivals::Arrivals;
use super::clients::ClosedLoop;
use super::flows::Flows;
use super::frames::{Internet, Traffic};
use super::iperf::IperfLoad;
use super::key_value::StoreLoad;
use super::replay::Play;
use super::sink::Recognition;
use super::sizes::Sizes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wiretime_base::BitRate;

/// What a request to a store counts as in the rate, in bytes.
pub const NOMINAL: u32 = 64;

/// What is sent.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Kind of packets.
    pub traffic: Traffic,
    /// Their internet protocol.
    pub internet: Internet,
    /// Bytes of frames, FCS included.
    pub sizes: Sizes,
    /// Bits of frames a second.
    pub rate: BitRate,
    /// How packets follow each other.
    pub arrivals: Arrivals,
    /// Flows.
    pub flows: Flows,
    /// Each port's packets are for a network of its own, 198.18.PORT.0/24 (RFC 2544's addresses): what routes can tell apart.
    pub networks: bool,
    /// How answers are told.
    pub recognition: Recognition,
    /// Where the probe is, from the start of the frame.
    pub timestamp_offset: u32,
    /// So many packets and no more.
    pub packets: Option<u64>,
    /// Clients decide when packets leave, instead of the rate.
    pub clients: Option<ClosedLoop>,
    /// Packets come from a trace.
    pub play: Option<Play>,
    /// What clients of a key-value store ask for. The rate then counts a request as 64 B, whatever its length.
    pub store: Option<StoreLoad>,
    /// What an iperf3 client does, instead of anything else.
    pub iperf: Option<IperfLoad>,
    /// Frames come from the far end of the wire, instead of anything else.
    pub far: bool,
    /// Start of the random numbers.
    pub seed: u64,
}

impl Load {
    /// Mean length of its frames in bytes, FCS included.
    #[must_use]
    pub(super) fn mean_length(&self) -> f64 {
        if self.store.is_some() {
            return f64::from(NOMINAL);
        }
        self.play.map_or(self.sizes.mean(), |p| p.mean_length)
    }
}

impl Default for Load {
    /// 64 B of UDP at 1 Gb/s, in one flow.
    fn default() -> Self {
        Self {
            traffic: Traffic::Udp,
            internet: Internet::V4,
            sizes: Sizes::Fixed { size: 64 },
            rate: BitRate::new(1_000_000_000).expect("above zero"),
            arrivals: Arrivals::Constant,
            flows: Flows::default(),
            networks: false,
            recognition: Recognition::Probe,
            timestamp_offset: 42,
            packets: None,
            clients: None,
            play: None,
            store: None,
            iperf: None,
            far: false,
            seed: 0,
        }
    }
}
