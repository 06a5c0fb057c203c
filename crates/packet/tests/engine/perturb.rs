//! Every parameter that only a QDMA has matters: changing it moves some statistic of a fixed load, or it is listed here with
//! the test that shows what it does. Those of a ConnectX are changed in `crates/hw/tests/models/fuzz_mlx5.rs`, those of all
//! machines in `perturb.rs` beside it.

use super::common::{model, platform, run, settings};
use serde_json::{json, Value};
use wiretime_hw::params::Platform;

/// What loads of streams cannot show, and what does.
const ELSEWHERE: [(&str, &str); 4] = [
    ("user_logic", "tests/test_qdma.py: an Ethernet port"),
    ("drops_without_descriptors", "of an Ethernet port alone: tests/test_qdma.py"),
    ("card_memory", "which addresses answer, and no time: crates/hw/tests/models/qdma.rs"),
    ("card_memory_latency", "of queues between memories: crates/hw/tests/models/qdma.rs"),
];

/// Size and queues.
const LOADS: [(u32, u32); 3] = [(64, 1), (1088, 8), (512, 4)];

/// Other values: of a number with a unit, double and half; of a whole number, besides, one; the other truth.
fn others(value: &Value) -> Vec<Value> {
    if let Some(n) = value.as_i64() {
        return [2 * n, n / 2, 1].into_iter().filter(|m| *m != n && *m > 0).map(Value::from).collect();
    }
    if let Some(b) = value.as_bool() {
        return vec![json!(!b)];
    }
    let text = value.as_str().unwrap_or_default();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let Ok(n) = number.parse::<f64>() else { return vec![] };
    [2.0, 0.5, 0.0].iter().map(|f| json!(format!("{}{unit}", n * f))).collect()
}

fn results(p: &Value) -> Vec<Option<String>> {
    let one = |&(size, queues): &(u32, u32)| {
        let mut p: Platform = serde_json::from_value(p.clone()).ok()?;
        p.system.cores = queues + 1;
        p.check().ok()?;
        Some(run(&p, &settings(size, queues), &model("testpmd-qdma")).ok()?.to_string())
    };
    LOADS.iter().map(one).collect()
}

#[test]
fn every_parameter_of_the_card_moves_something() {
    let base = serde_json::to_value(platform("xeon-8168", 1)).expect("JSON");
    let before = results(&base);
    assert!(before.iter().all(Option::is_some), "every load runs");
    let table = base["nic"][0]["qdma"].as_object().expect("the card's own").clone();
    for (key, value) in &table {
        let moves = others(value).into_iter().any(|other| {
            let mut changed = base.clone();
            changed["nic"][0]["qdma"][key] = other;
            results(&changed).iter().zip(&before).any(|(after, before)| after.is_some() && after != before)
        });
        let elsewhere = ELSEWHERE.iter().any(|(k, _)| k == key);
        assert!(moves != elsewhere, "{key}{}", if elsewhere { " is listed, but moves" } else { " moves nothing" });
    }
}
