//! The guest's page tables, walked for the TLB models: AArch64 stage 1, any granule (Arm ARM, D8).
//!
//! Left out: the contiguous hint, stage 2.

use super::{SCTLR, TCR, TTBR0, TTBR1};
use crate::Registers;
use wiretime_hw::core::Walk;
use wiretime_hw::memory::GuestMemory;

/// Translation registers.
#[derive(Default)]
pub struct Translation {
    sctlr: u64,
    tcr: u64,
    ttbr: [u64; 2],
    space: u64,
}

const ADDRESS_BITS: u32 = 48;
const BASE: u64 = 0x0000_ffff_ffff_f000;
/// An invalidation names pages of 4 KiB.
pub const INVALIDATED_SHIFT: u32 = 12;
const LEVELS: u32 = 4;
const PAGE_4K: u8 = 12;

impl crate::Translation for Translation {
    fn read(registers: &mut impl Registers) -> Self {
        let [sctlr, tcr, low, high] = [SCTLR, TCR, TTBR0, TTBR1].map(|which| registers.register(which));
        // A table's frame number, folded to 15 bits: the top bit is the kernel's.
        let frame = (low & BASE) >> 12;
        let space = (frame ^ frame >> 15 ^ frame >> 30) & 0x7fff;
        Self { sctlr, tcr, ttbr: [low, high], space: space << ADDRESS_BITS }
    }

    fn space(&self) -> u64 {
        self.space
    }

    #[inline]
    fn tag(&self, vaddr: u64) -> u64 {
        if vaddr >> 63 == 0 {
            vaddr & ((1 << ADDRESS_BITS) - 1) | self.space
        } else {
            vaddr
        }
    }

    fn walk(&self, address: u64, memory: &impl GuestMemory) -> Walk {
        let r = self;
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
            if !memory.read(entry_address, &mut entry) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Translation as _;

    const BASE_AT: u64 = 0x4000_0000;
    const SIZE: usize = 1 << 20;
    const VALID_TABLE: u64 = 3;
    const BLOCK: u64 = 1;

    struct Ram(Vec<u8>);

    impl Ram {
        fn range(address: u64, length: usize) -> Option<std::ops::Range<usize>> {
            let from = usize::try_from(address.checked_sub(BASE_AT)?).ok()?;
            let to = from.checked_add(length)?;
            (to <= SIZE).then_some(from..to)
        }
    }

    impl GuestMemory for Ram {
        fn read(&self, address: u64, data: &mut [u8]) -> bool {
            Self::range(address, data.len()).map(|r| data.copy_from_slice(&self.0[r])).is_some()
        }
        fn write(&mut self, address: u64, data: &[u8]) -> bool {
            Self::range(address, data.len()).map(|r| self.0[r].copy_from_slice(data)).is_some()
        }
    }

    fn ram() -> Ram {
        Ram(vec![0; SIZE])
    }

    fn set(ram: &mut Ram, address: u64, entry: u64) {
        assert!(ram.write(address, &entry.to_le_bytes()));
    }

    fn walk(ram: &Ram, tcr: u64, ttbr: [u64; 2], address: u64) -> (u8, Vec<u64>) {
        let w = Translation { sctlr: 1, tcr, ttbr, space: 0 }.walk(address, ram);
        (w.page_bits, w.reads[..usize::from(w.count)].to_vec())
    }

    #[test]
    fn without_an_mmu_nothing_is_read() {
        let w = Translation::default().walk(0x1234, &ram());
        assert_eq!((w.page_bits, w.count), (48, 0));
    }

    #[test]
    fn registers_are_read_each_to_its_place() {
        struct Distinct;
        impl Registers for Distinct {
            fn register(&mut self, which: usize) -> u64 {
                (which as u64) << 12
            }
        }
        let t = Translation::read(&mut Distinct);
        assert_eq!([t.sctlr, t.tcr, t.ttbr[0], t.ttbr[1]].map(|r| (r >> 12) as usize), [SCTLR, TCR, TTBR0, TTBR1]);
        assert_eq!(t.space(), (TTBR0 as u64) << ADDRESS_BITS);
    }

    #[test]
    fn four_levels_of_4k_and_a_block() {
        let mut ram = ram();
        let tables: Vec<u64> = (0..4).map(|n| BASE_AT + n * 4096).collect();
        let address = 0x0000_1234_5678_9abc;
        let index = |level: u64| address >> (39 - 9 * level) & 511;
        let entries: Vec<u64> = (0..4).map(|l| tables[l as usize] + 8 * index(l)).collect();
        for level in 0..3 {
            set(&mut ram, entries[level], tables[level + 1] | VALID_TABLE);
        }
        let (t0sz, ttbr) = (16, [tables[0], 0]);
        assert_eq!(walk(&ram, t0sz, ttbr, address), (12, entries.clone()), "an invalid entry has been read, too");
        set(&mut ram, entries[3], 0x4567_8000 | VALID_TABLE);
        assert_eq!(walk(&ram, t0sz, ttbr, address), (12, entries.clone()));
        set(&mut ram, entries[2], 0x4560_0000 | BLOCK);
        assert_eq!(walk(&ram, t0sz, ttbr, address), (21, entries[..3].to_vec()));
        set(&mut ram, entries[1], 0x4000_0000 | BLOCK);
        assert_eq!(walk(&ram, t0sz, ttbr, address), (30, entries[..2].to_vec()));
        set(&mut ram, entries[0], 0);
        assert_eq!(walk(&ram, t0sz, ttbr, address), (12, entries[..1].to_vec()));
        // 39 bits need three levels: the table behind TTBR0 is then what was the second.
        assert_eq!(walk(&ram, 25, [tables[1], 0], address), (30, vec![entries[1]]));
    }

    #[test]
    fn each_half_has_its_own_tables_and_granule() {
        let mut ram = ram();
        let (low, high) = (BASE_AT, BASE_AT + (1 << 16));
        // 64 KiB, 42 bits: two levels of 13 bits; for the kernel 16 KiB, 47 bits: three of 11.
        let tcr = 22 | 1 << 14 | 17 << 16 | 1 << 30;
        let address = 0x0000_0123_4567_0000u64;
        set(&mut ram, low + 8 * (address >> 29 & 0x1fff), (BASE_AT + (2 << 16)) | VALID_TABLE);
        let second = BASE_AT + (2 << 16) + 8 * (address >> 16 & 0x1fff);
        assert_eq!(walk(&ram, tcr, [low, high], address), (12, vec![low + 8 * (address >> 29), second]), "invalid");
        set(&mut ram, second, 0x1_0000 | VALID_TABLE);
        assert_eq!(walk(&ram, tcr, [low, high], address).0, 16);
        let kernel = 0xffff_8000_1234_5678u64;
        let first = high + 8 * (kernel >> 36 & 0x7ff);
        set(&mut ram, first, BLOCK);
        assert_eq!(walk(&ram, tcr, [low, high], kernel), (36, vec![first]));
    }

    #[test]
    fn tables_outside_memory_end_a_walk() {
        let ram = ram();
        assert_eq!(walk(&ram, 16, [0, 0], 0x1000), (12, vec![]));
        assert_eq!(walk(&ram, 16, [u64::MAX, u64::MAX], u64::MAX), (12, vec![]));
        // Whatever the registers say, a walk ends.
        for tcr in [0, u64::MAX, 39 | 39 << 16, 1 << 15 | 1 << 31, 63 | 3 << 14] {
            for address in [0, 1 << 47, u64::MAX, 1 << 63] {
                assert!(walk(&ram, tcr, [BASE_AT, BASE_AT], address).1.len() <= LEVELS as usize);
            }
        }
    }

    #[test]
    fn tags_tell_address_spaces_apart_but_not_the_kernels() {
        let one = Translation { space: 5 << ADDRESS_BITS, ..Translation::default() };
        let two = Translation { space: 6 << ADDRESS_BITS, ..Translation::default() };
        assert_ne!(one.tag(0x1000), two.tag(0x1000));
        assert_eq!(one.tag(0x1000) & 0xffff_ffff_ffff, 0x1000);
        assert_eq!(one.tag(1 << 63), two.tag(1 << 63));
    }
}
