//! Parameters of a core: pipeline, units, instruction timing, branch prediction, TLBs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wiretime_base::Frequency;

/// How a core orders its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CoreKind {
    /// Instructions start when their operands are there.
    OutOfOrder,
    /// Instructions start in program order; a missing operand stops what follows.
    InOrder,
}

/// A core.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Out-of-order or in-order.
    pub kind: CoreKind,
    /// Clock of core, L1 and L2.
    pub frequency: Frequency,
    /// Instructions fetched and decoded a cycle, from one aligned block of as many words.
    #[schemars(range(min = 1, max = 16), extend("unit" = "instructions/cycle"))]
    pub fetch_width: u32,
    /// Instructions between fetch and dispatch: how far fetch runs ahead.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "instructions"))]
    pub fetch_queue_entries: u32,
    /// Lines that branch prediction runs ahead of fetch, asking for each (a fetch target queue); 0: fetch asks for itself.
    #[schemars(range(min = 0, max = 256), extend("unit" = "lines"))]
    pub fetch_target_entries: u32,
    /// Decoded instructions that are kept (Arm's MOP cache); 0: all are decoded, `fetch_width` of them a cycle.
    #[schemars(range(min = 0, max = 65_536), extend("unit" = "instructions"))]
    pub mop_cache_entries: u32,
    /// Its associativity, of lines of `fetch_width` instructions.
    #[schemars(range(min = 1, max = 64), extend("unit" = "ways"))]
    pub mop_cache_ways: u32,
    /// Instructions decoded a cycle of those that it has not; in force with `mop_cache_entries`.
    #[schemars(range(min = 1, max = 16), extend("unit" = "instructions/cycle"))]
    pub decode_width: u32,
    /// What they add to a redirection beside `mispredict_penalty`; in force with `mop_cache_entries`.
    #[schemars(range(min = 0, max = 100), extend("unit" = "cycles"))]
    pub decode_latency: u32,
    /// Instructions renamed and dispatched a cycle (in-order: issued a cycle).
    #[schemars(range(min = 1, max = 16), extend("unit" = "instructions/cycle"))]
    pub dispatch_width: u32,
    /// Instructions committed a cycle.
    #[schemars(range(min = 1, max = 16), extend("unit" = "instructions/cycle"))]
    pub commit_width: u32,
    /// Reorder buffer (in-order: instructions between issue and write-back).
    #[schemars(range(min = 4, max = 1024), extend("unit" = "instructions"))]
    pub rob_entries: u32,
    /// Issue queue of branch and integer units.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "instructions"))]
    pub integer_queue_entries: u32,
    /// Issue queue of vector and floating-point units.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "instructions"))]
    pub vector_queue_entries: u32,
    /// Issue queue of load and store units.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "instructions"))]
    pub memory_queue_entries: u32,
    /// Loads in flight.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "loads"))]
    pub load_queue_entries: u32,
    /// Stores in flight, those waiting to leave the store buffer included.
    #[schemars(range(min = 1, max = 1024), extend("unit" = "stores"))]
    pub store_queue_entries: u32,
    /// Physical integer registers: above the 33 architectural ones (flags included).
    #[schemars(range(min = 34, max = 1057), extend("unit" = "registers"))]
    pub integer_registers: u32,
    /// Physical vector registers: above the 32 architectural ones.
    #[schemars(range(min = 33, max = 1056), extend("unit" = "registers"))]
    pub vector_registers: u32,
    /// From the resolution of a mispredicted branch to the dispatch of the right path.
    #[schemars(range(min = 0, max = 100), extend("unit" = "cycles"))]
    pub mispredict_penalty: u32,
    /// From a store's data to a load that it forwards to; what its class adds comes besides (`core.timing.load`).
    #[schemars(range(min = 1, max = 100), extend("unit" = "cycles"))]
    pub store_forward_latency: u32,
    /// Exception entry or return: what a pipeline flush costs beyond the drain.
    #[schemars(range(min = 0, max = 1000), extend("unit" = "cycles"))]
    pub exception_penalty: u32,
    /// Out of order: a read of a system register is dispatched so long after all before it have committed; 0: it waits
    /// for nothing. A write of a system register holds what follows as long. (gem5 renames such a read only once the
    /// reorder buffer is empty and nothing is left to be written.)
    #[schemars(range(min = 0, max = 100), extend("unit" = "cycles"))]
    pub system_read_drain: u32,
    /// The same from the last store's being written; in force with `system_read_drain`.
    #[schemars(range(min = 0, max = 100), extend("unit" = "cycles"))]
    pub system_read_store_drain: u32,
    /// Pairs, vector registers that are stored, and bases that are written back take micro-operations of their own, as in
    /// gem5: an address first, a load of up to 16 bytes or a store of up to 8 each, the base. Otherwise an access is one,
    /// of 16 bytes a turn of its pipe.
    pub split_accesses: bool,
    /// A memory barrier waits at the head of the reorder buffer until all before it is done, stores written, and every
    /// access behind it waits, whatever it names. Otherwise it orders what it names. (gem5 knows one kind of DMB.)
    pub full_barriers: bool,
    /// Moves between integer registers, and zeroes moved to them, are done by renaming: they take a place in dispatch and
    /// reorder buffer, but no pipe, no register and no time. In force out of order.
    pub zero_latency_moves: bool,
    /// A comparison and the conditional branch behind it are one micro-operation.
    pub fused_branches: bool,
    /// A comparison and the conditional select behind it are one micro-operation.
    pub fused_selects: bool,
    /// Loads of which is remembered that they depend on an older store (a table by instruction address, after the store
    /// sets of Chrysos and Emer 1998): others start without waiting for the addresses of older stores, and what has run
    /// past one that it depends on is done again. 0: every dependence is foreseen. In force out of order.
    #[schemars(range(min = 0, max = 65_536), extend("unit" = "loads"))]
    pub dependence_entries: u32,
    /// How many of a kind are dispatched a cycle. In force out of order.
    pub dispatch_limits: DispatchLimits,
    /// Pipes by kind.
    pub units: Units,
    /// Instruction classes: latency, issue interval, unit.
    pub timing: Timing,
    /// Branch prediction.
    pub predictor: Predictor,
    /// Address translation.
    pub tlb: Tlb,
}

/// Instructions a cycle that dispatch sends to pipes of a kind; 0: as many as `dispatch_width`. An instruction counts as
/// its class's unit, whatever pipes that may share.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DispatchLimits {
    /// To single-cycle integer and branch pipes together.
    #[schemars(range(min = 0, max = 16), extend("unit" = "instructions/cycle"))]
    pub integer: u32,
    /// To multi-cycle integer pipes.
    #[schemars(range(min = 0, max = 16), extend("unit" = "instructions/cycle"))]
    pub multiply: u32,
    /// To the first vector pipe alone.
    #[schemars(range(min = 0, max = 16), extend("unit" = "instructions/cycle"))]
    pub vector_first: u32,
    /// To the last vector pipe alone.
    #[schemars(range(min = 0, max = 16), extend("unit" = "instructions/cycle"))]
    pub vector_last: u32,
    /// To load and store pipes.
    #[schemars(range(min = 0, max = 16), extend("unit" = "instructions/cycle"))]
    pub memory: u32,
}

/// Execution pipes.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Units {
    /// Branch pipes.
    #[schemars(range(min = 1, max = 2), extend("unit" = "pipes"))]
    pub branch: u32,
    /// Single-cycle integer pipes.
    #[schemars(range(min = 1, max = 4), extend("unit" = "pipes"))]
    pub integer: u32,
    /// Multi-cycle integer pipes: multiply, divide, shifts, CRC.
    #[schemars(range(min = 1, max = 2), extend("unit" = "pipes"))]
    pub multiply: u32,
    /// Whether the multi-cycle pipes take single-cycle operations as well.
    pub multiply_takes_integer: bool,
    /// Vector and floating-point pipes.
    #[schemars(range(min = 1, max = 4), extend("unit" = "pipes"))]
    pub vector: u32,
    /// Load pipes.
    #[schemars(range(min = 1, max = 3), extend("unit" = "pipes"))]
    pub load: u32,
    /// Store pipes; 0: stores take their addresses through the load pipes.
    #[schemars(range(min = 0, max = 1), extend("unit" = "pipes"))]
    pub store: u32,
    /// Of the load pipes, those that stores go through where they have no pipes of their own.
    #[schemars(range(min = 1, max = 3), extend("unit" = "pipes"))]
    pub load_store: u32,
}

/// Where a class executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Nowhere: handled at dispatch.
    None,
    /// Branch pipes.
    Branch,
    /// Any pipe that takes single-cycle integer operations.
    Integer,
    /// Multi-cycle integer pipes.
    Multiply,
    /// Any vector pipe.
    Vector,
    /// The first vector pipe.
    VectorFirst,
    /// The last vector pipe.
    VectorLast,
    /// Load pipes.
    Load,
    /// Store pipes.
    Store,
}

/// Timing of one class of instructions.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassTiming {
    /// From issue to result. For loads and atomics: beyond the cache's latency.
    #[schemars(range(min = 0, max = 200), extend("unit" = "cycles"))]
    pub latency: u32,
    /// Cycles that its pipe is taken: 1 is fully pipelined.
    #[schemars(range(min = 1, max = 200), extend("unit" = "cycles"))]
    pub interval: u32,
    /// Its pipes.
    pub unit: Unit,
}

macro_rules! timing {
    ($($(#[$doc:meta])* $field:ident),+ $(,)?) => {
        /// Classes of instructions.
        #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct Timing {
            $($(#[$doc])* pub $field: ClassTiming,)+
        }
        impl Timing {
            /// Name and timing of every class.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, &ClassTiming)> {
                [$((stringify!($field), &self.$field)),+].into_iter()
            }
        }
    };
}
timing! {
    /// Integer add, logic, move, select.
    alu,
    /// With a shifted or extended operand; bit fields.
    alu_shift,
    /// 32-bit multiply.
    mul,
    /// 64-bit, long or high multiply.
    mul_wide,
    /// 32-bit divide.
    div,
    /// 64-bit divide.
    div_wide,
    /// CRC32.
    crc,
    /// Branches.
    branch,
    /// Floating-point move, compare, convert.
    fp_move,
    /// Floating-point add.
    fp_add,
    /// Floating-point multiply.
    fp_mul,
    /// Floating-point multiply-add.
    fp_fma,
    /// Floating-point divide, square root.
    fp_div,
    /// Vector integer and logic.
    simd,
    /// Vector multiply.
    simd_mul,
    /// Vector permute, reduce, complex shifts.
    simd_permute,
    /// Integer to vector register or back.
    simd_transfer,
    /// AES, SHA, polynomial multiply.
    crypto,
    /// Loads; latency beyond the L1D's.
    load,
    /// Vector loads; latency beyond the L1D's.
    load_vector,
    /// Stores; latency to address and data.
    store,
    /// Atomic read-modify-write; latency beyond getting the line.
    atomic,
    /// Store-exclusive; latency beyond getting the line.
    exclusive,
    /// Software prefetch.
    prefetch,
    /// Cache and TLB maintenance.
    maintenance,
    /// Pointer authentication.
    auth,
    /// System register read.
    system_read,
    /// System register write, after everything before it.
    system_write,
}

/// Direction predictors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Two-bit counters by address.
    Bimodal,
    /// Two-bit counters by address and global history (McFarling 1993).
    Gshare,
    /// Two history tables and a choice by address (Lee, Chen, Mudge 1997).
    BiMode,
    /// A bimodal base and tagged tables of geometrically growing histories (after Seznec and Michaud 2006).
    Tage,
}

/// Branch prediction, by named parts.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Predictor {
    /// Direction predictor.
    pub direction: Direction,
    /// Counters of each of its tables; a power of two.
    #[schemars(range(min = 16, max = 16_777_216), extend("unit" = "entries", "power_of_two" = true))]
    pub entries: u32,
    /// Longest global history.
    #[schemars(range(min = 1, max = 63), extend("unit" = "branches"))]
    pub history: u32,
    /// First level of branch targets, fully associative; 0: not there.
    #[schemars(range(min = 0, max = 1024), extend("unit" = "entries"))]
    pub nano_btb_entries: u32,
    /// Second level, fully associative; 0: not there.
    #[schemars(range(min = 0, max = 4096), extend("unit" = "entries"))]
    pub micro_btb_entries: u32,
    /// Main branch target buffer.
    #[schemars(range(min = 16, max = 1_048_576), extend("unit" = "entries"))]
    pub btb_entries: u32,
    /// Its associativity; entries / ways is a power of two.
    #[schemars(range(min = 1, max = 64), extend("unit" = "ways"))]
    pub btb_ways: u32,
    /// Lowest address bit of its set index: branches closer together share a set.
    #[schemars(range(min = 2, max = 12), extend("unit" = "bits"))]
    pub btb_index_bit: u32,
    /// Cycles of a taken branch that the first level holds.
    #[schemars(range(min = 1, max = 20), extend("unit" = "cycles"))]
    pub nano_btb_latency: u32,
    /// Cycles of a taken branch that the second level holds.
    #[schemars(range(min = 1, max = 20), extend("unit" = "cycles"))]
    pub micro_btb_latency: u32,
    /// Cycles of a taken branch that only the main level holds.
    #[schemars(range(min = 1, max = 20), extend("unit" = "cycles"))]
    pub btb_latency: u32,
    /// Cycles of a taken direct branch that none holds: redirected at decode.
    #[schemars(range(min = 1, max = 100), extend("unit" = "cycles"))]
    pub btb_miss_latency: u32,
    /// Return stack.
    #[schemars(range(min = 1, max = 256), extend("unit" = "entries"))]
    pub return_stack: u32,
    /// Targets of indirect branches by address and history; a power of two.
    #[schemars(range(min = 16, max = 65_536), extend("unit" = "entries", "power_of_two" = true))]
    pub indirect_entries: u32,
    /// History of targets that it sees.
    #[schemars(range(min = 0, max = 16), extend("unit" = "branches"))]
    pub indirect_history: u32,
}

/// Address translation.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tlb {
    /// First-level instruction TLB, fully associative.
    #[schemars(range(min = 1, max = 255), extend("unit" = "entries"))]
    pub l1i_entries: u32,
    /// First-level data TLB, fully associative.
    #[schemars(range(min = 1, max = 255), extend("unit" = "entries"))]
    pub l1d_entries: u32,
    /// Second level, shared by both; 0: not there.
    #[schemars(range(min = 0, max = 65_536), extend("unit" = "entries"))]
    pub l2_entries: u32,
    /// Its associativity; entries / ways is a power of two.
    #[schemars(range(min = 1, max = 64), extend("unit" = "ways"))]
    pub l2_ways: u32,
    /// A first-level miss that the second level holds.
    #[schemars(range(min = 0, max = 100), extend("unit" = "cycles"))]
    pub l2_latency: u32,
    /// Pointers to last-level tables that the walker keeps; 0: it reads every level.
    #[schemars(range(min = 0, max = 255), extend("unit" = "entries"))]
    pub walk_cache_entries: u32,
    /// Added to a walk beyond its reads, which go to the L2 cache.
    #[schemars(range(min = 0, max = 1000), extend("unit" = "cycles"))]
    pub walk_latency: u32,
}
