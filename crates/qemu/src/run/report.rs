//! The result of a run: counters as differences of snapshots, the ledger, latencies, warnings.

use super::{lock, Run};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use wiretime_base::stats::StatGroup;
use wiretime_base::Ps;
use wiretime_hw::core::{CoreStats, StallStats, TlbStats};
use wiretime_hw::memory::{DramStats, MemoryStats, ObjectStats, PrivateStats};
use wiretime_hw::nic::PortStats;

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
    pub port: PortStats,
    pub instructions: Vec<u64>,
    pub hash: u64,
}

fn group<G: StatGroup>(from: &G, to: &G) -> Value {
    let names = G::STATS.iter().map(|s| s.name.to_owned());
    Value::Object(names.zip(to.since(from).values().into_iter().map(Value::from)).collect::<Map<_, _>>())
}

fn statistics(a: &Snapshot, b: &Snapshot) -> Value {
    let core = |i: usize| {
        json!({
            "core": group(&a.cores[i], &b.cores[i]),
            "stalls": group(&a.stalls[i], &b.stalls[i]),
            "tlb": group(&a.tlbs[i], &b.tlbs[i]),
            "caches": group(&a.private[i], &b.private[i]),
        })
    };
    let cores: Vec<Value> = (0..a.cores.len()).map(core).collect();
    json!({
        "time_ps": b.time - a.time,
        "cores": cores,
        "memory": group(&a.memory, &b.memory),
        "objects": group(&a.objects, &b.objects),
        "dram": group(&a.dram, &b.dram),
        "receive": group(&a.port.receive, &b.port.receive),
        "transmit": group(&a.port.transmit, &b.port.transmit),
        "io": group(&a.port.io, &b.port.io),
    })
}

/// The steps of the time series: counters over each, by their path in `statistics`; those that never move are left out.
fn series(run: &Run, first: &Snapshot) -> Option<Value> {
    if run.series.is_empty() {
        return None;
    }
    let points: Vec<&Snapshot> = std::iter::once(first).chain(&run.series).collect();
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

/// Three digits are what the histogram keeps; the mean is exact.
fn ns(ps: Ps) -> f64 {
    ps as f64 / 1000.0
}

/// The engine's part of `result.json`.
pub fn result(run: &Run, t: Ps, status: u32) -> Value {
    let nic = lock(&run.nic);
    let control = lock(&run.control);
    let (cohort, load, total, violations) = run.account.clone().unwrap_or_else(|| nic.port.account());
    let sink = &nic.port.sink;
    let duration_ns = run.settings.duration.ps() as f64 / 1000.0;
    let gbps = |bytes: u64| bytes as f64 * 8.0 / duration_ns;
    let lost = cohort.offered - cohort.forwarded;
    let (first, last) = (run.start.as_ref(), run.end.as_ref());
    let latency = (sink.count() > 0).then(|| {
        json!({
            "mean": sink.mean() / 1000.0,
            "median": ns(sink.quantile(0.5)),
            "p99": ns(sink.quantile(0.99)),
            "p999": ns(sink.quantile(0.999)),
            "max": ns(sink.max()),
        })
    });
    let points: Vec<Value> = [("start", first), ("end", last)]
        .into_iter()
        .filter_map(|(name, s)| {
            let s = s?;
            let hash = format!("{:016x}", s.hash);
            Some(json!({ "point": name, "simulated_ns": s.time / 1000, "instructions": s.instructions, "hash": hash }))
        })
        .collect();
    let histogram: Vec<Value> = sink.buckets().into_iter().map(|(ps, n)| json!([ns(ps), n])).collect();
    json!({
        "offered_gbps": gbps(nic.port.cohort_bytes()),
        "forwarded_gbps": gbps(nic.port.cohort_returned_bytes()),
        "offered_mpps": cohort.offered as f64 * 1000.0 / duration_ns,
        "forwarded_mpps": cohort.forwarded as f64 * 1000.0 / duration_ns,
        "loss_percent": if cohort.offered == 0 { 0.0 } else { lost as f64 * 100.0 / cohort.offered as f64 },
        "latency_ns": latency,
        "latency_histogram_ns": histogram,
        "cohort": cohort,
        "load": load,
        "total": total,
        "ledger_violations": violations,
        "statistics": first.zip(last).map(|(a, b)| statistics(a, b)),
        "series": first.and_then(|first| series(run, first)),
        "execution": {
            "instructions": run.instructions.clone(),
            "timed_instructions": run.timed_instructions,
            "interrupts": run.interrupts,
            "hash": format!("{:016x}", run.hash),
            "simulated_ns": t / 1000,
            "at": points,
        },
        "poll_lateness_ns": {
            "mean": if run.lateness.writes == 0 { 0.0 } else { ns(run.lateness.total) / run.lateness.writes as f64 },
            "max": ns(run.lateness.max),
        },
        "doorbell_lateness_ns": {
            "mean": if nic.port.late.count == 0 { 0.0 } else { ns(nic.port.late.total) / nic.port.late.count as f64 },
            "max": ns(nic.port.late.max),
        },
        "guest": { "status": status, "figures": control.figures.clone() },
        "warnings": warnings(run, &nic),
    })
}

fn warnings(run: &Run, nic: &crate::vfio::NicDevice) -> Vec<String> {
    let mut list = Vec::new();
    if nic.trapped_doorbells > 0 && run.settings.mapped_doorbells && run.interrupts == 0 {
        list.push(format!(
            "trapped_doorbells: {} doorbells trapped; timing is the same, the run is slower",
            nic.trapped_doorbells
        ));
    }
    let (quantum, lookahead) = (run.platform.quantum(), run.platform.lookahead());
    if quantum > lookahead {
        let late = nic.port.late;
        list.push(format!(
            "system.quantum: {} ns is beyond the lookahead of {} ns: devices saw {} doorbells late, by {:.1} ns on \
             average and {:.1} ns at most",
            quantum / 1000,
            lookahead / 1000,
            late.count,
            ns(late.total) / late.count.max(1) as f64,
            ns(late.max)
        ));
    }
    if nic.port.line_limited() {
        list.push("offered rate: the line carries less at this packet size; packets leave back to back".into());
    }
    if nic.port.writes.refused > 0 {
        list.push(format!("refused_dma_writes: {} DMA writes outside guest memory", nic.port.writes.refused));
    }
    list
}
