//! Addresses of accesses that QEMU's callbacks do not show, software prefetches and zeroing of lines: translated here.

use crate::api;

const PAGE_BITS: u32 = 12;
const SLOTS: usize = 1024;

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
