//! All counters at one time, and what they have moved between two.

use crate::stages::Experiment;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use wiretime_base::stats::StatGroup;
use wiretime_base::Ps;
use wiretime_hw::core::{CoreStats, StallStats, TlbStats};
use wiretime_hw::memory::{DramStats, MemoryStats, ObjectStats, PrivateStats};
use wiretime_hw::nic::{PortStats, QueueStats};

/// Names of [`Times`], in order, as `mpstat` has them; idle is the rest.
pub const KINDS: [&str; 4] = ["user_ps", "system_ps", "softirq_ps", "irq_ps"];

/// Time of a core by kind, in ps.
pub type Times = [Ps; KINDS.len()];

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

fn group<G: StatGroup>(from: &G, to: &G) -> Value {
    let names = G::STATS.iter().map(|s| s.name.to_owned());
    Value::Object(names.zip(to.since(from).values().into_iter().map(Value::from)).collect::<Map<_, _>>())
}

/// The sum of a group over ports, of what happened between two times.
fn summed<'a, G: StatGroup + 'a>(pairs: impl Iterator<Item = (&'a G, &'a G)>) -> Value {
    let mut sum = vec![0u64; G::STATS.len()];
    for (from, to) in pairs {
        sum.iter_mut().zip(to.since(from).values()).for_each(|(s, v)| *s = s.wrapping_add(v));
    }
    Value::Object(G::STATS.iter().zip(sum).map(|(s, v)| (s.name.to_owned(), v.into())).collect::<Map<_, _>>())
}

fn queue(a: &QueueStats, b: &QueueStats) -> Value {
    json!({
        "receive": group(&a.receive, &b.receive),
        "transmit": group(&a.transmit, &b.transmit),
        "driver": group(&a.driver, &b.driver),
    })
}

fn port(a: &PortStats, b: &PortStats) -> Value {
    let queues: Vec<Value> = a.queues.iter().zip(&b.queues).map(|(a, b)| queue(a, b)).collect();
    json!({
        "receive": group(&a.receive, &b.receive),
        "transmit": group(&a.transmit, &b.transmit),
        "io": group(&a.io, &b.io),
        "queues": queues,
    })
}

/// Idle is the rest.
fn processor_time(a: &Times, b: &Times, elapsed: Ps) -> Value {
    let mut kinds: Map<String, Value> =
        KINDS.iter().zip(a.iter().zip(b)).map(|(name, (&a, &b))| ((*name).to_owned(), (b - a).0.into())).collect();
    let busy: Ps = a.iter().zip(b).map(|(&a, &b)| b - a).sum();
    kinds.insert("idle_ps".into(), elapsed.saturating_sub(busy).0.into());
    Value::Object(kinds)
}

pub fn statistics(a: &Snapshot, b: &Snapshot) -> Value {
    let core = |i: usize| {
        json!({
            "core": group(&a.cores[i], &b.cores[i]),
            "stalls": group(&a.stalls[i], &b.stalls[i]),
            "tlb": group(&a.tlbs[i], &b.tlbs[i]),
            "caches": group(&a.private[i], &b.private[i]),
            "processor_time": processor_time(&a.times[i], &b.times[i], b.time - a.time),
        })
    };
    let cores: Vec<Value> = (0..a.cores.len()).map(core).collect();
    json!({
        "time_ps": b.time - a.time,
        "cores": cores,
        "memory": group(&a.memory, &b.memory),
        "objects": group(&a.objects, &b.objects),
        "dram": group(&a.dram, &b.dram),
        "receive": summed(a.ports.iter().zip(&b.ports).map(|(a, b)| (&a.receive, &b.receive))),
        "transmit": summed(a.ports.iter().zip(&b.ports).map(|(a, b)| (&a.transmit, &b.transmit))),
        "io": summed(a.ports.iter().zip(&b.ports).map(|(a, b)| (&a.io, &b.io))),
        "far": summed(a.ports.iter().zip(&b.ports).map(|(a, b)| (&a.far, &b.far))),
        "ports": a.ports.iter().zip(&b.ports).map(|(a, b)| port(a, b)).collect::<Vec<_>>(),
    })
}

/// The steps of the time series: counters over each, by their path in `statistics`; those that never move are left out.
pub fn series(run: &Experiment, first: &Snapshot) -> Option<Value> {
    if run.series.is_empty() {
        return None;
    }
    // The last step ends with the measurement, whole or not.
    let end = run.end.as_ref().filter(|end| run.series.last().is_some_and(|last| last.time < end.time));
    let points: Vec<&Snapshot> = std::iter::once(first).chain(&run.series).chain(end).collect();
    let steps: Vec<BTreeMap<String, u64>> = points
        .windows(2)
        .map(|w| {
            let mut flat = BTreeMap::new();
            flatten("", &statistics(w[0], w[1]), &mut flat);
            flat
        })
        .collect();
    let moving: Vec<&String> = steps[0].keys().filter(|k| steps.iter().any(|s| s.get(*k) != Some(&0))).collect();
    let rows: Vec<Vec<u64>> =
        steps.iter().map(|s| moving.iter().map(|k| s.get(*k).copied().unwrap_or(0)).collect()).collect();
    Some(json!({ "interval": run.settings.interval, "columns": moving, "rows": rows }))
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
