//! A limited number of units, each held for a while: credits, tags, bus slots, walkers.
//!
//! Requests need not come in order of time. One waits for those that were asked for at its time or before, and for no
//! other: what is booked ahead never delays what is earlier. Units can then be held twice for a while, by the earlier
//! request and by the later one that had been told its time before.

use crate::{Sorted, Time};

#[derive(Clone, Copy, Debug)]
struct Hold<T> {
    asked: T,
    until: T,
    units: u64,
}

/// In which order units come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// In the order in which they were asked for.
    InOrder,
    /// Each when its own time is over.
    AnyOrder,
}

/// Units in flight. Times are in the owner's unit: picoseconds, or cycles of one clock.
#[derive(Clone, Debug)]
pub struct Window<T> {
    units: u64,
    order: Return,
    /// By the time at which they are given back.
    holds: Sorted<Hold<T>>,
    /// Of these so many have been given back for all that asks at `latest` or later; the others hold `used`.
    back: usize,
    used: u64,
    latest: T,
    /// When the last of those that asked in order got its units: nobody behind it overtakes it.
    granted: T,
}

impl<T: Time> Window<T> {
    /// Room for `units` at a time.
    #[must_use]
    pub fn new(units: u64, order: Return) -> Self {
        Self {
            units: units.max(1),
            order,
            holds: Sorted::default(),
            back: 0,
            used: 0,
            latest: T::ZERO,
            granted: T::ZERO,
        }
    }

    /// When `units` that are asked for at `t` are there; what is larger than the window takes all of it.
    #[inline]
    pub fn ready(&mut self, t: T, units: u64) -> T {
        let units = units.min(self.units);
        if t < self.latest {
            return self.ready_before_others(t, units);
        }
        let mut start = t.max(self.granted);
        while let Some(hold) = self.holds.get(self.back) {
            if hold.until > start {
                if self.used + units <= self.units {
                    break;
                }
                start = hold.until;
            }
            self.used -= hold.units;
            self.back += 1;
        }
        self.granted = start;
        start
    }

    /// The same where later requests have been entered already.
    fn ready_before_others(&self, t: T, units: u64) -> T {
        if self.has_room(t, units) {
            return t;
        }
        let (mut used, mut start) = (self.used_at(t), t);
        let mut ahead = self.holds[self.holds.partition_point(|h| h.until <= t)..].iter().filter(|h| h.asked <= t);
        while used + units > self.units {
            let Some(hold) = ahead.next() else { break };
            start = hold.until;
            used -= hold.units;
        }
        start
    }

    /// Whether there is room at `t` even if all that is held then or later were held then: found without going through
    /// all that was asked for later.
    fn has_room(&self, t: T, units: u64) -> bool {
        let back = self.holds[..self.back].iter().rev().take_while(|h| h.until > t).map(|h| h.units);
        self.used + back.sum::<u64>() + units <= self.units
    }

    fn used_at(&self, t: T) -> u64 {
        let ahead = self.holds.iter().rev().take_while(|h| h.until > t);
        ahead.filter(|h| h.asked <= t).map(|h| h.units).sum()
    }

    /// `units` that were asked for at `asked` are taken until `until`.
    #[inline]
    pub fn hold(&mut self, asked: T, until: T, units: u64) {
        let units = units.min(self.units);
        let last = self.holds.last().map_or(T::ZERO, |h| h.until);
        if asked >= self.latest {
            self.latest = asked;
            if until >= last || self.order == Return::InOrder {
                self.holds.push(Hold { asked, until: until.max(last), units });
                self.used += units;
                return;
            }
        }
        self.hold_between(asked, until, units);
    }

    /// The same where others are given back later.
    fn hold_between(&mut self, asked: T, mut until: T, units: u64) {
        if self.order == Return::InOrder {
            let before = self.holds.iter().rev().find(|h| h.asked <= asked).map(|h| h.until);
            until = until.max(before.unwrap_or(T::ZERO));
        }
        let at = self.holds.count(|h| h.until <= until);
        self.holds.insert(at, Hold { asked, until, units });
        if at < self.back {
            self.back += 1;
        } else {
            self.used += units;
        }
    }

    /// Nobody asks at a time before `t` any more: what was given back until then is forgotten.
    pub fn reached(&mut self, t: T) {
        let over = self.holds.iter().take_while(|hold| hold.until <= t).count();
        self.used -= self.holds[..over].iter().skip(self.back).map(|hold| hold.units).sum::<u64>();
        self.back -= over.min(self.back);
        self.holds.forget(|rest| rest[0].until <= t);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ps;
    use proptest::prelude::*;

    #[test]
    fn waits_for_the_oldest() {
        let mut w = Window::new(4, Return::InOrder);
        for until in [100, 200] {
            assert_eq!(w.ready(Ps(10), 2), Ps(10));
            w.hold(Ps(10), Ps(until), 2);
        }
        assert_eq!(w.ready(Ps(20), 1), Ps(100));
        w.hold(Ps(20), Ps(300), 1);
        assert_eq!(w.ready(Ps(150), 4), Ps(300), "all of it: everything must be back");
        assert_eq!(w.ready(Ps(400), 9), Ps(400), "more than there is takes what there is");
    }

    #[test]
    fn in_any_order_the_first_that_is_done_makes_room() {
        let mut w = Window::new(2, Return::AnyOrder);
        for until in [100, 50] {
            assert_eq!(w.ready(Ps::ZERO, 1), Ps::ZERO);
            w.hold(Ps::ZERO, Ps(until), 1);
        }
        assert_eq!(w.ready(Ps(10), 1), Ps(50));
    }

    #[test]
    fn later_requests_do_not_hold_what_an_earlier_one_wants() {
        let mut w = Window::new(1, Return::InOrder);
        assert_eq!(w.ready(Ps::from_us(5), 1), Ps::from_us(5));
        w.hold(Ps::from_us(5), Ps::from_us(6), 1);
        assert_eq!(w.ready(Ps(100), 1), Ps(100));
        w.hold(Ps(100), Ps(700), 1);
        assert_eq!(w.ready(Ps(200), 1), Ps(700), "but those before it do");
    }

    type Request = (u64, u64, u64);

    /// Asks in this order; returns when each got its units.
    fn play(units: u64, order: Return, requests: &[Request]) -> Vec<Ps> {
        let mut w = Window::new(units, order);
        let mut starts = Vec::new();
        for &(t, length, wanted) in requests {
            let start = w.ready(Ps(t), wanted);
            w.hold(Ps(t), start + Ps(length), wanted);
            starts.push(start);
        }
        starts
    }

    proptest! {
        /// Whatever is asked for after `t`, and whenever it is entered, those before get what they would without it.
        #[test]
        fn what_is_booked_ahead_never_delays_what_is_earlier(
            requests in prop::collection::vec((0u64..5000, 1u64..300, 1u64..4), 1..60),
            later in prop::collection::vec((5000u64..20_000_000, 1u64..10_000, 1u64..4), 1..60),
            fifo in any::<bool>(),
        ) {
            let order = if fifo { Return::InOrder } else { Return::AnyOrder };
            let alone = play(6, order, &requests);
            let mut mixed = Vec::new();
            let (mut a, mut b) = (requests.iter(), later.iter());
            loop {
                let pair = (b.next(), a.next());
                if pair == (None, None) { break; }
                mixed.extend(pair.0.into_iter().chain(pair.1).copied());
            }
            let together = play(6, order, &mixed);
            let of_earlier: Vec<Ps> = mixed.iter().zip(&together).filter(|(r, _)| r.0 < 5000).map(|(_, &s)| s).collect();
            prop_assert_eq!(of_earlier, alone);
        }

        /// In order of time, no more units are out than there are, and nobody waits while there is room.
        #[test]
        fn in_order_never_more_than_there_is(mut requests in prop::collection::vec((0u64..3000, 1u64..300, 1u64..4), 1..80)) {
            requests.sort_unstable();
            for order in [Return::InOrder, Return::AnyOrder] {
                let starts = play(6, order, &requests);
                let out = |t: Ps| -> u64 {
                    requests.iter().zip(&starts).filter(|(r, &s)| s <= t && t < s + Ps(r.1)).map(|(r, _)| r.2).sum()
                };
                for (i, (&(t, _, wanted), &start)) in requests.iter().zip(&starts).enumerate() {
                    prop_assert!(out(start) <= 6);
                    prop_assert!(start >= Ps(t));
                    if order == Return::AnyOrder && start > Ps(t) {
                        let before: u64 = requests[..i].iter().zip(&starts)
                            .filter(|(r, &s)| s + Ps(r.1) > start - Ps(1)).map(|(r, _)| r.2).sum();
                        prop_assert!(before + wanted > 6, "waits although there is room");
                    }
                }
            }
        }

        /// Forgetting what nobody can reach changes nothing.
        #[test]
        fn forgetting_changes_nothing(mut requests in prop::collection::vec((0u64..5000, 1u64..300, 1u64..4), 1..80)) {
            requests.sort_unstable_by_key(|r| r.0 / 500);
            let all = play(6, Return::AnyOrder, &requests);
            let mut w = Window::new(6, Return::AnyOrder);
            for (&(t, length, wanted), &expected) in requests.iter().zip(&all) {
                w.reached(Ps(t / 500 * 500));
                let start = w.ready(Ps(t), wanted);
                w.hold(Ps(t), start + Ps(length), wanted);
                prop_assert_eq!(start, expected);
            }
        }
    }
}
