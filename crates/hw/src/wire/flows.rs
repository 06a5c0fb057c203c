//! Which flow a packet belongs to.
//!
//! Flows are numbered from 0; `frames` makes addresses and ports of the numbers.

use rand_distr::weighted::WeightedAliasIndex;
use rand_distr::Distribution;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wiretime_base::Invalid;

/// Most flows of a generator, and most whose shares are drawn from a table.
pub const FLOWS_MAX: u32 = 1 << 24;
const WEIGHED_MAX: u32 = 1 << 20;

/// How packets are spread over flows.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Spread {
    /// One after the other.
    RoundRobin,
    /// Each packet's flow is drawn, all equally likely.
    Uniform,
    /// Drawn; the k-th flow's share falls as k to the power of minus `exponent`.
    Zipf {
        /// Above 0.
        exponent: f64,
    },
}

/// What distinguishes flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Vary {
    /// Source ports; beyond 57344 flows, source addresses as well.
    Ports,
    /// Source addresses.
    Addresses,
    /// Source addresses and ports: whatever receive-side scaling hashes, they differ in it.
    Both,
}

/// The flows of a generator.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flows {
    /// How many.
    pub count: u32,
    /// Their shares of the packets.
    pub spread: Spread,
    /// What distinguishes them.
    pub vary: Vary,
}

impl Default for Flows {
    fn default() -> Self {
        Self { count: 1, spread: Spread::RoundRobin, vary: Vary::Ports }
    }
}

enum Draw {
    Next(u32),
    Uniform,
    Weighed(WeightedAliasIndex<u64>),
}

/// The flow of one packet after the other.
pub struct Picker {
    draw: Draw,
    count: u32,
    random: Pcg64,
}

impl Picker {
    /// From the start.
    ///
    /// # Errors
    /// Where there are no flows, too many, or their shares make no sense.
    pub fn new(flows: &Flows, seed: u64) -> Result<Self, Invalid> {
        let count = flows.count;
        if count == 0 || count > FLOWS_MAX {
            return Err(Invalid::new("flows.count", count, format!("allowed are 1 to {FLOWS_MAX}")));
        }
        let draw = match flows.spread {
            Spread::RoundRobin => Draw::Next(0),
            Spread::Uniform => Draw::Uniform,
            Spread::Zipf { exponent } => {
                if !(exponent > 0.0 && exponent <= 10.0) {
                    return Err(Invalid::new("flows: zipf exponent", exponent, "allowed are above 0 to 10"));
                }
                if count > WEIGHED_MAX {
                    return Err(Invalid::new("flows.count", count, format!("allowed are 1 to {WEIGHED_MAX} by zipf")));
                }
                // Whole weights: the table is the same on every host.
                let weight = |k: u32| (libm::pow(f64::from(k + 1), -exponent) * (1u64 << 40) as f64) as u64;
                let weights = (0..count).map(|k| weight(k).max(1)).collect();
                Draw::Weighed(WeightedAliasIndex::new(weights).map_err(|e| Invalid::new("flows.spread", "zipf", e))?)
            }
        };
        Ok(Self { draw, count, random: Pcg64::seed_from_u64(seed) })
    }

    /// The same shares, drawn anew.
    #[must_use]
    pub fn reseeded(mut self, seed: u64) -> Self {
        self.random = Pcg64::seed_from_u64(seed);
        self
    }

    /// The next packet's flow.
    #[inline]
    pub fn next(&mut self) -> u32 {
        match &mut self.draw {
            Draw::Next(flow) => {
                let this = *flow;
                *flow = if this + 1 >= self.count { 0 } else { this + 1 };
                this
            }
            // Multiply and shift: the bias is below one in 2^40.
            Draw::Uniform => ((u128::from(self.random.next_u64()) * u128::from(self.count)) >> 64) as u32,
            Draw::Weighed(table) => table.sample(&mut self.random) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(spread: Spread, count: u32, n: u32) -> Vec<f64> {
        let mut picker = Picker::new(&Flows { count, spread, vary: Vary::Ports }, 3).unwrap();
        let mut seen = vec![0u32; count as usize];
        (0..n).for_each(|_| seen[picker.next() as usize] += 1);
        seen.iter().map(|&s| f64::from(s) / f64::from(n)).collect()
    }

    #[test]
    fn flows_have_their_shares() {
        assert_eq!(shares(Spread::RoundRobin, 4, 400), [0.25; 4]);
        assert!(shares(Spread::Uniform, 10, 1_000_000).iter().all(|s| (s - 0.1).abs() < 0.0015));
        let exponent = 1.2;
        let found = shares(Spread::Zipf { exponent }, 1000, 2_000_000);
        let sum: f64 = (1..=1000).map(|k| f64::from(k).powf(-exponent)).sum();
        for k in [1u32, 2, 10, 100] {
            let expected = f64::from(k).powf(-exponent) / sum;
            let sigma = (expected / 2e6).sqrt();
            assert!((found[k as usize - 1] - expected).abs() < 5.0 * sigma, "flow {k}: {}", found[k as usize - 1]);
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused =
            |count, spread| Picker::new(&Flows { count, spread, vary: Vary::Ports }, 0).err().unwrap().to_string();
        assert!(refused(0, Spread::Uniform).contains("allowed are 1 to 16777216"));
        assert!(refused(9, Spread::Zipf { exponent: 0.0 }).contains("above 0 to 10"));
        assert!(refused(9, Spread::Zipf { exponent: f64::NAN }).contains("above 0 to 10"));
        assert!(refused(1 << 21, Spread::Zipf { exponent: 1.0 }).contains("allowed are 1 to 1048576"));
    }
}
