//! Where dispatch waits, and why; and issue in program order.

use super::entries::Entries;
use super::pipeline::{Core, SLOTS};
use super::position::Position;
use super::stall::StallCause;
use super::uop::{Quick, LOADS, STORES, WRITES_INTEGER, WRITES_VECTOR};
use wiretime_base::Cycles;

impl Core {
    #[inline]
    pub(super) fn further_room(&self, q: Quick) -> Cycles {
        let of = |flag: u16, ring: &Entries| if q.flags & flag != 0 { ring.available() } else { Cycles::ZERO };
        of(LOADS, &self.loads).max(of(STORES, &self.stores)).max(of(WRITES_VECTOR, &self.vector_registers))
    }

    /// An issue queue seems full.
    #[inline]
    pub(super) fn wait_for_queue(&mut self, t: Cycles, dispatch: Position, queue: usize) -> (Cycles, Position) {
        let room = self.queues[queue].room(t);
        if room == t {
            return (t, dispatch);
        }
        let cause = if self.pending.0 > t { self.pending.1 } else { StallCause::Queue };
        (room, self.wait(dispatch, room, cause))
    }

    /// One too many of its kind for this cycle.
    #[inline(never)]
    pub(super) fn wait_for_limit(&mut self, dispatch: Position, kind: u64) -> (Cycles, Position) {
        let next = dispatch.cycle() + Cycles(1);
        self.limits.take(next, kind);
        (next, self.wait(dispatch, next, StallCause::Queue))
    }

    /// A move that renaming does: it needs room in the reorder buffer alone, and its register is there when the other one is.
    #[inline(never)]
    pub(super) fn rename(
        &mut self,
        q: Quick,
        dispatch: Position,
        commit: Position,
        moved: Cycles,
    ) -> (Position, Position) {
        let fetched = self.wait(dispatch, self.fetch, self.fetch_cause);
        let at = self.wait(fetched, self.rob.available(), self.commit_cause);
        self.ready[q.destinations[0] as usize] = moved;
        let commit = self.follow(commit, at.cycle(), StallCause::Core);
        self.rob.take(commit.cycle());
        (at + self.dispatch_step, commit)
    }

    /// Dispatch waits for what is full; each wait has its cause. Returns its new position.
    #[inline(never)]
    pub(super) fn wait_for_room(&mut self, dispatch: Position, q: Quick) -> Position {
        let mut at = self.wait(dispatch, self.rob_room(q), self.commit_cause);
        if !self.in_order {
            let full = if self.pending.0 > at.cycle() { self.pending.1 } else { StallCause::Registers };
            if q.flags & WRITES_INTEGER != 0 {
                at = self.wait(at, self.integer_registers.available(), full);
            }
            if q.flags & WRITES_VECTOR != 0 {
                at = self.wait(at, self.vector_registers.available(), full);
            }
        }
        if q.flags & LOADS != 0 {
            at = self.wait(at, self.loads.available(), self.commit_cause);
        }
        if q.flags & STORES != 0 {
            at = self.wait(at, self.stores.available(), self.store_cause);
        }
        at
    }

    /// Entries of the reorder buffer that instructions take: accesses in pieces take one a piece.
    #[inline]
    pub(super) fn entries_of(&self, quick: &[Quick]) -> usize {
        if self.split_accesses {
            quick.iter().map(|q| 1 + usize::from(q.split.more())).sum()
        } else {
            quick.len()
        }
    }

    /// When the reorder buffer has room for all of an instruction, or for as much of it as it ever has.
    #[inline]
    pub(super) fn rob_room(&self, q: Quick) -> Cycles {
        if self.split_accesses {
            self.rob.ahead((1 + usize::from(q.split.more())).min(self.rob.most()))
        } else {
            self.rob.available()
        }
    }

    /// Dispatch waits at position `from` until a cycle; returns its new position.
    #[inline]
    pub(super) fn wait(&mut self, from: Position, until: Cycles, cause: StallCause) -> Position {
        let until = Position::of(until);
        if until <= from {
            return from;
        }
        self.stalls.add(cause, until - from);
        until
    }

    /// Issues in program order: returns the position behind it, and when it starts.
    pub(super) fn issue_in_order(&mut self, q: Quick, dispatch: Position, operands: Cycles) -> (Position, Cycles) {
        let fetched = self.wait(dispatch, self.fetch, self.fetch_cause);
        let mut at = self.wait_for_room(fetched, q);
        at = self.wait(at, operands, if self.pending.0 >= operands { self.pending.1 } else { StallCause::Core });
        let slot = self.slots[q.class as usize % SLOTS];
        let start = self.ports.reserve(at.cycle(), slot.ports, slot.interval);
        at = self.wait(at, start, StallCause::Queue);
        (at + self.dispatch_step, start)
    }
}
