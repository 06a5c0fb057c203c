//! What a run is told.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use wiretime_base::Duration;
use wiretime_hw::nic::DropClasses;
use wiretime_hw::wire::Load;

/// How much timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// From the start of the traffic to the end of the measurement.
    Full,
    /// From power-on, for guests without a driver (micro-benchmarks).
    Always,
    /// Blocks are counted, a fixed time an instruction.
    Blocks,
}

/// What tells that the measurement may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StartAt {
    /// The receive unit is enabled and its ring filled.
    ReceiverReady,
    /// The program sends, without being sent anything.
    Sending,
    /// The guest has announced mark 1.
    Mark,
    /// Never: the guest runs until it exits.
    Never,
}

/// What is at the other end of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FarEnd {
    /// The generator.
    None,
    /// A TAP of this machine.
    Tap,
    /// Another simulated host.
    Host,
}

/// What the program does with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Sends them on in their own buffers: one that is not sent is dropped.
    Forwards,
    /// Takes them and makes answers.
    Answers,
    /// Takes them.
    Consumes,
    /// Sends without being sent anything.
    Sends,
}

/// The run's own settings.
#[derive(Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunSettings {
    /// What the generators send.
    pub load: Load,
    /// The trace that the load plays.
    pub trace_file: Option<PathBuf>,
    /// The measurement ends when the load does; its length is only what is expected.
    pub until_end: bool,
    /// Who decides classes of drops.
    pub drop_classes: DropClasses,
    /// Receive queues that the program was asked to use, for results by queue.
    pub queues: u32,
    /// A timeline of this time of the measurement; a length of 0: none.
    pub trace_start: Duration,
    /// See above.
    pub trace_length: Duration,
    /// A capture of the wire in this time of the measurement; a length of 0: none.
    pub capture_start: Duration,
    /// See above.
    pub capture_length: Duration,
    /// Traffic before the measurement.
    pub warm_up: Duration,
    /// Length of the measurement.
    pub duration: Duration,
    /// Longest time to follow the cohort after the measurement.
    pub follow: Duration,
    /// Longest simulated time to the start of the measurement, and for the guest to stop.
    pub guest_limit: Duration,
    /// Length of a step of the time series; 0: none.
    pub interval: Duration,
    /// The kernel has the NIC: tell processor time by kind; packets may go on in other buffers than they came in.
    pub processor_time: bool,
    /// Charge cycles to blocks of instructions.
    pub profile: bool,
    /// What the program does with packets.
    pub role: Role,
    /// What is at the other end of the wire.
    pub far: FarEnd,
    /// Of the first port; the others count on.
    pub mac: [u8; 6],
    /// What tells that the measurement may begin.
    pub start_at: StartAt,
    /// How much timing.
    pub timing: Timing,
    /// Idle time passes at host speed (a person is at the console).
    pub host_speed: bool,
    /// Offer the ring registers as memory (doorbells cost a store); else every access traps.
    pub mapped_doorbells: bool,
    /// Self-test: another thread kicks vCPUs at random host times.
    pub chaos: bool,
    /// Self-test: software prefetches and line-zeroing stay unseen, as QEMU's callbacks leave them.
    pub ignore_hidden_accesses: bool,
}

/// A trial: another measurement in the same boot, under another load.
#[derive(Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// What the generators send.
    pub load: Load,
    /// Nothing is sent for so long before.
    pub idle: Duration,
    /// Traffic before the measurement.
    pub warm_up: Duration,
    /// Length of the measurement.
    pub duration: Duration,
    /// Longest time to follow the cohort.
    pub follow: Duration,
}
