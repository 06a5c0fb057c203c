//! How long work goes on behind loads that have not come: as long as the reorder buffer has room.
//!
//! Left out: what depends on a load waits with it, whatever the room; loads that have come out of order free nothing.

use std::collections::VecDeque;
use wiretime_base::Cycles;

/// Fractions of a cycle that costs are counted in.
const FRACTION: u64 = 1024;

/// A time in fractions of a cycle.
fn fractions(t: Cycles) -> u64 {
    t.0 * FRACTION
}

/// A core's time, and the loads that it has under way.
pub struct Window {
    /// In fractions of a cycle, as the next two.
    now: u64,
    /// Work done: what the reorder buffer takes, however long it stands.
    work: u64,
    room: u64,
    /// How much work can be done before each load has to come, and when it does.
    loads: VecDeque<(u64, Cycles)>,
}

impl Window {
    /// At time zero; work goes on for so many cycles behind a load.
    #[must_use]
    pub fn new(cycles: u32) -> Self {
        Self { now: 0, work: 0, room: fractions(Cycles(cycles.into())), loads: VecDeque::with_capacity(64) }
    }

    /// The cycle that it is in.
    #[must_use]
    pub fn cycle(&self) -> Cycles {
        Cycles(self.now / FRACTION)
    }

    /// Its time in fractions of a cycle.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// So many cycles of work.
    pub fn spend(&mut self, cycles: f64) {
        let mut left = (cycles * FRACTION as f64) as u64;
        // Up to where there is no room behind the first load that has not come, or to where it has.
        while let Some(most) = self.room_left() {
            let part = left.min(most);
            self.advance(part);
            left -= part;
            if left == 0 {
                return;
            }
        }
        self.advance(left);
    }

    fn advance(&mut self, by: u64) {
        self.now += by;
        self.work += by;
    }

    /// Loads that have come go; the first that has not is waited for where there is no room behind it. Returns how long work
    /// may go on until the first that is left stands in its way, or has come.
    fn room_left(&mut self) -> Option<u64> {
        while let Some(&(most, done)) = self.loads.front() {
            if fractions(done) > self.now {
                if self.work < most {
                    return Some((most - self.work).min(fractions(done) - self.now));
                }
                self.wait_until(done);
            }
            self.loads.pop_front();
        }
        None
    }

    /// A load can be begun: those that are too old have come.
    pub fn make_room(&mut self) {
        self.room_left();
    }

    /// A load has begun, and comes then.
    pub fn begun(&mut self, done: Cycles) {
        self.loads.push_back((self.work + self.room, done));
    }

    /// When all loads have come.
    #[must_use]
    pub fn last(&self) -> Option<Cycles> {
        self.loads.iter().map(|&(_, done)| done).max()
    }

    /// All loads are waited for.
    pub fn settle(&mut self) {
        if let Some(last) = self.last() {
            self.wait_until(last);
        }
        self.loads.clear();
    }

    /// Nothing happens before.
    pub fn wait_until(&mut self, t: Cycles) {
        self.now = self.now.max(fractions(t));
    }

    /// How often so many fractions of a cycle pass before a cycle.
    #[must_use]
    pub fn rounds_before(&self, t: Cycles, round: u64) -> u64 {
        fractions(Cycles(t.0.saturating_sub(1))).saturating_sub(self.now) / round.max(1)
    }

    /// They pass so often, and nothing is under way at the end of one.
    pub fn repeat(&mut self, round: u64, count: u64) {
        self.now += round * count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(cycles: u32, loads: &[u64]) -> Window {
        let mut w = Window::new(cycles);
        loads.iter().for_each(|&done| w.begun(Cycles(done)));
        w
    }

    #[test]
    fn work_goes_on_for_as_long_as_there_is_room() {
        let mut w = at(40, &[300]);
        w.spend(30.0);
        assert_eq!(w.cycle(), Cycles(30));
        w.spend(30.0);
        assert_eq!(w.cycle(), Cycles(320), "10 before the wait, 20 after it");
    }

    /// However much is done at once.
    #[test]
    fn a_long_piece_of_work_hides_no_more() {
        let (mut whole, mut parts) = (at(40, &[300, 310]), at(40, &[300, 310]));
        whole.spend(200.0);
        (0..200).for_each(|_| parts.spend(1.0));
        assert_eq!(whole.cycle(), Cycles(310 + 160));
        assert_eq!(whole.now(), parts.now());
    }

    #[test]
    fn a_load_that_comes_in_time_costs_nothing() {
        let mut w = at(40, &[25]);
        w.spend(100.0);
        assert_eq!(w.cycle(), Cycles(100));
        assert_eq!(w.last(), None);
    }

    /// Loads begun one after the other are under way together.
    #[test]
    fn loads_overlap() {
        let mut w = Window::new(40);
        for _ in 0..4 {
            w.make_room();
            w.begun(Cycles(w.cycle().0 + 300));
            w.spend(10.0);
        }
        w.spend(10.0);
        assert_eq!(w.cycle(), Cycles(310), "40 cycles, a wait for the first, 10 behind it");
        assert_eq!(w.last(), Some(Cycles(330)));
        w.settle();
        assert_eq!((w.cycle(), w.last()), (Cycles(330), None));
    }
}
