//! The line from the generator: one frame after the other, none before the one in front of it is out.

use wiretime_base::{BitRate, Clock, Cycles, Ps};

/// See the module.
#[derive(Debug)]
pub struct Line {
    /// Time of a bit, and how many bits longer than its frame a packet is.
    bit: Clock,
    gap_bits: u64,
    /// Busy for some bits since it last was idle.
    since: Ps,
    bits: u64,
}

impl Line {
    /// A line of `rate` with `gap` bytes (preamble and gap) between frames.
    pub fn new((rate, gap): (BitRate, u32)) -> Self {
        Self { bit: Clock::per_bits(1, rate), gap_bits: u64::from(gap) * 8, since: Ps::ZERO, bits: 0 }
    }

    /// When a frame can leave that wants to at `wanted`.
    #[inline]
    pub fn free(&self, wanted: Ps) -> Ps {
        wanted.max(self.since.saturating_add(self.bit.at(Cycles(self.bits))))
    }

    /// A frame of `length` bytes leaves at `t`, which [`Line::free`] said.
    #[inline]
    pub fn take(&mut self, t: Ps, length: u32) {
        let bits = u64::from(length) * 8 + self.gap_bits;
        if t > self.since.saturating_add(self.bit.at(Cycles(self.bits))) {
            (self.since, self.bits) = (t, bits);
        } else {
            self.bits += bits;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Back to back for a second: no rounding adds up.
    #[test]
    fn frames_follow_each_other() {
        let mut line = Line::new(("3Gbps".parse().unwrap(), 20));
        assert_eq!(line.free(Ps(77)), Ps(77));
        for k in 0..1_000_000u64 {
            let t = line.free(Ps(77));
            assert_eq!(t, Ps(77 + k * 84 * 8 * 1000 / 3));
            line.take(t, 64);
        }
        assert_eq!(line.free(Ps(1 << 60)), Ps(1 << 60));
        line.take(Ps(1 << 60), 64);
        assert_eq!(line.free(Ps::ZERO), Ps((1 << 60) + 224_000));
    }
}
