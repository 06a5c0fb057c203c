//! Which core uses which queue of a device: it polls a receive queue, or rings the doorbell of a transmit queue. Known are those
//! that did so last.
//!
//! It decides where what a device writes is stashed. In CHI a write carries a hint of the cache that will want its line; the home
//! node asks that cache to fetch it. A device learns its queue's core from its driver (TPH steering tags). Left out: hints that
//! are refused because the cache is busy, and the time that fetching takes: the line is there when it is visible.

use crate::params::Stash;
use crate::requester::{DmaRequester, Moves, Side, UNNAMED};

/// The cores that have used queues last, by direction, device and queue.
#[derive(Clone, Debug, Default)]
pub struct QueueUsers([Vec<Vec<Option<u16>>>; 2]);

impl QueueUsers {
    /// Core `core` uses a queue; whether another one did before, or nobody.
    #[inline]
    pub fn uses(&mut self, core: usize, device: usize, (side, queue): (Side, u16)) -> bool {
        self.of(device, side, queue) != Some(core) && queue != UNNAMED && {
            self.note(core, device, (side, queue));
            true
        }
    }

    #[cold]
    fn note(&mut self, core: usize, device: usize, (side, queue): (Side, u16)) {
        let (devices, queue) = (&mut self.0[side as usize], usize::from(queue));
        if devices.len() <= device {
            devices.resize_with(device + 1, Vec::new);
        }
        let queues = &mut devices[device];
        if queues.len() <= queue {
            queues.resize(queue + 1, None);
        }
        queues[queue] = Some(core as u16);
    }

    /// Who used it last.
    #[inline]
    #[must_use]
    pub fn of(&self, device: usize, side: Side, queue: u16) -> Option<usize> {
        self.0[side as usize].get(device)?.get(usize::from(queue)).copied().flatten().map(usize::from)
    }

    /// The core whose L2 gets what is written for a queue, where one does.
    #[inline]
    #[must_use]
    pub fn stashes(&self, stash: Stash, by: DmaRequester) -> Option<usize> {
        let wanted = match stash {
            Stash::None => false,
            Stash::Completions => matches!(by.purpose.moves, Moves::WriteBack | Moves::Completions),
            Stash::All => true,
        };
        wanted.then(|| self.of(by.device.into(), by.purpose.side, by.purpose.queue)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requester::Purpose;

    #[test]
    fn each_queue_has_the_core_that_used_it_last() {
        let mut users = QueueUsers::default();
        assert!(users.uses(3, 1, (Side::Receive, 2)) && users.uses(5, 1, (Side::Receive, 2)));
        assert!(!users.uses(5, 1, (Side::Receive, 2)) && users.uses(4, 1, (Side::Transmit, 2)));
        assert!(!users.uses(4, 1, (Side::Transmit, UNNAMED)), "nobody's");
        assert_eq!([Side::Receive, Side::Transmit].map(|side| users.of(1, side, 2)), [Some(5), Some(4)]);
        for (device, queue) in [(0, 2), (1, 0), (1, 3), (9, 9), (1, UNNAMED)] {
            assert_eq!(users.of(device, Side::Receive, queue), None, "nobody uses it");
        }
        let by = |moves| DmaRequester { device: 1, purpose: Purpose::new(Side::Receive, 2, moves) };
        for (stash, payload, completion) in
            [(Stash::None, None, None), (Stash::Completions, None, Some(5)), (Stash::All, Some(5), Some(5))]
        {
            assert_eq!(users.stashes(stash, by(Moves::Payload)), payload);
            assert_eq!([Moves::WriteBack, Moves::Completions].map(|m| users.stashes(stash, by(m))), [completion; 2]);
        }
    }
}
