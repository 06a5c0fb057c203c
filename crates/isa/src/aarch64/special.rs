//! Instructions that an engine has to know beside their time.

use super::{base, general};
use crate::{Registers, Special};
use wiretime_hw::core::{Branch, Class, MemKind};

const WFE: u32 = 0xd503_205f;
const YIELD: u32 = 0xd503_203f;
const LINE: u64 = 64;

/// `MRS Xt, CNTPCT_EL0 / CNTVCT_EL0` and their self-synchronised forms.
fn reads_counter(w: u32) -> bool {
    w & 0xffff_ff00 == 0xd53b_e000 && matches!(w >> 5 & 7, 1 | 2 | 5 | 6)
}

/// `MSR` to a timer register (CNT*): what it arms depends on the time of this instruction.
fn writes_timer(w: u32) -> bool {
    w & 0xfff8_f000 == 0xd518_e000
}

/// `TLBI`: cached address translations go.
fn invalidates_translation(w: u32) -> bool {
    w & 0xfff8_f000 == 0xd508_8000
}

/// The form of `TLBI` that names an address.
pub fn invalidates_address(w: u32) -> bool {
    invalidates_translation(w) && w >> 5 & 1 != 0
}

/// `MSR` to SCTLR, TTBR or TCR.
fn changes_translation(w: u32) -> bool {
    w & 0xfff8_f000 == 0xd518_2000 || w & 0xfff8_ffe0 == 0xd518_1000
}

/// `DC ZVA, Xt`.
fn zeroes_line(w: u32) -> bool {
    w & 0xffff_ffe0 == 0xd50b_7420
}

pub fn of(w: u32) -> Special {
    if w == WFE || w == YIELD {
        Special::Hint
    } else if reads_counter(w) {
        Special::ReadsCounter
    } else if writes_timer(w) {
        Special::ArmsTimer
    } else if changes_translation(w) {
        Special::ChangesTranslation
    } else if invalidates_translation(w) {
        Special::InvalidatesTranslation
    } else {
        Special::None
    }
}

/// `MRS Xt, TPIDR_EL0 / NZCV / FPCR / FPSR`: registers of the program itself.
fn reads_own_state(w: u32) -> bool {
    matches!(w & 0xffff_ffe0, 0xd53b_d040 | 0xd53b_4200 | 0xd53b_4400 | 0xd53b_4420)
}

/// Exclusives depend on a monitor, system registers on whatever they show; the rest is plain.
pub fn is_steady(w: u32) -> bool {
    let op = super::decode::decode(w);
    let plain = match op.class {
        Class::SystemRead => reads_own_state(w),
        Class::SystemWrite | Class::Maintenance | Class::ZeroLine | Class::Unknown => false,
        Class::LoadExclusive | Class::StoreExclusive => false,
        _ => op.branch != Branch::Exception,
    };
    plain && of(w) == Special::None
}

/// What a PRFM or DC ZVA touches; `None` for forms without a register (literal), and for everything else.
pub fn hidden_access(w: u32, registers: &mut impl Registers) -> Option<(u64, MemKind)> {
    if zeroes_line(w) {
        return Some((general(registers, w) & !(LINE - 1), MemKind::ZeroLine));
    }
    let address = if w & 0xffc0_0000 == 0xf980_0000 {
        base(registers, w >> 5).wrapping_add(u64::from(w >> 10 & 0xfff) * 8)
    } else if w & 0xffe0_0c00 == 0xf880_0000 {
        let imm9 = ((w >> 12 & 0x1ff) as i32) << 23 >> 23;
        base(registers, w >> 5).wrapping_add_signed(imm9.into())
    } else if w & 0xffe0_0c00 == 0xf8a0_0800 {
        let index = general(registers, w >> 16);
        let extended = match w >> 13 & 7 {
            2 => index & 0xffff_ffff,
            6 => i64::from(index as i32) as u64,
            _ => index,
        };
        base(registers, w >> 5).wrapping_add(extended << if w >> 12 & 1 != 0 { 3 } else { 0 })
    } else {
        return None;
    };
    Some((address, MemKind::Prefetch))
}

#[cfg(test)]
mod tests {
    use super::super::{AArch64, SP};
    use super::*;
    use crate::Isa;

    /// Register n holds 0x1000 n.
    struct Numbered;
    impl Registers for Numbered {
        fn register(&mut self, which: usize) -> u64 {
            which as u64 * 0x1000
        }
    }

    #[test]
    fn what_an_engine_has_to_know() {
        for (word, special) in [
            (0xd503_205f, Special::Hint),                   // wfe
            (0xd503_203f, Special::Hint),                   // yield
            (0xd503_201f, Special::None),                   // nop
            (0xd53b_e040, Special::ReadsCounter),           // mrs x0, cntvct_el0
            (0xd53b_e020, Special::ReadsCounter),           // mrs x0, cntpct_el0
            (0xd53b_e000, Special::None),                   // mrs x0, cntfrq_el0
            (0xd51b_e340, Special::ArmsTimer),              // msr cntv_cval_el0, x0
            (0xd518_2000, Special::ChangesTranslation),     // msr ttbr0_el1, x0
            (0xd518_1000, Special::ChangesTranslation),     // msr sctlr_el1, x0
            (0xd508_871f, Special::InvalidatesTranslation), // tlbi vmalle1
            (0xd508_8720, Special::InvalidatesTranslation), // tlbi vae1, x0
            (0x8b00_0000, Special::None),                   // add x0, x0, x0
        ] {
            assert_eq!(of(word), special, "{word:08x}");
        }
        assert_eq!(AArch64::invalidated(0xd508_871f, &mut Numbered), None, "all");
        assert_eq!(AArch64::invalidated(0xd508_8721, &mut Numbered), Some(0x1000 << 12), "tlbi vae1, x1");
    }

    #[test]
    fn addresses_of_accesses_that_nobody_shows() {
        let hidden = |word| hidden_access(word, &mut Numbered);
        assert_eq!(hidden(0xf980_0440), Some((0x2008, MemKind::Prefetch)), "prfm pldl1keep, [x2, #8]");
        assert_eq!(hidden(0xf980_03e0), Some((SP as u64 * 0x1000, MemKind::Prefetch)), "[sp]");
        assert_eq!(hidden(0xf89f_8040), Some((0x2000 - 8, MemKind::Prefetch)), "prfum [x2, #-8]");
        assert_eq!(hidden(0xf8a1_7840), Some((0x2000 + 0x8000, MemKind::Prefetch)), "[x2, x1, lsl #3]");
        assert_eq!(hidden(0xf8bf_6840), Some((0x2000, MemKind::Prefetch)), "[x2, xzr]");
        assert_eq!(hidden(0xd50b_7421), Some((0x1000, MemKind::ZeroLine)), "dc zva, x1");
        assert_eq!(hidden(0xd800_0000), None, "prfm literal");
    }
}
