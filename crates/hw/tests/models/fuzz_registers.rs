//! All register interfaces and their descriptor rings against a guest that does anything (chaos/registers.rs). No panic, and
//! nothing written outside what was handed over.
//!
//! The seeds below are the corpus: each is a run that once went wrong, or the first of its kind. `make fuzz` has what drives
//! the same by coverage.

use super::chaos::{platform, registers, seeds, Random};
use wiretime_hw::params::Interface;

const ACCESSES: u64 = 500_000;

fn fuzz(interface: Interface, mapped: bool, seed: u64) {
    let name = format!("seed {seed:#x}");
    let mut p = platform();
    p.nic[0].interface = interface;
    let driven = registers::drive((interface, mapped), &name, p, &mut Random::new(seed), ACCESSES);
    let stats = driven.stats;
    assert!(stats.receive.frames > 1000, "traffic has flowed: {stats:?}");
    assert!(stats.receive.delivered > 0 && stats.transmit.descriptors_fetched > 0, "the rings were used: {stats:?}");
    assert!(driven.faults > 0, "faults are counted");
    assert!(driven.outside > 0 && driven.odd > 0);
    assert!(driven.messages > 0 || interface != Interface::Qdma, "queues have interrupted");
}

#[test]
fn the_8254x() {
    for seed in seeds(&[0x9e37_79b9_7f4a_7c15, 2]) {
        fuzz(Interface::I8254x, false, seed);
    }
}

#[test]
fn the_82599() {
    for seed in seeds(&[0x9e37_79b9_7f4a_7c15, 2, 0xc645_db0b_e0ef_5d65, 0x647d_54c5_6039_d979]) {
        fuzz(Interface::I82599, false, seed);
    }
}

#[test]
fn the_qdma() {
    for seed in seeds(&[0x9e37_79b9_7f4a_7c15, 2, 3, 4]) {
        fuzz(Interface::Qdma, false, seed);
    }
}

#[test]
fn the_qdma_between_memories() {
    for seed in seeds(&[5, 6, 7]) {
        fuzz(Interface::Qdma, true, seed);
    }
}
