//! AArch64 (Arm Architecture Reference Manual), and Linux's arm64.
//!
//! - `decode`, with `class` and `operands`: instructions to micro-operations; `special`: those that an engine has to know.
//! - `pages`: translation registers and page tables.

mod class;
mod decode;
mod operands;
mod pages;
mod special;

use crate::{Isa, Registers, Special};
use wiretime_hw::core::{MemKind, MicroOp};

/// The instruction set.
pub struct AArch64;

/// General registers come first; 31 is the stack pointer.
const SP: usize = 31;
const PC: usize = 32;
const SCTLR: usize = 33;
const TCR: usize = 34;
const TTBR0: usize = 35;
const TTBR1: usize = 36;
/// Where Linux keeps the current task in the kernel; a kernel with `CONFIG_ARM64_SW_TTBR0_PAN` is not served.
const TASK: usize = 37;
/// `thread_info.preempt_count`, at the start of a task.
const PREEMPT_COUNT: u64 = 8;

/// General register `n`; 31 is zero.
fn general(registers: &mut impl Registers, n: u32) -> u64 {
    match n & 31 {
        31 => 0,
        n => registers.register(n as usize),
    }
}

/// General register `n`; 31 is the stack pointer.
fn base(registers: &mut impl Registers, n: u32) -> u64 {
    match n & 31 {
        31 => registers.register(SP),
        n => registers.register(n as usize),
    }
}

impl Isa for AArch64 {
    const TARGET: &'static str = "aarch64";
    const BYTES: u64 = 4;
    const STATE: &'static [&'static str] = &[
        "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",
        "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp", "pc",
        "cpsr",
    ];
    const VECTORS: [&'static [&'static str]; 2] = [
        &[
            "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",
            "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",
            "v31", "fpsr", "fpcr",
        ],
        &[
            "z0", "z1", "z2", "z3", "z4", "z5", "z6", "z7", "z8", "z9", "z10", "z11", "z12", "z13", "z14", "z15",
            "z16", "z17", "z18", "z19", "z20", "z21", "z22", "z23", "z24", "z25", "z26", "z27", "z28", "z29", "z30",
            "z31", "fpsr", "fpcr",
        ],
    ];
    const REGISTERS: &'static [&'static str] = &[
        "x0",
        "x1",
        "x2",
        "x3",
        "x4",
        "x5",
        "x6",
        "x7",
        "x8",
        "x9",
        "x10",
        "x11",
        "x12",
        "x13",
        "x14",
        "x15",
        "x16",
        "x17",
        "x18",
        "x19",
        "x20",
        "x21",
        "x22",
        "x23",
        "x24",
        "x25",
        "x26",
        "x27",
        "x28",
        "x29",
        "x30",
        "sp",
        "pc",
        "SCTLR_EL1",
        "TCR_EL1",
        "TTBR0_EL1",
        "TTBR1_EL1",
        "SP_EL0",
    ];
    const PC: usize = PC;
    type Translation = pages::Translation;

    fn decode(code: u32) -> MicroOp {
        decode::decode(code)
    }

    fn disassemble(code: u32) -> String {
        decode::disassemble(code)
    }

    fn special(code: u32) -> Special {
        special::of(code)
    }

    fn is_steady(code: u32) -> bool {
        special::is_steady(code)
    }

    fn invalidated(code: u32, registers: &mut impl Registers) -> Option<u64> {
        special::invalidates_address(code).then(|| general(registers, code) << pages::INVALIDATED_SHIFT)
    }

    fn hidden_access(code: u32, registers: &mut impl Registers) -> Option<(u64, MemKind)> {
        special::hidden_access(code, registers)
    }

    fn in_kernel(vaddr: u64) -> bool {
        vaddr >> 63 != 0
    }

    fn current_task(registers: &mut impl Registers) -> u64 {
        registers.register(TASK)
    }

    fn preempt_count(task: u64) -> u64 {
        task.wrapping_add(PREEMPT_COUNT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_where_they_are_said_to_be() {
        let names = [SP, PC, SCTLR, TCR, TTBR0, TTBR1, TASK].map(|i| AArch64::REGISTERS[i]);
        assert_eq!(names, ["sp", "pc", "SCTLR_EL1", "TCR_EL1", "TTBR0_EL1", "TTBR1_EL1", "SP_EL0"]);
        assert_eq!((AArch64::REGISTERS[30], AArch64::REGISTERS.len()), ("x30", 38));
    }
}
