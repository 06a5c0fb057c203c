//! Instructions to micro-operations: class, sources, destinations, ordering.
//!
//! The decoder is `yaxpeax-arm`; roles of operands and classes are ours, after the Arm Architecture Reference Manual.
//! Unknown words become [`Class::Unknown`] and are counted.

use super::{class, operands};
use wiretime_hw::core::{Branch, Class, MicroOp, Order, Reg, REG_FLAGS};
use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Instruction, Opcode, Operand};

const LINK: Reg = 30;
const STACK: Reg = 31;

const NZCV_MASK: u32 = 0xffff_ffe0;
const WRITE_NZCV: u32 = 0xd51b_4200;
const READ_NZCV: u32 = 0xd53b_4200;
const HINT_MASK: u32 = 0xffff_f01f;
const HINT: u32 = 0xd503_201f;

/// Decodes one instruction word.
pub fn decode(word: u32) -> MicroOp {
    let bytes = word.to_le_bytes();
    let decoded = InstDecoder::default().decode(&mut U8Reader::new(&bytes));
    match decoded {
        Ok(i) if i.opcode != Opcode::Invalid && i.opcode != Opcode::UDF => micro_op(word, &i),
        _ => MicroOp::new(Class::Unknown),
    }
}

fn micro_op(word: u32, i: &Instruction) -> MicroOp {
    let name = format!("{:?}", i.opcode);
    let name = name.split('(').next().unwrap_or("");
    let class = class::of(word, name, i);
    let mut op = MicroOp::new(class);
    match class {
        Class::Branch => branch(name, i, &mut op),
        Class::Load | Class::LoadVector | Class::LoadExclusive => load(name, i, &mut op),
        Class::Store | Class::StoreExclusive => store(class, i, &mut op),
        Class::Atomic => atomic(name, i, &mut op),
        Class::Prefetch => operands::address(i, &mut op),
        Class::ZeroLine | Class::Maintenance => all_sources(i, &mut op),
        Class::SystemWrite => {
            op.reads(operands::gpr(word & 31));
            if word & NZCV_MASK == WRITE_NZCV {
                op.writes(REG_FLAGS);
            }
        }
        Class::SystemRead => {
            op.writes(operands::gpr(word & 31));
            if word & NZCV_MASK == READ_NZCV {
                op.reads(REG_FLAGS);
            }
        }
        Class::Auth if word & HINT_MASK == HINT => authenticated(word, &mut op),
        Class::Barrier => op.order = barrier_order(word),
        Class::Nop | Class::BarrierFull | Class::ContextSync | Class::Unknown => {}
        _ => compute(name, i, &mut op),
    }
    op.moves = class == Class::Alu && moves(word);
    if matches!(name, "LDAR" | "LDARB" | "LDARH" | "LDAPR" | "LDAPRB" | "LDAPRH") || name.starts_with("LDAX") {
        op.order = Order::one_way(true, false);
    }
    if name.starts_with("STLR") || name.starts_with("STLX") {
        op.order = Order::one_way(false, true);
    }
    if class == Class::Atomic {
        op.order = atomic_order(word);
    }
    op
}

/// Operations of LSE have A and R beside each other, comparisons and swaps have L and o0.
fn atomic_order(word: u32) -> Order {
    let bit = |n: u32| word >> n & 1 == 1;
    if word >> 24 & 0x3f == 0x38 {
        Order::one_way(bit(23), bit(22))
    } else {
        Order::one_way(bit(22), bit(15))
    }
}

/// `MOV Rd, Rn`, `MOV Rd, ZR` (ORR with the zero register, nothing shifted) and `MOV Rd, #0` (MOVZ): what the optimisation
/// guides of Cortex-A78 and Neoverse V2 list as moves of zero latency.
fn moves(word: u32) -> bool {
    word & 0x7fe0_ffe0 == 0x2a00_03e0 || word & 0x7fff_ffe0 == 0x5280_0000
}

/// Operands of authentication in the space of hints, which names none: XPACLRI; PACIA1716 and its like; of LR by zero; of
/// LR by SP.
fn authenticated(word: u32, op: &mut MicroOp) {
    let number = word >> 5 & 0x7f;
    let (pointer, modifier) = match number {
        8..=15 => (17, Some(16)),
        24.. if number & 1 == 1 => (LINK, Some(STACK)),
        _ => (LINK, None),
    };
    op.reads(pointer);
    if let Some(register) = modifier {
        op.reads(register);
    }
    op.writes(pointer);
}

fn barrier_order(word: u32) -> Order {
    match word >> 8 & 3 {
        1 => Order::LOADS,
        2 => Order::STORES,
        _ => Order::ALL,
    }
}

fn all_sources(i: &Instruction, op: &mut MicroOp) {
    for o in &i.operands {
        operands::each(o, |r| {
            op.reads(r);
        });
    }
}

fn branch(name: &str, i: &Instruction, op: &mut MicroOp) {
    all_sources(i, op);
    op.branch = match name {
        "B" => Branch::Direct,
        "BL" => Branch::Call,
        n if n.starts_with("RET") => Branch::Return,
        n if n.starts_with("BLR") => Branch::IndirectCall,
        n if n.starts_with("BR") && n != "BRK" => Branch::Indirect,
        "Bcc" | "BCcc" => {
            op.reads(REG_FLAGS);
            Branch::Conditional
        }
        "CBZ" | "CBNZ" | "TBZ" | "TBNZ" => Branch::Conditional,
        _ => Branch::Exception,
    };
    match op.branch {
        Branch::Call | Branch::IndirectCall => {
            op.writes(LINK);
        }
        Branch::Return => {
            op.reads(LINK);
        }
        _ => {}
    }
}

fn load(name: &str, i: &Instruction, op: &mut MicroOp) {
    operands::address(i, op);
    let data = operands::data(i);
    for o in data {
        operands::each(o, |r| {
            op.writes(r);
        });
        // One lane of a register: the rest of it stays.
        if matches!(o, Operand::SIMDRegisterGroupLane(..)) {
            operands::each(o, |r| {
                op.reads(r);
            });
        }
    }
    op.slots = operands::slots(data);
    op.split = operands::split(i, data, op.write_back.is_some(), 16);
    debug_assert!(!name.starts_with("ST"));
}

fn store(class: Class, i: &Instruction, op: &mut MicroOp) {
    operands::address(i, op);
    op.data_from = op.sources().len() as u8;
    let mut data = operands::data(i);
    if class == Class::StoreExclusive {
        // Operand 0 is the status.
        if let Some((status, rest)) = data.split_first() {
            operands::each(status, |r| {
                op.writes(r);
            });
            data = rest;
        }
    }
    op.slots = operands::slots(data);
    if class == Class::Store {
        op.split = operands::split(i, data, op.write_back.is_some(), 8);
    }
    for o in data {
        operands::each(o, |r| {
            op.reads(r);
        });
    }
}

fn atomic(name: &str, i: &Instruction, op: &mut MicroOp) {
    operands::address(i, op);
    op.data_from = op.sources().len() as u8;
    let data = operands::data(i);
    for (n, o) in data.iter().enumerate() {
        // CAS Xs (compare, old value), Xt (new value); LD<op> and SWP Xs (operand), Xt (old value); ST<op> Xs.
        let compare = name.starts_with("CAS");
        let (read, write) = match (compare, n) {
            (true, 0) => (true, true),
            (true, _) | (false, 0) => (true, false),
            (false, _) => (false, true),
        };
        operands::each(o, |r| {
            if read {
                op.reads(r);
            }
            if write {
                op.writes(r);
            }
        });
    }
}

fn compute(name: &str, i: &Instruction, op: &mut MicroOp) {
    if class::writes_flags(name) {
        op.writes(REG_FLAGS);
    }
    if class::reads_flags(name) {
        op.reads(REG_FLAGS);
    }
    let Some((first, rest)) = i.operands.split_first() else { return };
    if class::no_destination(name) {
        all_sources(i, op);
        return;
    }
    operands::each(first, |r| {
        op.writes(r);
    });
    if class::reads_destination(name, first, rest) {
        operands::each(first, |r| {
            op.reads(r);
        });
    }
    for o in rest {
        operands::each(o, |r| {
            op.reads(r);
        });
    }
}

/// An instruction's text, for people.
pub fn disassemble(word: u32) -> String {
    let bytes = word.to_le_bytes();
    InstDecoder::default()
        .decode(&mut U8Reader::new(&bytes))
        .map_or_else(|_| format!(".inst {word:#010x}"), |i| i.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wiretime_hw::core::{Split, REG_VECTOR};

    fn check(word: u32, class: Class, sources: &[Reg], destinations: &[Reg]) -> MicroOp {
        let op = decode(word);
        assert_eq!(op.class, class, "{word:08x}");
        assert_eq!(op.sources(), sources, "sources of {word:08x}");
        assert_eq!(op.destinations(), destinations, "destinations of {word:08x}");
        op
    }

    const V: Reg = REG_VECTOR;

    #[test]
    fn integer() {
        check(0x8b02_0020, Class::Alu, &[1, 2], &[0]); // add x0, x1, x2
        check(0x8b02_2020, Class::AluShift, &[1, 2], &[0]); // add x0, x1, x2, lsl #8
        check(0xeb02_003f, Class::Alu, &[1, 2], &[REG_FLAGS]); // cmp x1, x2
        check(0x9a82_0020, Class::Alu, &[REG_FLAGS, 1, 2], &[0]); // csel x0, x1, x2, eq
        check(0x9b02_7c20, Class::MulWide, &[1, 2], &[0]); // mul x0, x1, x2
        check(0x1b02_0c20, Class::Mul, &[1, 2, 3], &[0]); // madd w0, w1, w2, w3
        check(0x9ac2_0820, Class::DivWide, &[1, 2], &[0]); // udiv x0, x1, x2
        check(0xf280_0020, Class::Alu, &[0], &[0]); // movk x0, #1
        check(0x9100_03fd, Class::Alu, &[31], &[29]); // mov x29, sp
        check(0xd503_201f, Class::Nop, &[], &[]);
    }

    /// hardware.csv: neoverse-n1, "instr latency" of arithmetic, logical operations and NEON shifts.
    #[test]
    fn shifts_are_of_the_pipe_that_they_take() {
        for (word, class) in [
            (0xca42_1c20, Class::Alu),         // eor x0, x1, x2, lsr #7
            (0x0ac2_0c20, Class::Alu),         // and w0, w1, w2, ror #3
            (0xaa02_3020, Class::Alu),         // orr x0, x1, x2, lsl #12
            (0xea02_0020, Class::Alu),         // ands x0, x1, x2
            (0xea02_0820, Class::AluShift),    // ands x0, x1, x2, lsl #2
            (0xab02_0820, Class::Alu),         // adds x0, x1, x2, lsl #2
            (0x8b42_0420, Class::AluShift),    // add x0, x1, x2, lsr #1
            (0x93c1_1420, Class::Alu),         // ror x0, x1, #5
            (0x93c2_1420, Class::AluShift),    // extr x0, x1, x2, #5
            (0xb37d_0c20, Class::AluShift),    // bfi x0, x1, #3, #4
            (0x4f23_5420, Class::Simd),        // shl v0.4s, v1.4s, #3
            (0x2f08_a420, Class::Simd),        // uxtl v0.8h, v1.8b
            (0x2e21_3820, Class::Simd),        // shll v0.8h, v1.8b, #8
            (0x0f0c_8420, Class::Simd),        // shrn v0.8b, v1.8h, #4
            (0x6f23_5420, Class::Simd),        // sli v0.4s, v1.4s, #3
            (0x4ea2_4420, Class::Simd),        // sshl v0.4s, v1.4s, v2.4s
            (0x0e21_2820, Class::Simd),        // xtn v0.8b, v1.8h
            (0x6e60_2820, Class::Simd),        // uaddlp v0.4s, v1.8h
            (0x6ea2_7420, Class::Simd),        // uabd v0.4s, v1.4s, v2.4s
            (0x6f3d_1420, Class::SimdPermute), // usra v0.4s, v1.4s, #3
            (0x0f0c_8c20, Class::SimdPermute), // rshrn v0.8b, v1.8h, #4
            (0x4f23_7420, Class::SimdPermute), // sqshl v0.4s, v1.4s, #3
            (0x6ea2_5420, Class::SimdPermute), // urshl v0.4s, v1.4s, v2.4s
            (0x6e60_6820, Class::SimdPermute), // uadalp v0.4s, v1.8h
            (0x6ea2_7c20, Class::SimdPermute), // uaba v0.4s, v1.4s, v2.4s
            (0x2e21_2820, Class::SimdPermute), // sqxtun v0.8b, v1.8h
            (0x4eb1_b820, Class::SimdPermute), // addv s0, v1.4s
            (0x6e30_a820, Class::SimdPermute), // umaxv b0, v1.16b
        ] {
            assert_eq!(decode(word).class, class, "{}", disassemble(word));
        }
    }

    #[test]
    fn what_accumulates_reads_its_destination() {
        for (word, accumulates) in [
            (0x6f3d_1420, true),  // usra v0.4s, v1.4s, #3
            (0x7f7d_1420, true),  // usra d0, d1, #3
            (0x6f23_5420, true),  // sli v0.4s, v1.4s, #3
            (0x5fc2_1020, true),  // fmla d0, d1, v2.d[0]
            (0x6e60_6820, true),  // uadalp v0.4s, v1.8h
            (0x4ea0_3820, true),  // suqadd v0.4s, v1.4s
            (0x4e21_2820, true),  // xtn2 v0.16b, v1.8h
            (0x4f0c_8420, true),  // shrn2 v0.16b, v1.8h, #4
            (0x6e21_2820, true),  // sqxtun2 v0.16b, v1.8h
            (0x4e61_6820, true),  // fcvtn2 v0.4s, v1.2d
            (0x6e61_6820, true),  // fcvtxn2 v0.4s, v1.2d
            (0x0e62_d020, false), // sqdmull v0.4s, v1.4h, v2.4h
            (0x6e60_2820, false), // uaddlp v0.4s, v1.8h
            (0x0e21_2820, false), // xtn v0.8b, v1.8h
        ] {
            assert_eq!(decode(word).sources().contains(&V), accumulates, "{}", disassemble(word));
        }
    }

    #[test]
    fn moves_are_told_from_what_computes() {
        let moved = [0xaa01_03e0, 0x2a01_03e0, 0xaa1f_03e0, 0xd280_0000, 0x5280_0000]; // mov x0, x1; w; xzr; #0
        let computed = [0xaa02_0020, 0xaa01_07e0, 0xd280_0020, 0xd2a0_0020, 0x9100_03fd, 0xaa21_03e0];
        // orr x0, x1, x2; orr x0, xzr, x1, lsl #1; mov x0, #1; #0x10000; mov x29, sp; mvn x0, x1
        assert_eq!(moved.map(|w| (decode(w).moves, decode(w).class)), [(true, Class::Alu); 5]);
        assert_eq!(computed.map(|w| decode(w).moves), [false; 6]);
    }

    #[test]
    fn branches() {
        assert_eq!(decode(0x1400_0001).branch, Branch::Direct);
        assert_eq!(check(0x9400_0001, Class::Branch, &[], &[30]).branch, Branch::Call);
        assert_eq!(check(0x5400_0040, Class::Branch, &[REG_FLAGS], &[]).branch, Branch::Conditional);
        assert_eq!(check(0xb400_0041, Class::Branch, &[1], &[]).branch, Branch::Conditional); // cbz x1
        assert_eq!(decode(0xd65f_03c0).branch, Branch::Return);
        assert_eq!(check(0xd63f_0020, Class::Branch, &[1], &[30]).branch, Branch::IndirectCall); // blr x1
        assert_eq!(check(0xd61f_0020, Class::Branch, &[1], &[]).branch, Branch::Indirect); // br x1
        assert_eq!(decode(0xd69f_03e0).branch, Branch::Exception); // eret
        assert_eq!(decode(0xd400_0001).branch, Branch::Exception); // svc
    }

    #[test]
    fn memory() {
        let op = check(0xf840_8420, Class::Load, &[1], &[0]); // ldr x0, [x1], #8
        assert_eq!(op.write_back, Some(1));
        let op = check(0xf81f_0fe0, Class::Store, &[31, 0], &[]); // str x0, [sp, #-16]!
        assert_eq!((op.write_back, op.data_from), (Some(31), 1));
        check(0xa940_0821, Class::Load, &[1], &[1, 2]); // ldp x1, x2, [x1]
        check(0xf862_7820, Class::Load, &[1, 2], &[0]); // ldr x0, [x1, x2, lsl #3]
        check(0x3dc0_0020, Class::LoadVector, &[1], &[V]); // ldr q0, [x1]
        check(0x4c40_0020, Class::LoadVector, &[1], &[V, V + 1, V + 2, V + 3]); // ld4 {v0.16b-v3.16b}, [x1]
        check(0xc85f_7c20, Class::LoadExclusive, &[1], &[0]); // ldxr x0, [x1]
        check(0xc802_7c20, Class::StoreExclusive, &[1, 0], &[2]); // stxr w2, x0, [x1]
        check(0xf822_0020, Class::Atomic, &[1, 2], &[0]); // ldadd x2, x0, [x1]
        check(0xc8a2_7c20, Class::Atomic, &[1, 2, 0], &[2]); // cas x2, x0, [x1]
        check(0xf980_0020, Class::Prefetch, &[1], &[]); // prfm pldl1keep, [x1]
        check(0xd50b_7420, Class::ZeroLine, &[0], &[]); // dc zva, x0
        assert_eq!(decode(0xc8df_fc20).order, Order::one_way(true, false)); // ldar
        assert_eq!(decode(0xc89f_fc20).order, Order::one_way(false, true)); // stlr

        // ldadd, ldadda, ldaddl, ldaddal; cas, casa, casl, casal; swpa, casab
        for (word, acquires, releases) in [
            (0xf822_0020, false, false),
            (0xf8a2_0020, true, false),
            (0xf862_0020, false, true),
            (0xf8e2_0020, true, true),
            (0xc8a2_7c20, false, false),
            (0xc8e2_7c20, true, false),
            (0xc8a2_fc20, false, true),
            (0xc8e2_fc20, true, true),
            (0xb8a2_8020, true, false),
            (0x08e2_7c20, true, false),
        ] {
            let op = decode(word);
            assert_eq!((op.class, op.order), (Class::Atomic, Order::one_way(acquires, releases)), "{word:08x}");
        }
    }

    /// As gem5's `PairMemOp`, `BigFpMem*Op` and `Memory64` with write-back do.
    #[test]
    fn accesses_in_pieces() {
        for (word, address, pieces, base) in [
            (0xf940_0020, false, 1, false), // ldr x0, [x1]
            (0xf862_7820, false, 1, false), // ldr x0, [x1, x2, lsl #3]
            (0xf840_8420, false, 1, true),  // ldr x0, [x1], #8
            (0xf81f_0fe0, false, 1, true),  // str x0, [sp, #-16]!
            (0xa940_0821, true, 1, false),  // ldp x1, x2, [x1]
            (0xa8c1_7bfd, false, 1, true),  // ldp x29, x30, [sp], #16
            (0xa9bf_7bfd, true, 2, true),   // stp x29, x30, [sp, #-16]!
            (0x2900_0c42, true, 1, false),  // stp w2, w3, [x2]
            (0x3dc0_0020, false, 1, false), // ldr q0, [x1]
            (0x3d80_0020, false, 2, false), // str q0, [x1]
            (0xfd00_0020, false, 1, false), // str d0, [x1]
            (0xad40_0420, true, 2, false),  // ldp q0, q1, [x1]
            (0xad00_0420, true, 4, false),  // stp q0, q1, [x1]
            (0xc85f_7c20, false, 1, false), // ldxr x0, [x1]
        ] {
            assert_eq!(decode(word).split, Split { address, pieces, base }, "{word:08x}");
        }
    }

    #[test]
    fn system() {
        check(0xd53b_e040, Class::SystemRead, &[], &[0]); // mrs x0, cntvct_el0
        check(0xd51b_4211, Class::SystemWrite, &[17], &[REG_FLAGS]); // msr nzcv, x17: all five bits of the register
        check(0xd53b_4203, Class::SystemRead, &[REG_FLAGS], &[3]); // mrs x3, nzcv
        check(0xd503_233f, Class::Auth, &[30, 31], &[30]); // paciasp
        check(0xd503_23bf, Class::Auth, &[30, 31], &[30]); // autiasp
        check(0xd503_211f, Class::Auth, &[17, 16], &[17]); // pacia1716
        check(0xd503_231f, Class::Auth, &[30], &[30]); // paciaz
        check(0xd503_20ff, Class::Auth, &[30], &[30]); // xpaclri
        assert_eq!(decode(0xd503_3abf).order, Order::STORES); // dmb ishst
        assert_eq!(decode(0xd503_39bf).order, Order::LOADS); // dmb ishld
        assert_eq!(decode(0xd503_3f9f).class, Class::BarrierFull); // dsb sy
        assert_eq!(decode(0xd503_3fdf).class, Class::ContextSync); // isb
        assert_eq!(decode(0).class, Class::Unknown);
    }

    #[test]
    fn floating_point_and_vector() {
        check(0x1e62_2820, Class::FpAdd, &[V + 1, V + 2], &[V]); // fadd d0, d1, d2
        check(0x1f42_0c20, Class::FpFma, &[V + 1, V + 2, V + 3], &[V]); // fmadd d0, d1, d2, d3
        check(0x4ea2_8420, Class::Simd, &[V + 1, V + 2], &[V]); // add v0.4s, v1.4s, v2.4s
        check(0x4e22_cc20, Class::FpFma, &[V, V + 1, V + 2], &[V]); // fmla v0.4s, v1.4s, v2.4s
        check(0x9e67_0020, Class::SimdTransfer, &[1], &[V]); // fmov d0, x1
        check(0x4e28_4820, Class::Crypto, &[V, V + 1], &[V]); // aese v0.16b, v1.16b
        check(0x4ea2_0420, Class::Simd, &[V + 1, V + 2], &[V]); // shadd v0.4s, v1.4s, v2.4s
        check(0x6e60_5820, Class::Simd, &[V + 1], &[V]); // rbit v0.16b, v1.16b
        check(0x6ea2_1c20, Class::Simd, &[V, V + 1, V + 2], &[V]); // bit v0.16b, v1.16b, v2.16b
    }

    proptest! {
        #[test]
        fn any_word_decodes(word in any::<u32>()) {
            let _ = decode(word);
        }
    }
}
