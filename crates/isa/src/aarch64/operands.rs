//! Operands of the decoder to registers of the model.

use wiretime_hw::core::{MicroOp, Reg, Split, REG_VECTOR};
use yaxpeax_arm::armv8::a64::{Instruction, Operand, SIMDSizeCode, SizeCode};

/// What stands for the zero register: no dependency (out of the model's range).
const NONE: Reg = Reg::MAX;
const STACK_POINTER: Reg = 31;

/// A general register where 31 is zero.
pub fn gpr(n: u32) -> Reg {
    if n >= 31 {
        NONE
    } else {
        n as Reg
    }
}

fn gpr_or_sp(n: u32) -> Reg {
    (n as Reg).min(STACK_POINTER)
}

fn vector(n: u32) -> Reg {
    REG_VECTOR + (n % 32) as Reg
}

/// Calls `f` for every register of a data operand.
pub fn each(o: &Operand, mut f: impl FnMut(Reg)) {
    match *o {
        Operand::Register(_, n) => f(gpr(n.into())),
        Operand::RegisterOrSP(_, n) => f(gpr_or_sp(n.into())),
        Operand::RegisterPair(_, n) => {
            f(gpr(n.into()));
            f(gpr(u32::from(n) + 1));
        }
        Operand::RegShift(_, _, _, n) => f(gpr(n.into())),
        Operand::SIMDRegister(_, n) | Operand::SIMDRegisterElements(_, n, _) => f(vector(n.into())),
        Operand::SIMDRegisterElementsLane(_, n, _, _) => f(vector(n.into())),
        Operand::SIMDRegisterElementsMultipleLane(_, n, _, _, _) => f(vector(n.into())),
        Operand::SIMDRegisterGroup(_, first, _, count) => {
            (0..u32::from(count)).for_each(|k| f(vector(u32::from(first) + k)));
        }
        Operand::SIMDRegisterGroupLane(first, _, count, _) => {
            (0..u32::from(count)).for_each(|k| f(vector(u32::from(first) + k)));
        }
        _ => {}
    }
}

fn is_address(o: &Operand) -> bool {
    matches!(
        o,
        Operand::RegRegOffset(..) | Operand::RegPreIndex(..) | Operand::RegPostIndex(..) | Operand::RegPostIndexReg(..)
    )
}

/// Notes the registers of the address operand, and the base that is written back.
pub fn address(i: &Instruction, op: &mut MicroOp) {
    for o in &i.operands {
        let (base, index, written) = match *o {
            Operand::RegRegOffset(b, x, ..) => (b, Some(x), false),
            Operand::RegPreIndex(b, _, written) => (b, None, written),
            Operand::RegPostIndex(b, _) => (b, None, true),
            Operand::RegPostIndexReg(b, x) => (b, Some(x), true),
            _ => continue,
        };
        let base = gpr_or_sp(base.into());
        op.reads(base);
        if let Some(x) = index {
            op.reads(gpr(x.into()));
        }
        if written {
            op.write_back = Some(base);
        }
    }
}

/// The data operands: those before the address, or before the literal's offset.
pub fn data(i: &Instruction) -> &[Operand] {
    let end = i
        .operands
        .iter()
        .position(|o| is_address(o) || matches!(o, Operand::PCOffset(_) | Operand::Nothing))
        .unwrap_or(i.operands.len());
    &i.operands[..end]
}

/// Turns of a 16-byte memory pipe that these data take.
pub fn slots(data: &[Operand]) -> u8 {
    let bytes: u32 = data
        .iter()
        .map(|o| match *o {
            Operand::SIMDRegister(SIMDSizeCode::Q, _) => 16,
            Operand::SIMDRegisterGroup(_, _, _, count) => 16 * u32::from(count),
            _ => 8,
        })
        .sum();
    bytes.div_ceil(16).max(1) as u8
}

/// The same on a core that splits accesses, of at most so many bytes each: an address first for pairs, unless it is the
/// base as it is. Structures of several vectors (LD1 to LD4, ST1 to ST4) are counted by their bytes.
pub fn split(i: &Instruction, data: &[Operand], base: bool, most: u32) -> Split {
    let bytes: u32 = data.iter().map(width).sum();
    let pair = data.len() == 2;
    let post = i.operands.iter().any(|o| matches!(o, Operand::RegPostIndex(..) | Operand::RegPostIndexReg(..)));
    Split { address: pair && !post, pieces: bytes.div_ceil(most).max(1) as u8, base }
}

/// Bytes of a register, at most.
fn width(o: &Operand) -> u32 {
    match *o {
        Operand::SIMDRegister(SIMDSizeCode::Q, _) => 16,
        Operand::SIMDRegister(SIMDSizeCode::S, _) | Operand::Register(SizeCode::W, _) => 4,
        Operand::SIMDRegisterGroup(_, _, _, count) => 16 * u32::from(count),
        _ => 8,
    }
}

/// Whether any data operand is a vector register.
pub fn is_vector(o: &Operand) -> bool {
    matches!(
        o,
        Operand::SIMDRegister(..)
            | Operand::SIMDRegisterElements(..)
            | Operand::SIMDRegisterElementsLane(..)
            | Operand::SIMDRegisterElementsMultipleLane(..)
            | Operand::SIMDRegisterGroup(..)
            | Operand::SIMDRegisterGroupLane(..)
    )
}
