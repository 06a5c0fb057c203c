//! Clock domains: whole cycles against picoseconds, without ever accumulating a rounded period.

use crate::{BitRate, Cycles, Frequency, Ps};

const PS_PER_S: u64 = Ps::from_s(1).0;

/// A clock whose cycle `n` starts at `floor(n * num / den)` ps after the domain's epoch.
///
/// 3 GHz is 1000/3 ps a cycle: exact as a fraction, never as a rounded period. The same type spaces the packets
/// of a constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    num: u64,
    den: u64,
}

impl Clock {
    /// A clock with `num / den` picoseconds a cycle. Returns `None` where either is zero.
    #[must_use]
    pub fn new(num: u64, den: u64) -> Option<Self> {
        if num == 0 || den == 0 {
            return None;
        }
        let g = gcd(num, den);
        Some(Self { num: num / g, den: den / g })
    }

    /// The clock of a core or bus running at `frequency` (at least 1 Hz, which the type guarantees).
    #[must_use]
    pub fn of(frequency: Frequency) -> Self {
        Self::new(PS_PER_S, frequency.hz()).expect("a frequency is never zero")
    }

    /// A clock that ticks once for every `bits` at `rate`: the spacing of equal packets on a link.
    #[must_use]
    pub fn per_bits(bits: u64, rate: BitRate) -> Self {
        // bits * 1e12 fits: the longest frame is below 2^20 bits.
        Self::new(bits.max(1) * PS_PER_S, rate.bits_per_second()).expect("a rate is never zero")
    }

    /// Start of cycle `n`, in ps after the epoch.
    #[inline]
    #[must_use]
    pub fn at(self, n: Cycles) -> Ps {
        let n = n.0;
        match n.checked_mul(self.num) {
            Some(p) => Ps(p / self.den),
            None => Ps((u128::from(n) * u128::from(self.num) / u128::from(self.den)) as u64),
        }
    }

    /// The first cycle that starts at or after `t`.
    #[inline]
    #[must_use]
    pub fn cycle_at_or_after(self, t: Ps) -> Cycles {
        let t = t.0;
        // n * num / den >= t  <=>  n >= t * den / num, rounded up; floor() in `at` can only make it start earlier.
        Cycles(match t.checked_mul(self.den) {
            Some(p) => p.div_ceil(self.num),
            None => (u128::from(t) * u128::from(self.den)).div_ceil(u128::from(self.num)) as u64,
        })
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_gigahertz_does_not_drift() {
        let c = Clock::of("3GHz".parse().unwrap());
        assert_eq!([1, 2, 3].map(|n| c.at(Cycles(n)).0), [333, 666, 1000]);
        assert_eq!(c.at(Cycles(3_000_000_000)), Ps(PS_PER_S));
    }

    #[test]
    fn packet_spacing_is_exact_after_1e9_packets() {
        // 64 B frames with preamble and gap at 400 Gb/s: 672 bits, 1.68 ns.
        let c = Clock::per_bits(84 * 8, "400Gbps".parse().unwrap());
        assert_eq!(c.at(Cycles(1_000_000_000)), Ps::from_ms(1680));
    }

    proptest! {
        #[test]
        fn cycle_at_or_after_inverts_at(hz in 1_000_000u64..5_000_000_000, n in 0u64..1_000_000_000_000) {
            let c = Clock::new(PS_PER_S, hz).unwrap();
            let n = Cycles(n);
            let t = c.at(n);
            let m = c.cycle_at_or_after(t);
            prop_assert!(c.at(m) >= t);
            prop_assert!(m <= n && (m == Cycles::ZERO || c.at(m - Cycles(1)) <= t));
        }
    }
}
