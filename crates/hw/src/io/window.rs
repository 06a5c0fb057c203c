//! A limited number of things in flight: credits, tags, bus slots. They are given back in the order taken.

use std::collections::VecDeque;
use wiretime_base::Ps;

/// Things in flight, each of some units.
pub struct Window {
    units: u64,
    used: u64,
    in_flight: VecDeque<(Ps, u64)>,
}

impl Window {
    /// Room for `units` at a time.
    pub fn new(units: u64) -> Self {
        Self { units: units.max(1), used: 0, in_flight: VecDeque::with_capacity(64) }
    }

    /// When `units` that are wanted at `t` are there; what is larger than the window takes all of it.
    #[inline]
    pub fn ready(&mut self, t: Ps, units: u64) -> Ps {
        let mut t = t;
        let units = units.min(self.units);
        while let Some(&(back, held)) = self.in_flight.front() {
            if back > t {
                if self.used + units <= self.units {
                    break;
                }
                t = back;
            }
            self.used -= held;
            self.in_flight.pop_front();
        }
        t
    }

    /// `units` are taken until `back`.
    #[inline]
    pub fn hold(&mut self, back: Ps, units: u64) {
        let units = units.min(self.units);
        self.used += units;
        self.in_flight.push_back((back, units));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_the_oldest() {
        let mut w = Window::new(4);
        for back in [100, 200] {
            assert_eq!(w.ready(10, 2), 10);
            w.hold(back, 2);
        }
        assert_eq!(w.ready(20, 1), 100);
        w.hold(300, 1);
        assert_eq!(w.ready(150, 4), 300, "all of it: everything must be back");
        assert_eq!(w.ready(400, 9), 400, "more than there is takes what there is");
    }
}
