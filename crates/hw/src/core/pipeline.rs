//! A core: each instruction is timed once, in program order. It is fetched, dispatched when there is room for it,
//! issued when its operands and a port are there, and committed in order. Times of different instructions overlap
//! freely. In-order cores issue in program order and stop where an operand is missing.
//!
//! Left out: wrong-path work, replays, uops beyond one per instruction but for wide vector accesses and, where asked for,
//! accesses in pieces (whose entries in issue, load and store queues are one). An instruction takes one physical register of a
//! kind however many it writes (a pair, a base beside it); branches are compared by physical addresses, so that one at the end of
//! a page whose next one lies elsewhere looks taken.

use super::access::{DeviceAccess, MemEvent};
use super::ahead::Ahead;
use super::branch::Predictor;
use super::charges::Charges;
use super::dependences::Dependences;
use super::entries::Entries;
use super::forwarding::Forwarding;
use super::limits::Limits;
use super::mop_cache::MopCache;
use super::ports::{IssueQueue, Ports};
use super::position::Position;
use super::stages::{StageTrace, Stages};
use super::stall::{StallCause, StallStats, Stalls};
use super::timing::{self, Slot, QUEUES};
use super::tlb::{Tlb, TlbStats, Walker};
use super::uop::{
    Class, MicroOp, Quick, Reg, BRANCHES, CLASSES, FIRST, LOADS, MEMORY, MORE, MOVES, ORDERS, RARE, REG_FLAGS, SELECTS,
    STORES, TURNS, WRITES_INTEGER, WRITES_VECTOR,
};
use crate::memory::{MemorySystem, BEHIND};
use crate::params::{self, CoreKind};
use wiretime_base::{stats, Clock, Cycles, Ps};

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
        mop_cache_hits: "groups", "groups of instructions fetched from the MOP cache";
        mop_cache_misses: "groups", "groups that it had not";
        branches: "branches", "branches";
        branch_misses: "branches", "mispredicted branches";
        btb_misses: "branches", "taken branches whose target came from decode";
        loads: "accesses", "loads, one an instruction and line";
        stores: "accesses", "stores, one an instruction and line";
        store_forwards: "loads", "loads that took their data from the store queue";
        order_violations: "loads", "loads that had run past an older store of their bytes, and were done again";
        mmio_reads: "accesses", "loads from devices";
        mmio_writes: "accesses", "stores to devices (doorbells among them)";
        mmio_write_cycles: "cycles", "time that device stores waited in the store buffer";
        exceptions: "events", "exceptions and interrupts taken";
        unknown_instructions: "instructions", "instructions that the decoder does not know, charged as ALU operations";
    }
}

/// The core.
pub struct Core {
    pub(super) index: usize,
    pub(super) clock: Clock,
    pub(super) in_order: bool,
    pub(super) mispredict: Cycles,
    pub(super) exception: Cycles,
    /// From the last commit, and from the last store's being written, to a system register read's dispatch, if it waits
    /// for them.
    pub(super) system_read_drain: Option<(Cycles, Cycles)>,
    pub(super) split_accesses: bool,
    pub(super) full_barriers: bool,
    /// Flags of instructions that make a difference here.
    pub(super) in_force: u16,
    pub(super) dependences: Dependences,
    pub(super) limits: Limits,
    pub(super) group_mask: u64,
    pub(super) fetch_ahead: Cycles,
    pub(super) forward_latency: Cycles,
    pub(super) device_read: Cycles,
    pub(super) device_write: Cycles,
    pub(super) write_combining: bool,
    pub(super) slots: [Slot; SLOTS],
    pub(super) predictor: Predictor,
    pub(super) tlb: Tlb,
    /// Cycle of the current fetch group, and why it is not earlier.
    pub(super) fetch: Cycles,
    pub(super) fetch_cause: StallCause,
    pub(super) fetched_line: u64,
    pub(super) new_group: bool,
    /// Fetch begins anew where prediction had not known of.
    pub(super) restarted: bool,
    /// It goes on at the target of a taken branch, which prediction that runs ahead has named or is to name.
    pub(super) turned: bool,
    pub(super) mops: MopCache,
    pub(super) ahead: Ahead,
    /// How long before the current cycle a line may have been asked for.
    pub(super) ahead_most: Cycles,
    /// Where the next instruction is dispatched, and how far one instruction goes.
    pub(super) dispatch: Position,
    pub(super) dispatch_step: Position,
    /// The same of commit.
    pub(super) commit: Position,
    pub(super) commit_step: Position,
    /// By register; as long as a register number can be, so that no index needs a check.
    pub(super) ready: [Cycles; Reg::MAX as usize + 1],
    pub(super) ports: Ports,
    pub(super) queues: [IssueQueue; QUEUES],
    pub(super) rob: Entries,
    pub(super) integer_registers: Entries,
    pub(super) vector_registers: Entries,
    pub(super) loads: Entries,
    pub(super) stores: Entries,
    /// What the last commit that made others wait had waited for.
    pub(super) commit_cause: StallCause,
    /// The access that takes longest, of those under way.
    pub(super) pending: (Cycles, StallCause),
    /// Later accesses wait for these.
    pub(super) load_fence: Cycles,
    pub(super) store_fence: Cycles,
    pub(super) last_load: Cycles,
    pub(super) last_store: Cycles,
    /// When the last store that releases was written.
    pub(super) released: Cycles,
    pub(super) store_cause: StallCause,
    /// When the last device store was sent and accepted, and its line.
    pub(super) device: (Cycles, Cycles, u64),
    pub(super) forward: Forwarding,
    /// Stores to devices since last taken.
    pub device_stores: Vec<DeviceAccess>,
    pub(super) idle: Cycles,
    pub(super) stalls: Stalls,
    pub(super) stats: CoreStats,
    /// Stages of every instruction, while they are wanted.
    pub stages: Option<Box<StageTrace>>,
    /// Cycles by instruction, while they are wanted.
    charges: Option<Box<Charges>>,
}

/// Classes, rounded up so that masking an index makes it safe.
pub(super) const SLOTS: usize = CLASSES.next_power_of_two();

/// What of an instruction makes a difference to a core.
fn in_force(p: &params::Core) -> u16 {
    let renames = p.zero_latency_moves && p.kind == CoreKind::OutOfOrder;
    let off = [
        (MOVES, renames),
        (TURNS, p.fused_branches),
        (SELECTS, p.fused_selects),
        (FIRST, p.fused_branches || p.fused_selects),
    ];
    off.iter().fold(u16::MAX, |flags, &(flag, on)| if on { flags } else { flags & !flag })
}

/// Architectural registers, which are never free: 31 integer, stack pointer, flags; 32 vector.
const INTEGER_HELD: u32 = 33;
const VECTOR_HELD: u32 = 32;

/// The accesses of instruction `i` and those behind it.
#[cold]
fn behind(accesses: &[MemEvent], i: usize) -> &[MemEvent] {
    let before = accesses.iter().take_while(|a| usize::from(a.index) < i).count();
    &accesses[before..]
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
            mispredict: Cycles::from(p.mispredict_penalty) + machine.l1i.latency.into(),
            exception: Cycles::from(p.exception_penalty),
            system_read_drain: (p.system_read_drain > 0)
                .then(|| (p.system_read_drain.into(), p.system_read_store_drain.into())),
            split_accesses: p.split_accesses,
            full_barriers: p.full_barriers,
            in_force: in_force(p),
            dependences: Dependences::new(p.dependence_entries),
            limits: Limits::new(&p.dispatch_limits),
            group_mask: u64::from(p.fetch_width) * 4 - 1,
            fetch_ahead: Cycles::from(p.fetch_queue_entries / p.dispatch_width.max(1)).max(Cycles(1)),
            forward_latency: Cycles::from(p.store_forward_latency),
            device_read: clock.cycle_at_or_after(round_trip),
            device_write: clock.cycle_at_or_after(machine.io.mmio_write_latency.ps()).max(Cycles(1)),
            write_combining: machine.io.write_combining,
            slots: timing::table(p),
            predictor: Predictor::new(&p.predictor),
            tlb: Tlb::new(&p.tlb),
            fetch: Cycles::ZERO,
            fetch_cause: StallCause::Fetch,
            fetched_line: u64::MAX,
            new_group: true,
            restarted: true,
            turned: false,
            mops: MopCache::new(p),
            ahead: Ahead::new(p.fetch_target_entries),
            // What has been reached is forgotten as much later: half of it is enough for any queue.
            ahead_most: clock.cycle_at_or_after(BEHIND) / 2,
            dispatch: Position::default(),
            dispatch_step: Position::step(p.dispatch_width),
            commit: Position::default(),
            commit_step: Position::step(p.commit_width),
            ready: [Cycles::ZERO; Reg::MAX as usize + 1],
            ports: Ports::default(),
            queues: [p.integer_queue_entries, p.vector_queue_entries, p.memory_queue_entries, 1].map(IssueQueue::new),
            rob: Entries::new(p.rob_entries),
            integer_registers: Entries::new(p.integer_registers.saturating_sub(INTEGER_HELD)),
            vector_registers: Entries::new(p.vector_registers.saturating_sub(VECTOR_HELD)),
            loads: Entries::new(p.load_queue_entries),
            stores: Entries::new(p.store_queue_entries),
            commit_cause: StallCause::Core,
            pending: (Cycles::ZERO, StallCause::Core),
            load_fence: Cycles::ZERO,
            store_fence: Cycles::ZERO,
            last_load: Cycles::ZERO,
            last_store: Cycles::ZERO,
            released: Cycles::ZERO,
            store_cause: StallCause::Store,
            device: (Cycles::ZERO, Cycles::ZERO, u64::MAX),
            forward: Forwarding::new(p.store_queue_entries),
            device_stores: Vec::with_capacity(16),
            idle: Cycles::ZERO,
            stalls: Stalls::default(),
            stats: CoreStats::default(),
            stages: None,
            charges: None,
        }
    }

    /// Local time: when the next instruction can be dispatched.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Ps {
        // A redirect is time that has passed; fetch that runs ahead or waits for a line is not yet.
        let redirect = if self.new_group { self.fetch } else { Cycles::ZERO };
        self.clock.at(self.cycle().max(redirect))
    }

    /// Dispatch cycle of the next instruction, idle time included.
    #[inline]
    #[must_use]
    pub fn cycle(&self) -> Cycles {
        self.dispatch.cycle()
    }

    /// When everything so far has committed.
    #[inline]
    pub(super) fn last_commit(&self) -> Cycles {
        self.commit.cycle()
    }

    /// Counters so far.
    #[must_use]
    pub fn stats(&self) -> CoreStats {
        CoreStats { cycles: (self.cycle() - self.idle).0, ..self.stats.clone() }
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

    /// The core has reached `t`: what it can ask for no more is forgotten.
    pub fn reached(&mut self, t: Ps) {
        self.tlb.reached(self.clock.cycle_at_or_after(t.saturating_sub(BEHIND)));
    }

    /// The core slept until `t`.
    pub fn idle_until(&mut self, t: Ps) {
        let (cycle, now) = (self.clock.cycle_at_or_after(t), self.cycle());
        if cycle > now {
            self.idle += cycle - now;
            self.dispatch = Position::of(cycle);
            if let Some(charges) = &mut self.charges {
                charges.asleep(cycle);
            }
            // Asleep, nothing is predicted.
            self.ahead.restart(cycle);
        }
    }

    /// The core has worked until `t`, whatever at: not this model's instructions.
    pub fn busy_until(&mut self, t: Ps) {
        let cycle = self.clock.cycle_at_or_after(t);
        if cycle > self.cycle() {
            self.dispatch = Position::of(cycle);
        }
    }

    /// An exception or interrupt is taken.
    pub fn exception(&mut self) {
        self.stats.exceptions += 1;
        self.drained();
    }

    /// At an exception's entry or return the pipeline drains and refills.
    pub(super) fn drained(&mut self) {
        self.redirect(self.last_commit() + self.exception, StallCause::Exception);
    }

    /// Cached translations go (TLB maintenance): those of one virtual page in any address space, or all.
    pub fn invalidate_translations(&mut self, page: Option<u64>) {
        self.tlb.invalidate(page);
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
        if from > 0 {
            accesses = behind(accesses, from);
        }
        match (self.in_order, self.stages.is_some() || self.charges.is_some()) {
            (true, false) => self.time::<true, false>(block, from, to, accesses, next, memory, walker),
            (false, false) => self.time::<false, false>(block, from, to, accesses, next, memory, walker),
            (true, true) => self.time::<true, true>(block, from, to, accesses, next, memory, walker),
            (false, true) => self.time::<false, true>(block, from, to, accesses, next, memory, walker),
        }
    }

    #[allow(clippy::too_many_arguments)]
    #[inline(always)]
    fn time<const IN_ORDER: bool, const TRACED: bool>(
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
        let now = dispatch.cycle();
        let roomy = !IN_ORDER
            && self.rob.ahead(self.entries_of(quick)) <= now
            && self.integer_registers.ahead(quick.len()) <= now
            && self.vector_registers.available() <= now;
        for q in quick {
            if self.new_group || pc & self.group_mask == 0 {
                self.dispatch = dispatch;
                self.fetch_group(pc, block.vaddr + (pc - block.paddr), memory, walker);
            }
            let flags = q.flags & self.in_force;
            let slot = &self.slots[q.class as usize % SLOTS];
            let (latency, ports, interval, queue) = (slot.latency, slot.ports, slot.interval, slot.queue);
            let kind = slot.kind;
            let [a, b, c] = q.sources;
            let (a, b, c) = (self.ready[a as usize], self.ready[b as usize], self.ready[c as usize]);
            let mut operands = a.max(b).max(c);
            if roomy && flags & !WRITES_INTEGER == 0 {
                // Nothing but registers: most instructions.
                let mut t = dispatch.cycle();
                let queue = queue as usize % QUEUES;
                if self.fetch > t {
                    dispatch = self.wait(dispatch, self.fetch, self.fetch_cause);
                    t = self.fetch;
                }
                if self.queues[queue].full() {
                    (t, dispatch) = self.wait_for_queue(t, dispatch, queue);
                }
                if kind != 0 && self.limits.take(t, kind) {
                    (t, dispatch) = self.wait_for_limit(dispatch, kind);
                }
                dispatch += self.dispatch_step;
                let start = self.ports.reserve(operands.max(t + Cycles(1)), ports, interval);
                if start > t + Cycles(1) {
                    self.queues[queue].enter(t, start);
                }
                let complete = start + latency;
                self.ready[q.destinations[0] as usize] = complete;
                self.ready[q.destinations[1] as usize] = complete;
                commit = self.follow(commit, complete, StallCause::Core);
                if TRACED {
                    self.note_stages(pc, [t, start, complete, commit.cycle()]);
                }
                self.rob.take(commit.cycle());
                if q.flags & WRITES_INTEGER != 0 {
                    self.integer_registers.take(commit.cycle());
                }
                pc += 4;
                continue;
            }
            if flags & (FIRST | MOVES) != 0 {
                let fused = flags & (TURNS | SELECTS) != 0;
                if fused || flags & MOVES != 0 {
                    let at = dispatch.cycle();
                    if fused {
                        // The second waits for what it waits for.
                        self.ready[REG_FLAGS as usize] = operands;
                    } else {
                        (dispatch, commit) = self.rename(*q, dispatch, commit, operands);
                    }
                    if TRACED {
                        self.note_stages(pc, [at, at, at, commit.cycle().max(at)]);
                    }
                    pc += 4;
                    continue;
                }
            }
            if q.flags & MORE != 0 {
                operands = self.further_operands(&block.ops[((pc - block.paddr) / 4) as usize], operands);
            }
            // Dispatch: where the front end, the reorder buffer and the queues have room.
            let mut t = dispatch.cycle();
            let mut start;
            if IN_ORDER {
                operands = self.with_data(*q, &block.ops[((pc - block.paddr) / 4) as usize], operands);
                (dispatch, start) = self.issue_in_order(*q, dispatch, operands);
            } else {
                if self.fetch > t {
                    dispatch = self.wait(dispatch, self.fetch, self.fetch_cause);
                    t = self.fetch;
                }
                if q.flags & RARE != 0 {
                    dispatch = self.drain(*q, dispatch, commit.cycle());
                    t = dispatch.cycle();
                }
                let mut room = Cycles::ZERO;
                if !roomy {
                    room = self.rob_room(*q);
                    if q.flags & WRITES_INTEGER != 0 {
                        room = room.max(self.integer_registers.available());
                    }
                }
                if q.flags & (LOADS | STORES | WRITES_VECTOR) != 0 {
                    room = room.max(self.further_room(*q));
                }
                if room > t {
                    dispatch = self.wait_for_room(dispatch, *q);
                    t = dispatch.cycle();
                }
                let queue = queue as usize % QUEUES;
                if self.queues[queue].full() {
                    (t, dispatch) = self.wait_for_queue(t, dispatch, queue);
                }
                if kind != 0 && self.limits.take(t, kind) {
                    (t, dispatch) = self.wait_for_limit(dispatch, kind);
                }
                dispatch += self.dispatch_step;
                // Issue: when operands and a port are there.
                start = self.ports.reserve(operands.max(t + Cycles(1)), ports, interval);
                if start > t + Cycles(1) {
                    self.queues[queue].enter(t, start);
                }
            }
            let (complete, cause);
            if q.flags & (MEMORY | RARE) == 0 {
                complete = start + latency;
                cause = StallCause::Core;
            } else if q.flags & MEMORY == 0 {
                start = self.rare(*q, start, commit.cycle());
                complete = start + latency;
                cause = StallCause::Core;
            } else {
                let i = ((pc - block.paddr) / 4) as usize;
                // An earlier one has accessed something and is timed as none that does.
                if accesses.first().is_some_and(|a| usize::from(a.index) < i) {
                    accesses = behind(accesses, i);
                }
                let mut own = 0;
                while accesses.get(own).is_some_and(|a| usize::from(a.index) == i) {
                    own += 1;
                }
                let (mine, rest) = accesses.split_at(own);
                accesses = rest;
                if self.split_accesses {
                    dispatch += self.dispatch_step.times(q.split.more().into());
                    commit += self.commit_step.times(q.split.more().into());
                    (0..q.split.more()).for_each(|_| self.rob.take(commit.cycle()));
                }
                self.commit = commit;
                (complete, cause) = self.memory(*q, &block.ops[i], start, mine, pc, memory, walker);
            }
            self.ready[q.destinations[0] as usize] = complete;
            self.ready[q.destinations[1] as usize] = complete;
            if flags & (TURNS | SELECTS) != 0 {
                self.ready[REG_FLAGS as usize] = complete;
            }
            if q.flags & MORE != 0 {
                self.write_further(&block.ops[((pc - block.paddr) / 4) as usize], complete);
            }
            // Commit, in order.
            commit = self.follow(commit, complete, cause);
            let committed = commit.cycle();
            if TRACED {
                self.note_stages(pc, [t, start, complete, committed]);
            }
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

    #[cold]
    fn note_stages(&mut self, pc: u64, [dispatch, issue, complete, commit]: [Cycles; 4]) {
        let fetch = self.fetch.min(dispatch);
        if let Some(stages) = &mut self.stages {
            stages.note(Stages { pc, fetch, dispatch, issue, complete, commit });
        }
        if let Some(charges) = &mut self.charges {
            charges.note(pc, commit);
        }
    }

    /// What instructions are charged, from the first time on that somebody asks.
    pub fn charges(&mut self) -> &mut Charges {
        let now = self.last_commit().max(self.cycle());
        self.charges.get_or_insert_with(|| Box::new(Charges::since(now)))
    }

    /// The position of a commit behind another one.
    #[inline(always)]
    pub(super) fn follow(&mut self, commit: Position, complete: Cycles, cause: StallCause) -> Position {
        let (follows, own) = (commit + self.commit_step, Position::of(complete));
        if own > follows + Position::of(Cycles(1)) {
            self.commit_cause = cause;
        }
        own.max(follows)
    }

    #[inline]
    fn committed(&mut self, q: Quick, committed: Cycles, complete: Cycles, block: &BlockRef<'_>, pc: u64) {
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

    /// When what a store writes is there, too.
    #[inline(always)]
    fn with_data(&self, q: Quick, op: &MicroOp, t: Cycles) -> Cycles {
        if q.flags & STORES == 0 {
            return t;
        }
        let [a, b] = q.data.map(|r| self.ready[usize::from(r)]);
        let data = t.max(a).max(b);
        if q.flags & MORE == 0 {
            return data;
        }
        let needed = op.sources().iter().skip(usize::from(op.data_from));
        needed.fold(data, |t, &r| t.max(self.ready[usize::from(r)]))
    }

    #[inline(never)]
    fn further_operands(&self, op: &MicroOp, t: Cycles) -> Cycles {
        op.further_sources().iter().fold(t, |t, &r| t.max(self.ready[usize::from(r)]))
    }

    #[inline(never)]
    fn write_further(&mut self, op: &MicroOp, complete: Cycles) {
        for &r in op.destinations() {
            self.ready[usize::from(r)] = complete;
        }
    }

    /// Dispatch of what few instructions are: some wait until all before them have committed.
    #[inline(never)]
    fn drain(&mut self, q: Quick, dispatch: Position, last_commit: Cycles) -> Position {
        match self.system_read_drain {
            Some((drain, stores)) if q.class == Class::SystemRead => {
                let empty = (last_commit + drain).max(self.last_store + stores);
                self.wait(dispatch, empty, StallCause::Barrier)
            }
            _ => dispatch,
        }
    }

    /// What few instructions have: returns when it starts.
    #[inline(never)]
    fn rare(&mut self, q: Quick, start: Cycles, last_commit: Cycles) -> Cycles {
        match q.class {
            Class::SystemWrite if self.system_read_drain.is_some() => start.max(last_commit).max(self.last_store),
            Class::SystemWrite => start.max(last_commit),
            Class::Barrier if self.full_barriers => start.max(last_commit).max(self.last_store).max(self.last_load),
            Class::Unknown => {
                self.stats.unknown_instructions += 1;
                start
            }
            _ => start,
        }
    }

    /// An access in pieces: how many, and when the first starts. Its other micro-operations take their own ports, and
    /// room in front and behind.
    #[inline]
    fn split(&mut self, q: Quick, mut start: Cycles) -> (u8, Cycles) {
        let alu = &self.slots[Class::Alu as usize];
        let (ports, interval, latency) = (alu.ports, alu.interval, alu.latency);
        if q.split.address {
            start = self.ports.reserve(start, ports, interval) + latency;
        }
        if q.split.base {
            self.ports.reserve(start, ports, interval);
        }
        (q.split.pieces, start)
    }

    /// An instruction of a memory class, with what it accessed.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    fn memory(
        &mut self,
        q: Quick,
        op: &MicroOp,
        mut start: Cycles,
        accesses: &[MemEvent],
        pc: u64,
        memory: &mut MemorySystem,
        walker: &mut impl Walker,
    ) -> (Cycles, StallCause) {
        let mut slots = q.slots;
        if self.split_accesses {
            (slots, start) = self.split(q, start);
        }
        for _ in 1..slots {
            let slot = &self.slots[q.class as usize % SLOTS];
            start = self.ports.reserve(start, slot.ports, slot.interval);
        }
        let data = self.with_data(q, op, start);
        // The base goes on without the access.
        self.ready[usize::from(q.base)] = start + self.slots[Class::Alu as usize].latency;
        self.access((q.class, op.order), start, data, accesses, pc, memory, walker)
    }
}
