//! A calendar of occupied intervals: how every shared resource (bus, bank, link direction) is modelled.
//!
//! Requests of different cores and of out-of-order loads do not arrive in time order; one `busy_until` would charge
//! them queueing that never happened. A calendar accepts any arrival and takes the first gap, so that what is booked
//! ahead never delays what is over before it begins. What no requester can reach any more is forgotten when the owner
//! says so: by the slowest requester's time, never by the latest booking.

use crate::{Sorted, Time};

/// Occupied intervals of one resource, sorted, disjoint, merged where they touch; in the owner's unit of time.
#[derive(Clone, Debug, Default)]
pub struct Calendar<T> {
    busy: Sorted<(T, T)>,
    /// When the last of those forgotten ended.
    forgotten: T,
    occupied: T,
}

impl<T: Time> Calendar<T> {
    /// Books `service` in the first gap at or after `arrival`; returns the start.
    #[inline]
    pub fn reserve(&mut self, arrival: T, service: T) -> T {
        self.occupied += service;
        // Nearly every booking goes behind the last one.
        match self.busy.last_mut() {
            Some(last) if arrival >= last.1 => {
                if arrival == last.1 {
                    last.1 += service;
                } else if service > T::ZERO {
                    self.busy.push((arrival, arrival + service));
                }
                arrival
            }
            None => {
                if service > T::ZERO {
                    self.busy.push((arrival, arrival + service));
                }
                arrival
            }
            _ => self.reserve_between(arrival, service),
        }
    }

    /// The same where something has been booked for later.
    fn reserve_between(&mut self, arrival: T, service: T) -> T {
        let mut i = self.first_after(arrival);
        let mut start = arrival;
        while i < self.busy.len() && self.busy[i].0 < start + service {
            start = start.max(self.busy[i].1);
            i += 1;
        }
        if service > T::ZERO {
            self.insert(i, start, start + service);
        }
        start
    }

    /// The first interval that ends after `t`: usually one of the last few.
    #[inline]
    fn first_after(&self, t: T) -> usize {
        self.busy.count(|&(_, end)| end <= t)
    }

    fn insert(&mut self, i: usize, start: T, end: T) {
        let touches_before = i > 0 && self.busy[i - 1].1 == start;
        let touches_after = i < self.busy.len() && self.busy[i].0 == end;
        match (touches_before, touches_after) {
            (true, true) => {
                self.busy[i - 1].1 = self.busy[i].1;
                self.busy.remove(i);
            }
            (true, false) => self.busy[i - 1].1 = end,
            (false, true) => self.busy[i].0 = start,
            (false, false) => self.busy.insert(i, (start, end)),
        }
    }

    /// Nobody asks for a time before `t` any more: bookings that end by then are forgotten.
    pub fn reached(&mut self, t: T) {
        let over = self.first_after(t);
        if let Some(last) = over.checked_sub(1) {
            self.forgotten = self.busy[last].1;
            self.busy.forget(|rest| rest[0].1 <= t);
        }
    }

    /// How long nothing has been booked when it is `t`: nothing in the middle of a booking.
    #[must_use]
    pub fn idle_before(&self, t: T) -> T {
        let i = self.first_after(t);
        if self.busy.get(i).is_some_and(|&(start, _)| start < t) {
            return T::ZERO;
        }
        t - i.checked_sub(1).map_or(self.forgotten, |before| self.busy[before].1)
    }

    /// When the last booking ends: 0 for a resource never used.
    #[must_use]
    pub fn last_end(&self) -> T {
        self.busy.last().map_or(self.forgotten, |&(_, end)| end)
    }

    /// Total time booked, for utilisation.
    #[must_use]
    pub fn occupied(&self) -> T {
        self.occupied
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ps;
    use proptest::prelude::*;

    #[test]
    fn takes_the_first_gap() {
        let mut c = Calendar::default();
        assert_eq!(c.reserve(Ps(100), Ps(10)), Ps(100));
        assert_eq!(c.reserve(Ps(200), Ps(10)), Ps(200));
        assert_eq!(c.reserve(Ps(50), Ps(10)), Ps(50), "an earlier arrival does not queue behind later ones");
        assert_eq!(c.reserve(Ps(95), Ps(10)), Ps(110), "five free before the booking at 100 are not enough");
        assert_eq!(c.reserve(Ps(100), Ps(90)), Ps(210));
        assert_eq!(c.reserve(Ps(120), Ps(80)), Ps(120), "exactly fills the gap");
        assert_eq!([300, 301, 350, 205].map(|t| c.idle_before(Ps(t)).0), [0, 1, 50, 0]);
        assert_eq!(c.reserve(Ps(1000), Ps::ZERO), Ps(1000));
        assert_eq!(c.last_end(), Ps(300), "what takes no time leaves nothing behind");
    }

    proptest! {
        /// What is entered for later, however far ahead and whenever, changes nothing that is over before it.
        #[test]
        fn what_is_booked_ahead_never_delays_what_is_earlier(
            requests in prop::collection::vec((0u64..10_000, 1u64..50), 1..100),
            later in prop::collection::vec((0u64..20_000_000, 1u64..5_000), 1..100),
        ) {
            let (mut alone, mut mixed) = (Calendar::default(), Calendar::default());
            let starts: Vec<Ps> = requests.iter().map(|r| alone.reserve(Ps(r.0), Ps(r.1))).collect();
            let over = requests.iter().zip(&starts).map(|(r, &s)| s + Ps(r.1)).max().unwrap_or(Ps::ZERO);
            for (i, l) in later.iter().enumerate() {
                mixed.reserve(over + Ps(l.0), Ps(l.1));
                if let (Some(r), Some(&start)) = (requests.get(i), starts.get(i)) {
                    prop_assert_eq!(mixed.reserve(Ps(r.0), Ps(r.1)), start);
                }
            }
        }

        /// Forgetting what nobody can reach changes nothing.
        #[test]
        fn forgetting_changes_nothing(mut requests in prop::collection::vec((0u64..10_000, 1u64..50), 1..200)) {
            requests.sort_unstable_by_key(|r| r.0 / 1000);
            let (mut all, mut some) = (Calendar::default(), Calendar::default());
            for (arrival, service) in requests {
                some.reached(Ps(arrival / 1000 * 1000));
                prop_assert_eq!(some.idle_before(Ps(arrival)), all.idle_before(Ps(arrival)));
                prop_assert_eq!(some.reserve(Ps(arrival), Ps(service)), all.reserve(Ps(arrival), Ps(service)));
            }
        }

        #[test]
        fn never_overlaps_and_conserves_work(requests in prop::collection::vec((0u64..10_000, 1u64..50), 1..300)) {
            let mut c = Calendar::default();
            let mut booked: Vec<(u64, u64)> = Vec::new();
            for &(arrival, service) in &requests {
                let start = c.reserve(Ps(arrival), Ps(service)).0;
                prop_assert!(start >= arrival);
                // Work conserving: every gap between arrival and start was too small.
                let mut edge = arrival;
                let mut sorted = booked.clone();
                sorted.sort_unstable();
                for &(s, e) in &sorted {
                    if e <= edge { continue; }
                    if s >= start { break; }
                    prop_assert!(s < edge + service, "a gap at {edge}..{s} would have held {service}");
                    edge = edge.max(e);
                }
                prop_assert_eq!(edge.max(arrival), start);
                booked.push((start, start + service));
            }
            booked.sort_unstable();
            for w in booked.windows(2) {
                prop_assert!(w[0].1 <= w[1].0, "overlap {:?}", w);
            }
            prop_assert_eq!(c.occupied().0, requests.iter().map(|r| r.1).sum::<u64>());
        }
    }
}
