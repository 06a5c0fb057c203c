//! A core: each instruction is timed once, in program order. It is fetched, dispatched when there is room for it,
//! issued when its operands and a port are there, and committed in order. Times of different instructions overlap
//! freely. In-order cores issue in program order and stop where an operand is missing.
//!
//! Left out: wrong-path work, replays, memory-order violations (dependences between loads and stores are predicted
//! right), uops beyond one per instruction but for wide vector accesses, move elimination and fusion.

use super::access::{DeviceAccess, MemEvent};
use super::branch::{Outcome, Predictor};
use super::ports::{IssueQueue, Ports};
use super::stall::{Cause, StallStats, Stalls};
use super::timing::{self, Slot, QUEUES};
use super::tlb::{Tlb, TlbStats, Walker};
use super::uop::{
    Branch, Class, MicroOp, Quick, Reg, CLASSES, LOADS, MEMORY, MORE, ORDERS, STORES, WRITES_INTEGER, WRITES_VECTOR,
};
use crate::memory::{MemorySystem, LINE};
use crate::params::{self, CoreKind};
use wiretime_base::{stats, Clock, Ps};

/// A block as the core sees it.
#[derive(Clone, Copy)]
pub struct BlockRef<'a> {
    /// Physical address of its first instruction.
    pub paddr: u64,
    /// Its virtual address, tagged with its address space.
    pub vaddr: u64,
    /// All its instructions, what is needed first and the rest.
    pub quick: &'a [Quick],
    /// See [`MicroOp::quick`].
    pub ops: &'a [MicroOp],
}

stats! {
    /// What one core did.
    pub struct CoreStats {
        instructions: "instructions", "instructions timed";
        cycles: "cycles", "cycles of dispatch time, idle time apart";
        branches: "branches", "branches";
        branch_misses: "branches", "mispredicted branches";
        btb_misses: "branches", "taken branches whose target came from decode";
        loads: "accesses", "loads, one an instruction and line";
        stores: "accesses", "stores, one an instruction and line";
        store_forwards: "loads", "loads that took their data from the store queue";
        mmio_reads: "accesses", "loads from devices";
        mmio_writes: "accesses", "stores to devices (doorbells among them)";
        mmio_write_cycles: "cycles", "time that device stores waited in the store buffer";
        exceptions: "events", "exceptions and interrupts taken";
        unknown_instructions: "instructions", "instructions that the decoder does not know, charged as ALU operations";
    }
}

pub(super) const FORWARD_SLOTS: usize = 64;

/// The core.
pub struct Core {
    pub(super) index: usize,
    pub(super) clock: Clock,
    in_order: bool,
    width: u32,
    commit_width: u32,
    mispredict: u64,
    exception: u64,
    group_mask: u64,
    fetch_ahead: u64,
    pub(super) forward_latency: u64,
    pub(super) device_read: u64,
    pub(super) device_write: u64,
    pub(super) write_combining: bool,
    pub(super) slots: [Slot; CLASSES],
    predictor: Predictor,
    pub(super) tlb: Tlb,
    /// Cycle of the current fetch group, and why it is not earlier.
    fetch: u64,
    fetch_cause: Cause,
    fetched_line: u64,
    new_group: bool,
    /// Dispatch cycle of the next instruction, and how many went in that cycle.
    cycle: u64,
    slot: u32,
    /// By register; as long as a register number can be, so that no index needs a check.
    ready: [u64; Reg::MAX as usize + 1],
    pub(super) ports: Ports,
    queues: [IssueQueue; QUEUES],
    rob: Ring,
    integer_registers: Ring,
    vector_registers: Ring,
    pub(super) loads: Ring,
    pub(super) stores: Ring,
    pub(super) last_commit: u64,
    committed: u32,
    /// What the last commit that made others wait had waited for.
    commit_cause: Cause,
    /// The access that takes longest, of those under way.
    pub(super) pending: (u64, Cause),
    /// Later accesses wait for these.
    pub(super) load_fence: u64,
    pub(super) store_fence: u64,
    pub(super) last_load: u64,
    pub(super) last_store: u64,
    pub(super) store_cause: Cause,
    /// When the last device store was sent and accepted, and its line.
    pub(super) device: (u64, u64, u64),
    pub(super) forward: [(u64, u64); FORWARD_SLOTS],
    /// Stores to devices since last taken.
    pub device_stores: Vec<DeviceAccess>,
    idle: u64,
    stalls: Stalls,
    pub(super) stats: CoreStats,
}

/// When the entries of a queue are free again, in order of allocation.
pub(super) struct Ring {
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
    pub(super) fn take(&mut self, until: u64) {
        self.free[self.next] = until;
        self.next += 1;
        if self.next == self.free.len() {
            self.next = 0;
        }
    }
}

/// Architectural registers, which are never free: 31 integer, stack pointer, flags; 32 vector.
const INTEGER_HELD: u32 = 33;
const VECTOR_HELD: u32 = 32;

impl Core {
    /// Core `index` of a machine.
    #[must_use]
    pub fn new(machine: &params::Platform, index: usize) -> Self {
        let p = &machine.core;
        let clock = Clock::of(p.frequency);
        let round_trip = 2 * machine.lookahead() + machine.io.mmio_read_latency.ps();
        Self {
            index,
            clock,
            in_order: p.kind == CoreKind::InOrder,
            width: p.dispatch_width,
            commit_width: p.commit_width,
            mispredict: u64::from(p.mispredict_penalty) + u64::from(machine.l1i.latency),
            exception: u64::from(p.exception_penalty),
            group_mask: u64::from(p.fetch_width.next_power_of_two()) * 4 - 1,
            fetch_ahead: u64::from(p.fetch_queue_entries / p.dispatch_width.max(1)).max(1),
            forward_latency: u64::from(p.store_forward_latency),
            device_read: clock.cycle_at_or_after(round_trip),
            device_write: clock.cycle_at_or_after(machine.io.mmio_write_latency.ps()).max(1),
            write_combining: machine.io.write_combining,
            slots: timing::table(p),
            predictor: Predictor::new(&p.predictor),
            tlb: Tlb::new(&p.tlb),
            fetch: 0,
            fetch_cause: Cause::Fetch,
            fetched_line: u64::MAX,
            new_group: true,
            cycle: 0,
            slot: 0,
            ready: [0; Reg::MAX as usize + 1],
            ports: Ports::default(),
            queues: [p.integer_queue_entries, p.vector_queue_entries, p.memory_queue_entries].map(IssueQueue::new),
            rob: Ring::new(p.rob_entries),
            integer_registers: Ring::new(p.integer_registers.saturating_sub(INTEGER_HELD)),
            vector_registers: Ring::new(p.vector_registers.saturating_sub(VECTOR_HELD)),
            loads: Ring::new(p.load_queue_entries),
            stores: Ring::new(p.store_queue_entries),
            last_commit: 0,
            committed: 0,
            commit_cause: Cause::Core,
            pending: (0, Cause::Core),
            load_fence: 0,
            store_fence: 0,
            last_load: 0,
            last_store: 0,
            store_cause: Cause::Store,
            device: (0, 0, u64::MAX),
            forward: [(u64::MAX, 0); FORWARD_SLOTS],
            device_stores: Vec::with_capacity(16),
            idle: 0,
            stalls: Stalls::default(),
            stats: CoreStats::default(),
        }
    }

    /// Local time: when the next instruction can be dispatched.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Ps {
        self.clock.at(self.cycle.max(self.fetch_floor()))
    }

    /// A redirect is time that has passed; fetch that runs ahead or waits for a line is not yet.
    #[inline]
    fn fetch_floor(&self) -> u64 {
        if self.new_group {
            self.fetch
        } else {
            0
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn stats(&self) -> CoreStats {
        CoreStats { cycles: self.cycle - self.idle, ..self.stats.clone() }
    }

    /// Cycles by cause so far.
    #[must_use]
    pub fn stall_stats(&self) -> StallStats {
        self.stalls.stats(self.cycle - self.idle)
    }

    /// Address translation's counters so far.
    #[must_use]
    pub fn tlb_stats(&self) -> TlbStats {
        self.tlb.stats.clone()
    }

    /// Cycles of dispatch time so far, idle time included: for differences.
    #[inline]
    #[must_use]
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// The core slept until `t`.
    pub fn idle_until(&mut self, t: Ps) {
        let cycle = self.clock.cycle_at_or_after(t);
        if cycle > self.cycle {
            self.idle += cycle - self.cycle;
            self.cycle = cycle;
            self.slot = 0;
        }
    }

    /// An exception or interrupt: the pipeline drains and refills.
    pub fn exception(&mut self) {
        self.stats.exceptions += 1;
        self.redirect(self.last_commit + self.exception, Cause::Exception);
    }

    /// Cached translations go (TLB maintenance): those of one virtual page in any address space, or all.
    pub fn invalidate_translations(&mut self, page: Option<u64>) {
        self.tlb.invalidate(page);
    }

    fn redirect(&mut self, t: u64, cause: Cause) {
        self.new_group = true;
        if t > self.fetch {
            self.fetch = t;
            self.fetch_cause = cause;
        }
    }

    /// Times instructions `from..to` of `block`, with their accesses in order. `next` is the physical address of the
    /// block that runs behind the last of them, where it is known.
    #[allow(clippy::too_many_arguments)] // the hot path: a struct would be built for every block
    pub fn run(
        &mut self,
        block: BlockRef<'_>,
        from: usize,
        to: usize,
        mut accesses: &[MemEvent],
        next: Option<u64>,
        memory: &mut MemorySystem,
        walker: &mut impl Walker,
    ) {
        let to = to.min(block.quick.len());
        // Accesses of earlier instructions than `from` have been timed with them.
        while accesses.first().is_some_and(|a| usize::from(a.index) < from) {
            accesses = &accesses[1..];
        }
        self.stats.instructions += to.saturating_sub(from) as u64;
        let mut pc = block.paddr + 4 * from as u64;
        for (i, &q) in block.quick.iter().enumerate().take(to).skip(from) {
            if self.new_group || pc & self.group_mask == 0 {
                self.fetch_group(pc, block.vaddr + 4 * i as u64, memory, walker);
            }
            let complete = if q.flags & MEMORY == 0 {
                self.compute(q, block.ops, i)
            } else {
                let own = accesses.iter().take_while(|a| usize::from(a.index) == i).count();
                let (mine, rest) = accesses.split_at(own);
                accesses = rest;
                self.memory(q, &block.ops[i], mine, pc, memory, walker)
            };
            if q.flags & ORDERS != 0 {
                self.order(&block.ops[i], complete);
            }
            if q.branch != Branch::None && i + 1 == block.quick.len() {
                if let Some(next) = next {
                    self.resolve(q.branch, pc, next, complete);
                }
            }
            pc += 4;
        }
    }

    /// Fetch goes on to the group that holds `pc`.
    #[inline]
    fn fetch_group(&mut self, pc: u64, vaddr: u64, memory: &mut MemorySystem, walker: &mut impl Walker) {
        if self.new_group {
            self.new_group = false;
        } else {
            self.fetch += 1;
        }
        // It waits while the queue to dispatch is full.
        let floor = self.cycle.saturating_sub(self.fetch_ahead);
        if floor > self.fetch {
            self.fetch = floor;
            self.fetch_cause = Cause::Fetch;
        }
        let line = pc / LINE;
        if line != self.fetched_line {
            self.fetched_line = line;
            let walk = self.tlb.instruction(self.index, vaddr, self.fetch, memory, walker);
            if walk > 0 {
                self.fetch += walk;
                self.fetch_cause = Cause::Itlb;
            }
            let there = memory.fetch(self.index, pc, self.fetch);
            if there > self.fetch {
                self.fetch = there;
                self.fetch_cause = Cause::L1i;
            }
        }
    }

    /// Finds room: returns the dispatch cycle.
    #[inline]
    fn dispatch(&mut self, q: Quick) -> u64 {
        let mut t = self.cycle;
        if self.fetch > t {
            t = self.wait(t, self.fetch, self.fetch_cause);
        }
        let room = self.rob.available();
        if room > t {
            t = self.wait(t, room, self.commit_cause);
        }
        if !self.in_order {
            let queue = usize::from(self.slots[q.class as usize].queue);
            let room = self.queues[queue].room(t);
            if room > t {
                let cause = if self.pending.0 > t { self.pending.1 } else { Cause::Queue };
                t = self.wait(t, room, cause);
            }
            if q.flags & WRITES_INTEGER != 0 && self.integer_registers.available() > t {
                t = self.wait_for_registers(t, self.integer_registers.available());
            }
            if q.flags & WRITES_VECTOR != 0 && self.vector_registers.available() > t {
                t = self.wait_for_registers(t, self.vector_registers.available());
            }
        }
        if q.flags & LOADS != 0 && self.loads.available() > t {
            t = self.wait(t, self.loads.available(), self.commit_cause);
        }
        if q.flags & STORES != 0 && self.stores.available() > t {
            t = self.wait(t, self.stores.available(), self.store_cause);
        }
        t
    }

    #[cold]
    fn wait_for_registers(&mut self, t: u64, until: u64) -> u64 {
        let cause = if self.pending.0 > t { self.pending.1 } else { Cause::Registers };
        self.wait(t, until, cause)
    }

    #[inline]
    fn wait(&mut self, from: u64, until: u64, cause: Cause) -> u64 {
        self.stalls.add(cause, until - from);
        until
    }

    /// The instruction went at `t`: the next one goes in the same cycle while the width allows.
    #[inline]
    fn advance(&mut self, t: u64) {
        if t > self.cycle {
            self.cycle = t;
            self.slot = 0;
        }
        self.slot += 1;
        if self.slot >= self.width {
            self.slot = 0;
            self.cycle += 1;
        }
    }

    /// When the operands needed to start are there.
    #[inline]
    fn operands(&self, q: Quick, ops: &[MicroOp], i: usize) -> u64 {
        let [a, b, c] = q.sources.map(|r| self.ready[usize::from(r)]);
        let mut t = a.max(b.max(c));
        if q.flags & MORE != 0 {
            for &r in ops[i].further_sources() {
                t = t.max(self.ready[usize::from(r)]);
            }
        }
        t
    }

    /// Dispatches and issues: returns when it starts.
    #[inline]
    fn start(&mut self, q: Quick, operands: u64) -> u64 {
        let t = self.dispatch(q);
        let slot = self.slots[q.class as usize];
        if self.in_order {
            let mut t = t;
            if operands > t {
                let cause = if self.pending.0 >= operands { self.pending.1 } else { Cause::Core };
                t = self.wait(t, operands, cause);
            }
            let start = self.ports.reserve(t, &slot);
            if start > t {
                self.wait(t, start, Cause::Queue);
            }
            self.advance(start);
            return start;
        }
        self.advance(t);
        let start = self.ports.reserve(operands.max(t + 1), &slot);
        self.queues[usize::from(slot.queue)].enter(t, start);
        start
    }

    /// An instruction without accesses; returns when it is complete.
    #[inline]
    fn compute(&mut self, q: Quick, ops: &[MicroOp], i: usize) -> u64 {
        let operands = self.operands(q, ops, i);
        let mut start = self.start(q, operands);
        match q.class {
            Class::SystemWrite => start = start.max(self.last_commit),
            Class::Unknown => self.stats.unknown_instructions += 1,
            _ => {}
        }
        let complete = start + u64::from(self.slots[q.class as usize].latency);
        self.write(q, ops, i, start, complete);
        self.commit(q, complete, Cause::Core);
        complete
    }

    /// An instruction of a memory class, with what it accessed.
    #[inline]
    fn memory(
        &mut self,
        q: Quick,
        op: &MicroOp,
        accesses: &[MemEvent],
        pc: u64,
        memory: &mut MemorySystem,
        walker: &mut impl Walker,
    ) -> u64 {
        let operands = self.operands(q, std::slice::from_ref(op), 0);
        let mut start = self.start(q, operands);
        for _ in 1..q.slots {
            start = self.ports.reserve(start, &self.slots[q.class as usize]);
        }
        let data = op.sources().iter().skip(usize::from(op.data_from));
        let data = data.map(|&r| self.ready[usize::from(r)]).max().unwrap_or(0);
        let (complete, cause) = self.access(q.class, start, start.max(data), accesses, pc, memory, walker);
        self.write(q, std::slice::from_ref(op), 0, start, complete);
        self.commit(q, complete, cause);
        complete
    }

    #[inline]
    fn write(&mut self, q: Quick, ops: &[MicroOp], i: usize, start: u64, complete: u64) {
        self.ready[usize::from(q.destination)] = complete;
        if q.flags & MORE != 0 {
            let op = &ops[i];
            for &r in op.destinations() {
                self.ready[usize::from(r)] = complete;
            }
            if let Some(base) = op.write_back {
                self.ready[usize::from(base)] = start + u64::from(self.slots[Class::Alu as usize].latency);
            }
        }
    }

    #[inline]
    fn commit(&mut self, q: Quick, complete: u64, cause: Cause) {
        if complete > self.last_commit {
            if complete > self.last_commit + 1 {
                self.commit_cause = cause;
            }
            self.last_commit = complete;
            self.committed = 1;
        } else {
            self.committed += 1;
            if self.committed > self.commit_width {
                self.last_commit += 1;
                self.committed = 1;
            }
        }
        let t = self.last_commit;
        self.rob.take(t);
        if q.flags & WRITES_INTEGER != 0 {
            self.integer_registers.take(t);
        }
        if q.flags & WRITES_VECTOR != 0 {
            self.vector_registers.take(t);
        }
        if q.flags & LOADS != 0 {
            self.loads.take(t);
        }
    }

    fn order(&mut self, op: &MicroOp, complete: u64) {
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
                let device = self.device.1 >= done;
                self.redirect(done, if device { Cause::Device } else { Cause::Barrier });
            }
            Class::ContextSync => self.redirect(self.last_commit + self.mispredict, Cause::Barrier),
            Class::SystemWrite => self.redirect(complete, Cause::Barrier),
            _ => {}
        }
    }

    fn resolve(&mut self, kind: Branch, pc: u64, next: u64, complete: u64) {
        self.stats.branches += 1;
        match self.predictor.resolve(kind, pc, pc + 4, next) {
            Outcome::Through => {}
            Outcome::Taken(cycles) => self.redirect(self.fetch + cycles, Cause::Fetch),
            Outcome::LateTarget(cycles) => {
                self.stats.btb_misses += 1;
                self.redirect(self.fetch + cycles, Cause::Fetch);
            }
            Outcome::Mispredict if kind == Branch::Exception => {
                self.stats.exceptions += 1;
                self.redirect(self.last_commit + self.exception, Cause::Exception);
            }
            Outcome::Mispredict => {
                self.stats.branch_misses += 1;
                self.redirect(complete + self.mispredict, Cause::Mispredict);
            }
        }
    }
}
