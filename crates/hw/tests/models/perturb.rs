//! Every parameter matters: changing it moves some statistic of a fixed load, on some machine, or it is listed here with
//! the reason why the models cannot see it.

use super::exercise::LOADS;
use serde_json::Value;
use wiretime_hw::params::Platform;

/// Parameters that no model of this crate reads, and why.
const ELSEWHERE: [(&str, &str); 14] = [
    ("core.timing.load.unit", "loads execute in the load unit: nothing else is allowed"),
    ("core.timing.load_vector.unit", "loads execute in the load unit: nothing else is allowed"),
    ("core.timing.store.unit", "stores execute in the store unit: nothing else is allowed"),
    ("core.timing.prefetch.latency", "nobody waits for a prefetch"),
    ("name", "a name"),
    ("description", "a text"),
    ("nic.interface", "what the driver sees; the same resources behind it"),
    ("nic.slot", "which of equal slots the card is in"),
    ("nic.ports", "how many ports the engine starts"),
    ("system.cores", "how many cores the engine starts"),
    ("system.memory", "the guest's memory, which QEMU makes"),
    ("system.cpu", "which instructions the guest finds"),
    ("system.counter_frequency", "the guest's counter, which QEMU shows"),
    ("system.boot_instruction_time", "time while nothing is timed; the engine's"),
];

fn load(text: &str, changes: &[(&str, Value)]) -> Value {
    let table: toml::Value = toml::from_str(text).expect("TOML");
    let mut value = serde_json::to_value(table).expect("JSON");
    for (key, to) in changes {
        *at(&mut value, key) = to.clone();
    }
    value
}

/// A parameter by its dotted name; of a list of tables, the first one's.
fn at<'a>(value: &'a mut Value, key: &str) -> &'a mut Value {
    key.split('.').fold(value, |v, k| {
        let table = if v.is_array() { v.get_mut(0) } else { Some(v) };
        table.and_then(|t| t.get_mut(k)).unwrap_or_else(|| panic!("no parameter {key}"))
    })
}

fn leaves(value: &Value, prefix: &str, into: &mut Vec<String>) {
    match value.get(0).unwrap_or(value).as_object() {
        Some(fields) => fields.iter().for_each(|(k, v)| {
            let path = if prefix.is_empty() { k.clone() } else { format!("{prefix}.{k}") };
            leaves(v, &path, into);
        }),
        None => into.push(prefix.to_owned()),
    }
}

/// Whether a whole number is in the range that the schema gives `key`; the command line sees to it.
fn in_range(schema: &Value, key: &str, n: i64) -> bool {
    let mut node = schema;
    for part in key.split('.') {
        node = &node["properties"][part];
        node = node.get("items").unwrap_or(node);
        if let Some(name) = node["$ref"].as_str() {
            node = &schema["$defs"][name.rsplit('/').next().unwrap_or_default()];
        }
    }
    let limit = |name: &str, otherwise: i64| node[name].as_i64().unwrap_or(otherwise);
    (limit("minimum", 0)..=limit("maximum", i64::MAX)).contains(&n)
}

/// Other values for a parameter: double, half, one more, one less; each of the words.
fn others(schema: &Value, value: &Value, key: &str) -> Vec<Value> {
    if let Some(n) = value.as_i64() {
        let mut list = vec![n * 2, n / 2, n + 1, n - 1, n * 4, n * 16, n / 8, 1, 2, 0];
        list.retain(|&m| m != n && in_range(schema, key, m));
        return list.into_iter().map(Value::from).collect();
    }
    if let Some(b) = value.as_bool() {
        return vec![Value::from(!b)];
    }
    let text = value.as_str().unwrap_or_default();
    let words: &[&str] = match key.rsplit('.').next().unwrap_or_default() {
        "kind" if key.starts_with("core") => &["out-of-order", "in-order"],
        "kind" => &["off", "next-line", "stride", "stream", "best-offset", "spatial"],
        "direction" => &["bimodal", "gshare", "bi-mode", "tage"],
        "replacement" => &["lru", "random", "pseudo-lru", "rrip"],
        "index" => &["virtual", "physical"],
        "inclusion" => &["inclusive", "non-inclusive", "exclusive", "mostly-exclusive"],
        "page_policy" => &["open", "closed", "timed"],
        "refresh" => &["rank", "bank"],
        "mapping" => &["group-interleaved", "row-contiguous"],
        "dca_beyond" => &["oldest", "memory"],
        "device_reads" => &["share", "snapshot"],
        "stash" => &["none", "completions", "all"],
        "path" => &["pcie", "bus"],
        "walks" => &["timed", "read"],
        "unit" => &["none", "branch", "integer", "multiply", "vector", "vector-first", "vector-last", "load"],
        _ => &[],
    };
    if !words.is_empty() {
        return words.iter().filter(|w| **w != text).map(|w| Value::from(*w)).collect();
    }
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let Ok(n) = number.parse::<f64>() else { return vec![] };
    if n == 0.0 {
        return vec![Value::from(format!("25{unit}"))];
    }
    [2.0, 0.5, 8.0, 0.125].iter().map(|f| Value::from(format!("{}{unit}", n * f))).collect()
}

fn machine(value: &Value) -> Option<Platform> {
    let platform: Platform = serde_json::from_value(value.clone()).ok()?;
    platform.check().ok()?;
    Some(platform)
}

#[test]
fn every_parameter_moves_something() {
    let schema = serde_json::to_value(schemars::schema_for!(Platform)).expect("a schema");
    let n1 = include_str!("../../../../platforms/neoverse-n1.toml");
    let gem5 = include_str!("../../../../platforms/gem5-n1-paper.toml");
    let small = include_str!("../../../../platforms/in-order.toml");
    let v = |text: &str| Value::from(text);
    // Machines on which different things are scarce.
    let bases = [
        load(n1, &[]),
        load(
            n1,
            &[
                ("iommu.enabled", Value::from(true)),
                ("iommu.walks", v("read")),
                ("iommu.second_iotlb_entries", Value::from(64)),
                ("iommu.table_cache_entries", Value::from(4)),
                ("io.write_combining", Value::from(true)),
                ("nic.descriptor_write_back_timer", v("300ns")),
            ],
        ),
        load(gem5, &[]),
        load(gem5, &[("bus.half_duplex", Value::from(true)), ("l2.prefetcher.kind", v("stream"))]),
        load(small, &[]),
        load(n1, &[("llc.mshrs", Value::from(2)), ("llc.dca_ways", Value::from(2)), ("l1d.mshrs", Value::from(4))]),
        load(
            n1,
            &[
                ("pcie.posted_data", Value::from(16)),
                ("pcie.non_posted_headers", Value::from(4)),
                ("dram.channels", Value::from(1)),
                ("dram.page_policy", v("timed")),
                ("l1i.prefetcher.distance", Value::from(4)),
            ],
        ),
        load(
            n1,
            &[
                ("pcie.posted_headers", Value::from(2)),
                ("pcie.tags", Value::from(4)),
                ("core.integer_queue_entries", Value::from(6)),
                ("core.rob_entries", Value::from(512)),
                ("l2.mshrs", Value::from(4)),
            ],
        ),
        load(n1, &[("l2.size", v("128KiB")), ("llc.size", v("512KiB"))]),
        load(
            n1,
            &[
                ("core.mop_cache_entries", Value::from(256)),
                ("core.mop_cache_ways", Value::from(2)),
                ("core.decode_width", Value::from(3)),
                ("core.decode_latency", Value::from(1)),
                ("core.timing.auth.unit", v("multiply")),
            ],
        ),
        load(n1, &[("llc.dca_ways", Value::from(2)), ("llc.dca_lines", Value::from(64))]),
        load(
            n1,
            &[
                ("l1i.prefetcher.kind", v("stream")),
                ("l1i.prefetcher.degree", Value::from(4)),
                ("l1i.prefetcher.distance", Value::from(32)),
                ("l1i.prefetcher.entries", Value::from(1)),
                ("l1i.prefetcher.throttle_below", Value::from(50)),
                ("l1d.prefetcher.kind", v("next-line")),
                ("l1d.prefetcher.degree", Value::from(4)),
                ("l1d.prefetcher.throttle_below", Value::from(50)),
                ("l2.prefetcher.throttle_below", Value::from(50)),
                ("l2.prefetcher.entries", Value::from(1)),
            ],
        ),
        load(
            n1,
            &[
                ("core.vector_queue_entries", Value::from(200)),
                ("core.integer_registers", Value::from(400)),
                ("core.vector_registers", Value::from(44)),
                ("core.load_queue_entries", Value::from(6)),
                ("core.store_queue_entries", Value::from(4)),
                ("core.memory_queue_entries", Value::from(4)),
            ],
        ),
    ];
    let before = bases.each_ref().map(|b| machine(b).expect("a sound machine")).map(|p| LOADS.map(|load| load(&p)));
    let mut keys = Vec::new();
    leaves(&bases[0], "", &mut keys);
    let (all, elsewhere) = (keys.len(), ELSEWHERE.len());
    let told = format!("{} of {all} move; the other {elsewhere} say why not", all - elsewhere);
    assert!(include_str!("../../../../README.md").contains(&told), "README: {told}");
    assert!(include_str!("../../../../docs/how-it-works.md").contains(&format!("every one of the {all}")), "{all}");
    let check = |key: &String| {
        // First the load that most likely shows it.
        let mut loads: Vec<usize> = (0..LOADS.len()).collect();
        if ["nic", "pcie", "io"].iter().any(|part| key.starts_with(part)) {
            loads.reverse();
        }
        let moved = |base: &Value, before: &[Vec<u64>], other: &Value| {
            let mut changed = base.clone();
            *at(&mut changed, key) = other.clone();
            machine(&changed).is_some_and(|p| loads.iter().any(|&n| LOADS[n](&p) != before[n]))
        };
        let moves = bases.iter().zip(&before).any(|(base, before)| {
            let value = at(&mut base.clone(), key).clone();
            others(&schema, &value, key).iter().any(|other| moved(base, before, other))
        });
        let elsewhere = ELSEWHERE.iter().any(|(k, _)| k == key);
        (moves == elsewhere).then(|| format!("{key}{}", if elsewhere { " (listed, but moves)" } else { "" }))
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let inert: Vec<String> = std::thread::scope(|scope| {
        let part = |n: usize| keys.iter().skip(n).step_by(threads).filter_map(check).collect::<Vec<_>>();
        let parts: Vec<_> = (0..threads).map(|n| scope.spawn(move || part(n))).collect();
        parts.into_iter().flat_map(|p| p.join().expect("no panic")).collect()
    });
    assert!(inert.is_empty(), "of {} parameters these move nothing: {inert:#?}", keys.len());
}
