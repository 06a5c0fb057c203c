//! Which core looks at what a device writes.
//!
//! Cores take turns in windows of time, so that one that runs first has reached what is still to come for the others. What is
//! written for a queue that another core uses must not be in memory before that core is there. A receive queue is used by who
//! polls it, a transmit queue by who rings its doorbell. Left out: writes of queues that nobody has used yet, and of no queue
//! (events, errors, answers to commands), are there for all as soon as one core has reached them; a core that looks into
//! another one's queue sees them up to a window late, and a core that sleeps finds them when its window opens.

use crate::dma::Stream;
use crate::nic::UNNAMED;
use crate::requester::Side;

/// The cores that have used a port's queues last, by direction and queue.
#[derive(Clone, Debug, Default)]
pub struct Readers([Vec<Option<u16>>; 2]);

impl Readers {
    /// Core `index` uses a queue; whether another one did, or nobody.
    #[inline]
    pub fn uses(&mut self, side: Side, queue: u16, index: usize) -> bool {
        if queue == UNNAMED {
            return false;
        }
        let (queues, queue) = (&mut self.0[side as usize], usize::from(queue));
        if queues.len() <= queue {
            queues.resize(queue + 1, None);
        }
        queues[queue].replace(index as u16) != Some(index as u16)
    }

    /// Whether core `index` may see what is written for a queue as soon as it has reached it.
    pub fn may_see(&self, stream: Stream, index: usize) -> bool {
        let (side, queue) = (usize::from(stream >> 16 != 0), usize::from(stream as u16));
        self.0[side].get(queue).copied().flatten().is_none_or(|reader| usize::from(reader) == index)
    }
}

#[cfg(test)]
mod tests {
    use crate::nic::loopback::{Host, Ram};
    use crate::requester::Side;
    use crate::wire::Load;
    use std::cell::RefCell;
    use wiretime_base::Ps;

    type Machine = crate::machine::Machine<RefCell<crate::machine::Nics<Ram>>>;

    fn push(m: &Machine, t: u64, queue: u16, address: u64) {
        let stream = crate::nic::blocks::dma_engine::stream(Side::Receive, queue);
        m.nics.borrow_mut().slots[0].nic.writes().push(Ps(t), address, &[t as u8], stream);
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
        assert!(m.readers[0].uses(Side::Receive, 0, 1) && m.readers[0].uses(Side::Receive, 1, 2));
        assert!(m.readers[0].uses(Side::Transmit, 0, 0) && !m.readers[0].uses(Side::Receive, 0, 1));
        assert!(!m.readers[0].uses(Side::Transmit, crate::nic::UNNAMED, 2));
        // For core 1, core 2, nobody known, core 1.
        for (n, (t, queue)) in [(10, 0), (20, 1), (30, 7), (40, 0)].into_iter().enumerate() {
            push(&m, t, queue, n as u64);
        }
        m.advance(Ps(50), false);
        m.apply_writes_of(0, Ps(50));
        assert_eq!(memory(&m), [0, 0, 30, 0], "core 0 runs first, and polls nothing");
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
