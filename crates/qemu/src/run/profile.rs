//! Where cycles go, by block of instructions. Symbols are found outside: a page of code is told by its content.

use crate::memory::GuestRam;
use crate::translate::Block;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use wiretime_hw::memory::GuestMemory;

const PAGE: u64 = 4096;

/// Cycles and instructions by block.
#[derive(Default)]
pub struct Profile {
    /// By physical and virtual address.
    blocks: BTreeMap<(u64, u64), (u64, u64)>,
}

impl Profile {
    /// Takes over what a block was charged.
    pub fn collect(&mut self, block: &Block) {
        let (cycles, executed) = (block.cycles.take(), block.executed.take());
        if executed > 0 {
            let entry = self.blocks.entry((block.paddr, block.profiled_at.get())).or_default();
            entry.0 += cycles.0;
            entry.1 += executed;
        }
    }

    /// Blocks as `[virtual address, physical address, cycles, instructions]`, and the checksum of each half of every
    /// physical page that they are in.
    pub fn report(&self, ram: &GuestRam) -> Value {
        let blocks: Vec<Value> = self.blocks.iter().map(|(&(p, v), &(c, n))| json!([v, p, c, n])).collect();
        let mut pages = BTreeMap::new();
        let mut bytes = [0; PAGE as usize];
        for &(paddr, _) in self.blocks.keys() {
            let page = paddr / PAGE * PAGE;
            if !pages.contains_key(&page.to_string()) && ram.read(page, &mut bytes) {
                let (a, b) = bytes.split_at(bytes.len() / 2);
                let sums = format!("{:08x}{:08x}", crc32fast::hash(a), crc32fast::hash(b));
                pages.insert(page.to_string(), sums);
            }
        }
        json!({ "blocks": blocks, "pages": pages })
    }
}
