//! How long bursts take: from when a core reads the first packet of one until it looks at a receive ring again, which is
//! receiving, the program's work and sending. With a core that polls several rings, the next one's look ends it.
//!
//! Left out: what the poll does before it reads the first descriptor; and a program that takes from several rings before
//! it works on any of it is told the time of taking, but for the last.

use wiretime_base::Ps;

/// A burst that has been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub port: usize,
    pub queue: u16,
    /// When its first packet was read.
    pub begun: Ps,
}

/// The burst that each core has taken last, until it looks again.
#[derive(Default)]
pub struct Turns {
    by_core: Vec<Option<Taken>>,
}

impl Turns {
    /// A core has taken a burst.
    pub fn took(&mut self, core: u16, burst: Taken) {
        let core = usize::from(core);
        if core >= self.by_core.len() {
            self.by_core.resize(core + 1, None);
        }
        self.by_core[core] = Some(burst);
    }

    /// A core looks at a ring: what it has taken before is done.
    #[inline]
    pub fn looks(&mut self, core: u16) -> Option<Taken> {
        self.by_core.get_mut(usize::from(core)).and_then(Option::take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_ends_what_its_own_core_has_taken() {
        let taken = |queue| Taken { port: 0, queue, begun: Ps(10) };
        let mut turns = Turns::default();
        assert_eq!(turns.looks(3), None);
        turns.took(3, taken(1));
        turns.took(0, taken(2));
        assert_eq!([turns.looks(3), turns.looks(3), turns.looks(0)], [Some(taken(1)), None, Some(taken(2))]);
    }
}
