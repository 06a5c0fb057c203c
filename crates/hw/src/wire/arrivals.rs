//! When packets leave: arrival processes of the load generator.
//!
//! A constant rate is exact: packet k leaves at floor(k * num / den). Random gaps come from a seeded generator and the
//! logarithm of a library in plain Rust, so that they are the same on every host. Whatever the process wants, a packet
//! leaves no sooner than the line has carried the one before it.

use rand_pcg::rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use wiretime_base::{Clock, Ps};

/// How packets follow each other, at the same mean rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Arrivals {
    /// Equal distances.
    Constant,
    /// Exponentially distributed distances.
    Poisson,
    /// Bursts of so many packets back to back; the bursts at equal distances.
    Burst {
        /// Packets of a burst.
        size: u32,
    },
}

/// A process under way.
#[derive(Debug)]
pub struct Departures {
    process: Arrivals,
    random: Pcg64,
    /// The mean distance, and the line's.
    spacing: Clock,
    back_to_back: Clock,
    start: Ps,
    count: u64,
    /// Where the random process stands, whether or not the line could follow.
    wanted: Ps,
    /// When the line is free again: a multiple of its own distance since it last was idle.
    busy_since: Ps,
    busy_count: u64,
}

impl Departures {
    /// Packets at a mean distance of `spacing`, none closer than `back_to_back`, the first at `start` (of a random process: a
    /// random distance later).
    pub fn new(process: Arrivals, spacing: Clock, back_to_back: Clock, start: Ps, seed: u64) -> Self {
        let mut d = Self {
            process,
            random: Pcg64::seed_from_u64(seed),
            spacing,
            back_to_back,
            start,
            count: 0,
            wanted: start,
            busy_since: start,
            busy_count: 0,
        };
        if process == Arrivals::Poisson {
            d.wanted += d.gap();
        }
        d
    }

    /// An exponentially distributed distance.
    fn gap(&mut self) -> Ps {
        // 53 bits, never zero.
        let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let mean = self.spacing.at(1 << 20) as f64 / f64::from(1u32 << 20);
        (-libm::log(uniform) * mean + 0.5) as Ps
    }

    /// When the next packet leaves.
    pub fn next(&mut self) -> Ps {
        let k = self.count;
        self.count += 1;
        let wanted = match self.process {
            Arrivals::Constant => self.start + self.spacing.at(k),
            Arrivals::Poisson => {
                let t = self.wanted;
                self.wanted = t.saturating_add(self.gap());
                t
            }
            Arrivals::Burst { size } => {
                let size = u64::from(size.max(1));
                self.start + self.spacing.at(k / size * size)
            }
        };
        let free = self.busy_since + self.back_to_back.at(self.busy_count);
        if wanted >= free {
            (self.busy_since, self.busy_count) = (wanted, 1);
            wanted
        } else {
            self.busy_count += 1;
            free
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(process: Arrivals, spacing: u64, line: u64, n: usize, seed: u64) -> Vec<Ps> {
        let clock = |ps| Clock::new(ps, 1).unwrap();
        let mut d = Departures::new(process, clock(spacing), clock(line), 1000, seed);
        (0..n).map(|_| d.next()).collect()
    }

    #[test]
    fn constant_is_exact_after_a_billion_packets() {
        let third = Clock::new(1000, 3).unwrap();
        let mut d = Departures::new(Arrivals::Constant, third, Clock::new(1, 1).unwrap(), 7, 0);
        d.count = 1_000_000_000;
        assert_eq!(d.next(), 7 + 1_000_000_000_000 / 3);
    }

    #[test]
    fn poisson_has_the_moments_of_its_name() {
        let n = 1_000_000;
        let times = run(Arrivals::Poisson, 100_000, 1, n, 5);
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        let beyond = gaps.iter().filter(|&&g| g > 300_000.0).count() as f64 / gaps.len() as f64;
        assert!((mean / 100_000.0 - 1.0).abs() < 0.005, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.005, "the deviation of an exponential is its mean");
        assert!((beyond / (-3.0f64).exp() - 1.0).abs() < 0.02, "{beyond}");
        assert_eq!(times[..100], run(Arrivals::Poisson, 100_000, 1, 100, 5));
        assert_ne!(times[..100], run(Arrivals::Poisson, 100_000, 1, 100, 6));
    }

    #[test]
    fn nothing_leaves_before_the_line_is_free() {
        let times = run(Arrivals::Poisson, 1000, 900, 100_000, 1);
        assert!(times.windows(2).all(|w| w[1] - w[0] >= 900));
        let mean = (times[99_999] - times[0]) as f64 / 99_999.0;
        assert!((mean / 1000.0 - 1.0).abs() < 0.02, "and still the rate is kept: {mean}");
    }

    #[test]
    fn bursts_are_back_to_back() {
        let times = run(Arrivals::Burst { size: 3 }, 100, 10, 7, 0);
        assert_eq!(times, [1000, 1010, 1020, 1300, 1310, 1320, 1600]);
    }
}
