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
    Branch, Class, MicroOp, Quick, Reg, BRANCHES, CLASSES, LOADS, MEMORY, MORE, ORDERS, RARE, STORES, WRITES_INTEGER,
    WRITES_VECTOR,
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

/// Positions in dispatch and commit count cycles in fractions, so that a width is a step and no branch.
const FRACTION: u32 = 16;

/// The core.
pub struct Core {
    pub(super) index: usize,
    pub(super) clock: Clock,
    in_order: bool,
    mispredict: u64,
    exception: u64,
    group_mask: u64,
    fetch_ahead: u64,
    pub(super) forward_latency: u64,
    pub(super) device_read: u64,
    pub(super) device_write: u64,
    pub(super) write_combining: bool,
    pub(super) slots: [Slot; SLOTS],
    predictor: Predictor,
    pub(super) tlb: Tlb,
    /// Cycle of the current fetch group, and why it is not earlier.
    fetch: u64,
    fetch_cause: Cause,
    fetched_line: u64,
    new_group: bool,
    /// Where the next instruction is dispatched, and how far one instruction goes.
    dispatch: u64,
    dispatch_step: u64,
    /// The same of commit.
    commit: u64,
    commit_step: u64,
    /// By register; as long as a register number can be, so that no index needs a check.
    ready: [u64; Reg::MAX as usize + 1],
    pub(super) ports: Ports,
    queues: [IssueQueue; QUEUES],
    rob: Ring,
    integer_registers: Ring,
    vector_registers: Ring,
    pub(super) loads: Ring,
    pub(super) stores: Ring,
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

/// Classes, rounded up so that masking an index makes it safe.
const SLOTS: usize = CLASSES.next_power_of_two();

/// Most entries that a ring may have.
const RING: usize = 1024;

/// When the entries of a queue are free again, in order of allocation.
pub(super) struct Ring {
    next: usize,
    last: usize,
    free: [u64; RING],
}

impl Ring {
    fn new(entries: u32) -> Self {
        Self { next: 0, last: (entries.max(1) as usize).min(RING) - 1, free: [0; RING] }
    }
    #[inline(always)]
    fn available(&self) -> u64 {
        self.free[self.next % RING]
    }
    /// When `count` entries are free, where entries are freed in order.
    #[inline]
    fn ahead(&self, count: usize) -> u64 {
        if count == 0 {
            return 0;
        }
        if count > self.last {
            return u64::MAX;
        }
        let at = self.next + count - 1;
        self.free[(if at > self.last { at - self.last - 1 } else { at }) % RING]
    }
    #[inline(always)]
    pub(super) fn take(&mut self, until: u64) {
        self.free[self.next % RING] = until;
        self.next = if self.next == self.last { 0 } else { self.next + 1 };
    }
}

/// Architectural registers, which are never free: 31 integer, stack pointer, flags; 32 vector.
const INTEGER_HELD: u32 = 33;
const VECTOR_HELD: u32 = 32;

/// A step of a position, for so many instructions a cycle.
fn step(width: u32) -> u64 {
    (1u64 << FRACTION).div_ceil(width.max(1).into())
}

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
            dispatch: 0,
            dispatch_step: step(p.dispatch_width),
            commit: 0,
            commit_step: step(p.commit_width),
            ready: [0; Reg::MAX as usize + 1],
            ports: Ports::default(),
            queues: [p.integer_queue_entries, p.vector_queue_entries, p.memory_queue_entries, 1].map(IssueQueue::new),
            rob: Ring::new(p.rob_entries),
            integer_registers: Ring::new(p.integer_registers.saturating_sub(INTEGER_HELD)),
            vector_registers: Ring::new(p.vector_registers.saturating_sub(VECTOR_HELD)),
            loads: Ring::new(p.load_queue_entries),
            stores: Ring::new(p.store_queue_entries),
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
        // A redirect is time that has passed; fetch that runs ahead or waits for a line is not yet.
        let redirect = if self.new_group { self.fetch } else { 0 };
        self.clock.at(self.cycle().max(redirect))
    }

    /// Dispatch cycle of the next instruction, idle time included.
    #[inline]
    #[must_use]
    pub fn cycle(&self) -> u64 {
        self.dispatch >> FRACTION
    }

    /// When everything so far has committed.
    #[inline]
    pub(super) fn last_commit(&self) -> u64 {
        self.commit >> FRACTION
    }

    /// Counters so far.
    #[must_use]
    pub fn stats(&self) -> CoreStats {
        CoreStats { cycles: self.cycle() - self.idle, ..self.stats.clone() }
    }

    /// Cycles by cause so far.
    #[must_use]
    pub fn stall_stats(&self) -> StallStats {
        self.stalls.stats(self.cycle() - self.idle)
    }

    /// Address translation's counters so far.
    #[must_use]
    pub fn tlb_stats(&self) -> TlbStats {
        self.tlb.stats.clone()
    }

    /// The core slept until `t`.
    pub fn idle_until(&mut self, t: Ps) {
        let (cycle, now) = (self.clock.cycle_at_or_after(t), self.cycle());
        if cycle > now {
            self.idle += cycle - now;
            self.dispatch = cycle << FRACTION;
        }
    }

    /// An exception or interrupt: the pipeline drains and refills.
    pub fn exception(&mut self) {
        self.stats.exceptions += 1;
        self.redirect(self.last_commit() + self.exception, Cause::Exception);
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
        // Accesses of earlier instructions than `from` have been timed with them.
        while accesses.first().is_some_and(|a| usize::from(a.index) < from) {
            accesses = &accesses[1..];
        }
        if self.in_order {
            self.time::<true>(block, from, to, accesses, next, memory, walker);
        } else {
            self.time::<false>(block, from, to, accesses, next, memory, walker);
        }
    }

    #[allow(clippy::too_many_arguments)]
    #[inline(always)]
    fn time<const IN_ORDER: bool>(
        &mut self,
        block: BlockRef<'_>,
        from: usize,
        to: usize,
        mut accesses: &[MemEvent],
        next: Option<u64>,
        memory: &mut MemorySystem,
        walker: &mut impl Walker,
    ) {
        let Some(quick) = block.quick.get(from..to.min(block.quick.len())) else { return };
        self.stats.instructions += quick.len() as u64;
        // Kept out of memory: each instruction depends on the one before.
        let (mut dispatch, mut commit) = (self.dispatch, self.commit);
        let mut pc = block.paddr + 4 * from as u64;
        // Most blocks find room for all of themselves at once.
        let now = dispatch >> FRACTION;
        let roomy = !IN_ORDER
            && self.rob.ahead(quick.len()) <= now
            && self.integer_registers.ahead(quick.len()) <= now
            && self.vector_registers.available() <= now;
        for q in quick {
            if self.new_group || pc & self.group_mask == 0 {
                self.dispatch = dispatch;
                self.fetch_group(pc, block.vaddr + (pc - block.paddr), memory, walker);
            }
            let slot = &self.slots[q.class as usize % SLOTS];
            let (latency, ports, interval, queue) = (slot.latency, slot.ports, slot.interval, slot.queue);
            let [a, b, c] = q.sources;
            let (a, b, c) = (self.ready[a as usize], self.ready[b as usize], self.ready[c as usize]);
            let mut operands = a.max(b).max(c);
            if roomy && q.flags & !WRITES_INTEGER == 0 {
                // Nothing but registers: most instructions.
                let mut t = dispatch >> FRACTION;
                let queue = queue as usize % QUEUES;
                if self.fetch > t {
                    t = self.wait(t, self.fetch, self.fetch_cause);
                    dispatch = t << FRACTION;
                }
                if self.queues[queue].full() {
                    (t, dispatch) = self.wait_for_queue(t, dispatch, queue);
                }
                dispatch += self.dispatch_step;
                let start = self.ports.reserve(operands.max(t + 1), ports, interval);
                if start > t + 1 {
                    self.queues[queue].enter(t, start);
                }
                let complete = start + u64::from(latency);
                self.ready[q.destinations[0] as usize] = complete;
                self.ready[q.destinations[1] as usize] = complete;
                commit = self.follow(commit, complete, Cause::Core);
                self.rob.take(commit >> FRACTION);
                if q.flags & WRITES_INTEGER != 0 {
                    self.integer_registers.take(commit >> FRACTION);
                }
                pc += 4;
                continue;
            }
            if q.flags & MORE != 0 {
                operands = self.further_operands(&block.ops[((pc - block.paddr) / 4) as usize], operands);
            }
            // Dispatch: where the front end, the reorder buffer and the queues have room.
            let mut t = dispatch >> FRACTION;
            let mut start;
            if IN_ORDER {
                (dispatch, start) = self.issue_in_order(*q, dispatch, operands);
            } else {
                if self.fetch > t {
                    t = self.wait(t, self.fetch, self.fetch_cause);
                    dispatch = t << FRACTION;
                }
                let mut room = 0;
                if !roomy {
                    room = self.rob.available();
                    if q.flags & WRITES_INTEGER != 0 {
                        room = room.max(self.integer_registers.available());
                    }
                }
                if q.flags & (LOADS | STORES | WRITES_VECTOR) != 0 {
                    room = room.max(self.further_room(*q));
                }
                if room > t {
                    t = self.wait_for_room(t, *q);
                    dispatch = t << FRACTION;
                }
                let queue = queue as usize % QUEUES;
                if self.queues[queue].full() {
                    (t, dispatch) = self.wait_for_queue(t, dispatch, queue);
                }
                dispatch += self.dispatch_step;
                // Issue: when operands and a port are there.
                start = self.ports.reserve(operands.max(t + 1), ports, interval);
                if start > t + 1 {
                    self.queues[queue].enter(t, start);
                }
            }
            let (complete, cause);
            if q.flags & (MEMORY | RARE) == 0 {
                complete = start + u64::from(latency);
                cause = Cause::Core;
            } else if q.flags & MEMORY == 0 {
                start = self.rare(*q, start, commit >> FRACTION);
                complete = start + u64::from(latency);
                cause = Cause::Core;
            } else {
                let i = ((pc - block.paddr) / 4) as usize;
                let mut own = 0;
                while accesses.get(own).is_some_and(|a| usize::from(a.index) == i) {
                    own += 1;
                }
                let (mine, rest) = accesses.split_at(own);
                accesses = rest;
                self.commit = commit;
                (complete, cause) = self.memory(*q, &block.ops[i], start, mine, pc, memory, walker);
            }
            self.ready[q.destinations[0] as usize] = complete;
            self.ready[q.destinations[1] as usize] = complete;
            if q.flags & MORE != 0 {
                self.write_further(&block.ops[((pc - block.paddr) / 4) as usize], complete);
            }
            // Commit, in order.
            commit = self.follow(commit, complete, cause);
            let committed = commit >> FRACTION;
            self.rob.take(committed);
            if q.flags & WRITES_INTEGER != 0 {
                self.integer_registers.take(committed);
            }
            if q.flags & (LOADS | WRITES_VECTOR | ORDERS) != 0 {
                self.commit = commit;
                self.committed(*q, committed, complete, &block, pc);
            }
            if q.flags & BRANCHES != 0 {
                self.commit = commit;
                if let (Some(next), true) = (next, pc + 4 == block.paddr + 4 * block.quick.len() as u64) {
                    self.resolve(q.branch, block.vaddr + (pc - block.paddr), pc + 4, next, complete);
                }
            }
            pc += 4;
        }
        (self.dispatch, self.commit) = (dispatch, commit);
    }

    /// The position of a commit behind another one.
    #[inline(always)]
    fn follow(&mut self, commit: u64, complete: u64, cause: Cause) -> u64 {
        let (follows, own) = (commit + self.commit_step, complete << FRACTION);
        if own > follows + (1 << FRACTION) {
            self.commit_cause = cause;
        }
        own.max(follows)
    }

    #[inline]
    fn committed(&mut self, q: Quick, committed: u64, complete: u64, block: &BlockRef<'_>, pc: u64) {
        if q.flags & LOADS != 0 {
            self.loads.take(committed);
        }
        if q.flags & WRITES_VECTOR != 0 {
            self.vector_registers.take(committed);
        }
        if q.flags & ORDERS != 0 {
            self.order(&block.ops[((pc - block.paddr) / 4) as usize], complete);
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
        let floor = self.cycle().saturating_sub(self.fetch_ahead);
        if floor > self.fetch {
            self.fetch = floor;
            self.fetch_cause = Cause::Fetch;
        }
        if pc / LINE != self.fetched_line {
            self.fetch_line(pc, vaddr, memory, walker);
        }
    }

    fn fetch_line(&mut self, pc: u64, vaddr: u64, memory: &mut MemorySystem, walker: &mut impl Walker) {
        self.fetched_line = pc / LINE;
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

    #[inline]
    fn further_room(&self, q: Quick) -> u64 {
        let of = |flag: u16, ring: &Ring| if q.flags & flag != 0 { ring.available() } else { 0 };
        of(LOADS, &self.loads).max(of(STORES, &self.stores)).max(of(WRITES_VECTOR, &self.vector_registers))
    }

    /// An issue queue seems full.
    #[inline]
    fn wait_for_queue(&mut self, t: u64, dispatch: u64, queue: usize) -> (u64, u64) {
        let room = self.queues[queue].room(t);
        if room == t {
            return (t, dispatch);
        }
        let cause = if self.pending.0 > t { self.pending.1 } else { Cause::Queue };
        (self.wait(t, room, cause), room << FRACTION)
    }

    /// Dispatch waits for what is full; each wait has its cause.
    #[inline(never)]
    fn wait_for_room(&mut self, t: u64, q: Quick) -> u64 {
        let mut t = self.wait(t, self.rob.available(), self.commit_cause);
        if !self.in_order {
            let full = if self.pending.0 > t { self.pending.1 } else { Cause::Registers };
            if q.flags & WRITES_INTEGER != 0 {
                t = self.wait(t, self.integer_registers.available(), full);
            }
            if q.flags & WRITES_VECTOR != 0 {
                t = self.wait(t, self.vector_registers.available(), full);
            }
        }
        if q.flags & LOADS != 0 {
            t = self.wait(t, self.loads.available(), self.commit_cause);
        }
        if q.flags & STORES != 0 {
            t = self.wait(t, self.stores.available(), self.store_cause);
        }
        t
    }

    #[inline]
    fn wait(&mut self, from: u64, until: u64, cause: Cause) -> u64 {
        if until <= from {
            return from;
        }
        self.stalls.add(cause, until - from);
        until
    }

    /// Issues in program order: returns the position behind it, and when it starts.
    fn issue_in_order(&mut self, q: Quick, dispatch: u64, operands: u64) -> (u64, u64) {
        let now = dispatch >> FRACTION;
        let fetched = self.wait(now, self.fetch, self.fetch_cause);
        let mut t = self.wait_for_room(fetched, q);
        t = self.wait(t, operands, if self.pending.0 >= operands { self.pending.1 } else { Cause::Core });
        let slot = self.slots[q.class as usize % SLOTS];
        let start = self.ports.reserve(t, slot.ports, slot.interval);
        self.wait(t, start, Cause::Queue);
        let position = if start > now { start << FRACTION } else { dispatch };
        (position + self.dispatch_step, start)
    }

    #[inline(never)]
    fn further_operands(&self, op: &MicroOp, t: u64) -> u64 {
        op.further_sources().iter().fold(t, |t, &r| t.max(self.ready[usize::from(r)]))
    }

    #[inline(never)]
    fn write_further(&mut self, op: &MicroOp, complete: u64) {
        for &r in op.destinations() {
            self.ready[usize::from(r)] = complete;
        }
    }

    /// What few instructions have: returns when it starts.
    #[inline(never)]
    fn rare(&mut self, q: Quick, start: u64, last_commit: u64) -> u64 {
        match q.class {
            Class::SystemWrite => start.max(last_commit),
            Class::Unknown => {
                self.stats.unknown_instructions += 1;
                start
            }
            _ => start,
        }
    }

    /// An instruction of a memory class, with what it accessed.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    fn memory(
        &mut self,
        q: Quick,
        op: &MicroOp,
        mut start: u64,
        accesses: &[MemEvent],
        pc: u64,
        memory: &mut MemorySystem,
        walker: &mut impl Walker,
    ) -> (u64, Cause) {
        for _ in 1..q.slots {
            let slot = &self.slots[q.class as usize % SLOTS];
            start = self.ports.reserve(start, slot.ports, slot.interval);
        }
        let mut data = start;
        if q.flags & STORES != 0 {
            let [a, b] = q.data.map(|r| self.ready[usize::from(r)]);
            data = start.max(a).max(b);
            if q.flags & MORE != 0 {
                let needed = op.sources().iter().skip(usize::from(op.data_from));
                data = needed.fold(data, |t, &r| t.max(self.ready[usize::from(r)]));
            }
        }
        // The base goes on without the access.
        self.ready[usize::from(q.base)] = start + u64::from(self.slots[Class::Alu as usize].latency);
        self.access(q.class, start, data, accesses, pc, memory, walker)
    }

    #[inline(never)]
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
                let done = self.last_commit().max(self.last_store).max(self.last_load);
                self.load_fence = self.load_fence.max(done);
                self.store_fence = self.store_fence.max(done);
                let device = self.device.1 >= done;
                self.redirect(done, if device { Cause::Device } else { Cause::Barrier });
            }
            Class::ContextSync => self.redirect(self.last_commit() + self.mispredict, Cause::Barrier),
            Class::SystemWrite => self.redirect(complete, Cause::Barrier),
            _ => {}
        }
    }

    #[inline]
    /// The branch at virtual address `pc` went to `next`; physical addresses say whether it was taken, and where to.
    fn resolve(&mut self, kind: Branch, pc: u64, fall_through: u64, next: u64, complete: u64) {
        self.stats.branches += 1;
        match self.predictor.resolve(kind, pc, fall_through, next) {
            Outcome::Through => {}
            Outcome::Taken(cycles) => self.redirect(self.fetch + cycles, Cause::Fetch),
            Outcome::LateTarget(cycles) => {
                self.stats.btb_misses += 1;
                self.redirect(self.fetch + cycles, Cause::Fetch);
            }
            Outcome::Mispredict if kind == Branch::Exception => self.exception(),
            Outcome::Mispredict => {
                self.stats.branch_misses += 1;
                self.redirect(complete + self.mispredict, Cause::Mispredict);
            }
        }
    }
}
