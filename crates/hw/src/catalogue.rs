//! Every statistic by its place in a result: the one table that decides names, units and meanings.
//!
//! Names follow Linux perf where it has one (`instructions`, `cycles`, `branch_misses`, `l1_dcache_load_misses`), else
//! gem5 or the specification's terms.

use crate::core::{CoreStats, StallStats, TlbStats};
use crate::io::IoStats;
use crate::memory::{DramStats, MemoryStats, ObjectStats, PrivateStats};
use crate::nic::{DriverStats, ReceiveStats, RxQueueStats, TransmitStats, TxQueueStats};
use wiretime_base::stats::{Stat, StatGroup};

/// A group: where it is in `statistics` of a result (`*`: for each core, port or queue), and what it holds.
#[derive(serde::Serialize)]
pub struct Group {
    /// Path of keys.
    pub path: &'static str,
    /// Its statistics, in order.
    pub stats: &'static [Stat],
}

/// All groups, in the order of a result.
#[must_use]
pub fn groups() -> Vec<Group> {
    vec![
        Group { path: "cores.*.core", stats: CoreStats::STATS },
        Group { path: "cores.*.stalls", stats: StallStats::STATS },
        Group { path: "cores.*.tlb", stats: TlbStats::STATS },
        Group { path: "cores.*.caches", stats: PrivateStats::STATS },
        Group { path: "memory", stats: MemoryStats::STATS },
        Group { path: "objects", stats: ObjectStats::STATS },
        Group { path: "dram", stats: DramStats::STATS },
        Group { path: "receive", stats: ReceiveStats::STATS },
        Group { path: "transmit", stats: TransmitStats::STATS },
        Group { path: "io", stats: IoStats::STATS },
        Group { path: "ports.*.receive", stats: ReceiveStats::STATS },
        Group { path: "ports.*.transmit", stats: TransmitStats::STATS },
        Group { path: "ports.*.io", stats: IoStats::STATS },
        Group { path: "ports.*.queues.*.receive", stats: RxQueueStats::STATS },
        Group { path: "ports.*.queues.*.transmit", stats: TxQueueStats::STATS },
        Group { path: "ports.*.queues.*.driver", stats: DriverStats::STATS },
    ]
}
