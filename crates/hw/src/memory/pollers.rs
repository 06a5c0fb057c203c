//! Which core polls which queue: where what a device writes is stashed.
//!
//! In CHI a write carries a hint of the cache that will want its line; the home node asks that cache to fetch it. A device
//! learns its queue's core from its driver (TPH steering tags); here it is the core that polled the queue last. Left out: hints
//! that are refused because the cache is busy, and the time that fetching takes: the line is there when it is visible.

use crate::params::Stash;
use crate::requester::{DmaRequester, Moves};

/// See the module.
pub struct Pollers {
    stash: Stash,
    /// Cores by device and queue.
    cores: Vec<Vec<Option<usize>>>,
}

impl Pollers {
    pub fn new(stash: Stash) -> Self {
        Self { stash, cores: Vec::new() }
    }

    /// Core `i` polls a queue of a device.
    #[inline]
    pub fn polled(&mut self, i: usize, device: u16, queue: u16) {
        if self.stash != Stash::None {
            self.note(i, device.into(), queue.into());
        }
    }

    fn note(&mut self, i: usize, device: usize, queue: usize) {
        if self.cores.len() <= device {
            self.cores.resize_with(device + 1, Vec::new);
        }
        let queues = &mut self.cores[device];
        if queues.len() <= queue {
            queues.resize(queue + 1, None);
        }
        queues[queue] = Some(i);
    }

    /// The core whose L2 gets what is written, where one does.
    #[inline]
    pub fn target(&self, by: DmaRequester) -> Option<usize> {
        let wanted = match self.stash {
            Stash::None => false,
            Stash::Completions => matches!(by.purpose.moves, Moves::WriteBack | Moves::Completions),
            Stash::All => true,
        };
        let queues = self.cores.get(usize::from(by.device)).filter(|_| wanted)?;
        queues.get(usize::from(by.purpose.queue)).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requester::{Purpose, Side};

    #[test]
    fn each_queue_has_the_core_that_polled_it_last() {
        let by = |device, queue, moves| DmaRequester { device, purpose: Purpose::new(Side::Receive, queue, moves) };
        for (stash, payload, completion) in
            [(Stash::None, None, None), (Stash::Completions, None, Some(5)), (Stash::All, Some(5), Some(5))]
        {
            let mut p = Pollers::new(stash);
            p.polled(3, 1, 2);
            p.polled(5, 1, 2);
            assert_eq!(p.target(by(1, 2, Moves::Payload)), payload);
            assert_eq!([Moves::WriteBack, Moves::Completions].map(|m| p.target(by(1, 2, m))), [completion; 2]);
            for (device, queue) in [(0, 2), (1, 0), (1, 3), (9, 9)] {
                assert_eq!(p.target(by(device, queue, Moves::Completions)), None, "nobody polls it");
            }
        }
    }
}
