//! When cores see what devices have written.
//!
//! Cores take turns in windows of time, so that one that runs first has reached what is still to come for the others. What is
//! written for a queue that another core uses must not be in memory before that core is there. Left out: writes of queues that
//! nobody has used yet, and of no queue (events, errors, answers to commands), are there for all as soon as one core has reached
//! them; a core that looks into another one's queue sees them up to a window late, and a core that sleeps finds them when its
//! window opens.

use super::{Hold, Machine, Slot};
use crate::dma::Stream;
use crate::memory::{lines, MemorySystem};
use crate::requester::DmaRequester;
use wiretime_base::Ps;

impl<H: Hold> Machine<H> {
    /// Core `index` has looked at a queue; `anew`: what is under way for that is for it from now on.
    #[inline]
    pub(super) fn looks_at(&mut self, index: usize, anew: bool) {
        if anew {
            self.next_of[index] = self.next_write;
        }
    }

    /// Applies DMA writes that are visible at `t`, which all cores have reached.
    #[inline]
    pub fn apply_writes(&mut self, t: Ps) {
        if self.next_write <= t {
            self.apply(t, None);
        }
    }

    /// Applies those that are visible at `t`, which core `index` has reached: but for those that another core looks at, to which
    /// they would be there too early.
    #[inline]
    pub fn apply_writes_of(&mut self, index: usize, t: Ps) {
        if self.next_of[index] <= t {
            self.apply(t, Some(index));
        }
    }

    #[cold]
    fn apply(&mut self, t: Ps, index: Option<usize>) {
        let mut nics = self.nics.nics();
        let (mut next_write, mut next_of) = (Ps::MAX, Ps::MAX);
        for (device, Slot { nic, guest, .. }) in nics.slots.iter_mut().enumerate() {
            let may = |memory: &MemorySystem, stream: Stream| {
                let user = || memory.users.of(device, stream.side, stream.queue);
                index.is_none_or(|index| user().is_none_or(|user| user == index))
            };
            let (writes, seen) = (nic.writes(), &mut self.seen);
            let may_be_seen = |stream| may(&self.memory, stream);
            let before = writes.next_time_of(may_be_seen);
            let (count, total) = writes.apply_of(t, guest, may_be_seen, |what, place| seen.push((what, place)));
            for (purpose, (address, length)) in self.seen.drain(..) {
                let watched = lines(address, length).any(|line| self.memory.is_watched(line));
                self.intrusions += u64::from(watched);
                self.memory.dma_visible((address, length), t, DmaRequester { device: device as u16, purpose });
            }
            next_write = next_write.min(writes.next_time());
            next_of = next_of.min(writes.next_time_of(|stream| may(&self.memory, stream)));
            self.applied += count;
            if count > 0 {
                self.lateness.note(count, total, t - before);
            }
        }
        self.next_write = next_write;
        match index {
            Some(index) => self.next_of[index] = next_of,
            None => self.next_of.fill(next_write),
        }
    }

    /// When the next DMA write becomes visible; never, where none is under way.
    #[must_use]
    pub fn next_write(&self) -> Ps {
        self.next_write
    }

    /// When the next one becomes visible to core `index`, or earlier.
    #[must_use]
    pub fn next_write_of(&self, index: usize) -> Ps {
        self.next_of[index]
    }

    /// How many DMA writes have become visible so far.
    #[must_use]
    pub fn writes_applied(&self) -> u64 {
        self.applied
    }

    /// Whether DMA writes are not yet visible.
    #[must_use]
    pub fn writes_pending(&self) -> bool {
        self.next_write != Ps::MAX
    }
}

#[cfg(test)]
mod tests {
    use crate::nic::loopback::{Host, Ram};
    use crate::requester::{Moves, Purpose, Side};
    use crate::wire::Load;
    use std::cell::RefCell;
    use wiretime_base::{Cycles, Ps};

    type Machine = crate::machine::Machine<RefCell<crate::machine::Nics<Ram>>>;

    fn push(m: &Machine, t: u64, queue: u16, address: u64) {
        let purpose = Purpose::new(Side::Receive, queue, Moves::Payload);
        m.nics.borrow_mut().slots[0].nic.writes().push((Ps(t), Ps(t)), address, &[t as u8], purpose);
    }

    fn memory(m: &Machine) -> Vec<u8> {
        m.nics.borrow().slots[0].guest.0[..4].to_vec()
    }

    #[test]
    fn what_is_written_for_another_core_is_not_there_before_it() {
        let load = Load { rate: "1Gbps".parse().expect("a rate"), ..Load::default() };
        let host = Host::new(&crate::testing::platform(), &load, 256, true).expect("a load");
        let mut m = host.machine;
        m.next_of = vec![Ps::MAX; 3];
        m.nics.borrow_mut().slots[0].guest.0[..4].fill(0);
        for (core, queue) in [(1, (Side::Receive, 0)), (2, (Side::Receive, 1)), (0, (Side::Transmit, 0))] {
            m.memory.users.uses(core, 0, queue);
        }
        // For core 1, core 2, nobody known, core 1.
        for (n, (t, queue)) in [(10, 0), (20, 1), (30, 7), (40, 0)].into_iter().enumerate() {
            push(&m, t, queue, n as u64);
        }
        m.advance(Ps(50), false);
        // Core 0 has the line until what is written is visible to it.
        m.memory.store(0, 0, 0, Cycles::ZERO);
        let lost = |m: &Machine| m.memory.private_stats(0).snooped_lines;
        m.apply_writes_of(0, Ps(29));
        assert_eq!((memory(&m), lost(&m)), (vec![0; 4], 0));
        m.apply_writes_of(0, Ps(50));
        assert_eq!((memory(&m), lost(&m)), (vec![0, 0, 30, 0], 1), "core 0 runs first, and polls nothing");
        m.apply_writes_of(1, Ps(9));
        assert_eq!((memory(&m), m.next_write_of(1)), (vec![0, 0, 30, 0], Ps(10)));
        m.apply_writes_of(1, Ps(39));
        assert_eq!((memory(&m), m.next_write_of(1)), (vec![10, 0, 30, 0], Ps(40)));
        assert_eq!(m.next_write(), Ps(20), "core 2 has not been there");
        m.apply_writes_of(2, Ps(50));
        assert_eq!((memory(&m), m.next_write_of(2)), (vec![10, 20, 30, 0], Ps::MAX));
        // Core 1 has fallen asleep: the next window opens.
        m.apply_writes(Ps(50));
        assert_eq!((memory(&m), m.writes_pending()), (vec![10, 20, 30, 40], false));
    }
}
