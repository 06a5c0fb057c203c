//! Entries that tell software what is done: gathered, then written together, in place of the descriptors or into a ring of
//! their own; as many as are due, or what there is when a timer ends.

use super::RingView;
use crate::memory::GuestMemory;
use crate::nic::device::Io;
use crate::requester::Purpose;
use wiretime_base::Ps;

/// Entries of one ring that wait for company.
#[derive(Debug)]
pub struct Completions<T> {
    pending: Vec<T>,
    scratch: Vec<u8>,
    /// A timer runs for them; counts those that ran: one whose entries have been written means nothing.
    timer: bool,
    number: u32,
}

/// When what waits is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Now.
    Now,
    /// When the timer ends that starts now.
    Later(Ps),
    /// When more has come, or the timer that runs has ended.
    Waits,
}

impl<T> Default for Completions<T> {
    fn default() -> Self {
        Self { pending: Vec::with_capacity(64), scratch: Vec::with_capacity(1024), timer: false, number: 0 }
    }
}

impl<T> Completions<T> {
    /// One more is done.
    pub fn push(&mut self, entry: T) {
        self.pending.push(entry);
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// What waits.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pending.iter()
    }

    /// Forgets what waits.
    pub fn clear(&mut self) {
        self.pending.clear();
        self.timer = false;
    }

    /// `at` entries are written together; fewer when nothing can follow at once (`idle`), after `timer`.
    pub fn due(&mut self, at: u32, idle: bool, timer: Ps) -> Due {
        if self.pending.len() as u32 >= at || idle && timer == Ps::ZERO {
            Due::Now
        } else if idle && !self.timer && !self.pending.is_empty() {
            self.timer = true;
            self.number = self.number.wrapping_add(1);
            Due::Later(timer)
        } else {
            Due::Waits
        }
    }

    /// The timer that was started last.
    #[must_use]
    pub fn timer(&self) -> u32 {
        self.number
    }

    /// A timer has ended: whether it is the one that runs.
    pub fn expired(&mut self, number: u32) -> bool {
        self.number == number && std::mem::take(&mut self.timer)
    }

    /// Writes what waits from entry `head` of a ring on, cut where it ends; returns the next entry, when cores see the last,
    /// and the number of writes. `format` appends an entry's bytes; `each` hears where it is and when cores see it.
    pub fn write<E, G: GuestMemory>(
        &mut self,
        t: Ps,
        (ring, mut head): (&RingView, u32),
        purpose: Purpose,
        io: &mut Io<'_, E, G>,
        mut format: impl FnMut(u32, &T, &mut Vec<u8>),
        mut each: impl FnMut(u32, &T, Ps, &mut Io<'_, E, G>),
    ) -> (u32, Ps, u64) {
        let (mut visible, mut writes) = (t, 0);
        let mut rest = &self.pending[..];
        while !rest.is_empty() && ring.entries > 0 {
            head %= ring.entries;
            let now = rest.len().min((ring.entries - head) as usize);
            self.scratch.clear();
            rest[..now].iter().zip(head..).for_each(|(entry, at)| format(at, entry, &mut self.scratch));
            (_, visible) = io.write(t, ring.at(head), &self.scratch, purpose);
            rest[..now].iter().zip(head..).for_each(|(entry, at)| each(at, entry, visible, io));
            head = (head + now as u32) % ring.entries;
            writes += 1;
            rest = &rest[now..];
        }
        self.clear();
        (head, visible, writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_or_after_so_long() {
        let mut c = Completions::default();
        assert_eq!(c.due(2, true, Ps(5)), Due::Waits, "nothing to write");
        c.push(1);
        assert_eq!(
            (c.due(2, false, Ps(5)), c.due(2, true, Ps(5)), c.due(2, true, Ps(5))),
            (Due::Waits, Due::Later(Ps(5)), Due::Waits)
        );
        assert_eq!(c.due(2, true, Ps::ZERO), Due::Now);
        c.push(2);
        assert_eq!(c.due(2, false, Ps(5)), Due::Now);
        let first = c.timer();
        c.clear();
        assert!(c.is_empty() && !c.expired(first), "what it waited for has been written");
        c.push(3);
        assert_eq!(c.due(2, true, Ps(5)), Due::Later(Ps(5)));
        assert!(!c.expired(first) && c.expired(c.timer()) && !c.expired(c.timer()), "once");
    }
}
