//! The result of a run: counters as differences of snapshots, the ledger, latencies, warnings.

use crate::report::{
    DropTransition, Execution, ExecutionPoint, FlowName, FlowRow, GuestReport, Late, Latency, Occupancy, PortResult,
    QueueResult, RunResult,
};
use crate::settings::{FarEnd, Role, RunSettings};
use crate::snapshot::{series, statistics, Snapshot};
use crate::stages::{Driven, Experiment, Program};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use wiretime_base::stats::StatGroup;
use wiretime_base::Ps;
use wiretime_hw::core::{StageTrace, Stages};
use wiretime_hw::machine::{Hold, Nics};
use wiretime_hw::nic::{Counts, DropState, FlowCounts, Lateness, PortStats, RxQueueStats, Which, FLOWS_TOLD};
use wiretime_hw::params::Interface;
use wiretime_hw::wire::{End, Latencies};

/// Three digits are what the histogram keeps; the mean is exact.
fn ns(ps: Ps) -> f64 {
    ps.as_f64() / 1000.0
}

/// Moments and quantiles, where there are any.
fn latency_ns(l: &Latencies) -> Option<Latency> {
    (l.count() > 0).then(|| Latency {
        mean: l.mean() / 1000.0,
        deviation: l.deviation() / 1000.0,
        median: ns(l.quantile(0.5)),
        p90: ns(l.quantile(0.9)),
        p99: ns(l.quantile(0.99)),
        p999: ns(l.quantile(0.999)),
        p9999: ns(l.quantile(0.9999)),
        max: ns(l.max()),
    })
}

/// Flows, where there are several.
fn flows(counts: &[FlowCounts]) -> Option<Vec<FlowRow>> {
    if counts.len() <= 1 {
        return None;
    }
    let row = |(i, f): (usize, &FlowCounts)| {
        let flow = if i < FLOWS_TOLD { FlowName::Number(i) } else { FlowName::Others("others") };
        let mean = f.latency_sum.as_f64() / f.timed.max(1) as f64 / 1000.0;
        FlowRow(flow, f.offered, f.answered, mean, ns(f.latency_max))
    };
    Some(counts.iter().enumerate().map(row).collect())
}

/// Points of the time series of occupancies: as many as are expected, and at most where a trace takes longer.
pub const OCCUPANCY_POINTS: u64 = 200;
pub const OCCUPANCY_MAX: usize = 4000;
/// Points of the time series that are kept: as many as may be asked for. A trace may last longer than was expected.
pub const SERIES_MAX: usize = 10_000;

/// What became of packets, before the program stops and resets the device.
#[derive(Clone)]
pub struct PacketTotals {
    cohort: Counts,
    load: Counts,
    total: Counts,
    /// The cohort by port and by queue.
    ports: Vec<(Counts, Vec<Counts>)>,
    violations: Vec<String>,
}

/// Closes the books.
pub fn packet_totals<G>(nics: &Nics<G>, settings: &RunSettings) -> PacketTotals {
    let ledger = &nics.books.ledger;
    let mut violations = ledger.violations();
    violations.extend(nics.slots.iter().flat_map(|s| s.nic.audit(&nics.books)));
    let queues = settings.queues as usize;
    PacketTotals {
        cohort: ledger.all(Which::Cohort),
        load: ledger.all(Which::Load),
        total: ledger.all(Which::Total),
        ports: (0..nics.slots.len())
            .map(|i| {
                let told = nics.slots[i].nic.queues_on(queues);
                (ledger.port(i, Which::Cohort), ledger.queues(i, Which::Cohort, told))
            })
            .collect(),
        violations,
    }
}

/// By port and queue: the cohort, bursts, replenishments, transitions of what was full at drops.
fn ports<G>(nics: &Nics<G>, totals: &PacketTotals, duration_ns: f64) -> Vec<PortResult> {
    let gbps = |bytes: u64| bytes as f64 * 8.0 / duration_ns;
    let one = |(i, (counts, queues)): (usize, &(Counts, Vec<Counts>))| {
        let (nic, book) = (&nics.slots[i].nic, &nics.books.ports[i]);
        let queues = queues
            .iter()
            .enumerate()
            .map(|(q, counts)| {
                let latency = nics.books.queues[i].get(q).and_then(latency_ns);
                let (bursts, available) = book.driver_histograms(q);
                QueueResult {
                    cohort: *counts,
                    burst_sizes: bursts,
                    available_at_replenish: available,
                    latency_ns: latency,
                }
            })
            .collect();
        let drop_transitions = book
            .drop_transitions()
            .iter()
            .enumerate()
            .flat_map(|(from, row)| row.iter().enumerate().map(move |(to, &n)| (from, to, n)))
            .filter(|&(_, _, n)| n > 0)
            .map(|(from, to, drops)| DropTransition { before: DropState::name(from), at: DropState::name(to), drops })
            .collect();
        let end = nic.cable().end();
        PortResult {
            offered_gbps: gbps(nics.books.cohort_bytes[i]),
            forwarded_gbps: gbps(nics.books.cohort_returned_bytes[i]),
            cohort: *counts,
            queues,
            drop_transitions,
            last_drop_ns: book.last_drop().map(|at| ns(at.saturating_sub(nics.books.cohort.start))),
            given_up: nic.cable().given_up(),
            store: end.store_stats(),
            iperf: end.iperf_report(),
            flows: flows(&nics.books.flows[i]),
        }
    };
    totals.ports.iter().enumerate().map(one).collect()
}

/// Fill of FIFOs and rings over the measurement: a table a port.
fn occupancy(run: &Experiment) -> Occupancy {
    let ports = run.occupancy.first().map_or(0, Vec::len);
    Occupancy {
        interval_ns: ns(run.occupancy_step),
        columns: ["rx_fifo_bytes", "rx_ring_free", "rx_ring_waiting", "tx_ring_posted"],
        ports: (0..ports).map(|i| run.occupancy.iter().map(|point| point[i]).collect()).collect(),
    }
}

/// The timeline, where one was wanted.
pub fn timeline<H: Hold>(run: &Experiment, d: &Driven<'_, H>) -> Value {
    if run.settings.trace_length.ps() == Ps::ZERO {
        return Value::Null;
    }
    let mut nics = d.machine.nics.nics();
    let ports: Vec<Value> = nics
        .books
        .ports
        .iter_mut()
        .map(|book| {
            let (records, lost) = book.take_timeline();
            json!({ "records": records, "lost": lost })
        })
        .collect();
    let start = nics.books.cohort.start + run.settings.trace_start.ps();
    let cores: Vec<Value> = run.pipelines.iter().map(|(core, stages)| pipeline(d.program, *core, stages)).collect();
    json!({ "start_ps": start, "ports": ports, "cores": cores })
}

/// Stages of a core's instructions, and their text by physical address.
fn pipeline(program: &dyn Program, core: usize, trace: &StageTrace) -> Value {
    let mut text = BTreeMap::new();
    for s in &trace.instructions {
        text.entry(s.pc).or_insert_with(|| program.instruction(s.pc));
    }
    let row = |s: &Stages| [s.pc, s.fetch.0, s.dispatch.0, s.issue.0, s.complete.0, s.commit.0];
    let rows: Vec<_> = trace.instructions.iter().map(row).collect();
    json!({ "core": core, "lost": trace.lost, "instructions": rows, "text": text })
}

/// The engine's part of `result.json`.
pub fn result<H: Hold>(run: &Experiment, t: Ps, status: u32, d: &Driven<'_, H>) -> RunResult {
    let (polls, doorbells) = run.late.unwrap_or_else(|| late(d));
    let nics = d.machine.nics.nics();
    let totals = run.totals.clone().unwrap_or_else(|| packet_totals(&nics, &run.settings));
    let cohort = &totals.cohort;
    let latencies = &nics.books.sink.latencies;
    let duration_ns = ns(run.settings.duration.ps() - run.arriving);
    let gbps = |bytes: &[u64]| bytes.iter().sum::<u64>() as f64 * 8.0 / duration_ns;
    // What is outside recognises its answers itself.
    let outside = run.settings.far != FarEnd::None;
    let lost = match run.settings.role {
        Role::Forwards | Role::Sends => cohort.offered - cohort.forwarded,
        Role::Answers if !outside => cohort.offered - cohort.forwarded,
        Role::Answers | Role::Consumes => {
            cohort.filtered
                + cohort.dma_drop
                + cohort.core_drop
                + cohort.tx_drop
                + cohort.host_drop
                + cohort.lost_in_reset
        }
    };
    let (first, last) = (run.start.as_ref(), run.end.as_ref());
    let point = |(point, s): (&'static str, Option<&Snapshot>)| {
        let s = s?;
        let hash = format!("{:016x}", s.hash);
        Some(ExecutionPoint { point, simulated_ns: s.time.ns(), instructions: s.instructions.clone(), hash })
    };
    let executed = d.executed;
    RunResult {
        offered_gbps: gbps(&nics.books.cohort_bytes),
        forwarded_gbps: gbps(&nics.books.cohort_returned_bytes),
        offered_mpps: cohort.offered as f64 * 1000.0 / duration_ns,
        forwarded_mpps: cohort.forwarded as f64 * 1000.0 / duration_ns,
        loss_percent: if cohort.offered == 0 { 0.0 } else { lost as f64 * 100.0 / cohort.offered as f64 },
        latency_ns: latency_ns(latencies),
        latency_histogram_ns: latencies.buckets().into_iter().map(|(ps, n)| (ns(ps), n)).collect(),
        latency_hdr_ps: (latencies.count() > 0).then(|| latencies.encoded()),
        latency_hops_ns: nics.books.journeys.hops(),
        latency_hops_packets: [nics.books.journeys.complete, nics.books.journeys.incomplete],
        cohort: *cohort,
        load: totals.load,
        total: totals.total,
        ports: ports(&nics, &totals, duration_ns),
        ledger_violations: totals.violations,
        occupancy: occupancy(run),
        statistics: first.zip(last).map(|(a, b)| statistics(a, b)),
        series: first.and_then(|first| series(run, first)),
        execution: Execution {
            instructions: executed.instructions.to_vec(),
            timed_instructions: executed.timed,
            interrupts: executed.interrupts,
            hash: format!("{:016x}", executed.hash),
            simulated_ns: t.ns(),
            at: [("start", first), ("end", last)].into_iter().filter_map(point).collect(),
        },
        poll_lateness_ns: polls.into(),
        doorbell_lateness_ns: doorbells.into(),
        guest: GuestReport { status, figures: d.program.figures().to_vec() },
        warnings: warnings(run, &nics, doorbells, executed.interrupts),
    }
}

impl From<Lateness> for Late {
    fn from(l: Lateness) -> Self {
        Self { mean: if l.count == 0 { 0.0 } else { ns(l.total) / l.count as f64 }, max: ns(l.max) }
    }
}

/// How late cores have seen what devices have written, and devices doorbells, since the measurement has begun.
pub fn late<H: Hold>(d: &Driven<'_, H>) -> (Lateness, Lateness) {
    let nics = d.machine.nics.nics();
    let doorbells = nics.slots.iter().map(|s| s.nic.late()).fold(Lateness::default(), Lateness::and);
    (d.machine.lateness, doorbells)
}

fn warnings<G>(run: &Experiment, nics: &Nics<G>, late: Lateness, interrupts: u64) -> Vec<String> {
    let mut list = Vec::new();
    let trapped: u64 = nics.slots.iter().map(|s| s.trapped_doorbells).sum();
    let traps_anyway = run.platform.nic.iter().any(|nic| nic.interface == Interface::I82599 || nic.interface.is_mlx5());
    if trapped > 0 && run.settings.mapped_doorbells && interrupts == 0 && !traps_anyway {
        list.push(format!("trapped_doorbells: {trapped} doorbells trapped; timing is the same, the run is slower"));
    }
    if run.followed_no_longer > 0 {
        list.push(format!(
            "follow: {} packets of the measurement were still under way {} behind its end: no latency is theirs (--follow)",
            run.followed_no_longer, run.settings.follow
        ));
    }
    if run.series.len() == SERIES_MAX {
        list.push(format!("interval: {SERIES_MAX} points are kept, and the measurement went on (--interval)"));
    }
    let sends_nothing = run.settings.load.packets == Some(0) || run.settings.load.far;
    if !sends_nothing && run.settings.load.iperf.is_none() && nics.books.counts(Which::Cohort).offered == 0 {
        list.push(
            "offered: no packet that left during the measurement has come: nothing was measured (--warmup, --duration, \
             --rate, --follow, link.latency)"
                .into(),
        );
    }
    let (quantum, lookahead) = (run.platform.quantum(), run.platform.lookahead());
    if quantum > lookahead {
        list.push(format!(
            "system.quantum: {} ns is beyond the lookahead of {} ns: devices saw {} doorbells late, by {:.1} ns on \
             average and {:.1} ns at most",
            quantum.ns(),
            lookahead.ns(),
            late.count,
            ns(late.total) / late.count.max(1) as f64,
            ns(late.max)
        ));
    }
    if let Some((a, b)) = run.start.as_ref().zip(run.end.as_ref()) {
        list.extend(starved_queues(run, a, b));
    }
    if nics.slots.iter().any(|s| s.nic.cable().line_limited) {
        list.push("offered rate: the line carries less at this packet size; packets leave back to back".into());
    }
    let ambiguous = nics.books.sink.ambiguous;
    if ambiguous > 0 {
        list.push(format!(
            "transaction key: {ambiguous} packets had that of another one under way, and are not measured"
        ));
    }
    let reused = nics.books.ledger.reused();
    if reused > 0 {
        list.push(format!(
            "buffers: {reused} frames were others than the packets that their buffers had held: the program copies packets \
             into buffers that it has freed"
        ));
    }
    let repeated = nics.books.ledger.repeated();
    if repeated > 0 {
        list.push(format!(
            "repeated packets: {repeated} frames carried packets that left without them, or had been dropped; they are not \
             measured"
        ));
    }
    if let Some(problem) = run.capture.as_ref().and_then(|c| c.problem()) {
        list.push(format!("capture: is incomplete: {problem}"));
    }
    let refused: u64 = nics.slots.iter().map(|s| s.nic.refused_writes()).sum();
    if refused > 0 {
        list.push(format!("refused_dma_writes: {refused} DMA writes outside guest memory"));
    }
    list
}

/// Queues that a program polls in vain, while others of their port have more than they should.
fn starved_queues(run: &Experiment, a: &Snapshot, b: &Snapshot) -> Vec<String> {
    let came = |from: &RxQueueStats, to: &RxQueueStats| {
        let d = to.since(from);
        d.delivered + d.dma_drops + d.core_drops + d.tx_drops
    };
    let warn = |(n, (a, b)): (usize, (&PortStats, &PortStats))| {
        let pairs = a.queues.iter().zip(&b.queues);
        let polled = pairs.filter(|(a, b)| b.driver.since(&a.driver).polls > 0);
        let frames: Vec<u64> = polled.map(|(a, b)| came(&a.receive, &b.receive)).collect();
        let total: u64 = frames.iter().sum();
        let starved = starved(&frames);
        (starved > 0).then(|| {
            let flows = &run.settings.load.flows;
            format!(
                "queues: {starved} of {} that are polled at port {n} got less than a quarter of their share of {total} \
                 frames: {} flows differ in what RSS does not hash, or are too few (--flow-vary both, --flows 1024), or \
                 rules direct them",
                frames.len(),
                flows.count
            )
        })
    };
    a.ports.iter().zip(&b.ports).enumerate().filter_map(warn).collect()
}

/// How many of several queues got less than a quarter of their equal share; few frames say nothing.
fn starved(frames: &[u64]) -> usize {
    let total: u64 = frames.iter().sum();
    let queues = frames.len() as u64;
    if queues < 2 || total < 64 * queues {
        return 0;
    }
    frames.iter().filter(|&&n| n * queues * 4 < total).count()
}

#[cfg(test)]
mod tests {
    use super::starved;

    #[test]
    fn a_queue_starves_below_a_quarter_of_its_share() {
        assert_eq!(starved(&[1000, 0, 0, 0]), 3);
        assert_eq!(starved(&[400, 400, 62, 138]), 1, "62 of 250");
        assert_eq!(starved(&[400, 400, 63, 137]), 0);
        assert_eq!(starved(&[1000]), 0, "one queue has all");
        assert_eq!(starved(&[255, 0, 0, 0]), 0, "too few to tell");
    }
}
