//! The front end: fetch in groups through ITLB and L1I, redirects by branches, barriers and exceptions.

use super::branch::Outcome;
use super::mop_cache::Found;
use super::pipeline::Core;
use super::stall::StallCause;
use super::tlb::Walker;
use super::uop::{Branch, Class, MicroOp, Order};
use crate::memory::{Address, MemorySystem, LINE};
use wiretime_base::Cycles;

impl Core {
    /// Dispatch goes on at `t` at the earliest, elsewhere.
    pub(super) fn redirect(&mut self, t: Cycles, cause: StallCause) {
        self.ahead.restart(t);
        self.restarted = true;
        self.turned = t > self.fetch;
        self.turn(t, cause);
    }

    /// The same, where prediction knew before.
    #[inline]
    fn turn(&mut self, t: Cycles, cause: StallCause) {
        self.new_group = true;
        if t > self.fetch {
            self.fetch = t;
            self.fetch_cause = cause;
        }
    }

    /// Fetch goes on to the group that holds `pc`.
    #[inline]
    pub(super) fn fetch_group(&mut self, pc: u64, vaddr: u64, memory: &mut MemorySystem, walker: &mut impl Walker) {
        if self.new_group {
            self.new_group = false;
        } else {
            self.fetch += Cycles(1);
        }
        match self.mops.fetch(pc, self.restarted) {
            Found::None => {}
            Found::Hit => self.stats.mop_cache_hits += 1,
            Found::Miss(more) => {
                self.stats.mop_cache_misses += 1;
                if more > Cycles::ZERO {
                    self.fetch += more;
                    self.fetch_cause = StallCause::Fetch;
                }
            }
        }
        self.restarted = false;
        // It waits while the queue to dispatch is full.
        let floor = self.cycle().saturating_sub(self.fetch_ahead);
        if floor > self.fetch {
            self.fetch = floor;
            self.fetch_cause = StallCause::Fetch;
        }
        let line = pc / LINE != self.fetched_line;
        if line || self.turned {
            self.fetch_target((pc, vaddr), line, memory, walker);
        }
    }

    /// Fetch goes on to another line, or to the target of a taken branch.
    fn fetch_target(
        &mut self,
        (pc, vaddr): (u64, u64),
        line: bool,
        memory: &mut MemorySystem,
        walker: &mut impl Walker,
    ) {
        self.turned = false;
        let floor = self.cycle().saturating_sub(self.ahead_most);
        let named = self.ahead.names(self.fetch, floor);
        if named > self.fetch {
            self.fetch = named;
            self.fetch_cause = StallCause::Fetch;
        }
        if line {
            self.fetch_line((pc, vaddr), named, memory, walker);
        }
        self.ahead.fetched(self.fetch);
    }

    fn fetch_line(
        &mut self,
        (pc, vaddr): (u64, u64),
        asked: Cycles,
        memory: &mut MemorySystem,
        walker: &mut impl Walker,
    ) {
        self.fetched_line = pc / LINE;
        let translated = asked + self.tlb.instruction(self.index, vaddr, asked, memory, walker);
        if translated > self.fetch {
            self.fetch = translated;
            self.fetch_cause = StallCause::Itlb;
        }
        let there = memory.fetch(self.index, Address { physical: pc, virtual_: vaddr }, translated);
        if there > self.fetch {
            self.fetch = there;
            self.fetch_cause = StallCause::L1i;
        }
    }

    /// What a barrier, an acquire or release, or a system register write makes others wait for.
    #[inline(never)]
    pub(super) fn order(&mut self, op: &MicroOp, complete: Cycles) {
        if op.order.loads {
            self.load_fence = self.load_fence.max(self.last_load);
            self.store_fence = self.store_fence.max(self.last_load);
        }
        if op.order.stores {
            self.store_fence = self.store_fence.max(self.last_store);
        }
        if op.order == Order::ALL {
            self.load_fence = self.load_fence.max(self.last_store);
        }
        if op.order.acquires {
            self.load_fence = self.load_fence.max(complete);
            self.store_fence = self.store_fence.max(complete);
        }
        match op.class {
            Class::Barrier if self.full_barriers => {
                self.load_fence = self.load_fence.max(complete);
                self.store_fence = self.store_fence.max(complete);
            }
            Class::BarrierFull => {
                let done = self.last_commit().max(self.last_store).max(self.last_load);
                self.load_fence = self.load_fence.max(done);
                self.store_fence = self.store_fence.max(done);
                let device = self.device.1 >= done;
                self.redirect(done, if device { StallCause::Device } else { StallCause::Barrier });
            }
            Class::ContextSync => self.redirect(self.last_commit() + self.mispredict, StallCause::Barrier),
            Class::SystemWrite => {
                let drain = self.system_read_drain.map_or(Cycles::ZERO, |(drain, _)| drain);
                self.redirect(complete + drain, StallCause::Barrier);
            }
            _ => {}
        }
    }

    /// The branch at virtual address `pc` went to `next`; physical addresses say whether it was taken, and where to.
    #[inline]
    pub(super) fn resolve(&mut self, kind: Branch, pc: u64, fall_through: u64, next: u64, complete: Cycles) {
        self.stats.branches += 1;
        match self.predictor.resolve(kind, pc, fall_through, next) {
            Outcome::Through => {}
            Outcome::Taken(cycles) if self.ahead.runs() => {
                self.ahead.turn(cycles);
                self.turned = true;
                self.turn(self.fetch + Cycles(1), StallCause::Fetch);
            }
            Outcome::Taken(cycles) => self.turn(self.fetch + cycles, StallCause::Fetch),
            Outcome::LateTarget(cycles) => {
                self.stats.btb_misses += 1;
                self.redirect(self.fetch + cycles, StallCause::Fetch);
            }
            Outcome::Mispredict if kind == Branch::Exception => self.drained(),
            Outcome::Mispredict => {
                self.stats.branch_misses += 1;
                self.redirect(complete + self.mispredict, StallCause::Mispredict);
            }
        }
    }
}
