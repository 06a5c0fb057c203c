//! The CPI stack: causes add up to the core's cycles, and what is left is instructions over the dispatch width.

use wiretime_base::stats::StatGroup;
use wiretime_hw::core::{BlockRef, Branch, Class, Core, Flat, MemEvent, MemKind, MicroOp, Quick};
use wiretime_hw::memory::MemorySystem;
use wiretime_hw::params::Platform;

const TURNS: u64 = 20_000;

/// A chain of `length` instructions on one register, a load at its head, a branch at its end.
fn block(length: usize, chained: bool) -> Vec<MicroOp> {
    (0..length)
        .map(|i| {
            let mut op = MicroOp::new(if i == 0 {
                Class::Load
            } else if i + 1 == length {
                Class::Branch
            } else {
                Class::Alu
            });
            match op.class {
                Class::Branch => op.branch = Branch::Conditional,
                _ => {
                    op.reads(if chained { 1 } else { 29 }).writes(if chained { 1 } else { i as u8 });
                }
            }
            op
        })
        .collect()
}

#[test]
fn causes_add_up_and_the_rest_is_dispatch_at_full_width() {
    for text in
        [include_str!("../../../../platforms/ampere-altra.toml"), include_str!("../../../../platforms/in-order.toml")]
    {
        let p: Platform = toml::from_str(text).expect("a platform");
        for (length, chained, lines) in [(4, false, 1), (7, true, 1), (12, false, 4096), (9, true, 1 << 18)] {
            let (mut core, mut memory) = (Core::new(&p, 0), MemorySystem::new(&p, 2));
            let ops = block(length, chained);
            let quick: Vec<Quick> = Quick::block(&ops);
            let block = BlockRef { paddr: 0x4000_0000, vaddr: 0x40_0000, quick: &quick, ops: &ops };
            for turn in 0..TURNS {
                let paddr = 0x8000_0000 + turn * 7919 % lines * 64;
                let access = MemEvent { paddr, vaddr: paddr, value: 0, index: 0, kind: MemKind::Load, size: 8 };
                core.run(block, 0, length, &[access], Some(block.paddr), &mut memory, &mut Flat);
            }
            let (s, cycles) = (core.stall_stats(), core.stats().cycles);
            assert_eq!(s.values().iter().sum::<u64>(), cycles);
            let dispatched = (TURNS * length as u64) as f64 / f64::from(p.core.dispatch_width);
            let base = s.base as f64;
            assert!((base / dispatched - 1.0).abs() < 0.01, "{base} of {cycles} cycles, {dispatched} dispatching");
        }
    }
}

/// Each cycle is charged to one instruction and sleep to none; the load whose line is far pays; nothing is later for it.
#[test]
fn instructions_are_charged_all_cycles() {
    for text in
        [include_str!("../../../../platforms/ampere-altra.toml"), include_str!("../../../../platforms/in-order.toml")]
    {
        let p: Platform = toml::from_str(text).expect("a platform");
        let ops = block(9, true);
        let quick: Vec<Quick> = Quick::block(&ops);
        let block = BlockRef { paddr: 0x4000_0000, vaddr: 0x40_0000, quick: &quick, ops: &ops };
        let run = |charged: bool, lines: u64, sleeps: bool| {
            let (mut core, mut memory) = (Core::new(&p, 0), MemorySystem::new(&p, 2));
            let mut by = [0u64; 9];
            if charged {
                core.charges();
            }
            for turn in 0..TURNS {
                let paddr = 0x8000_0000 + turn * 7919 % lines * 64;
                let access = MemEvent { paddr, vaddr: paddr, value: 0, index: 0, kind: MemKind::Load, size: 8 };
                core.run(block, 0, 9, &[access], Some(block.paddr), &mut memory, &mut Flat);
                if sleeps && turn % 100 == 0 {
                    core.idle_until(core.now() + wiretime_base::Ps::from_us(1));
                }
                if charged {
                    let of = core.charges().take().map(|(pc, cycles)| ((pc - block.paddr) / 4, cycles.0));
                    of.for_each(|(i, cycles)| by[i as usize] += cycles);
                }
            }
            (core.now(), core.stats().cycles, by)
        };
        for (lines, sleeps) in [(1 << 18, false), (1, true)] {
            let (now, cycles, by) = run(true, lines, sleeps);
            let (then, same, _) = run(false, lines, sleeps);
            assert_eq!((now, cycles), (then, same));
            let sum = by.iter().sum::<u64>();
            // A core's cycles end where it falls asleep; what is in flight commits later, and is charged.
            let in_flight = if sleeps { TURNS / 100 * 128 } else { cycles / 1000 };
            assert!((cycles - cycles / 1000..=cycles + in_flight).contains(&sum), "{sum} of {cycles}");
            assert!(sleeps || by[0] * 2 > sum, "{by:?}");
        }
    }
}

/// Cycles a block of so many groups of four instructions, each block ending in a branch to the next, of which there are `blocks`.
fn turn(text: &str, ahead: u32, groups: u64, blocks: u64) -> f64 {
    let mut p: Platform = toml::from_str(text).expect("a platform");
    (p.core.fetch_target_entries, p.core.fetch_width, p.core.mop_cache_entries) = (ahead, 4, 0);
    let (mut core, mut memory) = (Core::new(&p, 0), MemorySystem::new(&p, 2));
    let length = groups as usize * 4;
    let ops: Vec<MicroOp> = (1..=length)
        .map(|i| {
            // Three units for integers, so that all four of a group issue at once.
            let class = if i % 4 == 0 { Class::Simd } else { Class::Alu };
            let mut op = MicroOp::new(if i == length { Class::Branch } else { class });
            if i == length {
                op.branch = Branch::Direct;
            } else if class == Class::Alu {
                op.reads(29).writes((i % 16) as u8);
            }
            op
        })
        .collect();
    let quick: Vec<Quick> = Quick::block(&ops);
    // Lines of their own, in one page.
    let at = |n: u64| 0x4000_0000 + n % blocks * 64;
    let mut run = |turns: u64| {
        for n in 0..turns * blocks {
            let block = BlockRef { paddr: at(n), vaddr: at(n), quick: &quick, ops: &ops };
            core.run(block, 0, length, &[], Some(at(n + 1)), &mut memory, &mut Flat);
        }
        core.stats().cycles as f64
    };
    let warm = run(100);
    (run(200) - warm) / (200 * blocks) as f64
}

/// What takes fetch longer than the predictor hides how long the predictor takes; without a queue of targets it is added.
#[test]
fn prediction_ahead_of_fetch_hides_the_latency_of_targets() {
    let text = include_str!("../../../../platforms/ampere-altra.toml");
    // As many taken branches as the first, the second, and the third level of the BTB has.
    for (blocks, latency) in [(8, 1), (40, 2), (300, 3)] {
        for groups in 1..=4u64 {
            let close = |cycles: f64, expected: u64| (cycles - expected as f64).abs() < 0.06;
            let (with, without) = (turn(text, 12, groups, blocks), turn(text, 0, groups, blocks));
            // Four are dispatched a cycle, so a group takes one at least.
            assert!(close(with, groups.max(latency)), "{groups} of {blocks}: {with}");
            assert!(close(without, groups - 1 + latency), "{groups} of {blocks}: {without} without");
        }
    }
}
