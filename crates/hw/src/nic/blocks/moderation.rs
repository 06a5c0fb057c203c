//! Interrupt moderation: packet and absolute timers of receive and transmit (8254x), and a throttle for each vector (ITR,
//! EITR). Sources: 8254x Software Developer's Manual, sections 3.2.7, 3.3.6, 13.4.17 to 13.4.45; 82599 data sheet,
//! section 7.3.2.1.
//!
//! A delayed cause waits for its packet timer, which every further packet starts anew, or for its absolute timer, which
//! the first packet has started. The throttle then keeps a distance between the interrupts of a vector: from one that went
//! out on, whatever masked causes came since, and also to one that goes out because its mask is opened. Left out:
//! small-packet interrupts (RSRPD), low-latency interrupts (LLI), and the throttle's view of other causes than packets.

use crate::requester::Side;
use wiretime_base::Ps;

/// A side's timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// From a packet on: 0 is at once.
    pub packet: Ps,
    /// From the first packet that waits: 0 is none.
    pub absolute: Ps,
}

/// A vector: causes that wait, and when its next interrupt may be.
#[derive(Clone, Copy, Debug, Default)]
struct Vector {
    waiting: u32,
    next: Ps,
}

#[derive(Clone, Copy, Debug, Default)]
struct Timer {
    causes: u32,
    first: Ps,
    due: Ps,
}

/// What waits, and since when.
#[derive(Debug)]
pub struct Moderation {
    timers: [Timer; 2],
    vectors: Vec<Vector>,
}

/// What is to be done about causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptAction {
    /// Raise these now.
    Raise(u32),
    /// Look again at this time.
    Wait(Ps),
    /// Somebody looks already, or nothing is left.
    Nothing,
}

impl Moderation {
    /// Of so many vectors; those beyond share.
    #[must_use]
    pub fn new(vectors: u16) -> Self {
        Self { timers: Default::default(), vectors: vec![Vector::default(); usize::from(vectors.max(1))] }
    }

    /// Forgets all that waits (reset).
    pub fn reset(&mut self) {
        self.timers = Default::default();
        self.vectors.fill(Vector::default());
    }

    /// A packet of a side has completed at `t`, its causes to be delayed; returns when to look at the timer.
    pub fn packet(&mut self, side: Side, t: Ps, causes: u32, delays: Delays) -> Ps {
        let timer = &mut self.timers[side as usize];
        if timer.causes == 0 {
            timer.first = t;
        }
        timer.causes |= causes;
        timer.due = t + delays.packet;
        if delays.absolute != Ps::ZERO {
            timer.due = timer.due.min(timer.first + delays.absolute);
        }
        timer.due
    }

    /// A side's timer was to end at `t`: its causes, unless a later packet has put it off.
    pub fn expired(&mut self, side: Side, t: Ps) -> u32 {
        let timer = &mut self.timers[side as usize];
        if t < timer.due {
            return 0;
        }
        std::mem::take(&mut timer.causes)
    }

    fn vector(&mut self, vector: u16) -> &mut Vector {
        let count = self.vectors.len();
        &mut self.vectors[usize::from(vector) % count]
    }

    /// When a vector's next interrupt may go out.
    pub fn next(&mut self, vector: u16) -> Ps {
        self.vector(vector).next
    }

    /// A vector's interrupt has gone out at `t`.
    pub fn went(&mut self, t: Ps, vector: u16, throttle: Ps) {
        self.vector(vector).next = t + throttle;
    }

    /// Causes of a vector are to be raised at `t`, no sooner than its next interrupt may go out.
    pub fn raise(&mut self, t: Ps, vector: u16, causes: u32) -> InterruptAction {
        let v = self.vector(vector);
        if t < v.next {
            let first = v.waiting == 0;
            v.waiting |= causes;
            return if first && causes != 0 { InterruptAction::Wait(v.next) } else { InterruptAction::Nothing };
        }
        let causes = causes | std::mem::take(&mut v.waiting);
        if causes == 0 {
            return InterruptAction::Nothing;
        }
        InterruptAction::Raise(causes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_puts_the_timer_off_until_the_absolute_one_ends() {
        let mut m = Moderation::new(4);
        let unit = 1_024_000;
        let delays = Delays { packet: Ps(10 * unit), absolute: Ps(15 * unit) };
        assert_eq!(m.packet(Side::Receive, Ps::ZERO, 1, delays), Ps(10 * unit));
        assert_eq!(m.packet(Side::Receive, Ps(4 * unit), 2, delays), Ps(14 * unit));
        assert_eq!(m.expired(Side::Receive, Ps(10 * unit)), 0, "put off");
        assert_eq!(
            m.packet(Side::Receive, Ps(8 * unit), 4, delays),
            Ps(15 * unit),
            "the first packet's absolute timer"
        );
        assert_eq!(m.expired(Side::Receive, Ps(14 * unit)), 0);
        assert_eq!(m.expired(Side::Receive, Ps(15 * unit)), 7);
        assert_eq!(m.expired(Side::Receive, Ps(16 * unit)), 0, "once");
        assert_eq!(
            m.packet(Side::Transmit, Ps::ZERO, 8, Delays { packet: Ps(3 * unit), absolute: Ps::ZERO }),
            Ps(3 * unit)
        );
    }

    #[test]
    fn the_throttle_keeps_its_distance() {
        let mut m = Moderation::new(4);
        let distance = Ps(25_600_000);
        assert_eq!(m.raise(Ps::ZERO, 0, 1), InterruptAction::Raise(1));
        m.went(Ps::ZERO, 0, distance);
        assert_eq!(m.raise(Ps(10), 0, 2), InterruptAction::Wait(distance));
        assert_eq!(m.raise(Ps(15), 1, 2), InterruptAction::Raise(2), "another vector has its own");
        assert_eq!(m.raise(Ps(20), 0, 4), InterruptAction::Nothing);
        assert_eq!(m.raise(distance, 0, 0), InterruptAction::Raise(6));
        assert_eq!(m.raise(Ps(distance.0 + 1), 0, 1), InterruptAction::Raise(1), "masked: nothing went out");
        m.went(Ps(distance.0 + 2), 0, Ps::ZERO);
        assert_eq!([m.raise(Ps(distance.0 + 2), 0, 1); 2], [InterruptAction::Raise(1); 2], "off");
        assert_eq!((m.next(0), m.next(1)), (Ps(distance.0 + 2), Ps::ZERO));
    }
}
