//! Classes of instructions, by opcode name and operand shapes.

use super::operands::is_vector;
use wiretime_hw::core::Class;
use yaxpeax_arm::armv8::a64::{Instruction, Operand, ShiftStyle, SizeCode};

/// The class of an instruction whose opcode is called `name`.
pub fn of(word: u32, name: &str, i: &Instruction) -> Class {
    let first = &i.operands[0];
    let vector = is_vector(first);
    if let Some(class) = memory(name, vector) {
        return class;
    }
    match name {
        "B" | "BL" | "BLR" | "BR" | "Bcc" | "BCcc" | "CBZ" | "CBNZ" | "TBZ" | "TBNZ" | "SVC" | "HVC" | "SMC"
        | "BRK" | "HLT" | "DRPS" => Class::Branch,
        n if n.starts_with("RET") || n.starts_with("ERET") || n.starts_with("BLRA") || n.starts_with("BRA") => {
            Class::Branch
        }
        "HINT" => Class::Nop,
        "DMB" => Class::Barrier,
        "DSB" | "SSBB" | "PSSBB" | "SB" => Class::BarrierFull,
        "ISB" => Class::ContextSync,
        "MRS" => Class::SystemRead,
        "MSR" => Class::SystemWrite,
        "SYS" | "SYSL" if word & 0xffff_ffe0 == 0xd50b_7420 => Class::ZeroLine,
        "SYS" | "SYSL" => Class::Maintenance,
        "CLREX" => Class::Nop,
        "UDIV" | "SDIV" if wide(first) => Class::DivWide,
        "UDIV" | "SDIV" => Class::Div,
        "MADD" | "MSUB" if wide(first) => Class::MulWide,
        "MADD" | "MSUB" => Class::Mul,
        "UMADDL" | "SMADDL" | "UMSUBL" | "SMSUBL" => Class::Mul,
        "UMULH" | "SMULH" => Class::MulWide,
        n if n.starts_with("CRC32") => Class::Crc,
        n if n.starts_with("AES") || is_sha(n) || n.starts_with("PMULL") || n.starts_with("SM") && vector => {
            if n.starts_with("SMULL")
                || n.starts_with("SMLA")
                || n.starts_with("SMLS")
                || n.starts_with("SMAX")
                || n.starts_with("SMIN")
                || n.starts_with("SMMLA")
            {
                simd(n)
            } else {
                Class::Crypto
            }
        }
        n if n.starts_with("PAC") || n.starts_with("AUT") || n.starts_with("XPAC") => Class::Auth,
        n if n.starts_with('F') || n.starts_with("SCVTF") || n.starts_with("UCVTF") => floating(n, i),
        _ if vector || i.operands.iter().any(is_vector) => {
            if i.operands.iter().take(2).any(|o| matches!(o, Operand::Register(..) | Operand::RegisterOrSP(..))) {
                Class::SimdTransfer
            } else {
                simd(name)
            }
        }
        // `ROR` of one register; of two it takes a cycle more than this class says.
        "EXTR" if i.operands[1] == i.operands[2] => Class::Alu,
        "EXTR" | "BFM" => Class::AluShift,
        // Of logical operations only those that set the flags shift on the multi-cycle pipe, and by any amount.
        "AND" | "BIC" | "EON" | "EOR" | "ORN" | "ORR" => Class::Alu,
        "ANDS" | "BICS" if i.operands.iter().any(|o| matches!(o, Operand::RegShift(_, 1.., _, _))) => Class::AluShift,
        _ if i.operands.iter().any(shifted) => Class::AluShift,
        _ => Class::Alu,
    }
}

fn memory(name: &str, vector: bool) -> Option<Class> {
    let class = match name {
        "PRFM" | "PRFUM" => Class::Prefetch,
        n if n.starts_with("CAS") || n.starts_with("SWP") => Class::Atomic,
        n if atomic_stem(n, "LD") || atomic_stem(n, "ST") => Class::Atomic,
        n if n.starts_with("LDX") || n.starts_with("LDAX") => Class::LoadExclusive,
        n if n.starts_with("STX") || n.starts_with("STLX") => Class::StoreExclusive,
        n if n.starts_with("LD") && vector => Class::LoadVector,
        n if n.starts_with("LD") => Class::Load,
        n if n.starts_with("ST") => Class::Store,
        _ => return None,
    };
    Some(class)
}

fn atomic_stem(name: &str, prefix: &str) -> bool {
    const STEMS: [&str; 8] = ["ADD", "CLR", "EOR", "SET", "SMAX", "SMIN", "UMAX", "UMIN"];
    name.strip_prefix(prefix).is_some_and(|rest| STEMS.iter().any(|s| rest.starts_with(s)))
}

fn wide(o: &Operand) -> bool {
    matches!(o, Operand::Register(SizeCode::X, _) | Operand::RegisterOrSP(SizeCode::X, _))
}

/// A shift by more than four, a right shift, or an extension: not on the single-cycle pipes.
fn shifted(o: &Operand) -> bool {
    match *o {
        Operand::RegShift(ShiftStyle::LSL, amount, _, _) => amount > 4,
        Operand::RegShift(..) => true,
        _ => false,
    }
}

fn floating(name: &str, i: &Instruction) -> Class {
    let general = i.operands.iter().take(2).any(|o| matches!(o, Operand::Register(..) | Operand::RegisterOrSP(..)));
    if general {
        return Class::SimdTransfer;
    }
    match name {
        n if n.starts_with("FMADD")
            || n.starts_with("FMSUB")
            || n.starts_with("FNMADD")
            || n.starts_with("FNMSUB")
            || n.starts_with("FMLA")
            || n.starts_with("FMLS")
            || n.starts_with("FCMLA") =>
        {
            Class::FpFma
        }
        n if n.starts_with("FDIV") || n.starts_with("FSQRT") => Class::FpDiv,
        n if n.starts_with("FMUL") || n.starts_with("FNMUL") => Class::FpMul,
        n if n.starts_with("FADD")
            || n.starts_with("FSUB")
            || n.starts_with("FABD")
            || n.starts_with("FMAX")
            || n.starts_with("FMIN") =>
        {
            Class::FpAdd
        }
        _ => Class::FpMove,
    }
}

fn simd(name: &str) -> Class {
    const MULTIPLY: [&str; 8] = ["MUL", "MLA", "MLS", "DOT", "MMLA", "QDMUL", "QRDMUL", "QDML"];
    // Reductions; shifts that accumulate, round or saturate; sums that accumulate; narrowing with saturation.
    const COMPLEX: [&str; 12] =
        ["ADDV", "ADDLV", "MAXV", "MINV", "SRA", "RSHR", "RSHL", "QSHR", "QSHL", "ADALP", "ABA", "QXT"];
    if MULTIPLY.iter().any(|m| name.contains(m)) {
        Class::SimdMul
    } else if COMPLEX.iter().any(|p| name.contains(p)) {
        Class::SimdPermute
    } else {
        Class::Simd
    }
}

/// Sets the condition flags.
pub fn writes_flags(name: &str) -> bool {
    matches!(
        name,
        "ADDS"
            | "SUBS"
            | "ANDS"
            | "BICS"
            | "ADCS"
            | "SBCS"
            | "CCMP"
            | "CCMN"
            | "FCMP"
            | "FCMPE"
            | "FCCMP"
            | "FCCMPE"
            | "RMIF"
            | "SETF8"
            | "SETF16"
            | "SUBPS"
    )
}

/// Depends on the condition flags.
pub fn reads_flags(name: &str) -> bool {
    matches!(
        name,
        "CSEL"
            | "CSINC"
            | "CSINV"
            | "CSNEG"
            | "FCSEL"
            | "CCMP"
            | "CCMN"
            | "FCCMP"
            | "FCCMPE"
            | "ADC"
            | "ADCS"
            | "SBC"
            | "SBCS"
            | "RMIF"
    )
}

/// Operand 0 is a source.
pub fn no_destination(name: &str) -> bool {
    matches!(name, "CCMP" | "CCMN" | "FCMP" | "FCMPE" | "FCCMP" | "FCCMPE" | "RMIF" | "SETF8" | "SETF16")
}

/// The instructions of the secure hashes, and no halving add.
fn is_sha(name: &str) -> bool {
    ["SHA1", "SHA256", "SHA512"].iter().any(|hash| name.starts_with(hash))
}

/// Operand 0 is read as well as written.
pub fn reads_destination(name: &str, first: &Operand, rest: &[Operand]) -> bool {
    if matches!(name, "MOVK" | "BFM") {
        return true;
    }
    if !is_vector(first) {
        return name.starts_with("PAC") || name.starts_with("AUT") || name.starts_with("XPAC");
    }
    if matches!(first, Operand::SIMDRegisterElementsLane(..)) {
        return true; // INS, FMOV into a lane
    }
    if matches!(name, "ORR" | "BIC") && matches!(rest.first(), Some(Operand::ImmShift(..))) {
        return true;
    }
    const ACCUMULATE: [&str; 12] =
        ["MLA", "MLS", "DOT", "ABA", "ADALP", "SRA", "SRI", "SLI", "TBX", "QDML", "SUQADD", "USQADD"];
    if matches!(name, "BSL" | "BIT" | "BIF") {
        return true;
    }
    // What narrows into the upper half: XTN2, SHRN2, ADDHN2, FCVTN2, ...
    let crypto = matches!(name, "AESE" | "AESD") || is_sha(name);
    name.ends_with("N2") || crypto || ACCUMULATE.iter().any(|a| name.contains(a))
}
