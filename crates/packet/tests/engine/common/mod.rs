//! What the tests of this crate share: machines and models of the repository, runs, their results.

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

/// A platform of the repository, with a core for each queue.
pub fn platform(name: &str, queues: u32) -> Platform {
    let text = fs::read_to_string(repository().join(format!("platforms/{name}.toml"))).unwrap();
    let mut p: Platform = toml::from_str(&text).unwrap();
    p.system.cores = queues + 1;
    p
}

/// A model of the repository.
pub fn model(name: &str) -> CostModel {
    toml::from_str(&fs::read_to_string(repository().join(format!("models/{name}.toml"))).unwrap()).unwrap()
}

/// A short run.
pub fn settings(size: u32, queues: u32) -> RunSettings {
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

/// What a run leaves, or why there is none.
pub fn run(p: &Platform, s: &RunSettings, model: &CostModel) -> Result<Value, String> {
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

/// Whether a figure is as near to another as it should be.
pub fn near(found: f64, expected: f64, within: f64) {
    assert!((found / expected - 1.0).abs() < within, "{found} instead of {expected}");
}
