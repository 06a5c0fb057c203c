//! When packets leave: arrival processes of the load generator.
//!
//! A rate is in bits of frames a second, so that a constant rate is one whatever the sizes: the packet behind n bits leaves
//! at floor(n * num / den). Random gaps come from a seeded generator and the logarithm of a library in plain Rust, so that
//! they are the same on every host. A packet may still have to wait for the line (see `line`).

use rand_pcg::rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wiretime_base::{BitRate, Clock, Cycles, Duration, Ps};

/// How packets follow each other, at the same mean rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Arrivals {
    /// Each as far behind the one before as its bits take at the rate.
    Constant,
    /// Exponentially distributed distances.
    Poisson,
    /// Bursts of so many packets back to back; the bursts as far apart as the rate asks.
    Burst {
        /// Packets of a burst.
        size: u32,
    },
    /// The line's rate for some time, then nothing for some time, so often that the mean is the rate.
    OnOff {
        /// Length of the time in which packets leave.
        on: Duration,
    },
    /// From a share of the rate to all of it, linearly over some time; then at the rate.
    Ramp {
        /// Share at the start.
        from_percent: u32,
        /// Length of the climb.
        over: Duration,
    },
}

/// An exponentially distributed time.
pub fn exponential(random: &mut Pcg64, mean: f64) -> Ps {
    // 53 bits, never zero.
    let uniform = ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    Ps((-libm::log(uniform) * mean + 0.5) as u64)
}

/// A process under way.
#[derive(Debug)]
pub struct Departures {
    process: Arrivals,
    random: Pcg64,
    /// Time of a bit at the rate, and on the line.
    bit: Clock,
    line_bit: Clock,
    /// Mean distance of packets.
    mean: f64,
    start: Ps,
    /// Bits and packets so far.
    bits: u64,
    count: u64,
    /// Where the random process stands, or the burst began.
    wanted: Ps,
}

impl Departures {
    /// Packets of `mean_length` bytes on average at `rate`, on a line of `line`; the first at `start` (of a random process: a
    /// random distance later).
    pub fn new(process: Arrivals, (rate, mean_length): (BitRate, f64), line: BitRate, start: Ps, seed: u64) -> Self {
        let mut d = Self {
            process,
            random: Pcg64::seed_from_u64(seed),
            bit: Clock::per_bits(1, rate),
            line_bit: Clock::per_bits(1, line),
            mean: mean_length * 8e12 / rate.bits_per_second() as f64,
            start,
            bits: 0,
            count: 0,
            wanted: start,
        };
        if process == Arrivals::Poisson {
            d.wanted += exponential(&mut d.random, d.mean);
        }
        d
    }

    /// When the bit after `bits` leaves on a ramp from a share of the rate: the integral of the rate up to then is `bits`.
    fn on_ramp(&self, from_percent: u32, over: Duration, bits: u64) -> Ps {
        let at_rate = self.bit.at(Cycles(bits)).as_f64(); // time that they take at the full rate
        let (share, length) = (f64::from(from_percent.min(100)) / 100.0, over.ps().as_f64());
        let climb = length * (1.0 + share) / 2.0;
        if at_rate >= climb {
            return Ps((length + at_rate - climb + 0.5) as u64);
        }
        // share * t + (1 - share) * t^2 / (2 length) = at_rate
        let slope = (1.0 - share) / length;
        if slope <= 0.0 {
            return Ps(at_rate as u64);
        }
        Ps(((libm::sqrt(share * share + 2.0 * slope * at_rate) - share) / slope + 0.5) as u64)
    }

    /// When the next packet, of `length` bytes, is to leave.
    pub fn next(&mut self, length: u32) -> Ps {
        let (k, before) = (self.count, self.bits);
        self.count += 1;
        self.bits += u64::from(length) * 8;
        match self.process {
            Arrivals::Constant => self.start + self.bit.at(Cycles(before)),
            Arrivals::Poisson => {
                let t = self.wanted;
                self.wanted = t.saturating_add(exponential(&mut self.random, self.mean));
                t
            }
            Arrivals::Burst { size } => {
                if k % u64::from(size.max(1)) == 0 {
                    self.wanted = self.start + self.bit.at(Cycles(before));
                }
                self.wanted
            }
            Arrivals::OnOff { on } => {
                // A period carries as much as its on-time does at the line's rate.
                let period_bits = self.line_bit.cycle_at_or_after(on.ps()).0.max(1);
                self.start + self.bit.at(Cycles(before / period_bits * period_bits))
            }
            Arrivals::Ramp { from_percent, over } => self.start + self.on_ramp(from_percent, over, before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::Line;
    use super::*;

    /// 125 B are 1000 bits: at 1 Gb/s a microsecond.
    const LENGTH: u32 = 125;

    fn departures(process: Arrivals, line: &str, seed: u64) -> Departures {
        let (rate, line) = ("1Gbps".parse().unwrap(), line.parse().unwrap());
        Departures::new(process, (rate, LENGTH.into()), line, Ps(1000), seed)
    }

    fn run(process: Arrivals, line: &str, n: usize, seed: u64) -> Vec<Ps> {
        let mut d = departures(process, line, seed);
        let mut line = Line::new((line.parse().unwrap(), 0));
        let mut leave = || {
            let t = line.free(d.next(LENGTH));
            line.take(t, LENGTH);
            t
        };
        (0..n).map(|_| leave()).collect()
    }

    #[test]
    fn constant_is_exact_after_a_billion_packets_of_any_size_and_rate() {
        for (length, rate) in [(64u32, "3Gbps"), (1518, "7Gbps"), (777, "123456789bps"), (64, "400Gbps")] {
            let rate: BitRate = rate.parse().unwrap();
            let line = "400Gbps".parse().unwrap();
            let mut d = Departures::new(Arrivals::Constant, (rate, length.into()), line, Ps(7), 0);
            let k = 1_000_000_000u64;
            (d.count, d.bits) = (k, k * u64::from(length) * 8);
            let exact = u128::from(k) * u128::from(length) * 8 * 1_000_000_000_000 / u128::from(rate.bits_per_second());
            assert_eq!(u128::from((d.next(length) - Ps(7)).0), exact, "{length} B at {rate}");
        }
    }

    #[test]
    fn constant_follows_bits() {
        let mut d = departures(Arrivals::Constant, "100Gbps", 0);
        assert_eq!([125, 250, 125, 125].map(|l| d.next(l).0), [1000, 1_001_000, 3_001_000, 4_001_000]);
    }

    #[test]
    fn poisson_has_the_moments_of_its_name() {
        let n = 1_000_000;
        let times = run(Arrivals::Poisson, "1000000Gbps", n, 5);
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]).as_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        let beyond = gaps.iter().filter(|&&g| g > 3e6).count() as f64 / gaps.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.005, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.005, "the deviation of an exponential is its mean");
        assert!((beyond / (-3.0f64).exp() - 1.0).abs() < 0.02, "{beyond}");
        assert_eq!(times[..100], run(Arrivals::Poisson, "1000000Gbps", 100, 5));
        assert_ne!(times[..100], run(Arrivals::Poisson, "1000000Gbps", 100, 6));
    }

    #[test]
    fn nothing_leaves_before_the_line_is_free() {
        let times = run(Arrivals::Poisson, "1.1Gbps", 100_000, 1);
        assert!(times.windows(2).all(|w| w[1] - w[0] >= Ps(909_090)));
        let mean = (times[99_999] - times[0]).as_f64() / 99_999.0;
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "and still the rate is kept: {mean}");
    }

    #[test]
    fn bursts_are_back_to_back() {
        let times = run(Arrivals::Burst { size: 3 }, "10Gbps", 7, 0);
        assert_eq!(times, [0, 100_000, 200_000, 3_000_000, 3_100_000, 3_200_000, 6_000_000].map(|t| Ps(t + 1000)));
    }

    /// Ten packets in a microsecond at ten times the rate, then nine microseconds of nothing.
    #[test]
    fn on_and_off() {
        let times = run(Arrivals::OnOff { on: "1us".parse().unwrap() }, "10Gbps", 30, 0);
        let expected: Vec<Ps> = (0..30u64).map(|k| Ps(1000 + k / 10 * 10_000_000 + k % 10 * 100_000)).collect();
        assert_eq!(times, expected);
    }

    /// On a ramp from nothing the number of packets grows with the square of time; behind it, linearly.
    #[test]
    fn ramps() {
        let ramp = Arrivals::Ramp { from_percent: 0, over: "1ms".parse().unwrap() };
        let times = run(ramp, "100Gbps", 2000, 0);
        let by = |t: Ps| times.iter().filter(|&&d| d - Ps(1000) < t).count() as f64;
        for (t, packets) in
            [(250_000_000, 31.25), (500_000_000, 125.0), (1_000_000_000, 500.0), (2_000_000_000, 1500.0)]
        {
            assert!((by(Ps(t)) - packets).abs() <= 2.0, "{} packets by {t} ps, {packets} expected", by(Ps(t)));
        }
        let half = run(Arrivals::Ramp { from_percent: 100, over: "1ms".parse().unwrap() }, "100Gbps", 100, 0);
        assert_eq!(half, run(Arrivals::Constant, "100Gbps", 100, 0), "from all to all is no ramp");
    }
}
