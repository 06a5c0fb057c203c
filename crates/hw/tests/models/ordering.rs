//! Reads of system registers and memory barriers, on cores that drain for them (gem5's) and on those that do not.

use wiretime_hw::core::{BlockRef, Branch, Class, Core, Flat, MemEvent, MemKind, MicroOp, Order, Quick, Split};
use wiretime_hw::memory::MemorySystem;
use wiretime_hw::params::Platform;

const TURNS: u64 = 2000;

fn platform() -> Platform {
    toml::from_str(include_str!("../../../../platforms/neoverse-n1.toml")).expect("a platform")
}

/// Cycles of one turn of a loop of these operations, each access to a line of its own that stays in the L1D.
fn turn(p: &Platform, ops: &[MicroOp]) -> f64 {
    turn_over(p, ops, 0)
}

/// The same, all accesses to the same eight bytes.
fn turn_at_one_place(p: &Platform, ops: &[MicroOp]) -> f64 {
    turn_apart(p, ops, 0, 0)
}

/// The same, stores going so many lines further each turn.
fn turn_over(p: &Platform, ops: &[MicroOp], lines: u64) -> f64 {
    turn_apart(p, ops, lines, 64)
}

fn turn_apart(p: &Platform, ops: &[MicroOp], lines: u64, apart: u64) -> f64 {
    let (mut core, mut memory) = (Core::new(p, 0), MemorySystem::new(p, 1));
    let quick: Vec<Quick> = Quick::block(ops);
    let block = BlockRef { paddr: 0x4000_0000, vaddr: 0x40_0000, quick: &quick, ops };
    let kind = |op: &MicroOp| match op.class {
        Class::Load => Some(MemKind::Load),
        Class::Store => Some(MemKind::Store),
        _ => None,
    };
    let mut accesses: Vec<MemEvent> = ops
        .iter()
        .enumerate()
        .filter_map(|(i, op)| {
            let paddr = 0x8000_0000 + i as u64 * apart;
            kind(op).map(|kind| MemEvent { paddr, vaddr: paddr, value: 0, index: i as u16, kind, size: 8 })
        })
        .collect();
    let mut begin = core.cycle();
    for n in 0..2 * TURNS {
        if n == TURNS {
            begin = core.cycle();
        }
        for store in accesses.iter_mut().filter(|a| a.kind == MemKind::Store) {
            store.paddr += lines * 64;
            store.vaddr = store.paddr;
        }
        core.run(block, 0, ops.len(), &accesses, None, &mut memory, &mut Flat);
    }
    (core.cycle() - begin).0 as f64 / TURNS as f64
}

fn op(class: Class) -> MicroOp {
    MicroOp::new(class)
}

/// A read of a system register, then a chain of four.
fn chain_behind_a_read() -> Vec<MicroOp> {
    let mut ops = vec![op(Class::SystemRead)];
    ops[0].writes(1);
    for _ in 0..4 {
        let mut add = op(Class::Alu);
        add.reads(2).writes(2);
        ops.push(add);
    }
    ops
}

/// With a drain each turn is dispatch, issue, the chain, the drain; without, the chain of one turn follows the other's.
#[test]
fn a_read_that_drains_waits_for_all_before_it() {
    let mut p = platform();
    assert!((turn(&p, &chain_behind_a_read()) - 4.0).abs() < 0.01, "four adds in a chain");
    for drain in [2, 7] {
        p.core.system_read_drain = drain;
        // Dispatched in one or two cycles, started one later; the last add's result and commit; the drain.
        let found = turn(&p, &chain_behind_a_read());
        let least = 1.0 + 4.0 + f64::from(drain);
        assert!((least..=least + 2.0).contains(&found), "{found} cycles with a drain of {drain}");
    }
    // In order there is nothing to rename: the parameter is not in force.
    p.core.kind = wiretime_hw::params::CoreKind::InOrder;
    let drained = turn(&p, &chain_behind_a_read());
    p.core.system_read_drain = 0;
    assert_eq!(turn(&p, &chain_behind_a_read()), drained);
}

/// A barrier among stores only lets loads pass, unless it is a full one; then a turn takes what both take in turn.
#[test]
fn a_full_barrier_holds_every_access_behind_it() {
    let mut p = platform();
    let mut load = op(Class::Load);
    load.reads(3).writes(6);
    let mut store = op(Class::Store);
    store.reads(4).reads(5);
    store.data_from = 1;
    let mut barrier = op(Class::Barrier);
    barrier.order = Order::STORES;
    let ops = [store, barrier, load];
    let passes = turn(&p, &ops);
    p.core.full_barriers = true;
    let waits = turn(&p, &ops);
    assert!(passes < 2.5, "{passes}: loads of different turns overlap");
    let one_after_the_other = f64::from(p.l1d.latency) + 1.0;
    assert!((waits - one_after_the_other).abs() < 0.1, "{waits}: load and barrier in turn");
    // Stores that go to memory: the barrier waits until they are written.
    let written = turn_over(&p, &ops, 4097);
    let memory = p.llc.latency.ps() + p.dram.controller_latency.ps() + p.dram.t_cl.ps();
    let cycles = wiretime_base::Clock::of(p.core.frequency).cycle_at_or_after(memory).0 as f64;
    assert!(written > cycles, "{written} cycles a turn, a store from memory takes {cycles}");
}

/// A load behind a barrier, or one that acquires behind a store that releases, waits for the store to be written, although the
/// queue has its bytes; and takes as long as its kind does.
#[test]
fn what_holds_a_load_up_holds_one_up_that_a_store_answers() {
    let mut p = platform();
    // Forwarding is faster than leaving and reading the L1D.
    (p.core.full_barriers, p.core.store_forward_latency) = (true, 1);
    let (mut store, mut load, mut barrier) = (op(Class::Store), op(Class::Load), op(Class::Barrier));
    // Each turn stores what the last one has loaded.
    store.reads(4).reads(6);
    store.data_from = 1;
    load.reads(3).writes(6);
    barrier.order = Order::ALL;
    let forwarded = turn_at_one_place(&p, &[store, load]);
    assert!((forwarded - f64::from(p.core.store_forward_latency)).abs() < 1.5, "{forwarded}");
    let fenced = turn_at_one_place(&p, &[store, barrier, load]);
    assert!(fenced > forwarded + 2.0, "{fenced} behind a barrier, {forwarded} without");
    (store.order, load.order) = (Order::one_way(false, true), Order::one_way(true, false));
    let ordered = turn_at_one_place(&p, &[store, load]);
    assert!(ordered > forwarded + 2.0, "{ordered} where it acquires, {forwarded} where it does not");
    (store.order, load.order) = (Order::default(), Order::default());
    p.core.timing.load.latency += 3;
    assert!((turn_at_one_place(&p, &[store, load]) - forwarded - 3.0).abs() < 0.1);
}

/// In order a store waits for what it writes, as for its address, and what follows behind it: misses do not overlap.
#[test]
fn a_store_in_order_waits_for_its_data() {
    let mut p = platform();
    p.core.kind = wiretime_hw::params::CoreKind::InOrder;
    let (mut store, mut load) = (op(Class::Store), op(Class::Load));
    load.reads(3).writes(6);
    store.reads(4);
    let misses = |store: MicroOp| {
        let (mut core, mut memory) = (Core::new(&p, 0), MemorySystem::new(&p, 1));
        let ops = [load, store];
        let quick: Vec<Quick> = Quick::block(&ops);
        let block = BlockRef { paddr: 0x4000_0000, vaddr: 0x40_0000, quick: &quick, ops: &ops };
        for n in 0..100 {
            let at = |index: u16, paddr, kind| MemEvent { paddr, vaddr: paddr, value: 0, index, kind, size: 8 };
            let accesses = [at(0, 0x8000_0000 + n * 8256, MemKind::Load), at(1, 0x9000_0000, MemKind::Store)];
            core.run(block, 0, ops.len(), &accesses, None, &mut memory, &mut Flat);
        }
        core.cycle().0 / 100
    };
    let free = misses(store);
    store.reads(6);
    store.data_from = 1;
    let waits = misses(store);
    assert!(waits > 2 * free, "{waits} cycles a miss that is stored, {free} one that is not");
}

/// A read of a system register that drains waits until stores are written, from memory too; without a drain the store
/// buffer hides them, as many as it holds.
#[test]
fn a_read_that_drains_waits_for_stores_to_be_written() {
    let mut p = platform();
    p.core.system_read_drain = 2;
    let mut store = op(Class::Store);
    store.reads(4).reads(5);
    store.data_from = 1;
    let mut read = op(Class::SystemRead);
    read.writes(1);
    let ops = [store, read];
    let memory = p.llc.latency.ps() + p.dram.controller_latency.ps() + p.dram.t_cl.ps();
    let cycles = wiretime_base::Clock::of(p.core.frequency).cycle_at_or_after(memory).0 as f64;
    let drained = turn_over(&p, &ops, 4097);
    assert!(drained > cycles, "{drained} cycles a turn, a store from memory takes {cycles}");
    p.core.system_read_drain = 0;
    let passes = turn_over(&p, &ops, 4097);
    assert!(passes < cycles / 2.0, "{passes} cycles a turn: several stores at a time");
}

/// A write of a system register holds what follows until it is done; where reads drain, it waits for stores, and what
/// follows for the drain.
#[test]
fn a_write_waits_for_stores_and_holds_what_follows_where_reads_drain() {
    let mut p = platform();
    let mut divide = op(Class::Div);
    divide.reads(3).writes(6);
    let ops = [op(Class::SystemWrite), divide];
    // The write; then dispatch, issue and the division, for which the next write waits.
    let alone = f64::from(p.core.timing.system_write.latency) + 1.0 + f64::from(p.core.timing.div.latency);
    let mut store = op(Class::Store);
    store.reads(4).reads(5);
    store.data_from = 1;
    let memory = p.llc.latency.ps() + p.dram.controller_latency.ps() + p.dram.t_cl.ps();
    let cycles = wiretime_base::Clock::of(p.core.frequency).cycle_at_or_after(memory).0 as f64;
    for drain in [0, 3] {
        p.core.system_read_drain = drain;
        let (found, expected) = (turn(&p, &ops), alone + f64::from(drain));
        assert!((found - expected).abs() < 2.0, "{found} against {expected}");
        let written = turn_over(&p, &[store, op(Class::SystemWrite)], 4097);
        assert_eq!(written > cycles, drain > 0, "{written} cycles a turn, a store from memory takes {cycles}");
    }
}

/// A core that splits accesses dispatches, commits and issues each piece; one that does not takes a pair as one.
#[test]
fn pieces_of_an_access_take_their_room_and_pipes() {
    let mut p = platform();
    let per_turn = |p: &Platform, class: Class, split: Split, n: usize| {
        let mut access = op(class);
        access.reads(3);
        access.split = split;
        if class == Class::Load {
            access.writes(6);
        }
        turn(p, &vec![access; n])
    };
    let (stp, ldp) = (Split { address: true, pieces: 2, base: true }, Split { address: true, pieces: 1, base: false });
    (p.core.dispatch_width, p.core.commit_width, p.core.units.store, p.core.units.load) = (4, 4, 1, 1);
    assert!((per_turn(&p, Class::Store, stp, 8) - 8.0).abs() < 0.1, "a store pipe each");
    p.core.split_accesses = true;
    let stores = per_turn(&p, Class::Store, stp, 8);
    assert!((stores - 16.0).abs() < 0.1, "{stores}: two turns of the store pipe each");
    (p.core.dispatch_width, p.core.units.store) = (2, 2);
    let stores = per_turn(&p, Class::Store, stp, 8);
    assert!((stores - 16.0).abs() < 0.1, "{stores}: four places in dispatch each");
    (p.core.dispatch_width, p.core.commit_width) = (8, 1);
    let loads = per_turn(&p, Class::Load, ldp, 8);
    assert!((loads - 16.0).abs() < 0.1, "{loads}: two places in commit each");
    // A chain of loads, each the next one's address: the sum comes before the cache.
    let mut chain = op(Class::Load);
    chain.reads(6).writes(6);
    chain.split = ldp;
    let added = turn(&p, &[chain]);
    chain.split = Split::WHOLE;
    assert!((added - turn(&p, &[chain]) - 1.0).abs() < 0.01, "{added}");
}

/// Eight times a store to a line of memory, and a load of it in a chain: what the store has is in the queue, and the load does not
/// wait until the line is there. A load of another word of that line does.
#[test]
fn a_load_takes_what_a_store_still_holds() {
    let mut p = platform();
    p.core.system_read_drain = 2;
    let [found, beside] = [0, 8].map(|apart| {
        let (mut core, mut memory) = (Core::new(&p, 0), MemorySystem::new(&p, 1));
        let (store, mut load) = (op(Class::Store), op(Class::Load));
        load.reads(3).writes(3);
        let ops = [store, load];
        let quick: Vec<Quick> = Quick::block(&ops);
        let block = BlockRef { paddr: 0x4000_0000, vaddr: 0x40_0000, quick: &quick, ops: &ops };
        for n in 0..8 {
            let at = |index: u16, paddr, kind| MemEvent { paddr, vaddr: paddr, value: 0, index, kind, size: 8 };
            let line = 0x8000_0000 + n * 4096;
            let accesses = [at(0, line, MemKind::Store), at(1, line + apart, MemKind::Load)];
            core.run(block, 0, ops.len(), &accesses, None, &mut memory, &mut Flat);
        }
        // Waits for all before it.
        let ops = [op(Class::SystemRead), op(Class::Alu)];
        let quick: Vec<Quick> = Quick::block(&ops);
        let block = BlockRef { paddr: 0x4000_0100, vaddr: 0x40_0100, quick: &quick, ops: &ops };
        core.run(block, 0, ops.len(), &[], None, &mut memory, &mut Flat);
        (core.stats().store_forwards, core.cycle())
    });
    assert_eq!((found.0, beside.0), (8, 0));
    let memory = p.dram.controller_latency.ps().ns() * 3;
    assert!(beside.1 .0 > found.1 .0 + 4 * memory, "{found:?} {beside:?}");
}

/// Only what is taken counts: its return drains the pipeline as well, and is none.
#[test]
fn an_exception_counts_once() {
    let p = platform();
    let (mut core, mut memory) = (Core::new(&p, 0), MemorySystem::new(&p, 1));
    let mut back = op(Class::Branch);
    back.branch = Branch::Exception;
    let ops = [op(Class::Alu), back];
    let quick: Vec<Quick> = Quick::block(&ops);
    let block = BlockRef { paddr: 0x4000_0000, vaddr: 0x40_0000, quick: &quick, ops: &ops };
    for n in 0..5 {
        core.exception();
        core.run(block, 0, ops.len(), &[], Some(0x5000_0000 + n * 4096), &mut memory, &mut Flat);
    }
    assert_eq!(core.stats().exceptions, 5);
}

/// The same line is stored to and loaded from, in another place: the load, which is earlier, waits for its own miss and not for that
/// of the store, which leaves behind all before it. So misses of loads overlap.
#[test]
fn a_load_does_not_wait_for_a_later_store_of_its_line() {
    let p = platform();
    let (mut core, mut memory) = (Core::new(&p, 0), MemorySystem::new(&p, 1));
    let mut load = op(Class::Load);
    load.writes(3);
    let ops = [load, op(Class::Store), load];
    let quick: Vec<Quick> = Quick::block(&ops);
    let block = BlockRef { paddr: 0x4000_0000, vaddr: 0x40_0000, quick: &quick, ops: &ops };
    let mut turns = |count: u64, from: u64| {
        let begin = core.cycle();
        for n in from..from + count {
            let at = |index: u16, paddr, kind| MemEvent { paddr, vaddr: paddr, value: 0, index, kind, size: 8 };
            let (a, b) = (0x8000_0000 + n * 4096, 0x9000_0000 + n * 4096);
            let accesses = [at(0, a, MemKind::Load), at(1, b, MemKind::Store), at(2, b + 8, MemKind::Load)];
            core.run(block, 0, ops.len(), &accesses, None, &mut memory, &mut Flat);
        }
        (core.cycle() - begin).0 / count
    };
    turns(100, 0);
    let each = turns(400, 100);
    let miss = p.core.frequency.hz() / 1_000_000 * p.dram.controller_latency.ps().ns() / 1000;
    assert!(each * 2 < miss, "{each} cycles a turn, {miss} the least of a miss");
}

/// Once a store to a line of memory, what is told, and a load of a line that is in the L1D, whose branch is mispredicted: how long
/// until the core goes on behind the branch.
fn behind_a_store_of_memory(between: Option<MicroOp>, order: Order) -> u64 {
    let p = platform();
    let (mut core, mut memory) = (Core::new(&p, 0), MemorySystem::new(&p, 1));
    let (mut load, mut branch) = (op(Class::Load), op(Class::Branch));
    load.order = order;
    load.writes(6);
    branch.branch = Branch::Conditional;
    branch.reads(6);
    let ops: Vec<MicroOp> = [Some(op(Class::Store)), between, Some(load), Some(branch)].into_iter().flatten().collect();
    let quick = Quick::block(&ops);
    let block = BlockRef { paddr: 0x4000_0000, vaddr: 0x40_0000, quick: &quick, ops: &ops };
    let mut once = |line: u64, next: u64| {
        let at = |(i, op): (usize, &MicroOp)| {
            let (kind, paddr) = match (op.class, i) {
                (Class::Store, 0) => (MemKind::Store, 0x8000_0000 + line * 4096),
                (Class::Store, _) => (MemKind::Store, 0x8000_0040),
                (Class::Load, _) => (MemKind::Load, 0x8000_0080),
                _ => return None,
            };
            Some(MemEvent { paddr, vaddr: paddr, value: 0, index: i as u16, kind, size: 8 })
        };
        let accesses: Vec<MemEvent> = ops.iter().enumerate().filter_map(at).collect();
        core.run(block, 0, ops.len(), &accesses, Some(next), &mut memory, &mut Flat);
        core.idle_until(core.now() + wiretime_base::Ps::from_us(1));
        core.now()
    };
    // Not taken, and all that it needs is there; then a line that is not, and taken.
    let before = (0..50).map(|_| once(0, block.paddr + 4 * ops.len() as u64)).last().expect("a time");
    let after = once(1, 0x4000_1000);
    (after - before).ns() - 1000
}

#[test]
fn only_what_orders_stores_before_loads_holds_a_load() {
    let barrier = |order| {
        let mut barrier = op(Class::Barrier);
        barrier.order = order;
        Some(barrier)
    };
    let mut release = op(Class::Store);
    release.order = Order::one_way(false, true);
    for (between, order) in [
        (None, Order::default()),
        (barrier(Order::STORES), Order::default()),
        (barrier(Order::LOADS), Order::default()),
        (Some(release), Order::default()),
        (None, Order::one_way(true, false)),
    ] {
        let held = behind_a_store_of_memory(between, order);
        assert!(held < 20, "{between:?} {order:?}: {held} ns");
    }
    let memory = platform().dram.controller_latency.ps().ns();
    for (between, order) in [(barrier(Order::ALL), Order::default()), (Some(release), Order::one_way(true, false))] {
        let held = behind_a_store_of_memory(between, order);
        assert!(held > memory, "{between:?} {order:?}: {held} ns");
    }
}
