//! Turns among queues that have something to do: any number of queues, the next one found by words of bits.

/// See the module.
#[derive(Debug)]
pub struct RoundRobin {
    active: Vec<u64>,
    queues: u32,
    count: u32,
    /// Whose turn it is, if it has anything to do.
    turn: u16,
}

impl RoundRobin {
    /// Of so many queues, none of which has anything to do.
    #[must_use]
    pub fn new(queues: usize) -> Self {
        Self { active: vec![0; queues.div_ceil(64).max(1)], queues: queues as u32, count: 0, turn: 0 }
    }

    /// A queue has something to do, or no longer.
    #[inline]
    pub fn set(&mut self, queue: u16, on: bool) {
        let Some(word) = self.active.get_mut(usize::from(queue / 64)) else { return };
        let bit = 1 << (queue % 64);
        if (*word & bit != 0) != on {
            *word ^= bit;
            self.count = if on { self.count + 1 } else { self.count - 1 };
        }
    }

    /// None has anything to do; the turn stays.
    pub fn clear(&mut self) {
        self.active.fill(0);
        self.count = 0;
    }

    /// Queues that have something to do.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The first of them at `from` or after.
    #[inline]
    #[must_use]
    pub fn at_or_after(&self, from: u16) -> Option<u16> {
        let mut word = usize::from(from / 64);
        let mut bits = self.active.get(word)? >> (from % 64) << (from % 64);
        while bits == 0 {
            word += 1;
            bits = *self.active.get(word)?;
        }
        Some((word * 64) as u16 + bits.trailing_zeros() as u16)
    }

    /// The one whose turn it is.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Option<u16> {
        if self.count == 0 {
            return None;
        }
        self.at_or_after(self.turn).or_else(|| self.at_or_after(0))
    }

    /// The turn is this queue's, or (`after`) the next one's.
    #[inline]
    pub fn turn_to(&mut self, queue: u16, after: bool) {
        let turn = u32::from(queue) + u32::from(after);
        self.turn = if turn >= self.queues { 0 } else { turn as u16 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_in_turn() {
        let mut r = RoundRobin::new(130);
        assert_eq!(r.next(), None);
        [3, 64, 129].into_iter().for_each(|q| r.set(q, true));
        let mut order = Vec::new();
        for _ in 0..4 {
            let q = r.next().unwrap();
            order.push(q);
            r.turn_to(q, true);
        }
        assert_eq!((order, r.count()), (vec![3, 64, 129, 3], 3));
        r.turn_to(64, false);
        assert_eq!(r.next(), Some(64), "inside a packet the turn stays");
        r.set(64, false);
        assert_eq!((r.next(), r.at_or_after(4), r.count()), (Some(129), Some(129), 2));
        r.set(500, true);
        r.clear();
        assert_eq!((r.next(), r.count()), (None, 0));
    }

    proptest! {
        /// With all the same ones active, each of them comes once a round.
        #[test]
        fn nobody_is_left_out(queues in prop::collection::btree_set(0u16..200, 1..40), start in 0u16..200) {
            let mut r = RoundRobin::new(200);
            queues.iter().for_each(|&q| r.set(q, true));
            r.turn_to(start, false);
            let mut seen: Vec<u16> = (0..queues.len()).map(|_| {
                let q = r.next().unwrap();
                r.turn_to(q, true);
                q
            }).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, queues.into_iter().collect::<Vec<_>>());
        }
    }
}
