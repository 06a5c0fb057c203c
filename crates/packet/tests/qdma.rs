//! Runs of the packet-level engine on the QDMA: closed forms of its device, balance, the same bytes each time, refusals.

use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use wiretime_experiment::{FarEnd, Role, RunSettings, StartAt, Timing};
use wiretime_hw::nic::DropClasses;
use wiretime_hw::params::Platform;
use wiretime_hw::wire::{Load, Sizes};
use wiretime_packet::CostModel;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn platform(name: &str, queues: u32) -> Platform {
    let text = fs::read_to_string(repository().join(format!("platforms/{name}.toml"))).unwrap();
    let mut p: Platform = toml::from_str(&text).unwrap();
    p.system.cores = queues + 1;
    p
}

fn model() -> CostModel {
    toml::from_str(&fs::read_to_string(repository().join("models/testpmd-qdma.toml")).unwrap()).unwrap()
}

fn settings(size: u32, queues: u32) -> RunSettings {
    let time = |text: &str| text.parse().unwrap();
    RunSettings {
        load: Load { sizes: Sizes::Fixed { size }, ..Load::default() },
        trace_file: None,
        until_end: false,
        drop_classes: DropClasses::Wiretime,
        queues,
        trace_start: time("0ns"),
        trace_length: time("0ns"),
        capture_start: time("0ns"),
        capture_length: time("0ns"),
        warm_up: time("60us"),
        duration: time("140us"),
        follow: time("1ms"),
        guest_limit: time("1s"),
        interval: time("0ns"),
        processor_time: false,
        profile: false,
        role: Role::Forwards,
        far: FarEnd::None,
        mac: [0x52, 0x54, 0, 0x12, 0x34, 0x56],
        start_at: StartAt::Mark,
        timing: Timing::Full,
        host_speed: false,
        mapped_doorbells: true,
        chaos: false,
        ignore_hidden_accesses: false,
    }
}

fn run(p: &Platform, s: &RunSettings, model: &CostModel) -> Result<Value, String> {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("wiretime-packet-{}-{number}", std::process::id()));
    let config = serde_json::json!({ "platform": p, "run": s, "model": model });
    let output = File::create(&path).unwrap();
    let done = wiretime_packet::run(&config.to_string(), output.into(), None, None).map_err(|e| e.to_string());
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    done?;
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let result = last["result"].clone();
    assert_eq!(result["ledger_violations"], serde_json::json!([]));
    Ok(result)
}

fn mpps(p: &Platform, size: u32, queues: u32) -> f64 {
    let result = run(p, &settings(size, queues), &model()).unwrap();
    assert_eq!(result["cohort"]["offered"], result["cohort"]["forwarded"], "nothing is lost");
    result["offered_mpps"].as_f64().unwrap()
}

fn near(found: f64, expected: f64, within: f64) {
    assert!((found / expected - 1.0).abs() < within, "{found} instead of {expected}");
}

#[test]
fn a_queue_of_the_generator_takes_n_plus_six_cycles() {
    for (name, frequency) in [("xeon-8168", 250.0), ("epyc-9654", 429.167)] {
        for (cells, queues) in [(1, 1), (8, 1), (1, 2)] {
            let expected = frequency * f64::from(queues) / f64::from(cells + 6);
            near(mpps(&platform(name, queues), 64 * cells, queues), expected, 0.002);
        }
    }
}

/// Where the requester interface binds: a beat of 64 B a cycle, requests cut at 256 B each way with half a beat of header,
/// and some 1.25 beats a packet of completions and descriptors.
#[test]
fn the_requester_interface_takes_five_beats_for_four_cells() {
    for cells in [10, 17, 24] {
        let beats = 1.25 * f64::from(cells) + 2.0;
        near(mpps(&platform("xeon-8168", 8), 64 * cells, 8), 250.0 / beats, 0.02);
    }
    // Two buffers.
    near(mpps(&platform("xeon-8168", 8), 64 * 48, 8), 250.0 / (1.25 * 48.0 + 3.08), 0.02);
}

#[test]
fn requests_that_cross_no_line_cost_more() {
    let mut p = platform("xeon-8168", 4);
    let usual = mpps(&p, 1024, 4);
    p.nic[0].qdma.as_mut().unwrap().request_boundary = 64;
    // Half a beat of header for each cell and direction, instead of for each 256 B.
    near(usual / mpps(&p, 1024, 4), (16.0 + 16.0) / (1.25 * 16.0), 0.1);
}

#[test]
fn the_same_bytes_each_time() {
    let (p, s) = (platform("epyc-7763", 4), settings(256, 4));
    let text = |value: Value| value.to_string();
    assert_eq!(text(run(&p, &s, &model()).unwrap()), text(run(&p, &s, &model()).unwrap()));
}

/// A host that is too slow for the device: the stream stalls for want of descriptors, and nothing is lost.
#[test]
fn slow_software_slows_the_stream() {
    let mut slow = model();
    (slow.cycles.receive, slow.cycles.send) = (300.0, 200.0);
    let p = platform("xeon-8168", 1);
    let mut s = settings(64, 1);
    // Until the ring is empty.
    s.warm_up = "1ms".parse().unwrap();
    let result = run(&p, &s, &slow).unwrap();
    // 2.7 GHz over the cycles of a packet.
    near(result["offered_mpps"].as_f64().unwrap(), 2700.0 / 504.0, 0.1);
    assert_eq!(result["loss_percent"], 0.0);
}

/// Several queues a core, and more queues than the report's tables have.
#[test]
fn queues_share_cores() {
    let mut p = platform("epyc-9654", 4);
    p.system.cores = 5;
    let result = run(&p, &settings(512, 32), &model()).unwrap();
    let queues = result["ports"][0]["queues"].as_array().unwrap().clone();
    assert_eq!(queues.len(), 32);
    assert!(queues.iter().all(|q| q["cohort"]["offered"].as_u64().unwrap() > 0), "all take part");
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let (p, s) = (platform("xeon-8168", 1), settings(64, 1));
    let mut other = model();
    other.interface = "82599".into();
    assert!(run(&p, &s, &other).unwrap_err().contains("another model is needed"));
    let mut negative = model();
    negative.cycles.send = -1.0;
    assert!(run(&p, &s, &negative).unwrap_err().contains("cycles.send"));
    let mut ring = model();
    ring.policy.receive_ring = 7;
    assert!(run(&p, &s, &ring).unwrap_err().contains("policy.receive_ring"));
    assert!(wiretime_packet::run("{}", File::open("/dev/null").unwrap().into(), None, None).is_err());
}
