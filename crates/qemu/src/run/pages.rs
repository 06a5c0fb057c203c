//! The guest's page tables, walked for the TLB models: AArch64 stage 1, any granule (Arm ARM, D8).
//!
//! Left out: the contiguous hint, stage 2.

use crate::engine::Engine;
use crate::memory::GuestRam;
use wiretime_hw::core::{Walk, Walker};
use wiretime_hw::memory::GuestMemory;

/// The translation registers of one vCPU, as last read.
pub struct Translation {
    /// They may have changed: to be read before the next block.
    pub stale: bool,
    sctlr: u64,
    tcr: u64,
    ttbr: [u64; 2],
    /// Tells address spaces apart, in the upper bits of tagged addresses.
    space: u64,
    /// Virtual pages of code, by physical page: a block may be at several addresses, QEMU's are position independent.
    code: Box<[(u64, u64); CODE_PAGES]>,
}

const CODE_PAGES: usize = 256;
const PAGE_BITS: u32 = 12;

impl Default for Translation {
    fn default() -> Self {
        Self { stale: true, sctlr: 0, tcr: 0, ttbr: [0; 2], space: 0, code: Box::new([(u64::MAX, 0); CODE_PAGES]) }
    }
}

const ADDRESS_BITS: u32 = 48;
const BASE: u64 = 0x0000_ffff_ffff_f000;

impl Translation {
    /// A virtual address with its address space in the upper bits; kernel addresses are in all of them.
    #[inline]
    pub fn tag(&self, vaddr: u64) -> u64 {
        if vaddr >> 63 == 0 {
            vaddr & ((1 << ADDRESS_BITS) - 1) | self.space
        } else {
            vaddr
        }
    }
}

/// Reads the registers of the running vCPU, which is `index`.
pub fn read_translation(e: &mut Engine, index: usize) {
    let [sctlr, tcr, low, high] = e.read_translation();
    // A table's frame number, folded to 15 bits: the top bit is the kernel's.
    let frame = (low & BASE) >> 12;
    let space = (frame ^ frame >> 15 ^ frame >> 30) & 0x7fff;
    let t = &mut e.vcpus[index].translation;
    (t.stale, t.sctlr, t.tcr, t.ttbr, t.space) = (false, sctlr, tcr, [low, high], space << ADDRESS_BITS);
}

/// Notes the virtual address of the block at `paddr`, which vCPU `index` is about to run. What is remembered comes from
/// blocks that ran in their turn, never from a translation, which any vCPU may cause at any time.
#[inline]
pub fn locate(e: &mut Engine, index: usize, paddr: u64) {
    let v = &mut e.vcpus[index];
    let key = paddr >> PAGE_BITS ^ v.translation.space;
    let slot = (paddr >> PAGE_BITS) as usize % CODE_PAGES;
    if v.translation.code[slot].0 != key {
        let pc = e.read_pc();
        let v = &mut e.vcpus[index];
        v.translation.code[slot] = (key, v.translation.tag(pc) >> PAGE_BITS);
    }
    let v = &mut e.vcpus[index];
    v.vaddr = v.translation.code[slot].1 << PAGE_BITS | paddr & ((1 << PAGE_BITS) - 1);
}

/// The tables behind the registers.
pub struct Tables<'a> {
    pub registers: &'a Translation,
    pub ram: GuestRam,
}

const LEVELS: u32 = 4;
const PAGE_4K: u8 = 12;

impl Walker for Tables<'_> {
    fn walk(&mut self, address: u64) -> Walk {
        let r = self.registers;
        if r.sctlr & 1 == 0 {
            return Walk { page_bits: ADDRESS_BITS as u8, ..Walk::default() };
        }
        let high = address >> 63 != 0;
        let (size, granule) = if high { (r.tcr >> 16 & 63, r.tcr >> 30 & 3) } else { (r.tcr & 63, r.tcr >> 14 & 3) };
        let granule_bits: u32 = match (high, granule) {
            (false, 0) | (true, 2) => 12,
            (false, 2) | (true, 1) => 14,
            _ => 16,
        };
        let input_bits = 64 - (size as u32).clamp(16, 39);
        let stride = granule_bits - 3;
        let levels = (input_bits - granule_bits).div_ceil(stride).min(LEVELS);
        let mut walk = Walk { page_bits: PAGE_4K, ..Walk::default() };
        let mut table = r.ttbr[usize::from(high)] & BASE;
        for level in (0..levels).rev() {
            let shift = granule_bits + stride * level;
            let bits = stride.min(input_bits - shift);
            let entry_address = table + (address >> shift & ((1 << bits) - 1)) * 8;
            let mut entry = [0; 8];
            if !self.ram.read(entry_address, &mut entry) {
                return walk;
            }
            walk.reads[usize::from(walk.count)] = entry_address;
            walk.count += 1;
            let entry = u64::from_le_bytes(entry);
            if entry & 1 == 0 {
                return walk;
            }
            if level == 0 || entry & 2 == 0 {
                walk.page_bits = shift as u8;
                return walk;
            }
            table = entry & BASE & (u64::MAX << granule_bits);
        }
        walk
    }
}
