//! Runs of the packet-level engine on a ConnectX: balance, queues, what its driver is told, refusals.

use super::common::{self, near, platform, run, settings};
use wiretime_experiment::RunSettings;
use wiretime_hw::params::Platform;
use wiretime_packet::CostModel;

fn model() -> CostModel {
    common::model("testpmd-connectx-6dx")
}

fn load(rate: &str, size: u32, queues: u32) -> RunSettings {
    let mut s = settings(size, queues);
    s.load.rate = rate.parse().unwrap();
    s
}

fn forwarded(p: &Platform, s: &RunSettings, m: &CostModel) -> f64 {
    run(p, s, m).unwrap()["forwarded_mpps"].as_f64().unwrap()
}

/// Every packet comes back, whatever place of its rings it meets: requests, completions and blocks go round several times.
#[test]
fn what_is_not_too_much_is_forwarded() {
    let p = platform("grace", 1);
    let mut small = model();
    (small.policy.receive_ring, small.policy.transmit_ring) = (256, 256);
    for m in [model(), small] {
        let mut s = load("10Gbps", 64, 1);
        s.duration = "1ms".parse().unwrap();
        let result = run(&p, &s, &m).unwrap();
        assert_eq!(result["cohort"]["offered"], result["cohort"]["forwarded"]);
        near(result["offered_mpps"].as_f64().unwrap(), 19.5, 0.01);
        let io = &result["statistics"]["ports"][0];
        assert!(
            io["transmit"]["descriptors_fetched"].as_f64() < io["transmit"]["frames"].as_f64(),
            "packets share blocks"
        );
    }
}

/// Up to what a buffer holds: the driver has the port let longer ones through.
#[test]
fn long_packets_come_through() {
    for size in [1518, 1519, 2048] {
        let result = run(&platform("neoverse-v2", 1), &load("10Gbps", size, 1), &model()).unwrap();
        assert_eq!(result["cohort"]["offered"], result["cohort"]["forwarded"], "{size} B");
    }
}

#[test]
fn the_same_bytes_each_time() {
    let (p, s) = (platform("neoverse-v2", 2), load("40Gbps", 128, 2));
    let text = || run(&p, &s, &model()).unwrap().to_string();
    assert_eq!(text(), text());
}

/// Packets spread over queues by addresses and ports, each queue on a core of its own.
#[test]
fn several_queues_take_their_share() {
    let mut s = load("60Gbps", 64, 4);
    s.load.flows.count = 1000;
    let result = run(&platform("grace", 4), &s, &model()).unwrap();
    let queues = result["ports"][0]["queues"].as_array().unwrap().clone();
    let offered: Vec<f64> = queues.iter().map(|q| q["cohort"]["offered"].as_f64().unwrap()).collect();
    let mean = offered.iter().sum::<f64>() / 4.0;
    assert!(offered.len() == 4 && offered.iter().all(|n| (n / mean - 1.0).abs() < 0.5), "{offered:?}");
}

/// Slow software forwards what its cycles and its waits allow, and the rest is lost for want of requests.
#[test]
fn slow_software_runs_out_of_requests() {
    let mut slow = model();
    (slow.cycles.receive, slow.cycles.send) = (300.0, 200.0);
    let p = platform("grace", 1);
    let mut s = load("20Gbps", 64, 1);
    s.warm_up = "400us".parse().unwrap();
    let result = run(&p, &s, &slow).unwrap();
    let cycles = 300.0 + 200.0 + slow.cycles.work + slow.cycles.turn / 32.0;
    // Beside, it waits for completions, four at a time.
    let share = result["forwarded_mpps"].as_f64().unwrap() * cycles / (1e-6 * p.core.frequency.hz() as f64);
    assert!((0.85..1.0).contains(&share), "{share}");
    let lost = &result["cohort"];
    assert_eq!(
        lost["core_drop"].as_u64(),
        Some(lost["offered"].as_u64().unwrap() - lost["forwarded"].as_u64().unwrap())
    );
    assert!(result["statistics"]["ports"][0]["receive"]["out_of_buffer"].as_u64() > Some(0));
}

/// Under pressure of the link completions share entries; software gets every one of them.
#[test]
fn completions_share_entries() {
    let mut p = platform("grace", 4);
    p.slot[0].lanes = 4;
    p.nic[0].mlx5.as_mut().unwrap().compression_after = 4;
    let mut s = load("100Gbps", 64, 4);
    s.load.flows.count = 1000;
    let mut alone = model();
    alone.connectx.as_mut().unwrap().compresses = false;
    let (shared, each) = (forwarded(&p, &s, &model()), forwarded(&p, &s, &alone));
    assert!(shared > 1.1 * each, "{shared} and {each}");
}

/// A native build has places of 64 bytes, and looks at more of them together.
#[test]
fn places_of_completions_are_what_the_driver_says() {
    let (p, s) = (platform("grace", 1), load("5Gbps", 64, 1));
    let mut native = model();
    let c = native.connectx.as_mut().unwrap();
    (c.completion, c.looks) = (64, 8);
    let result = run(&p, &s, &native).unwrap();
    assert_eq!(result["cohort"]["offered"], result["cohort"]["forwarded"]);
}

#[test]
fn programs_may_send_or_receive_alone() {
    let p = platform("grace", 1);
    for (program, role) in [("receive", "consumes"), ("send", "sends")] {
        let mut m = model();
        m.policy.program = serde_json::from_value(program.into()).unwrap();
        let mut s = load("10Gbps", 64, 1);
        s.role = serde_json::from_value(role.into()).unwrap();
        let port = run(&p, &s, &m).unwrap()["statistics"]["ports"][0].clone();
        let side = if program == "send" { &port["transmit"] } else { &port["receive"] };
        assert!(side["frames"].as_u64() > Some(1000), "{program}: {port}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let (p, s) = (platform("grace", 1), load("10Gbps", 64, 1));
    type Change = fn(&mut CostModel);
    let cases: [(Change, &str); 7] = [
        (|m| m.policy.receive_ring = 1000, "powers of two up to 8192"),
        (|m| m.policy.transmit_ring = 32768, "powers of two up to 16384"),
        (
            |m| (m.policy.transmit_ring, m.policy.report, m.connectx.as_mut().unwrap().completion) = (8192, 1, 128),
            "at most 8192 completions of sending fit here",
        ),
        (|m| m.connectx = None, "needs the table connectx"),
        (|m| m.connectx.as_mut().unwrap().completion = 32, "must be 64 or 128"),
        (|m| m.connectx.as_mut().unwrap().packets = 61, "must be from 1 to 60"),
        (|m| m.connectx.as_mut().unwrap().looks = 0, "must be from 1 to 64"),
    ];
    for (change, says) in cases {
        let mut m = model();
        change(&mut m);
        let why = run(&p, &s, &m).unwrap_err();
        assert!(why.contains(says), "{why}");
    }
    let long = load("10Gbps", 4000, 1);
    assert!(run(&p, &long, &model()).unwrap_err().contains("has to fit into one buffer"));
}

/// Ports are set up one after the other, each by commands of its own; testpmd has each port's queue on a core of its own.
#[test]
fn two_ports_forward_both() {
    let mut p = platform("grace", 2);
    p.nic[0].ports = 2;
    p.link.resize(2, p.link[0].clone());
    let result = run(&p, &load("10Gbps", 64, 1), &model()).unwrap();
    for port in result["ports"].as_array().unwrap() {
        let cohort = &port["cohort"];
        assert!(cohort["offered"].as_u64().unwrap() > 1000 && cohort["filtered"] == 0, "{cohort}");
        assert_eq!(cohort["offered"], cohort["forwarded"]);
    }
    let cores = result["statistics"]["cores"].as_array().unwrap().clone();
    let loads: Vec<u64> = cores.iter().map(|c| c["caches"]["l1_dcache_loads"].as_u64().unwrap()).collect();
    let busy = loads.iter().filter(|&&n| n > 5000).count();
    assert_eq!(busy, 2, "{loads:?}");
}
