//! Micro-operations: what a core model knows of an instruction. Neutral: no instruction set's encodings.

/// An architectural register of the model: 0..=31 integer (31 the stack pointer), 32..=63 vector, 64 the flags.
pub type Reg = u8;

/// The first vector register.
pub const REG_VECTOR: Reg = 32;
/// The condition flags.
pub const REG_FLAGS: Reg = 64;
/// One past the last register.
pub const REG_COUNT: usize = 65;
/// Reads as always ready: pads lists of sources to a fixed length, so that the core model need not loop.
pub(super) const REG_READY: Reg = REG_COUNT as Reg;
/// Takes what nobody reads: pads lists of destinations.
pub(super) const REG_NOWHERE: Reg = REG_COUNT as Reg + 1;
/// Sources that the core model looks at without a loop: nearly every instruction has no more.
pub(super) const QUICK: usize = 3;
/// Registers that one micro-operation can read (ST4 with register offset: 4 data, base, offset).
pub const SOURCES: usize = 6;
/// Registers that one micro-operation can write, the written-back base apart (LD4).
pub const DESTINATIONS: usize = 4;

/// Latency key and kind of a micro-operation. One per distinct latency in a core's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// No work: NOP, hints.
    Nop,
    /// Integer add, logic, move, conditional select.
    Alu,
    /// Integer operation with a shifted or extended operand, bit fields with two sources.
    AluShift,
    /// Integer multiply, 32-bit result path.
    Mul,
    /// Integer multiply, 64-bit or long or high.
    MulWide,
    /// Integer divide, 32-bit.
    Div,
    /// Integer divide, 64-bit.
    DivWide,
    /// Checksum instructions (CRC32).
    Crc,
    /// Floating-point move, compare, convert.
    FpMove,
    /// Floating-point add.
    FpAdd,
    /// Floating-point multiply.
    FpMul,
    /// Floating-point multiply-add.
    FpFma,
    /// Floating-point divide and square root.
    FpDiv,
    /// Vector integer and logic.
    Simd,
    /// Vector multiply, multiply-accumulate.
    SimdMul,
    /// Vector permute, reduce, shift-insert.
    SimdPermute,
    /// Moves between integer and vector registers.
    SimdTransfer,
    /// AES, SHA, polynomial multiply.
    Crypto,
    /// Load.
    Load,
    /// Load of vector registers.
    LoadVector,
    /// Store.
    Store,
    /// Atomic read-modify-write.
    Atomic,
    /// Load-exclusive.
    LoadExclusive,
    /// Store-exclusive.
    StoreExclusive,
    /// Software prefetch.
    Prefetch,
    /// Zeroes one cache line.
    ZeroLine,
    /// Cache and TLB maintenance.
    Maintenance,
    /// Branch (see [`Branch`]).
    Branch,
    /// Orders memory accesses (see [`MicroOp::order`]).
    Barrier,
    /// Waits for everything before it, stores included.
    BarrierFull,
    /// Discards what was fetched behind it.
    ContextSync,
    /// Reads a system register.
    SystemRead,
    /// Writes a system register.
    SystemWrite,
    /// Pointer authentication.
    Auth,
    /// Not decoded: charged like `Alu` and counted.
    Unknown,
}

impl Class {
    fn is_memory(self) -> bool {
        use Class::{Atomic, Load, LoadExclusive, LoadVector, Prefetch, Store, StoreExclusive, ZeroLine};
        matches!(self, Load | LoadVector | LoadExclusive | Store | StoreExclusive | Atomic | Prefetch | ZeroLine)
    }
    fn serialises(self) -> bool {
        matches!(self, Class::BarrierFull | Class::ContextSync | Class::SystemWrite)
    }
}

/// Number of classes.
pub const CLASSES: usize = Class::Unknown as usize + 1;

/// What kind of branch ends a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Branch {
    /// No branch.
    #[default]
    None,
    /// Always taken, target in the instruction.
    Direct,
    /// Taken or not.
    Conditional,
    /// Call, target in the instruction.
    Call,
    /// Target in a register.
    Indirect,
    /// Call through a register.
    IndirectCall,
    /// Return.
    Return,
    /// Exception entry or return.
    Exception,
}

/// Which earlier and later accesses a barrier, or an access that acquires or releases, orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Later accesses wait for earlier loads.
    pub loads: bool,
    /// Later stores wait for earlier stores; with `loads`, later loads too.
    pub stores: bool,
    /// Later accesses wait for what this one loads, and that for earlier releases.
    pub acquires: bool,
    /// What this one stores waits for earlier accesses.
    pub releases: bool,
}

impl Order {
    /// Of loads alone, of stores alone, and of all.
    pub const LOADS: Self = Self { loads: true, stores: false, acquires: false, releases: false };
    /// See there.
    pub const STORES: Self = Self { loads: false, stores: true, acquires: false, releases: false };
    /// See there.
    pub const ALL: Self = Self { loads: true, stores: true, acquires: false, releases: false };

    /// Of an access that acquires, releases or both.
    #[must_use]
    pub const fn one_way(acquires: bool, releases: bool) -> Self {
        Self { loads: false, stores: false, acquires, releases }
    }
}

/// One micro-operation, decoded once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicroOp {
    /// Latency key.
    pub class: Class,
    /// Kind of branch.
    pub branch: Branch,
    /// Ordering that it imposes.
    pub order: Order,
    sources: [Reg; SOURCES],
    source_count: u8,
    destinations: [Reg; DESTINATIONS],
    destination_count: u8,
    /// Base register written back by a load or store: ready after an ALU latency, not after the load.
    pub write_back: Option<Reg>,
    /// Sources from this index on are data of a store, not needed for its address.
    pub data_from: u8,
    /// Slots of a memory pipe that it takes: one for every 16 bytes.
    pub slots: u8,
    /// Puts an integer register, or zero, into another one and does nothing else.
    pub moves: bool,
    /// What it is on a core that splits accesses.
    pub split: Split,
}

/// An access in micro-operations, on a core that has no pipes for whole pairs (`core.split_accesses`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The address is added up before the access.
    pub address: bool,
    /// Loads or stores.
    pub pieces: u8,
    /// The base is written back.
    pub base: bool,
}

impl Split {
    /// One access and nothing else.
    pub const WHOLE: Self = Self { address: false, pieces: 1, base: false };

    /// Micro-operations beyond the first.
    pub(super) fn more(self) -> u8 {
        u8::from(self.address) + self.pieces + u8::from(self.base) - 1
    }
}

/// What the core model looks at of nearly every instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quick {
    pub(super) class: Class,
    pub(super) flags: u16,
    pub(super) sources: [Reg; QUICK],
    /// Padded with [`REG_NOWHERE`].
    pub(super) destinations: [Reg; 2],
    /// Written back after an ALU latency.
    pub(super) base: Reg,
    /// Data of a store, padded with [`REG_READY`].
    pub(super) data: [Reg; 2],
    pub(super) slots: u8,
    pub(super) split: Split,
    pub(super) branch: Branch,
}

/// There is more in the [`MicroOp`]: sources, destinations, data.
pub(super) const MORE: u16 = 1;
/// Touches memory.
pub(super) const MEMORY: u16 = 2;
/// Orders what follows.
pub(super) const ORDERS: u16 = 4;
/// Takes a physical integer register.
pub(super) const WRITES_INTEGER: u16 = 8;
/// Takes a physical vector register.
pub(super) const WRITES_VECTOR: u16 = 16;
/// Takes an entry of the load queue.
pub(super) const LOADS: u16 = 32;
/// Takes an entry of the store queue.
pub(super) const STORES: u16 = 64;
/// May wait for what is before it, or is counted.
pub(super) const RARE: u16 = 128;
/// Is a branch.
pub(super) const BRANCHES: u16 = 256;
/// Is a comparison and a conditional branch, the one or the other (`fusion`).
pub(super) const TURNS: u16 = 512;
/// Is a comparison and a select.
pub(super) const SELECTS: u16 = 1024;
/// Of a pair the first.
pub(super) const FIRST: u16 = 2048;
/// Moves a register or zero.
pub(super) const MOVES: u16 = 4096;

impl MicroOp {
    /// A micro-operation of a class, without registers.
    #[must_use]
    pub fn new(class: Class) -> Self {
        Self {
            class,
            branch: Branch::None,
            order: Order::default(),
            sources: [0; SOURCES],
            source_count: 0,
            destinations: [0; DESTINATIONS],
            destination_count: 0,
            write_back: None,
            data_from: SOURCES as u8,
            slots: 1,
            moves: false,
            split: Split::WHOLE,
        }
    }

    /// Whether it reads or writes vector registers.
    #[must_use]
    pub fn uses_vectors(&self) -> bool {
        let vector = |r: &Reg| (REG_VECTOR..REG_FLAGS).contains(r);
        self.sources().iter().chain(self.destinations()).any(vector)
    }

    /// What the core model looks at first.
    #[must_use]
    pub fn quick(&self) -> Quick {
        let needed = usize::from(self.data_from).min(usize::from(self.source_count));
        let mut sources = [REG_READY; QUICK];
        for (quick, &source) in sources.iter_mut().zip(&self.sources[..needed]) {
            *quick = source;
        }
        let destinations = self.destinations();
        let mut flags = 0;
        let mut set = |flag: u16, on: bool| flags |= if on { flag } else { 0 };
        let stored = self.sources().get(usize::from(self.data_from)..).unwrap_or(&[]);
        let pad = |list: &[Reg], n: usize, pad: Reg| list.get(n).copied().unwrap_or(pad);
        set(MORE, needed > QUICK || destinations.len() > 2 || stored.len() > 2);
        set(MEMORY, self.class.is_memory());
        set(ORDERS, self.order != Order::default() || self.class.serialises());
        set(WRITES_INTEGER, destinations.iter().any(|&r| r < REG_VECTOR || r == REG_FLAGS));
        set(WRITES_VECTOR, destinations.iter().any(|r| (REG_VECTOR..REG_FLAGS).contains(r)));
        set(LOADS, matches!(self.class, Class::Load | Class::LoadVector | Class::LoadExclusive | Class::Atomic));
        set(BRANCHES, self.branch != Branch::None);
        set(MOVES, self.moves);
        set(RARE, matches!(self.class, Class::SystemRead | Class::SystemWrite | Class::Barrier | Class::Unknown));
        set(STORES, matches!(self.class, Class::Store | Class::StoreExclusive | Class::ZeroLine | Class::Atomic));
        Quick {
            class: self.class,
            flags,
            sources,
            destinations: [0, 1].map(|n| pad(destinations, n, REG_NOWHERE)),
            base: self.write_back.unwrap_or(REG_NOWHERE),
            data: [0, 1].map(|n| pad(stored, n, REG_READY)),
            slots: self.slots,
            split: self.split,
            branch: self.branch,
        }
    }

    /// Sources needed to start beyond the quick ones.
    pub(super) fn further_sources(&self) -> &[Reg] {
        let needed = usize::from(self.data_from).min(usize::from(self.source_count));
        self.sources.get(QUICK..needed).unwrap_or(&[])
    }

    /// Adds a source; beyond the capacity it is left out (no instruction of interest has more).
    pub fn reads(&mut self, reg: Reg) -> &mut Self {
        if usize::from(reg) < REG_COUNT && usize::from(self.source_count) < SOURCES {
            self.sources[usize::from(self.source_count)] = reg;
            self.source_count += 1;
        }
        self
    }

    /// Adds a destination.
    pub fn writes(&mut self, reg: Reg) -> &mut Self {
        if usize::from(reg) < REG_COUNT && usize::from(self.destination_count) < DESTINATIONS {
            self.destinations[usize::from(self.destination_count)] = reg;
            self.destination_count += 1;
        }
        self
    }

    /// Registers read.
    #[inline]
    #[must_use]
    pub fn sources(&self) -> &[Reg] {
        &self.sources[..usize::from(self.source_count)]
    }

    /// Registers written.
    #[inline]
    #[must_use]
    pub fn destinations(&self) -> &[Reg] {
        &self.destinations[..usize::from(self.destination_count)]
    }
}
