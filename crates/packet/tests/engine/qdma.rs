//! Runs of the packet-level engine on the QDMA: closed forms of its device, balance, the same bytes each time, refusals.

use super::common::{self, near, platform, run, settings};
use std::fs::File;
use wiretime_hw::params::{Platform, UserLogic};
use wiretime_packet::CostModel;

fn model() -> CostModel {
    common::model("testpmd-qdma")
}

fn mpps(p: &Platform, size: u32, queues: u32) -> f64 {
    let result = run(p, &settings(size, queues), &model()).unwrap();
    assert_eq!(result["cohort"]["offered"], result["cohort"]["forwarded"], "nothing is lost");
    result["offered_mpps"].as_f64().unwrap()
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
    let text = |value: serde_json::Value| value.to_string();
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

/// An overloaded host behind a wire: packets are lost because software is slow, whether the stream waits for descriptors or
/// packets without any are dropped, which leaves the buffer empty.
#[test]
fn packets_without_descriptors_wait_or_are_dropped() {
    let mut slow = model();
    slow.cycles.receive = 300.0;
    let mut p = platform("xeon-8168", 1);
    p.link[0].rate = "100Gbps".parse().unwrap();
    let mut s = settings(64, 1);
    (s.warm_up, s.load.rate) = ("1ms".parse().unwrap(), "20Gbps".parse().unwrap());
    let mut peaks = Vec::new();
    for drops in [false, true] {
        let q = p.nic[0].qdma.as_mut().unwrap();
        (q.user_logic, q.drops_without_descriptors) = (UserLogic::Wire, drops);
        let result = run(&p, &s, &slow).unwrap();
        assert!(result["loss_percent"].as_f64().unwrap() > 50.0);
        let cohort = &result["cohort"];
        assert!(cohort["core_drop"].as_u64() > Some(cohort["offered"].as_u64().unwrap() / 2), "{cohort}");
        peaks.push(result["statistics"]["ports"][0]["receive"]["fifo_level_ps"].as_f64().unwrap());
    }
    assert!(peaks[1] < peaks[0] / 4.0, "{peaks:?}");
}

/// What the driver programs acts: entries of 64 B share no lines, fetches of 8 descriptors come more often.
#[test]
fn the_device_does_as_it_is_programmed() {
    let p = platform("xeon-8168", 4);
    let fetches = |m: &CostModel| {
        let result = run(&p, &settings(128, 4), m).unwrap();
        let port = &result["statistics"]["ports"][0];
        let each = port["receive"]["descriptors_fetched"].as_f64().unwrap();
        let rate = result["offered_mpps"].as_f64().unwrap();
        (rate, each / port["receive"]["descriptor_fetches"].as_f64().unwrap())
    };
    let usual = fetches(&model());
    let mut other = model();
    other.qdma.as_mut().unwrap().completion = 64;
    assert!(fetches(&other).0 < 0.95 * usual.0);
    let mut other = model();
    other.qdma.as_mut().unwrap().fetch = 8;
    assert!(fetches(&other).1 <= 8.0 && usual.1 <= 32.0);
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
    let mut completion = model();
    completion.qdma.as_mut().unwrap().completion = 24;
    assert!(run(&p, &s, &completion).unwrap_err().contains("must be 8, 16, 32 or 64"));
    let mut none = model();
    none.qdma = None;
    assert!(run(&p, &s, &none).unwrap_err().contains("needs the table qdma"));
    assert!(wiretime_packet::run("{}", File::open("/dev/null").unwrap().into(), None, None).is_err());
}
