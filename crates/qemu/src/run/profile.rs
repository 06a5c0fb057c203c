//! Where cycles go, by instruction. Symbols are found outside: a page of code is told by its content.

use crate::engine::Guest;
use crate::memory::GuestRam;
use crate::translate::Block;
use serde_json::{json, Value};
use std::collections::{BTreeMap, BTreeSet};
use wiretime_hw::core::{Charges, Class};
use wiretime_hw::memory::GuestMemory;
use wiretime_isa::Isa;

const PAGE: u64 = 4096;

/// Cycles that an instruction was charged, and how often it was executed.
#[derive(Clone, Copy, Default)]
pub struct Charged {
    cycles: u64,
    executed: u64,
}

/// Takes what the core has charged for instructions of `block`, and charges it to them, whose block then has virtual
/// address `vaddr`; to nobody without one.
pub fn charge(block: &Block, charges: &mut Charges, vaddr: Option<u64>) {
    for (paddr, cycles) in charges.take() {
        let at = (paddr - block.paddr) / Guest::BYTES;
        if let (Some(_), Some(cell)) = (vaddr, block.charged.get(at as usize)) {
            let Charged { cycles: before, executed } = cell.get();
            cell.set(Charged { cycles: before + cycles.0, executed: executed + 1 });
        }
    }
    if let Some(vaddr) = vaddr {
        block.profiled_at.set(vaddr);
    }
}

/// Cycles and executions by instruction.
#[derive(Default)]
pub struct Profile {
    /// By physical and virtual address.
    instructions: BTreeMap<(u64, u64), Charged>,
}

impl Profile {
    /// Takes over what a block was charged.
    pub fn collect(&mut self, block: &Block) {
        for (cell, offset) in block.charged.iter().zip((0..).step_by(Guest::BYTES as usize)) {
            let Charged { cycles, executed } = cell.take();
            if executed > 0 {
                let address = (block.paddr + offset, block.profiled_at.get() + offset);
                let entry = self.instructions.entry(address).or_default();
                entry.cycles += cycles;
                entry.executed += executed;
            }
        }
    }

    /// Instructions as `[virtual address, physical address, cycles, executions, code]`, the text of each code, which of
    /// these order memory, and the checksum of each half of every physical page that they are in.
    pub fn report(&self, ram: &GuestRam) -> Value {
        let (mut pages, mut texts, mut barriers) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let mut bytes = [0; PAGE as usize];
        let mut rows = Vec::with_capacity(self.instructions.len());
        for (&(paddr, vaddr), c) in &self.instructions {
            let page = paddr / PAGE * PAGE;
            if !pages.contains_key(&page.to_string()) && ram.read(page, &mut bytes) {
                let (a, b) = bytes.split_at(bytes.len() / 2);
                let sums = format!("{:08x}{:08x}", crc32fast::hash(a), crc32fast::hash(b));
                pages.insert(page.to_string(), sums);
            }
            let mut word = [0; 4];
            ram.read(paddr, &mut word);
            let code = u32::from_le_bytes(word);
            if matches!(Guest::decode(code).class, Class::Barrier | Class::BarrierFull) {
                barriers.insert(code);
            }
            texts.entry(code.to_string()).or_insert_with(|| Guest::disassemble(code));
            rows.push(json!([vaddr, paddr, c.cycles, c.executed, code]));
        }
        json!({ "instructions": rows, "texts": texts, "barriers": barriers, "pages": pages })
    }
}
