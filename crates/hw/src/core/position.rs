//! Where dispatch and commit stand: cycles in fractions, so that a width is a step and no branch.

use std::ops::{Add, AddAssign, Sub};
use wiretime_base::Cycles;

/// Bits of a position below the cycle.
const FRACTION: u32 = 16;

/// A point, or a way, in fractions of a cycle. 48 bits of cycles are 26 hours at 3 GHz.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(u64);

impl Position {
    /// The first slot of a cycle.
    #[inline(always)]
    pub const fn of(cycle: Cycles) -> Self {
        Self(cycle.0 << FRACTION)
    }

    /// How far one instruction goes where `width` are done a cycle.
    pub fn step(width: u32) -> Self {
        Self((1u64 << FRACTION).div_ceil(width.max(1).into()))
    }

    /// In fractions of a cycle.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// A way gone so often.
    pub const fn times(self, count: u64) -> Self {
        Self(self.0 * count)
    }

    /// The cycle that it is in; of a way, its whole cycles.
    #[inline(always)]
    pub const fn cycle(self) -> Cycles {
        Cycles(self.0 >> FRACTION)
    }
}

impl Add for Position {
    type Output = Self;
    #[inline(always)]
    fn add(self, way: Self) -> Self {
        Self(self.0 + way.0)
    }
}

impl AddAssign for Position {
    #[inline(always)]
    fn add_assign(&mut self, way: Self) {
        self.0 += way.0;
    }
}

impl Sub for Position {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}
