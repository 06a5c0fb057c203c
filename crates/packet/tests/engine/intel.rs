//! Runs of the packet-level engine on Intel's families: rates by arithmetic, rings, several buffers a packet, queues,
//! causes of loss.

use super::common::{self, near, platform, run, settings};
use serde_json::Value;
use wiretime_experiment::RunSettings;
use wiretime_hw::params::{Interface, Platform};
use wiretime_packet::{CostModel, OnFull, Payload};

const FAMILIES: [(Interface, &str); 2] = [(Interface::I8254x, "testpmd-8254x"), (Interface::I82599, "testpmd-82599")];

fn machine(interface: Interface, queues: u32) -> Platform {
    let mut p = platform("ampere-altra", queues);
    // In the slot of its own card.
    p.nic = platform("neoverse-n1", queues).nic;
    p.nic[0].interface = interface;
    p
}

fn loaded(size: u32, queues: u32, rate: &str) -> RunSettings {
    let mut s = settings(size, queues);
    s.load.rate = rate.parse().unwrap();
    (s.warm_up, s.duration) = ("300us".parse().unwrap(), "300us".parse().unwrap());
    s
}

/// A model whose every packet costs so many cycles and touches nothing but rings.
fn plain(model: &str, cycles: f64) -> CostModel {
    let mut m = common::model(model);
    (m.cycles.empty_poll, m.cycles.turn, m.cycles.receive, m.cycles.send) = (20.0, 0.0, cycles / 2.0, cycles / 2.0);
    m.cycles.work = 0.0;
    m.touches.payload = Payload::None;
    (m.touches.writes_header, m.touches.prefetch_ahead, m.touches.window) = (false, 0, 1000);
    (m.touches.received_lines, m.touches.posted_lines, m.touches.released_lines) = (0, 0, 0);
    m
}

fn number(result: &Value, name: &str) -> f64 {
    result[name].as_f64().unwrap()
}

#[test]
fn what_is_offered_is_forwarded() {
    for (interface, name) in FAMILIES {
        for size in [64, 1518] {
            let result = run(&machine(interface, 1), &loaded(size, 1, "5Gbps"), &common::model(name)).unwrap();
            assert_eq!(result["cohort"]["offered"], result["cohort"]["forwarded"], "{name}");
            near(number(&result, "forwarded_gbps"), 5.0, 0.01);
        }
    }
}

/// 3 GHz over the cycles of a packet; the ring is full, so the core is the cause.
#[test]
fn overload_takes_as_long_as_the_model_says() {
    for (interface, name) in FAMILIES {
        let result = run(&machine(interface, 1), &loaded(64, 1, "60Gbps"), &plain(name, 150.0)).unwrap();
        near(number(&result, "forwarded_mpps"), 20.0, 0.03);
        let cohort = &result["cohort"];
        assert!(cohort["core_drop"].as_u64().unwrap() > 0 && cohort["dma_drop"] == 0, "{cohort}");
    }
}

/// Frames over several buffers, each way.
#[test]
fn a_packet_may_take_several_buffers() {
    for ((interface, name), buffer, size) in [(FAMILIES[0], 2048, 9000), (FAMILIES[1], 1024, 1518)] {
        let mut m = common::model(name);
        m.policy.buffer = buffer;
        let result = run(&machine(interface, 1), &loaded(size, 1, "8Gbps"), &m).unwrap();
        assert_eq!(result["cohort"]["offered"], result["cohort"]["forwarded"], "{name}");
        near(posted_per_packet(&result), f64::from(size.div_ceil(buffer)), 0.04);
    }
}

/// Receive descriptors posted for each packet sent, in the measurement.
fn posted_per_packet(result: &Value) -> f64 {
    let s = &result["statistics"];
    s["ports"][0]["queues"][0]["driver"]["posted"].as_f64().unwrap() / number(&s["transmit"], "frames")
}

/// The vector path counts descriptors: so many are taken as are posted anew, and the ring stays as full as its driver keeps it.
#[test]
fn a_burst_in_bulk_is_of_descriptors() {
    let mut m = plain("testpmd-82599", 800.0);
    m.policy.buffer = 1024;
    let result = run(&machine(Interface::I82599, 1), &loaded(1518, 1, "60Gbps"), &m).unwrap();
    let queue = &result["ports"][0]["queues"][0];
    let most = queue["burst_sizes"].as_array().unwrap().iter().map(|pair| pair[0].as_u64().unwrap()).max();
    assert_eq!(most, Some(16), "{queue}");
    near(posted_per_packet(&result), 2.0, 0.02);
}

/// A model that gives back one descriptor at a time finds room for packets of two.
#[test]
fn a_threshold_below_a_packets_descriptors_stops_nothing() {
    let mut m = common::model("testpmd-82599");
    (m.policy.buffer, m.policy.release, m.policy.on_full) = (1024, 1, OnFull::Wait);
    let result = run(&machine(Interface::I82599, 1), &loaded(1518, 1, "8Gbps"), &m).unwrap();
    assert_eq!(result["cohort"]["offered"], result["cohort"]["forwarded"]);
}

/// A program that waits for room loses nothing by itself; one that does not, does.
#[test]
fn a_full_ring_drops_or_waits() {
    for (on_full, thrown_away) in [(OnFull::Drop, true), (OnFull::Wait, false)] {
        let mut m = plain("testpmd-82599", 40.0);
        (m.policy.transmit_ring, m.policy.on_full) = (64, on_full);
        // Few reads at a time: sending is slower than receiving.
        let mut p = machine(Interface::I82599, 1);
        p.nic[0].dma_reads = 2;
        let result = run(&p, &loaded(1518, 1, "60Gbps"), &m).unwrap();
        assert_eq!(result["cohort"]["host_drop"].as_u64().unwrap() > 0, thrown_away, "{}", result["cohort"]);
    }
}

/// A program that gathers many packets loses none where each is sent in time: the driver finds room as it goes.
#[test]
fn many_packets_are_sent_at_once() {
    for (interface, name) in FAMILIES {
        let mut m = plain(name, 60.0);
        (m.policy.gather, m.policy.straight, m.policy.drain) = (512, 512, "100us".parse().unwrap());
        let mut s = loaded(256, 1, "20Gbps");
        s.duration = "1ms".parse().unwrap();
        let result = run(&machine(interface, 1), &s, &m).unwrap();
        assert_eq!(result["cohort"]["offered"], result["cohort"]["forwarded"], "{name}");
        // 512 packets of 9.77 Mpps come in 52 us, wait for half of that, and leave in 11 us by the line.
        near(number(&result["latency_ns"], "mean"), 26_200.0 + 5_700.0 + 3_000.0, 0.1);
    }
}

#[test]
fn flows_spread_over_queues() {
    let mut s = loaded(64, 4, "20Gbps");
    s.load.flows.count = 1000;
    let result = run(&machine(Interface::I82599, 4), &s, &common::model("testpmd-82599")).unwrap();
    let queues = result["ports"][0]["queues"].as_array().unwrap();
    assert!(queues.iter().all(|q| q["cohort"]["forwarded"].as_u64().unwrap() > 1000), "{queues:?}");
    assert_eq!(result["loss_percent"], 0.0);
}

#[test]
fn a_faster_core_a_cache_for_devices_and_a_smaller_ring_do_what_they_should() {
    let m = common::model("testpmd-82599");
    let forwarded =
        |p: &Platform, m: &CostModel| number(&run(p, &loaded(64, 1, "60Gbps"), m).unwrap(), "forwarded_mpps");
    let usual = machine(Interface::I82599, 1);
    let rate = forwarded(&usual, &m);
    let mut slow = usual.clone();
    slow.core.frequency = "2GHz".parse().unwrap();
    assert!(forwarded(&slow, &m) < 0.9 * rate);
    let mut dca = usual.clone();
    dca.llc.dca_ways = 4;
    assert!(forwarded(&dca, &m) > rate);
    let mut small = m.clone();
    (small.policy.receive_ring, small.policy.transmit_ring) = (128, 128);
    let latency = |m: &CostModel| number(&run(&usual, &loaded(64, 1, "60Gbps"), m).unwrap()["latency_ns"], "mean");
    assert!(latency(&small) < latency(&m));
}

#[test]
fn what_a_device_cannot_do_is_refused() {
    let mut m = common::model("testpmd-82599");
    m.policy.buffer = 2000;
    let refused = run(&machine(Interface::I82599, 1), &loaded(64, 1, "1Gbps"), &m).unwrap_err();
    assert!(refused.contains("policy.buffer") && refused.contains("1024, 2048"), "{refused}");
    for (receive, transmit, key) in [(1001, 1024, "policy.receive_ring"), (1024, 1000, "policy.report")] {
        let mut m = common::model("testpmd-82599");
        (m.policy.receive_ring, m.policy.transmit_ring) = (receive, transmit);
        let refused = run(&machine(Interface::I82599, 1), &loaded(64, 1, "1Gbps"), &m).unwrap_err();
        assert!(refused.contains(key), "{refused}");
    }
}
