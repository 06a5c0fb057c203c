//! Instructions that some cores take together, or do not execute: against what a pipeline does by hand. And loads that run past
//! older stores.

use wiretime_hw::core::{BlockRef, Class, Core, Flat, MemEvent, MemKind, MicroOp, Quick, REG_FLAGS};
use wiretime_hw::memory::MemorySystem;
use wiretime_hw::params::Platform;

const TURNS: u64 = 1000;

/// A core that dispatches four instructions a cycle, with three integer units, and nothing of the kind in force.
fn platform() -> Platform {
    let mut p: Platform = toml::from_str(include_str!("../../../../platforms/neoverse-n1.toml")).expect("a platform");
    p.core.dependence_entries = 0;
    p
}

fn op(class: Class, reads: &[u8], writes: &[u8]) -> MicroOp {
    let mut op = MicroOp::new(class);
    reads.iter().for_each(|&r| _ = op.reads(r));
    writes.iter().for_each(|&r| _ = op.writes(r));
    op
}

/// The core after so many turns of a straight block.
fn run(p: &Platform, ops: &[MicroOp], accesses: &[MemEvent], turns: u64) -> Core {
    let (mut core, mut memory) = (Core::new(p, 0), MemorySystem::new(p, 1));
    let quick = Quick::block(ops);
    let block = BlockRef { paddr: 0x4000_0000, vaddr: 0x40_0000, quick: &quick, ops };
    for _ in 0..turns {
        core.run(block, 0, ops.len(), accesses, None, &mut memory, &mut Flat);
    }
    core
}

/// Cycles a turn, once it is warm.
fn cycles(p: &Platform, ops: &[MicroOp]) -> f64 {
    let [warm, all] = [TURNS, 2 * TURNS].map(|turns| run(p, ops, &[], turns).stats().cycles);
    (all - warm) as f64 / TURNS as f64
}

fn near(cycles: f64, expected: f64) {
    assert!((cycles - expected).abs() < 0.02, "{cycles} instead of {expected}");
}

#[test]
fn a_fused_pair_takes_one_place_and_one_cycle() {
    let mut p = platform();
    // So that fetch is not what limits.
    p.core.fetch_width = 8;
    // Eight pairs that depend on nothing; then each on the one before.
    let pair =
        |from: u8, to: u8| [op(Class::Alu, &[from, 20], &[REG_FLAGS]), op(Class::Alu, &[REG_FLAGS, 21, 22], &[to])];
    let apart: Vec<_> = (0..8).flat_map(|i| pair(23, i)).collect();
    let chain: Vec<_> = (0..8).flat_map(|_| pair(1, 1)).collect();
    let branches = |p: &Platform| {
        let (compare, mut branch) = (op(Class::Alu, &[20, 21], &[REG_FLAGS]), op(Class::Branch, &[REG_FLAGS], &[]));
        branch.branch = wiretime_hw::core::Branch::Conditional;
        // A branch that is not a block's last is not taken.
        let ops: Vec<_> = (0..8).flat_map(|_| [compare, branch]).collect();
        cycles(p, &ops)
    };
    near(cycles(&p, &apart), 16.0 / 3.0);
    near(cycles(&p, &chain), 16.0);
    near(branches(&p), 8.0);
    p.core.fused_branches = true;
    near(cycles(&p, &chain), 16.0);
    // One branch unit takes one a cycle; with two, four places of dispatch take eight pairs in two.
    near(branches(&p), 8.0);
    (p.core.units.branch, p.core.dispatch_width) = (2, 2);
    near(branches(&p), 4.0);
    p.core.dispatch_width = 4;
    p.core.fused_selects = true;
    near(cycles(&p, &apart), 8.0 / 3.0);
    near(cycles(&p, &chain), 8.0);
}

#[test]
fn a_renamed_move_takes_a_place_and_no_time() {
    let mut p = platform();
    // So that fetch is not what limits.
    p.core.fetch_width = 8;
    let mut moved = op(Class::Alu, &[1], &[2]);
    moved.moves = true;
    let chain: Vec<_> = (0..8).flat_map(|_| [op(Class::Alu, &[2], &[1]), moved]).collect();
    near(cycles(&p, &chain), 16.0);
    near(cycles(&p, &[moved; 8]), 8.0 / 3.0);
    p.core.zero_latency_moves = true;
    near(cycles(&p, &chain), 8.0);
    near(cycles(&p, &[moved; 8]), 2.0);
    p.core.kind = wiretime_hw::params::CoreKind::InOrder;
    near(cycles(&p, &chain), 16.0);
}

#[test]
fn dispatch_sends_off_as_many_of_a_kind_as_its_limit() {
    let mut p = platform();
    p.core.dispatch_width = 8;
    p.core.units.integer = 4;
    let independent: Vec<_> = (0..12).map(|i| op(Class::Alu, &[20], &[i])).collect();
    near(cycles(&p, &independent), 12.0 / 4.0); // fetched four a cycle
    p.core.dispatch_limits.integer = 2;
    near(cycles(&p, &independent), 12.0 / 2.0);
    p.core.dispatch_limits.memory = 1;
    near(cycles(&p, &independent), 12.0 / 2.0);
    // What is of no kind that has a limit goes beside.
    let mixed: Vec<_> = (0..8).flat_map(|i| [op(Class::Alu, &[20], &[i]), op(Class::Simd, &[40], &[32 + i])]).collect();
    near(cycles(&p, &mixed), 4.0);
}

#[test]
fn a_load_runs_past_an_older_store_of_its_bytes_once() {
    let mut p = platform();
    let mut store = op(Class::Store, &[9, 20], &[]);
    store.data_from = 1;
    // The store's address takes twenty cycles, the load's is there.
    let ops = [op(Class::DivWide, &[20], &[9]), store, op(Class::Load, &[21], &[1])];
    let event = |index, kind| MemEvent { paddr: 0x8000_0000, vaddr: 0x8000_0000, value: 0, index, kind, size: 8 };
    let accesses = [event(1, MemKind::Store), event(2, MemKind::Load)];
    let cycles = |p: &Platform| {
        let core = run(p, &ops, &accesses, TURNS);
        (core.stats().order_violations, core.stats().store_forwards, core.stats().cycles)
    };
    let foreseen = cycles(&p);
    p.core.dependence_entries = 64;
    let learnt = cycles(&p);
    assert_eq!((foreseen.0, learnt.0), (0, 1));
    assert_eq!((foreseen.1, learnt.1), (TURNS, TURNS));
    // It is fetched again once the address is there; dispatch would have gone on.
    let lost = (learnt.2 - foreseen.2) as i64;
    assert!((i64::from(p.core.mispredict_penalty)..60).contains(&lost), "{lost}");
}
