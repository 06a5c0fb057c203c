//! Prediction that runs ahead of fetch: the queue of fetch targets between branch predictor and L1I (a decoupled front end,
//! Reinman, Calder and Austin 1999). Each line's translation and its fetch are asked for when it is predicted, up to as many
//! targets before fetch gets there as the queue holds; so misses overlap each other and what is decoded meanwhile.
//!
//! The predictor names a line a cycle, and the target of a taken branch as much later as its level of the BTB answers: fetch,
//! which takes several cycles for most of what it is told, waits for that only where the queue is empty. Behind a
//! misprediction, a late target, a barrier or an exception it begins anew. Left out: lines of the wrong path, which a real one
//! fetches as well.

use wiretime_base::Cycles;

pub struct Ahead {
    /// When the last targets were fetched, as many as the queue holds; none: fetch asks for itself.
    fetched: Box<[Cycles]>,
    oldest: usize,
    /// When the next target can be named.
    next: Cycles,
}

impl Ahead {
    pub fn new(entries: u32) -> Self {
        Self { fetched: vec![Cycles::ZERO; entries as usize].into(), oldest: 0, next: Cycles::ZERO }
    }

    /// Whether prediction runs ahead at all.
    #[inline]
    pub fn runs(&self) -> bool {
        !self.fetched.is_empty()
    }

    /// When the target is named that fetch would reach at `fetch`: not before `floor`.
    #[inline]
    pub fn names(&mut self, fetch: Cycles, floor: Cycles) -> Cycles {
        let Some(&room) = self.fetched.get(self.oldest) else { return fetch };
        let t = self.next.max(room).max(floor);
        self.next = t + Cycles(1);
        t
    }

    /// The target named last has been fetched at `t`: its place is free.
    #[inline]
    pub fn fetched(&mut self, t: Cycles) {
        if let Some(place) = self.fetched.get_mut(self.oldest) {
            *place = t;
            self.oldest = if self.oldest + 1 == self.fetched.len() { 0 } else { self.oldest + 1 };
        }
    }

    /// The next target is that of a taken branch, `cycles` behind what was named last.
    #[inline]
    pub fn turn(&mut self, cycles: Cycles) {
        self.next += cycles.saturating_sub(Cycles(1));
    }

    /// Nothing can be predicted before `t`.
    #[inline]
    pub fn restart(&mut self, t: Cycles) {
        self.next = self.next.max(t);
    }

    /// Where it stands, as seen from `past`, before which nothing counts.
    pub fn stand(&self, past: Cycles, words: &mut Vec<u64>) {
        let (newer, older) = self.fetched.split_at(self.oldest);
        words.extend(older.iter().chain(newer).chain([&self.next]).map(|t| t.saturating_sub(past).0));
    }

    /// All of it `by` later.
    pub fn shift(&mut self, by: Cycles) {
        self.fetched.iter_mut().for_each(|t| *t += by);
        self.next += by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_queue_fetch_asks_for_itself() {
        let mut a = Ahead::new(0);
        for t in [5, 7, 1000] {
            assert_eq!(a.names(Cycles(t), Cycles::ZERO), Cycles(t));
            a.fetched(Cycles(t));
        }
    }

    #[test]
    fn as_many_targets_ahead_as_the_queue_holds_one_a_cycle() {
        let mut a = Ahead::new(3);
        a.restart(Cycles(100));
        // Each line takes 50 cycles to decode.
        let named: Vec<u64> = (0..6u64)
            .map(|n| {
                let fetch = Cycles(100 + 50 * n);
                let t = a.names(fetch, Cycles::ZERO);
                a.fetched(fetch);
                t.0
            })
            .collect();
        assert_eq!(named, [100, 101, 102, 103, 150, 200], "the fourth when the first has left");
    }

    #[test]
    fn not_before_it_knows_the_way() {
        let mut a = Ahead::new(4);
        a.restart(Cycles(500));
        assert_eq!(a.names(Cycles(400), Cycles::ZERO), Cycles(500), "fetch waits for it");
        a.restart(Cycles(500));
        assert_eq!(a.names(Cycles(700), Cycles::ZERO), Cycles(501));
        assert_eq!(a.names(Cycles(900), Cycles(800)), Cycles(800), "the floor");
        a.turn(Cycles(3));
        assert_eq!(a.names(Cycles(900), Cycles::ZERO), Cycles(803), "a target that the main BTB has");
        a.turn(Cycles(1));
        assert_eq!(a.names(Cycles(900), Cycles::ZERO), Cycles(804));
    }
}
