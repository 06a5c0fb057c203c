//! What the guest's addresses mean, per vCPU: the translation registers as last read, and where blocks of code run.

use crate::engine::{Engine, Guest};
use crate::memory::GuestRam;
use wiretime_hw::core::{Walk, Walker};
use wiretime_isa::{Isa, Translation};

/// Addresses of one vCPU.
pub struct Addresses {
    /// Registers may have changed: to be read before the next block.
    pub stale: bool,
    registers: <Guest as Isa>::Translation,
    /// Virtual pages of code, by physical page: a block may be at several addresses, QEMU's are position independent.
    code: Box<[(u64, u64); CODE_PAGES]>,
}

const CODE_PAGES: usize = 256;
const NOWHERE: (u64, u64) = (u64::MAX, 0);
const PAGE_BITS: u32 = 12;

impl Default for Addresses {
    fn default() -> Self {
        Self { stale: true, registers: Default::default(), code: Box::new([NOWHERE; CODE_PAGES]) }
    }
}

impl Addresses {
    /// Mappings have changed: where code runs is read anew.
    pub fn forget(&mut self) {
        self.code.fill(NOWHERE);
    }

    /// A virtual address with its address space in the upper bits; kernel addresses are in all of them.
    #[inline]
    pub fn tag(&self, vaddr: u64) -> u64 {
        self.registers.tag(vaddr)
    }
}

/// Reads the registers of the running vCPU, which is `index`.
pub fn read_translation(e: &mut Engine, index: usize) {
    let registers = Translation::read(e);
    let a = &mut e.vcpus[index].addresses;
    (a.stale, a.registers) = (false, registers);
}

/// Notes the virtual address of the block at `paddr`, which vCPU `index` is about to run. What is remembered comes from
/// blocks that ran in their turn, never from a translation, which any vCPU may cause at any time.
#[inline]
pub fn locate(e: &mut Engine, index: usize, paddr: u64) {
    let v = &mut e.vcpus[index];
    let key = paddr >> PAGE_BITS ^ v.addresses.registers.space();
    let slot = (paddr >> PAGE_BITS) as usize % CODE_PAGES;
    if v.addresses.code[slot].0 != key {
        let pc = e.read_pc();
        let v = &mut e.vcpus[index];
        v.addresses.code[slot] = (key, v.addresses.tag(pc) >> PAGE_BITS);
    }
    let v = &mut e.vcpus[index];
    v.vaddr = v.addresses.code[slot].1 << PAGE_BITS | paddr & ((1 << PAGE_BITS) - 1);
}

/// The page tables of a vCPU, for the core's model.
pub struct Tables<'a> {
    pub addresses: &'a Addresses,
    pub ram: GuestRam,
}

impl Walker for Tables<'_> {
    fn walk(&mut self, address: u64) -> Walk {
        self.addresses.registers.walk(address, &self.ram)
    }
}
