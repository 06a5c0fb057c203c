//! Host time of the core model alone, by kind of code: what a change to its hot path costs. `make bench` runs it.

use std::time::Instant;
use wiretime_hw::core::{BlockRef, Branch, Class, Core, Flat, MemEvent, MemKind, MicroOp, Quick};
use wiretime_hw::memory::MemorySystem;
use wiretime_hw::params::Platform;

const BLOCK: usize = 8;
const TURNS: u64 = 4_000_000;

fn alu(destination: u8, source: u8) -> MicroOp {
    let mut op = MicroOp::new(Class::Alu);
    op.reads(source).writes(destination);
    op
}

/// Eight instructions: `loads` of them loads, the last a branch.
fn block(loads: usize) -> Vec<MicroOp> {
    (0..BLOCK)
        .map(|i| {
            if i + 1 == BLOCK {
                let mut op = MicroOp::new(Class::Branch);
                op.branch = Branch::Conditional;
                op
            } else if i < loads {
                let mut op = MicroOp::new(Class::Load);
                op.reads(29).writes(i as u8);
                op
            } else {
                alu(i as u8, (i as u8 + 1) % 8)
            }
        })
        .collect()
}

fn main() {
    let p: Platform = toml::from_str(include_str!("../../../platforms/ampere-altra.toml")).expect("a platform");
    for (name, loads, lines) in [("ALU", 0, 1), ("two loads in eight", 2, 64), ("two loads in eight, L2", 2, 4096)] {
        let mut core = Core::new(&p, 0);
        let mut memory = MemorySystem::new(&p, 2);
        let ops = block(loads);
        let quick: Vec<Quick> = Quick::block(&ops);
        let block = BlockRef { paddr: 0x4000_0000, vaddr: 0x40_0000, quick: &quick, ops: &ops };
        let began = Instant::now();
        for turn in 0..TURNS {
            let mut events = [MemEvent { paddr: 0, vaddr: 0, value: 0, index: 0, kind: MemKind::Load, size: 8 }; 2];
            for (i, e) in events.iter_mut().enumerate() {
                e.paddr = 0x8000_0000 + (turn * 7 + i as u64) % lines * 64;
                e.vaddr = e.paddr;
                e.index = i as u16;
            }
            core.run(block, 0, BLOCK, &events[..loads], Some(block.paddr), &mut memory, &mut Flat);
            core.reached(core.now());
            memory.reached(core.now());
        }
        let ns = began.elapsed().as_secs_f64() * 1e9 / (TURNS * BLOCK as u64) as f64;
        let s = core.stats();
        println!("{name:24} {ns:6.2} ns an instruction, IPC {:.2}", s.instructions as f64 / s.cycles as f64);
    }
}
