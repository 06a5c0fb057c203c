//! Accesses that QEMU's callbacks do not show: software prefetches and DC ZVA. Their addresses are computed from
//! registers and translated here.

use crate::api;
use crate::engine::Engine;
use crate::translate::{encoding, InsnRef};
use wiretime_hw::core::MemKind;

const PAGE_BITS: u32 = 12;
const SLOTS: usize = 1024;
const LINE: u64 = 64;

/// Virtual pages whose physical page is known. The guest's own TLB maintenance clears them, so that they are never
/// staler than a TLB may be.
pub struct Translations {
    pages: Vec<(u64, u64)>,
    used: bool,
    /// Addresses that did not translate: such a prefetch does nothing.
    pub misses: u64,
}

impl Default for Translations {
    fn default() -> Self {
        Self { pages: vec![(u64::MAX, 0); SLOTS], used: false, misses: 0 }
    }
}

impl Translations {
    /// Forgets everything.
    pub fn clear(&mut self) {
        if self.used {
            self.pages.fill((u64::MAX, 0));
            self.used = false;
        }
    }

    /// The physical address of `vaddr` for vCPU `index`, which is running.
    pub fn translate(&mut self, index: usize, vaddr: u64) -> Option<u64> {
        let page = vaddr >> PAGE_BITS;
        let key = page ^ (index as u64) << 56;
        let slot = &mut self.pages[(page as usize ^ index) % SLOTS];
        if slot.0 != key {
            let mut paddr = 0;
            // SAFETY: in an instruction callback of the running vCPU.
            if !unsafe { api::qemu_plugin_translate_vaddr(page << PAGE_BITS, &mut paddr) } {
                self.misses += 1;
                return None;
            }
            *slot = (key, paddr);
            self.used = true;
        }
        Some(slot.1 | vaddr & ((1 << PAGE_BITS) - 1))
    }
}

/// The virtual address that a PRFM or DC ZVA touches, and how; `None` for forms without a register (literal).
pub fn hidden_address(e: &mut Engine, r: &InsnRef) -> Option<(u64, MemKind)> {
    let w = r.word;
    if encoding::zeroes_line(w) {
        let address = e.read_register(w & 31, true)?;
        return Some((address & !(LINE - 1), MemKind::ZeroLine));
    }
    let base = |e: &mut Engine| e.read_register(w >> 5 & 31, false);
    let address = if w & 0xffc0_0000 == 0xf980_0000 {
        base(e)?.wrapping_add(u64::from(w >> 10 & 0xfff) * 8)
    } else if w & 0xffe0_0c00 == 0xf880_0000 {
        let imm9 = ((w >> 12 & 0x1ff) as i32) << 23 >> 23;
        base(e)?.wrapping_add_signed(imm9.into())
    } else if w & 0xffe0_0c00 == 0xf8a0_0800 {
        let index = e.read_register(w >> 16 & 31, true)?;
        let extended = match w >> 13 & 7 {
            2 => index & 0xffff_ffff,
            6 => i64::from(index as i32) as u64,
            _ => index,
        };
        base(e)?.wrapping_add(extended << if w >> 12 & 1 != 0 { 3 } else { 0 })
    } else {
        return None;
    };
    Some((address, MemKind::Prefetch))
}
