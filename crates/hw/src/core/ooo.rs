//! An out-of-order core: what bounds it is dispatch width, the reorder buffer, load and store queues, register
//! dependencies, latencies and the memory system.
//!
//! Each instruction is timed once, in program order: dispatched when the front end, the reorder buffer and its queue
//! let it, started when its sources are ready, committed in order. Times of different instructions overlap freely.
//!
//! Left out: issue queues and ports (a burst of one kind of instruction runs too fast), physical registers, fetch
//! groups, wrong-path work. Independent loads are limited by dispatch, not by two load pipes.

use super::branch::{Outcome, Predictor};
use super::uop::{Branch, Class, MicroOp, Reg, CLASSES};
use crate::memory::{MemorySystem, LINE};
use crate::params;
use wiretime_base::{stats, Clock, Ps};

/// What kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MemKind {
    /// From memory.
    Load,
    /// To memory.
    Store,
    /// Software prefetch.
    Prefetch,
    /// Zeroes a line.
    ZeroLine,
    /// From a device.
    DeviceLoad,
    /// To a device.
    DeviceStore,
}

/// One access of one instruction, as it executed.
#[derive(Clone, Copy, Debug)]
pub struct MemEvent {
    /// Physical address.
    pub paddr: u64,
    /// Value stored, for device stores seen by address alone.
    pub value: u32,
    /// Which instruction of the block.
    pub index: u16,
    /// Kind.
    pub kind: MemKind,
}

/// A device store that left the core: when, where, what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAccess {
    /// When it left the store buffer.
    pub time: Ps,
    /// Physical address.
    pub paddr: u64,
    /// Value.
    pub value: u32,
}

/// A block as the core sees it.
#[derive(Clone, Copy)]
pub struct BlockRef<'a> {
    /// Physical address of its first instruction.
    pub paddr: u64,
    /// All its instructions.
    pub ops: &'a [MicroOp],
}

stats! {
    /// What one core did.
    pub struct CoreStats {
        instructions: "instructions", "instructions timed";
        cycles: "cycles", "cycles of dispatch time, idle time apart";
        branches: "branches", "branches";
        branch_mispredicts: "branches", "mispredicted branches";
        btb_misses: "branches", "taken branches whose target came from decode";
        loads: "accesses", "loads, one an instruction and line";
        stores: "accesses", "stores, one an instruction and line";
        device_loads: "accesses", "loads from devices";
        device_stores: "accesses", "stores to devices (doorbells among them)";
        exceptions: "events", "exceptions and interrupts taken";
        unknown_instructions: "instructions", "instructions that the decoder does not know, charged as ALU operations";
        frontend_stall: "cycles", "dispatch waited for instructions or for a branch to resolve";
        rob_stall: "cycles", "dispatch waited for the reorder buffer or a queue";
    }
}

const FORWARD_SLOTS: usize = 64;

/// The core.
pub struct Core {
    index: usize,
    clock: Clock,
    width: u32,
    commit_width: u32,
    mispredict: u64,
    btb_miss: u64,
    exception: u64,
    forward_latency: u64,
    device_load_latency: u64,
    system_write: u64,
    latency: [u64; CLASSES],
    predictor: Predictor,
    /// Dispatch cycle of the next instruction, and how many went in that cycle.
    cycle: u64,
    slot: u32,
    /// Earliest dispatch that the front end allows.
    front: u64,
    fetched_line: u64,
    /// By register; as long as a register number can be, so that no index needs a check.
    ready: [u64; Reg::MAX as usize + 1],
    rob: Ring,
    loads: Ring,
    stores: Ring,
    last_commit: u64,
    committed: u32,
    /// Later accesses wait for these.
    load_fence: u64,
    store_fence: u64,
    last_load: u64,
    last_store: u64,
    forward: [(u64, u64); FORWARD_SLOTS],
    /// Stores to devices since last taken.
    pub device_stores: Vec<DeviceAccess>,
    idle: u64,
    /// Counters; `cycles` is brought up to date by [`Core::stats`].
    stats: CoreStats,
}

/// When the entries of a queue are free again, in order of allocation.
struct Ring {
    free: Vec<u64>,
    next: usize,
}

impl Ring {
    fn new(entries: u32) -> Self {
        Self { free: vec![0; entries.max(1) as usize], next: 0 }
    }
    #[inline]
    fn available(&self) -> u64 {
        self.free[self.next]
    }
    #[inline]
    fn take(&mut self, until: u64) {
        self.free[self.next] = until;
        self.next += 1;
        if self.next == self.free.len() {
            self.next = 0;
        }
    }
}

impl Core {
    /// Core `index` of a machine. `device_load_latency`: round trip of a read to the NIC.
    #[must_use]
    pub fn new(p: &params::Core, index: usize, device_load_latency: Ps) -> Self {
        let clock = Clock::of(p.frequency);
        Self {
            index,
            clock,
            width: p.dispatch_width,
            commit_width: p.commit_width,
            mispredict: u64::from(p.mispredict_penalty),
            btb_miss: u64::from(p.predictor.btb_miss_penalty),
            exception: u64::from(p.exception_penalty),
            forward_latency: u64::from(p.store_forward_latency),
            device_load_latency: clock.cycle_at_or_after(device_load_latency),
            system_write: u64::from(p.latency.system_write),
            latency: latencies(&p.latency),
            predictor: Predictor::new(&p.predictor),
            cycle: 0,
            slot: 0,
            front: 0,
            fetched_line: u64::MAX,
            ready: [0; Reg::MAX as usize + 1],
            rob: Ring::new(p.rob_entries),
            loads: Ring::new(p.load_queue_entries),
            stores: Ring::new(p.store_queue_entries),
            last_commit: 0,
            committed: 0,
            load_fence: 0,
            store_fence: 0,
            last_load: 0,
            last_store: 0,
            forward: [(u64::MAX, 0); FORWARD_SLOTS],
            device_stores: Vec::with_capacity(16),
            idle: 0,
            stats: CoreStats::default(),
        }
    }

    /// Local time: when the next instruction can be dispatched.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Ps {
        self.clock.at(self.cycle.max(self.front))
    }

    /// Counters so far.
    #[must_use]
    pub fn stats(&self) -> CoreStats {
        CoreStats { cycles: self.cycle.max(self.front) - self.idle, ..self.stats.clone() }
    }

    /// The core slept until `t`.
    pub fn idle_until(&mut self, t: Ps) {
        let cycle = self.clock.cycle_at_or_after(t);
        let now = self.cycle.max(self.front);
        if cycle > now {
            self.idle += cycle - now;
            self.cycle = cycle;
            self.slot = 0;
        }
    }

    /// An exception or interrupt: the pipeline drains and refills.
    pub fn exception(&mut self) {
        self.stats.exceptions += 1;
        self.front = self.front.max(self.last_commit + self.exception);
    }

    /// Times instructions `from..to` of `block`, with their accesses in order. `next` is the physical address of the
    /// block that runs behind the last of them, where it is known.
    pub fn run(
        &mut self,
        block: BlockRef<'_>,
        from: usize,
        to: usize,
        mut accesses: &[MemEvent],
        next: Option<u64>,
        memory: &mut MemorySystem,
    ) {
        let to = to.min(block.ops.len());
        // Accesses of earlier instructions than `from` have been timed with them.
        let timed = accesses.iter().take_while(|a| usize::from(a.index) < from).count();
        accesses = &accesses[timed..];
        for (i, op) in block.ops[..to].iter().enumerate().skip(from) {
            let pc = block.paddr + 4 * i as u64;
            self.fetch(pc, memory);
            let dispatched = self.dispatch(op);
            let own = accesses.iter().take_while(|a| usize::from(a.index) == i).count();
            let (mine, rest) = accesses.split_at(own);
            accesses = rest;
            let complete = self.execute(op, dispatched, mine, memory);
            self.commit(complete);
            self.serialise(op, complete);
            if op.branch != Branch::None && i + 1 == block.ops.len() {
                if let Some(next) = next {
                    self.resolve(op.branch, pc, next, complete);
                }
            }
        }
    }

    #[inline]
    fn fetch(&mut self, pc: u64, memory: &mut MemorySystem) {
        let line = pc / LINE;
        if line != self.fetched_line {
            self.fetched_line = line;
            let now = self.cycle.max(self.front);
            self.front = self.front.max(memory.fetch(self.index, pc, now));
        }
    }

    #[inline]
    fn dispatch(&mut self, op: &MicroOp) -> u64 {
        self.stats.instructions += 1;
        let mut t = self.cycle;
        if self.front > t {
            self.stats.frontend_stall += self.front - t;
            t = self.front;
        }
        let mut room = self.rob.available();
        match op.class {
            Class::Load | Class::LoadVector | Class::LoadExclusive => room = room.max(self.loads.available()),
            Class::Store | Class::StoreExclusive | Class::ZeroLine => room = room.max(self.stores.available()),
            Class::Atomic => room = room.max(self.loads.available()).max(self.stores.available()),
            _ => {}
        }
        if room > t {
            self.stats.rob_stall += room - t;
            t = room;
        }
        if t > self.cycle {
            self.cycle = t;
            self.slot = 0;
        }
        self.slot += 1;
        if self.slot >= self.width {
            self.slot = 0;
            self.cycle += 1;
        }
        t
    }

    /// Returns when the instruction is complete for commit.
    #[inline]
    fn execute(&mut self, op: &MicroOp, dispatched: u64, accesses: &[MemEvent], memory: &mut MemorySystem) -> u64 {
        let [a, b, c] = op.quick_sources.map(|r| self.ready[usize::from(r)]);
        let mut start = (dispatched + 1).max(a).max(b.max(c));
        if op.more {
            for &r in op.further_sources() {
                start = start.max(self.ready[usize::from(r)]);
            }
        }
        let complete = if accesses.is_empty() {
            if op.class == Class::Unknown {
                self.stats.unknown_instructions += 1;
            }
            let mut t = start;
            if op.class as u8 == Class::SystemWrite as u8 {
                t = t.max(self.last_commit) + self.system_write;
            } else {
                t += self.latency[op.class as usize];
            }
            t
        } else {
            let data = op.sources().iter().skip(usize::from(op.data_from));
            let data = data.map(|&r| self.ready[usize::from(r)]).max().unwrap_or(0);
            self.access(op, start, start.max(data), accesses, memory)
        };
        self.ready[usize::from(op.quick_destination)] = complete;
        if op.more {
            for &r in op.destinations() {
                self.ready[usize::from(r)] = complete;
            }
            if let Some(base) = op.write_back {
                self.ready[usize::from(base)] = start + self.latency[Class::Alu as usize];
            }
        }
        complete
    }

    fn access(&mut self, op: &MicroOp, start: u64, data: u64, accesses: &[MemEvent], memory: &mut MemorySystem) -> u64 {
        let mut complete = start + 1;
        let mut last = (u64::MAX, MemKind::Prefetch);
        for a in accesses {
            // One access a line and instruction: LDP, LD1 and unaligned accesses come in pieces.
            let key = (a.paddr / LINE, a.kind);
            let first = key != last;
            last = key;
            match a.kind {
                MemKind::Load => {
                    let t = start.max(self.load_fence);
                    let mut done = if first {
                        self.stats.loads += 1;
                        memory.load(self.index, a.paddr, t)
                    } else {
                        complete
                    };
                    let (address, ready) = self.forward[(a.paddr >> 3) as usize % FORWARD_SLOTS];
                    if address == a.paddr >> 3 && ready > t {
                        done = done.max(ready + self.forward_latency);
                    }
                    if first {
                        self.loads.take(done);
                    }
                    self.last_load = self.last_load.max(done);
                    complete = complete.max(done + self.latency[op.class as usize]);
                }
                MemKind::Store => {
                    complete = complete.max(data);
                    if op.class == Class::Atomic || op.class == Class::StoreExclusive {
                        complete = complete.max(data + self.latency[op.class as usize]);
                    }
                    self.forward[(a.paddr >> 3) as usize % FORWARD_SLOTS] = (a.paddr >> 3, data);
                    if first {
                        self.stats.stores += 1;
                        let t = complete.max(self.last_commit).max(self.store_fence);
                        let done = memory.store(self.index, a.paddr, t);
                        self.stores.take(done);
                        self.last_store = self.last_store.max(done);
                        if op.class == Class::Atomic {
                            complete = complete.max(done + self.latency[op.class as usize]);
                        }
                    }
                }
                MemKind::Prefetch => memory.prefetch(self.index, a.paddr, start.max(self.load_fence)),
                MemKind::ZeroLine => {
                    let t = start.max(self.last_commit).max(self.store_fence);
                    let done = memory.zero_line(self.index, a.paddr, t);
                    self.stores.take(done);
                    self.last_store = self.last_store.max(done);
                }
                MemKind::DeviceLoad => {
                    // Not speculative: waits until everything before it has committed, and the stores have gone.
                    self.stats.device_loads += 1;
                    let t = start.max(self.last_commit).max(self.load_fence).max(self.last_store);
                    let done = t + self.device_load_latency;
                    self.loads.take(done);
                    self.last_load = self.last_load.max(done);
                    complete = complete.max(done);
                }
                MemKind::DeviceStore => {
                    self.stats.device_stores += 1;
                    complete = complete.max(data);
                    let t = complete.max(self.last_commit).max(self.store_fence);
                    self.stores.take(t + 1);
                    self.last_store = self.last_store.max(t + 1);
                    self.device_stores.push(DeviceAccess { time: self.clock.at(t), paddr: a.paddr, value: a.value });
                }
            }
        }
        complete
    }

    #[inline]
    fn commit(&mut self, complete: u64) {
        if complete > self.last_commit {
            self.last_commit = complete;
            self.committed = 1;
        } else {
            self.committed += 1;
            if self.committed > self.commit_width {
                self.last_commit += 1;
                self.committed = 1;
            }
        }
        self.rob.take(self.last_commit);
    }

    #[inline]
    fn serialise(&mut self, op: &MicroOp, complete: u64) {
        if op.order.loads {
            self.load_fence = self.load_fence.max(self.last_load);
            self.store_fence = self.store_fence.max(self.last_load);
        }
        if op.order.stores {
            self.store_fence = self.store_fence.max(self.last_store);
        }
        match op.class {
            Class::BarrierFull => {
                let done = self.last_commit.max(self.last_store).max(self.last_load);
                self.load_fence = self.load_fence.max(done);
                self.store_fence = self.store_fence.max(done);
                self.front = self.front.max(done);
            }
            Class::ContextSync => self.front = self.front.max(self.last_commit + self.mispredict),
            Class::SystemWrite => self.front = self.front.max(complete),
            _ => {}
        }
    }

    fn resolve(&mut self, kind: Branch, pc: u64, next: u64, complete: u64) {
        self.stats.branches += 1;
        if kind == Branch::Exception {
            self.exception();
            return;
        }
        match self.predictor.resolve(kind, pc, pc + 4, next) {
            Outcome::Right => {
                // A taken branch ends the group.
                if next != pc + 4 && self.slot != 0 {
                    self.slot = 0;
                    self.cycle += 1;
                }
            }
            Outcome::LateTarget => {
                self.stats.btb_misses += 1;
                self.front = self.front.max(self.cycle + self.btb_miss);
            }
            Outcome::Mispredict => {
                self.stats.branch_mispredicts += 1;
                self.front = self.front.max(complete + self.mispredict);
            }
        }
    }
}

fn latencies(l: &params::Latency) -> [u64; CLASSES] {
    let mut t = [1u64; CLASSES];
    let table = [
        (Class::Nop, 0),
        (Class::Alu, l.alu),
        (Class::AluShift, l.alu_shift),
        (Class::Mul, l.mul),
        (Class::MulWide, l.mul_wide),
        (Class::Div, l.div),
        (Class::DivWide, l.div_wide),
        (Class::Crc, l.crc),
        (Class::FpMove, l.fp_move),
        (Class::FpAdd, l.fp_add),
        (Class::FpMul, l.fp_mul),
        (Class::FpFma, l.fp_fma),
        (Class::FpDiv, l.fp_div),
        (Class::Simd, l.simd),
        (Class::SimdMul, l.simd_mul),
        (Class::SimdPermute, l.simd_permute),
        (Class::SimdTransfer, l.simd_transfer),
        (Class::Crypto, l.crypto),
        (Class::Load, 0),
        (Class::LoadVector, l.load_vector_extra),
        (Class::Store, 0),
        (Class::Atomic, l.atomic),
        (Class::LoadExclusive, 0),
        (Class::StoreExclusive, l.atomic),
        (Class::Prefetch, 0),
        (Class::ZeroLine, 0),
        (Class::Maintenance, l.maintenance),
        (Class::Branch, l.alu),
        (Class::Barrier, 0),
        (Class::BarrierFull, 0),
        (Class::ContextSync, 0),
        (Class::SystemRead, l.system_read),
        (Class::SystemWrite, l.system_write),
        (Class::Auth, l.auth),
        (Class::Unknown, l.alu),
    ];
    for (class, cycles) in table {
        t[class as usize] = u64::from(cycles);
    }
    t
}
