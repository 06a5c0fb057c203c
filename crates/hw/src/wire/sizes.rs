//! How long packets are: one size, a mix, or a range.
//!
//! A mix is exact: in every run of as many packets as its weights add up to, each size has its weight, spread as evenly as
//! whole packets allow (smooth weighted round robin).

use rand_pcg::rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wiretime_base::Invalid;

/// Shortest and longest frame, FCS included.
pub const LENGTHS: std::ops::RangeInclusive<u32> = 64..=9000;
/// Sizes of a mix, and the sum of their weights, at most.
const PARTS_MAX: usize = 64;
const WEIGHTS_MAX: u64 = 1 << 32;

/// The sizes of packets, FCS included.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Sizes {
    /// All the same.
    Fixed {
        /// Bytes.
        size: u32,
    },
    /// Sizes with weights.
    Mix {
        /// Bytes and weight.
        parts: Vec<(u32, u32)>,
    },
    /// Equally likely between two sizes, both included.
    Uniform {
        /// Shortest.
        from: u32,
        /// Longest.
        to: u32,
    },
}

impl Sizes {
    /// Shortest and longest.
    #[must_use]
    pub fn range(&self) -> (u32, u32) {
        match self {
            Self::Fixed { size } => (*size, *size),
            Self::Mix { parts } => {
                let of = |pick: fn(u32, u32) -> u32, start| parts.iter().fold(start, |a, p| pick(a, p.0));
                (of(u32::min, u32::MAX), of(u32::max, 0))
            }
            Self::Uniform { from, to } => (*from, *to),
        }
    }

    /// Mean length in bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed { size } => f64::from(*size),
            Self::Mix { parts } => {
                let weights: u64 = parts.iter().map(|p| u64::from(p.1)).sum();
                let bytes: u64 = parts.iter().map(|p| u64::from(p.0) * u64::from(p.1)).sum();
                bytes as f64 / weights.max(1) as f64
            }
            Self::Uniform { from, to } => f64::midpoint(f64::from(*from), f64::from(*to)),
        }
    }

    /// Checks lengths and weights.
    ///
    /// # Errors
    /// What is wrong, and what is allowed.
    pub fn check(&self) -> Result<(), Invalid> {
        if let Self::Mix { parts } = self {
            let weights: u64 = parts.iter().map(|p| u64::from(p.1)).sum();
            if parts.is_empty() || parts.len() > PARTS_MAX || weights == 0 || weights > WEIGHTS_MAX {
                let allowed = format!("1 to {PARTS_MAX} sizes whose weights are above zero");
                return Err(Invalid::new("packet sizes", format!("a mix of {} by {weights}", parts.len()), allowed));
            }
        }
        let (from, to) = self.range();
        for length in [from, to] {
            if !LENGTHS.contains(&length) {
                let found = format!("{length} B");
                return Err(Invalid::new("packet size", found, "allowed are 64 to 9000 B, FCS included"));
            }
        }
        if from > to {
            return Err(Invalid::new("packet sizes", format!("from {from} to {to} B"), "this is no range"));
        }
        Ok(())
    }
}

/// The sizes of one packet after the other.
#[derive(Debug)]
pub struct Lengths {
    sizes: Sizes,
    random: Pcg64,
    /// Of a mix: how far each size is behind its share.
    owed: Vec<i64>,
}

impl Lengths {
    /// From the start.
    pub fn new(sizes: &Sizes, seed: u64) -> Self {
        let owed = if let Sizes::Mix { parts } = sizes { vec![0; parts.len()] } else { Vec::new() };
        Self { sizes: sizes.clone(), random: Pcg64::seed_from_u64(seed), owed }
    }

    /// The next packet's length.
    pub fn next(&mut self) -> u32 {
        match &self.sizes {
            Sizes::Fixed { size } => *size,
            Sizes::Uniform { from, to } => {
                // Multiply and shift: the bias is below one in 2^48.
                let span = u64::from(to - from) + 1;
                from + ((u128::from(self.random.next_u64()) * u128::from(span)) >> 64) as u32
            }
            Sizes::Mix { parts } => {
                let total: i64 = parts.iter().map(|p| i64::from(p.1)).sum();
                let mut best = 0;
                for (i, part) in parts.iter().enumerate() {
                    self.owed[i] += i64::from(part.1);
                    if self.owed[i] > self.owed[best] {
                        best = i;
                    }
                }
                self.owed[best] -= total;
                parts[best].0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// In every cycle each size has exactly its weight.
        #[test]
        fn mixes_are_exact(weights in prop::collection::vec(1u32..20, 1..8)) {
            let parts: Vec<(u32, u32)> = weights.iter().enumerate().map(|(i, &w)| (64 + i as u32, w)).collect();
            let sizes = Sizes::Mix { parts: parts.clone() };
            prop_assert!(sizes.check().is_ok());
            let mut lengths = Lengths::new(&sizes, 1);
            for _ in 0..3 {
                let mut seen = vec![0; parts.len()];
                (0..weights.iter().sum()).for_each(|_| seen[(lengths.next() - 64) as usize] += 1);
                prop_assert_eq!(&seen, &weights);
            }
        }
    }

    #[test]
    fn a_mix_is_spread() {
        let sizes = Sizes::Mix { parts: vec![(64, 7), (570, 4), (1518, 1)] };
        let mut lengths = Lengths::new(&sizes, 1);
        let cycle: Vec<u32> = (0..12).map(|_| lengths.next()).collect();
        assert_eq!(cycle, [64, 570, 64, 64, 570, 64, 1518, 64, 570, 64, 570, 64]);
        assert!((sizes.mean() - (7.0 * 64.0 + 4.0 * 570.0 + 1518.0) / 12.0).abs() < 1e-9);
        assert_eq!(sizes.range(), (64, 1518));
    }

    #[test]
    fn a_range_has_its_moments() {
        let sizes = Sizes::Uniform { from: 100, to: 1100 };
        let mut lengths = Lengths::new(&sizes, 9);
        let n = 200_000;
        let list: Vec<f64> = (0..n).map(|_| f64::from(lengths.next())).collect();
        let mean = list.iter().sum::<f64>() / f64::from(n);
        let variance = list.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / f64::from(n);
        assert!((mean - sizes.mean()).abs() < 3.0, "{mean}");
        assert!((variance / ((1001.0f64.powi(2) - 1.0) / 12.0) - 1.0).abs() < 0.01, "{variance}");
        assert!(list.iter().all(|l| (100.0..=1100.0).contains(l)));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mix = |parts: &[(u32, u32)]| Sizes::Mix { parts: parts.to_vec() }.check();
        assert!(mix(&[]).unwrap_err().to_string().contains("1 to 64 sizes"));
        assert!(mix(&[(64, 0)]).unwrap_err().to_string().contains("above zero"));
        assert!(mix(&[(64, 1), (9001, 1)]).unwrap_err().to_string().contains("64 to 9000"));
        assert!(Sizes::Uniform { from: 200, to: 100 }.check().unwrap_err().to_string().contains("no range"));
        assert!(Sizes::Fixed { size: 63 }.check().unwrap_err().to_string().contains("64 to 9000"));
    }
}
