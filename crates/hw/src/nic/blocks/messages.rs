//! Messages (MSI-X) that a device has sent and the host has not seen: each is there from its time on, and once at a time, as a
//! bit of the table's pending ones would be.

use std::collections::VecDeque;
use wiretime_base::Ps;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Messages(VecDeque<(Ps, u16)>);

impl Messages {
    /// One is sent, and is there at `t`.
    pub fn push(&mut self, t: Ps, vector: u16) {
        if !self.contains(vector) {
            self.0.push_back((t, vector));
        }
    }

    /// Whether one of a vector has not been seen.
    #[must_use]
    pub fn contains(&self, vector: u16) -> bool {
        self.0.iter().any(|m| m.1 == vector)
    }

    /// When the first is there.
    #[must_use]
    pub fn next(&self) -> Option<Ps> {
        self.0.iter().map(|m| m.0).min()
    }

    /// Takes one of those that are there at `t`: its vector.
    pub fn take(&mut self, t: Ps) -> Option<u16> {
        let first = self.0.iter().position(|m| m.0 <= t)?;
        self.0.remove(first).map(|m| m.1)
    }

    /// All are gone.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_there_from_its_time_on_and_once() {
        let mut m = Messages::default();
        [(5, 3), (7, 3), (9, 5)].into_iter().for_each(|(t, vector)| m.push(Ps(t), vector));
        assert_eq!((m.next(), m.take(Ps(4))), (Some(Ps(5)), None));
        assert_eq!([m.take(Ps(9)), m.take(Ps(9)), m.take(Ps::MAX)], [Some(3), Some(5), None]);
        m.push(Ps(20), 1);
        // A register write acts at once, whatever devices have been simulated to.
        m.push(Ps::ZERO, 2);
        assert_eq!((m.next(), m.take(Ps(10)), m.take(Ps(10))), (Some(Ps::ZERO), Some(2), None));
    }
}
