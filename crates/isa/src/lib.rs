//! What an instruction set and its kernel are to an engine, behind one trait: decoding to neutral micro-operations, what
//! instructions ask of the engine itself, accesses that the engine's callbacks do not show, page tables, and where the
//! kernel keeps who runs.
//!
//! Models know none of it; an engine names the set it drives once, and calls it without a table of functions.
#![forbid(unsafe_code)]

mod aarch64;

pub use aarch64::AArch64;
use wiretime_hw::core::{MemKind, MicroOp, Walk};
use wiretime_hw::memory::GuestMemory;

/// What an instruction asks of the engine, beside its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Nothing.
    None,
    /// It tells that its core has nothing to do: the engine goes on as if it had not been there.
    Hint,
    /// It reads the guest's counter: what it finds is the time of this instruction.
    ReadsCounter,
    /// It arms a timer by the counter.
    ArmsTimer,
    /// It changes what addresses mean.
    ChangesTranslation,
    /// Cached translations go.
    InvalidatesTranslation,
}

/// The registers of the core that runs.
pub trait Registers {
    /// The one at this place of [`Isa::REGISTERS`]; 0 where it cannot be read.
    fn register(&mut self, which: usize) -> u64;
}

/// An instruction set, and Linux on it.
///
/// Instructions are read as one `Code` each. A set whose instructions differ in length takes the longest, and its blocks
/// would have to note where each begins: [`Isa::BYTES`] is one number so far.
pub trait Isa {
    /// QEMU's name of it.
    const TARGET: &'static str;
    /// Length of an instruction.
    const BYTES: u64;
    /// Registers that this trait asks for, by QEMU's names.
    const REGISTERS: &'static [&'static str];
    /// Where the program counter is among them.
    const PC: usize;
    /// All that a program has in registers, by QEMU's names: of its integer unit, and of its vectors, by either of two names.
    const STATE: &'static [&'static str];
    /// See [`Isa::STATE`].
    const VECTORS: [&'static [&'static str]; 2];
    /// What a core's addresses mean.
    type Translation: Translation;

    /// An instruction as a core's model sees it.
    fn decode(code: u32) -> MicroOp;
    /// Its text, for people.
    fn disassemble(code: u32) -> String;
    /// What it asks of the engine.
    fn special(code: u32) -> Special;
    /// Whether what it does follows from registers and memory alone and goes into these alone, so that a loop of such, back at
    /// the same registers and memory, does the same again.
    fn is_steady(code: u32) -> bool;
    /// The page whose translations go, where an instruction names one; all go where it does not.
    fn invalidated(code: u32, registers: &mut impl Registers) -> Option<u64>;
    /// The virtual address that a prefetch or the zeroing of a line touches, and how, before it executes.
    fn hidden_access(code: u32, registers: &mut impl Registers) -> Option<(u64, MemKind)>;

    /// Whether the kernel's code or data is at an address.
    fn in_kernel(vaddr: u64) -> bool;
    /// The kernel's current task, while the kernel runs.
    fn current_task(registers: &mut impl Registers) -> u64;
    /// Where a task keeps Linux's `preempt_count`, of 32 bits.
    fn preempt_count(task: u64) -> u64;
}

/// What a core's virtual addresses mean, as its registers said last.
pub trait Translation: Default {
    /// As the registers of the core that runs say now.
    fn read(registers: &mut impl Registers) -> Self;
    /// The address space in the upper bits of tagged addresses.
    fn space(&self) -> u64;
    /// A virtual address with its address space in the upper bits; the kernel's addresses are in all of them.
    fn tag(&self, vaddr: u64) -> u64;
    /// Walks the tables for a tagged or plain address.
    fn walk(&self, address: u64, memory: &impl GuestMemory) -> Walk;
}
