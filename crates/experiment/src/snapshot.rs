//! All counters at one time, and what they have moved between two.

use crate::report::{CoreStatistics, PortStatistics, ProcessorTime, QueueStatistics, Series, Statistics};
use crate::stages::Experiment;
use serde_json::Value;
use std::collections::BTreeMap;
use wiretime_base::stats::StatGroup;
use wiretime_base::Ps;
use wiretime_hw::core::{CoreStats, StallStats, TlbStats};
use wiretime_hw::memory::{DramStats, MemoryStats, ObjectStats, PrivateStats};
use wiretime_hw::nic::{PortStats, QueueStats};

/// Time of a core by kind: user, system, softirq, irq, as `mpstat` has them; idle is the rest.
pub type Times = [Ps; 4];

/// All counters at one time.
pub struct Snapshot {
    pub time: Ps,
    pub cores: Vec<CoreStats>,
    pub private: Vec<PrivateStats>,
    pub stalls: Vec<StallStats>,
    pub tlbs: Vec<TlbStats>,
    pub memory: MemoryStats,
    pub objects: ObjectStats,
    pub dram: DramStats,
    pub ports: Vec<PortStats>,
    pub instructions: Vec<u64>,
    pub times: Vec<Times>,
    pub hash: u64,
}

/// The sum of a group over ports, of what happened between two times.
fn summed<'a, G: StatGroup + 'a>(pairs: impl Iterator<Item = (&'a G, &'a G)>) -> G {
    pairs.fold(G::default(), |sum, (from, to)| sum.plus(&to.since(from)))
}

fn queue((a, b): (&QueueStats, &QueueStats)) -> QueueStatistics {
    QueueStatistics {
        receive: b.receive.since(&a.receive),
        transmit: b.transmit.since(&a.transmit),
        driver: b.driver.since(&a.driver),
    }
}

fn port((a, b): (&PortStats, &PortStats)) -> PortStatistics {
    PortStatistics {
        receive: b.receive.since(&a.receive),
        transmit: b.transmit.since(&a.transmit),
        io: b.io.since(&a.io),
        queues: a.queues.iter().zip(&b.queues).map(queue).collect(),
    }
}

fn processor_time(a: &Times, b: &Times, elapsed: Ps) -> ProcessorTime {
    let [user_ps, system_ps, softirq_ps, irq_ps] = std::array::from_fn(|kind| b[kind] - a[kind]);
    let busy = user_ps + system_ps + softirq_ps + irq_ps;
    ProcessorTime { user_ps, system_ps, softirq_ps, irq_ps, idle_ps: elapsed.saturating_sub(busy) }
}

pub fn statistics(a: &Snapshot, b: &Snapshot) -> Statistics {
    let core = |i: usize| CoreStatistics {
        core: b.cores[i].since(&a.cores[i]),
        stalls: b.stalls[i].since(&a.stalls[i]),
        tlb: b.tlbs[i].since(&a.tlbs[i]),
        caches: b.private[i].since(&a.private[i]),
        processor_time: processor_time(&a.times[i], &b.times[i], b.time - a.time),
    };
    let ports = || a.ports.iter().zip(&b.ports);
    Statistics {
        time_ps: b.time - a.time,
        cores: (0..a.cores.len()).map(core).collect(),
        memory: b.memory.since(&a.memory),
        objects: b.objects.since(&a.objects),
        dram: b.dram.since(&a.dram),
        receive: summed(ports().map(|(a, b)| (&a.receive, &b.receive))),
        transmit: summed(ports().map(|(a, b)| (&a.transmit, &b.transmit))),
        io: summed(ports().map(|(a, b)| (&a.io, &b.io))),
        far: summed(ports().map(|(a, b)| (&a.far, &b.far))),
        ports: ports().map(port).collect(),
    }
}

/// The steps of the time series: counters over each, by their path in `statistics`; those that never move are left out.
pub fn series(run: &Experiment, first: &Snapshot) -> Option<Series> {
    if run.settings.interval.ps() == Ps::ZERO {
        return None;
    }
    // The last step ends with the measurement, whole or not.
    let end = run.end.as_ref().filter(|end| run.series.last().is_none_or(|last| last.time < end.time));
    let points: Vec<&Snapshot> = std::iter::once(first).chain(&run.series).chain(end).collect();
    let steps: Vec<BTreeMap<String, u64>> = points
        .windows(2)
        .map(|w| {
            let mut flat = BTreeMap::new();
            let step = serde_json::to_value(statistics(w[0], w[1])).unwrap_or_default();
            flatten("", &step, &mut flat);
            flat
        })
        .collect();
    let moving: Vec<&String> = steps.first()?.keys().filter(|k| steps.iter().any(|s| s.get(*k) != Some(&0))).collect();
    let rows: Vec<Vec<u64>> =
        steps.iter().map(|s| moving.iter().map(|k| s.get(*k).copied().unwrap_or(0)).collect()).collect();
    let columns = moving.into_iter().cloned().collect();
    Some(Series { interval: run.settings.interval, columns, rows })
}

fn flatten(path: &str, value: &Value, into: &mut BTreeMap<String, u64>) {
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(k, v)| flatten(&join(k), v, into)),
        Value::Array(items) => items.iter().enumerate().for_each(|(i, v)| flatten(&join(&i.to_string()), v, into)),
        _ => {
            into.insert(path.to_owned(), value.as_u64().unwrap_or(0));
        }
    }
}
