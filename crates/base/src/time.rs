//! Time: picoseconds for the machine, cycles inside a clock domain. Two types, so that they cannot be mixed up.
//!
//! Both serve for points (since power-on, since the domain's epoch) and for spans; [`crate::Clock`] is the only way
//! from one to the other. Left out: a third type that would tell points from spans, which `Instant` and `Duration` do;
//! models subtract a point from a point on every line, and nothing was ever mixed up there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, Rem, Sub, SubAssign};

/// What serves in either unit: calendars, windows and caches are of their owner's.
pub trait Time:
    Copy + Ord + Default + Debug + Add<Output = Self> + Sub<Output = Self> + AddAssign + Mul<u64, Output = Self>
{
    /// Nothing; the epoch.
    const ZERO: Self;
    /// Never, as a point; without end, as a span.
    const MAX: Self;

    /// A span in 16 bits, rounded up; the longest stands for no end.
    #[must_use]
    fn short(self) -> u16;

    /// So much later than a point, or never.
    #[must_use]
    fn later(self, short: u16) -> Self;
}

/// What a unit of time can do: be added, subtracted and compared with its own kind, and scaled by a plain number.
macro_rules! time {
    ($(#[$doc:meta])* $name:ident, $coarse:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// Nothing; the epoch.
            pub const ZERO: Self = Self(0);
            /// Never, as a point; without end, as a span.
            pub const MAX: Self = Self(u64::MAX);

            /// The difference, or nothing where `other` is the later or longer one.
            #[inline]
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// The difference modulo 2^64: epochs of what repeats may begin before power-on.
            #[inline]
            #[must_use]
            pub const fn wrapping_sub(self, other: Self) -> Self {
                Self(self.0.wrapping_sub(other.0))
            }

            /// The sum, or [`Self::MAX`].
            #[inline]
            #[must_use]
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }

            /// That many times as long, or [`Self::MAX`].
            #[inline]
            #[must_use]
            pub const fn saturating_mul(self, times: u64) -> Self {
                Self(self.0.saturating_mul(times))
            }

            /// The difference, if `other` is not the later or longer one.
            #[inline]
            #[must_use]
            pub const fn checked_sub(self, other: Self) -> Option<Self> {
                match self.0.checked_sub(other.0) {
                    Some(v) => Some(Self(v)),
                    None => None,
                }
            }

            /// How many of `other` cover this, the last one perhaps in part.
            #[inline]
            #[must_use]
            pub const fn div_ceil(self, other: Self) -> u64 {
                self.0.div_ceil(other.0)
            }

            /// For ratios and averages.
            #[inline]
            #[must_use]
            pub const fn as_f64(self) -> f64 {
                self.0 as f64
            }
        }

        impl Time for $name {
            const ZERO: Self = Self::ZERO;
            const MAX: Self = Self::MAX;

            #[inline]
            fn short(self) -> u16 {
                self.0.div_ceil($coarse).try_into().unwrap_or(u16::MAX)
            }

            #[inline]
            fn later(self, short: u16) -> Self {
                if short == u16::MAX {
                    Self::MAX
                } else {
                    self.saturating_add(Self(u64::from(short) * $coarse))
                }
            }
        }
        impl Add for $name {
            type Output = Self;
            #[inline]
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl Sub for $name {
            type Output = Self;
            #[inline]
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
        impl AddAssign for $name {
            #[inline]
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl SubAssign for $name {
            #[inline]
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }
        impl Mul<u64> for $name {
            type Output = Self;
            #[inline]
            fn mul(self, times: u64) -> Self {
                Self(self.0 * times)
            }
        }
        impl Mul<$name> for u64 {
            type Output = $name;
            #[inline]
            fn mul(self, time: $name) -> $name {
                $name(self * time.0)
            }
        }
        impl Div<u64> for $name {
            type Output = Self;
            #[inline]
            fn div(self, parts: u64) -> Self {
                Self(self.0 / parts)
            }
        }
        impl DivAssign<u64> for $name {
            #[inline]
            fn div_assign(&mut self, parts: u64) {
                self.0 /= parts;
            }
        }
        impl Div for $name {
            type Output = u64;
            #[inline]
            fn div(self, other: Self) -> u64 {
                self.0 / other.0
            }
        }
        impl Rem for $name {
            type Output = Self;
            #[inline]
            fn rem(self, other: Self) -> Self {
                Self(self.0 % other.0)
            }
        }
        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(times: I) -> Self {
                times.fold(Self::ZERO, Add::add)
            }
        }
    };
}

time!(
    /// Simulated time in picoseconds: a point since power-on, or a span. 64 bits hold 213 days.
    Ps,
    64
);
time!(
    /// Whole cycles of one clock domain: a point since the domain's epoch, or a span.
    Cycles,
    1
);

impl From<u32> for Cycles {
    /// From a parameter, which is in cycles.
    fn from(cycles: u32) -> Self {
        Self(cycles.into())
    }
}

impl Ps {
    /// From nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns * 1_000)
    }

    /// From microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000_000)
    }

    /// From milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1_000_000_000)
    }

    /// From seconds.
    #[must_use]
    pub const fn from_s(s: u64) -> Self {
        Self(s * 1_000_000_000_000)
    }

    /// Whole nanoseconds, rounded down.
    #[inline]
    #[must_use]
    pub const fn ns(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole microseconds, rounded down.
    #[inline]
    #[must_use]
    pub const fn us(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Seconds, for rates.
    #[inline]
    #[must_use]
    pub const fn seconds(self) -> f64 {
        self.0 as f64 / 1e12
    }
}
